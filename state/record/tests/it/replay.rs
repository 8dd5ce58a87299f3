//! Replay to any instant equals the ledger that was recorded.

use crate::session::{Timed, session};
use std::io::Cursor;
use ttmem_event::Event;
use ttmem_ledger::{ApplyLimits, Batch, Change, Ledger, Limits};
use ttmem_record::{Played, Player, Recording, Summary, Until, Writer, WriterOptions};

/// Blocks and states so often that a short session has many.
pub(crate) fn small_blocks() -> WriterOptions {
    WriterOptions {
        block_events: 50,
        checkpoint_events: 900,
        ..WriterOptions::default()
    }
}

pub(crate) const START: u64 = 500;

pub(crate) fn written(inputs: &[Timed], options: WriterOptions) -> (Vec<u8>, Summary) {
    let mut writer = Writer::new(Vec::new(), options, START, &Ledger::default()).unwrap();
    for (time, input) in inputs {
        writer.append(*time, input).unwrap();
    }
    let finished = writer.finish().unwrap();
    assert_eq!(finished.bytes, finished.out.len() as u64);
    (finished.out, finished.summary)
}

pub(crate) fn open(bytes: &[u8]) -> Player<Cursor<Vec<u8>>> {
    let recording = Recording::open(Cursor::new(bytes.to_vec())).unwrap();
    Player::new(recording).unwrap()
}

pub(crate) fn state(ledger: &Ledger) -> Vec<u8> {
    let mut bytes = Vec::new();
    ledger.save(&mut bytes);
    bytes
}

/// The instant and the state after every event and every other input.
pub(crate) fn states(inputs: &[Timed]) -> Vec<(u64, u64, Vec<u8>)> {
    let mut ledger = Ledger::default();
    let mut states = vec![(START, 0, state(&ledger))];
    let mut last = START;
    let mut note = |time: u64, applied: u64, ledger: &Ledger| {
        let bytes = if ledger.can_save() {
            state(ledger)
        } else {
            Vec::new()
        };
        last = time.min(applied).max(last);
        states.push((last, ledger.events(), bytes));
    };
    for (time, input) in inputs {
        if let Change::Apply(batch) = input {
            for event in batch.events() {
                let _refused = ledger.apply(
                    &Change::event(batch.process, *event),
                    ApplyLimits::NONE,
                    None,
                );
                note(event.time, *time, &ledger);
            }
        } else {
            ledger.apply(input, ApplyLimits::NONE, None);
            note(*time, *time, &ledger);
        }
    }
    states
}

#[test]
fn every_instant_of_a_recording_is_that_of_the_ledger() {
    for seed in 0..5 {
        let inputs = session(seed, 250);
        let (bytes, summary) = written(&inputs, small_blocks());
        let expected = states(&inputs);
        let mut player = open(&bytes);
        assert_eq!(player.recording().damage(), None);
        assert_eq!(player.recording().summary(), &summary);
        let mut random = crate::session::Random::new(seed);
        for _seek in 0..60 {
            let place = random.below(expected.len() as u64);
            let time = &expected[usize::try_from(place).unwrap()].0;
            let behind = expected.partition_point(|(at, ..)| at <= time);
            let (_time, events, bytes) = &expected[behind - 1];
            player.seek(*time).unwrap();
            assert_eq!(player.ledger().events(), *events);
            if !bytes.is_empty() {
                assert!(state(player.ledger()) == *bytes, "seed {seed}, {place}");
                player.view().audit().unwrap();
            }
            player.seek(time.saturating_sub(1)).unwrap();
            assert!(player.time() < *time || *time == START);
        }
    }
}

