//! Element-wise operations: two operands through circular buffers, one through dataflow buffers.

use super::super::draft::{Draft, Family, Operand};
use super::super::job::Job;
use super::{Body, Operation, Output, Recipe, like_first};

pub(super) static OPERATIONS: &[Operation] = &[
    binary("add"),
    binary("subtract"),
    binary("multiply"),
    binary("divide"),
    binary("maximum"),
    binary("minimum"),
    unary("relu"),
    unary("gelu"),
    unary("silu"),
    unary("sigmoid"),
    unary("tanh"),
    unary("exp"),
    unary("sqrt"),
    unary("rsqrt"),
    unary("reciprocal"),
    unary("square"),
    unary("neg"),
    unary("typecast"),
];

/// With one input, the other operand is a number.
const fn binary(name: &'static str) -> Operation {
    Operation::new(
        name,
        "BinaryNgDeviceOperation",
        1..=2,
        Output::Inferred(like_first),
        Body::Drawn(draw_binary),
    )
}

const fn unary(name: &'static str) -> Operation {
    Operation::new(
        name,
        "UnaryDeviceOperation",
        1..=1,
        Output::Inferred(like_first),
        Body::Stream(Recipe {
            family: Family::Dataflow,
            reader: "reader_unary_interleaved_start_id.cpp",
            compute: Some("eltwise_sfpu.cpp"),
            writer: "writer_unary_interleaved_start_id.cpp",
            pages: 2,
        }),
    )
}

/// How the second operand is brought to the shape of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broadcast {
    Full,
    Row,
    Column,
    Scalar,
}

fn broadcast(job: &Job<'_>) -> Broadcast {
    let (a, b) = (job.first(), job.second());
    if job.inputs.len() < 2 {
        return Broadcast::Scalar;
    }
    match (b.dim(1) < a.dim(1), b.dim(0) < a.dim(0)) {
        (false, false) => Broadcast::Full,
        (true, false) => Broadcast::Row,
        (false, true) => Broadcast::Column,
        (true, true) => Broadcast::Scalar,
    }
}

/// Two pages of each operand, on every compute core whether it has work or not.
fn draw_binary(job: &Job<'_>) -> Draft {
    let cores = job.shard_cores().unwrap_or_else(|| job.all_cores());
    let mut draft = Draft::circular(cores);
    draft.operand(0, Operand::Input(0), job.first(), 2);
    match job.inputs.get(1) {
        Some(second) => draft.operand(1, Operand::Input(1), second, 2),
        None => draft.local(1, 1, job.first().page),
    }
    draft.operand(2, Operand::Output, job.result(), 2);
    let (reader, writer, compute) = match (broadcast(job), job.inputs.len()) {
        (Broadcast::Full, _) => (
            "reader_interleaved_no_bcast.cpp",
            "writer_interleaved_no_bcast.cpp",
            "eltwise_binary_no_bcast.cpp",
        ),
        (Broadcast::Row, _) => (
            "reader_interleaved_row_bcast.cpp",
            "writer_interleaved_no_bcast.cpp",
            "eltwise_binary_row_bcast.cpp",
        ),
        (Broadcast::Column, _) => (
            "reader_interleaved_col_bcast.cpp",
            "writer_interleaved_no_bcast.cpp",
            "eltwise_binary_col_bcast.cpp",
        ),
        (Broadcast::Scalar, 1) => (
            "reader_interleaved_no_bcast.cpp",
            "writer_interleaved_scalar.cpp",
            "eltwise_binary_scalar.cpp",
        ),
        (Broadcast::Scalar, _) => (
            "reader_interleaved_scalar_bcast.cpp",
            "writer_interleaved_no_bcast.cpp",
            "eltwise_binary_scalar_bcast.cpp",
        ),
    };
    // Shapes are run-time arguments: one binary serves them all.
    let sharded = u64::from(job.shard_cores().is_some());
    draft.reader(reader, &[sharded, job.second().page], 21);
    draft.writer(writer, &[sharded, job.result().page], 11);
    draft.compute(compute, &[1, job.code()], 4);
    draft
}
