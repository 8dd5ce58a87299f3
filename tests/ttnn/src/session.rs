//! Running one program on one board.
//!
//! Every program gets a server of its own, so that what it finds in the account is what it
//! did itself, and a folder of its own to run in: ttnn leaves files where it runs. After its
//! end the account is looked at once more, from outside: nothing may be left of it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, bail};
use thiserror::Error;

use crate::own_board::OwnBoard;
use crate::process::{self, Output, run_to_end};
use crate::programs::{Program, TestBoard};
use crate::provision::TtnnEnvironment;
use crate::server::Server;
use crate::wheels::NEWEST;

/// The program that looks at the account when another has ended.
const AFTERWARDS: &str = "nothing_left.py";

/// Tells a program that every family of hooks must be on.
const EVERY_FAMILY: &str = "TTMEM_TESTS_EVERY_FAMILY";

/// Tells a program where the packages are that it needs besides ttnn.
const PACKAGES: &str = "TTMEM_TESTS_PACKAGES";

/// Tells a program where the program `ttmem` is.
const PROGRAM: &str = "TTMEM_TESTS_PROGRAM";

/// Tells a program where our own package is.
const OWN_PACKAGE: &str = "TTMEM_TESTS_OWN_PACKAGE";

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

/// A program that failed; the end of its output has the first difference.
#[derive(Debug, Error)]
#[error("{program} ended with {status}\n{output}")]
pub(crate) struct ProgramFailed {
    program: String,
    pub(crate) status: ExitStatus,
    /// The end of its output.
    pub(crate) output: String,
}

impl Session {
    /// Runs a program to its end and gives its own summary.
    ///
    /// # Errors
    ///
    /// When it cannot run, or did not pass.
    pub fn run(&self, board: TestBoard, program: Program) -> anyhow::Result<String> {
        let folder = self.run_folder(board, program);
        let summary = self.run_as(board, program, &folder, Manner::USUAL)?;
        // Of an older release it may say that some of it is not tracked.
        if self.ttnn.wheel == NEWEST
            && let Some(complaint) = complaint_in(&output_of(program.name, &folder))?
        {
            let program = program.name;
            bail!("the attach library complains of {program}: {complaint}");
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
    ) -> anyhow::Result<String> {
        process::make_empty(folder)?;
        let own_board = OwnBoard::describe(board.kind, folder)?;

        // The path of a socket must be short, and that of `folder` may not be.
        let socket_folder = tempfile::tempdir().context("no folder for a socket")?;
        let server = Server::start(&self.ttmem, socket_folder.path())?;
        let summary = folder.join("summary");
        let mut command = self.python(folder, &server, &format!("{}.py", program.name));
        command
            .arg(&summary)
            .args([board.rows, board.columns].map(|size| size.to_string()))
            .arg(self.seed.to_string())
            .env("TT_METAL_CACHE", &self.ttnn.kernel_cache)
            .env("TT_METAL_MOCK_CLUSTER_DESC_PATH", own_board.descriptor())
            .envs(manner.settings.iter().copied());
        if manner.is_attached {
            command.env("LD_PRELOAD", &self.attach);
        }
        if !program.packages.is_empty() {
            let packages = self.ttnn.packages(program.name, program.packages)?;
            command.env(PACKAGES, packages);
        }
        if self.ttnn.wheel == NEWEST {
            command.env(EVERY_FAMILY, "1");
        }
        run_well(program.name, folder, &mut command)?;
        let mut afterwards = self.python(folder, &server, AFTERWARDS);
        run_well(AFTERWARDS, folder, &mut afterwards)?;
        Ok(String::from_utf8(process::read(&summary)?)?)
    }

    /// Where a program runs on a board, and leaves its files.
    #[must_use]
    pub fn run_folder(&self, board: TestBoard, program: Program) -> PathBuf {
        let name = format!("{}-{}", board.kind.name(), program.name);
        self.folder.join(name)
    }

    /// The interpreter with a program of ours.
    fn python(&self, folder: &Path, server: &Server, file: &str) -> Command {
        let mut command = process::command_in(folder, &self.ttnn.python);
        command
            .arg(self.programs.join(file))
            .stdin(Stdio::null())
            .env(PROGRAM, &self.ttmem)
            .env(OWN_PACKAGE, self.own_package())
            .env("TTMEM_SOCKET", server.socket());
        command
    }

    /// The folder to import our package from: a wheel that is installed beside the program, or else
    /// the one in the repository.
    fn own_package(&self) -> PathBuf {
        let installed = self.ttmem.with_file_name("site-packages");
        if installed.is_dir() {
            return installed;
        }
        let root = self.programs.ancestors().nth(3);
        root.unwrap_or(&self.programs).join("show/python")
    }
}

/// Runs a command to its end, with its output in files of `folder`; it must succeed.
fn run_well(name: &str, folder: &Path, command: &mut Command) -> anyhow::Result<()> {
    let output = output_of(name, folder);
    let status = run_to_end(name, &output, command, |_child| {})?;
    if !status.success() {
        bail!(ProgramFailed {
            program: name.to_owned(),
            status,
            output: output.last_lines(),
        });
    }
    Ok(())
}

/// Where the output of a program goes.
fn output_of(name: &str, folder: &Path) -> Output {
    Output {
        stdout: folder.join(format!("{name}.stdout")),
        stderr: folder.join(format!("{name}.stderr")),
    }
}

/// The first line of a program's output that is a complaint of the attach library.
fn complaint_in(output: &Output) -> anyhow::Result<Option<String>> {
    let bytes = process::read(&output.stderr)?;
    let text = String::from_utf8_lossy(&bytes);
    let complaint = text.lines().find(|line| line.starts_with("ttmem: "));
    Ok(complaint.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(folder: &Path, script: &str) -> anyhow::Result<()> {
        run_well("script", folder, Command::new("sh").args(["-c", script]))
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
        let complaint = || complaint_in(&output_of("script", folder.path())).expect("it is there");
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
