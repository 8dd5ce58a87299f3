//! The bytes of the region, versions 1 to 4: a pure function from bytes to figures.
//!
//! Offsets are those of upstream's structures as compiled for x86-64. Version 1 has one counter more in every
//! place (kernels); 2, 3 and 4 are laid out alike, and 4 has a word that says whether it is initialised.

/// The longest of all versions.
pub(crate) const LONGEST: usize = 9280;

const CHIPS: usize = 16;
const PROCESSES: usize = 64;
const NAME_BYTES: usize = 64;

const NO_CHIP: u32 = u32::MAX;
const RELEASING: i32 = -1;

/// Where version 4 says whether it is initialised, and that it is.
const INIT_STATE: usize = 8536;
const READY: u32 = 0x5245_4459;

/// Where a version has what.
#[derive(Debug)]
struct Layout {
    /// Upstream's size, and where others differ the size that its readers map.
    sizes: &'static [usize],
    has_kernels: bool,
    chips: usize,
    chip_stride: usize,
    processes: usize,
    process_stride: usize,
}

const FIRST: Layout = Layout {
    sizes: &[9280, 9248],
    has_kernels: true,
    chips: 96,
    chip_stride: 56,
    processes: 992,
    process_stride: 128,
};

const LATER: Layout = Layout {
    sizes: &[8576, 8536],
    has_kernels: false,
    chips: 88,
    chip_stride: 48,
    processes: 856,
    process_stride: 120,
};

const FOURTH: Layout = Layout {
    sizes: &[8576],
    ..LATER
};

/// Bytes by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub dram: u64,
    pub l1: u64,
    pub l1_small: u64,
    pub trace: u64,
    pub cb: u64,
    /// Version 1 only.
    pub kernel: Option<u64>,
}

impl Bytes {
    /// Each class with upstream's name for it.
    #[must_use]
    pub fn classes(&self) -> [(&'static str, u64); 5] {
        [
            ("DRAM", self.dram),
            ("L1", self.l1),
            ("L1_SMALL", self.l1_small),
            ("TRACE", self.trace),
            ("CB", self.cb),
        ]
    }

    /// The sum of some; a file may claim more than there can be.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, one| Self {
            dram: sum.dram.saturating_add(one.dram),
            l1: sum.l1.saturating_add(one.l1),
            l1_small: sum.l1_small.saturating_add(one.l1_small),
            trace: sum.trace.saturating_add(one.trace),
            cb: sum.cb.saturating_add(one.cb),
            kernel: match (sum.kernel, one.kernel) {
                (Some(sum), Some(one)) => Some(sum.saturating_add(one)),
                (sum, one) => sum.or(one),
            },
        })
    }

    /// Whether nothing is counted.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.classes().iter().all(|(_name, bytes)| *bytes == 0) && self.kernel.unwrap_or(0) == 0
    }
}

/// What a region says of one chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChipFigures {
    pub slot: usize,
    /// The logical id that the writing process had for it.
    pub chip_id: u32,
    pub is_remote: bool,
    pub bytes: Bytes,
}

/// What a region says of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFigures {
    pub slot: usize,
    pub pid: i32,
    pub bytes: Bytes,
    /// Nanoseconds since the epoch.
    pub last_update_nanos: u64,
    /// The name of its main thread when it attached; control characters are replaced.
    pub name: String,
}

/// Something in a region that does not agree with the rest of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    #[error("{class}: {total} B in all, but the processes add up to {processes} B")]
    Total {
        class: &'static str,
        total: u64,
        processes: u64,
    },
    #[error("it says {said} processes, but {found} slots are taken")]
    Processes { said: u32, found: usize },
    #[error("its name has the id {name}, it says {inside}")]
    Name { name: u64, inside: u64 },
    #[error("process {pid} has more than one slot")]
    Twice { pid: i32 },
    #[error("slot {slot} has {pid} for a process")]
    Pid { slot: usize, pid: i32 },
    #[error("all {PROCESSES} slots are taken: TT-Metal does not count any other process")]
    Full,
}

