//! What is shown over time: worked out by playing a window once, and kept.
//!
//! One walk runs at a time, and few may wait for it: each takes seconds of a core, and documents of single instants
//! must find room beside them.

use super::allocations::{AllocationsWalker, DEFAULT_RECTANGLES, Largest};
use super::error::RecordedError;
use super::files::{KnownFile, KnownFiles};
use super::live_buffers::LiveBuffers;
use super::texts::Texts;
use super::timeline::{Layers, TimelineWalker};
use super::together::{Pictures, Together};
use super::totals::{Totals, TotalsWalker};
use super::walk::{Grain, grain, walk};
use crate::history::{Histories, MAX_DEVICES, Observed};
use crate::lock;
use crate::read::vocabulary;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use ttmem_event::Class;
use ttmem_ledger::{Audience, DeviceKey, GaugeKind};
use ttmem_report::{Allocations, GroupBy, History, SCHEMA, Timeline, Timestamp};

/// Who may wait for a walk besides the one who walks.
const MAX_WAITING: usize = 2;

/// Answers of each kind that are kept; of a walk that drew more, those of that walk.
const KEPT_ANSWERS: usize = 16;

/// Classes of devices that are drawn in one walk.
const MAX_TOGETHER: usize = 32;

/// What a timeline can be stacked by.
const GROUPINGS: [GroupBy; 3] = [GroupBy::Line, GroupBy::Operation, GroupBy::Process];

/// Steps of histories that are kept: a few kilobytes each with many devices.
const KEPT_STEPS: usize = 4096;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Bytes per device and step of a history document: sample, series values, JSON text.
const POINT_BYTES: u64 = 512;

/// Nanoseconds of the shortest step of a history.
const SHORTEST_STEP: u64 = 1_000_000;

/// A part of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Window {
    pub(super) fn touches(self, file: &KnownFile) -> bool {
        file.from <= self.to && file.to >= self.from
    }

    /// The edges of so many steps of equal width.
    fn edges(self, steps: u64) -> Vec<u64> {
        let (from, span) = (u128::from(self.from), u128::from(self.to - self.from));
        let steps = u128::from(steps);
        let edge = |step: u128| u64::try_from(from + span * step / steps).unwrap_or(self.to);
        (0..=steps).map(edge).collect()
    }
}

/// A class of a device, in a window.
#[derive(Clone, Debug)]
pub(crate) struct OverTime {
    pub(crate) window: Window,
    pub(crate) key: DeviceKey,
    pub(crate) logical_id: u32,
    /// What the allocator can hand out, where it is known.
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) class: Class,
    /// Set when who asked is gone.
    pub(crate) gone: Option<Arc<AtomicBool>>,
}

/// What makes two questions one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    window: (u64, u64),
    /// How far the recording went, if that is a part of it.
    end: Option<u64>,
    key: DeviceKey,
    class: Class,
    by: Option<GroupBy>,
    count: u32,
    audience: Audience,
}

#[derive(Debug, Default)]
pub(super) struct Survey {
    waiting: AtomicUsize,
    kept: Mutex<Kept>,
    walking: Mutex<()>,
}

#[derive(Debug, Default)]
struct Kept {
    timelines: VecDeque<(Question, Timeline)>,
    allocations: VecDeque<(Question, Allocations)>,
    /// By the width of a step, its end, and the instant up to which it is known.
    steps: HashMap<StepKey, Option<Totals>>,
    order: VecDeque<StepKey>,
}

type StepKey = (u64, u64, u64);

impl Kept {
    fn keep_step(&mut self, key: StepKey, totals: Option<Totals>) {
        if self.steps.insert(key, totals).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > KEPT_STEPS {
            if let Some(oldest) = self.order.pop_front() {
                self.steps.remove(&oldest);
            }
        }
    }
}

/// An answer that was given before.
fn known<T: Clone>(kept: &VecDeque<(Question, T)>, question: &Question) -> Option<T> {
    let found = kept.iter().find(|(known, _answer)| known == question);
    found.map(|(_known, answer)| answer.clone())
}

fn keep<T>(kept: &mut VecDeque<(Question, T)>, most: usize, (question, answer): (Question, T)) {
    kept.push_back((question, answer));
    while kept.len() > most.max(KEPT_ANSWERS) {
        kept.pop_front();
    }
}

