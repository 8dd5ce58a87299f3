//! Single rules that are easy to get wrong.

use super::scripts::{Step, cores, device, mesh, prelude};
use super::{LiveSet, Server, both, differences, live_after, says, snapshot_of, time_of};
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoreSet, CoresId, DeviceId, Direction, DispatchPath,
    Event, KernelId, KernelKind, Layout, MeshId, ProgramId, Source, TextId, TraceId, What,
};

fn buffer_on(mesh: u32, buffer: u64, per_bank_bytes: u64) -> Step {
    Step::Say(What::BufferAllocated {
        mesh: MeshId(mesh),
        buffer: BufferId(buffer),
        class: Class::Dram,
        layout: Layout::Interleaved,
        direction: Direction::BottomUp,
        address: 64,
        requested_bytes: per_bank_bytes,
        per_bank_bytes,
        page_bytes: 32,
        cores: CoresId::NONE,
        operation: TextId::NONE,
        banks: 4,
    })
}

fn buffer(buffer: u64, per_bank_bytes: u64) -> Step {
    buffer_on(0, buffer, per_bank_bytes)
}

fn free(buffer: u64) -> Step {
    Step::Say(What::BufferFreed {
        mesh: MeshId(0),
        buffer: BufferId(buffer),
    })
}

fn capacity(banks: u16, per_bank_bytes: u64) -> Step {
    Step::Say(What::CapacityReported {
        mesh: MeshId(0),
        class: Class::Dram,
        banks,
        base: 0,
        per_bank_bytes,
        alignment: 32,
    })
}

pub(super) fn cb(program: u64, number: u32, cores: u32) -> Step {
    Step::Say(What::CbAllocated {
        mesh: MeshId(0),
        program: ProgramId(program),
        cb: number,
        kind: CbKind::Local,
        address: 512,
        size_bytes: 64,
        cores: CoresId(cores),
    })
}

pub(super) fn cb_freed(program: u64) -> Step {
    Step::Say(What::CbFreed {
        mesh: MeshId(0),
        program: ProgramId(program),
        cb: None,
    })
}

fn kernel(program: u64, binary_bytes: u64) -> Step {
    Step::Say(What::KernelLoaded {
        mesh: MeshId(0),
        program: ProgramId(program),
        kernel: KernelId(1),
        name: TextId::NONE,
        binary_bytes,
        cores: CoresId(1),
        core_count: 0,
        kind: KernelKind::Application,
        core_type: ttmem_event::CoreType::Tensix,
    })
}

pub(super) fn run_on(mesh: u32, program: u64, program_cache: CacheResult) -> Step {
    Step::Say(What::Dispatched {
        mesh: MeshId(mesh),
        program: ProgramId(program),
        runtime_id: program,
        operation: TextId::NONE,
        program_cache,
        binary_reused: true,
        path: DispatchPath::Fast,
    })
}

fn run(program: u64) -> Step {
    run_on(0, program, CacheResult::Hit)
}

pub(super) fn destroyed(program: u64) -> Step {
    Step::Say(What::ProgramDestroyed {
        program: ProgramId(program),
    })
}

fn close_device(device: u32) -> Step {
    Step::Say(What::DeviceClosed {
        device: DeviceId(device),
    })
}

pub(super) fn script(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    prelude().into_iter().chain(steps).collect()
}

/// A reconnect after these steps changes nothing, and neither does one after each of them.
pub(super) fn assert_carried(steps: &[Step]) {
    for cut in 0..=steps.len() {
        let source = match steps.last() {
            Some(Step::Say(what)) if what.is_legacy() => Source::Legacy,
            _newer => Source::Attached,
        };
        let (all, again) = both(steps, cut, usize::MAX, source);
        assert_eq!(differences(&again, &all), [""; 0], "cut at {cut}");
    }
}

fn is_buffer(what: &What) -> bool {
    matches!(what, What::BufferAllocated { .. })
}

#[test]
fn a_freed_buffer_is_not_told_but_its_peak_is() {
    let steps = script([buffer(1, 256), buffer(2, 100), free(1), free(2)]);
    let snapshot = snapshot_of(&steps);
    assert_eq!(says(&snapshot.events, is_buffer), 0);
    let peak = snapshot.peaks.first().expect("something was held");
    let at = steps.len() - 3;
    assert_eq!((peak.bytes, peak.time), ((256 + 100) * 4, time_of(at)));
    assert_carried(&steps);
}

#[test]
fn a_buffer_allocated_anew_with_another_size_replaces_the_first() {
    let steps = script([buffer(1, 256), buffer(1, 100)]);
    assert_eq!(says(&snapshot_of(&steps).events, is_buffer), 1);
    assert_carried(&steps);
}

#[test]
fn a_refused_allocation_still_ends_the_live_buffer_of_its_id() {
    let steps = script([buffer(1, 256), buffer(1, 0)]);
    assert_eq!(says(&snapshot_of(&steps).events, is_buffer), 0);
    assert_carried(&steps);
}

