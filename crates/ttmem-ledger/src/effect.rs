//! What an event did to the ledger, for those who write it down.

use ttmem_account::Anomaly;
use ttmem_event::{Class, CoreType, KernelKind, What};

/// One consequence of an event, on one device where it concerns one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// When, in nanoseconds since the epoch.
    pub time: u64,
    /// The process, as the ledger counts them.
    pub process: u32,
    /// The device, as the ledger counts them.
    pub device: Option<u32>,
    /// What changed.
    pub change: Change,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// A buffer was booked, or booked once more.
    BufferBooked {
        /// The class.
        class: Class,
        /// The buffer, or the address an old sender uses.
        id: u64,
        /// Its charged bytes.
        bytes: u64,
        /// How often it is booked now.
        references: u32,
    },
    /// A buffer was given back, at least once.
    BufferReleased {
        /// The class.
        class: Class,
        /// The buffer, or the address an old sender uses.
        id: u64,
        /// Its charged bytes.
        bytes: u64,
        /// How often it is still booked.
        references: u32,
    },
    /// Per-core storage was booked.
    CbBooked {
        /// The program, 0 from old senders.
        program: u64,
        /// Bytes over all cores.
        bytes: u64,
        /// The device's total now.
        total_bytes: u64,
    },
    /// Per-core storage was given back.
    CbReleased {
        /// The program, 0 from old senders.
        program: u64,
        /// Bytes over all cores, as booked.
        bytes: u64,
        /// The device's total now.
        total_bytes: u64,
    },
    /// A kernel was booked.
    KernelBooked {
        /// The program.
        program: u64,
        /// What it is for.
        kind: KernelKind,
        /// The kind of core, where known.
        core_type: Option<CoreType>,
        /// Bytes on each core, where known.
        binary_bytes: Option<u64>,
        /// Cores, where known.
        cores: Option<u32>,
        /// Bytes over all cores.
        bytes: u64,
        /// The device's total now.
        total_bytes: u64,
    },
    /// A kernel was given back.
    KernelReleased {
        /// The program.
        program: u64,
        /// What it is for.
        kind: KernelKind,
        /// Bytes over all cores, as booked.
        bytes: u64,
        /// The device's total now.
        total_bytes: u64,
    },
    /// The L1 of a device reached a new height worth saying.
    L1Peak {
        /// Charged bytes.
        bytes: u64,
        /// Live buffers.
        buffers: u64,
    },
    /// Something that changes no bytes.
    Happened(What),
    /// The event contradicts the ledger.
    Contradicted {
        /// How.
        anomaly: Anomaly,
        /// The event.
        what: What,
    },
}
