//! What keys do and what figures mean, over whatever is on the screen.
//!
//! Keys and words of the view come first, then those of everywhere, then every other word: whoever
//! scrolls far enough finds all of the glossary.

use super::{KeyHelp, Meaning, View};
use crate::glossary::Word;
use crate::input::Key;
use crate::theme::Ink;
use crate::widgets::{Canvas, Cursor, text};
use ratatui::layout::{Margin, Rect};
use ratatui::widgets::{Block, Clear, Widget as _};

pub(crate) const EVERYWHERE: &[KeyHelp] = &[
    ("q", "quit"),
    ("?", "help"),
    ("1-9", "view"),
    ("Space", "pause"),
    ("m", "mark"),
    ("x", "export"),
    ("r", "refresh"),
    ("+ -", "interval"),
];

/// Where there is something recorded.
pub(crate) const TIME_KEYS: &[KeyHelp] = &[
    ("Space", "play"),
    (", .", "step"),
    ("p", "peak"),
    ("f", "failure"),
    ("'", "mark"),
    ("< >", "speed"),
    ("n", "end or now"),
];

/// The columns beyond which lines are hard to read.
const WIDEST: u16 = 110;

const TERM_WIDTH: usize = 18;

const KEY_HELP_WIDTH: usize = 34;

#[derive(Debug, Default)]
pub(crate) struct Help {
    scroll: Cursor,
    /// The keys beside those of the view, where it is alone on a screen of its own.
    alone: Option<&'static [KeyHelp]>,
}

impl Help {
    /// Of a view that is not one of the tabs: neither their keys nor their words are in it.
    pub(crate) fn of_a_screen(keys: &'static [KeyHelp]) -> Self {
        Self {
            alone: Some(keys),
            ..Self::default()
        }
    }

    /// Takes a key; whether the help stays open.
    pub(crate) fn handle(&mut self, key: Key) -> bool {
        match key {
            Key::Char('?' | 'h' | 'q') | Key::Escape => return false,
            Key::Char(' ') => self.scroll.handle(Key::PageDown),
            other => self.scroll.handle(other),
        };
        true
    }

    pub(crate) fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, view: &dyn View) {
        let theme = canvas.theme;
        let area = area.intersection(canvas.area);
        let width = area.width.min(WIDEST);
        let over = Rect {
            x: area.x + (area.width - width) / 2,
            width,
            ..area
        };
        if over.is_empty() {
            return;
        }
        Clear.render(over, canvas);
        let inside = if over.width > 20 && over.height > 6 {
            let block = Block::bordered().border_set(theme.border());
            block
                .border_style(theme.style(Ink::Frame))
                .render(over, canvas);
            over.inner(Margin::new(2, 1))
        } else {
            over
        };
        let room = usize::from(inside.width);
        let lines = lines(view, self.alone, room);
        self.scroll.keep_in_text(lines.len(), inside.height);
        for (line, row) in lines.iter().skip(self.scroll.place()).zip(inside.rows()) {
            canvas.line(row, &line.0);
        }
        if inside != over {
            self.draw_title(canvas, over);
        }
    }

    fn draw_title(&self, canvas: &mut Canvas<'_>, over: Rect) {
        let room = usize::from(over.width.saturating_sub(4));
        canvas.put((over.x + 2, over.y), " Help ", room, Ink::Strong);
        let more = match (self.scroll.below(), self.scroll.place()) {
            (0, 0) => " ? closes ".to_owned(),
            (0, _) => " the end - ? closes ".to_owned(),
            (below, _) => format!(" {below} more lines: j or PgDn - ? closes "),
        };
        let at = (over.x + 2, over.bottom() - 1);
        canvas.put(at, &more, room, Ink::Faint);
    }
}

struct Line(Vec<(String, Ink)>);

fn lines(view: &dyn View, alone: Option<&[KeyHelp]>, columns: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    put_keys(&mut lines, "Keys of this view", view.keys(), columns);
    match alone {
        Some(keys) => put_keys(&mut lines, "Other keys", keys, columns),
        None => {
            put_keys(&mut lines, "Keys everywhere", EVERYWHERE, columns);
            put_keys(&mut lines, "Keys of a recording", TIME_KEYS, columns);
        }
    }
    let meanings = view.columns().iter().copied();
    put_meanings(&mut lines, "Columns", meanings, columns);
    let own = view.words();
    put_words(&mut lines, "Words of this view", own.iter(), columns);
    if alone.is_none() {
        let others = Word::ALL.iter().filter(|word| !own.contains(word));
        put_words(&mut lines, "Other words", others, columns);
    }
    // Every part ends with a blank line, the last one needs none.
    lines.pop();
    lines
}

fn put_keys(lines: &mut Vec<Line>, title: &str, keys: &[KeyHelp], columns: usize) {
    if keys.is_empty() {
        return;
    }
    lines.push(Line(vec![(title.to_owned(), Ink::Strong)]));
    let beside = (columns / KEY_HELP_WIDTH).max(1);
    for row in keys.chunks(beside) {
        let mut parts = Vec::with_capacity(2 * row.len());
        for (keys, does) in row {
            let keys = text::left(keys, 9);
            parts.push((format!("  {keys} "), Ink::Key));
            let room = KEY_HELP_WIDTH - 12;
            parts.push((text::left(does, room), Ink::Text));
        }
        lines.push(Line(parts));
    }
    lines.push(Line(Vec::new()));
}

fn put_words<'w>(
    lines: &mut Vec<Line>,
    title: &str,
    words: impl Iterator<Item = &'w Word>,
    columns: usize,
) {
    let meanings = words.map(|word| (word.term(), word.meaning()));
    put_meanings(lines, title, meanings, columns);
}

fn put_meanings(
    lines: &mut Vec<Line>,
    title: &str,
    meanings: impl Iterator<Item = Meaning>,
    columns: usize,
) {
    let begin = lines.len();
    let room = columns.saturating_sub(TERM_WIDTH + 2).max(8);
    for (name, meaning) in meanings {
        let meaning = text::wrap(meaning, room);
        for (place, line) in meaning.into_iter().enumerate() {
            let term = if place == 0 { name } else { "" };
            let term = format!("  {}", text::left(term, TERM_WIDTH));
            lines.push(Line(vec![(term, Ink::Key), (line, Ink::Text)]));
        }
    }
    if lines.len() > begin {
        lines.insert(begin, Line(vec![(title.to_owned(), Ink::Strong)]));
        lines.push(Line(Vec::new()));
    }
}

#[cfg(test)]
mod tests;