#[test]
fn an_allocation_of_nearly_all_numbers_is_refused_beside_a_small_one() {
    let steps = script([buffer(1, 256), buffer(2, u64::MAX / 4)]);
    assert_eq!(says(&snapshot_of(&steps).events, is_buffer), 1);
    assert_carried(&steps);
}

#[test]
fn a_repeated_allocation_keeps_the_time_of_the_first() {
    let steps = script([buffer(1, 256), buffer(1, 256)]);
    let snapshot = snapshot_of(&steps);
    let told = snapshot.events.iter().find(|event| is_buffer(&event.what));
    assert_eq!(told.map(|event| event.time), Some(time_of(steps.len() - 2)));
    assert_carried(&steps);
}

#[test]
fn a_free_counts_for_the_buffers_own_mesh_whatever_mesh_it_names() {
    assert_carried(&script([buffer_on(2, 1, 64), free(1), buffer_on(2, 2, 64)]));
}

#[test]
fn an_allocation_before_its_mesh_was_defined_stays_refused() {
    let late = Step::Define(mesh(5, &[0]));
    let steps = script([buffer_on(5, 1, 64), late, buffer_on(5, 2, 64)]);
    assert_eq!(says(&snapshot_of(&steps).events, is_buffer), 1);
    assert_carried(&steps);
}

#[test]
fn a_buffer_keeps_the_banks_of_the_capacity_it_was_placed_under() {
    let steps = script([buffer(1, 64), capacity(8, 4096), buffer(2, 64)]);
    assert_carried(&steps);
    let twice = script([capacity(8, 4096), capacity(2, 4096), capacity(4, 4096)]);
    let is_dram = |what: &What| {
        matches!(
            what,
            What::CapacityReported {
                class: Class::Dram,
                ..
            }
        )
    };
    // Without a buffer under the earlier ones, the last report of the mesh is enough.
    assert_eq!(says(&snapshot_of(&twice).events, is_dram), 1);
}

#[test]
fn a_verdict_on_statistics_outlives_the_buffers_it_was_about() {
    let statistics = |allocated_bytes| {
        Step::Say(What::StatisticsReported {
            mesh: MeshId(0),
            class: Class::Dram,
            allocated_bytes,
            largest_free_bytes: 0,
        })
    };
    assert_carried(&script([buffer(1, 64), statistics(64), free(1)]));
    assert_carried(&script([buffer(1, 64), statistics(63), free(1)]));
}

#[test]
fn two_ids_of_one_chip_share_its_totals() {
    let twin = [
        Step::Define(device(3, Some(1))),
        Step::Define(mesh(5, &[3])),
    ];
    let steps = script(
        twin.into_iter()
            .chain([buffer_on(3, 1, 64), buffer_on(5, 2, 64)]),
    );
    assert_eq!(snapshot_of(&steps).peaks.len(), 1);
    assert_carried(&steps);
}

#[test]
fn closing_a_mesh_ends_its_buffers_and_leaves_those_of_others() {
    let close = Step::Say(What::MeshClosed { mesh: MeshId(0) });
    let steps = script([buffer(1, 64), buffer_on(1, 2, 64), close]);
    assert_eq!(says(&snapshot_of(&steps).events, is_buffer), 1);
    assert_carried(&steps);
}

#[test]
fn the_highest_buffer_counts_refused_ones_too() {
    let live = live_after(&script([buffer(7, 64), buffer(9, 0), free(7)]));
    assert_eq!(live.highest_buffer(), 9);
}

#[test]
fn a_destroyed_program_leaves_its_cores_to_nobody() {
    // Program 1 ran on them before; it must not come back when 2 is gone.
    let steps = script([cb(1, 0, 1), run(1), cb(2, 0, 2), run(2), destroyed(2)]);
    assert_carried(&steps);
    let nothing = script([cb(2, 0, 2), run(2), destroyed(2)]);
    let capacities = snapshot_of(&prelude()).events.len();
    assert_eq!(snapshot_of(&nothing).events.len(), capacities);
}

#[test]
fn cores_stay_with_the_program_that_ran_there_when_its_storage_moves() {
    assert_carried(&script([
        cb(1, 0, 1),
        run(1),
        cb(2, 0, 2),
        run(2),
        cb_freed(2),
    ]));
    assert_carried(&script([
        cb(1, 0, 1),
        run(1),
        cb(2, 0, 2),
        run(2),
        cb(2, 0, 3),
    ]));
}

#[test]
fn a_kernel_reported_again_keeps_its_first_time_and_another_size_replaces_it() {
    assert_carried(&script([kernel(1, 100), kernel(1, 100)]));
    assert_carried(&script([kernel(1, 100), kernel(1, 200), kernel(1, 100)]));
}

