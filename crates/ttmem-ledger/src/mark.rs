//! Marks that users set, and the peaks since each.

use crate::totals::PeakSet;
use std::collections::VecDeque;
use std::sync::Arc;

/// Older marks are forgotten.
const MAX_MARKS: usize = 64;

/// A mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When it was set.
    pub time: u64,
    /// Its name.
    pub name: Arc<str>,
    /// The user's number.
    pub number: u64,
}

/// The marks, each with the peaks of the stretch that follows it.
///
/// An event only raises the peaks of the stretch that is running; the peak since
/// a mark is the highest of all stretches from there on.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    stretches: VecDeque<(Mark, Vec<PeakSet>)>,
}

impl Marks {
    /// Begins a stretch; `ended` are the peaks of the one before, by device.
    pub(crate) fn push(&mut self, mark: Mark, ended: Vec<PeakSet>) {
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
    ) -> impl Iterator<Item = (&Mark, PeakSet)> {
        let mut highest = running;
        let mut since: Vec<(&Mark, PeakSet)> = Vec::with_capacity(self.stretches.len());
        for (mark, peaks) in self.stretches.iter().rev() {
            if let Some(peaks) = peaks.get(device) {
                highest = highest.max(peaks);
            }
            since.push((mark, highest));
        }
        since.into_iter().rev()
    }
}
