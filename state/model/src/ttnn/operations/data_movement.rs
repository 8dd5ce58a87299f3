//! Operations that move or reorder elements: mostly pages that stream through.

use super::super::draft::{Draft, Family, Operand};
use super::super::job::{Job, divisor_up_to};
use super::{Body, OUTPUT_INDEX, Operation, Output, Recipe, like_first, shaped};
use crate::tensor::{DataType, TensorSpec, TileLayout};

pub(super) static OPERATIONS: &[Operation] = &[
    Operation::new(
        "transpose",
        "TransposeDeviceOperation",
        1..=1,
        Output::Inferred(transposed),
        Body::Stream(Recipe {
            family: Family::Dataflow,
            reader: "reader_unary_transpose_wh_interleaved_start_id.cpp",
            compute: Some("transpose_wh.cpp"),
            writer: "writer_unary_interleaved_start_id.cpp",
            pages: 2,
        }),
    ),
    moved(
        "permute",
        "PermuteDeviceOperation",
        Output::Stated,
        Recipe {
            reader: "reader_permute_interleaved_tiled_generic.cpp",
            compute: Some("transpose_xw_tiled.cpp"),
            writer: "writer_permute_interleaved_tiled_generic.cpp",
            ..COPY
        },
    ),
    moved(
        "reshape",
        "ReshapeViewDeviceOperation",
        Output::Stated,
        Recipe {
            reader: "reader_reshape_tiled.cpp",
            writer: "writer_reshape_tiled.cpp",
            ..COPY
        },
    ),
    Operation::new(
        "concat",
        "ConcatDeviceOperation",
        1..=16,
        Output::Inferred(concatenated),
        Body::Stream(Recipe {
            family: Family::Dataflow,
            reader: "reader_concat_interleaved_start_id.cpp",
            ..COPY
        }),
    )
    .with(&["dim"]),
    moved(
        "slice",
        "SliceDeviceOperation",
        Output::Stated,
        Recipe {
            reader: "reader_unary_unpad_dims_interleaved_start_id.cpp",
            ..COPY
        },
    ),
    moved(
        "pad",
        "PadDeviceOperation",
        Output::Stated,
        Recipe {
            reader: "reader_pad_tiled.cpp",
            writer: "writer_pad_tiled.cpp",
            ..COPY
        },
    ),
    moved(
        "repeat",
        "RepeatDeviceOperation",
        Output::Stated,
        Recipe {
            reader: "repeat_higher_dim_tile.cpp",
            ..COPY
        },
    ),
    moved(
        "to_memory_config",
        "CopyDeviceOperation",
        Output::Inferred(like_first),
        Recipe {
            family: Family::Dataflow,
            ..COPY
        },
    ),
    moved(
        "interleaved_to_sharded",
        "InterleavedToShardedDeviceOperation",
        Output::Stated,
        Recipe {
            reader: "reader_unary_sharded_blocks_interleaved_start_id.cpp",
            writer: "writer_unary_sharded.cpp",
            ..COPY
        },
    ),
    moved(
        "sharded_to_interleaved",
        "ShardedToInterleavedDeviceOperation",
        Output::Inferred(interleaved),
        Recipe {
            reader: "reader_unary_sharded.cpp",
            writer: "writer_unary_sharded_blocks_interleaved_start_id.cpp",
            ..COPY
        },
    ),
    moved(
        "reshard",
        "ReshardDeviceOperation",
        Output::Stated,
        Recipe {
            reader: "reshard_same_width_reader.cpp",
            writer: "reshard_same_width_writer.cpp",
            ..COPY
        },
    ),
    moved(
        "clone",
        "CloneDeviceOperation",
        Output::Inferred(like_first),
        COPY,
    ),
    Operation::new(
        "tilize",
        "TilizeDeviceOperation",
        1..=1,
        Output::Inferred(tilized),
        Body::Drawn(draw_tilize),
    ),
    Operation::new(
        "untilize",
        "UntilizeDeviceOperation",
        1..=1,
        Output::Inferred(untilized),
        Body::Drawn(draw_untilize),
    ),
];

