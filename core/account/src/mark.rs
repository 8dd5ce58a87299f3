//! Marks that users set, and the peaks since each.

use crate::shares::oldest_of_largest;
use crate::totals::PeakSet;
use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) const MAX_MARKS: usize = 64;

/// A mark; its name is a text, or the id of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark<Name = Arc<str>> {
    pub time: u64,
    pub name: Name,
    pub number: u64,
}

/// Whose a mark is: a user's, and which process set it; none if the user did.
pub type MarkOwner = (u32, Option<u32>);

/// The marks, each with the peaks of the stretch that follows it.
///
/// An event only raises the peaks of the stretch that is running; the peak since
/// a mark is the highest of all stretches from there on. Of too many, the oldest goes of whoever
/// has most: a program that sets one in each step pushes out its own.
#[derive(Clone, Debug)]
pub struct Marks<Name = Arc<str>> {
    pub(crate) stretches: VecDeque<(Mark<Name>, Vec<PeakSet>)>,
    /// Whose each of them is.
    pub(crate) owners: VecDeque<MarkOwner>,
}

impl<Name> Default for Marks<Name> {
    fn default() -> Self {
        Self {
            stretches: VecDeque::new(),
            owners: VecDeque::new(),
        }
    }
}

impl<Name> Marks<Name> {
    /// Begins a stretch; `ended` are the peaks of the one before, by device.
    pub fn push(&mut self, owner: MarkOwner, mark: Mark<Name>, ended: Vec<PeakSet>) {
        if let Some((_mark, peaks)) = self.stretches.back_mut() {
            *peaks = ended;
        }
        if self.stretches.len() == MAX_MARKS {
            self.make_room();
        }
        self.stretches.push_back((mark, Vec::new()));
        self.owners.push_back(owner);
    }

    /// Removes a mark; what its stretch reached belongs to the one before it.
    fn make_room(&mut self) {
        let place = oldest_of_largest(&self.owners, |owner| *owner);
        self.owners.remove(place);
        let removed = self.stretches.remove(place);
        let before = place
            .checked_sub(1)
            .and_then(|before| self.stretches.get_mut(before));
        if let Some(((_mark, ended), (_before, peaks))) = removed.zip(before) {
            if peaks.len() < ended.len() {
                peaks.resize(ended.len(), PeakSet::default());
            }
            for (peak, ended) in peaks.iter_mut().zip(&ended) {
                *peak = peak.max(ended);
            }
        }
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

    /// Every mark, oldest first, with its owner.
    pub fn owned(&self) -> impl ExactSizeIterator<Item = (MarkOwner, &Mark<Name>)> {
        let stretches = self.stretches.iter();
        let owned = self.owners.iter().copied().zip(stretches);
        owned.map(|(owner, (mark, _peaks))| (owner, mark))
    }

    /// Gives marks other names, by their owners.
    pub fn rename(&mut self, mut name: impl FnMut(MarkOwner, &mut Name)) {
        for (owner, (mark, _peaks)) in self.owners.iter().zip(&mut self.stretches) {
            name(*owner, &mut mark.name);
        }
    }

    #[must_use]
    pub fn last(&self) -> Option<&Mark<Name>> {
        self.stretches.back().map(|(mark, _peaks)| mark)
    }

    /// The same with the peaks of one device alone, if of any: by its place, and by the one that it has then.
    #[must_use]
    pub fn of_device(&self, device: Option<(usize, usize)>) -> Self
    where
        Name: Clone,
    {
        let stretches = self.stretches.iter().map(|(mark, peaks)| {
            let mut moved = Vec::new();
            let of_device = device.and_then(|(before, then)| Some((then, peaks.get(before)?)));
            if let Some((then, peaks)) = of_device {
                moved.resize(then + 1, PeakSet::default());
                moved[then] = *peaks;
            }
            (mark.clone(), moved)
        });
        Self {
            stretches: stretches.collect(),
            owners: self.owners.clone(),
        }
    }

    /// Adds a mark of the past with the peaks of its stretch, in the order of the times.
    pub fn restore(&mut self, owner: MarkOwner, mark: Mark<Name>, peaks: Vec<PeakSet>) {
        let place = self
            .stretches
            .partition_point(|(known, _peaks)| known.time <= mark.time);
        self.stretches.insert(place, (mark, peaks));
        self.owners.insert(place, owner);
        if self.stretches.len() > MAX_MARKS {
            self.make_room();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::totals::GaugeKind;
    use ttmem_event::Class;

    const DRAM: GaugeKind = GaugeKind::Class(Class::Dram);

    fn reached(bytes: u64) -> PeakSet {
        let mut peaks = PeakSet::default();
        *peaks.peak_mut(DRAM) = crate::Peak { bytes, time: bytes };
        peaks
    }

    #[test]
    fn many_marks_push_out_their_own_and_peaks_since_the_others_stay_right() {
        let mut marks = Marks::default();
        let mut random = 7_u64;
        // Bytes that each stretch reached, by the number of the mark that began it.
        let mut stretches: Vec<u64> = Vec::new();
        let ours: Vec<u64> = vec![0, 3, 40, 200];
        for number in 0..500 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let ended = random >> 40;
            let owner = match number {
                ours_is if ours.contains(&ours_is) => (1, None),
                even if even % 2 == 0 => (2, Some(7)),
                _odd => (2, Some(8)),
            };
            if number > 0 {
                stretches.push(ended);
            }
            let mark = Mark {
                time: number,
                name: (),
                number,
            };
            marks.push(owner, mark, vec![reached(ended)]);
        }
        let since: Vec<_> = marks.peaks_since(0, reached(5)).collect();
        assert_eq!(since.len(), MAX_MARKS);
        for number in &ours {
            assert!(
                since.iter().any(|(mark, _peaks)| mark.number == *number),
                "{number}"
            );
        }
        for process in 0..2 {
            let kept = since
                .iter()
                .filter(|(mark, _)| mark.number % 2 == process)
                .count();
            assert!(kept >= 28, "each of the two has its half: {kept}");
        }
        for (mark, peaks) in since {
            let from = usize::try_from(mark.number).unwrap();
            let highest = stretches[from..].iter().copied().max().unwrap_or(0).max(5);
            assert_eq!(peaks.peak(DRAM).bytes, highest, "since {from}");
        }
    }
}