#[test]
fn playing_through_gives_every_event_once_and_the_ledger_after_each() {
    let inputs = session(77, 300);
    let (bytes, summary) = written(&inputs, small_blocks());
    let expected = states(&inputs);
    let mut player = open(&bytes);
    let mut place = 0;
    let mut events = 0;
    player
        .play(Until::End, |ledger, time, played| {
            place += 1;
            events += u64::from(matches!(played, Played::Event { .. }));
            let (at, count, bytes) = &expected[place];
            assert_eq!((time, ledger.events()), (*at, *count));
            if place % 50 == 0 && !bytes.is_empty() {
                assert!(state(ledger) == *bytes, "{place}");
            }
        })
        .unwrap();
    assert_eq!(place + 1, expected.len());
    assert_eq!(events, summary.events);
    assert!(state(player.ledger()) == expected[place].2);
    player.seek(0).unwrap();
    assert_eq!(player.ledger().events(), 0);
    assert!(player.step().unwrap());
}

#[test]
fn an_event_is_found_by_its_number() {
    let inputs = session(5, 200);
    let (bytes, summary) = written(&inputs, small_blocks());
    let expected = states(&inputs);
    let mut player = open(&bytes);
    for number in (1..=summary.events).rev().step_by(13) {
        player.seek_event(number).unwrap();
        let first = expected
            .iter()
            .find(|(_time, events, _bytes)| *events == number);
        let (_time, events, bytes) = first.unwrap();
        assert_eq!(player.ledger().events(), *events);
        assert!(
            bytes.is_empty() || state(player.ledger()) == *bytes,
            "{number}"
        );
    }
}

#[test]
fn notes_lead_to_marks_failures_and_peaks() {
    let inputs = session(9, 400);
    let (bytes, summary) = written(&inputs, small_blocks());
    let mut player = open(&bytes);
    assert!(!summary.marks.is_empty() && !summary.failures.is_empty());
    for mark in &summary.marks {
        player.seek(mark.at).unwrap();
        let view = player.view();
        let known = view.marks.iter().any(|(known, _peaks)| {
            (&known.name, known.number, known.time) == (&mark.name, mark.number, mark.time)
        });
        assert!(known, "{mark:?}");
    }
    for failure in &summary.failures {
        player.seek_event(failure.event).unwrap();
        let newest = player.ledger().failures().newest().unwrap();
        assert_eq!((newest.event, newest.time), (failure.kind, failure.time));
    }
    let mut found = 0;
    for peak in &summary.peaks {
        player.seek_event(peak.event).unwrap();
        let device = player.ledger().device(peak.device).unwrap();
        let gauge = device.totals.gauge(peak.gauge);
        // A state that a process sent may bring a peak that nobody saw.
        let is_there = gauge.bytes() == peak.bytes && gauge.peak().bytes == peak.bytes;
        found += usize::from(is_there);
        // Where a note leads to by time, the peak has been reached.
        let at_event = player.time();
        player.seek(peak.time).unwrap();
        let device = player.ledger().device(peak.device).unwrap();
        let reached = device.totals.gauge(peak.gauge).peak().bytes;
        assert!(
            !is_there || (peak.time, reached) == (at_event, peak.bytes),
            "{peak:?}"
        );
    }
    assert!(
        2 * found > summary.peaks.len(),
        "{found} of {}",
        summary.peaks.len()
    );
}

/// The first number of inputs, from a given one on, after which the ledger is not within an event.
fn savable_from(least: usize, inputs: &[Timed]) -> usize {
    let mut ledger = Ledger::default();
    let mut applied = inputs.iter().enumerate().map(|(index, (_time, input))| {
        ledger.apply(input, ApplyLimits::NONE, None);
        (index + 1, ledger.can_save())
    });
    let found = applied.find(|(count, can_save)| *count >= least && *can_save);
    found.expect("events end").0
}

#[test]
fn a_recording_goes_on_from_the_end_of_another() {
    let inputs = session(21, 300);
    let expected = states(&inputs);
    let (before, after) = inputs.split_at(savable_from(150, &inputs));
    let mut writer = Writer::new(Vec::new(), small_blocks(), START, &Ledger::default()).unwrap();
    for (time, input) in before {
        writer.append(*time, input).unwrap();
    }
    let first = writer.finish().unwrap();
    let time = before.last().unwrap().0;
    let mut writer = Writer::new(Vec::new(), small_blocks(), time, &first.ledger).unwrap();
    for (time, input) in after {
        writer.append(*time, input).unwrap();
    }
    let second = writer.finish().unwrap();
    assert_eq!(second.summary.first_event, first.ledger.events());
    let mut player = open(&second.out);
    assert!(state(player.ledger()) == state(&first.ledger));
    player.play(Until::End, |_, _, _| {}).unwrap();
    assert!(state(player.ledger()) == expected.last().unwrap().2);
    // Before its beginning there is nothing: it stays at its start.
    player.seek(0).unwrap();
    assert_eq!(player.time(), time);
}

