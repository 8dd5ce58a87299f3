//! What is around every view: tabs, the state of the connection, keys.

use crate::app::CompanionLine;
use crate::data::{Data, Link};
use crate::theme::{Ink, Theme};
use crate::timebar;
use crate::views::problems::Line;
use crate::views::{KeyHelp, Tab};
use crate::widgets::{Canvas, left_of, row_of, text};
use ratatui::layout::Rect;
use ttmem_report::Snapshot;
use ttmem_report::format;

const LEAST: (u16, u16) = (40, 8);

/// The most lines that whoever runs beside may take from the view.
const COMPANION_LINES: u16 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    tabs: Rect,
    status: Rect,
    pub(crate) problem: Rect,
    companion: Rect,
    pub(crate) view: Rect,
    /// Where in a recording it is.
    pub(crate) time: Rect,
    keys: Rect,
}

/// What there is around a view besides what there always is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Around {
    pub(crate) problem_lines: usize,
    pub(crate) companion_lines: usize,
    pub(crate) time_lines: u16,
}

impl Parts {
    /// Divides a screen; none of one that is too small.
    pub(crate) fn of(screen: Rect, around: Around) -> Option<Self> {
        if is_too_small(screen) {
            return None;
        }
        let line = |row: u16| Rect::new(screen.x, screen.y + row, screen.width, 1);
        let companion = u16::try_from(around.companion_lines).unwrap_or(u16::MAX);
        let companion = companion.min(COMPANION_LINES);
        let problem = u16::try_from(around.problem_lines).unwrap_or(u16::MAX);
        let above = 2 + problem + companion;
        // A view keeps a line of the smallest screen.
        let time = around
            .time_lines
            .min(screen.height.saturating_sub(above + 2));
        let view = screen.height - above - time - 1;
        Some(Self {
            tabs: line(0),
            status: line(1),
            problem: Rect {
                height: problem,
                ..line(2)
            },
            companion: Rect {
                height: companion,
                ..line(2 + problem)
            },
            view: Rect::new(screen.x, screen.y + above, screen.width, view),
            time: Rect {
                height: time,
                ..line(above + view)
            },
            keys: line(screen.height - 1),
        })
    }

    pub(crate) fn tab_at(&self, column: u16, row: u16) -> Option<Tab> {
        let places = tab_places(self.tabs);
        let hit = |place: &Rect| place.contains((column, row).into());
        let found = places.iter().position(hit)?;
        Tab::ALL.get(found).copied()
    }
}

pub(crate) fn draw(
    canvas: &mut Canvas<'_>,
    parts: &Parts,
    (shown, keys): (Tab, [&[KeyHelp]; 2]),
    data: &Data,
) {
    for ((place, tab), number) in tab_places(parts.tabs).iter().zip(Tab::ALL).zip(1..) {
        let (key, name) = if tab == shown {
            (Ink::Chosen, Ink::Chosen)
        } else {
            (Ink::Key, Ink::Text)
        };
        let title = title(tab, parts.tabs.width);
        let words = [(number.to_string(), key), (format!(" {title}"), name)];
        canvas.line(*place, &words);
    }
    draw_status(canvas, parts.status, data);
    draw_keys(canvas, parts.keys, keys);
}

/// Whether a screen has no room for anything but a sentence.
pub(crate) const fn is_too_small(screen: Rect) -> bool {
    screen.width < LEAST.0 || screen.height < LEAST.1
}

/// The lines of a problem on a screen: whatever has to be cut is at its end.
pub(crate) fn problem_lines(screen: Rect, problem: &Line) -> Vec<String> {
    let most = match screen.height {
        0..16 => 1,
        16..30 => 2,
        _tall => 3,
    };
    let key = u16::try_from(text::width(&problem.key)).unwrap_or(u16::MAX);
    let columns = usize::from(screen.width.saturating_sub(key));
    filled(&problem.text, columns, most)
}

