//! The moments of failures: what is kept of them, and how much.

use crate::world::{Board, Process, World, identity};
use ttmem_event::{
    CbKind, ClashKind, Class, CoreSet, CoresId, EventKind, MeshId, ProgramId, Source, TextId,
};
use ttmem_ledger::testing::TestLedger;

const L1_BASE: u64 = 105_824;

/// The figures make each failure another one.
fn refused(class: Class, operation: u32, need: u64) -> EventKind {
    EventKind::AllocationFailed {
        mesh: MeshId(0),
        class,
        banks: 64,
        requested_bytes: need * 64,
        per_bank_bytes: need,
        free_bytes: 0,
        largest_free_bytes: 0,
        bank_bytes: 0,
        operation: TextId(operation),
        call_first: 0,
    }
}

fn clash(program: u64, region_end: u64) -> EventKind {
    EventKind::Clashed {
        mesh: MeshId(0),
        program: ProgramId(program),
        kind: ClashKind::L1Buffer,
        cores: CoresId(1),
        region_end,
        limit: 0,
        call_first: 0,
    }
}

#[test]
fn a_refused_request_keeps_the_blocks_of_its_allocator_as_they_were() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .text(7, "ttnn.linear")
        .alloc(1, Class::L1, L1_BASE, 4096)
        .alloc(2, Class::L1, L1_BASE + 8192, 2048)
        .alloc(3, Class::Dram, 1_048_640, 1024)
        .tell(refused(Class::L1, 7, 1 << 20))
        // What happens next is not part of it.
        .free(1)
        .alloc(4, Class::L1, L1_BASE, 64);
    let view = world.view();
    assert_eq!(view.failures.len(), 1);
    let moment = view.failures.iter().next().unwrap();
    assert_eq!(moment.origin.as_deref(), Some("ttnn.linear"));
    assert_eq!(&*moment.identity.name, "model");
    assert_eq!(moment.devices, [0]);
    assert_eq!(moment.capacity.unwrap().base, L1_BASE);
    let mut blocks: Vec<(u64, u64)> = moment
        .blocks
        .as_ref()
        .unwrap()
        .iter()
        .map(|block| (block.address, block.per_bank_bytes))
        .collect();
    blocks.sort_unstable();
    assert_eq!(blocks, [(L1_BASE, 4096), (L1_BASE + 8192, 2048)]);
}

#[test]
fn blocks_of_the_call_are_marked() {
    let (mut world, model) = World::n150();
    let mut failed = refused(Class::L1, 0, 1 << 20);
    if let EventKind::AllocationFailed { call_first, .. } = &mut failed {
        *call_first = 12;
    }
    let mut says = world.by(model);
    for (id, place) in (10..14).zip(0..) {
        says.alloc(id, Class::L1, L1_BASE + place * 64, 64);
    }
    says.tell(failed)
        .free(13)
        .alloc(15, Class::L1, L1_BASE + 3 * 64, 64);
    // The same failure of a later call is the same.
    if let EventKind::AllocationFailed { call_first, .. } = &mut failed {
        *call_first = 14;
    }
    says.tell(failed);
    let view = world.view();
    assert_eq!(view.failures.len(), 1);
    let moment = view.failures.iter().next().unwrap();
    assert_eq!(moment.times, 2);
    assert!(moment.is_call_known());
    let mut blocks: Vec<(u64, bool)> = moment
        .blocks
        .as_ref()
        .unwrap()
        .iter()
        .map(|block| ((block.address - L1_BASE) / 64, block.of_call.0))
        .collect();
    blocks.sort_unstable();
    assert_eq!(blocks, [(0, false), (1, false), (2, true), (3, true)]);
}

#[test]
fn a_clash_keeps_the_buffers_in_the_way_and_the_programs_storage() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .alloc(1, Class::L1, L1_BASE + 4096, 4096)
        .alloc(2, Class::L1, L1_BASE + 65_536, 4096)
        .create(5)
        .storage(CbKind::Dataflow, 5, 0, L1_BASE, 8192, 1)
        .tell(clash(5, L1_BASE + 8192));
    let view = world.view();
    let moment = view.failures.iter().next().unwrap();
    assert_eq!(moment.storage_start, Some(L1_BASE));
    assert!(moment.is_dataflow);
    assert_eq!(moment.cores, Some(CoreSet::grid(8, 8)));
    let blocks = moment.blocks.as_ref().unwrap();
    let blocks: Vec<u64> = blocks.iter().map(|block| block.address).collect();
    assert_eq!(blocks, [L1_BASE + 4096]);
}

