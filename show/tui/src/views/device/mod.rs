//! One device: its figures over time, and all of them now.
//!
//! Above, small charts side by side, each with its own scale; below, lines of figures that scroll.
//! Which device it is goes along from view to view.

mod chart;
mod details;
mod series;
#[cfg(test)]
mod tests;
mod title;

pub(crate) use details::class_name;
pub(crate) use title::draw_title;

use super::{Chosen, KeyHelp, Outcome, Tab, View, option};
use crate::data::Data;
use crate::fetch::Document;
use crate::glossary::Word;
use crate::input::{Gesture, Key, Pointer};
use crate::playback::Subject;
use crate::theme::Ink;
use crate::widgets::{Canvas, Cursor, Prompt, above, below, row_of, text};
use chart::Chart;
use details::Line;
use ratatui::layout::Rect;
use series::Series;
use std::cmp::Ordering;
use std::rc::Rc;
use ttmem_report::format;
use ttmem_report::{Device, DeviceHistory, History};

/// How far back charts can reach, and what that is called.
const WINDOWS: [(u32, &str); 4] = [
    (60, "1 min"),
    (600, "10 min"),
    (7_200, "2 h"),
    (86_400, "24 h"),
];

/// From so many columns on, figures stand in two columns.
const WIDE: u16 = 170;
const LEFT: u16 = 116;
/// So many allocators stand before the figures of programs where there is one column.
const FEW_ALLOCATORS: usize = 4;
/// A chart shows at least so much time, so that the first seconds are no wild curve.
const LEAST_SECONDS: u32 = 10;
const CHART_ROWS: u16 = 6;
/// Charts are put below each other when each has so many rows.
const CHART_ROWS_OF_SEVERAL: u16 = 9;

#[derive(Debug)]
pub(crate) struct DeviceView {
    /// The place of the window in [`WINDOWS`].
    window: usize,
    /// The only figure that is drawn over time; as many as there is room for if none.
    only: Option<Series>,
    /// Whether charts are as high as their highest value.
    zoomed: bool,
    scroll: Cursor,
    find: Prompt,
    charts: Vec<(Rect, Series)>,
}

impl Default for DeviceView {
    fn default() -> Self {
        Self {
            window: 1,
            only: None,
            zoomed: false,
            scroll: Cursor::default(),
            find: Prompt::default(),
            charts: Vec::new(),
        }
    }
}

impl DeviceView {
    /// The next figure over time, or the one before; all of them are between the last and first.
    fn step_series(&mut self, forward: bool) {
        let all = &Series::ALL;
        let place = all.iter().position(|series| Some(*series) == self.only);
        let next = match (place, forward) {
            (None, true) => Some(0),
            (None, false) => Some(all.len() - 1),
            (Some(place), true) => Some(place + 1),
            (Some(place), false) => place.checked_sub(1),
        };
        self.only = next.and_then(|next| all.get(next).copied());
    }

    /// What can be chosen of the charts, and what is.
    fn draw_choices(&self, canvas: &mut Canvas<'_>, area: Rect, shown: Option<&Shown<'_>>) {
        let more = match self.scroll.below() {
            0 => String::new(),
            below => format!(" j k: {} below", format::counted(below, "line")),
        };
        let area = if text::width(&more) + 39 < usize::from(area.width) {
            canvas.text_at_right(area, &more, Ink::Faint)
        } else {
            area
        };
        if let Some(find) = self.find.said(canvas.theme) {
            canvas.text(area, format!("allocators and marks, {find}"), Ink::Key);
            return;
        }
        let mut pen = canvas.pen(area, area.y);
        let mut put = |said: &str, ink: Ink| {
            pen.put(said, ink);
            pen.skip(1);
        };
        put("history", Ink::Faint);
        for (place, (_, name)) in WINDOWS.iter().enumerate() {
            let (name, ink) = option(name, place == self.window);
            put(&name, ink);
        }
        let Some(shown) = shown else { return };
        let step = u64::from(shown.history.step_seconds);
        let age = shown.age.as_ref().map(|age| format!(" {age},"));
        let mut note = age.unwrap_or_default();
        note.push_str(&format!(" steps of {}, UTC", format::duration(step)));
        if self.zoomed {
            note.push_str(", zoomed");
        }
        // What is there is drawn at its real times meanwhile.
        match shown.seconds.cmp(&WINDOWS[self.window].0) {
            Ordering::Less => note.push_str(", older is on its way"),
            Ordering::Greater => note.push_str(", finer is on its way"),
            Ordering::Equal => {}
        }
        put(&note, Ink::Faint);
    }

