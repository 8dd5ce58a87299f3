//! A ledger that was saved and loaded is the ledger that was saved, now and after whatever follows.

use crate::scripts::{Script, Stage, Step, any_scripts, interleaved};
use crate::state::{everything, peaks_of};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Change, Ledger, Limits, LoadError, View};

fn saved(ledger: &Ledger) -> Vec<u8> {
    let mut bytes = Vec::new();
    ledger.save(&mut bytes);
    bytes
}

/// All that a view has, slots and orders included.
fn shown(view: &View) -> Vec<String> {
    let mut lines = everything(view);
    lines.extend(peaks_of(view));
    lines.push(format!("{:?}", view.marks));
    lines.push(format!("{:?}", view.series));
    lines.push(format!("{:?}", view.failures));
    lines.push(format!("revision {}", view.revision));
    for process in &view.processes {
        lines.push(format!("{:?} {:?}", process.facts, process.devices));
        lines.push(format!("{:?}", process.left_at_close()));
        lines.push(format!("{:?}", process.held(&view.series)));
    }
    for departed in view.departed.iter() {
        for device in 0..view.devices.len() {
            for gauge in ttmem_ledger::GaugeKind::all() {
                let peak = view.departed_peak(departed, device, gauge);
                lines.push(format!("{peak:?}"));
            }
        }
    }
    lines
}

/// The same scripts, the states that clients send undamaged: counters at the end of their range are cut
/// when they are loaded.
fn sound(mut scripts: Vec<Script>) -> Vec<Script> {
    for step in scripts.iter_mut().flat_map(|script| &mut script.steps) {
        if let Step::Resync(sent) = step {
            sent.2.clear();
        }
    }
    scripts
}

/// The first line in which two views differ.
fn difference(one: &View, other: &View) -> Option<(String, String)> {
    let (one, other) = (shown(one), shown(other));
    assert_eq!(one.len(), other.len(), "as many lines");
    one.into_iter().zip(other).find(|(one, other)| one != other)
}

proptest! {
    #[test]
    fn a_loaded_ledger_goes_on_as_the_one_that_was_saved(
        scripts in any_scripts(60),
        order in vec(0..60_usize, 0..400),
        at in any::<prop::sample::Index>(),
        mark_every in 5..80_usize,
    ) {
        let scripts = sound(scripts);
        let steps = interleaved(&scripts, &order);
        let at = at.index(steps.len().max(1));
        let mut stage = Stage::new(&scripts);
        let mut loaded: Option<Stage> = None;
        for (number, (who, what)) in steps.into_iter().enumerate() {
            for stage in [Some(&mut stage), loaded.as_mut()].into_iter().flatten() {
                stage.play(who, what);
                if number % mark_every == 0 {
                    let (user, time) = ([0, 1000, 2000][number % 3], 10 * number as u64);
                    stage.ledger.make(Change::SetMark {
                        user,
                        time,
                        name: Arc::from("step"),
                        number: number as u64,
                    });
                }
            }
            if number == at {
                let bytes = saved(&stage.ledger);
                let ledger = Ledger::load(&bytes, Limits::default());
                let ledger = ledger.expect("what was saved can be loaded");
                prop_assert!(saved(&ledger) == bytes, "saved again it is the same");
                let mut copy = stage.with_ledger(ledger);
                prop_assert_eq!(difference(&stage.ledger.view(), &copy.ledger.view()), None);
                loaded = Some(copy);
            }
        }
        if let Some(mut loaded) = loaded {
            let (own, view) = (stage.ledger.view(), loaded.ledger.view());
            view.audit()?;
            prop_assert_eq!(difference(&own, &view), None);
            prop_assert!(saved(&stage.ledger) == saved(&loaded.ledger));
        }
    }

    #[test]
    fn bytes_that_were_changed_are_refused_or_make_a_ledger_that_adds_up(
        scripts in any_scripts(30),
        order in vec(0..60_usize, 0..100),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut stage = Stage::new(&scripts);
        let steps = interleaved(&scripts, &order);
        let (before, after) = steps.split_at(steps.len() / 2);
        for (who, what) in before {
            stage.play(*who, what);
        }
        let mut bytes = saved(&stage.ledger);
        for (place, value) in changes {
            let place = place.index(bytes.len()).max(8);
            bytes[place] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(ledger) = Ledger::load(&bytes, Limits::default()) {
            // Whatever was made of it, it works: figures may be other ones, sums may not.
            let mut stage = stage.with_ledger(ledger);
            for (who, what) in after {
                stage.play(*who, what);
            }
            let _figures = shown(&stage.ledger.view());
        }
    }
}

#[test]
fn a_state_of_another_layout_is_refused() {
    let mut bytes = saved(&Ledger::default());
    assert!(Ledger::load(&bytes, Limits::default()).is_ok());
    bytes[0] ^= 1;
    let refused = Ledger::load(&bytes, Limits::default());
    assert_eq!(refused.err(), Some(LoadError::Layout));
    assert!(Ledger::load(&[], Limits::default()).is_err());
}

#[test]
fn more_than_the_limits_allow_is_refused() {
    let mut ledger = Ledger::default();
    for logical_id in 0..3 {
        let facts = ttmem_ledger::DeviceFacts {
            logical_id,
            ..Default::default()
        };
        ledger.make(Change::ConfigureDevice(Box::new(facts)));
    }
    let limits = Limits {
        devices: 2,
        ..Limits::default()
    };
    assert!(Ledger::load(&saved(&ledger), limits).is_err());
}

#[test]
fn a_state_that_says_it_has_more_than_any_ledger_is_refused_before_memory_is_taken() {
    let numbers = |numbers: &[u64]| -> Vec<u8> {
        let fingerprint = [ttmem_ledger::state_fingerprint()];
        let all = fingerprint.iter().chain(numbers);
        all.flat_map(|number| number.to_le_bytes()).collect()
    };
    // No texts, no devices, and slots without a process, of a byte each.
    let mut slots = numbers(&[0, 0, 200_000]);
    slots.resize(slots.len() + 200_000, 0);
    let texts = numbers(&[u64::MAX]);
    for (bytes, what) in [(slots, "list of processes"), (texts, "list of texts")] {
        let refused = Ledger::load(&bytes, Limits::default()).unwrap_err();
        assert_eq!(refused, LoadError::Invalid(what));
    }
}
