//! Running one program on one board.
//!
//! Every program gets a server of its own, so that what it finds in the account is what it
//! did itself, and a folder of its own to run in: ttnn leaves files where it runs. After its
//! end the account is looked at once more, from outside: nothing may be left of it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::descriptor::cluster_descriptor;
use crate::programs::{Program, TestBoard};
use crate::provision::TtnnEnvironment;
use crate::server::{Server, StartServerError};
use crate::wheels::NEWEST;

/// How long a program may run: seconds, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often to look whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How much of what a failed program said is worth repeating.
const LINES_OF_FAILURE: usize = 40;

/// The program that looks at the account when another has ended.
const AFTERWARDS: &str = "nothing_left.py";

/// Tells a program that every family of hooks must be on.
const EVERY_FAMILY: &str = "TTMEM_TESTS_EVERY_FAMILY";

/// Settings of the user that would reach ttnn or the attach library.
pub(crate) const OTHERS_SETTINGS: [&str; 5] = ["TTMEM_", "TT_", "TTNN_", "PYTHON", "LD_PRELOAD"];

/// What a session is made of.
#[derive(Clone, Debug)]
pub struct Session {
    pub ttnn: TtnnEnvironment,
    /// The program `ttmem`.
    pub ttmem: PathBuf,
    pub attach: PathBuf,
    /// The folder with the Python programs.
    pub programs: PathBuf,
    /// Where to keep what programs say, and their descriptors.
    pub folder: PathBuf,
    /// The seed for programs that take one.
    pub seed: u64,
}

/// How a program is run.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Whether the attach library is preloaded.
    pub is_attached: bool,
    pub settings: &'static [(&'static str, &'static str)],
}

impl Manner {
    /// Attached, with ttnn as it is.
    pub const USUAL: Self = Self {
        is_attached: true,
        settings: &[],
    };
}

/// Why a program did not pass.
#[derive(Debug, Error)]
pub enum RunProgramError {
    /// There is no descriptor for the board.
    #[error("the links of this board are not known")]
    NoDescriptor,
    /// There is no server.
    #[error(transparent)]
    Server(#[from] StartServerError),
    /// A file could not be written or read.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// The interpreter could not be started or waited for.
    #[error("cannot run {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    #[error("{program} has not ended after {} s\n{said}", PATIENCE.as_secs())]
    Hangs {
        program: String,
        /// The end of what it said.
        said: String,
    },
    /// The program failed; the end of what it said has the first difference.
    #[error("{program} ended with {status}\n{said}")]
    Failed {
        program: String,
        status: ExitStatus,
        /// The end of what it said.
        said: String,
    },
    /// The attach library complains of a release that it is made for.
    #[error("{program} was complained of: {complaint}")]
    Complained { program: String, complaint: String },
}

impl Session {
    /// Runs a program to its end and gives its own summary.
    ///
    /// # Errors
    ///
    /// When it cannot run, or did not pass.
    pub fn run(&self, board: TestBoard, program: Program) -> Result<String, RunProgramError> {
        let folder = self.run_folder(board, program);
        let summary = self.run_as(board, program, &folder, Manner::USUAL)?;
        // Of an older release it may say that some of it is not tracked.
        if self.ttnn.wheel == NEWEST {
            let complaint = complaint_in(&stderr_of(program.name, &folder))?;
            if let Some(complaint) = complaint {
                return Err(RunProgramError::Complained {
                    program: program.name.to_owned(),
                    complaint,
                });
            }
        }
        Ok(summary)
    }

    /// As [`Session::run`], in a folder and in a manner that are given.
    ///
    /// # Errors
    ///
    /// As [`Session::run`]; a program that failed may have left a part of its summary.
    pub fn run_as(
        &self,
        board: TestBoard,
        program: Program,
        folder: &Path,
        manner: Manner,
    ) -> Result<String, RunProgramError> {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(file_error(folder))?;
        }
        fs::create_dir_all(folder).map_err(file_error(folder))?;
        let descriptor = folder.join("cluster.yaml");
        let yaml = cluster_descriptor(board.kind).ok_or(RunProgramError::NoDescriptor)?;
        fs::write(&descriptor, yaml).map_err(file_error(&descriptor))?;

        // The path of a socket must be short, and that of `folder` may not be.
        let socket_folder = tempfile::tempdir().map_err(file_error(&std::env::temp_dir()))?;
        let server = Server::start(&self.ttmem, socket_folder.path())?;
        let summary = folder.join("summary");
        let mut command = self.python(folder, &server, &format!("{}.py", program.name));
        command
            .arg(&summary)
            .args([board.rows, board.columns].map(|size| size.to_string()))
            .arg(self.seed.to_string())
            .env("TT_METAL_CACHE", &self.ttnn.kernel_cache)
            .env("TT_METAL_MOCK_CLUSTER_DESC_PATH", &descriptor)
            .envs(manner.settings.iter().copied());
        if manner.is_attached {
            command.env("LD_PRELOAD", &self.attach);
        }
        if self.ttnn.wheel == NEWEST {
            command.env(EVERY_FAMILY, "1");
        }
        run_to_end(program.name, folder, &mut command)?;
        run_to_end(
            AFTERWARDS,
            folder,
            &mut self.python(folder, &server, AFTERWARDS),
        )?;
        fs::read_to_string(&summary).map_err(file_error(&summary))
    }

