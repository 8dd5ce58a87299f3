//! What is kept of each device: samples in steps of one width, the newest so many of them.

use std::collections::VecDeque;
use ttmem_event::Class;
use ttmem_ledger::Device;
use ttmem_ledger::geometry::DeviceGeometry;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Totals of a device: the highest within a step, but for the free blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) dram: u64,
    pub(crate) l1: u64,
    pub(crate) l1_small: u64,
    pub(crate) trace: u64,
    pub(crate) occupied: Option<u64>,
    pub(crate) cb_resident: Option<u64>,
    pub(crate) cb_registered: u64,
    pub(crate) kernel_registered: u64,
    /// The smallest within the step.
    pub(crate) dram_largest_free: Option<u64>,
    /// The smallest within the step.
    pub(crate) l1_largest_free: Option<u64>,
    /// Programs run in the step.
    pub(crate) dispatches: u64,
}

/// The totals of a device as they are.
pub(crate) fn sample_of(device: &Device) -> Sample {
    let charged = |class: Class| device.totals.class(class).charged.bytes();
    Sample {
        dram: charged(Class::Dram),
        l1: charged(Class::L1),
        l1_small: charged(Class::L1Small),
        trace: charged(Class::Trace),
        cb_registered: device.totals.cb.registered.bytes(),
        kernel_registered: device.totals.kernel.registered.bytes(),
        ..Sample::default()
    }
}

impl Sample {
    /// The same with what is only known of places that were worked out.
    pub(crate) fn with_geometry(self, layout: Option<&DeviceGeometry>) -> Self {
        let largest = |class: Class| layout?.classes[class.index()].largest_free_bytes;
        Self {
            occupied: layout.and_then(|layout| layout.occupied_bytes),
            cb_resident: layout.and_then(|layout| layout.cb_resident_bytes),
            dram_largest_free: largest(Class::Dram),
            l1_largest_free: largest(Class::L1),
            ..self
        }
    }

    /// Two samples of one step as one.
    pub(crate) fn join(self, later: Self) -> Self {
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        Self {
            dram: self.dram.max(later.dram),
            l1: self.l1.max(later.l1),
            l1_small: self.l1_small.max(later.l1_small),
            trace: self.trace.max(later.trace),
            occupied: self.occupied.max(later.occupied),
            cb_resident: self.cb_resident.max(later.cb_resident),
            cb_registered: self.cb_registered.max(later.cb_registered),
            kernel_registered: self.kernel_registered.max(later.kernel_registered),
            dram_largest_free: least(self.dram_largest_free, later.dram_largest_free),
            l1_largest_free: least(self.l1_largest_free, later.l1_largest_free),
            dispatches: self.dispatches.saturating_add(later.dispatches),
        }
    }
}

#[derive(Debug)]
pub(super) struct Tier {
    pub(super) step_seconds: u32,
    max_steps: u32,
    /// Oldest first.
    steps: VecDeque<Step>,
}

#[derive(Debug)]
struct Step {
    /// In nanoseconds since the epoch.
    end: u64,
    /// By device; one that came later has none.
    samples: Vec<Option<Sample>>,
}

impl Tier {
    pub(super) fn new(step_seconds: u32, max_steps: u32) -> Self {
        Self {
            step_seconds,
            max_steps,
            steps: VecDeque::new(),
        }
    }

    /// How far back it reaches when it is full.
    pub(super) fn reach_seconds(&self) -> u32 {
        self.step_seconds.saturating_mul(self.max_steps)
    }

    /// Moves all steps back by whole steps: the clock was set back, and by it they were earlier.
    pub(super) fn move_back(&mut self, nanos: u64) {
        let step_nanos = u64::from(self.step_seconds) * NANOS_PER_SECOND;
        let whole_steps = nanos - nanos % step_nanos;
        for step in &mut self.steps {
            step.end = step.end.saturating_sub(whole_steps);
        }
    }

    /// Books the samples of a time, by device.
    pub(super) fn book(&mut self, time: u64, found: &[(usize, Sample)]) {
        let step_nanos = u64::from(self.step_seconds) * NANOS_PER_SECOND;
        let end = (time / step_nanos + 1).saturating_mul(step_nanos);
        if self.steps.back().is_none_or(|newest| newest.end < end) {
            let samples = Vec::new();
            self.steps.push_back(Step { end, samples });
            if self.steps.len() > self.max_steps as usize {
                self.steps.pop_front();
            }
        }
        let Some(newest) = self.steps.back_mut() else {
            return;
        };
        for (device, sample) in found {
            if *device >= newest.samples.len() {
                newest.samples.resize(device + 1, None);
            }
            let kept = &mut newest.samples[*device];
            *kept = Some(kept.map_or(*sample, |before| before.join(*sample)));
        }
    }

    /// The index of the first step that ends after a time.
    pub(super) fn first_since(&self, time: u64) -> usize {
        self.steps.partition_point(|step| step.end <= time)
    }

    /// The ends of the steps from an index on.
    pub(super) fn times(&self, first: usize) -> impl Iterator<Item = u64> {
        self.steps.range(first..).map(|step| step.end)
    }

    /// The samples of a device from an index on, one per step.
    pub(super) fn of(&self, device: usize, first: usize) -> Vec<Option<Sample>> {
        let steps = self.steps.range(first..);
        let samples = steps.map(|step| step.samples.get(device).copied().flatten());
        samples.collect()
    }
}
