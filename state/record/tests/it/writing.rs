//! What a writer leaves out, counts and bounds.

use crate::replay::{START, open, small_blocks, state, states, written};
use crate::session::session;
use std::cell::RefCell;
use std::io::{Cursor, Write};
use std::rc::Rc;
use std::sync::Arc;
use ttmem_event::{Definition, Event, TextId};
use ttmem_ledger::{ApplyLimits, Batch, Change, Ledger};
use ttmem_record::{Player, Recording, Until, Writer, WriterOptions};

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

#[test]
fn a_redacted_recording_has_no_names_and_the_same_figures() {
    let names = [
        "somebody",
        "model-",
        "secret",
        "matmul",
        "train.py",
        "forward",
        "lab-",
        "team_of_two",
        "vision",
    ];
    let inputs = session(12, 300);
    let (before, after) = inputs.split_at(120);
    // It begins in the middle: names that were there before are left out as well.
    let mut live = Ledger::default();
    before.iter().for_each(|(_time, input)| {
        live.apply(input, ApplyLimits::NONE, None);
    });
    assert!(names.iter().all(|name| contains(&state(&live), name)));
    let options = WriterOptions {
        redact: true,
        ..small_blocks()
    };
    let start = before.last().unwrap().0;
    let mut writer = Writer::new(Vec::new(), options, start, &live).unwrap();
    for (time, input) in after {
        writer.append(*time, input).unwrap();
        live.apply(input, ApplyLimits::NONE, None);
    }
    let finished = writer.finish().unwrap();
    let mut player = open(&finished.out);
    assert!(player.recording().is_redacted());
    let mut states = 0;
    player
        .play(Until::End, |ledger, _time, _played| {
            states += 1;
            if states % 100 == 0 && ledger.can_save() {
                let bytes = state(ledger);
                for name in names {
                    assert!(!contains(&bytes, name), "{name}");
                }
                let hardware = contains(&bytes, "n150") || contains(&bytes, "n300");
                assert!(hardware, "hardware keeps its name");
            }
        })
        .unwrap();
    let (own, live) = (player.view(), live.view());
    for (own, live) in own.devices.iter().zip(&live.devices) {
        assert_eq!(format!("{:?}", own.totals), format!("{:?}", live.totals));
    }
    assert_eq!(own.anomalies, live.anomalies);
    let marks = &player.recording().summary().marks;
    assert!(
        marks
            .iter()
            .all(|mark| mark.name.is_empty() || mark.name.starts_with("text-"))
    );
}

#[test]
fn placeholders_stand_for_the_same_texts_in_the_next_file() {
    let mark = |name: &str, number: u64| Change::SetMark {
        user: 0,
        time: number,
        name: name.into(),
        number,
    };
    let options = WriterOptions {
        redact: true,
        ..small_blocks()
    };
    let empty = Ledger::default();
    let mut writer = Writer::new(Vec::new(), options.clone(), 1, &empty).unwrap();
    writer.append(1, &mark("warm up", 1)).unwrap();
    writer.append(2, &mark("step", 2)).unwrap();
    let first = writer.finish().unwrap();
    let names = |summary: &ttmem_record::Summary| {
        let marks = summary.marks.iter();
        marks.map(|mark| mark.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&first.summary), ["text-1", "text-2"]);
    // One that only has the state goes on with other numbers, too.
    let mut other = Writer::new(Vec::new(), options.clone(), 3, &first.ledger).unwrap();
    other.append(3, &mark("end", 3)).unwrap();
    assert_eq!(names(&other.finish().unwrap().summary), ["text-3"]);
    let mut writer = Writer::after(Vec::new(), options, 3, first).unwrap();
    writer.append(3, &mark("step", 3)).unwrap();
    writer.append(4, &mark("end", 4)).unwrap();
    let second = writer.finish().unwrap();
    assert_eq!(names(&second.summary), ["text-2", "text-3"]);
}

/// A file that somebody reads while it is written.
#[derive(Clone, Debug, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_was_flushed_can_be_read_while_the_rest_is_written() {
    let is_part = |input: &Change| matches!(input, Change::ApplyEvent { .. });
    // One in which a large event is applied in parts.
    let sessions = (20..40).map(|seed| session(seed, 150));
    let mut sessions = sessions.filter(|inputs| inputs.iter().any(|(_time, input)| is_part(input)));
    let inputs = sessions.next().unwrap();
    let file = Shared::default();
    let mut writer = Writer::new(file.clone(), small_blocks(), START, &Ledger::default()).unwrap();
    for (number, (time, input)) in inputs.iter().enumerate() {
        writer.append(*time, input).unwrap();
        if number % 20 != 0 {
            continue;
        }
        writer.flush().unwrap();
        let recording = Recording::open(Cursor::new(file.0.borrow().clone())).unwrap();
        assert!(recording.damage().is_some(), "it is not finished");
        assert_eq!(recording.summary(), writer.summary());
        let mut player = Player::new(recording).unwrap();
        player.play(Until::End, |_, _, _| {}).unwrap();
        let expected = &states(&inputs[..=number]).pop().unwrap().2;
        // Nothing is expected in the middle of an event.
        assert!(expected.is_empty() || state(player.ledger()) == *expected);
    }
}

#[test]
fn events_that_are_more_than_a_block_go_on_in_the_next() {
    let mut inputs = session(4, 60);
    let last = inputs.last().unwrap().0;
    let (process, event) = inputs
        .iter()
        .find_map(|(_time, input)| match input {
            Change::Apply(batch) => Some((batch.process, *batch.events().first()?)),
            _other => None,
        })
        .unwrap();
    let events = (0..1000).map(|number| Event {
        time: last + 1 + number,
        ..event
    });
    let batch = Batch::whole(process, Arc::new(events.collect()));
    inputs.push((last + 2000, Change::Apply(batch)));
    let (bytes, summary) = written(&inputs, small_blocks());
    let mut player = open(&bytes);
    player.seek(last + 500).unwrap();
    assert_eq!(player.ledger().events(), summary.events - 500);
    player.play(Until::End, |_, _, _| {}).unwrap();
    assert!(state(player.ledger()) == states(&inputs).last().unwrap().2);
}

#[test]
fn what_packs_very_well_is_written_so_that_it_can_be_read() {
    let mut inputs = session(4, 20);
    let process = inputs
        .iter()
        .find_map(|(_time, input)| match input {
            Change::Define { process, .. } => Some(*process),
            _other => None,
        })
        .unwrap();
    let text = Definition::Text {
        id: TextId(5),
        text: "a".repeat(60_000),
    };
    let definitions = Arc::new(vec![text; 300]);
    inputs.push((
        9_000_000,
        Change::Define {
            process,
            definitions,
        },
    ));
    let (bytes, _summary) = written(&inputs, small_blocks());
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    let mut player = open(&bytes);
    assert_eq!(player.recording().damage(), None);
    player.play(Until::End, |_, _, _| {}).unwrap();
    assert!(state(player.ledger()) == states(&inputs).last().unwrap().2);
}
