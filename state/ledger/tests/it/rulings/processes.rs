//! Who a process and a device are, and what a reconnect carries over.

use super::{DRAM_BASE, L1_BASE};
use crate::world::{Board, Process, World, buffer, device, identity, mesh};
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoreSet, CoreType, CoresId, Definition, DispatchPath,
    EventKind, MeshId, ProgramId, Source, TextId, TraceId,
};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{
    AccountLimits, Anomaly, Change, Departure, DeviceKey, Limits, ProcessState, Released,
};

#[test]
fn a_fork_starts_empty_and_frees_of_its_parents_buffers_are_inherited() {
    let (mut world, parent) = World::n150();
    world.by(parent).alloc(7, Class::Dram, DRAM_BASE, 100);
    let child = world.process("child");
    let first_buffer = BufferId(8);
    world
        .by(child)
        .tell(EventKind::Forked { first_buffer })
        .chip(0, &Board::N150)
        .free(7)
        .alloc(8, Class::Dram, DRAM_BASE, 10)
        .free(8)
        .expecting(Anomaly::UnknownFree)
        .free(8);
    assert_eq!(world.charged(0, Class::Dram), 1200);
    assert_eq!(world.process_view(child).account.inherited_frees, 1);
    assert_eq!(world.all_anomalies(), 1);
    world.by(parent).free(7);
    assert_eq!(world.charged(0, Class::Dram), 0);
}

#[test]
fn a_chip_is_its_unique_id_else_its_number_among_the_visible() {
    let mut world = World::new();
    let (one, two) = (
        world.process_seeing("one", "0,1"),
        world.process_seeing("two", "1"),
    );
    // The same chip under two numbers.
    world.by(one).device(1, Some(99), &Board::N150);
    world.by(two).device(0, Some(99), &Board::N150);
    assert_eq!(world.view().devices.len(), 1);
    // The same number under two sets: who knows.
    world.by(one).device(5, None, &Board::N150);
    world.by(two).device(5, None, &Board::N150);
    let keys: Vec<DeviceKey> = world
        .view()
        .devices
        .iter()
        .map(|device| device.key.clone())
        .collect();
    let logical = |visible: &str, id| DeviceKey::Logical {
        visible: visible.into(),
        id,
    };
    assert_eq!(
        keys,
        [DeviceKey::Unique(99), logical("0,1", 5), logical("1", 5)]
    );
}

#[test]
fn mesh_ids_may_be_chip_ids_and_mesh_order_is_not_chip_order() {
    let mut world = World::new();
    let model = world.process("model");
    let mut says = world.by(model);
    for id in 0..3 {
        says.device(id, Some(u64::from(id)), &Board::N150);
    }
    says.mesh(0, &[2, 1], &Board::N150)
        .alloc(1, Class::Dram, DRAM_BASE, 100)
        .mesh(1, &[0], &Board::N150)
        .alloc(2, Class::Dram, DRAM_BASE, 7);
    let charged = [0, 1, 2].map(|device| world.charged(device, Class::Dram));
    assert_eq!(charged, [84, 1200, 1200]);
}

#[test]
fn a_refused_definition_leaves_no_device_behind() {
    let mut world = World::with_limits(Limits {
        account: AccountLimits {
            devices: 2,
            ..AccountLimits::default()
        },
        ..Limits::default()
    });
    let model = world.process("model");
    world
        .by(model)
        .device(0, Some(1), &Board::N150)
        .device(1, Some(2), &Board::N150)
        .expecting(Anomaly::Redefined)
        .device(0, Some(3), &Board::N150)
        .expecting(Anomaly::LimitReached)
        .device(2, Some(4), &Board::N150)
        // Nor may one device have any number of ids.
        .expecting(Anomaly::LimitReached)
        .device(3, Some(1), &Board::N150);
    assert_eq!(world.view().devices.len(), 2);
}

#[test]
fn a_mesh_of_one_chip_under_two_ids_or_of_a_chip_nobody_defined_is_refused() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .device(1, Some(9), &Board::N150)
        .device(2, Some(9), &Board::N150)
        .expecting(Anomaly::Redefined)
        .define(&mesh(7, &[1, 2]))
        .expecting(Anomaly::Undefined)
        .define(&mesh(8, &[3]));
    assert_eq!(world.process_view(model).account.meshes.len(), 1);
}

