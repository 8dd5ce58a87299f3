//! Samples of processes: those that hold most, and the sum over all others.
//!
//! Every process that comes makes series that a monitoring system keeps for long. So only so many have some of
//! their own, and none that has just begun: what starts and ends within seconds is in the sum.

use super::exposition::{Family, LabelSet, Value};
use super::{CLASSES, MetricsQuery, clean};
use crate::read::host;
use crate::read::leaks::growth_per_mark;
use crate::read::snapshot::{held_bytes, is_incomplete};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use ttmem_ledger::{ProcessView, View};
use ttmem_report::{PeakBytes, Timestamp};

/// Processes that have series of their own, unless a scraper asks for more or less.
const DEFAULT_PROCESSES: u32 = 32;
pub(super) const MAX_PROCESSES: u32 = 256;

/// How long a process has lived before it has series of its own, in seconds: an interval of a usual scraper.
const DEFAULT_MIN_AGE: u32 = 15;
pub(super) const MAX_MIN_AGE: u32 = 3600;

/// What the sum over all others is called.
const OTHER: &str = "other";

#[derive(Debug, Default)]
struct Held {
    classes: [u64; CLASSES.len()],
    growth: u64,
    incomplete: u64,
}

impl Held {
    fn of(view: &View, process: &ProcessView) -> Self {
        let mut classes = [0_u64; CLASSES.len()];
        for device in &process.account.devices {
            let held: PeakBytes = held_bytes(&device.totals);
            for (sum, bytes) in classes.iter_mut().zip(by_class(&held)) {
                *sum = sum.saturating_add(bytes);
            }
        }
        Self {
            classes,
            growth: growth_per_mark(view, process),
            incomplete: u64::from(is_incomplete(process)),
        }
    }

    fn add(&mut self, other: &Self) {
        for (sum, more) in self.classes.iter_mut().zip(other.classes) {
            *sum = sum.saturating_add(more);
        }
        self.growth = self.growth.saturating_add(other.growth);
        self.incomplete += other.incomplete;
    }

    fn bytes(&self) -> u64 {
        self.classes
            .iter()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

fn by_class(held: &PeakBytes) -> [u64; CLASSES.len()] {
    [held.dram, held.l1, held.l1_small, held.trace]
}

/// How long a process has lived before it makes series, in nanoseconds.
pub(super) fn min_age(query: &MetricsQuery) -> u64 {
    u64::from(query.min_age.unwrap_or(DEFAULT_MIN_AGE)) * 1_000_000_000
}

pub(super) fn families(view: &View, time: Timestamp, query: &MetricsQuery) -> [Family; 3] {
    let most = query.processes.unwrap_or(DEFAULT_PROCESSES) as usize;
    let min_age = min_age(query);
    let is_settled = |process: &ProcessView| {
        let began = process.facts.identity.start_time;
        began.is_none_or(|began| time.unix_nanos().saturating_sub(began) >= min_age)
    };
    let all = view.processes.iter();
    let mut all: Vec<(&ProcessView, Held)> = all
        .map(|process| (process, Held::of(view, process)))
        .collect();
    all.sort_by_key(|(process, held)| {
        let is_young = !is_settled(process);
        (is_young, Reverse(held.bytes()), process.facts.identity.pid)
    });
    // Two that cannot be told apart are one: a label set has one sample.
    let mut own: BTreeMap<LabelSet, Held> = BTreeMap::new();
    let mut other: Option<Held> = None;
    for (place, (process, held)) in all.iter().enumerate() {
        let sum = if place < most && is_settled(process) {
            own.entry(labels(process)).or_default()
        } else {
            other.get_or_insert_default()
        };
        sum.add(held);
    }
    let other = other.map(|sum| (vec![("pid", OTHER.to_owned())], sum));

    let mut charged = Family::bytes(
        "process_charged",
        "What a process holds on all devices, by class",
    );
    let mut growth = Family::bytes(
        "process_growth_per_mark",
        "What a process leaves behind from mark to mark",
    );
    let mut incomplete = Family::gauge(
        "process_incomplete",
        "Whether figures of a process may not be all that it has",
    );
    for (labels, held) in own.into_iter().chain(other) {
        for (class, bytes) in CLASSES.into_iter().zip(held.classes) {
            let mut labels = labels.clone();
            labels.push(("class", class.to_owned()));
            charged.add(labels, Value::Whole(bytes));
        }
        let grows = (held.growth > 0).then_some(Value::Whole(held.growth));
        growth.add(labels.clone(), grows);
        incomplete.add(labels, Value::Whole(held.incomplete));
    }
    [charged, growth, incomplete]
}

/// What a process is told from others by; what is not known, or not for this reader, is not there.
fn labels(process: &ProcessView) -> LabelSet {
    let identity = &process.facts.identity;
    let own = |wanted: &str| {
        let mut labels = process.facts.labels.iter();
        let found = labels.find(|(key, _value)| *key == wanted);
        found.map(|(_key, value)| value.to_owned())
    };
    let name = Some(identity.name.to_string());
    let all = [
        ("pid", identity.pid.map(|pid| pid.to_string())),
        ("name", name.filter(|name| !name.is_empty())),
        ("user", host::user_name(identity.uid)),
        ("job", own("job")),
        ("rank", own("rank")),
        ("container", own("container")),
    ];
    let known = all.into_iter();
    known
        .filter_map(|(key, value)| Some((key, clean(&value?))))
        .collect()
}
