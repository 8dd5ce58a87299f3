//! Whole pages against golden files, and widths under hostile input.
//!
//! After a change of the layout, `TTMEM_BLESS=1 cargo test render` writes the files anew; the
//! difference is then reviewed like any other.

use std::path::Path;

use ttmem_report::{
    Anomalies, BufferRow, CacheCounts, CbKind, CbRow, CbUsage, ClassUsage, CoreType, Device,
    FailureCount, FailureCounts, HexId, IncompleteReason, KernelKind, KernelRow, KernelUsage,
    LeakCandidates, Leaks, MemoryClass, Problems, Process, ProcessDevice, ProcessState, Released,
    SCHEMA, Server, Snapshot, Source, Timestamp,
};

use super::dump::DumpRow;
use super::{Dump, MIN_WIDTH};
use crate::output::Screen;

pub(crate) fn reason(reason: &str, count: u64, detail: Option<&str>) -> IncompleteReason {
    IncompleteReason {
        reason: reason.to_owned(),
        count,
        detail: detail.map(str::to_owned),
    }
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// 2026-11-15 08:25:03 UTC.
const NOW: u64 = 1_794_731_103_000_000_000;
const SECOND: u64 = 1_000_000_000;

fn ago(seconds: u64) -> Timestamp {
    Timestamp::from_unix_nanos(NOW - seconds * SECOND)
}

pub(crate) fn snapshot(devices: Vec<Device>, processes: Vec<Process>) -> Snapshot {
    Snapshot {
        schema: SCHEMA,
        time: ago(0),
        host: "galaxy-07".into(),
        server: Server {
            pid: 1207,
            version: "0.1.0".into(),
            started: ago(11_520),
            uptime_seconds: 11_520,
            sockets: vec![
                "/run/user/1000/ttmem.sock".into(),
                "/tmp/tt_allocation_server.sock".into(),
            ],
            clients: 3,
            clients_limit: Some(1024),
            clients_refused: 0,
            events_applied: 1_234_567,
            events_lost: 0,
            events_elided: 0,
            log_lines_elided: 0,
        },
        devices,
        processes,
        marks: Vec::new(),
        anomalies: Anomalies::default(),
        errors: Vec::new(),
        failures: FailureCount::default(),
        machine: None,
    }
}

/// A Wormhole chip with DRAM `eighths` of the way to full.
pub(crate) fn device(id: u32, eighths: u64) -> Device {
    let dram_bytes = 12 * GIB / 8 * eighths;
    Device {
        id,
        unique_id: Some(HexId(0x1234_5678_9abc_0000 + u64::from(id))),
        scope: None,
        arch: Some("wormhole_b0".into()),
        board: Some("n300".into()),
        remote: Some(id % 2 == 1),
        source: Some(Source::Attached),
        verified: Some(true),
        dram: ClassUsage {
            capacity_bytes: Some(12 * GIB),
            banks: Some(12),
            requested_bytes: dram_bytes,
            charged_bytes: dram_bytes,
            union_bytes: Some(dram_bytes),
            overlap_bytes: Some(0),
            peak_bytes: dram_bytes + MIB,
            peak_time: Some(ago(61)),
            buffers: 12_034,
            largest_free_bytes_per_bank: Some(GIB - dram_bytes / 12),
            ..ClassUsage::default()
        },
        l1: ClassUsage {
            physical_bytes: Some(64 * 1_499_136),
            reserved_bytes: Some(64 * 103_712),
            occupied_bytes: Some(64 * 103_712 + 14 * MIB + 21 * MIB),
            capacity_bytes: Some(64 * 1_395_424),
            banks: Some(64),
            requested_bytes: 13 * MIB,
            charged_bytes: 14 * MIB,
            union_bytes: Some(14 * MIB),
            overlap_bytes: Some(0),
            peak_bytes: 30 * MIB,
            peak_time: Some(ago(100_000)),
            buffers: 42,
            largest_free_bytes_per_bank: Some(1_100_000),
            ..ClassUsage::default()
        },
        l1_small: ClassUsage {
            union_bytes: Some(0),
            ..ClassUsage::default()
        },
        trace: ClassUsage::default(),
        system: ClassUsage::default(),
        cb: CbUsage {
            registered_bytes: 22_805_000,
            resident_bytes: Some(21 * MIB),
            local_bytes: Some(21 * MIB),
            global_bytes: Some(22_805_000 - 21 * MIB),
            dataflow_bytes: Some(0),
            dataflow_borrowed_bytes: Some(0),
            scratchpad_bytes: Some(0),
            count: 128,
            peak_bytes: 22_805_000,
            peak_time: Some(ago(3)),
        },
        kernel: KernelUsage {
            registered_bytes: 8_192_000 + 917_504 + 94_208,
            resident_bytes: Some(8_192_000),
            application_bytes: 8_192_000,
            fabric_bytes: 917_504,
            dispatch_bytes: 94_208,
            unknown_bytes: 0,
            unique_bytes: 8_192_000,
            shared_bytes: 917_504 + 94_208,
            tensix_bytes: Some(8_192_000),
            active_eth_bytes: Some(917_504),
            idle_eth_bytes: Some(94_208),
            dram_core_bytes: Some(0),
            count: 11,
            peak_bytes: 0,
            peak_time: None,
        },
        ring: Vec::new(),
        prefetch: Vec::new(),
        caches: CacheCounts::default(),
        dispatches: 5,
        trace_replays: 0,
        cb_headroom_bytes: None,
        failures: FailureCounts::default(),
        ring_stalls: 0,
        regions: Vec::new(),
        names: None,
        telemetry: None,
        upstream: None,
        allocators: Vec::new(),
        peaks_since_marks: Vec::new(),
    }
}

/// A device of which only an old sender has spoken.
fn legacy_device(id: u32) -> Device {
    let class = |charged_bytes, buffers| ClassUsage {
        requested_bytes: charged_bytes,
        charged_bytes,
        peak_bytes: charged_bytes,
        peak_time: Some(ago(5)),
        buffers,
        ..ClassUsage::default()
    };
    Device {
        unique_id: None,
        arch: None,
        board: None,
        remote: None,
        source: Some(Source::Legacy),
        verified: None,
        dram: class(3 * GIB, 7),
        l1: class(5 * MIB, 1),
        l1_small: class(32 * KIB, 1),
        cb: CbUsage {
            registered_bytes: 256 * KIB,
            count: 1,
            ..CbUsage::default()
        },
        kernel: KernelUsage {
            registered_bytes: 50 * KIB,
            unknown_bytes: 50 * KIB,
            count: 1,
            ..KernelUsage::default()
        },
        ..device(id, 0)
    }
}

fn reasons(reasons: &[(&str, u64)]) -> Vec<IncompleteReason> {
    let reasons = reasons.iter().map(|(reason, count)| IncompleteReason {
        reason: (*reason).to_owned(),
        count: *count,
        detail: None,
    });
    reasons.collect()
}

pub(crate) fn process(pid: u32, name: &str, devices: &[Device]) -> Process {
    Process {
        pid: Some(pid),
        instance: Some(format!("{pid:032x}")),
        name: Some(name.into()),
        uid: Some(1000),
        start_time: Some(ago(600)),
        state: ProcessState::Live,
        source: Source::Attached,
        incomplete: false,
        incomplete_reasons: Vec::new(),
        resyncing: false,
        lost_events: 0,
        elided_events: 0,
        claimed_pid: None,
        anomalies: 0,
        names_hidden: false,
        labels: Default::default(),
        inherited_frees: 0,
        leak_candidates: LeakCandidates::default(),
        connections: 1,
        devices: devices.iter().map(held).collect(),
        released: None,
        host: None,
    }
}

fn held(device: &Device) -> ProcessDevice {
    ProcessDevice {
        id: device.id,
        unique_id: device.unique_id,
        scope: device.scope.clone(),
        dram_bytes: device.dram.charged_bytes,
        l1_bytes: device.l1.charged_bytes,
        l1_small_bytes: device.l1_small.charged_bytes,
        trace_bytes: 0,
        system_bytes: 0,
        cb_bytes: device.cb.registered_bytes,
        kernel_bytes: device.kernel.registered_bytes,
        buffers: device.dram.buffers + device.l1.buffers,
        peak: None,
    }
}

/// Eight devices and everything that can be wrong with them.
fn troubled() -> Snapshot {
    let mut devices: Vec<Device> = (0..7).map(|id| device(id, u64::from(id) + 1)).collect();
    devices.push(legacy_device(7));
    // A parent mesh and a sub-mesh that hand out the same addresses.
    devices[1].dram.requested_bytes += 12 * GIB;
    devices[1].dram.charged_bytes += 12 * GIB;
    devices[1].dram.overlap_bytes = Some(12 * GIB);
    devices[2].verified = Some(false);
    devices[3].scope = Some("2,3".into());
    devices[3].trace = ClassUsage {
        capacity_bytes: Some(20 * MIB),
        requested_bytes: 20 * MIB,
        charged_bytes: 20 * MIB,
        buffers: 1,
        ..ClassUsage::default()
    };
    devices[4].system.peak_bytes = MIB;
    let mut incomplete = process(4001, "python", &devices[..2]);
    incomplete.incomplete = true;
    incomplete.incomplete_reasons = vec![
        reason("events_lost", 12, None),
        reason(
            "not_tracked",
            1,
            Some("dataflow buffers are not tracked: no `x`"),
        ),
    ];
    incomplete.lost_events = 12;
    incomplete.incomplete_reasons = reasons(&[("events_lost", 12), ("devices_refused", 3)]);
    incomplete.anomalies = 3;
    let mut resyncing = process(4002, "demo_of_a_model_with_a_long_name", &devices[2..4]);
    resyncing.resyncing = true;
    resyncing.elided_events = 2_000_000;
    let mut detached = process(4003, "pytest", &devices[7..]);
    detached.state = ProcessState::Detached;
    detached.source = Source::Legacy;
    detached.claimed_pid = Some(17);
    // From another pid namespace, and with something forgotten.
    let mut nameless = process(0, "", &devices[..1]);
    nameless.pid = None;
    nameless.name = None;
    nameless.claimed_pid = Some(42);
    nameless.leak_candidates = LeakCandidates {
        buffers: 2,
        bytes: 3 * MIB,
    };
    let mut exited = process(3999, "python", &[]);
    exited.state = ProcessState::Exited;
    exited.released = Some(Released {
        buffers: 42,
        cbs: 1,
        kernels: 0,
        bytes: 3 * GIB,
        buffer_bytes: 3 * GIB,
        time: ago(30),
        reason: "ended".into(),
    });
    let mut snapshot = snapshot(
        devices,
        vec![incomplete, resyncing, detached, nameless, exited],
    );
    snapshot.server.log_lines_elided = 1;
    snapshot
        .errors
        .push("the event log cannot be written: no space left on device".into());
    snapshot.anomalies.0.insert("ambiguous_free".into(), 0);
    snapshot.anomalies.0.insert("unknown_free".into(), 3);
    snapshot
}

/// A Galaxy, with one device that needs a word.
fn galaxy() -> Snapshot {
    let mut devices: Vec<Device> = (0..32).map(|id| device(id, u64::from(id) % 9)).collect();
    devices[5].l1.overlap_bytes = Some(3 * MIB);
    devices[6].dram.capacity_bytes = None;
    devices[7].board = None;
    devices[31] = legacy_device(31);
    devices[30].source = None;
    let process = process(4_194_304, "python", &devices);
    let mut incomplete = self::process(4005, "pytest", &devices[9..10]);
    incomplete.incomplete = true;
    incomplete.incomplete_reasons = vec![reason("events_lost", 1, None)];
    incomplete.lost_events = 1;
    incomplete.incomplete_reasons = reasons(&[("events_lost", 1)]);
    snapshot(devices, vec![process, incomplete])
}

#[track_caller]
pub(crate) fn assert_golden(name: &str, text: &str) {
    assert_fits(text);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/render/golden");
    let path = directory.join(name);
    if std::env::var_os("TTMEM_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(text == golden, "{name} differs; the page is now:\n{text}");
}

#[track_caller]
fn assert_fits(text: &str) {
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        assert!(
            line.chars().count() <= MIN_WIDTH,
            "{}: {line}",
            line.chars().count()
        );
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

/// The page with what a server finds wrong in the snapshot.
fn status(snapshot: &Snapshot, width: usize, color: bool) -> String {
    let no_leaks = Leaks {
        schema: SCHEMA,
        time: snapshot.time,
        growing: Vec::new(),
        held_at_close: Vec::new(),
        left_out: 0,
    };
    let problems = Problems {
        schema: SCHEMA,
        time: snapshot.time,
        problems: ttmem_report::problems(snapshot, &[], &no_leaks),
    };
    super::status(snapshot, &problems, Screen { width, color })
}

#[test]
fn no_device() {
    assert_golden(
        "status_0.txt",
        &status(&snapshot(Vec::new(), Vec::new()), 80, false),
    );
}

#[test]
fn one_device() {
    let devices = vec![device(0, 4)];
    let processes = vec![process(4001, "python", &devices)];
    assert_golden(
        "status_1.txt",
        &status(&snapshot(devices, processes), 80, false),
    );
}

#[test]
fn eight_devices_in_trouble() {
    assert_golden("status_8.txt", &status(&troubled(), 80, false));
}

#[test]
fn thirty_two_devices() {
    assert_golden("status_32.txt", &status(&galaxy(), 80, false));
}

#[test]
fn colours_change_nothing_but_colour() {
    for snapshot in [troubled(), galaxy(), snapshot(Vec::new(), Vec::new())] {
        let colored = status(&snapshot, 80, true);
        let mut plain = String::new();
        let mut pieces = colored.split("\u{1b}[");
        plain.push_str(pieces.next().unwrap());
        for piece in pieces {
            plain.push_str(piece.split_once('m').unwrap().1);
        }
        assert!(colored.len() > plain.len());
        assert_eq!(plain, status(&snapshot, 80, false));
    }
}

#[test]
fn any_terminal_width_gives_a_page_that_fits_it() {
    for snapshot in [troubled(), galaxy()] {
        assert_eq!(status(&snapshot, 0, false), status(&snapshot, 80, false));
        for width in 80..200 {
            let page = status(&snapshot, width, false);
            assert!(
                page.lines().all(|line| line.chars().count() <= width),
                "{width}:\n{page}"
            );
        }
    }
}

#[test]
fn the_largest_numbers_and_the_worst_names_still_fit() {
    let mut worst = troubled();
    let name = "\u{1b}]0;\u{7}\u{202e}名前 very long ".repeat(20);
    worst.host.clone_from(&name);
    worst.server.version.clone_from(&name);
    worst.server.pid = u32::MAX;
    worst.server.uptime_seconds = u64::MAX;
    worst.server.clients = u64::MAX;
    worst.server.clients_refused = u64::MAX;
    worst.server.events_applied = u64::MAX;
    worst.errors.push(name.clone());
    worst.anomalies.0.insert(name.clone(), u64::MAX);
    for device in &mut worst.devices {
        device.id = u32::MAX;
        device.board = Some(name.clone());
        device.scope = Some(name.clone());
        for class in [&mut device.dram, &mut device.trace] {
            class.charged_bytes = u64::MAX;
            class.union_bytes = Some(u64::MAX);
            class.overlap_bytes = Some(u64::MAX);
            class.buffers = u64::MAX;
            class.banks = Some(u32::MAX);
            class.peak_time = Some(Timestamp::from_unix_nanos(u64::MAX));
        }
        device.l1.reserved_bytes = Some(u64::MAX);
        device.l1.occupied_bytes = Some(u64::MAX);
        device.cb.count = u64::MAX;
        device.kernel.registered_bytes = u64::MAX;
        device.kernel.count = u64::MAX;
    }
    for process in &mut worst.processes {
        process.pid = Some(u32::MAX);
        process.name = Some(name.clone());
        process.lost_events = u64::MAX;
        process.anomalies = u64::MAX;
        process.claimed_pid = Some(i64::MIN);
        if let Some(released) = &mut process.released {
            released.reason.clone_from(&name);
        }
        for device in &mut process.devices {
            device.dram_bytes = u64::MAX;
            device.buffers = u64::MAX;
        }
    }
    assert_fits(&status(&worst, 80, false));
    for _ in 0..2 {
        worst.devices.extend(worst.devices.clone());
    }
    assert_fits(&status(&worst, 80, false));
}

#[test]
fn percentages_are_of_the_union_and_end_at_a_hundred() {
    let page = status(&troubled(), 80, false);
    let charged_twice = page.lines().find(|line| line.contains("overlap")).unwrap();
    assert_eq!(
        charged_twice.trim(),
        "overlap 12.0 GiB: allocators charge 15.0 GiB together"
    );
    let mut beyond = snapshot(vec![device(0, 8)], Vec::new());
    beyond.devices[0].dram.union_bytes = Some(20 * GIB);
    let page = status(&beyond, 80, false);
    assert!(
        page.contains("█ 100.0%    20.0 GiB of   12.0 GiB"),
        "{page}"
    );
}

fn buffer_row(pid: u32) -> BufferRow {
    BufferRow {
        pid: Some(pid),
        instance: None,
        device_ids: vec![0, 1, 2, 3],
        class: MemoryClass::L1Small,
        id: HexId(0x7fff_dead_beef),
        address: Some(1_048_640),
        requested_bytes: 1000,
        charged_bytes: 64 * KIB,
        per_bank_bytes: Some(KIB),
        banks: Some(64),
        layout: None,
        page_bytes: None,
        aliases: 0,
        time: None,
        operation: Some("ttnn::add".into()),
        stack: None,
        python: None,
    }
}

fn kernel_row() -> KernelRow {
    KernelRow {
        pid: Some(4001),
        instance: None,
        device_ids: vec![4, 0, 2, 6],
        program: Some(7),
        program_name: Some("fabric".into()),
        kernel: HexId(7 << 32),
        name: Some("fabric_erisc_router.cpp".into()),
        kind: KernelKind::Fabric,
        core_type: Some(CoreType::ActiveEth),
        binary_bytes: Some(57_344),
        cores: Some(16),
        total_bytes: 917_504,
        time: None,
        dispatches: 1,
    }
}

fn cb_row() -> CbRow {
    CbRow {
        pid: Some(4001),
        instance: None,
        device_ids: vec![0],
        program: Some(7),
        cb: HexId(3),
        kind: Some(CbKind::Scratchpad),
        address: Some(1_048_640),
        size_bytes: 4096,
        cores: Some(64),
        total_bytes: 256 * KIB,
        time: None,
    }
}

fn dumped<R: DumpRow>(pages: &[&[R]]) -> String {
    let mut dump = Dump::new(80, false);
    let mut text: String = pages.iter().map(|rows| dump.rows(rows)).collect();
    text.push_str(&dump.finish());
    text
}

#[test]
fn dumps_of_every_kind() {
    let legacy = BufferRow {
        address: None,
        operation: None,
        ..buffer_row(4002)
    };
    let nameless = BufferRow {
        pid: None,
        ..buffer_row(0)
    };
    let mut text = dumped(&[&[buffer_row(4001)], &[legacy, nameless]]);
    let unknown = KernelRow {
        name: None,
        program_name: None,
        kind: KernelKind::Unknown,
        core_type: None,
        binary_bytes: None,
        cores: None,
        ..kernel_row()
    };
    text.push_str(&dumped(&[&[kernel_row(), unknown]]));
    let unknown = CbRow {
        program: None,
        kind: None,
        cores: None,
        address: None,
        ..cb_row()
    };
    text.push_str(&dumped(&[&[cb_row(), unknown]]));
    text.push_str(&dumped::<KernelRow>(&[]));
    assert_golden("dump.txt", &text);
}

#[test]
fn dumps_of_hostile_rows_fit() {
    let name = Some("\r\n\u{1b}[31m".repeat(100));
    let buffer = BufferRow {
        pid: Some(u32::MAX),
        device_ids: (0..1000).step_by(2).collect(),
        address: Some(u64::MAX),
        charged_bytes: u64::MAX,
        operation: name.clone(),
        ..buffer_row(0)
    };
    assert_fits(&dumped(&[&[buffer]]));
    let kernel = KernelRow {
        name,
        cores: Some(u32::MAX),
        total_bytes: u64::MAX,
        ..kernel_row()
    };
    assert_fits(&dumped(&[&[kernel]]));
    let cb = CbRow {
        program: Some(u64::MAX),
        address: Some(u64::MAX),
        ..cb_row()
    };
    assert_fits(&dumped(&[&[cb]]));
}

#[test]
fn a_process_of_a_job_says_so() {
    let mut of_job = process(7, "python", &[device(0, 1)]);
    for (key, value) in [
        ("job", "4711"),
        ("rank", "3"),
        ("world_size", "8"),
        ("unit", "x"),
    ] {
        of_job.labels.insert(key.to_owned(), value.to_owned());
    }
    let plain = process(8, "python", &[device(0, 1)]);
    let text = status(
        &snapshot(vec![device(0, 1)], vec![of_job, plain]),
        80,
        false,
    );
    assert!(text.contains("\n        job 4711, rank 3 of 8\n"), "{text}");
    assert_eq!(text.matches("rank").count(), 1, "{text}");
}