#[test]
fn closing_one_device_of_a_mesh_leaves_a_program_on_the_others() {
    assert_carried(&script([cb(1, 0, 1), run(1), close_device(0)]));
    assert_carried(&script([
        cb(1, 0, 1),
        run(1),
        close_device(0),
        run(1),
        run(1),
    ]));
}

#[test]
fn counts_of_overlapping_meshes_add_up_on_the_chips_they_share() {
    let hit = |mesh| run_on(mesh, 1, CacheResult::Hit);
    assert_carried(&script([
        hit(0),
        hit(0),
        hit(1),
        hit(2),
        hit(3),
        hit(3),
        hit(2),
    ]));
}

#[test]
fn a_miss_is_told_once_and_hits_are_left_to_the_counters() {
    let miss = run_on(0, 1, CacheResult::Miss);
    let snapshot = snapshot_of(&script([cb(1, 0, 1), miss, run(1), run(1)]));
    let is_run = |result: CacheResult| move |what: &What| matches!(*what, What::Dispatched { program_cache, .. } if program_cache == result);
    assert_eq!(says(&snapshot.events, is_run(CacheResult::Miss)), 1);
    assert_eq!(says(&snapshot.events, is_run(CacheResult::Hit)), 0);
    let counters = snapshot.counters.first().expect("the program ran");
    assert_eq!((counters.dispatches, counters.program_cache_hits), (3, 2));
}

#[test]
fn a_trace_leaves_the_cores_to_what_its_programs_were_when_it_ended() {
    let (mesh, trace) = (MeshId(0), TraceId(1));
    let began = Step::Say(What::TraceBegan { mesh, trace });
    let bytes = 0;
    let ended = Step::Say(What::TraceEnded { mesh, trace, bytes });
    let replayed = Step::Say(What::TraceReplayed { mesh, trace });
    let released = Step::Say(What::TraceReleased { mesh, trace });
    assert_carried(&script([
        cb(1, 0, 1),
        cb(2, 0, 2),
        run(1),
        began,
        run(1),
        run(2),
        ended,
        cb(2, 0, 3),
        replayed,
        released,
        run(1),
    ]));
}

#[test]
fn programs_that_come_and_go_do_not_grow_the_log() {
    let mut live = live_after(&script([cb(0, 0, 1), run(0)]));
    let mut most = 0;
    for program in 1..20_000 {
        for step in [
            cb(program, 0, 2),
            run(program),
            cb(0, 1, 3),
            destroyed(program),
        ] {
            if let Step::Say(what) = step {
                live.apply(&Event {
                    time: program,
                    what,
                });
            }
        }
        most = most.max(live.programs.log_len());
    }
    assert!(most < 10_000, "{most} events are kept");
    assert!(live.snapshot().events.len() < 20);
}

#[test]
fn an_old_senders_aliases_are_given_back_one_by_one() {
    let (device, id) = (0, 64);
    let allocated = |size_bytes| {
        let class = Class::Dram;
        Step::Say(What::LegacyAllocated {
            device,
            class,
            size_bytes,
            id,
        })
    };
    let freed = || Step::Say(What::LegacyFreed { device, id });
    assert_carried(&[
        allocated(10),
        allocated(10),
        allocated(10),
        freed(),
        freed(),
        freed(),
    ]);
    assert_carried(&[allocated(10), allocated(10), allocated(20), freed()]);
}

#[test]
fn an_old_senders_kernel_of_changing_size_is_the_last_one() {
    let loaded = |size_bytes| {
        Step::Say(What::LegacyKernelLoaded {
            device: 0,
            kind: KernelKind::Application,
            size_bytes,
            id: 7,
        })
    };
    assert_carried(&[loaded(10), loaded(20), loaded(10), loaded(10), loaded(10)]);
}

#[test]
fn a_snapshot_of_nothing_is_empty_and_brings_no_anomaly() {
    let snapshot = LiveSet::default().snapshot();
    assert!(snapshot.events.is_empty() && snapshot.peaks.is_empty());
    let steps = script([
        Step::Define(cores(4, CoreSet::grid(1, 1))),
        cb(1, 0, 4),
        cb(1, 0, 1),
        run(1),
        cb(2, 0, 2),
        run(2),
        cb_freed(2),
        destroyed(2),
        buffer(1, 64),
    ]);
    let mut server = Server::new(Source::Attached);
    let definitions = steps.iter().filter_map(|step| match step {
        Step::Define(definition) => Some(definition.clone()),
        Step::Say(_what) => None,
    });
    let definitions: Vec<_> = definitions.collect();
    server.resync(&definitions, snapshot_of(&steps));
    // Programs that nobody created were assumed when they were first heard of, too.
    let anomalies = server.ledger.view().anomalies;
    let implicit = anomalies.of(ttmem_ledger::Anomaly::ImplicitProgram);
    assert_eq!(anomalies.total(), implicit);
}
