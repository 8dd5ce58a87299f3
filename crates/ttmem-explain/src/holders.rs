//! Who holds the memory.

use std::collections::BTreeMap;
use ttmem_api::{BlockOwner, HeldBlock, HolderGroup};

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
