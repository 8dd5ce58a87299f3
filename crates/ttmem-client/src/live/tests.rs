//! The proof: a ledger that hears a snapshot and the rest agrees with one that heard everything.

mod captures;
mod compare;
mod rings;
mod rules;
mod scripts;

use super::{LiveSet, Snapshot};
use compare::{Figures, differences, figures};
use proptest::prelude::*;
use scripts::{
    Step, any_legacy_script, any_script, any_script_of_captures, any_script_with_traces,
};
use ttmem_event::{Definition, Event, Source, What};
use ttmem_ledger::{Carried, Ledger, Limits, ProcessIdentity};

/// A ledger with one process.
struct Server {
    ledger: Ledger,
    process: u32,
}

impl Server {
    fn new(source: Source) -> Self {
        let mut ledger = Ledger::new(Limits::default());
        let process = ledger.join(ProcessIdentity {
            pid: None,
            start_time: None,
            instance: None,
            uid: 1000,
            name: "workload".into(),
            source,
            visible_devices: "".into(),
        });
        Self { ledger, process }
    }

    fn play(&mut self, step: &Step, time: u64) {
        // Refusals are part of the play.
        match step {
            Step::Define(definition) => {
                let _refused = self.ledger.define(self.process, definition);
            }
            Step::Say(what) => {
                let event = Event { time, what: *what };
                let _refused = self.ledger.apply(self.process, &event, None);
            }
        }
    }

    fn resync(&mut self, definitions: &[Definition], snapshot: Snapshot) {
        let carried = Carried {
            peaks: snapshot.peaks,
            counters: snapshot.counters,
            ..Carried::default()
        };
        self.ledger
            .resync(self.process, definitions, &snapshot.events, &carried);
    }

    fn figures(&self) -> Figures {
        let view = self.ledger.view();
        view.audit().expect("every total is the sum of its rows");
        figures(&view)
    }
}

/// Far enough apart that the ledger need not move old senders' reports.
const TICKS_PER_EVENT: u64 = 100_000;

fn time_of(step: usize) -> u64 {
    (step as u64 + 1) * TICKS_PER_EVENT
}

/// Both ledgers' figures: that of all steps, and that of a snapshot at `cut` and the rest.
///
/// The live set tidies its log each time it heard `tidied` steps.
fn both(steps: &[Step], cut: usize, tidied: usize, source: Source) -> (Figures, Figures) {
    let cut = cut.min(steps.len());
    let mut heard_all = Server::new(source);
    let mut reconnected = Server::new(source);
    let mut live = LiveSet::default();
    let mut definitions = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        heard_all.play(step, time_of(at));
        if at >= cut {
            continue;
        }
        match step {
            Step::Define(definition) => {
                live.define(definition);
                definitions.push(definition.clone());
            }
            Step::Say(what) => live.apply(&Event {
                time: time_of(at),
                what: *what,
            }),
        }
        if at % tidied == tidied - 1 {
            live.programs.tidy_log(&live.meshes);
        }
    }
    reconnected.resync(&definitions, live.snapshot());
    for (at, step) in steps.iter().enumerate().skip(cut) {
        reconnected.play(step, time_of(at));
    }
    (heard_all.figures(), reconnected.figures())
}

fn live_after(steps: &[Step]) -> LiveSet {
    let mut live = LiveSet::default();
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Define(definition) => live.define(definition),
            Step::Say(what) => live.apply(&Event {
                time: time_of(at),
                what: *what,
            }),
        }
    }
    live
}

fn snapshot_of(steps: &[Step]) -> Snapshot {
    live_after(steps).snapshot()
}

fn says(events: &[Event], is: impl Fn(&What) -> bool) -> usize {
    events.iter().filter(|event| is(&event.what)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_reconnected_ledger_agrees_with_one_that_heard_all(
        steps in any_script(250),
        cut in 0..300_usize,
        tidied in 1..100_usize,
    ) {
        let (all, again) = both(&steps, cut, tidied, Source::Attached);
        prop_assert_eq!(differences(&again, &all), [""; 0]);
    }

    #[test]
    fn captured_runs_and_replays_survive_a_reconnect(
        steps in any_script_with_traces(150),
        cut in 0..200_usize,
        tidied in 1..100_usize,
    ) {
        let (all, again) = both(&steps, cut, tidied, Source::Attached);
        prop_assert_eq!(differences(&again, &all), [""; 0]);
    }

    #[test]
    fn captures_over_parts_of_a_mesh_survive_a_reconnect(
        steps in any_script_of_captures(80),
        cut in 0..100_usize,
        tidied in 1..100_usize,
    ) {
        let (all, again) = both(&steps, cut, tidied, Source::Attached);
        prop_assert_eq!(differences(&again, &all), [""; 0]);
    }

    #[test]
    fn an_old_senders_holdings_survive_a_reconnect(
        steps in any_legacy_script(200),
        cut in 0..200_usize,
    ) {
        let (all, again) = both(&steps, cut, usize::MAX, Source::Legacy);
        prop_assert_eq!(differences(&again, &all), [""; 0]);
    }
}
