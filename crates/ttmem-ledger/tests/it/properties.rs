//! What holds after any sequence of events, however contradictory.

use crate::scripts::{Stage, any_scripts, interleaved};
use crate::state::{everything, live_set};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use ttmem_event::CoreType;
use ttmem_ledger::{Anomaly, Departure};

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
            stage.ledger.depart(slot, Departure::Died, 1);
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
