//! A fleet in words and tables: for `ttmem fleet` and for view 0 of `ttmem top --prometheus` alike.
//!
//! What is wrong comes first, then how full the hosts are and where that is going, then jobs and devices.

mod columns;
mod screen;
#[cfg(test)]
mod tests;
mod view;

pub use screen::{FleetLeft, FleetOptions, fleet};

use crate::explanation::Style;
use crate::theme::Ink;
use crate::widgets::text::{clip, paragraph};
use crate::widgets::{Cell, Column, Table};
use std::collections::BTreeSet;
use ttmem_report::format::{bytes, counted, date_time};
use ttmem_report::labels;
use ttmem_report::{
    Fleet, FleetDevice, FleetHost, FleetJob, FleetProblem, FleetProblemKind, MemoryClass,
    WeekSource,
};

/// Shares from which a figure is a warning, and a danger.
const WARNING: f64 = 0.75;
const DANGER: f64 = 0.95;

const UNKNOWN: &str = "-";

const HOSTS: &[Column] = &[
    Column::words("HOST", 18, 0).growing(),
    Column::figures("DEVICES", 7, 4),
    Column::size("DRAM"),
    Column::figures("OF", 10, 3),
    Column::figures("FULLEST", 7, 0),
    Column::figures("MOST 7D", 7, 0),
    Column::figures("L1", 7, 2),
    Column::figures("FRAGMENTED", 10, 1),
    Column::figures("GREW 1H", 11, 5),
    Column::figures("GREW 7D", 11, 6),
    Column::figures("REFUSED 7D", 10, 2),
];

const JOBS: &[Column] = &[
    Column::words("JOB", 12, 0).growing(),
    Column::words("USER", 10, 2),
    Column::figures("HOSTS", 5, 0),
    Column::size("DRAM"),
    Column::size("MOST 7D"),
    Column::size("L1 BUFFERS"),
    Column::figures("GROWS/MARK", 11, 1),
];

const DEVICES: &[Column] = &[
    Column::words("HOST", 18, 0).growing(),
    Column::words("DEVICE", 10, 0),
    Column::words("CLASS", 10, 0),
    Column::figures("FULL", 7, 0),
];

const HOSTS_TITLE: &str = "Hosts";
const JOBS_TITLE: &str = "Jobs";
const DEVICES_TITLE: &str = "Fullest devices";

/// Absent hosts that are named before the others are only counted.
const ABSENT_NAMED: usize = 3;

/// Whether something is wrong, on how many hosts and devices, and when.
#[must_use]
pub fn summary(fleet: &Fleet) -> String {
    if fleet.hosts.is_empty() {
        let words =
            "Prometheus knows no ttmem server yet; by deploy/prometheus it scrapes every 15 s";
        return format!("{words}; {} UTC", date_time(fleet.time));
    }
    let hosts = counted(fleet.hosts.len() as u64, "host");
    let concerned: BTreeSet<&str> = fleet
        .problems
        .iter()
        .map(|problem| problem.instance.as_str())
        .collect();
    let wrong = match fleet.problems.len() as u64 {
        0 => hosts,
        problems => {
            let problems = counted(problems, "problem");
            format!("{problems} on {} of {hosts}", concerned.len())
        }
    };
    format!(
        "{wrong}, {}; {} UTC",
        counted(fleet.devices_known, "device"),
        date_time(fleet.time),
    )
}

/// A problem in a sentence.
#[must_use]
pub fn sentence(problem: &FleetProblem) -> String {
    let device = problem.device.as_deref();
    let place = match device {
        Some(device) => format!("{} device {device}", problem.instance),
        None => problem.instance.clone(),
    };
    let class = problem.class.map_or("memory", class_name);
    let number = counted_share(problem.value);
    let what = match problem.kind {
        FleetProblemKind::Failing => {
            let times = counted(rounded(problem.value).max(1), "request");
            format!("{times} refused in 10 minutes")
        }
        FleetProblemKind::Absent => "no server answers".to_owned(),
        FleetProblemKind::Full => format!("{class} {number} full"),
        FleetProblemKind::Fragmented => format!("{class} {number} fragmented"),
        FleetProblemKind::Growing => {
            let pid = problem.pid.as_deref().unwrap_or("?");
            let name = problem.name.as_deref().unwrap_or_default();
            let job = match &problem.job {
                Some(job) => format!(", job {job}"),
                None => String::new(),
            };
            let by = bytes(rounded(problem.value));
            format!("pid {pid} {name}{job} grows by {by} at every mark").replace(" ,", ",")
        }
        FleetProblemKind::Incomplete => {
            let processes = counted_processes(rounded(problem.value));
            format!("tracking of {processes} is incomplete")
        }
    };
    format!("{place}: {what}")
}

