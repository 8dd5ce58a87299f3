//! A change that is made in steps leads to the same ledger as the change made in one call.

use crate::world::{Board, buffer, device, identity, mesh, state_of};
use std::sync::Arc;
use ttmem_event::wire::Clock;
use ttmem_event::{BufferId, Class, Event, EventKind, MeshId, Source, TextId};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{
    Anomaly, ApplyLimits, Batch, Change, ChangeOutcome, Departure, Ledger, Limits, Resync,
};

const MESH: MeshId = MeshId(0);
const BUFFERS: u64 = 200;

/// A ledger with one process that opened a board.
fn opened(limits: Limits) -> (Ledger, u32) {
    let mut ledger = Ledger::new(limits);
    let process = ledger.join(identity("model", Source::Attached, ""));
    for definition in [device(0, Some(1), &Board::N150), mesh(0, &[0])] {
        assert_eq!(ledger.define(process, &definition), Ok(()));
    }
    (ledger, process)
}

fn allocated(id: u64) -> EventKind {
    buffer(MESH, id, Class::Dram, id * 64, 64, 64)
}

/// Buffers, one of them twice, a failure in the middle, and a large event at the end.
fn batch(process: u32) -> Change {
    let failed = EventKind::AllocationFailed {
        mesh: MESH,
        class: Class::Dram,
        banks: 12,
        requested_bytes: 12 << 20,
        per_bank_bytes: 1 << 20,
        free_bytes: 0,
        largest_free_bytes: 0,
        bank_bytes: 0,
        operation: TextId::NONE,
        call_first: 0,
    };
    let mut kinds: Vec<EventKind> = (1..=BUFFERS).map(allocated).collect();
    kinds.insert(50, failed);
    kinds.insert(
        20,
        EventKind::BufferFreed {
            mesh: MESH,
            buffer: BufferId(9999),
        },
    );
    kinds.push(EventKind::MeshClosed { mesh: MESH });
    let events = (1..).zip(kinds);
    let events = events.map(|(time, kind)| Event { time, kind }).collect();
    Change::Apply(Batch::whole(process, Arc::new(events)))
}

fn saved(ledger: &Ledger) -> Vec<u8> {
    let mut bytes = Vec::new();
    ledger.save(&mut bytes);
    bytes
}

/// Makes a change in steps; what each of them led to.
fn in_steps(ledger: &mut Ledger, change: Change, limits: ApplyLimits) -> Vec<ChangeOutcome> {
    let mut outcomes = Vec::new();
    let mut effects = Vec::new();
    let mut rest = Some(change);
    while let Some(change) = rest {
        let mut outcome = ledger.apply(&change, limits, Some(&mut effects));
        effects.clear();
        rest = outcome.rest.take();
        outcomes.push(outcome);
    }
    outcomes
}

#[test]
fn batch_in_steps() {
    let (mut whole, process) = opened(Limits::default());
    let outcome = whole.apply(&batch(process), ApplyLimits::NONE, None);
    let count = usize::try_from(BUFFERS).expect("a small number") + 3;
    assert_eq!(
        (outcome.applied, outcome.refused),
        (count, Some(Anomaly::UnknownFree))
    );
    assert_eq!(outcome.anomalies, [(20, Anomaly::UnknownFree)]);
    assert!(!outcome.is_failure && outcome.rest.is_none());
    let few = ApplyLimits {
        work: 60,
        effects: 5,
        stops_at_failures: true,
    };
    let only_effects = ApplyLimits {
        effects: 3,
        ..ApplyLimits::NONE
    };
    for limits in [few, only_effects] {
        let (mut ledger, process) = opened(Limits::default());
        let outcomes = in_steps(&mut ledger, batch(process), limits);
        assert!(outcomes.len() > 20, "{} steps", outcomes.len());
        let applied: usize = outcomes.iter().map(|outcome| outcome.applied).sum();
        assert_eq!(applied, count);
        let anomalies = outcomes.iter().flat_map(|outcome| &outcome.anomalies);
        assert_eq!(anomalies.collect::<Vec<_>>(), [&(20, Anomaly::UnknownFree)]);
        let failures = outcomes.iter().filter(|outcome| outcome.is_failure);
        assert_eq!(failures.count(), usize::from(limits.stops_at_failures));
        let unfinished = outcomes.iter().any(|outcome| outcome.unfinished.is_some());
        assert_eq!(unfinished, limits.work < u64::MAX);
        // What a recording is given of the steps.
        let (mut replayed, process) = opened(Limits::default());
        let mut first = 0;
        for outcome in &outcomes {
            let Change::Apply(batch) = batch(process) else {
                panic!("it is a batch");
            };
            let range = first..first + outcome.applied;
            first = range.end;
            replayed.make(Change::Apply(Batch { range, ..batch }));
            if let Some((event, work)) = outcome.unfinished {
                replayed.make(Change::ApplyEvent {
                    process,
                    event,
                    work,
                });
            }
        }
        assert!(saved(&ledger) == saved(&replayed), "the replay differs");
        // Each part of a large event counts as a revision.
        let is_same = saved(&ledger) == saved(&whole);
        assert_eq!(is_same, !unfinished);
    }
}

#[test]
fn departure_in_steps() {
    let departed = |work: u64| {
        let (mut ledger, process) = opened(Limits::default());
        for id in 1..=BUFFERS {
            let kind = allocated(id);
            assert_eq!(ledger.tell(process, &Event { time: id, kind }), Ok(()));
        }
        let depart = Change::Depart {
            process,
            departure: Departure::Ended,
            time: 1000,
        };
        let limits = ApplyLimits {
            work,
            ..ApplyLimits::NONE
        };
        let outcomes = in_steps(&mut ledger, depart, limits);
        let (last, before) = outcomes.split_last().expect("one at least");
        assert!(before.iter().all(|outcome| outcome.departed.is_none()));
        let exit = last.departed.as_ref().expect("it left").exit;
        assert_eq!(exit.released.buffers, BUFFERS);
        (saved(&ledger), outcomes.len())
    };
    let (whole, steps) = departed(u64::MAX);
    assert_eq!(steps, 1);
    let (in_steps, steps) = departed(10);
    assert!(steps > 5, "{steps} steps");
    assert!(in_steps == whole, "the ledgers differ");
}

#[test]
fn departure_during_a_resync() {
    let (mut ledger, process) = opened(Limits {
        devices: 2,
        ..Limits::default()
    });
    let definitions = [0, 1].map(|id| device(id, Some(1 + u64::from(id)), &Board::N150));
    let begun = Change::Resync {
        process,
        resync: Arc::new(Resync {
            state: state_of(Source::Attached, &definitions, []),
            definitions: definitions.to_vec(),
            clock: Clock::UNIX_NANOS,
            lost_events: 0,
            elided_events: 0,
        }),
    };
    let limits = ApplyLimits {
        work: 9,
        ..ApplyLimits::NONE
    };
    let outcome = ledger.apply(&begun, limits, None);
    assert!(outcome.rest.is_some(), "it takes more than that");
    // Its new state has the second device by now.
    let other = ledger.join(identity("other", Source::Attached, ""));
    let more = device(0, Some(77), &Board::N150);
    assert_eq!(ledger.define(other, &more), Err(Anomaly::NoRoom));
    assert!(ledger.depart(process, Departure::Forgotten, 5).is_some());
    for (id, unique_id) in [(1, 78), (2, 79)] {
        let free = device(id, Some(unique_id), &Board::N150);
        assert_eq!(ledger.define(other, &free), Ok(()));
    }
    assert_eq!(ledger.view().audit(), Ok(()));
}
