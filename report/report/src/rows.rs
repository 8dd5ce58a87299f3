//! Rows: single buffers, circular buffers, kernels and programs, a page at a time; groups of buffers.
//!
//! A row that names several devices exists on each of them; its byte figures are per device.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    BinaryState, BufferLayout, CbKind, CoreType, GroupBy, HexId, KernelKind, MemoryClass,
    SchemaVersion, SortBy, Timestamp, routes, user_frame,
};

/// Some rows, and where the next ones begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{R}Page")]
pub struct Page<R> {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// The rows.
    pub rows: Vec<R>,
    /// Opaque: pass it as `cursor` to get what follows; `null` on the last page.
    pub next: Option<String>,
    /// Rows that match, on all pages; `null` where they were not counted.
    pub matched: Option<u64>,
    /// What they take, on each device they lie on; `null` where they were not counted.
    pub matched_bytes: Option<u64>,
}

/// A page of live buffers.
pub type BufferPage = Page<BufferRow>;

/// A kind of row that comes in pages.
pub trait Row: DeserializeOwned {
    /// The path of its pages.
    const ROUTE: &'static str;
}

impl Row for BufferRow {
    const ROUTE: &'static str = routes::BUFFERS;
}

impl Row for CbRow {
    const ROUTE: &'static str = routes::CBS;
}

impl Row for KernelRow {
    const ROUTE: &'static str = routes::KERNELS;
}

impl Row for ProgramRow {
    const ROUTE: &'static str = routes::PROGRAMS;
}

/// One live buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BufferRow {
    /// Its process; `null` from another pid namespace.
    pub pid: Option<u32>,
    /// The instance of that process, as 32 hex digits.
    pub instance: Option<String>,
    /// Logical ids of the devices it lies on.
    pub device_ids: Vec<u32>,
    /// Where it lies.
    pub class: MemoryClass,
    /// The id its events carry.
    pub id: HexId,
    /// Device address, the same in each bank.
    pub address: Option<u64>,
    /// What the caller asked for.
    pub requested_bytes: u64,
    /// What the allocator takes, on each device.
    pub charged_bytes: u64,
    /// What it takes of each bank.
    pub per_bank_bytes: Option<u64>,
    /// Banks it is charged on.
    pub banks: Option<u32>,
    /// How its pages are spread.
    pub layout: Option<BufferLayout>,
    /// Size of a page.
    pub page_bytes: Option<u64>,
    /// How many more times it was announced; each needs its own free.
    pub aliases: u32,
    /// When it was allocated.
    pub time: Option<Timestamp>,
    /// The operation it was allocated for.
    pub operation: Option<String>,
    /// The native call stack it was allocated under, where stacks are reported: the innermost frame
    /// first, each as `library+0xoffset symbol`, symbols as the linker has them.
    pub stack: Option<Vec<String>>,
    /// The Python stack it was allocated under, where lines are reported: the innermost frame
    /// first, each as `file:line function`.
    pub python: Option<Vec<String>>,
}

impl BufferRow {
    /// The line of Python that it comes from: the innermost of the user's own code.
    #[must_use]
    pub fn python_line(&self) -> Option<&str> {
        user_frame(self.python.iter().flatten().map(String::as_str))
    }
}

/// One kernel of a live program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelRow {
    /// Its process; `null` from another pid namespace.
    pub pid: Option<u32>,
    /// The instance of that process, as 32 hex digits.
    pub instance: Option<String>,
    /// Logical ids of the devices it is loaded on.
    pub device_ids: Vec<u32>,
    /// Its program, counted from construction.
    pub program: Option<u64>,
    /// The program's name.
    pub program_name: Option<String>,
    /// The id its events carry.
    pub kernel: HexId,
    /// Its name or source path.
    pub name: Option<String>,
    /// What it is for.
    pub kind: KernelKind,
    /// The kind of core it runs on.
    pub core_type: Option<CoreType>,
    /// Size of its code on one core.
    pub binary_bytes: Option<u64>,
    /// Cores it is on, per device.
    pub cores: Option<u32>,
    /// Size times cores, on each device.
    pub total_bytes: u64,
    /// When it was loaded.
    pub time: Option<Timestamp>,
    /// How often it ran since.
    pub dispatches: u64,
}

/// One circular buffer, dataflow buffer or scratchpad of a live program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CbRow {
    /// Its process; `null` from another pid namespace.
    pub pid: Option<u32>,
    /// The instance of that process, as 32 hex digits.
    pub instance: Option<String>,
    /// Logical ids of the devices it lies on.
    pub device_ids: Vec<u32>,
    /// Its program, counted from construction.
    pub program: Option<u64>,
    /// The id its events carry.
    pub cb: HexId,
    /// What its memory is.
    pub kind: Option<CbKind>,
    /// L1 address, the same on each core.
    pub address: Option<u64>,
    /// Size on one core.
    pub size_bytes: u64,
    /// Cores it is on, per device.
    pub cores: Option<u32>,
    /// Size times cores, on each device.
    pub total_bytes: u64,
    /// When it was allocated.
    pub time: Option<Timestamp>,
}

