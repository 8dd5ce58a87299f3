//! The JSON format as other programs see it: names, nulls, and the way back.

use serde::Serialize;
use serde_json::Value;
use ttmem_report::{
    AllocatorUsage, Anomalies, BufferPage, BufferRow, CacheCounts, CbKind, CbRow, CbUsage,
    ClassUsage, ConfigRingEntry, ConfigRingUsage, CoreType, Device, FailureCount, HexId,
    HostProcess, KernelKind, KernelRow, KernelUsage, LeakCandidates, Mark, MemoryClass, Page,
    PeakBytes, PrefetchUsage, Process, ProcessDevice, ProcessState, Released, SCHEMA, Server,
    Snapshot, Source, Timestamp,
};

const TIME: Timestamp = Timestamp::from_unix_nanos(1_794_731_103_000_000_000);

/// A snapshot in which every list has an element and everything that may be unknown is.
fn snapshot() -> Snapshot {
    Snapshot {
        schema: SCHEMA,
        time: TIME,
        host: "host".into(),
        server: Server {
            pid: 1,
            version: "0.1.0".into(),
            started: TIME,
            uptime_seconds: 0,
            sockets: vec!["/run/ttmem/ttmem.sock".into()],
            clients: 1,
            clients_limit: None,
            clients_refused: 0,
            events_applied: 1,
            events_lost: 0,
            events_elided: 0,
            log_lines_elided: 0,
        },
        devices: vec![device()],
        processes: vec![process()],
        marks: vec![Mark {
            name_hidden: false,
            name: "warm-up".into(),
            number: 1,
            time: TIME,
        }],
        anomalies: Anomalies([("unknown_free".to_owned(), 1)].into()),
        errors: vec!["the log cannot be written".into()],
        machine: None,
        failures: FailureCount {
            count: 2,
            newest: Some(Timestamp::from_unix_nanos(1)),
        },
    }
}

fn device() -> Device {
    Device {
        id: 0,
        unique_id: Some(HexId((1 << 53) + 1)),
        scope: None,
        arch: None,
        board: None,
        remote: None,
        source: None,
        verified: None,
        dram: ClassUsage::default(),
        l1: ClassUsage::default(),
        l1_small: ClassUsage::default(),
        trace: ClassUsage::default(),
        system: ClassUsage::default(),
        cb: CbUsage::default(),
        kernel: KernelUsage::default(),
        ring: vec![ConfigRingUsage {
            pid: Some(2),
            mesh: None,
            core_type: CoreType::Tensix,
            sub_device: None,
            capacity_bytes: None,
            used_bytes: 0,
            entry_count: 1,
            entries: vec![ConfigRingEntry {
                program: None,
                address: 0,
                size_bytes: 0,
                sync: None,
            }],
            wraps: 0,
            evictions: 0,
            stalls: 0,
            reserves: 0,
        }],
        prefetch: vec![PrefetchUsage {
            pid: Some(2),
            mesh: Some(1),
            capacity_bytes: None,
            used_bytes: 0,
            entries: 0,
            hits: 0,
            misses: 0,
            evictions: 0,
            resets: 0,
        }],
        caches: CacheCounts::default(),
        dispatches: 0,
        trace_replays: 0,
        failures: Default::default(),
        ring_stalls: 0,
        cb_headroom_bytes: Some(-1),
        names: None,
        telemetry: None,
        upstream: None,
        regions: Vec::new(),
        allocators: vec![AllocatorUsage {
            pid: Some(2),
            instance: None,
            mesh: None,
            class: MemoryClass::L1Small,
            charged_bytes: u64::MAX,
            capacity_bytes: None,
            banks: None,
            largest_free_bytes_per_bank: None,
            fragmentation: Some(0.25),
            buffers: 0,
            verified: None,
        }],
        peaks_since_marks: vec![PeakBytes::default()],
    }
}

