//! Traces: where their commands lie, and what a replay writes over.

use crate::rig::{Rig, count, grid};
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{CacheResult, Class, CoreType, Direction, EventKind};
use ttmem_model::runtime::{FailureKind, RuntimeError, RuntimeOptions, Trace, Workload};

fn with_region(bytes: u64) -> Rig {
    let options = RuntimeOptions {
        trace_region_size: bytes,
        ..RuntimeOptions::of(BoardKind::N150)
    };
    Rig::open(options, 1, 1)
}

/// Captures one run of each workload.
fn capture(rig: &mut Rig, workloads: &[Workload]) -> (Trace, Result<(), RuntimeError>) {
    let trace = rig.runtime.begin_trace(rig.mesh);
    let trace = trace.expect("nothing is being captured");
    for workload in workloads {
        rig.run_cached(*workload);
    }
    (trace, rig.runtime.end_trace(trace))
}

/// Two programs that cannot be in the ring together, run once each.
fn two_large_programs(rig: &mut Rig) -> [Workload; 2] {
    ["one", "two"].map(|name| {
        let workload = rig.one_kernel(name, &grid(8, 8), 60_000);
        rig.run(workload);
        workload
    })
}

#[test]
fn a_trace_lies_in_its_region_if_there_is_one() {
    let mut rig = with_region(1 << 20);
    let workloads = two_large_programs(&mut rig);
    let (trace, stored) = capture(&mut rig, &workloads);
    assert_eq!(stored, Ok(()));
    let region = rig.runtime.capacities().trace;
    let row = rig.account.buffers().pop().expect("the trace is one");
    assert_eq!((row.class, row.address), (Class::Trace, region.base));
    assert!(rig.account.charged(0, Class::Trace) >= row.requested_bytes);
    rig.runtime.release(trace).expect("it is there");
    assert_eq!(rig.account.charged(0, Class::Trace), 0);
}

#[test]
fn a_trace_without_a_region_lies_at_the_top_of_dram() {
    let mut rig = with_region(0);
    let workloads = two_large_programs(&mut rig);
    let (trace, stored) = capture(&mut rig, &workloads);
    assert_eq!(stored, Ok(()));
    let row = rig.account.buffers().pop().expect("the trace is one");
    assert_eq!(
        (row.class, row.direction),
        (Class::Dram, Direction::TopDown)
    );
    let binaries = rig.account.buffers()[0];
    assert!(row.address < binaries.address);
    assert!(row.address > rig.runtime.capacities().dram.end() / 2);
    rig.runtime.release(trace).expect("it is there");
    assert_eq!(rig.account.buffers().len(), 2);
}

#[test]
fn a_trace_that_is_larger_than_its_region_is_refused() {
    // One page of 8,192 bytes in each of twelve banks.
    let mut rig = with_region(98_304);
    let workloads = two_large_programs(&mut rig);
    rig.account.news();
    let (trace, stored) = capture(&mut rig, &workloads);
    let error = stored.expect_err("its commands and texts need 15 pages");
    assert_eq!(error.kind(), FailureKind::TraceTooLarge);
    assert_eq!(
        error.to_string(),
        "Creating trace buffers of size 122880B on MeshDevice 0, but only 98304B is allocated \
         for trace region."
    );
    let events = rig.account.news();
    let failed = events.iter().find_map(|event| match event {
        EventKind::AllocationFailed {
            class,
            requested_bytes,
            per_bank_bytes,
            bank_bytes,
            ..
        } => Some((*class, *requested_bytes, *per_bank_bytes, *bank_bytes)),
        _other => None,
    });
    assert_eq!(failed, Some((Class::Trace, 122_880, 16_384, 8_192)));
    // It is given up, and the mesh can capture again.
    assert!(rig.runtime.replay(trace).is_err());
    let (_trace, stored) = capture(&mut rig, &workloads[..1]);
    assert_eq!(stored, Ok(()));
    rig.runtime.close();
    rig.account.assert_nothing_left();
}

#[test]
fn a_program_that_never_ran_cannot_be_captured() {
    let mut rig = with_region(1 << 20);
    let workload = rig.matmul(&grid(8, 8));
    let trace = rig
        .runtime
        .begin_trace(rig.mesh)
        .expect("nothing is captured");
    let error = rig.try_run(workload, CacheResult::Miss);
    let error = error.expect_err("its binary would have to be written");
    assert_eq!(error.kind(), FailureKind::Refused);
    rig.runtime.end_trace(trace).expect("it is being captured");
}

#[test]
fn a_captured_run_is_no_run_yet_and_a_replay_is_one_event() {
    let mut rig = with_region(1 << 20);
    let workloads = two_large_programs(&mut rig);
    let before = rig.account.ring(CoreType::Tensix);
    let resident = rig.account.geometry(0).kernel_resident_bytes;
    rig.account.news();
    let (trace, stored) = capture(&mut rig, &workloads[..1]);
    assert_eq!(stored, Ok(()));
    let captured = rig.account.news();
    assert_eq!(count(&captured, "ConfigRingAllocated"), 0);
    assert_eq!(count(&captured, "Prefetched"), 0);
    assert!(
        rig.account
            .ring(CoreType::Tensix)
            .entries()
            .eq(before.entries())
    );
    assert_eq!(rig.account.geometry(0).kernel_resident_bytes, resident);
    for _replay in 0..3 {
        rig.runtime.replay(trace).expect("it is stored");
    }
    let replayed = rig.account.news();
    assert_eq!(count(&replayed, "TraceReplayed"), 3);
    assert_eq!(count(&replayed, "Dispatched"), 0);
    assert_eq!(rig.account.caches(0).trace_replays, 3);
    assert_eq!(rig.runtime.counts().trace_replays, 3);
}

#[test]
fn a_replay_writes_over_the_ring_and_the_prefetchers_cache() {
    let mut rig = with_region(1 << 20);
    let workloads = two_large_programs(&mut rig);
    let (trace, stored) = capture(&mut rig, &workloads);
    assert_eq!(stored, Ok(()));
    assert!(rig.account.prefetcher().used_bytes > 0);
    rig.runtime.replay(trace).expect("it is stored");
    let ring = rig.account.ring(CoreType::Tensix);
    assert!(ring.filled && ring.entries().len() == 0);
    assert_eq!(rig.account.prefetcher().used_bytes, 0);
    // What runs next waits for the trace and finds nothing cached.
    let stalls = ring.stalls;
    rig.run_cached(workloads[0]);
    let ring = rig.account.ring(CoreType::Tensix);
    assert_eq!((ring.stalls, ring.entries().len()), (stalls + 1, 1));
    assert!(!ring.filled);
    let prefetcher = rig.account.prefetcher();
    assert_eq!(prefetcher.misses, 3);
}

#[test]
fn traces_need_fast_dispatch() {
    let mut rig = Rig::slow_n150();
    let refused = rig.runtime.begin_trace(rig.mesh);
    assert_eq!(
        refused,
        Err(RuntimeError::Refused("traces need fast dispatch"))
    );
}
