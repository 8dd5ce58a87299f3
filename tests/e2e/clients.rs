//! The new protocol from end to end: handshake, events, reconnects, and breaches.

use super::support::client::{Client, MESH, allocation, n150, n150_capacities, put_greeting};
use super::support::old_client::{OldClient, request};
use super::support::place::open_folder;
use super::support::server::{Killed, TTMEM, TestServer};
use super::support::workload::{Plan, Workload};
use super::support::{WATCHDOG, wait_until};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use ttmem_account::{Account, Limits};
use ttmem_event::legacy::{Generation, RequestKind};
use ttmem_event::wire::{Frame, FrameKind, FrameReader, Goodbye, Preamble, RefusalCode, ResyncEnd};
use ttmem_event::{BufferId, Event, EventKind};
use ttmem_reader::ApiClient;

/// The first address that an n150's DRAM allocator hands out.
const BASE: u64 = 1_048_640;
const BANK_BYTES: u64 = 1_072_693_184;

/// A user without any rights.
const NOBODY: u32 = 65_534;

fn free(buffer: u64) -> Event {
    let content = EventKind::BufferFreed {
        mesh: MESH,
        buffer: BufferId(buffer),
    };
    Event {
        time: buffer,
        kind: content,
    }
}

/// What the server says before it ends the connection.
fn refusal(stream: &mut UnixStream) -> (RefusalCode, String) {
    stream.set_read_timeout(Some(WATCHDOG)).expect("a timeout");
    let mut reader = FrameReader::default();
    let mut buffer = [0; 4096];
    let mut found = None;
    loop {
        // A close that finds bytes unread is a reset; what was said before it arrives all the same.
        let count = stream.read(&mut buffer).unwrap_or(0);
        if count == 0 {
            return found.expect("a refusal before the end");
        }
        reader.push(&buffer[..count]);
        while let Some(frame) = reader.next_frame().expect("the server speaks it too") {
            if let Frame::Refused { code, reason } = frame {
                found = Some((code, reason.to_owned()));
            }
        }
    }
}

/// Whether the server has ended the connection.
fn is_ended(client: &mut Client) -> bool {
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).is_ok()
}

/// The process with an instance, from `status --json`; null if there is none.
fn process(server: &TestServer, instance: [u8; 16]) -> Value {
    let wanted: String = instance.iter().map(|byte| format!("{byte:02x}")).collect();
    let status = server.status();
    let processes = status["processes"].as_array().expect("a list of processes");
    let found = processes.iter().find(|process| {
        process["instance"]
            .as_str()
            .is_some_and(|instance| instance.replace('-', "") == wanted)
    });
    found.cloned().unwrap_or(Value::Null)
}

fn dram(server: &TestServer) -> Value {
    server.device(0)["dram"].take()
}

fn goodbye(client: &mut Client) {
    let mut bytes = Vec::new();
    Frame::put_goodbye(
        &mut bytes,
        &Goodbye {
            next_sequence: client.sequence,
        },
    );
    client.send_bytes(&bytes);
}

/// A whole state: one n150 and these buffers.
fn begin_resync(client: &mut Client, buffers: &[Event]) {
    let mut bytes = Vec::new();
    Frame::put(&mut bytes, FrameKind::ResyncBegin, |_empty| {});
    let definitions = n150(0, 0xABC);
    Frame::put_define(&mut bytes, &definitions);
    let (mut account, limits) = (Account::new(false), Limits::default());
    for definition in &definitions {
        let defined = account.define(definition, &limits, &mut ());
        defined.expect("nothing is wrong with it");
    }
    for event in n150_capacities().iter().chain(buffers) {
        let applied = account.apply(event, &limits, &mut ());
        applied.expect("nothing is wrong with it");
    }
    let mut state = Vec::new();
    account.save(&mut state);
    Frame::put_state(&mut bytes, &state);
    Frame::put(&mut bytes, FrameKind::Flush, |_empty| {});
    client.send_bytes(&bytes);
    client.wait_for(|frame| matches!(frame, Frame::Ack { .. }).then_some(()));
}