    /// Where a program runs on a board, and leaves its files.
    #[must_use]
    pub fn run_folder(&self, board: TestBoard, program: Program) -> PathBuf {
        let name = format!("{}-{}", board.kind.name(), program.name);
        self.folder.join(name)
    }

    /// The interpreter with a program of ours, as good as without the user's settings.
    fn python(&self, folder: &Path, server: &Server, file: &str) -> Command {
        let mut command = Command::new(&self.ttnn.python);
        for (name, _value) in std::env::vars_os() {
            let shown = name.to_string_lossy();
            if OTHERS_SETTINGS
                .iter()
                .any(|prefix| shown.starts_with(prefix))
            {
                command.env_remove(&name);
            }
        }
        command
            .arg(self.programs.join(file))
            .current_dir(folder)
            .stdin(Stdio::null())
            .env("TTMEM_SOCKET", server.socket())
            // The programs lie in the repository: no compiled copies beside them.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // Without this ttnn begins what a program says with its whole configuration.
            .env("LOGURU_LEVEL", "WARNING");
        command
    }
}

/// Runs a command to its end, with what it says in files of `folder`.
fn run_to_end(name: &str, folder: &Path, command: &mut Command) -> Result<(), RunProgramError> {
    let start_error = |program: PathBuf| |source| RunProgramError::Start { program, source };
    let python = PathBuf::from(command.get_program());
    let stdout = folder.join(format!("{name}.stdout"));
    let stderr = stderr_of(name, folder);
    let child = command
        .stdout(File::create(&stdout).map_err(file_error(&stdout))?)
        .stderr(File::create(&stderr).map_err(file_error(&stderr))?)
        .spawn()
        .map_err(start_error(python.clone()))?;
    let mut running = Running(child);
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match running.0.try_wait().map_err(start_error(python.clone()))? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                return Err(RunProgramError::Hangs {
                    program: name.to_owned(),
                    said: last_lines(&stderr),
                });
            }
            None => thread::sleep(LOOK_AGAIN),
        }
    };
    if status.success() {
        return Ok(());
    }
    Err(RunProgramError::Failed {
        program: name.to_owned(),
        status,
        said: last_lines(&stderr),
    })
}

/// Where a command's standard error goes.
fn stderr_of(name: &str, folder: &Path) -> PathBuf {
    folder.join(format!("{name}.stderr"))
}

/// The first line of a file that is a complaint of the attach library.
fn complaint_in(stderr: &Path) -> Result<Option<String>, RunProgramError> {
    let said = fs::read(stderr).map_err(file_error(stderr))?;
    let said = String::from_utf8_lossy(&said);
    let complaint = said.lines().find(|line| line.starts_with("ttmem: "));
    Ok(complaint.map(str::to_owned))
}

/// The end of a file, or why it cannot be told.
pub(crate) fn last_lines(path: &Path) -> String {
    match fs::read(path) {
        Ok(said) => {
            let said = String::from_utf8_lossy(&said);
            let lines: Vec<&str> = said.lines().collect();
            lines[lines.len().saturating_sub(LINES_OF_FAILURE)..].join("\n")
        }
        Err(error) => format!("(what it said is lost: {}: {error})", path.display()),
    }
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> RunProgramError {
    let path = path.to_path_buf();
    move |source| RunProgramError::File { path, source }
}

/// A program that does not outlive the session.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended, which is what is wanted.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(folder: &Path, script: &str) -> Result<(), RunProgramError> {
        run_to_end("script", folder, Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn a_failure_tells_how_it_ended_and_the_end_of_what_was_said() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(shell(folder.path(), "echo fine").is_ok());
        let failure = shell(
            folder.path(),
            "seq 100 >&2; echo the difference >&2; exit 3",
        )
        .expect_err("it exits with 3")
        .to_string();
        assert!(failure.starts_with("script ended with exit status: 3\n62\n"));
        assert!(failure.ends_with("\nthe difference"), "{failure}");
    }

    #[test]
    fn a_complaint_is_found_in_what_was_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let complaint = || complaint_in(&stderr_of("script", folder.path())).expect("it is there");
        shell(folder.path(), "echo of ttmem: nothing >&2").expect("it ends well");
        assert_eq!(complaint(), None);
        shell(folder.path(), "printf 'x\\nttmem: no x\\n' >&2").expect("it ends well");
        assert_eq!(complaint().as_deref(), Some("ttmem: no x"));
    }

    #[test]
    fn a_crash_is_a_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let crash = shell(folder.path(), "kill -s SEGV $$").expect_err("it was killed");
        assert!(crash.to_string().contains("signal: 11"), "{crash}");
    }
}
