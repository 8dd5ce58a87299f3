//! The account as of now, for a process that asks for its own figures.
//!
//! The account beside the history is as of the first event that no server has confirmed. The
//! first question makes a copy, which takes over the events behind that point and follows from
//! then on; a process that never asks has none.
//!
//! Peaks are the account's own, with what was live at each. Whenever a stretch begins they begin
//! anew in the copy, and what the part of the run that ends here reached is kept for the stretches
//! that are open.

mod stretch;
mod timeline;

use crate::own_account::{
    Answer, AskError, AtPeak, Described, Lines, PEAK_LINES, Part, Question, Rows,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use stretch::{Ending, Parts, Stretch};
use timeline::Timeline;
use ttmem_account::totals::GaugeKind;
use ttmem_account::{Account, BufferRow, Charge, Limits, Observer};
use ttmem_event::{Class, Definition, Event};

/// Stretches that may be open; each has some hundred bytes per device and a timeline.
const MAX_STRETCHES: usize = 1024;

/// Buffers that were held at a close and are kept for open stretches; further ones are counted.
const MAX_LEFT: usize = 100_000;

/// The stretch since the start or the last reset.
const SINCE_RESET: u64 = 0;

#[derive(Debug)]
pub(super) struct Present {
    account: Account,
    limits: Limits,
    /// The sequence number of the first event that it lacks.
    next: u64,
    /// What all devices hold together.
    sums: Sums,
    /// Buffers that were held when their mesh was closed, of the stretches that are open.
    left: Vec<BufferRow>,
    parts: Parts,
    stretches: BTreeMap<u64, Stretch>,
    last_stretch: u64,
}

/// Charged bytes over all devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums([u64; Class::COUNT]);

/// What an event changes besides the account.
struct Followed<'a> {
    sums: &'a mut Sums,
    /// The event before the first stretch that is open, if one is.
    first_begun: Option<u64>,
    /// What was placed since, and is still held when its mesh is closed.
    left: Vec<BufferRow>,
}

impl Observer for Followed<'_> {
    fn buffer_booked(&mut self, _slot: u32, charge: Charge, _row: &BufferRow, _time: u64) -> u64 {
        let sum = &mut self.sums.0[charge.class.index()];
        *sum = sum.saturating_add(charge.bytes);
        0
    }

    fn buffer_released(&mut self, _slot: u32, charge: Charge, _row: &BufferRow, _time: u64) -> u64 {
        let sum = &mut self.sums.0[charge.class.index()];
        *sum = sum.saturating_sub(charge.bytes);
        0
    }

    fn left_behind(&mut self, row: &BufferRow, _devices: u64) {
        if self.first_begun.is_some_and(|first| row.order > first) {
            self.left.push(*row);
        }
    }
}

impl Present {
    /// A copy of the account that is the state at an event.
    pub(super) fn new(account: &Account, next: u64) -> Self {
        let account = account.clone();
        let devices = &account.facts().devices;
        let mut sums = Sums::default();
        for class in Class::ALL {
            let charged = devices.iter().map(|held| held.totals.class(*class).charged);
            sums.0[class.index()] = charged.map(|charged| charged.bytes()).sum();
        }
        Self {
            limits: Limits::default(),
            next,
            sums,
            left: Vec::new(),
            parts: Parts::default(),
            stretches: BTreeMap::from([(SINCE_RESET, Stretch::default())]),
            last_stretch: SINCE_RESET,
            account,
        }
    }

