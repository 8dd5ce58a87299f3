//! Running a program twice, plain and tracked, and comparing.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use thiserror::Error;

use super::outcome::Outcome;
use super::setting::{Setting, file_error};
use super::{Behaviour, Way, expectation};
use crate::server::{Server, StartServerError};
use crate::session::{Running, Session, last_lines};

/// How long a run may take: seconds, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often to look whether it has ended, or is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What a program tells when it may be interrupted.
const READY: &str = "ready";

/// Evaluates what `ttmem env` prints and becomes the program: `sh -c … sh TTMEM SOCKET PROGRAM…`.
const SHELL: &str = r#"eval "$("$1" --socket "$2" env)" && shift 2 && exec "$@""#;

/// Why a behaviour is not as it should be.
#[derive(Debug, Error)]
pub enum RunBehaviourError {
    /// There is no descriptor for the board.
    #[error("the links of the board are not known")]
    NoDescriptor,
    /// There is no server.
    #[error(transparent)]
    Server(#[from] StartServerError),
    /// A file could not be written or read.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// A program could not be started or waited for.
    #[error("cannot run {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    /// A run has not ended.
    #[error("the {run} run has not ended after {} s\n{said}", PATIENCE.as_secs())]
    Hangs {
        run: &'static str,
        /// The end of what it said.
        said: String,
    },
    /// A library for the program could not be made.
    #[error("no library could be compiled: {said}")]
    NoLibrary { said: String },
    /// The tracked run is another than the plain one.
    #[error("it differs under ttmem: {0}")]
    Differs(String),
    /// The report says something else than the program.
    #[error("the report: {0}")]
    Report(String),
}

/// Runs a behaviour both ways and compares.
///
/// # Errors
///
/// When it cannot run, or the two runs differ, or the report is wrong.
pub fn run_behaviour(session: &Session, behaviour: Behaviour) -> Result<(), RunBehaviourError> {
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
            return Err(RunBehaviourError::Report(format!("on stderr is {said:?}")));
        }
    }
    if behaviour.way == Way::Terminal {
        plain.forget_order();
        tracked.forget_order();
    }
    if let Some(difference) = plain.difference(&tracked) {
        return Err(RunBehaviourError::Differs(difference));
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
    compared.map_err(RunBehaviourError::Report)
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

/// Runs a command to its end, with what it says in files of `folder`.
fn run_to_end(
    behaviour: Behaviour,
    run: &'static str,
    folder: &Path,
    mut command: Command,
) -> Result<ExitStatus, RunBehaviourError> {
    let program = PathBuf::from(command.get_program());
    let start_error = |source| RunBehaviourError::Start {
        program: program.clone(),
        source,
    };
    let stderr = folder.join("stderr");
    let stdout = folder.join("stdout");
    let child = command
        .stdin(Stdio::null())
        .stdout(File::create(&stdout).map_err(file_error(&stdout))?)
        .stderr(File::create(&stderr).map_err(file_error(&stderr))?)
        // What it does to its group must not reach the harness.
        .process_group(0)
        .spawn()
        .map_err(start_error)?;
    let mut running = Running(child);
    let deadline = Instant::now() + PATIENCE;
    let mut to_interrupt = behaviour.way == Way::Interrupted;
    loop {
        if let Some(status) = running.0.try_wait().map_err(start_error)? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            let said = last_lines(&stderr);
            return Err(RunBehaviourError::Hangs { run, said });
        }
        if to_interrupt && is_ready(folder) {
            to_interrupt = false;
            interrupt(&running);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

fn is_ready(folder: &Path) -> bool {
    fs::read_to_string(folder.join("result")).is_ok_and(|told| told.contains(READY))
}

/// Sends SIGINT to the process that was started, and to no other.
fn interrupt(running: &Running) {
    if let Ok(pid) = i32::try_from(running.0.id()) {
        // It was not waited for: the number is its own. If it has ended, that is seen next.
        let _sent = kill(Pid::from_raw(pid), Signal::SIGINT);
    }
}

/// What a running server says.
fn answer_of(session: &Session, server: Option<&Server>) -> Result<Value, RunBehaviourError> {
    let mut command = Command::new(&session.ttmem);
    if let Some(server) = server {
        command.arg("--socket").arg(server.socket());
    }
    let output = command
        .args(["status", "--json"])
        .output()
        .map_err(|source| RunBehaviourError::Start {
            program: session.ttmem.clone(),
            source,
        })?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| RunBehaviourError::Report(format!("ttmem status: {error}")))
}

fn json(path: &Path) -> Result<Value, RunBehaviourError> {
    let text = fs::read(path).map_err(file_error(path))?;
    serde_json::from_slice(&text)
        .map_err(|error| RunBehaviourError::Report(format!("{}: {error}", path.display())))
}
