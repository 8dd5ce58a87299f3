//! Which rows the table has, and in which order: kept until the totals or the choices change.

use super::held::{Held, is_gone, remarks, state};
use crate::data::Data;
use crate::widgets::prompt::Prompt;
use std::cmp::{Ordering, Reverse};
use std::time::Instant;
use ttmem_api::{Process, Timestamp};

/// What the rows are sorted by, in the order of the table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SortedBy {
    Pid,
    User,
    Command,
    /// How many devices it has touched.
    Devices,
    Dram,
    /// L1.
    L1,
    /// The small region of L1.
    L1Small,
    Cbs,
    Kernels,
    /// The highest DRAM on one device.
    Peak,
    Age,
    State,
    /// What it still held when it closed its devices.
    Leaks,
    /// What did not add up.
    Anomalies,
}

impl SortedBy {
    /// All of them, in the order of the columns.
    pub(crate) const ALL: [Self; 14] = [
        Self::Pid,
        Self::User,
        Self::Command,
        Self::Devices,
        Self::Dram,
        Self::L1,
        Self::L1Small,
        Self::Cbs,
        Self::Kernels,
        Self::Peak,
        Self::Age,
        Self::State,
        Self::Leaks,
        Self::Anomalies,
    ];

    /// The place of its column.
    pub(crate) fn column(self) -> usize {
        let place = Self::ALL.iter().position(|known| *known == self);
        place.expect("all of them are there")
    }

    /// The one after this, round and round.
    pub(crate) fn next(self) -> Self {
        Self::ALL[(self.column() + 1) % Self::ALL.len()]
    }

    /// Whether the largest come first by nature.
    pub(crate) const fn is_downwards(self) -> bool {
        !matches!(self, Self::Pid | Self::User | Self::Command | Self::State)
    }
}

/// What a process is sorted by.
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
    /// What rows are sorted by.
    pub(crate) by: SortedBy,
    /// The largest first.
    pub(crate) downwards: bool,
    /// A line for each device of a process.
    pub(crate) per_device: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            by: SortedBy::Dram,
            downwards: true,
            per_device: false,
        }
    }
}

/// The rows, and what they were made from.
#[derive(Debug, Default)]
pub(crate) struct List {
    rows: Vec<Row>,
    /// Processes that the filter lets through.
    matched: usize,
    /// What these hold in DRAM.
    dram: u64,
    made_from: Option<(Instant, Timestamp, Order, String)>,
}

impl List {
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// How many processes the filter lets through.
    pub(crate) const fn matched(&self) -> usize {
        self.matched
    }

    /// What they hold in DRAM.
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
            .map(|(place, process)| (is_gone(process), key(process, order.by), place))
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

fn key(process: &Process, by: SortedBy) -> SortKey {
    let number = |number: Option<u64>| number.map_or(SortKey::Unknown, SortKey::Number);
    let held = |of: fn(&Held) -> u64| SortKey::Number(of(&Held::by(process)));
    match by {
        SortedBy::Pid => number(process.pid.map(u64::from)),
        SortedBy::User => number(process.uid.map(u64::from)),
        SortedBy::Command => process
            .name
            .as_ref()
            .map_or(SortKey::Unknown, |name| SortKey::Word(name.to_lowercase())),
        SortedBy::Devices => number(u64::try_from(process.devices.len()).ok()),
        SortedBy::Dram => held(|held| held.dram),
        SortedBy::L1 => held(|held| held.l1),
        SortedBy::L1Small => held(|held| held.l1_small),
        SortedBy::Cbs => held(|held| held.cbs),
        SortedBy::Kernels => held(|held| held.kernels),
        SortedBy::Peak => number(Held::by(process).dram_peak),
        // The oldest has the largest age and the smallest time.
        SortedBy::Age => number(process.start_time.map(|time| u64::MAX - time.unix_nanos())),
        SortedBy::State => SortKey::Word(state(process).0),
        SortedBy::Leaks => SortKey::Number(process.leak_candidates.bytes),
        SortedBy::Anomalies => SortKey::Number(process.anomalies),
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