/// Why bytes are no region.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefuseRegion {
    #[error("{bytes} bytes are no region")]
    TooShort { bytes: usize },
    #[error("not initialised yet")]
    Uninitialised,
    #[error("version {version} is not known (1 to 4 are): its figures are not shown")]
    UnknownVersion { version: u32 },
    #[error("{bytes} bytes, but version {version} has {expected}")]
    WrongSize {
        version: u32,
        bytes: usize,
        expected: usize,
    },
    #[error("being initialised (state {state:#x})")]
    NotReady { state: u32 },
}

/// The figures of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    pub version: u32,
    /// Nanoseconds since the epoch.
    pub last_update_nanos: u64,
    /// Processes that have attached and not left; those that crashed never leave.
    pub attached: u32,
    /// Version 1: the board.
    pub board_serial: u64,
    /// From version 2 on: UMD's unique id of the chip; in version 1, its place on the board.
    pub asic_id: u64,
    pub device_id: u32,
    pub totals: Bytes,
    pub chips: Vec<ChipFigures>,
    pub processes: Vec<ProcessFigures>,
    /// Slots that are just being given back (version 4).
    pub releasing: u32,
    pub doubts: Vec<Doubt>,
}

impl Region {
    /// Reads a region; `name` is the id in the file's name.
    ///
    /// # Errors
    /// When it is of an unknown version, of another size than its version, or not initialised.
    pub fn parse(bytes: &[u8], name: Option<u64>) -> Result<Self, RefuseRegion> {
        let words = Words(bytes);
        let too_short = RefuseRegion::TooShort { bytes: bytes.len() };
        let version = words.u32(0).ok_or(too_short.clone())?;
        let layout = match version {
            0 => return Err(RefuseRegion::Uninitialised),
            1 => &FIRST,
            2 | 3 => &LATER,
            4 => &FOURTH,
            version => return Err(RefuseRegion::UnknownVersion { version }),
        };
        if !layout.sizes.contains(&bytes.len()) {
            return Err(RefuseRegion::WrongSize {
                version,
                bytes: bytes.len(),
                expected: layout.sizes[0],
            });
        }
        if version == 4 {
            let state = words.u32(INIT_STATE).ok_or(too_short.clone())?;
            if state != READY {
                return Err(RefuseRegion::NotReady { state });
            }
        }
        let mut region = words.region(version, layout).ok_or(too_short)?;
        region.doubts = region.doubted(words.u32(4).unwrap_or(0), name);
        Ok(region)
    }

    /// Whether another reading says the same, but for when it was last written.
    pub(crate) fn has_figures_of(&self, other: &Self) -> bool {
        let slot = |process: &ProcessFigures| (process.slot, process.pid, process.bytes);
        let is_same = |(one, other): (&ProcessFigures, &ProcessFigures)| {
            slot(one) == slot(other) && one.name == other.name
        };
        let numbers = |region: &Self| {
            let ids = (region.board_serial, region.asic_id, region.device_id);
            let counts = (region.attached, region.releasing, region.processes.len());
            (region.version, ids, counts, region.totals)
        };
        numbers(self) == numbers(other)
            && self.chips == other.chips
            && self.doubts == other.doubts
            && self.processes.iter().zip(&other.processes).all(is_same)
    }

