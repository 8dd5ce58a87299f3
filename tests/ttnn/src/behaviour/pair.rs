//! Running a program twice, plain and tracked, and comparing.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::outcome::Outcome;
use super::setting::Setting;
use super::{Behaviour, Way, expectation};
use crate::process::{self, Output};
use crate::server::Server;
use crate::session::Session;

/// What a program tells when it may be interrupted.
const READY: &str = "ready";

/// Evaluates what `ttmem env` prints and becomes the program: `sh -c … sh TTMEM SOCKET PROGRAM…`.
const SHELL: &str = r#"eval "$("$1" --socket "$2" env)" && shift 2 && exec "$@""#;

/// Runs a behaviour both ways and compares.
///
/// # Errors
///
/// When it cannot run, or the two runs differ, or the report is wrong.
pub fn run_behaviour(session: &Session, behaviour: Behaviour) -> anyhow::Result<()> {
    let setting = Setting::prepare(session, behaviour)?;
    let mut plain = {
        let folder = setting.run_folder("plain")?;
        let command = setting.command(&folder, setting.in_terminal(&folder, Vec::new()));
        let status = run_to_end(behaviour, "plain", &folder, command)?;
        setting.clean();
        Outcome::read(status, &folder)
    };

    let folder = setting.run_folder("tracked")?;
    let server = match behaviour.way {
        Way::RunningServer | Way::Shell => {
            Some(Server::start(&session.ttmem, setting.socket_folder())?)
        }
        Way::Run | Way::Stderr | Way::Interrupted | Way::Terminal => None,
    };
    let report = folder.join("report");
    let tracked_by = tracked_by(session, behaviour, server.as_ref(), &report);
    let command = setting.command(&folder, setting.in_terminal(&folder, tracked_by));
    let status = run_to_end(behaviour, "tracked", &folder, command)?;
    setting.clean();
    let mut tracked = Outcome::read(status, &folder);
    if behaviour.way == Way::Stderr {
        let said = tracked.take_report().unwrap_or_default();
        if !said.contains("1 process tracked") {
            bail!("the report: on stderr is {said:?}");
        }
    }
    if behaviour.way == Way::Terminal {
        plain.forget_order();
        tracked.forget_order();
    }
    if let Some(difference) = plain.difference(&tracked) {
        bail!("it differs under ttmem: {difference}");
    }
    let report = match behaviour.way {
        Way::Stderr => return Ok(()),
        Way::Shell => answer_of(session, server.as_ref())?,
        _ => json(&report)?,
    };
    let compared = if behaviour.is_python() {
        expectation::compare(&json(&folder.join("expected"))?, &report)
    } else {
        expectation::compare_untracked(&report)
    };
    compared.map_err(|difference| anyhow::anyhow!("the report: {difference}"))
}

/// The words before a command that have it tracked.
fn tracked_by(
    session: &Session,
    behaviour: Behaviour,
    server: Option<&Server>,
    report: &Path,
) -> Vec<OsString> {
    let ttmem = session.ttmem.as_os_str();
    let socket = server.map(|server| server.socket().as_os_str());
    let mut words: Vec<&OsStr> = Vec::new();
    if behaviour.way == Way::Shell {
        words.extend(["sh", "-c", SHELL, "sh"].map(OsStr::new));
        words.push(ttmem);
        words.extend(socket);
    } else {
        words.push(ttmem);
        if let Some(socket) = socket {
            words.extend([OsStr::new("--socket"), socket]);
        }
        words.push(OsStr::new("run"));
        if behaviour.way != Way::Stderr {
            words.extend(["--json", "--report"].map(OsStr::new));
            words.push(report.as_os_str());
        }
        words.push(OsStr::new("--"));
    }
    words.into_iter().map(OsStr::to_owned).collect()
}

/// Runs a command to its end, with its output in files of `folder`.
fn run_to_end(
    behaviour: Behaviour,
    run: &str,
    folder: &Path,
    mut command: Command,
) -> anyhow::Result<ExitStatus> {
    let output = Output {
        stdout: folder.join("stdout"),
        stderr: folder.join("stderr"),
    };
    command
        .stdin(Stdio::null())
        // What it does to its group must not reach the harness.
        .process_group(0);
    let mut to_interrupt = behaviour.way == Way::Interrupted;
    process::run_to_end(&format!("the {run} run"), &output, &mut command, |child| {
        if to_interrupt && is_ready(folder) {
            to_interrupt = false;
            interrupt(child);
        }
    })
}

fn is_ready(folder: &Path) -> bool {
    fs::read_to_string(folder.join("result")).is_ok_and(|told| told.contains(READY))
}

/// Sends SIGINT to the process that was started, and to no other.
fn interrupt(child: &Child) {
    // It was not waited for: the number is its own. If it has ended, that is seen next.
    let _sent = kill_process(Pid::from_child(child), Signal::INT);
}

/// What a running server says.
fn answer_of(session: &Session, server: Option<&Server>) -> anyhow::Result<Value> {
    let mut command = Command::new(&session.ttmem);
    if let Some(server) = server {
        command.arg("--socket").arg(server.socket());
    }
    let output = command.args(["status", "--json"]).output();
    let output = output.context("cannot run ttmem status")?;
    serde_json::from_slice(&output.stdout).context("the report: ttmem status")
}

fn json(path: &Path) -> anyhow::Result<Value> {
    let text = process::read(path)?;
    serde_json::from_slice(&text).with_context(|| format!("the report: {}", path.display()))
}
