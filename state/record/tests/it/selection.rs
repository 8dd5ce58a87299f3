//! Recordings of one process, and of those that use one device.

use crate::replay::{open, small_blocks, state};
use crate::session::{Random, Timed, session};
use std::collections::BTreeMap;
use std::sync::Arc;
use ttmem_event::EventKind;
use ttmem_ledger::{ApplyLimits, Batch, Change, DeviceKey, GaugeKind, Ledger, Part, View};
use ttmem_record::{Until, WriteError, Writer, WriterOptions};

/// A session in which no process sets marks: those of others are not in the recording of a part, and peaks
/// since the last mark are counted from fewer.
fn unmarked(seed: u64, count: usize) -> Vec<Timed> {
    let mut inputs = session(seed, count);
    for (_time, input) in &mut inputs {
        if let Change::Apply(batch) = input {
            let events = batch.events().iter();
            let events = events.filter(|it| !matches!(it.kind, EventKind::Marked { .. }));
            let events = Arc::new(events.copied().collect());
            let recovered = batch.recovered;
            *batch = Batch::whole(batch.process, events);
            batch.recovered = recovered;
        }
    }
    inputs
}

/// The ledger at a place, and the writer of a part that was begun at an earlier one.
fn recorded(inputs: &[Timed], begin: usize, part: &Part) -> (Ledger, Vec<u8>, u64) {
    let mut ledger = Ledger::default();
    for (_time, input) in &inputs[..begin] {
        ledger.apply(input, ApplyLimits::NONE, None);
    }
    let mut rest = inputs[begin..].iter();
    while !ledger.can_save() {
        ledger.apply(&rest.next().unwrap().1, ApplyLimits::NONE, None);
    }
    let options = WriterOptions {
        part: Some(part.clone()),
        ..small_blocks()
    };
    let mut writer = Writer::new(Vec::new(), options, 500, &ledger).unwrap();
    for (time, input) in rest {
        ledger.apply(input, ApplyLimits::NONE, None);
        writer.append(*time, input).unwrap();
        if writer.wants_state() && ledger.can_save() {
            writer.gap(*time, 0, &state(&ledger)).unwrap();
            assert!(!writer.wants_state());
        }
    }
    let finished = writer.finish().unwrap();
    (ledger, finished.out, finished.summary.missing_events)
}

/// What each process has on each device: every total and every peak.
fn held(view: &View, pids: &[u32]) -> BTreeMap<(u32, DeviceKey), String> {
    let mut held = BTreeMap::new();
    for process in &view.processes {
        let pid = process.facts.identity.pid.unwrap();
        if !pids.contains(&pid) {
            continue;
        }
        for (device, number) in process.account.devices.iter().zip(&process.devices) {
            let key = view.devices[*number as usize].key.clone();
            held.insert((pid, key), figures(&device.totals));
        }
    }
    held
}

fn figures(totals: &ttmem_ledger::Totals) -> String {
    let mut all = *totals;
    let figures: Vec<u64> = all.figures().map(|(.., figure)| *figure).collect();
    let peaks: Vec<_> = GaugeKind::all()
        .map(|gauge| totals.gauge(gauge).peak())
        .collect();
    format!("{figures:?} {peaks:?}")
}

fn pids(view: &View) -> Vec<u32> {
    let pids = view.processes.iter();
    let mut pids: Vec<u32> = pids.map(|it| it.facts.identity.pid.unwrap()).collect();
    pids.sort_unstable();
    pids
}

#[test]
fn one_process_is_recorded_as_it_was_and_nothing_of_others() {
    let mut lived = 0;
    for seed in 0..12 {
        let inputs = unmarked(seed, 300);
        let mut whole = Ledger::default();
        let begin = 40 + usize::try_from(Random::new(seed).below(150)).unwrap();
        for (_time, input) in &inputs[..begin] {
            whole.apply(input, ApplyLimits::NONE, None);
        }
        for pid in pids(&whole.view()) {
            let part = Part::Process { pid, uid: None };
            let (mut ledger, bytes, missing) = recorded(&inputs, begin, &part);
            assert_eq!(missing, 0);
            let mut player = open(&bytes);
            player.play(Until::End, |_, _, _| {}).unwrap();
            let (played, live) = (player.view(), ledger.view());
            played.audit().unwrap();
            assert_eq!(
                held(&played, &[pid]),
                held(&live, &[pid]),
                "seed {seed}, {pid}"
            );
            assert!(pids(&played).iter().all(|other| *other == pid));
            let mut departed = played.departed.iter();
            assert!(departed.all(|gone| gone.identity.pid == Some(pid)));
            let mut failures = played.failures.iter();
            assert!(failures.all(|moment| moment.identity.pid == Some(pid)));
            lived += usize::from(!pids(&played).is_empty());
        }
    }
    assert!(lived > 5, "only {lived} lived to the end");
}

