//! Which chip a device of the ledger is, and whose counters a file has.
//!
//! The driver, the runtime and the counters each have numbers of their own for a chip. Where these agree they
//! decide; a logical id decides where it is counted over all chips, and is ambiguous otherwise.

use std::collections::{HashMap, HashSet};
use ttmem_ledger::{Device, DeviceKey, View};
use ttmem_machine::shm::SharedMemory;
use ttmem_machine::{Chip, Liveness, Sample};

/// By what a file was found to be a device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchedBy {
    UniqueId,
    AsicId,
    Board,
    LogicalId,
}

impl MatchedBy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::UniqueId => "unique_id",
            Self::AsicId => "asic_id",
            Self::Board => "board",
            Self::LogicalId => "logical_id",
        }
    }
}

/// How much a file's claim to a device weighs, the most first. Anybody can make a file of any name: one that counts
/// for nobody takes the place of none that does, and one that counts for its owner's processes stands beside
/// those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// Root's, and counts for processes that are there.
    Root,
    /// Counts for processes of its owner that are there.
    Lives,
    /// Has figures.
    Readable,
    /// Cannot be read, or is no region.
    Unreadable,
}

impl Weight {
    /// Whether it counts for processes that are there.
    fn lives(self) -> bool {
        matches!(self, Self::Root | Self::Lives)
    }

    fn of(file: &SharedMemory, sample: &Sample) -> Self {
        let Ok(content) = &file.content else {
            return Self::Unreadable;
        };
        let mut slots = content.region.processes.iter().zip(&content.liveness);
        let lives = slots.any(|(slot, liveness)| {
            let user = sample.people.get(&slot.pid).and_then(|person| person.uid);
            *liveness == Liveness::Alive && file.may_count(user)
        });
        match (lives, file.owner) {
            (true, Some(0)) => Self::Root,
            (true, _) => Self::Lives,
            (false, _) => Self::Readable,
        }
    }
}

/// Numbers that only one chip has.
const EXACT: &[MatchedBy] = &[MatchedBy::UniqueId, MatchedBy::AsicId, MatchedBy::Board];

/// A number that several chips may have.
const LOOSE: &[MatchedBy] = &[MatchedBy::LogicalId];

/// In which order files are given to devices: what counts for processes goes before what does not, a number that
/// only one can have before one that several may mean, and root's file before those of others.
const ORDER: [(&[MatchedBy], Weight); 7] = [
    (EXACT, Weight::Root),
    (EXACT, Weight::Lives),
    (LOOSE, Weight::Root),
    (LOOSE, Weight::Lives),
    (EXACT, Weight::Readable),
    (LOOSE, Weight::Readable),
    (EXACT, Weight::Unreadable),
];

/// What belongs together, by the places of devices in the view, of chips and of files in the sample.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// The chip of each device.
    pub(super) chips: Vec<Option<usize>>,
    /// The files of each device, the one that weighs most first; of an owner there is one.
    pub(super) files: Vec<Vec<(usize, MatchedBy)>>,
}

impl Matches {
    pub(super) fn of(view: &View, sample: &Sample) -> Self {
        let devices = view.devices.iter().enumerate();
        let chips: Vec<Option<usize>> = devices
            .map(|(index, device)| chip_of(view, index, device, &sample.chips))
            .collect();
        let mut files: Vec<Vec<(usize, MatchedBy)>> = vec![Vec::new(); chips.len()];
        let regions = sample.regions.as_deref().unwrap_or_default();
        let weights: Vec<Weight> = regions
            .iter()
            .map(|file| Weight::of(file, sample))
            .collect();
        let mut is_known = vec![false; regions.len()];
        let passes = ORDER
            .iter()
            .flat_map(|(by, weight)| by.iter().map(|by| (*by, *weight)));
        for (by, weight) in passes {
            let open = (0..regions.len()).filter(|file| weights[*file] == weight);
            let open = open.filter(|file| !is_known[*file]);
            let found: Vec<(usize, usize)> = open
                .filter_map(|file| {
                    let device = device_of(view, &chips, sample, (&regions[file], by))?;
                    Some((file, device))
                })
                .collect();
            // How many files an owner has of a device: several could each be meant, and none is taken.
            let mut claims: HashMap<(usize, Option<u32>), usize> = HashMap::new();
            for (file, device) in &found {
                *claims.entry((*device, regions[*file].owner)).or_default() += 1;
            }
            // A number that only one chip has also stands beside files that were given by one that several may have.
            let is_exact = EXACT.contains(&by);
            let has = files.iter().map(|known| {
                let mut known = known.iter();
                known.any(|(_file, its)| !is_exact || EXACT.contains(its))
            });
            let has: Vec<bool> = has.collect();
            for (file, device) in found {
                let owner = regions[file].owner;
                let is_of_owner =
                    |(other, _by): &(usize, MatchedBy)| regions[*other].owner == owner;
                let is_free = match weight.lives() {
                    true => !files[device].iter().any(is_of_owner),
                    false => !has[device],
                };
                if is_free && claims[&(device, owner)] == 1 {
                    files[device].push((file, by));
                    is_known[file] = true;
                }
            }
        }
        Self { chips, files }
    }

