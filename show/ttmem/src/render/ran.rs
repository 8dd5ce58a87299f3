//! The report of a program that was run.

use super::paint::sentence;
use super::stack::frame_line;
use super::{Page, size_columns};
use crate::output::Screen;
use crate::run::{DeviceUse, Ended, PeakOfClass, Ranks, Region, Report};
use ttmem_report::format::{bytes, count, counted, counted_as, date_time, ids};
use ttmem_report::labels;
use ttmem_report::{
    Explanation, LeakCandidates, LeftGroup, MemoryClass, PeakGroup, Process, Released, called_from,
    short_line,
};
use ttmem_tui::text::{Column, Table, clip};

/// What was live at a peak: bytes on the device, how many buffers, who asked for them.
const GROUPS: &[Column] = &[
    Column::words("", 1, 0),
    Column::size("BYTES"),
    Column::figures("BUFFERS", 8, 0),
    Column::words("", 1, 0),
    Column::words("WHOSE", 20, 0).growing(),
];

/// Groups of a peak, or of what was left behind, that are worth a line.
const MAX_GROUPS: usize = 10;

/// Failures that are explained in full; of further ones, the sentence.
const MAX_EXPLAINED: usize = 3;

/// Stands where the runtime named no operation.
const UNKNOWN: &str = "other or unknown operations";

/// Characters of the command in the title: enough to know it again.
const COMMAND_WIDTH: usize = 100;

/// Groups that are shown with their call stacks, where these were recorded.
const SHOWN_STACKS: usize = 3;

/// Frames of each: further out is mostly the interpreter.
const SHOWN_FRAMES: usize = 8;

