//! A server that is sent the state of a process knows what one knows that heard everything.
//!
//! Events of the whole vocabulary, sensible and hostile, are applied to a ledger;
//! another hears nothing until some moment, is then sent the state of an account
//! that lived through the same, and hears the rest. Whatever a reader can see must
//! be the same: live set, totals, peaks and what was live at each, counters, marks,
//! residents, anomalies, leaks.

use crate::scripts::{Step, any_definition, any_what, any_what_as_often, prelude};
use crate::state::{live_set, peaks_of};
use crate::world::{buffer, identity};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use ttmem_account::Account;
use ttmem_event::wire::Clock;
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoreType, CoresId, Definition, DeviceId, DispatchPath,
    Event, EventKind, KernelKind, MeshId, ProgramId, Source, TextId, TraceId,
};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{AccountLimits, Ledger, Limits, Resync, View};

/// A ledger with one process.
struct Server {
    ledger: Ledger,
    process: u32,
}

impl Server {
    fn new(source: Source) -> Self {
        let mut ledger = Ledger::new(Limits::default());
        let process = ledger.join(identity("workload", source, ""));
        Self { ledger, process }
    }

    fn play(&mut self, step: &Step, time: u64) {
        // Refusals are part of the play.
        match step {
            Step::Define(definition) => {
                let _refused = self.ledger.define(self.process, definition);
            }
            Step::Say(content) => {
                let event = Event {
                    time,
                    kind: *content,
                };
                let _refused = self.ledger.tell(self.process, &event);
            }
            Step::Resync(_) | Step::Leave(_) => {}
        }
    }

    fn view(&mut self) -> View {
        let view = self.ledger.view();
        assert_eq!(view.audit(), Ok(()));
        view
    }
}

/// A client's account, and the definitions that it sends before its state.
struct Client {
    account: Account,
    definitions: Vec<Definition>,
}

impl Client {
    fn after(steps: &[Step], source: Source) -> Self {
        let limits = AccountLimits::default();
        let mut account = Account::new(source == Source::Legacy);
        let mut definitions = Vec::new();
        for (time, step) in (1..).zip(steps) {
            match step {
                Step::Define(definition) => {
                    let _refused = account.define(definition, &limits, &mut ());
                    definitions.push(definition.clone());
                }
                Step::Say(content) => {
                    let event = Event {
                        time,
                        kind: *content,
                    };
                    let _refused = account.apply(&event, &limits, &mut ());
                }
                Step::Resync(_) | Step::Leave(_) => {}
            }
        }
        Self {
            account,
            definitions,
        }
    }

    fn state(&self) -> Vec<u8> {
        let mut state = Vec::new();
        self.account.save(&mut state);
        state
    }

    fn connect(&self, server: &mut Server) {
        let facts = self.account.facts();
        let resync = Resync {
            definitions: self.definitions.clone(),
            state: self.state(),
            clock: Clock::UNIX_NANOS,
            lost_events: facts.lost_events,
            elided_events: facts.elided_events,
        };
        server.ledger.resync(server.process, resync);
    }
}

/// All that a reader can see, in an order that does not depend on slots.
fn visible(view: &View) -> Vec<String> {
    let mut lines = live_set(view);
    let process = view.processes.iter().next().expect("it lives");
    let program = |slot: u32| process.rows.programs.get(slot).map(|program| program.id);
    for (device, residents) in view.devices.iter().zip(view.residents()) {
        for (core_type, residents) in CoreType::ALL.iter().zip(residents) {
            let mut on: Vec<_> = residents
                .iter()
                .map(|(owner, cores)| (program(owner.program), *cores))
                .collect();
            on.sort_by_key(|(program, _cores)| *program);
            lines.push(format!("{:?} {core_type:?} {on:?}", device.key));
        }
        lines.push(format!("{:?} {:?}", device.key, device.facts));
    }
    for (_slot, row) in process.rows.buffers.iter() {
        lines.push(format!("{} placed {} {}", row.id, row.time, row.order));
    }
    for (_slot, program) in process.rows.programs.iter() {
        lines.push(format!("{} {:?}", program.id.0, program.finalized));
        for on in &program.on {
            let key = &process.account.devices[on.device as usize].key;
            let times = (on.first_dispatch, on.last_dispatch);
            let misses = on.program_cache_misses;
            let entries = (on.cbs(), on.kernels());
            lines.push(format!(
                "{} {key:?} {times:?} {misses} {entries:?}",
                program.id.0
            ));
        }
    }
    lines.extend(peaks_of(view));
    for (mark, _peaks) in view.marks.iter() {
        lines.push(format!("{mark:?}"));
    }
    lines.push(format!("{:?}", view.geometry().devices));
    lines.sort();
    lines
}

