//! How the parts of the view share its rows.

use super::growth;

/// The least rows of what grows, of groups, of devices (a board of eight) and of processes.
pub(super) const LEAST: [u16; 4] = [3, 3, 8 + 1 + growth::OTHER_ROWS, 3];

/// The rows of a part with so many entries and some more, and a blank one.
pub(super) fn part(entries: usize, more: u16) -> u16 {
    match u16::try_from(entries).unwrap_or(u16::MAX) {
        0 => 0,
        rows => rows.saturating_add(more + 1),
    }
}

pub(super) fn hidden(needed: &[u16], rows: u16) -> u64 {
    let needed: u64 = needed.iter().map(|part| u64::from(*part)).sum();
    needed.saturating_sub(rows.into())
}

/// How many of some rows each part gets: its least if all of them have that, then an equal share of
/// what is left, up to what it needs.
pub(super) fn shared<const PARTS: usize>(
    needed: [u16; PARTS],
    least: [u16; PARTS],
    rows: u16,
) -> [u16; PARTS] {
    let least: [u16; PARTS] = std::array::from_fn(|part| needed[part].min(least[part]));
    let sum: u16 = least.iter().fold(0, |sum, rows| sum.saturating_add(*rows));
    let (mut given, mut left) = match rows.checked_sub(sum) {
        Some(left) => (least, left),
        None => ([0; PARTS], rows),
    };
    for _round in 0..needed.len() {
        let open = (0..PARTS).filter(|part| given[*part] < needed[*part]);
        let open: Vec<usize> = open.collect();
        let share = left / u16::try_from(open.len().max(1)).unwrap_or(1);
        for part in open {
            let more = (needed[part] - given[part]).min(share);
            given[part] += more;
            left -= more;
        }
    }
    given
}