    fn doubted(&self, said: u32, name: Option<u64>) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        if let Some(name) = name
            && self.version > 1
            && name != self.asic_id
        {
            doubts.push(Doubt::Name {
                name,
                inside: self.asic_id,
            });
        }
        let found = self.processes.len();
        if u32::try_from(found) != Ok(said) {
            doubts.push(Doubt::Processes { said, found });
        }
        if found == PROCESSES {
            doubts.push(Doubt::Full);
        }
        let mut pids: Vec<i32> = self.processes.iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        let mut twice: Vec<i32> = pids
            .windows(2)
            .filter_map(|pair| (pair[0] == pair[1]).then_some(pair[0]))
            .collect();
        twice.dedup();
        doubts.extend(twice.into_iter().map(|pid| Doubt::Twice { pid }));
        let negative = self.processes.iter().filter(|process| process.pid < 0);
        doubts.extend(negative.map(|process| Doubt::Pid {
            slot: process.slot,
            pid: process.pid,
        }));
        let processes = Bytes::sum(self.processes.iter().map(|process| &process.bytes));
        let classes = self.totals.classes().into_iter().zip(processes.classes());
        // Before version 4 circular buffers are stored, not added up.
        let added = classes.filter(|((class, _), _)| self.version >= 4 || *class != "CB");
        doubts.extend(added.filter_map(|((class, total), (_, processes))| {
            (total != processes).then_some(Doubt::Total {
                class,
                total,
                processes,
            })
        }));
        doubts
    }
}

/// Bytes to read little-endian numbers from.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn i32(&self, at: usize) -> Option<i32> {
        self.array(at).map(i32::from_le_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// Five counters, or six.
    fn bytes(&self, at: usize, layout: &Layout) -> Option<Bytes> {
        Some(Bytes {
            dram: self.u64(at)?,
            l1: self.u64(at + 8)?,
            l1_small: self.u64(at + 16)?,
            trace: self.u64(at + 24)?,
            cb: self.u64(at + 32)?,
            kernel: match layout.has_kernels {
                true => Some(self.u64(at + 40)?),
                false => None,
            },
        })
    }

    fn region(&self, version: u32, layout: &Layout) -> Option<Region> {
        let mut chips = Vec::new();
        for slot in 0..CHIPS {
            chips.extend(self.chip(slot, layout)?);
        }
        let mut processes = Vec::new();
        let mut releasing = 0;
        for slot in 0..PROCESSES {
            let process = self.process(slot, layout)?;
            match process.pid {
                0 => {}
                RELEASING if version >= 4 => releasing += 1,
                _ => processes.push(process),
            }
        }
        Some(Region {
            version,
            last_update_nanos: self.u64(8)?,
            attached: self.u32(16)?,
            board_serial: self.u64(24)?,
            asic_id: self.u64(32)?,
            device_id: self.u32(40)?,
            totals: self.bytes(48, layout)?,
            chips,
            processes,
            releasing,
            doubts: Vec::new(),
        })
    }

    /// The chip of a slot, if it is taken.
    fn chip(&self, slot: usize, layout: &Layout) -> Option<Option<ChipFigures>> {
        let at = layout.chips + slot * layout.chip_stride;
        let chip = ChipFigures {
            slot,
            chip_id: self.u32(at)?,
            is_remote: self.u32(at + 4)? != 0,
            bytes: self.bytes(at + 8, layout)?,
        };
        // Version 1 marks an empty slot by 0, which is a chip as well.
        let is_empty = match layout.has_kernels {
            true => chip.chip_id == 0 && !chip.is_remote && chip.bytes.is_zero(),
            false => chip.chip_id == NO_CHIP,
        };
        Some((!is_empty).then_some(chip))
    }

    fn process(&self, slot: usize, layout: &Layout) -> Option<ProcessFigures> {
        let at = layout.processes + slot * layout.process_stride;
        let after = at + if layout.has_kernels { 56 } else { 48 };
        let name: [u8; NAME_BYTES] = self.array(after + 8)?;
        let end = name.iter().position(|byte| *byte == 0);
        let name = String::from_utf8_lossy(&name[..end.unwrap_or(NAME_BYTES)]);
        let shown = |letter: char| match letter.is_control() {
            true => char::REPLACEMENT_CHARACTER,
            false => letter,
        };
        Some(ProcessFigures {
            slot,
            pid: self.i32(at)?,
            bytes: self.bytes(at + 8, layout)?,
            last_update_nanos: self.u64(after)?,
            name: name.chars().map(shown).collect(),
        })
    }
}