/// Instants never go back, whatever the clocks of processes say.
#[test]
fn instants_are_in_the_order_in_which_things_were_applied() {
    let mut inputs = session(3, 60);
    let mut random = crate::session::Random::new(3);
    for (time, input) in &mut inputs {
        *time -= random.below(200).min(*time - START);
        if let Change::Apply(batch) = input {
            let events = batch.events().iter().map(|event| Event {
                time: event.time ^ random.below(4000),
                ..*event
            });
            *batch = Batch::whole(batch.process, std::sync::Arc::new(events.collect()));
        }
    }
    let (bytes, summary) = written(&inputs, small_blocks());
    let mut player = open(&bytes);
    let mut last = START;
    let mut instants = Vec::new();
    player
        .play(Until::End, |ledger, time, _played| {
            assert!(time >= last);
            last = time;
            instants.push((time, ledger.events()));
        })
        .unwrap();
    assert_eq!(last, summary.to);
    for (time, _events) in instants.iter().step_by(7) {
        player.seek(*time).unwrap();
        let behind = instants.iter().rfind(|(at, _events)| at <= time);
        assert_eq!(player.ledger().events(), behind.unwrap().1, "at {time}");
    }
}

#[test]
fn a_gap_is_named_and_what_follows_it_is_right() {
    let inputs = session(33, 300);
    let mut live = Ledger::default();
    let mut writer = Writer::new(Vec::new(), small_blocks(), START, &live).unwrap();
    for (number, (time, input)) in inputs.iter().enumerate() {
        live.apply(input, ApplyLimits::NONE, None);
        if number == 199 {
            writer.gap(*time, 123, &state(&live)).unwrap();
        } else if !(100..200).contains(&number) {
            writer.append(*time, input).unwrap();
        }
    }
    let finished = writer.finish().unwrap();
    let mut player = open(&finished.out);
    let summary = player.recording().summary().clone();
    assert_eq!(summary.missing_events, 123);
    assert_eq!((summary.gaps.len(), summary.gaps[0].at), (1, inputs[199].0));
    player.play(Until::End, |_, _, _| {}).unwrap();
    assert!(state(player.ledger()) == state(&live));
    let before = states(&inputs[..100]);
    player.seek(inputs[198].0).unwrap();
    assert!(state(player.ledger()) == before.last().unwrap().2);
    let unfinished = &finished.out[..finished.out.len() - 40];
    let scanned = Recording::open(Cursor::new(unfinished.to_vec())).unwrap();
    assert_eq!(scanned.summary().missing_events, 123);
    assert!(Ledger::load(&state(&live), Limits::default()).is_ok());
}

#[test]
fn what_arrived_at_once_can_be_looked_at_event_by_event() {
    let mut inputs = session(5, 40);
    let arrived = inputs.last().unwrap().0;
    for (time, _input) in &mut inputs {
        *time = arrived;
    }
    let (bytes, summary) = written(&inputs, small_blocks());
    let mut player = open(&bytes);
    let mut instants = Vec::new();
    player
        .play(Until::End, |ledger, time, played| {
            if matches!(played, Played::Event { .. }) {
                instants.push((time, ledger.events()));
            }
        })
        .unwrap();
    assert!(instants.len() > 40);
    assert!(instants.is_sorted_by(|one, next| one.0 < next.0));
    assert!(summary.to - arrived <= instants.len() as u64);
    for (time, events) in instants {
        player.seek(time).unwrap();
        assert_eq!(player.ledger().events(), events, "at {time}");
    }
}
