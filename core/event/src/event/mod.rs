//! What can happen to device memory: the whole vocabulary.
//!
//! An [`Event`] is a time and a [`EventKind`]. Every kind of event is one row of the
//! table in [`kinds`], from which the type, its 64-byte record, its [`layout`]
//! and the tables of `docs/protocol.md` are all derived. The enumerations a row is made of
//! (classes, kinds, states) are in [`enumerations`].

pub mod enumerations;
pub mod field;
pub mod kinds;
pub mod layout;

pub use enumerations::{
    BinaryStatus, CacheResult, CbKind, ClashKind, Class, Direction, DispatchPath, KernelKind,
    Layout, MeshKind, Source,
};
pub use field::{DecodeEventError, Field, FieldValue};
pub use kinds::{EventKind, LAYOUT_HASH};

/// Bytes of an encoded event.
pub const EVENT_BYTES: usize = 64;

/// Where the kind of event is in a record: one byte.
const KIND_AT: usize = 0;

/// Where the time is in a record: eight bytes.
pub const TIME_AT: usize = 8;

/// Something that happened in a tracked process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When: in a record, ticks of the client's clock; in the ledger, nanoseconds since the epoch.
    pub time: u64,
    pub kind: EventKind,
}

impl Event {
    /// The event as the record that goes into rings and frames.
    #[inline(always)]
    #[must_use]
    pub fn encode(&self) -> [u8; EVENT_BYTES] {
        let mut record = [0; EVENT_BYTES];
        record[TIME_AT..TIME_AT + 8].copy_from_slice(&self.time.to_le_bytes());
        self.kind.encode(&mut record);
        record
    }

    /// Reads a record back.
    pub fn decode(record: &[u8; EVENT_BYTES]) -> Result<Self, DecodeEventError> {
        Ok(Self {
            time: Self::time_of(record),
            kind: EventKind::decode(record)?,
        })
    }

    /// The time of a record, whatever else it holds.
    #[inline]
    #[must_use]
    pub fn time_of(record: &[u8; EVENT_BYTES]) -> u64 {
        let mut time = [0; 8];
        time.copy_from_slice(&record[TIME_AT..TIME_AT + 8]);
        u64::from_le_bytes(time)
    }
}

#[cfg(test)]
mod tests;
