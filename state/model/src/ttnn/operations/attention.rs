//! Attention: flash attention over chunks, rotary embedding, the key and value caches, heads.

use super::super::draft::{Draft, Family, Operand};
use super::super::job::{Job, intermediate};
use super::{Body, OUTPUT_INDEX, Operation, Output, Recipe, like_first, shaped};
use crate::tensor::{TILE_SIDE, TensorSpec};

pub(super) static OPERATIONS: &[Operation] = &[
    Operation::new(
        "scaled_dot_product_attention",
        "SDPAOperation",
        3..=4,
        Output::Inferred(like_first),
        Body::Drawn(draw_prefill),
    )
    .with(&["q_chunk", "k_chunk"]),
    decode("scaled_dot_product_attention_decode"),
    decode("paged_scaled_dot_product_attention_decode"),
    Operation::new(
        "rotary_embedding_llama",
        "RotaryEmbeddingLlamaDeviceOperation",
        1..=4,
        Output::Inferred(like_first),
        Body::Drawn(draw_rotary),
    ),
    update("paged_update_cache"),
    update("paged_fill_cache"),
    heads("nlp_create_qkv_heads", "NlpCreateHeadsDeviceOperation"),
    heads(
        "nlp_create_qkv_heads_decode",
        "NLPCreateQKVHeadsDecodeDeviceOperation",
    ),
    joined("nlp_concat_heads", "NLPConcatHeadsDeviceOperation"),
    joined(
        "nlp_concat_heads_decode",
        "NLPConcatHeadsDecodeDeviceOperation",
    ),
];

/// Inputs: queries, cached keys and values, then page table and positions if there are any.
const fn decode(name: &'static str) -> Operation {
    Operation::new(
        name,
        "SdpaDecodeDeviceOperation",
        3..=5,
        Output::Inferred(like_first),
        Body::Drawn(draw_decode),
    )
    .with(&["k_chunk"])
}

/// Inputs: the cache, what is new, then positions and page table if there are any.
const fn update(name: &'static str) -> Operation {
    Operation::new(
        name,
        "PagedCacheDeviceOperation",
        2..=4,
        Output::InPlace,
        Body::Drawn(draw_update),
    )
}

/// One tensor holds the heads of queries, keys and values, which ttnn returns as three.
const fn heads(name: &'static str, program: &'static str) -> Operation {
    Operation::new(
        name,
        program,
        1..=2,
        Output::Inferred(split_heads),
        Body::Stream(Recipe {
            family: Family::Circular,
            reader: "reader_tm_tile_layout_nlp_create_qkv_heads.cpp",
            compute: None,
            writer: "writer_tm_tile_layout_nlp_create_qkv_heads.cpp",
            pages: 8,
        }),
    )
    .with(&["heads", "kv_heads"])
}

const fn joined(name: &'static str, program: &'static str) -> Operation {
    Operation::new(
        name,
        program,
        1..=1,
        Output::Inferred(joined_heads),
        Body::Stream(Recipe {
            family: Family::Circular,
            reader: "reader_tm_tile_layout_nlp_concat_heads.cpp",
            compute: None,
            writer: "writer_unary_interleaved_start_id.cpp",
            pages: 8,
        }),
    )
}

/// `[batch, 1, sequence, heads x size]` to `[batch, heads, sequence, size]`.
fn split_heads(job: &Job<'_>) -> TensorSpec {
    let input = job.first();
    let kv_heads = job.attribute("kv_heads", 8);
    let all = job
        .attribute("heads", 32)
        .saturating_add(kv_heads.saturating_mul(2))
        .max(1);
    let size = input.dim(0).div_ceil(all);
    shaped(job, vec![input.dim(3), all, input.dim(1), size])
}

/// `[batch, heads, sequence, size]` to `[batch, 1, sequence, heads x size]`.
fn joined_heads(job: &Job<'_>) -> TensorSpec {
    let input = job.first();
    let wide = input.dim(2).saturating_mul(input.dim(0));
    shaped(job, vec![input.dim(3), 1, input.dim(1), wide])
}

/// From this length on the sequence is cut into the larger chunks that models configure.
const LONG_SEQUENCE: u64 = 2048;

/// Tiles of a chunk: what is given, or what models use, but not more than there are.
fn chunk(job: &Job<'_>, name: &str, length: u64) -> u64 {
    let usual = if length >= LONG_SEQUENCE { 256 } else { 64 };
    let chunk = job.attribute(name, usual).min(length);
    chunk.div_ceil(TILE_SIDE).max(1)
}

fn draw_prefill(job: &Job<'_>) -> Draft {
    let (queries, keys) = (job.first(), job.second());
    let q = chunk(job, "q_chunk", queries.dim(1));
    let k = chunk(job, "k_chunk", keys.dim(1));
    let work = queries.dim(3).saturating_mul(queries.dim(2));
    let work = work.saturating_mul(queries.dim(1).div_ceil(TILE_SIDE).div_ceil(q));
    let mut draft = Draft::circular(job.cores(work));
    draw_flash(&mut draft, job, q, k);
    let arguments = [q, k, queries.tiles_wide(), queries.dim(2), keys.dim(2)];
    draft.reader("reader_interleaved.cpp", &arguments, 10);
    draft.writer("writer_interleaved.cpp", &arguments, 9);
    draft.compute("sdpa.cpp", &arguments, 8);
    draft
}

