//! The latest documents, each with the moment it came, and how the connection is.
//!
//! What the server said is put here by [`Data::apply`], and the views read it. What no view needed
//! lately is simply old, and has its age.

use crate::playback::Playback;
use crate::trends::Trends;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ttmem_report::format;
use ttmem_report::machine_labels;
use ttmem_report::{
    BlockMap, BufferGroups, BufferPage, BufferQuery, Device, DeviceKey, Failures, FreshFailure,
    History, KernelRow, L1Map, LastEvents, Leaks, Mark, Problem, Problems, Process, ProgramRow,
    Recording, RecordingSource, Snapshot, StreamEvent, Timestamp,
};

pub(crate) const TAIL_EVENTS: usize = 10_000;

/// After so many intervals without an answer a document is called stale.
const STALE_INTERVALS: u32 = 3;

/// An answer may take so long, however often it is asked for.
const STALE_AT_LEAST: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub(crate) struct Fresh<T> {
    pub(crate) document: T,
    pub(crate) received: Instant,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Link {
    #[default]
    Connecting,
    Up,
    Down {
        reason: String,
    },
}

/// Rows of a list of which the server was asked for the first thousands.
#[derive(Debug, Clone)]
pub(crate) struct Listed<R> {
    pub(crate) rows: Vec<R>,
    pub(crate) has_more: bool,
}

/// Rows of a list that may be far longer than what is here.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// What was asked; the first row here is at its offset.
    pub(crate) query: BufferQuery,
    pub(crate) page: BufferPage,
}

