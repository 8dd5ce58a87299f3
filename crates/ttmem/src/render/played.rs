//! What happened in a story, and which stories there are.

use super::cells::{Paint, left, paragraph, right, sentence};
use super::layout_width;
use crate::demo::{DeviceReport, Report};
use crate::output::Screen;
use ttmem_tui::format::{SIZE_WIDTH, bytes, count, counted};

/// Columns of a count in the table of what ran.
const FIGURE_WIDTH: usize = 8;

/// Columns of a scenario's name, and the space behind it.
const NAME_WIDTH: usize = 20;

/// One scenario of the list.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Its name.
    pub(crate) name: String,
    /// What it shows, in a line.
    pub(crate) about: String,
    /// The boards it is for, its own first.
    pub(crate) boards: String,
    /// What goes wrong in it, by name; empty = nothing.
    pub(crate) planted: String,
}

/// The list of scenarios.
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
    let page = Page {
        report,
        width: layout_width(screen.width),
        paint: Paint {
            color: screen.color,
        },
    };
    let mut text = page.title();
    text.push_str(&page.peaks());
    text.push_str(&page.runs());
    text.push_str(&page.findings());
    text
}

struct Page<'a> {
    report: &'a Report,
    width: usize,
    paint: Paint,
}

impl Page<'_> {
    fn title(&self) -> String {
        let report = self.report;
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
        let line = |cells: [&str; 7]| self.line(cells, SIZE_WIDTH + 2);
        let mut text = self.head(&line([
            "PEAKS", "DRAM", "L1", "L1_SMALL", "TRACE", "CB", "KERNELS",
        ]));
        for device in &self.report.devices {
            let peaks = &device.peaks;
            let figures = [
                peaks.dram,
                peaks.l1,
                peaks.l1_small,
                peaks.trace,
                peaks.cb,
                peaks.kernel,
            ];
            let [dram, l1, small, trace, cb, kernel] = figures.map(bytes);
            text.push_str(&line([
                &device.id.to_string(),
                &dram,
                &l1,
                &small,
                &trace,
                &cb,
                &kernel,
            ]));
        }
        text
    }

    fn runs(&self) -> String {
        let line = |cells: [&str; 10]| self.line(cells, FIGURE_WIDTH);
        let mut text = self.head(&line([
            "RUNS", "DISPATCH", "REPLAY", "PROGRAM", "BINARY", "FETCHED", "JIT", "WRAPS",
            "EVICTED", "STALLS",
        ]));
        for device in &self.report.devices {
            let DeviceReport { caches, rings, .. } = device;
            let known = |figure: Option<u64>| figure.map_or_else(|| "-".to_owned(), count);
            text.push_str(&line([
                &device.id.to_string(),
                &count(device.dispatches),
                &count(device.trace_replays),
                &known(caches.program_cache_hits),
                &known(caches.binary_reuses),
                &known(caches.prefetch_hits),
                &known(caches.jit_disk_hits),
                &count(rings.wraps),
                &count(rings.evictions),
                &count(rings.stalls),
            ]));
        }
        let legend = "PROGRAM, FETCHED and JIT are hits of the program cache, the prefetcher \
                      cache and the compiler's cache on disk; BINARY is code that was on the \
                      device already. The last three are of the kernel config ring.";
        text.push_str(&self.paint.detail(&sentence("", legend, self.width)));
        text
    }

    fn findings(&self) -> String {
        let report = self.report;
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
        for (name, times) in &report.anomalies {
            let line = format!("  {} {}\n", left(name, 32), right(&count(*times), 8));
            text.push_str(&self.paint.warning(&line));
        }
        text
    }

    fn head(&self, line: &str) -> String {
        format!("\n{}", self.paint.heading(line))
    }

    /// A row of a table: its name, then figures of one width.
    fn line<const N: usize>(&self, cells: [&str; N], width: usize) -> String {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            if column == 0 {
                line.push_str(&left(cell, 5));
            } else {
                line.push_str(&right(cell, width));
            }
        }
        line.push('\n');
        line
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
