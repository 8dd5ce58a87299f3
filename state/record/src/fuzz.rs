//! The checks of the fuzz targets `recording` and `recording_budget`, and their kept inputs as ordinary tests.

mod counted;

use crate::blocks::Blocks;
use crate::format::{BlockHeader, BlockKind, FileHeader};
use crate::hostile;
use crate::player::{Player, Until};
use crate::recording::{OpenError, ReadError, Recording};
use std::io::Cursor;
use ttmem_account::budget::{BASE_BYTES, BYTES_PER_STORED_BYTE, Turn};
use ttmem_ledger::{ApplyLimits, Change, Departure, Ledger, Limits, state_fingerprint};

/// Reads an input in one of three ways and plays what comes of it.
///
/// The first byte says what follows: a whole file; or the unpacked inputs of a block, after the
/// numbers of its entries and of its events, which get the checksums that let them through; or the
/// state of a ledger without its fingerprint.
///
/// # Panics
/// When totals do not add up after inputs that were read: that is the property under test.
pub fn check_recording(input: &[u8]) {
    let Some(([how, entries, events], rest)) = input.split_first_chunk::<3>() else {
        return;
    };
    match how % 3 {
        0 => check_file(rest.to_vec()),
        1 => check_file(file_with(rest, (*entries).into(), (*events).into())),
        _state => check_state(rest),
    }
}

fn check_file(bytes: Vec<u8>) {
    let Ok(recording) = Recording::open(Cursor::new(bytes)) else {
        return;
    };
    let Ok(mut player) = Player::new(recording) else {
        return;
    };
    let mut last = 0;
    let played = player.play(Until::End, |_ledger, time, _played| {
        assert!(time >= last, "instants go back");
        last = time;
    });
    player.view().audit().expect("totals add up");
    if played.is_ok() {
        let events = player.ledger().events();
        player.seek(last / 2).expect("everything could be read");
        player.seek_event(events).expect("everything could be read");
        assert!(player.ledger().events() <= events);
    }
}

/// A recording that begins with nothing and has these inputs.
fn file_with(payload: &[u8], entries: u32, events: u32) -> Vec<u8> {
    let mut blocks = Blocks::new(Vec::new(), 1, None).expect("a packer");
    let header = |kind, entries, events| BlockHeader {
        kind,
        is_start: kind == BlockKind::State,
        entries,
        events,
        first_time: 5,
        last_time: 5,
        first_event: 0,
        last_event: events.into(),
        stored_bytes: 0,
        raw_bytes: 0,
        payload_sum: 0,
    };
    let mut state = Vec::new();
    Ledger::default().save(&mut state);
    let written = blocks.put(&FileHeader::new(false, 5).encode());
    written.expect("memory takes everything");
    for (header, payload) in [
        (header(BlockKind::State, 0, 0), &state[..]),
        (header(BlockKind::Inputs, entries, events), payload),
    ] {
        let written = blocks.block(header, payload);
        written.expect("memory takes everything");
    }
    blocks.out
}

/// Whatever a state makes, it works.
fn check_state(body: &[u8]) {
    let mut bytes = state_fingerprint().to_le_bytes().to_vec();
    bytes.extend_from_slice(body);
    let Ok(mut ledger) = Ledger::load(&bytes, Limits::default()) else {
        return;
    };
    let view = ledger.view();
    let _residents = view.residents();
    let _geometry = view.geometry();
    let mark = Change::SetMark {
        user: 0,
        time: 9,
        name: "mark".into(),
        number: 1,
    };
    ledger.apply(&mark, ApplyLimits::NONE, None);
    let slots: Vec<u32> = view.processes.iter().map(|process| process.index).collect();
    for process in slots {
        let depart = Change::Depart {
            process,
            departure: Departure::Ended,
            time: 9,
        };
        ledger.apply(&depart, ApplyLimits::NONE, None);
    }
    let mut again = Vec::new();
    ledger.save(&mut again);
    assert!(Ledger::load(&again, Limits::default()).is_ok());
}

/// Makes a hostile recording of an input, as [`hostile`] does, and reads it in every way.
///
/// # Panics
/// When that takes more memory or work than its stored bytes may.
pub fn check_budget(steps: &[u8]) {
    checked(&hostile::recording(steps));
}

fn checked(file: &[u8]) -> Cost {
    let cost = cost_of(file);
    let most = BASE_BYTES + BYTES_PER_STORED_BYTE * file.len() as u64;
    assert!(cost.bytes <= most, "{cost:?} for {} bytes", file.len());
    cost
}

/// What reading a file took.
#[derive(Debug, Default)]
struct Cost {
    /// At most at a time, by the allocator.
    bytes: u64,
    /// The most work of a question.
    work: u64,
    /// Whether anything was refused.
    is_refused: bool,
}

