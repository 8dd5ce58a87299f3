//! Every line that the old server had, to the character, and our own.

use super::*;
use ttmem_event::{
    CacheResult, ClashKind, Class, CoreType, CoresId, DeviceId, DispatchPath, MeshId, ProgramId,
    TextId, TraceId,
};
use ttmem_ledger::Effect;

fn entry(kind: EffectKind) -> LogEntry {
    LogEntry {
        effect: Effect {
            time: 5,
            process: 0,
            device: None,
            kind,
        },
        pid: Some(2_657_333),
        device: Some(0),
    }
}

fn line(kind: EffectKind) -> String {
    text(&entry(kind), false)
}

fn text(entry: &LogEntry, verbose: bool) -> String {
    let mut out = String::new();
    write_entry(&mut out, entry, 1234, verbose);
    out
}

fn happened(event: EventKind) -> String {
    line(EffectKind::Happened(event))
}

fn refused(anomaly: Anomaly, event: EventKind) -> (String, bool) {
    let entry = LogEntry {
        device: None,
        ..entry(EffectKind::Contradicted { anomaly, event })
    };
    (text(&entry, false), entry.is_error())
}

#[test]
fn buffers() {
    let booked = |references| EffectKind::BufferBooked {
        class: Class::L1Small,
        id: 0x0027_1020,
        bytes: 4_194_304,
        address: 0x0010_0000,
        per_bank_bytes: 65_536,
        operation: TextId::NONE,
        references,
    };
    assert_eq!(
        line(booked(1)),
        "✓ [PID 2657333] Allocated 4194304 bytes of L1_SMALL on device 0 (buffer_id=0x271020)\n"
    );
    assert_eq!(
        line(booked(2)),
        "✓ [PID 2657333] Allocated 4194304 bytes of L1_SMALL on device 0 \
         (buffer_id=0x271020, ref_count=2)\n"
    );
    let released = |references| EffectKind::BufferReleased {
        class: Class::Dram,
        id: 0xABC,
        bytes: 64,
        references,
    };
    assert_eq!(
        line(released(1)),
        "✗ [PID 2657333] Freed buffer 0xabc on device 0 (64 bytes, ref_count=1 remaining)\n"
    );
    assert_eq!(
        line(released(0)),
        "✗ [PID 2657333] Freed buffer 0xabc on device 0 (64 bytes, FINAL)\n"
    );
}

#[test]
fn circular_buffers() {
    // 21.7494 MB after a quarter more, 21.4994 MB without it.
    let total_bytes = 22_805_871;
    assert_eq!(
        line(EffectKind::CbBooked {
            program: 0,
            bytes: 262_144,
            total_bytes
        }),
        "✓ [CB_ALLOC] Device 0: +0.25 MB (Total: 21.7494 MB)\n"
    );
    assert_eq!(
        line(EffectKind::CbReleased {
            program: 0,
            bytes: 262_144,
            total_bytes: total_bytes - 262_144
        }),
        "✗ [CB_FREE] Device 0: -0.25 MB (Total: 21.4994 MB)\n"
    );
}

fn kernel(kind: KernelKind, binary_bytes: Option<u64>, bytes: u64) -> EffectKind {
    EffectKind::KernelBooked {
        program: 9,
        kind,
        core_type: binary_bytes.map(|_| CoreType::ActiveEth),
        binary_bytes,
        cores: binary_bytes.map(|_| 16),
        bytes,
        total_bytes: bytes,
    }
}

#[test]
fn kernels() {
    assert_eq!(
        line(kernel(KernelKind::Fabric, None, 917_504)),
        "✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.875 MB (Total: 0.875 MB)\n"
    );
    assert_eq!(
        line(kernel(KernelKind::Fabric, Some(57_344), 917_504)),
        "✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.875 MB (Total: 0.875 MB), \
         Binary Size: 56 KB, Cores: 16, Total L1: 896 KB\n"
    );
    let unloaded = EffectKind::KernelReleased {
        program: 9,
        kind: KernelKind::Dispatch,
        bytes: 94_208,
        total_bytes: 917_504,
    };
    assert_eq!(
        line(unloaded),
        "✗ [KERNEL_UNLOAD] Dispatch kernel on Device 0: -0.0898438 MB (Total: 0.875 MB)\n"
    );
    let kinds = KernelKind::ALL.iter().map(|kind| kernel_kind(*kind));
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        ["Application", "Fabric", "Dispatch", "Unknown"]
    );
}

#[test]
fn peaks() {
    let peak = EffectKind::L1Peak {
        bytes: 12 << 20,
        buffers: 42,
    };
    assert_eq!(
        line(peak),
        "[1234ms] L1 Peak on device 0: 12 MB (42 buffers)\n"
    );
}

#[test]
fn what_is_not_known_is_marked() {
    let unknown = LogEntry {
        pid: None,
        device: None,
        ..entry(EffectKind::BufferReleased {
            class: Class::L1,
            id: 0,
            bytes: 1,
            references: 0,
        })
    };
    assert_eq!(
        text(&unknown, false),
        "✗ [PID ?] Freed buffer 0x0 on device ? (1 bytes, FINAL)\n"
    );
}

#[test]
fn refusals_of_old_reports_are_errors_in_the_old_words() {
    let allocated = |device, size_bytes| EventKind::LegacyAllocated {
        device,
        class: Class::Dram,
        size_bytes,
        id: 16,
    };
    assert_eq!(
        refused(Anomaly::InvalidDevice, allocated(-3, 1)),
        (
            "⚠️  Invalid device_id -3 - ignoring message\n".to_owned(),
            true
        )
    );
    assert_eq!(
        refused(Anomaly::ZeroSize, allocated(0, 0)),
        ("⚠️  Invalid size 0 - ignoring message\n".to_owned(), true)
    );
    let absurd = EventKind::LegacyKernelLoaded {
        device: 0,
        kind: KernelKind::Application,
        size_bytes: u64::MAX,
        id: 1,
    };
    assert_eq!(
        refused(Anomaly::AbsurdSize, absurd),
        (
            "⚠️  Invalid size 18446744073709551615 - ignoring message\n".to_owned(),
            true
        )
    );
}

