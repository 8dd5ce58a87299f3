//! Convolution on shards: `halo` brings in the neighbours' rows, `conv2d` multiplies.
//!
//! A call of `conv2d` on shards runs `halo` first, so what is drawn here has its halo already.
//! What is where in a shard is told by small tensors in L1_SMALL, which live as long as the
//! cached program: that is how a program cache fills L1_SMALL.

use super::super::draft::{Draft, Operand};
use super::super::job::{Job, View, divisor_up_to, intermediate};
use super::window::{WINDOW, Window};
use super::{Body, OUTPUT_INDEX, Operation, Output, shaped};
use crate::buffer::BufferSpec;
use crate::tensor::{TILE_SIDE, TensorSpec, TileLayout};
use ttmem_event::Class;

pub(super) static OPERATIONS: &[Operation] = &[
    Operation::new(
        "halo",
        "HaloDeviceOperation",
        1..=1,
        Output::Inferred(with_halo),
        Body::Drawn(draw_halo),
    )
    .with(WINDOW),
    Operation::new(
        "conv2d",
        "Conv2dDeviceOperation",
        1..=3,
        Output::Inferred(convolved),
        Body::Drawn(draw_conv),
    )
    .sliding(),
];

/// How many cores share the rows of the tensor.
fn cores_down(view: &View<'_>) -> u64 {
    use crate::tensor::Shard;
    match view.spec.sharding {
        Some(sharding) => match sharding.shard {
            Shard::Height => u64::from(sharding.grid.cores()).max(1),
            Shard::Width => 1,
            Shard::Block => u64::from(sharding.grid.y).max(1),
        },
        None => 1,
    }
}

/// The same rows with those of the neighbours on every core, in rows.
fn with_halo(job: &Job<'_>) -> TensorSpec {
    let input = job.first();
    let halo = Window::of(job).halo_rows();
    let cores = cores_down(input);
    let each = input.rows().div_ceil(cores).saturating_add(halo);
    let data_type = intermediate(input.spec.data_type);
    TensorSpec {
        shape: vec![1, 1, each.saturating_mul(cores), input.dim(0)],
        data_type,
        layout: TileLayout::RowMajor,
        ..input.spec.clone()
    }
}

/// A row for every position of the window, sharded as the input is.
pub(super) fn convolved(job: &Job<'_>) -> TensorSpec {
    let channels = job.attribute("out_channels", job.second().dim(0)).max(1);
    let shape = vec![1, 1, Window::of(job).positions(), channels];
    TensorSpec {
        layout: TileLayout::Tile,
        sharding: job.first().spec.sharding,
        ..shaped(job, shape)
    }
}

/// A tensor of so many bytes for each core, as the kernels' tables are held.
pub(super) fn table(draft: &Draft, bytes: u64) -> BufferSpec {
    let bytes = bytes.max(4).checked_next_multiple_of(32).unwrap_or(bytes);
    BufferSpec::sharded(Class::L1Small, draft.cores.set(), bytes, bytes)
}

fn draw_halo(job: &Job<'_>) -> Draft {
    let (input, output) = (job.first(), job.result());
    let window = Window::of(job);
    let mut draft = Draft::circular(job.cores(input.tiles_high()));
    draft.operand(0, Operand::Input(0), input, 2);
    let tiled = input.spec.layout == TileLayout::Tile;
    if tiled {
        let sums = intermediate(input.spec.data_type).tile_bytes();
        draft.local(
            1,
            job.fit(input.tiles_wide().saturating_mul(2), sums, 1),
            sums,
        );
    }
    draft.operand(OUTPUT_INDEX, Operand::Output, output, 2);
    draft.local(2, 1, output.page);
    // Lines of the image: each is a piece to copy, and has padding at its ends.
    let rows = output.rows().div_ceil(cores_down(output));
    let lines = rows.div_ceil(window.width.max(1)).saturating_add(1);
    let padding = table(&draft, lines.saturating_mul(4));
    let pieces = table(&draft, lines.saturating_mul(6).saturating_add(8));
    // Both data movement processors gather, each by tables of its own.
    for (index, config) in [(3, &padding), (4, &padding), (5, &pieces), (6, &pieces)] {
        draft.config(index, config.clone());
    }
    let arguments = [output.page, window.padding, window.kernel];
    draft.reader(
        "halo_gather.cpp",
        &[arguments[0], arguments[1], arguments[2], 0],
        0,
    );
    draft.writer(
        "halo_gather.cpp",
        &[arguments[0], arguments[1], arguments[2], 1],
        0,
    );
    if tiled {
        draft.compute("pack_untilize.cpp", &[input.tiles_wide()], 0);
    }
    draft
}

