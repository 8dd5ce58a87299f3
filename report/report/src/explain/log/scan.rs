//! Finds messages in lines: where one may begin, and how far it reaches.

use super::found::{Finds, Found, Message};
use super::python::{Place, Traceback, begins_test, is_below};
use super::shape::Compared;
use super::shapes::{self, Shape};
use aho_corasick::AhoCorasick;

/// Lines that a message may be wrapped over, or that its values may follow on.
const MAX_WRAPPED_LINES: u32 = 12;

/// What is kept of a message that goes on.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// Messages that may go on at the same time: only a hostile log has many.
const MAX_OPEN: usize = 32;

/// What shows where Python was.
const TRACEBACK_MARKS: [&str; 6] = ["Traceback (", "File \"", ".py:", "____", "ttnn.", "Error: "];

/// A message whose end is not certain yet.
#[derive(Debug)]
struct Open {
    shape: usize,
    text: String,
    /// What stands before it on its line, and may stand before the lines that follow.
    prefix: String,
    line: u64,
    lines_left: u32,
    place: Option<Place>,
    is_pytest: bool,
}

pub(super) struct Scanner {
    shapes: Vec<Shape>,
    marks: AhoCorasick,
    first_words: usize,
    traceback: Traceback,
    open: Vec<Open>,
    finds: Finds,
    /// Messages that pytest printed: the line that raised them may stand below.
    unlocated: Vec<Message>,
    /// Whether the last line had a mark: the source of a frame stands below it.
    had_mark: bool,
}

impl Scanner {
    pub(super) fn new() -> Self {
        let shapes = shapes::all();
        let mut marks: Vec<&str> = Vec::new();
        for shape in &shapes {
            let word = shape.template.first_word();
            if !marks.contains(&word) {
                marks.push(word);
            }
        }
        let first_words = marks.len();
        marks.extend(TRACEBACK_MARKS);
        Self {
            marks: AhoCorasick::new(&marks).expect("a few short words are no large automaton"),
            shapes,
            first_words,
            traceback: Traceback::default(),
            open: Vec::new(),
            finds: Finds::default(),
            unlocated: Vec::new(),
            had_mark: false,
        }
    }

    /// Whether a line can matter at all; most lines of a log do not.
    pub(super) fn wants(&mut self, line: &[u8]) -> bool {
        let has_mark = line.contains(&0x1b) || self.marks.is_match(line);
        let wanted = has_mark || self.had_mark || !self.open.is_empty();
        self.had_mark = has_mark;
        wanted
    }

    pub(super) fn line(&mut self, number: u64, text: &str) {
        let text = without_time(text);
        if let Some(place) = self.traceback.line(number, text) {
            self.locate(number, &place);
        } else if begins_test(text) {
            self.add_unlocated();
        }
        self.go_on(text);
        let mut from = 0;
        while let Some(found) = self.marks.find(&text[from..]) {
            let at = from + found.start();
            if found.pattern().as_usize() < self.first_words {
                self.begin(number, text, at);
            }
            from = at + 1;
            while !text.is_char_boundary(from) {
                from += 1;
            }
        }
    }

    pub(super) fn finish(mut self) -> Found {
        for open in std::mem::take(&mut self.open) {
            self.settle(open);
        }
        self.add_unlocated();
        self.finds.explained()
    }

    /// Gives the messages of a test the place where it failed.
    fn locate(&mut self, number: u64, place: &Place) {
        for message in &mut self.unlocated {
            if is_below(message.line, number) {
                message.place = place.clone();
            }
        }
        self.add_unlocated();
        for open in self.open.iter_mut().filter(|open| open.is_pytest) {
            open.place = Some(place.clone());
            open.is_pytest = false;
        }
    }

    fn add_unlocated(&mut self) {
        for message in self.unlocated.drain(..) {
            self.finds.add(message);
        }
    }

    /// A message may begin here.
    fn begin(&mut self, number: u64, text: &str, at: usize) {
        let rest = clipped(&text[at..]);
        let begun = |shape: &Shape| shape.template.compare(rest) != Compared::Other;
        for shape in 0..self.shapes.len() {
            if !begun(&self.shapes[shape]) {
                continue;
            }
            let is_pytest = text.starts_with("E ");
            let place = if is_pytest {
                self.traceback.pytest_place(number)
            } else {
                self.traceback.place(number)
            };
            let open = Open {
                shape,
                text: rest.to_owned(),
                prefix: text[..at].to_owned(),
                line: number,
                lines_left: MAX_WRAPPED_LINES,
                place,
                is_pytest,
            };
            if self.is_certain(&open) {
                self.settle(open);
            } else if self.open.len() < MAX_OPEN {
                self.open.push(open);
            }
        }
    }

    /// Adds a line to the messages that are not at their end.
    fn go_on(&mut self, text: &str) {
        for mut open in std::mem::take(&mut self.open) {
            open.text.push('\n');
            open.text.push_str(clipped(without_prefix(&open, text)));
            open.lines_left -= 1;
            let compared = self.shapes[open.shape].template.compare(&open.text);
            if compared == Compared::Other {
                continue;
            }
            if self.is_certain(&open) || open.lines_left == 0 || open.text.len() > MAX_MESSAGE_BYTES
            {
                self.settle(open);
            } else {
                self.open.push(open);
            }
        }
    }

    fn is_certain(&self, open: &Open) -> bool {
        let compared = self.shapes[open.shape].template.compare(&open.text);
        matches!(
            compared,
            Compared::Message {
                may_grow: false,
                ..
            }
        )
    }

    /// Keeps what a text turned out to be.
    fn settle(&mut self, open: Open) {
        let shape = &self.shapes[open.shape];
        let Compared::Message { values, length, .. } = shape.template.compare(&open.text) else {
            return;
        };
        let Some(failure) = shape.failure(&values) else {
            return;
        };
        let mut text = open.text;
        text.truncate(length);
        let message = Message {
            failure,
            line: open.line,
            text,
            place: open.place.unwrap_or_default(),
            is_logged: is_logged(&open.prefix),
        };
        if open.is_pytest && self.unlocated.len() < MAX_OPEN {
            self.unlocated.push(message);
        } else {
            self.finds.add(message);
        }
    }
}

/// Whether this stands before what the runtime logs, in any of its formats; before the text of an
/// exception stands the exception's name at most.
fn is_logged(prefix: &str) -> bool {
    ["|", "TT_FATAL:", "TT_THROW:"]
        .iter()
        .any(|sign| prefix.contains(sign))
}

/// A line without the time that a CI system put before it, another one before each.
fn without_time(text: &str) -> &str {
    let Some((time, rest)) = text.split_once("Z ") else {
        return text;
    };
    let is_part = |byte: u8| byte.is_ascii_digit() || b"-T:.".contains(&byte);
    let is_time = (19..=32).contains(&time.len()) && time.bytes().all(is_part);
    if is_time { rest } else { text }
}

/// A line that goes on, without what a logger or pytest put before it and before the message: the
/// words that both lines begin with.
fn without_prefix<'t>(open: &Open, text: &'t str) -> &'t str {
    let both = open.prefix.char_indices().zip(text.chars());
    let same = both.take_while(|((_at, one), other)| one == other);
    let blank = same.filter(|((_at, one), _other)| one.is_whitespace());
    let end = blank.map(|((at, one), _other)| at + one.len_utf8()).last();
    &text[end.unwrap_or(0)..]
}

fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)]
}