fn process() -> Process {
    Process {
        pid: Some(2),
        instance: None,
        name: None,
        uid: None,
        start_time: None,
        state: ProcessState::Exited,
        source: Source::Legacy,
        incomplete: false,
        incomplete_reasons: Vec::new(),
        resyncing: false,
        lost_events: 0,
        elided_events: 0,
        claimed_pid: Some(-1),
        anomalies: 1,
        names_hidden: false,
        labels: Default::default(),
        inherited_frees: 0,
        leak_candidates: LeakCandidates::default(),
        connections: 0,
        devices: vec![ProcessDevice {
            id: 0,
            unique_id: None,
            scope: None,
            dram_bytes: 0,
            l1_bytes: 0,
            l1_small_bytes: 0,
            trace_bytes: 0,
            system_bytes: 0,
            cb_bytes: 0,
            kernel_bytes: 0,
            buffers: 0,
            peak: None,
        }],
        released: Some(Released {
            buffers: 1,
            cbs: 1,
            kernels: 1,
            bytes: 1,
            buffer_bytes: 1,
            time: TIME,
            reason: "ended".into(),
        }),
        host: Some(HostProcess {
            command: Some("python3 model.py".into()),
            user: Some("maria".into()),
            parent: Some(1),
            rss_bytes: Some(1),
        }),
    }
}

/// The keys of an object, in the order in which they are written.
///
/// `serde_json::Value` sorts its keys, so the text itself is read.
fn keys(object: &impl Serialize) -> String {
    let text = serde_json::to_string(object).expect("plain data");
    let mut depth = 0;
    let mut keys = Vec::new();
    let mut last_string = "";
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['{', '}', '[', ']', '"', ':']) {
        let symbol = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        match symbol {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b':' if depth == 1 => keys.push(last_string),
            b'"' => (last_string, rest) = rest.split_once('"').expect("quotes come in pairs"),
            _ => {}
        }
    }
    keys.join(" ")
}

#[test]
fn the_document_has_the_documented_names() {
    let snapshot = snapshot();
    let device = &snapshot.devices[0];
    let process = &snapshot.processes[0];
    assert_eq!(
        keys(&snapshot),
        "schema time host server devices processes marks anomalies errors failures machine"
    );
    assert_eq!(
        keys(device),
        "id unique_id scope arch board remote source verified dram l1 l1_small trace system cb \
         kernel ring prefetch caches dispatches trace_replays cb_headroom_bytes failures ring_stalls allocators \
         peaks_since_marks regions names telemetry upstream"
    );
    let class = "capacity_bytes banks requested_bytes charged_bytes union_bytes overlap_bytes \
                 peak_bytes peak_time buffers largest_free_bytes_per_bank capacity_is_current \
                 physical_bytes reserved_bytes occupied_bytes";
    for usage in [
        &device.dram,
        &device.l1,
        &device.l1_small,
        &device.trace,
        &device.system,
    ] {
        assert_eq!(keys(usage), class);
    }
    assert_eq!(
        keys(&device.cb),
        "registered_bytes resident_bytes local_bytes global_bytes dataflow_bytes \
         dataflow_borrowed_bytes scratchpad_bytes count peak_bytes peak_time"
    );
    assert_eq!(
        keys(&device.kernel),
        "registered_bytes resident_bytes application_bytes fabric_bytes dispatch_bytes \
         unknown_bytes unique_bytes shared_bytes tensix_bytes active_eth_bytes idle_eth_bytes \
         dram_core_bytes count peak_bytes peak_time"
    );
    assert_eq!(
        keys(process),
        "pid instance name names_hidden uid start_time state source incomplete incomplete_reasons resyncing lost_events \
         elided_events claimed_pid labels anomalies inherited_frees leak_candidates connections devices \
         released host"
    );
    assert_eq!(
        keys(&process.devices[0]),
        "id unique_id scope dram_bytes l1_bytes l1_small_bytes trace_bytes system_bytes cb_bytes \
         kernel_bytes buffers peak"
    );
}

