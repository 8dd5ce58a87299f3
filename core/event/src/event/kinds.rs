//! The table of events: one row per kind, with the place of every field.
//!
//! `field @ offset: Type` puts a field at that byte of the 64-byte record. Byte 0
//! is the kind, bytes 8 to 15 the time; by custom small fields stand at 1 to 3
//! and the mesh, whose devices the event is about, at 4. Bytes that a row does not name are written as zero and not
//! read. `as Hex` marks a number that readers know in hex. The macro makes the type,
//! the codec, the visitor, the layout hash that both ends compare at the handshake,
//! and the rows of the protocol document.

use super::enumerations::{
    BinaryStatus, CacheResult, CbKind, ClashKind, Class, Direction, DispatchPath, KernelKind,
    Layout,
};
use super::field::{DecodeEventError, Field, FieldValue};
use super::layout::{self, EventLayout, FieldLayout};
use super::{EVENT_BYTES, KIND_AT};
use crate::core::CoreType;
use crate::ids::{BufferId, CoresId, DeviceId, KernelId, MeshId, ProgramId, TextId, TraceId};

/// Kinds from here on are those of the old protocol's senders.
const FIRST_LEGACY_KIND: u8 = 64;

/// The value of a field in the form that its row names, or else its type.
macro_rules! value {
    ($field:ident) => {
        Field::value($field)
    };
    ($field:ident as $form:ident) => {
        FieldValue::$form($field)
    };
}

