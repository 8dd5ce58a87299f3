//! Captures over meshes and parts of them.

use super::rules::{assert_carried, cb, cb_freed, destroyed, run_on, script};
use super::scripts::{Step, prelude};
use super::{says, snapshot_of};
use ttmem_event::{CacheResult, MeshId, TraceId, What};

/// The mesh of the storage, its first chip alone, its second, and all chips.
const BOTH: u32 = 0;
const FIRST: u32 = 1;
const SECOND: u32 = 3;
const ALL: u32 = 2;

fn run(mesh: u32, program: u64) -> Step {
    run_on(mesh, program, CacheResult::Hit)
}

fn began(mesh: u32, trace: u32) -> Step {
    Step::Say(What::TraceBegan {
        mesh: MeshId(mesh),
        trace: TraceId(trace),
    })
}

fn ended(mesh: u32, trace: u32) -> Step {
    Step::Say(What::TraceEnded {
        mesh: MeshId(mesh),
        trace: TraceId(trace),
        bytes: 0,
    })
}

fn replayed(mesh: u32, trace: u32) -> Step {
    Step::Say(What::TraceReplayed {
        mesh: MeshId(mesh),
        trace: TraceId(trace),
    })
}

fn released(mesh: u32, trace: u32) -> Step {
    Step::Say(What::TraceReleased {
        mesh: MeshId(mesh),
        trace: TraceId(trace),
    })
}

fn is_run(what: &What) -> bool {
    matches!(what, What::Dispatched { .. })
}

#[test]
fn programs_of_single_chips_run_there_with_the_trace_of_the_mesh() {
    assert_carried(&script([
        cb(1, 0, 1),
        cb(2, 0, 2),
        cb(3, 0, 1),
        run(BOTH, 3),
        began(BOTH, 0),
        run(FIRST, 1),
        run(SECOND, 2),
        run(BOTH, 3),
        run(FIRST, 2),
        run(FIRST, 1),
        ended(BOTH, 0),
        run(BOTH, 3),
        replayed(BOTH, 0),
    ]));
}

#[test]
fn an_unfinished_capture_keeps_the_last_run_of_a_program_on_each_mesh() {
    let mut steps = script([cb(1, 0, 1), run(ALL, 1), began(ALL, 0)]);
    for _again in 0..10 {
        steps.extend([run(FIRST, 1), run(SECOND, 1)]);
    }
    // Storage that changes since, so that nothing but the capture needs these runs.
    steps.extend([cb(1, 1, 2), cb(2, 0, 1)]);
    assert_eq!(says(&snapshot_of(&steps).events, is_run), 3);
    steps.extend([ended(ALL, 0), run(ALL, 2), replayed(ALL, 0)]);
    assert_carried(&steps);
}

#[test]
fn runs_on_a_part_are_captured_where_they_were_though_captures_of_others_are_over() {
    assert_carried(&script([
        cb(1, 0, 1),
        cb(2, 0, 2),
        cb(3, 0, 1),
        began(FIRST, 0),
        run(FIRST, 1),
        ended(FIRST, 0),
        began(BOTH, 0),
        run(FIRST, 2),
        ended(BOTH, 0),
        // The first capture is only kept for the run of program 1, that of 2 for the trace.
        released(FIRST, 0),
        began(FIRST, 1),
        ended(FIRST, 1),
        run(BOTH, 2),
        run(BOTH, 3),
        replayed(BOTH, 0),
    ]));
}

#[test]
fn the_lowest_of_the_meshes_around_a_chip_captures_until_it_ends() {
    assert_carried(&script([
        cb(1, 0, 1),
        cb(2, 0, 2),
        cb(3, 0, 3),
        began(ALL, 0),
        began(BOTH, 0),
        run(FIRST, 1),
        ended(BOTH, 0),
        run(FIRST, 2),
        run(SECOND, 3),
        ended(ALL, 0),
        replayed(ALL, 0),
        replayed(BOTH, 0),
    ]));
}

#[test]
fn storage_that_was_gone_when_a_capture_ended_is_not_replayed() {
    assert_carried(&script([
        cb(1, 0, 1),
        run(BOTH, 1),
        cb_freed(1),
        began(BOTH, 0),
        run(FIRST, 1),
        ended(BOTH, 0),
        cb(1, 0, 3),
        cb(2, 0, 1),
        run(BOTH, 2),
        replayed(BOTH, 0),
    ]));
}

#[test]
fn a_capture_that_is_given_up_ends() {
    let steps = script([
        cb(1, 0, 1),
        cb(2, 0, 2),
        run(BOTH, 1),
        began(BOTH, 0),
        run(FIRST, 2),
        released(BOTH, 0),
        run(FIRST, 2),
        run(BOTH, 1),
        run(FIRST, 2),
    ]);
    assert_carried(&steps);
    // Runs that are not captured are kept once for each mesh.
    let mut many = steps.clone();
    many.extend((0..10).map(|_again| run(FIRST, 2)));
    let runs = |steps: &[Step]| says(&snapshot_of(steps).events, is_run);
    assert_eq!(runs(&many), runs(&steps));
}

#[test]
fn programs_that_are_gone_with_their_trace_leave_nothing_to_tell() {
    let steps = script([
        cb(1, 0, 1),
        began(BOTH, 0),
        run(FIRST, 1),
        run(SECOND, 1),
        ended(BOTH, 0),
        replayed(BOTH, 0),
        released(BOTH, 0),
        destroyed(1),
    ]);
    assert_carried(&steps);
    let nothing = snapshot_of(&prelude()).events.len();
    assert_eq!(snapshot_of(&steps).events.len(), nothing);
}