#[test]
fn other_anomalies_are_events() {
    assert_eq!(
        refused(
            Anomaly::UnknownFree,
            EventKind::LegacyFreed { device: 7, id: 255 }
        ),
        (
            "⚠ [PID 2657333] Deallocation for unknown buffer 0xff on device 7 \
             (allocated before tracking started)\n"
                .to_owned(),
            false
        )
    );
    let freed = EventKind::LegacyCbFreed {
        device: 1,
        size_bytes: 0,
        id: 0x20,
    };
    assert_eq!(
        refused(Anomaly::UnknownFree, freed),
        (
            "⚠ [PID 2657333] unknown_free: LegacyCbFreed device=1 size_bytes=0 id=0x20\n"
                .to_owned(),
            false
        )
    );
    let released = EventKind::BuffersReleased {
        mesh: MeshId(4),
        class: None,
    };
    assert_eq!(
        refused(Anomaly::Undefined, released),
        (
            "⚠ [PID 2657333] undefined_reference: BuffersReleased mesh=4 class=all\n".to_owned(),
            false
        )
    );
    // Zero sizes of new senders are anomalies as any other.
    let mesh_closed = EventKind::MeshClosed { mesh: MeshId(4) };
    assert!(!refused(Anomaly::ZeroSize, mesh_closed).1);
}

#[test]
fn devices_meshes_and_traces() {
    let (mesh, trace) = (MeshId(3), TraceId(8));
    let device = DeviceId(5);
    let unnamed = LogEntry {
        device: None,
        ..entry(EffectKind::Happened(EventKind::DeviceOpened { device }))
    };
    assert_eq!(text(&unnamed, false), "✓ [PID 2657333] Opened device 5\n");
    for (event, expected) in [
        // The logical id where it is known.
        (
            EventKind::DeviceClosed { device },
            "✗ [PID 2657333] Closed device 0\n",
        ),
        (
            EventKind::MeshOpened { mesh },
            "✓ [PID 2657333] Opened mesh 3\n",
        ),
        (
            EventKind::MeshClosed { mesh },
            "✗ [PID 2657333] Closed mesh 3\n",
        ),
        (
            EventKind::CapacityReported {
                mesh,
                class: Class::L1,
                banks: 64,
                base: 0,
                per_bank_bytes: 1 << 20,
                alignment: 16,
            },
            "✓ [PID 2657333] Capacity of L1 on mesh 3: 64 banks of 1048576 bytes (64 MB)\n",
        ),
        (
            EventKind::TraceBegan { mesh, trace },
            "✓ [PID 2657333] Trace 8 began on mesh 3\n",
        ),
        (
            EventKind::TraceEnded {
                mesh,
                trace,
                bytes: 77,
            },
            "✓ [PID 2657333] Trace 8 ended on mesh 3 (77 bytes)\n",
        ),
        (
            EventKind::TraceReleased { mesh, trace },
            "✗ [PID 2657333] Released trace 8 on mesh 3\n",
        ),
    ] {
        assert_eq!(happened(event), expected);
    }
}

/// The server's note says more of them than the event knows.
#[test]
fn failures_are_left_to_their_notes() {
    let failed = EventKind::AllocationFailed {
        mesh: MeshId(3),
        class: Class::L1,
        banks: 64,
        requested_bytes: 64_000,
        per_bank_bytes: 1000,
        free_bytes: 700,
        largest_free_bytes: 700,
        bank_bytes: 2000,
        operation: TextId::NONE,
        call_first: 0,
    };
    let clashed = EventKind::Clashed {
        mesh: MeshId(3),
        program: ProgramId(12),
        kind: ClashKind::L1Buffer,
        cores: CoresId::NONE,
        region_end: 900,
        limit: 800,
        call_first: 0,
    };
    assert_eq!(happened(failed), "");
    assert_eq!(happened(clashed), "");
}

#[test]
fn marks_and_gaps() {
    let marked = EventKind::Marked {
        name: TextId(1),
        number: 42,
    };
    assert_eq!(happened(marked), "✓ [PID 2657333] Mark 42\n");
    assert_eq!(
        happened(EventKind::EventsLost { count: 7 }),
        "⚠ [PID 2657333] Lost 7 events: its totals are not exact\n"
    );
    assert_eq!(
        happened(EventKind::EventsElided { count: 7 }),
        "⚠ [PID 2657333] Left out 7 events: its totals are exact\n"
    );
    let (what, why) = (TextId(1), TextId(2));
    assert_eq!(
        happened(EventKind::NotTracked { what, why }),
        "⚠ [PID 2657333] Does not track everything: `ttmem status` says what and why\n"
    );
}

#[test]
fn routine_needs_a_verbose_log() {
    let dispatched = entry(EffectKind::Happened(EventKind::Dispatched {
        mesh: MeshId(1),
        program: ProgramId(2),
        runtime_id: 3,
        operation: TextId(0),
        program_cache: CacheResult::Miss,
        binary_reused: false,
        path: DispatchPath::Fast,
    }));
    assert_eq!(text(&dispatched, false), "");
    assert_eq!(
        text(&dispatched, true),
        "· [PID 2657333] Dispatched mesh=1 program=2 runtime_id=3 operation=0 \
         program_cache=miss binary_reused=false path=fast\n"
    );
}
