//! Softmax and the norms: a row of tiles at a time, whole where it fits.

use super::super::draft::{Draft, Operand};
use super::super::job::{Job, View, divisor_up_to, intermediate};
use super::{Body, OUTPUT_INDEX, Operation, Output, like_first};
use crate::tensor::DataType;

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

/// Tiles that softmax streams at a time when a row is too long to be kept.
const SOFTMAX_STREAM: u64 = 80;

/// Tiles of a long row that a norm keeps of each of its tensors, with weights and without.
const NORM_STREAM_WITH_WEIGHTS: u64 = 56;
const NORM_STREAM: u64 = 112;

/// Tiles of a block, and of a row in whole blocks.
fn blocks(wide: u64) -> (u64, u64) {
    let divisor = divisor_up_to(wide, LARGEST_BLOCK);
    // A divisor is used where it takes no more blocks than the largest would.
    let as_few = wide.div_ceil(LARGEST_BLOCK) == wide / divisor;
    let block = if as_few { divisor } else { LARGEST_BLOCK };
    (block, wide.div_ceil(block).saturating_mul(block))
}

/// Sizes as ttnn's own factory counts them; what is kept whole may fill nine tenths of L1.
fn draw_softmax(job: &Job<'_>) -> Draft {
    let input = job.first();
    let mask = job.inputs.get(1);
    let (block, row) = blocks(input.tiles_wide());
    let (tile, sums) = (
        input.tile_bytes(),
        intermediate(input.spec.data_type).tile_bytes(),
    );
    let whole_rows = if mask.is_some() { 5 } else { 2 };
    let streamed = row.saturating_mul(sums) > job.chip.l1_bytes / 10 * 9 / whole_rows;
    let kept = if streamed { SOFTMAX_STREAM } else { row };
    let mut draft = Draft::dataflow(job.cores(input.tiles_high()));
    let in_blocks = if mask.is_some() && !streamed {
        2 * block
    } else {
        kept
    };
    draft.operand(0, Operand::Input(0), input, in_blocks);
    draft.operand(11, Operand::Output, job.result(), 2 * block);
    draft.local(7, 1, sums);
    if streamed {
        for carried in [14, 15, 16] {
            draft.local(carried, 1, sums);
        }
    }
    for scaler in [2, 13] {
        draft.local(scaler, 1, DataType::Bfloat16.tile_bytes());
    }
    draft.local(6, kept, sums);
    if let Some(mask) = mask {
        draft.local(9, kept.saturating_add(block), sums);
        draft.local(3, 1, DataType::Bfloat16.tile_bytes());
        draft.local(4, kept, mask.tile_bytes());
    }
    draft.local(5, 1, mask.map_or(tile, View::tile_bytes));
    draft.local(8, 1, sums);
    if mask.is_some() || streamed {
        draft.local(10, kept, sums);
    }
    draft.reader("reader_unary_interleaved_sm.cpp", &[tile], 10);
    draft.writer(
        "writer_unary_interleaved_start_id_blocked_sm.cpp",
        &[tile],
        8,
    );
    draft.compute("softmax.cpp", &[block, u64::from(mask.is_some())], 5);
    draft
}

/// Inputs: the tensor, then weight, bias and residual. Sizes as ttnn's own factory counts them.
fn draw_layer_norm(job: &Job<'_>) -> Draft {
    let input = job.first();
    let (block, row) = blocks(input.tiles_wide());
    let (tile, sums) = (
        input.tile_bytes(),
        intermediate(input.spec.data_type).tile_bytes(),
    );
    let weights = u64::try_from(job.inputs.len().min(3)).unwrap_or(3) - 1;
    let residual = job.inputs.get(3);
    let centred = job.operation != "rms_norm" || residual.is_some();
    // The input, its square, with the mean taken off, and the weights.
    let whole_rows = 2 + u64::from(centred) + weights;
    let streamed = row.saturating_mul(sums) > job.chip.l1_bytes / 20 * 17 / whole_rows;
    let kept = match (streamed, weights) {
        (false, _) => row,
        (true, 0) => NORM_STREAM,
        (true, _) => NORM_STREAM_WITH_WEIGHTS,
    };
    let sharded = input.shards.is_some();
    // On shards each core sums up its part of the row, a block at a time.
    let between = if sharded { 2 * block } else { kept };
    let mut draft = Draft::dataflow(job.cores(input.tiles_high()));
    let in_blocks = if residual.is_some() { 2 * block } else { kept };
    draft.operand(0, Operand::Input(0), input, in_blocks);
    draft.operand(OUTPUT_INDEX, Operand::Output, job.result(), 2 * block);
    for pair in [18, 2, 3, 19] {
        draft.local(pair, 2, sums);
    }
    if centred || streamed {
        draft.local(24, between, sums);
    }
    draft.local(20, between, sums);
    draft.local(21, 8, sums);
    for weight in (5..).take(usize::try_from(weights).unwrap_or(2)) {
        draft.local(weight, between, tile);
    }
    if weights > 0 {
        draft.local(22, 2 * block, sums);
    }
    if let Some(residual) = residual {
        draft.operand(1, Operand::Input(3), residual, 2 * block);
        draft.local(23, between, sums);
    }
    let wide = input.tiles_wide();
    if sharded {
        draft.reader(
            "reader_mcast_sender_unary_sharded_ln.cpp",
            &[wide, block],
            6,
        );
        draft.writer("writer_unary_sharded_ln.cpp", &[wide, block], 6);
        draft.compute("layernorm_sharded.cpp", &[wide, block, job.code()], 1);
        draft.semaphores = 2;
        return draft;
    }
    let (reader, compute) = if streamed {
        (
            "reader_unary_interleaved_ln_large_tensor.cpp",
            "layernorm_large_tensor.cpp",
        )
    } else {
        ("reader_unary_interleaved_ln.cpp", "layernorm.cpp")
    };
    draft.reader(reader, &[block, tile], 9);
    draft.writer(
        "writer_unary_interleaved_start_id_blocked.cpp",
        &[block, tile],
        3,
    );
    draft.compute(compute, &[wide, block, job.code()], 1);
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
