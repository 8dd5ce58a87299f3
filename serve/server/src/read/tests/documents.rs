//! What a snapshot says of devices and processes, known and unknown.

use super::*;
use ttmem_event::{
    CacheResult, CbKind, CoreType, Definition, DispatchPath, KernelId, KernelKind, ProgramId,
    TextId,
};
use ttmem_report::{MemoryClass, PeakBytes, Process, ProcessState, Snapshot};

const GIB: u64 = 1 << 30;

fn snapshot_of(ledger: Ledger) -> Snapshot {
    Served::new(ledger).client().snapshot().unwrap()
}

/// A program with a circular buffer of 4 KiB and a kernel of 1 KiB on sixteen cores of both.
pub(super) fn run_program(ledger: &mut Ledger, process: u32) {
    let program = ProgramId(5);
    let cores = CoresId(1);
    let mesh = BOTH;
    for event in [
        EventKind::ProgramCreated {
            program,
            name: TextId(2),
            runtime_id: 9,
            pointer: 0x7f00,
        },
        EventKind::CbAllocated {
            mesh,
            program,
            cb: 3,
            kind: CbKind::Local,
            address: n150().l1.base,
            size_bytes: 4096,
            cores,
        },
        EventKind::KernelLoaded {
            mesh,
            program,
            kernel: KernelId(77),
            name: TextId(3),
            binary_bytes: 1024,
            cores,
            core_count: 0,
            kind: KernelKind::Application,
            core_type: CoreType::Tensix,
        },
        EventKind::Dispatched {
            mesh,
            program,
            runtime_id: 10,
            operation: TextId(2),
            program_cache: CacheResult::Miss,
            binary_reused: false,
            path: DispatchPath::Fast,
        },
    ] {
        apply(ledger, process, 50, event);
    }
}