/// What is in one list and not in the other, to read when they differ.
fn difference(one: &[String], other: &[String]) -> Vec<String> {
    let mut count: BTreeMap<&String, i32> = BTreeMap::new();
    one.iter()
        .for_each(|line| *count.entry(line).or_default() += 1);
    other
        .iter()
        .for_each(|line| *count.entry(line).or_default() -= 1);
    let differ = count.into_iter().filter(|(_line, count)| *count != 0);
    let sign = |count: i32| {
        if count > 0 {
            "only after a reconnect"
        } else {
            "missing after one"
        }
    };
    differ
        .map(|(line, count)| format!("{}: {line}", sign(count)))
        .collect()
}

/// What differs when the server hears of the process only after `cut` steps.
fn lost_by_reconnecting(steps: &[Step], cut: usize, source: Source) -> Vec<String> {
    let cut = cut.min(steps.len());
    let mut heard_all = Server::new(source);
    for (time, step) in (1..).zip(steps) {
        heard_all.play(step, time);
    }
    let mut reconnected = Server::new(source);
    Client::after(&steps[..cut], source).connect(&mut reconnected);
    for (time, step) in (1..).zip(steps).skip(cut) {
        reconnected.play(step, time);
    }
    difference(&visible(&reconnected.view()), &visible(&heard_all.view()))
}

/// A client never uses the id of a program again.
fn with_prelude(steps: impl Strategy<Value = Vec<Step>>) -> impl Strategy<Value = Vec<Step>> {
    steps.prop_map(|mut steps| {
        let mut lives: BTreeMap<u64, u64> = BTreeMap::new();
        for step in &mut steps {
            let Step::Say(content) = step else { continue };
            let is_end = matches!(content, EventKind::ProgramDestroyed { .. });
            if let Some(program) = program_mut(content) {
                let life = lives.entry(program.0).or_insert(0);
                program.0 += 100 * *life;
                *life += u64::from(is_end);
            }
        }
        // Texts come before what uses them, as a client sends them.
        let texts = (1..4).map(|id| {
            let (id, text) = (TextId(id), format!("text {id}"));
            Step::Define(Definition::Text { id, text })
        });
        texts.chain(prelude()).chain(steps).collect()
    })
}

fn program_mut(content: &mut EventKind) -> Option<&mut ProgramId> {
    match content {
        EventKind::ProgramCreated { program, .. }
        | EventKind::ProgramFinalized { program, .. }
        | EventKind::CommandsCached { program, .. }
        | EventKind::BinarySent { program, .. }
        | EventKind::BinaryStatusChanged { program, .. }
        | EventKind::CbAllocated { program, .. }
        | EventKind::CbFreed { program, .. }
        | EventKind::KernelLoaded { program, .. }
        | EventKind::KernelUnloaded { program, .. }
        | EventKind::JitDiskLookup { program, .. }
        | EventKind::ProgramDestroyed { program }
        | EventKind::Dispatched { program, .. } => Some(program),
        _other => None,
    }
}

/// Everything that a client may say, and late definitions.
fn any_script(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => any_what(false).prop_map(Step::Say),
        1 => any_definition().prop_map(Step::Define),
    ];
    with_prelude(vec(step, 0..most))
}

