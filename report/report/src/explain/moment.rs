//! The moment of a failure: all that an explanation is made of.

use crate::{FailedRequest, HeldBlock, StorageKind, StorageLimit, Timestamp};

/// A failure with what was known when it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    pub caller: Caller,
    pub failure: Failure,
    /// Who wrote it down, which decides what can be found out.
    pub witness: Witness,
}

/// Who asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    pub time: Option<Timestamp>,
    pub device_ids: Option<Vec<u32>>,
    pub pid: Option<u32>,
    pub process: Option<String>,
    pub operation: Option<String>,
    /// As `file:line function`.
    pub python: Option<String>,
    /// Whether blocks say if this call placed them; if not, any of them may be its own.
    pub is_call_known: bool,
}

/// How a failure is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// The account of a tracked process.
    Account,
    /// The runtime's message in a log: nobody watched.
    Log,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    Refused(Refused),
    Storage(StorageRefused),
    /// Traces do not fit in the region that was set aside for them.
    TraceRegion(TraceRegion),
    /// A program's code, arguments and configuration do not fit in the ring of a core.
    ConfigRing {
        need_bytes: u64,
        ring_bytes: u64,
        core_type: String,
    },
    /// Storage was asked for on cores that the device does not have.
    OutsideGrid {
        program: Option<u64>,
        cores: Option<String>,
        grid: Option<(u64, u64)>,
    },
}

/// An allocator refused a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// What was asked for, and what the allocator itself said of its banks.
    pub request: FailedRequest,
    /// Addresses and sizes are multiples of this.
    pub alignment: Option<u64>,
    /// The blocks of a bank.
    pub table: Option<BlockTable>,
    /// Figures of the allocator leave out what other allocators hold on some of the cores.
    pub has_dependencies: bool,
    /// A block was found, but at this address, which is below the lowest that the request may have.
    pub below_limit: Option<BelowLimit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BelowLimit {
    pub address: Option<u64>,
    pub limit: u64,
}

/// Everything that an allocator handed out of a bank; what lies between is free.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockTable {
    /// The first address of the bank.
    pub base: u64,
    /// What the allocator hands out of it.
    pub bank_bytes: u64,
    /// In any order.
    pub blocks: Vec<HeldBlock>,
}

/// A program's storage was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageRefused {
    pub storage: StorageKind,
    pub met: StorageLimit,
    pub program: Option<u64>,
    pub cores: Option<String>,
    pub start: Option<u64>,
    pub end: u64,
    pub limit: u64,
    /// Buffers of these cores, in any order.
    pub buffers: Option<Vec<HeldBlock>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRegion {
    /// What all traces need, over all banks.
    pub need_bytes: u64,
    /// What the region has, over all banks.
    pub region_bytes: u64,
    pub banks: Option<u32>,
}
