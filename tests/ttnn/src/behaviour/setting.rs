//! Where the two runs of a behaviour take place: the same board, folders of their own.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use ttmem_event::catalogue::BoardKind;

use super::{Behaviour, Way};
use crate::own_board::OwnBoard;
use crate::process;
use crate::session::Session;

/// The board that all of them run on.
const BOARD: BoardKind = BoardKind::N150;

/// A library that a user could have preloaded.
const OWN_LIBRARY: &str = include_str!("own_library.cpp");

/// Where the runs of a behaviour take place.
#[derive(Debug)]
pub(super) struct Setting<'s> {
    session: &'s Session,
    behaviour: Behaviour,
    folder: PathBuf,
    /// Short, as the path of a socket must be; and nobody listens there by default.
    socket_folder: TempDir,
    board: OwnBoard,
    own_library: Option<PathBuf>,
}

impl<'s> Setting<'s> {
    /// Makes an empty folder, a board and whatever else the behaviour needs.
    pub(super) fn prepare(session: &'s Session, behaviour: Behaviour) -> anyhow::Result<Self> {
        let folder = session.folder.join(format!("behaviour-{}", behaviour.name));
        process::make_empty(&folder)?;
        let board = OwnBoard::describe(BOARD, &folder)?;
        let own_library = if behaviour.own_library {
            Some(compile_own_library(&folder)?)
        } else {
            None
        };
        Ok(Self {
            session,
            behaviour,
            folder,
            socket_folder: tempfile::tempdir().context("no folder for a socket")?,
            board,
            own_library,
        })
    }

    /// A folder for one of the runs.
    pub(super) fn run_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(name);
        for made in [
            folder.clone(),
            folder.join("kernels"),
            folder.join("witnesses"),
        ] {
            process::make_empty(&made)?;
        }
        Ok(folder)
    }

    /// Where a server may have its socket.
    pub(super) fn socket_folder(&self) -> &Path {
        self.socket_folder.path()
    }

    /// Removes what the runtime keeps after the end of a run: the chip is no other run's.
    pub(super) fn clean(&self) {
        self.board.clean();
    }

    /// These words, with the program that types Ctrl-C before them if the way asks for it.
    pub(super) fn in_terminal(&self, folder: &Path, words: Vec<OsString>) -> Vec<OsString> {
        if self.behaviour.way != Way::Terminal {
            return words;
        }
        let mut all = vec![
            self.session.ttnn.python.clone().into_os_string(),
            self.program("terminal.py").into_os_string(),
            folder.join("result").into_os_string(),
        ];
        all.extend(words);
        all
    }

    /// The program in its environment, with some words before it.
    pub(super) fn command(&self, folder: &Path, before: Vec<OsString>) -> Command {
        let mut words = before;
        if self.behaviour.is_python() {
            words.push(self.session.ttnn.python.clone().into_os_string());
            words.push(self.program(self.behaviour.program).into_os_string());
            words.push(folder.join("result").into_os_string());
            words.push(folder.join("expected").into_os_string());
        } else {
            words.push(self.behaviour.program.into());
        }
        words.extend(self.behaviour.words.iter().map(OsString::from));
        let mut words = words.into_iter();
        let mut command = process::command_in(folder, words.next().unwrap_or_default());
        let kernel_cache = if self.behaviour.cold_kernels {
            folder.join("kernels")
        } else {
            self.session.ttnn.kernel_cache.clone()
        };
        command
            .args(words)
            .env("XDG_RUNTIME_DIR", self.socket_folder.path())
            .env("TT_METAL_CACHE", kernel_cache)
            .env("TT_METAL_MOCK_CLUSTER_DESC_PATH", self.board.descriptor())
            .env("TTMEM_STANDIN_WITNESSES", folder.join("witnesses"))
            .envs(self.behaviour.variables.iter().copied());
        if let Some(library) = &self.own_library {
            command.env("LD_PRELOAD", library);
        }
        command
    }

    fn program(&self, file: &str) -> PathBuf {
        self.session.programs.join("behaviours").join(file)
    }
}

fn compile_own_library(folder: &Path) -> anyhow::Result<PathBuf> {
    let source = folder.join("own.cpp");
    process::write(&source, OWN_LIBRARY)?;
    let library = folder.join("libown.so");
    let output = Command::new("c++")
        .args(["-shared", "-fPIC", "-o"].map(OsStr::new))
        .args([&library, &source])
        .stdin(Stdio::null())
        .output()
        .context("cannot run c++")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("no library could be compiled: {said}");
    }
    Ok(library)
}