    /// The sequence number of the first event that it lacks.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn define(&mut self, definition: &Definition) {
        // A refusal is counted where it happens.
        let _refused = self.account.define(definition, &self.limits, &mut ());
    }

    /// Takes over the event of a sequence number, unless it has it.
    pub(super) fn follow(&mut self, sequence: u64, event: &Event) {
        if sequence != self.next {
            return;
        }
        self.next += 1;
        let before = self.sums;
        let mut followed = Followed {
            first_begun: self.first_begun(),
            sums: &mut self.sums,
            left: Vec::new(),
        };
        // A refusal is counted where it happens.
        let _refused = self.account.apply(event, &self.limits, &mut followed);
        let left = followed.left;
        self.keep_left(left);
        if self.sums != before {
            let timelines = self.stretches.values_mut();
            for timeline in timelines.filter_map(|stretch| stretch.timeline.as_mut()) {
                timeline.push(self.sums, event.time);
            }
        }
    }

    /// Keeps what was held at a close for the stretches that are open.
    fn keep_left(&mut self, left: Vec<BufferRow>) {
        let meshes = &self.account.facts().meshes;
        for row in left {
            if self.left.len() < MAX_LEFT {
                self.left.push(row);
                continue;
            }
            let mesh = meshes.get(row.mesh as usize);
            let devices = mesh.map_or(0, |mesh| mesh.devices.len() as u64);
            let bytes = row.charged_bytes().saturating_mul(devices);
            for (_number, stretch) in self.stretches.range_mut(SINCE_RESET + 1..) {
                stretch.leave(row.order, bytes);
            }
        }
    }

    /// The event before the first stretch that is open; none if none is.
    fn first_begun(&self) -> Option<u64> {
        // Later ones have higher numbers.
        let mut open = self.stretches.range(SINCE_RESET + 1..);
        open.next().map(|(_number, stretch)| stretch.begun_after)
    }

    /// Goes past an event that is none.
    pub(super) fn skip(&mut self, sequence: u64) {
        self.next = self.next.max(sequence + 1);
    }

    /// Peaks begin anew; the stretches have what was.
    fn begin_anew(&mut self, time: u64) {
        let mut ended = Ending::new(&self.account);
        for stretch in self.stretches.values_mut() {
            stretch.take_over(&mut ended);
        }
        self.parts.keep(ended);
        self.account.restart_peaks(time);
    }

    pub(super) fn answer(&mut self, question: Question, time: u64) -> Result<Answer, AskError> {
        let rows = |since_order, max_rows: u32| Some(Wanted::Rows(since_order, max_rows));
        match question {
            Question::Figures { stretch } => self.describe(stretch, None, time),
            Question::Peaks { stretch, max_rows } => {
                self.describe(stretch, Some(Wanted::Peaks(max_rows)), time)
            }
            Question::Snapshot { stretch, max_rows } => {
                let since = self.begun_after(stretch)?;
                self.describe(stretch, rows(since, max_rows), time)
            }
            Question::Reset { device } => {
                self.reset(device, time);
                self.describe(SINCE_RESET, None, time)
            }
            Question::Begin => {
                let stretch = self.begin(time)?;
                self.describe(stretch, None, time)
            }
            Question::End { stretch, max_rows } if stretch != SINCE_RESET => {
                let since = self.begun_after(stretch)?;
                let answer = self.describe(stretch, rows(since, max_rows), time);
                self.stretches.remove(&stretch);
                self.parts.forget_unused();
                let first = self.first_begun().unwrap_or(u64::MAX);
                self.left.retain(|row| row.order > first);
                answer
            }
            Question::End { .. } => Err(AskError::Value),
        }
    }

    fn begun_after(&self, stretch: u64) -> Result<u64, AskError> {
        let open = self.stretches.get(&stretch).ok_or(AskError::Value)?;
        Ok(open.begun_after)
    }

    fn begin(&mut self, time: u64) -> Result<u64, AskError> {
        if self.stretches.len() >= MAX_STRETCHES {
            return Err(AskError::TooMany);
        }
        self.begin_anew(time);
        self.last_stretch += 1;
        let timeline = Timeline::new(self.sums, time);
        let stretch = Stretch::new(self.account.order(), timeline);
        self.stretches.insert(self.last_stretch, stretch);
        Ok(self.last_stretch)
    }

    fn reset(&mut self, device: Option<u32>, time: u64) {
        self.begin_anew(time);
        let devices = self.described();
        if let Some(stretch) = self.stretches.get_mut(&SINCE_RESET) {
            stretch.forget(|slot| {
                let described: Option<&Described> = devices.get(slot);
                device.is_none() || described.is_some_and(|each| each.logical_id == device)
            });
        }
        self.parts.forget_unused();
    }

    fn described(&self) -> Vec<Described> {
        let slots = 0..u32::try_from(self.account.facts().devices.len()).unwrap_or(u32::MAX);
        let described = slots.map(|slot| match self.account.description(slot) {
            Some((definition, board)) => Described {
                logical_id: Some(definition.logical_id),
                unique_id: definition.unique_id,
                board: board.map(str::to_owned),
            },
            None => Described {
                logical_id: None,
                unique_id: None,
                board: None,
            },
        });
        described.collect()
    }

    fn describe(
        &self,
        stretch: u64,
        wanted: Option<Wanted>,
        time: u64,
    ) -> Result<Answer, AskError> {
        let open = self.stretches.get(&stretch).ok_or(AskError::Value)?;
        let devices = &self.account.facts().devices;
        let timeline = open.timeline.as_ref();
        let (mut rows, mut lines) = (None, None);
        match wanted {
            Some(Wanted::Rows(since_order, most)) => {
                rows = Some(self.rows(open, since_order, most));
                lines = (stretch != SINCE_RESET).then_some(most);
            }
            Some(Wanted::Peaks(most)) => lines = Some(most),
            None => {}
        }
        let lines = lines.filter(|most| *most > 0).map(|most| Lines {
            at: self.at_peaks(open),
            begun_after: open.begun_after,
            most: most.min(PEAK_LINES) as usize,
        });
        Ok(Answer {
            facts: self.account.facts_now(),
            devices: self.described(),
            peaks: open.peaks(devices),
            stretch,
            order: self.account.order(),
            rows,
            lines,
            timeline: timeline.map_or_else(Vec::new, |line| line.points(self.sums, time)),
        })
    }

    fn rows(&self, open: &Stretch, since_order: u64, most: u32) -> Rows {
        // Of the whole run it is what is held now; of a block, what was held at a close, too.
        let is_block = open.timeline.is_some();
        let left = self.left.iter();
        let left = left.filter(|row| is_block && row.order > since_order);
        Rows {
            held: self.account.rows(),
            left: left.copied().collect(),
            unlisted: open.unlisted,
            since_order,
            most: most as usize,
        }
    }

    /// What was live at each peak of a stretch: now, or in a part of it that has ended.
    fn at_peaks(&self, open: &Stretch) -> Vec<AtPeak> {
        let now = Arc::new(Part::of(&self.account));
        let slots = 0..self.account.facts().devices.len();
        let kinds = || Class::ALL.iter().map(|class| GaugeKind::Class(*class));
        let each = slots.flat_map(|slot| kinds().map(move |kind| (slot, kind)));
        each.filter_map(|(slot, kind)| {
            let part = open.part_of_peak(slot, kind, &now)?;
            Some(AtPeak { slot, kind, part })
        })
        .collect()
    }
}

/// What is asked for besides figures.
#[derive(Clone, Copy)]
enum Wanted {
    /// The largest rows that were placed after an event, and lines at the peaks.
    Rows(u64, u32),
    /// So many lines at each peak.
    Peaks(u32),
}

#[cfg(test)]
mod tests;