#[test]
fn core_set_0_and_text_0_stand_for_none_and_cannot_be_defined() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .expecting(Anomaly::Malformed)
        .cores(0, CoreSet::grid(1, 1))
        .expecting(Anomaly::Malformed)
        .text(0, "nothing")
        .expecting(Anomaly::Undefined)
        .cb(1, 0, L1_BASE, 10, 0);
}

/// Definitions of one n150 and of a full grid.
fn n150_definitions() -> Vec<Definition> {
    let (id, cores) = (CoresId(1), CoreSet::grid(8, 8));
    vec![
        device(0, None, &Board::N150),
        mesh(0, &[0]),
        Definition::Cores { id, cores },
    ]
}

#[test]
fn a_resync_swaps_the_whole_process_and_carries_peaks_and_counters() {
    let (mut world, model) = World::n150();
    let other = world.process("other");
    world.by(other).chip(0, &Board::N150);
    world.by(other).alloc(1, Class::Dram, DRAM_BASE, 5);
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .alloc(1, Class::Dram, DRAM_BASE, 100)
        .alloc(2, Class::L1, 1_000_000, 100)
        .cb(1, 0, L1_BASE, 10, 1)
        .dispatch(1)
        .expecting(Anomaly::UnknownFree)
        .free(77);
    let began = Change::BeginResync { process: model.0 };
    world.ledger.get_mut().make(began);
    assert!(world.process_view(model).facts.resyncing);
    assert_eq!(world.charged(0, Class::Dram), 105 * 12);

    let storage = EventKind::CbAllocated {
        mesh: MeshId(0),
        program: ProgramId(4),
        cb: 0,
        kind: CbKind::Local,
        address: L1_BASE,
        size_bytes: 3,
        cores: CoresId(1),
    };
    let freed = EventKind::BufferFreed {
        mesh: MeshId(0),
        buffer: BufferId(8),
    };
    let run = EventKind::Dispatched {
        mesh: MeshId(0),
        program: ProgramId(5),
        runtime_id: 0,
        operation: TextId::NONE,
        program_cache: CacheResult::Hit,
        binary_reused: false,
        path: DispatchPath::Fast,
    };
    let mut whats = vec![
        buffer(MeshId(0), 8, Class::Dram, DRAM_BASE, 4404, 4404),
        buffer(MeshId(0), 9, Class::Dram, DRAM_BASE, 40, 40),
        freed,
        storage,
    ];
    whats.extend([run; 12]);
    world.resync(model, &n150_definitions(), &whats, (6, 7));

    // The resynced buffer was reported before any capacity: one bank.
    assert_eq!(world.charged(0, Class::Dram), 40 + 60);
    assert_eq!(world.charged(0, Class::L1), 0);
    assert_eq!(world.cb_bytes(0), 3 * 64);
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(0));
    let process = world.process_view(model);
    assert!(!process.facts.resyncing);
    assert_eq!(
        (process.account.lost_events, process.account.elided_events),
        (6, 7)
    );
    assert_eq!(process.account.anomalies.of(Anomaly::UnknownFree), 1);
    let ids: Vec<u64> = process
        .rows
        .buffers
        .iter()
        .map(|(_slot, row)| row.id)
        .collect();
    assert_eq!(ids, [9]);
    let programs: Vec<(u64, u64)> = process
        .rows
        .programs
        .iter()
        .map(|(_slot, program)| (program.id.0, program.on[0].dispatches))
        .collect();
    assert_eq!(programs, [(4, 0), (5, 12)]);
    let peak = world.held(model, 0).class(Class::Dram).charged.peak();
    assert_eq!(peak.bytes, 4444);
    // The other process is untouched.
    assert_eq!(world.held(other, 0).class(Class::Dram).charged.bytes(), 60);
}