/// Programs, and traces that capture them on meshes and on parts of them.
fn any_script_of_captures(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let content = any_what_as_often(|kind| match kind {
        14 => 12,
        4 | 24..=26 => 5,
        11 => 3,
        5 | 10 | 27 => 1,
        _other => 0,
    });
    with_prelude(vec(content.prop_map(Step::Say), 0..most))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_reconnected_server_knows_what_one_knows_that_heard_all(
        steps in any_script(250),
        cut in 0..300_usize,
    ) {
        prop_assert_eq!(lost_by_reconnecting(&steps, cut, Source::Attached), [""; 0]);
    }

    #[test]
    fn captured_runs_and_replays_survive_a_reconnect(
        steps in any_script_of_captures(120),
        cut in 0..150_usize,
    ) {
        prop_assert_eq!(lost_by_reconnecting(&steps, cut, Source::Attached), [""; 0]);
    }

    #[test]
    fn an_old_senders_holdings_survive_a_reconnect(
        whats in vec(any_what(true), 0..200),
        cut in 0..200_usize,
    ) {
        let steps: Vec<Step> = whats.into_iter().map(Step::Say).collect();
        prop_assert_eq!(lost_by_reconnecting(&steps, cut, Source::Legacy), [""; 0]);
    }
}

fn script(whats: impl IntoIterator<Item = EventKind>) -> Vec<Step> {
    let whats = whats.into_iter().map(Step::Say);
    prelude().into_iter().chain(whats).collect()
}

/// A reconnect after these steps changes nothing, and neither does one after each of them.
fn assert_carried(steps: &[Step], source: Source) {
    for cut in 0..=steps.len() {
        let lost = lost_by_reconnecting(steps, cut, source);
        assert_eq!(lost, [""; 0], "cut at {cut}");
    }
}

fn cb(program: u64, number: u32, cores: u32) -> EventKind {
    EventKind::CbAllocated {
        mesh: MeshId(0),
        program: ProgramId(program),
        cb: number,
        kind: CbKind::Local,
        address: 512,
        size_bytes: 64,
        cores: CoresId(cores),
    }
}

fn cbs_freed(program: u64) -> EventKind {
    EventKind::CbFreed {
        mesh: MeshId(0),
        program: ProgramId(program),
        cb: None,
    }
}

fn run(program: u64) -> EventKind {
    EventKind::Dispatched {
        mesh: MeshId(0),
        program: ProgramId(program),
        runtime_id: program,
        operation: TextId::NONE,
        program_cache: CacheResult::Hit,
        binary_reused: true,
        path: DispatchPath::Fast,
    }
}

fn destroyed(program: u64) -> EventKind {
    EventKind::ProgramDestroyed {
        program: ProgramId(program),
    }
}

/// The programs on compute cores of the first device, and on how many.
fn resident(steps: &[Step]) -> Vec<(u64, u32)> {
    let mut server = Server::new(Source::Attached);
    for (time, step) in (1..).zip(steps) {
        server.play(step, time);
    }
    let view = server.view();
    let programs = &view.processes[0].rows.programs;
    let on = &view.residents()[0][CoreType::Tensix as usize];
    let id = |slot| programs.get(slot).map_or(0, |program| program.id.0);
    on.iter()
        .map(|(owner, cores)| (id(owner.program), cores.len()))
        .collect()
}

#[test]
fn a_destroyed_program_leaves_its_cores_to_nobody() {
    // Program 1 ran on them before; it must not come back when 2 is gone.
    let steps = script([cb(1, 0, 1), run(1), cb(2, 0, 2), run(2), destroyed(2)]);
    assert_eq!(resident(&steps), [(1, 8)]);
    assert_carried(&steps, Source::Attached);
}

#[test]
fn cores_are_not_given_back_to_an_earlier_program_when_storage_moves() {
    for moved in [cbs_freed(2), cb(2, 0, 3)] {
        let steps = [cb(1, 0, 1), run(1), cb(2, 0, 2), run(2), moved, run(2)];
        let steps = script(steps);
        assert!(
            resident(&steps)
                .iter()
                .all(|(program, cores)| *program != 1 || *cores <= 8)
        );
        assert_carried(&steps, Source::Attached);
    }
}

