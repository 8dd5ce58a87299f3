//! What signals do to a server, and to those connected to it.

use super::support::client::{Client, allocation};
use super::support::old_client::{OldClient, request};
use super::support::server::TestServer;
use super::support::wait_until;
use std::fs;
use std::io::Read;
use ttmem_event::legacy::{Generation, RequestKind};

fn report(client: &mut OldClient, id: u64) {
    client.send(&request(RequestKind::Alloc, 0, 4096, 0, id));
    client.totals(0);
}

#[test]
fn term_and_int_end_it_in_order() {
    for signal in ["TERM", "INT"] {
        let mut server = TestServer::start(&[]);
        let mut client = OldClient::connect(&server.socket(), Generation::G4);
        report(&mut client, 0x10);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{signal}");
        let left: Vec<_> = fs::read_dir(server.folder())
            .expect("the folder is there")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(
            left,
            ["out.log"],
            "the socket and its lock are gone after {signal}"
        );
        let log = server.log();
        assert!(log.contains("  Active allocations: 1\n"), "{log}");
        assert!(
            log.contains("Audit: ✓ every total equals the live set\n"),
            "{log}"
        );
        assert!(log.ends_with("🛑 Allocation Server stopped\n"), "{log}");
    }
}

#[test]
fn whoever_is_connected_at_its_end_sees_the_end() {
    let mut server = TestServer::start(&[]);
    let mut old = OldClient::connect(&server.socket(), Generation::G1);
    report(&mut old, 0x10);
    let mut new = Client::connect(&server.socket(), [1; 16]);
    let mut silent = OldClient::connect(&server.socket(), Generation::G1);
    server.signal("TERM");
    assert!(server.wait().success());
    let mut rest = Vec::new();
    for stream in [&mut old.stream, &mut new.stream, &mut silent.stream] {
        assert_eq!(
            stream.read_to_end(&mut rest).expect("an end, not an error"),
            0
        );
    }
}

#[test]
fn hup_reopens_the_log_after_it_was_moved_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, moved) = (
        folder.path().join("events.log"),
        folder.path().join("moved.log"),
    );
    let path = log.to_str().expect("text").to_owned();
    let server = TestServer::start_in(folder, &["--log-file", &path]);
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    let holds = |path, id: &str| fs::read_to_string(path).is_ok_and(|text| text.contains(id));
    report(&mut client, 0xAAAA);
    wait_until("the first line is written", || holds(&log, "0xaaaa"));

    fs::rename(&log, &moved).expect("an administrator may");
    server.signal("HUP");
    wait_until("the log is there again", || log.exists());
    report(&mut client, 0xBBBB);
    wait_until("the second line is written", || holds(&log, "0xbbbb"));
    assert!(!holds(&log, "0xaaaa"));
    assert!(!holds(&moved, "0xbbbb"));
}

#[test]
fn hup_without_a_log_file_changes_nothing() {
    let server = TestServer::start(&[]);
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    report(&mut client, 0xAAAA);
    server.signal("HUP");
    report(&mut client, 0xBBBB);
    wait_until("both lines are written", || server.log().contains("0xbbbb"));
    assert!(server.log().contains("0xaaaa"));
}

#[test]
fn usr1_prints_a_summary_and_does_not_end_it() {
    for options in [&[][..], &["--quiet"]] {
        let server = TestServer::start(options);
        let mut client = OldClient::connect(&server.socket(), Generation::G4);
        report(&mut client, 0x10);
        client.send(&request(RequestKind::KernelLoad, 3, 917_504, 1, 0x20));
        client.totals(0);
        for printed in 1..=3 {
            server.signal("USR1");
            wait_until("a summary is printed", || {
                server
                    .log()
                    .matches("Audit: ✓ every total equals the live set")
                    .count()
                    == printed
            });
        }
        let log = server.log();
        let summary = log
            .split("📊 Current Statistics:")
            .nth(1)
            .expect("a summary");
        assert!(
            summary.contains("  Device 0:\n    Buffers: 1\n    DRAM: 4096 bytes"),
            "{log}"
        );
        let kernels = "    Kernel: 917504 bytes (896 KB), 1 kernels, Fabric 896 KB\n";
        assert!(
            summary.contains("  Device 3:\n") && summary.contains(kernels),
            "{log}"
        );
        // It goes on as before.
        assert_eq!(client.totals(0).dram, 4096, "{options:?}");
    }
}

#[test]
fn usr1_in_a_json_log_is_one_line() {
    let server = TestServer::start(&["--log-format", "json"]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, 1_048_640, 2048)]);
    server.signal("USR1");
    wait_until("a summary is printed", || {
        server.log().contains("Current Statistics")
    });
    let log = server.log();
    let line = log
        .lines()
        .find(|line| line.contains("Current Statistics"))
        .expect("one");
    let line: serde_json::Value = serde_json::from_str(line).expect("every line is JSON");
    assert_eq!(
        (&line["event"], &line["kind"]),
        (&"dump".into(), &"summary".into())
    );
    let text = line["text"].as_str().expect("a text");
    assert!(text.contains("    DRAM: 24576 bytes (24 KB)\n"), "{text}");
}
