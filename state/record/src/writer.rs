//! Writing a recording.

use crate::blocks::Blocks;
use crate::coding::{Record, put_entry};
use crate::columns;
use crate::format::{
    BlockHeader, BlockKind, FileHeader, MAX_BLOCK_ENTRIES, MAX_BLOCK_EVENTS, TRAILER_BYTES, Trailer,
};
use crate::notes::{FailureNote, GapNote, MarkNote, PeakNote, Summary};
use crate::redaction::Redaction;
use crate::selection::Selection;
use std::io::Write;
use std::sync::Arc;
use ttmem_event::{Event, EventKind};
use ttmem_ledger::{ApplyLimits, Batch, Change, DeviceKey, Ledger, Limits, LoadError, Part, View};

/// Bytes of entries after which a block is ended, whatever its events.
const BLOCK_ENTRY_BYTES: usize = 4 << 20;

/// Bytes of a state for which one more event has to come before the next one.
const STATE_BYTES_PER_EVENT: u64 = 8;

/// What a change that is no event counts for when the next state is due.
const CHANGE_EVENTS: u64 = 16;

/// Blocks of a recording that may not grow, if its events took a byte each; they take some more.
const MIN_BLOCKS: u64 = 64;
const MIN_BLOCK_EVENTS: usize = 64;

