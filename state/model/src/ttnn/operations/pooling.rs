//! Pooling and upsampling: rows of channels, without matrices.

use super::super::draft::{Draft, Operand};
use super::super::job::Job;
use super::convolution::table;
use super::window::Window;
use super::{Body, OUTPUT_INDEX, Operation, Output, shaped};
use crate::tensor::TensorSpec;

pub(super) static OPERATIONS: &[Operation] = &[
    pool("max_pool2d"),
    pool("avg_pool2d"),
    Operation::new(
        "upsample",
        "UpsampleOperation",
        1..=1,
        Output::Inferred(upsampled),
        Body::Drawn(draw_upsample),
    )
    .with(&["scale"]),
];

/// On shards, `halo` runs first: what is drawn here has its halo already.
const fn pool(name: &'static str) -> Operation {
    Operation::new(
        name,
        "Pool2D",
        1..=1,
        Output::Inferred(pooled),
        Body::Drawn(draw_pool),
    )
    .sliding()
}

/// A row for every position of the window, sharded as the input is.
fn pooled(job: &Job<'_>) -> TensorSpec {
    let shape = vec![1, 1, Window::of(job).positions(), job.first().dim(0)];
    TensorSpec {
        sharding: job.first().spec.sharding,
        ..shaped(job, shape)
    }
}

fn draw_pool(job: &Job<'_>) -> Draft {
    let (input, output) = (job.first(), job.result());
    let window = Window::of(job);
    let mut draft = Draft::circular(job.cores(output.tiles_high()));
    let row = input.row_bytes();
    let rows = window.kernel.saturating_mul(window.kernel);
    draft.operand(0, Operand::Input(0), input, 2);
    draft.local(1, 1, input.tile_bytes());
    // The window's rows, for two positions.
    draft.local(2, job.fit(rows.saturating_mul(2), row, 1), row);
    draft.operand(OUTPUT_INDEX, Operand::Output, output, 2);
    let cores = u64::from(draft.cores.set().len()).max(1);
    let positions = output.rows().div_ceil(cores);
    let indices = table(&draft, window.lines(positions).saturating_mul(4));
    draft.config(3, indices);
    draft.reader("reader_pool_2d.cpp", &[window.kernel, row, 0], 0);
    draft.writer("reader_pool_2d.cpp", &[window.kernel, row, 1], 0);
    draft.compute("compute_pool_2d.cpp", &[window.kernel, job.code()], 0);
    draft
}

/// `[batch, height, width, channels]`, height and width times the scale.
fn upsampled(job: &Job<'_>) -> TensorSpec {
    let scale = job.attribute("scale", 2).max(1);
    let mut shape = job.first().spec.shape.clone();
    if let [.., height, width, _channels] = &mut shape[..] {
        *height = height.saturating_mul(scale);
        *width = width.saturating_mul(scale);
    }
    TensorSpec {
        sharding: job.first().spec.sharding,
        ..shaped(job, shape)
    }
}

fn draw_upsample(job: &Job<'_>) -> Draft {
    let (input, output) = (job.first(), job.result());
    let scale = job.attribute("scale", 2).max(1);
    let mut draft = Draft::circular(job.cores(input.rows()));
    draft.operand(0, Operand::Input(0), input, 2);
    draft.operand(OUTPUT_INDEX, Operand::Output, output, 2);
    if input.shards.is_some() {
        let cores = u64::from(draft.cores.set().len()).max(1);
        let rows = table(&draft, output.rows().div_ceil(cores).saturating_mul(4));
        draft.config(6, rows);
        draft.writer(
            "writer_upsample_multi_core_sharded.cpp",
            &[scale, output.page, 0],
            0,
        );
        draft.reader(
            "writer_upsample_multi_core_sharded.cpp",
            &[scale, output.page, 1],
            0,
        );
    } else {
        let reader = "reader_upsample_unary_stick_layout_interleaved_start_id.cpp";
        draft.reader(reader, &[input.page], 3);
        draft.writer("writer_upsample_interleaved.cpp", &[scale, output.page], 5);
    }
    draft
}
