//! Buffers by who asked for them, and when: those that a process held when it closed their mesh,
//! those it held when it ended, and those it holds now.

use crate::growth::{Births, Series};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use ttmem_account::{BufferRow, Definitions};
use ttmem_event::{Class, TextId};

/// Groups that are told apart; buffers of further ones are summed up by class.
pub(crate) const MAX_GROUPS: usize = 1024;

/// Steps that are told apart, over all groups; of further ones, growth is not known.
pub(crate) const MAX_STEPS: usize = 4096;

/// Buffers of one class, operation and call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftGroup {
    pub class: Class,
    /// The operation, where known, with the Python stack behind it.
    pub operation: Option<Arc<str>>,
    /// The native call stack, if it was recorded.
    pub stack: Option<Arc<str>>,
    /// Their charged bytes, on all devices.
    pub bytes: u64,
    /// How many there are, and when they were placed.
    pub births: Births,
}

/// Buffers by who asked for them.
#[derive(Clone, Debug, Default)]
pub struct LeftBehind {
    /// The marks that growth is measured by.
    pub series: Arc<Series>,
    /// The most bytes first.
    pub groups: Vec<LeftGroup>,
}

impl LeftBehind {
    /// The same without operations, call stacks and names of marks.
    pub(crate) fn without_names(&self) -> Self {
        let groups = self.groups.iter().map(|group| LeftGroup {
            operation: None,
            stack: None,
            ..group.clone()
        });
        Self {
            series: Arc::new(self.series.without_names()),
            groups: groups.collect(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LeftBuffers {
    pub(crate) series: Arc<Series>,
    /// Their bytes and births, by class, operation and call stack.
    pub(crate) groups: HashMap<(Class, TextId, TextId), (u64, Births)>,
    most_groups: usize,
    /// How many more steps may be told apart.
    pub(crate) steps_left: usize,
}

impl Default for LeftBuffers {
    fn default() -> Self {
        Self::new(&Arc::default())
    }
}

impl LeftBuffers {
    pub(crate) fn new(series: &Arc<Series>) -> Self {
        Self {
            series: Arc::clone(series),
            groups: HashMap::new(),
            most_groups: MAX_GROUPS,
            steps_left: MAX_STEPS,
        }
    }

    /// For a reader, who has the rows anyway and keeps nothing.
    pub(crate) fn unbounded(series: &Arc<Series>) -> Self {
        Self {
            most_groups: usize::MAX,
            steps_left: usize::MAX,
            ..Self::new(series)
        }
    }

    /// The same without the names of marks; operations are ids here.
    pub(crate) fn without_names(&self) -> Self {
        Self {
            series: Arc::new(self.series.without_names()),
            ..self.clone()
        }
    }

    /// Counts what comes by these marks.
    pub(crate) fn count_by(&mut self, series: &Arc<Series>) {
        if !Arc::ptr_eq(&self.series, series) {
            self.series = Arc::clone(series);
        }
    }

    pub(crate) fn add(&mut self, row: &BufferRow, devices: u64) {
        let mut key = (row.class, row.operation, row.stack);
        if self.groups.len() >= self.most_groups && !self.groups.contains_key(&key) {
            key = (row.class, TextId::NONE, TextId::NONE);
        }
        let (bytes, births) = self.groups.entry(key).or_default();
        let charged = row.charged_bytes();
        *bytes = bytes.saturating_add(charged.saturating_mul(devices));
        births.add(row.time, charged, &self.series, &mut self.steps_left);
    }

    /// A mesh is opened: what was left behind before has been given back, and did not pile up.
    pub(crate) fn begin_again(&mut self) {
        let groups = self.groups.values_mut();
        groups.for_each(|(_bytes, births)| births.forget_steps());
        self.steps_left = MAX_STEPS;
    }

    pub(crate) fn named(&self, definitions: &Definitions) -> LeftBehind {
        let mut groups: Vec<_> = self.groups.iter().collect();
        // Groups that are alike to their names, as of texts that are not known, have an order, too.
        groups.sort_unstable_by_key(|((class, operation, stack), _)| {
            (class.index(), operation.0, stack.0)
        });
        let groups = groups.into_iter();
        let groups = groups.map(|((class, operation, stack), (bytes, births))| LeftGroup {
            class: *class,
            operation: definitions.text(*operation).cloned(),
            stack: definitions.text(*stack).cloned(),
            bytes: *bytes,
            births: births.clone(),
        });
        let mut groups: Vec<LeftGroup> = groups.collect();
        groups.sort_by(|one, other| {
            let rank = |group: &LeftGroup| (Reverse(group.bytes), group.class.index());
            let names = |group: &LeftGroup| (group.operation.clone(), group.stack.clone());
            let ranks = rank(one).cmp(&rank(other));
            ranks.then_with(|| names(one).cmp(&names(other)))
        });
        LeftBehind {
            series: Arc::clone(&self.series),
            groups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_without_names_have_an_order() {
        let mut series = Series::default();
        for mark in 0..64 {
            series.push(mark * 10, &Arc::from("step"), mark);
        }
        let series = Arc::new(series);
        let mut left = LeftBuffers::new(&series);
        let births = |time| {
            let (mut births, mut room) = (Births::default(), 1);
            births.add(time, 64, &series, &mut room);
            births
        };
        let expected: Vec<Births> = (0..64).map(|mark| births(mark * 10)).collect();
        for (text, births) in (0..).zip(&expected) {
            let key = (Class::Dram, TextId(text), TextId::NONE);
            left.groups.insert(key, (64, births.clone()));
        }
        let named = left.named(&Definitions::default());
        let found: Vec<Births> = named.groups.into_iter().map(|group| group.births).collect();
        assert_eq!(found, expected);
    }
}
