//! Whoever takes all it can of what the server has: everybody else is served, and whoever is refused
//! something is shown as incomplete, with the reason.

use crate::support::client::{Client, allocation};
use crate::support::hogs::connect_at_once;
use crate::support::is_left_to_the_whole_run;
use crate::support::old_client::{OldClient, request};
use crate::support::place::open_folder;
use crate::support::server::{TestServer, without_settings};
use crate::support::workload::{Part, Plan, Workload};
use crate::support::{WATCHDOG, wait_until};
use serde_json::Value;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use ttmem_event::legacy::{Generation, RequestKind};
use ttmem_event::wire::{Frame, FrameKind, FrameReader, RefusalCode, ResyncEnd};

const NOBODY: u32 = 65_534;

/// The count of a reason for which a process is incomplete; 0 if it is not one.
fn reason(process: &Value, reason: &str) -> u64 {
    let reasons = process["incomplete_reasons"].as_array().expect("a list");
    let found = reasons.iter().find(|each| each["reason"] == reason);
    found.map_or(0, |found| found["count"].as_u64().expect("a count"))
}

/// A process that holds something by the old protocol, and what it holds.
fn old_process(server: &TestServer, buffers: u64) -> Workload {
    let plan = Plan {
        socket: server.socket(),
        generation: Generation::G4,
        device: 0,
        buffers,
        size: 1000,
    };
    let workload = Workload::start(&plan);
    let process = server.process(workload.pid());
    assert_eq!(process["devices"][0]["dram_bytes"], 1000 * buffers);
    assert_eq!(process["incomplete"], false, "{process}");
    workload
}

/// A client of the new protocol that reports something, and is seen with it.
fn honest_client(server: &TestServer) -> Client {
    let mut client = Client::connect(&server.socket(), [0x11; 16]);
    client.open_n150(7, 0x600D_600D);
    client.send(&[allocation(1, 2_000_000, 4096)]);
    let process = server.process(std::process::id());
    assert_eq!(process["devices"][0]["dram_bytes"], 12 * 4096, "{process}");
    assert_eq!(process["incomplete"], false, "{process}");
    client
}

#[test]
fn silent_connections_keep_nobody_out() {
    let server = TestServer::start(&["--max-clients", "64"]);
    let _silent = Workload::hog(Part::Silent, &server.socket(), 600);
    for buffers in 1..=3 {
        old_process(&server, buffers);
    }
    let _honest = honest_client(&server);
    assert!(server.ask(&["status"]).status.success());
}

#[test]
fn with_few_descriptors_the_silent_of_one_process_go_for_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = std::fs::File::create(folder.path().join("out.log")).expect("a log");
    let server = TestServer::start_adapted(folder, &[], |command| {
        let mut limited = without_settings("sh");
        limited
            .args(["-c", "ulimit -n 400 && exec \"$@\"", "sh"])
            .arg(command.get_program())
            .args(command.get_args())
            .stdout(log.try_clone().expect("the log twice"))
            .stderr(log);
        *command = limited;
    });
    let _silent = Workload::hog(Part::Silent, &server.socket(), 600);
    let _old: Vec<_> = (1..=3).map(|count| old_process(&server, count)).collect();
    let _honest = honest_client(&server);
    assert!(server.ask(&["status"]).status.success());
    let status = server.status();
    let connections = status["server"]["clients"].as_u64().expect("a count");
    assert!((20..=75).contains(&connections), "{connections} of 75");
    assert!(server.log().contains("the oldest silent one was closed"));
    assert!(status["server"]["clients_refused"].as_u64() > Some(500));
}

#[test]
fn reports_of_surplus_old_clients_are_dropped_and_nobody_is_closed() {
    let server = TestServer::start(&["--max-clients", "16"]);
    let mut clients: Vec<OldClient> = (0..20)
        .map(|id| {
            let mut client = OldClient::connect(&server.socket(), Generation::G4);
            client.send(&request(RequestKind::Alloc, 0, 100, 0, id));
            client.totals(0);
            client
        })
        .collect();
    // Their questions are answered, and what they send is read, whatever becomes of it.
    for client in &mut clients {
        client.send(&request(RequestKind::Alloc, 1, 10, 0, 5));
        client.send(&request(RequestKind::Free, 1, 0, 0, 5));
        assert_eq!(client.totals(0).dram, 700, "seven sixteenths are served");
    }
    let process = server.process(std::process::id());
    assert_eq!(process["incomplete"], true);
    assert_eq!(reason(&process, "messages_dropped"), 13 * 3, "{process}");
    assert_eq!(process["connections"], 20);
    let status = server.status();
    assert_eq!(status["server"]["clients_refused"], 13);
    let shown = server.ask(&["status"]).stdout;
    let shown = String::from_utf8(shown).expect("text");
    let joined = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains("39 messages dropped"), "{shown}");
    wait_until("the log says so", || {
        server.log().contains("Incomplete: messages_dropped")
    });
    // Others are served and complete.
    old_process(&server, 2);
    clients.clear();
    wait_until("they are gone", || {
        server.process(std::process::id())["connections"] == 0
    });
    let mut later = OldClient::connect(&server.socket(), Generation::G4);
    later.send(&request(RequestKind::Alloc, 2, 100, 0, 1));
    assert_eq!(later.totals(2).dram, 100, "there is room again");
}

