//! Dumps of small ledgers that hold something of everything.

use std::sync::Arc;

use ttmem_event::catalogue::Arch;
use ttmem_event::{
    CbKind, Class, CoreSet, CoreType, CoresId, Definition, DeviceDefinition, DeviceId, Event,
    EventKind, KernelId, KernelKind, MeshDefinition, MeshId, MeshKind, ProgramId, Source, TextId,
};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Anomaly, Change, Ledger, Limits, ProcessIdentity};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn join(ledger: &mut Ledger, pid: u32, source: Source) -> u32 {
    ledger.join(ProcessIdentity {
        pid: Some(pid),
        start_time: None,
        instance: None,
        uid: 0,
        name: Arc::from("test"),
        source,
        command: "".into(),
        visible_devices: Arc::from(""),
    })
}

fn apply(ledger: &mut Ledger, process: u32, content: EventKind) {
    let event = Event {
        time: SECOND,
        kind: content,
    };
    ledger.tell(process, &event).unwrap();
}

fn allocated(device: i32, class: Class, id: u64, size_bytes: u64) -> EventKind {
    EventKind::LegacyAllocated {
        device,
        class,
        size_bytes,
        id,
    }
}

/// An old sender with two devices.
fn legacy() -> Ledger {
    let mut ledger = Ledger::new(Limits::default());
    let process = join(&mut ledger, 77, Source::Legacy);
    for content in [
        allocated(3, Class::Dram, 0x10, 1 << 20),
        allocated(0, Class::L1, 0x20, 1536),
        allocated(0, Class::L1, 0x30, 4096),
        allocated(0, Class::L1, 0x30, 4096),
        allocated(0, Class::Trace, 0x40, 1 << 19),
        EventKind::LegacyCbAllocated {
            device: 0,
            size_bytes: 262_144,
            id: 0x50,
        },
        EventKind::LegacyKernelLoaded {
            device: 0,
            kind: KernelKind::Fabric,
            size_bytes: 917_504,
            id: 0x60,
        },
        EventKind::LegacyKernelLoaded {
            device: 0,
            kind: KernelKind::Dispatch,
            size_bytes: 94_208,
            id: 0x61,
        },
    ] {
        apply(&mut ledger, process, content);
    }
    ledger
}

/// A new client with one program on a mesh of two devices.
fn tracked() -> Ledger {
    let mut ledger = Ledger::new(Limits::default());
    let process = join(&mut ledger, 5, Source::Client);
    let device = |id| {
        Definition::Device(DeviceDefinition {
            id: DeviceId(id),
            logical_id: id,
            unique_id: None,
            arch: Arch::Wormhole,
            board: TextId::NONE,
            remote: None,
            grid_columns: 8,
            grid_rows: 8,
            l1_bytes_per_core: 1_499_136,
            l1_reserved_bytes: 0,
        })
    };
    let text = |id, text: &str| Definition::Text {
        id: TextId(id),
        text: text.to_owned(),
    };
    for definition in [
        device(0),
        device(1),
        Definition::Mesh(MeshDefinition {
            id: MeshId(1),
            kind: MeshKind::Mesh,
            handle: 1,
            rows: 1,
            columns: 2,
            devices: vec![DeviceId(0), DeviceId(1)],
        }),
        Definition::Cores {
            id: CoresId(1),
            cores: CoreSet::grid(4, 4),
        },
        text(1, "reader.cpp\r"),
        text(2, "matmul"),
    ] {
        ledger.define(process, &definition).unwrap();
    }
    let (mesh, program) = (MeshId(1), ProgramId(9));
    for content in [
        EventKind::ProgramCreated {
            program,
            name: TextId(2),
            runtime_id: 0,
            pointer: 0,
        },
        EventKind::CbAllocated {
            mesh,
            program,
            cb: 0,
            kind: CbKind::Local,
            address: 0x19_000,
            size_bytes: 2048,
            cores: CoresId(1),
        },
        EventKind::KernelLoaded {
            mesh,
            program,
            kernel: KernelId(0xbeef),
            name: TextId(1),
            binary_bytes: 57_344,
            cores: CoresId(1),
            core_count: 0,
            kind: KernelKind::Application,
            core_type: CoreType::Tensix,
        },
    ] {
        apply(&mut ledger, process, content);
    }
    ledger
}

fn title_box(title: &str) -> String {
    let mut out = String::new();
    write_title(&mut out, title).unwrap();
    out
}