fn end_resync(client: &mut Client, next_sequence: u64) {
    let mut bytes = Vec::new();
    let end = ResyncEnd {
        next_sequence,
        lost_events: 0,
        elided_events: 0,
    };
    Frame::put_resync_end(&mut bytes, &end);
    client.send_bytes(&bytes);
    client.sequence = next_sequence;
    client.wait_for(|frame| match frame {
        Frame::Ack {
            next_sequence: acked,
        } if *acked == next_sequence => Some(()),
        _other => None,
    });
}

#[test]
fn a_read_after_a_flush_sees_what_was_flushed() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    let opened = client.sequence;
    let api = ApiClient::new(server.socket());
    let done = AtomicBool::new(false);
    let stale = thread::scope(|scope| {
        // Somebody else reads all the time: there is always a view that was right a moment ago.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _snapshot = api.snapshot();
            }
        });
        let stale = (1..=200).find(|count| {
            // Returns when it is acknowledged.
            client.send(&[allocation(*count, BASE + 4096 * count, 4096)]);
            let seen = api.snapshot().map(|seen| seen.devices[0].dram.buffers);
            let last = api.last(10_000, None).map(|last| last.events.len() as u64);
            (seen.ok(), last.ok()) != (Some(*count), Some(opened + count))
        });
        done.store(true, Ordering::Relaxed);
        stale
    });
    assert_eq!(stale, None, "the first allocation that was not seen");
}

#[test]
fn a_new_client_is_welcomed_and_what_it_sends_acknowledged() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    assert_eq!(client.welcome.version, 2);
    assert!(client.welcome.needs_resync, "nothing is known of it");
    assert_eq!(client.welcome.next_sequence, 0);
    client.open_n150(0, 0xABC);
    assert_eq!(client.sequence, 2);
    client.send(&[allocation(1, BASE, 4096)]);
    let process = process(&server, [1; 16]);
    assert_eq!(process["pid"], std::process::id());
    assert_eq!(process["name"], "e2e");
    assert_eq!(process["source"], "client");
    assert_eq!(process["state"], "live");
    assert_eq!(process["connections"], 1);
    assert_eq!(process["anomalies"], 0);
}

#[test]
fn events_are_applied_exactly() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, BASE, 4096), allocation(2, BASE + 8192, 2048)]);
    let both = dram(&server);
    assert_eq!(both["buffers"], 2);
    assert_eq!(both["requested_bytes"], 12 * 6144);
    assert_eq!(both["charged_bytes"], 12 * 6144);
    assert_eq!(both["union_bytes"], 12 * 6144);
    assert_eq!(both["overlap_bytes"], 0);
    assert_eq!(both["capacity_bytes"], 12 * BANK_BYTES);
    assert_eq!(both["banks"], 12);
    // The gap of 4096 between them is free too, but not the largest.
    assert_eq!(
        both["largest_free_bytes_per_bank"],
        BANK_BYTES - 8192 - 2048
    );

    client.send(&[free(2)]);
    let one = dram(&server);
    assert_eq!(one["charged_bytes"], 12 * 4096);
    assert_eq!(one["largest_free_bytes_per_bank"], BANK_BYTES - 4096);
    assert_eq!(one["peak_bytes"], 12 * 6144, "the peak stays");
    client.send(&[free(1)]);
    let none = dram(&server);
    assert_eq!(
        (&none["charged_bytes"], &none["union_bytes"]),
        (&0.into(), &0.into())
    );
    assert_eq!(none["largest_free_bytes_per_bank"], BANK_BYTES);
}