type Inked = (Ink, String);

/// What is wrong in lines: each problem that is not an absent host, and one line for all hosts that are.
///
/// Whoever has no room for all leaves out the end of the first part: what is absent may be much, and is never more than a line.
fn problem_lines(fleet: &Fleet) -> (Vec<Inked>, Option<Inked>) {
    let (absent, others): (Vec<&FleetProblem>, Vec<&FleetProblem>) =
        { fleet.problems.iter() }.partition(|problem| problem.kind == FleetProblemKind::Absent);
    let others = { others.into_iter() }
        .map(|problem| (ink(problem.kind), sentence(problem)))
        .collect();
    let absent = match &*absent {
        [] => None,
        [one] => Some(sentence(one)),
        many => Some(absent_sentence(many)),
    };
    (
        others,
        absent.map(|text| (ink(FleetProblemKind::Absent), text)),
    )
}

fn absent_sentence(absent: &[&FleetProblem]) -> String {
    let (named, counted_only) = absent.split_at(absent.len().min(ABSENT_NAMED));
    let names: Vec<&str> = named.iter().map(|problem| &*problem.instance).collect();
    let hosts = counted(absent.len() as u64, "host");
    let more = match counted_only.len() {
        0 => String::new(),
        more => format!(" and {} more", ttmem_report::format::count(more as u64)),
    };
    format!(
        "{hosts} have no server that answers: {}{more}",
        names.join(", ")
    )
}

fn counted_processes(count: u64) -> String {
    ttmem_report::format::counted_as(count, "process", "processes")
}

/// How bad a problem is.
const fn ink(kind: FleetProblemKind) -> Ink {
    match kind {
        FleetProblemKind::Failing | FleetProblemKind::Absent | FleetProblemKind::Full => {
            Ink::Danger
        }
        FleetProblemKind::Fragmented | FleetProblemKind::Growing | FleetProblemKind::Incomplete => {
            Ink::Warning
        }
    }
}

/// All of it as lines of at most so many columns, at most so many rows of each list.
#[must_use]
pub fn in_full(fleet: &Fleet, width: usize, rows: usize) -> Vec<(Style, String)> {
    let mut lines = vec![
        (Style::Heading, clip(&summary(fleet), width)),
        (Style::Detail, clip(&fleet.prometheus, width)),
    ];
    if fleet.problems.is_empty() && !fleet.hosts.is_empty() {
        lines.push((Style::Text, "no problems seen".to_owned()));
    }
    let (problems, absent) = problem_lines(fleet);
    for (_ink, text) in problems.iter().take(rows) {
        put_problem(&mut lines, text, width);
    }
    put_more(&mut lines, problems.len(), rows, fleet.problems_cut);
    if let Some((_ink, text)) = absent {
        put_problem(&mut lines, &text, width);
    }
    let size = (width, rows);
    let hosts = (HOSTS_TITLE, HOSTS);
    put_table(&mut lines, hosts, &fleet.hosts, host_cells, size);
    put_table(&mut lines, (JOBS_TITLE, JOBS), &fleet.jobs, job_cells, size);
    let devices = (DEVICES_TITLE, DEVICES);
    put_table(&mut lines, devices, &fleet.devices, device_cells, size);
    for note in notes(fleet) {
        let note = paragraph("", 0, note.split_whitespace(), width);
        lines.push((Style::Text, String::new()));
        lines.extend(note.lines().map(|line| (Style::Detail, line.to_owned())));
    }
    lines
}

/// What a reader has to know about the figures.
fn notes(fleet: &Fleet) -> Vec<String> {
    let mut notes = Vec::new();
    let week = match fleet.week_source {
        _any if fleet.hosts.is_empty() => None,
        WeekSource::RecordingRules => None,
        WeekSource::Samples => Some("without the recording rules of deploy/prometheus"),
        WeekSource::RulesWithoutValues => {
            Some("until the recording rules, which are loaded, have recorded something")
        }
    };
    if let Some(why) = week {
        notes.push(format!(
            "{why} a week is asked of all its samples, and how fragmented memory was then is not known"
        ));
    }
    if let Some(example) = &fleet.impossible_example {
        let count = counted(fleet.impossible_values, "value");
        notes.push(format!(
            "left out {count} that cannot be, such as {example}"
        ));
    }
    notes
}

fn put_problem(lines: &mut Vec<(Style, String)>, text: &str, width: usize) {
    let text = paragraph("! ", 4, text.split_whitespace(), width);
    lines.extend(text.lines().map(|line| (Style::Marked, line.to_owned())));
}

