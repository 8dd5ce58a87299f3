//! Collectives: every device has a program of its own, which knows its place in the ring.
//!
//! A few worker cores per link move packets over the fabric. The semaphores by which devices
//! wait for one another are buffers, made with the workload and kept with it.

use super::super::draft::Draft;
use super::super::job::Job;
use super::{Body, OUTPUT_INDEX, Operation, Output, like_first, shaped};
use crate::buffer::BufferSpec;
use crate::program::CoreRanges;
use crate::tensor::TensorSpec;
use ttmem_event::{Class, CoreRange};

pub(super) static OPERATIONS: &[Operation] = &[
    collective("all_gather", "AllGatherDeviceOperation", gathered),
    collective("reduce_scatter", "ReduceScatterDeviceOperation", scattered),
    collective("all_reduce", "AllReduceDeviceOperation", like_first),
];

const fn collective(
    name: &'static str,
    program: &'static str,
    output: fn(&Job<'_>) -> TensorSpec,
) -> Operation {
    Operation::new(
        name,
        program,
        1..=1,
        Output::Inferred(output),
        Body::Drawn(draw),
    )
    .with(&["dim", "cluster_axis", "num_links"])
    .on_each_device()
}

/// Bytes of a packet on the fabric, in whole tiles of two bytes per element.
const PACKET_BYTES: u64 = 4096;

/// Worker cores for each link: one sends forwards, one backwards.
const WORKERS_PER_LINK: u64 = 2;

/// Room for the packet headers of a worker.
const HEADER_BYTES: u64 = 1536;

/// How many devices take part, and which of them this is.
fn ring(job: &Job<'_>) -> (u64, u64) {
    let seat = job.seat;
    let (row, column) = (u64::from(seat.row), u64::from(seat.column));
    let (rows, columns) = (u64::from(seat.rows), u64::from(seat.columns));
    let (length, place) = match job.attribute("cluster_axis", u64::MAX) {
        0 => (rows, row),
        1 => (columns, column),
        _whole_mesh => (rows * columns, row * columns + column),
    };
    (length.max(1), place)
}

/// The dimension that is gathered or scattered: the last, or the one that is given.
fn along(job: &Job<'_>, change: impl Fn(u64) -> u64) -> TensorSpec {
    let mut shape = job.first().spec.shape.clone();
    let last = shape.len().saturating_sub(1);
    let dim = usize::try_from(job.attribute("dim", u64::MAX)).map_or(last, |dim| dim.min(last));
    if let Some(length) = shape.get_mut(dim) {
        *length = change(*length);
    }
    shaped(job, shape)
}

fn gathered(job: &Job<'_>) -> TensorSpec {
    let (devices, _place) = ring(job);
    along(job, |length| length.saturating_mul(devices))
}

fn scattered(job: &Job<'_>) -> TensorSpec {
    let (devices, _place) = ring(job);
    along(job, |length| length.div_ceil(devices))
}

/// The first cores of the first rows, as many as links ask for and the chip has.
fn workers(job: &Job<'_>) -> CoreRanges {
    let links = job.attribute("num_links", 1).max(1);
    let wanted = links.saturating_mul(WORKERS_PER_LINK);
    let cores = wanted.min(u64::from(job.chip.grid.x));
    CoreRanges::of(CoreRange::grid(u16::try_from(cores).unwrap_or(1), 1))
}

fn draw(job: &Job<'_>) -> Draft {
    let (devices, place) = ring(job);
    let page = job.first().page;
    let mut draft = Draft::circular(workers(job));
    // Three packets are under way; a page that is larger than a packet goes in parts.
    let pages = (PACKET_BYTES / page.max(1)).max(1) * 3;
    let pages = job.fit(pages, page, 4);
    draft.local(0, pages, page);
    draft.local(1, 1, HEADER_BYTES);
    let arguments = [devices, place, page, job.attribute("num_links", 1)];
    if job.operation == "all_gather" {
        draft.reader("minimal_default_reader.cpp", &arguments, 12);
        draft.writer("minimal_default_writer.cpp", &arguments, 20);
    } else {
        // What comes in and what is there, added up before it goes on.
        draft.local(2, pages, page);
        draft.local(OUTPUT_INDEX, pages, page);
        draft.reader(
            "ring_reduce_scatter_minimal_async_reader.cpp",
            &arguments,
            14,
        );
        draft.writer(
            "ring_reduce_scatter_minimal_async_writer.cpp",
            &arguments,
            22,
        );
        draft.compute("ring_reduction.cpp", &[devices, job.code()], 3);
    }
    // The ring's two directions and the barrier. L1_SMALL keeps them out of the tensors' way.
    let class = if job.chip.has_l1_small {
        Class::L1Small
    } else {
        Class::L1
    };
    let semaphore = BufferSpec::sharded(class, job.all_cores().set(), 4, 4);
    draft.held = vec![semaphore; 3];
    draft
}
