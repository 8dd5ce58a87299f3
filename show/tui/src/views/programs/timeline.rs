//! Which programs ran when: how often each ran from one answer of the server to the next.
//!
//! Bounded: so many answers, so many programs. A program that did not run for as long is dropped.
//! Answers come only while the tab is on screen, the app runs and the server answers. When what ran
//! between two of them is not known to have run at any time in between, the timeline has a gap
//! there, and counts anew.

use super::list;
use crate::data::{Data, Fresh, Link, Listed};
use crate::theme::{Ink, Theme};
use crate::widgets::{Canvas, Cursor, Prompt, below, left_of, right_of, row_of, text};
use ratatui::layout::Rect;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use ttmem_report::format;
use ttmem_report::{ProgramRow, Timestamp};

pub(super) const POLLS: u16 = 120;

pub(super) const PROGRAMS: usize = 512;

const NAME: u16 = 24;

/// Columns from which programs have their number beside their name.
const WIDE: u16 = 120;

const RUNS: u16 = 7;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_LEVELS: [char; 8] = ['1', '2', '4', '8', 'h', 'H', '#', '@'];

type Key = (Option<u32>, Option<u64>, Timestamp);

#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// The answers that are kept; the newest last.
    polls: VecDeque<Poll>,
    newest: u64,
    /// The server's time at the newest answer.
    asked: Option<Timestamp>,
    /// How often each program had run then.
    counted: BTreeMap<Key, u64>,
    tracks: BTreeMap<Key, Track>,
    seen: Option<Instant>,
    /// How often the time cursor had jumped at the newest answer.
    jumps: u64,
    /// Whether nothing kept the server from being asked since the newest answer.
    watched: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Poll {
    received: Instant,
    /// The time that it is of.
    time: Option<Timestamp>,
    /// Whether it is known when programs ran since the one before: between the two.
    follows: bool,
}

#[derive(Debug)]
struct Track {
    name: String,
    number: Option<u64>,
    pid: Option<u32>,
    python: Vec<String>,
    /// The number of an answer, and how often it ran since the one before; only where it did.
    runs: VecDeque<(u64, u64)>,
}

impl Track {
    fn title(&self, columns: usize, wide: bool) -> String {
        let number = self
            .number
            .filter(|_| wide)
            .map(|number| format!(" {number}"));
        let number = number.unwrap_or_default();
        text::left(&self.name, columns.saturating_sub(number.len())) + &number
    }
}

impl Timeline {
    pub(super) fn take(&mut self, document: &Fresh<Listed<ProgramRow>>, data: &Data, theme: Theme) {
        if self.jumps != data.jumps {
            // What ran at other instants is not what ran before this one.
            *self = Self {
                jumps: data.jumps,
                ..Self::default()
            };
        }
        let follows = self.watch(data);
        let received = document.received;
        if self
            .polls
            .back()
            .is_some_and(|poll| poll.received == received)
        {
            return;
        }
        self.watched = true;
        let time = data.time();
        self.polls.push_back(Poll {
            received,
            time,
            follows,
        });
        if self.polls.len() > usize::from(POLLS) {
            self.polls.pop_front();
        }
        self.newest += 1;
        let mut counted = BTreeMap::new();
        for row in &document.document.rows {
            let key = (row.pid, row.program, row.created);
            counted.insert(key, row.dispatches);
            let before = match self.counted.get(&key) {
                Some(before) if follows => *before,
                // One that was built since ran only since; of any other nothing is known.
                None if follows && self.asked.is_some_and(|asked| row.created >= asked) => 0,
                _unknown => row.dispatches,
            };
            let runs = row.dispatches.saturating_sub(before);
            if runs > 0 {
                let track = self.tracks.entry(key).or_insert_with(|| Track {
                    name: list::name(row, theme),
                    number: row.program,
                    pid: row.pid,
                    python: row.python.clone().unwrap_or_default(),
                    runs: VecDeque::new(),
                });
                track.runs.push_back((self.newest, runs));
            }
        }
        self.counted = counted;
        self.asked = time;
        self.forget();
    }

    /// Whether the server was asked all the time since the newest answer.
    ///
    /// By being called for every frame, not by how long an answer took: a server that has much to
    /// list is asked less often.
    fn watch(&mut self, data: &Data) -> bool {
        let before = self.seen.replace(data.now);
        let away = before.is_none_or(|before| data.stale(before).is_some());
        if away || data.paused || matches!(data.link, Link::Down { .. }) {
            self.watched = false;
        }
        self.watched
    }

    /// Drops what is older than the answers that are kept, and programs beyond the limit.
    fn forget(&mut self) {
        let oldest = self.oldest();
        self.tracks.retain(|_key, track| {
            while track.runs.front().is_some_and(|(poll, _)| *poll < oldest) {
                track.runs.pop_front();
            }
            !track.runs.is_empty()
        });
        let over = self.tracks.len().saturating_sub(PROGRAMS);
        if over > 0 {
            let last = |track: &Track| track.runs.back().map(|(poll, _)| *poll);
            let mut all: Vec<(Option<u64>, Key)> = self
                .tracks
                .iter()
                .map(|(key, track)| (last(track), *key))
                .collect();
            all.sort_unstable();
            for (_last, key) in all.into_iter().take(over) {
                self.tracks.remove(&key);
            }
        }
    }

