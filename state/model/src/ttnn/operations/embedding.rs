//! Embedding: rows of a table, picked by tokens, put into tiles on the way.

use super::super::draft::{Draft, Operand};
use super::super::job::{Job, divisor_up_to};
use super::{Body, OUTPUT_INDEX, Operation, Output};
use crate::tensor::{TILE_SIDE, TensorSpec, TileLayout};

pub(super) static OPERATIONS: &[Operation] = &[Operation::new(
    "embedding",
    "EmbeddingsDeviceOperation",
    2..=2,
    Output::Inferred(rows_of_table),
    Body::Drawn(draw),
)];

/// Tiles of a row at a time.
const LARGEST_BLOCK: u64 = 32;

/// `[…, tokens]` to `[…, tokens, width]`, in tiles, where and of what the table is.
fn rows_of_table(job: &Job<'_>) -> TensorSpec {
    let table = job.second();
    let mut shape = job.first().spec.shape.clone();
    shape.push(table.dim(0));
    TensorSpec {
        shape,
        layout: TileLayout::Tile,
        sharding: None,
        ..table.spec.clone()
    }
}

fn draw(job: &Job<'_>) -> Draft {
    let (tokens, output) = (job.first(), job.result());
    let count = tokens.rows().saturating_mul(tokens.dim(0));
    let block = divisor_up_to(output.tiles_wide(), LARGEST_BLOCK);
    let mut draft = Draft::circular(job.cores(count.div_ceil(TILE_SIDE)));
    draft.local(0, block.saturating_mul(2), output.tile_bytes());
    // One tile's worth of tokens, four bytes each.
    draft.local(1, 1, TILE_SIDE * 4);
    draft.operand(
        OUTPUT_INDEX,
        Operand::Output,
        output,
        block.saturating_mul(2),
    );
    draft.reader("embeddings_tilize.cpp", &[block, job.second().page], 6);
    draft.compute("tilize.cpp", &[block], 1);
    draft.writer("writer_unary_interleaved_start_id.cpp", &[output.page], 3);
    draft
}
