//! A machine in a folder for tests in other languages: prints where it is, and removes it when its input ends.
//!
//! It has two cards. Of the first TT-Metal counts a process that nothing tracks; the counters of the second are full of
//! processes that are gone.

#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::io::Read as _;
use ttmem_machine::fuzz::{WrittenRegion, WrittenSlot};
use ttmem_machine::shm::Bytes;
use ttmem_machine::tree::{Tree, wormholes};

const MIB: u64 = 1 << 20;
const CHIPS: [u64; 2] = [0xA000_0000_0000_0000, 0xA000_0000_0000_0001];
const SLOTS: usize = 64;

fn main() -> std::io::Result<()> {
    let tree = Tree::with(&wormholes("n150", 2));
    tree.process(4242, "trainer", 10);
    tree.put("proc/driver/tenstorrent/0/pids", "4242\n");
    tree.count(&counters(0, vec![slot(0, 4242)]));
    let gone = (0..).zip(5000..).map(|(at, pid)| slot(at, pid));
    tree.count(&counters(1, gone.take(SLOTS).collect()));
    println!("{}", tree.at("").display());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn counters(device_id: u32, processes: Vec<WrittenSlot>) -> WrittenRegion {
    WrittenRegion {
        version: 4,
        id: CHIPS[device_id as usize],
        device_id,
        processes,
    }
}

fn slot(slot: usize, pid: i32) -> WrittenSlot {
    WrittenSlot {
        slot,
        pid,
        name: "python",
        bytes: Bytes {
            dram: 8 * MIB,
            l1: 3 * MIB,
            ..Bytes::default()
        },
    }
}
