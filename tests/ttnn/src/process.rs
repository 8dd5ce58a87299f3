//! Starting programs, and what all runs of them share.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use thiserror::Error;

/// How long a program may run: seconds, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often to look whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How much of a failed program's output is worth repeating.
const LINES_OF_FAILURE: usize = 40;

/// Settings of the user that would reach ttnn or the attach library.
const OTHERS_SETTINGS: [&str; 5] = ["TTMEM_", "TT_", "TTNN_", "PYTHON", "LD_PRELOAD"];

/// What every program in Python gets.
pub(crate) const QUIET: [(&str, &str); 2] = [
    // The programs lie in the repository: no compiled copies beside them.
    ("PYTHONDONTWRITEBYTECODE", "1"),
    // Without this ttnn begins its output with its whole configuration.
    ("LOGURU_LEVEL", "WARNING"),
];

/// A program that was ended because it did not end.
#[derive(Debug, Error)]
#[error("{program} has not ended after {} s\n{output}", PATIENCE.as_secs())]
pub(crate) struct Hangs {
    program: String,
    /// The end of its output.
    output: String,
}

/// Where Open MPI, which ttnn has in it, keeps its shared memory: it leaves that of processes that are killed, which in
/// `/dev/shm` would be for ever. Its releases before and since 5 have different names for this.
pub(crate) const SEGMENTS: [&str; 2] = [
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
];

/// A command in a folder, without the user's settings.
pub(crate) fn command_in(folder: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    for (name, _value) in std::env::vars_os() {
        let shown = name.to_string_lossy();
        if OTHERS_SETTINGS
            .iter()
            .any(|prefix| shown.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
    command.envs(QUIET);
    command.envs(SEGMENTS.map(|name| (name, folder)));
    command
}

/// Makes a folder; what was there before is removed.
pub(crate) fn make_empty(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The files with the output of a program.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stdout: PathBuf,
    pub(crate) stderr: PathBuf,
}

impl Output {
    /// The end of its standard error, or why it cannot be read.
    pub(crate) fn last_lines(&self) -> String {
        match fs::read(&self.stderr) {
            Ok(bytes) => last_lines(&String::from_utf8_lossy(&bytes), LINES_OF_FAILURE),
            Err(error) => format!("(its output is lost: {}: {error})", self.stderr.display()),
        }
    }
}

/// The end of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Runs a command to its end; `meanwhile` is called with its process until then.
pub(crate) fn run_to_end(
    name: &str,
    output: &Output,
    command: &mut Command,
    mut meanwhile: impl FnMut(&Child),
) -> anyhow::Result<ExitStatus> {
    let create =
        |path: &Path| File::create(path).with_context(|| format!("cannot make {}", path.display()));
    command
        .stdout(create(&output.stdout)?)
        .stderr(create(&output.stderr)?);
    let mut running = Running::start(command)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = running.0.try_wait().context("cannot wait for a program")? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            bail!(Hangs {
                program: name.to_owned(),
                output: output.last_lines(),
            });
        }
        meanwhile(&running.0);
        thread::sleep(LOOK_AGAIN);
    }
}

/// A program that does not outlive this value.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let program = Path::new(command.get_program()).display().to_string();
        let child = command.spawn();
        Ok(Self(
            child.with_context(|| format!("cannot run {program}"))?,
        ))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended, which is what is wanted.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}
