//! States with a changed byte: what is taken of them must add up.

use crate::scripts::Step;
use crate::scripts::prelude;
use crate::world::{buffer, identity, state_of};
use ttmem_event::wire::Clock;
use ttmem_event::{
    BufferId, CbKind, Class, CoreType, CoresId, Definition, Event, EventKind, KernelId, KernelKind,
    MeshId, ProgramId, Source, TextId,
};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Departure, Ledger, Limits, Resync};

const MESH: MeshId = MeshId(0);

fn definitions() -> Vec<Definition> {
    let steps = prelude().into_iter();
    let definitions = steps.filter_map(|step| match step {
        Step::Define(definition) => Some(definition),
        _other => None,
    });
    definitions.collect()
}

/// So many buffers, circular buffers and kernels, of which all but the last are given back.
fn lived(count: u64) -> Vec<EventKind> {
    let mut events = Vec::new();
    for id in 1..=count {
        let program = ProgramId(id);
        events.push(buffer(MESH, id, Class::Dram, id * 64, 64, 256));
        events.push(EventKind::CbAllocated {
            mesh: MESH,
            program,
            cb: 0,
            kind: CbKind::Local,
            address: 512,
            size_bytes: 64,
            cores: CoresId(1),
        });
        events.push(EventKind::KernelLoaded {
            mesh: MESH,
            program,
            kernel: KernelId(id),
            name: TextId::NONE,
            binary_bytes: 100,
            cores: CoresId(1),
            core_count: 0,
            kind: KernelKind::Application,
            core_type: CoreType::Tensix,
        });
    }
    for id in 1..count {
        events.push(EventKind::BufferFreed {
            mesh: MESH,
            buffer: BufferId(id),
        });
        events.push(EventKind::ProgramDestroyed {
            program: ProgramId(id),
        });
    }
    events
}

/// A ledger whose devices held more before, and a process that will send its state.
fn fuller_before() -> (Ledger, u32) {
    let mut ledger = Ledger::new(Limits::default());
    let earlier = ledger.join(identity("earlier", Source::Attached, ""));
    for definition in definitions() {
        let defined = ledger.define(earlier, &definition);
        assert_eq!(defined, Ok(()));
    }
    for (time, kind) in (1..).zip(lived(4)) {
        let applied = ledger.tell(earlier, &Event { time, kind });
        assert_eq!(applied, Ok(()));
    }
    let departed = ledger.depart(earlier, Departure::Exited, 100);
    assert!(departed.is_some());
    let process = ledger.join(identity("damaged", Source::Attached, ""));
    (ledger, process)
}

#[test]
fn no_changed_byte_of_a_state_makes_figures_wrong() {
    let definitions = definitions();
    let events = (200..).zip(lived(2));
    let events = events.map(|(time, kind)| Event { time, kind });
    let state = state_of(Source::Attached, &definitions, events);
    let mut taken = 0;
    // Without its fingerprint none of it would be read.
    for place in 8..state.len() {
        for value in [0, u8::MAX] {
            let mut state = state.clone();
            state[place] = value;
            let resync = Resync {
                definitions: definitions.clone(),
                state,
                clock: Clock::UNIX_NANOS,
                lost_events: 0,
                elided_events: 0,
            };
            let (mut ledger, process) = fuller_before();
            ledger.resync(process, resync);
            let view = ledger.view();
            assert_eq!(view.audit(), Ok(()), "byte {place} became {value}");
            let held = view.process(process).expect("it is there");
            taken += u64::from(held.rows.buffers.iter().next().is_some());
        }
    }
    assert!(
        taken > state.len() as u64,
        "the states were refused as a whole: {taken} taken"
    );
}
