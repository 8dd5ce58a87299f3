//! The event log: its JSON form, its bounds, and what happens when nobody reads it.

use super::support::client::{Client, MESH};
use super::support::old_client::{OldClient, request};
use super::support::server::TestServer;
use super::support::{WATCHDOG, wait_until};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use ttmem_event::legacy::{Generation, RequestKind};
use ttmem_event::{CoreType, CoresId, Event, EventKind, KernelId, KernelKind, ProgramId, TextId};

/// A fabric router: 57,344 bytes on each of 16 Ethernet cores.
fn fabric_kernel() -> Event {
    let kind = EventKind::KernelLoaded {
        mesh: MESH,
        program: ProgramId(7),
        kernel: KernelId(0x99),
        name: TextId::NONE,
        binary_bytes: 57_344,
        cores: CoresId::NONE,
        core_count: 16,
        kind: KernelKind::Fabric,
        core_type: CoreType::ActiveEth,
    };
    Event {
        time: 1_700_000_000_000_000_000,
        kind,
    }
}

#[test]
fn every_line_of_a_json_log_is_json_and_events_are_those_of_the_read_api() {
    let mut server = TestServer::start(&["--log-format", "json"]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[fabric_kernel()]);
    let mut old = OldClient::connect(&server.socket(), Generation::G4);
    old.send(&request(RequestKind::KernelLoad, 1, 94_208, 2, 0x20));
    old.send(&request(RequestKind::Alloc, 4096, 1, 0, 0x30));
    old.send(&request(RequestKind::Free, 0, 0, 0, 0x40));
    old.send(&request(RequestKind::DumpRemaining, 0, 0, 0, 0));
    old.totals(0);
    let api = ttmem_reader::ApiClient::new(server.socket());
    let kept = api.last(1000, None).expect("the last events").events;
    server.signal("TERM");
    assert!(server.wait().success());

    let log = server.log();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    let has_time = |line: &&Value| line["time"].is_string() && line["event"].is_string();
    assert_eq!(lines.iter().filter(has_time).count(), lines.len(), "{log}");
    let named = |name: &str| -> Vec<&Value> {
        let lines = lines.iter();
        lines.filter(|line| line["event"] == name).collect()
    };
    let fabric = named("kernel_loaded")[0];
    assert_eq!(fabric["pid"], std::process::id());
    let fields = &fabric["fields"];
    assert_eq!(fields["binary_bytes"], 57_344);
    assert_eq!(fields["core_count"], 16);
    assert_eq!(fields["kind"], "fabric");
    assert_eq!(fields["core_type"], "active_eth");
    assert_eq!(fields["program"], 7);
    assert_eq!(fields["devices"], serde_json::json!([0]));
    // An old sender says less.
    let dispatch = &named("legacy_kernel_loaded")[0]["fields"];
    assert_eq!(dispatch["size_bytes"], 94_208);
    assert_eq!(dispatch["kind"], "dispatch");
    let refused = named("legacy_freed");
    assert_eq!(refused[0]["fields"]["anomaly"], "unknown_free");
    assert_eq!(lines.last().expect("a line")["event"], "server_stopped");

    // Every event that the read API has is in the log, to the letter.
    let logged = log.lines().filter_map(|line| {
        let event: Option<ttmem_report::StreamEvent> = serde_json::from_str(line).ok();
        event
    });
    let logged: Vec<_> = logged.map(|line| line.event).collect();
    for event in &kept {
        assert!(logged.contains(event), "{event:?}\n{log}");
    }
    assert!(!kept.is_empty());
}

#[test]
fn a_kernel_line_for_people_has_the_same_figures() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[fabric_kernel()]);
    let line = "✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.875 MB (Total: 0.875 MB), \
                Binary Size: 56 KB, Cores: 16, Total L1: 896 KB\n";
    wait_until("the line is written", || server.log().contains(line));
}