fn put_table<R>(
    lines: &mut Vec<(Style, String)>,
    (title, columns): (&str, &[Column]),
    rows: &[R],
    cells: fn(&R) -> Vec<Cell>,
    (width, most): (usize, usize),
) {
    if rows.is_empty() {
        return;
    }
    let table = Table::of(columns);
    lines.push((Style::Text, String::new()));
    lines.push((Style::Heading, clip(title, width)));
    lines.push((Style::Detail, table.heading(width)));
    for row in rows.iter().take(most) {
        let cells: Vec<String> = cells(row).into_iter().map(|cell| cell.text).collect();
        lines.push((Style::Text, table.line(&cells, width)));
    }
    put_more(lines, rows.len(), most, false);
}

fn put_more(lines: &mut Vec<(Style, String)>, all: usize, shown: usize, cut: bool) {
    let more = all.saturating_sub(shown);
    if more > 0 {
        let least = if cut { "at least " } else { "" };
        let all = if cut { "N".to_owned() } else { all.to_string() };
        let how = format!("`ttmem fleet --limit {all}` lists them");
        lines.push((Style::Detail, format!("{least}{more} more: {how}")));
    } else if cut {
        let asked = "there are more: of each kind, the largest 500 are asked for";
        lines.push((Style::Detail, asked.to_owned()));
    }
}

fn host_cells(host: &FleetHost) -> Vec<Cell> {
    let (name, charged) = if host.is_up {
        (Cell::new(&host.instance), size(host.dram_charged_bytes))
    } else {
        let name = Cell::inked(&host.instance, Ink::Danger);
        (name, Cell::inked("absent", Ink::Danger))
    };
    let refused = match host.failures_week {
        None => Cell::faint(UNKNOWN),
        Some(0) => Cell::faint("0"),
        Some(count) if host.failures > 0 => {
            Cell::inked(ttmem_report::format::count(count), Ink::Danger)
        }
        Some(count) => Cell::new(ttmem_report::format::count(count)),
    };
    vec![
        name,
        Cell::faint(host.devices.to_string()),
        charged,
        size(host.dram_capacity_bytes),
        share(host.dram_used),
        share(host.dram_used_week),
        share(host.l1_used),
        share(host.dram_fragmented),
        grown(host.dram_grown_hour_bytes),
        grown(host.dram_grown_week_bytes),
        refused,
    ]
}

fn job_cells(job: &FleetJob) -> Vec<Cell> {
    let grows = match job.grows_per_mark_bytes {
        Some(by) => Cell::inked(format!("+{}", bytes(by)), Ink::Warning),
        None => Cell::faint(""),
    };
    vec![
        Cell::new(&job.job),
        Cell::new(job.user.as_deref().unwrap_or(UNKNOWN)),
        Cell::new(job.hosts.to_string()),
        size(job.dram_bytes),
        size(job.dram_week_bytes),
        size(job.l1_bytes),
        grows,
    ]
}

fn device_cells(device: &FleetDevice) -> Vec<Cell> {
    vec![
        Cell::new(&device.instance),
        Cell::new(&device.device),
        Cell::new(class_name(device.class)),
        share(Some(device.used)),
    ]
}

fn size(size_bytes: Option<u64>) -> Cell {
    size_bytes.map_or_else(|| Cell::faint(UNKNOWN), |size| Cell::new(bytes(size)))
}

fn share(share: Option<f64>) -> Cell {
    let Some(share) = share else {
        return Cell::faint(UNKNOWN);
    };
    let ink = match share {
        DANGER.. => Ink::Danger,
        WARNING.. => Ink::Warning,
        _little => Ink::Text,
    };
    Cell::inked(counted_share(share), ink)
}

fn grown(difference_bytes: Option<i64>) -> Cell {
    match difference_bytes {
        None => Cell::faint(UNKNOWN),
        Some(0) => Cell::faint("0 B"),
        Some(more @ 1..) => Cell::new(format!("+{}", bytes(more.unsigned_abs()))),
        Some(less) => Cell::faint(format!("-{}", bytes(less.unsigned_abs()))),
    }
}

/// A share with one decimal, rounded down: full only when full.
fn counted_share(share: f64) -> String {
    // Parts of a million first: 0.95 has no exact binary form, and is not 94.9 %.
    let permille = rounded(share.clamp(0.0, 1.0) * 1e6) / 1000;
    format!("{}.{}%", permille / 10, permille % 10)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a float saturates"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

const fn class_name(class: MemoryClass) -> &'static str {
    match class {
        MemoryClass::Dram => labels::DRAM,
        MemoryClass::L1 => labels::L1_BUFFERS,
        MemoryClass::L1Small => labels::L1_SMALL,
        MemoryClass::Trace => labels::TRACE,
        _other => "memory",
    }
}