#[test]
fn a_tracked_device_is_told_in_full() {
    let capacities = n150();
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    let dram = capacities.dram.base;
    let l1_top = capacities.l1.end() - 2048;
    apply(
        &mut ledger,
        process,
        10,
        allocated(1, Class::Dram, dram, GIB / 2),
    );
    apply(
        &mut ledger,
        process,
        20,
        allocated(2, Class::L1, l1_top, 2048),
    );
    let mark = EventKind::Marked {
        name: TextId(2),
        number: 4,
    };
    apply(&mut ledger, process, 30, mark);
    let freed = EventKind::BufferFreed {
        mesh: BOTH,
        buffer: BufferId(1),
    };
    apply(&mut ledger, process, 40, freed);
    run_program(&mut ledger, process);
    let statistics = |class, allocated_bytes| EventKind::StatisticsReported {
        mesh: BOTH,
        class,
        allocated_bytes,
        largest_free_bytes: 0,
    };
    apply(&mut ledger, process, 60, statistics(Class::L1, 2048));

    let snapshot = snapshot_of(ledger);
    assert_eq!(snapshot.devices.len(), 2);
    let device = &snapshot.devices[1];
    assert_eq!((device.id, device.unique_id.unwrap().0), (1, 0xfeed_0001));
    assert_eq!(device.arch.as_deref(), Some("wormhole_b0"));
    assert_eq!(device.board.as_deref(), Some("n150"));
    assert_eq!(device.source, Some(ttmem_report::Source::Client));
    assert_eq!((device.scope.as_ref(), device.verified), (None, Some(true)));

    // n150: 12 banks of DRAM, 8 × 8 cores with 1464 KiB of L1 each.
    assert_eq!(device.dram.banks, Some(12));
    assert_eq!(
        device.dram.capacity_bytes,
        Some(capacities.dram.total_bytes())
    );
    assert_eq!((device.dram.charged_bytes, device.dram.buffers), (0, 0));
    assert_eq!(device.dram.peak_bytes, 6 * GIB);
    assert_eq!(device.dram.peak_time, Some(Timestamp::from_unix_nanos(10)));
    assert_eq!(
        device.dram.largest_free_bytes_per_bank,
        Some(capacities.dram.bytes_per_bank)
    );
    assert_eq!(
        device.trace.capacity_bytes,
        Some(capacities.trace.total_bytes())
    );
    assert_eq!(device.system.capacity_bytes, None);
    assert_eq!(device.system.largest_free_bytes_per_bank, None);
    assert_eq!(device.l1_small.capacity_bytes, Some(64 * 32_768));

    let l1 = &device.l1;
    assert_eq!((l1.requested_bytes, l1.charged_bytes), (1000, 64 * 2048));
    assert_eq!(
        (l1.union_bytes, l1.overlap_bytes),
        (Some(64 * 2048), Some(0))
    );
    assert_eq!(l1.physical_bytes, Some(64 * 1_499_136));
    let reserved = 64 * capacities.l1_reserved_bytes_per_core;
    assert_eq!(l1.reserved_bytes, Some(reserved));
    // Reserved and the buffer on every core, the circular buffer on sixteen of them.
    assert_eq!(l1.occupied_bytes, Some(reserved + 64 * 2048 + 16 * 4096));
    assert_eq!(
        l1.largest_free_bytes_per_bank,
        Some(capacities.l1.bytes_per_bank - 2048)
    );

    assert_eq!(
        (device.cb.registered_bytes, device.cb.count),
        (16 * 4096, 1)
    );
    assert_eq!(device.cb.resident_bytes, Some(16 * 4096));
    assert_eq!(
        (device.cb.local_bytes, device.cb.global_bytes),
        (Some(16 * 4096), Some(0))
    );
    let kernel = &device.kernel;
    assert_eq!(
        (kernel.registered_bytes, kernel.resident_bytes),
        (16_384, Some(16_384))
    );
    assert_eq!((kernel.application_bytes, kernel.shared_bytes), (16_384, 0));
    assert_eq!(
        (kernel.tensix_bytes, kernel.idle_eth_bytes),
        (Some(16_384), Some(0))
    );
    assert_eq!(device.dispatches, 1);
    assert_eq!(device.caches.program_cache_misses, Some(1));
    assert_eq!(device.caches.jit_disk_misses, Some(0));

    let classes: Vec<MemoryClass> = device.allocators.iter().map(|each| each.class).collect();
    assert_eq!(
        classes,
        [
            MemoryClass::Dram,
            MemoryClass::L1,
            MemoryClass::L1Small,
            MemoryClass::Trace
        ]
    );
    let allocator = &device.allocators[1];
    assert_eq!((allocator.pid, allocator.mesh), (Some(4001), Some(10)));
    assert_eq!(allocator.charged_bytes, 64 * 2048);
    assert_eq!(
        (allocator.verified, allocator.fragmentation),
        (Some(true), Some(0.0))
    );

    assert_eq!(snapshot.marks.len(), 1);
    assert_eq!(
        (snapshot.marks[0].name.as_str(), snapshot.marks[0].number),
        ("ttnn::add", 4)
    );
    assert_eq!(
        device.peaks_since_marks,
        [PeakBytes {
            dram: 6 * GIB,
            l1: 64 * 2048,
            cb: 16 * 4096,
            kernel: 16_384,
            ..PeakBytes::default()
        }]
    );
}