#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Leaves names, paths and command lines out.
    pub redact: bool,
    /// Events of a block.
    pub block_events: usize,
    /// Events from one state to the next, at least; a large state comes less often.
    pub checkpoint_events: u64,
    /// How hard zstd tries.
    pub level: i32,
    /// Records some processes alone.
    pub part: Option<Part>,
    /// The most bytes of the whole file: what would go beyond is [`WriteError::Full`].
    pub max_bytes: Option<u64>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            redact: false,
            block_events: 1 << 15,
            checkpoint_events: 100_000,
            level: 1,
            part: None,
            max_bytes: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot write the recording")]
    Io(#[from] std::io::Error),
    /// The state is larger than any block.
    #[error("the state of the ledger takes {0} bytes, more than a recording can have")]
    TooLarge(usize),
    /// What is to be written does not fit any more: [`Writer::finish_full`] ends the recording.
    #[error("the recording has as many bytes as it may have")]
    Full,
    #[error("the state that the recording is to go on from cannot be used")]
    State(#[from] LoadError),
}

/// A recording that was finished.
#[derive(Debug)]
pub struct Finished<W> {
    pub out: W,
    /// The ledger after everything in it, for the next recording to go on from.
    pub ledger: Ledger,
    pub summary: Summary,
    pub bytes: u64,
    redaction: Option<Redaction>,
    selection: Option<Selection>,
}

/// Writes changes, and follows them with a ledger of its own.
///
/// It asks no clock: every change comes with its time, and who writes to a file says when what was
/// collected is to be written. After an error it is to be dropped.
#[derive(Debug)]
pub struct Writer<W> {
    out: Blocks<W>,
    options: WriterOptions,
    redaction: Option<Redaction>,
    selection: Option<Selection>,
    ledger: Ledger,
    /// The block that is being filled.
    entries: Vec<u8>,
    entry_count: u32,
    records: Vec<Record>,
    block_event: u64,
    /// The instants of the events since then.
    instants: Vec<u64>,
    block_time: u64,
    /// The last instant, and the time of the last entry.
    now: u64,
    entry_time: u64,
    summary: Summary,
    /// What came since the last notes were written.
    news: Summary,
    since_state: u64,
    state_bytes: u64,
    /// The most that the changes of a block may take.
    most_bytes: u64,
    scratch: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a recording that goes on from a ledger, at a time; the ledger must be one that
    /// [can be saved](Ledger::can_save).
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(
        out: W,
        options: WriterOptions,
        time: u64,
        ledger: &Ledger,
    ) -> Result<Self, WriteError> {
        let mut state = Vec::new();
        ledger.save(&mut state);
        Self::from_state(out, options, time, &state)
    }

    /// The same from a state that [`Ledger::save`] wrote.
    ///
    /// # Errors
    /// When it cannot be written, or the state is none.
    pub fn from_state(
        out: W,
        options: WriterOptions,
        time: u64,
        state: &[u8],
    ) -> Result<Self, WriteError> {
        let mut redaction = options.redact.then(Redaction::default);
        let part = options.part.clone();
        let part = part.map(|part| redacted_part(part, redaction.as_mut()));
        let mut selection = part.map(Selection::new);
        let ledger = load(state, redaction.as_mut(), selection.as_mut())?;
        Self::begin(out, options, time, ledger, (redaction, selection))
    }

    /// Begins the recording that follows one that was finished with the same options: placeholders
    /// go on to stand for the same texts.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn after(
        out: W,
        options: WriterOptions,
        time: u64,
        finished: Finished<W>,
    ) -> Result<Self, WriteError> {
        let time = time.max(finished.summary.to);
        let chosen = (finished.redaction, finished.selection);
        Self::begin(out, options, time, finished.ledger, chosen)
    }

    fn begin(
        out: W,
        options: WriterOptions,
        time: u64,
        ledger: Ledger,
        (redaction, selection): (Option<Redaction>, Option<Selection>),
    ) -> Result<Self, WriteError> {
        let mut options = options;
        if let Some(most) = options.max_bytes {
            // Many blocks: the last one that does not fit is a small part of the whole.
            let events = usize::try_from(most / MIN_BLOCKS).unwrap_or(usize::MAX);
            options.block_events = options.block_events.min(events.max(MIN_BLOCK_EVENTS));
        }
        let mut out = Blocks::new(out, options.level, options.max_bytes)?;
        out.put(&FileHeader::new(options.redact, time).encode())?;
        let summary = Summary {
            from: time,
            to: time,
            first_event: ledger.events(),
            ..Summary::default()
        };
        let mut writer = Self {
            out,
            redaction,
            selection,
            entries: Vec::new(),
            entry_count: 0,
            records: Vec::new(),
            block_event: ledger.events(),
            instants: Vec::new(),
            block_time: time,
            now: time,
            entry_time: time,
            news: Summary::default(),
            summary,
            since_state: 0,
            state_bytes: 0,
            most_bytes: BlockKind::Inputs.most_bytes(),
            scratch: Vec::new(),
            options,
            ledger,
        };
        writer.put_state(true)?;
        writer.put_notes()?;
        Ok(writer)
    }

    /// Adds a change that was applied at a time; one that is before the last counts as of the last.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&mut self, time: u64, change: &Change) -> Result<(), WriteError> {
        let redacted = self
            .redaction
            .as_mut()
            .map(|redaction| redaction.change(change));
        let change = redacted.as_ref().unwrap_or(change);
        let Some(selection) = &mut self.selection else {
            return self.append_whole(time, change);
        };
        for (time, change) in selection.take(time, change, &self.ledger) {
            self.append_whole(time, &change)?;
        }
        Ok(())
    }

    fn append_whole(&mut self, time: u64, change: &Change) -> Result<(), WriteError> {
        let time = time.max(self.now).max(self.entry_time);
        match change {
            Change::Apply(batch) => self.append_events(time, batch)?,
            Change::ApplyEvent { event, .. } => {
                self.put_entry(time, change);
                self.records.push(event.encode());
                self.apply(change);
                self.now = time;
                self.keep_instant();
            }
            _other => {
                self.put_entry(time, change);
                self.apply(change);
                self.now = time;
                self.keep_instant();
                if let Change::SetMark {
                    time, name, number, ..
                } = change
                {
                    let mark = (*time, Arc::clone(name), *number);
                    self.note_mark(mark, None);
                }
            }
        }
        self.end_block_if_full()
    }

    fn append_events(&mut self, time: u64, batch: &Batch) -> Result<(), WriteError> {
        let mut rest = batch.range.clone();
        if batch.events().is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let most = self.options.block_events.clamp(1, MAX_BLOCK_EVENTS);
            let room = most.saturating_sub(self.records.len()).max(1);
            let part = rest.start..rest.end.min(rest.start + room);
            rest.start = part.end;
            let part = Batch {
                range: part,
                ..batch.clone()
            };
            self.put_entry(time, &Change::Apply(part.clone()));
            let events = part.events();
            self.records.extend(events.iter().map(Event::encode));
            for event in events {
                self.apply_event(time, part.process, event);
            }
            self.end_block_if_full()?;
        }
        Ok(())
    }

    /// Makes a change that is no batch; a large event that is not finished comes again.
    fn apply(&mut self, change: &Change) {
        let _rest = self.ledger.apply(change, ApplyLimits::NONE, None);
        // Notes for a log, which a recording does not have.
        drop(self.ledger.take_newly_incomplete());
    }

    fn apply_event(&mut self, time: u64, process: u32, event: &Event) {
        self.now = instant(self.now, event.time, time);
        let change = Change::event(process, *event);
        let outcome = self.ledger.apply(&change, ApplyLimits::NONE, None);
        self.keep_instant();
        let is_noted = matches!(
            event.kind,
            EventKind::Marked { .. }
                | EventKind::AllocationFailed { .. }
                | EventKind::Clashed { .. }
        );
        if is_noted && outcome.refused.is_none() {
            self.note(process, event);
        }
    }

    /// Remembers the instant of what was just counted.
    fn keep_instant(&mut self) {
        let counted = self.ledger.events().saturating_sub(self.block_event);
        // More comes at once only with whole states, whose peaks have times of their own.
        let counted = usize::try_from(counted).unwrap_or(usize::MAX);
        if counted <= 2 * MAX_BLOCK_EVENTS {
            self.instants.resize(counted, self.now);
        }
    }

    #[cold]
    fn note(&mut self, process: u32, event: &Event) {
        let known = self.ledger.process(process);
        let pid = known.and_then(|known| known.facts.identity.pid);
        if let EventKind::Marked { name, number } = event.kind {
            let name = known.and_then(|known| known.account.definitions.text(name));
            let name = name.map_or_else(|| Arc::from(""), Arc::clone);
            return self.note_mark((event.time, name, number), pid);
        }
        let Some(moment) = self
            .ledger
            .failures()
            .newest()
            .filter(|moment| moment.times == 1)
        else {
            return;
        };
        let devices = moment.devices.iter();
        let devices = devices.filter_map(|number| self.ledger.logical_id(*number));
        let failure = FailureNote {
            at: self.now,
            event: self.ledger.events(),
            time: event.time,
            pid,
            devices: devices.collect(),
            kind: event.kind,
        };
        self.summary.add_failure(failure.clone());
        self.news.add_failure(failure);
    }

    fn note_mark(&mut self, (time, name, number): (u64, Arc<str>, u64), pid: Option<u32>) {
        let mark = MarkNote {
            at: self.now,
            event: self.ledger.events(),
            time,
            name,
            number,
            pid,
        };
        self.summary.add_mark(mark.clone());
        self.news.add_mark(mark);
    }

    /// Notes that changes are missing: so many events at least. What follows goes on from `state`, which
    /// [`Ledger::save`] wrote.
    ///
    /// # Errors
    /// When it cannot be written, or the state is none.
    pub fn gap(&mut self, time: u64, missing_events: u64, state: &[u8]) -> Result<(), WriteError> {
        self.end_block()?;
        let selection = self.selection.as_mut();
        self.ledger = load(state, self.redaction.as_mut(), selection)?;
        let missed = self.selection.as_mut().map_or(0, Selection::take_missing);
        let missing_events = missing_events.saturating_add(missed);
        self.now = time.max(self.now);
        (self.block_time, self.entry_time) = (self.now, self.now);
        self.block_event = self.ledger.events();
        let gap = GapNote {
            at: self.now,
            missing_events,
        };
        self.summary.add_gap(gap);
        self.news.add_gap(gap);
        self.put_state(true)?;
        self.put_notes()
    }

    fn put_entry(&mut self, time: u64, change: &Change) {
        // Instants of many events that arrived at once may be nanoseconds ahead of the clock.
        let time = time.max(self.entry_time);
        put_entry(&mut self.entries, time - self.entry_time, change);
        self.entry_time = time;
        self.entry_count += 1;
        self.since_state += CHANGE_EVENTS;
    }

    fn end_block_if_full(&mut self) -> Result<(), WriteError> {
        let is_full = self.records.len() >= self.options.block_events.clamp(1, MAX_BLOCK_EVENTS)
            || self.entry_count >= MAX_BLOCK_ENTRIES
            || self.entries.len() >= BLOCK_ENTRY_BYTES;
        if is_full { self.end_block() } else { Ok(()) }
    }

    /// Writes what was collected, and the state if it is due.
    fn end_block(&mut self) -> Result<(), WriteError> {
        if self.entry_count == 0 {
            return Ok(());
        }
        let events = self.records.len();
        let counted = self.ledger.events().saturating_sub(self.block_event);
        self.scratch.clear();
        let length = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.scratch.extend_from_slice(&length.to_le_bytes());
        self.scratch.extend_from_slice(&self.entries);
        columns::put(&self.records, self.block_time, &mut self.scratch);
        let is_storable = self.scratch.len() as u64 <= self.most_bytes;
        if is_storable {
            let header = BlockHeader {
                kind: BlockKind::Inputs,
                is_start: false,
                entries: self.entry_count,
                events: u32::try_from(events).unwrap_or(u32::MAX),
                first_time: self.block_time,
                last_time: self.now,
                first_event: self.block_event,
                last_event: self.ledger.events(),
                stored_bytes: 0,
                raw_bytes: 0,
                payload_sum: 0,
            };
            self.out.block(header, &self.scratch)?;
        }
        if is_storable {
            self.summary.events += counted;
        } else {
            // What led here is too large to be kept; the state that it led to is written.
            let gap = GapNote {
                at: self.now,
                missing_events: counted,
            };
            self.summary.add_gap(gap);
            self.news.add_gap(gap);
        }
        (self.summary.to, self.news.to) = (self.now, self.now);
        self.since_state += counted;
        self.entries.clear();
        self.entries.shrink_to(2 * BLOCK_ENTRY_BYTES);
        self.entry_count = 0;
        self.records.clear();
        self.put_notes()?;
        self.block_event = self.ledger.events();
        self.instants.clear();
        self.block_time = self.now;
        self.entry_time = self.now;
        let due = self
            .options
            .checkpoint_events
            .max(self.state_bytes / STATE_BYTES_PER_EVENT);
        if !is_storable {
            self.put_state(true)
        } else if self.since_state >= due && self.ledger.can_save() {
            self.put_state(false)
        } else {
            Ok(())
        }
    }

    fn put_state(&mut self, is_start: bool) -> Result<(), WriteError> {
        self.scratch.clear();
        self.ledger.save(&mut self.scratch);
        self.state_bytes = self.scratch.len() as u64;
        self.since_state = 0;
        if self.state_bytes > BlockKind::State.most_bytes() {
            return if is_start {
                Err(WriteError::TooLarge(self.scratch.len()))
            } else {
                Ok(())
            };
        }
        let header = self.header_now(BlockKind::State, is_start);
        let state = std::mem::take(&mut self.scratch);
        let written = self.out.block(header, &state);
        self.scratch = state;
        self.scratch.shrink_to(16 << 20);
        written
    }

    /// Writes what is new for those who want to jump.
    fn put_notes(&mut self) -> Result<(), WriteError> {
        let (first, instants) = (self.block_event, &self.instants);
        let instant_of = |event: u64| {
            let place = usize::try_from(event.checked_sub(first + 1)?).ok()?;
            instants.get(place).copied()
        };
        let peaks: Vec<PeakNote> = self.summary.follow_peaks(&self.ledger, instant_of);
        self.news.peaks = peaks;
        if !self.news.has_notes() {
            return Ok(());
        }
        let news = std::mem::take(&mut self.news);
        self.scratch.clear();
        news.put(&mut self.scratch);
        let header = self.header_now(BlockKind::Notes, false);
        self.out.block(header, &self.scratch)
    }

    /// A header of something that is about now.
    fn header_now(&self, kind: BlockKind, is_start: bool) -> BlockHeader {
        BlockHeader {
            kind,
            is_start,
            entries: 0,
            events: 0,
            first_time: self.now,
            last_time: self.now,
            first_event: self.ledger.events(),
            last_event: self.ledger.events(),
            stored_bytes: 0,
            raw_bytes: 0,
            payload_sum: 0,
        }
    }

    /// Ends the block that is being filled and hands everything to the system.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.end_block()?;
        Ok(self.out.out.flush()?)
    }

    /// Writes the rest and the index.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<Finished<W>, WriteError> {
        self.end_block()?;
        let index_offset = self.out.bytes;
        self.scratch.clear();
        self.out.index.put(&mut self.scratch);
        self.summary.put(&mut self.scratch);
        let header = self.header_now(BlockKind::Index, false);
        self.out.block(header, &self.scratch)?;
        let trailer = Trailer {
            index_offset,
            file_bytes: self.out.bytes + TRAILER_BYTES as u64,
        };
        self.out.put(&trailer.encode())?;
        self.out.out.flush()?;
        Ok(Finished {
            bytes: self.out.bytes,
            out: self.out.out,
            ledger: self.ledger,
            summary: self.summary,
            redaction: self.redaction,
            selection: self.selection,
        })
    }

    /// Notes that so many events are missing before what was written last.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note_missing(&mut self, missing_events: u64) -> Result<(), WriteError> {
        let gap = GapNote {
            at: self.now,
            missing_events,
        };
        self.summary.add_gap(gap);
        self.news.add_gap(gap);
        self.put_notes()
    }

    /// Events that were added and are not written: all of them would be missing.
    #[must_use]
    pub fn unwritten_events(&self) -> u64 {
        self.ledger.events().saturating_sub(self.block_event)
    }

    /// Ends a recording that is [full](WriteError::Full): what did not fit is counted in it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish_full(mut self) -> Result<Finished<W>, WriteError> {
        let lost = self.unwritten_events();
        if self.entry_count > 0 && lost > 0 {
            let at = self.summary.to;
            self.summary.add_gap(GapNote {
                at,
                missing_events: lost,
            });
        }
        self.entry_count = 0;
        self.finish()
    }

    /// Whether the recording of a part needs a state to [go on](Writer::gap) from: a process belongs to it
    /// since a moment ago, of which nothing was recorded before.
    #[must_use]
    pub fn wants_state(&self) -> bool {
        self.selection.as_ref().is_some_and(Selection::wants_state)
    }

    /// Whether the one process that is recorded is gone.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.selection.as_ref().is_some_and(Selection::is_over)
    }

    /// The ledger after everything that was added.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn view(&mut self) -> View {
        self.ledger.view()
    }

    /// What was written so far; what is being collected is not in it yet, but for marks and failures.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Bytes of states among those that were written.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        let states = self.out.index.blocks.iter();
        let states = states.filter(|block| block.header.kind == BlockKind::State);
        states.map(|block| block.header.bytes()).sum()
    }

    /// Bytes that were written so far.
    pub fn bytes(&self) -> u64 {
        self.out.bytes
    }
}

