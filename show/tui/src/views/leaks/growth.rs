//! What devices have now beyond about what they had at a mark.
//!
//! What they had then is read off the history: the highest value of the step that ended before the
//! mark, because the step that the mark lies in also has what came after it. Steps are 1, 10 or 60
//! seconds wide, as the mark is older: so growth is "about", and the width is said below. The
//! history is kept in memory and may not reach back as far: then it is not known. The highest
//! values since are the server's own, for each mark.

use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::naming::known;
use crate::widgets::{Canvas, Cell, Column, Table, above, row_of};
use ratatui::layout::Rect;
use ttmem_report::format;
use ttmem_report::{Device, DeviceHistory, History, PeakBytes, Timestamp};

/// Seconds that the history which is always here reaches back.
const RECENT_SECONDS: u64 = 600;

/// The longer ones that the server has.
const REACHES: [u32; 2] = [7_200, 86_400];

const COLUMNS: &[Column] = &[
    Column::words("DEVICE", 10, 0).growing(),
    Column::figures("DRAM NOW", 10, 0),
    Column::figures("~GREW", 11, 0),
    Column::figures("PEAK SINCE", 10, 0),
    Column::figures("L1 BUFFERS", 10, 0),
    Column::figures("~GREW", 11, 0),
    Column::figures("PEAK SINCE", 10, 0),
    Column::figures("L1_SMALL NOW", 12, 3),
    Column::figures("~GREW", 11, 3),
    Column::figures("PEAK SINCE", 10, 3),
    Column::figures("TRACE NOW", 10, 4),
    Column::figures("~GREW", 11, 4),
    Column::figures("PEAK SINCE", 10, 4),
];

/// A class: what a device has of it now, at most since a mark, and over time.
type Class = (
    fn(&Device) -> u64,
    fn(&PeakBytes) -> u64,
    fn(&DeviceHistory) -> &[Option<u64>],
);

const CLASSES: [Class; 4] = [
    (
        |device| device.dram.used_bytes(),
        |peaks| peaks.dram,
        |history| &history.dram_bytes,
    ),
    (
        |device| device.l1.used_bytes(),
        |peaks| peaks.l1,
        |history| &history.l1_bytes,
    ),
    (
        |device| device.l1_small.used_bytes(),
        |peaks| peaks.l1_small,
        |history| &history.l1_small_bytes,
    ),
    (
        |device| device.trace.used_bytes(),
        |peaks| peaks.trace,
        |history| &history.trace_bytes,
    ),
];

/// How far back a history must reach to include a mark; none if the recent one does.
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

/// Rows besides those of devices: the heading, and what growth is measured against.
pub(super) const OTHER_ROWS: u16 = 2;

/// Draws devices, those that grew most first; `mark` is its place and its time.
pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    area: Rect,
    (place, time): (usize, Timestamp),
    data: &Data,
) {
    let theme = canvas.theme;
    let history = before(time, data);
    let devices = data.devices().iter();
    let mut rows: Vec<(&Device, [Grown; 4])> = devices
        .map(|device| (device, grown(device, place, history)))
        .collect();
    let sum = |grown: &[Grown; 4]| grown.iter().filter_map(|class| class.by()).max();
    rows.sort_by_key(|(_, grown)| std::cmp::Reverse(sum(grown)));
    let table = Table::of(COLUMNS);
    let count = u16::try_from(rows.len()).unwrap_or(u16::MAX);
    let high = count
        .saturating_add(1)
        .min(area.height.saturating_sub(1).max(1));
    let hidden = rows
        .len()
        .saturating_sub(usize::from(high.saturating_sub(1)));
    let shown = &rows[..rows.len() - hidden];
    table.draw_first(canvas, above(area, high), shown, |(device, grown)| {
        let mut cells = vec![Cell::new(device.short_name())];
        for class in grown {
            let (by, ink) = difference(class.by(), theme);
            cells.push(Cell::new(format::bytes(class.now)));
            cells.push(Cell::inked(by, ink));
            let peak = known(class.peak.map(format::bytes), theme);
            cells.push(Cell::faint(peak));
        }
        cells
    });
    let hidden = match hidden {
        0 => String::new(),
        hidden => format!("{hidden} more devices grew less; "),
    };
    canvas.text(row_of(area, high), hidden + &against(history), Ink::Faint);
}

