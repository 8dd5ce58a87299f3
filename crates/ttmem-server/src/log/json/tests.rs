//! Lines that a JSON reader takes, with the keys that readers were promised.

use super::*;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use ttmem_event::{CoreType, KernelKind, MeshId, ProgramId, TextId};
use ttmem_ledger::{Anomaly, Departure, Effect, Exit};

fn entry(change: Change) -> LogEntry {
    LogEntry {
        effect: Effect {
            time: 1_500_000_000,
            process: 0,
            device: None,
            change,
        },
        pid: Some(7),
        device: Some(2),
    }
}

/// The one object on a line.
fn parse(line: &str) -> Json {
    assert_eq!(line.matches('\n').count(), 1, "{line:?}");
    assert!(line.ends_with('\n'));
    serde_json::from_str(line).unwrap()
}

fn object(entry: &LogEntry, verbose: bool) -> Json {
    let mut line = String::new();
    write_entry(&mut line, entry, verbose);
    parse(&line)
}

fn note_object(note: &Note) -> Json {
    let mut line = String::new();
    write_note(&mut line, 1, note);
    parse(&line)
}

#[test]
fn buffers_and_circular_buffers() {
    let booked = Change::BufferBooked {
        class: Class::L1Small,
        id: u64::MAX,
        bytes: 64,
        references: 2,
    };
    let time = "1970-01-01T00:00:01.500000000Z";
    assert_eq!(
        object(&entry(booked), false),
        json!({
            "time": time, "event": "buffer_alloc", "pid": 7, "device": 2, "class": "l1_small",
            "id": "0xffffffffffffffff", "bytes": 64, "references": 2,
        })
    );
    let released = Change::CbReleased {
        program: 3,
        bytes: 64,
        total_bytes: 128,
    };
    let unseen = LogEntry {
        pid: None,
        ..entry(released)
    };
    assert_eq!(
        object(&unseen, false),
        json!({
            "time": time, "event": "cb_free", "pid": null, "device": 2, "program_id": 3,
            "bytes": 64, "device_total_bytes": 128,
        })
    );
}

#[test]
fn kernel_loads_have_the_promised_keys() {
    let booked = |known: bool| Change::KernelBooked {
        program: 12,
        kind: KernelKind::Fabric,
        core_type: known.then_some(CoreType::ActiveEth),
        binary_bytes: known.then_some(57_344),
        cores: known.then_some(16),
        bytes: 917_504,
        total_bytes: 917_504,
    };
    assert_eq!(
        object(&entry(booked(true)), false),
        json!({
            "time": "1970-01-01T00:00:01.500000000Z", "event": "kernel_load", "pid": 7,
            "device": 2, "program_id": 12, "kind": "fabric", "core_type": "active_eth",
            "binary_bytes": 57_344, "cores": 16, "total_bytes": 917_504,
            "device_total_bytes": 917_504,
        })
    );
    let unknown = object(&entry(booked(false)), false);
    for key in ["core_type", "binary_bytes", "cores"] {
        assert_eq!(unknown.get(key), Some(&Json::Null), "{key}");
    }
}

#[test]
fn the_other_changes() {
    let unloaded = Change::KernelReleased {
        program: 12,
        kind: KernelKind::Dispatch,
        bytes: 5,
        total_bytes: 0,
    };
    assert_eq!(object(&entry(unloaded), false)["event"], "kernel_unload");
    let peak = object(
        &entry(Change::L1Peak {
            bytes: 1,
            buffers: 2,
        }),
        false,
    );
    assert_eq!(
        (&peak["event"], &peak["buffers"]),
        (&json!("l1_peak"), &json!(2))
    );
    let refused = LogEntry {
        device: None,
        ..entry(Change::Contradicted {
            anomaly: Anomaly::InvalidDevice,
            what: What::LegacyAllocated {
                device: -9,
                class: Class::Trace,
                size_bytes: 1,
                id: 255,
            },
        })
    };
    assert_eq!(
        object(&refused, false),
        json!({
            "time": "1970-01-01T00:00:01.500000000Z", "event": "anomaly", "pid": 7,
            "device": -9, "anomaly": "invalid_device", "report": "legacy_allocated",
            "fields": {"device": -9, "class": "trace", "size_bytes": 1, "id": "0xff"},
        })
    );
}

#[test]
fn every_kind_of_event_is_one_valid_object() {
    for layout in ttmem_event::event::vocabulary::LAYOUT {
        for byte in [0, 1, 255] {
            let mut record = [byte; ttmem_event::event::EVENT_BYTES];
            record[0] = layout.kind;
            for field in layout.fields {
                // Words and flags cannot be just anything.
                if byte == 255 && (!field.values.is_empty() || field.type_name == "bool") {
                    record[field.offset] = 1;
                }
            }
            let what = ttmem_event::Event::decode(&record).unwrap().what;
            let json = object(&entry(Change::Happened(what)), true);
            let fields = json["fields"].as_object().unwrap();
            assert_eq!(fields.len(), layout.fields.len(), "{}", layout.name);
        }
    }
}

#[test]
fn routine_needs_a_verbose_log() {
    let destroyed = entry(Change::Happened(What::ProgramDestroyed {
        program: ProgramId(1),
    }));
    let mut line = String::new();
    write_entry(&mut line, &destroyed, false);
    assert_eq!(line, "");
    assert_eq!(object(&destroyed, true)["event"], "program_destroyed");
}

#[test]
fn failures_name_their_cause() {
    let failed = What::AllocationFailed {
        mesh: MeshId(1),
        class: Class::Dram,
        banks: 12,
        requested_bytes: 100,
        per_bank_bytes: 10,
        free_bytes: 20,
        largest_free_bytes: 5,
        bank_bytes: 40,
        operation: TextId::NONE,
    };
    let json = object(&entry(Change::Happened(failed)), false);
    assert_eq!(json["event"], "allocation_failed");
    assert_eq!(json["cause"], "fragmentation");
    assert_eq!(json["fields"]["class"], "dram");
}

#[test]
fn notes_are_objects_too() {
    let joined = Note::Joined {
        pid: Some(7),
        name: Arc::from("a\"b\n"),
    };
    assert_eq!(
        note_object(&joined),
        json!({
            "time": "1970-01-01T00:00:00.000000001Z", "event": "process_joined", "pid": 7,
            "name": "a\"b\n",
        })
    );
    let exit = Exit {
        time: 0,
        departure: Departure::Died,
        released: Released {
            buffers: 3,
            ..Released::default()
        },
    };
    let departed = note_object(&Note::Departed { pid: None, exit });
    assert_eq!(departed["departure"], "died");
    assert_eq!(departed["buffers"], 3);
    assert_eq!(departed["pid"], Json::Null);
    let started = note_object(&Note::Started {
        sockets: vec!["/run/a".to_owned(), "http://[::1]:9".to_owned()],
        devices: vec![DeviceFacts::default()],
    });
    assert_eq!(started["sockets"], json!(["/run/a", "http://[::1]:9"]));
    assert_eq!(started["devices"][0]["arch"], Json::Null);
}
