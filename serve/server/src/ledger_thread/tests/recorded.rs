//! What the thread hands to a recorder makes the ledger that it has.

use super::fairness::{HONEST, HOSTILE, MESH, Tested, allocated, definitions, whole_state};
use super::*;
use crate::recorder::{PreparedRecorder, RecordConfig, RecordTarget, Recorder};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use ttmem_event::TextId;
use ttmem_ledger::{Anomaly, IncompleteReason, ProcessState};
use ttmem_record::{Player, Recording, Summary, Until};

fn prepared(path: &Path, max_bytes: usize) -> (PreparedRecorder, Tap) {
    let config = RecordConfig {
        target: RecordTarget::File(path.to_owned()),
        redact: false,
    };
    PreparedRecorder::bounded(&config, max_bytes).unwrap()
}

fn done(tested: &mut Tested) {
    while tested.thread.step().is_some() {}
}

/// Ends a recording and compares what it comes to with the ledger.
fn assert_same(tested: Tested, recorder: Recorder, path: &Path) -> Summary {
    let mut live = Vec::new();
    tested.thread.ledger.save(&mut live);
    tested.handle.stop();
    tested.thread.run();
    assert!(recorder.finish());
    let recording = Recording::open(BufReader::new(File::open(path).unwrap())).unwrap();
    assert_eq!(recording.damage(), None);
    let mut player = Player::new(recording).unwrap();
    player.play(Until::End, |_, _, _| {}).unwrap();
    let mut played = Vec::new();
    player.ledger().save(&mut played);
    assert!(played == live, "the ledgers differ");
    player.view().audit().unwrap();
    player.recording().summary().clone()
}

/// Two processes on the same devices, with everything that can happen to them.
fn live_through_a_lot(tested: &mut Tested) {
    let other = ProcessCommand::define(definitions(1));
    tested.send(HONEST, other);
    for round in 0..3 {
        let first = round * 20_000;
        tested.send_events(HOSTILE, (first..first + 20_000).map(allocated));
        tested.send(HONEST, ProcessCommand::refuse(Anomaly::Undefined, 3));
        tested.send_events(HONEST, (first..first + 500).map(allocated));
        done(tested);
        // One event in many turns, and the other process meanwhile.
        tested.send_events(HOSTILE, [EventKind::MeshClosed { mesh: MESH }]);
        for _report in 0..5 {
            tested.units_to_answer();
        }
        tested.send(HONEST, ProcessCommand::state(ProcessState::Detached, 0));
        done(tested);
        tested.send(HONEST, ProcessCommand::state(ProcessState::Live, 1));
    }
    let reason = IncompleteReason::LimitReached;
    tested.send(HONEST, ProcessCommand::incomplete(reason, 2));
    tested.send(HOSTILE, ProcessCommand::begin_resync());
    tested.send(HOSTILE, whole_state(5_000));
    tested.units_to_answer();
    done(tested);
    let (reply, _answer) = crossbeam_channel::bounded(1);
    let mark = Command::Mark {
        uid: 0,
        name: "step".into(),
        time: 7,
        reply,
    };
    let _room = tested.handle.send(Lane::Control, mark);
    let refused = EventKind::AllocationFailed {
        mesh: MESH,
        class: Class::Dram,
        requested_bytes: 1 << 40,
        per_bank_bytes: 1 << 40,
        operation: TextId::NONE,
        call_first: 0,
        free_bytes: 2,
        largest_free_bytes: 1,
        bank_bytes: 3,
        banks: 1,
    };
    tested.send_events(HOSTILE, [refused]);
    let lost = ProcessCommand::Lost {
        gone_events: 2,
        lost_events: 9,
        time: 9,
    };
    tested.send(HONEST, lost);
    done(tested);
}

#[test]
fn a_recording_comes_to_the_same_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.ttrec");
    let (prepared, tap) = prepared(&path, 1 << 30);
    let mut tested = Tested::recorded_by(vec![tap]);
    let recorder = prepared.start(Some(tested.log.handle()), || {}).unwrap();
    live_through_a_lot(&mut tested);
    tested.send(HOSTILE, ProcessCommand::depart(Departure::Ended, 11));
    tested.handle.retire(HOSTILE);
    for _report in 0..3 {
        tested.units_to_answer();
    }
    done(&mut tested);
    let (reply, _answer) = crossbeam_channel::bounded(1);
    let forget = Command::Forget {
        pid: 2,
        uid: 0,
        time: 12,
        reply,
    };
    let _room = tested.handle.send(Lane::Control, forget);
    done(&mut tested);
    assert!(tested.thread.slots.is_empty());
    let events = tested.thread.ledger.events();
    let summary = assert_same(tested, recorder, &path);
    assert_eq!((summary.events, summary.missing_events), (events, 0));
    assert_eq!((summary.failures.len(), summary.marks.len()), (1, 1));
}

#[test]
fn what_finds_no_room_is_counted_and_what_follows_is_exact() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gaps.ttrec");
    let (prepared, tap) = prepared(&path, 1 << 18);
    let mut tested = Tested::recorded_by(vec![tap]);
    // Nobody takes anything yet: most of it is too much.
    live_through_a_lot(&mut tested);
    let before = tested.thread.ledger.events();
    let recorder = prepared.start(Some(tested.log.handle()), || {}).unwrap();
    // Each step looks whether there is room again.
    let mut extra = 0;
    while tested.thread.taps[0].is_missing() {
        std::thread::sleep(std::time::Duration::from_millis(5));
        tested.send_events(HONEST, [allocated(100_000 + extra)]);
        done(&mut tested);
        extra += 1;
    }
    tested.send_events(HONEST, [allocated(1_000_000)]);
    done(&mut tested);
    let events = tested.thread.ledger.events();
    let summary = assert_same(tested, recorder, &path);
    // The state itself may fill the queue again.
    assert!(!summary.gaps.is_empty());
    assert!(summary.missing_events > before / 2, "{summary:?}");
    assert_eq!(summary.events + summary.missing_events, events);
}

#[test]
fn a_thread_that_ends_in_a_gap_leaves_the_state_that_it_ended_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("end.ttrec");
    let (prepared, tap) = prepared(&path, 1 << 10);
    let mut tested = Tested::recorded_by(vec![tap]);
    live_through_a_lot(&mut tested);
    let recorder = prepared.start(Some(tested.log.handle()), || {}).unwrap();
    let summary = assert_same(tested, recorder, &path);
    assert_eq!(summary.gaps.len(), 1);
}