/// Opens a file, goes to instants of it, takes views and plays it.
fn cost_of(file: &[u8]) -> Cost {
    let mut cost = Cost::default();
    let (played, bytes) = counted::measured(|| {
        let recording = Recording::open(Cursor::new(file))?;
        cost.work = recording.turn.spent();
        let mut player = Player::new(recording)?;
        let (from, to) = (player.time(), player.recording().summary().to);
        let mut question = |ask: &mut dyn FnMut(&mut Player<_>) -> Result<(), ReadError>| {
            let stored = file.len() as u64;
            let _before = player.begin_turn(Turn::new(stored, None));
            let answered = ask(&mut player);
            let turn = player.turn();
            cost.work = cost.work.max(turn.spent());
            // One step may be beyond: an event, a state, a look at the whole ledger.
            assert!(turn.spent() <= turn.most() * 2, "{turn:?}");
            match answered {
                Err(ReadError::OverBudget(_)) => {
                    cost.is_refused = true;
                    Ok(())
                }
                Err(ReadError::Damaged(_)) | Ok(()) => Ok(()),
                Err(other) => Err(other),
            }
        };
        question(&mut |player| player.play(Until::End, |_, _, _| {}))?;
        for time in [from, from.midpoint(to), to] {
            question(&mut |player| player.seek(time))?;
            question(&mut |player| {
                let _charge = player.charge_of_view()?;
                drop(player.view());
                Ok(())
            })?;
        }
        Ok::<_, OpenError>(())
    });
    cost.bytes = bytes;
    cost.is_refused |= matches!(played, Err(OpenError::OverBudget(_)));
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of [`hostile::recording`]: its kind, its count and one more byte.
    type Step = (u8, u16, u8);

    /// A file of some steps, and the cost of reading it.
    fn cost(steps: &[Step]) -> (usize, Cost) {
        let bytes = steps.iter().flat_map(|(what, count, own)| {
            let [low, high] = count.to_le_bytes();
            [*what, low, high, *own]
        });
        let bytes: Vec<u8> = bytes.collect();
        let file = hostile::recording(&bytes);
        (file.len(), checked(&file))
    }

    #[test]
    fn hostile_recordings_stay_within_their_budget() {
        const WORLD: Step = (3, 255, 0);
        let cases: &[(&str, &[Step])] = &[
            ("joins", &[(0, 65_535, 0)]),
            ("labels", &[(0, 1, 0), (1, 65_535, 0)]),
            ("texts", &[(0, 1, 0), (2, 4095, 255)]),
            ("meshes of 256 devices", &[(0, 1, 0), WORLD]),
            (
                "a buffer for each of many processes",
                &[(0, 8000, 0), WORLD, (4, 65_535, 1)],
            ),
            (
                "buffers",
                &[(0, 1, 0), WORLD, (4, 65_535, 1), (4, 65_535, 1)],
            ),
            ("departures", &[(0, 4000, 0), (6, 65_535, 0)]),
            (
                "departures beside many processes",
                &[(0, 8000, 0), (6, 65_535, 4), (0, 4000, 0), (6, 65_535, 4)],
            ),
            ("empty states", &[(0, 8000, 0), (15, 65_535, 1)]),
            ("marks", &[(0, 4000, 0), WORLD, (7, 4095, 0)]),
            ("states of processes", &[(9, 4095, 7), (9, 4095, 7)]),
            ("notes", &[(10, 65_535, 0), (10, 65_535, 0)]),
            ("zeros", &[(11, 65_535, 0)]),
            ("a state of texts", &[(12, 65_535, 0)]),
            (
                "an index of what is not there",
                &[(0, 5, 0), (13, 65_535, 64)],
            ),
            ("core sets", &[(0, 1, 0), (14, 65_535, 9)]),
        ];
        println!("file, stored bytes, peak bytes, work units, refused");
        for (name, steps) in cases {
            let (stored, cost) = cost(steps);
            let Cost {
                bytes,
                work,
                is_refused,
            } = cost;
            println!("{name}, {stored}, {bytes}, {work}, {is_refused}");
        }
    }

    /// Every event of some kinds on a mesh of many devices, by a process that has all it can refer to.
    #[test]
    fn every_kind_of_event_stays_within_the_budget() {
        for kind in 1..48 {
            cost(&[
                (0, 1, 0),
                (3, 31, 0),
                (4, 3000, kind),
                (5, 300, kind),
                (4, 300, 1),
            ]);
        }
    }

    #[test]
    fn kept_steps_pass() {
        let corpus = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fuzz/corpus/recording_budget"
        );
        let mut count = 0;
        for entry in std::fs::read_dir(corpus).expect("the corpus is there") {
            let path = entry.expect("a file").path();
            check_budget(&std::fs::read(path).expect("can be read"));
            count += 1;
        }
        assert!(count > 0);
    }

    /// A wrong index in front of whole blocks.
    #[test]
    fn a_wrong_index_hides_no_block() {
        let whole = hostile::recording(&[0, 5, 0, 0, 8, 0, 0, 0]);
        let known = Recording::open(Cursor::new(&whole)).expect("a whole file");
        let wrong = hostile::recording(&[0, 5, 0, 0, 8, 0, 0, 0, 13, 1, 0, 64]);
        let found = Recording::open(Cursor::new(&wrong)).expect("its blocks are whole");
        assert_eq!(found.index().blocks, known.index().blocks);
        let mut player = Player::new(found).expect("it has a state");
        player
            .play(Until::End, |_, _, _| {})
            .expect("all of it can be read");
        assert_eq!(player.ledger().process_slots().count(), 5);
    }

    #[test]
    fn kept_inputs_pass() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/recording");
        let mut count = 0;
        for entry in std::fs::read_dir(corpus).expect("the corpus is there") {
            let path = entry.expect("a file").path();
            super::check_recording(&std::fs::read(path).expect("can be read"));
            count += 1;
        }
        assert!(count > 0);
    }
}
