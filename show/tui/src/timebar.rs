//! Where in a recording the screen is: a line with marks, peaks and failures.

use crate::data::Data;
use crate::playback::span;
use crate::theme::{Ink, Theme};
use crate::widgets::{Canvas, left_of, right_of, row_of, text};
use ratatui::layout::Rect;
use std::time::Duration;
use ttmem_report::format;
use ttmem_report::labels;
use ttmem_report::{PeakOf, RecordedFailureKind, RecordedPeak, Recording, Timestamp};

/// Narrower, there is no room for words beside the line.
const WORDS: u16 = 60;

/// The most columns of words.
const MOST_WORDS: u16 = 70;

/// Narrower, a date has no room.
const DATES: u16 = 70;

/// A time in a recording that is shorter has tenths of a second.
const SHORT: u64 = 100 * SECOND;

const SECOND: u64 = 1_000_000_000;

/// An answer that is waited for longer is worth a word.
const LONG_WAIT: Duration = Duration::from_millis(500);

/// The columns of a time in a longer one.
const TIME: usize = 12;

/// The lines that it takes: none where nothing is recorded, one more where something is missing.
pub(crate) fn lines(data: &Data) -> u16 {
    let recording = data.recording.as_ref();
    recording.map_or(0, |recording| 1 + u16::from(missing(recording).is_some()))
}

/// Draws it; the part along which the cursor moves.
pub(crate) fn draw(
    canvas: &mut Canvas<'_>,
    area: Rect,
    data: &Data,
    peaks: &[&RecordedPeak],
) -> Rect {
    let Some(recording) = data.recording.as_ref().filter(|_| !area.is_empty()) else {
        return Rect::ZERO;
    };
    let line = row_of(area, area.height - 1);
    if let Some(missing) = missing(recording).filter(|_| area.height > 1) {
        canvas.text(row_of(area, 0), format!("! {missing}"), Ink::Warning);
    }
    let place = place(recording, data);
    canvas.text(line, &place, Ink::Text);
    let taken = u16::try_from(text::width(&place)).unwrap_or(u16::MAX);
    let rest = right_of(line, taken.saturating_add(1));
    let words = if line.width < WORDS {
        0
    } else {
        (line.width / 3).min(MOST_WORDS)
    };
    let rail = left_of(rest, rest.width.saturating_sub(words));
    draw_rail(canvas, rail, recording, data, peaks);
    let (said, ink) = here(recording, data, peaks);
    let beside = right_of(rest, rail.width.saturating_add(1));
    canvas.text(beside, said, ink);
    rail
}

/// What the figures of the screen are: of which instant, and whether that moves.
pub(crate) fn state(data: &Data, theme: Theme, columns: u16) -> String {
    let instant = data.time();
    let instant = instant.or_else(|| data.recording.as_ref().map(|recording| recording.to));
    let Some(instant) = instant else {
        return "recorded".to_owned();
    };
    let text = instant.to_string();
    let (date, time) = (&text[..10], &text[11..23]);
    let when = if columns < DATES {
        time.to_owned()
    } else {
        format!("{date} {time} UTC")
    };
    let times = theme.pick('×', 'x');
    let speed = data.playback.speed();
    let doing = if data.playback.is_playing() {
        format!("playing {times}{speed}")
    } else if data.at.is_none() {
        "the end".to_owned()
    } else if speed == "1" {
        "paused".to_owned()
    } else {
        format!("paused {times}{speed}")
    };
    format!("recorded {when}, {doing}")
}

