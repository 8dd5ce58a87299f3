//! Either end dies, stops or is replaced, and the totals are exact afterwards.

use super::support::server::TestServer;
use super::support::tracked::{Tracked, assert_equal_accounts, wait_for_process, workload};
use super::support::{WATCHDOG, wait_until};
use crate::support::is_left_to_the_whole_run;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn threads_that_free_what_others_allocated_leave_exact_totals() {
    let server = TestServer::start(&["--quiet"]);
    let options = ["--threads", "4", "--events", "60000", "--seed", "7"];
    let mut workload = Tracked::start(&server.socket(), &options);
    let account = workload.account();
    assert_eq!(account["flushed"], true, "{account}");
    assert_eq!(account["lost_events"], 0, "{account}");
    assert_equal_accounts(&server, &account);
    let output = workload.end();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_workload_started_first_appears_in_full_when_a_server_comes() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ttmem.sock");
    // More than the client keeps as history: part of it is live set by then.
    let options = ["--events", "50000", "--flush-seconds", "0"];
    let mut workload = Tracked::start_adapted(&socket, &options, |command| {
        command.env("TTMEM_HISTORY_EVENTS", "10000");
    });
    let account = workload.account();
    assert_eq!(account["flushed"], false);
    let server = TestServer::start_in(folder, &["--quiet"]);
    wait_for_process(&server, workload.pid());
    assert_equal_accounts(&server, &account);
    let elided = server.process(workload.pid())["elided_events"].as_u64();
    assert!(elided > Some(30_000), "{elided:?} elided");
}

#[test]
fn a_server_killed_twenty_times_under_load_ends_with_exact_totals() {
    let mut server = TestServer::start(&["--quiet"]);
    let options = ["--threads", "2", "--rate", "60000", "--events", "120000"];
    let mut workload = Tracked::start(&server.socket(), &options);
    wait_for_process(&server, workload.pid());
    for round in 0..20 {
        std::thread::sleep(Duration::from_millis(20 + 7 * round));
        server = TestServer::start_in(server.kill(), &["--quiet"]);
    }
    let account = workload.account();
    assert_eq!(account["flushed"], true, "{account}");
    let resyncs = account["resyncs"].as_u64();
    assert!(
        resyncs > Some(3),
        "only {resyncs:?} resyncs: no load was on"
    );
    assert_equal_accounts(&server, &account);
}

#[test]
fn a_large_live_set_is_told_to_a_new_server_while_events_go_on() {
    let mut server = TestServer::start(&["--quiet"]);
    // Fifty thousand buffers stay: so many are put into frames beside the pump's own work.
    let options = ["--live", "100000", "--rate", "60000", "--events", "180000"];
    let mut workload = Tracked::start(&server.socket(), &options);
    wait_until("the workload holds a lot", || {
        let devices = server.process(workload.pid())["devices"].clone();
        let buffers = |device: &Value| device["buffers"].as_u64().unwrap_or(0);
        let devices = devices.as_array().into_iter().flatten();
        devices.map(buffers).sum::<u64>() > 50_000
    });
    for _restart in 0..3 {
        server = TestServer::start_in(server.kill(), &["--quiet"]);
        wait_for_process(&server, workload.pid());
    }
    let account = workload.account();
    assert_eq!(account["flushed"], true, "{account}");
    assert!(account["resyncs"].as_u64() > Some(1), "{account}");
    assert_equal_accounts(&server, &account);
}

#[test]
fn a_server_that_is_stopped_slows_nobody_and_is_exact_afterwards() {
    if is_left_to_the_whole_run("the server is stopped for ten seconds") {
        return;
    }
    let server = TestServer::start(&["--quiet"]);
    let options = [
        "--rate",
        "100000",
        "--events",
        "1000000",
        "--flush-seconds",
        "60",
    ];
    let mut workload = Tracked::start(&server.socket(), &options);
    wait_for_process(&server, workload.pid());
    server.signal("STOP");
    std::thread::sleep(Duration::from_secs(10));
    server.signal("CONT");
    let account = workload.account();
    assert_eq!(account["flushed"], true, "{account}");
    assert_eq!(account["lost_events"], 0, "{account}");
    assert_equal_accounts(&server, &account);
}

#[test]
fn history_beyond_its_bound_is_elided_and_totals_stay_exact() {
    let server = TestServer::start(&["--quiet"]);
    let mut workload = Tracked::start_adapted(
        &server.socket(),
        &["--rate", "100000", "--events", "150000"],
        |command| {
            command.env("TTMEM_HISTORY_EVENTS", "5000");
        },
    );
    wait_for_process(&server, workload.pid());
    server.signal("STOP");
    std::thread::sleep(Duration::from_secs(1));
    server.signal("CONT");
    let account = workload.account();
    let elided = account["elided_events"].as_u64();
    assert!(elided > Some(10_000), "{account}");
    assert_equal_accounts(&server, &account);
    let process = server.process(workload.pid());
    assert_eq!(process["elided_events"].as_u64(), elided, "{process}");
}

