//! Config rings: what of them outlives a reconnect.

use super::rules::{assert_carried, script};
use super::scripts::{Step, prelude};
use super::{Server, says, snapshot_of};
use ttmem_event::{CoreType, Definition, Event, MeshId, ProgramId, Source, What};
use ttmem_ledger::ring::Ring;

const CORE_TYPE: CoreType = CoreType::Tensix;

fn opened(sub_device: u8) -> Step {
    Step::Say(What::RingOpened {
        mesh: MeshId(0),
        sub_device,
        core_type: CORE_TYPE,
        base: 1000,
        size_bytes: 100,
    })
}

fn placed(address: u64, sync: u64) -> Step {
    Step::Say(What::RingAllocated {
        mesh: MeshId(0),
        sub_device: 0,
        core_type: CORE_TYPE,
        program: ProgramId(1),
        address,
        size_bytes: 40,
        sync,
    })
}

fn freed(sync: u64) -> Step {
    Step::Say(What::RingFreed {
        mesh: MeshId(0),
        sub_device: 0,
        core_type: CORE_TYPE,
        sync,
    })
}

fn filled(sync: u64) -> Step {
    Step::Say(What::RingFilled {
        mesh: MeshId(0),
        sub_device: 0,
        core_type: CORE_TYPE,
        sync,
    })
}

/// The first ring of a server that heard a snapshot after `before`, and then `after`.
fn reconnected(before: &[Step], after: &[Step]) -> Ring {
    let mut server = Server::new(Source::Attached);
    let definitions: Vec<Definition> = before
        .iter()
        .filter_map(|step| match step {
            Step::Define(definition) => Some(definition.clone()),
            Step::Say(_what) => None,
        })
        .collect();
    server.resync(&definitions, snapshot_of(before));
    for (time, step) in (1_000_000..).zip(after) {
        if let Step::Say(what) = step {
            let event = Event { time, what: *what };
            let taken = server.ledger.apply(server.process, &event, None);
            assert_eq!(taken, Ok(()), "{what:?}");
        }
    }
    let view = server.ledger.view();
    view.processes[0].facts.rings[&(0, 0, CORE_TYPE)].clone()
}

#[test]
fn a_wrap_after_a_reconnect_counts_when_the_entry_before_it_is_gone() {
    let emptied = [
        vec![opened(0), placed(1000, 1), placed(1060, 2), freed(2)],
        vec![opened(0), placed(1060, 9), filled(3), freed(3)],
        vec![opened(0), placed(1060, 1), freed(1), filled(3)],
    ];
    for steps in emptied {
        let steps = script(steps);
        assert_carried(&steps);
        assert_eq!(reconnected(&steps, &[placed(1000, 4)]).wraps, 1);
        assert_eq!(reconnected(&steps, &[placed(1060, 4)]).wraps, 0);
    }
}

#[test]
fn a_filled_ring_is_carried_with_the_completions_that_free_it() {
    let steps = script([opened(0), placed(1000, 1), filled(7)]);
    assert!(reconnected(&steps, &[freed(6)]).filled);
    assert!(!reconnected(&steps, &[freed(7)]).filled);
    assert_carried(&script([opened(0), filled(7), freed(6), freed(7)]));
    assert_carried(&script([opened(0), filled(7), freed(7), filled(9)]));
}

#[test]
fn rings_that_only_fill_and_free_do_not_grow_what_is_told() {
    let mut steps = script([opened(0), placed(1000, 1)]);
    for sync in 2..100 {
        steps.extend([filled(sync), freed(sync)]);
    }
    let told = snapshot_of(&steps).events.len() - snapshot_of(&prelude()).events.len();
    assert!(told <= 4, "{told} events are told");
}

#[test]
fn a_mesh_divided_anew_loses_its_other_rings() {
    let steps = script([opened(0), opened(1), opened(2), opened(0), opened(1)]);
    let is_ring = |what: &What| matches!(what, What::RingOpened { .. });
    assert_eq!(says(&snapshot_of(&steps).events, is_ring), 2);
    assert_carried(&steps);
}
