//! The server, whether programs trust it, and the library that tracks them.

use super::{Check, State};
use crate::commands::reach;
use crate::run;
use std::path::{Path, PathBuf};
use ttmem_client::{Config, is_trusted};

pub(super) fn checks(socket: Option<PathBuf>) -> Vec<Check> {
    let server = reach::socket(socket);
    let mut checks = Vec::new();
    match &server {
        Ok(socket) => {
            let found = format!("answers on {}", socket.display());
            checks.push(Check::new("server", State::Ok, found));
            checks.push(trust(socket));
        }
        Err(error) if error.is::<reach::NoServer>() => {
            let check = Check::new("server", State::Info, "none runs");
            checks.push(check.with(
                "`ttmem run` needs none; `ttmem serve` starts one, `ttmem service install` has systemd keep one",
            ));
        }
        Err(error) => {
            let check = Check::new("server", State::Problem, format!("{error:#}"));
            checks.push(check.with("--socket names another server; `ttmem serve` starts one"));
        }
    }
    checks.push(library());
    let warnings = ttmem_client::environment_warnings(|name| std::env::var_os(name));
    for warning in warnings {
        let check = Check::new("environment", State::Warning, warning);
        checks.push(check.with("change or unset it: programs of this shell have it, too"));
    }
    checks
}

/// Whether programs of this user give the server their memory, from which it learns what one that was killed had
/// recorded last.
fn trust(socket: &Path) -> Check {
    let check = |state, found: String| Check::new("trust", state, found);
    let server = match reach::listener_uid(socket) {
        Ok(uid) => uid.as_raw(),
        Err(error) => {
            return check(
                State::Warning,
                format!("whose server it is cannot be asked: {error}"),
            )
            .with("it may just have ended: `ttmem status` asks it again");
        }
    };
    let own = rustix::process::geteuid().as_raw();
    if is_trusted(server, own, Config::from_env().trusted_uid) {
        return check(
            State::Ok,
            format!("programs of this user trust the server of user {server}"),
        );
    }
    if is_nobody(server) {
        let found = "whose server it is cannot be told here (nobody's): programs give it no memory, and what a killed one did last stays unknown";
        return check(State::Warning, found.to_owned())
            .with("run the server as another user than nobody, and inside of the same user namespace as the programs");
    }
    check(
        State::Warning,
        format!("programs of this user do not trust the server of user {server}: what a killed one did last stays unknown"),
    )
    .with(format!("root can name it in /etc/ttmem/trust (a line with {server}), or set TTMEM_TRUST_UID={server}"))
}

/// Whether this is the number of users that have none here: it may be anybody, and is never trusted.
fn is_nobody(uid: u32) -> bool {
    let number = std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    number.trim().parse() == Ok(uid)
}

fn library() -> Check {
    let named = std::env::var_os("TTMEM_ATTACH_LIBRARY").map(PathBuf::from);
    match run::attach_library(named.as_deref()) {
        Ok(path) => Check::new("library", State::Ok, path.display().to_string()),
        Err(error) => Check::new("library", State::Problem, format!("{error:#}"))
            .with("install ttmem as a package has it (docs/install.md), or name the file in TTMEM_ATTACH_LIBRARY"),
    }
}
