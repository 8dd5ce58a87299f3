//! What a process recorded and could no longer send is not lost with it.

use crate::support::client::{Client, allocation, n150, n150_capacities};
use crate::support::flight::{
    self, Flight, Rings, SEALS, dictionary, hand_over, hand_over_dictionary, hand_over_rings,
    memory, send_beside,
};
use crate::support::server::TestServer;
use crate::support::wait_until;
use rustix::fs::SealFlags;
use serde_json::Value;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use ttmem_event::wire::{Clock, Frame, FrameKind, RingPosition};
use ttmem_event::{Definition, Event, EventKind, TextId};

/// The first address that an n150's DRAM allocator hands out.
const BASE: u64 = 1_048_640;

/// So many bytes of each bank for every buffer here.
const BANK_BYTES: u64 = 4096;

fn buffer(id: u64) -> Event {
    allocation(id, BASE + id * BANK_BYTES, BANK_BYTES)
}

fn buffers(ids: std::ops::RangeInclusive<u64>) -> Vec<Event> {
    ids.map(buffer).collect()
}

fn marked(time: u64, number: u64) -> Event {
    let kind = EventKind::Marked {
        name: TextId(1),
        number,
    };
    Event { time, kind }
}

fn definitions() -> Vec<Definition> {
    let mut definitions = n150(0, 0xABC);
    definitions.push(Definition::Text {
        id: TextId(1),
        text: "lap of honour".to_owned(),
    });
    definitions
}

fn drained(client: &mut Client, ring: u32, position: u64) {
    let mut bytes = Vec::new();
    Frame::put_drained(&mut bytes, &[RingPosition { ring, position }]);
    client.send_bytes(&bytes);
}

/// Waits until the server has read all that was sent.
fn settle(client: &mut Client) {
    let mut bytes = Vec::new();
    Frame::put(&mut bytes, FrameKind::Flush, |_empty| {});
    client.send_bytes(&bytes);
    client.wait_for(|frame| matches!(frame, Frame::Ack { .. }).then_some(()));
}

/// What a process does before it is killed.
type Scenario = fn(&mut Client);

/// What the processes do that tests kill, by name.
const SCENARIOS: &[(&str, Scenario)] = &[
    ("unsent", unsent),
    ("received", received),
    ("in_the_heap", in_the_heap),
    ("leaving", leaving),
    ("executes", unsent),
    ("ticks", ticks),
    ("lies", lies),
    ("floods", floods),
];

/// Not a test of its own: the body of the processes that tests start and kill.
#[test]
fn flight_process() {
    let Some((scenario, socket)) = flight::asked() else {
        return;
    };
    let mut client = Client::connect(&socket, [7; 16]);
    let found = SCENARIOS.iter().find(|(name, _play)| *name == scenario);
    found.expect("a scenario of that name").1(&mut client);
    settle(&mut client);
    flight::say_ready_and_wait();
    if scenario == "executes" {
        let error = Command::new("sleep").arg("300").exec();
        panic!("sleep does not run: {error}");
    }
}

/// Nothing is sent; everything is in two rings, whose times interleave.
fn unsent(client: &mut Client) {
    hand_over_dictionary(client, &dictionary(&definitions()));
    let mut first = n150_capacities();
    first.extend(buffers(3..=5));
    let rings = Rings::new(0).positions(0, 0, 5).events(0, 0, &first);
    hand_over_rings(client, &rings);
    let rings = Rings::new(1)
        .positions(2, 0, 2)
        .events(2, 0, &[buffer(2), marked(4, 77)]);
    hand_over_rings(client, &rings);
}

/// Four of seven were sent and acknowledged; the others were only about to be.
fn received(client: &mut Client) {
    client.open_n150(0, 0xABC);
    hand_over_dictionary(client, &dictionary(&definitions()));
    let rings = Rings::new(0)
        .positions(1, 4, 11)
        .events(1, 4, &buffers(1..=7));
    hand_over_rings(client, &rings);
    drained(client, 1, 8);
    client.send(&buffers(1..=4));
    // Never followed by events: it does not count.
    drained(client, 1, 11);
}

