//! What a report finds wrong.

use super::*;

/// A report with nothing wrong in it.
fn sound() -> Report {
    Report {
        scenario: "leak".to_owned(),
        board: "n150",
        seed: 1,
        took: Duration::from_secs(1),
        interrupted: false,
        devices: vec![DeviceReport {
            id: 0,
            peaks: PeakBytes::default(),
            dispatches: 7,
            trace_replays: 0,
            caches: CacheCounts::default(),
            rings: ConfigRingCounts::default(),
        }],
        planted: BTreeSet::from([FailureKind::Clash]),
        failures: vec![(FailureKind::Clash, "clash with L1 buffers".to_owned())],
        leaked_buffers: 2,
        leak_candidates: LeakCandidates {
            buffers: 2,
            bytes: 4096,
        },
        growing: Vec::new(),
        anomalies: Vec::new(),
        lost_events: 0,
        elided_events: 0,
        live_bytes: 0,
        left_bytes: 0,
        compared: vec![Compared {
            name: "dispatches",
            recorded: 7,
            server: 7,
        }],
    }
}

#[test]
fn what_went_as_planted_is_no_problem() {
    assert!(sound().problems().is_empty());
    let report = sound();
    let json = crate::render::json_report(&report, &report.problems()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["failures"][0]["kind"], "clash");
    assert_eq!(json["leak_candidates"]["buffers"], 2);
    assert_eq!(json["compared"]["dispatches"]["server"], 7);
    assert_eq!(json["problems"], json!([]));
}

#[test]
fn everything_that_must_be_nothing_is_a_problem_when_it_is_not() {
    type Spoil = fn(&mut Report);
    let spoiled: [(Spoil, &str); 8] = [
        (
            |report| report.anomalies = vec![("double_free".to_owned(), 3)],
            "double_free 3 times",
        ),
        (|report| report.lost_events = 5, "5 events lost"),
        (
            |report| report.live_bytes = 9,
            "9 bytes still held after the scenario",
        ),
        (
            |report| report.left_bytes = 9,
            "9 bytes still held after the program disconnected",
        ),
        (
            |report| report.leaked_buffers = 0,
            "2 buffers leaked where 0",
        ),
        (|report| report.failures.clear(), "none where clash"),
        (
            |report| report.planted = BTreeSet::new(),
            "clash where none",
        ),
        (
            |report| report.compared[0].server = 6,
            "7 recorded, 6 with the server",
        ),
    ];
    for (spoil, complaint) in spoiled {
        let mut report = sound();
        spoil(&mut report);
        let problems = report.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(complaint), "{problems:?}");
    }
}

#[test]
fn a_story_that_was_ended_early_owes_no_failure() {
    let mut report = sound();
    report.interrupted = true;
    report.failures.clear();
    assert!(report.problems().is_empty());
}
