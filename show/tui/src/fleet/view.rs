//! The fleet on a screen: what is wrong, and a list of hosts, jobs or devices to choose from.

use super::{
    DEVICES, DEVICES_TITLE, HOSTS, HOSTS_TITLE, JOBS, JOBS_TITLE, columns, device_cells,
    host_cells, job_cells, problem_lines, summary,
};
use crate::data::Data;
use crate::glossary::Word;
use crate::input::{Gesture, Key, Pointer};
use crate::theme::Ink;
use crate::views::{Chosen, KeyHelp, Meaning, Outcome, View};
use crate::widgets::{Canvas, Cell, Column, Cursor, Prompt, Table, below, panel, row_of};
use ratatui::layout::Rect;
use ttmem_reader::HttpUrl;
use ttmem_report::format::counted;
use ttmem_report::{Fleet, FleetDevice, FleetHost, FleetJob};

/// Problems that have a line before those below are only counted: a list of hosts has to have room.
const PROBLEM_LINES: usize = 8;

const KEYS: &[KeyHelp] = &[
    ("Enter", "open host"),
    ("Tab", "hosts, jobs, devices"),
    ("/", "find"),
];

const WORDS: &[Word] = &[
    Word::Charged,
    Word::Capacity,
    Word::LargestFit,
    Word::Fragmentation,
    Word::Incomplete,
    Word::Stale,
];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum List {
    #[default]
    Hosts,
    Jobs,
    Devices,
}

impl List {
    const ALL: [Self; 3] = [Self::Hosts, Self::Jobs, Self::Devices];

    const fn title(self) -> &'static str {
        match self {
            Self::Hosts => HOSTS_TITLE,
            Self::Jobs => JOBS_TITLE,
            Self::Devices => DEVICES_TITLE,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct FleetView {
    pub(super) fleet: Option<Fleet>,
    list: List,
    cursor: Cursor,
    find: Prompt,
    /// The server that is to be opened.
    pub(super) opened: Option<HttpUrl>,
    /// Why the chosen host cannot be, until the next key.
    trouble: Option<String>,
}

impl FleetView {
    fn hosts(&self) -> Vec<&FleetHost> {
        let hosts = self.fleet.iter().flat_map(|fleet| &fleet.hosts);
        hosts
            .filter(|host| self.find.finds([Some(&*host.instance)], []))
            .collect()
    }

    fn jobs(&self) -> Vec<&FleetJob> {
        let jobs = self.fleet.iter().flat_map(|fleet| &fleet.jobs);
        jobs.filter(|job| {
            let names = [Some(&*job.job), job.user.as_deref()];
            self.find.finds(names, [])
        })
        .collect()
    }

    fn devices(&self) -> Vec<&FleetDevice> {
        let devices = self.fleet.iter().flat_map(|fleet| &fleet.devices);
        devices
            .filter(|device| self.find.finds([Some(&*device.instance)], []))
            .collect()
    }

    /// The host of the chosen row; a job may be on many.
    fn host(&self) -> Option<String> {
        let place = self.cursor.place();
        match self.list {
            List::Hosts => self.hosts().get(place).map(|host| host.instance.clone()),
            List::Devices => self.devices().get(place).map(|it| it.instance.clone()),
            List::Jobs => None,
        }
    }

    /// Opens the server of the chosen row. What a Prometheus calls a host need not be an address; nothing but one is
    /// connected to.
    fn open(&mut self) {
        let Some(host) = self.host() else { return };
        match format!("http://{host}").parse() {
            Ok(url) => self.opened = Some(url),
            Err(_not_an_address) => {
                let advice = "set the target's `instance` to HOST:PORT, or use `ttmem top --http`";
                self.trouble = Some(format!("{host} is not the address of a server: {advice}"));
            }
        }
    }

    fn step(&mut self, forward: bool) {
        let place = List::ALL.iter().position(|list| *list == self.list);
        let step = if forward { 1 } else { List::ALL.len() - 1 };
        self.list = List::ALL[(place.unwrap_or(0) + step) % List::ALL.len()];
        self.cursor.reset();
    }

    fn draw_problems(&self, canvas: &mut Canvas<'_>, area: Rect, fleet: &Fleet) -> u16 {
        let mut row = 0;
        if fleet.problems.is_empty() {
            canvas.text(row_of(area, row), "no problems seen", Ink::Good);
            return 1;
        }
        let room = PROBLEM_LINES.min(usize::from(area.height) / 3).max(1);
        let (problems, absent) = problem_lines(fleet);
        let room = room - usize::from(absent.is_some()).min(room - 1);
        for (ink, text) in problems.iter().take(room) {
            canvas.text(row_of(area, row), format!("! {text}"), *ink);
            row += 1;
        }
        let more = problems.len().saturating_sub(room);
        if more > 0 {
            let least = if fleet.problems_cut { "at least " } else { "" };
            canvas.text(
                row_of(area, row),
                format!("{least}{more} more: `ttmem fleet --limit N` lists them"),
                Ink::Faint,
            );
            row += 1;
        }
        if let Some((ink, text)) = absent {
            canvas.text(row_of(area, row), format!("! {text}"), ink);
            row += 1;
        }
        row
    }

    fn draw_list(&mut self, canvas: &mut Canvas<'_>, area: Rect) {
        let find = self.find.said(canvas.theme);
        let find = find.map_or_else(String::new, |find| format!(", {find}"));
        let inside = panel(canvas, area, &format!("{}{find}", self.list.title()), true);
        match self.list {
            List::Hosts => {
                let rows: Vec<FleetHost> = self.hosts().into_iter().cloned().collect();
                draw_rows(canvas, inside, &mut self.cursor, (HOSTS, &rows), host_cells);
            }
            List::Jobs => {
                let rows: Vec<FleetJob> = self.jobs().into_iter().cloned().collect();
                draw_rows(canvas, inside, &mut self.cursor, (JOBS, &rows), job_cells);
            }
            List::Devices => {
                let rows: Vec<FleetDevice> = self.devices().into_iter().cloned().collect();
                draw_rows(
                    canvas,
                    inside,
                    &mut self.cursor,
                    (DEVICES, &rows),
                    device_cells,
                );
            }
        }
    }
}

fn draw_rows<R>(
    canvas: &mut Canvas<'_>,
    area: Rect,
    cursor: &mut Cursor,
    (columns, rows): (&[Column], &[R]),
    cells: fn(&R) -> Vec<Cell>,
) {
    if rows.is_empty() {
        cursor.keep_inside(area, 0);
        canvas.text(area, "none", Ink::Faint);
        return;
    }
    Table::of(columns).draw_all(canvas, area, cursor, rows, cells);
}

impl View for FleetView {
    fn keys(&self) -> &'static [KeyHelp] {
        KEYS
    }

    fn words(&self) -> &'static [Word] {
        WORDS
    }