impl Window {
    pub(crate) fn first(&self) -> u64 {
        self.query.offset.unwrap_or(0)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Tail {
    /// Newest last; at most [`TAIL_EVENTS`]. Shared, because who stops to read keeps them.
    pub(crate) events: VecDeque<Arc<StreamEvent>>,
    /// Events that had to go for newer ones: the place of the first among all that ever came.
    pub(crate) gone: u64,
    /// Events that this reader was too slow for.
    pub(crate) missed: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Update {
    Snapshot(Box<Snapshot>),
    Recent(History),
    History(u32, History),
    L1Map(DeviceKey, Box<L1Map>),
    Blocks(DeviceKey, Box<BlockMap>),
    Programs(Listed<ProgramRow>),
    Kernels(Listed<KernelRow>),
    Buffers(Window),
    Groups(BufferQuery, BufferGroups),
    Failures(Failures),
    Leaks(Box<Leaks>),
    Problems(Problems),
    /// Which instants can be looked at, if any.
    Recording(Option<Box<Recording>>),
    /// The events before an instant.
    LastEvents(LastEvents),
    /// All that there is of an instant: the documents of any other are gone with it.
    Instant(Option<Timestamp>, Vec<Update>),
    Events(Vec<StreamEvent>),
    Missed(u64),
    Link(Link),
    /// The user set a mark.
    Marked(Mark),
    Notice(String),
    /// Why something that is wanted does not come, or that it does again.
    Trouble(Source, Option<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A document that a view wants.
    Document,
    Stream,
}

#[derive(Debug, Clone)]
pub(crate) struct Data {
    pub(crate) now: Instant,
    pub(crate) interval: Duration,
    /// Where the data comes from, as the user named it.
    pub(crate) address: String,
    pub(crate) link: Link,
    pub(crate) paused: bool,
    /// Which instants can be looked at; none where nothing is recorded.
    pub(crate) recording: Option<Recording>,
    pub(crate) playback: Playback,
    /// The instant that all documents are of; without one they are live, or of the end of a file.
    pub(crate) at: Option<Timestamp>,
    /// Since when another instant is waited for.
    pub(crate) waiting: Option<Instant>,
    /// Grows whenever what is shown does not continue what was shown before.
    pub(crate) jumps: u64,
    pub(crate) snapshot: Option<Fresh<Snapshot>>,
    /// The last ten minutes of every device, for small curves; always wanted.
    pub(crate) recent: Option<Fresh<History>>,
    /// The history that the device view asked for: its reach, and itself.
    pub(crate) history: Option<Fresh<(u32, History)>>,
    pub(crate) l1map: Option<Fresh<(DeviceKey, L1Map)>>,
    pub(crate) blocks: Option<Fresh<(DeviceKey, BlockMap)>>,
    pub(crate) programs: Option<Fresh<Listed<ProgramRow>>>,
    pub(crate) kernels: Option<Fresh<Listed<KernelRow>>>,
    pub(crate) buffers: Option<Fresh<Window>>,
    pub(crate) groups: Option<Fresh<(BufferQuery, BufferGroups)>>,
    pub(crate) failures: Option<Fresh<Failures>>,
    pub(crate) leaks: Option<Fresh<Leaks>>,
    pub(crate) problems: Option<Fresh<Problems>>,
    /// The events that came live.
    pub(crate) tail: Tail,
    /// Those before the instant.
    pub(crate) recorded_tail: Tail,
    pub(crate) trends: Trends,
    /// The last mark that the user set here.
    pub(crate) own_mark: Option<Mark>,
    pub(crate) events_per_second: Option<u64>,
    /// What the server answered to the last thing that the user asked it to do.
    pub(crate) notice: Option<Fresh<String>>,
    /// Why a document that a view wants does not come, and why the stream does not.
    pub(crate) troubles: [Option<String>; 2],
}

impl Data {
    /// Nothing yet, of a server that the user knows by this address.
    pub(crate) fn new(address: impl Into<String>, interval: Duration, now: Instant) -> Self {
        Self {
            now,
            interval,
            address: address.into(),
            link: Link::default(),
            paused: false,
            recording: None,
            playback: Playback::default(),
            at: None,
            waiting: None,
            jumps: 0,
            snapshot: None,
            recent: None,
            history: None,
            l1map: None,
            blocks: None,
            programs: None,
            kernels: None,
            buffers: None,
            groups: None,
            failures: None,
            leaks: None,
            problems: None,
            tail: Tail::default(),
            recorded_tail: Tail::default(),
            trends: Trends::default(),
            own_mark: None,
            events_per_second: None,
            notice: None,
            troubles: [None, None],
        }
    }

    pub(crate) fn apply(&mut self, update: Update, received: Instant) {
        match update {
            Update::Snapshot(mut snapshot) => {
                // The server has them in the order of their meshes; people look for numbers.
                let devices = &mut snapshot.devices;
                devices.sort_by(|one, other| (&one.scope, one.id).cmp(&(&other.scope, other.id)));
                self.events_per_second = self.rate(&snapshot, received);
                // They are listed with the others: who has a device is one question.
                let others = machine_labels::not_attached(snapshot.machine.as_ref());
                let others: Vec<Process> = others.into_iter().map(Process::from).collect();
                snapshot.processes.extend(others);
                self.trends.take(&snapshot);
                self.snapshot = fresh(*snapshot, received);
            }
            Update::Recent(history) => self.recent = fresh(history, received),
            Update::History(seconds, history) => self.history = fresh((seconds, history), received),
            Update::L1Map(device, map) => self.l1map = fresh((device, *map), received),
            Update::Blocks(device, map) => self.blocks = fresh((device, *map), received),
            Update::Programs(programs) => self.programs = fresh(programs, received),
            Update::Kernels(kernels) => self.kernels = fresh(kernels, received),
            Update::Buffers(window) => self.buffers = fresh(window, received),
            Update::Groups(query, groups) => self.groups = fresh((query, groups), received),
            Update::Failures(failures) => self.failures = fresh(failures, received),
            Update::Leaks(leaks) => self.leaks = fresh(*leaks, received),
            Update::Problems(problems) => self.problems = fresh(problems, received),
            Update::Recording(recording) => {
                self.recording = recording.map(|recording| *recording);
                self.playback.keep_inside(self.recording.as_ref());
            }
            Update::LastEvents(last) => self.recorded_tail.replace(last),
            Update::Instant(at, updates) => self.show(at, updates, received),
            Update::Events(events) => self.tail.take(events),
            Update::Missed(missed) => self.tail.missed = self.tail.missed.saturating_add(missed),
            Update::Link(link) => self.link = link,
            Update::Marked(mark) => {
                self.notice = fresh(format!("mark {} set", mark.name), received);
                self.own_mark = Some(mark);
            }
            Update::Notice(notice) => self.notice = fresh(notice, received),
            Update::Trouble(source, reason) => self.troubles[source as usize] = reason,
        }
    }

    /// Shows an instant: nothing of another one stays.
    fn show(&mut self, at: Option<Timestamp>, updates: Vec<Update>, received: Instant) {
        if !self.playback.continues(at) {
            self.jumps += 1;
            self.trends = Trends::default();
        }
        self.at = at;
        self.snapshot = None;
        self.recent = None;
        self.history = None;
        self.l1map = None;
        self.blocks = None;
        self.programs = None;
        self.kernels = None;
        self.buffers = None;
        self.groups = None;
        self.failures = None;
        self.leaks = None;
        self.problems = None;
        self.recorded_tail.clear();
        for update in updates {
            self.apply(update, received);
        }
    }

    /// Takes the moment of a frame, from which everything on it is counted.
    pub(crate) fn begin_frame(&mut self, now: Instant) {
        self.now = now;
        let is_waiting = self.playback.at() != self.at;
        self.waiting = is_waiting.then(|| self.waiting.unwrap_or(now));
    }

    /// Whether what is recorded is a file, which nothing is added to.
    pub(crate) fn is_file(&self) -> bool {
        let recording = self.recording.as_ref();
        recording.is_some_and(|recording| recording.source == RecordingSource::File)
    }

    /// Whether the documents are of an instant of a recording, rather than live.
    pub(crate) fn is_recorded(&self) -> bool {
        self.at.is_some() || self.is_file()
    }

    /// Whether documents of an instant of a recording are wanted, rather than live ones.
    pub(crate) fn wants_recorded(&self) -> bool {
        self.playback.at().is_some() || self.is_file()
    }

    /// The newest events of the moment that is shown.
    pub(crate) fn tail(&self) -> &Tail {
        if self.is_recorded() {
            &self.recorded_tail
        } else {
            &self.tail
        }
    }

    pub(crate) fn totals(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref().map(|fresh| &fresh.document)
    }

    pub(crate) fn devices(&self) -> &[Device] {
        self.totals().map_or(&[], |snapshot| &snapshot.devices)
    }

    /// The processes, those that are gone included; none while nothing is known.
    pub(crate) fn processes(&self) -> &[Process] {
        self.totals().map_or(&[], |snapshot| &snapshot.processes)
    }

    /// Whether the server knows of other failures than those that are here.
    pub(crate) fn has_other_failures(&self) -> bool {
        let known = self.failures.as_ref();
        let known = known.map_or(0, |fresh| fresh.document.count());
        self.totals()
            .is_some_and(|snapshot| snapshot.failures.count != known)
    }

    /// Failures of the last minutes, newest first.
    pub(crate) fn fresh_failures(&self) -> impl Iterator<Item = FreshFailure<'_>> {
        let documents = self.totals().zip(self.failures.as_ref());
        documents.into_iter().flat_map(|(totals, failures)| {
            ttmem_report::fresh_failures(totals, &failures.document.failures)
        })
    }

    /// What is wrong, what matters most first.
    pub(crate) fn problems(&self) -> &[Problem] {
        let problems = self.problems.as_ref();
        problems.map_or(&[], |fresh| &fresh.document.problems)
    }

    /// Whether lines of Python are recorded, as far as what came last says so.
    pub(crate) fn has_lines(&self) -> bool {
        let rows = self.buffers.iter();
        let mut rows = rows.flat_map(|fresh| &fresh.document.page.rows);
        let leaks = self.leaks.as_ref().map(|fresh| &fresh.document);
        let growing = leaks.iter().flat_map(|leaks| &leaks.growing);
        let held = leaks.iter().flat_map(|leaks| &leaks.held_at_close);
        let groups = growing.map(|growing| &growing.group);
        let mut groups = groups.chain(held.map(|held| &held.group));
        rows.any(|row| row.python.is_some()) || groups.any(|group| group.line.is_some())
    }

    /// The marks, oldest first; none while nothing is known.
    pub(crate) fn marks(&self) -> &[Mark] {
        self.totals().map_or(&[], |snapshot| &snapshot.marks)
    }

    /// The time of the server's clock at the moment of the frame; of a recording the instant.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        let snapshot = self.snapshot.as_ref()?;
        if self.is_recorded() {
            return Some(self.at.unwrap_or(snapshot.document.time));
        }
        let since = self.now.saturating_duration_since(snapshot.received);
        let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let then = snapshot.document.time.unix_nanos();
        Some(Timestamp::from_unix_nanos(then.saturating_add(since)))
    }

    /// Seconds since a time of the server's clock; 0 of one that lies ahead.
    pub(crate) fn age_seconds(&self, time: Timestamp) -> Option<u64> {
        Some(self.age_nanos(time)? / 1_000_000_000)
    }

    /// How long ago that was: finer than a second where it does not change while somebody reads it.
    pub(crate) fn age(&self, time: Timestamp) -> Option<String> {
        let nanos = self.age_nanos(time)?;
        Some(if self.is_recorded() {
            format::fine_duration(nanos)
        } else {
            format::duration(nanos / 1_000_000_000)
        })
    }

    fn age_nanos(&self, time: Timestamp) -> Option<u64> {
        let now = self.time()?.unix_nanos();
        Some(now.saturating_sub(time.unix_nanos()))
    }

    /// What the moment that is shown is called: now, or its time of day.
    pub(crate) fn now_word(&self) -> String {
        let instant = self.time().filter(|_| self.is_recorded());
        instant.map_or_else(
            || "now".to_owned(),
            |time| format::date_time(time)[11..].to_owned(),
        )
    }

    /// So many seconds before the moment that is shown, in words.
    pub(crate) fn ago(&self, seconds: u64) -> String {
        let word = if self.is_recorded() { "before" } else { "ago" };
        format!("{} {word}", format::rough_duration(seconds))
    }

    /// How old a document is that came at a moment, if that is too old to be called live.
    ///
    /// What is recorded does not age.
    pub(crate) fn stale(&self, received: Instant) -> Option<Duration> {
        if self.is_recorded() {
            return None;
        }
        let age = self.now.saturating_duration_since(received);
        let limit = self.interval.saturating_mul(STALE_INTERVALS);
        (age > limit.max(STALE_AT_LEAST)).then_some(age)
    }

    /// How old a document is, in words; none of one that is live, or that the user stopped.
    pub(crate) fn age_note<T>(&self, document: Option<&Fresh<T>>) -> Option<String> {
        let age = self.stale(document?.received).filter(|_| !self.paused)?;
        Some(format!("as of {} ago", format::duration(age.as_secs())))
    }

    /// Events per second from the last snapshot to a new one; none of the first, or within one moment.
    fn rate(&self, snapshot: &Snapshot, received: Instant) -> Option<u64> {
        let before = self.snapshot.as_ref().filter(|_| !self.is_recorded())?;
        let applied = before.document.server.events_applied;
        let events = snapshot.server.events_applied.saturating_sub(applied);
        let millis = received
            .saturating_duration_since(before.received)
            .as_millis();
        let rate = (u128::from(events) * 1000).checked_div(millis)?;
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

fn fresh<T>(document: T, received: Instant) -> Option<Fresh<T>> {
    Some(Fresh { document, received })
}

impl Tail {
    fn take(&mut self, events: Vec<StreamEvent>) {
        self.events.extend(events.into_iter().map(Arc::new));
        let over = self.events.len().saturating_sub(TAIL_EVENTS);
        self.events.drain(..over);
        self.gone += u64::try_from(over).unwrap_or(u64::MAX);
    }

    /// Other events in the place of all: those that were there are gone, so that places stay their own.
    fn replace(&mut self, last: LastEvents) {
        self.clear();
        let events = (self.gone..).zip(last.events);
        self.events = events
            .map(|(id, event)| {
                let applied = event.time;
                Arc::new(StreamEvent { id, applied, event })
            })
            .collect();
    }

    fn clear(&mut self) {
        self.gone = self.end();
        self.events.clear();
    }

    /// The event at a place among all that ever came.
    pub(crate) fn at(&self, place: u64) -> Option<&StreamEvent> {
        let place = usize::try_from(place.checked_sub(self.gone)?).ok()?;
        self.events.get(place).map(|event| &**event)
    }

    /// The place behind the newest event, among all that ever came.
    pub(crate) fn end(&self) -> u64 {
        self.gone + u64::try_from(self.events.len()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
