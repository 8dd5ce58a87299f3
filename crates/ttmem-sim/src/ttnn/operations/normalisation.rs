//! Softmax and the norms: a row of tiles at a time, whole where it fits.

use super::super::draft::{Draft, Operand};
use super::super::job::{Job, divisor_up_to, intermediate};
use super::{Body, OUTPUT_INDEX, Operation, Output, like_first};

pub(super) static OPERATIONS: &[Operation] = &[
    Operation::new(
        "softmax",
        "SoftmaxDeviceOperation",
        1..=2,
        Output::Inferred(like_first),
        Body::Drawn(draw_softmax),
    )
    .with(&["dim"]),
    layer_norm("layer_norm"),
    layer_norm("rms_norm"),
    Operation::new(
        "group_norm",
        "GroupNormDeviceOperation",
        1..=4,
        Output::Inferred(like_first),
        Body::Drawn(draw_group_norm),
    )
    .with(&["groups"]),
];

/// Inputs: the tensor, then weight, bias and residual as far as there are any.
const fn layer_norm(name: &'static str) -> Operation {
    Operation::new(
        name,
        "LayerNormDeviceOperation",
        1..=4,
        Output::Inferred(like_first),
        Body::Drawn(draw_layer_norm),
    )
}

/// Tiles that the math unit takes at once.
const LARGEST_BLOCK: u64 = 8;

/// Tiles of a row that are kept: all of them, or a few blocks where they do not fit.
fn row(job: &Job<'_>, buffers: u64) -> (u64, u64) {
    let wide = job.first().tiles_wide();
    let block = divisor_up_to(wide, LARGEST_BLOCK);
    let tile = intermediate(job.first().spec.data_type).tile_bytes();
    let fits = job.fit(wide, tile, buffers) == wide;
    let kept = if fits { wide } else { block.saturating_mul(4) };
    (kept, block)
}

fn draw_softmax(job: &Job<'_>) -> Draft {
    let input = job.first();
    let (kept, block) = row(job, 2);
    let (tile, sums) = (
        input.tile_bytes(),
        intermediate(input.spec.data_type).tile_bytes(),
    );
    let mut draft = Draft::dataflow(job.cores(input.tiles_high()));
    draft.operand(0, Operand::Input(0), input, 2 * block);
    draft.operand(11, Operand::Output, job.result(), 2 * block);
    draft.local(6, kept, sums);
    draft.local(7, 1, sums);
    draft.local(2, 1, tile);
    draft.local(5, 1, tile);
    draft.local(8, 1, sums);
    draft.local(9, kept, sums);
    if let Some(mask) = job.inputs.get(1) {
        draft.operand(3, Operand::Input(1), mask, 2 * block);
    }
    draft.reader("reader_unary_interleaved_sm.cpp", &[tile], 10);
    draft.writer(
        "writer_unary_interleaved_start_id_blocked_sm.cpp",
        &[tile],
        8,
    );
    draft.compute("softmax.cpp", &[block, u64::from(job.inputs.len() > 1)], 5);
    draft
}

fn draw_layer_norm(job: &Job<'_>) -> Draft {
    let input = job.first();
    let (kept, block) = row(job, 6);
    let (tile, sums) = (
        input.tile_bytes(),
        intermediate(input.spec.data_type).tile_bytes(),
    );
    let mut draft = Draft::dataflow(job.cores(input.tiles_high()));
    draft.operand(0, Operand::Input(0), input, kept);
    draft.operand(OUTPUT_INDEX, Operand::Output, job.result(), 2 * block);
    // Weight and bias come as a row of tiles, whatever the tensor is.
    for (index, _parameter) in (5_u8..).zip(job.inputs.iter().skip(1).take(2)) {
        draft.local(index, kept, tile);
    }
    if let Some(residual) = job.inputs.get(3) {
        draft.operand(1, Operand::Input(3), residual, 2 * block);
    }
    for scalar in [2, 3, 18, 19, 21] {
        draft.local(scalar, 1, sums);
    }
    let each = if input.shards.is_some() { block } else { kept };
    for intermediate in [20, 24] {
        draft.local(intermediate, each, sums);
    }
    let wide = input.tiles_wide();
    if input.shards.is_some() {
        draft.reader(
            "reader_mcast_sender_unary_sharded_ln.cpp",
            &[wide, block],
            6,
        );
        draft.writer("writer_unary_sharded_ln.cpp", &[wide, block], 6);
        draft.compute("layernorm_sharded.cpp", &[wide, block, job.code()], 1);
        draft.semaphores = 2;
    } else {
        draft.reader("reader_unary_interleaved_ln.cpp", &[block, tile], 9);
        draft.writer(
            "writer_unary_interleaved_start_id_blocked.cpp",
            &[block, tile],
            3,
        );
        draft.compute("layernorm.cpp", &[wide, block, job.code()], 1);
    }
    draft
}

/// Inputs: the tensor, then mask, weight and bias as far as there are any.
fn draw_group_norm(job: &Job<'_>) -> Draft {
    let input = job.first();
    let groups = job.attribute("groups", 32).max(1);
    let wide = input.tiles_wide();
    let group = input.dim(0).div_ceil(groups).div_ceil(32).saturating_add(1);
    let sums = intermediate(input.spec.data_type).tile_bytes();
    let mut draft = Draft::circular(job.cores(input.tiles_high()));
    draft.operand(0, Operand::Input(0), input, 2 * LARGEST_BLOCK);
    draft.operand(
        OUTPUT_INDEX,
        Operand::Output,
        job.result(),
        2 * LARGEST_BLOCK,
    );
    for (index, _parameter) in (5_u8..).zip(job.inputs.iter().skip(1)) {
        draft.local(index, job.fit(wide, sums, 8), sums);
    }
    for scalar in [2, 3, 4, 8, 9, 10] {
        draft.local(scalar, 1, sums);
    }
    for partial in [24, 25] {
        draft.local(
            partial,
            job.fit(group.saturating_mul(LARGEST_BLOCK), sums, 8),
            sums,
        );
    }
    draft.reader(
        "reader_mcast_sender_unary_sharded_gn_v2.cpp",
        &[wide, groups],
        12,
    );
    draft.writer("writer_unary_sharded_gn_rm_gb_v2.cpp", &[wide, groups], 8);
    draft.compute("groupnorm_sharded_v2.cpp", &[wide, groups, group], 1);
    draft.semaphores = 2;
    draft
}