#[test]
fn a_refused_client_is_shown_and_complete_once_it_was_served() {
    let server = TestServer::start(&["--max-clients", "2"]);
    let mut old = OldClient::connect(&server.socket(), Generation::G4);
    old.send(&request(RequestKind::Alloc, 0, 100, 0, 1));
    old.totals(0);
    let instance = [0x22; 16];
    let mut refused = UnixStream::connect(server.socket()).expect("the server listens");
    let mut bytes = Vec::new();
    crate::support::client::put_greeting(&mut bytes, instance);
    refused.write_all(&bytes).expect("it is read");
    assert_eq!(refusal(&mut refused), RefusalCode::Full);
    let found = || {
        let status = server.status();
        let processes = status["processes"].as_array().expect("a list").iter();
        let mut found = processes.filter(|process| process["source"] == "client");
        found.next().cloned().unwrap_or_default()
    };
    // It is refused at once, and listed when that was applied.
    wait_until("it is listed", || found()["incomplete"] == true);
    assert_eq!(reason(&found(), "connections_refused"), 1);
    // Another process has a place of its own.
    drop(old_process(&server, 1));
    drop(old);
    wait_until("there is room", || {
        server.status()["server"]["clients"] == 0
    });
    let mut client = Client::connect(&server.socket(), instance);
    assert!(client.welcome.needs_resync);
    resync(&mut client);
    assert_eq!(found()["incomplete"], false);
}

fn resync(client: &mut Client) {
    let mut bytes = Vec::new();
    Frame::put(&mut bytes, FrameKind::ResyncBegin, |_empty| {});
    let end = ResyncEnd {
        next_sequence: client.sequence,
        lost_events: 0,
        elided_events: 0,
    };
    Frame::put_resync_end(&mut bytes, &end);
    client.send_bytes(&bytes);
    client.wait_for(|frame| matches!(frame, Frame::Ack { .. }).then_some(()));
}

/// Why the server refuses a connection.
fn refusal(stream: &mut UnixStream) -> RefusalCode {
    stream.set_read_timeout(Some(WATCHDOG)).expect("a timeout");
    let mut reader = FrameReader::default();
    let mut buffer = [0; 4096];
    loop {
        match reader.next_frame().expect("frames") {
            Some(Frame::Refused { code, .. }) => return code,
            Some(_other) => {}
            None => {
                let count = stream.read(&mut buffer).expect("the reason arrives");
                assert!(count > 0, "closed without a reason");
                reader.push(&buffer[..count]);
            }
        }
    }
}

#[test]
fn who_defines_all_devices_there_can_be_leaves_some() {
    let server = TestServer::start(&["--quiet"]);
    let hogs: Vec<_> = (0..4)
        .map(|_hog| Workload::hog(Part::Devices, &server.socket(), 1024))
        .collect();
    let shown: Vec<Value> = hogs.iter().map(|hog| server.process(hog.pid())).collect();
    let refused: u64 = shown.iter().map(|hog| reason(hog, "devices_refused")).sum();
    let taken: usize = shown
        .iter()
        .map(|hog| hog["devices"].as_array().expect("a list").len())
        .sum();
    assert_eq!(taken as u64 + refused, 4 * 1024);
    assert!((2000..3584).contains(&taken), "{taken} devices");
    assert!(shown[3]["incomplete"] == true && shown[0]["incomplete"] == false);
    let _honest = honest_client(&server);
    old_process(&server, 3);
    wait_until("the log says so", || {
        server.log().contains("Incomplete: devices_refused")
    });
}

#[test]
fn states_that_do_not_end_leave_memory_for_others() {
    let server = TestServer::start(&["--quiet"]);
    let hogs: Vec<_> = (0..2)
        .map(|_hog| Workload::hog(Part::State, &server.socket(), 600))
        .collect();
    for hog in &hogs {
        wait_until("more than its share is refused", || {
            reason(&server.process(hog.pid()), "resyncs_refused") > 0
        });
    }
    let mut honest = Client::connect(&server.socket(), [0x33; 16]);
    resync(&mut honest);
    assert_eq!(server.process(std::process::id())["incomplete"], false);
}

#[test]
fn frames_that_do_not_end_leave_memory_for_others() {
    let server = TestServer::start(&["--quiet"]);
    let hog = Workload::hog(Part::Frames, &server.socket(), 80);
    // A process has at most 56 MiB.
    assert!(
        (24..=80).contains(&hog.number()),
        "{} refused",
        hog.number()
    );
    let _honest = honest_client(&server);
}