#[test]
fn a_socket_that_is_replaced_is_found_again() {
    let first = TestServer::start(&["--quiet"]);
    let options = ["--rate", "50000", "--events", "100000"];
    let mut workload = Tracked::start(&first.socket(), &options);
    wait_for_process(&first, workload.pid());
    // The path now belongs to another server; the first lives on without one.
    let folder = first.folder().to_owned();
    std::fs::rename(folder.join("ttmem.sock"), folder.join("old.sock")).expect("moved away");
    let other = TestServer::start(&["--quiet"]);
    std::os::unix::fs::symlink(other.socket(), folder.join("ttmem.sock")).expect("a link");
    // The connection to the first still stands, and is as good; when it goes, the path counts.
    let _folder = first.kill();
    let account = workload.account();
    assert_eq!(account["flushed"], true, "{account}");
    assert_equal_accounts(&other, &account);
}

/// Kills a workload a hundred times at random points and looks for every event that it had
/// recorded: each is a dispatch with a number, by an operation with a name of its own.
#[test]
fn a_client_killed_a_hundred_times_leaves_every_published_event_in_the_log() {
    if is_left_to_the_whole_run("a hundred processes are killed") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("events.json");
    let log_path = log.to_str().expect("a readable path");
    let form = ["--verbose", "--log-format", "json", "--log-max-size", "8G"];
    let server = TestServer::start(&[&form[..], &["--log-file", log_path]].concat());
    let mut recorded = Vec::new();
    for round in 0..100_u64 {
        let count_file = folder.path().join(format!("count-{round}"));
        let (pid, count) = killed_after(&server, &count_file, 50 + round * 37 % 900, round % 9);
        wait_until("its end is noticed", || {
            server.process(pid)["state"] == "exited"
        });
        assert_last_event_is_readable(&server, pid, count);
        recorded.push((pid, count));
    }
    // Ends in order, so that the log is complete.
    server.signal("TERM");
    let mut server = server;
    server.wait();
    let text = std::fs::read_to_string(&log).expect("the log");
    let mut logged: HashMap<u64, HashSet<u64>> = HashMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        assert!(line["fields"]["anomaly"].is_null(), "{line}");
        if line["event"] == "dispatched" {
            let pid = line["pid"].as_u64().expect("a pid");
            let number = line["fields"]["runtime_id"].as_u64().expect("a number");
            let is_new = logged.entry(pid).or_default().insert(number);
            assert!(is_new, "twice: {line}");
        }
    }
    for (pid, count) in recorded {
        let numbers = logged.get(&u64::from(pid)).cloned().unwrap_or_default();
        let missing: Vec<u64> = (1..=count)
            .filter(|number| !numbers.contains(number))
            .collect();
        assert!(missing.is_empty(), "of {count}, {missing:?} are missing");
        // The one whose call had not returned may be there or not.
        assert!(numbers.len() as u64 <= count + 1, "more than {count}");
    }
}

/// Runs a workload until it has recorded so many numbered dispatches and kills it; its pid and
/// the number of the last one that it had recorded for certain.
fn killed_after(server: &TestServer, count_file: &Path, events: u64, haste: u64) -> (u32, u64) {
    /// Devices, meshes and the program come before the first dispatch.
    const BEFORE: u64 = 6;
    std::fs::write(count_file, 0_u64.to_le_bytes()).expect("a count");
    let path = count_file.to_str().expect("a path in UTF-8");
    let mut child = workload(&["--events", "0", "--numbered", "--count", path])
        .env("TTMEM_SOCKET", server.socket())
        .stdout(Stdio::null())
        .spawn()
        .expect("the workload starts");
    let count = || {
        let bytes = std::fs::read(count_file).expect("a count");
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    };
    // What is recorded before the server was reached once is nobody's to recover.
    wait_for_process(server, child.id());
    let (begun, events) = (Instant::now(), count() + events);
    while count() < BEFORE + events {
        assert!(begun.elapsed() < WATCHDOG, "the workload records nothing");
        std::thread::sleep(Duration::from_micros(50 + haste * 130));
    }
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    (child.id(), count() - BEFORE)
}

fn assert_last_event_is_readable(server: &TestServer, pid: u32, count: u64) {
    let output = server.ask(&["dump", "--json", "--last", "4", "--pid", &pid.to_string()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let name = format!("op-{count}");
    assert!(
        text.contains(&name),
        "{name} is not among the last events: {text}"
    );
}

#[test]
fn a_lack_of_descriptors_is_logged_once_however_long_it_lasts() {
    let server = TestServer::start(&[]);
    let pid = i32::try_from(server.pid()).expect("a pid");
    wait_until("it answers", || server.ask(&["status"]).status.success());
    let limit = |most| prlimit(Pid::from_raw(pid), Resource::Nofile, most).expect("our own child");
    let none = Rlimit {
        current: Some(3),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    let before = limit(none);
    let connect = || UnixStream::connect(server.socket()).expect("it is in the queue");
    let connections: Vec<UnixStream> = (0..8).map(|_| connect()).collect();
    let lines = || server.log().matches("cannot accept connections").count();
    wait_until("it has no descriptor left", || lines() > 0);
    // It tries again five times a second.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(lines(), 1, "{}", server.log());
    drop(connections);
    limit(before);
    wait_until("it accepts again", || {
        server.ask(&["status"]).status.success()
    });
    assert_eq!(lines(), 1, "{}", server.log());
}
