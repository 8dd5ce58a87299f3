//! What devices have now beyond what they had at a mark.
//!
//! What they had then is read off the history, which is kept in memory and may not reach back as
//! far: then it is not known. The highest values since are the server's own, for each mark.

use crate::data::Data;
use crate::format;
use crate::look::{Ink, Look};
use crate::views::naming::known;
use crate::wants::DeviceKey;
use crate::widgets::table::{Cell, Column, Table};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ttmem_api::{Device, DeviceHistory, History, MemoryClass, PeakBytes, Timestamp};

/// Seconds that the history which is always here reaches back.
const RECENT_SECONDS: u64 = 600;

/// The longer ones that the server has.
const REACHES: [u32; 2] = [7_200, 86_400];

const COLUMNS: &[Column] = &[
    Column::words("DEVICE", 10, 0).growing(),
    Column::figures("DRAM NOW", 10, 0),
    Column::figures("GREW", 11, 0),
    Column::figures("PEAK SINCE", 10, 0),
    Column::figures("L1 NOW", 10, 0),
    Column::figures("GREW", 11, 0),
    Column::figures("PEAK SINCE", 10, 0),
    Column::figures("L1_SMALL NOW", 12, 3),
    Column::figures("GREW", 11, 3),
    Column::figures("PEAK SINCE", 10, 3),
    Column::figures("TRACE NOW", 10, 4),
    Column::figures("GREW", 11, 4),
    Column::figures("PEAK SINCE", 10, 4),
];

const CLASSES: [MemoryClass; 4] = [
    MemoryClass::Dram,
    MemoryClass::L1,
    MemoryClass::L1Small,
    MemoryClass::Trace,
];

/// How far back a history must reach to tell of a mark; none if the recent one does.
pub(super) fn reach(mark: Timestamp, data: &Data) -> Option<u32> {
    let age = data.age_seconds(mark)?;
    if age < RECENT_SECONDS {
        return None;
    }
    let [shorter, longest] = REACHES;
    Some(if age < u64::from(shorter) {
        shorter
    } else {
        longest
    })
}

/// What one class of a device has, and had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grown {
    now: u64,
    then: Option<u64>,
    peak: Option<u64>,
}

impl Grown {
    /// What is there beyond what was; less is less than 0.
    fn by(self) -> Option<i128> {
        Some(i128::from(self.now) - i128::from(self.then?))
    }
}

/// Draws devices, those that grew most first; `mark` is its place and its time.
pub(super) fn draw(
    canvas: &mut Buffer,
    area: Rect,
    (place, time): (usize, Timestamp),
    data: &Data,
    look: Look,
) {
    let history = history_at(time, data);
    let devices = data.devices().iter();
    let mut rows: Vec<(&Device, [Grown; 4])> = devices
        .map(|device| (device, grown(device, place, history, time)))
        .collect();
    let sum = |grown: &[Grown; 4]| grown.iter().filter_map(|class| class.by()).max();
    rows.sort_by_key(|(_, grown)| std::cmp::Reverse(sum(grown)));
    let table = Table {
        columns: COLUMNS,
        sorted: None,
    };
    table.draw_first(canvas, area, look, |row| {
        let (device, grown) = rows.get(usize::try_from(row).ok()?)?;
        let board = known(device.board.as_deref(), look);
        let mut cells = vec![Cell::new(format!("{} {board}", device.id))];
        for class in grown {
            let (by, ink) = difference(class.by(), look);
            cells.push(Cell::new(format::bytes(class.now)));
            cells.push(Cell::inked(by, ink));
            let peak = known(class.peak.map(format::bytes), look);
            cells.push(Cell::inked(peak, Ink::Faint));
        }
        Some(cells)
    });
}

fn grown(device: &Device, place: usize, history: Option<&History>, time: Timestamp) -> [Grown; 4] {
    let peaks = device.peaks_since_marks.get(place);
    let then = history.and_then(|history| {
        let key = DeviceKey::of(device);
        let mut devices = history.devices.iter();
        let of = devices
            .find(|of| (of.id, of.unique_id, &of.scope) == (key.id, key.unique_id, &key.scope))?;
        // The step that the mark lies in: times are the ends of steps.
        let step = history.times.iter().position(|end| *end >= time)?;
        Some((of, step))
    });
    CLASSES.map(|class| Grown {
        now: now(device, class),
        then: then.and_then(|(of, step)| *series(of, class)?.get(step)?),
        peak: peaks.map(|peaks| peak(peaks, class)),
    })
}

/// The history that reaches back to a time; none if there is none.
fn history_at(time: Timestamp, data: &Data) -> Option<&History> {
    let recent = data.recent.as_ref().map(|fresh| &fresh.document);
    let longer = data.history.as_ref().map(|fresh| &fresh.document.1);
    let reaches = |history: &&History| history.times.first().is_some_and(|first| *first <= time);
    recent.filter(reaches).or(longer.filter(reaches))
}

const fn now(device: &Device, class: MemoryClass) -> u64 {
    match class {
        MemoryClass::L1 => device.l1.charged_bytes,
        MemoryClass::L1Small => device.l1_small.charged_bytes,
        MemoryClass::Trace => device.trace.charged_bytes,
        _dram => device.dram.charged_bytes,
    }
}

const fn peak(peaks: &PeakBytes, class: MemoryClass) -> u64 {
    match class {
        MemoryClass::L1 => peaks.l1,
        MemoryClass::L1Small => peaks.l1_small,
        MemoryClass::Trace => peaks.trace,
        _dram => peaks.dram,
    }
}

const fn series(history: &DeviceHistory, class: MemoryClass) -> Option<&Vec<Option<u64>>> {
    Some(match class {
        MemoryClass::Dram => &history.dram_bytes,
        MemoryClass::L1 => &history.l1_bytes,
        MemoryClass::L1Small => &history.l1_small_bytes,
        MemoryClass::Trace => &history.trace_bytes,
        _other => return None,
    })
}

/// A difference with its sign, and how it is drawn.
fn difference(by: Option<i128>, look: Look) -> (String, Ink) {
    let Some(by) = by else {
        return (look.unknown().to_owned(), Ink::Faint);
    };
    let size = u64::try_from(by.unsigned_abs()).map_or_else(|_| "much".to_owned(), format::bytes);
    match by {
        0 => ("0 B".to_owned(), Ink::Faint),
        1.. => (format!("+{size}"), Ink::Warning),
        _less => (format!("-{size}"), Ink::Good),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::screen::LOOK;

    #[test]
    fn growth_has_a_sign_and_what_is_not_known_has_none() {
        let grown = |now, then| Grown {
            now,
            then,
            peak: None,
        };
        let text = |grown: Grown| difference(grown.by(), LOOK).0;
        assert_eq!(text(grown(3 << 20, Some(1 << 20))), "+2.0 MiB");
        assert_eq!(text(grown(0, Some(u64::MAX))), "-16.0 EiB");
        assert_eq!(text(grown(7, Some(7))), "0 B");
        assert_eq!(text(grown(7, None)), "–");
    }
}
