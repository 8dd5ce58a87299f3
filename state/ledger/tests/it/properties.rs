//! What holds after any sequence of events, however contradictory.

use crate::scripts::{Stage, Step, any_scripts, interleaved};
use crate::state::{everything, live_set};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use ttmem_event::{Class, CoreType, Definition, TextId};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Anomaly, Departure, GaugeKind, View};

/// Turns of up to five processes.
fn any_order() -> impl Strategy<Value = Vec<usize>> {
    vec(0..60_usize, 0..400)
}

proptest! {
    #[test]
    fn every_total_equals_the_live_set_and_nothing_exceeds_what_there_is(
        scripts in any_scripts(50),
        order in any_order(),
        every in 10..60_usize,
    ) {
        let mut stage = Stage::new(&scripts);
        for (step, (who, what)) in interleaved(&scripts, &order).into_iter().enumerate() {
            stage.play(who, what);
            if step % every == 0 {
                stage.ledger.view().audit()?;
            }
        }
        stage.ledger.view().audit()?;
    }

    #[test]
    fn the_groups_of_a_peak_are_the_buffers_that_were_live_when_it_was_reached(
        scripts in any_scripts(50),
        order in any_order(),
        every in 10..60_usize,
    ) {
        let mut stage = Stage::new(&scripts);
        for (who, (id, text)) in (0..scripts.len()).flat_map(|who| [(who, (1, "a")), (who, (2, "b"))]) {
            let (id, text) = (TextId(id), text.to_owned());
            stage.play(who, &Step::Define(Definition::Text { id, text }));
        }
        let mut reached = Peaks::new();
        for (step, (who, what)) in interleaved(&scripts, &order).into_iter().enumerate() {
            // A state brings peaks that nobody saw; a text names what was there before it.
            if matches!(what, Step::Resync(_) | Step::Define(Definition::Text { .. })) {
                continue;
            }
            if let Step::Leave(_) = what {
                let leaving = Some(stage.slots[who]);
                reached.retain(|(process, ..), _peak| *process != leaving);
            }
            stage.play(who, what);
            let view = stage.ledger.view();
            let mut peaks = live_peaks(&view);
            peaks.retain(|place, (bytes, _groups)| {
                reached.get(place).is_none_or(|(known, _groups)| known != bytes)
            });
            reached.append(&mut peaks);
            if step % every == 0 {
                for ((process, device, class), (_bytes, groups)) in &reached {
                    let gauge = GaugeKind::Class(*class);
                    let found = match process {
                        Some(process) => view.process_peak(*process, *device, gauge),
                        None => view.device_peak(*device, gauge),
                    };
                    let mut sums = Sums::new();
                    for group in found.expect("it was there before").groups {
                        add(&mut sums, (group.pid, group.name), group.count, group.bytes);
                    }
                    prop_assert_eq!(&sums, groups, "{:?} {} {:?}", process, device, class);
                }
            }
        }
    }

    #[test]
    fn any_interleaving_gives_the_same_live_set_and_totals(
        scripts in any_scripts(50),
        order in any_order(),
    ) {
        let mut in_turn = Stage::new(&scripts);
        for (who, what) in interleaved(&scripts, &[]) {
            in_turn.play(who, what);
        }
        let mut mixed = Stage::new(&scripts);
        for (who, what) in interleaved(&scripts, &order) {
            mixed.play(who, what);
        }
        prop_assert_eq!(live_set(&in_turn.ledger.view()), live_set(&mixed.ledger.view()));
    }

    #[test]
    fn the_same_order_gives_the_same_state(
        scripts in any_scripts(40),
        order in any_order(),
    ) {
        let mut one = Stage::new(&scripts);
        let mut two = Stage::new(&scripts);
        for (who, what) in interleaved(&scripts, &order) {
            one.play(who, what);
            two.play(who, what);
        }
        prop_assert_eq!(everything(&one.ledger.view()), everything(&two.ledger.view()));
    }

    #[test]
    fn after_everybody_left_nothing_is_held(
        scripts in any_scripts(40),
        order in any_order(),
    ) {
        let mut stage = Stage::new(&scripts);
        for (who, what) in interleaved(&scripts, &order) {
            stage.play(who, what);
        }
        let held: Vec<u32> = stage.ledger.view().processes.iter().map(|each| each.index).collect();
        for slot in held {
            stage.ledger.depart(slot, Departure::Ended, 1);
        }
        let view = stage.ledger.view();
        view.audit()?;
        let residents = view.residents();
        for (device, residents) in view.devices.iter().zip(&residents) {
            for class in &device.totals.classes {
                prop_assert_eq!((class.charged.bytes(), class.buffers), (0, 0));
            }
            prop_assert_eq!((device.totals.cb.registered.bytes(), device.totals.cb.count), (0, 0));
            prop_assert_eq!(device.totals.kernel.registered.bytes(), 0);
            prop_assert_eq!(device.totals.kernel.unique_bytes, 0);
            for core_type in CoreType::ALL {
                prop_assert!(residents[core_type as usize].is_empty());
            }
        }
    }
}

