//! The time cursor: which instant of a recording is wanted, and how it moves.
//!
//! The app moves it, and the threads that fetch follow. What is on the screen is of the instant that was
//! answered last, which is another for as long as an answer is on its way.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};
use ttmem_report::{DeviceKey, MemoryClass, PeakOf, RecordedPeak, Recording, Timestamp};

/// How fast a recording can be played, in hundredths of the speed at which it happened.
const SPEEDS: [u64; 10] = [10, 25, 50, 100, 200, 500, 1_000, 3_000, 6_000, 30_000];

/// The place of the speed at which it happened.
const USUAL_SPEED: usize = 3;

/// While it plays, instants are at least this far apart on the clock.
const TICK: Duration = Duration::from_millis(200);

/// An answer that took longer, or a process that was stopped, is not made up for.
const LONGEST_TICK: Duration = Duration::from_secs(1);

/// A recording that is longer than this is stepped through by seconds, one longer than a tenth of it by tenths, any
/// other by hundredths.
const LONG: u64 = 20 * SECOND;

const SECOND: u64 = 1_000_000_000;

/// The classes whose peaks are gone to, in this order.
const CLASSES: [PeakOf; 5] = [
    PeakOf::Dram,
    PeakOf::L1,
    PeakOf::L1Small,
    PeakOf::Trace,
    PeakOf::System,
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Playback {
    /// The instant that is wanted; the end of a file, or what is live, without one.
    at: Option<Timestamp>,
    speed: usize,
    /// When the cursor was moved last, while it moves by itself.
    playing: Option<Instant>,
    /// The peak that was gone to last, and of what the view was then.
    peak: Option<(Subject, Timestamp)>,
    /// Whether it went anywhere since the last answer other than on by a step.
    jumped: bool,
}

impl Default for Playback {
    fn default() -> Self {
        Self {
            at: None,
            speed: USUAL_SPEED,
            playing: None,
            peak: None,
            jumped: false,
        }
    }
}

impl Playback {
    pub(crate) fn beginning_at(at: Option<Timestamp>) -> Self {
        Self {
            at,
            ..Self::default()
        }
    }

    pub(crate) const fn at(&self) -> Option<Timestamp> {
        self.at
    }

    pub(crate) const fn is_playing(&self) -> bool {
        self.playing.is_some()
    }

    /// The speed as a factor: `0.25`, `1`, `300`.
    pub(crate) fn speed(&self) -> String {
        let hundredths = SPEEDS[self.speed];
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        match rest {
            0 => whole.to_string(),
            rest if rest % 10 == 0 => format!("{whole}.{}", rest / 10),
            rest => format!("{whole}.{rest:02}"),
        }
    }

    pub(crate) fn change_speed(&mut self, faster: bool) {
        let slower = self.speed.saturating_sub(1);
        self.speed = if faster {
            (self.speed + 1).min(SPEEDS.len() - 1)
        } else {
            slower
        };
    }

    /// One step on, or back.
    pub(crate) fn step(&mut self, recording: &Recording, forward: bool) {
        let step = match span(recording) {
            long if long > LONG => SECOND,
            short if short > LONG / 10 => SECOND / 10,
            _shorter => SECOND / 100,
        };
        let now = self.instant(recording).unix_nanos();
        let wanted = if forward {
            now.saturating_add(step)
        } else {
            now.saturating_sub(step)
        };
        self.jumped |= !forward;
        self.go(recording, Timestamp::from_unix_nanos(wanted));
    }

    /// Plays from where it is, or stops; from the end there is nothing to play: from the beginning.
    pub(crate) fn toggle(&mut self, recording: &Recording, now: Instant) {
        if self.playing.take().is_some() {
            return;
        }
        if self.at.is_none() {
            self.jump(recording, recording.from);
        }
        // A recording of one instant is over as soon as it begins.
        self.playing = self.at.map(|_at| now);
    }

    /// Moves on while it plays, once the instant before has been answered; whether it moved.
    pub(crate) fn tick(
        &mut self,
        recording: &Recording,
        shown: Option<Timestamp>,
        now: Instant,
    ) -> bool {
        let Some((moved, at)) = self.playing.zip(self.at) else {
            return false;
        };
        let passed = now.saturating_duration_since(moved);
        if passed < TICK || shown != self.at {
            return false;
        }
        let passed = u64::try_from(passed.min(LONGEST_TICK).as_nanos()).unwrap_or(SECOND);
        let wanted = at
            .unix_nanos()
            .saturating_add(passed * SPEEDS[self.speed] / 100);
        self.playing = Some(now);
        self.go(recording, Timestamp::from_unix_nanos(wanted));
        true
    }

    /// To the end of a file, or to what is live.
    pub(crate) fn go_to_end(&mut self) {
        self.jumped |= self.at.is_some();
        self.at = None;
        self.playing = None;
    }

    /// To an instant anywhere.
    pub(crate) fn jump(&mut self, recording: &Recording, time: Timestamp) {
        self.jumped = true;
        self.go(recording, time);
    }

    /// To a place between the beginning, 0, and the end, `whole`.
    pub(crate) fn jump_to_share(&mut self, recording: &Recording, part: u64, whole: u64) {
        let into = u128::from(span(recording)) * u128::from(part) / u128::from(whole.max(1));
        let into = u64::try_from(into).unwrap_or(u64::MAX);
        let time = recording.from.unix_nanos().saturating_add(into);
        self.jump(recording, Timestamp::from_unix_nanos(time));
    }

    /// To the next of some times, and from the last to the first; whether there is any.
    pub(crate) fn jump_to_next(
        &mut self,
        recording: &Recording,
        times: impl Iterator<Item = Timestamp> + Clone,
    ) -> bool {
        let now = self.instant(recording);
        let next = times.clone().filter(|time| *time > now).min();
        let Some(next) = next.or_else(|| times.min()) else {
            return false;
        };
        // Not by way of `go`: what happened at the very end is looked at, not followed.
        self.jumped = true;
        self.at = Some(next);
        true
    }

    /// To the first of the peaks of what a view shows, or from where this led to the next; whether there is any.
    pub(crate) fn jump_to_peak(&mut self, recording: &Recording, subject: Subject) -> bool {
        let peaks = peaks(recording, &subject);
        let before = self.peak.take();
        let before = before.filter(|(of, time)| *of == subject && Some(*time) == self.at);
        let here = before.and_then(|(_of, time)| peaks.iter().position(|peak| peak.time == time));
        let next = here.map_or(0, |here| (here + 1) % peaks.len());
        let Some(next) = peaks.get(next) else {
            return false;
        };
        self.jumped = true;
        self.at = Some(next.time);
        self.peak = Some((subject, next.time));
        true
    }

    /// Keeps the cursor inside what can be looked at: a server drops its oldest files.
    pub(crate) fn keep_inside(&mut self, recording: Option<&Recording>) {
        match (recording, self.at) {
            (None, _) => self.go_to_end(),
            (Some(recording), Some(at)) if at < recording.from => {
                self.jump(recording, recording.from);
            }
            _inside => {}
        }
    }

    /// Whether what was answered for an instant continues what was shown before; asked once for each.
    pub(crate) fn continues(&mut self, at: Option<Timestamp>) -> bool {
        let continues = !self.jumped;
        if at == self.at {
            self.jumped = false;
        }
        continues
    }

    /// The instant that is wanted.
    pub(crate) fn instant(&self, recording: &Recording) -> Timestamp {
        self.at.unwrap_or(recording.to)
    }

    fn go(&mut self, recording: &Recording, time: Timestamp) {
        if time >= recording.to {
            // What is at the end continues what was played up to it.
            self.at = None;
            self.playing = None;
        } else {
            self.at = Some(time.max(recording.from));
        }
    }
}

pub(crate) fn span(recording: &Recording) -> u64 {
    let (from, to) = (recording.from.unix_nanos(), recording.to.unix_nanos());
    to.saturating_sub(from)
}

/// What a view is about, as far as it is about one device or class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) device: Option<DeviceKey>,
    pub(crate) class: Option<MemoryClass>,
}

