//! What an event did to the ledger, for those who write it down.

use ttmem_account::Anomaly;
use ttmem_event::{Class, CoreType, EventKind, KernelKind, TextId};

/// One consequence of an event, on one device where it concerns one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// When, in nanoseconds since the epoch.
    pub time: u64,
    /// The process, as the ledger counts them.
    pub process: u32,
    /// The device, as the ledger counts them.
    pub device: Option<u32>,
    pub kind: EffectKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EffectKind {
    /// A buffer was booked, or booked once more.
    BufferBooked {
        class: Class,
        /// The buffer, or the address an old sender uses.
        id: u64,
        bytes: u64,
        /// Its address in every bank, and what each bank gives up.
        address: u64,
        per_bank_bytes: u64,
        operation: TextId,
        /// How often it is booked now.
        references: u32,
    },
    /// A buffer was given back, at least once.
    BufferReleased {
        class: Class,
        /// The buffer, or the address an old sender uses.
        id: u64,
        bytes: u64,
        /// How often it is still booked.
        references: u32,
    },
    CbBooked {
        /// The program, 0 from old senders.
        program: u64,
        bytes: u64,
        total_bytes: u64,
    },
    CbReleased {
        /// The program, 0 from old senders.
        program: u64,
        bytes: u64,
        total_bytes: u64,
    },
    KernelBooked {
        program: u64,
        kind: KernelKind,
        /// The kind of core, where known.
        core_type: Option<CoreType>,
        /// Bytes on each core, where known.
        binary_bytes: Option<u64>,
        cores: Option<u32>,
        bytes: u64,
        total_bytes: u64,
    },
    KernelReleased {
        program: u64,
        kind: KernelKind,
        bytes: u64,
        total_bytes: u64,
    },
    /// The L1 of a device reached a new height worth saying.
    L1Peak {
        bytes: u64,
        buffers: u64,
    },
    /// Something that changes no bytes.
    Happened(EventKind),
    Contradicted {
        anomaly: Anomaly,
        event: EventKind,
    },
}
