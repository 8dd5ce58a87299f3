//! What is counted over the life of a ledger: what processes counted that are gone stays counted.
//!
//! Each count is of events as they are applied, and of what a process that sends its whole state has
//! counted beyond what was known of it. So none goes back, whatever a process says later.

use crate::process::Process;
use std::collections::BTreeMap;
use ttmem_account::state::codec::{Codec, MAX_COUNT, Out, Reader};
use ttmem_event::{ClashKind, Class, EventKind, MeshId};

/// What a failure comes down to, by the event that reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// Less is free than is needed.
    Capacity,
    /// Enough is free, but in no single block.
    Fragmentation,
    /// A program's storage would overlap memory that is in use.
    Clash,
    /// A region whose size is set when the device is opened is too small.
    RegionTooSmall,
    /// The event does not decide it.
    Unknown,
}

impl FailureKind {
    pub const ALL: [Self; 5] = [
        Self::Capacity,
        Self::Fragmentation,
        Self::Clash,
        Self::RegionTooSmall,
        Self::Unknown,
    ];

    /// The kind and the mesh of a failure; none of any other event.
    #[must_use]
    pub fn of(event: &EventKind) -> Option<(MeshId, Self)> {
        match *event {
            EventKind::AllocationFailed {
                mesh,
                class,
                per_bank_bytes: need,
                free_bytes: free,
                largest_free_bytes: largest,
                bank_bytes: bank,
                ..
            } => {
                let kind = if need > bank || need > free {
                    match class {
                        Class::L1Small | Class::Trace => Self::RegionTooSmall,
                        Class::Dram | Class::L1 | Class::System => Self::Capacity,
                    }
                } else if need > largest {
                    Self::Fragmentation
                } else {
                    Self::Unknown
                };
                Some((mesh, kind))
            }
            EventKind::Clashed { mesh, kind, .. } => {
                let kind = match kind {
                    ClashKind::L1Buffer | ClashKind::ServiceCore => Self::Clash,
                    ClashKind::BeyondL1 => Self::Capacity,
                    ClashKind::OutsideGrid => Self::Unknown,
                };
                Some((mesh, kind))
            }
            _no_failure => None,
        }
    }
}

/// What was counted on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Failures on it, in the order of [`FailureKind::ALL`]; one on a mesh counts on each of its devices.
    failures: [u64; FailureKind::ALL.len()],
    /// How often a program waited for room in a config ring.
    pub ring_stalls: u64,
}

impl DeviceCounts {
    /// How many failures of each kind there were.
    pub fn failures(&self) -> impl Iterator<Item = (FailureKind, u64)> {
        FailureKind::ALL.into_iter().zip(self.failures)
    }

    /// What an event adds on each device of a mesh; none if nothing is counted of it.
    pub(crate) fn of(event: &EventKind) -> Option<(MeshId, Self)> {
        if let EventKind::ConfigRingReserved {
            mesh,
            stalled: true,
            ..
        } = *event
        {
            return Some((mesh, Self::of_stalls(1)));
        }
        let mut counts = Self::default();
        let (mesh, kind) = FailureKind::of(event)?;
        counts.failures[kind as usize] = 1;
        Some((mesh, counts))
    }

    /// So many stalls, and nothing else.
    pub(crate) fn of_stalls(ring_stalls: u64) -> Self {
        Self {
            ring_stalls,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        for (count, more) in self.failures.iter_mut().zip(more.failures) {
            raise(count, more);
        }
        raise(&mut self.ring_stalls, more.ring_stalls);
    }
}

/// What a process may claim at once. Beyond it the sum would be so large that others' counts were lost in it: monitoring systems
/// keep floats.
const MOST_CLAIMED: u64 = 1 << 32;

/// What was counted over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that never reached the ledger.
    pub lost_events: u64,
    /// Events that are missing from the log only.
    pub elided_events: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, lost_events: u64, elided_events: u64) {
        raise(&mut self.lost_events, lost_events.min(MOST_CLAIMED));
        raise(&mut self.elided_events, elided_events.min(MOST_CLAIMED));
    }
}

fn raise(count: &mut u64, more: u64) {
    *count = count.saturating_add(more).min(MAX_COUNT);
}

/// How often programs of a process waited for room in its rings, by the ledger's numbers of devices.
pub(crate) fn ring_stalls(process: &Process) -> BTreeMap<u32, u64> {
    let mut by_device = BTreeMap::new();
    let facts = process.account.facts();
    for (key, ring) in facts
        .config_rings
        .iter()
        .filter(|(_, ring)| ring.stalls > 0)
    {
        let mesh = facts.meshes.get(key.0 as usize);
        let slots = mesh.into_iter().flat_map(|mesh| mesh.devices.iter());
        for number in slots.filter_map(|slot| process.devices.get(*slot as usize)) {
            raise(by_device.entry(*number).or_insert(0), ring.stalls);
        }
    }
    by_device
}

impl Codec for DeviceCounts {
    const NAME: &'static str = "DeviceCounts";
    fn put(&self, out: &mut Out) {
        self.failures.put(out);
        self.ring_stalls.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let mut counts = Self::default();
        if read.is_first_layout {
            return Some(counts);
        }
        for count in counts.failures.iter_mut().chain([&mut counts.ring_stalls]) {
            *count = read.count()?;
        }
        Some(counts)
    }
}

impl Codec for Counts {
    const NAME: &'static str = "Counts";
    fn put(&self, out: &mut Out) {
        (self.lost_events, self.elided_events).put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        if read.is_first_layout {
            return Some(Self::default());
        }
        Some(Self {
            lost_events: read.count()?,
            elided_events: read.count()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_claims_does_not_drown_what_others_lose() {
        let mut counts = Counts::default();
        counts.add(u64::MAX, u64::MAX);
        let before = counts.lost_events as f64;
        counts.add(1, 0);
        assert!(counts.lost_events as f64 > before);
        assert_eq!(counts.elided_events, MOST_CLAIMED);
    }
}