/// What whoever runs beside says: what is wrong on up to two lines, all else on one.
pub(crate) fn companion_lines(screen: Rect, companion: &[CompanionLine]) -> Vec<CompanionLine> {
    let columns = usize::from(screen.width);
    let lines = companion.iter().flat_map(|line| {
        let most = if line.is_warning && screen.height >= 16 {
            2
        } else {
            1
        };
        let lines = filled(&line.text, columns, most).into_iter();
        lines.map(|text| CompanionLine {
            text,
            is_warning: line.is_warning,
        })
    });
    lines.collect()
}

fn filled(sentence: &str, columns: usize, most: usize) -> Vec<String> {
    let lines = text::paragraph("", 2, sentence.split_whitespace(), columns);
    let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    if lines.len() > most {
        let rest: Vec<&str> = lines[most..].iter().map(|line| line.trim_start()).collect();
        let last = format!("{} {}", lines[most - 1], rest.join(" "));
        lines.truncate(most);
        lines[most - 1] = text::clip(&last, columns);
    }
    lines
}

/// What is wrong, and the key that shows more, which is never cut off.
pub(crate) fn draw_problem(
    canvas: &mut Canvas<'_>,
    area: Rect,
    (problem, lines): (&Line, &[String]),
) {
    for (row, line) in area.rows().zip(lines) {
        canvas.text(row, line, problem.ink);
    }
    if !area.is_empty() {
        canvas.text_at_right(row_of(area, 0), &problem.key, Ink::Key);
    }
}

/// A question to the user, in place of the state.
pub(crate) fn draw_question(canvas: &mut Canvas<'_>, parts: &Parts, question: &str) {
    canvas.text(
        parts.status,
        " ".repeat(parts.status.width.into()),
        Ink::Text,
    );
    canvas.text(parts.status, question, Ink::Key);
}

pub(crate) fn draw_companion(canvas: &mut Canvas<'_>, parts: &Parts, lines: &[CompanionLine]) {
    for (line, row) in lines.iter().zip(parts.companion.rows()) {
        let ink = if line.is_warning {
            Ink::Warning
        } else {
            Ink::Strong
        };
        canvas.text(row, &line.text, ink);
    }
}

pub(crate) fn draw_too_small(canvas: &mut Canvas<'_>) {
    let words = format!("at least {}x{} needed", LEAST.0, LEAST.1);
    canvas.text(canvas.area, words, Ink::Warning);
}

/// The name of a tab; short ones where not all would fit.
fn title(tab: Tab, columns: u16) -> &'static str {
    let all: usize = Tab::ALL.iter().map(|tab| tab.title().len() + 3).sum();
    if all <= usize::from(columns) + 1 {
        return tab.title();
    }
    match tab {
        Tab::Processes => "Procs",
        Tab::L1Map => "Map",
        Tab::Programs => "Progs",
        tab => tab.title(),
    }
}

fn tab_places(line: Rect) -> [Rect; Tab::ALL.len()] {
    let mut column = line.x;
    Tab::ALL.map(|tab| {
        let width = u16::try_from(title(tab, line.width).len() + 2).unwrap_or(u16::MAX);
        let place = Rect::new(column, line.y, width, 1).intersection(line);
        column = column.saturating_add(width + 1);
        place
    })
}

pub(crate) fn draw_status(canvas: &mut Canvas<'_>, line: Rect, data: &Data) {
    let (state, ink) = state(data, canvas.theme, line.width);
    // The state first: whatever else has no room, it must be seen.
    let rest = canvas.text_at_right(line, &state, ink);
    draw_facts(canvas, left_of(rest, rest.width.saturating_sub(1)), data);
}

pub(crate) fn draw_facts(canvas: &mut Canvas<'_>, line: Rect, data: &Data) {
    let theme = canvas.theme;
    match data.totals() {
        Some(snapshot) => canvas.whole_parts(line, &facts(snapshot, data, theme), 2),
        None => {
            canvas.text(line, &data.address, Ink::Faint);
        }
    }
}

