//! The report of a program that was run.

use super::paint::sentence;
use super::stack::frame_line;
use super::{Page, size_columns};
use crate::output::Screen;
use crate::run::{DeviceUse, Ended, Report};
use ttmem_api::{LeakCandidates, Process, Released};
use ttmem_tui::format::{bytes, count, counted, counted_as};
use ttmem_tui::labels;
use ttmem_tui::text::{Column, Table, clip};

/// Buffers that are alike: class, bytes of all, how many of which size, operation.
const HOLDERS: &[Column] = &[
    Column::words("", 1, 0),
    Column::words("", 8, 0),
    Column::size(""),
    Column::figures("", 20, 0),
    Column::words("", 0, 0),
    Column::words("", 20, 0).growing(),
];

/// Characters of the command in the title: enough to know it again.
const COMMAND_WIDTH: usize = 100;

/// Lines of holders that are shown with their call stacks, where these were recorded.
const SHOWN_STACKS: usize = 3;

/// Frames of each: further out is mostly the interpreter.
const SHOWN_FRAMES: usize = 8;

pub(crate) fn ran(report: &Report, screen: Screen) -> String {
    let page = Page::new(report, screen);
    let mut text = page.title();
    if report.is_tracked() {
        let devices = report.devices.iter();
        text.push_str(&page.sizes("PEAK", devices.map(|device| (device.id, device.peaks))));
        text.push_str(&page.capacities());
        text.push_str(&page.end());
        text.push_str(&page.holders());
        text.push_str(&page.left_behind());
        text.push_str(&page.leaks());
        text.push_str(&page.recommended());
        text.push_str(&page.trust());
    } else {
        text.push_str(&page.nothing());
    }
    text
}

impl Page<'_, Report> {
    fn title(&self) -> String {
        let report = self.document;
        let ran = &report.ran;
        let title = format!(
            "{} {} after {:.1} s",
            clip(&report.command_line(), COMMAND_WIDTH),
            how(ran.ended),
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
                "The server on {} has other users: peaks are of one process of this run, END is of all.",
                ran.socket.display()
            );
            text.push_str(&self.paint.detail(&sentence("", &server, self.width)));
        }
        text
    }

    /// What there is of each class, where it is the same on all devices.
    fn capacities(&self) -> String {
        let mut devices = self.document.devices.iter().map(|device| device.capacities);
        let Some(first) = devices
            .next()
            .filter(|first| devices.all(|next| next == *first))
        else {
            return String::new();
        };
        let mut cells = vec!["of".to_owned()];
        cells.extend(first.map(|capacity| capacity.map_or_else(String::new, bytes)));
        let line = Table::of(&size_columns("")).line(&cells, self.width);
        self.paint.detail(&format!("{line}\n"))
    }

    /// What is held after the end: mostly nothing, which needs no table.
    fn end(&self) -> String {
        if self.document.devices.iter().all(DeviceUse::is_empty) {
            return "\nEND: nothing is held\n".to_owned();
        }
        let devices = self.document.devices.iter();
        self.sizes("END", devices.map(|device| (device.id, device.end)))
    }

    fn holders(&self) -> String {
        let report = self.document;
        let (top, others) = report.top_holders();
        if top.is_empty() {
            return String::new();
        }
        let head = format!("\nbuffers when {} were held\n", bytes(report.most_bytes));
        let mut text = self.paint.heading(&head);
        let mut stacks = 0;
        for holder in top {
            let class = holder.class.as_str().to_uppercase();
            let each = format!("{} x {}", count(holder.buffers), bytes(holder.each_bytes));
            let operation = holder.operation.as_deref().unwrap_or_default();
            let cells = ["", &class, &bytes(holder.bytes), &each, "", operation];
            text.push_str(&Table::of(HOLDERS).line(&cells, self.width));
            text.push('\n');
            if let Some(frames) = &holder.stack
                && stacks < SHOWN_STACKS
            {
                stacks += 1;
                let frames = frames.iter().take(SHOWN_FRAMES);
                let lines: String = frames.map(|frame| frame_line(frame, self.width)).collect();
                text.push_str(&self.paint.detail(&lines));
            }
        }
        if others > 0 {
            let line = format!("  and {} of other sizes\n", counted(others, "buffer"));
            text.push_str(&self.paint.detail(&line));
        }
        text
    }

    fn left_behind(&self) -> String {
        let report = self.document;
        let held = |leaks: &LeakCandidates| {
            let buffers = counted(leaks.buffers, "buffer");
            format!("{buffers}, {}", bytes(leaks.bytes))
        };
        let mut text = format!("\nheld after close: {}\n", held(&report.leak_candidates));
        let several = report.processes.len() > 1;
        for process in &report.processes {
            let leaks = &process.leak_candidates;
            if several && leaks.buffers > 0 {
                text.push_str(&self.of_process(process, &held(leaks)));
            }
        }
        let released = report.processes.iter().filter_map(|process| {
            let released = process.released.as_ref()?;
            (released.bytes > 0).then_some((process, released))
        });
        for (process, released) in released {
            let how = self.how_ended(process, released);
            let given = labels::held_at_exit(&how, released);
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

    /// How a process ended, as far as it is known: of the program itself, whose parent we are, all.
    fn how_ended(&self, process: &Process, released: &Released) -> String {
        let ran = &self.document.ran;
        let is_program = process.pid.map(i64::from) == Some(ran.pid.into());
        match released.reason.as_str() {
            "ended" | "goodbye" if is_program => how(ran.ended),
            other => labels::departure(other).to_owned(),
        }
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
        let recommended = &self.document.recommended;
        let mut text = String::new();
        for (name, size_bytes) in [
            ("trace_region_size", recommended.trace_region_bytes),
            ("l1_small_size", recommended.l1_small_bytes),
        ] {
            if let Some(size_bytes) = size_bytes {
                let size = bytes(size_bytes);
                text.push_str(&format!("to use: {name}={size_bytes} ({size})\n"));
            }
        }
        text
    }

    /// Whether the figures can be trusted.
    fn trust(&self) -> String {
        let report = self.document;
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
        let kinds = report.anomaly_kinds.iter();
        text.push_str(&self.kinds(kinds.map(|(kind, times)| (kind.as_str(), *times))));
        for process in &report.processes {
            for reason in &process.incomplete_reasons {
                let line = self.of_process(process, &format!("INCOMPLETE, {}", reason.text()));
                text.push_str(&self.paint.warning(&line));
            }
        }
        text.push_str(&self.unknown());
        text
    }

    /// Processes that may have been of this run.
    fn unknown(&self) -> String {
        let unknown = u64::try_from(self.document.unknown_processes).unwrap_or(u64::MAX);
        if unknown == 0 {
            return String::new();
        }
        let line = format!(
            "{} ended too soon to know whether of this run",
            counted_as(unknown, "process", "processes")
        );
        self.paint.warning(&sentence("", &line, self.width))
    }

    fn nothing(&self) -> String {
        let mut text = "not tracked: nothing was reported\n".to_owned();
        text.push_str(&sentence(
            "",
            self.document.when_nothing_is_right(),
            self.width,
        ));
        for hint in self.document.hints() {
            text.push_str(&sentence("  - ", hint, self.width));
        }
        text.push_str(&self.unknown());
        text
    }
}

fn how(ended: Ended) -> String {
    match ended {
        Ended::Exited(code) => format!("ended with code {code}"),
        Ended::Killed(signal) => format!("was ended by signal {signal}"),
    }
}
