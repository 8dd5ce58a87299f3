//! The fields of any event by name, without a line of code per kind of event.
//!
//! The vocabulary describes its own records as data; reading an encoded event by that table
//! gives every field of every kind, also of those that are added later. The plain and the JSON
//! formatter use it for events that have no form of their own in the log.

use ttmem_event::event::layout::FieldLayout;
use ttmem_event::event::vocabulary::LAYOUT;
use ttmem_event::{Class, Event, What};

/// The value of a field, as the log tells values apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// A count, a size, an address, a small id.
    Number(u64),
    /// A number that may be below zero.
    Signed(i32),
    /// A 64-bit id or pointer, shown in hex.
    Id(u64),
    /// A word of the vocabulary.
    Word(&'static str),
    /// A class of memory.
    Class(Class),
    /// Yes or no.
    Flag(bool),
    /// Everything of its kind.
    All,
}

/// Every field of an event with its value, in the order of the vocabulary.
pub(super) fn fields(what: &What) -> impl Iterator<Item = (&'static str, Value)> + use<> {
    typed_fields(what).map(|(field, value)| (field.name, value))
}

/// The same with all that the vocabulary says of a field.
pub(crate) fn typed_fields(
    what: &What,
) -> impl Iterator<Item = (&'static FieldLayout, Value)> + use<> {
    let record = Event {
        time: 0,
        what: *what,
    }
    .encode();
    let kind = what.kind();
    let fields = LAYOUT
        .iter()
        .find(|event| event.kind == kind)
        .map_or(&[][..], |event| event.fields);
    fields.iter().map(move |field| {
        let bytes = record.get(field.offset..field.offset + field.width);
        (field, value(field, bytes.unwrap_or(&[])))
    })
}

fn value(field: &FieldLayout, bytes: &[u8]) -> Value {
    let number = bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (type_name, means_all) = match field.type_name.split_once(", all ones = all") {
        Some((type_name, _)) => (type_name, bytes.iter().all(|byte| *byte == u8::MAX)),
        None => (field.type_name, false),
    };
    if means_all {
        return Value::All;
    }
    match (type_name, field.name) {
        ("BufferId" | "KernelId", _) | (_, "id" | "pointer") => Value::Id(number),
        ("bool", _) => Value::Flag(number != 0),
        ("i32", _) => {
            let mut raw = [0; 4];
            raw.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            Value::Signed(i32::from_le_bytes(raw))
        }
        ("Class", _) => {
            let class = u8::try_from(number).ok().and_then(Class::from_code);
            class.map_or(Value::Number(number), Value::Class)
        }
        _ => {
            let mut words = field.values.iter();
            let word = words.find(|(code, _)| u64::from(*code) == number);
            word.map_or(Value::Number(number), |(_, word)| Value::Word(word))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::{CacheResult, DispatchPath, KernelId, MeshId, ProgramId, TextId, TraceId};

    fn list(what: What) -> Vec<(&'static str, Value)> {
        fields(&what).collect()
    }

    #[test]
    fn every_kind_of_value() {
        let dispatched = What::Dispatched {
            mesh: MeshId(3),
            program: ProgramId(1 << 40),
            runtime_id: 9,
            operation: TextId(5),
            program_cache: CacheResult::Hit,
            binary_reused: true,
            path: DispatchPath::Slow,
        };
        assert_eq!(
            list(dispatched),
            [
                ("mesh", Value::Number(3)),
                ("program", Value::Number(1 << 40)),
                ("runtime_id", Value::Number(9)),
                ("operation", Value::Number(5)),
                ("program_cache", Value::Word("hit")),
                ("binary_reused", Value::Flag(true)),
                ("path", Value::Word("slow")),
            ]
        );
        let allocated = What::LegacyAllocated {
            device: -5,
            class: Class::L1Small,
            size_bytes: 16,
            id: 0xff,
        };
        assert_eq!(
            list(allocated),
            [
                ("device", Value::Signed(-5)),
                ("class", Value::Class(Class::L1Small)),
                ("size_bytes", Value::Number(16)),
                ("id", Value::Id(0xff)),
            ]
        );
    }

    #[test]
    fn all_of_them_is_a_value() {
        let unloaded = |kernel| What::KernelUnloaded {
            mesh: MeshId(0),
            program: ProgramId(1),
            kernel,
        };
        assert_eq!(list(unloaded(None))[2], ("kernel", Value::All));
        assert_eq!(
            list(unloaded(Some(KernelId(2))))[2],
            ("kernel", Value::Id(2))
        );
        let released = What::BuffersReleased {
            mesh: MeshId(0),
            class: None,
        };
        assert_eq!(list(released)[1], ("class", Value::All));
    }

    #[test]
    fn small_numbers_come_from_their_own_bytes() {
        let ended = What::TraceEnded {
            mesh: MeshId(u32::MAX),
            trace: TraceId(7),
            bytes: u64::MAX,
        };
        assert_eq!(
            list(ended),
            [
                ("mesh", Value::Number(u64::from(u32::MAX))),
                ("trace", Value::Number(7)),
                ("bytes", Value::Number(u64::MAX)),
            ]
        );
    }
}