fn rendered(kind: DumpKind, view: &View, now_nanos: u64) -> String {
    render(kind, view, now_nanos, DUMP_LIMIT)
}

#[test]
fn boxes_are_as_wide_as_they_say() {
    for title in [
        "REMAINING ALLOCATED BUFFERS",
        "DETAILED KERNEL ALLOCATIONS",
        "",
    ] {
        let text = title_box(title);
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [64, 64, 64], "{text}");
    }
}

#[test]
fn remaining_lists_everything_largest_first() {
    let text = rendered(DumpKind::Remaining, &legacy().view(), 0);
    let expected = "\
📋 Received DUMP_REMAINING request...
╔══════════════════════════════════════════════════════════════╗
║                 REMAINING ALLOCATED BUFFERS                  ║
╚══════════════════════════════════════════════════════════════╝
Total tracked allocations: 4

Device 0:
  L1: 2 buffers, 0.00537109 MB total
    - Buffer 0x30: 4 KB (PID 77, ref_count=2)
    - Buffer 0x20: 1.5 KB (PID 77, ref_count=1)
  TRACE: 1 buffers, 0.5 MB total
    - Buffer 0x40: 512 KB (PID 77, ref_count=1)
  CB: 1 CBs, 0.25 MB total
    - CB 0x50: 256 KB (PID 77, local)
  KERNEL: 2 kernels, 0.964844 MB total
    - Kernel 0x60: 896 KB (PID 77, Fabric)
    - Kernel 0x61: 92 KB (PID 77, Dispatch)

Device 3:
  DRAM: 1 buffers, 1 MB total
    - Buffer 0x10: 1024 KB (PID 77, ref_count=1)

Total remaining buffers: 4
Total remaining CBs: 1, kernels: 2
📋 DUMP_REMAINING complete.
";
    assert_eq!(text, expected);
}

#[test]
fn nothing_remaining_is_said() {
    let mut ledger = Ledger::new(Limits::default());
    join(&mut ledger, 1, Source::Legacy);
    let text = rendered(DumpKind::Remaining, &ledger.view(), 0);
    assert!(text.contains(
        "Total tracked allocations: 0\n\n✓ No buffers remaining - perfect cleanup!\n\
         📋 DUMP_REMAINING complete.\n"
    ));
    assert!(!text.contains("Device"));
}

#[test]
fn long_lists_are_cut_and_say_so() {
    let mut ledger = Ledger::new(Limits::default());
    let process = join(&mut ledger, 77, Source::Legacy);
    for id in 1..=1200 {
        let size_bytes = 1024 * (1 + id % 7);
        apply(
            &mut ledger,
            process,
            allocated(0, Class::Dram, id, size_bytes),
        );
    }
    let view = ledger.view();
    let text = rendered(DumpKind::Remaining, &view, 0);
    assert_eq!(text.matches("    - Buffer ").count(), 1000);
    assert!(text.contains("  DRAM: 1200 buffers, "));
    assert!(text.contains("\n    … and 200 more\n"));
    let text = render(DumpKind::Remaining, &view, 0, 3);
    // The first of the largest.
    for id in [6, 13, 20] {
        assert!(text.contains(&format!("    - Buffer {id:#x}: 7 KB (PID 77, ")));
    }
    assert!(text.contains("\n    … and 1197 more\n"));
    let text = render(DumpKind::Remaining, &view, 0, 0);
    assert!(text.contains("\n    … and 1200 more\n"));
}

#[test]
fn a_dump_has_an_end_on_any_number_of_devices() {
    let mut limit = RowLimit {
        per_list: usize::MAX,
        left: MAX_ROWS,
    };
    assert_eq!(limit.take(MAX_ROWS - 1), MAX_ROWS - 1);
    assert_eq!((limit.take(5), limit.take(5)), (1, 0));
}

#[test]
fn kernels_are_told_in_detail() {
    let text = rendered(DumpKind::Kernels, &tracked().view(), 31 * SECOND);
    let rule = "─".repeat(57);
    let device = |id: u32| {
        format!(
            "📊 Device {id} - Total: 0.875 MB (1 kernels)
  ┌{rule}
  │ Kernel ID: 0xbeef
  │   Name:      reader.cpp\\u{{d}}
  │   Type:      Application
  │   Size:      896 KB
  │   Binary:    56 KB
  │   Cores:     16 (tensix)
  │   Program:   9 (matmul)
  │   Owner PID: 5
  │   Age:       30 seconds
  │
  └{rule}
"
        )
    };
    let title = title_box("DETAILED KERNEL ALLOCATIONS");
    let (first, second) = (device(0), device(1));
    assert_eq!(
        text,
        format!(
            "📋 Received DUMP_KERNELS request...\n{title}Total kernel allocations: 2\n\n\
             {first}\n{second}\n📋 DUMP_KERNELS complete.\n"
        )
    );
}