#[test]
fn unknown_is_null_and_ids_keep_their_bits() {
    let json = serde_json::to_value(snapshot()).unwrap();
    let device = &json["devices"][0];
    for unknown in [
        &device["arch"],
        &device["l1"]["occupied_bytes"],
        &device["cb"]["peak_time"],
    ] {
        assert_eq!(*unknown, Value::Null);
    }
    assert_eq!(device["unique_id"], "0x20000000000001");
    assert_eq!(device["allocators"][0]["charged_bytes"], u64::MAX);
    assert_eq!(json["time"], "2026-11-15T08:25:03.000000000Z");
    assert_eq!(json["processes"][0]["state"], "exited");
    assert_eq!(json["anomalies"]["unknown_free"], 1);
}

#[test]
fn everything_comes_back() {
    let written = snapshot();
    let text = serde_json::to_string(&written).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), written);

    let buffers = BufferPage {
        schema: SCHEMA,
        rows: vec![BufferRow {
            pid: Some(2),
            instance: Some("00112233445566778899aabbccddeeff".into()),
            device_ids: vec![0, 1],
            class: MemoryClass::Dram,
            id: HexId(u64::MAX),
            address: Some(64),
            requested_bytes: 1,
            charged_bytes: 64,
            per_bank_bytes: None,
            banks: None,
            layout: None,
            page_bytes: None,
            aliases: 0,
            time: Some(TIME),
            operation: Some("ttnn::add \u{1b}\"".into()),
            stack: Some(vec![
                "libtt_metal.so+0x1f _ZN2tt4makeEv".into(),
                "?+0x10".into(),
            ]),
            python: Some(vec!["/srv/model.py:57 forward".to_owned()]),
        }],
        next: Some("next".into()),
        matched: Some(1),
        matched_bytes: Some(64),
    };
    let text = serde_json::to_string(&buffers).unwrap();
    assert_eq!(serde_json::from_str::<BufferPage>(&text).unwrap(), buffers);

    let kernels = Page {
        schema: SCHEMA,
        rows: vec![KernelRow {
            pid: Some(2),
            instance: None,
            device_ids: vec![0],
            program: Some(3),
            program_name: None,
            kernel: HexId(3 << 32),
            name: Some("reader.cpp".into()),
            kind: KernelKind::Fabric,
            core_type: Some(CoreType::ActiveEth),
            binary_bytes: Some(57_344),
            cores: Some(16),
            total_bytes: 917_504,
            time: None,
            dispatches: 1,
        }],
        next: None,
        matched: Some(1),
        matched_bytes: Some(64),
    };
    let text = serde_json::to_string(&kernels).unwrap();
    assert_eq!(
        serde_json::from_str::<Page<KernelRow>>(&text).unwrap(),
        kernels
    );

    let cbs = Page {
        schema: SCHEMA,
        rows: vec![CbRow {
            pid: Some(2),
            instance: None,
            device_ids: vec![0],
            program: None,
            cb: HexId(5),
            kind: Some(CbKind::Global),
            address: Some(1024),
            size_bytes: 2048,
            cores: Some(64),
            total_bytes: 131_072,
            time: None,
        }],
        next: None,
        matched: Some(1),
        matched_bytes: Some(64),
    };
    let text = serde_json::to_string(&cbs).unwrap();
    assert_eq!(serde_json::from_str::<Page<CbRow>>(&text).unwrap(), cbs);
}

#[test]
fn a_document_that_lacks_a_figure_is_refused() {
    let mut json = serde_json::to_value(snapshot()).unwrap();
    json["devices"][0]["dram"]
        .as_object_mut()
        .unwrap()
        .remove("charged_bytes");
    let error = serde_json::from_value::<Snapshot>(json)
        .unwrap_err()
        .to_string();
    assert!(error.contains("charged_bytes"), "{error}");
}
