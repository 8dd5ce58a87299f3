//! Where programs keep what, held against recorded runs of ttnn 0.81.1.

use super::*;
use crate::tensor::Shard;
use ttmem_event::catalogue::Grid;

/// `add` on the board: circular buffers of 4096 B from `base`, on all compute cores of each chip.
fn assert_add(board: BoardKind, (rows, columns): (u16, u16), base: u64, grid: CoreSet) {
    let mut bench = Bench::new(board, rows, columns);
    for class in [Class::Dram, Class::L1] {
        let a = bench.zeros(&square(class));
        bench.run("add", &[&a, &a]).unwrap();
        let events = bench.events();
        let storage = bench.storage(&events);
        let chips = usize::from(rows * columns);
        assert_eq!(storage.len(), 3 * chips, "{board:?}");
        for place in 0..3 {
            let expected = Reported {
                kind: CbKind::Local,
                address: base + 4096 * place,
                size: 4096,
                cores: grid,
            };
            let found = storage.iter().filter(|reported| **reported == expected);
            assert_eq!(found.count(), chips, "{board:?} {class:?}: {storage:?}");
        }
    }
}

#[test]
fn add_keeps_two_tiles_of_each_operand_on_every_compute_core() {
    let wormhole = CoreSet::grid(8, 8);
    assert_add(BoardKind::N150, (1, 1), 105_824, wormhole);
    assert_add(BoardKind::N300, (1, 2), 105_824, wormhole);
    assert_add(BoardKind::T3000, (2, 4), 105_824, wormhole);
    assert_add(BoardKind::P150, (1, 1), 111_744, CoreSet::grid(11, 10));
}

#[test]
fn the_output_is_allocated_before_the_program_is_created() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    drop(bench.events());
    bench.run("add", &[&a, &a]).unwrap();
    let events = bench.events();
    let place = |wanted: fn(&EventKind) -> bool| events.iter().position(wanted).unwrap();
    let output = place(|event| matches!(event, EventKind::BufferAllocated { .. }));
    let program = place(|event| matches!(event, EventKind::ProgramCreated { .. }));
    let storage = place(|event| matches!(event, EventKind::CbAllocated { .. }));
    assert!(output < program && program < storage);
}

#[test]
fn matmul_keeps_blocks_in_dataflow_buffers() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    bench.run("matmul", &[&a, &a]).unwrap();
    let events = bench.events();
    let storage = bench.storage(&events);
    let sizes: Vec<u64> = storage.iter().map(|reported| reported.size).collect();
    assert_eq!(sizes, [65_536, 65_536, 32_768, 32_768]);
    for reported in &storage {
        assert_eq!(reported.kind, CbKind::Dataflow);
        assert_eq!(reported.cores, CoreSet::grid(8, 8));
    }
    assert_eq!(storage[0].address, 105_824);
}

#[test]
fn softmax_has_eight_dataflow_buffers() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    bench.run("softmax", &[&a]).unwrap();
    let events = bench.events();
    let storage = bench.storage(&events);
    let tiles: Vec<u64> = storage
        .iter()
        .map(|reported| reported.size / 2048)
        .collect();
    // A row comes in and is kept as exponentials; the rest is blocks and single tiles.
    assert_eq!(tiles, [32, 16, 1, 1, 1, 32, 1, 1]);
    assert!(
        storage
            .iter()
            .all(|reported| reported.kind == CbKind::Dataflow)
    );
}

#[test]
fn one_core_multiplies_tile_by_tile() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    bench
        .run_with("matmul", &[&a, &a], &[("single_core", 1)])
        .unwrap();
    let events = bench.events();
    for reported in bench.storage(&events) {
        assert_eq!((reported.kind, reported.size), (CbKind::Local, 4096));
        assert_eq!(reported.cores, CoreSet::grid(1, 1));
    }
}

/// Runs an operation on shards; its storage has to be where its operands are.
fn assert_in_operands(bench: &mut Bench, operation: &str, inputs: usize) {
    let spec = TensorSpec::tiled(&[1, 1, 1024, 128], DataType::Bfloat16, Class::L1)
        .sharded(Shard::Height, Grid::new(4, 4));
    let a = bench.zeros(&spec);
    drop(bench.events());
    let output = bench.run(operation, &vec![&a; inputs]).unwrap().unwrap();
    let events = bench.events();
    let storage = bench.storage(&events);
    let mut expected: Vec<u64> = Vec::new();
    for operand in vec![&a; inputs].into_iter().chain([&output]) {
        expected.push(bench.ttnn.runtime().address(operand.buffer).unwrap());
    }
    let addresses: Vec<u64> = storage.iter().map(|reported| reported.address).collect();
    assert_eq!(addresses, expected, "{operation}");
    for reported in &storage {
        assert!(reported.kind.borrows());
        assert_eq!(reported.size, 16_384);
        assert_eq!(reported.cores, CoreSet::grid(4, 4));
    }
}

#[test]
fn storage_of_sharded_operands_lies_in_them_and_follows_them() {
    let mut bench = Bench::n150();
    // The operands of the first run stay, so those of the second lie elsewhere.
    for _run in 0..2 {
        assert_in_operands(&mut bench, "add", 2);
        assert_in_operands(&mut bench, "gelu", 1);
    }
    assert_eq!(bench.ttnn.program_cache_entries(bench.mesh), 2);
}

#[test]
fn an_operation_in_place_returns_nothing() {
    let mut bench = Bench::n150();
    let cache = TensorSpec::tiled(&[32, 8, 1024, 128], DataType::Bfloat8B, Class::Dram);
    let cache = bench.zeros(&cache);
    let new = TensorSpec::tiled(&[1, 32, 32, 128], DataType::Bfloat16, Class::L1);
    let new = bench.zeros(&new.sharded(Shard::Height, Grid::new(8, 4)));
    let before = bench.ttnn.runtime().live_buffers(bench.mesh);
    assert!(
        bench
            .run("update_cache", &[&cache, &new])
            .unwrap()
            .is_none()
    );
    // The kernels' binaries are the only buffer that came.
    assert_eq!(bench.ttnn.runtime().live_buffers(bench.mesh), before + 1);
}

#[test]
fn each_device_of_a_collective_has_a_program_that_knows_its_place() {
    let mut bench = Bench::new(BoardKind::T3000, 2, 4);
    let part = TensorSpec::tiled(&[1, 1, 32, 512], DataType::Bfloat16, Class::Dram);
    let part = bench.zeros(&part);
    drop(bench.events());
    let whole = bench.run("all_gather", &[&part]).unwrap().unwrap();
    assert_eq!(whole.spec.shape, [1, 1, 32, 4096]);
    let events = bench.events();
    let mut programs = std::collections::BTreeSet::new();
    let mut readers = std::collections::BTreeSet::new();
    for event in &events {
        match event {
            EventKind::Dispatched { mesh, program, .. } => {
                programs.insert((mesh.0, program.0));
            }
            EventKind::KernelLoaded { kernel, .. } => {
                readers.insert(*kernel);
            }
            _other => {}
        }
    }
    assert_eq!(programs.len(), 8);
    // A reader and a writer each, none of them shared.
    assert_eq!(readers.len(), 16);
    assert!(bench.allocated(Class::L1Small) > 0);
    bench.ttnn.clear_program_cache(bench.mesh).unwrap();
    assert_eq!(bench.allocated(Class::L1Small), 0);
}
