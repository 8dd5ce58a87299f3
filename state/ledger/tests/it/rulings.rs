//! Cases where two readings are possible, and the one that holds.

mod accounting;
mod old_senders;
mod processes;

use crate::world::Board;
use ttmem_event::Class;
use ttmem_ledger::{Capacity, DeviceFacts};

const DRAM_BASE: u64 = Board::N150.classes[0].2;
const DRAM_BANK: u64 = Board::N150.classes[0].3;
const L1_BASE: u64 = 105_824;

/// Device 0 as a server's configuration gives it, with so much DRAM in each of 12 banks.
fn configured(per_bank_bytes: u64) -> DeviceFacts {
    let mut capacities = [None; Class::COUNT];
    capacities[Class::Dram.index()] = Some(Capacity {
        banks: 12,
        base: 0,
        per_bank_bytes,
    });
    DeviceFacts {
        capacities,
        ..DeviceFacts::default()
    }
}
