//! What happened in a scenario, and which scenarios there are.

use super::paint::{Paint, sentence};
use super::{Page, known, layout_width};
use crate::demo::{DeviceReport, Report};
use crate::output::Screen;
use std::path::Path;
use ttmem_report::format::{bytes, count, counted};
use ttmem_tui::text::{Column, Table, left, paragraph};

const RUNS: &[Column] = &[
    Column::words("RUNS", 4, 0),
    Column::figures("DISPATCH", 8, 0),
    Column::figures("REPLAY", 7, 0),
    Column::figures("PROGRAM", 7, 0),
    Column::figures("BINARY", 7, 0),
    Column::figures("FETCHED", 7, 0),
    Column::figures("JIT", 7, 0),
    Column::figures("WRAPS", 7, 0),
    Column::figures("EVICTED", 7, 0),
    Column::figures("STALLS", 7, 0),
];

/// Columns of a scenario's name, and the space behind it.
const NAME_WIDTH: usize = 20;

#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) about: String,
    /// The boards it is for, its own first.
    pub(crate) boards: String,
    /// What goes wrong in it, by name; empty = nothing.
    pub(crate) planted: String,
}

pub(crate) fn scenarios(listed: &[Listed], screen: Screen) -> String {
    let width = layout_width(screen.width);
    let paint = Paint {
        color: screen.color,
    };
    let mut text = String::new();
    for scenario in listed {
        let planted = match scenario.planted.as_str() {
            "" => String::new(),
            planted => format!("; planted: {planted}"),
        };
        let name = left(&scenario.name, NAME_WIDTH);
        text.push_str(&paint.heading(&name));
        let about = scenario.about.split_whitespace();
        // Painting has no width: the name is cut off again, and what is left is as long as it is.
        let about = paragraph(&name, NAME_WIDTH, about, width);
        text.push_str(about.get(name.len()..).unwrap_or_default());
        let boards = format!("{}{planted}", scenario.boards);
        let boards = paragraph(
            &" ".repeat(NAME_WIDTH),
            NAME_WIDTH,
            boards.split(' '),
            width,
        );
        text.push_str(&paint.detail(&boards));
    }
    text
}

/// The report of a scenario, which may have been recorded.
pub(crate) fn played(report: &Report, recording: Option<&Path>, screen: Screen) -> String {
    let page = Page::new(report, screen);
    let mut text = page.title();
    text.push_str(&page.peaks());
    text.push_str(&page.runs());
    text.push_str(&page.findings());
    text.push_str(&page.next(recording));
    text
}

impl Page<'_, Report> {
    fn title(&self) -> String {
        let report = self.document;
        let how = format!(
            "{} on {}, seed {}, {:.1} s{}",
            report.scenario,
            report.board,
            report.seed,
            report.took.as_secs_f64(),
            if report.interrupted {
                ", ended early"
            } else {
                ""
            },
        );
        sentence("", &how, self.width)
    }

    fn peaks(&self) -> String {
        let devices = self.document.devices.iter();
        self.sizes("PEAKS", devices.map(|device| (device.id, device.peaks)))
    }

    fn runs(&self) -> String {
        let table = Table::of(RUNS);
        let mut text = format!("\n{}\n", self.paint.heading(&table.heading(self.width)));
        for device in &self.document.devices {
            let DeviceReport { caches, rings, .. } = device;
            let figures = [
                Some(device.dispatches),
                Some(device.trace_replays),
                caches.program_cache_hits,
                caches.binary_reuses,
                caches.prefetch_hits,
                caches.jit_disk_hits,
                Some(rings.wraps),
                Some(rings.evictions),
                Some(rings.stalls),
            ];
            let mut cells = vec![device.id.to_string()];
            cells.extend(figures.map(|figure| known(figure.map(count))));
            text.push_str(&table.line(&cells, self.width));
            text.push('\n');
        }
        let legend = "PROGRAM, FETCHED and JIT are hits of the program cache, the prefetcher \
                      cache and the compiler's cache on disk; BINARY is code that was on the \
                      device already. The last three are of the kernel config ring.";
        text.push_str(&self.paint.detail(&sentence("", legend, self.width)));
        text
    }

    fn findings(&self) -> String {
        let report = self.document;
        let mut text = String::from("\n");
        for (kind, words) in &report.failures {
            let first = format!("planted {}: ", kind.name());
            text.push_str(&sentence(&first, words, self.width));
        }
        for growing in &report.growing {
            text.push_str(&sentence("growing: ", &growing.sentence, self.width));
        }
        let leaks = &report.leak_candidates;
        if leaks.buffers > 0 || report.leaked_buffers > 0 {
            text.push_str(&format!(
                "held at close: {}, {} (planted: {})\n",
                counted(leaks.buffers, "buffer"),
                bytes(leaks.bytes),
                report.leaked_buffers
            ));
        }
        text.push_str(&format!("{}\n", self.sum()));
        for figure in &report.compared {
            if figure.recorded != figure.server {
                text.push_str(&format!(
                    "{}: {} recorded, {} with the server\n",
                    figure.name, figure.recorded, figure.server
                ));
            }
        }
        let anomalies: u64 = report.anomalies.iter().map(|(_name, times)| times).sum();
        if anomalies > 0 {
            text.push_str(&format!("anomalies {anomalies}\n"));
        }
        let kinds = report.anomalies.iter();
        text.push_str(&self.kinds(kinds.map(|(name, times)| (name.as_str(), *times))));
        text
    }

    /// What became of the events, and of the memory.
    fn sum(&self) -> String {
        let report = self.document;
        let lost = match report.lost_events {
            0 => "none lost".to_owned(),
            lost => format!("{lost} lost"),
        };
        let elided = match report.elided_events {
            0 => String::new(),
            elided => format!(", {elided} elided"),
        };
        let held = match report.live_bytes {
            0 => "nothing".to_owned(),
            live => bytes(live),
        };
        let events = counted(report.events(), "event");
        format!("{events}, {lost}{elided}; {held} is held at the end")
    }

    /// What somebody who sees this for the first time can do with it.
    fn next(&self, recording: Option<&Path>) -> String {
        let report = self.document;
        let mut rows = Vec::new();
        let file = recording.map(|path| path.display().to_string());
        match &file {
            Some(file) => {
                if !report.failures.is_empty() {
                    rows.push((
                        format!("ttmem explain {file}"),
                        "why it failed, and what to change",
                    ));
                }
                let about = "the same run again, at any moment of it";
                rows.push((format!("ttmem top --file {file}"), about));
            }
            None if !report.failures.is_empty() => rows.push((
                format!("ttmem demo --scenario {} --record FILE", report.scenario),
                "then `ttmem explain FILE` says why",
            )),
            None => {}
        }
        rows.push(("ttmem demo --list".to_owned(), "what else it can show"));
        let own = "the same of your own program";
        rows.push(("ttmem run -- python model.py".to_owned(), own));
        let widest = rows.iter().map(|(command, _about)| command.chars().count());
        let width = 2 + widest.max().unwrap_or(0) + 2;
        let mut text = "\nwhat next:\n".to_owned();
        for (command, about) in rows {
            let command = left(&format!("  {command}"), width);
            let line = paragraph(&command, width, about.split_whitespace(), self.width);
            text.push_str(&line);
        }
        text
    }
}

pub(crate) fn facts(rows: &[(&str, String)], screen: Screen) -> String {
    let width = layout_width(screen.width);
    let line = |(name, fact): &(&str, String)| {
        paragraph(&left(name, 11), 11, fact.split_whitespace(), width)
    };
    rows.iter().map(line).collect()
}