    fn columns(&self) -> &'static [Meaning] {
        match self.list {
            List::Hosts => columns::HOSTS,
            List::Jobs => columns::JOBS,
            List::Devices => columns::DEVICES,
        }
    }

    fn handle(&mut self, key: Key, _data: &Data, _chosen: &mut Chosen) -> Outcome {
        self.trouble = None;
        if self.find.is_typing() {
            self.find.handle(key);
            self.cursor.reset();
            return Outcome::Handled;
        }
        match key {
            Key::Enter => self.open(),
            Key::Tab | Key::Right => self.step(true),
            Key::BackTab | Key::Left => self.step(false),
            Key::Char('/') => self.find.begin(),
            Key::Escape if !self.find.text().is_empty() => self.find.clear(),
            other => return Outcome::if_used(self.cursor.handle(other)),
        }
        Outcome::Handled
    }

    fn point(&mut self, pointer: Pointer, _data: &Data, _chosen: &mut Chosen) -> Outcome {
        let before = self.cursor.row;
        let used = self.cursor.point(pointer);
        // A click on the row that is chosen already opens it.
        if used && pointer.did == Gesture::Click && self.cursor.row == before {
            self.open();
        }
        Outcome::if_used(used)
    }

    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, _data: &Data, _chosen: &Chosen) {
        let Some(fleet) = self.fleet.take() else {
            canvas.text(area, "waiting for Prometheus", Ink::Faint);
            return;
        };
        canvas.text(row_of(area, 0), summary(&fleet), Ink::Strong);
        let rest = below(area, 1);
        let taken = if fleet.hosts.is_empty() {
            let words = "docs/fleet.md says how servers are scraped";
            canvas.text(row_of(rest, 0), words, Ink::Warning);
            1
        } else {
            self.draw_problems(canvas, rest, &fleet)
        };
        let impossible = fleet.impossible_values;
        self.fleet = Some(fleet);
        let mut rest = below(rest, taken);
        if impossible > 0 {
            let count = counted(impossible, "value");
            let words = format!("left out {count} that cannot be: `ttmem fleet` has an example");
            canvas.text(row_of(rest, 0), words, Ink::Warning);
            rest = below(rest, 1);
        }
        if let Some(trouble) = &self.trouble {
            canvas.text(row_of(rest, 0), trouble, Ink::Danger);
            rest = below(rest, 1);
        }
        self.draw_list(canvas, rest);
    }

    fn hidden_rows(&self) -> u64 {
        self.cursor.hidden()
    }

    fn is_typing(&self) -> bool {
        self.find.is_typing()
    }
}
