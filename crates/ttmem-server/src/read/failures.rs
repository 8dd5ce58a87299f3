//! Failures as the ledger kept them, explained.

use super::vocabulary;
use ttmem_api::{
    BlockOwner, Explanation, FailedRequest, Failures, HeldBlock, MemoryClass, SCHEMA, StorageKind,
    StorageLimit, Timestamp,
};
use ttmem_event::{ClashKind, CoreSet, EventKind};
use ttmem_explain::{
    BlockTable, Caller, Failure, Moment, Refused, StorageRefused, Witness, explain,
};
use ttmem_ledger::{FailureMoment, View};

pub(super) const DEFAULT_COUNT: u32 = 16;

/// As many as the ledger keeps.
pub(super) const MAX_COUNT: u32 = 64;

/// The last failures, newest first.
pub(super) fn failures(view: &View, count: u32) -> Failures {
    let kept = &view.failures;
    let count = (count as usize).min(kept.len());
    let left_out = u64::try_from(kept.len() - count).unwrap_or(u64::MAX);
    let newest = kept.iter().take(count);
    Failures {
        schema: SCHEMA,
        failures: newest.map(|moment| explained(view, moment)).collect(),
        omitted: kept.omitted.saturating_add(left_out),
    }
}

fn explained(view: &View, moment: &FailureMoment) -> Explanation {
    let devices = moment.devices.iter();
    let (operation, python) = vocabulary::origin(moment.origin.as_deref());
    let caller = Caller {
        time: Some(Timestamp::from_unix_nanos(moment.time)),
        device_ids: Some(devices.filter_map(|id| view.logical_id(*id)).collect()),
        pid: moment.identity.pid,
        process: vocabulary::known_text(&moment.identity.name),
        operation,
        python,
    };
    let explanation = explain(&Moment {
        caller,
        failure: failure(moment),
        witness: Witness::Account,
    });
    Explanation {
        times: moment.times,
        ..explanation
    }
}

fn failure(moment: &FailureMoment) -> Failure {
    match moment.event {
        EventKind::Clashed {
            program,
            kind,
            region_end,
            limit,
            ..
        } => {
            let (program, cores) = (Some(program.0), moment.cores.as_ref().map(cores));
            let met = match kind {
                ClashKind::L1Buffer => StorageLimit::L1Buffer,
                ClashKind::BeyondL1 => StorageLimit::EndOfL1,
                ClashKind::ServiceCore => StorageLimit::ServiceCore,
                ClashKind::OutsideGrid => {
                    return Failure::OutsideGrid {
                        program,
                        cores,
                        grid: None,
                    };
                }
            };
            Failure::Storage(StorageRefused {
                storage: if moment.is_dataflow {
                    StorageKind::DataflowBuffers
                } else {
                    StorageKind::CircularBuffers
                },
                met,
                program,
                cores,
                start: moment.storage_start,
                end: region_end,
                limit,
                buffers: blocks(moment, MemoryClass::L1),
            })
        }
        EventKind::AllocationFailed {
            class,
            banks,
            requested_bytes,
            per_bank_bytes,
            free_bytes,
            largest_free_bytes,
            bank_bytes,
            ..
        } => {
            let class = vocabulary::class(class);
            let table = moment.capacity.zip(blocks(moment, class));
            Failure::Refused(Refused {
                request: FailedRequest {
                    class: Some(class),
                    requested_bytes: Some(requested_bytes),
                    banks: Some(u32::from(banks)),
                    need_bytes_per_bank: Some(per_bank_bytes),
                    bank_bytes: Some(bank_bytes),
                    allocated_bytes_per_bank: bank_bytes.checked_sub(free_bytes),
                    free_bytes_per_bank: Some(free_bytes),
                    largest_free_bytes_per_bank: Some(largest_free_bytes),
                },
                table: table.map(|(capacity, blocks)| BlockTable {
                    base: capacity.base,
                    bank_bytes: capacity.per_bank_bytes,
                    blocks,
                }),
                ..Refused::default()
            })
        }
        _no_failure => Failure::Refused(Refused::default()),
    }
}

fn blocks(moment: &FailureMoment, class: MemoryClass) -> Option<Vec<HeldBlock>> {
    let blocks = moment.blocks.as_ref()?.iter().map(|block| {
        let (operation, python) = vocabulary::origin(block.origin.as_deref());
        HeldBlock {
            address: block.address,
            size_bytes: block.per_bank_bytes,
            owner: BlockOwner {
                pid: moment.identity.pid,
                process: vocabulary::known_text(&moment.identity.name),
                python,
                operation,
                class: Some(class),
                since: Some(Timestamp::from_unix_nanos(block.time)),
            },
        }
    });
    Some(blocks.collect())
}

/// As the runtime writes them.
fn cores(cores: &CoreSet) -> String {
    let ranges = cores.ranges().into_iter().map(|range| {
        let (from, to) = ((range.x_first, range.y_first), (range.x_last, range.y_last));
        format!("[{}-{} - {}-{}]", from.0, from.1, to.0, to.1)
    });
    let ranges: Vec<String> = ranges.collect();
    match ranges.as_slice() {
        [one] => one.clone(),
        several => format!("{{{}}}", several.join(", ")),
    }
}
