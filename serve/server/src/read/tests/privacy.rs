//! Who is shown names, commands and lines of a process, and who gets sizes.

use super::python::failing;
use super::*;
use ttmem_report::{BufferQuery, BufferRow, GroupBy, HexId, PeakOf};

/// What must not reach others.
const PRIVATE: [&str; 5] = [
    ":\"python\"",
    "model.py",
    "main.py",
    "ttnn::add",
    "/home/ada",
];

/// Every document that is asked for without knowing more, as text.
fn documents(client: &ApiClient) -> String {
    let groups = |by| {
        let by = Some(by);
        client.buffer_groups(&BufferQuery {
            by,
            ..BufferQuery::default()
        })
    };
    let parts = [
        serde_json::to_string(&client.snapshot().unwrap()),
        serde_json::to_string(&client.page::<BufferRow>(None, None).unwrap()),
        serde_json::to_string(&client.page::<ttmem_report::ProgramRow>(None, None).unwrap()),
        serde_json::to_string(&groups(GroupBy::Line).unwrap()),
        serde_json::to_string(&groups(GroupBy::Operation).unwrap()),
        serde_json::to_string(&groups(GroupBy::Process).unwrap()),
        serde_json::to_string(&client.peak("0", PeakOf::Dram, None, None).unwrap()),
        serde_json::to_string(&client.peak("0", PeakOf::Dram, Some(4001), None).unwrap()),
        serde_json::to_string(&client.left(Some(4001), None).unwrap()),
        serde_json::to_string(&client.failures(16).unwrap()),
        serde_json::to_string(&client.leaks().unwrap()),
        serde_json::to_string(&client.problems().unwrap()),
        serde_json::to_string(&client.last(100, None).unwrap()),
    ];
    parts.map(Result::unwrap).join("\n")
}

/// A server of user 77, as a user with this number reaches it.
fn serving(ledger: Ledger, uid: u32) -> Served {
    let names = NamePolicy {
        server_uid: 77,
        over_tcp: false,
    };
    let state = ReadState {
        names,
        ..state(ledger_thread(ledger), facts)
    };
    Served::to(state, HttpLimits::SOCKET, uid)
}

/// What a user with this number is shown of processes of [`UID`].
fn shown_to(uid: u32, ledger: Ledger) -> (String, ttmem_report::Snapshot, Vec<BufferRow>) {
    let served = serving(ledger, uid);
    let client = served.client();
    let rows = client.page::<BufferRow>(None, None).unwrap().rows;
    (documents(&client), client.snapshot().unwrap(), rows)
}

fn gone() -> Ledger {
    let mut ledger = failing();
    ledger.depart(0, Departure::Ended, 30);
    ledger
}

#[test]
fn its_user_root_and_the_servers_user_see_names() {
    for uid in [UID, 0, 77] {
        let (text, snapshot, _rows) = shown_to(uid, failing());
        for private in PRIVATE {
            assert!(text.contains(private), "{private} for {uid}: {text}");
        }
        assert!(!snapshot.processes[0].names_hidden);
    }
}

#[test]
fn a_failure_says_that_its_names_are_hidden() {
    for (uid, hidden) in [(UID, false), (1001, true)] {
        let served = serving(failing(), uid);
        let failures = served.client().failures(16).unwrap().failures;
        let said: Vec<bool> = failures.iter().map(|each| each.names_hidden).collect();
        assert_eq!(said, [hidden], "{failures:?}");
    }
}

#[test]
fn others_get_sizes() {
    let (_text, all, all_rows) = shown_to(UID, failing());
    let (text, snapshot, rows) = shown_to(1001, failing());
    for private in PRIVATE {
        assert!(!text.contains(private), "{private}: {text}");
    }
    let process = &snapshot.processes[0];
    assert!(process.names_hidden);
    assert_eq!((process.name.as_ref(), process.pid), (None, Some(4001)));
    assert_eq!(process.devices, all.processes[0].devices);
    assert_eq!(snapshot.devices, all.devices);
    let sizes = |row: &BufferRow| (row.id, row.address, row.charged_bytes, row.time);
    let sizes_of = |rows: &[BufferRow]| rows.iter().map(sizes).collect::<Vec<_>>();
    assert_eq!(sizes_of(&rows), sizes_of(&all_rows));
    assert_eq!(rows[0].id, HexId(1));
}

#[test]
fn others_find_nothing_by_names_that_they_are_not_shown() {
    let found_by = |uid, text: &str| {
        let served = serving(failing(), uid);
        let query = BufferQuery {
            find: Some(text.to_owned()),
            ..BufferQuery::default()
        };
        served.client().buffers_where(&query).unwrap().matched
    };
    for text in ["model.py", "ttnn::add", "python"] {
        assert_eq!(found_by(UID, text), Some(2), "{text}");
        assert_eq!(found_by(1001, text), Some(0), "{text}");
    }
    assert_eq!(found_by(1001, "4001"), Some(2), "by the pid");
}

#[test]
fn of_processes_that_ended_no_more_is_shown() {
    let (text, _snapshot, _rows) = shown_to(UID, gone());
    for private in [":\"python\"", "model.py", "ttnn::add"] {
        assert!(text.contains(private), "{private}: {text}");
    }
    let (text, snapshot, _rows) = shown_to(1001, gone());
    for private in PRIVATE {
        assert!(!text.contains(private), "{private}: {text}");
    }
    assert!(snapshot.processes[0].names_hidden);
    let released = snapshot.processes[0].released.as_ref().unwrap();
    assert_eq!(released.buffers, 2);
}
