//! Lines that a JSON reader takes, with the keys that readers were promised.

use super::*;
use crate::log::FailedNote;
use serde_json::{Value as Json, json};
use ttmem_ledger::{Departure, DeviceFacts, Exit, Released};

/// The one object on a line.
fn parse(line: &str) -> Json {
    assert_eq!(line.matches('\n').count(), 1, "{line:?}");
    assert!(line.ends_with('\n'));
    serde_json::from_str(line).unwrap()
}

fn object(note: &Note) -> Json {
    let mut out = String::new();
    write_note(&mut out, 1, note);
    parse(&out)
}

#[test]
fn any_text_survives_and_none_steers_a_terminal() {
    let all: String = (0..=0x2100).filter_map(char::from_u32).collect();
    let mut line = String::new();
    let reason = all.clone();
    write_note(&mut line, 0, &Note::LogFailed { reason });
    assert!(!line.trim_end().contains(ttmem_report::is_deceptive));
    assert_eq!(parse(&line)["reason"], all);
}

#[test]
fn notes_are_objects_too() {
    let joined = Note::ProcessJoined {
        pid: Some(7),
        name: "a\"b\n".to_owned(),
    };
    assert_eq!(
        object(&joined),
        json!({
            "time": "1970-01-01T00:00:00.000000001Z", "event": "process_joined", "pid": 7,
            "name": "a\"b\n",
        })
    );
    let exit = Exit {
        time: 0,
        departure: Departure::Ended,
        released: Released {
            buffers: 3,
            ..Released::default()
        },
    };
    let departed = object(&Note::ProcessDeparted { pid: None, exit });
    assert_eq!(departed["event"], "process_departed");
    assert_eq!(departed["released"]["reason"], "ended");
    assert_eq!(departed["released"]["buffers"], 3);
    assert_eq!(departed.get("pid"), Some(&Json::Null));
    let started = object(&Note::ServerStarted {
        sockets: vec!["/run/a".to_owned(), "http://[::1]:9".to_owned()],
        devices: vec![(&DeviceFacts::default()).into()],
    });
    assert_eq!(started["event"], "server_started");
    assert_eq!(started["sockets"], json!(["/run/a", "http://[::1]:9"]));
    assert_eq!(started["devices"][0].get("arch"), Some(&Json::Null));
    let invalid = object(&Note::InvalidBufferType {
        pid: Some(7),
        buffer_type: 9,
        id: ttmem_report::HexId(u64::MAX),
        device: -1,
    });
    assert_eq!(invalid["event"], "invalid_buffer_type");
    assert_eq!(invalid["id"], "0xffffffffffffffff");
    assert_eq!(object(&Note::ServerStopped)["event"], "server_stopped");
}

#[test]
fn a_failure_has_its_sentence_and_what_programs_ask_for() {
    let note = Note::Failed(FailedNote::fragmented(10));
    let line = object(&note);
    let sentence = "L1 is fragmented: `ttnn.linear` at model.py:57 needs 4.0 KiB in one piece in each of \
                    64 banks; 8.0 KiB are free, but the largest free block is 2.0 KiB.";
    assert_eq!(
        line,
        json!({
            "time": "1970-01-01T00:00:00.000000001Z", "event": "failed", "pid": 7,
            "device_ids": [3], "verdict": "fragmentation", "sentence": sentence,
            "operation": "ttnn.linear", "python": "/home/me/model.py:57 forward", "times": 10,
        })
    );
}