/// One live program; its byte figures are per device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRow {
    /// Its process; `null` from another pid namespace.
    pub pid: Option<u32>,
    /// The instance of that process, as 32 hex digits.
    pub instance: Option<String>,
    /// Its number in that process, counted from construction; old senders have none.
    pub program: Option<u64>,
    /// The operation it was built for.
    pub name: Option<String>,
    /// The Python stack that it was last built or renamed under, as that of a buffer.
    #[serde(default)]
    pub python: Option<Vec<String>>,
    /// The runtime's number of its last run.
    pub runtime_id: Option<u64>,
    /// What its kernels are for; of several kinds the first in the order fabric, dispatch,
    /// application.
    pub kind: Option<KernelKind>,
    /// When it was built.
    pub created: Timestamp,
    /// Cores that its kernels and storage cover, on the device where they are most.
    pub cores: Option<u32>,
    /// Bytes that it takes in the config ring of a core besides code; `null` before it is finalized.
    pub config_bytes: Option<u64>,
    /// Code on the core that has most of it; `null` before it is finalized.
    pub text_bytes: Option<u64>,
    /// Its binary in DRAM; `null` before it is finalized.
    pub binary_bytes: Option<u64>,
    /// Circular buffers, dataflow buffers and scratchpads: bytes times cores, on the device where
    /// they are most.
    pub cb_bytes: u64,
    /// Kernels: bytes times cores, on the device where they are most.
    pub kernel_bytes: u64,
    /// How many kernels it has.
    pub kernels: u64,
    /// Kernels found compiled on disk.
    pub jit_disk_hits: u64,
    /// How often it ran, on the device where that was most.
    pub dispatches: u64,
    /// The first time it ran.
    pub first_run: Option<Timestamp>,
    /// The last time it ran.
    pub last_run: Option<Timestamp>,
    /// What is different from device to device.
    pub devices: Vec<ProgramDevice>,
}

/// One program on one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramDevice {
    /// The device's logical id in this process.
    pub id: u32,
    /// The chip's unique id.
    pub unique_id: Option<HexId>,
    /// Whether its binary is there.
    pub binary: BinaryState,
    /// Bytes of its binary that were sent.
    pub sent_bytes: Option<u64>,
    /// Bytes of its commands that are kept.
    pub command_bytes: Option<u64>,
    /// How often it ran.
    pub dispatches: u64,
    /// Runs that found it in the program cache.
    pub program_cache_hits: u64,
    /// Runs for which it was built.
    pub program_cache_misses: u64,
    /// Runs that found its binary on the device.
    pub binary_reuses: u64,
    /// The last time it ran.
    pub last_run: Option<Timestamp>,
    /// Compute cores on which no other program ran since.
    pub resident_cores: u32,
}

/// The most rows a page can have.
pub const MAX_PAGE_ROWS: u32 = 10_000;

/// Which buffers a reader wants; every field that is there narrows them down.
///
/// Its fields are the query parameters of [`routes::BUFFERS`] and of
/// [`routes::BUFFER_GROUPS`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BufferQuery {
    /// Of this process.
    pub pid: Option<u32>,
    /// On the device with this logical id.
    pub device: Option<u32>,
    /// On the chip with this unique id.
    pub unique_id: Option<HexId>,
    /// Of this class.
    pub class: Option<MemoryClass>,
    /// Whose operation contains this text, whatever the case.
    pub operation: Option<String>,
    /// Whose Python stack contains this text, whatever the case.
    pub python: Option<String>,
    /// Whose operation, Python stack, process name, process id, address or id contains this text;
    /// numbers are compared in decimal and in hex.
    pub find: Option<String>,
    /// That take at least so much on a device.
    pub min_bytes: Option<u64>,
    /// Allocated at this time or later.
    pub since: Option<Timestamp>,
    /// The order; as the server has them by default.
    pub sort: Option<SortBy>,
    /// The other way round.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub descending: bool,
    /// So many rows are left out at the beginning; not together with a cursor.
    pub offset: Option<u64>,
    /// Behind the row that a page ended with.
    pub cursor: Option<String>,
    /// What groups have in common; only of groups, which are by operation by default.
    pub by: Option<GroupBy>,
    /// At most so many rows.
    #[schemars(range(min = 1, max = MAX_PAGE_ROWS))]
    pub limit: Option<u32>,
}

/// Live buffers summed up by what they have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BufferGroups {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When this held.
    pub time: Timestamp,
    /// What the groups have in common.
    pub by: GroupBy,
    /// The groups, those with most bytes first.
    pub groups: Vec<BufferGroup>,
    /// Groups that were not listed because there are too many.
    pub left_out: u64,
    /// Buffers that matched, of all groups.
    pub buffers: u64,
    /// What they take, on each device they lie on.
    pub charged_bytes: u64,
}

/// Buffers with something in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BufferGroup {
    /// What they have in common; `null` where it is not known.
    pub key: Option<String>,
    /// Grouped by stack: its frames, the outermost first; `null` where none is known.
    pub stack: Option<Vec<String>>,
    /// How many.
    pub buffers: u64,
    /// What they take, on each device they lie on.
    pub charged_bytes: u64,
    /// What was asked for.
    pub requested_bytes: u64,
    /// The oldest.
    pub oldest: Option<Timestamp>,
    /// The newest.
    pub newest: Option<Timestamp>,
}
