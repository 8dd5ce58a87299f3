//! The read API while a client sends tens of thousands of events per second.
//!
//! `cargo xtask bench api` is a measurement that fails when an event is lost, a total differs by a byte,
//! the server panics, or answers with an error of its own. Here it runs in small, and what it
//! counted is looked at; times are not.

use super::support::server::TTMEM;
use super::support::tracked::workload;
use crate::support::is_left_to_the_whole_run;
use serde_json::Value;
use ttmem_bench::{Programs, Subject};

fn count(found: &Value, place: &str) -> u64 {
    let value = found.pointer(place).and_then(Value::as_u64);
    assert!(value.is_some(), "{place}: {found:#}");
    value.expect("just checked")
}

#[test]
fn readers_that_stall_and_hostile_requests_cost_no_event_and_nobody_elses_answer() {
    if is_left_to_the_whole_run("it loads a server for seconds") {
        return;
    }
    let programs = Programs {
        ttmem: TTMEM.as_str().into(),
        workload: |options| Ok(workload(options)),
    };
    let found = ttmem_bench::measure(Subject::Api, &programs, true).expect("nothing is lost");
    let found = &found["api"];

    for part in ["/follower", "/crowd/load", "/hostile/load"] {
        let recorded = count(found, &format!("{part}/events_recorded"));
        assert!(recorded >= 100_000, "{part}: {recorded}");
        assert_eq!(count(found, &format!("{part}/events_applied")), recorded);
        // Where the machine is busy it may be told of a gap, but of each event or of the gap.
        let events = count(found, &format!("{part}/raw_reader/events"));
        let gaps = count(found, &format!("{part}/raw_reader/gaps"));
        assert!(events == recorded || gaps > 0, "{part}: {found:#}");
    }

    // Whoever is still there reached the last event, also those who slept until then.
    for (crowd, all) in [("readers", 5), ("sleepers", 1), ("never_read", 1)] {
        let at = |what: &str| count(found, &format!("/crowd/in_the_end/{crowd}/{what}"));
        assert_eq!(at("all"), all, "{found:#}");
        let reached = at("reached_the_last_event");
        assert_eq!(reached + at("dropped"), all, "{crowd}: {found:#}");
        assert!(reached == all || crowd != "readers", "{found:#}");
    }
    // More happened than is kept for those who never read.
    let never = |what: &str| count(found, &format!("/crowd/in_the_end/never_read/{what}"));
    assert_eq!(never("told_of_a_gap"), never("all"), "{found:#}");

    // More half requests are open at once than may be: the oldest are closed, nobody else waits.
    assert_eq!(count(found, "/hostile/requests"), 1000);
    for code in ["200", "400", "404", "405", "431"] {
        assert!(count(found, &format!("/hostile/answers/{code}")) > 0);
    }
    let answers = found["hostile"]["answers"].as_object().expect("counts");
    let failures = answers.keys().filter(|code| code.starts_with('5'));
    assert!(failures.into_iter().all(|code| code == "503"), "{found:#}");
    let good = |what: &str| count(found, &format!("/hostile/good_reader/{what}"));
    assert!(good("answered") > 0, "{found:#}");
}