    fn oldest(&self) -> u64 {
        (self.newest + 1).saturating_sub(self.polls.len() as u64)
    }

    fn shown(&self, filter: &Prompt, pid: Option<u32>) -> Vec<&Track> {
        let tracks = self.tracks.values();
        let of = tracks.filter(|track| pid.is_none() || track.pid == pid);
        of.filter(|track| {
            let numbers = [track.pid.map(u64::from), track.number];
            let names = track.python.iter().chain([&track.name]);
            filter.finds(names.map(|name| Some(name.as_str())), numbers)
        })
        .collect()
    }

    pub(super) fn rows(&self, filter: &Prompt, pid: Option<u32>) -> u64 {
        self.shown(filter, pid).len() as u64
    }

    /// Draws a row per program, a cell per answer, the newest at the right.
    pub(super) fn draw(
        &self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        cursor: &mut Cursor,
        (filter, pid): (&Prompt, Option<u32>),
        data: &Data,
    ) {
        let tracks = self.shown(filter, pid);
        let name = NAME.max(area.width / 6);
        let begin = name + RUNS + 2;
        let cells = area.width.saturating_sub(begin).min(POLLS);
        self.draw_heading(canvas, area, (name, begin, cells), data);
        let rows = below(area, 1);
        cursor.keep_inside(area, tracks.len() as u64);
        let top = usize::try_from(cursor.top).unwrap_or(usize::MAX);
        for (line, track) in (0..rows.height).zip(tracks.iter().skip(top)) {
            let at = row_of(rows, line);
            let chosen = cursor.top + u64::from(line) == cursor.row;
            let ink = if chosen { Ink::Chosen } else { Ink::Text };
            let sum = track
                .runs
                .iter()
                .fold(0_u64, |sum, (_, runs)| sum.saturating_add(*runs));
            let words = track.title(usize::from(name), area.width >= WIDE)
                + &text::right(&format::count(sum), usize::from(RUNS) + 1);
            canvas.text(at, words, ink);
            self.draw_track(canvas, at, (begin, cells), track);
        }
        if tracks.is_empty() {
            let words = if self.polls.len() < 2 {
                "which programs run is known from the next answer of the server on"
            } else {
                "no program ran while this was open"
            };
            canvas.text(row_of(rows, 0), words, Ink::Faint);
        }
    }

    fn draw_heading(
        &self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        (name, begin, cells): (u16, u16, u16),
        data: &Data,
    ) {
        let title =
            text::left("PROGRAM", usize::from(name)) + &text::right("RUNS", usize::from(RUNS) + 1);
        canvas.text(row_of(area, 0), title, Ink::Faint);
        // Over the cells that there are, which are at the right.
        let back = u16::try_from(self.polls.len()).unwrap_or(cells).min(cells);
        let place = self.polls.len().checked_sub(usize::from(back));
        let oldest = place.and_then(|place| self.polls.get(place));
        let ago = oldest.and_then(|poll| data.age_seconds(poll.time?));
        let left = data.ago(ago.unwrap_or(0));
        let now = data.now_word();
        // At least the moment has room, whatever the cells take.
        let word = u16::try_from(now.len()).unwrap_or(cells);
        let back = back.max(word).min(cells);
        let gap = usize::from(back).saturating_sub(left.len() + now.len());
        let line = if gap > 0 {
            left + &" ".repeat(gap) + &now
        } else {
            text::right(&now, usize::from(back))
        };
        let axis = right_of(row_of(area, 0), begin + cells - back);
        canvas.text(left_of(axis, back), line, Ink::Faint);
    }

    fn draw_track(
        &self,
        canvas: &mut Canvas<'_>,
        row: Rect,
        (begin, cells): (u16, u16),
        track: &Track,
    ) {
        let theme = canvas.theme;
        let mut runs = track.runs.iter().rev().peekable();
        let levels = theme.pick(LEVELS, ASCII_LEVELS);
        for (back, poll) in (0..cells).zip(self.polls.iter().rev()) {
            let number = self.newest.saturating_sub(u64::from(back));
            let ran = runs.next_if(|(at, _)| *at == number);
            let (sign, ink) = match ran {
                Some((_, count)) => (levels[level(*count)], Ink::Kernel),
                None if poll.follows => (theme.fill(Ink::Free), Ink::Free),
                // What ran before the first answer, or since one long before, is not known.
                None => (gap(theme), Ink::Faint),
            };
            let column = row.x.saturating_add(begin).saturating_add(cells - 1 - back);
            canvas.cell((column, row.y), sign, ink);
        }
    }
}

/// How high a cell is: each level twice as many runs as the one below.
fn level(runs: u64) -> usize {
    usize::try_from(runs.max(1).ilog2()).unwrap_or(7).min(7)
}

const fn gap(theme: Theme) -> char {
    theme.pick('┊', ':')
}

pub(super) fn legend(theme: Theme) -> String {
    let levels = theme.pick(LEVELS, ASCII_LEVELS);
    format!(
        "{} ran once  {} 16 times  {} 128 or more  {} not watched before",
        levels[0],
        levels[4],
        levels[7],
        gap(theme)
    )
}
