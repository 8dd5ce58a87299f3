//! What a recording is about, for those who want to jump to it: marks, failures, peaks, gaps.

use crate::bytes::{Cursor, put_bytes, put_number, put_optional};
use std::sync::Arc;
use ttmem_event::event::EVENT_BYTES;
use ttmem_event::{Event, EventKind};
use ttmem_ledger::{GaugeKind, Ledger};

/// Notes that are kept of each kind: the first half of them, and the newest; what lay between is counted.
const MAX_NOTES: usize = 1 << 16;

/// Notes that make room for newer ones at a time.
const DROPPED_NOTES: usize = MAX_NOTES / 4;

/// Devices that a note of a failure names, bytes of a mark's name, and devices' peaks: a mesh has fewer.
const MAX_DEVICES: usize = 256;
const MAX_NAME_BYTES: usize = 1024;
const MAX_PEAKS: usize = 1 << 14;

/// Peaks that are put into their places one by one.
const FEW_PEAKS: usize = 16;

/// A mark, of a process or of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkNote {
    /// Its instant in the recording.
    pub at: u64,
    /// Events of the ledger up to it.
    pub event: u64,
    /// When it was set, by the clock of who set it.
    pub time: u64,
    pub name: Arc<str>,
    pub number: u64,
    /// The process that set it; `None` if a reader did, or the process has no pid.
    pub pid: Option<u32>,
}

/// A refused allocation or a clash; of several in a row that are alike, the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureNote {
    pub at: u64,
    pub event: u64,
    pub time: u64,
    pub pid: Option<u32>,
    /// The logical ids of its devices.
    pub devices: Vec<u32>,
    /// The event that reported it.
    pub kind: EventKind,
}

/// The highest total of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakNote {
    /// Events of the ledger up to and including the one that reached it.
    pub event: u64,
    /// Its instant in the recording; of one that was reached before, its own time.
    pub time: u64,
    /// The ledger's number of the device, and its logical id.
    pub device: u32,
    pub logical_id: u32,
    pub gauge: GaugeKind,
    pub bytes: u64,
}

/// Changes that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapNote {
    pub at: u64,
    pub missing_events: u64,
}

/// What a recording has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The first and the last instant.
    pub from: u64,
    pub to: u64,
    /// Events of the ledger before the recording began.
    pub first_event: u64,
    /// Events in the recording.
    pub events: u64,
    pub missing_events: u64,
    /// Marks, failures and gaps beyond those that are kept.
    pub left_out: u64,
    /// Each kind in the order in which they came.
    pub marks: Vec<MarkNote>,
    pub failures: Vec<FailureNote>,
    pub gaps: Vec<GapNote>,
    /// One for each device and gauge that held anything.
    pub peaks: Vec<PeakNote>,
}

impl Summary {
    pub(crate) fn add_mark(&mut self, mark: MarkNote) {
        add(&mut self.marks, mark, &mut self.left_out);
    }

    pub(crate) fn add_failure(&mut self, mut failure: FailureNote) {
        failure.devices.truncate(MAX_DEVICES);
        add(&mut self.failures, failure, &mut self.left_out);
    }

    pub(crate) fn add_gap(&mut self, gap: GapNote) {
        self.missing_events = self.missing_events.saturating_add(gap.missing_events);
        add(&mut self.gaps, gap, &mut self.left_out);
    }

    fn set_peak(&mut self, peak: PeakNote) {
        match self.peaks.binary_search_by_key(&place(&peak), place) {
            Ok(at) => self.peaks[at] = peak,
            Err(at) if self.peaks.len() < MAX_PEAKS => self.peaks.insert(at, peak),
            Err(_full) => {}
        }
    }

    /// Takes over the peaks of a ledger; those that are new. `instant_of` knows the instants of the newest events.
    pub(crate) fn follow_peaks(
        &mut self,
        ledger: &Ledger,
        instant_of: impl Fn(u64) -> Option<u64>,
    ) -> Vec<PeakNote> {
        let mut new = Vec::new();
        for (number, device) in (0..).zip(ledger.devices()) {
            for gauge in GaugeKind::all() {
                let total = device.totals.gauge(gauge);
                let (peak, event) = (total.peak(), total.peak_order());
                if peak.bytes == 0 {
                    continue;
                }
                let note = PeakNote {
                    event,
                    time: instant_of(event).unwrap_or(peak.time),
                    device: number,
                    logical_id: device.facts.logical_id,
                    gauge,
                    bytes: peak.bytes,
                };
                let known = self.peaks.binary_search_by_key(&place(&note), place);
                let is_known = |at: usize| {
                    let known = &self.peaks[at];
                    (known.event, known.bytes) == (note.event, note.bytes)
                };
                if known.is_ok_and(is_known) {
                    continue;
                }
                self.set_peak(note);
                new.push(note);
            }
        }
        new
    }