/// Why it is not all that happened.
fn missing(recording: &Recording) -> Option<String> {
    let lost = (recording.missing_events > 0).then(|| {
        let events = format::counted(recording.missing_events, "event");
        format!("{events} are missing: they came faster than they could be recorded")
    });
    let damage = recording.damage.as_ref();
    let damage = damage.map(|damage| format!("the recording is damaged: {damage}"));
    let parts: Vec<String> = damage.into_iter().chain(lost).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// How far into the recording it is, and how long that is.
fn place(recording: &Recording, data: &Data) -> String {
    let whole = span(recording);
    let from = recording.from.unix_nanos();
    let into = shown(recording, data).unix_nanos().saturating_sub(from);
    if whole < SHORT {
        let short = |nanos: u64| {
            let millis = nanos / 1_000_000;
            if whole < SECOND {
                format!("{millis} ms")
            } else {
                format!("{}.{} s", millis / 1000, millis % 1000 / 100)
            }
        };
        let whole = short(whole);
        let into = text::right(&short(into), text::width(&whole));
        return format!("{into} of {whole}");
    }
    let seconds = |nanos: u64| format::duration(nanos / SECOND);
    let into = text::right(&seconds(into), TIME);
    format!("{into} of {}", seconds(whole))
}

/// The instant on the screen; the end while it follows what is live.
fn shown(recording: &Recording, data: &Data) -> Timestamp {
    data.at.unwrap_or(recording.to)
}

fn draw_rail(
    canvas: &mut Canvas<'_>,
    rail: Rect,
    recording: &Recording,
    data: &Data,
    peaks: &[&RecordedPeak],
) {
    if rail.is_empty() {
        return;
    }
    let theme = canvas.theme;
    let whole = u128::from(span(recording).max(1));
    let column = |time: Timestamp| {
        let from = recording.from.unix_nanos();
        let into = u128::from(time.unix_nanos().saturating_sub(from)).min(whole);
        let into = into * u128::from(rail.width - 1) / whole;
        rail.x + u16::try_from(into).unwrap_or(rail.width - 1)
    };
    let cursor = column(shown(recording, data));
    for at in rail.x..rail.right() {
        let (sign, ink) = if at <= cursor {
            (theme.pick('━', '='), Ink::Text)
        } else {
            (theme.pick('─', '-'), Ink::Faint)
        };
        canvas.cell((at, rail.y), sign, ink);
    }
    let mut tick = |time: Timestamp, sign: char, ink: Ink| {
        canvas.cell((column(time), rail.y), sign, ink);
    };
    // What matters most is drawn last.
    for mark in &recording.marks {
        tick(mark.time, '\'', Ink::Key);
    }
    for peak in peaks {
        tick(peak.time, theme.pick('▲', '^'), Ink::Peak);
    }
    for failure in &recording.failures {
        tick(failure.time, '!', Ink::Danger);
    }
    canvas.cell((cursor, rail.y), theme.pick('●', 'O'), Ink::Strong);
}

/// What happened at the very instant that is shown; keys if nothing did.
fn here(recording: &Recording, data: &Data, peaks: &[&RecordedPeak]) -> (String, Ink) {
    let waited = data
        .waiting
        .map(|since| data.now.saturating_duration_since(since));
    if waited >= Some(LONG_WAIT) {
        let wanted = format::date_time(data.playback.instant(recording));
        return (format!("going to {}", &wanted[11..]), Ink::Warning);
    }
    let Some(at) = data.at else {
        let hint = if data.is_file() {
            "Space plays  , steps back"
        } else {
            ", looks back"
        };
        return (hint.to_owned(), Ink::Faint);
    };
    let failures = &recording.failures;
    if let Some(number) = failures.iter().position(|failure| failure.time == at) {
        let failure = &failures[number];
        let what = match failure.kind {
            RecordedFailureKind::Refused => "refused",
            RecordedFailureKind::Clashed => "clash",
            RecordedFailureKind::Other => "not known what",
        };
        let device = match &failure.device_ids[..] {
            [] => String::new(),
            ids => format!(", device {}", format::ids(ids)),
        };
        let number = format!("failure {} of {}", number + 1, failures.len());
        return (format!("{number}, {what}{device}"), Ink::Danger);
    }
    if let Some(peak) = peaks.iter().find(|peak| peak.time == at) {
        let size = format::bytes(peak.bytes);
        let text = format!("{} peak {size}, device {}", class(peak.of), peak.device);
        return (text, Ink::Peak);
    }
    let marks = &recording.marks;
    if let Some(number) = marks.iter().position(|mark| mark.time == at) {
        let name = &marks[number].name;
        let text = format!("mark {} of {}: {name}", number + 1, marks.len());
        return (text, Ink::Key);
    }
    let verb = if data.playback.is_playing() {
        "pauses"
    } else {
        "plays"
    };
    (format!("Space {verb}  , . step"), Ink::Faint)
}

const fn class(of: PeakOf) -> &'static str {
    match of {
        PeakOf::Dram => labels::DRAM,
        PeakOf::L1 => labels::L1_BUFFERS,
        PeakOf::L1Small => labels::L1_SMALL,
        PeakOf::Trace => labels::TRACE,
        PeakOf::System => "SYSTEM",
        PeakOf::Cb => "CBs of all programs",
        PeakOf::Kernel => "kernels of all programs",
        PeakOf::Other => "something",
    }
}