#[test]
fn programs_of_a_released_trace_stay_where_its_last_replay_put_them() {
    let (mesh, trace) = (MeshId(0), TraceId(1));
    let steps = script([
        cb(1, 0, 1),
        cb(2, 0, 2),
        EventKind::TraceBegan { mesh, trace },
        run(1),
        run(2),
        EventKind::TraceEnded {
            mesh,
            trace,
            bytes: 0,
        },
        EventKind::TraceReplayed { mesh, trace },
        cb(2, 0, 3),
        EventKind::TraceReleased { mesh, trace },
    ]);
    assert_eq!(resident(&steps), [(1, 8), (2, 4)]);
    assert_carried(&steps, Source::Attached);
}

#[test]
fn a_captured_run_of_a_destroyed_program_stays_when_another_takes_its_slot() {
    let (mesh, trace, bytes) = (MeshId(0), TraceId(1), 0);
    let steps = script([
        cb(1, 0, 1),
        EventKind::TraceBegan { mesh, trace },
        run(1),
        destroyed(1),
        cb(2, 0, 2),
        run(2),
        EventKind::TraceEnded { mesh, trace, bytes },
        cb(3, 0, 1),
        run(3),
        EventKind::TraceReplayed { mesh, trace },
    ]);
    // On the cores that only program 1 had, nobody is left.
    assert_eq!(resident(&steps), [(2, 4)]);
    assert_carried(&steps, Source::Attached);
}

#[test]
fn a_buffer_of_a_state_counts_as_much_work_as_an_event() {
    const BUFFERS: u64 = 1000;
    let allocated = |id| buffer(MeshId(3), id, Class::Dram, id * 64, 64, 64);
    let client = Client::after(&script((1..=BUFFERS).map(allocated)), Source::Attached);
    let mut server = Server::new(Source::Attached);
    let before = server.ledger.work();
    client.connect(&mut server);
    let work = server.ledger.work() - before;
    assert_eq!(client.account.len() as u64, BUFFERS);
    assert!(work >= 8 * BUFFERS, "{BUFFERS} buffers cost {work} units");
}

#[test]
fn what_is_live_is_all_that_a_state_has() {
    let mut steps = script([cb(0, 0, 1), run(0)]);
    let nothing_new = Client::after(&steps, Source::Attached).state().len();
    for program in 1..2000 {
        steps.extend([cb(program, 0, 2), run(program), destroyed(program)].map(Step::Say));
    }
    let state = Client::after(&steps, Source::Attached).state();
    // Beyond what lives: who left the cores, and what was live at the peak.
    assert!(state.len() < nothing_new + 2000, "{}", state.len());
}

#[test]
fn an_old_senders_aliases_and_kernels_are_carried_one_by_one() {
    let allocated = |size_bytes| EventKind::LegacyAllocated {
        device: 0,
        class: Class::Dram,
        size_bytes,
        id: 64,
    };
    let freed = EventKind::LegacyFreed { device: 0, id: 64 };
    let loaded = |size_bytes| EventKind::LegacyKernelLoaded {
        device: 0,
        kind: KernelKind::Application,
        size_bytes,
        id: 7,
    };
    let whats = [
        allocated(10),
        allocated(10),
        freed,
        loaded(10),
        loaded(20),
        loaded(10),
        allocated(20),
        freed,
        freed,
    ];
    assert_carried(&whats.map(Step::Say), Source::Legacy);
}

#[test]
fn the_highest_buffer_counts_refused_ones_too() {
    let freed = EventKind::BufferFreed {
        mesh: MeshId(0),
        buffer: BufferId(3),
    };
    let client = Client::after(&script([freed]), Source::Attached);
    assert_eq!(client.account.highest_buffer(), 0);
    let mut whats = vec![crate::world::buffer(MeshId(0), 9, Class::Dram, 64, 0, 0)];
    whats.push(EventKind::DeviceClosed {
        device: DeviceId(0),
    });
    let client = Client::after(&script(whats), Source::Attached);
    assert_eq!(client.account.highest_buffer(), 9);
}