/// How many buffers, and their bytes, by process and operation.
type Sums = BTreeMap<(Option<u32>, Option<Arc<str>>), (u64, u64)>;

/// Peaks with what was live then, by process, device and class.
type Peaks = BTreeMap<(Option<u32>, usize, Class), (u64, Sums)>;

fn add(sums: &mut Sums, group: (Option<u32>, Option<Arc<str>>), count: u64, bytes: u64) {
    let sum = sums.entry(group).or_default();
    *sum = (sum.0 + count, sum.1 + bytes);
}

/// Every peak by process, device and class, with what lives now.
fn live_peaks(view: &View) -> Peaks {
    let mut peaks = Peaks::new();
    for (device, class) in
        (0..view.devices.len()).flat_map(|at| Class::ALL.iter().map(move |class| (at, *class)))
    {
        let gauge = GaugeKind::Class(class);
        let of_device = view.devices[device].totals.gauge(gauge).peak().bytes;
        peaks.insert((None, device, class), (of_device, Sums::new()));
        for process in &view.processes {
            let number = u32::try_from(device).expect("a few devices");
            let Some(slot) = process.device_slot(number) else {
                continue;
            };
            let held = &process.account.devices[slot as usize];
            let mut sums = Sums::new();
            for (_slot, row) in process.rows.buffers.iter() {
                let mesh = &process.account.meshes[row.mesh as usize];
                if row.class == class && mesh.devices.contains(&slot) {
                    let name = process.account.definitions.text(row.operation).cloned();
                    let group = (process.facts.identity.pid, name);
                    add(&mut sums, group.clone(), 1, row.charged_bytes());
                    let of_device = peaks.entry((None, device, class)).or_default();
                    add(&mut of_device.1, group, 1, row.charged_bytes());
                }
            }
            let bytes = held.totals.gauge(gauge).peak().bytes;
            peaks.insert((Some(process.index), device, class), (bytes, sums));
        }
    }
    peaks
}

/// A property of scripts that never book anything would be empty.
#[test]
fn the_scripts_reach_every_total_and_every_contradiction() {
    let mut runner = TestRunner::deterministic();
    let (scripts, order) = (any_scripts(50), any_order());
    let mut unseen: BTreeSet<Anomaly> = Anomaly::ALL.iter().copied().collect();
    // Only a client beyond all limits gets there; the limits have tests of their own.
    unseen.remove(&Anomaly::LimitReached);
    // The codecs refuse these before they become events.
    unseen.remove(&Anomaly::InvalidClass);
    let mut most = [0; 8];
    for _case in 0..600 {
        let scripts = scripts.new_tree(&mut runner).unwrap().current();
        let order = order.new_tree(&mut runner).unwrap().current();
        let mut stage = Stage::new(&scripts);
        for (who, what) in interleaved(&scripts, &order) {
            stage.play(who, what);
            let device = &stage.ledger.device(0).expect("it is configured").totals;
            let classes = device.classes.map(|class| class.charged.bytes());
            let kernel = device.kernel.unique_bytes;
            let cores = device.kernel.by_core_type[CoreType::Tensix as usize];
            let figures = [device.cb.registered.bytes(), kernel, cores];
            for (most, now) in most.iter_mut().zip(classes.into_iter().chain(figures)) {
                *most = now.max(*most);
            }
        }
        let anomalies = stage.ledger.view().anomalies;
        unseen.retain(|anomaly| anomalies.of(*anomaly) == 0);
    }
    assert_eq!(unseen, BTreeSet::new());
    assert!(most.iter().all(|bytes| *bytes > 0), "{most:?}");
}
