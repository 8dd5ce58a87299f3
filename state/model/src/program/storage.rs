//! The storage in L1 that a program can ask for, and how it is reported once it has an address.

use super::ranges::CoreRanges;
use std::fmt;
use ttmem_event::CbKind;

/// Where a circular buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CbPlace {
    /// Wherever the program's layout puts it.
    Local,
    /// Inside an L1 buffer.
    Global {
        address: u64,
        /// The buffer's bytes in each bank.
        bank_bytes: u64,
    },
    /// Inside the buffer of a `GlobalCircularBuffer`: its index is a remote one.
    Remote {
        address: u64,
        /// The buffer's bytes in each bank.
        bank_bytes: u64,
    },
}

/// A circular buffer as a program asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CbSpec {
    /// Its index, one of those that each core has.
    pub index: u8,
    /// The cores that have it.
    pub cores: CoreRanges,
    /// Bytes on each core.
    pub size: u64,
    /// Bytes of a page.
    pub page: u64,
    pub place: CbPlace,
}

impl CbSpec {
    /// A circular buffer that the program places.
    #[must_use]
    pub const fn local(index: u8, cores: CoreRanges, size: u64, page: u64) -> Self {
        Self {
            index,
            cores,
            size,
            page,
            place: CbPlace::Local,
        }
    }
}

/// Storage that a program with dataflow buffers has in place of circular buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// A dataflow buffer that the program places.
    Dataflow,
    /// A dataflow buffer inside an L1 buffer.
    DataflowBorrowed { address: u64 },
    /// Scratch memory, placed above the dataflow buffers.
    Scratchpad,
}

/// A dataflow buffer or scratchpad as a program asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageSpec {
    pub kind: StorageKind,
    /// The cores that have it.
    pub cores: CoreRanges,
    /// Bytes on each core.
    pub size: u64,
}

/// Storage that has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedStorage {
    /// The number it was given when it was added.
    pub number: u32,
    pub kind: CbKind,
    /// The cores that have it.
    pub cores: CoreRanges,
    /// Its address, the same on all of them.
    pub address: u64,
    /// Bytes on each core.
    pub size: u64,
}

/// What the runtime calls storage in the texts of its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageFamily {
    Circular,
    Dataflow,
}

impl fmt::Display for StorageFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Circular => "circular",
            Self::Dataflow => "dataflow",
        })
    }
}
