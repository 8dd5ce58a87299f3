//! Marks that users set, and the peaks since each.

use crate::totals::PeakSet;
use std::collections::VecDeque;
use std::sync::Arc;

const MAX_MARKS: usize = 64;

/// A mark; its name is a text, or the id of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark<Name = Arc<str>> {
    pub time: u64,
    pub name: Name,
    pub number: u64,
}

/// The marks, each with the peaks of the stretch that follows it.
///
/// An event only raises the peaks of the stretch that is running; the peak since
/// a mark is the highest of all stretches from there on.
#[derive(Clone, Debug, Default)]
pub struct Marks<Name = Arc<str>> {
    stretches: VecDeque<(Mark<Name>, Vec<PeakSet>)>,
}

impl<Name> Marks<Name> {
    /// Begins a stretch; `ended` are the peaks of the one before, by device.
    pub fn push(&mut self, mark: Mark<Name>, ended: Vec<PeakSet>) {
        if let Some((_mark, peaks)) = self.stretches.back_mut() {
            *peaks = ended;
        }
        if self.stretches.len() == MAX_MARKS {
            self.stretches.pop_front();
        }
        self.stretches.push_back((mark, Vec::new()));
    }

    /// Every mark with a device's peaks since, given those of the running stretch.
    pub fn peaks_since(
        &self,
        device: usize,
        running: PeakSet,
    ) -> impl Iterator<Item = (&Mark<Name>, PeakSet)> {
        let mut highest = running;
        let mut since: Vec<(&Mark<Name>, PeakSet)> = Vec::with_capacity(self.stretches.len());
        for (mark, peaks) in self.stretches.iter().rev() {
            if let Some(peaks) = peaks.get(device) {
                highest = highest.max(peaks);
            }
            since.push((mark, highest));
        }
        since.into_iter().rev()
    }

    /// Every mark, oldest first, with the peaks of its stretch by device; none while it runs.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Mark<Name>, &[PeakSet])> {
        let stretches = self.stretches.iter();
        stretches.map(|(mark, peaks)| (mark, peaks.as_slice()))
    }

    #[must_use]
    pub fn last(&self) -> Option<&Mark<Name>> {
        self.stretches.back().map(|(mark, _peaks)| mark)
    }

    /// Adds a mark of the past with the peaks of its stretch, in the order of the times.
    pub fn restore(&mut self, mark: Mark<Name>, peaks: Vec<PeakSet>) {
        let place = self
            .stretches
            .partition_point(|(known, _peaks)| known.time <= mark.time);
        self.stretches.insert(place, (mark, peaks));
        if self.stretches.len() > MAX_MARKS {
            self.stretches.pop_front();
        }
    }
}