#[test]
fn a_resync_keeps_what_only_the_server_knows_of_a_process() {
    let (mut world, parent) = World::n150();
    world.by(parent).alloc(7, Class::Dram, DRAM_BASE, 1);
    let child = world.ledger.get_mut().make(Change::Join {
        identity: identity("child", Source::Attached, ""),
        claimed_pid: 1234,
    });
    let child = Process(child.slot.expect("there is room"));
    let forked = EventKind::Forked {
        first_buffer: BufferId(8),
    };
    world
        .by(child)
        .tell(forked)
        .chip(0, &Board::N150)
        .free(7)
        .alloc(8, Class::Dram, DRAM_BASE, 1)
        .close_mesh();
    world.ledger.get_mut().make(Change::SetState {
        process: child.0,
        state: ProcessState::Detached,
        connections: 0,
    });
    world.resync(child, &n150_definitions(), &[forked], (0, 0));
    let child_view = world.process_view(child);
    let (facts, account) = (child_view.facts, child_view.account);
    let leaked = Released {
        buffers: 1,
        buffer_bytes: 12,
        ..Released::default()
    };
    assert_eq!(account.leak_candidates, leaked);
    assert_eq!(account.inherited_frees, 1);
    assert_eq!(facts.claimed_pid, Some(1234));
    assert_eq!(facts.state, ProcessState::Live);
    // Where it was forked from does not change, whether or not it says so again.
    world.resync(child, &n150_definitions(), &[], (0, 0));
    world.by(child).free(7);
    assert_eq!(world.process_view(child).account.inherited_frees, 2);
}

#[test]
fn a_closed_mesh_takes_its_own_rings_and_no_others() {
    let (mut world, model) = World::n150();
    let ring = |mesh, sub_device| EventKind::ConfigRingOpened {
        mesh: MeshId(mesh),
        sub_device,
        core_type: CoreType::Dram,
        base: 0,
        size_bytes: 100,
    };
    world
        .by(model)
        .define(&mesh(1, &[0]))
        .define(&mesh(2, &[0]))
        .tell(ring(0, 0))
        .tell(ring(1, 0))
        .tell(ring(1, 255))
        .tell(ring(2, 0))
        .tell(EventKind::MeshClosed { mesh: MeshId(1) });
    let rings = world.process_view(model).account.config_rings;
    let left: Vec<_> = rings.keys().map(|key| (key.0, key.1)).collect();
    assert_eq!(left, [(0, 0), (2, 0)]);
}

#[test]
fn a_mesh_divided_anew_has_the_rings_that_are_opened_since() {
    let (mut world, model) = World::n150();
    let ring = |mesh, sub_device, core_type| EventKind::ConfigRingOpened {
        mesh: MeshId(mesh),
        sub_device,
        core_type,
        base: 0,
        size_bytes: 100,
    };
    let (tensix, eth) = (CoreType::Tensix, CoreType::IdleEth);
    world.by(model).define(&mesh(1, &[0]));
    for each in [ring(0, 1, tensix), ring(1, 1, tensix)] {
        world.by(model).tell(each);
    }
    for (sub_device, core_type) in [(0, tensix), (0, eth), (1, tensix), (1, eth), (2, eth)] {
        world.by(model).tell(ring(0, sub_device, core_type));
    }
    let left = |world: &World| -> Vec<_> {
        world
            .process_view(model)
            .account
            .config_rings
            .into_keys()
            .collect()
    };
    let divided = [
        (0, 0, tensix),
        (0, 0, eth),
        (0, 1, tensix),
        (0, 1, eth),
        (0, 2, eth),
        (1, 1, tensix),
    ];
    assert_eq!(left(&world), divided);
    // One that is refused divides nothing.
    let absurd = EventKind::ConfigRingOpened {
        mesh: MeshId(0),
        sub_device: 0,
        core_type: tensix,
        base: 0,
        size_bytes: u64::MAX,
    };
    world.by(model).expecting(Anomaly::AbsurdSize).tell(absurd);
    assert_eq!(left(&world), divided);
    world
        .by(model)
        .tell(ring(0, 0, tensix))
        .tell(ring(0, 1, tensix));
    let whole = [(0, 0, tensix), (0, 0, eth), (0, 1, tensix), (1, 1, tensix)];
    assert_eq!(left(&world), whole);
}