/// Every user's heads on a group of cores, which combine their results.
fn draw_decode(job: &Job<'_>) -> Draft {
    let (queries, keys) = (job.first(), job.second());
    let heads = queries.dim(1).div_ceil(TILE_SIDE);
    let k = chunk(job, "k_chunk", keys.dim(1).max(LONG_SEQUENCE));
    let mut draft = Draft::circular(job.all_cores());
    draw_flash(&mut draft, job, heads, k);
    // Positions, and the page table of a user.
    for (index, table) in (8_u8..).zip(job.inputs.iter().skip(3)) {
        draft.local(index, 1, table.row_bytes().next_multiple_of(32));
    }
    let arguments = [heads, k, queries.tiles_wide(), queries.dim(2)];
    draft.reader("reader_decode_all.cpp", &arguments, 12);
    draft.writer("writer_decode_all.cpp", &arguments, 14);
    draft.compute("sdpa_flash_decode.cpp", &arguments, 10);
    draft.semaphores = 2;
    draft
}

/// Chunks of queries, keys, values and mask, the scores, and two generations of what sums up.
fn draw_flash(draft: &mut Draft, job: &Job<'_>, q: u64, k: u64) {
    let (queries, keys) = (job.first(), job.second());
    let values = job.inputs.get(2).unwrap_or(keys);
    let deep = queries.tiles_wide();
    let sums = intermediate(queries.spec.data_type).tile_bytes();
    let of = |chunk: u64| chunk.saturating_mul(deep);
    draft.operand(0, Operand::Input(0), queries, of(q));
    draft.local(1, of(k).saturating_mul(2), keys.tile_bytes());
    draft.local(2, of(k).saturating_mul(2), values.tile_bytes());
    draft.local(3, q.saturating_mul(k), sums);
    for scalar in [4, 5] {
        draft.local(scalar, 1, sums);
    }
    draft.local(24, q.saturating_mul(k), sums);
    for accumulated in [25, 26] {
        draft.local(accumulated, of(q), sums);
    }
    for statistics in 27..=31 {
        draft.local(statistics, q, sums);
    }
    draft.operand(OUTPUT_INDEX, Operand::Output, job.result(), of(q));
}

/// Inputs: the tensor, then cosines, sines, and the matrix that turns pairs, as far as given.
fn draw_rotary(job: &Job<'_>) -> Draft {
    let input = job.first();
    let wide = input.tiles_wide();
    let sums = intermediate(input.spec.data_type).tile_bytes();
    let mut draft = Draft::circular(job.cores(input.tiles_high()));
    draft.operand(0, Operand::Input(0), input, wide.saturating_mul(2));
    for (index, number) in (1_u8..).zip(1_usize..job.inputs.len()) {
        draft.operand(
            index,
            Operand::Input(number),
            &job.inputs[number],
            wide.saturating_mul(2),
        );
    }
    for partial in [24, 25, 26] {
        draft.local(partial, wide, sums);
    }
    draft.operand(
        OUTPUT_INDEX,
        Operand::Output,
        job.result(),
        wide.saturating_mul(2),
    );
    if input.shards.is_some() {
        draft.compute("rotary_embedding_llama_sharded.cpp", &[wide], 1);
    } else {
        draft.reader(
            "reader_rotary_embedding_llama_interleaved_start_id.cpp",
            &[wide],
            12,
        );
        draft.writer(
            "writer_rotary_embedding_llama_interleaved_start_id.cpp",
            &[wide],
            8,
        );
        draft.compute("rotary_embedding_llama.cpp", &[wide], 5);
    }
    draft
}

/// The rows that are new are put into tiles of the cache, which come and go back.
fn draw_update(job: &Job<'_>) -> Draft {
    let (cache, new) = (job.first(), job.second());
    let wide = new.tiles_wide();
    let sums = intermediate(new.spec.data_type).tile_bytes();
    let mut draft = Draft::circular(job.cores(new.dim(2)));
    draft.local(0, wide.saturating_mul(2), cache.tile_bytes());
    draft.operand(1, Operand::Input(1), new, wide);
    for untilized in [24, 25, 26] {
        draft.local(untilized, wide, sums);
    }
    for (index, table) in (2_u8..).zip(job.inputs.iter().skip(2)) {
        draft.local(index, 1, table.row_bytes().next_multiple_of(32));
    }
    draft.local(OUTPUT_INDEX, wide.saturating_mul(2), cache.tile_bytes());
    draft.reader("reader_update_cache_interleaved_start_id.cpp", &[wide], 10);
    draft.writer("writer_update_cache_interleaved_start_id.cpp", &[wide], 9);
    draft.compute("update_cache.cpp", &[wide, job.code()], 1);
    draft
}