impl Subject {
    fn is_of(&self, peak: &RecordedPeak) -> bool {
        match &self.device {
            None => true,
            Some(DeviceKey::Chip(id)) => peak.unique_id == Some(*id),
            Some(DeviceKey::Number(id, _scope)) => peak.unique_id.is_none() && peak.device == *id,
        }
    }
}

/// The peak that is gone to where nothing says which: the highest of DRAM, or of what else was held.
#[must_use]
pub fn highest_peak(recording: &Recording) -> Option<&RecordedPeak> {
    peaks(recording, &Subject::default()).into_iter().next()
}

/// The peaks that are gone to in turn: the highest of each class, that of the view first.
pub(crate) fn peaks<'r>(recording: &'r Recording, subject: &Subject) -> Vec<&'r RecordedPeak> {
    let highest = |class: PeakOf| {
        let peaks = recording.peaks.iter();
        peaks
            .filter(|peak| peak.of == class && subject.is_of(peak))
            // The first of several that are as high.
            .max_by(|one, other| (one.bytes.cmp(&other.bytes)).then(other.time.cmp(&one.time)))
    };
    let first = subject.class.map(|class| match class {
        MemoryClass::Dram => PeakOf::Dram,
        MemoryClass::L1 => PeakOf::L1,
        MemoryClass::L1Small => PeakOf::L1Small,
        MemoryClass::Trace => PeakOf::Trace,
        MemoryClass::System => PeakOf::System,
        MemoryClass::Other => PeakOf::Other,
    });
    let others = CLASSES.into_iter().filter(|class| Some(*class) != first);
    let mut found: Vec<&RecordedPeak> = Vec::new();
    for peak in first.into_iter().chain(others).filter_map(highest) {
        if found.iter().all(|known| known.time != peak.time) {
            found.push(peak);
        }
    }
    found
}
