//! Every operation at the shapes of a transformer and of a convolutional network.

use super::super::operations;
use super::*;
use crate::tensor::Shard;
use std::collections::BTreeSet;
use ttmem_event::catalogue::Grid;

struct Case {
    operation: &'static str,
    inputs: Vec<TensorSpec>,
    output: Option<TensorSpec>,
}

fn case(operation: &'static str, inputs: &[&TensorSpec]) -> Case {
    Case {
        operation,
        inputs: inputs.iter().map(|spec| (*spec).clone()).collect(),
        output: None,
    }
}

fn case_to(operation: &'static str, inputs: &[&TensorSpec], output: &TensorSpec) -> Case {
    Case {
        output: Some(output.clone()),
        ..case(operation, inputs)
    }
}

fn dram(shape: &[u64]) -> TensorSpec {
    TensorSpec::tiled(shape, DataType::Bfloat16, Class::Dram)
}

fn block_float(shape: &[u64]) -> TensorSpec {
    TensorSpec::tiled(shape, DataType::Bfloat8B, Class::Dram)
}

fn l1(shape: &[u64]) -> TensorSpec {
    TensorSpec::tiled(shape, DataType::Bfloat16, Class::L1)
}

fn indices(shape: &[u64]) -> TensorSpec {
    TensorSpec::row_major(shape, DataType::Uint32, Class::Dram)
}

/// What a layer of an 8B transformer does to `tokens` tokens, prompt or users.
fn transformer(tokens: u64) -> Vec<Case> {
    let x = dram(&[1, 1, tokens, 4096]);
    let qkv = dram(&[1, 1, tokens, 6144]);
    let q = dram(&[1, 32, tokens, 128]);
    let kv = block_float(&[1, 8, tokens, 128]);
    let cache = block_float(&[32, 8, 1024, 128]);
    let weight = |rows, columns| block_float(&[1, 1, rows, columns]);
    let norm = dram(&[1, 1, 32, 4096]);
    let angles = dram(&[1, 1, tokens, 128]);
    let turn = dram(&[1, 1, 32, 32]);
    let up = dram(&[1, 1, tokens, 14_336]);
    let rows = TensorSpec::row_major(&[1, 1, tokens, 4096], DataType::Bfloat16, Class::Dram);
    let logits = dram(&[1, 1, 32, 16_032]);
    let table = TensorSpec::row_major(&[128_256, 4096], DataType::Bfloat16, Class::Dram);
    vec![
        case("embedding", &[&indices(&[1, tokens]), &table]),
        case("layer_norm", &[&x, &norm, &norm]),
        case("rms_norm", &[&x, &norm]),
        case("matmul", &[&x, &weight(4096, 6144)]),
        case("linear", &[&x, &weight(4096, 14_336), &weight(32, 14_336)]),
        case("matmul", &[&up, &weight(14_336, 4096)]),
        case("matmul", &[&logits, &weight(16_032, 4096)]),
        case("nlp_create_qkv_heads", &[&qkv]),
        case("rotary_embedding_llama", &[&q, &angles, &angles, &turn]),
        case("paged_fill_cache", &[&cache, &kv]),
        case("scaled_dot_product_attention", &[&q, &kv, &kv]),
        case("nlp_concat_heads", &[&q]),
        case("softmax", &[&q]),
        case("transpose", &[&q]),
        case_to("permute", &[&q], &dram(&[1, tokens, 32, 128])),
        case_to("reshape", &[&x], &q),
        case("concat", &[&x, &x]),
        case_to("slice", &[&x], &dram(&[1, 1, 32, 4096])),
        case_to("pad", &[&x], &dram(&[1, 1, tokens + 32, 4096])),
        case_to("repeat", &[&kv], &block_float(&[1, 32, tokens, 128])),
        case("clone", &[&x]),
        case("tilize", &[&rows]),
        case("untilize", &[&x]),
        case("untilize", &[&kv]),
        case("all_gather", &[&x]),
        case("reduce_scatter", &[&x]),
        case("all_reduce", &[&x]),
        case("argmax", &[&logits]),
        case("topk", &[&logits]),
        case(
            "sampling",
            &[&dram(&[1, 1, 32, 256]), &indices(&[1, 1, 32, 256])],
        ),
    ]
}

/// One token for each of 32 users, activations in L1.
fn decode() -> Vec<Case> {
    let users = Grid::new(8, 4);
    let x = l1(&[1, 1, 32, 4096]);
    let wide = x.clone().sharded(Shard::Width, users);
    let q = l1(&[1, 32, 32, 128]).sharded(Shard::Height, users);
    let cache = block_float(&[32, 8, 1024, 128]);
    let positions = indices(&[32]);
    let pages = indices(&[32, 64]);
    let attention = [&q, &cache, &cache];
    let paged = [&q, &cache, &cache, &pages, &positions];
    vec![
        case_to("interleaved_to_sharded", &[&x], &wide),
        case_to("to_memory_config", &[&x], &wide),
        case("sharded_to_interleaved", &[&wide]),
        case_to(
            "reshard",
            &[&wide],
            &x.clone().sharded(Shard::Width, Grid::new(8, 2)),
        ),
        case("rms_norm", &[&wide, &dram(&[1, 1, 32, 4096])]),
        case("matmul", &[&wide, &block_float(&[1, 1, 4096, 6144])]),
        case_to("nlp_create_qkv_heads_decode", &[&l1(&[1, 1, 32, 6144])], &q),
        case("rotary_embedding_llama", &[&q]),
        case("paged_update_cache", &[&cache, &q, &positions, &pages]),
        case("scaled_dot_product_attention_decode", &attention),
        case("paged_scaled_dot_product_attention_decode", &paged),
        case("nlp_concat_heads_decode", &[&q]),
    ]
}

