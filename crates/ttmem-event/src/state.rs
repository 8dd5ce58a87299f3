//! The state of one process's account, as records: what a resync sends.
//!
//! Records refer to what was defined before by the ids of events. Some belong to
//! the record before them, as said at each: a program is followed by its parts,
//! a placement by what is in it. A record is its kind in one byte and then its
//! fields, packed in their order; the table below is all there is to know. Its
//! layout is part of the fingerprint that both ends compare at the handshake.

use crate::core::CoreType;
use crate::event::field::Field;
use crate::event::layout::{EventLayout, FieldLayout};
use crate::event::words::{BinaryStatus, CbKind, Class, Direction, KernelKind, Layout, WordValues};
use crate::ids::{BufferId, CoresId, DeviceId, KernelId, MeshId, ProgramId, TextId, TraceId};

/// A moment: ticks of the client's clock in a record, nanoseconds since the epoch in the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// Bytes that are no record of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeStateError {
    /// The kind byte names no record of this version.
    #[error("state record kind {0} is not known")]
    UnknownKind(u8),
    /// The record ends early.
    #[error("a state record of kind {0} is cut off")]
    Truncated(u8),
    /// A field holds a value outside its range.
    #[error("{record}.{field} cannot be {value}")]
    InvalidField {
        /// The record's name.
        record: &'static str,
        /// The field's name.
        field: &'static str,
        /// What stood there.
        value: u8,
    },
}

