//! What grows from mark to mark, and what processes left behind, by line of Python.

use super::failures::{self, Callers};
use super::vocabulary;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use ttmem_event::Class;
use ttmem_ledger::{Births, LeftBehind, ProcessIdentity, ProcessView, Series, View};
use ttmem_report::{GrowingGroup, HeldAtClose, LeakGroup, Leaks, SCHEMA, Timestamp};

/// Groups of each list.
const MAX_GROUPS: usize = 256;

pub(super) fn leaks(view: &View, time: Timestamp) -> Leaks {
    let mut found = Found::default();
    for process in &view.processes {
        found.add_process(view, process);
    }
    for departed in view.departed.iter() {
        for left in [&departed.left_at_close, &departed.left_at_exit] {
            let grown = found.add_left(&departed.identity, true, left);
            found.growing.extend(grown);
        }
    }
    let Found {
        mut growing,
        mut held_at_close,
    } = found;
    // Not by what they hold: of two that grow alike, now one and now the other was a step ahead.
    growing.sort_by_key(|group| (Reverse(group.bytes_per_step), group.group.pid));
    held_at_close.sort_by_key(|held| Reverse(held.group.bytes));
    let lists = [growing.len(), held_at_close.len()];
    let left_out: usize = lists.iter().map(|len| len.saturating_sub(MAX_GROUPS)).sum();
    growing.truncate(MAX_GROUPS);
    held_at_close.truncate(MAX_GROUPS);
    Leaks {
        schema: SCHEMA,
        time,
        growing,
        held_at_close,
        left_out: left_out as u64,
    }
}

/// What a process that lives leaves behind from mark to mark: the sum over what grows of it.
pub(super) fn growth_per_mark(view: &View, process: &ProcessView) -> u64 {
    let mut found = Found::default();
    found.add_growing(view, process);
    let growing = found.growing.iter().map(|group| group.bytes_per_step);
    growing.fold(0, u64::saturating_add)
}

#[derive(Default)]
struct Found {
    growing: Vec<GrowingGroup>,
    held_at_close: Vec<HeldAtClose>,
}

impl Found {
    fn add_process(&mut self, view: &View, process: &ProcessView) {
        self.add_growing(view, process);
        let identity = &process.facts.identity;
        // What lay on devices that it has closed grows no more.
        let _grown = self.add_left(identity, false, &process.left_at_close());
    }

    /// Of what a process holds now only growth is worth a line.
    fn add_growing(&mut self, view: &View, process: &ProcessView) {
        // Without marks nothing grows, and nobody has to look at its rows.
        if !process.has_marks(&view.series) {
            return;
        }
        let identity = &process.facts.identity;
        let held = process.held(&view.series);
        let groups = by_line(&held);
        let growing = groups.iter().filter_map(|(key, group)| {
            let shown = || leak_group(identity, false, key, group);
            growth(group, &held.series, identity, shown)
        });
        self.growing.extend(growing);
    }

    /// Adds what a process left behind; what of it had grown.
    fn add_left(
        &mut self,
        identity: &ProcessIdentity,
        departed: bool,
        left: &LeftBehind,
    ) -> Vec<GrowingGroup> {
        let mut all_grown = Vec::new();
        for (key, group) in by_line(left) {
            let shown = leak_group(identity, departed, &key, &group);
            let grown = growth(&group, &left.series, identity, || shown.clone());
            self.held_at_close.push(HeldAtClose {
                group: shown,
                growing: grown.is_some(),
            });
            all_grown.extend(grown);
        }
        all_grown
    }
}

/// The operation and the line of Python.
type Key = (Option<String>, Option<String>);

/// Buffers of one line and operation, and their class if they have one.
struct Group<'t> {
    births: Births,
    class: Option<Class>,
    callers: Callers<'t>,
}

/// Stacks that differ further out are one line.
fn by_line(left: &LeftBehind) -> BTreeMap<Key, Group<'_>> {
    let mut groups: BTreeMap<Key, Group<'_>> = BTreeMap::new();
    for found in &left.groups {
        let key = failures::origin(found.operation.as_deref());
        let group = match groups.entry(key) {
            Entry::Occupied(entry) => {
                let group = entry.into_mut();
                group.births.merge(&found.births);
                group.class = group.class.filter(|class| *class == found.class);
                group
            }
            Entry::Vacant(entry) => entry.insert(Group {
                births: found.births.clone(),
                class: Some(found.class),
                callers: Callers::default(),
            }),
        };
        group.callers.add(found.operation.as_deref(), found.bytes);
    }
    groups
}

fn leak_group(
    identity: &ProcessIdentity,
    departed: bool,
    (operation, line): &Key,
    group: &Group<'_>,
) -> LeakGroup {
    LeakGroup {
        pid: identity.pid,
        instance: identity.instance.map(vocabulary::instance),
        process: vocabulary::known_text(&identity.name),
        departed,
        line: line.clone(),
        callers: group.callers.most(),
        operation: operation.clone(),
        class: group.class.map(vocabulary::class),
        buffers: group.births.sum.buffers,
        bytes: group.births.sum.bytes,
        each_bytes: group.births.each_bytes(),
    }
}

fn growth(
    group: &Group<'_>,
    series: &Series,
    identity: &ProcessIdentity,
    shown: impl FnOnce() -> LeakGroup,
) -> Option<GrowingGroup> {
    let began = identity.start_time.unwrap_or(0);
    let growth = group.births.growth(series, began)?;
    let steps = series.steps(began);
    let growing = GrowingGroup {
        group: shown(),
        mark: steps.name.as_deref().map(vocabulary::text),
        since: match steps.name {
            Some(_) => growth.since.number,
            None => growth.since.ordinal,
        },
        steps: growth.steps,
        bytes_per_step: growth.per_step,
        sentence: String::new(),
    };
    Some(growing.in_words())
}