    fn draw_charts(
        &mut self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        device: &Device,
        shown: Option<&Shown<'_>>,
    ) {
        let all = match &self.only {
            Some(only) => std::slice::from_ref(only),
            None => &Series::ALL[..],
        };
        let beside = match area.width {
            0..56 => 1,
            56..120 => 2,
            120..260 => 3,
            _wider => 4,
        };
        let beside = if self.only.is_some() { 1 } else { beside };
        let below = (area.height / CHART_ROWS_OF_SEVERAL).max(1);
        let below = if self.only.is_some() { 1 } else { below };
        // Full rows only: what is left out is a key away.
        let below = below.min((u16::try_from(all.len()).unwrap_or(1) / beside).max(1));
        let (width, height) = (area.width / beside, area.height / below);
        let places = (0..below).flat_map(|row| (0..beside).map(move |column| (column, row)));
        self.charts.clear();
        for (series, (column, row)) in all.iter().zip(places) {
            let spare = u16::from(column + 1 < beside) * 2;
            let place = Rect {
                x: area.x + column * width,
                y: area.y + row * height,
                width: width.saturating_sub(spare),
                height,
            };
            let chart = Chart {
                series: *series,
                device,
                history: shown.map(|shown| (shown.history, shown.device)),
                seconds: shown.map_or(WINDOWS[self.window].0, |shown| {
                    shown.fitting(WINDOWS[self.window].0)
                }),
                zoomed: self.zoomed,
            };
            chart.draw(canvas, place);
            self.charts.push((place, *series));
        }
    }

    fn draw_details(&mut self, canvas: &mut Canvas<'_>, area: Rect, lines: &[&[Line<'_>]]) {
        let rows = lines.iter().map(|lines| lines.len()).max().unwrap_or(0);
        self.scroll.keep_in_text(rows, area.height);
        let mut left = area.x;
        for (place, lines) in lines.iter().enumerate() {
            let width = if place == 0 && area.width >= WIDE {
                LEFT
            } else {
                area.right().saturating_sub(left)
            };
            let shown = lines.iter().skip(self.scroll.place());
            for (row, line) in (area.y..area.bottom()).zip(shown) {
                let area = Rect::new(left, row, width, 1).intersection(canvas.area);
                if !area.is_empty() {
                    line(canvas, area);
                }
            }
            left = left.saturating_add(width + 2);
        }
    }
}

struct Shown<'d> {
    seconds: u32,
    history: &'d History,
    device: &'d DeviceHistory,
    /// How old the history that was asked for is, if that is too old.
    age: Option<String>,
}

impl<'d> Shown<'d> {
    /// The seconds of a window that there is something to show of.
    fn fitting(&self, window: u32) -> u32 {
        if self.seconds < window {
            // What is older is on its way.
            return window;
        }
        let known = |place: &usize| {
            Series::ALL.iter().any(|series| {
                series
                    .values(self.device)
                    .get(*place)
                    .is_some_and(Option::is_some)
            })
        };
        let first = (0..self.history.times.len()).find(known);
        let first = first.and_then(|first| self.history.times.get(first));
        let age = first.map_or(0, |first| {
            let nanos = self
                .history
                .time
                .unix_nanos()
                .saturating_sub(first.unix_nanos());
            nanos / 1_000_000_000 + u64::from(self.history.step_seconds)
        });
        u32::try_from(age)
            .unwrap_or(window)
            .clamp(LEAST_SECONDS.min(window), window)
    }

    /// The history that was asked for, or while there is none the small one that all views have.
    fn of(device: &Device, data: &'d Data) -> Option<Self> {
        let asked = data.history.as_ref().map(|fresh| &fresh.document);
        let asked = asked.map(|(seconds, history)| (*seconds, history));
        let recent = data.recent.as_ref().map(|fresh| (600, &fresh.document));
        let (seconds, history) = asked.or(recent)?;
        Some(Self {
            seconds,
            history,
            device: history.of(device)?,
            age: data.age_note(data.history.as_ref()),
        })
    }
}

