//! Every message of the runtime that speaks of memory, in all of its versions.

use super::shape::{Field, Template, Values};
use crate::explain::moment::{BelowLimit, Failure, Refused, StorageRefused, TraceRegion};
use crate::{FailedRequest, MemoryClass, StorageKind, StorageLimit};

/// What the values of a message say; none if they make no sense.
type Reading = fn(&Values) -> Option<Failure>;

pub(super) struct Shape {
    pub(super) template: Template,
    failure: Reading,
}

impl Shape {
    pub(super) fn failure(&self, values: &Values) -> Option<Failure> {
        (self.failure)(values)
    }
}

pub(super) fn all() -> Vec<Shape> {
    let shape = |&(template, failure): &(&'static str, Reading)| Shape {
        template: Template::new(template),
        failure,
    };
    SHAPES.iter().map(shape).collect()
}

pub(super) const SHAPES: &[(&str, Reading)] = &[
    (
        "Not enough space to allocate {requested} B {class} buffer across {banks} banks, where each \
         bank needs to store {need} B<, but bank size is< only> {bank} B< (allocated: {allocated} B, \
         free: {free} B, largest free block: {largest} B)>>",
        |values| refused(values, false),
    ),
    (
        "Not enough space after considering dependencies to allocate {requested} B {class} across \
         {banks} banks ({need} B per bank)<, bank size is {bank} B (allocated: {allocated} B, free: \
         {ignored} B, largest free block: {ignored} B). After subtracting {ignored} dependency \
         range(s) and {ignored} additional occupied range(s), {free} B remained placeable across \
         {ignored} window(s), largest {largest} B.><, bank size is {bank} B (allocated: {allocated} \
         B, free: {free} B, largest free block: {largest} B)>",
        |values| refused(values, true),
    ),
    (
        "Not enough space to< hold> interleave {requested} bytes across",
        |values| refused(values, false),
    ),
    (
        "Cannot allocate at an address below {limit}<. Tried to allocate at {address}><. Allocation \
         at {address}>",
        |values| {
            Some(Failure::Refused(Refused {
                request: FailedRequest {
                    // Only interleaved L1 buffers have such a limit.
                    class: Some(MemoryClass::L1),
                    ..FailedRequest::default()
                },
                below_limit: Some(BelowLimit {
                    address: values.number(Field::Address),
                    limit: values.number(Field::Limit)?,
                }),
                ..Refused::default()
            }))
        },
    ),
    (
        "Persistent L1 arena is out of memory: cannot place {need} bytes aligned to {alignment} on \
         cores {cores} in [{start}, {end})",
        |values| {
            let size = values.number(Field::End)?;
            let size = size.checked_sub(values.number(Field::Start)?)?;
            Some(Failure::Refused(Refused {
                request: FailedRequest {
                    class: Some(MemoryClass::L1),
                    need_bytes_per_bank: values.number(Field::Need),
                    bank_bytes: Some(size),
                    ..FailedRequest::default()
                },
                alignment: values.number(Field::Alignment),
                ..Refused::default()
            }))
        },
    ),
    (
        "Statically allocated circular buffers in program {program} clash with L1 buffers on core< \
         range> {cores}. L1 buffer allocated at {limit} and static circular buffer region ends at \
         {end}",
        |values| storage(values, StorageKind::CircularBuffers, StorageLimit::L1Buffer),
    ),
    (
        "Statically allocated dataflow buffers in program {program} clash with L1 buffers on core< \
         range> {cores}. L1 buffer allocated at {limit} and static dataflow buffer region ends at \
         {end}",
        |values| storage(values, StorageKind::DataflowBuffers, StorageLimit::L1Buffer),
    ),
    (
        "Circular buffers in program {program} clash with L1 buffers on core {cores}. L1 buffer \
         allocated at {limit} and local buffers end at {end}",
        |values| storage(values, StorageKind::CircularBuffers, StorageLimit::L1Buffer),
    ),
    (
        "Circular buffers on service-core range {cores} in program {program} clash with \
         ServiceCoreManager-allocated L1 (lowest service allocation at {limit}, CB region ends at \
         {end})",
        |values| {
            storage(
                values,
                StorageKind::CircularBuffers,
                StorageLimit::ServiceCore,
            )
        },
    ),
    (
        "Statically allocated circular buffers on core< range> {cores} grow to {end} B which is \
         beyond max L1 size of {limit} B",
        |values| storage(values, StorageKind::CircularBuffers, StorageLimit::EndOfL1),
    ),
    (
        "Statically allocated dataflow buffers on core< range> {cores} grow to {end} B which is \
         beyond max L1 size of {limit} B",
        |values| storage(values, StorageKind::DataflowBuffers, StorageLimit::EndOfL1),
    ),
    (
        "Local buffers on core {cores} grow to {end} B which is beyond max L1 size of {limit} B",
        |values| storage(values, StorageKind::CircularBuffers, StorageLimit::EndOfL1),
    ),
    (
        "Local buffers on core {cores} grow to {end} KB which is beyond max L1 size of {limit} KB",
        |values| {
            let found = storage(values, StorageKind::CircularBuffers, StorageLimit::EndOfL1)?;
            let Failure::Storage(found) = found else {
                return None;
            };
            Some(Failure::Storage(StorageRefused {
                end: found.end.checked_mul(1024)?,
                limit: found.limit.checked_mul(1024)?,
                ..found
            }))
        },
    ),
    (
        "Globally allocated circular buffer on core {cores} grow to {end} B which is beyond max L1 \
         size of {limit} B",
        |values| storage(values, StorageKind::CircularBuffers, StorageLimit::EndOfL1),
    ),
    (
        "Circular buffer core range {cores} in program {program} exceeds device compute grid \
         ({width}x{height})",
        |values| {
            let grid = values
                .number(Field::Width)
                .zip(values.number(Field::Height));
            Some(Failure::OutsideGrid {
                program: values.number(Field::Program),
                cores: values.text(Field::Cores).map(cores_text),
                grid,
            })
        },
    ),
    (
        "Creating trace buffers of size {need}B on< MeshDevice>< device> {ignored}, but only \
         {bank}B is allocated for trace region",
        |values| {
            Some(Failure::TraceRegion(TraceRegion {
                need_bytes: values.number(Field::Need)?,
                region_bytes: values.number(Field::Bank)?,
                banks: None,
            }))
        },
    ),
    (
        "Trace buffer at address {limit} overlaps with DRAM activity during trace capture. \
         Allocation high water mark: {end}, Deletion high water mark: {other_end}",
        captured_dram,
    ),
    (
        "Trace buffer at address {limit} overlaps with buffers deallocated during trace capture \
         (deletion high water mark: {end})",
        captured_dram,
    ),
    (
        "Trace buffer at address {limit} overlaps with buffers allocated during trace capture \
         (allocation high water mark: {end})",
        captured_dram,
    ),
    (
        "Trace buffer at address {limit} overlaps with DRAM activity captured by another live trace \
         (maximum live trace high water mark: {end})",
        captured_dram,
    ),
    (
        "Program size ({need}) too large for kernel config buffer ({bank}) on {core_type}",
        |values| {
            Some(Failure::ConfigRing {
                need_bytes: values.number(Field::Need)?,
                ring_bytes: values.number(Field::Bank)?,
                core_type: values.text(Field::CoreType)?.to_owned(),
            })
        },
    ),
];

