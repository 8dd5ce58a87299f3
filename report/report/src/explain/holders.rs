//! Who holds the memory.

use crate::{BlockOwner, HeldBlock, HolderGroup};
use std::collections::{BTreeMap, HashMap};

/// Blocks of one process, line, operation and class together, most bytes first.
pub(crate) fn groups(blocks: &[&HeldBlock]) -> Vec<HolderGroup> {
    let mut groups: BTreeMap<BlockOwner, HolderGroup> = BTreeMap::new();
    for block in blocks {
        let mut key = block.owner.clone();
        let since = key.since.take();
        let group = groups.entry(key).or_insert_with_key(|key| HolderGroup {
            owner: key.clone(),
            newest: None,
            buffers: 0,
            bytes_per_bank: 0,
        });
        let oldest = &mut group.owner.since;
        *oldest = match (*oldest, since) {
            (Some(oldest), Some(since)) => Some(oldest.min(since)),
            (one, other) => one.or(other),
        };
        group.newest = group.newest.max(since);
        group.buffers += 1;
        group.bytes_per_bank = group.bytes_per_bank.saturating_add(block.size_bytes);
    }
    let mut groups: Vec<HolderGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.bytes_per_bank));
    groups
}

/// For each block, what its line and operation hold in all.
pub(crate) fn bytes_of_owners(blocks: &[&HeldBlock]) -> Vec<u64> {
    let mut held: HashMap<_, u64> = HashMap::new();
    for block in blocks {
        let bytes = held.entry(line_and_operation(block)).or_default();
        *bytes = bytes.saturating_add(block.size_bytes);
    }
    let of_owner = blocks.iter().map(|block| held[&line_and_operation(block)]);
    of_owner.collect()
}

fn line_and_operation(block: &HeldBlock) -> (Option<u32>, Option<&str>, Option<&str>) {
    let owner = &block.owner;
    (
        owner.pid,
        owner.python.as_deref(),
        owner.operation.as_deref(),
    )
}
