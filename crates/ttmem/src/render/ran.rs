//! The report of a program that was run.

use super::bytes_fmt::{SIZE_WIDTH, bytes, count, counted};
use super::cells::{Paint, left, right, sentence};
use super::layout_width;
use crate::output::Screen;
use crate::run::{DeviceUse, Ended, Report};
use ttmem_api::{PeakBytes, Process};

/// Columns of a device's id, and of the word above it.
const DEVICE_WIDTH: usize = 6;

/// Columns of an operation's name in the list of holders.
const OPERATION_WIDTH: usize = 40;

/// The report for people.
pub(crate) fn ran(report: &Report, screen: Screen) -> String {
    let page = Page {
        report,
        width: layout_width(screen.width),
        paint: Paint {
            color: screen.color,
        },
    };
    let mut text = page.title();
    if report.is_tracked() {
        text.push_str(&page.table("PEAK", |device| device.peaks));
        text.push_str(&page.table("END", |device| device.end));
        text.push_str(&page.holders());
        text.push_str(&page.left_behind());
        text.push_str(&page.recommended());
        text.push_str(&page.trust());
    } else {
        text.push_str(&page.nothing());
    }
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
        let ran = &report.ran;
        let how = match ran.ended {
            Ended::Exited(code) => format!("ended with code {code}"),
            Ended::Killed(signal) => format!("was ended by signal {signal}"),
        };
        let title = format!(
            "{} {how} after {:.1} s",
            report.command_line(),
            ran.took.as_secs_f64()
        );
        let mut text = self.paint.heading(&sentence("ttmem: ", &title, self.width));
        if !report.is_tracked() {
            return text;
        }
        let tracked = u64::try_from(report.processes.len()).unwrap_or(u64::MAX);
        let tracked = counted_as(tracked, "process", "processes");
        text.push_str(&format!("{tracked} tracked\n"));
        if !ran.own_server {
            let server = format!(
                "The server on {} has other users: peaks are of all processes since it started.",
                ran.socket.display()
            );
            text.push_str(&self.paint.detail(&sentence("", &server, self.width)));
        }
        text
    }

    fn table(&self, name: &str, figures: fn(&DeviceUse) -> PeakBytes) -> String {
        let head = ["DRAM", "L1", "L1_SMALL", "TRACE", "CB", "KERNELS"].map(str::to_owned);
        let mut text = format!("\n{}", self.paint.heading(&row(name, &head)));
        for device in &self.report.devices {
            let of = figures(device);
            let figures = [of.dram, of.l1, of.l1_small, of.trace, of.cb, of.kernel];
            text.push_str(&row(&device.id.to_string(), &figures.map(bytes)));
        }
        text
    }

    fn holders(&self) -> String {
        let report = self.report;
        if report.holders.is_empty() {
            return String::new();
        }
        let head = format!("\nheld by operation, at {}\n", bytes(report.most_bytes));
        let mut text = self.paint.heading(&head);
        for holder in &report.holders {
            let operation = holder.operation.as_deref().unwrap_or("(not known)");
            text.push_str(&format!(
                "  {} {} {}\n",
                left(operation, OPERATION_WIDTH),
                right(&bytes(holder.bytes), SIZE_WIDTH),
                right(&counted(holder.buffers, "buffer"), 16),
            ));
        }
        text
    }

    fn left_behind(&self) -> String {
        let report = self.report;
        let leaks = &report.leak_candidates;
        let mut text = format!(
            "\nstill held at close: {}, {}\n",
            counted(leaks.buffers, "buffer"),
            bytes(leaks.bytes)
        );
        for process in &report.processes {
            let leaks = &process.leak_candidates;
            if leaks.buffers > 0 {
                let held = format!(
                    "{}, {}",
                    counted(leaks.buffers, "buffer"),
                    bytes(leaks.bytes)
                );
                text.push_str(&self.of_process(process, &held));
            }
        }
        let released = report.processes.iter().filter_map(|process| {
            let released = process.released.as_ref()?;
            (released.bytes > 0).then_some((process, released))
        });
        for (process, released) in released {
            let given = format!(
                "ended ({}) with {}, {}",
                released.reason,
                counted(released.buffers, "buffer"),
                bytes(released.bytes)
            );
            text.push_str(&self.of_process(process, &given));
        }
        let running = u64::try_from(report.still_running()).unwrap_or(u64::MAX);
        if running > 0 {
            let running = counted_as(running, "process", "processes");
            let from_now_on = if report.ran.own_server {
                ", no longer tracked"
            } else {
                ""
            };
            let line = format!("still running: {running}{from_now_on}\n");
            text.push_str(&self.paint.warning(&line));
        }
        text
    }

    fn of_process(&self, process: &Process, what: &str) -> String {
        let pid = process
            .pid
            .map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        let name = process.name.as_deref().unwrap_or("?");
        sentence(
            &format!("  pid {pid} "),
            &format!("{name}: {what}"),
            self.width,
        )
    }

    fn recommended(&self) -> String {
        let recommended = &self.report.recommended;
        let mut text = String::new();
        for (name, size_bytes) in [
            ("trace_region_size", recommended.trace_region_bytes),
            ("l1_small_size", recommended.l1_small_bytes),
        ] {
            if let Some(size_bytes) = size_bytes {
                let size = bytes(size_bytes);
                text.push_str(&format!("enough for this: {name}={size_bytes} ({size})\n"));
            }
        }
        text
    }

    /// What tells whether the figures can be trusted.
    fn trust(&self) -> String {
        let report = self.report;
        let (anomalies, lost) = (report.anomalies(), report.lost_events());
        let line = format!(
            "anomalies {}, lost {}, elided {}\n",
            count(anomalies),
            counted(lost, "event"),
            counted(report.elided_events(), "event")
        );
        let mut text = if anomalies > 0 || lost > 0 {
            self.paint.warning(&line)
        } else {
            line
        };
        for (kind, times) in &report.anomaly_kinds {
            let line = format!("  {} {}\n", left(kind, 32), right(&count(*times), 8));
            text.push_str(&self.paint.warning(&line));
        }
        text.push_str(&self.unknown());
        text
    }

    /// Processes that may have been of this run.
    fn unknown(&self) -> String {
        let unknown = u64::try_from(self.report.unknown_processes).unwrap_or(u64::MAX);
        if unknown == 0 {
            return String::new();
        }
        let line = format!(
            "{} ended too soon to tell whether of this run",
            counted_as(unknown, "process", "processes")
        );
        self.paint.warning(&sentence("", &line, self.width))
    }

    fn nothing(&self) -> String {
        let mut text = self.paint.warning("not tracked: nothing was reported\n");
        for hint in self.report.hints() {
            text.push_str(&sentence("  - ", hint, self.width));
        }
        text.push_str(&self.unknown());
        text
    }
}

/// A row of a table: its name, then figures of one width.
fn row(name: &str, cells: &[String]) -> String {
    let mut line = left(name, DEVICE_WIDTH);
    for cell in cells {
        line.push_str(&right(cell, SIZE_WIDTH + 2));
    }
    line.push('\n');
    line
}

/// A count and its noun, where the plural is not the word and an s.
fn counted_as(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}
