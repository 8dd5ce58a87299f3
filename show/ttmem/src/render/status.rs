//! The status page: server, devices, processes, and what does not add up.

use ttmem_report::{Forgotten, Problems, Process, ProcessState, Released, Snapshot, UpstreamBytes};

use super::devices::devices;
use super::paint::sentence;
use super::{Page, known};
use crate::output::Screen;
use ttmem_report::format::{self, bytes, counted, counted_as, date_time, duration, time_near};
use ttmem_report::labels;
use ttmem_report::machine_labels;
use ttmem_tui::text::{Column, Table, clip, paragraph, right};

const PROCESSES: &[Column] = &[
    Column::figures("PID", 7, 0),
    Column::words("NAME", 8, 0).growing(),
    Column::words("STATE", 8, 0),
    Column::words("DEVICES", 7, 0),
    Column::size("DRAM"),
    Column::size("ON FULLEST"),
    Column::size("ITS PEAK"),
    Column::size("L1 BUFFERS"),
];

const NOT_ATTACHED: &[Column] = &[
    Column::figures("PID", 7, 0),
    Column::words("NAME", 8, 0).growing(),
    Column::words("DEVICES", 7, 0),
    Column::size("DRAM"),
    Column::size("L1"),
    Column::size("TRACE"),
    Column::size("CBs"),
];

/// The snapshot, and what is wrong then, as a page for people.
pub(crate) fn status(snapshot: &Snapshot, problems: &Problems, screen: Screen) -> String {
    let page = Page::new(snapshot, screen);
    let mut text = page.header();
    text.push_str(&page.errors());
    text.push_str(&page.problems(problems));
    if snapshot.devices.is_empty() {
        text.push_str(&page.next_step());
    } else {
        text.push_str(&devices(snapshot, page.width, page.paint));
    }
    text.push_str(&page.processes());
    text.push_str(&page.not_attached());
    text.push_str(&page.notes());
    text.push_str(&page.anomalies());
    text
}

impl Page<'_, Snapshot> {
    fn header(&self) -> String {
        let server = &self.document.server;
        let title = format!(
            "ttmem {} on {}",
            clip(&server.version, 16),
            clip(&self.document.host, 24)
        );
        let time = format!("{} UTC", date_time(self.document.time));
        let time = right(&time, self.width.saturating_sub(title.chars().count()));
        let facts = format!(
            "pid {}, up {}, {}, {} applied",
            server.pid,
            duration(server.uptime_seconds),
            counted(server.clients, "client"),
            counted(server.events_applied, "event"),
        );
        let facts = clip(&facts, self.width);
        format!(
            "{}{time}\n{}\n",
            self.paint.heading(&title),
            self.paint.detail(&facts)
        )
    }

    fn errors(&self) -> String {
        let server = &self.document.server;
        let mut text = String::new();
        let machine = self.document.machine.iter();
        let machine = machine.flat_map(|machine| &machine.errors);
        for error in self.document.errors.iter().chain(machine) {
            text.push_str(&sentence("! ", error, self.width));
        }
        if server.clients_refused > 0 {
            let refused = format!("{} refused", counted(server.clients_refused, "client"));
            text.push_str(&sentence("! ", &refused, self.width));
        }
        if server.log_lines_elided > 0 {
            let elided = format!(
                "{} left out of the event log to keep up; totals are exact",
                counted(server.log_lines_elided, "line")
            );
            text.push_str(&sentence("! ", &elided, self.width));
        }
        self.paint.warning(&text)
    }

    /// What is wrong, before everything else; nothing if nothing is.
    fn problems(&self, problems: &Problems) -> String {
        let problems = problems.problems.iter();
        let lines = problems.map(|problem| sentence("! ", &problem.text, self.width));
        self.paint.warning(&lines.collect::<String>())
    }

    fn next_step(&self) -> String {
        let mut text = String::from("\n");
        text.push_str(&paragraph(
            "",
            0,
            "No device has been reported yet: start a program with ttmem run -- PROGRAM, or an \
             instrumented one with TT_ALLOC_TRACKING_ENABLED=1 in its environment. This server \
             listens on"
                .split(' '),
            self.width,
        ));
        for socket in &self.document.server.sockets {
            text.push_str(&format!("  {}\n", clip(socket, self.width - 2)));
        }
        text
    }

    fn processes(&self) -> String {
        let shown = || {
            self.document
                .processes
                .iter()
                .filter(|process| process.state != ProcessState::Exited)
        };
        if shown().next().is_none() {
            return String::new();
        }
        let table = Table::of(PROCESSES);
        let head = table.heading(self.width);
        let mut text = format!("\n{}\n", self.paint.heading(&head));
        for process in shown() {
            let sum = |figure| bytes(labels::held(&process.devices, figure));
            let fullest = labels::fullest(&process.devices);
            let cells = [
                known(process.pid),
                known(ttmem_report::labels::process_name(process)),
                process.state.to_string(),
                format::ids(&process.devices.iter().map(|on| on.id).collect::<Vec<_>>()),
                sum(|device| device.dram_bytes),
                known(fullest.map(|(on, _peak)| bytes(on.dram_bytes))),
                known(fullest.and_then(|(_on, peak)| peak).map(bytes)),
                sum(|device| device.l1_bytes),
            ];
            text.push_str(&table.line(&cells, self.width));
            text.push('\n');
            if let Some(place) = place_in_job(process) {
                let line = sentence("        ", &place, self.width);
                text.push_str(&self.paint.detail(&line));
            }
        }
        text
    }

    /// Processes that have devices without reporting, and what TT-Metal's own counters say of them.
    fn not_attached(&self) -> String {
        let machine = self.document.machine.as_ref();
        let users = machine_labels::not_attached(machine);
        if users.is_empty() {
            return String::new();
        }
        let table = Table::of(NOT_ATTACHED);
        let mut text = format!(
            "\n{}\n{}\n",
            self.paint.heading("Processes that are not attached"),
            self.paint.heading(&table.heading(self.width))
        );
        for user in &users {
            let on: Vec<u32> = user.devices.iter().map(|on| on.id).collect();
            let counted = user.upstream();
            let size = |of: fn(&UpstreamBytes) -> u64| {
                counted.map_or_else(|| "-".to_owned(), |counted| bytes(of(&counted)))
            };
            let cells = [
                known(user.pid),
                machine_labels::user_name(user),
                known(Some(format::ids(&on)).filter(|on| !on.is_empty())),
                size(|counted| counted.dram),
                size(|counted| counted.l1),
                size(|counted| counted.trace),
                size(|counted| counted.cb),
            ];
            text.push_str(&table.line(&cells, self.width));
            text.push('\n');
        }
        if users.iter().any(|user| user.upstream().is_some()) {
            let note = format!(
                "sizes {}: as requested, CBs approximate; start programs with ttmem run to see everything",
                machine_labels::FROM_COUNTERS
            );
            text.push_str(&self.paint.detail(&sentence("  ", &note, self.width)));
        }
        if let Some(elsewhere) = machine_labels::elsewhere(machine) {
            let note = format!("{elsewhere}, none of the devices above");
            text.push_str(&self.paint.detail(&sentence("  ", &note, self.width)));
        }
        text
    }

    /// What the reader must know to trust the table above, one paragraph per process.
    fn notes(&self) -> String {
        let mut doubts = String::new();
        let mut released = String::new();
        for process in &self.document.processes {
            let name = process
                .name
                .as_deref()
                .map(|name| format!(" {}", clip(name, 24)));
            let subject = format!("pid {}{}: ", known(process.pid), name.unwrap_or_default());
            let notes = process_notes(process);
            if !notes.is_empty() {
                doubts.push_str(&sentence(
                    &format!("! {subject}"),
                    &notes.join("; "),
                    self.width,
                ));
            }
            if let Some(gone) = &process.released {
                let peak = labels::fullest(&process.devices)
                    .and_then(|(on, peak)| Some((on.id, peak?)))
                    .map(|(id, peak)| format!(", DRAM peak {} on device {id}", bytes(peak)));
                let what = format!(
                    "{} at {}{}",
                    labels::held_at_exit(labels::departure(&gone.reason), gone),
                    time_near(gone.time, self.document.time),
                    peak.unwrap_or_default(),
                );
                released.push_str(&sentence(&format!("  {subject}"), &what, self.width));
            }
        }
        let mut text = self.paint.warning(&doubts);
        if !released.is_empty() {
            text.push_str(&format!(
                "\n{}\n{released}",
                self.paint.heading("Ended processes")
            ));
        }
        text
    }

    fn anomalies(&self) -> String {
        let lines = self.kinds(self.document.anomalies.seen());
        if lines.is_empty() {
            return String::new();
        }
        format!("\n{}\n{lines}", self.paint.heading("Anomalies"))
    }
}

