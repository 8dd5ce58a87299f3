//! A server process of a test's own.

use super::place::ForOthers;
use super::{WATCHDOG, wait_until};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::Instant;

pub(crate) use super::place::TTMEM;

/// A folder that is not there.
pub(crate) const NO_FOLDER: &str = "/nonexistent";

/// A command of the program under test, without the tester's own settings.
pub(crate) fn ttmem() -> Command {
    without_settings(TTMEM)
}

/// A command that does not see the tester's own settings.
pub(crate) fn without_settings(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _value) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TTMEM_") {
            command.env_remove(name);
        }
    }
    command.env_remove("COLUMNS");
    // No file of the tester's either.
    command.env("XDG_CONFIG_HOME", NO_FOLDER);
    command.stdin(Stdio::null());
    command
}

/// Whether this machine has a server for everybody, which is found where none is named.
pub(crate) fn machine_has_server() -> bool {
    // Not the old one in /tmp, which may be any user's: it is asked only by name.
    UnixStream::connect("/run/ttmem/ttmem.sock").is_ok()
}

/// A process that a test started in its own way; killed when the test is done with it.
#[derive(Debug)]
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A running server; killed when the test is done with it.
#[derive(Debug)]
pub(crate) struct TestServer {
    child: Child,
    folder: tempfile::TempDir,
}

impl TestServer {
    /// Starts one with these options beside its socket.
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), options)
    }

    /// Starts one in a folder that a server may have used before.
    pub(crate) fn start_in(folder: tempfile::TempDir, options: &[&str]) -> Self {
        Self::start_adapted(folder, options, |_command| {})
    }

    /// Starts one after a last change of its command: its environment, its streams.
    pub(crate) fn start_adapted(
        folder: tempfile::TempDir,
        options: &[&str],
        adapt: impl FnOnce(&mut Command),
    ) -> Self {
        Self::start_command(ttmem(), folder, options, adapt)
    }

    /// Starts one as another user, which only the superuser may: in a folder of [`open_folder`], and where that user may write.
    ///
    /// [`open_folder`]: super::place::open_folder
    pub(crate) fn start_as(user: u32, folder: tempfile::TempDir, options: &[&str]) -> Self {
        let others = ForOthers::new();
        Self::start_command(others.ttmem_as(user), folder, options, |_command| {})
    }

    /// Starts one by a command of the program.
    fn start_command(
        mut command: Command,
        folder: tempfile::TempDir,
        options: &[&str],
        adapt: impl FnOnce(&mut Command),
    ) -> Self {
        let log = File::options()
            .create(true)
            .append(true)
            .open(folder.path().join("out.log"))
            .expect("a log file");
        command
            .arg("serve")
            .arg("--socket")
            .arg(folder.path().join("ttmem.sock"))
            .args(options)
            .stdout(log.try_clone().expect("the log twice"))
            .stderr(log);
        adapt(&mut command);
        let child = command.spawn().expect("the server starts");
        let server = Self { child, folder };
        wait_until("the server accepts connections", || {
            UnixStream::connect(server.socket()).is_ok()
        });
        server
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("ttmem.sock")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The reading end of its standard output, if that was made a pipe.
    pub(crate) fn take_stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("its output is a pipe")
    }

    /// What it printed so far, stdout and stderr together.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("out.log")).expect("the log is text")
    }

    /// Runs a reading command against it.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        ttmem()
            .args(arguments)
            .arg("--socket")
            .arg(self.socket())
            .output()
            .expect("the command runs")
    }

    /// `ttmem status --json`.
    pub(crate) fn status(&self) -> Value {
        let output = self.ask(&["status", "--json"]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("status prints JSON")
    }

    /// The device with a logical id, from `status --json`; null if there is none.
    pub(crate) fn device(&self, id: u64) -> Value {
        let status = self.status();
        let devices = status["devices"].as_array().expect("a list of devices");
        devices
            .iter()
            .find(|device| device["id"] == id)
            .cloned()
            .unwrap_or(Value::Null)
    }

    /// The process with a pid, from `status --json`; null if there is none.
    pub(crate) fn process(&self, pid: u32) -> Value {
        let status = self.status();
        let processes = status["processes"].as_array().expect("a list of processes");
        processes
            .iter()
            .find(|process| process["pid"] == pid)
            .cloned()
            .unwrap_or(Value::Null)
    }

    /// Sends it a signal by name, as a user would with `kill`.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(status.success());
    }

    /// Waits for it to end by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the server is ours") {
                return status;
            }
            assert!(begun.elapsed() < WATCHDOG, "the server did not end");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Ends it without warning and keeps its folder.
    pub(crate) fn kill(mut self) -> tempfile::TempDir {
        self.child.kill().expect("the server is ours");
        self.child.wait().expect("the server is ours");
        let kept = tempfile::tempdir().expect("a folder");
        std::mem::replace(&mut self.folder, kept)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