/// Three events had left the ring and were in nobody's hands.
fn in_the_heap(client: &mut Client) {
    client.open_n150(0, 0xABC);
    drained(client, 0, 2);
    client.send(&buffers(1..=2));
    let rings = Rings::new(0)
        .positions(0, 5, 6)
        .events(0, 5, &buffers(6..=6));
    hand_over_rings(client, &rings);
}

fn leaving(client: &mut Client) {
    client.open_n150(0, 0xABC);
    let mut rings = Rings::new(0)
        .positions(0, 0, 1)
        .events(0, 0, &buffers(1..=1));
    rings.put(32, &1_u32.to_le_bytes());
    hand_over_rings(client, &rings);
}

/// Its clock ticks in microseconds since ten seconds after the epoch.
fn ticks(client: &mut Client) {
    let mut bytes = Vec::new();
    let clock = Clock {
        ticks: 0,
        unix_nanos: 10_000_000_000,
        nanos_per_tick_q32: 1000 << 32,
    };
    Frame::put_clock(&mut bytes, &clock);
    client.send_bytes(&bytes);
    client.open_n150(0, 0xABC);
    let rings = Rings::new(0)
        .positions(0, 0, 1)
        .events(0, 0, &[marked(5, 1)]);
    hand_over_rings(client, &rings);
}

/// How many of its lies are found at once, and how many after its death.
const LIES_AT_ONCE: u64 = 7;
const LIES_AFTERWARDS: u64 = 9;