#[test]
fn what_is_begun_and_does_not_go_on_is_dropped_and_can_be_sent_again() {
    if is_left_to_the_whole_run("it waits for what a server gives up") {
        return;
    }
    let server = TestServer::start(&[]);
    let mut frame = Vec::new();
    Frame::put_events(&mut frame, 0, &[allocation(1, 4_000_000, 64)]);
    frame.truncate(40);
    let mut state = Vec::new();
    Frame::put(&mut state, FrameKind::ResyncBegin, |_empty| {});
    Frame::put_state(&mut state, &[0; 100]);
    let process = || server.process(std::process::id());
    for begun in [frame, state] {
        let mut client = Client::connect(&server.socket(), [0x44; 16]);
        client.send_bytes(&begun);
        wait_until("it is dropped", || reason(&process(), "stalled") > 0);
        assert_eq!(process()["incomplete"], true);
        let mut again = Client::connect(&server.socket(), [0x44; 16]);
        assert!(again.welcome.needs_resync);
        resync(&mut again);
        assert_eq!(process()["incomplete"], false);
    }
}

#[test]
fn readers_of_one_byte_keep_no_reader_out() {
    let server = TestServer::start(&[]);
    let mut slow = Vec::new();
    for _reader in 0..200 {
        let mut stream = UnixStream::connect(server.socket()).expect("the server listens");
        stream.write_all(b"G").expect("it is read");
        slow.push(stream);
    }
    for _reader in 0..5 {
        assert!(server.ask(&["status"]).status.success());
    }
}

#[test]
fn one_users_processes_leave_places_for_other_users() {
    if !nix::unistd::geteuid().is_root() {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "only the superuser can be two users, and with CI=true every part must run"
        );
        println!("skipped: only the superuser can be two users");
        return;
    }
    let folder = open_folder();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("ours");
    let options = ["--socket-mode", "0666", "--max-clients", "16"];
    let server = TestServer::start_in(folder, &options);
    let plan = Plan {
        socket: server.socket(),
        generation: Generation::G4,
        device: 0,
        buffers: 1,
        size: 1000,
    };
    let mut theirs: Vec<Workload> = (0..18)
        .map(|_process| Workload::spawn_as(Part::Hold, &plan, Some(NOBODY)))
        .collect();
    theirs.iter_mut().for_each(Workload::wait_until_ready);
    let status = server.status();
    let processes = status["processes"].as_array().expect("a list").iter();
    let refused = processes.filter(|process| reason(process, "messages_dropped") > 0);
    assert_eq!(refused.count(), 3, "a sixteenth is for others");
    let mut mine = OldClient::connect(&server.socket(), Generation::G4);
    mine.send(&request(RequestKind::Alloc, 3, 100, 0, 1));
    assert_eq!(mine.totals(3).dram, 100);
    assert_eq!(server.process(std::process::id())["incomplete"], false);
}

#[test]
fn connection_storms_of_another_user_refuse_nobody() {
    storms_refuse_nobody(false);
}

#[test]
fn connection_storms_of_another_user_with_hellos_refuse_nobody() {
    storms_refuse_nobody(true);
}

#[expect(clippy::print_stdout, reason = "says that it was skipped")]
fn storms_refuse_nobody(say_hello: bool) {
    if !nix::unistd::geteuid().is_root() {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "only the superuser can be two users, and with CI=true every part must run"
        );
        println!("skipped: only the superuser can be two users");
        return;
    }
    let server = TestServer::start_in(open_folder(), &["--socket-mode", "0666"]);
    let mut honest = honest_client(&server);
    let plan = Plan {
        socket: server.socket(),
        generation: Generation::G4,
        device: 0,
        // It is ended before that.
        buffers: WATCHDOG.as_secs(),
        size: u64::from(say_hello),
    };
    let mut storms: Vec<Workload> = (0..3)
        .map(|_storm| Workload::spawn_as(Part::Storm, &plan, Some(NOBODY)))
        .collect();
    storms.iter_mut().for_each(Workload::wait_until_ready);
    let refused = || server.status()["server"]["clients_refused"].as_u64();
    wait_until("storms are refused", || refused() > Some(1000));
    let mut round = |round: u64| {
        let connected = (0..1000).map(|number| {
            // A process connects once, and not all of them in the same millisecond.
            std::thread::sleep(Duration::from_millis(1));
            if number % 100 == 0 {
                let number = 1000 * round + number;
                honest.send(&[allocation(10 + number, 3_000_000 + 4096 * number, 4096)]);
            }
            connect_at_once(&server.socket())
        });
        connected.filter(Result::is_err).count()
    };
    // What else the machine does may keep all threads of the server from a processor for a moment.
    let mut failed = Vec::new();
    while failed.last() != Some(&0) && failed.len() < 3 {
        failed.push(round(failed.len() as u64));
    }
    assert_eq!(
        failed.last(),
        Some(&0),
        "of 1,000 connections each time: {failed:?}"
    );
    drop(storms);
    let status = server.status();
    let processes = status["processes"].as_array().expect("a list").iter();
    let of_storms = processes.filter(|process| process["name"] == "storm");
    assert_eq!(of_storms.count(), 0, "they reported nothing");
    let lines = server.log().matches("connects too often").count();
    assert!((1..=40).contains(&lines), "{lines} lines of the log");
}