pub(crate) fn ran(report: &Report, screen: Screen) -> String {
    let page = Page::new(report, screen);
    let mut text = page.title();
    if report.is_tracked() {
        text.push_str(&page.failures());
        text.push_str(&page.growing());
        let devices = report.devices.iter();
        text.push_str(&page.sizes("PEAK", devices.map(|device| (device.id, device.peaks))));
        text.push_str(&page.capacities());
        text.push_str(&page.more_than_there_is());
        text.push_str(&page.ranks());
        text.push_str(&page.end());
        text.push_str(&page.peaks());
        text.push_str(&page.left_behind());
        text.push_str(&page.regions());
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
        // Of a single process on a server of nobody else there is nothing to tell apart.
        if !ran.own_server && (report.has_other_users || report.processes.len() > 1) {
            let users = if report.has_other_users {
                "has other users"
            } else {
                "was not started for this run"
            };
            let server = format!(
                "The server on {} {users}: peaks are of one process of this run, END is of its processes.",
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

    /// Peaks that are more than a device has, of the first device of each class.
    fn more_than_there_is(&self) -> String {
        let mut text = String::new();
        let names = [
            labels::DRAM,
            labels::L1_BUFFERS,
            labels::L1_SMALL,
            labels::TRACE,
        ];
        for (place, name) in names.into_iter().enumerate() {
            let devices = self.document.devices.iter();
            let mut beyond = devices.filter_map(|device| {
                let peaks = device.peaks;
                let peak = [peaks.dram, peaks.l1, peaks.l1_small, peaks.trace][place];
                let more = labels::more_than_there_is(peak, device.capacities[place], 0)?;
                Some((device.id, peak, more))
            });
            let Some((id, peak, more)) = beyond.next() else {
                continue;
            };
            let others = match beyond.count() {
                0 => String::new(),
                others => format!(", and so on {}", counted(others as u64, "other device")),
            };
            let said = format!("{name} {} {}, {more}{others}", labels::PEAK, bytes(peak));
            let line = sentence(&format!("device {id}: "), &said, self.width);
            text.push_str(&self.paint.warning(&line));
        }
        text
    }

    /// A row for each rank, and which of them to look at.
    fn ranks(&self) -> String {
        let ranks = &self.document.ranks;
        if !ranks.are_several() {
            return String::new();
        }
        let rows = ranks.ranks.iter().map(|rank| (rank.rank, rank.peaks));
        let mut text = self.sizes("RANK", rows);
        let what = "Of each rank, the most that it held on one device.";
        text.push_str(&self.paint.detail(&sentence("", what, self.width)));
        for what in wrong_with(ranks) {
            text.push_str(&self.paint.warning(&sentence("", &what, self.width)));
        }
        text
    }

    /// What is held after the end: mostly nothing, which needs no table.
    fn end(&self) -> String {
        if self.document.devices.iter().all(DeviceUse::is_empty) {
            let why = match self.document.leak_candidates.buffers {
                0 => "",
                _some => ": what was left went with the devices",
            };
            return format!("\nEND: nothing is held{why}\n");
        }
        let devices = self.document.devices.iter();
        self.sizes("END", devices.map(|device| (device.id, device.end)))
    }

    /// Every failure: the first ones with all that is known, the others in a sentence.
    fn failures(&self) -> String {
        let contents = &self.document.contents;
        if contents.failures.is_empty() && contents.failures_not_kept == 0 {
            return String::new();
        }
        let failures = alike_once(&contents.failures, &self.document.ranks);
        let (full, brief) = failures.split_at(failures.len().min(MAX_EXPLAINED));
        let mut text = String::new();
        for failure in full {
            text.push_str(&format!("\n{}", self.of_ranks(failure)));
            text.push_str(&self.explained(&failure.first));
        }
        for failure in brief {
            text.push_str(&format!("\n{}", self.of_ranks(failure)));
            text.push_str(&self.in_a_sentence(&failure.first));
        }
        if contents.failures_not_kept > 0 {
            let line = format!(
                "{} before these, no longer known",
                counted(contents.failures_not_kept, "failure")
            );
            text.push_str(&self.paint.warning(&sentence("", &line, self.width)));
        }
        text
    }

    /// Who failed, where several ranks did alike.
    fn of_ranks(&self, failure: &Alike) -> String {
        let [first, _other, ..] = failure.ranks[..] else {
            return String::new();
        };
        let mut ranks = failure.ranks.clone();
        ranks.sort_unstable();
        let what = format!(
            "ranks {} failed alike, shown as of rank {first}:",
            ids(&ranks)
        );
        self.paint.warning(&sentence("", &what, self.width))
    }

    /// What was live when each class was at its highest.
    fn peaks(&self) -> String {
        let peaks = self.document.contents.peaks.iter();
        peaks.map(|peak| self.peak(peak)).collect()
    }

    fn peak(&self, peak: &PeakOfClass) -> String {
        let contents = &peak.contents;
        let place = match peak.devices {
            0 | 1 => format!("device {}", contents.device),
            several => format!("each of {several} devices"),
        };
        let head = format!(
            "\n{} at its peak: {} on {place}{}\n",
            class_label(peak.class),
            bytes(contents.peak_bytes),
            contents
                .peak_time
                .map_or_else(String::new, |time| format!(", {}", date_time(time)))
        );
        let mut text = self.paint.heading(&head);
        let several = self.document.processes.len() > 1;
        let groups = shared_once(&contents.groups, several).into_iter();
        let groups = groups.map(|(group, pids)| {
            let origin = origin(group.name.as_deref(), group.line.as_deref());
            let mut whose = vec![origin + &called_from(&group.callers)];
            whose.extend(self.all_named(&pids).filter(|_name| several));
            (group.bytes, group.count, whose.join(", "), None)
        });
        text.push_str(&self.groups(groups));
        text
    }

    /// Processes by their ranks where all have one, else how many they are.
    fn all_named(&self, pids: &[u32]) -> Option<String> {
        match pids {
            [] => None,
            [pid] => Some(self.named(*pid)),
            several => {
                let ranks = several.iter().map(|pid| self.document.ranks.of(*pid));
                let Some(mut ranks) = ranks.collect::<Option<Vec<u32>>>() else {
                    return Some(format!("{} processes", several.len()));
                };
                ranks.sort_unstable();
                ranks.dedup();
                let word = if ranks.len() == 1 { "rank" } else { "ranks" };
                Some(format!("{word} {}", ids(&ranks)))
            }
        }
    }

    /// Buffers by who asked for them; of many, the first ones.
    fn groups<'g>(
        &self,
        groups: impl Iterator<Item = (u64, u64, String, Option<&'g Vec<String>>)>,
    ) -> String {
        let mut groups = groups.peekable();
        let table = Table::of(GROUPS);
        let mut text = String::new();
        let mut stacks = 0;
        for (held, buffers, whose, stack) in groups.by_ref().take(MAX_GROUPS) {
            let cells = ["", &bytes(held), &count(buffers), "", &whose];
            text.push_str(&(table.line(&cells, self.width) + "\n"));
            if let Some(frames) = stack.filter(|_frames| stacks < SHOWN_STACKS) {
                stacks += 1;
                let frames = frames.iter().take(SHOWN_FRAMES);
                let lines: String = frames.map(|frame| frame_line(frame, self.width)).collect();
                text.push_str(&self.paint.detail(&lines));
            }
        }
        if groups.peek().is_some() {
            let (held, buffers) = groups.fold((0_u64, 0_u64), |(held, buffers), group| {
                (
                    held.saturating_add(group.0),
                    buffers.saturating_add(group.1),
                )
            });
            let line = format!(
                "  and {} with {}\n",
                counted(buffers, "buffer"),
                bytes(held)
            );
            text.push_str(&self.paint.detail(&line));
        }
        text
    }

    fn left(&self, groups: &[LeftGroup]) -> String {
        self.groups(groups.iter().map(|group| {
            let origin = origin(group.operation.as_deref(), group.line.as_deref());
            let callers = called_from(&group.callers);
            let whose = format!("{} of {origin}{callers}", class_label(group.class));
            (group.bytes, group.buffers, whose, group.stack.as_ref())
        }))
    }

    fn left_behind(&self) -> String {
        let report = self.document;
        let held = |leaks: &LeakCandidates| {
            let buffers = counted(leaks.buffers, "buffer");
            format!("{buffers}, {}", bytes(leaks.bytes))
        };
        let mut text = "\n".to_owned();
        let leaks = &report.leak_candidates;
        if leaks.buffers > 0 {
            text.push_str(&format!("held at close: {}\n", held(leaks)));
        }
        if report.was_closed_again() {
            let sum = "The sum over every time that devices were closed: they were opened again in between.";
            text.push_str(&self.paint.detail(&sentence("", sum, self.width)));
        }
        let several = report.processes.len() > 1;
        for process in &report.processes {
            let leaks = &process.leak_candidates;
            if several && leaks.buffers > 0 {
                text.push_str(&self.of_process(process, &held(leaks)));
            }
        }
        text.push_str(&self.left(&report.contents.left_at_close));
        let released = report.processes.iter().filter_map(|process| {
            let released = process.released.as_ref()?;
            (released.bytes > 0).then_some((process, released))
        });
        for (process, released) in released {
            let how = self.how_ended(process, released);
            let given = labels::held_at_exit(&how, released);
            text.push_str(&self.of_process(process, &given));
        }
        text.push_str(&self.left(&report.contents.left_at_exit));
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
        // What follows begins with an empty line, unless there are no regions.
        if text == "\n" && !report.regions.is_empty() {
            text.clear();
        }
        text
    }

    /// How a process ended, as far as it is known: of the program itself, whose parent we are, all.
    fn how_ended(&self, process: &Process, released: &Released) -> String {
        let ran = &self.document.ran;
        let is_program = process.pid.map(i64::from) == Some(ran.pid.into());
        match released.reason.as_str() {
            "ended" | "exited" | "goodbye" if is_program => how(ran.ended),
            other => labels::departure(other).to_owned(),
        }
    }

    /// A process by its pid, and by its rank where it is one of several.
    pub(super) fn named(&self, pid: u32) -> String {
        match self.document.ranks.of(pid) {
            Some(rank) => format!("rank {rank}, pid {pid}"),
            None => format!("pid {pid}"),
        }
    }

    fn of_process(&self, process: &Process, what: &str) -> String {
        let named = process
            .pid
            .map_or_else(|| "pid ?".to_owned(), |pid| self.named(pid));
        let name = process.name.as_deref().unwrap_or("?");
        sentence(
            &format!("  {named} "),
            &format!("{name}: {what}"),
            self.width,
        )
    }

    /// The sizes of regions that would have done.
    fn regions(&self) -> String {
        let regions = &self.document.regions;
        if regions.is_empty() {
            return String::new();
        }
        let mut text = "\n".to_owned();
        for Region { setting, is_exact } in regions {
            let set = if *is_exact { "set " } else { "set at least " };
            text.push_str(&sentence(set, &labels::region(setting), self.width));
        }
        if regions.iter().any(|region| !region.is_exact) {
            let until =
                "At least: of what ran until the failure. A run without one shows the exact size.";
            text.push_str(&self.paint.detail(&sentence("", until, self.width)));
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
        for refused in &report.refused_labels {
            let whose = refused
                .pid
                .map_or_else(|| "pid ?".to_owned(), |pid| self.named(pid));
            let line = sentence(&format!("  {whose}: "), &refused.sentence(), self.width);
            text.push_str(&self.paint.warning(&line));
        }
        text.push_str(&self.warnings());
        text.push_str(&self.unknown());
        text
    }

    /// What is wrong with the environment that the program had.
    fn warnings(&self) -> String {
        let warnings = self.document.ran.warnings.iter();
        let lines = warnings.map(|warning| sentence("", warning, self.width));
        lines.map(|line| self.paint.warning(&line)).collect()
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
        text.push_str(&self.warnings());
        text.push_str(&self.unknown());
        text
    }
}

/// A failure, and the ranks that failed alike.
struct Alike {
    first: Explanation,
    /// In the order in which they failed; empty where there are no ranks.
    ranks: Vec<u32>,
}

/// Failures that are the same but for addresses and the number of the program, as those of a loop
/// are, or but for the rank and its devices, once each with how often they happened.
fn alike_once(failures: &[Explanation], ranks: &Ranks) -> Vec<Alike> {
    let rank_of = |failure: &Explanation| ranks.of(failure.pid?);
    let what = |failure: &Explanation| {
        let mut what = failure.clone();
        if rank_of(failure).is_some() {
            (what.pid, what.process, what.device_ids) = (None, None, None);
        }
        (what.time, what.last_time, what.times) = (None, None, 0);
        (what.holders, what.release, what.map, what.log) = (None, None, None, None);
        what.other_release = None;
        (what.heading, what.sentence) = (String::new(), String::new());
        (what.advice, what.unknown) = (Vec::new(), Vec::new());
        if let Some(clash) = &mut what.clash {
            (clash.program, clash.storage_start, clash.in_the_way) = (None, None, None);
            (clash.storage_end, clash.limit) = (0, 0);
        }
        what
    };
    let mut once: Vec<(Explanation, Alike)> = Vec::new();
    for failure in failures {
        let what = what(failure);
        let rank = rank_of(failure);
        match once.iter_mut().find(|(other, _alike)| *other == what) {
            Some((_what, Alike { first, ranks })) => {
                first.times = first.times.saturating_add(failure.times);
                first.last_time = first.last_time.max(failure.last_time);
                ranks.extend(rank.filter(|rank| !ranks.contains(rank)));
            }
            None => {
                let (first, ranks) = (failure.clone(), rank.into_iter().collect());
                once.push((what, Alike { first, ranks }));
            }
        }
    }
    once.into_iter().map(|(_what, alike)| alike).collect()
}

/// Groups of a peak that differ only in whose they are, once each with the pids, the most bytes first.
fn shared_once(groups: &[PeakGroup], several: bool) -> Vec<(PeakGroup, Vec<u32>)> {
    let mut once: Vec<(PeakGroup, Vec<u32>)> = Vec::new();
    for group in groups {
        let origin = |of: &PeakGroup| (of.name.clone(), of.line.clone(), of.callers.clone());
        let is_other = |pids: &[u32]| group.pid.is_some_and(|pid| !pids.contains(&pid));
        let mut known = once.iter_mut().filter(|_known| several);
        match known.find(|(known, pids)| origin(known) == origin(group) && is_other(pids)) {
            Some((known, pids)) => {
                known.bytes = known.bytes.saturating_add(group.bytes);
                known.count = known.count.saturating_add(group.count);
                pids.extend(group.pid);
            }
            None => once.push((group.clone(), group.pid.into_iter().collect())),
        }
    }
    once.sort_by_key(|(group, _pids)| std::cmp::Reverse(group.bytes));
    once
}

/// What a person would want to know of some ranks and not of the others.
fn wrong_with(ranks: &Ranks) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(first) = &ranks.first_ended {
        wrong.push(format!(
            "rank {} was the first to end without a word, {}",
            first.rank,
            date_time(first.time)
        ));
    }
    for of in &ranks.imbalances {
        wrong.push(format!(
            "rank {} took {} of {}, the median of the others is {}",
            of.rank,
            bytes(of.bytes),
            class_label(of.class),
            bytes(of.median_bytes)
        ));
    }
    for rank in &ranks.ranks {
        let left = &rank.held_at_close;
        if left.buffers > 0 {
            let buffers = counted(left.buffers, "buffer");
            let what = format!("held at close: {buffers}, {}", bytes(left.bytes));
            wrong.push(format!("rank {} {what}", rank.rank));
        }
        if rank.incomplete {
            wrong.push(format!("rank {} is INCOMPLETE, see below", rank.rank));
        }
    }
    if !ranks.missing.is_empty() {
        let (rank, which) = match ranks.missing.len() {
            1 => ("rank", "it uses no device, ran elsewhere or reports"),
            _several => ("ranks", "they use no device, ran elsewhere or report"),
        };
        let missing = ids(&ranks.missing);
        wrong.push(format!(
            "{rank} {missing} reported nothing here: {which} to another server"
        ));
    }
    wrong
}

/// The operation, and the line of Python that called it.
fn origin(operation: Option<&str>, line: Option<&str>) -> String {
    match (operation, line.map(short_line)) {
        (Some(operation), Some(line)) => format!("{operation} at {line}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => UNKNOWN.to_owned(),
    }
}

fn class_label(class: MemoryClass) -> &'static str {
    match class {
        MemoryClass::Dram => labels::DRAM,
        MemoryClass::L1 => labels::L1_BUFFERS,
        MemoryClass::L1Small => labels::L1_SMALL,
        MemoryClass::Trace => labels::TRACE,
        MemoryClass::System => "host memory",
        MemoryClass::Other => "memory",
    }
}

fn how(ended: Ended) -> String {
    match ended {
        Ended::Exited(code) => format!("ended with code {code}"),
        Ended::Killed(signal) => format!("was ended by signal {signal}"),
    }
}