/// One of those who wait for a walk.
struct Turn<'a> {
    waiting: &'a AtomicUsize,
    _walking: Option<MutexGuard<'a, ()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Survey {
    /// Waits until nobody else walks.
    fn turn(&self) -> Result<Turn<'_>, RecordedError> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut turn = Turn {
            waiting: &self.waiting,
            _walking: None,
        };
        if before > MAX_WAITING {
            return Err(RecordedError::Busy);
        }
        turn._walking = Some(lock(&self.walking));
        Ok(turn)
    }

    pub(super) fn timeline(
        &self,
        files: &KnownFiles,
        (over, next): (&OverTime, &[OverTime]),
        by: GroupBy,
        (points, audience): (u32, Audience),
    ) -> Result<Timeline, RecordedError> {
        let question = over.question(files, Some(by), points, audience)?;
        if let Some(known) = known(&lock(&self.kept).timelines, &question) {
            return Ok(known);
        }
        let _turn = self.turn()?;
        if let Some(known) = known(&lock(&self.kept).timelines, &question) {
            return Ok(known);
        }
        let window = over.window;
        let most = window
            .to
            .saturating_sub(window.from)
            .clamp(1, points.into());
        let (steps, grain) = grain(files.all(), window, most);
        // Of what does not change any more everything is drawn that is likely to be asked for next.
        let mut groupings = vec![by];
        if !files.grows() {
            groupings.extend(GROUPINGS.into_iter().filter(|other| *other != by));
        }
        let limit = (!files.grows()).then_some(DEFAULT_RECTANGLES);
        let how = (steps, grain, audience);
        let mut all = vec![over];
        // In stretches each class is looked at where its own peak is.
        if grain == Grain::Whole && !files.grows() {
            all.extend(next.iter().take(MAX_TOGETHER - 1));
        }
        let drawn = self.draw(files, &all, how, (&groupings, points), limit)?;
        drawn.ok_or(RecordedError::Nothing)
    }

    pub(super) fn allocations(
        &self,
        files: &KnownFiles,
        over: &OverTime,
        (limit, audience): (u32, Audience),
    ) -> Result<Allocations, RecordedError> {
        let question = over.question(files, None, limit, audience)?;
        if let Some(known) = known(&lock(&self.kept).allocations, &question) {
            return Ok(known);
        }
        let _turn = self.turn()?;
        if let Some(known) = known(&lock(&self.kept).allocations, &question) {
            return Ok(known);
        }
        // Steps only matter where stretches are looked at.
        let (steps, grain) = grain(files.all(), over.window, u64::MAX);
        let steps = if grain == Grain::Whole { 1 } else { steps };
        let how = (steps, grain, audience);
        self.draw(files, &[over], how, (&[], 0), Some(limit))?;
        let known = known(&lock(&self.kept).allocations, &question);
        known.ok_or(RecordedError::Nothing)
    }

    /// Walks through a window once, and keeps what comes of it; the first of the timelines, if there are some.
    ///
    /// All classes of devices are of one window.
    fn draw(
        &self,
        files: &KnownFiles,
        all: &[&OverTime],
        (steps, grain, audience): (u64, Grain, Audience),
        (groupings, points): (&[GroupBy], u32),
        limit: Option<u32>,
    ) -> Result<Option<Timeline>, RecordedError> {
        let first = all.first().ok_or(RecordedError::Nothing)?;
        let window = first.window;
        let edges = window.edges(steps);
        let begin = files.span()?.0;
        let charge = || files.charge();
        let pictures = all.iter().map(|over| {
            let timeline = |by: &GroupBy| {
                let layers = Layers::new(*by, Texts::new(audience));
                let live = LiveBuffers::new(over.key.clone(), over.class, layers, charge());
                (*by, TimelineWalker::new(live))
            };
            let allocations = limit.map(|limit| {
                let largest =
                    Largest::new((window.from, window.to), begin, limit, Texts::new(audience));
                let key = over.key.clone();
                AllocationsWalker::new(LiveBuffers::new(key, over.class, largest, charge()))
            });
            Pictures {
                timelines: groupings.iter().map(timeline).collect(),
                allocations,
            }
        });
        let mut walker = Together(pictures.collect());
        let end = (first.peak(files), files.turn(first.gone.clone()));
        let unseen_events = walk(files, &edges, grain, end, &mut walker)?;
        let times: Vec<Timestamp> = edges.into_iter().map(Timestamp::from_unix_nanos).collect();
        let mut kept = lock(&self.kept);
        let mut first = None;
        for (over, pictures) in all.iter().zip(walker.0) {
            if let Some((allocations, limit)) = pictures.allocations.zip(limit) {
                let (rectangles, left_out) = allocations.finish();
                let allocations = Allocations {
                    schema: SCHEMA,
                    from: Timestamp::from_unix_nanos(window.from),
                    to: Timestamp::from_unix_nanos(window.to),
                    device: over.logical_id,
                    class: vocabulary::class(over.class),
                    rectangles,
                    left_out,
                    unseen_events,
                };
                let question = over.question(files, None, limit, audience)?;
                keep(&mut kept.allocations, all.len(), (question, allocations));
            }
            for (by, walker) in pictures.timelines {
                let (series, other, total_max, dispatches) = walker.finish();
                let timeline = Timeline {
                    schema: SCHEMA,
                    from: Timestamp::from_unix_nanos(window.from),
                    to: Timestamp::from_unix_nanos(window.to),
                    device: over.logical_id,
                    class: vocabulary::class(over.class),
                    by,
                    capacity_bytes: over.capacity_bytes,
                    times: times.clone(),
                    series,
                    other,
                    total_max,
                    dispatches,
                    unseen_events,
                };
                let question = over.question(files, Some(by), points, audience)?;
                first.get_or_insert_with(|| timeline.clone());
                let most = all.len() * groupings.len();
                keep(&mut kept.timelines, most, (question, timeline));
            }
        }
        Ok(first)
    }

    /// Drops the cached steps.
    pub(super) fn give_up_room(&self) {
        let mut kept = lock(&self.kept);
        kept.steps.clear();
        kept.order.clear();
    }

    /// Totals of the devices up to an instant, in at most `points` steps, or in the steps of a running server;
    /// fewer if the document would exceed the memory that the files allow.
    pub(super) fn history(
        &self,
        files: &KnownFiles,
        (time, devices, turn): (u64, usize, ttmem_record::Turn),
        (seconds, points): (u32, Option<u32>),
    ) -> Result<History, RecordedError> {
        let (begin, _end) = files.span()?;
        let span = u64::from(seconds).saturating_mul(NANOS_PER_SECOND);
        let window = Window {
            from: time.saturating_sub(span).max(begin).min(time),
            to: time,
        };
        // What there is of it, which may be much less than was asked for.
        let span = window.to - window.from;
        let finest = match points {
            Some(points) => span.div_ceil(u64::from(points).max(1)).max(SHORTEST_STEP),
            None => u64::from(Histories::step_seconds(seconds)) * NANOS_PER_SECOND,
        };
        let wanted = span.div_ceil(finest).max(1);
        let budget = files.budget();
        let devices = devices.clamp(1, MAX_DEVICES) as u64;
        let affordable = budget.aside() / (POINT_BYTES * devices);
        let (steps, mut grain) = grain(files.all(), window, wanted.min(affordable.max(1)));
        let nanos = finest.saturating_mul(wanted.div_ceil(steps));
        let first = window.from / nanos;
        let last = window.to / nanos;
        let key = |step: u64| {
            let end = (step + 1).saturating_mul(nanos);
            (nanos, end, end.min(time))
        };
        let missing = |kept: &Kept| -> Vec<u64> {
            let all = first..=last;
            all.filter(|step| !kept.steps.contains_key(&key(*step)))
                .collect()
        };
        if !missing(&lock(&self.kept)).is_empty() {
            let _turn = self.turn()?;
            // Those who walked meanwhile may have found them.
            let missing = missing(&lock(&self.kept));
            for run in missing.chunk_by(|one, next| one + 1 == *next) {
                if let Grain::Stretches(events) = &mut grain {
                    *events = (*events).max(1);
                }
                let mut edges: Vec<u64> = run.iter().map(|step| (step * nanos).min(time)).collect();
                let end = run.last().map_or(time, |step| key(*step).2);
                edges.push(end.max(edges.last().copied().unwrap_or(end)));
                let mut walker = TotalsWalker::new(run.len() as u64, &turn, budget.clone());
                walk(files, &edges, grain, (None, turn.clone()), &mut walker)?;
                let mut kept = lock(&self.kept);
                for (step, totals) in run.iter().zip(walker.steps) {
                    kept.keep_step(key(*step), totals);
                }
            }
        }
        let kept = lock(&self.kept);
        let steps = (first..=last).map(|step| {
            let (_width, end, _upto) = key(step);
            let totals = kept.steps.get(&key(step)).cloned().flatten();
            (end, totals)
        });
        let steps: Vec<(u64, Option<Totals>)> = steps.collect();
        drop(kept);
        let steps: Vec<(u64, &[Observed])> = steps
            .iter()
            .map(|(end, step)| (*end, step.as_ref().map_or(&[][..], |step| &step.observed)))
            .collect();
        let width = nanos.div_ceil(NANOS_PER_SECOND);
        Ok(Histories::document_of(
            Timestamp::from_unix_nanos(time),
            u32::try_from(width).unwrap_or(u32::MAX),
            &steps,
        ))
    }
}

impl OverTime {
    fn question(
        &self,
        files: &KnownFiles,
        by: Option<GroupBy>,
        count: u32,
        audience: Audience,
    ) -> Result<Question, RecordedError> {
        Ok(Question {
            window: (self.window.from, self.window.to),
            // What is over does not change any more.
            end: Some(files.span()?.1).filter(|end| self.window.to >= *end),
            key: self.key.clone(),
            class: self.class,
            by,
            count,
            audience,
        })
    }

    /// The highest total of all, where it lies in the window: its instant and its event.
    fn peak(&self, files: &KnownFiles) -> Option<(u64, u64)> {
        let notes = files.all().iter().flat_map(|file| {
            let reached = file.summary().first_event;
            let peaks = file.summary().peaks.iter();
            peaks.filter(move |peak| peak.event > reached)
        });
        let notes = notes.filter(|peak| {
            peak.logical_id == self.logical_id
                && peak.gauge == GaugeKind::Class(self.class)
                && (self.window.from..=self.window.to).contains(&peak.time)
        });
        let highest = notes.max_by_key(|peak| peak.bytes)?;
        Some((highest.time, highest.event))
    }
}
