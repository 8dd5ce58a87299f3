//! The account as of now, for a process that asks for its own figures.
//!
//! The account beside the history is as of the first event that no server has confirmed. The
//! first question makes a copy, which takes over the events behind that point and follows from
//! then on; a process that never asks has none. Peaks are the account's own. An account has
//! them since the last mark: what the stretches asked for need beyond that is kept here whenever
//! one begins or a mark is set.

use crate::own_account::{Answer, AskError, Described, Point, Question};
use std::collections::BTreeMap;
use ttmem_account::totals::GaugeKind;
use ttmem_account::{Account, BufferRow, Charge, HeldDevice, Limits, Observer, Peak, PeakSet};
use ttmem_event::{Class, Definition, Event, EventKind};

/// Stretches that may be open; each has some hundred bytes per device and a timeline.
const MAX_STRETCHES: usize = 1024;

/// Points of a timeline; when there are as many, neighbours become one.
const MAX_POINTS: usize = 512;

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
    stretches: BTreeMap<u64, Stretch>,
    last_stretch: u64,
}

/// Charged bytes over all devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums([u64; Class::COUNT]);

impl Observer for Sums {
    fn buffer_booked(&mut self, _slot: u32, charge: Charge, _row: &BufferRow, _time: u64) -> u64 {
        let sum = &mut self.0[charge.class.index()];
        *sum = sum.saturating_add(charge.bytes);
        0
    }

    fn buffer_released(&mut self, _slot: u32, charge: Charge, _row: &BufferRow, _time: u64) -> u64 {
        let sum = &mut self.0[charge.class.index()];
        *sum = sum.saturating_sub(charge.bytes);
        0
    }
}

/// A part of the run whose peaks somebody wants to know.
#[derive(Debug, Default)]
struct Stretch {
    /// By device, up to the account's last mark.
    ended: Vec<PeakSet>,
    /// The last event before it.
    begun_after: u64,
    timeline: Option<Timeline>,
}

impl Stretch {
    fn raise(&mut self, devices: &[HeldDevice]) {
        self.ended.resize(devices.len(), PeakSet::default());
        for (ended, held) in self.ended.iter_mut().zip(devices) {
            *ended = ended.max(&held.totals.since_mark());
        }
    }

    fn peaks(&self, devices: &[HeldDevice]) -> Vec<PeakSet> {
        let ended = |slot: usize| self.ended.get(slot).copied().unwrap_or_default();
        let devices = devices.iter().enumerate();
        devices
            .map(|(slot, held)| ended(slot).max(&held.totals.since_mark()))
            .collect()
    }
}

/// What was held over time, with fewer points the longer it is; none of its maxima is lost.
#[derive(Debug)]
struct Timeline {
    points: Vec<Point>,
    /// Changes that become one point.
    step: usize,
    /// Changes that the last point has.
    taken: usize,
}

impl Timeline {
    fn new(sums: Sums, time: u64) -> Self {
        Self {
            points: vec![Point {
                time,
                bytes: sums.0,
            }],
            step: 1,
            taken: 1,
        }
    }

    fn push(&mut self, sums: Sums, time: u64) {
        if self.taken < self.step
            && let Some(last) = self.points.last_mut()
        {
            self.taken += 1;
            raise(last, &sums.0);
            return;
        }
        if self.points.len() == MAX_POINTS {
            self.halve();
        }
        self.taken = 1;
        self.points.push(Point {
            time,
            bytes: sums.0,
        });
    }

    fn halve(&mut self) {
        let pairs = self.points.chunks(2);
        self.points = pairs
            .filter_map(|pair| {
                let mut first = *pair.first()?;
                raise(&mut first, &pair.last()?.bytes);
                Some(first)
            })
            .collect();
        self.step = self.step.saturating_mul(2);
    }

    /// The points, the last of which is what is held now.
    fn points(&self, sums: Sums, time: u64) -> Vec<Point> {
        let mut points = self.points.clone();
        points.push(Point {
            time,
            bytes: sums.0,
        });
        points
    }
}