#[test]
fn another_version_or_layout_is_refused_with_both_numbers() {
    let server = TestServer::start(&[]);
    let ours = Preamble::OURS.layout_hash;
    let newer = Preamble {
        version: 9,
        oldest: 7,
        layout_hash: 5,
    };
    let other = Preamble {
        version: 2,
        oldest: 2,
        layout_hash: 0xFEED,
    };
    for (preamble, said) in [
        (
            newer,
            "the peer speaks versions 7 to 9, this end 2 to 2".to_owned(),
        ),
        (
            other,
            format!("the peer's event layout is 0x000000000000feed, this end's is {ours:#018x}"),
        ),
    ] {
        let mut stream = UnixStream::connect(server.socket()).expect("the server listens");
        stream
            .write_all(&preamble.encode())
            .expect("the server reads");
        assert_eq!(refusal(&mut stream), (RefusalCode::Version, said.clone()));
        wait_until("the refusal is in the log", || server.log().contains(&said));
    }
    assert_eq!(server.status()["processes"], serde_json::json!([]));
}

#[test]
fn one_client_more_than_allowed_is_told_so() {
    let server = TestServer::start(&["--max-clients", "2"]);
    let mut first = OldClient::connect(&server.socket(), Generation::G4);
    first.send(&request(RequestKind::Alloc, 0, 100, 0, 1));
    first.totals(0);
    let mut second = UnixStream::connect(server.socket()).expect("the server listens");
    let mut greeting = Vec::new();
    put_greeting(&mut greeting, [1; 16]);
    second.write_all(&greeting).expect("the server reads");
    let (code, reason) = refusal(&mut second);
    assert_eq!(code, RefusalCode::Full);
    let expected = "its process or user has its share of the 2 clients that are served";
    assert_eq!(reason, expected);
    // Readers get through, and the others do not notice.
    let facts = server.status();
    assert_eq!(facts["server"]["clients_limit"], 2);
    assert_eq!(facts["server"]["clients_refused"], 1);
    assert_eq!(first.totals(0).dram, 100);
    drop(first);
    wait_until("there is room", || {
        server.status()["server"]["clients"] == 0
    });
    Client::connect(&server.socket(), [2; 16]);
}

#[test]
fn goodbye_releases_at_once_and_what_was_held_is_listed() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, BASE, 4096), allocation(2, BASE + 4096, 4096)]);
    goodbye(&mut client);
    assert!(is_ended(&mut client));
    assert_eq!(dram(&server)["charged_bytes"], 0);
    let gone = process(&server, [1; 16]);
    assert_eq!(gone["state"], "exited");
    assert_eq!(gone["released"]["buffers"], 2);
    assert_eq!(gone["released"]["bytes"], 2 * 12 * 4096);
    wait_until("it is in the log", || {
        server
            .log()
            .contains("Exited, released 2 buffers (0.09375 MB)")
    });
}

#[test]
fn a_killed_process_is_released_at_once_and_what_it_held_is_listed() {
    let server = TestServer::start(&[]);
    let workload = Workload::start(&Plan {
        socket: server.socket(),
        generation: Generation::G4,
        device: 0,
        buffers: 3,
        size: 1 << 20,
    });
    let pid = workload.pid();
    assert_eq!(dram(&server)["charged_bytes"], 3 << 20);
    assert_eq!(server.process(pid)["state"], "live");
    workload.kill();
    wait_until("its buffers are released", || {
        dram(&server)["charged_bytes"] == 0
    });
    let gone = server.process(pid);
    assert_eq!(gone["state"], "exited");
    assert_eq!(gone["released"]["buffers"], 3);
    assert_eq!(gone["released"]["bytes"], 3 << 20);
    wait_until("it is in the log", || {
        server
            .log()
            .contains(&format!("✗ [PID {pid}] Ended, released 3 buffers (3 MB)"))
    });
}

#[test]
fn an_end_without_goodbye_keeps_everything_while_the_process_lives() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, BASE, 4096)]);
    drop(client);
    wait_until("the end is noticed", || {
        process(&server, [1; 16])["state"] == "detached"
    });
    let detached = process(&server, [1; 16]);
    assert_eq!(detached["connections"], 0);
    assert_eq!(detached["devices"][0]["dram_bytes"], 12 * 4096);
    assert_eq!(dram(&server)["charged_bytes"], 12 * 4096);
}