/// Tiles of rows that are multiplied at a time, unless the budget is too small.
const LARGEST_BLOCK: u64 = 32;

/// Inputs: the image, weights and bias; without weights, they are of the image's type.
fn draw_conv(job: &Job<'_>) -> Draft {
    let (image, weights, output) = (job.first(), job.second(), job.result());
    let window = Window::of(job);
    let mut draft = Draft::circular(job.cores(output.tiles_high()));
    let sums = intermediate(output.spec.data_type).tile_bytes();
    let positions = output.rows().div_ceil(cores_down(output));
    let high = positions.div_ceil(TILE_SIDE).max(1);
    let wide = match &output.shards {
        Some(shards) => shards.pages.div_ceil(high).max(1),
        // Columns of cores share the channels.
        None => output
            .tiles_wide()
            .div_ceil(u64::from(job.chip.grid.x).max(1)),
    };
    let deep = block_depth(job, window, wide);
    let block = block_height(job, high, deep, wide, sums);
    draft.operand(0, Operand::Input(0), image, 2);
    draft.local(1, deep.saturating_mul(wide), weights.tile_bytes());
    draft.local(6, block.saturating_mul(deep), sums);
    draft.local(7, block.saturating_mul(deep), sums);
    draft.local(24, block.saturating_mul(wide), sums);
    if let Some(bias) = job.inputs.get(2) {
        draft.local(2, wide, bias.tile_bytes());
    }
    draft.operand(
        OUTPUT_INDEX,
        Operand::Output,
        output,
        block.saturating_mul(wide),
    );
    let indices = table(
        &draft,
        window.lines(positions).saturating_mul(4).saturating_add(4),
    );
    draft.config(8, indices);
    let shape = [block, deep, wide, window.kernel, window.stride];
    draft.reader(
        "reader_conv_activations_padded_with_halo_3x3_weights_v2.cpp",
        &shape,
        4,
    );
    let writer = "reader_writer_tiled_out_1d_mcast_sender_conv_weights_tiled_col_to_rm_blocks.cpp";
    draft.writer(writer, &shape, 12);
    let bias = u64::from(job.inputs.len() > 2);
    draft.compute("conv_bmm_tilize.cpp", &[block, deep, wide, bias], 0);
    draft.semaphores = 2;
    draft
}

/// Tiles of the shared dimension at a time: a line of the window over all channels, or as much
/// of it as leaves the weights half of the budget.
fn block_depth(job: &Job<'_>, window: Window, wide: u64) -> u64 {
    let line = job.first().dim(0).saturating_mul(window.kernel);
    let line = line.div_ceil(TILE_SIDE).max(1);
    let row = wide.saturating_mul(job.second().tile_bytes());
    let most = job.fit(line, row, 2);
    if most == line {
        line
    } else {
        divisor_up_to(line, most)
    }
}

/// The largest part of `high` for which activations, as they come and in tiles, and sums fit.
fn block_height(job: &Job<'_>, high: u64, deep: u64, wide: u64, tile: u64) -> u64 {
    let mut block = divisor_up_to(high, LARGEST_BLOCK);
    loop {
        let tiles = deep.saturating_mul(2).saturating_add(wide);
        let bytes = tiles.saturating_mul(block).saturating_mul(tile);
        if block == 1 || bytes <= job.budget() {
            return block;
        }
        block = divisor_up_to(high, block - 1);
    }
}
