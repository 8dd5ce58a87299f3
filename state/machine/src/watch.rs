//! Everything that changes while a machine runs, looked at again and again.

use crate::device::{Cards, Device};
use crate::files::{Reader, Reading};
use crate::holders::names_of;
use crate::names::{Chip, chips};
use crate::processes::Liveness;
use crate::roots::Roots;
use crate::shm::{self, LeftOut, SharedMemory};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Who a process is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// The name of its main thread.
    pub name: Option<String>,
    /// Its user, by the owner of its folder in procfs: root for one that hides itself.
    pub uid: Option<u32>,
}

/// What a machine said at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Every card of the driver; `Missing` without the driver.
    pub devices: Reading<Vec<Device>>,
    /// The chips behind them.
    pub chips: Vec<Chip>,
    /// TT-Metal's counters.
    pub regions: Reading<Vec<SharedMemory>>,
    /// Files of such counters that were not read.
    pub left_out: Vec<LeftOut>,
    /// The processes that have a device open or a place in the counters, those that are there.
    pub people: BTreeMap<i32, Person>,
    /// The files whose reading hangs.
    pub stuck: Vec<PathBuf>,
}

/// Looks at a machine, and remembers what need not be read again.
#[derive(Debug)]
pub struct Watch {
    roots: Roots,
    reader: Reader,
    cards: Cards,
}

impl Watch {
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        Self::with_reader(roots, Reader::default())
    }

    /// One whose reads have another deadline.
    #[must_use]
    pub fn with_reader(roots: Roots, reader: Reader) -> Self {
        Self {
            roots,
            reader,
            cards: Cards::default(),
        }
    }

    /// Looks at everything.
    pub fn look(&mut self) -> Sample {
        let devices = self.cards.look(&self.roots, &mut self.reader);
        let chips = chips(devices.as_deref().unwrap_or_default());
        let known = chips.iter().flat_map(Chip::counter_ids).collect();
        let (regions, left_out) = match shm::look(&self.roots, &mut self.reader, known) {
            Ok(found) => (Ok(found.files), found.left_out),
            Err(error) => (Err(error), Vec::new()),
        };
        let cards = devices.as_deref().unwrap_or_default();
        let pids = pids(cards, regions.as_deref().unwrap_or_default());
        let people = self.people(pids);
        Sample {
            chips,
            people,
            stuck: self.stuck(),
            devices,
            regions,
            left_out,
        }
    }

    /// What hangs, as the machine calls it that is looked at.
    fn stuck(&self) -> Vec<PathBuf> {
        let stuck = self.reader.stuck().into_iter();
        stuck.map(|path| self.roots.shown(&path)).collect()
    }

    fn people(&mut self, pids: BTreeSet<i32>) -> BTreeMap<i32, Person> {
        let path = |pid: &i32| self.roots.path(&format!("/proc/{pid}"));
        let folders = pids.iter().map(path).collect();
        let owners = self.reader.owners(folders);
        let mut names = names_of(&self.roots, &mut self.reader, pids.clone());
        let all = pids.into_iter().zip(owners);
        let there = all.filter_map(|(pid, owner)| {
            let person = Person {
                name: names.remove(&pid),
                uid: Some(owner.ok()?),
            };
            Some((pid, person))
        });
        there.collect()
    }
}

/// The processes that a machine speaks of, without those of counters that are gone.
fn pids(devices: &[Device], regions: &[SharedMemory]) -> BTreeSet<i32> {
    let holders = devices.iter().flat_map(|device| device.holders.iter());
    let holders = holders.flatten().map(|holder| holder.pid);
    let contents = regions.iter().filter_map(|file| file.content.as_ref().ok());
    let slots = contents.flat_map(|content| content.region.processes.iter().zip(&content.liveness));
    let there = slots.filter(|(_process, state)| **state != Liveness::Dead);
    let counted = there.map(|(process, _state)| process.pid);
    holders.chain(counted).filter(|pid| *pid > 0).collect()
}
