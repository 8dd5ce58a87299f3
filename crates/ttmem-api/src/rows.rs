//! Rows: single buffers, circular buffers and kernels, a page at a time.
//!
//! A row that names several devices exists on each of them; its byte figures are per device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    BufferLayout, CbKind, CoreType, HexId, KernelKind, MemoryClass, ProgramRow, SchemaVersion,
    Timestamp,
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

/// A page of live circular buffers.
pub type CbPage = Page<CbRow>;

/// A page of live kernels.
pub type KernelPage = Page<KernelRow>;

/// A page of live programs.
pub type ProgramPage = Page<ProgramRow>;

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