#[test]
fn a_program_that_is_refused_at_another_line_is_another_failure() {
    let (mut world, model) = World::n150();
    let mut says = world.by(model);
    says.text(7, "ttnn.add\n/m/a.py:1 f");
    says.text(8, "ttnn.add\n/m/a.py:2 f");
    let named = |name| EventKind::ProgramCreated {
        program: ProgramId(5),
        name: TextId(name),
        runtime_id: 0,
        pointer: 0,
    };
    for name in [7, 7, 8] {
        says.tell(named(name)).tell(clash(5, L1_BASE + 8192));
    }
    let view = world.view();
    let kept = view.failures.iter();
    let kept: Vec<_> = kept
        .map(|moment| (moment.origin.as_deref(), moment.times))
        .collect();
    let [first, second] = ["ttnn.add\n/m/a.py:1 f", "ttnn.add\n/m/a.py:2 f"].map(Some);
    assert_eq!(kept, [(second, 1), (first, 2)]);
}

#[test]
fn the_same_failure_again_is_counted_and_old_ones_make_room() {
    let (mut world, model) = World::n150();
    let mut says = world.by(model);
    for _again in 0..1000 {
        says.tell(refused(Class::L1, 0, 1));
    }
    let view = world.view();
    let times: Vec<u64> = view.failures.iter().map(|moment| moment.times).collect();
    assert_eq!(times, [1000]);
    for need in 2..=100 {
        world.by(model).tell(refused(Class::L1, 0, need));
    }
    let view = world.view();
    assert_eq!(view.failures.len(), 64);
    // Those of the first 36 requests, of which one failed a thousand times.
    assert_eq!(view.failures.omitted, 1000 + 35);
    let newest = view.failures.iter().next().unwrap();
    assert_eq!(newest.event, refused(Class::L1, 0, 100));
}

/// A process that fails in a loop with many buffers has them copied now and then, not each time.
#[test]
fn blocks_that_are_copied_are_bounded_by_events() {
    const BUFFERS: u64 = 4096;
    const FAILURES: u64 = 150;
    let (mut world, model) = World::n150();
    let mut says = world.by(model);
    for id in 0..BUFFERS {
        says.alloc(id + 1, Class::L1, L1_BASE + id * 64, 64);
    }
    let mut copied = 0;
    for need in 1..=FAILURES {
        world.by(model).tell(refused(Class::L1, 0, need));
        let view = world.view();
        let blocks = view.failures.iter().next().unwrap().blocks.clone();
        copied += blocks.map_or(0, |blocks| blocks.len() as u64);
    }
    let allowed = (1 << 17) + (BUFFERS + FAILURES + 16) * 16;
    assert!(copied >= BUFFERS, "none was copied");
    assert!(copied < FAILURES * BUFFERS, "all were copied");
    assert!(copied <= allowed, "{copied} of {allowed}");
    let kept = world
        .view()
        .failures
        .iter()
        .map(|moment| moment.blocks.as_ref().map_or(0, |blocks| blocks.len()))
        .sum::<usize>();
    assert!(kept <= 1 << 18);
}

#[test]
fn a_failure_stays_when_its_process_is_gone() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .text(7, "ttnn.linear")
        .tell(refused(Class::Dram, 7, 1));
    world.depart(model, ttmem_ledger::Departure::Ended);
    let view = world.view();
    let moment = view.failures.iter().next().unwrap();
    assert_eq!(moment.origin.as_deref(), Some("ttnn.linear"));
}

#[test]
fn ended_processes_of_one_user_do_not_push_out_anothers() {
    let (mut world, model) = World::n150();
    world.depart(model, ttmem_ledger::Departure::Exited);
    for number in 0..200 {
        let mut other = identity("other", Source::Attached, "");
        (other.uid, other.pid) = (65_534, Some(1000 + number));
        let other = Process(world.ledger.get_mut().join(other));
        world.depart(other, ttmem_ledger::Departure::Exited);
    }
    let view = world.view();
    assert_eq!(view.departed.len(), 64);
    assert_eq!(&*view.departed[0].identity.name, "model");
}

#[test]
fn many_failures_do_not_push_out_those_of_another_process_or_user() {
    for uid in [None, Some(65_534)] {
        let (mut world, model) = World::n150();
        world.by(model).tell(refused(Class::L1, 0, 1 << 20));
        let mut other = identity("other", Source::Attached, "");
        other.pid = Some(77);
        other.uid = uid.unwrap_or(other.uid);
        let other = Process(world.ledger.get_mut().join(other));
        world.by(other).chip(0, &Board::N150);
        for need in 0..100 {
            world.by(other).tell(refused(Class::L1, 0, 4096 + need));
        }
        let view = world.view();
        assert_eq!((view.failures.len(), view.failures.omitted), (64, 37));
        let oldest = view.failures.iter().last().unwrap();
        assert_eq!(&*oldest.identity.name, "model", "user {uid:?}");
    }
}