fn refused(values: &Values, has_dependencies: bool) -> Option<Failure> {
    let banks = values.number(Field::Banks).map(u32::try_from).transpose();
    Some(Failure::Refused(Refused {
        request: FailedRequest {
            class: values.text(Field::Class).and_then(class),
            requested_bytes: values.number(Field::Requested),
            banks: banks.ok()?,
            need_bytes_per_bank: values.number(Field::Need),
            bank_bytes: values.number(Field::Bank),
            allocated_bytes_per_bank: values.number(Field::Allocated),
            free_bytes_per_bank: values.number(Field::Free),
            largest_free_bytes_per_bank: values.number(Field::Largest),
        },
        has_dependencies,
        ..Refused::default()
    }))
}

fn class(name: &str) -> Option<MemoryClass> {
    // Some versions print the name with its type.
    let name = name.rsplit("::").next().unwrap_or(name);
    Some(match name {
        "DRAM" => MemoryClass::Dram,
        "L1" => MemoryClass::L1,
        "L1_SMALL" => MemoryClass::L1Small,
        "TRACE" => MemoryClass::Trace,
        "SYSTEM_MEMORY" => MemoryClass::System,
        _not_known => return None,
    })
}

fn storage(values: &Values, storage: StorageKind, met: StorageLimit) -> Option<Failure> {
    Some(Failure::Storage(StorageRefused {
        storage,
        met,
        program: values.number(Field::Program),
        cores: values.text(Field::Cores).map(cores_text),
        start: None,
        end: values.number(Field::End)?,
        limit: values.number(Field::Limit)?,
        buffers: None,
    }))
}

/// The trace would begin where DRAM was in use until its capture ended.
fn captured_dram(values: &Values) -> Option<Failure> {
    let end = values.number(Field::End)?;
    let other_end = values.number(Field::OtherEnd).unwrap_or(0);
    Some(Failure::Storage(StorageRefused {
        storage: StorageKind::Trace,
        met: StorageLimit::CapturedDram,
        program: None,
        cores: None,
        start: None,
        end: end.max(other_end),
        limit: values.number(Field::Limit)?,
        buffers: None,
    }))
}

/// Cores that were wrapped with their message, in the form of current messages: older ones have `(x=0,y=7)` for `0-7`.
fn cores_text(cores: &str) -> String {
    let line = cores.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some((before, behind)) = rest.split_once("(x=") {
        text.push_str(before);
        let core = behind.split_once(')').and_then(|(core, after)| {
            let (x, y) = core.split_once(",y=")?;
            Some((x.parse::<u16>().ok()?, y.parse::<u16>().ok()?, after))
        });
        let Some((x, y, after)) = core else {
            return line;
        };
        text.push_str(&format!("{x}-{y}"));
        rest = after;
    }
    text.push_str(rest);
    text
}
