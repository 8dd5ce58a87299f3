//! Reductions and sampling: sums along a dimension, the largest elements, the next token.

use super::super::draft::{Draft, Family, Operand};
use super::super::job::{Job, intermediate};
use super::{Body, OUTPUT_INDEX, Operation, Output, Recipe, shaped};
use crate::tensor::{DataType, TensorSpec, TileLayout};

pub(super) static OPERATIONS: &[Operation] = &[
    reduce("reduce"),
    reduce("sum"),
    reduce("mean"),
    reduce("max"),
    reduce("min"),
    Operation::new(
        "argmax",
        "ArgMaxDeviceOperation",
        1..=1,
        Output::Inferred(position_of_each_row),
        Body::Drawn(draw_argmax),
    ),
    Operation::new(
        "topk",
        "TopKDeviceOperation",
        1..=2,
        Output::Inferred(largest_of_each_row),
        Body::Drawn(draw_topk),
    )
    .with(&["k"]),
    Operation::new(
        "sampling",
        "SamplingDeviceOperation",
        2..=5,
        Output::Inferred(token_of_each_row),
        Body::Drawn(draw_sampling),
    ),
];

const fn reduce(name: &'static str) -> Operation {
    Operation::new(
        name,
        "ReduceDeviceOperation",
        1..=1,
        Output::Inferred(reduced),
        Body::Stream(Recipe {
            family: Family::Circular,
            reader: "reader_unary_reduce_universal_start_id.cpp",
            compute: Some("reduce_w.cpp"),
            writer: "writer_unary_interleaved_start_id.cpp",
            pages: 2,
        }),
    )
    .with(&["dim"])
}

/// The last dimension, or the one that is given, becomes 1.
fn reduced(job: &Job<'_>) -> TensorSpec {
    let mut shape = job.first().spec.shape.clone();
    let last = shape.len().saturating_sub(1);
    let dim = usize::try_from(job.attribute("dim", u64::MAX)).map_or(last, |dim| dim.min(last));
    if let Some(reduced) = shape.get_mut(dim) {
        *reduced = 1;
    }
    shaped(job, shape)
}

/// Row-major indices, one for each row of the first input.
fn position_of_each_row(job: &Job<'_>) -> TensorSpec {
    let mut shape = job.first().spec.shape.clone();
    shape.pop();
    if shape.is_empty() {
        shape.push(1);
    }
    TensorSpec {
        data_type: DataType::Uint32,
        layout: TileLayout::RowMajor,
        ..shaped(job, shape)
    }
}

/// The values; ttnn returns their indices as a second tensor.
fn largest_of_each_row(job: &Job<'_>) -> TensorSpec {
    let mut shape = job.first().spec.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = job.attribute("k", 32).max(1);
    }
    shaped(job, shape)
}

fn token_of_each_row(job: &Job<'_>) -> TensorSpec {
    TensorSpec {
        data_type: DataType::Uint32,
        layout: TileLayout::RowMajor,
        ..shaped(job, vec![1, 1, 1, job.first().rows()])
    }
}

fn draw_argmax(job: &Job<'_>) -> Draft {
    let (input, output) = (job.first(), job.result());
    let mut draft = Draft::circular(job.all_cores());
    let cores = u64::from(job.chip.grid.cores()).max(1);
    // Each core scans a part of the row; the first one compares what they found.
    let part = input.row_bytes().div_ceil(cores).next_multiple_of(32);
    draft.local(0, 1, part);
    draft.local(
        1,
        1,
        output.row_bytes().next_multiple_of(32).min(job.budget()),
    );
    for found in [2, 3] {
        draft.local(found, cores, 32);
    }
    draft.reader(
        "reader_argmax_interleaved_multicore.cpp",
        &[input.page, input.dim(0)],
        6,
    );
    draft.semaphores = 2;
    draft
}

fn draw_topk(job: &Job<'_>) -> Draft {
    let input = job.first();
    let (tile, sums) = (
        input.tile_bytes(),
        intermediate(input.spec.data_type).tile_bytes(),
    );
    let indices = DataType::Uint16.tile_bytes();
    let mut draft = Draft::circular(job.cores(input.tiles_wide()));
    // Whole rows are sorted, so each core has its part of one and the indices of that.
    let cores = u64::from(draft.cores.set().len()).max(1);
    let part = job.fit(input.tiles_wide().div_ceil(cores), sums, 4);
    draft.local(0, 2, tile);
    draft.local(1, 2, indices);
    draft.local(24, part, sums);
    draft.local(25, part, indices);
    let kept = job.result().tiles_wide();
    draft.local(OUTPUT_INDEX, kept, tile);
    draft.local(17, kept, indices);
    draft.reader(
        "reader_create_index_tensor.cpp",
        &[part, input.tiles_wide()],
        3,
    );
    draft.writer("writer_binary_interleaved.cpp", &[kept], 3);
    draft.compute("topk.cpp", &[part, kept], 1);
    draft.semaphores = 2;
    draft
}

/// Inputs: values and indices, then k, p and temperature as far as there are any.
fn draw_sampling(job: &Job<'_>) -> Draft {
    let (values, indices) = (job.first(), job.second());
    let wide = values.tiles_wide();
    let sums = intermediate(values.spec.data_type).tile_bytes();
    // A core for each user.
    let mut draft = Draft::circular(job.cores(values.rows()));
    draft.local(0, job.fit(wide, sums, 8), sums);
    draft.local(
        1,
        job.fit(wide, indices.tile_bytes(), 8),
        indices.tile_bytes(),
    );
    for scalar in 2..=5 {
        draft.local(scalar, 1, sums);
    }
    for sorted in [24, 25, 26] {
        draft.local(sorted, job.fit(wide, sums, 8), sums);
    }
    draft.operand(OUTPUT_INDEX, Operand::Output, job.result(), 1);
    draft.reader("reader_values_indices_tensor.cpp", &[wide], 4);
    draft.writer("writer_interleaved.cpp", &[wide], 6);
    draft.compute("sampling.cpp", &[wide], 1);
    draft
}
