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
    let mut bytes = vec![0; if version == 1 { 9280 } else { 8576 }];
    let first = version == 1;
    let counters = |unit: u64| (1..=if first { 6 } else { 5 }).map(move |class| class * unit);
    if version > 4 {
        return bytes;
    }
    put(&mut bytes, 0, &version.to_le_bytes());
    put(&mut bytes, 4, &2_u32.to_le_bytes());
    put(&mut bytes, 8, &1_800_000_000_000_000_000_u64.to_le_bytes());
    put(&mut bytes, 16, &2_u32.to_le_bytes());
    put(&mut bytes, 32, &unit.to_le_bytes());
    put(&mut bytes, 40, &3_u32.to_le_bytes());
    for (at, count) in (48..).step_by(8).zip(counters(3 * unit)) {
        put(&mut bytes, at, &count.to_le_bytes());
    }
    let (chips, chip_stride) = if first { (96, 56) } else { (88, 48) };
    for slot in 0..16 {
        let at = chips + slot * chip_stride;
        let id = if slot == 0 {
            3
        } else if first {
            0
        } else {
            u32::MAX
        };
        put(&mut bytes, at, &id.to_le_bytes());
        if slot == 0 {
            for (at, count) in (at + 8..).step_by(8).zip(counters(3 * unit)) {
                put(&mut bytes, at, &count.to_le_bytes());
            }
        }
    }
    let (processes, stride, written) = if first {
        (992, 128, 56)
    } else {
        (856, 120, 48)
    };
    // Slots are claimed and given back in any order: the last one is as good as the first.
    for (slot, share, pid, name) in [(5, 1, 4242_i32, "python"), (63, 2, 4243, "trainer")] {
        let at = processes + slot * stride;
        put(&mut bytes, at, &pid.to_le_bytes());
        for (at, count) in (at + 8..).step_by(8).zip(counters(share * unit)) {
            put(&mut bytes, at, &count.to_le_bytes());
        }
        put(
            &mut bytes,
            at + written,
            &1_800_000_000_000_000_000_u64.to_le_bytes(),
        );
        put(&mut bytes, at + written + 8, name.as_bytes());
    }
    if version == 4 {
        put(&mut bytes, 8536, &0x5245_4459_u32.to_le_bytes());
    }
    bytes
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + what.len()) {
        room.copy_from_slice(what);
    }
}
