//! Calls that fail: with a clear text, and with nothing left behind.

use super::*;
use crate::runtime::{FailureKind, RuntimeError};

/// Fills L1 until less than `left` bytes per bank remain.
fn fill_l1(bench: &mut Bench, left: u64) -> Vec<Tensor> {
    let spec = square(Class::L1);
    let mut tensors = Vec::new();
    let free = |bench: &mut Bench| {
        let statistics = bench.ttnn.runtime().statistics(bench.mesh, Class::L1);
        statistics.unwrap().free
    };
    while free(bench) > left {
        tensors.push(bench.zeros(&spec));
    }
    tensors
}

#[test]
fn a_clash_gives_the_output_back_and_leaves_no_program() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    let kept = fill_l1(&mut bench, 160_000);
    let (dram, l1) = (bench.allocated(Class::Dram), bench.allocated(Class::L1));
    drop(bench.events());
    let error = bench.run("matmul", &[&a, &a]).unwrap_err();
    assert_eq!(error.kind(), FailureKind::Clash);
    assert!(error.to_string().contains("dataflow buffers"), "{error}");
    let events = bench.events();
    assert_eq!(live_programs(&events), 0);
    assert_eq!(
        count(&events, |event| matches!(event, EventKind::Clashed { .. })),
        1
    );
    assert_eq!(
        (bench.allocated(Class::Dram), bench.allocated(Class::L1)),
        (dram, l1)
    );
    assert_eq!(bench.ttnn.program_cache_entries(bench.mesh), 0);
    for tensor in kept {
        bench.ttnn.deallocate(tensor).unwrap();
    }
    bench.run("matmul", &[&a, &a]).unwrap();
}

#[test]
fn a_cached_program_that_clashes_stays_cached() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    bench.run("matmul", &[&a, &a]).unwrap();
    let kept = fill_l1(&mut bench, 160_000);
    let dram = bench.allocated(Class::Dram);
    let error = bench.run("matmul", &[&a, &a]).unwrap_err();
    assert_eq!(error.kind(), FailureKind::Clash);
    assert_eq!(bench.allocated(Class::Dram), dram);
    for tensor in kept {
        bench.ttnn.deallocate(tensor).unwrap();
    }
    drop(bench.events());
    bench.run("matmul", &[&a, &a]).unwrap();
    let events = bench.events();
    assert_eq!(
        count(&events, |event| matches!(
            event,
            EventKind::ProgramCreated { .. }
        )),
        0
    );
}

#[test]
fn no_room_for_the_output_is_out_of_memory_and_builds_nothing() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::L1));
    let _kept = fill_l1(&mut bench, 32_767);
    drop(bench.events());
    let error = bench.run("add", &[&a, &a]).unwrap_err();
    assert_eq!(error.kind(), FailureKind::OutOfMemory);
    let events = bench.events();
    assert_eq!(
        count(&events, |event| matches!(
            event,
            EventKind::ProgramCreated { .. }
        )),
        0
    );
}

#[test]
fn an_unknown_operation_is_answered_with_those_there_are() {
    let mut bench = Bench::n150();
    let error = bench.run("matmull", &[]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("there is no operation `matmull`"),
        "{text}"
    );
    assert!(
        text.contains("matmul,") && text.contains("all_gather"),
        "{text}"
    );
}

#[test]
fn wrong_calls_are_refused_before_anything_is_allocated() {
    let mut bench = Bench::new(BoardKind::N300, 1, 2);
    let a = bench.zeros(&square(Class::Dram));
    drop(bench.events());
    let texts = [
        (
            bench.run("matmul", &[&a]),
            "matmul: takes 2 to 3 inputs, not 1",
        ),
        (
            bench.run_with("add", &[&a], &[("dmi", 1)]),
            "add: has no attribute `dmi`",
        ),
        (
            bench.run("slice", &[&a]),
            "slice: needs its output to be stated",
        ),
    ];
    for (outcome, text) in texts {
        let error = outcome.unwrap_err();
        assert!(error.to_string().starts_with(text), "{error}");
        assert_eq!(error.kind(), FailureKind::Refused);
    }
    let call = Call {
        operation: "fill_cache",
        inputs: &[&a, &a],
        output: Some(square(Class::Dram)),
        attributes: &[],
    };
    let error = bench.ttnn.run(bench.mesh, &call).unwrap_err();
    assert!(error.to_string().contains("in place"), "{error}");
    let half = bench
        .ttnn
        .runtime()
        .create_submesh(bench.mesh, 1, 1, (0, 1))
        .unwrap();
    let call = Call {
        operation: "add",
        output: None,
        ..call
    };
    let error = bench.ttnn.run(half, &call).unwrap_err();
    assert!(error.to_string().contains("another mesh"), "{error}");
    let created = |event: &EventKind| {
        matches!(
            event,
            EventKind::BufferAllocated { .. } | EventKind::ProgramCreated { .. }
        )
    };
    assert_eq!(count(&bench.events(), created), 0);
}

#[test]
fn a_freed_input_is_refused_in_the_cached_path_too() {
    let mut bench = Bench::n150();
    let a = bench.zeros(&square(Class::Dram));
    bench.run("add", &[&a, &a]).unwrap();
    bench.ttnn.deallocate(a.clone()).unwrap();
    let error = bench.run("add", &[&a, &a]).unwrap_err();
    assert_eq!(error, OperationError::Runtime(RuntimeError::BufferFreed));
}

#[test]
fn absurd_shapes_and_attributes_end_in_an_error_or_a_result() {
    let mut bench = Bench::n150();
    let small = TensorSpec::tiled(&[1, 1, 32, 32], DataType::Bfloat16, Class::Dram);
    let a = bench.zeros(&small);
    let vector = bench.zeros(&TensorSpec::tiled(&[7], DataType::Float32, Class::Dram));
    let scalar = bench.zeros(&TensorSpec::tiled(&[], DataType::Bfloat8B, Class::Dram));
    let every = [
        "dim", "k", "kernel", "stride", "padding", "batch", "height", "width", "scale",
    ];
    for name in super::super::operations() {
        for input in [&a, &vector, &scalar] {
            for attribute in every {
                for value in [0, 1, u64::MAX] {
                    let inputs = [input; 3];
                    for taken in 1..=3 {
                        // What counts is that it returns, and that the output can be given back.
                        let ran = bench.run_with(name, &inputs[..taken], &[(attribute, value)]);
                        if let Ok(Some(output)) = ran {
                            bench.ttnn.deallocate(output).unwrap();
                        }
                    }
                }
            }
        }
        bench.ttnn.clear_program_cache(bench.mesh).unwrap();
        assert_eq!(bench.ttnn.runtime().live_buffers(bench.mesh), 3, "{name}");
    }
}
