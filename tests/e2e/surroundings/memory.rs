//! Memory that runs out: under limits, and at each request of the library.
//!
//! Wherever the program ends well without the library under a limit 24 MiB lower, it does so with it;
//! and it never ends by a signal, whatever the limit is.

use super::Workshop;
use crate::support::c_program::{Ended, Linked, Story};
use crate::support::random::Random;
use crate::support::server::TestServer;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;

/// What the library may cost under any limit.
const COST: u64 = 24 * MIB;

/// The exit code of a program that did not get its own memory.
const NO_MEMORY: i32 = 3;

const BUFFERS: u32 = 100_000;

/// Of a soak: all limits in small steps, and each of many requests.
const MANY: &str = "TTMEM_TESTS_MEMORY";

fn is_many() -> bool {
    std::env::var_os(MANY).is_some()
}

/// Limits in MiB, from less than the program needs to more than the account does.
fn limits() -> Vec<u64> {
    if is_many() {
        let half = |number: u64| number * MIB / 2;
        return (12..=400).map(half).collect();
    }
    [6, 8, 11, 15, 20, 27, 34, 42, 55, 70, 95, 128, 160, 200]
        .map(|limit| limit * MIB)
        .to_vec()
}

struct Program {
    path: PathBuf,
    socket: PathBuf,
}

impl Program {
    fn run(&self, words: &[&str], variables: &[(&str, &str)]) -> Ended {
        let mut command = Command::new(&self.path);
        command.args(words).envs(variables.iter().copied());
        Story::begin_as(command, &self.socket).end()
    }

    fn limited(&self, kind: &str, limit: u64, own: u64, variables: &[(&str, &str)]) -> Ended {
        let words = [limit, BUFFERS.into(), own].map(|number| number.to_string());
        let [limit, buffers, own] = words.each_ref().map(String::as_str);
        self.run(&[kind, limit, buffers, own], variables)
    }

    fn plain(&self, kind: &str, limit: u64, own: u64) -> Ended {
        self.limited(kind, limit, own, &[("TTMEM_DISABLE", "1")])
    }
}

/// Runs the program under every limit; how often each pair of ends was seen.
fn under_limits(kind: &str, program: &Program) {
    let mut ends = BTreeMap::new();
    let own: &[u64] = if is_many() {
        &[0, 20 * MIB, 100 * MIB]
    } else {
        &[0, 100 * MIB]
    };
    for &own in own {
        for limit in limits() {
            let what = format!("{kind} {limit} with {own} of its own");
            let tracked = program.limited(kind, limit, own, &[]);
            let is_well = tracked.code == Some(0);
            if !is_well && tracked.code != Some(NO_MEMORY) {
                // There are limits under which it does not get as far as that without us.
                let plain = program.plain(kind, limit, own);
                assert_eq!(
                    plain.signal, tracked.signal,
                    "{what}: {plain:?} {tracked:?}"
                );
            }
            if !is_well && let Some(lower) = limit.checked_sub(COST) {
                let plain = program.plain(kind, lower, own);
                assert_ne!(plain.code, Some(0), "{what}: {tracked:?}");
            }
            assert_lines(&tracked, &what);
            *ends.entry((own, tracked.stdout)).or_insert(0) += 1;
        }
    }
    let is_off = |stdout: &[String]| stdout == ["off"];
    assert!(ends.keys().any(|(_own, stdout)| is_off(stdout)), "{ends:?}");
}

/// The library says one line at most, here and in the child.
fn assert_lines(ended: &Ended, what: &str) {
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let is_ours = |line: &&str| line.starts_with("ttmem: tracking is off: ");
    assert!(
        lines.len() <= 2 && lines.iter().all(is_ours),
        "{what}: {ended:?}"
    );
}

fn in_workshop(run: impl FnOnce(&Workshop, PathBuf)) {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let path = workshop.program("memory.c", Linked::Dynamically);
    run(&workshop, path);
}

fn with_server(kind: &str) {
    in_workshop(|_workshop, path| {
        let server = TestServer::start(&[]);
        let socket = server.socket();
        under_limits(kind, &Program { path, socket });
    });
}

fn alone(kind: &str) {
    in_workshop(|workshop, path| {
        let socket = workshop.path("no-server");
        under_limits(kind, &Program { path, socket });
    });
}

#[test]
fn limits_of_address_space_with_a_server() {
    with_server("as");
}

#[test]
fn limits_of_address_space_without_a_server() {
    alone("as");
}

#[test]
fn limits_of_data_with_a_server() {
    with_server("data");
}

#[test]
fn limits_of_data_without_a_server() {
    alone("data");
}

/// Requests that fail: the first ones, and others by chance; of a soak, very many.
fn failing_requests() -> Vec<usize> {
    let (first, more) = if is_many() { (3000, 1000) } else { (25, 10) };
    let mut random = Random::new(29);
    let more = (0..more).map(|_each| first + random.below(20_000));
    (1..first).chain(more).collect()
}

/// Requests that fail at random, each by itself: the value of the variable, and whether one is sure to.
fn random_failures() -> impl Iterator<Item = (String, bool)> {
    let seeds = if is_many() { 500 } else { 4 };
    let seeds = 1..=seeds;
    seeds.flat_map(|seed| {
        [2, 10, 100, 1000].map(|one_in| (format!("{seed}/{one_in}"), one_in <= 10))
    })
}

/// Runs the program once for each request: that one and all after it fail; then with others that fail at random.
fn at_every_request(path: &Path, linked: &str, socket: &Path) {
    let program = Program {
        path: path.to_owned(),
        socket: socket.to_owned(),
    };
    let requests = failing_requests();
    let from_one_on = requests
        .iter()
        .map(|request| (request.to_string(), *request < 25));
    for (failing, is_certain) in from_one_on.chain(random_failures()) {
        let variables = [("TTMEM_TEST_FAILING_REQUEST", failing.as_str())];
        let ended = program.run(&["free", "0", "10000", "1000000"], &variables);
        let what = format!("{linked}, request {failing}");
        assert_eq!(
            (ended.code, ended.signal),
            (Some(0), None),
            "{what}: {ended:?}"
        );
        assert_lines(&ended, &what);
        let is_off = ended.stdout == ["off"];
        // Release builds have no failing requests.
        let must_be = cfg!(debug_assertions) && is_certain;
        assert!(is_off || !must_be, "{what}: {ended:?}");
    }
}

#[test]
fn any_request_may_be_the_first_that_fails() {
    in_workshop(|workshop, dynamic| {
        let server = TestServer::start(&[]);
        at_every_request(&dynamic, "dynamic", &server.socket());
        let linked = workshop.program("memory.c", Linked::Statically);
        at_every_request(&linked, "static", &workshop.path("no-server"));
    });
}
