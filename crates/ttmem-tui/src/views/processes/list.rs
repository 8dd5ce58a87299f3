//! Which rows the table has, and in which order: kept until the totals or the choices change.

use super::columns::{COLUMNS, DRAM};
use super::held::{Held, is_gone, remarks, state};
use crate::data::Data;
use crate::widgets::Prompt;
use std::cmp::{Ordering, Reverse};
use std::time::Instant;
use ttmem_api::{Process, Timestamp};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    /// Not known: before all that is.
    Unknown,
    Number(u64),
    Word(String),
}

/// A row of the table, by places in the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) process: usize,
    /// One of its devices; none for the process itself.
    pub(crate) device: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    /// The place of the column that rows are sorted by.
    pub(crate) column: usize,
    /// The largest first.
    pub(crate) downwards: bool,
    /// A line for each device of a process.
    pub(crate) per_device: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            column: DRAM,
            downwards: true,
            per_device: false,
        }
    }
}

impl Order {
    /// By the next column, round and round; all but the last can be sorted by.
    pub(super) fn next(&mut self) {
        self.column = (self.column + 1) % (COLUMNS.len() - 1);
        self.downwards = !matches!(self.title(), "PID" | "USER" | "COMMAND" | "STATE");
    }

    pub(super) const fn title(&self) -> &'static str {
        COLUMNS[self.column].title
    }
}

/// The rows, and what they were made from.
#[derive(Debug, Default)]
pub(crate) struct List {
    rows: Vec<Row>,
    /// Processes that the filter lets through.
    matched: usize,
    dram: u64,
    made_from: Option<(Instant, Timestamp, Order, String)>,
}

impl List {
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) const fn matched(&self) -> usize {
        self.matched
    }

    pub(crate) const fn dram(&self) -> u64 {
        self.dram
    }

    /// Brings it up to date; whether anything may have changed.
    pub(crate) fn refresh(&mut self, data: &Data, order: &Order, filter: &Prompt) -> bool {
        let Some(snapshot) = &data.snapshot else {
            *self = Self::default();
            return true;
        };
        let received = (snapshot.received, snapshot.document.time);
        if let Some((at, time, known, text)) = &self.made_from
            && (*at, *time) == received
            && known == order
            && text == filter.text()
        {
            return false;
        }
        let processes = &snapshot.document.processes;
        let mut matching: Vec<(bool, SortKey, usize)> = processes
            .iter()
            .enumerate()
            .filter(|(_, process)| filter.text().is_empty() || filter.matches(&described(process)))
            .map(|(place, process)| (is_gone(process), key(process, order.title()), place))
            .collect();
        matching.sort_by(|left, right| compared(left, right, order.downwards));
        self.matched = matching.len();
        let held = matching.iter().map(|(_, _, place)| &processes[*place]);
        self.dram = held
            .map(Held::by)
            .fold(0, |sum, held| sum.saturating_add(held.dram));
        self.rows.clear();
        for (_, _, place) in matching {
            self.rows.push(Row {
                process: place,
                device: None,
            });
            if order.per_device {
                self.rows.extend(by_device(&processes[place], place));
            }
        }
        self.made_from = Some((
            received.0,
            received.1,
            order.clone(),
            filter.text().to_owned(),
        ));
        true
    }
}

/// Those that are gone come last whatever the order; equal ones stay as the server has them.
fn compared(
    left: &(bool, SortKey, usize),
    right: &(bool, SortKey, usize),
    downwards: bool,
) -> Ordering {
    let by_key = if downwards {
        Reverse(&left.1).cmp(&Reverse(&right.1))
    } else {
        left.1.cmp(&right.1)
    };
    left.0.cmp(&right.0).then(by_key).then(left.2.cmp(&right.2))
}

/// A row for each device, in the order of their numbers.
fn by_device(process: &Process, place: usize) -> impl Iterator<Item = Row> + use<> {
    let mut devices: Vec<usize> = (0..process.devices.len()).collect();
    devices.sort_by_key(|device| process.devices[*device].id);
    devices.into_iter().map(move |device| Row {
        process: place,
        device: Some(device),
    })
}

fn key(process: &Process, column: &str) -> SortKey {
    let number = |number: Option<u64>| number.map_or(SortKey::Unknown, SortKey::Number);
    let held = Held::by(process);
    match column {
        "PID" => number(process.pid.map(u64::from)),
        "USER" => number(process.uid.map(u64::from)),
        "COMMAND" => process
            .name
            .as_ref()
            .map_or(SortKey::Unknown, |name| SortKey::Word(name.to_lowercase())),
        "DEVICES" => number(u64::try_from(process.devices.len()).ok()),
        "L1" => SortKey::Number(held.l1),
        "L1_SMALL" => SortKey::Number(held.l1_small),
        "CBS" => SortKey::Number(held.cbs),
        "KERNELS" => SortKey::Number(held.kernels),
        "DRAM PEAK" => number(held.dram_peak),
        // The oldest has the largest age and the smallest time.
        "AGE" => number(process.start_time.map(|time| u64::MAX - time.unix_nanos())),
        "STATE" => SortKey::Word(state(process).0),
        "LEAKS" => SortKey::Number(process.leak_candidates.bytes),
        "ANOMALIES" => SortKey::Number(process.anomalies),
        _dram => SortKey::Number(held.dram),
    }
}

/// What a filter looks at: all words of a row.
fn described(process: &Process) -> String {
    let mut words = String::new();
    let mut add = |word: &str| {
        words.push_str(word);
        words.push(' ');
    };
    if let Some(pid) = process.pid {
        add(&pid.to_string());
    }
    if let Some(uid) = process.uid {
        add(&uid.to_string());
    }
    add(process.name.as_deref().unwrap_or_default());
    add(process.state.as_str());
    add(&state(process).0);
    for (_, remark) in remarks(process) {
        add(&remark);
    }
    words
}