fn against(history: Option<(&History, usize)>) -> String {
    let Some((history, _step)) = history else {
        return "~GREW: what devices had before the mark is not in the history".to_owned();
    };
    let width = format::duration(history.step_seconds.into());
    format!("~GREW: beyond the highest of the {width} that ended before the mark")
}

fn grown(device: &Device, place: usize, history: Option<(&History, usize)>) -> [Grown; 4] {
    let peaks = device.peaks_since_marks.get(place);
    let then = history.and_then(|(history, step)| Some((history.of(device)?, step)));
    CLASSES.map(|(now, peak, series)| Grown {
        now: now(device),
        then: then.and_then(|(of, step)| *series(of).get(step)?),
        peak: peaks.map(peak),
    })
}

/// The finest history that has a step which ended just before a time, and that step.
fn before(time: Timestamp, data: &Data) -> Option<(&History, usize)> {
    let recent = data.recent.as_ref().map(|fresh| &fresh.document);
    let longer = data.history.as_ref().map(|fresh| &fresh.document.1);
    let found = |history| Some((history, step_before(history, time)?));
    recent.and_then(found).or(longer.and_then(found))
}

/// The last step that ended before a time, unless that is more than two steps ago.
fn step_before(history: &History, time: Timestamp) -> Option<usize> {
    // Times are the ends of steps, oldest first.
    let step = history.times.partition_point(|end| *end <= time);
    let step = step.checked_sub(1)?;
    let ago = time.unix_nanos() - history.times.get(step)?.unix_nanos();
    // The server may have missed a step; what was long before the mark says nothing of it.
    (ago / 1_000_000_000 < 2 * u64::from(history.step_seconds)).then_some(step)
}

fn difference(by: Option<i128>, theme: Theme) -> (String, Ink) {
    let Some(by) = by else {
        return (theme.unknown().to_owned(), Ink::Faint);
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
    use crate::testing::screen::THEME;
    use crate::testing::world::{Names, World, ago};

    const WORLD: World = World {
        devices: 1,
        processes: 1,
        busy: false,
        names: Names::Usual,
    };

    /// What the device had in DRAM before a mark so many seconds ago, of these steps.
    ///
    /// A step is its end, in seconds ago, and its value.
    fn had(mark: u64, width: u32, steps: &[(u64, Option<u64>)]) -> Option<u64> {
        let mut data = WORLD.data();
        let history = &mut data.recent.as_mut()?.document;
        history.step_seconds = width;
        history.times = steps.iter().map(|(end, _)| ago(*end)).collect();
        history.devices[0].dram_bytes = steps.iter().map(|(_, value)| *value).collect();
        data.history = None;
        let history = before(ago(mark), &data);
        grown(&data.devices()[0], 0, history)[0].then
    }

    #[test]
    fn what_was_there_is_that_of_the_step_which_ended_before_the_mark() {
        let steps = [(100, Some(5)), (90, Some(7)), (80, Some(900))];
        // Not the highest of the step of the mark, which came after it.
        assert_eq!(had(85, 10, &steps), Some(7));
        assert_eq!(had(90, 10, &steps), Some(7));
        assert_eq!(had(91, 10, &steps), Some(5));
        // One step that the server missed is no matter; older ones are.
        assert_eq!(had(62, 10, &steps), Some(900));
        assert_eq!(had(59, 10, &steps), None);
        assert_eq!(had(101, 10, &steps), None);
        assert_eq!(had(85, 10, &[(90, None), (80, Some(1))]), None);
        assert_eq!(had(85, 10, &[]), None);
    }

    #[test]
    fn the_width_of_the_step_is_said() {
        let mut data = WORLD.data();
        data.recent.as_mut().unwrap().document.step_seconds = 10;
        let said = against(before(ago(95), &data));
        assert!(said.contains("highest of the 10 s that ended"), "{said}");
        assert!(against(before(ago(5_000), &data)).contains("not in the history"));
    }

    #[test]
    fn growth_has_a_sign_and_what_is_not_known_has_none() {
        let grown = |now, then| Grown {
            now,
            then,
            peak: None,
        };
        let text = |grown: Grown| difference(grown.by(), THEME).0;
        assert_eq!(text(grown(3 << 20, Some(1 << 20))), "+2.0 MiB");
        assert_eq!(text(grown(0, Some(u64::MAX))), "-16.0 EiB");
        assert_eq!(text(grown(7, Some(7))), "0 B");
        assert_eq!(text(grown(7, None)), "–");
    }
}
