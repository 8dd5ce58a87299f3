//! What happened in a story, and which stories there are.

use super::cells::{Paint, left, paragraph, sentence};
use super::{Page, layout_width, row};
use crate::demo::{DeviceReport, Report};
use crate::output::Screen;
use ttmem_tui::format::{SIZE_WIDTH, bytes, count, counted};

/// Columns of the name of a row.
const NAME_COLUMNS: usize = 5;

/// Columns of a count in the table of what ran.
const FIGURE_WIDTH: usize = 8;

/// Columns of a scenario's name, and the space behind it.
const NAME_WIDTH: usize = 20;

/// One scenario of the list.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    /// What it shows, in a line.
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

/// The report of a story.
pub(crate) fn played(report: &Report, screen: Screen) -> String {
    let page = Page::new(report, screen);
    let mut text = page.title();
    text.push_str(&page.peaks());
    text.push_str(&page.runs());
    text.push_str(&page.findings());
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
        let line = |name: &str, cells: [String; 6]| row(name, NAME_COLUMNS, &cells, SIZE_WIDTH + 2);
        let head = ["DRAM", "L1", "L1_SMALL", "TRACE", "CB", "KERNELS"].map(str::to_owned);
        let mut text = self.head(&line("PEAKS", head));
        for device in &self.document.devices {
            let of = &device.peaks;
            let figures = [of.dram, of.l1, of.l1_small, of.trace, of.cb, of.kernel];
            text.push_str(&line(&device.id.to_string(), figures.map(bytes)));
        }
        text
    }

    fn runs(&self) -> String {
        let line = |name: &str, cells: [String; 9]| row(name, NAME_COLUMNS, &cells, FIGURE_WIDTH);
        let head = [
            "DISPATCH", "REPLAY", "PROGRAM", "BINARY", "FETCHED", "JIT", "WRAPS", "EVICTED",
            "STALLS",
        ];
        let mut text = self.head(&line("RUNS", head.map(str::to_owned)));
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
            let known = |figure: Option<u64>| figure.map_or_else(|| "-".to_owned(), count);
            text.push_str(&line(&device.id.to_string(), figures.map(known)));
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
        let leaks = &report.leak_candidates;
        let facts = [
            format!(
                "leak candidates {} ({}), {} planted",
                leaks.buffers,
                bytes(leaks.bytes),
                report.leaked_buffers
            ),
            format!("lost {}", counted(report.lost_events, "event")),
            format!("elided {}", counted(report.elided_events, "event")),
            format!("live at the end {}", bytes(report.live_bytes)),
        ];
        for fact in facts {
            text.push_str(&format!("{fact}\n"));
        }
        for figure in &report.compared {
            let sides = if figure.recorded == figure.server {
                format!("{}, both sides agree", figure.recorded)
            } else {
                format!(
                    "{} recorded, {} with the server",
                    figure.recorded, figure.server
                )
            };
            text.push_str(&format!("{} {sides}\n", figure.name));
        }
        let anomalies: u64 = report.anomalies.iter().map(|(_name, times)| times).sum();
        text.push_str(&format!("anomalies {anomalies}\n"));
        let kinds = report.anomalies.iter();
        text.push_str(&self.kinds(kinds.map(|(name, times)| (name.as_str(), *times))));
        text
    }

    fn head(&self, line: &str) -> String {
        format!("\n{}", self.paint.heading(line))
    }
}

/// Named facts, one per line.
pub(crate) fn facts(rows: &[(&str, String)], screen: Screen) -> String {
    let width = layout_width(screen.width);
    let line = |(name, fact): &(&str, String)| {
        paragraph(&left(name, 11), 11, fact.split_whitespace(), width)
    };
    rows.iter().map(line).collect()
}