const COPY: Recipe = Recipe {
    family: Family::Circular,
    reader: "reader_unary_interleaved_start_id.cpp",
    compute: None,
    writer: "writer_unary_interleaved_start_id.cpp",
    pages: 2,
};

const fn moved(
    name: &'static str,
    program: &'static str,
    output: Output,
    recipe: Recipe,
) -> Operation {
    Operation::new(name, program, 1..=1, output, Body::Stream(recipe))
}

fn transposed(job: &Job<'_>) -> TensorSpec {
    let mut shape = job.first().spec.shape.clone();
    if let [.., high, wide] = &mut shape[..] {
        std::mem::swap(high, wide);
    }
    shaped(job, shape)
}

/// Along the last dimension, or the one that is given.
fn concatenated(job: &Job<'_>) -> TensorSpec {
    let mut shape = job.first().spec.shape.clone();
    let last = shape.len().saturating_sub(1);
    let dim = usize::try_from(job.attribute("dim", u64::MAX)).map_or(last, |dim| dim.min(last));
    let lengths = job.inputs.iter().map(|input| input.spec.shape.get(dim));
    let length = lengths
        .flatten()
        .fold(0_u64, |sum, dim| sum.saturating_add(*dim));
    if let Some(whole) = shape.get_mut(dim) {
        *whole = length;
    }
    shaped(job, shape)
}

fn interleaved(job: &Job<'_>) -> TensorSpec {
    shaped(job, job.first().spec.shape.clone())
}

fn tilized(job: &Job<'_>) -> TensorSpec {
    TensorSpec {
        layout: TileLayout::Tile,
        ..like_first(job)
    }
}

/// Block floats do not come in rows: they are unpacked.
fn untilized(job: &Job<'_>) -> TensorSpec {
    let spec = like_first(job);
    let data_type = match spec.data_type {
        DataType::Bfloat8B | DataType::Bfloat4B => DataType::Bfloat16,
        other => other,
    };
    TensorSpec {
        layout: TileLayout::RowMajor,
        data_type,
        ..spec
    }
}

/// Rows of a block of tiles come in, its tiles go out.
fn draw_tilize(job: &Job<'_>) -> Draft {
    let sources = [
        "reader_unary_stick_layout_split_rows_multicore.cpp",
        "tilize.cpp",
        "writer_unary_interleaved_start_id.cpp",
    ];
    draw_in_blocks(job, sources)
}

fn draw_untilize(job: &Job<'_>) -> Draft {
    let sources = [
        "reader_unary_interleaved_start_id.cpp",
        "pack_untilize.cpp",
        "writer_unary_stick_layout_split_rows_multi_core.cpp",
    ];
    draw_in_blocks(job, sources)
}

/// Both sides hold a row of tiles, or as much of it as fits.
fn draw_in_blocks(job: &Job<'_>, [reader, compute, writer]: [&str; 3]) -> Draft {
    let (input, output) = (job.first(), job.result());
    let mut draft = Draft::circular(job.cores(input.tiles_high()));
    let wide = input.tiles_wide();
    let most = job.fit(wide, input.tile_bytes().max(output.tile_bytes()), 4);
    // Longer rows are cut where whole blocks make up the row.
    let block = if most == wide {
        wide
    } else {
        divisor_up_to(wide, most)
    };
    for (index, operand, view) in [
        (0, Operand::Input(0), input),
        (OUTPUT_INDEX, Operand::Output, output),
    ] {
        match view.shards {
            Some(_) => draft.operand(index, operand, view, 1),
            None => draft.local(index, block.saturating_mul(2), view.tile_bytes()),
        }
    }
    draft.reader(reader, &[input.page], 9);
    draft.compute(compute, &[block], 1);
    draft.writer(writer, &[output.page], 3);
    draft
}
