//! A board of one run: its chips have unique ids that no other run's have.
//!
//! TT-Metal keeps counters of each chip in a file of `/dev/shm` that outlives every program, with a slot for each of
//! 64 processes. Those that are killed never give theirs back, so that in files which runs share, after enough of
//! them, nobody is counted any more.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ttmem_event::catalogue::BoardKind;

use crate::descriptor::{cluster_descriptor, unique_ids};
use crate::process;

/// The descriptor of a board, and what TT-Metal keeps of its chips as long as this lives.
#[derive(Debug)]
pub(crate) struct OwnBoard {
    descriptor: PathBuf,
    counters: Vec<PathBuf>,
}

impl OwnBoard {
    /// Describes the board in a folder.
    pub(crate) fn describe(kind: BoardKind, folder: &Path) -> anyhow::Result<Self> {
        // Runs of one process follow each other.
        Self::of_run(std::process::id(), kind, folder)
    }

    /// As [`OwnBoard::describe`], with the ids of a run that is named.
    pub(crate) fn of_run(run: u32, kind: BoardKind, folder: &Path) -> anyhow::Result<Self> {
        let yaml =
            cluster_descriptor(kind, run).context("the links of this board are not known")?;
        let descriptor = folder.join("cluster.yaml");
        process::write(&descriptor, &yaml)?;
        let counters = unique_ids(kind, run)
            .map(|(_chip, id)| PathBuf::from(format!("/dev/shm/tt_device_{id}_memory")));
        let board = Self {
            descriptor,
            counters: counters.collect(),
        };
        board.clean();
        Ok(board)
    }

    pub(crate) fn descriptor(&self) -> &Path {
        &self.descriptor
    }

    /// Removes TT-Metal's counters of the board.
    pub(crate) fn clean(&self) {
        for file in &self.counters {
            // Mostly it is there; without the runtime or with its tracking off it is not.
            let _was_there = fs::remove_file(file);
        }
    }
}

impl Drop for OwnBoard {
    fn drop(&mut self) {
        self.clean();
    }
}