/// `job 4711, rank 3 of 8`: what a launcher calls it, where one started it.
fn place_in_job(process: &Process) -> Option<String> {
    let label = |key: &str| process.labels.get(key).map(|value| clip(value, 64));
    let job = label("job").map(|job| format!("job {job}"));
    let size = label("world_size").map_or_else(String::new, |size| format!(" of {size}"));
    let rank = label("rank").map(|rank| format!("rank {rank}{size}"));
    let parts: Vec<String> = job.into_iter().chain(rank).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn process_notes(process: &Process) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = labels::incomplete(process) {
        notes.push(format!("INCOMPLETE, its totals cannot be trusted: {why}"));
    }
    if process.resyncing {
        notes.push("resyncing, its figures are those from before it reconnected".to_owned());
    }
    if process.state == ProcessState::Detached {
        notes.push("detached: it runs without a connection and keeps what it held".to_owned());
    }
    if process.elided_events > 0 {
        notes.push(format!(
            "{} missing from the log, totals are exact",
            counted(process.elided_events, "event")
        ));
    }
    let known = process.pid.map(i64::from);
    if let Some(claimed) = process
        .claimed_pid
        .filter(|claimed| Some(*claimed) != known)
    {
        notes.push(format!(
            "calls itself pid {claimed}, perhaps in another pid namespace"
        ));
    }
    let leaks = process.leak_candidates;
    if leaks.buffers > 0 {
        let held = if labels::is_gone(process) {
            "held"
        } else {
            "still held"
        };
        notes.push(format!(
            "{} ({}) {held} when their devices were closed",
            counted(leaks.buffers, "buffer"),
            bytes(leaks.bytes)
        ));
    }
    if process.anomalies > 0 {
        notes.push(counted_as(process.anomalies, "anomaly", "anomalies"));
    }
    notes
}

/// What was released, in a line for each instance of the process.
pub(crate) fn forgotten(forgotten: &Forgotten) -> String {
    let pid = forgotten.pid;
    if forgotten.released.is_empty() {
        return format!("pid {pid} held nothing\n");
    }
    let lines = forgotten
        .released
        .iter()
        .map(|each| format!("forgot pid {pid}: {}\n", holdings(each)));
    lines.collect()
}

/// What was held, in words.
fn holdings(released: &Released) -> String {
    format!(
        "{}, {}, {}, {}",
        counted(released.buffers, "buffer"),
        counted(released.cbs, "CB"),
        counted(released.kernels, "kernel"),
        bytes(released.bytes),
    )
}
