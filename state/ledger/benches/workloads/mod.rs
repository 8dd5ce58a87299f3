//! The event streams that both benches run.
//!
//! A workload is set up once, with everything it will ever read, and then runs
//! any number of events: its stream is a cycle that ends in the state it began
//! in. So the cost of `n` events is the cost of `2n` less that of `n`, whatever
//! the set-up took, and nothing that is measured makes events.

pub(crate) mod buffers;
mod decode;
mod legacy;
mod programs;
pub(crate) mod shuffle;
pub(crate) mod world;

use std::sync::Arc;
use ttmem_event::Event;
use ttmem_ledger::Effect;
use world::World;

/// Events of a client's batch.
const EVENTS_PER_BATCH: usize = 1024;

/// Runs that many more events of a workload that is set up.
pub(crate) type Runner = Box<dyn FnMut(u64)>;

/// A named stream of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// The name on the command line and in the baselines.
    pub(crate) name: &'static str,
    pub(crate) prepare: fn() -> Runner,
}

/// Every workload, in the order of the reports.
pub(crate) const WORKLOADS: &[Workload] = &[
    // Allocations and frees of one device.
    Workload {
        name: "ledger_buffers",
        prepare: || replay(buffers::churn(1), None),
    },
    // The same, with somebody who wants to know every change.
    Workload {
        name: "ledger_effects",
        prepare: || replay(buffers::churn(1), Some(Vec::new())),
    },
    // The same on a mesh of eight: each event is booked on every device.
    Workload {
        name: "ledger_mesh8",
        prepare: || replay(buffers::churn(8), None),
    },
    // Programs that are found in every cache.
    Workload {
        name: "ledger_dispatch",
        prepare: || replay(programs::dispatches(), None),
    },
    // Everything an old sender reports.
    Workload {
        name: "ledger_legacy",
        prepare: || replay(legacy::mix(), None),
    },
    // Records of an old sender, cut out of its stream.
    Workload {
        name: "legacy_decode",
        prepare: decode::legacy_records,
    },
    // Events of a client's batches.
    Workload {
        name: "wire_decode",
        prepare: decode::wire_batches,
    },
];

/// Applies a cycle of events to a world over and over.
fn replay((mut world, cycle): (World, Vec<Event>), mut effects: Option<Vec<Effect>>) -> Runner {
    let cycle = Arc::new(cycle);
    let mut next = 0;
    Box::new(move |events| {
        for part in parts(cycle.len(), &mut next, events) {
            for start in part.clone().step_by(EVENTS_PER_BATCH) {
                if let Some(effects) = &mut effects {
                    // The listener empties it after every batch.
                    effects.clear();
                }
                let end = part.end.min(start + EVENTS_PER_BATCH);
                world.apply_batch(&cycle, start..end, effects.as_mut());
            }
        }
        world.assert_sound();
    })
}

/// The stretches of a cycle of `len` that the next `count` of its parts are, from `next` on.
fn parts(len: usize, next: &mut usize, count: u64) -> Vec<std::ops::Range<usize>> {
    let mut left = usize::try_from(count).expect("a count of events fits the address space");
    let mut parts = Vec::new();
    while left > 0 {
        let end = len.min(*next + left);
        left -= end - *next;
        parts.push(*next..end);
        *next = if end == len { 0 } else { end };
    }
    parts
}
