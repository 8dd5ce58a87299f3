//! How programs end: without warning, by an exception, through destructors; and libraries that go.

use super::{assert_holds, begin, entries, released};
use crate::support::c_program::{Ended, Linked, Story, Workshop};
use crate::support::server::TestServer;
use crate::support::wait_until;
use serde_json::Value;
use std::path::Path;

/// Runs a program that ends without warning; every report of it must be in the log.
fn ends(mode: &str, code: Option<i32>, signal: Option<i32>) {
    ends_as(mode, code, signal, "ended");
}

fn ends_as(mode: &str, code: Option<i32>, signal: Option<i32>, reason: &str) {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("ends.c", Linked::Dynamically);
    let server = TestServer::start(&["--log-format", "json", "--verbose"]);
    let story = Story::begin(&program, &[mode], &server.socket());
    let pid = story.pid();
    let ended = story.end();
    let unharmed = Ended::unharmed(0);
    let expected = Ended {
        code,
        signal,
        ..unharmed
    };
    assert_eq!(ended, expected);
    let process = released(&server, pid);
    assert_eq!(process["released"]["buffers"], 500, "{process}");
    assert_eq!(process["released"]["reason"], reason, "{process}");
    wait_until("every buffer is in the log", || {
        allocations_in_log(&server, pid) == 500
    });
}

/// How many different buffers of a process the server's log has.
fn allocations_in_log(server: &TestServer, pid: u32) -> usize {
    let log = server.log();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let buffers: std::collections::BTreeSet<String> = lines
        .filter(|line| line["event"] == "buffer_allocated" && line["pid"] == pid)
        .map(|line| line["fields"]["buffer"].to_string())
        .collect();
    buffers.len()
}

#[test]
fn every_report_before_an_immediate_exit_is_known() {
    ends("_exit", Some(5), None);
}

#[test]
fn every_report_before_an_abort_is_known() {
    ends("abort", None, Some(6));
}

#[test]
fn every_report_before_a_kill_is_known() {
    ends("kill", None, Some(9));
}

#[test]
fn a_process_ends_with_the_last_thread_of_its_program() {
    ends_as("pthread_exit", Some(0), None, "exited");
}

#[test]
fn a_line_that_nobody_reads_is_not_waited_for() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("ends.c", Linked::Dynamically);
    let server = TestServer::start(&[]);
    let story = Story::begin(&program, &["full_stderr"], &server.socket());
    assert_eq!(story.end(), Ended::unharmed(7));
}

#[test]
fn exceptions_pass_and_the_last_destructors_are_heard() {
    let Some((server, _workshop, mut story)) = begin("exceptions.cpp", &[]) else {
        return;
    };
    let pid = story.pid();
    story.reaches("thrown");
    assert_holds(&server, pid, 3);
    assert_eq!(story.end(), Ended::unharmed(4));
    let process = released(&server, pid);
    assert_eq!(process["released"]["buffers"], 6, "{process}");
    assert_eq!(process["released"]["reason"], "exited", "{process}");
}

/// A host that loads, uses and unloads a library, five times.
fn unloads(workshop: &Workshop, library: &Path) {
    let program = workshop.program("unload.c", Linked::Not);
    let server = TestServer::start(&[]);
    let library = library.to_str().expect("a plain path");
    let mut story = Story::begin(&program, &[library], &server.socket());
    story.reaches("unloaded");
    assert_holds(&server, story.pid(), 5 * 3);
    assert_eq!(entries(&server, story.pid()).len(), 1);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn the_library_can_be_unloaded_while_it_works() {
    if let Some(workshop) = Workshop::open() {
        unloads(&workshop, &workshop.path("libttmem.so.0"));
    }
}

#[test]
fn a_plugin_with_the_shared_library_can_be_unloaded() {
    if let Some(workshop) = Workshop::open() {
        let plugin = workshop.plugin("plugin.c", Linked::Dynamically);
        unloads(&workshop, &plugin);
    }
}

#[test]
fn a_plugin_with_the_library_inside_can_be_unloaded() {
    if let Some(workshop) = Workshop::open() {
        let plugin = workshop.plugin("plugin.c", Linked::Statically);
        unloads(&workshop, &plugin);
    }
}
