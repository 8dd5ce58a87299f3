use super::kinds::LAYOUT;
use super::*;
use crate::ids::{KernelId, MeshId, ProgramId, TextId};
use proptest::prelude::*;

#[test]
fn no_two_fields_share_a_byte_and_none_leaves_the_record() {
    for event in LAYOUT {
        let mut owner = ["free"; EVENT_BYTES];
        owner[0] = "kind";
        owner[8..16].fill("time");
        for field in event.fields {
            let place = &mut owner[field.offset..field.offset + field.width];
            for byte in place {
                assert_eq!(*byte, "free", "{}.{} meets {byte}", event.name, field.name);
                *byte = field.name;
            }
        }
    }
}

#[test]
fn every_kind_has_a_number_of_its_own() {
    let mut kinds: Vec<u8> = LAYOUT.iter().map(|event| event.kind).collect();
    kinds.sort_unstable();
    let count = kinds.len();
    kinds.dedup();
    assert_eq!(kinds.len(), count);
}

#[test]
fn an_unknown_kind_is_refused_by_its_number() {
    let mut record = [0; EVENT_BYTES];
    record[0] = 63;
    assert_eq!(
        Event::decode(&record),
        Err(DecodeEventError::UnknownKind(63))
    );
}

#[test]
fn a_word_out_of_range_is_refused_by_its_name() {
    let mut record = [0; EVENT_BYTES];
    record[0] = 1;
    record[1] = 5;
    assert_eq!(
        Event::decode(&record),
        Err(DecodeEventError::InvalidField {
            event: "BufferAllocated",
            field: "class",
            value: 5
        })
    );
}

fn fields(content: EventKind) -> Vec<(&'static str, FieldValue)> {
    let mut fields = Vec::new();
    content.visit(|name, value| fields.push((name, value)));
    fields
}

#[test]
fn a_visit_gives_every_field_with_what_its_value_is() {
    let dispatched = EventKind::Dispatched {
        mesh: MeshId(3),
        program: ProgramId(1 << 40),
        runtime_id: 9,
        operation: TextId(5),
        program_cache: CacheResult::Hit,
        binary_reused: true,
        path: DispatchPath::Slow,
    };
    assert_eq!(
        fields(dispatched),
        [
            ("mesh", FieldValue::Mesh(MeshId(3))),
            ("program", FieldValue::Number(1 << 40)),
            ("runtime_id", FieldValue::Number(9)),
            ("operation", FieldValue::Text(TextId(5))),
            ("program_cache", FieldValue::Word("hit")),
            ("binary_reused", FieldValue::Flag(true)),
            ("path", FieldValue::Word("slow")),
        ]
    );
    let allocated = EventKind::LegacyAllocated {
        device: -5,
        class: Class::L1Small,
        size_bytes: 16,
        id: 0xff,
    };
    assert_eq!(
        fields(allocated),
        [
            ("device", FieldValue::Signed(-5)),
            ("class", FieldValue::Class(Class::L1Small)),
            ("size_bytes", FieldValue::Number(16)),
            ("id", FieldValue::Hex(0xff)),
        ]
    );
    let unloaded = |kernel| EventKind::KernelUnloaded {
        mesh: MeshId(0),
        program: ProgramId(1),
        kernel,
    };
    assert_eq!(fields(unloaded(None))[2], ("kernel", FieldValue::All));
    let one = Some(KernelId(2));
    assert_eq!(fields(unloaded(one))[2], ("kernel", FieldValue::Hex(2)));
}

#[test]
fn every_kind_is_visited_by_the_names_of_the_table() {
    for row in LAYOUT {
        let mut record = [0; EVENT_BYTES];
        record[0] = row.kind;
        let content = Event::decode(&record).expect("zeros are an event").kind;
        let names = fields(content).into_iter().map(|(name, _value)| name);
        assert!(names.eq(row.fields.iter().map(|field| field.name)));
        assert_eq!(content.name(), row.name);
        assert_eq!(
            content.json_name().replace('_', ""),
            row.name.to_lowercase()
        );
    }
    let marked = EventKind::EventsElided { count: 1 };
    assert_eq!(marked.json_name(), "events_elided");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any bytes either decode to an event that encodes to the same fields, or are refused.
    #[test]
    fn what_decodes_encodes_to_the_same_event(
        kind in prop_oneof![1_u8..=39, 64_u8..=69],
        small in proptest::array::uniform3(0_u8..4),
        rest in proptest::collection::vec(any::<u8>(), 60),
    ) {
        let mut record = [0; EVENT_BYTES];
        record[0] = kind;
        record[1..4].copy_from_slice(&small);
        record[4..].copy_from_slice(&rest);
        if let Ok(event) = Event::decode(&record) {
            prop_assert_eq!(event.kind.kind(), kind);
            prop_assert_eq!(Event::decode(&event.encode()), Ok(event));
        }
    }
}