fn raise(point: &mut Point, bytes: &[u64; Class::COUNT]) {
    for (highest, bytes) in point.bytes.iter_mut().zip(bytes) {
        *highest = (*highest).max(*bytes);
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
        let since_start = Stretch {
            ended: devices.iter().map(highest_ever).collect(),
            ..Stretch::default()
        };
        Self {
            limits: Limits::default(),
            next,
            sums,
            stretches: BTreeMap::from([(SINCE_RESET, since_start)]),
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
        if let EventKind::Marked { .. } = event.kind {
            self.raise_stretches();
        }
        let before = self.sums;
        // A refusal is counted where it happens.
        let _refused = self.account.apply(event, &self.limits, &mut self.sums);
        if self.sums != before {
            let timelines = self.stretches.values_mut();
            for timeline in timelines.filter_map(|stretch| stretch.timeline.as_mut()) {
                timeline.push(self.sums, event.time);
            }
        }
    }

    /// Goes past an event that is none.
    pub(super) fn skip(&mut self, sequence: u64) {
        self.next = self.next.max(sequence + 1);
    }

    /// Keeps the peaks since the account's last mark in all stretches.
    fn raise_stretches(&mut self) {
        for stretch in self.stretches.values_mut() {
            stretch.raise(&self.account.facts().devices);
        }
    }

    /// Peaks that the account keeps begin anew; the stretches have what was.
    fn begin_anew(&mut self, time: u64) {
        self.raise_stretches();
        self.account.mark(time);
    }

    pub(super) fn answer(&mut self, question: Question, time: u64) -> Result<Answer, AskError> {
        match question {
            Question::Figures { stretch } => self.describe(stretch, None, 0, time),
            Question::Snapshot { stretch, max_rows } => {
                self.describe(stretch, Some(max_rows), 0, time)
            }
            Question::Reset { device } => {
                self.reset(device, time);
                self.describe(SINCE_RESET, None, 0, time)
            }
            Question::Begin => {
                let stretch = self.begin(time)?;
                self.describe(stretch, None, 0, time)
            }
            Question::End { stretch, max_rows } if stretch != SINCE_RESET => {
                let open = self.stretches.get(&stretch).ok_or(AskError::Value)?;
                let since = open.begun_after;
                let answer = self.describe(stretch, Some(max_rows), since, time);
                self.stretches.remove(&stretch);
                answer
            }
            Question::End { .. } => Err(AskError::Value),
        }
    }

    fn begin(&mut self, time: u64) -> Result<u64, AskError> {
        if self.stretches.len() >= MAX_STRETCHES {
            return Err(AskError::TooMany);
        }
        self.begin_anew(time);
        self.last_stretch += 1;
        let stretch = Stretch {
            ended: Vec::new(),
            begun_after: self.account.order(),
            timeline: Some(Timeline::new(self.sums, time)),
        };
        self.stretches.insert(self.last_stretch, stretch);
        Ok(self.last_stretch)
    }

    fn reset(&mut self, device: Option<u32>, time: u64) {
        self.begin_anew(time);
        let devices = self.described();
        if let Some(stretch) = self.stretches.get_mut(&SINCE_RESET) {
            for (ended, described) in stretch.ended.iter_mut().zip(devices) {
                if device.is_none() || described.logical_id == device {
                    *ended = PeakSet::default();
                }
            }
        }
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
        max_rows: Option<u32>,
        since_order: u64,
        time: u64,
    ) -> Result<Answer, AskError> {
        let open = self.stretches.get(&stretch).ok_or(AskError::Value)?;
        let timeline = open.timeline.as_ref();
        Ok(Answer {
            facts: self.account.facts_now(),
            devices: self.described(),
            peaks: open.peaks(&self.account.facts().devices),
            stretch,
            order: self.account.order(),
            since_order,
            rows: max_rows.map(|most| (self.account.rows(), most as usize)),
            timeline: timeline.map_or_else(Vec::new, |line| line.points(self.sums, time)),
        })
    }
}

fn highest_ever(held: &HeldDevice) -> PeakSet {
    let peak = |kind| held.totals.gauge(kind).peak();
    let classes: [Peak; Class::COUNT] =
        std::array::from_fn(|index| peak(GaugeKind::Class(Class::ALL[index])));
    PeakSet {
        classes,
        cb: peak(GaugeKind::Cb),
        kernel: peak(GaugeKind::Kernel),
    }
}

#[cfg(test)]
mod tests;
