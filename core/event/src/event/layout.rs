//! The table of events as data: for the protocol document and the handshake.
//!
//! Rows come from [`kinds`](super::kinds). Two ends that read the same
//! record differently must never get past the handshake, so the fingerprint
//! covers everything a record's meaning depends on: kinds, places, types, and the
//! numbers of the words. It is made of these values and not of source text, which
//! another compiler may print in another way.

use super::enumerations::NamedCodes;

/// One field of an event's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    pub name: &'static str,
    pub type_name: &'static str,
    pub offset: usize,
    pub width: usize,
    /// The numbers it can have, where they are words.
    pub values: NamedCodes,
}

/// One kind of event's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLayout {
    /// The number in byte 0.
    pub kind: u8,
    pub name: &'static str,
    /// What happened, in a sentence.
    pub about: &'static str,
    pub fields: &'static [FieldLayout],
}

/// FNV-1a over every row; texts are closed by a zero so that no two tables run together.
pub(super) const fn fingerprint(table: &[EventLayout]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut row = 0;
    while row < table.len() {
        let event = &table[row];
        hash = text(byte(hash, event.kind), event.name);
        let mut column = 0;
        while column < event.fields.len() {
            hash = field(hash, &event.fields[column]);
            column += 1;
        }
        hash = byte(hash, 0);
        row += 1;
    }
    hash
}

const fn field(hash: u64, field: &FieldLayout) -> u64 {
    // Both are below 64, so the lowest byte is all of them.
    let hash = byte(hash, field.offset.to_le_bytes()[0]);
    let hash = byte(hash, field.width.to_le_bytes()[0]);
    let mut hash = text(text(hash, field.name), field.type_name);
    let mut at = 0;
    while at < field.values.len() {
        let (number, word) = field.values[at];
        hash = text(byte(hash, number), word);
        at += 1;
    }
    hash
}

const fn text(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        hash = byte(hash, bytes[at]);
        at += 1;
    }
    byte(hash, 0)
}

const fn byte(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELD: FieldLayout = FieldLayout {
        name: "class",
        type_name: "Class",
        offset: 1,
        width: 1,
        values: &[(0, "DRAM"), (1, "L1")],
    };

    fn with(field: FieldLayout) -> u64 {
        let fields: &'static [FieldLayout] = Box::leak(Box::new([field]));
        fingerprint(&[EventLayout {
            kind: 1,
            name: "Allocated",
            about: "",
            fields,
        }])
    }

    #[test]
    fn everything_a_record_means_is_in_the_fingerprint() {
        let changed = [
            FieldLayout {
                name: "klass",
                ..FIELD
            },
            FieldLayout {
                type_name: "Klass",
                ..FIELD
            },
            FieldLayout { offset: 2, ..FIELD },
            FieldLayout { width: 2, ..FIELD },
            FieldLayout {
                values: &[(0, "DRAM"), (2, "L1")],
                ..FIELD
            },
            FieldLayout {
                values: &[(0, "L1"), (1, "DRAM")],
                ..FIELD
            },
            FieldLayout {
                values: &[(0, "DRAM")],
                ..FIELD
            },
        ];
        for field in changed {
            assert_ne!(with(field), with(FIELD), "{field:?}");
        }
        assert_eq!(fingerprint(&[]), 0xcbf2_9ce4_8422_2325);
    }
}