#[test]
fn what_a_closed_mesh_still_held_is_a_leak_candidate() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .alloc(1, Class::Dram, DRAM_BASE, 100)
        .alloc(2, Class::L1, 1_000_000, 10)
        .free(2)
        .close_mesh();
    let leaked = Released {
        buffers: 1,
        buffer_bytes: 1200,
        ..Released::default()
    };
    assert_eq!(world.process_view(model).account.leak_candidates, leaked);
    assert_eq!(world.charged(0, Class::Dram), 0);
}

#[test]
fn an_event_that_its_sender_may_not_send_changes_nothing() {
    let (mut world, model) = World::n150();
    let old = world.old_sender("old");
    world
        .by(model)
        .expecting(Anomaly::Malformed)
        .old_alloc(0, Class::Dram, 1, 1);
    world.by(old).expecting(Anomaly::Malformed).mark(0, 5);
    assert_eq!(world.charged(0, Class::Dram), 0);
    let view = world.view();
    let running = view.devices[0].totals.since_mark();
    assert_eq!(view.marks.peaks_since(0, running).count(), 0);
}

#[test]
fn a_process_beyond_a_limit_is_refused_and_keeps_what_it_has() {
    let mut world = World::with_limits(Limits {
        departed: 1,
        account: AccountLimits {
            meshes: 1,
            buffers: 1,
            programs: 1,
            definitions: 2,
            text_bytes: 3,
            config_rings: 1,
            traces: 1,
            ..AccountLimits::default()
        },
        ..Limits::default()
    });
    let model = world.process("model");
    let ring = |sub_device| EventKind::ConfigRingOpened {
        mesh: MeshId(0),
        sub_device,
        core_type: CoreType::Tensix,
        base: 0,
        size_bytes: 100,
    };
    let refused = Anomaly::LimitReached;
    world
        .by(model)
        .chip(0, &Board::N150)
        .expecting(refused)
        .define(&mesh(1, &[0]))
        .alloc(1, Class::Dram, DRAM_BASE, 10)
        .expecting(refused)
        .alloc(2, Class::Dram, DRAM_BASE, 10)
        .text(1, "abc")
        .expecting(refused)
        .text(2, "d")
        .cores(1, CoreSet::grid(8, 8))
        .expecting(refused)
        .cores(2, CoreSet::grid(8, 8))
        .cb(1, 0, L1_BASE, 10, 1)
        .expecting(refused)
        .cb(2, 0, L1_BASE, 10, 1)
        .tell(ring(0))
        .expecting(refused)
        .tell(ring(1))
        .capture(1, &[1])
        .expecting(refused)
        .tell(EventKind::TraceBegan {
            mesh: MeshId(0),
            trace: TraceId(2),
        });
    assert_eq!(world.anomalies(model, refused), 7);
    assert_eq!(world.charged(0, Class::Dram), 120);
    assert_eq!(world.cb_bytes(0), 640);
    for name in ["one", "two"] {
        let process = world.process(name);
        world.depart(process, Departure::Exited);
    }
    let names: Vec<_> = world
        .view()
        .departed
        .iter()
        .map(|gone| gone.identity.name.to_string())
        .collect();
    assert_eq!(names, ["two"]);
}

#[test]
fn what_the_programs_of_a_process_place_is_bounded_and_room_comes_back() {
    let mut world = World::with_limits(Limits {
        account: AccountLimits {
            parts: 2,
            placed: 3,
            ..AccountLimits::default()
        },
        ..Limits::default()
    });
    let model = world.process("model");
    let refused = Anomaly::LimitReached;
    world
        .by(model)
        .chip(0, &Board::N150)
        .cores(1, CoreSet::grid(8, 8))
        .create(1)
        .create(2)
        .create(3)
        .cb(1, 0, L1_BASE, 10, 1)
        .cb(1, 1, L1_BASE, 10, 1)
        .dispatch(2)
        .expecting(refused)
        .dispatch(3)
        .cb(2, 0, L1_BASE, 10, 1)
        .expecting(refused)
        .cb(2, 1, L1_BASE, 10, 1)
        .destroy(1)
        .dispatch(3)
        .cb(3, 0, L1_BASE, 10, 1)
        .cb(3, 1, L1_BASE, 10, 1);
    let totals = &world.view().devices[0].totals;
    assert_eq!(totals.cb.registered.bytes(), 3 * 10 * 64);
}
