//! Upstream's shared memory, `/dev/shm/tt_device_<id>_memory`: figures of TT-Metal itself.
//!
//! Any process may have written these files, may write them now, and may have died while it did. They
//! are copied by `read`, never mapped: a file that is cut short while it is read is an error and no
//! signal.

mod layout;
mod limits;
mod listing;

pub use layout::{Bytes, ChipFigures, Doubt, ProcessFigures, RefuseRegion, Region};
pub use limits::{LIMITS, Limit, SOURCE};
pub use listing::LeftOut;

pub(crate) use layout::LONGEST;
pub(crate) use listing::Listing;

use crate::files::{Ask, Found, Reader, Reading, Unread, bytes};
use crate::processes::{Liveness, Processes};
use crate::roots::Roots;
use rustix::fs::OFlags;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "tt_device_";
const SUFFIX: &str = "_memory";

/// How often a file is read again that changes under the reader.
const ATTEMPTS: u32 = 8;

/// One file.
#[derive(Clone, Debug)]
pub struct SharedMemory {
    pub path: PathBuf,
    /// The number in its name: from version 2 on, UMD's unique id of the chip.
    pub id: u64,
    /// Who owns the file, and so may have written anything.
    pub owner: Option<u32>,
    /// What it says, or why that is not told.
    pub content: Result<Content, ReadRegionError>,
}

impl SharedMemory {
    /// Whether its owner can tell what a process of a user has: TT-Metal makes the file writable to its owner
    /// only, so that no process of others is counted in it, but for what root does.
    #[must_use]
    pub fn may_count(&self, user: Option<u32>) -> bool {
        self.owner == Some(0) || (self.owner.is_some() && self.owner == user)
    }
}

/// What a file says.
#[derive(Clone, Debug)]
pub struct Content {
    pub region: Region,
    /// The processes of its slots, in their order.
    pub liveness: Vec<Liveness>,
    /// Whether every reading of several differed from the one before: figures of one moment may be mixed
    /// with those of the next.
    pub is_changing: bool,
}

impl Content {
    /// The bytes of processes that are gone: nobody takes them out of the totals.
    #[must_use]
    pub fn left_behind(&self) -> Bytes {
        Bytes::sum(self.gone().map(|process| &process.bytes))
    }

    /// Whether no process more can be counted, for slots that nobody gives back.
    #[must_use]
    pub fn is_full_of_gone(&self) -> bool {
        self.region.doubts.contains(&Doubt::Full) && self.gone().next().is_some()
    }

    fn gone(&self) -> impl Iterator<Item = &ProcessFigures> {
        let with_state = self.region.processes.iter().zip(&self.liveness);
        with_state
            .filter(|(_process, state)| matches!(state, Liveness::Dead | Liveness::Reused))
            .map(|(process, _state)| process)
    }
}

/// Why a file tells nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadRegionError {
    #[error(
        "permission denied: TT-Metal creates these files for their user only (mode 0600); \
         read it as that user or as root"
    )]
    Denied,
    #[error("{0}")]
    Unread(Unread),
    #[error(transparent)]
    Refused(#[from] RefuseRegion),
}

impl From<Unread> for ReadRegionError {
    fn from(error: Unread) -> Self {
        match error {
            Unread::Denied => Self::Denied,
            other => Self::Unread(other),
        }
    }
}

/// The files of this kind, and how many there were more.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// By id.
    pub files: Vec<SharedMemory>,
    pub left_out: Vec<LeftOut>,
}

/// The files of this kind, with the processes looked up; of each owner a bounded number. Those of known chips are read
/// by their names, however many entries the folder has, and whoever's they are.
pub fn look(roots: &Roots, reader: &mut Reader, known: BTreeSet<u64>) -> Reading<Files> {
    let folder = roots.path(FOLDER);
    let mut listed = reader.all(vec![Ask::Counters(folder.clone(), known.clone())]);
    let (chosen, left_out) = match listed.pop().unwrap_or(Err(Unread::Hung)) {
        Ok(Found::Counters(listing)) => listing.chosen(),
        Err(Unread::Hung) if !known.is_empty() => (Vec::new(), vec![LeftOut::Unlisted]),
        Err(error) => return Err(error),
        Ok(_other) => return Err(Unread::Missing),
    };
    let listed = chosen.into_iter().map(|(id, owner)| (id, Some(owner)));
    let mut chosen: Vec<(u64, Option<u32>)> = listed.collect();
    chosen.extend(known.iter().map(|id| (*id, None)));
    chosen.sort_unstable();
    let path = |id: u64| folder.join(name_of(id));
    let asks = chosen
        .iter()
        .map(|(id, _owner)| Ask::Region(path(*id), *id));
    let answers = reader.all(asks.collect());
    let read = chosen.into_iter().zip(answers);
    let found: Vec<(u64, Option<u32>, ReadFile)> = read
        .map(|((id, owner), answer)| {
            let file = match answer {
                Ok(Found::Region(file)) => *file,
                Ok(_other) => ReadFile::failed(Unread::Missing),
                Err(error) => ReadFile::failed(error),
            };
            (id, owner, file)
        })
        .filter(|(id, _owner, file)| {
            let is_none =
                file.content.as_ref().err() == Some(&ReadRegionError::Unread(Unread::Missing));
            !(is_none && known.contains(id))
        })
        .collect();
    let regions = found
        .iter()
        .filter_map(|(.., file)| file.content.as_ref().ok());
    let pids = regions.flat_map(|(region, _is_changing)| &region.processes);
    let pids = pids.map(|process| process.pid).filter(|pid| *pid > 0);
    let mut processes = Processes::new(roots, reader);
    processes.read(reader, &pids.collect());
    let files = found.into_iter().map(|(id, owner, file)| SharedMemory {
        path: path(id),
        id,
        // Another may have come in its place since the folder was listed.
        owner: file.owner.or(owner),
        content: file.content.map(|(region, is_changing)| {
            let slots = region.processes.iter();
            let liveness =
                slots.map(|process| processes.liveness(process.pid, process.last_update_nanos));
            Content {
                liveness: liveness.collect(),
                region,
                is_changing,
            }
        }),
    });
    Ok(Files {
        files: files.collect(),
        left_out,
    })
}

