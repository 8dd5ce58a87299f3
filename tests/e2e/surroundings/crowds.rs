//! Programs with more threads than rings were made for.

use super::{assert_holds, begin, live, released};
use crate::support::c_program::{Ended, Linked, Story, Workshop};
use crate::support::server::TestServer;
use std::process::Command;

/// Events that the server has applied.
fn applied(server: &TestServer) -> u64 {
    let status = server.status();
    let events = status["server"]["events_applied"].as_u64();
    events.expect("a count")
}

/// So many threads at one time, each of which holds a buffer and has made pairs of others: few
/// enough for the history, so that each event is applied.
fn all_at_one_time(threads: u64, pairs: u64) {
    let arguments = ["together", &threads.to_string(), &pairs.to_string()];
    let Some((server, _workshop, mut story)) = begin("crowds.c", &arguments) else {
        return;
    };
    story.reaches("together");
    assert_holds(&server, story.pid(), threads);
    // Besides, the device and the mesh were opened.
    assert_eq!(applied(&server), 2 + threads * (1 + 2 * pairs));
    story.go_on();
    assert_eq!(story.reaches("counted"), [0], "events lost");
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn a_thousand_threads_lose_nothing() {
    all_at_one_time(1000, 200);
}

/// More than rings and history hold: totals are exact, whatever was left out of the history.
#[test]
fn a_thousand_threads_at_full_speed_lose_nothing() {
    let Some((server, _workshop, mut story)) = begin("crowds.c", &["together", "1000", "1000"])
    else {
        return;
    };
    story.reaches("together");
    assert_holds(&server, story.pid(), 1000);
    story.go_on();
    assert_eq!(story.reaches("counted"), [0], "events lost");
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn three_thousand_threads_lose_nothing() {
    all_at_one_time(3000, 20);
}

#[test]
fn threads_that_come_and_go_take_the_memory_of_those_that_are_there() {
    let Some((server, _workshop, mut story)) = begin("crowds.c", &["passing", "4000"]) else {
        return;
    };
    assert_eq!(story.reaches("counted"), [0], "events lost");
    assert_holds(&server, story.pid(), 4000);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn the_memory_of_threads_that_ended_is_given_back_and_used_again() {
    let Some((server, _workshop, mut story)) = begin("crowds.c", &["leaving", "700"]) else {
        return;
    };
    story.reaches("left");
    story.go_on();
    assert_eq!(story.reaches("counted"), [0], "events lost");
    assert_holds(&server, story.pid(), 2 * 700);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn without_a_server_memory_is_given_back_as_well() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("crowds.c", Linked::Dynamically);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ttmem.sock");
    let mut story = Story::begin(&program, &["leaving", "600"], &socket);
    story.reaches("left");
    let server = TestServer::start_in(folder, &[]);
    assert_eq!(server.socket(), socket);
    story.go_on();
    assert_eq!(story.reaches("counted"), [0], "events lost");
    assert_holds(&server, story.pid(), 2 * 600);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn what_threads_beyond_the_budget_record_is_lost_counted_and_said_once() {
    const THREADS: u64 = 200;
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let server = TestServer::start(&[]);
    let mut command = Command::new(workshop.program("crowds.c", Linked::Dynamically));
    // Four for the first segment and two for others.
    command.env("TTMEM_RING_MEMORY_MIB", "6");
    command.args(["together", &THREADS.to_string(), "3"]);
    let mut story = Story::begin_as(command, &server.socket());
    story.reaches("together");
    let process = live(&server, story.pid());
    let lost = process["lost_events"].as_u64().expect("a count");
    let per_thread = 1 + 2 * 3;
    // Eight threads and the main one had a ring for certain, and most had none.
    assert!(lost >= (THREADS - 50) * per_thread, "{process}");
    assert!(lost <= (THREADS - 7) * per_thread, "{process}");
    assert_eq!(
        lost % per_thread,
        0,
        "a thread has a ring or not: {process}"
    );
    assert_eq!(process["incomplete"], true, "{process}");
    story.go_on();
    assert_eq!(
        story.reaches("counted"),
        [u32::try_from(lost).expect("few")]
    );
    let ended = story.end();
    assert_eq!((ended.code, ended.signal), (Some(0), None), "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{ended:?}");
    assert!(
        lines[0].starts_with("ttmem: events of some threads are lost"),
        "{ended:?}"
    );
    assert!(lines[0].contains("TTMEM_RING_MEMORY_MIB"), "{ended:?}");
}

#[test]
fn what_hundreds_of_threads_recorded_before_they_were_killed_is_recovered() {
    const THREADS: u64 = 900;
    let arguments = ["killed", &THREADS.to_string(), "10"];
    let Some((server, _workshop, mut story)) = begin("crowds.c", &arguments) else {
        return;
    };
    story.reaches("settled");
    // It can be sent everything, and takes nothing.
    server.signal("STOP");
    story.go_on();
    story.reaches("recorded");
    let pid = story.pid();
    drop(story);
    server.signal("CONT");
    let process = released(&server, pid);
    assert_eq!(process["released"]["buffers"], THREADS, "{process}");
    assert_eq!(applied(&server), 2 + THREADS * 21);
    assert_eq!(process["incomplete"], false, "{process}");
}

/// A million live buffers make the pump's tables grow, beyond what it keeps of the history.
#[test]
fn at_full_speed_without_a_server_nothing_is_lost() {
    const BUFFERS: u64 = 1_000_000;
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("crowds.c", Linked::Dynamically);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ttmem.sock");
    let arguments = ["alone", &BUFFERS.to_string(), "2000000"];
    let mut story = Story::begin(&program, &arguments, &socket);
    story.reaches("recorded");
    let server = TestServer::start_in(folder, &[]);
    assert_eq!(server.socket(), socket);
    story.go_on();
    assert_eq!(story.reaches("counted"), [0], "events lost");
    assert_holds(&server, story.pid(), BUFFERS + 1);
    assert_eq!(story.end(), Ended::unharmed(0));
}
