//! Writers of upstream's shared memory, and what has to hold of any bytes: for tests and for the fuzz target.

use crate::shm::{Bytes, LONGEST, Region};

/// The input of the fuzz target: what to begin with, then changes of eight bytes each.
///
/// `[version, size low, size high, (offset low, offset high, eight bytes)…]`; a version above 4 begins with
/// zeros, and a size of 0 is that of the version.
pub fn check_region(input: &[u8]) {
    let (head, changes) = input.split_at(input.len().min(3));
    let [version, low, high] = [0, 1, 2].map(|at| head.get(at).copied().unwrap_or(0));
    let mut bytes = region(u32::from(version), 7);
    let size = usize::from(u16::from_le_bytes([low, high]));
    if size != 0 {
        bytes.resize(size.min(LONGEST + 64), 0);
    }
    for change in changes.chunks_exact(10) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if let Some(room) = bytes.get_mut(at..at.saturating_add(8)) {
            room.copy_from_slice(&change[2..]);
        }
    }
    check(&bytes);
}

/// What holds of any bytes: they are refused, or what they say is bounded and can be shown.
pub fn check(bytes: &[u8]) {
    let Ok(region) = Region::parse(bytes, Some(7)) else {
        return;
    };
    assert!((1..=4).contains(&region.version));
    assert!(region.chips.len() <= 16 && region.processes.len() <= 64);
    assert!(region.processes.iter().all(|process| process.pid != 0));
    for process in &region.processes {
        assert!(!process.name.chars().any(char::is_control));
        assert!(process.name.chars().count() <= 64);
    }
    let sum = Bytes::sum(region.processes.iter().map(|process| &process.bytes));
    let said = |class: &str| {
        region
            .doubts
            .iter()
            .any(|doubt| doubt.to_string().contains(class))
    };
    assert!(sum.dram == region.totals.dram || said("DRAM"));
    assert!(region.has_figures_of(&region));
    assert_eq!(Region::parse(bytes, Some(7)).as_ref(), Ok(&region));
    let _shown = format!("{region:?} {:?}", region.doubts);
}

/// A region as upstream writes it: a device with one chip and two processes, all figures a multiple of `unit`.
#[must_use]
pub fn region(version: u32, unit: u64) -> Vec<u8> {
    let counters = |unit: u64| Bytes {
        dram: unit,
        l1: 2 * unit,
        l1_small: 3 * unit,
        trace: 4 * unit,
        cb: 5 * unit,
        kernel: Some(6 * unit),
    };
    // Slots are claimed and given back in any order: the last one is as good as the first.
    let slot = |slot, pid, name, share| WrittenSlot {
        slot,
        pid,
        name,
        bytes: counters(share * unit),
    };
    let written = WrittenRegion {
        version,
        id: unit,
        device_id: 3,
        processes: vec![slot(5, 4242, "python", 1), slot(63, 4243, "trainer", 2)],
    };
    written.bytes()
}

/// What a region is to say.
#[derive(Clone, Debug)]
pub struct WrittenRegion {
    pub version: u32,
    /// The chip's number.
    pub id: u64,
    /// The writer's logical id of it.
    pub device_id: u32,
    pub processes: Vec<WrittenSlot>,
}

/// A process in a region.
#[derive(Clone, Debug)]
pub struct WrittenSlot {
    pub slot: usize,
    pub pid: i32,
    pub name: &'static str,
    pub bytes: Bytes,
}

/// When all of them were written, in nanoseconds since the epoch.
const WRITTEN_NANOS: u64 = 1_800_000_000_000_000_000;

impl WrittenRegion {
    /// The file, as upstream lays it out; a version that is not known is nothing but its number.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let first = self.version == 1;
        let mut bytes = vec![0; if first { 9280 } else { 8576 }];
        put(&mut bytes, 0, &self.version.to_le_bytes());
        if !(1..=4).contains(&self.version) {
            return bytes;
        }
        let count = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        put(&mut bytes, 4, &count.to_le_bytes());
        put(&mut bytes, 8, &WRITTEN_NANOS.to_le_bytes());
        put(&mut bytes, 16, &count.to_le_bytes());
        put(&mut bytes, 32, &self.id.to_le_bytes());
        put(&mut bytes, 40, &self.device_id.to_le_bytes());
        let totals = Bytes::sum(self.processes.iter().map(|process| &process.bytes));
        put_counters(&mut bytes, 48, &totals, first);
        let (chips, chip_stride) = if first { (96, 56) } else { (88, 48) };
        for slot in 0..16 {
            let at = chips + slot * chip_stride;
            let empty = if first { 0 } else { u32::MAX };
            let id = if slot == 0 { self.device_id } else { empty };
            put(&mut bytes, at, &id.to_le_bytes());
            if slot == 0 {
                put_counters(&mut bytes, at + 8, &totals, first);
            }
        }
        let (processes, stride, written) = if first {
            (992, 128, 56)
        } else {
            (856, 120, 48)
        };
        for process in &self.processes {
            let at = processes + process.slot * stride;
            put(&mut bytes, at, &process.pid.to_le_bytes());
            put_counters(&mut bytes, at + 8, &process.bytes, first);
            put(&mut bytes, at + written, &WRITTEN_NANOS.to_le_bytes());
            put(&mut bytes, at + written + 8, process.name.as_bytes());
        }
        if self.version == 4 {
            put(&mut bytes, 8536, &0x5245_4459_u32.to_le_bytes());
        }
        bytes
    }
}

fn put_counters(bytes: &mut [u8], at: usize, counters: &Bytes, has_kernels: bool) {
    let classes = counters.classes().into_iter().map(|(_name, size)| size);
    let kernel = has_kernels.then(|| counters.kernel.unwrap_or(0));
    for (at, count) in (at..).step_by(8).zip(classes.chain(kernel)) {
        put(bytes, at, &count.to_le_bytes());
    }
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + what.len()) {
        room.copy_from_slice(what);
    }
}
