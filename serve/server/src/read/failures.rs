//! Failures as the ledger kept them, explained.

use super::vocabulary;
use std::cmp::Reverse;
use std::collections::HashMap;
use ttmem_event::catalogue::Arch;
use ttmem_event::{ClashKind, CoreSet, EventKind};
use ttmem_ledger::{FailureMoment, View, name_and_stack};
use ttmem_report::explain::{
    BlockTable, Caller, Failure, Moment, Refused, StorageRefused, Witness, explain,
};
use ttmem_report::{
    BlockOwner, Explanation, FailedRequest, Failures, HeldBlock, MemoryClass, SCHEMA, StorageKind,
    StorageLimit, Timestamp,
};

pub(super) const DEFAULT_COUNT: u32 = 16;

/// As many as the ledger keeps.
pub(super) const MAX_COUNT: u32 = 64;

/// What addresses and sizes are multiples of; of other architectures it is not more than is assumed.
const WORMHOLE_ALIGNMENT: u64 = 32;

/// The last failures, newest first.
pub(super) fn failures(view: &View, count: u32) -> Failures {
    let kept = &view.failures;
    let count = (count as usize).min(kept.len());
    let left_out = u64::try_from(kept.len() - count).unwrap_or(u64::MAX);
    let newest = kept.iter().take(count);
    Failures {
        schema: SCHEMA,
        failures: newest
            .map(|moment| {
                let devices = moment.devices.iter();
                let device_ids = devices.filter_map(|id| view.logical_id(*id)).collect();
                let may_see = view.audience.may_see(Some(moment.identity.uid));
                let explanation = Explanation {
                    names_hidden: !may_see,
                    ..explained(moment, device_ids)
                };
                explanation.in_words()
            })
            .collect(),
        omitted: kept.omitted.saturating_add(left_out),
    }
}

/// A failure on devices with these logical ids, explained.
pub(crate) fn explained(moment: &FailureMoment, device_ids: Vec<u32>) -> Explanation {
    let (operation, python) = origin(moment.origin.as_deref());
    let caller = Caller {
        time: Some(Timestamp::from_unix_nanos(moment.time)),
        device_ids: Some(device_ids),
        pid: moment.identity.pid,
        process: vocabulary::known_text(&moment.identity.name),
        operation,
        python,
        is_call_known: moment.is_call_known(),
    };
    let explanation = explain(&Moment {
        caller,
        failure: failure(moment),
        witness: Witness::Account,
    });
    Explanation {
        times: moment.times,
        last_time: Some(Timestamp::from_unix_nanos(moment.last_time)),
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
                alignment: match moment.arch {
                    Some(Arch::Wormhole) => Some(WORMHOLE_ALIGNMENT),
                    _other => None,
                },
                ..Refused::default()
            })
        }
        _no_failure => Failure::Refused(Refused::default()),
    }
}

fn blocks(moment: &FailureMoment, class: MemoryClass) -> Option<Vec<HeldBlock>> {
    let blocks = moment.blocks.as_ref()?.iter().map(|block| {
        let (operation, python) = origin(block.origin.as_deref());
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
                of_call: block.of_call.0,
            },
        }
    });
    Some(blocks.collect())
}

/// The operation that a text names, and the line of Python behind it.
pub(super) fn origin(text: Option<&str>) -> (Option<String>, Option<String>) {
    let (name, stack) = name_and_stack(text.unwrap_or_default());
    let line = ttmem_report::user_frame(stack.lines());
    (vocabulary::known_text(name), line.map(vocabulary::text))
}

/// Who called one line, with the bytes that came of it.
#[derive(Debug, Default)]
pub(super) struct Callers<'t>(HashMap<&'t str, u64>);

impl<'t> Callers<'t> {
    /// Adds the caller in a text that names an operation.
    pub(super) fn add(&mut self, text: Option<&'t str>, bytes: u64) {
        let (_name, stack) = name_and_stack(text.unwrap_or_default());
        if let Some(caller) = ttmem_report::user_caller(stack.lines()) {
            let sum = self.0.entry(caller).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Those with most bytes.
    pub(super) fn most(&self) -> Vec<String> {
        const MOST: usize = 4;
        let mut callers: Vec<_> = self.0.iter().collect();
        callers.sort_unstable_by_key(|(caller, bytes)| (Reverse(**bytes), **caller));
        let callers = callers.into_iter().take(MOST);
        callers
            .map(|(caller, _bytes)| vocabulary::text(caller))
            .collect()
    }
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