#[test]
fn an_old_senders_device_says_what_it_does_not_know() {
    let mut ledger = empty_ledger();
    let joined = ledger.make(Change::Join {
        identity: identity(None, Source::Legacy),
        claimed_pid: 17,
    });
    let process = joined.slot.unwrap();
    let device = 3;
    for (time, event) in [
        (
            1,
            EventKind::LegacyAllocated {
                device,
                class: Class::Dram,
                size_bytes: 3 * GIB,
                id: 64,
            },
        ),
        (
            2,
            EventKind::LegacyAllocated {
                device,
                class: Class::L1Small,
                size_bytes: 32,
                id: 96,
            },
        ),
        (
            3,
            EventKind::LegacyCbAllocated {
                device,
                size_bytes: 4096,
                id: 128,
            },
        ),
        (
            4,
            EventKind::LegacyKernelLoaded {
                device,
                kind: KernelKind::Fabric,
                size_bytes: 57_344,
                id: 9,
            },
        ),
    ] {
        apply(&mut ledger, process, time, event);
    }
    let snapshot = snapshot_of(ledger);
    let device = &snapshot.devices[0];
    assert_eq!(
        (device.id, device.unique_id, device.arch.as_ref()),
        (3, None, None)
    );
    assert_eq!(device.source, Some(ttmem_report::Source::Legacy));
    assert_eq!(device.dram.charged_bytes, 3 * GIB);
    assert_eq!(device.dram.requested_bytes, device.dram.charged_bytes);
    assert_eq!((device.l1_small.buffers, device.l1.buffers), (1, 0));
    for class in [&device.dram, &device.l1, &device.system] {
        assert_eq!((class.capacity_bytes, class.banks), (None, None));
        assert_eq!(class.largest_free_bytes_per_bank, None);
    }
    assert_eq!(
        (device.l1.physical_bytes, device.l1.occupied_bytes),
        (None, None)
    );
    assert_eq!(
        (device.cb.registered_bytes, device.cb.resident_bytes),
        (4096, None)
    );
    assert_eq!((device.cb.local_bytes, device.cb.count), (None, 1));
    assert_eq!(
        (device.kernel.fabric_bytes, device.kernel.resident_bytes),
        (57_344, None)
    );
    assert_eq!(device.kernel.tensix_bytes, None);
    assert_eq!(device.caches, ttmem_report::CacheCounts::default());
    assert_eq!(device.allocators[0].mesh, None);
    assert_eq!(device.verified, None);
    let process = &snapshot.processes[0];
    assert_eq!((process.pid, process.claimed_pid), (None, Some(17)));
    assert_eq!(
        (process.instance.as_ref(), process.source),
        (None, ttmem_report::Source::Legacy)
    );
    assert_eq!(process.devices[0].dram_bytes, 3 * GIB);
    assert_eq!(process.devices[0].buffers, 2);
}

#[test]
fn a_configured_device_has_no_source_until_it_is_spoken_of() {
    let mut ledger = empty_ledger();
    let facts = ttmem_ledger::DeviceFacts {
        logical_id: 5,
        board: Some("n150".into()),
        ..ttmem_ledger::DeviceFacts::default()
    };
    ledger.make(Change::ConfigureDevice(Box::new(facts)));
    let device = &snapshot_of(ledger).devices[0];
    assert_eq!((device.id, device.source), (5, None));
    assert_eq!(device.l1.occupied_bytes, None);
}