#[test]
fn an_instance_that_comes_back_goes_on_where_it_was() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    begin_resync(&mut client, &[allocation(1, BASE, 4096)]);
    end_resync(&mut client, 100);
    client.send(&[allocation(2, BASE + 4096, 4096)]);
    let first_server = client.welcome.server_instance;
    drop(client);

    let mut client = Client::connect(&server.socket(), [1; 16]);
    assert!(!client.welcome.needs_resync, "its state is known");
    assert_eq!(client.welcome.next_sequence, 101);
    assert_eq!(client.welcome.server_instance, first_server);
    // The client cannot know what arrived and sends its last event again.
    client.sequence = 100;
    client.send(&[
        allocation(2, BASE + 4096, 4096),
        allocation(3, BASE + 8192, 4096),
    ]);
    let process = process(&server, [1; 16]);
    assert_eq!(process["state"], "live");
    assert_eq!(process["devices"][0]["buffers"], 3);
    assert_eq!(process["devices"][0]["dram_bytes"], 3 * 12 * 4096);
    assert_eq!(
        process["anomalies"], 0,
        "what came twice was dropped, not booked as an alias"
    );
    assert_eq!(process["lost_events"], 0);
    assert_eq!(process["incomplete"], false);
}

#[test]
fn only_the_newest_connection_speaks_for_an_instance() {
    let server = TestServer::start(&[]);
    let mut first = Client::connect(&server.socket(), [1; 16]);
    first.open_n150(0, 0xABC);
    let mut second = Client::connect(&server.socket(), [1; 16]);
    assert!(is_ended(&mut first));
    second.send(&[allocation(1, BASE, 4096)]);
    assert_eq!(process(&server, [1; 16])["connections"], 1);
    assert_eq!(dram(&server)["charged_bytes"], 12 * 4096);
}

#[test]
fn a_gap_counts_as_lost_and_marks_the_process_incomplete() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    assert_eq!(process(&server, [1; 16])["incomplete"], false);
    client.sequence += 7;
    client.send(&[allocation(1, BASE, 4096)]);
    let incomplete = process(&server, [1; 16]);
    assert_eq!(incomplete["lost_events"], 7);
    assert_eq!(incomplete["incomplete"], true);
    assert_eq!(
        incomplete["devices"][0]["dram_bytes"],
        12 * 4096,
        "the rest still counts"
    );
}

#[test]
fn a_resync_is_swapped_in_whole_at_its_end() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, BASE, 4096)]);

    begin_resync(
        &mut client,
        &[allocation(2, BASE, 2048), allocation(3, BASE + 2048, 2048)],
    );
    let during = process(&server, [1; 16]);
    assert_eq!(during["resyncing"], true);
    assert_eq!(during["devices"][0]["buffers"], 1, "the old view stands");
    assert_eq!(dram(&server)["charged_bytes"], 12 * 4096);

    end_resync(&mut client, 50);
    let after = process(&server, [1; 16]);
    assert_eq!(after["resyncing"], false);
    assert_eq!(after["devices"][0]["buffers"], 2);
    assert_eq!(dram(&server)["charged_bytes"], 12 * 4096);
    client.send(&[free(2), free(3)]);
    assert_eq!(dram(&server)["charged_bytes"], 0);
    assert_eq!(process(&server, [1; 16])["anomalies"], 0);
}

#[test]
fn a_resync_that_breaks_off_leaves_the_old_view_and_is_asked_for_again() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    begin_resync(&mut client, &[allocation(1, BASE, 4096)]);
    end_resync(&mut client, 10);
    begin_resync(&mut client, &[allocation(2, BASE, 2048)]);
    drop(client);
    wait_until("the end is noticed", || {
        process(&server, [1; 16])["state"] == "detached"
    });
    assert_eq!(dram(&server)["charged_bytes"], 12 * 4096);

    let mut client = Client::connect(&server.socket(), [1; 16]);
    assert!(
        client.welcome.needs_resync,
        "it had a reason to send its state"
    );
    begin_resync(&mut client, &[allocation(2, BASE, 2048)]);
    end_resync(&mut client, 11);
    assert_eq!(dram(&server)["charged_bytes"], 12 * 2048);
    assert_eq!(process(&server, [1; 16])["resyncing"], false);
}

