//! What the host says of a process: its command line, user, parent and memory in use.
//!
//! From `/proc`, on the reader's thread. Kept for a moment, because every reader asks for every
//! process at each of its intervals. A process may call itself anything: what is read is cut and made
//! printable like every other text of a client.

use super::vocabulary;
use crate::{lock, peer};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};
use ttmem_ledger::ProcessIdentity;
use ttmem_report::HostProcess;

/// How long what was read holds.
const HOLDS: Duration = Duration::from_secs(2);

/// `/proc/PID/status` is shorter, and `/etc/passwd` is not searched any further.
const FILE_BYTES: u64 = 1 << 20;

/// Processes of which it is known at once.
const KEPT: usize = 4096;

static KNOWN: LazyLock<Mutex<HashMap<u32, (Instant, HostProcess)>>> = LazyLock::new(Mutex::default);

/// Users are renamed less often than processes come.
const USERS_HOLD: Duration = Duration::from_secs(60);

static USERS: LazyLock<Mutex<Users>> = LazyLock::new(Mutex::default);

/// By number: when it was read, and the name if there is one.
type Users = HashMap<u64, (Instant, Option<String>)>;

/// What a host says of a process.
pub(super) type HostOf = fn(&ProcessIdentity) -> Option<HostProcess>;

/// What this host says of a process that runs.
pub(super) fn process(identity: &ProcessIdentity) -> Option<HostProcess> {
    identity.pid.map(of_pid)
}

/// What was recorded of a process: nobody else's who has its pid now.
pub(super) fn recorded_process(identity: &ProcessIdentity) -> Option<HostProcess> {
    identity.pid.map(|_pid| gone_process(identity))
}

fn of_pid(pid: u32) -> HostProcess {
    let now = Instant::now();
    let mut known = lock(&KNOWN);
    if let Some((read, process)) = known.get(&pid)
        && now.saturating_duration_since(*read) < HOLDS
    {
        return process.clone();
    }
    if known.len() >= KEPT {
        known.clear();
    }
    let process = read_process(pid);
    known.insert(pid, (now, process.clone()));
    process
}

fn read_process(pid: u32) -> HostProcess {
    let command = peer::command_line(pid);
    let status = read(&format!("/proc/{pid}/status"), FILE_BYTES);
    let status = status.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let number = |name: &str| -> Option<u64> {
        let mut lines = status.as_deref()?.lines();
        let line = lines.find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    HostProcess {
        command: command.and_then(|command| vocabulary::known_text(&command)),
        user: number("Uid:").and_then(user),
        parent: number("PPid:").and_then(|pid| u32::try_from(pid).ok()),
        rss_bytes: number("VmRSS:").map(|kib| kib.saturating_mul(1024)),
    }
}

/// What is known of a process that is gone.
pub(super) fn gone_process(identity: &ProcessIdentity) -> HostProcess {
    HostProcess {
        command: vocabulary::known_text(&identity.command),
        user: user(identity.uid.into()),
        parent: None,
        rss_bytes: None,
    }
}

/// The name of a user, or its number where it has none.
pub(super) fn user_name(uid: u32) -> Option<String> {
    let uid = vocabulary::known_user(uid)?;
    Some(user(uid.into()).unwrap_or_else(|| uid.to_string()))
}

fn user(uid: u64) -> Option<String> {
    let now = Instant::now();
    let mut users = lock(&USERS);
    if let Some((read, user)) = users.get(&uid)
        && now.saturating_duration_since(*read) < USERS_HOLD
    {
        return user.clone();
    }
    if users.len() >= KEPT {
        users.clear();
    }
    let lines = read("/etc/passwd", FILE_BYTES);
    let user = lines.and_then(|lines| named(&String::from_utf8_lossy(&lines), uid));
    users.insert(uid, (now, user.clone()));
    user
}

/// The user with a number, by the lines of `/etc/passwd`.
fn named(users: &str, uid: u64) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u64 = fields.nth(1)?.parse().ok()?;
        (number == uid).then(|| vocabulary::known_text(name))?
    })
}

fn read(path: &str, most_bytes: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(most_bytes).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known_to_its_host() {
        let own = of_pid(std::process::id());
        let name = std::env::args().next().expect("a name");
        assert!(own.command.expect("a command").starts_with(&name));
        assert!(own.rss_bytes > Some(1 << 16), "{:?}", own.rss_bytes);
        assert_eq!(own.parent, Some(std::os::unix::process::parent_id()));
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        let gone = read_process(u32::MAX);
        assert_eq!((gone.command, gone.user, gone.parent), (None, None, None));
        let users = "root:x:0:0::/root:/bin/sh\nbroken\nmaria:x:1000:1000::/:/bin/sh\n";
        assert_eq!(named(users, 1000), Some("maria".to_owned()));
        assert_eq!(named(users, 7), None);
    }
}
