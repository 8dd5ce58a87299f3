//! Totals of every device over time, in memory and bounded.
//!
//! A thread of its own reads the ledger once a second and books what it finds in steps of a
//! second, of ten seconds and of a minute. Readers copy out what they ask for. No event waits
//! for this.

mod sampler;
mod tier;

pub(crate) use sampler::Sampler;

use crate::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tier::Tier;
pub(crate) use tier::{Sample, sample_of};
use ttmem_ledger::DeviceKey;
use ttmem_report::{DeviceHistory, HexId, History, SCHEMA, Timestamp};

/// The most devices with a history: a machine has 32, and each costs a quarter of a megabyte.
pub(crate) const MAX_DEVICES: usize = 128;

/// The seconds of a step, and how many steps are kept.
const TIERS: [(u32, u32); 3] = [(1, 600), (10, 720), (60, 1440)];

#[derive(Clone, Debug)]
pub(crate) struct Histories {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug)]
struct Kept {
    tiers: [Tier; TIERS.len()],
    /// The time of the newest samples.
    booked: u64,
    /// By their index in the tiers.
    devices: BTreeMap<DeviceKey, Named>,
}

/// What a device was seen to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) key: DeviceKey,
    /// Its logical id.
    pub(crate) id: u32,
    pub(crate) unique_id: Option<u64>,
    pub(crate) sample: Sample,
}

#[derive(Clone, Debug)]
struct Named {
    index: usize,
    id: u32,
    unique_id: Option<u64>,
}

impl Default for Histories {
    fn default() -> Self {
        let kept = Kept {
            tiers: TIERS.map(|(seconds, steps)| Tier::new(seconds, steps)),
            booked: 0,
            devices: BTreeMap::new(),
        };
        Self {
            kept: Arc::new(Mutex::new(kept)),
        }
    }
}

impl Histories {
    /// Books what was found at a time, in nanoseconds since the epoch.
    fn book(&self, time: u64, found: &[Observed]) {
        let mut kept = lock(&self.kept);
        let kept = &mut *kept;
        let set_back = kept.booked.saturating_sub(time);
        if set_back > 0 {
            // Times by which nothing happened yet would take no samples until they come.
            for tier in &mut kept.tiers {
                tier.move_back(set_back);
            }
        }
        kept.booked = time;
        let mut samples = Vec::with_capacity(found.len());
        for each in found {
            if let Some(index) = index_of(&mut kept.devices, each) {
                samples.push((index, each.sample));
            }
        }
        for tier in &mut kept.tiers {
            tier.book(time, &samples);
        }
    }

    /// The history of every device, so many seconds back, in the finest steps that reach so far.
    pub(crate) fn document(&self, time: Timestamp, seconds: u32) -> History {
        let kept = lock(&self.kept);
        let mut tiers = kept.tiers.iter();
        let tier = tiers.find(|tier| tier.reach_seconds() >= seconds);
        let tier = tier.unwrap_or(&kept.tiers[TIERS.len() - 1]);
        let span = u64::from(seconds).saturating_mul(1_000_000_000);
        let first = tier.first_since(time.unix_nanos().saturating_sub(span));
        let devices = kept.devices.iter().map(|(key, named)| {
            let samples = tier.of(named.index, first);
            device_history(named, crate::read::snapshot::scope(key), &samples)
        });
        History {
            schema: SCHEMA,
            time,
            step_seconds: tier.step_seconds,
            times: tier.times(first).map(Timestamp::from_unix_nanos).collect(),
            devices: devices.collect(),
        }
    }

    /// The seconds of the finest steps that reach so far back.
    pub(crate) fn step_seconds(seconds: u32) -> u32 {
        let mut reaching = TIERS.iter().filter(|(step, steps)| step * steps >= seconds);
        let coarsest = TIERS[TIERS.len() - 1].0;
        reaching.next().map_or(coarsest, |(step, _steps)| *step)
    }

    /// A history of steps that were observed elsewhere, each with its end; a step may be empty.
    pub(crate) fn document_of(
        time: Timestamp,
        step_seconds: u32,
        steps: &[(u64, &[Observed])],
    ) -> History {
        let mut named: BTreeMap<DeviceKey, Named> = BTreeMap::new();
        let mut samples: Vec<Vec<Option<Sample>>> = Vec::new();
        for (number, (_end, observed)) in steps.iter().enumerate() {
            for each in *observed {
                let Some(index) = index_of(&mut named, each) else {
                    continue;
                };
                if index == samples.len() {
                    samples.push(vec![None; steps.len()]);
                }
                samples[index][number] = Some(each.sample);
            }
        }
        let devices = named.iter().map(|(key, named)| {
            let scope = crate::read::snapshot::scope(key);
            device_history(named, scope, &samples[named.index])
        });
        let times = steps
            .iter()
            .map(|(end, _)| Timestamp::from_unix_nanos(*end));
        History {
            schema: SCHEMA,
            time,
            step_seconds,
            times: times.collect(),
            devices: devices.collect(),
        }
    }

    /// How far back the coarsest steps reach.
    pub(crate) fn longest_seconds() -> u32 {
        let reaches = TIERS.map(|(seconds, steps)| seconds * steps);
        reaches.into_iter().max().unwrap_or(0)
    }
}

/// The index of a device, which gets the next one if it is new; none if there are too many.
fn index_of(devices: &mut BTreeMap<DeviceKey, Named>, observed: &Observed) -> Option<usize> {
    let next = devices.len();
    if next == MAX_DEVICES && !devices.contains_key(&observed.key) {
        return None;
    }
    let named = devices.entry(observed.key.clone()).or_insert(Named {
        index: next,
        id: observed.id,
        unique_id: observed.unique_id,
    });
    named.id = observed.id;
    Some(named.index)
}

fn device_history(
    named: &Named,
    scope: Option<String>,
    samples: &[Option<Sample>],
) -> DeviceHistory {
    let series = |of: fn(&Sample) -> Option<u64>| {
        let values = samples.iter().map(|sample| sample.as_ref().and_then(of));
        values.collect()
    };
    DeviceHistory {
        id: named.id,
        unique_id: named.unique_id.map(HexId),
        scope,
        dram_bytes: series(|sample| Some(sample.dram)),
        l1_bytes: series(|sample| Some(sample.l1)),
        l1_small_bytes: series(|sample| Some(sample.l1_small)),
        trace_bytes: series(|sample| Some(sample.trace)),
        occupied_bytes: series(|sample| sample.occupied),
        cb_resident_bytes: series(|sample| sample.cb_resident),
        cb_registered_bytes: series(|sample| Some(sample.cb_registered)),
        kernel_registered_bytes: series(|sample| Some(sample.kernel_registered)),
        dram_largest_free_bytes: series(|sample| sample.dram_largest_free),
        l1_largest_free_bytes: series(|sample| sample.l1_largest_free),
        dispatches: series(|sample| Some(sample.dispatches)),
    }
}

#[cfg(test)]
mod tests;
