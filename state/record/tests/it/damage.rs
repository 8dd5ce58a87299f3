//! Recordings that were cut or changed anywhere.

use crate::replay::{open, small_blocks, states, written};
use crate::session::session;
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::LazyLock;
use ttmem_record::{OpenError, Played, Player, ReadError, Recording, Until};

/// A recording, the states that it leads through, and where what can be read of it ends by offset.
struct Sample {
    bytes: Vec<u8>,
    states: Vec<(u64, u64, Vec<u8>)>,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let inputs = session(1, 160);
    let (bytes, _summary) = written(&inputs, small_blocks());
    let states = states(&inputs);
    Sample { bytes, states }
});

/// What came of a recording: how many steps were played, and whether damage was named.
struct Outcome {
    steps: usize,
    events: u64,
    is_named: bool,
    named_events: Option<u64>,
}

/// Plays whatever can be played, and holds the ledger against that of the same number of steps.
fn play(bytes: Vec<u8>) -> Outcome {
    let none = Outcome {
        steps: 0,
        events: 0,
        is_named: true,
        named_events: None,
    };
    let recording = match Recording::open(Cursor::new(bytes)) {
        Ok(recording) => recording,
        Err(OpenError::Io(error)) => panic!("no file is too short to say so: {error}"),
        Err(_named) => return none,
    };
    let mut named_events = recording.damage().map(|damage| damage.events_before);
    let Ok(mut player) = Player::new(recording) else {
        return none;
    };
    let (mut steps, mut events) = (0, 0);
    let played = player.play(Until::End, |_ledger, _time, played| {
        steps += 1;
        events += u64::from(matches!(played, Played::Event { .. }));
    });
    match played {
        Ok(()) => {}
        Err(ReadError::Damaged(damage)) => named_events = Some(damage.events_before),
        Err(error) => panic!("{error}"),
    }
    let expected = &SAMPLE.states[steps];
    assert_eq!(player.ledger().events(), expected.1);
    assert!(expected.2.is_empty() || crate::replay::state(player.ledger()) == expected.2);
    player.view().audit().unwrap();
    let mut recording = player.into_recording();
    let is_named = named_events.is_some() || recording.verify().unwrap().is_some();
    Outcome {
        steps,
        events,
        is_named,
        named_events,
    }
}

/// Events of all blocks that end before an offset.
fn events_before(offset: usize) -> u64 {
    let mut cut = SAMPLE.bytes.clone();
    cut.truncate(offset);
    match Recording::open(Cursor::new(cut)) {
        Ok(recording) => recording.summary().events,
        Err(_nothing) => 0,
    }
}

#[test]
fn a_recording_that_ends_at_any_byte_is_read_up_to_there() {
    let whole = SAMPLE.states.len() - 1;
    assert_eq!(play(SAMPLE.bytes.clone()).steps, whole);
    let mut last = 0;
    for end in (0..SAMPLE.bytes.len())
        .step_by(37)
        .chain([SAMPLE.bytes.len() - 1])
    {
        let outcome = play(SAMPLE.bytes[..end].to_vec());
        assert!(outcome.is_named, "cut at {end}");
        assert!(outcome.steps >= last, "more bytes have no fewer steps");
        assert!(
            outcome
                .named_events
                .is_none_or(|events| events == outcome.events)
        );
        last = outcome.steps;
    }
    assert_eq!(last, whole, "only the trailer is cut");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_comes_before_a_changed_byte_is_read_and_the_damage_is_named(
        place in any::<prop::sample::Index>(),
        change in 1..=255_u8,
    ) {
        let mut bytes = SAMPLE.bytes.clone();
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        let outcome = play(bytes);
        prop_assert!(outcome.events >= events_before(place), "{} events", outcome.events);
        // What marks and peaks say stands in the index again: a copy that is not needed is not read.
        let is_whole = outcome.steps + 1 == SAMPLE.states.len();
        prop_assert!(outcome.is_named || is_whole);
    }

    #[test]
    fn whatever_is_in_a_file_nothing_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        cut in any::<prop::sample::Index>(),
        tail in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = SAMPLE.bytes.clone();
        bytes.truncate(cut.index(bytes.len()));
        bytes.extend(tail);
        for (place, value) in changes {
            let place = place.index(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(place) {
                *byte = value;
            }
        }
        if let Ok(recording) = Recording::open(Cursor::new(bytes))
            && let Ok(mut player) = Player::new(recording)
        {
            let _damaged = player.play(Until::End, |_, _, _| {});
            let _damaged = player.seek(0);
            let _damaged = player.seek_event(50);
            player.view().audit().unwrap();
        }
    }
}

#[test]
fn a_state_behind_the_damage_leads_past_it() {
    let mut bytes = SAMPLE.bytes.clone();
    let last = SAMPLE.states.last().unwrap();
    let mut player = open(&bytes);
    player.play(Until::End, |_, _, _| {}).unwrap();
    // In the first block of inputs: far before the last state.
    let is_inputs = |part: &[u8]| part == b"TTRB\0";
    let at = bytes.windows(5).position(is_inputs).unwrap();
    bytes[at + 80] ^= 0x55;
    let mut player = open(&bytes);
    let error = player.play(Until::End, |_, _, _| {}).unwrap_err();
    let ReadError::Damaged(damage) = error else {
        panic!("{error}");
    };
    assert_eq!((damage.offset, damage.events_before), (at as u64, 0));
    player.seek(last.0).unwrap();
    assert!(crate::replay::state(player.ledger()) == last.2);
}