fn name_of(id: u64) -> String {
    format!("{PREFIX}{id}{SUFFIX}")
}

/// The number in the name of a file, written as upstream writes it.
fn id_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let id: u64 = digits.parse().ok()?;
    (id.to_string() == digits).then_some(id)
}

/// A file that was read, before its processes are looked up.
#[derive(Debug)]
pub(crate) struct ReadFile {
    /// Whose the very file was that was read.
    owner: Option<u32>,
    /// What it says, and whether it kept changing while it was read.
    pub(crate) content: Result<(Region, bool), ReadRegionError>,
}

impl ReadFile {
    fn failed(error: Unread) -> Self {
        Self {
            owner: None,
            content: Err(error.into()),
        }
    }
}

/// Reads one file.
pub(crate) fn read_file(path: &Path, id: u64) -> ReadFile {
    let mut owner = None;
    let content = settled(|| {
        owner = None;
        // A longer file is refused for its size: one byte more than the longest is enough to see it.
        let (found, its) = bytes(path, OFlags::NOFOLLOW, LONGEST + 1).map_err(|error| {
            if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
                return Unread::Malformed("a link, which upstream never makes".to_owned());
            }
            Unread::from(error)
        })?;
        owner = Some(its);
        Ok(Region::parse(&found, Some(id))?)
    });
    ReadFile { owner, content }
}

/// Reads until two readings in a row have the same figures, or gives up and says so.
///
/// A file that is refused is read again, too: it may have been in the middle of its making.
fn settled(
    mut read: impl FnMut() -> Result<Region, ReadRegionError>,
) -> Result<(Region, bool), ReadRegionError> {
    let mut before = read();
    for _attempt in 1..ATTEMPTS {
        let now = read();
        let is_same = match (&before, &now) {
            (Ok(before), Ok(now)) => before.has_figures_of(now),
            (Err(before), Err(now)) => before == now,
            _ => false,
        };
        if is_same {
            return now.map(|region| (region, false));
        }
        before = now;
    }
    before.map(|region| (region, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_upstream_writes_are_taken() {
        assert_eq!(
            id_of("tt_device_1374389534976_memory"),
            Some(1_374_389_534_976)
        );
        assert_eq!(id_of("tt_device_0_memory"), Some(0));
        for other in [
            "tt_device__memory",
            "tt_device_+1_memory",
            "tt_device_01_memory",
            "tt_device_99999999999999999999_memory",
            "tt_device_1_memory.old",
            "TT_UMD_LOCK.1",
        ] {
            assert_eq!(id_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_reading_that_another_confirms_is_taken_and_one_that_none_does_is_marked() {
        let bytes = crate::fuzz::region(3, 1);
        let region = |total: u64| {
            let mut region = Region::parse(&bytes, None).unwrap();
            region.totals.dram = total;
            region
        };
        let mut readings = [1, 2, 3, 3, 4].into_iter();
        let settled_at = settled(|| Ok(region(readings.next().unwrap()))).unwrap();
        assert_eq!((settled_at.0.totals.dram, settled_at.1), (3, false));
        let mut total = 0;
        let (last, is_changing) = settled(|| {
            total += 1;
            Ok(region(total))
        })
        .unwrap();
        assert!(is_changing);
        assert_eq!(last.totals.dram, u64::from(ATTEMPTS));
    }

    #[test]
    fn a_file_that_is_just_being_made_is_read_again() {
        let bytes = crate::fuzz::region(4, 1);
        let mut refusals = 2;
        let (_region, is_changing) = settled(|| {
            if refusals > 0 {
                refusals -= 1;
                return Err(RefuseRegion::NotReady { state: refusals }.into());
            }
            Ok(Region::parse(&bytes, None).unwrap())
        })
        .unwrap();
        assert!(!is_changing);
    }
}