#[test]
fn a_restarted_server_learns_everything_anew() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, BASE, 4096)]);
    let first_server = client.welcome.server_instance;
    let server = TestServer::start_in(server.kill(), &[]);
    assert!(is_ended(&mut client));

    let mut client = Client::connect(&server.socket(), [1; 16]);
    assert!(client.welcome.needs_resync);
    assert_ne!(client.welcome.server_instance, first_server);
    begin_resync(&mut client, &[allocation(1, BASE, 4096)]);
    end_resync(&mut client, 3);
    assert_eq!(dram(&server)["charged_bytes"], 12 * 4096);
    // A free of what was allocated before the restart is no surprise.
    client.send(&[free(1)]);
    assert_eq!(dram(&server)["charged_bytes"], 0);
    assert_eq!(process(&server, [1; 16])["anomalies"], 0);
}

#[test]
fn a_second_instance_under_the_same_pid_replaces_the_first() {
    let server = TestServer::start(&[]);
    let mut first = Client::connect(&server.socket(), [1; 16]);
    first.open_n150(0, 0xABC);
    first.send(&[allocation(1, BASE, 4096)]);
    let mut second = Client::connect(&server.socket(), [2; 16]);
    assert!(second.welcome.needs_resync);
    assert_eq!(second.welcome.next_sequence, 0);
    second.open_n150(0, 0xABC);
    second.send(&[allocation(1, BASE, 2048)]);
    assert!(is_ended(&mut first), "nobody listens to it any more");
    assert_eq!(
        dram(&server)["charged_bytes"],
        12 * 2048,
        "the first one's memory is not kept"
    );
    assert_eq!(process(&server, [1; 16])["state"], "exited");
    assert_eq!(process(&server, [1; 16])["released"]["reason"], "replaced");
    assert_eq!(process(&server, [2; 16])["state"], "live");
}

#[test]
fn a_malformed_frame_ends_only_its_own_connection() {
    let server = TestServer::start(&[]);
    let mut old = OldClient::connect(&server.socket(), Generation::G4);
    old.send(&request(RequestKind::Alloc, 5, 4096, 0, 0x10));
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, BASE, 4096)]);

    let mut too_long = vec![0xFF; 8];
    too_long[4] = FrameKind::Events as u8;
    let mut split_record = Vec::new();
    Frame::put(&mut split_record, FrameKind::Events, |out| {
        out.extend_from_slice(&[0; 8 + 63])
    });
    let mut of_the_server = Vec::new();
    Frame::put_ack(&mut of_the_server, 1);
    let mut outside_a_resync = Vec::new();
    Frame::put(&mut outside_a_resync, FrameKind::ResyncEnd, |out| {
        out.extend_from_slice(&[0; 24])
    });
    for breach in [too_long, split_record, of_the_server, outside_a_resync] {
        client.send_bytes(&breach);
        let (code, reason) = refusal(&mut client.stream);
        assert_eq!(code, RefusalCode::Protocol, "{reason}");
        assert!(!reason.is_empty());
        // What it said before stands, it may come again, and nobody else is concerned.
        client = Client::connect(&server.socket(), [1; 16]);
        assert_eq!(dram(&server)["charged_bytes"], 12 * 4096);
        assert_eq!(old.totals(5).dram, 4096);
    }
}

#[test]
fn frames_of_a_newer_client_are_skipped() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    for kind in [0x20, 0x7F] {
        let mut frame = vec![5, 0, 0, 0, kind, 0, 0, 0];
        frame.extend_from_slice(b"later");
        client.send_bytes(&frame);
    }
    client.send(&[allocation(1, BASE, 4096)]);
    assert_eq!(dram(&server)["charged_bytes"], 12 * 4096);
    assert_eq!(process(&server, [1; 16])["anomalies"], 0);
}

