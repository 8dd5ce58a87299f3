//! Definitions: whoever sees an event can resolve its ids, and equal ones agree.

use super::{outcomes, push, read, ring};
use crate::dictionary::{Dictionary, DictionarySegment};
use loom::sync::Arc;
use loom::thread;
use ttmem_event::wire::DefinitionKind;

/// A lock, a table and segments: bounded to so many forced switches.
const PREEMPTIONS: Option<usize> = Some(3);

/// A dictionary of names of one byte.
#[derive(Debug)]
pub(super) struct Names(Dictionary);

/// Bytes of the definition of a name.
const NAME_BYTES: usize = 8;

impl Names {
    /// An empty one, whose segments have so many bytes.
    pub(super) fn new<const SEGMENT_BYTES: usize>() -> Arc<Self> {
        let make = DictionarySegment::with_bytes::<SEGMENT_BYTES>;
        Arc::new(Self(Dictionary::new(make)))
    }

    pub(super) fn text(&self, letter: u8) -> u32 {
        self.0.id(DefinitionKind::Text, &[letter])
    }

    /// The ids that are published now.
    pub(super) fn defined(&self) -> Vec<u32> {
        let mut ids = Vec::new();
        for segment in self.0.segments() {
            let mut bytes = Vec::new();
            segment.copy(0, &mut bytes);
            for entry in bytes.chunks(NAME_BYTES) {
                assert_eq!(entry[..3], [1, 5, 0], "a torn definition: {bytes:?}");
                ids.push(u32::from_le_bytes(entry[3..7].try_into().unwrap()));
            }
        }
        ids
    }
}

/// In which order a reader looks.
#[derive(Clone, Copy, Debug)]
enum Order {
    HeadsFirst,
    DefinitionsFirst,
}

/// Two threads define the same name, each for an event in a ring of its own; gives how many events
/// the reader saw.
fn resolve(order: Order) -> Vec<usize> {
    let seen = outcomes(PREEMPTIONS, move || {
        let names = Names::new::<{ 2 * NAME_BYTES }>();
        let rings = [ring(1), ring(1)];
        let threads = rings.map(|ring| {
            let names = Arc::clone(&names);
            let producer = ring.claim().unwrap();
            thread::spawn(move || {
                let id = names.text(b'a');
                push(&producer, 0, u8::try_from(id).unwrap());
                id
            })
        });
        let reading = {
            let names = Arc::clone(&names);
            thread::spawn(move || {
                let before = match order {
                    Order::HeadsFirst => None,
                    Order::DefinitionsFirst => Some(names.defined()),
                };
                let seen = rings
                    .map(|ring| read(&mut ring.consumer().unwrap()))
                    .concat();
                let known = before.unwrap_or_else(|| names.defined());
                for id in &seen {
                    assert!(known.contains(&u32::from(*id)), "cannot resolve {id}");
                }
                seen.len()
            })
        };
        let ids = threads.map(|thread| thread.join().unwrap());
        assert_eq!(ids, [1, 1]);
        assert_eq!(names.defined(), [1]);
        reading.join().unwrap()
    });
    seen.into_iter().collect()
}

#[test]
fn who_sees_an_event_can_resolve_its_id_and_equal_names_have_one() {
    assert_eq!(resolve(Order::HeadsFirst), [0, 1, 2]);
}

#[test]
#[should_panic(expected = "cannot resolve")]
fn definitions_read_before_the_heads_may_be_too_old() {
    resolve(Order::DefinitionsFirst);
}

#[test]
fn a_definition_in_a_new_segment_can_be_resolved() {
    let seen = outcomes(PREEMPTIONS, || {
        let names = Names::new::<NAME_BYTES>();
        assert_eq!(names.text(b'a'), 1);
        let ring = ring(1);
        let producer = ring.claim().unwrap();
        let producing = {
            let names = Arc::clone(&names);
            thread::spawn(move || push(&producer, 0, u8::try_from(names.text(b'b')).unwrap()))
        };
        let reading = {
            let names = Arc::clone(&names);
            thread::spawn(move || {
                let seen = read(&mut ring.consumer().unwrap());
                let known = names.defined();
                assert!(seen.iter().all(|id| known.contains(&u32::from(*id))));
                (seen, known)
            })
        };
        producing.join().unwrap();
        assert_eq!(names.defined(), [1, 2]);
        reading.join().unwrap()
    });
    let (none, both) = (Vec::new(), vec![1, 2]);
    assert_eq!(
        seen,
        [
            (none.clone(), vec![1]),
            (none, both.clone()),
            (vec![2], both)
        ]
        .into()
    );
}

#[test]
fn looking_up_while_the_table_grows_finds_what_is_there() {
    // The table begins with two words: the second name and the third each make a larger one.
    let ids = outcomes(PREEMPTIONS, || {
        let names = Names::new::<{ 4 * NAME_BYTES }>();
        assert_eq!(names.text(b'a'), 1);
        let adding = {
            let names = Arc::clone(&names);
            thread::spawn(move || [b'b', b'c'].map(|letter| names.text(letter)))
        };
        let finding = {
            let names = Arc::clone(&names);
            // Known before the growth, and being added during it.
            thread::spawn(move || [b'a', b'c'].map(|letter| names.text(letter)))
        };
        let added = adding.join().unwrap();
        assert_eq!(finding.join().unwrap(), [1, added[1]]);
        assert_eq!(names.defined(), [1, 2, 3]);
        added
    });
    // Either thread was the one that added the last name first.
    assert_eq!(ids, [[2, 3], [3, 2]].into());
}
