//! One figure over time: an area over a time axis with real times.

use super::series::Series;
use crate::theme::Ink;
use crate::widgets::{Canvas, row_of, text};
use ratatui::layout::Rect;
use ttmem_report::format;
use ttmem_report::{Device, DeviceHistory, History, Timestamp};
use ttmem_report::{Share, percent};

const LABELS: u16 = 11;
const TIME: u16 = 8;

/// The last cell of an area, by eighths.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_LEVELS: [char; 8] = ['_', '_', '.', '.', '-', '=', '=', '#'];

#[derive(Debug, Clone, Copy)]
pub(super) struct Chart<'d> {
    pub(super) series: Series,
    pub(super) device: &'d Device,
    /// What was, of all devices and of this; none while nothing has come.
    pub(super) history: Option<(&'d History, &'d DeviceHistory)>,
    pub(super) seconds: u32,
    /// Whether the height is that of the highest value rather than of all there is.
    pub(super) zoomed: bool,
}

type Moment = (u64, Timestamp);

impl Chart<'_> {
    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, area: Rect) {
        let area = area.intersection(canvas.area);
        if area.is_empty() {
            return;
        }
        let extreme = self.extreme();
        self.draw_title(canvas, area, extreme);
        let plot = Rect {
            x: area.x.saturating_add(LABELS),
            y: area.y + 1,
            width: area.width.saturating_sub(LABELS),
            height: area.height.saturating_sub(2),
        };
        if plot.is_empty() {
            return;
        }
        let Some((history, _)) = self.history.filter(|_| extreme.is_some()) else {
            let middle = row_of(plot, plot.height / 2);
            canvas.text(middle, "no history yet", Ink::Faint);
            return;
        };
        let columns = self.columns(usize::from(plot.width));
        let highest = columns.iter().flatten().copied().max().unwrap_or(0);
        let whole = self.series.whole(self.device).filter(|_| !self.zoomed);
        let scale = whole.unwrap_or_else(|| self.series.roof(highest)).max(1);
        self.draw_labels(canvas, (area.x, plot), scale);
        self.draw_area(canvas, plot, &columns, scale);
        let end = history.time;
        draw_axis(canvas, plot, (self.start(end), end));
    }

    /// What it is now, its share, and the extreme of the time that is shown.
    fn draw_title(&self, canvas: &mut Canvas<'_>, area: Rect, extreme: Option<Moment>) {
        let theme = canvas.theme;
        let mut parts = vec![(self.series.title().to_owned(), Ink::Strong)];
        if let Some(now) = self.series.now(self.device) {
            parts.push((self.series.text(now), Ink::Text));
            if let Some(share) = Share::of(now, self.series.whole(self.device)) {
                let share = percent(Some(share), theme.unknown());
                parts.push((share.trim_start().to_owned(), Ink::Text));
            }
        } else if self.series != Series::Dispatches {
            parts.push((theme.unknown().to_owned(), Ink::Text));
        }
        if let Some((value, time)) = extreme {
            let word = if self.series.low_is_bad() {
                "lowest"
            } else {
                "highest"
            };
            let said = format!("{word} {} {}", self.series.text(value), time_of_day(time));
            parts.push((said, Ink::Faint));
        }
        canvas.whole_parts(area, &parts, 2);
    }

    fn draw_labels(&self, canvas: &mut Canvas<'_>, (left, plot): (u16, Rect), scale: u64) {
        let mut label = |row: u16, value: u64| {
            let label = text::right(&self.series.text(value), usize::from(LABELS - 1));
            let room = usize::from(LABELS);
            canvas.put((left, row), &label, room, Ink::Faint);
        };
        label(plot.y, scale);
        if plot.height >= 5 {
            label(plot.y + plot.height / 2, scale / 2);
        }
        if plot.height > 1 {
            label(plot.bottom() - 1, 0);
        }
    }

    fn draw_area(&self, canvas: &mut Canvas<'_>, plot: Rect, columns: &[Option<u64>], scale: u64) {
        let theme = canvas.theme;
        let levels = theme.pick(LEVELS, ASCII_LEVELS);
        for (column, value) in (plot.x..plot.right()).zip(columns) {
            let Some(value) = value else { continue };
            let share = Share::of(*value, Some(scale)).expect("a scale is never 0");
            // Nothing is seen as a line at the bottom: what is not known leaves a gap.
            let mut eighths = share.parts(u32::from(plot.height) * 8).max(1);
            for row in (plot.y..plot.bottom()).rev() {
                let level = usize::try_from(eighths.min(8)).unwrap_or(8);
                let Some(sign) = level.checked_sub(1).map(|level| levels[level]) else {
                    break;
                };
                canvas.cell((column, row), sign, self.series.ink());
                eighths = eighths.saturating_sub(8);
            }
        }
    }

    fn start(&self, end: Timestamp) -> Timestamp {
        let span = u64::from(self.seconds.max(1)) * 1_000_000_000;
        Timestamp::from_unix_nanos(end.unix_nanos().saturating_sub(span))
    }

    fn extreme(&self) -> Option<Moment> {
        let (history, device) = self.history?;
        let start = self.start(history.time);
        let moments = self.series.values(device).iter().zip(&history.times);
        let known = moments
            .filter_map(|(value, time)| Some((self.series.of_kept((*value)?, self.device), *time)));
        let shown = known.filter(|(_, time)| *time > start);
        if self.series.low_is_bad() {
            shown.min_by_key(|(value, _)| *value)
        } else {
            // The first of several, so that its time does not run along.
            shown.rev().max_by_key(|(value, _)| *value)
        }
    }

    /// The worst value within each of so many equal parts of the time that is shown.
    fn columns(&self, count: usize) -> Vec<Option<u64>> {
        let Some((history, device)) = self.history else {
            return vec![None; count];
        };
        let values = self.series.values(device);
        let end = history.time.unix_nanos();
        let start = self.start(history.time).unix_nanos();
        let step = u64::from(history.step_seconds.max(1)) * 1_000_000_000;
        let edge = |column: usize| {
            let span = u128::from(end - start) * (column as u128) / (count.max(1) as u128);
            start + u64::try_from(span).unwrap_or(u64::MAX)
        };
        let value = |column: usize| {
            let (from, to) = (edge(column), edge(column + 1));
            // A step ends at its time: those that reach into the column.
            let first = history
                .times
                .partition_point(|time| time.unix_nanos() <= from);
            let last = history
                .times
                .partition_point(|time| time.unix_nanos().saturating_sub(step) < to);
            let inside = values.get(first..last.min(values.len()))?;
            let known = inside.iter().flatten();
            let known = known.map(|kept| self.series.of_kept(*kept, self.device));
            if self.series.low_is_bad() {
                known.min()
            } else {
                known.max()
            }
        };
        (0..count).map(value).collect()
    }
}

/// Times of day below the area: at both ends, and between where there is room.
fn draw_axis(canvas: &mut Canvas<'_>, plot: Rect, (start, end): (Timestamp, Timestamp)) {
    if plot.width < TIME {
        return;
    }
    let gaps = ((plot.width - TIME) / (TIME + 10)).clamp(u16::from(plot.width > 2 * TIME), 6);
    let span = u128::from(end.unix_nanos().saturating_sub(start.unix_nanos()));
    for label in 0..=gaps {
        // The first begins at its time, the last ends at it, those between are around it.
        let (numerator, parts) = if gaps == 0 { (1, 1) } else { (label, gaps) };
        let column = u32::from(plot.width - TIME) * u32::from(numerator) / u32::from(parts);
        let column = plot.x + u16::try_from(column).unwrap_or(0);
        let passed = span * u128::from(numerator) / u128::from(parts);
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let time = Timestamp::from_unix_nanos(start.unix_nanos().saturating_add(passed));
        canvas.put(
            (column, plot.bottom()),
            &time_of_day(time),
            usize::from(TIME),
            Ink::Faint,
        );
    }
}

fn time_of_day(time: Timestamp) -> String {
    format::date_time(time)[11..].to_owned()
}