fn lies(client: &mut Client) {
    client.open_n150(0, 0xABC);
    let honest = Rings::new(0)
        .positions(0, 0, 1)
        .events(0, 0, &buffers(1..=1));
    hand_over_rings(client, &honest);
    let size = honest.0.len() as u64;
    // Not kept: open to changes, no memory, of another length, both kinds, neither, too large.
    hand_over(
        client,
        memory(&honest.0, SEALS.difference(SealFlags::SHRINK)),
        size,
        0,
    );
    hand_over(client, std::io::stdin(), size, 0);
    hand_over(client, memory(&honest.0, SEALS), size + 64, 0);
    hand_over(client, memory(&honest.0, SEALS), size, size);
    hand_over(client, memory(&honest.0, SEALS), 0, 0);
    hand_over(client, memory(&honest.0, SEALS), u64::MAX, 0);
    // A ring that no client can have.
    drained(client, 65_528, 1);
    // Kept, and found out when they are read: numbers 5 to 10 of rings.
    let mut wrong_magic = Rings::new(5);
    wrong_magic.put(0, b"x");
    let mut wrong_hash = Rings::new(6);
    wrong_hash.put(8, b"x");
    let absurd_head = Rings::new(7).positions(0, 0, 9).positions(1, 5, 4);
    let garbage = Rings::new(8).positions(0, 0, 2);
    let wrong_place = Rings::new(0)
        .positions(0, 0, 1)
        .events(0, 0, &buffers(9..=9));
    for rings in [wrong_magic, wrong_hash, absurd_head, garbage, wrong_place] {
        hand_over_rings(client, &rings);
    }
    let mut beyond_its_end = dictionary(&definitions());
    beyond_its_end[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    hand_over_dictionary(client, &beyond_its_end);
    let mut torn = dictionary(&definitions());
    torn[64..67].copy_from_slice(&[1, 0xFF, 0xFF]);
    hand_over_dictionary(client, &torn);
}

/// Descriptors that no frame speaks of, and more segments than a process may have.
fn floods(client: &mut Client) {
    client.open_n150(0, 0xABC);
    let stray = memory(b"stray", SEALS);
    let mut clock = Vec::new();
    Frame::put_clock(&mut clock, &Clock::UNIX_NANOS);
    for _message in 0..200 {
        send_beside(client, &clock, &[stray.as_fd(); 10]);
        settle(client);
    }
    let rings = memory(&Rings::new(0).0, SEALS);
    let size = Rings::new(0).0.len() as u64;
    for _segment in 0..200 {
        hand_over(client, &rings, size, 0);
    }
}

/// The events that `dump --last` tells of a process.
fn last_events(server: &TestServer, pid: u32) -> Vec<Value> {
    let pid = pid.to_string();
    let output = server.ask(&["dump", "--last", "1000", "--pid", &pid, "--json"]);
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    document["events"].as_array().expect("a list").clone()
}

/// The ids of the buffers that were recovered from a dead process's memory.
fn recovered_buffers(server: &TestServer, pid: u32) -> Vec<String> {
    let events = last_events(server, pid);
    let recovered = events
        .iter()
        .filter(|event| event["recovered"] == true && event["event"] == "buffer_allocated");
    let ids = recovered.map(|event| event["fields"]["buffer"].as_str().expect("hex").to_owned());
    ids.collect()
}

/// Plays a scenario, kills its process, and waits until the server knows.
fn killed(server: &TestServer, scenario: &str) -> (u32, Value) {
    let pid = Flight::start(scenario, &server.socket()).kill();
    (pid, gone(server, pid))
}

fn gone(server: &TestServer, pid: u32) -> Value {
    wait_until("the process is listed as gone", || {
        server.process(pid)["state"] == "exited"
    });
    server.process(pid)
}

#[test]
fn what_was_never_sent_is_found_with_its_definitions() {
    let server = TestServer::start(&["--verbose"]);
    let (pid, process) = killed(&server, "unsent");
    assert_eq!(process["released"]["buffers"], 4);
    assert_eq!(process["released"]["bytes"], 4 * 12 * BANK_BYTES);
    assert_eq!(process["released"]["reason"], "ended");
    assert_eq!(
        (&process["lost_events"], &process["anomalies"]),
        (&0.into(), &0.into())
    );
    let device = server.device(0);
    assert_eq!(device["dram"]["charged_bytes"], 0);
    assert_eq!(device["dram"]["peak_bytes"], 4 * 12 * BANK_BYTES);

    let events = last_events(&server, pid);
    assert!(
        events.iter().all(|event| event["recovered"] == true),
        "{events:?}"
    );
    assert_eq!(
        recovered_buffers(&server, pid),
        ["0x2", "0x3", "0x4", "0x5"]
    );
    let mark = events
        .iter()
        .find(|event| event["event"] == "marked")
        .expect("the mark");
    assert_eq!(mark["fields"]["name"], "lap of honour");
    assert_eq!(mark["fields"]["number"], 77);
    assert_eq!(mark["process"], "e2e");
    assert_eq!(events[0]["fields"]["devices"], serde_json::json!([0]));
    wait_until("the log has them", || {
        let log = server.log();
        (2..=5).all(|id| {
            log.contains(&format!(
                "[PID {pid}] Allocated 49152 bytes of DRAM on device 0 (buffer_id={id:#x})"
            ))
        })
    });
    let text = server.ask(&["dump", "--last", "3"]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert_eq!(text.lines().count(), 3, "{text}");
    let last = text.lines().last().expect("three lines");
    let begin =
        format!("1970-01-01T00:00:00.000000005Z [{pid} e2e] buffer_allocated devices=0 buffer=0x5");
    assert!(last.starts_with(&begin), "{last}");
    assert!(last.ends_with("(recovered)"), "{last}");
}

#[test]
fn what_was_received_before_is_not_taken_twice() {
    let server = TestServer::start(&[]);
    let (pid, process) = killed(&server, "received");
    assert_eq!(process["released"]["buffers"], 7);
    assert_eq!(process["lost_events"], 0);
    assert_eq!(process["anomalies"], 0);
    assert_eq!(recovered_buffers(&server, pid), ["0x5", "0x6", "0x7"]);
}

#[test]
fn what_left_the_ring_and_came_nowhere_is_counted() {
    let server = TestServer::start(&[]);
    let (pid, process) = killed(&server, "in_the_heap");
    assert_eq!(process["lost_events"], 3);
    assert_eq!(process["incomplete"], true);
    assert_eq!(process["released"]["buffers"], 3);
    assert_eq!(recovered_buffers(&server, pid), ["0x6"]);
}

#[test]
fn a_process_that_was_leaving_left_in_order() {
    let server = TestServer::start(&[]);
    let (pid, process) = killed(&server, "leaving");
    assert_eq!(process["released"]["reason"], "exited");
    assert_eq!(recovered_buffers(&server, pid), ["0x1"]);
}

#[test]
fn times_are_read_by_the_last_clock() {
    let server = TestServer::start(&[]);
    let (pid, _process) = killed(&server, "ticks");
    let events = last_events(&server, pid);
    let mark = events
        .iter()
        .find(|event| event["event"] == "marked")
        .expect("the mark");
    assert_eq!(mark["time"], "1970-01-01T00:00:10.000005000Z");
    assert_eq!(mark["fields"]["name"], Value::Null, "nobody defined it");
}

#[test]
fn a_program_that_was_replaced_by_exec_is_drained_though_its_process_lives() {
    let server = TestServer::start(&[]);
    let mut flight = Flight::start("executes", &server.socket());
    let pid = flight.pid();
    assert_eq!(server.process(pid)["state"], "live");
    flight.go_on();
    let process = gone(&server, pid);
    assert_eq!(process["released"]["reason"], "replaced");
    assert_eq!(process["released"]["buffers"], 4);
    assert_eq!(recovered_buffers(&server, pid).len(), 4);
}

#[test]
fn lies_are_counted_and_harm_nobody() {
    let server = TestServer::start(&[]);
    let mut other = Client::connect(&server.socket(), [1; 16]);
    other.open_n150(0, 0xABC);
    other.send(&buffers(1..=3));
    let flight = Flight::start("lies", &server.socket());
    let pid = flight.pid();
    assert_eq!(server.process(pid)["anomalies"], LIES_AT_ONCE);
    flight.kill();
    let process = gone(&server, pid);
    assert_eq!(process["anomalies"], LIES_AT_ONCE + LIES_AFTERWARDS);
    assert_eq!(
        process["released"]["buffers"], 1,
        "the honest segment counts"
    );
    assert_eq!(recovered_buffers(&server, pid), ["0x1"]);
    let device = server.device(0);
    assert_eq!(device["dram"]["charged_bytes"], 3 * 12 * BANK_BYTES);
    assert_eq!(server.process(std::process::id())["anomalies"], 0);
    other.send(&[buffer(4)]);
    assert!(server.log().contains(&format!(
        "the memory that process {pid} handed over is not kept"
    )));
}

#[test]
fn a_flood_of_descriptors_leaves_no_more_than_a_process_may_hand_over() {
    let server = TestServer::start(&[]);
    let folder = format!("/proc/{}/fd", server.pid());
    let open = || std::fs::read_dir(&folder).expect("it lives").count();
    // It listens before it has started all its threads, and answers afterwards.
    let _status = server.status();
    let before = open();
    let flight = Flight::start("floods", &server.socket());
    let during = open();
    assert!(
        during <= before + 13 + 8,
        "{before} descriptors, then {during}"
    );
    assert!(
        during >= before + 13,
        "the first 13 are kept: {before}, then {during}"
    );
    assert_eq!(server.process(flight.pid())["anomalies"], 200 - 13);
    let pid = flight.kill();
    gone(&server, pid);
    wait_until("its descriptors are closed", || open() <= before + 8);
}