    /// The files of no device.
    pub(super) fn unmatched(&self, count: usize) -> Vec<usize> {
        let known: HashSet<usize> = self.files.iter().flatten().map(|(file, _)| *file).collect();
        (0..count).filter(|file| !known.contains(file)).collect()
    }

    /// The devices that are reached through a card.
    pub(super) fn devices_of_card<'a>(
        &'a self,
        sample: &'a Sample,
        ordinal: u32,
    ) -> impl Iterator<Item = usize> + 'a {
        let chips = self.chips.iter().enumerate();
        chips.filter_map(move |(device, chip)| {
            let chip = &sample.chips[(*chip)?];
            (chip.ordinal == ordinal).then_some(device)
        })
    }
}

/// The chip of a device: by its own number, else by its logical id if that counts over all chips.
fn chip_of(view: &View, index: usize, device: &Device, chips: &[Chip]) -> Option<usize> {
    if let Some(id) = device.facts.unique_id
        && let Some(chip) = chips.iter().position(|chip| chip.asic_id == Some(id))
    {
        return Some(chip);
    }
    let id = device.facts.logical_id;
    let is_it = |chip: &Chip| chip.logical_id == id && !differs(device, chip);
    counts_all(view, index, device)
        .then(|| chips.iter().position(is_it))
        .flatten()
}

/// Whether what a device reports of itself rules a chip out.
fn differs(device: &Device, chip: &Chip) -> bool {
    let arch = device.facts.arch.zip(chip.arch);
    let remote = device.facts.remote;
    arch.is_some_and(|(reported, known)| reported != known)
        || remote.is_some_and(|remote| remote != chip.is_remote)
}

/// Whether a device's logical id is counted over all chips of the machine.
fn counts_all(view: &View, index: usize, device: &Device) -> bool {
    match &device.key {
        DeviceKey::Logical { visible, .. } => visible.is_empty(),
        DeviceKey::Unique(_) => {
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            let uses = |process: &&ttmem_ledger::ProcessView| process.device_slot(number).is_some();
            let mut users = view.processes.iter().filter(uses).peekable();
            users.peek().is_some()
                && users.all(|process| process.facts.identity.visible_devices.is_empty())
        }
    }
}

/// The device that a file counts for, by one of its numbers.
fn device_of(
    view: &View,
    chips: &[Option<usize>],
    sample: &Sample,
    (file, by): (&SharedMemory, MatchedBy),
) -> Option<usize> {
    let all = &sample.chips;
    let of_chip = |is_it: &dyn Fn(&Chip) -> bool| {
        let found = chips.iter().enumerate();
        let found = found.filter(|(_device, chip)| chip.is_some_and(|chip| is_it(&all[chip])));
        only(view, found.map(|(device, _chip)| device))
    };
    match by {
        MatchedBy::UniqueId => {
            let mut devices = view.devices.iter();
            devices.position(|device| device.facts.unique_id == Some(file.id))
        }
        MatchedBy::AsicId => of_chip(&|chip| chip.asic_id == Some(file.id)),
        MatchedBy::Board => {
            let version = file.content.as_ref().map(|content| content.region.version);
            of_chip(&|chip| is_on_board(chip, all, (file.id, version.ok())))
        }
        MatchedBy::LogicalId => {
            let region = &file.content.as_ref().ok()?.region;
            of_chip(&|chip| chip.logical_id == region.device_id)
        }
    }
}

/// Whether a number is made of the chip's board and its place there.
fn is_on_board(chip: &Chip, all: &[Chip], (id, version): (u64, Option<u32>)) -> bool {
    let Some(serial) = chip.serial else {
        return false;
    };
    let place = chip.place_on_board();
    if version == Some(1) {
        // The number of the board and a byte: what does not fit is cut off.
        return id == serial << 8 | place;
    }
    // Without a trained link the board's number stands for its only chip.
    let on_board = all.iter().filter(|other| other.serial == Some(serial));
    (id == serial && on_board.count() == 1) || (!chip.is_remote && id == serial << 5 | place)
}

/// The only one of some devices, or the only one of them that is in use.
fn only(view: &View, found: impl Iterator<Item = usize>) -> Option<usize> {
    let found: Vec<usize> = found.collect();
    if let [one] = found[..] {
        return Some(one);
    }
    let mut used = found
        .into_iter()
        .filter(|device| view.devices[*device].is_in_use());
    let one = used.next()?;
    used.next().is_none().then_some(one)
}
