//! What grows from mark to mark, and what processes held at their end.

use super::vocabulary;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use ttmem_api::{GrowingGroup, HeldAtClose, LeakGroup, Leaks, SCHEMA, Timestamp};
use ttmem_event::Class;
use ttmem_ledger::{Births, Held, ProcessIdentity, Steps, View};

/// Groups of each list.
const MAX_GROUPS: usize = 256;

pub(super) fn leaks(view: &View, time: Timestamp) -> Leaks {
    let (mut growing, mut held_at_close) = (Vec::new(), Vec::new());
    for process in &view.processes {
        let identity = &process.facts.identity;
        let held = process.held(&view.series);
        let groups = by_line(&held);
        let steps = held.series.steps();
        growing.extend(groups.iter().filter_map(|(key, group)| {
            growth(group, steps, || leak_group(identity, false, key, group))
        }));
        if let Some(held) = &process.facts.held_at_close {
            at_close(identity, false, held, &mut growing, &mut held_at_close);
        }
    }
    for departed in view.departed.iter() {
        if let Some(held) = &departed.held {
            at_close(
                &departed.identity,
                true,
                held,
                &mut growing,
                &mut held_at_close,
            );
        }
    }
    growing.sort_by_key(|group| Reverse((group.bytes_per_step, group.group.bytes)));
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

/// What a process held at its end, and what of it had grown.
fn at_close(
    identity: &ProcessIdentity,
    departed: bool,
    held: &Held,
    growing: &mut Vec<GrowingGroup>,
    held_at_close: &mut Vec<HeldAtClose>,
) {
    let steps = held.series.steps();
    for (key, group) in by_line(held) {
        let shown = leak_group(identity, departed, &key, &group);
        let grown = growth(&group, steps, || shown.clone());
        held_at_close.push(HeldAtClose {
            group: shown,
            growing: grown.is_some(),
        });
        growing.extend(grown);
    }
}

/// The operation and the line of Python.
type Key = (Option<String>, Option<String>);

/// Buffers of one line and operation, and their class if they have one.
struct Group {
    births: Births,
    class: Option<Class>,
}

/// Stacks that differ further out are one line.
fn by_line(held: &Held) -> BTreeMap<Key, Group> {
    let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
    for found in &held.groups {
        let key = vocabulary::origin(found.origin.as_deref());
        match groups.get_mut(&key) {
            Some(group) => {
                group.births.merge(&found.births);
                group.class = group.class.filter(|class| *class == found.class);
            }
            None => {
                let (births, class) = (found.births.clone(), Some(found.class));
                groups.insert(key, Group { births, class });
            }
        }
    }
    groups
}

fn leak_group(
    identity: &ProcessIdentity,
    departed: bool,
    (operation, line): &Key,
    group: &Group,
) -> LeakGroup {
    LeakGroup {
        pid: identity.pid,
        process: vocabulary::known_text(&identity.name),
        departed,
        line: line.clone(),
        operation: operation.clone(),
        class: group.class.map(vocabulary::class),
        buffers: group.births.sum.buffers,
        bytes: group.births.sum.bytes,
        each_bytes: group.births.each_bytes(),
    }
}

fn growth(group: &Group, steps: &Steps, shown: impl FnOnce() -> LeakGroup) -> Option<GrowingGroup> {
    let growth = group.births.growth(steps)?;
    Some(GrowingGroup {
        group: shown(),
        mark: steps.name.as_deref().map(vocabulary::text),
        since: match steps.name {
            Some(_) => growth.since.number,
            None => growth.since.ordinal,
        },
        steps: growth.steps,
        bytes_per_step: growth.sum.bytes / growth.steps.max(1),
    })
}
