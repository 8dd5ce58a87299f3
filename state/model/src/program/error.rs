//! Why a program is refused, in the runtime's own words.
//!
//! Logs are searched for these texts, so they are the runtime's to the letter. A case that the
//! runtime does not catch, or catches by crashing, has a text of ours, which says "model" first.

use super::ranges::{CoreRanges, CoreText, RangeText};
use super::storage::StorageFamily;
use ttmem_event::{ClashKind, CoreRange, CoreType};

/// What a program cannot have, or where it does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Something was added after compilation.
    #[error("Cannot add {what} to an already compiled program {program}")]
    Compiled {
        /// What was added, as the runtime calls it.
        what: &'static str,
        program: u64,
    },
    /// A kernel, a buffer or a semaphore on no core, or on cores that do not exist.
    #[error("model: {what} of program {program} has no cores")]
    NoCores { what: &'static str, program: u64 },
    /// The chip has no such cores, or they have no such processor.
    #[error("model: kernel \"{kernel}\" cannot run on {} cores", .core_type.name())]
    WrongCore {
        kernel: String,
        /// The cores it was meant for.
        core_type: CoreType,
    },
    /// Two kernels on the same processor of a core.
    #[error("Core Overlap Between (\"{existing}\") and new kernel (\"{new}\") at {}", CoreText(*.x, *.y))]
    KernelOverlap {
        /// The kernel that is there.
        existing: String,
        /// The kernel that was added.
        new: String,
        /// Column of the first core they share.
        x: u16,
        /// Row of the first core they share.
        y: u16,
    },
    /// More sets of kernels than the runtime can number.
    #[error("model: program {program} has {groups} kernel groups, more than {limit}")]
    TooManyGroups {
        program: u64,
        groups: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A circular buffer index beyond what the chip has.
    #[error("Buffer index ({index}) exceeds max number of circular buffers per core ({limit})")]
    IndexTooLarge { index: u8, limit: u32 },
    /// A circular buffer index that is taken on one of the cores.
    #[error(
        "Invalid circular buffer index: Cannot add circular buffer at index {index}, \
         another circular buffer already exists"
    )]
    IndexTaken { index: u8 },
    /// Local indices reach into those of global circular buffers.
    #[error(
        "Circular buffer indices overlap for KernelGroup {group} on programmable core type \
         {core_type}. Local end index {local_end}, Remote start index {remote_start}"
    )]
    IndicesOverlap {
        /// The number of the kernel group.
        group: usize,
        /// The number of the core type.
        core_type: u8,
        /// Behind the highest local index.
        local_end: u32,
        remote_start: u32,
    },
    /// Pages of no bytes.
    #[error("model: circular buffer index {index} has pages of 0 B")]
    EmptyPage { index: u8 },
    /// A new circular buffer that is not a whole number of pages.
    #[error(
        "Failed allocation attempt on buffer index {index}. Total circular buffer size {size} B \
         must be divisible by page size {page} B"
    )]
    PartialPage {
        index: u8,
        /// Bytes of the buffer.
        size: u64,
        /// Bytes of a page.
        page: u64,
    },
    /// A resized circular buffer that is not a whole number of pages.
    #[error("Total circular buffer size {size} B must be divisible by page size {page} B")]
    ResizedToPartialPage {
        /// Bytes of the buffer.
        size: u64,
        /// Bytes of a page.
        page: u64,
    },
    /// More pages than the device's 16-bit counters can tell apart.
    #[error(
        "For buffer index {index}, number of CB pages {pages} is greater than {limit}. \
         Would cause wraparound in the CB calculations."
    )]
    TooManyPages {
        index: u8,
        pages: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A circular buffer larger than the L1 buffer it lies in.
    #[error(
        "Cannot set circular buffer size to {size}. This is larger than the associated \
         dynamically allocated L1 buffer bank size of {bank_bytes} B"
    )]
    LargerThanBuffer {
        /// Bytes of the circular buffer.
        size: u64,
        /// Bytes of the L1 buffer in each bank.
        bank_bytes: u64,
    },
    /// No circular buffer has that number.
    #[error("No circular buffer with id {cb} exists in Program {program}")]
    NoSuchCb { cb: u32, program: u64 },
    /// The address of a circular buffer that the program itself places.
    #[error("model: circular buffer {cb} of program {program} is not globally allocated")]
    NotGlobal { cb: u32, program: u64 },
    /// The address of a `GlobalCircularBuffer`, which never moves.
    #[error("CircularBuffer must not be a GlobalCircularBuffer!")]
    RemoteCannotMove,
    /// A circular buffer beside dataflow buffers.
    #[error("Cannot add circular buffer to a program that already has dataflow buffers")]
    CbBesideDataflow,
    /// A circular buffer beside scratchpads, which only programs with dataflow buffers have.
    #[error(
        "Cannot add a legacy circular buffer to a Metal 2.0 Program; Metal 2.0 Programs use \
         DataflowBuffers, and cannot be modified after construction."
    )]
    CbBesideScratchpad,
    /// A dataflow buffer beside circular buffers.
    #[error("Cannot add dataflow buffer to a program with circular buffers")]
    DataflowBesideCb,
    /// A scratchpad beside circular buffers.
    #[error("model: Cannot add scratchpad to a program with circular buffers")]
    ScratchpadBesideCb,
    /// A dataflow buffer or scratchpad of no bytes.
    #[error("Entry size must be > 0")]
    EmptyStorage,
    /// Every dataflow buffer slot is taken on one of the cores.
    #[error(
        "Cannot create DFB {number}: every one of the {slots} slots this arch supports per core \
         is already taken by a dataflow buffer sharing a core with it"
    )]
    NoDataflowSlot {
        /// The runtime's number for the new dataflow buffer.
        number: usize,
        /// How many slots there are.
        slots: u32,
    },
    /// Every semaphore of a core is taken.
    #[error("Cannot add semaphore on core {}. Max number of semaphores ({limit}) reached!", CoreText(*.x, *.y))]
    CoreOutOfSemaphores {
        x: u16,
        y: u16,
        /// How many semaphores a core has.
        limit: u32,
    },
    /// No semaphore is free on all of the cores.
    #[error("Unable to initialize semaphore on CoreRangeSet {cores}: all {limit} IDs are in use")]
    NoCommonSemaphore {
        cores: CoreRanges,
        /// How many semaphores a core has.
        limit: u32,
    },
    /// Storage would lie below what its cores hold already.
    #[error(
        "Local buffer address {address} has to append to last L1 region [{first}, {end}) \
         or be at a higher address"
    )]
    BelowLastRegion {
        address: u64,
        /// Start of the last region.
        first: u64,
        /// End of the last region.
        end: u64,
    },
    /// Storage that does not fit into L1 at all.
    #[error(
        "Statically allocated {family} buffers on core range {} grow to {region_end} B which is \
         beyond max L1 size of {limit} B",
        RangeText(*.range)
    )]
    BeyondL1 {
        /// Circular or dataflow buffers.
        family: StorageFamily,
        program: u64,
        range: CoreRange,
        region_end: u64,
        /// The size of L1.
        limit: u64,
    },
    /// Storage that reaches into an L1 buffer.
    #[error(
        "Statically allocated {family} buffers in program {program} clash with L1 buffers on core \
         range {}. L1 buffer allocated at {limit} and static {family} buffer region ends at \
         {region_end}",
        RangeText(*.range)
    )]
    Clash {
        /// Circular or dataflow buffers.
        family: StorageFamily,
        program: u64,
        range: CoreRange,
        region_end: u64,
        /// The lowest address of an L1 buffer.
        limit: u64,
    },
    /// A circular buffer on cores that compute does not have.
    #[error(
        "Circular buffer core range {} in program {program} exceeds device compute grid \
         ({columns}x{rows}) and is not entirely on cores claimed via ServiceCoreManager",
        RangeText(*.range)
    )]
    OutsideGrid {
        program: u64,
        range: CoreRange,
        region_end: u64,
        /// The size of L1.
        limit: u64,
        /// Columns of the compute grid.
        columns: u16,
        /// Rows of the compute grid.
        rows: u16,
    },
    /// Arguments too far into the config for the launch message.
    #[error("{arguments} offset {offset} overflows uint16_t")]
    OffsetOverflow {
        /// `RTA` or `CRTA`.
        arguments: &'static str,
        offset: u64,
    },
    /// A program whose config does not fit the ring of its cores.
    #[error(
        "Program size ({size}) too large for kernel config buffer ({ring}) on {}",
        programmable_core_name(*.core_type)
    )]
    TooLarge {
        /// Bytes of the program's config.
        size: u64,
        /// Bytes of the ring.
        ring: u64,
        core_type: CoreType,
    },
}

impl ProgramError {
    /// What is tracked of storage that does not fit: why, where, its end, and what it met.
    #[must_use]
    pub const fn clash(&self) -> Option<(ClashKind, CoreRange, u64, u64)> {
        match self {
            Self::Clash {
                range,
                region_end,
                limit,
                ..
            } => Some((ClashKind::L1Buffer, *range, *region_end, *limit)),
            Self::BeyondL1 {
                range,
                region_end,
                limit,
                ..
            } => Some((ClashKind::BeyondL1, *range, *region_end, *limit)),
            Self::OutsideGrid {
                range,
                region_end,
                limit,
                ..
            } => Some((ClashKind::OutsideGrid, *range, *region_end, *limit)),
            _ => None,
        }
    }
}

/// The runtime's word for a kind of programmable cores.
const fn programmable_core_name(core_type: CoreType) -> &'static str {
    match core_type {
        CoreType::Tensix => "TENSIX",
        CoreType::ActiveEth => "ACTIVE_ETH",
        CoreType::IdleEth => "IDLE_ETH",
        CoreType::Dram => "DRAM",
    }
}
