//! Every published wheel of ttnn, and what of each can be tracked: a table.
//!
//! One program runs on each wheel and compares every part of the account with what ttnn
//! itself says. Not every release can open a board that is not there, and some only in
//! one way or another: they are tried in turn. What fails with the attach library is done
//! again without it, so that the table says whose failure it is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ttmem_event::catalogue::BoardKind;

use crate::process::Hangs;
use crate::programs::{BOARDS, Program, TestBoard};
use crate::provision::{MissingPython, folder_name, provision_in};
use crate::python::{Interpreter, PythonRelease, find_release};
use crate::session::{Manner, ProgramFailed, Session};
use crate::wheels::{NEWEST, WHEELS, WheelVersion};

mod summary;
mod table;

pub use summary::{PARTS, Summary};
pub use table::{Row, table};

/// The program that runs on every wheel.
const PROGRAM: Program = Program {
    name: "matrix",
    needs_mesh: false,
    packages: &[],
};

/// The board it runs on.
const BOARD: BoardKind = BoardKind::N150;

/// Ways to run ttnn, the usual one first; the others go round what fails in some releases.
const WAYS: [Way; 3] = [
    Way {
        name: "",
        settings: &[],
    },
    Way {
        name: "slow dispatch",
        settings: &[("TT_METAL_SLOW_DISPATCH_MODE", "1")],
    },
    Way {
        name: "slow dispatch, no inspector",
        settings: &[
            ("TT_METAL_SLOW_DISPATCH_MODE", "1"),
            ("TT_METAL_INSPECTOR", "0"),
        ],
    },
];

/// A way to run ttnn.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// What is unusual in it.
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

/// What the rows are made with.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub cache: PathBuf,
    /// The stand-in for the kernel compiler.
    pub standin: PathBuf,
    /// The program `ttmem`.
    pub ttmem: PathBuf,
    pub attach: PathBuf,
    /// The folder with the Python programs.
    pub programs: PathBuf,
    /// Where to keep what programs say.
    pub folder: PathBuf,
}

/// Every wheel for the older Python, and the newest for the other, if that is here.
#[must_use]
pub fn all_wheels() -> Vec<(WheelVersion, PythonRelease)> {
    let mut all = vec![
        (NEWEST, PythonRelease::Python312),
        (NEWEST, PythonRelease::Python310),
    ];
    let older = WHEELS.iter().filter(|wheel| **wheel != NEWEST);
    all.extend(older.map(|wheel| (*wheel, PythonRelease::Python310)));
    all.retain(|(_wheel, release)| find_release(*release).is_some());
    all
}

impl Matrix {
    /// Installs a wheel, runs the program on it, and removes it again if it was not there.
    ///
    /// The newest stays: the other tests use it.
    ///
    /// # Errors
    ///
    /// When it could not be tried; that it cannot be tracked is no error but in the row.
    pub fn row(&self, wheel: WheelVersion, release: PythonRelease) -> anyhow::Result<Row> {
        let interpreter = find_release(release).ok_or(MissingPython::NoInterpreter)?;
        let environment = self.cache.join(folder_name(wheel, &interpreter));
        let was_there = environment.exists();
        let row = self.installed_row(wheel, &interpreter);
        if !was_there && wheel != NEWEST && environment.exists() {
            fs::remove_dir_all(&environment).context("cannot remove a wheel")?;
        }
        row
    }

    fn installed_row(&self, wheel: WheelVersion, interpreter: &Interpreter) -> anyhow::Result<Row> {
        let session = Session {
            ttnn: provision_in(&self.cache, interpreter, wheel, &self.standin)?,
            ttmem: self.ttmem.clone(),
            attach: self.attach.clone(),
            programs: self.programs.clone(),
            folder: self.folder.clone(),
            seed: 1,
        };
        let python = interpreter.release.name();
        let folder = self.folder.join(format!("matrix-{wheel}-{python}"));
        // Of ways that all fail, the first that opens the board says most, or else the first.
        let mut best: Option<(Way, Tried)> = None;
        for way in WAYS {
            let tried = try_way(&session, &folder, way)?;
            if tried.failure.is_none() || tried.is_ours {
                return Ok(Row::new(wheel, python, way.name, &tried));
            }
            let opens_at_last = |best: &(Way, Tried)| tried.opens() && !best.1.opens();
            if best.as_ref().is_none_or(opens_at_last) {
                best = Some((way, tried));
            }
        }
        let (way, tried) = best.unwrap_or((WAYS[0], Tried::default()));
        Ok(Row::new(wheel, python, way.name, &tried))
    }
}

/// What came of running the program in one way.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    pub summary: Summary,
    /// Why it did not get to its end.
    pub failure: Option<String>,
    /// Whether it gets there without the attach library.
    pub is_ours: bool,
}

impl Tried {
    fn opens(&self) -> bool {
        self.summary.opens
    }
}

fn try_way(session: &Session, folder: &Path, way: Way) -> anyhow::Result<Tried> {
    let board = board()?;
    let attached = Manner {
        is_attached: true,
        settings: way.settings,
    };
    let failure = failure_of(session.run_as(board, PROGRAM, folder, attached))?;
    // A program that did not get far has said little or nothing.
    let said = fs::read_to_string(folder.join("summary")).unwrap_or_default();
    let is_ours = if failure.is_some() {
        let alone = Manner {
            is_attached: false,
            ..attached
        };
        let folder = folder.join("alone");
        failure_of(session.run_as(board, PROGRAM, &folder, alone))?.is_none()
    } else {
        false
    };
    Ok(Tried {
        summary: Summary::parse(&said),
        failure,
        is_ours,
    })
}

fn board() -> anyhow::Result<TestBoard> {
    let mut boards = BOARDS.into_iter();
    let board = boards.find(|board| board.kind == BOARD);
    board.with_context(|| format!("no test runs on {}", BOARD.name()))
}

/// Why a program did not pass, as far as that is its own doing.
fn failure_of(run: anyhow::Result<String>) -> anyhow::Result<Option<String>> {
    let Err(error) = run else {
        return Ok(None);
    };
    if let Some(failed) = error.downcast_ref::<ProgramFailed>() {
        let reason = summary::reason(&failed.output);
        return Ok(Some(reason.unwrap_or(failed.status.to_string())));
    }
    if error.is::<Hangs>() {
        return Ok(Some("it hangs".to_owned()));
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_is_one_that_programs_run_on() {
        assert_eq!(board().expect("it is there").kind, BOARD);
    }

    #[test]
    fn every_wheel_is_tried_once_on_each_python() {
        let all = all_wheels();
        for (at, wheel) in all.iter().enumerate() {
            assert!(!all[..at].contains(wheel), "{wheel:?}");
        }
    }

    #[test]
    fn the_usual_way_is_tried_first() {
        assert!(WAYS[0].settings.is_empty());
        assert!(
            WAYS[1..]
                .iter()
                .all(|way| !way.name.is_empty() && !way.settings.is_empty())
        );
    }
}