#[test]
fn processes_live_detached_and_gone() {
    let mut ledger = empty_ledger();
    let live = joined(&mut ledger, 4001);
    let detached = joined(&mut ledger, 4002);
    let gone = joined(&mut ledger, 4003);
    let at = n150().dram.base;
    apply(&mut ledger, gone, 5, allocated(1, Class::Dram, at, 2048));
    apply(&mut ledger, live, 5, allocated(1, Class::Dram, at, 2048));
    apply(&mut ledger, live, 6, EventKind::MeshClosed { mesh: BOTH });
    apply(&mut ledger, live, 7, EventKind::EventsLost { count: 2 });
    for process in [live, gone] {
        for (id, text) in [(71, "scratchpads"), (72, "no `x`\u{202e}")] {
            let (id, text) = (TextId(id), text.to_owned());
            ledger
                .define(process, &Definition::Text { id, text })
                .unwrap();
        }
        let (what, why) = (TextId(71), TextId(72));
        apply(&mut ledger, process, 8, EventKind::NotTracked { what, why });
    }
    for (process, state, connections) in [
        (live, ttmem_ledger::ProcessState::Live, 2),
        (detached, ttmem_ledger::ProcessState::Detached, 0),
    ] {
        ledger.make(Change::SetState {
            process,
            state,
            connections,
        });
    }
    ledger.depart(gone, Departure::Ended, 9).unwrap();

    let snapshot = snapshot_of(ledger);
    let [live, detached, gone] = snapshot.processes.as_slice() else {
        panic!("{:?}", snapshot.processes);
    };
    assert_eq!((live.state, live.connections), (ProcessState::Live, 2));
    assert_eq!(
        live.instance.as_deref(),
        Some("abababababababababababababababab")
    );
    assert_eq!((live.incomplete, live.lost_events), (true, 2));
    let reasons = |process: &Process| {
        let reasons = process.incomplete_reasons.iter();
        let reasons = reasons.map(|each| format!("{}: {}", each.reason, each.text()));
        reasons.collect::<Vec<_>>().join("; ")
    };
    let not_tracked = "not_tracked: scratchpads are not tracked: no `x`\u{202e}";
    let both = format!("events_lost: 2 events lost; {not_tracked}");
    assert_eq!(reasons(live), both);
    let leaks = live.leak_candidates;
    assert_eq!((leaks.buffers, leaks.bytes), (1, 2 * 12 * 2048));
    assert_eq!(live.released, None);
    assert_eq!(detached.state, ProcessState::Detached);
    assert_eq!((detached.connections, detached.incomplete), (0, false));
    assert_eq!((gone.pid, gone.state), (Some(4003), ProcessState::Exited));
    assert_eq!(
        (gone.incomplete, reasons(gone)),
        (true, not_tracked.to_owned())
    );
    assert_eq!(gone.inherited_frees, 0);
    // It holds nothing any more; its peaks stay known.
    let left = gone.devices.iter().map(|on| (on.dram_bytes, on.buffers));
    assert_eq!(left.collect::<Vec<_>>(), [(0, 0); 2]);
    let peaks = gone.devices.iter().map(|on| on.peak.map(|peak| peak.dram));
    assert_eq!(peaks.collect::<Vec<_>>(), [Some(12 * 2048); 2]);
    let released = gone.released.as_ref().unwrap();
    assert_eq!((released.buffers, released.bytes), (1, 2 * 12 * 2048));
    assert_eq!(
        (released.reason.as_str(), released.time.unix_nanos()),
        ("ended", 9)
    );

    let server = &snapshot.server;
    assert_eq!(
        (server.uptime_seconds, server.clients_limit),
        (90, Some(4096))
    );
    assert_eq!((server.clients_refused, server.log_lines_elided), (1, 3));
    assert_eq!(snapshot.errors, ["the log is full"]);
    assert_eq!(snapshot.anomalies.seen().count(), 0);
}

#[test]
fn lists_beyond_their_limit_are_cut_and_said_to_be() {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    let mesh = BOTH;
    let core_type = CoreType::Tensix;
    let opened = EventKind::ConfigRingOpened {
        mesh,
        sub_device: 0,
        core_type,
        base: 0,
        size_bytes: 70_000,
    };
    apply(&mut ledger, process, 1, opened);
    for address in 0..100 {
        let event = EventKind::ConfigRingAllocated {
            mesh,
            sub_device: 0,
            core_type,
            program: ProgramId(address + 1),
            address,
            size_bytes: 1,
            sync: address,
        };
        apply(&mut ledger, process, 2, event);
    }
    // Meshes of two devices with three allocators each: more than a snapshot lists.
    for id in 100..16_482 {
        let id = MeshId(id);
        let definition = Definition::Mesh(MeshDefinition {
            id,
            kind: MeshKind::Mesh,
            handle: 1,
            rows: 1,
            columns: 2,
            devices: vec![DeviceId(1), DeviceId(2)],
        });
        ledger.define(process, &definition).unwrap();
        for (class, region) in [
            (Class::Dram, n150().dram),
            (Class::L1, n150().l1),
            (Class::Trace, n150().trace),
        ] {
            apply(&mut ledger, process, 3, capacity(id, class, region));
        }
    }
    let snapshot = snapshot_of(ledger);
    let listed: usize = snapshot
        .devices
        .iter()
        .map(|each| each.allocators.len())
        .sum();
    assert_eq!(listed, 65_536);
    let left_out = 2 * (16_382 * 3 + 4) - 65_536;
    assert_eq!(
        snapshot.errors[1],
        format!("{left_out} allocators are not listed")
    );
    let ring = &snapshot.devices[0].ring[0];
    assert_eq!((ring.entry_count, ring.entries.len()), (100, 64));
    assert_eq!(ring.entries[63].program, Some(100));
    assert_eq!((ring.used_bytes, ring.capacity_bytes), (100, Some(70_000)));
}
