//! Where everything lies in the memory of one device: L1 core by core, DRAM bank by bank.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::fragmented_permille;
use crate::{CbKind, HexId, MemoryClass, SchemaVersion, SegmentKind, Timestamp};

/// L1 of a device, core by core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct L1Map {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When this held.
    pub time: Timestamp,
    /// The device's logical id.
    pub device: u32,
    /// The chip's unique id.
    pub unique_id: Option<HexId>,
    /// Columns of the grid of compute cores.
    pub columns: Option<u32>,
    /// Its rows.
    pub rows: Option<u32>,
    /// L1 of a core.
    pub bytes_per_core: Option<u64>,
    /// Taken by the runtime at the bottom of every core.
    pub reserved_bytes: Option<u64>,
    /// Every compute core; empty when the grid is not known.
    pub cores: Vec<L1Core>,
    /// What lies in L1 on every core alike: the blocks of the allocators, in order of address.
    pub buffers: Vec<Block>,
    /// Blocks that were not listed because there are too many.
    pub buffers_left_out: u64,
    /// The programs that ran last on some core.
    pub residents: Vec<Resident>,
    /// The core that was asked for.
    pub core: Option<L1Column>,
}

/// What one compute core has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct L1Core {
    /// Its column.
    pub x: u32,
    /// Its row.
    pub y: u32,
    /// In use for anything; `null` where something has no place.
    pub occupied_bytes: Option<u64>,
    /// Circular buffers, dataflow buffers and scratchpads of the program that ran last.
    pub cb_bytes: u64,
    /// Where those end; `null` without any.
    pub cb_end: Option<u64>,
    /// The lowest address of a buffer; `null` without any.
    pub lowest_buffer: Option<u64>,
    /// The place of its program in `residents` of the map.
    pub resident: Option<u32>,
}

/// A program that ran last on some core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resident {
    /// Its process.
    pub pid: Option<u32>,
    /// Its number in that process.
    pub program: Option<u64>,
    /// The operation.
    pub name: Option<String>,
    /// When it ran.
    pub time: Option<Timestamp>,
    /// On how many compute cores it is the last.
    pub cores: u32,
}

/// One core from address 0 to the top: segments in order of address that do not overlap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct L1Column {
    /// Its column.
    pub x: u32,
    /// Its row.
    pub y: u32,
    /// What lies on it, the free parts included.
    pub segments: Vec<Segment>,
    /// Bytes between the end of the circular buffers and the lowest buffer: how much either may
    /// still grow.
    pub gap_bytes: Option<u64>,
}

/// A stretch of a core's L1, or of a DRAM bank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// Where it begins.
    pub address: u64,
    /// Its length.
    pub size_bytes: u64,
    /// What it is.
    pub kind: SegmentKind,
    /// Of a circular buffer, its kind.
    pub cb_kind: Option<CbKind>,
    /// Who has it.
    pub pid: Option<u32>,
    /// The program or operation it belongs to.
    pub owner: Option<String>,
    /// The line of Python that it comes from, as `file:line function`.
    #[serde(default)]
    pub line: Option<String>,
    /// The buffer, if it is one.
    pub buffer: Option<HexId>,
    /// Since when.
    pub time: Option<Timestamp>,
    /// How many more lie at the same place: memory that several allocators handed out, or dataflow
    /// buffers inside of a tensor.
    pub more: u32,
}

/// A block that an allocator handed out, the same in each bank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Where it begins in a bank.
    pub address: u64,
    /// What it takes of a bank.
    pub size_bytes: u64,
    /// The class.
    pub class: MemoryClass,
    /// Who has it.
    pub pid: Option<u32>,
    /// The mesh whose allocator handed it out.
    pub mesh: Option<u64>,
    /// The buffer.
    pub buffer: HexId,
    /// The operation it was allocated for.
    pub operation: Option<String>,
    /// The line of Python that allocated it, as `file:line function`.
    #[serde(default)]
    pub line: Option<String>,
    /// Since when.
    pub time: Option<Timestamp>,
}

/// One class of a device, bank by bank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockMap {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When this held.
    pub time: Timestamp,
    /// The device's logical id.
    pub device: u32,
    /// The class.
    pub class: MemoryClass,
    /// Banks: in lockstep, so that one map is that of each.
    pub banks: Option<u32>,
    /// First address of a bank that is handed out.
    pub base: Option<u64>,
    /// What is handed out of a bank.
    pub per_bank_bytes: Option<u64>,
    /// The bank in cells of equal width: bytes taken in each; at most as many as were asked for.
    pub cells: Vec<u64>,
    /// The largest blocks, by size.
    pub largest: Vec<Block>,
    /// The free stretches, largest first.
    pub free: Vec<Stretch>,
    /// How many free stretches there are.
    pub free_count: u64,
    /// Free in all.
    pub free_bytes: Option<u64>,
}

impl BlockMap {
    /// Thousandths of what is free that no single request can have: the figure of the class.
    #[must_use]
    pub fn fragmented_permille(&self) -> Option<u16> {
        let largest = self.free.first().map(|stretch| stretch.size_bytes);
        fragmented_permille(largest, self.free_bytes)
    }
}

/// Addresses from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stretch {
    /// The first.
    pub address: u64,
    /// How many.
    pub size_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassUsage;

    #[test]
    fn fragmented_is_the_figure_of_the_class_however_it_rounds() {
        for (free, largest) in [(1000, 15), (3, 1), (7, 7), (0, 0), (1 << 40, 16_999)] {
            let map: BlockMap = serde_json::from_value(serde_json::json!({
                "schema": 1, "time": "2026-11-16T10:00:00Z", "device": 0, "class": "dram", "banks": 12,
                "base": 0, "per_bank_bytes": 1_u64 << 41, "cells": [], "largest": [], "free_count": 1,
                "free": [{ "address": 0, "size_bytes": largest }], "free_bytes": free,
            }))
            .unwrap();
            let class = ClassUsage {
                capacity_bytes: Some(12 * free),
                banks: Some(12),
                largest_free_bytes_per_bank: Some(largest),
                ..ClassUsage::default()
            };
            assert_eq!(map.fragmented_permille(), class.fragmented_permille());
        }
    }
}