macro_rules! events {
    ($(
        #[doc = $doc:literal]
        $kind:literal $event:ident {
            $($(#[$fdoc:meta])* $field:ident @ $offset:literal: $type:ty $(as $form:ident)?,)*
        }
    )*) => {
        /// What happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventKind {
            $(
                #[doc = $doc]
                $event { $($(#[$fdoc])* $field: $type,)* },
            )*
        }

        impl EventKind {
            /// The number of this kind of event.
            #[must_use]
            pub const fn kind(&self) -> u8 {
                match self { $(Self::$event { .. } => $kind,)* }
            }

            /// The name of this kind of event.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$event { .. } => stringify!($event),)* }
            }

            /// Calls `visit` with the name and the value of every field, in the order of the table.
            pub fn visit(&self, mut visit: impl FnMut(&'static str, FieldValue)) {
                match *self {
                    $(Self::$event { $($field,)* } => {
                        $(visit(stringify!($field), value!($field $(as $form)?));)*
                    })*
                }
            }

            #[inline(always)]
            pub(super) fn encode(&self, record: &mut [u8; EVENT_BYTES]) {
                record[KIND_AT] = self.kind();
                match *self {
                    $(Self::$event { $($field,)* } => {
                        $(<$type as Field>::put(
                            $field,
                            &mut record[$offset..$offset + <$type as Field>::WIDTH],
                        );)*
                    })*
                }
            }

            pub(super) fn decode(record: &[u8; EVENT_BYTES]) -> Result<Self, DecodeEventError> {
                Ok(match record[KIND_AT] {
                    $($kind => Self::$event {
                        $($field: <$type as Field>::get(
                            &record[$offset..$offset + <$type as Field>::WIDTH],
                        ).map_err(|value| DecodeEventError::InvalidField {
                            event: stringify!($event),
                            field: stringify!($field),
                            value,
                        })?,)*
                    },)*
                    other => return Err(DecodeEventError::UnknownKind(other)),
                })
            }
        }

        /// Every kind of event with the layout of its record.
        pub const LAYOUT: &[EventLayout] = &[$(EventLayout {
            kind: $kind,
            name: stringify!($event),
            about: $doc,
            fields: &[$(FieldLayout {
                name: stringify!($field),
                type_name: <$type as Field>::NAME,
                offset: $offset,
                width: <$type as Field>::WIDTH,
                values: <$type as Field>::VALUES,
            },)*],
        },)*];

        /// A fingerprint of the table: two builds that agree on it agree on every byte.
        pub const LAYOUT_HASH: u64 = layout::fingerprint(LAYOUT);
    };
}

events! {
    /// A buffer was placed.
    1 BufferAllocated {
        mesh @ 4: MeshId,
        buffer @ 16: BufferId,
        class @ 1: Class,
        layout @ 2: Layout,
        /// Which end of the bank it was taken from.
        direction @ 3: Direction,
        /// Its address in every bank.
        address @ 24: u64,
        /// What the caller asked for, over all banks of one device.
        requested_bytes @ 32: u64,
        /// What each bank gives up.
        per_bank_bytes @ 40: u64,
        page_bytes @ 48: u32,
        /// Cores of a buffer that takes only those banks; none = lockstep over all banks.
        cores @ 52: CoresId,
        /// The operation that asked for it.
        operation @ 56: TextId,
        /// How many banks give up bytes.
        banks @ 60: u16,
    }
    /// A buffer was given back.
    2 BufferFreed {
        /// The mesh it was freed on; the booking decides, not this.
        mesh @ 4: MeshId,
        buffer @ 16: BufferId,
    }
    /// Every buffer of an allocator was given back at once.
    3 BuffersReleased {
        mesh @ 4: MeshId,
        /// The class, or all of them.
        class @ 1: Option<Class>,
    }
    /// A program placed per-core storage: a circular or dataflow buffer, or a scratchpad.
    4 CbAllocated {
        mesh @ 4: MeshId,
        program @ 16: ProgramId,
        /// Number of this storage within the program.
        cb @ 24: u32,
        kind @ 1: CbKind,
        /// Its address on every core.
        address @ 32: u64,
        /// Bytes on every core.
        size_bytes @ 40: u64,
        cores @ 28: CoresId,
    }
    /// A program gave back per-core storage.
    5 CbFreed {
        mesh @ 4: MeshId,
        program @ 16: ProgramId,
        /// Number of the storage, or all of the program.
        cb @ 24: Option<u32>,
    }
    /// A program was constructed.
    6 ProgramCreated {
        program @ 16: ProgramId,
        /// Its name: the operation, where known.
        name @ 24: TextId,
        /// The runtime's own id; changes with every operation.
        runtime_id @ 32: u64,
        /// Its address in the process; reused.
        pointer @ 40: u64 as Hex,
    }
    /// The offsets of a program were fixed.
    7 ProgramFinalized {
        mesh @ 4: MeshId,
        program @ 16: ProgramId,
        /// Bytes of configuration per core.
        config_bytes @ 24: u64,
        /// Bytes of kernel text per core.
        text_bytes @ 32: u64,
        /// Bytes of all binaries packed for DRAM.
        binary_bytes @ 40: u64,
    }
    /// The commands of a program were generated for the first time.
    8 CommandsCached {
        mesh @ 4: MeshId,
        program @ 16: ProgramId,
        bytes @ 24: u64,
    }
    /// The binary of a program was written to the devices.
    9 BinarySent {
        mesh @ 4: MeshId,
        program @ 16: ProgramId,
        /// Bytes written to each device.
        bytes @ 24: u64,
    }
    /// A program was destroyed: its storage and its kernels are gone.
    10 ProgramDestroyed {
        program @ 16: ProgramId,
    }
    /// A kernel of a program is on its cores.
    11 KernelLoaded {
        mesh @ 4: MeshId,
        program @ 16: ProgramId,
        kernel @ 24: KernelId,
        name @ 48: TextId,
        /// Bytes on each core.
        binary_bytes @ 32: u64,
        /// The cores, where known.
        cores @ 40: CoresId,
        /// How many cores, when their places are not known.
        core_count @ 44: u32,
        /// What it is for.
        kind @ 1: KernelKind,
        /// The kind of core it runs on.
        core_type @ 2: CoreType,
    }
    /// Kernels of a program left their cores.
    12 KernelUnloaded {
        mesh @ 4: MeshId,
        program @ 16: ProgramId,
        /// The binary, or all of the program.
        kernel @ 24: Option<KernelId>,
    }
    /// The state of a program's binary changed.
    13 BinaryStatusChanged {
        mesh @ 4: MeshId,
        program @ 16: ProgramId,
        status @ 1: BinaryStatus,
    }
    /// A program was sent to run.
    14 Dispatched {
        mesh @ 4: MeshId,
        program @ 16: ProgramId,
        /// The runtime's id of this run.
        runtime_id @ 24: u64,
        /// The operation that ran it.
        operation @ 32: TextId,
        /// Whether the program came from the program cache.
        program_cache @ 1: CacheResult,
        /// Whether the binary on the device was reused.
        binary_reused @ 2: bool,
        /// The way it went.
        path @ 3: DispatchPath,
    }
    /// A kernel config ring exists.
    15 ConfigRingOpened {
        mesh @ 4: MeshId,
        /// The sub-device it belongs to.
        sub_device @ 2: u8,
        /// The kind of core it lies on.
        core_type @ 1: CoreType,
        base @ 16: u64,
        /// Bytes per core.
        size_bytes @ 24: u64,
    }
    /// Room in a config ring was asked for.
    16 ConfigRingReserved {
        mesh @ 4: MeshId,
        sub_device @ 2: u8,
        core_type @ 1: CoreType,
        /// Whether dispatch must wait for earlier programs.
        stalled @ 3: bool,
        size_bytes @ 16: u64,
        /// What to wait for.
        sync @ 24: u64,
    }
    /// A program took room in a config ring.
    17 ConfigRingAllocated {
        mesh @ 4: MeshId,
        sub_device @ 2: u8,
        core_type @ 1: CoreType,
        program @ 16: ProgramId,
        address @ 24: u64,
        size_bytes @ 32: u64,
        /// When this number of completions is reached, it may go.
        sync @ 40: u64,
    }
    /// Room in a config ring was given back.
    18 ConfigRingFreed {
        mesh @ 4: MeshId,
        sub_device @ 2: u8,
        core_type @ 1: CoreType,
        /// The oldest entries up to this number go.
        sync @ 16: u64,
    }
    /// A config ring was marked full: its entries are gone.
    19 ConfigRingFilled {
        mesh @ 4: MeshId,
        sub_device @ 2: u8,
        core_type @ 1: CoreType,
        /// When this number of completions is reached, it is free again.
        sync @ 16: u64,
    }
    /// A prefetcher cache exists.
    20 PrefetchOpened {
        mesh @ 4: MeshId,
        size_bytes @ 16: u64,
    }
    /// The prefetcher cache was asked for a workload.
    21 Prefetched {
        mesh @ 4: MeshId,
        workload @ 16: u64,
        /// Where it is now.
        offset @ 24: u64,
        size_bytes @ 32: u64,
        /// Whether it was there already.
        hit @ 1: bool,
    }
    /// The prefetcher cache was emptied.
    22 PrefetchReset {
        mesh @ 4: MeshId,
    }
    /// The compiler's cache on disk was asked for a kernel.
    23 JitDiskLookup {
        /// The program that needs it, 0 = not known.
        program @ 16: ProgramId,
        /// The binary, 0 = not known.
        kernel @ 24: KernelId,
        name @ 32: TextId,
        /// Whether it was there.
        hit @ 1: bool,
    }
    /// Capturing a trace began.
    24 TraceBegan {
        mesh @ 4: MeshId,
        trace @ 16: TraceId,
    }
    /// Capturing a trace ended.
    25 TraceEnded {
        mesh @ 4: MeshId,
        trace @ 16: TraceId,
        /// Bytes of its commands on each device.
        bytes @ 24: u64,
    }
    /// A trace was run.
    26 TraceReplayed {
        mesh @ 4: MeshId,
        trace @ 16: TraceId,
    }
    /// A trace was given up.
    27 TraceReleased {
        mesh @ 4: MeshId,
        trace @ 16: TraceId,
    }
    /// A physical device was opened.
    28 DeviceOpened {
        device @ 4: DeviceId,
    }
    /// A physical device was closed: all that the process held on it is gone.
    29 DeviceClosed {
        device @ 4: DeviceId,
    }
    /// A mesh was opened.
    30 MeshOpened {
        mesh @ 4: MeshId,
    }
    /// A mesh was closed: all that its allocators held is gone.
    31 MeshClosed {
        mesh @ 4: MeshId,
    }
    /// What an allocator can hand out, as the runtime reports it.
    32 CapacityReported {
        mesh @ 4: MeshId,
        class @ 1: Class,
        /// Banks of one device.
        banks @ 2: u16,
        /// First address in a bank.
        base @ 16: u64,
        /// Bytes of a bank.
        per_bank_bytes @ 24: u64,
        /// Every address and size is a multiple of this.
        alignment @ 32: u32,
    }
    /// An allocation was refused.
    33 AllocationFailed {
        mesh @ 4: MeshId,
        class @ 1: Class,
        banks @ 2: u16,
        /// Asked for, over all banks.
        requested_bytes @ 16: u64,
        /// Asked for in each bank.
        per_bank_bytes @ 24: u64,
        /// Free in each bank.
        free_bytes @ 32: u64,
        /// Largest free block of a bank.
        largest_free_bytes @ 40: u64,
        /// Bytes of a bank.
        bank_bytes @ 48: u64,
        /// The operation that asked.
        operation @ 56: TextId,
        /// The lower half of the first buffer id of the call that failed; 0 = not known.
        call_first @ 60: u32,
    }
    /// A program's per-core storage was refused.
    34 Clashed {
        mesh @ 4: MeshId,
        program @ 16: ProgramId,
        kind @ 1: ClashKind,
        cores @ 24: CoresId,
        /// Where the storage would end.
        region_end @ 32: u64,
        /// What it met: the lowest buffer, or the end of L1.
        limit @ 40: u64,
        /// The lower half of the first buffer id of the call that failed; 0 = not known.
        call_first @ 48: u32,
    }
    /// The user set a mark.
    35 Marked {
        name @ 16: TextId,
        /// The user's number.
        number @ 24: u64,
    }
    /// The allocator's own statistics, to compare the ledger with.
    36 StatisticsReported {
        mesh @ 4: MeshId,
        class @ 1: Class,
        /// Taken in each bank.
        allocated_bytes @ 16: u64,
        /// Largest free block of a bank.
        largest_free_bytes @ 24: u64,
    }
    /// Events were lost: the totals of this process are no longer to be trusted.
    37 EventsLost {
        count @ 16: u64,
    }
    /// History was left out: totals stay exact, the log has a gap.
    38 EventsElided {
        count @ 16: u64,
    }
    /// The process began as a fork: buffers below this id are its parent's.
    39 Forked {
        /// The first id of its own.
        first_buffer @ 16: BufferId,
    }
    /// The call stack of the report just before: a buffer, a failure, or a program's kernels.
    40 StackNoted {
        mesh @ 4: MeshId,
        /// The buffer, 0 = of none.
        buffer @ 16: BufferId,
        /// The program, 0 = of none.
        program @ 24: ProgramId,
        /// Its frames, the innermost first, with semicolons between them.
        stack @ 32: TextId,
    }
    /// From here on the process does not report something: its figures are without it.
    41 NotTracked {
        /// What: a family of calls, in plural.
        what @ 16: TextId,
        why @ 20: TextId,
    }
    /// An old sender reported a buffer.
    64 LegacyAllocated {
        /// The logical device id it gave.
        device @ 4: i32,
        /// The class, in the runtime's numbering.
        class @ 1: Class,
        size_bytes @ 16: u64,
        /// The address it uses as an id.
        id @ 24: u64 as Hex,
    }
    /// An old sender gave back a buffer.
    65 LegacyFreed {
        /// The logical device id it gave.
        device @ 4: i32,
        id @ 24: u64 as Hex,
    }
    /// An old sender reported a circular buffer.
    66 LegacyCbAllocated {
        /// The logical device id it gave.
        device @ 4: i32,
        size_bytes @ 16: u64,
        /// The address it uses as an id.
        id @ 24: u64 as Hex,
    }
    /// An old sender gave back a circular buffer.
    67 LegacyCbFreed {
        /// The logical device id it gave.
        device @ 4: i32,
        /// Bytes it claims; only used to tell several at one address apart.
        size_bytes @ 16: u64,
        id @ 24: u64 as Hex,
    }
    /// An old sender reported a kernel, or a dispatch of one it reported before.
    68 LegacyKernelLoaded {
        /// The logical device id it gave.
        device @ 4: i32,
        /// What it is for.
        kind @ 1: KernelKind,
        /// Bytes over all cores.
        size_bytes @ 16: u64,
        /// A pointer or a runtime id.
        id @ 24: u64 as Hex,
    }
    /// An old sender gave back a kernel.
    69 LegacyKernelUnloaded {
        /// The logical device id it gave.
        device @ 4: i32,
        /// The id it was loaded under.
        id @ 24: u64 as Hex,
    }
}

impl EventKind {
    /// The name of this kind of event in JSON: `TraceBegan` is `trace_began`.
    #[must_use]
    pub fn json_name(&self) -> String {
        let mut json_name = String::new();
        for (place, character) in self.name().char_indices() {
            if character.is_ascii_uppercase() && place > 0 {
                json_name.push('_');
            }
            json_name.push(character.to_ascii_lowercase());
        }
        json_name
    }

    /// Whether only senders of the old protocol report this.
    // Where an event is written down its kind is known, and then this is nothing at all.
    #[inline(always)]
    #[must_use]
    pub const fn is_legacy(&self) -> bool {
        self.kind() >= FIRST_LEGACY_KIND
    }

    /// Whether an encoded event is one that only senders of the old protocol report.
    #[must_use]
    pub const fn is_legacy_record(record: &[u8; EVENT_BYTES]) -> bool {
        record[KIND_AT] >= FIRST_LEGACY_KIND
    }

    /// The device number of an old sender's report.
    #[must_use]
    pub const fn legacy_device(&self) -> Option<i32> {
        match *self {
            Self::LegacyAllocated { device, .. }
            | Self::LegacyFreed { device, .. }
            | Self::LegacyCbAllocated { device, .. }
            | Self::LegacyCbFreed { device, .. }
            | Self::LegacyKernelLoaded { device, .. }
            | Self::LegacyKernelUnloaded { device, .. } => Some(device),
            _newer => None,
        }
    }
}