impl View for DeviceView {
    fn keys(&self) -> &'static [KeyHelp] {
        &[
            ("[ ]", "device"),
            ("w W", "window"),
            ("s S", "series"),
            ("z", "zoom"),
            ("/", "find"),
            ("j k", "scroll"),
            ("Enter", "map"),
        ]
    }

    fn subject(&self, data: &Data, chosen: &Chosen) -> Subject {
        Subject {
            device: chosen.device(data).map(Device::key),
            class: None,
        }
    }

    fn words(&self) -> &'static [Word] {
        &[
            Word::Classes,
            Word::Charged,
            Word::Requested,
            Word::Capacity,
            Word::Overlap,
            Word::Peak,
            Word::LargestFit,
            Word::Fragmentation,
            Word::Occupied,
            Word::Reserved,
            Word::Physical,
            Word::Cb,
            Word::Registered,
            Word::Resident,
            Word::Headroom,
            Word::Kernels,
            Word::Shared,
            Word::Checked,
            Word::Mark,
        ]
    }

    fn documents(&self, _data: &Data, _chosen: &Chosen) -> Vec<Document> {
        vec![
            Document::History(WINDOWS[self.window].0),
            Document::Failures,
        ]
    }

    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome {
        let windows = WINDOWS.len();
        match key {
            typed if self.find.is_typing() => self.find.handle(typed),
            Key::Char('/') => self.find.begin(),
            Key::Escape if !self.find.text().is_empty() => self.find.clear(),
            Key::Left | Key::Char('[') => chosen.step(false, data),
            Key::Right | Key::Char(']') => chosen.step(true, data),
            Key::Char('w') => self.window = (self.window + 1) % windows,
            Key::Char('W') => self.window = (self.window + windows - 1) % windows,
            Key::Char('s') => self.step_series(true),
            Key::Char('S') => self.step_series(false),
            Key::Char('z') => self.zoomed = !self.zoomed,
            Key::Escape if self.only.is_some() => self.only = None,
            Key::Enter => return Outcome::Go(Tab::L1Map),
            other if self.scroll.handle(other) => {}
            _other => return Outcome::Unused,
        }
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, _data: &Data, _chosen: &mut Chosen) -> Outcome {
        match pointer.did {
            Gesture::WheelUp | Gesture::WheelDown => {
                self.scroll.point(pointer);
            }
            Gesture::Click => {
                let at = (pointer.column, pointer.row).into();
                let hit = self.charts.iter().find(|(area, _)| area.contains(at));
                let Some((_, series)) = hit else {
                    return Outcome::Unused;
                };
                self.only = self.only.is_none().then_some(*series);
            }
        }
        Outcome::Handled
    }

    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen) {
        let theme = canvas.theme;
        let area = area.intersection(canvas.area);
        self.charts.clear();
        if area.is_empty() {
            return;
        }
        let title = draw_title(canvas, area, data, chosen);
        let area = below(area, title);
        let Some(device) = chosen.device(data) else {
            return;
        };
        let shown = Shown::of(device, data);
        let classes = details::classes(device, data, theme);
        let classes = [classes, details::sizes_to_use(device, data)].concat();
        let allocators = details::allocators(device, &self.find, theme);
        let marks = details::marks(device, &self.find, data, theme);
        let blank: Vec<Line<'_>> = vec![Rc::new(|_canvas, _area| {})];
        let width = if area.width >= WIDE {
            area.width - LEFT - 2
        } else {
            area.width
        };
        let machine = details::machine(device, width);
        let programs = [details::programs(device, data, width, theme), machine].concat();
        let columns: Vec<Vec<Line<'_>>> = if self.find.said(theme).is_some() {
            vec![[allocators, marks].concat()]
        } else if area.width >= WIDE {
            vec![
                [classes, blank.clone(), allocators].concat(),
                [programs, blank, marks].concat(),
            ]
        } else {
            // A few allocators are seen at once; many would push everything else away.
            let few = allocators.len() <= FEW_ALLOCATORS + 1;
            let (first, second) = if few {
                (allocators, programs)
            } else {
                (programs, allocators)
            };
            vec![[classes, first, second, marks].concat()]
        };
        let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
        let rows = u16::try_from(rows).unwrap_or(u16::MAX);
        let body = area.height.saturating_sub(1);
        // Charts take what figures leave, but neither takes all.
        let figures = rows
            .min(body.saturating_sub(CHART_ROWS))
            .min(body * 2 / 3 + 1);
        let charts = body - figures.min(body);
        // A blank line between, where it costs little.
        let charts = charts - u16::from(charts > 3 * CHART_ROWS);
        // A chart of fewer rows says nothing.
        let (charts, figures) = if charts < 4 {
            (0, body)
        } else {
            (charts, figures)
        };
        if charts > 0 {
            let place = above(below(area, 1), charts);
            self.draw_charts(canvas, place, device, shown.as_ref());
        }
        let place = below(area, area.height - figures);
        let lines: Vec<&[Line<'_>]> = columns.iter().map(Vec::as_slice).collect();
        self.draw_details(canvas, place, &lines);
        if !area.is_empty() {
            self.draw_choices(canvas, row_of(area, 0), shown.as_ref());
        }
    }

    fn is_typing(&self) -> bool {
        self.find.is_typing()
    }
}