#[test]
fn kernels_of_old_senders_have_a_type_and_no_more() {
    let text = rendered(DumpKind::Kernels, &legacy().view(), SECOND);
    assert!(text.contains("📊 Device 0 - Total: 0.964844 MB (2 kernels)\n"));
    assert!(text.contains(
        "  │ Kernel ID: 0x60\n  │   Type:      Fabric\n  │   Size:      896 KB\n  \
         │   Owner PID: 77\n  │   Age:       0 seconds\n  │\n  │ Kernel ID: 0x61\n"
    ));
    let cut = render(DumpKind::Kernels, &legacy().view(), SECOND, 1);
    assert!(cut.contains("  │\n  │ … and 1 more\n  └"));
}

#[test]
fn the_summary_is_complete() {
    let mut ledger = legacy();
    ledger.make(Change::Refuse {
        process: 0,
        anomaly: Anomaly::Malformed,
        count: 1,
    });
    let text = rendered(DumpKind::Summary, &ledger.view(), 0);
    let expected = "\
📊 Current Statistics:
  Device 0:
    Buffers: 3
    DRAM: 0 bytes (0 KB)
    L1: 5632 bytes (5.5 KB)
    SYSTEM_MEMORY: 0 bytes (0 KB)
    L1_SMALL: 0 bytes (0 KB)
    TRACE: 524288 bytes (512 KB)
    CB: 262144 bytes (256 KB), 1 CBs
    Kernel: 1011712 bytes (988 KB), 2 kernels, Fabric 896 KB, Dispatch 92 KB
    Total: 1803776 bytes
  Device 3:
    Buffers: 1
    DRAM: 1048576 bytes (1024 KB)
    L1: 0 bytes (0 KB)
    SYSTEM_MEMORY: 0 bytes (0 KB)
    L1_SMALL: 0 bytes (0 KB)
    TRACE: 0 bytes (0 KB)
    CB: 0 bytes (0 KB), 0 CBs
    Kernel: 0 bytes (0 KB), 0 kernels
    Total: 1048576 bytes
  Active allocations: 4
  Anomalies: 1 (malformed 1)
  Audit: ✓ every total equals the live set
";
    assert_eq!(text, expected);
}

#[test]
fn a_device_with_nothing_but_circular_buffers_is_listed() {
    let mut ledger = Ledger::new(Limits::default());
    let process = join(&mut ledger, 77, Source::Legacy);
    let cb = EventKind::LegacyCbAllocated {
        device: 2,
        size_bytes: 64,
        id: 1,
    };
    apply(&mut ledger, process, cb);
    let view = ledger.view();
    assert!(rendered(DumpKind::Summary, &view, 0).contains("  Device 2:\n    Buffers: 0\n"));
    let remaining = rendered(DumpKind::Remaining, &view, 0);
    assert!(remaining.contains("Device 2:\n  CB: 1 CBs, "));
    assert!(!remaining.contains("perfect cleanup"));
}

#[test]
fn storage_of_programs_names_them() {
    let text = rendered(DumpKind::Remaining, &tracked().view(), 0);
    assert_eq!(
        text.matches("    - CB 0x19000: 32 KB (PID 5, local, program 9, 16 cores)\n")
            .count(),
        2,
        "{text}"
    );
}

#[test]
fn devices_of_one_number_are_told_apart() {
    let mut ledger = Ledger::new(Limits::default());
    for visible in ["", "4,5\n"] {
        let process = ledger.join(ProcessIdentity {
            pid: None,
            start_time: None,
            instance: None,
            uid: 0,
            name: Arc::from(""),
            source: Source::Legacy,
            command: "".into(),
            visible_devices: Arc::from(visible),
        });
        apply(&mut ledger, process, allocated(0, Class::Dram, 1, 1024));
    }
    let text = rendered(DumpKind::Remaining, &ledger.view(), 0);
    assert!(text.contains("Device 0 (of all devices):\n"), "{text}");
    assert!(text.contains("Device 0 (of visible devices 4,5\\u{a}):\n"));
    assert!(text.contains("(PID ?, ref_count=1)"));
}
