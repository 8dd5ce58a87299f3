//! What memory is taken by, for every view that draws or writes it: so that all say the same.

use crate::format;
use crate::{ClassUsage, Device};

/// What a part of occupied L1 is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum L1Part {
    /// What the runtime takes before any allocator.
    Reserved,
    /// Resident programs: circular buffers and their like.
    Storage,
    Buffers,
    /// The small region.
    Small,
}

/// What *occupied* of L1 consists of, in the order in which it lies there; none if it is not known.
///
/// What programs have resident is what is left of it: buffers that lie below circular buffers are
/// counted once. So the parts add up to *occupied*, whatever a server sent.
#[must_use]
pub fn parts_of_l1(device: &Device) -> Option<[(L1Part, u64); 4]> {
    let mut left = device.l1.occupied_bytes?;
    let mut take = |bytes: u64| {
        let part = bytes.min(left);
        left -= part;
        part
    };
    let reserved = take(device.l1.reserved_bytes.unwrap_or(0));
    let large = take(device.l1.used_bytes());
    let small = take(device.l1_small.used_bytes());
    Some([
        (L1Part::Reserved, reserved),
        (L1Part::Storage, left),
        (L1Part::Buffers, large),
        (L1Part::Small, small),
    ])
}

/// A warning for each memory of which more is taken than there is.
///
/// Bars and percentages end at 100 %, which alone would look like memory that is just full.
#[must_use]
pub fn over_capacity(device: &Device) -> Vec<(&'static str, String)> {
    let l1 = &device.l1;
    let occupied = l1.occupied_bytes.unwrap_or(0);
    let charged = |class: &ClassUsage| (class.used_bytes(), class.capacity_bytes);
    let memories = [
        ("DRAM", "charged", charged(&device.dram)),
        ("L1", "charged", charged(l1)),
        ("L1", "occupied", (occupied, l1.physical_bytes)),
        ("L1_SMALL", "charged", charged(&device.l1_small)),
        ("TRACE", "charged", charged(&device.trace)),
        ("SYSTEM", "charged", charged(&device.system)),
    ];
    let beyond = memories
        .into_iter()
        .filter_map(|(name, word, (used, whole))| {
            let whole = whole.filter(|whole| used > *whole)?;
            let (used, whole) = (format::bytes(used), format::bytes(whole));
            Some((name, format!("{name} {word} {used} of {whole}")))
        });
    beyond.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_l1_add_up_to_what_is_occupied() {
        let mut device = Device::default();
        let numbers = [0, 1, 1 << 20, 90 << 20, u64::MAX];
        for occupied in numbers {
            for taken in numbers {
                device.l1.occupied_bytes = Some(occupied);
                device.l1.reserved_bytes = Some(taken / 3);
                device.l1.union_bytes = Some(taken);
                device.l1_small.union_bytes = Some(taken / 2);
                let parts = parts_of_l1(&device).expect("it is known");
                let sum: u64 = parts.iter().map(|(_, part)| *part).sum();
                assert_eq!(sum, occupied);
            }
        }
        device.l1.occupied_bytes = None;
        assert_eq!(parts_of_l1(&device), None);
    }

    #[test]
    fn more_than_there_is_is_told_with_both_figures() {
        let mut device = Device::default();
        assert!(over_capacity(&device).is_empty());
        device.dram.capacity_bytes = Some(10 << 30);
        device.dram.union_bytes = Some(10 << 30);
        assert!(over_capacity(&device).is_empty());
        device.dram.union_bytes = Some(12 << 30);
        device.l1.physical_bytes = Some(90 << 20);
        device.l1.occupied_bytes = Some(95 << 20);
        let found: Vec<String> = over_capacity(&device)
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        assert_eq!(
            found,
            [
                "DRAM charged 12.0 GiB of 10.0 GiB",
                "L1 occupied 95.0 MiB of 90.0 MiB"
            ]
        );
        device.dram.capacity_bytes = None;
        assert_eq!(over_capacity(&device).len(), 1);
    }
}