    /// Takes over what came later.
    pub(crate) fn merge(&mut self, later: Self) {
        self.to = self.to.max(later.to);
        self.events = self.events.saturating_add(later.events);
        self.left_out = self.left_out.saturating_add(later.left_out);
        later.marks.into_iter().for_each(|mark| self.add_mark(mark));
        let failures = later.failures.into_iter();
        failures.for_each(|failure| self.add_failure(failure));
        later.gaps.into_iter().for_each(|gap| self.add_gap(gap));
        self.merge_peaks(later.peaks);
    }

    /// Takes over peaks that are in the order of their places; of one place, the later counts.
    fn merge_peaks(&mut self, later: Vec<PeakNote>) {
        if later.len() <= FEW_PEAKS {
            return later.into_iter().for_each(|peak| self.set_peak(peak));
        }
        // Many are not put into their places one by one: each would move all behind it.
        let mut all = later;
        all.append(&mut self.peaks);
        all.sort_by_key(place);
        all.dedup_by_key(|peak| place(peak));
        all.truncate(MAX_PEAKS);
        self.peaks = all;
    }

    pub(crate) fn has_notes(&self) -> bool {
        !(self.marks.is_empty()
            && self.failures.is_empty()
            && self.gaps.is_empty()
            && self.peaks.is_empty())
            || self.left_out > 0
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for number in [
            self.from,
            self.to,
            self.first_event,
            self.events,
            self.left_out,
        ] {
            put_number(out, number);
        }
        put_number(out, self.marks.len() as u64);
        for mark in &self.marks {
            for number in [mark.at, mark.event, mark.time, mark.number] {
                put_number(out, number);
            }
            put_pid(out, mark.pid);
            put_bytes(out, mark.name.as_bytes());
        }
        put_number(out, self.failures.len() as u64);
        for failure in &self.failures {
            put_failure(out, failure);
        }
        put_number(out, self.gaps.len() as u64);
        for gap in &self.gaps {
            put_number(out, gap.at);
            put_number(out, gap.missing_events);
        }
        put_number(out, self.peaks.len() as u64);
        for peak in &self.peaks {
            for number in [
                peak.event,
                peak.time,
                peak.device.into(),
                peak.logical_id.into(),
                peak.gauge.index() as u64,
                peak.bytes,
            ] {
                put_number(out, number);
            }
        }
    }

    pub(crate) fn get(cursor: &mut Cursor<'_>) -> Option<Self> {
        let mut summary = Self {
            from: cursor.number()?,
            to: cursor.number()?,
            first_event: cursor.number()?,
            events: cursor.number()?,
            left_out: cursor.number()?,
            ..Self::default()
        };
        summary.marks = get_notes(cursor, get_mark)?;
        summary.failures = get_notes(cursor, get_failure)?;
        for gap in get_notes(cursor, get_gap)? {
            summary.add_gap(gap);
        }
        summary.peaks = get_notes(cursor, get_peak)?;
        summary.peaks.sort_by_key(place);
        summary.peaks.dedup_by_key(|peak| place(peak));
        Some(summary)
    }
}

fn place(peak: &PeakNote) -> (u32, GaugeKind) {
    (peak.device, peak.gauge)
}

fn add<T>(notes: &mut Vec<T>, note: T, left_out: &mut u64) {
    if notes.len() >= MAX_NOTES {
        let oldest = MAX_NOTES / 2;
        notes.drain(oldest..oldest + DROPPED_NOTES);
        *left_out = left_out.saturating_add(DROPPED_NOTES as u64);
    }
    notes.push(note);
}

fn put_pid(out: &mut Vec<u8>, pid: Option<u32>) {
    put_optional(out, pid, |out, pid| put_number(out, pid.into()));
}

