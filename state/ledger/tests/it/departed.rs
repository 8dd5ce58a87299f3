//! What stays known of a process that is gone: what its own peaks were made of, and what it left.

use crate::world::{Board, World, buffer};
use ttmem_event::{Class, EventKind, MeshId, TextId};
use ttmem_ledger::{Departure, GaugeKind, LeftBehind, View};

const DRAM: GaugeKind = GaugeKind::Class(Class::Dram);

/// A buffer of DRAM for an operation.
fn named(id: u64, address: u64, per_bank: u64, text: u32) -> EventKind {
    let mut event = buffer(MeshId(0), id, Class::Dram, address, per_bank, per_bank);
    if let EventKind::BufferAllocated {
        operation, banks, ..
    } = &mut event
    {
        (*operation, *banks) = (TextId(text), 12);
    }
    event
}

/// Operation, number and bytes of each group.
fn groups(view: &View, process: usize) -> Vec<(Option<String>, u64, u64)> {
    let departed = &view.departed[process];
    let peak = view.departed_peak(departed, 0, DRAM).expect("a peak");
    assert_eq!(peak.bytes(), peak.peak.bytes, "the groups are the peak");
    let groups = peak.groups.iter();
    groups
        .map(|group| {
            let name = group.name.as_deref().map(str::to_owned);
            (name, group.count, group.bytes)
        })
        .collect()
}

fn left(left: &LeftBehind) -> Vec<(Option<&str>, u64, u64)> {
    let groups = left.groups.iter();
    groups
        .map(|group| {
            let buffers = group.births.sum.buffers;
            (group.operation.as_deref(), buffers, group.bytes)
        })
        .collect()
}

#[test]
fn a_peak_of_its_own_outlives_its_process_whatever_others_held() {
    let (mut world, model) = World::n150();
    let other = world.process("other");
    world.by(other).chip(0, &Board::N150);
    world
        .by(model)
        .text(7, "ttnn.linear")
        .text(8, "ttnn.zeros")
        .tell(named(1, 1_048_640, 1000, 7))
        .tell(named(2, 1_050_000, 500, 8))
        .tell(named(3, 1_060_000, 500, 8))
        .free(1)
        .free(2);
    // The device is fullest now, and the model has little of that.
    world.by(other).alloc(1, Class::Dram, 2_000_000, 90_000);
    world.depart(model, Departure::Ended);
    let view = world.view();
    let name = |text: &str| Some(text.to_owned());
    assert_eq!(
        groups(&view, 0),
        [
            (name("ttnn.linear"), 1, 12_000),
            (name("ttnn.zeros"), 2, 12_000)
        ]
    );
    let at_exit = left(&view.departed[0].left_at_exit);
    assert_eq!(at_exit, [(Some("ttnn.zeros"), 1, 6000)]);
    assert_eq!(left(&view.departed[0].left_at_close), []);
}

#[test]
fn what_is_held_at_close_is_known_by_its_operation_and_what_is_freed_is_not() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .text(7, "ttnn.linear")
        .text(8, "ttnn.zeros")
        .tell(named(1, 1_048_640, 64, 7))
        .tell(named(2, 1_050_000, 64, 8))
        // Given back by a release of all: nothing is left behind by it.
        .release_all(None)
        .tell(named(3, 1_048_640, 64, 8))
        .tell(named(4, 1_050_000, 64, 8))
        .alloc(5, Class::L1, 105_824, 64)
        .close_mesh();
    let view = world.view();
    let process = view.process(0).unwrap();
    let expected = [(None, 1, 64 * 64), (Some("ttnn.zeros"), 2, 2 * 64 * 12)];
    assert_eq!(left(&process.left_at_close()), expected);
    world.depart(model, Departure::Exited);
    let view = world.view();
    assert_eq!(left(&view.departed[0].left_at_close), expected);
    assert_eq!(left(&view.departed[0].left_at_exit), []);
}
