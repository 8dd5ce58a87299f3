//! Which chips these are: their boards, and the ids that no other chip has.
//!
//! The runtime asks its description of the machine for the board of each chip while it
//! starts, long before a device is opened. What passes by then is kept; nothing is asked
//! that could fail, and nothing is reported before a chip is.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::interpose;
use crate::family::Family;
use crate::runtime::{Object, cluster};
use std::sync::Mutex;

pub(crate) static FAMILY: Family = Family::new("identities of chips");

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) unique_id: Option<u64>,
    pub(crate) board: Option<String>,
}

/// The chips by their numbers. Never waited for: what is not to be had at once is not known.
static CHIPS: Mutex<Vec<(u32, Identity)>> = Mutex::new(Vec::new());

pub(crate) fn of(chip: u32) -> Identity {
    let chips = CHIPS.try_lock().ok();
    let known = chips.and_then(|chips| {
        let own = chips.iter().find(|(number, _)| *number == chip);
        own.map(|(_, identity)| identity.clone())
    });
    known.unwrap_or_default()
}

/// Keeps what is known of a chip; what is said last counts, as numbers may be given anew.
fn keep(chip: u32, identity: Identity) {
    if let Ok(mut chips) = CHIPS.try_lock() {
        match chips.iter_mut().find(|(number, _)| *number == chip) {
            Some((_, known)) => *known = identity,
            None => chips.push((chip, identity)),
        }
    }
}

fn note(descriptor: Object, chip: i32, board: u32) -> Option<()> {
    let accessors = FAMILY.need(&*cluster::ACCESSORS)?;
    let chip = u32::try_from(chip).ok()?;
    let unique_id = FAMILY.ok_or_turn_off(accessors.unique_id(descriptor, chip))?;
    let board = accessors.board_name(board).map(str::to_owned);
    FAMILY.contain(|| keep(chip, Identity { unique_id, board }));
    Some(())
}

interpose! {
    /// `BoardType ClusterDescriptor::get_board_type(int) const`.
    "_ZNK2tt3umd17ClusterDescriptor14get_board_typeEi"
    fn get_board_type(descriptor: Object, chip: i32) -> u32 |real| {
        let board = real();
        if FAMILY.is_on() {
            note(descriptor, chip, board);
        }
        board
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_last_of_a_chip_counts() {
        let identity = |id| Identity {
            unique_id: Some(id),
            board: Some("n300".to_owned()),
        };
        assert_eq!(of(900), Identity::default());
        keep(900, identity(1));
        keep(901, identity(2));
        keep(900, identity(3));
        assert_eq!(of(900), identity(3));
        assert_eq!(of(901), identity(2));
    }
}