fn state(data: &Data, theme: Theme, columns: u16) -> (String, Ink) {
    let since = |moment| data.now.saturating_duration_since(moment).as_secs();
    if let Some(notice) = &data.notice
        && since(notice.received) < 4
    {
        return (notice.document.clone(), Ink::Strong);
    }
    let every = format!("every {}", seconds(data.interval.as_millis()));
    let received = data.snapshot.as_ref().map(|fresh| fresh.received);
    if data.is_recorded() {
        return match &data.link {
            Link::Down { reason } => (reason.clone(), Ink::Danger),
            Link::Connecting | Link::Up => (timebar::state(data, theme, columns), Ink::Strong),
        };
    }
    if data.paused {
        let age = format::duration(received.map_or(0, since));
        return (format!("PAUSED for {age}"), Ink::Warning);
    }
    match &data.link {
        Link::Connecting => ("connecting".to_owned(), Ink::Warning),
        // From the last answer on, whatever was asked since.
        Link::Down { reason } => {
            let words = match received {
                Some(received) => {
                    let age = format::duration(since(received));
                    format!("STALE for {age}: {reason}")
                }
                None => reason.clone(),
            };
            (words, Ink::Danger)
        }
        Link::Up => match received.and_then(|received| data.stale(received)) {
            Some(age) => {
                let age = format::duration(age.as_secs());
                (format!("STALE for {age}"), Ink::Danger)
            }
            None => (format!("live, {every}"), Ink::Good),
        },
    }
}

fn facts(snapshot: &Snapshot, data: &Data, theme: Theme) -> Vec<(String, Ink)> {
    let counts = snapshot.anomalies.0.values();
    let anomalies = counts.fold(0, |sum: u64, count| sum.saturating_add(*count));
    let mut facts = Vec::new();
    if let Some(error) = snapshot.errors.first() {
        facts.push((text::clip(error, 60), Ink::Danger));
    }
    let machine = snapshot.machine.as_ref();
    if let Some(error) = machine.and_then(|machine| machine.errors.first()) {
        // Of a file that does not answer, the end of its path says most.
        let clipped = match error.ends_with(" hangs") {
            true => text::clip_front(error, 60),
            false => text::clip(error, 60),
        };
        facts.push((clipped, Ink::Warning));
    }
    for trouble in data.troubles.iter().flatten() {
        facts.push((text::clip(trouble, 60), Ink::Warning));
    }
    if anomalies > 0 {
        let anomalies = format::counted_as(anomalies, "anomaly", "anomalies");
        facts.push((anomalies, Ink::Warning));
    }
    facts.push((text::clip(&snapshot.host, 24), Ink::Strong));
    // The instant of a recording stands at the other end, with what it is.
    if !data.is_recorded() {
        let time = data.time().map(format::date_time);
        let time = time.map_or_else(
            || theme.unknown().to_owned(),
            |time| format!("{} UTC", &time[11..]),
        );
        facts.push((time, Ink::Faint));
    }
    if let Some(rate) = data.events_per_second {
        facts.push((format!("{} events/s", format::count(rate)), Ink::Faint));
    }
    facts.push((text::clip_front(&data.address, 40), Ink::Faint));
    facts
}

/// Draws the keys of a view and those of everywhere, as far as there are any.
pub(crate) fn draw_keys(canvas: &mut Canvas<'_>, line: Rect, [keys, everywhere]: [&[KeyHelp]; 2]) {
    // The way out and the help are never dropped.
    let (always, others) = everywhere.split_at(everywhere.len().min(2));
    let wide = |(keys, does): &KeyHelp| text::width(keys) + 1 + text::width(does);
    let mut kept: usize = always.iter().map(|key| wide(key) + 2).sum();
    let mut pen = canvas.pen(line, line.y);
    // A view may say more of a key than all views do.
    let is_said = |key: &&KeyHelp| keys.iter().any(|(known, _)| *known == key.0);
    let others = others.iter().filter(|key| !is_said(key));
    for (place, key) in keys.iter().chain(always).chain(others).enumerate() {
        if place == keys.len() {
            kept = 0;
        }
        if wide(key) + kept > usize::from(pen.room()) {
            continue;
        }
        pen.put(key.0, Ink::Key);
        pen.skip(1);
        pen.put(key.1, Ink::Faint);
        pen.skip(2);
    }
}

fn seconds(millis: u128) -> String {
    if millis.is_multiple_of(1000) {
        format!("{} s", millis / 1000)
    } else {
        format!("{}.{} s", millis / 1000, millis % 1000 / 100)
    }
}