macro_rules! state_records {
    ($(
        #[doc = $doc:literal]
        $kind:literal $record:ident { $($(#[$fdoc:meta])* $field:ident: $type:ty,)* }
    )*) => {
        /// One record of an account's state.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum StateRecord {
            $(
                #[doc = $doc]
                $record { $($(#[$fdoc])* $field: $type,)* },
            )*
        }

        impl StateRecord {
            /// Appends the record.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match *self {
                    $(Self::$record { $($field,)* } => {
                        out.push($kind);
                        $(put(out, $field);)*
                    })*
                }
            }

            /// Reads a record and moves on behind it.
            ///
            /// # Errors
            /// When the kind is unknown, bytes are missing, or a field cannot hold what stands there.
            pub fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeStateError> {
                let (kind, mut rest) = bytes.split_first().ok_or(DecodeStateError::Truncated(0))?;
                let record = match *kind {
                    $($kind => Self::$record {
                        $($field: get::<$type>(&mut rest, $kind, stringify!($record), stringify!($field))?,)*
                    },)*
                    other => return Err(DecodeStateError::UnknownKind(other)),
                };
                *bytes = rest;
                Ok(record)
            }

            /// The record with its times as another clock has them.
            #[must_use]
            pub fn with_times(self, at: impl Fn(u64) -> u64) -> Self {
                match self {
                    $(Self::$record { $($field,)* } => Self::$record {
                        $($field: <$type as StateField>::with_time($field, &at),)*
                    },)*
                }
            }
        }

        /// Every kind of state record with the layout of its fields.
        pub const STATE_LAYOUT: &[EventLayout] = &[$(EventLayout {
            kind: $kind,
            name: stringify!($record),
            about: $doc,
            fields: &[$(FieldLayout {
                name: stringify!($field),
                type_name: <$type as StateField>::NAME,
                offset: 0,
                width: <$type as StateField>::WIDTH,
                values: <$type as StateField>::VALUES,
            },)*],
        },)*];
    };
}

/// A type that a field of a state record can have: those of events, and a few more.
trait StateField: Sized + Copy {
    const WIDTH: usize;
    const NAME: &'static str;
    const VALUES: WordValues = &[];
    fn put(self, bytes: &mut [u8]);
    fn get(bytes: &[u8]) -> Result<Self, u8>;
    /// The value as another clock has it, where it is a time.
    fn with_time(self, _at: &impl Fn(u64) -> u64) -> Self {
        self
    }
}

impl<F: Field> StateField for F {
    const WIDTH: usize = F::WIDTH;
    const NAME: &'static str = F::NAME;
    const VALUES: WordValues = F::VALUES;
    fn put(self, bytes: &mut [u8]) {
        Field::put(self, bytes);
    }
    fn get(bytes: &[u8]) -> Result<Self, u8> {
        Field::get(bytes)
    }
}

/// "None" is all ones: no size of a device is that large.
impl StateField for Option<u64> {
    const WIDTH: usize = 8;
    const NAME: &'static str = "u64, all ones = none";
    fn put(self, bytes: &mut [u8]) {
        StateField::put(self.unwrap_or(u64::MAX), bytes);
    }
    fn get(bytes: &[u8]) -> Result<Self, u8> {
        let number = <u64 as StateField>::get(bytes)?;
        Ok((number != u64::MAX).then_some(number))
    }
}

impl StateField for Time {
    const WIDTH: usize = 8;
    const NAME: &'static str = "Time";
    fn put(self, bytes: &mut [u8]) {
        StateField::put(self.0, bytes);
    }
    fn get(bytes: &[u8]) -> Result<Self, u8> {
        <u64 as StateField>::get(bytes).map(Self)
    }
    fn with_time(self, at: &impl Fn(u64) -> u64) -> Self {
        Self(at(self.0))
    }
}

/// "None" is all ones: no clock gets there.
impl StateField for Option<Time> {
    const WIDTH: usize = 8;
    const NAME: &'static str = "Time, all ones = none";
    fn put(self, bytes: &mut [u8]) {
        self.map(|time| time.0).put(bytes);
    }
    fn get(bytes: &[u8]) -> Result<Self, u8> {
        Ok(<Option<u64> as StateField>::get(bytes)?.map(Time))
    }
    fn with_time(self, at: &impl Fn(u64) -> u64) -> Self {
        self.map(|time| Time(at(time.0)))
    }
}

/// "None" is all ones.
impl StateField for Option<CoreType> {
    const WIDTH: usize = 1;
    const NAME: &'static str = "CoreType, all ones = none";
    const VALUES: WordValues = CoreType::VALUES;
    fn put(self, bytes: &mut [u8]) {
        bytes[0] = self.map_or(u8::MAX, |core_type| core_type as u8);
    }
    fn get(bytes: &[u8]) -> Result<Self, u8> {
        if bytes[0] == u8::MAX {
            Ok(None)
        } else {
            <CoreType as StateField>::get(bytes).map(Some)
        }
    }
}

fn put<F: StateField>(out: &mut Vec<u8>, field: F) {
    let at = out.len();
    out.resize(at + F::WIDTH, 0);
    field.put(&mut out[at..]);
}

fn get<F: StateField>(
    bytes: &mut &[u8],
    kind: u8,
    record: &'static str,
    field: &'static str,
) -> Result<F, DecodeStateError> {
    let (own, rest) = bytes
        .split_at_checked(F::WIDTH)
        .ok_or(DecodeStateError::Truncated(kind))?;
    *bytes = rest;
    F::get(own).map_err(|value| DecodeStateError::InvalidField {
        record,
        field,
        value,
    })
}

state_records! {
    /// How far the account has come. The first record.
    1 Account {
        /// Events applied; the order in other records counts in these.
        order: u64,
        /// Programs run, on any mesh.
        runs: u64,
        /// Frees of a parent's buffers.
        inherited_frees: u64,
        /// Buffers below this id are a parent's.
        first_own_buffer: BufferId,
        /// The highest buffer id so far.
        highest_buffer: BufferId,
        /// The time of an old sender's last report.
        last_report: Time,
    }
    /// What was still held when devices were closed.
    2 Leaks {
        /// Buffers.
        buffers: u64,
        /// Their bytes.
        buffer_bytes: u64,
    }
    /// How often something was wrong with events.
    3 Anomaly {
        /// What was wrong, by its place in the list of anomalies.
        anomaly: u8,
        /// How often.
        count: u64,
    }
    /// A mark that the process set.
    4 Mark {
        /// When.
        time: Time,
        /// Its name.
        name: TextId,
        /// The user's number.
        number: u64,
    }
    /// A peak of the stretch that began with the mark before this.
    5 MarkPeak {
        /// The device: an id, or an old sender's number.
        device: u32,
        /// The gauge: a class, 5 for storage, 6 for kernels.
        gauge: u8,
        /// The highest total.
        bytes: u64,
        /// When it was reached.
        time: Time,
    }
    /// A device is in use as one definition has it.
    6 Opened {
        /// The id of that definition.
        device: DeviceId,
    }
    /// What caches did for a device.
    7 Caches {
        /// The device.
        device: u32,
        /// Programs sent to run.
        dispatches: u64,
        /// Programs found in the program cache.
        program_cache_hits: u64,
        /// Programs built.
        program_cache_misses: u64,
        /// Binaries found on the device.
        binary_reuses: u64,
        /// Workloads found in the prefetcher cache.
        prefetch_hits: u64,
        /// Kernels found on disk.
        jit_disk_hits: u64,
        /// Kernels compiled.
        jit_disk_misses: u64,
        /// Traces run.
        trace_replays: u64,
    }
    /// The highest values of a gauge.
    8 Peak {
        /// The device.
        device: u32,
        /// The gauge.
        gauge: u8,
        /// The highest total ever.
        bytes: u64,
        /// When it was reached.
        time: Time,
        /// The event that reached it.
        order: u64,
        /// The highest total since the last mark.
        mark_bytes: u64,
        /// When it was reached.
        mark_time: Time,
    }
    /// An allocator of a mesh.
    9 Allocator {
        /// The mesh.
        mesh: u32,
        /// The class.
        class: Class,
        /// Banks.
        banks: u32,
        /// First address.
        base: u64,
        /// Bytes of a bank; none if not known.
        per_bank_bytes: Option<u64>,
        /// 0 never compared with the allocator's own statistics, 1 equal, 2 not.
        verified: u8,
    }
    /// What an allocator of a device last reported, whether or not it is open.
    30 Capacity {
        /// The device.
        device: u32,
        /// The class.
        class: Class,
        /// Banks.
        banks: u32,
        /// First address.
        base: u64,
        /// Bytes of a bank.
        per_bank_bytes: u64,
    }
    /// A buffer: live, or after *freed* one that was live at a peak.
    10 Buffer {
        /// The mesh: an id, or an old sender's device number.
        mesh: u32,
        /// The buffer, or the address an old sender uses.
        buffer: BufferId,
        /// The class.
        class: Class,
        /// The layout.
        layout: Layout,
        /// Which end of the bank it was taken from.
        direction: Direction,
        /// Its address in every bank.
        address: u64,
        /// What was asked for.
        requested_bytes: u64,
        /// What each bank gives up.
        per_bank_bytes: u64,
        /// Bytes of a page.
        page_bytes: u32,
        /// The cores whose banks it takes.
        cores: CoresId,
        /// The operation that asked for it.
        operation: TextId,
        /// The call stack it was placed under.
        stack: TextId,
        /// How many banks give up bytes.
        banks: u16,
        /// How often an old sender booked it.
        references: u32,
        /// When it was placed.
        time: Time,
        /// The event that placed it.
        order: u64,
    }
    /// The next buffer was released by this event.
    11 Freed {
        /// The event.
        order: u64,
    }
    /// The next storage or kernel was released by this event.
    12 FreedStorage {
        /// The device.
        device: u32,
        /// The program.
        program: ProgramId,
        /// Its name.
        name: TextId,
        /// The event.
        order: u64,
    }
    /// What programs have on devices; counts from 0. Storage and kernels follow.
    13 Placement {}
    /// Per-core storage of the placement, or a freed one.
    14 Cb {
        /// Its number within the program.
        number: u32,
        /// What it is.
        kind: CbKind,
        /// Its address on every core.
        address: u64,
        /// Bytes on every core.
        size_bytes: u64,
        /// The cores.
        cores: CoresId,
        /// When it was placed.
        time: Time,
        /// The event that placed it.
        order: u64,
    }
    /// A kernel of the placement, or a freed one.
    15 Kernel {
        /// The binary.
        kernel: KernelId,
        /// Its name.
        name: TextId,
        /// What it is for.
        kind: KernelKind,
        /// The kind of core; none from old senders.
        core_type: Option<CoreType>,
        /// Bytes on each core; none from old senders.
        binary_bytes: Option<u64>,
        /// The cores, where known.
        cores: CoresId,
        /// How many they are.
        core_count: u32,
        /// Bytes over all cores.
        total_bytes: u64,
        /// When it was loaded.
        time: Time,
        /// The event that loaded it.
        order: u64,
    }
    /// Cores that a program ran on; counts from 0. Their sets follow.
    16 Cover {}
    /// A core set of the cover.
    17 CoverSet {
        /// The kind of core.
        core_type: CoreType,
        /// The cores.
        cores: CoresId,
    }
    /// A live program. Its parts follow.
    18 Program {
        /// The program, or an old sender's id of a kernel.
        program: ProgramId,
        /// Its name.
        name: TextId,
        /// The runtime's id of its last run.
        runtime_id: u64,
        /// Its address in the process.
        pointer: u64,
        /// When it was created.
        created: Time,
        /// Lookups of its kernels that hit.
        jit_disk_hits: u64,
    }
    /// The sizes of the program before this.
    19 Finalized {
        /// When they were fixed.
        time: Time,
        /// Bytes of configuration per core.
        config_bytes: u64,
        /// Bytes of kernel text per core.
        text_bytes: u64,
        /// Bytes of all binaries packed for DRAM.
        binary_bytes: u64,
    }
    /// The program before this on one device.
    20 Part {
        /// The device.
        device: u32,
        /// Where its binary is.
        binary_status: BinaryStatus,
        /// The placement it has, if any.
        placement: Option<u32>,
        /// The cover it ran with last, if it ran.
        cover: Option<u32>,
        /// The number of its last run.
        run: u64,
        /// Bytes of commands.
        command_bytes: Option<u64>,
        /// Bytes of binary sent.
        sent_bytes: Option<u64>,
        /// Runs.
        dispatches: u64,
        /// Runs found in the program cache.
        program_cache_hits: u64,
        /// Runs that had to be built.
        program_cache_misses: u64,
        /// Runs that found the binary on the device.
        binary_reuses: u64,
        /// The first run.
        first_dispatch: Option<Time>,
        /// The last run.
        last_dispatch: Option<Time>,
    }
    /// A circular buffer of an old sender.
    21 LegacyCb {
        /// The device number.
        device: u32,
        /// Its address.
        address: u64,
        /// Its size.
        size_bytes: u64,
        /// When it was placed.
        time: Time,
        /// The event that placed it.
        order: u64,
    }
    /// A kernel config ring. Its entries follow, oldest first.
    22 ConfigRing {
        /// The mesh.
        mesh: MeshId,
        /// The sub-device.
        sub_device: u8,
        /// The kind of core.
        core_type: CoreType,
        /// First address.
        base: u64,
        /// Bytes per core.
        size_bytes: u64,
        /// Where the last entry was placed.
        last_address: Option<u64>,
        /// Whether it was marked full.
        filled: bool,
        /// Until so many completions.
        filled_until: u64,
        /// Times it wrapped.
        wraps: u64,
        /// Entries that had to go.
        evictions: u64,
        /// Reservations that had to wait.
        stalls: u64,
        /// Reservations.
        reserves: u64,
    }
    /// An entry of the config ring before this.
    23 ConfigRingEntry {
        /// The program.
        program: ProgramId,
        /// Where.
        address: u64,
        /// How much.
        size_bytes: u64,
        /// It may go at this number of completions.
        sync: u64,
    }
    /// A prefetcher cache. Its workloads follow.
    24 Prefetcher {
        /// The mesh.
        mesh: MeshId,
        /// Bytes.
        size_bytes: u64,
        /// Workloads that were there.
        hits: u64,
        /// Workloads that were not.
        misses: u64,
        /// Workloads that had to go.
        evictions: u64,
        /// Times it was emptied.
        resets: u64,
    }
    /// A workload of the prefetcher cache before this.
    25 Prefetched {
        /// Where.
        offset: u64,
        /// The workload.
        workload: u64,
        /// Its bytes.
        size_bytes: u64,
    }
    /// A trace. What it captured follows.
    26 Trace {
        /// The mesh.
        mesh: MeshId,
        /// The trace.
        trace: TraceId,
        /// The number of the last captured run.
        captured: u64,
        /// Whether the capture is complete.
        ended: bool,
        /// Whether it is the one that is being captured on its mesh.
        capturing: bool,
        /// Its last replay counts its runs from here; none before the first.
        replay_run: Option<u64>,
        /// When that was.
        replay_time: Time,
    }
    /// A captured run of the trace before this. Its covers follow.
    27 Captured {
        /// Its number.
        number: u64,
        /// The program.
        program: ProgramId,
        /// The mesh it was dispatched on.
        mesh: MeshId,
    }
    /// The cover of the captured run on the next device of its mesh, or on all.
    28 CapturedCover {
        /// The cover.
        cover: u32,
    }
    /// Cores of one row whose last program is gone.
    29 Vacated {
        /// The device.
        device: u32,
        /// The kind of core.
        core_type: CoreType,
        /// The number of the run that is gone.
        run: u64,
        /// When it was.
        time: Time,
        /// The row.
        row: u8,
        /// Its columns as bits, the first the lowest.
        columns: u32,
    }
}