/// A residual block on 16 images of 56 x 56, sharded over the cores.
fn convolutional() -> Vec<Case> {
    let cores = Grid::new(8, 8);
    let x = l1(&[1, 1, 16 * 56 * 56, 64]).sharded(Shard::Height, cores);
    let deep = l1(&[1, 1, 16 * 14 * 14, 256]).sharded(Shard::Block, Grid::new(8, 7));
    let latent = dram(&[2, 64, 64, 320]);
    let rows = TensorSpec::row_major(&[2, 32, 32, 64], DataType::Bfloat16, Class::L1);
    let rows = rows.sharded(Shard::Height, cores);
    let weights = block_float(&[1, 1, 576, 64]);
    vec![
        case("halo", &[&x]),
        case("conv2d", &[&x, &weights, &block_float(&[1, 1, 32, 64])]),
        case("conv2d", &[&deep, &block_float(&[1, 1, 2304, 256])]),
        case("conv2d", &[&latent]),
        case("conv2d", &[&latent, &block_float(&[1, 1, 2880, 1280])]),
        case(
            "conv2d",
            &[&dram(&[2, 1, 1024, 1920]), &dram(&[1, 1, 17_280, 640])],
        ),
        case("max_pool2d", &[&x]),
        case("avg_pool2d", &[&deep]),
        case("upsample", &[&latent]),
        case("upsample", &[&rows]),
        case("group_norm", &[&latent]),
        case("group_norm", &[&deep]),
        case("add", &[&x, &x]),
        case("relu", &[&x]),
    ]
}

/// One operand or two, whatever the operation is.
fn element_wise() -> Vec<Case> {
    let x = dram(&[1, 1, 2048, 4096]);
    let row = dram(&[1, 1, 1, 4096]);
    let column = dram(&[1, 1, 2048, 1]);
    let mut cases = Vec::new();
    for name in [
        "add", "subtract", "multiply", "divide", "maximum", "minimum",
    ] {
        cases.push(case(name, &[&x, &x]));
        cases.push(case(name, &[&x, &row]));
        cases.push(case(name, &[&x, &column]));
        cases.push(case(name, &[&x]));
    }
    for name in [
        "relu",
        "gelu",
        "silu",
        "sigmoid",
        "tanh",
        "exp",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "square",
        "neg",
        "typecast",
        "reduce",
        "sum",
        "mean",
        "max",
        "min",
    ] {
        cases.push(case(name, &[&x]));
    }
    cases
}

/// Runs each case twice, so from the cache as well, and gives everything back.
fn assert_all_run(board: BoardKind, rows: u16, columns: u16, cases: &[Case]) {
    let mut bench = Bench::new(board, rows, columns);
    for case in cases {
        let inputs: Vec<Tensor> = case.inputs.iter().map(|spec| bench.zeros(spec)).collect();
        for _run in 0..2 {
            let call = Call {
                operation: case.operation,
                inputs: &inputs.iter().collect::<Vec<_>>(),
                output: case.output.clone(),
                attributes: &[],
            };
            match bench.ttnn.run(bench.mesh, &call) {
                Ok(Some(output)) => bench.ttnn.deallocate(output).unwrap(),
                Ok(None) => assert!(case.output.is_none()),
                Err(error) => panic!("{board:?}: {} on {inputs:?}: {error}", case.operation),
            }
        }
        for input in inputs {
            bench.ttnn.deallocate(input).unwrap();
        }
    }
    bench.ttnn.clear_program_cache(bench.mesh).unwrap();
    assert_eq!(bench.ttnn.runtime().live_buffers(bench.mesh), 0);
    assert_eq!(live_programs(&bench.events()), 0);
}

#[test]
fn a_transformer_runs_on_one_chip_and_on_eight() {
    for tokens in [128, 2048] {
        assert_all_run(BoardKind::N150, 1, 1, &transformer(tokens));
        assert_all_run(BoardKind::T3000, 2, 4, &transformer(tokens));
    }
    assert_all_run(BoardKind::N150, 1, 1, &decode());
    assert_all_run(BoardKind::T3000, 1, 8, &decode());
}

#[test]
fn a_convolutional_network_runs_on_one_chip_and_on_eight() {
    assert_all_run(BoardKind::N150, 1, 1, &convolutional());
    assert_all_run(BoardKind::T3000, 2, 4, &convolutional());
    assert_all_run(BoardKind::P150, 1, 1, &convolutional());
}

#[test]
fn element_wise_operations_and_reductions_run_on_one_chip_and_on_eight() {
    assert_all_run(BoardKind::N150, 1, 1, &element_wise());
    assert_all_run(BoardKind::T3000, 2, 4, &element_wise());
}

#[test]
fn no_operation_is_left_out_here() {
    let families = [transformer(128), decode(), convolutional(), element_wise()];
    let tried: BTreeSet<&str> = families
        .iter()
        .flatten()
        .map(|case| case.operation)
        .collect();
    let known: BTreeSet<&str> = operations().collect();
    assert_eq!(tried, known);
    // A name stands for one operation.
    assert_eq!(operations().count(), known.len());
}

#[test]
fn short_names_and_module_names_mean_the_same() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    for name in ["sub", "ttnn::subtract", "ttnn.sub"] {
        bench.run(name, &[&a, &a]).unwrap();
    }
}
