//! The program cache: what a hit spares, what an entry holds, and how it goes.

use super::*;
use crate::runtime::FailureKind;
use crate::tensor::Shard;
use ttmem_event::CacheResult;
use ttmem_event::catalogue::Grid;

fn dispatches(events: &[EventKind]) -> Vec<CacheResult> {
    let dispatched = |event: &EventKind| match event {
        EventKind::Dispatched { program_cache, .. } => Some(*program_cache),
        _other => None,
    };
    events.iter().filter_map(dispatched).collect()
}

#[test]
fn a_cached_run_adds_no_program_storage_kernel_or_binary() {
    for operation in ["add", "matmul", "silu"] {
        let mut bench = Bench::new(BoardKind::T3000, 2, 4);
        let a = bench.zeros(&square(Class::Dram));
        let inputs = if operation == "silu" {
            vec![&a]
        } else {
            vec![&a, &a]
        };
        bench.run(operation, &inputs).unwrap();
        assert_eq!(dispatches(&bench.events()), [CacheResult::Miss]);
        for _again in 0..3 {
            bench.run(operation, &inputs).unwrap();
            let events = bench.events();
            assert_eq!(dispatches(&events), [CacheResult::Hit]);
            let added = count(&events, |event| {
                matches!(
                    event,
                    EventKind::ProgramCreated { .. }
                        | EventKind::CbAllocated { .. }
                        | EventKind::KernelLoaded { .. }
                        | EventKind::BinarySent { .. }
                        | EventKind::JitDiskLookup { .. }
                        | EventKind::CommandsCached { .. }
                )
            });
            assert_eq!(added, 0, "{operation}");
        }
        assert_eq!(bench.ttnn.program_cache_entries(bench.mesh), 1);
    }
}

#[test]
fn other_specs_and_attributes_are_other_programs() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    let b = bench.zeros(&square(Class::L1));
    bench.run("add", &[&a, &a]).unwrap();
    bench.run("add", &[&b, &b]).unwrap();
    bench.run("subtract", &[&a, &a]).unwrap();
    bench.run("add", &[&a]).unwrap();
    bench.run_with("sum", &[&a], &[("dim", 2)]).unwrap();
    bench.run_with("sum", &[&a], &[("dim", 3)]).unwrap();
    assert_eq!(bench.ttnn.program_cache_entries(bench.mesh), 6);
    // Another tensor of the same kind is not.
    let c = bench.zeros(&square(Class::Dram));
    bench.run("add", &[&c, &a]).unwrap();
    assert_eq!(bench.ttnn.program_cache_entries(bench.mesh), 6);
}

#[test]
fn a_cleared_cache_leaves_no_program_and_no_binary() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    let before = bench.allocated(Class::Dram);
    drop(bench.events());
    for operation in ["add", "matmul"] {
        let output = bench.run(operation, &[&a, &a]).unwrap().unwrap();
        bench.ttnn.deallocate(output).unwrap();
    }
    assert!(bench.allocated(Class::Dram) > before);
    bench.ttnn.clear_program_cache(bench.mesh).unwrap();
    assert_eq!(live_programs(&bench.events()), 0);
    assert_eq!(bench.allocated(Class::Dram), before);
    assert_eq!(bench.ttnn.program_cache_entries(bench.mesh), 0);
}

fn image(rows: u64) -> TensorSpec {
    TensorSpec::tiled(&[1, 1, rows, 64], DataType::Bfloat16, Class::L1)
        .sharded(Shard::Height, Grid::new(8, 8))
}

#[test]
fn tables_of_a_convolution_live_in_l1_small_as_long_as_its_program() {
    let mut bench = Bench::n150();
    let x = bench.zeros(&image(56 * 56));
    let weights = TensorSpec::tiled(&[1, 1, 576, 64], DataType::Bfloat16, Class::Dram);
    let weights = bench.zeros(&weights);
    let before = bench.allocated(Class::L1);
    let y = bench.run("conv2d", &[&x, &weights]).unwrap().unwrap();
    assert_eq!(y.spec.shape, [1, 1, 3136, 64]);
    let held = bench.allocated(Class::L1Small);
    assert!(held > 0);
    // The image with its halo is gone: only the output came to L1.
    let output = bench.ttnn.runtime().per_bank(y.buffer).unwrap();
    assert_eq!(bench.allocated(Class::L1), before + output);
    bench.run("conv2d", &[&x, &weights]).unwrap();
    assert_eq!(bench.allocated(Class::L1Small), held);
    bench.ttnn.clear_program_cache(bench.mesh).unwrap();
    assert_eq!(bench.allocated(Class::L1Small), 0);
}

#[test]
fn a_cache_of_many_convolutions_fills_l1_small_and_a_failed_one_leaves_nothing() {
    let mut bench = Bench::n150();
    let mut failure = None;
    for size in 0..512 {
        let x = bench.zeros(&image((64 + size) * 32));
        let l1 = bench.allocated(Class::L1);
        drop(bench.events());
        let ran = bench.run_with("conv2d", &[&x], &[("number", size)]);
        match ran {
            Ok(y) => bench.ttnn.deallocate(y.unwrap()).unwrap(),
            Err(error) => {
                failure = Some(error.kind());
                // Halo or convolution: whatever was built last is gone, with its output.
                let events = bench.events();
                let entries = count(&events, |event| {
                    matches!(event, EventKind::Dispatched { .. })
                });
                assert_eq!(live_programs(&events), entries);
                assert_eq!(bench.allocated(Class::L1), l1);
                break;
            }
        }
        bench.ttnn.deallocate(x).unwrap();
    }
    assert_eq!(failure, Some(FailureKind::OutOfMemory));
    bench.ttnn.clear_program_cache(bench.mesh).unwrap();
    assert_eq!(bench.allocated(Class::L1Small), 0);
}

#[test]
fn closing_ends_all_programs() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    bench.run("add", &[&a, &a]).unwrap();
    bench.run("all_reduce", &[&a]).unwrap();
    bench.ttnn.close();
    let events = bench.journal.events();
    assert_eq!(live_programs(&events), 0);
    assert!(matches!(
        events.last(),
        Some(EventKind::DeviceClosed { .. })
    ));
}