#[test]
fn of_another_user_nothing_is_kept() {
    let inputs = session(3, 200);
    let mut whole = Ledger::default();
    inputs[..100].iter().for_each(|(_time, input)| {
        whole.apply(input, ApplyLimits::NONE, None);
    });
    let slot = whole.process_slots().next().unwrap();
    let identity = whole.identity(slot).unwrap();
    let (pid, uid) = (identity.pid.unwrap(), identity.uid);
    let part = Part::Process {
        pid,
        uid: Some(uid + 7),
    };
    assert!(!part.is_process(identity));
    let (_ledger, bytes, _missing) = recorded(&inputs, 100, &part);
    let mut player = open(&bytes);
    assert!(player.view().processes.is_empty() && player.view().devices.is_empty());
    player.play(Until::End, |_, _, _| {}).unwrap();
    assert!(player.view().processes.is_empty());
}

#[test]
fn a_device_is_recorded_with_all_that_use_it() {
    let mut missed = 0;
    for seed in 0..12 {
        let inputs = unmarked(seed, 300);
        let mut whole = Ledger::default();
        let begin = 40 + usize::try_from(Random::new(seed).below(150)).unwrap();
        inputs[..begin].iter().for_each(|(_time, input)| {
            whole.apply(input, ApplyLimits::NONE, None);
        });
        let keys: Vec<DeviceKey> = whole.devices().iter().map(|it| it.key.clone()).collect();
        for key in keys {
            let (mut ledger, bytes, missing) = recorded(&inputs, begin, &Part::Device(key.clone()));
            missed += missing;
            let mut player = open(&bytes);
            player.play(Until::End, |_, _, _| {}).unwrap();
            let (played, live) = (player.view(), ledger.view());
            played.audit().unwrap();
            let of = |view: &View| {
                let mut devices = view.devices.iter();
                devices
                    .find(|it| it.key == key)
                    .map(|it| figures(&it.totals))
            };
            assert_eq!(of(&played), of(&live), "seed {seed}, {key:?}");
            let kept = pids(&played);
            assert_eq!(
                held(&played, &kept),
                held(&live, &kept),
                "seed {seed}, {key:?}"
            );
            let slots: Vec<u32> = ledger.process_slots().collect();
            let users = slots.iter().filter(|slot| ledger.uses(**slot, &key));
            let users = users.filter_map(|slot| ledger.identity(*slot)?.pid);
            for user in users {
                assert!(kept.contains(&user), "seed {seed}: {user} uses {key:?}");
            }
        }
    }
    // New processes are recorded from their beginning, whatever they do first.
    assert!(missed < 100, "{missed} events are missing");
}

#[test]
fn a_recording_that_may_not_grow_ends_whole_and_within_its_bytes() {
    for (seed, most) in [(1, 3_000), (2, 5_000), (3, 9_000), (4, 20_000)] {
        let inputs = session(seed, 400);
        let options = WriterOptions {
            max_bytes: Some(most),
            ..small_blocks()
        };
        let mut writer = Writer::new(Vec::new(), options, 500, &Ledger::default()).unwrap();
        let full = inputs.iter().find_map(|(time, input)| {
            let outcome = writer.append(*time, input);
            outcome.err()
        });
        assert!(matches!(full, Some(WriteError::Full)), "{full:?}");
        let finished = writer.finish_full().unwrap();
        assert!(finished.bytes <= most, "{} of {most}", finished.bytes);
        assert_eq!(finished.bytes, finished.out.len() as u64);
        let mut player = open(&finished.out);
        assert_eq!(player.recording().damage(), None);
        let summary = player.recording().summary().clone();
        assert_eq!(summary, finished.summary);
        player.play(Until::End, |_, _, _| {}).unwrap();
        player.view().audit().unwrap();
        let (known, lost) = (summary.events, summary.missing_events);
        assert_eq!(known + lost, finished.ledger.events());
    }
    // One that cannot even begin is refused.
    let mut large = Ledger::default();
    session(9, 300).iter().for_each(|(_time, input)| {
        large.apply(input, ApplyLimits::NONE, None);
    });
    let options = WriterOptions {
        max_bytes: Some(600),
        ..WriterOptions::default()
    };
    let refused = Writer::new(Vec::new(), options, 500, &large);
    assert!(matches!(refused, Err(WriteError::Full)));
}