/// A list with no more than a writer keeps: what is packed well may say that there are millions.
fn get_notes<T>(
    cursor: &mut Cursor<'_>,
    get: impl FnMut(&mut Cursor<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    cursor.list_up_to(MAX_NOTES as u64, get)
}

fn get_mark(cursor: &mut Cursor<'_>) -> Option<MarkNote> {
    Some(MarkNote {
        at: cursor.number()?,
        event: cursor.number()?,
        time: cursor.number()?,
        number: cursor.number()?,
        pid: cursor.optional(Cursor::small)?,
        name: cursor.text().filter(|name| name.len() <= MAX_NAME_BYTES)?,
    })
}

fn put_failure(out: &mut Vec<u8>, failure: &FailureNote) {
    put_number(out, failure.at);
    put_number(out, failure.event);
    put_pid(out, failure.pid);
    put_number(out, failure.devices.len() as u64);
    for device in &failure.devices {
        put_number(out, (*device).into());
    }
    let (time, kind) = (failure.time, failure.kind);
    out.extend_from_slice(&Event { time, kind }.encode());
}

fn get_failure(cursor: &mut Cursor<'_>) -> Option<FailureNote> {
    let (at, event) = (cursor.number()?, cursor.number()?);
    let pid = cursor.optional(Cursor::small)?;
    let devices = cursor.list_up_to(MAX_DEVICES as u64, Cursor::small)?;
    let record: &[u8; EVENT_BYTES] = cursor.take(EVENT_BYTES)?.try_into().ok()?;
    let Event { time, kind } = Event::decode(record).ok()?;
    Some(FailureNote {
        at,
        event,
        time,
        pid,
        devices,
        kind,
    })
}

fn get_gap(cursor: &mut Cursor<'_>) -> Option<GapNote> {
    Some(GapNote {
        at: cursor.number()?,
        missing_events: cursor.number()?,
    })
}

fn get_peak(cursor: &mut Cursor<'_>) -> Option<PeakNote> {
    Some(PeakNote {
        event: cursor.number()?,
        time: cursor.number()?,
        device: cursor.small()?,
        logical_id: cursor.small()?,
        gauge: GaugeKind::all().nth(cursor.small()?)?,
        bytes: cursor.number()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::TextId;

    #[test]
    fn notes_take_no_more_than_a_writer_makes_them() {
        let mark = |bytes: usize| MarkNote {
            at: 1,
            event: 1,
            time: 1,
            name: "m".repeat(bytes).into(),
            number: 1,
            pid: None,
        };
        let failure = |devices: usize| FailureNote {
            at: 1,
            event: 1,
            time: 1,
            pid: None,
            devices: vec![0; devices],
            kind: EventKind::Marked {
                name: TextId(1),
                number: 1,
            },
        };
        let read = |marks: Vec<MarkNote>, failures: Vec<FailureNote>| {
            let summary = Summary {
                marks,
                failures,
                ..Summary::default()
            };
            let mut bytes = Vec::new();
            summary.put(&mut bytes);
            Summary::get(&mut Cursor::new(&bytes))
        };
        assert!(read(vec![mark(MAX_NAME_BYTES)], vec![failure(MAX_DEVICES)]).is_some());
        assert!(read(vec![mark(MAX_NAME_BYTES + 1)], Vec::new()).is_none());
        assert!(read(Vec::new(), vec![failure(MAX_DEVICES + 1)]).is_none());
        // What a ledger has of a larger mesh is cut, and can be read again.
        let mut summary = Summary::default();
        summary.add_failure(failure(MAX_DEVICES + 1));
        assert!(read(Vec::new(), summary.failures).is_some());
    }

    #[test]
    fn of_marks_without_end_the_first_and_the_last_are_kept() {
        let mut summary = Summary::default();
        let count = 5 * MAX_NOTES as u64 + 77;
        for number in 0..count {
            summary.add_mark(MarkNote {
                at: number,
                event: number,
                time: number,
                name: "step".into(),
                number,
                pid: None,
            });
        }
        let numbers: Vec<u64> = summary.marks.iter().map(|mark| mark.number).collect();
        assert!(numbers.len() <= MAX_NOTES && numbers.is_sorted());
        assert_eq!(numbers.len() as u64 + summary.left_out, count);
        let first = MAX_NOTES as u64 / 2;
        assert!((0..first).eq(numbers[..MAX_NOTES / 2].iter().copied()));
        let last = count - MAX_NOTES as u64 / 4;
        assert!((last..count).all(|number| numbers.contains(&number)));
    }

    #[test]
    fn peaks_of_devices_without_end_are_not_kept() {
        let mut summary = Summary::default();
        for device in (0..40_000).rev() {
            summary.set_peak(PeakNote {
                event: 1,
                time: 1,
                device,
                logical_id: 0,
                gauge: GaugeKind::Cb,
                bytes: 1,
            });
        }
        assert_eq!(summary.peaks.len(), MAX_PEAKS);
    }
}
