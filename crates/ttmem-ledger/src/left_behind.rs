//! Buffers that a process left behind, by who asked for them: those it held when it closed their
//! mesh, and those it held when it ended.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use ttmem_account::{BufferRow, Definitions};
use ttmem_event::{Class, TextId};

/// Groups that are told apart; buffers of further ones are summed up by class.
const MAX_GROUPS: usize = 1024;

/// Buffers of one class, operation and call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftGroup {
    pub class: Class,
    /// The operation, where known.
    pub operation: Option<Arc<str>>,
    /// The native call stack, if it was recorded.
    pub stack: Option<Arc<str>>,
    pub buffers: u64,
    /// Their charged bytes, on all devices.
    pub bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LeftBuffers {
    /// How many there are, and their bytes, by class, operation and call stack.
    groups: HashMap<(Class, TextId, TextId), (u64, u64)>,
}

impl LeftBuffers {
    pub(crate) fn add(&mut self, row: &BufferRow, devices: u64) {
        let mut key = (row.class, row.operation, row.stack);
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&key) {
            key = (row.class, TextId::NONE, TextId::NONE);
        }
        let (buffers, bytes) = self.groups.entry(key).or_default();
        *buffers += 1;
        *bytes = bytes.saturating_add(row.charged_bytes().saturating_mul(devices));
    }

    /// The most bytes first.
    pub(crate) fn named(&self, definitions: &Definitions) -> Vec<LeftGroup> {
        let groups = self.groups.iter();
        let groups = groups.map(|((class, operation, stack), (buffers, bytes))| LeftGroup {
            class: *class,
            operation: definitions.text(*operation).cloned(),
            stack: definitions.text(*stack).cloned(),
            buffers: *buffers,
            bytes: *bytes,
        });
        let mut groups: Vec<LeftGroup> = groups.collect();
        groups.sort_by(|one, other| {
            let rank = |group: &LeftGroup| (Reverse(group.bytes), group.class.index());
            let names = |group: &LeftGroup| (group.operation.clone(), group.stack.clone());
            let ranks = rank(one).cmp(&rank(other));
            ranks.then_with(|| names(one).cmp(&names(other)))
        });
        groups
    }
}