#[test]
fn records_that_are_no_events_are_counted_and_passed_over() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    let mut bytes = Vec::new();
    Frame::put(&mut bytes, FrameKind::Events, |out| {
        out.extend_from_slice(&client.sequence.to_le_bytes());
        out.extend_from_slice(&[0xEE; 64]);
        out.extend_from_slice(&allocation(1, BASE, 4096).encode());
    });
    client.send_bytes(&bytes);
    client.sequence += 2;
    client.send(&[]);
    assert_eq!(dram(&server)["charged_bytes"], 12 * 4096);
    assert_eq!(process(&server, [1; 16])["anomalies"], 1);
    assert_eq!(server.status()["anomalies"]["malformed"], 1);
}

#[test]
fn a_client_that_leaves_before_its_answers_ends_nobody() {
    let server = TestServer::start(&[]);
    for _round in 0..20 {
        let mut leaver = OldClient::connect(&server.socket(), Generation::G4);
        let questions = vec![request(RequestKind::Query, 0, 0, 0, 0); 200];
        leaver.send_all(&questions);
    }
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    client.send(&request(RequestKind::Alloc, 0, 4096, 0, 1));
    assert_eq!(client.totals(0).dram, 4096);
    assert_eq!(server.status()["server"]["pid"], server.pid());
}

#[test]
fn a_process_that_may_not_be_signalled_is_not_taken_for_dead() {
    let folder = open_folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("ours");
    let options = ["--socket-mode", "0666"];
    // Only the superuser can start a server that may not signal its clients; for any other user this is a server of the same user.
    let server = if nix::unistd::geteuid().is_root() {
        TestServer::start_as(NOBODY, folder, &options)
    } else {
        TestServer::start_in(folder, &options)
    };
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, BASE, 4096)]);
    let mut old = OldClient::connect(&server.socket(), Generation::G4);
    old.send(&request(RequestKind::Alloc, 1, 4096, 0, 0x10));
    old.totals(1);
    drop((client, old));
    wait_until("both ends are noticed", || {
        let status = server.status();
        let processes = status["processes"].as_array().expect("a list");
        processes.len() == 2
            && processes
                .iter()
                .all(|process| process["state"] == "detached")
    });
    assert_eq!(dram(&server)["charged_bytes"], 12 * 4096);
    assert_eq!(server.device(1)["dram"]["charged_bytes"], 4096);
}

#[test]
fn a_server_with_few_descriptors_refuses_what_is_beyond_them_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ttmem.sock");
    let log = fs::File::create(folder.path().join("out.log")).expect("a log");
    let server = Command::new("sh")
        .args([
            "-c",
            "ulimit -n 26 && exec \"$@\"",
            "sh",
            TTMEM.as_str(),
            "serve",
            "--socket",
        ])
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("the log twice"))
        .stderr(log)
        .spawn();
    let _server = Killed(server.expect("the server starts"));
    wait_until("the server accepts connections", || {
        UnixStream::connect(&socket).is_ok()
    });
    let many: Vec<_> = (0..60)
        .map(|_| {
            let mut reporting = UnixStream::connect(&socket).expect("a queue");
            // Refused ones are closed before they can write.
            let _refused = reporting.write_all(b"G");
            reporting
        })
        .collect();
    let log = || fs::read_to_string(folder.path().join("out.log")).expect("text");
    wait_until("a refusal is logged", || {
        log().contains("share of the connections")
    });
    drop(many);
    // Those of this process that still wait are accepted, and refused, before it has its share again.
    wait_until("a reader is answered", || {
        let answered = UnixStream::connect(&socket).and_then(|mut reader| {
            reader.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
            reader.read_exact(&mut [0; 15])
        });
        answered.is_ok()
    });
    let mut client = OldClient::connect(&socket, Generation::G4);
    client.send(&request(RequestKind::Alloc, 1, 4096, 0, 0x10));
    assert_eq!(client.totals(1).dram, 4096);
    assert!(log().matches("refused").count() < 20, "logged now and then");
}
