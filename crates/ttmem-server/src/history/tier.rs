//! Steps of one width: the newest so many of them.

use super::sample::Sample;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Tier {
    step_nanos: u64,
    steps: usize,
    /// The ends of the steps.
    times: VecDeque<u64>,
    /// By device: the samples of the newest steps; a device that came late has fewer.
    samples: Vec<VecDeque<Option<Sample>>>,
}

impl Tier {
    pub(super) fn new(step_seconds: u32, steps: usize) -> Self {
        Self {
            step_nanos: u64::from(step_seconds) * 1_000_000_000,
            steps,
            times: VecDeque::new(),
            samples: Vec::new(),
        }
    }

    pub(super) fn step_seconds(&self) -> u32 {
        u32::try_from(self.step_nanos / 1_000_000_000).unwrap_or(u32::MAX)
    }

    /// How far back it reaches when it is full.
    pub(super) fn reach_seconds(&self) -> u32 {
        let steps = u32::try_from(self.steps).unwrap_or(u32::MAX);
        self.step_seconds().saturating_mul(steps)
    }

    /// Books the samples of a time, by device.
    ///
    /// A clock that was set back books into the newest step: what is there stays in order.
    pub(super) fn book(&mut self, time: u64, found: &[(usize, Sample)]) {
        let end = (time / self.step_nanos + 1).saturating_mul(self.step_nanos);
        if self.times.back().is_none_or(|newest| *newest < end) {
            self.begin(end);
        }
        for (device, sample) in found {
            if *device >= self.samples.len() {
                self.samples.resize_with(device + 1, VecDeque::new);
            }
            let kept = &mut self.samples[*device];
            if kept.is_empty() {
                kept.push_back(None);
            }
            if let Some(newest) = kept.back_mut() {
                *newest = Some(newest.map_or(*sample, |before| before.join(*sample)));
            }
        }
    }

    fn begin(&mut self, end: u64) {
        self.times.push_back(end);
        for kept in &mut self.samples {
            kept.push_back(None);
        }
        if self.times.len() > self.steps {
            self.times.pop_front();
        }
        for kept in &mut self.samples {
            if kept.len() > self.times.len() {
                kept.pop_front();
            }
        }
    }

    /// The place of the first step that ends after a time.
    pub(super) fn first_since(&self, time: u64) -> usize {
        self.times.partition_point(|end| *end <= time)
    }

    /// The ends of the steps from a place on.
    pub(super) fn times(&self, first: usize) -> impl Iterator<Item = u64> {
        self.times.range(first.min(self.times.len())..).copied()
    }

    /// The samples of a device from a place on, one per step.
    pub(super) fn of(&self, device: usize, first: usize) -> Vec<Option<Sample>> {
        let empty = VecDeque::new();
        let kept = self.samples.get(device).unwrap_or(&empty);
        let missing = self.times.len() - kept.len();
        (first..self.times.len())
            .map(|step| {
                step.checked_sub(missing)
                    .and_then(|at| kept.get(at).copied().flatten())
            })
            .collect()
    }
}
