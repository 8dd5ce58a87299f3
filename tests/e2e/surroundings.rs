//! The library in programs that do what programs do: fork, close everything, throw, unload, die.
//!
//! Each test is a small C or C++ program (`tests/surroundings`) that counts for
//! itself. At every place where it waits the server's totals must be those, and
//! at its end it must be as if the library had not been there: its exit code is
//! its own, its stdout has its own lines only, its stderr is empty.

mod copies;
mod crowds;
mod descriptors;
mod ends;
mod filters;
mod first_call;
mod forks;
mod idle;
mod limits;
mod memory;
mod signals;
mod threads;

use crate::support::c_program::{Linked, Story, Workshop};
use crate::support::server::TestServer;
use serde_json::Value;

/// Bytes of every buffer in these programs.
const BUFFER_BYTES: u64 = 12 * 4096;

/// A server, a compiled program and its story, begun; `None` where nothing can be compiled.
fn begin(source: &str, arguments: &[&str]) -> Option<(TestServer, Workshop, Story)> {
    let workshop = Workshop::open()?;
    let program = workshop.program(source, Linked::Dynamically);
    let server = TestServer::start(&[]);
    let story = Story::begin(&program, arguments, &server.socket());
    Some((server, workshop, story))
}

/// All that the server knows under a pid.
fn entries(server: &TestServer, pid: u32) -> Vec<Value> {
    let status = server.status();
    let processes = status["processes"].as_array().expect("a list of processes");
    let of_pid = processes.iter().filter(|process| process["pid"] == pid);
    of_pid.cloned().collect()
}

/// The only process of a pid that is not gone.
fn live(server: &TestServer, pid: u32) -> Value {
    let mut entries = entries(server, pid);
    entries.retain(|process| process["released"].is_null());
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0)
}

/// How many processes the server knows, gone or not.
fn process_count(server: &TestServer) -> usize {
    let status = server.status();
    status["processes"].as_array().expect("a list").len()
}

/// What a process holds in sum: buffers and bytes of DRAM.
fn held(process: &Value) -> (u64, u64) {
    let devices = process["devices"].as_array().map_or(&[][..], Vec::as_slice);
    let sum = |name: &str| {
        let figures = devices.iter().filter_map(|device| device[name].as_u64());
        figures.sum()
    };
    (sum("buffers"), sum("dram_bytes"))
}

/// Fails unless a process holds exactly so many buffers and nothing was odd about it.
fn assert_holds(server: &TestServer, pid: u32, buffers: u64) {
    let process = live(server, pid);
    assert_eq!(
        held(&process),
        (buffers, buffers * BUFFER_BYTES),
        "{process}"
    );
    assert_eq!(process["anomalies"], 0, "{process}");
    assert_eq!(process["lost_events"], 0, "{process}");
    assert_eq!(process["incomplete"], false, "{process}");
}

/// Waits until a process is gone: what the server released.
fn released(server: &TestServer, pid: u32) -> Value {
    crate::support::wait_until("the process is released", || {
        let entries = entries(server, pid);
        entries.iter().any(|process| !process["released"].is_null())
    });
    let mut entries = entries(server, pid);
    entries.retain(|process| !process["released"].is_null());
    assert_eq!(entries.len(), 1, "{entries:?}");
    let process = entries.remove(0);
    assert_eq!(process["anomalies"], 0, "{process}");
    assert_eq!(process["lost_events"], 0, "{process}");
    process
}