#[test]
fn rotation_bounds_the_files() {
    const MAX_BYTES: u64 = 1 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events.log");
    let path = path.to_str().expect("text").to_owned();
    let options = [
        "--log-file",
        &path,
        "--log-max-size",
        "1M",
        "--log-keep",
        "3",
    ];
    let mut server = TestServer::start_in(folder, &options);
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    // Far more than three files hold.
    for round in 0..100 {
        let requests: Vec<_> = (0..1000)
            .map(|id| request(RequestKind::Alloc, 0, 64, 0, 1 + round * 1000 + id))
            .collect();
        client.send_all(&requests);
    }
    assert_eq!(client.totals(0).dram, 64 * 100_000);
    server.signal("TERM");
    assert!(server.wait().success());

    let mut names = Vec::new();
    for entry in fs::read_dir(server.folder()).expect("the folder is there") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        if name.starts_with("events") {
            let bytes = entry.metadata().expect("a file").len();
            assert!(bytes <= MAX_BYTES, "{name} has {bytes} bytes");
            names.push(name);
        }
    }
    names.sort_unstable();
    assert_eq!(names, ["events.log", "events.log.1", "events.log.2"]);
    let newest = fs::read_to_string(&path).expect("text");
    assert!(newest.ends_with("🛑 Allocation Server stopped\n"));
    let older = fs::read_to_string(format!("{path}.1")).expect("text");
    assert!(
        older.starts_with("✓ [PID "),
        "a file begins with a whole line"
    );
    assert!(older.ends_with('\n'), "and ends with one");
    // Events went to the files alone.
    assert_eq!(server.log(), "");
}

#[test]
fn quiet_hides_events_and_never_errors() {
    let server = TestServer::start(&["--quiet"]);
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    client.send(&request(RequestKind::Alloc, 0, 4096, 0, 0x10));
    client.send(&request(RequestKind::CbAlloc, 0, 4096, 0, 0x20));
    client.send(&request(RequestKind::KernelLoad, 0, 4096, 0, 0x30));
    client.send(&request(RequestKind::Alloc, 4096, 4096, 0, 0x40));
    client.send(&request(RequestKind::Alloc, 0, 4096, 99, 0x50));
    assert_eq!(client.totals(0).dram, 4096);
    wait_until("both errors are written", || {
        let log = server.log();
        log.contains("⚠️  Invalid device_id 4096 - ignoring message\n")
            && log.contains("⚠️  Invalid buffer_type 99 for buffer 80 on device 0\n")
    });
    let log = server.log();
    for event in ["Allocated", "CB_ALLOC", "KERNEL_LOAD", "L1 Peak"] {
        assert!(!log.contains(event), "{log}");
    }
    // A dump that a client asks for is no event either.
    client.send(&request(RequestKind::DumpRemaining, 0, 0, 0, 0));
    wait_until("the dump is written", || server.log().contains("0x10"));
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    const EVENTS: u64 = 400_000;
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = TestServer::start_adapted(folder, &[], |command| {
        command.stdout(Stdio::piped());
    });
    let unread = server.take_stdout();
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    let mut id = 0;
    while id < EVENTS {
        let requests: Vec<_> = (id..id + 10_000)
            .map(|id| request(RequestKind::Alloc, 0, 32, 0, 1 + id))
            .collect();
        client.send_all(&requests);
        id += 10_000;
    }
    assert_eq!(client.totals(0).dram, 32 * EVENTS);
    let elided = || {
        server.status()["server"]["log_lines_elided"]
            .as_u64()
            .expect("a count")
    };
    wait_until("lines without room are counted", || elided() > 0);
    assert_eq!(server.device(0)["dram"]["charged_bytes"], 32 * EVENTS);
    assert!(elided() < EVENTS + 100, "not more than there were");
    // Its end does not depend on the reader either.
    server.signal("TERM");
    assert!(server.wait().success());
    drop(unread);
}

#[test]
fn a_log_whose_reader_left_stops_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = TestServer::start_adapted(folder, &[], |command| {
        command.stdout(Stdio::piped());
    });
    drop(server.take_stdout());
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    for id in 1..=100 {
        client.send(&request(RequestKind::Alloc, 0, 4096, 0, id));
        client.totals(0);
    }
    assert_eq!(client.totals(0).dram, 409_600);
    wait_until("the loss is told on standard error", || {
        server
            .log()
            .contains("cannot write the log to standard output")
    });
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn a_flood_of_connections_is_no_flood_of_lines() {
    let server = TestServer::start(&["--quiet"]);
    for _connection in 0..300 {
        let mut stream = UnixStream::connect(server.socket()).expect("it listens");
        stream.set_read_timeout(Some(WATCHDOG)).expect("a timeout");
        // The first byte of no protocol.
        stream.write_all(&[0xFF]).expect("it is taken");
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
    }
    // 64 one by one, then the 128th and the 256th.
    let lines = || server.log().matches("Connection closed").count();
    wait_until("the last of them is written", || lines() >= 66);
    assert_eq!(lines(), 66, "{}", server.log());
    assert!(server.log().contains("; 256 closed so far"));
}