/// The instant of an event that was applied at a time: its own time, if that is after the instant before it and not
/// after the time at which it was applied; or else the nearest such.
///
/// No two events share one, so that the ledger between any two can be looked at: names are learned when a batch
/// arrives, which is after all of its events, and the peak of a short run would otherwise be at no instant of its own.
pub(crate) fn instant(before: u64, event_time: u64, applied: u64) -> u64 {
    let earliest = before.saturating_add(1);
    event_time.clamp(earliest, applied.max(earliest))
}

fn load(
    state: &[u8],
    redaction: Option<&mut Redaction>,
    selection: Option<&mut Selection>,
) -> Result<Ledger, LoadError> {
    let ledger = match redaction {
        Some(redaction) => {
            let rename = |text: &str| redaction.text(text);
            Ledger::load_renamed(state, Limits::default(), rename)?.without_labels()
        }
        None => Ledger::load(state, Limits::default())?,
    };
    Ok(match selection {
        Some(selection) => selection.begin(ledger),
        None => ledger,
    })
}

/// A part as a redacted ledger names it.
fn redacted_part(part: Part, redaction: Option<&mut Redaction>) -> Part {
    match (part, redaction) {
        (Part::Device(DeviceKey::Logical { visible, id }), Some(redaction)) => {
            let visible = redaction.text(&visible);
            Part::Device(DeviceKey::Logical { visible, id })
        }
        (part, _as_it_is) => part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::player::{Player, Until};
    use crate::recording::Recording;
    use ttmem_event::{Definition, Source, TextId};
    use ttmem_ledger::ProcessIdentity;

    #[test]
    fn inputs_that_fit_no_block_are_a_gap_before_the_state_that_they_led_to() {
        let empty = Ledger::default();
        let mut writer = Writer::new(Vec::new(), WriterOptions::default(), 1, &empty).unwrap();
        writer.most_bytes = 1000;
        let identity = ProcessIdentity {
            pid: Some(7),
            start_time: None,
            instance: None,
            uid: 0,
            name: "model".into(),
            command: "".into(),
            source: Source::Attached,
            visible_devices: "".into(),
        };
        let join = Change::Join {
            identity,
            claimed_pid: 7,
        };
        writer.append(2, &join).unwrap();
        writer.flush().unwrap();
        let text = Definition::Text {
            id: TextId(1),
            text: "long".repeat(1000),
        };
        let define = Change::Define {
            process: 0,
            definitions: Arc::new(vec![text]),
        };
        let lost = Event {
            time: 3,
            kind: EventKind::EventsLost { count: 1 },
        };
        let apply = Change::Apply(Batch::whole(0, Arc::new(vec![lost])));
        writer.append(3, &define).unwrap();
        writer.append(3, &apply).unwrap();
        writer.flush().unwrap();
        writer.append(4, &apply).unwrap();
        let finished = writer.finish().unwrap();
        let recording = Recording::open(std::io::Cursor::new(finished.out)).unwrap();
        let summary = recording.summary();
        assert_eq!((summary.events, summary.missing_events), (1, 1));
        let mut player = Player::new(recording).unwrap();
        player.play(Until::End, |_, _, _| {}).unwrap();
        let (mut played, mut live) = (Vec::new(), Vec::new());
        player.ledger().save(&mut played);
        finished.ledger.save(&mut live);
        assert!(played == live);
    }
}
