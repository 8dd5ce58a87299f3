//! Who holds memory: buffers that are alike, taken together.
//!
//! Operations are known of some buffers only. Weights that a model loads belong to none, but
//! whoever wrote the model knows them by their number and size.

use std::collections::BTreeMap;
use ttmem_api::{BufferRow, MemoryClass};

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Holder {
    /// The operation that they are of, if the runtime named it.
    pub(crate) operation: Option<String>,
    /// The call stack that they were placed under, if stacks are recorded.
    pub(crate) stack: Option<Vec<String>>,
    pub(crate) class: MemoryClass,
    /// What each is charged with, on each of its devices.
    pub(crate) each_bytes: u64,
    pub(crate) buffers: u64,
    /// Their charged bytes, on all devices.
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) buffers: u64,
    pub(super) bytes: u64,
}

impl Held {
    fn add(&mut self, buffers: u64, bytes: u64) {
        self.buffers = self.buffers.saturating_add(buffers);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What makes buffers alike: operation, class, size and, where it is recorded, call stack.
type Alike = (Option<String>, MemoryClass, u64, Option<Vec<String>>);

#[derive(Debug, Default)]
pub(super) struct Holders(BTreeMap<Alike, Held>);

impl Holders {
    pub(super) fn add(&mut self, row: &BufferRow) {
        let devices = u64::try_from(row.device_ids.len()).unwrap_or(u64::MAX);
        let (operation, stack) = (row.operation.clone(), row.stack.clone());
        let alike = (operation, row.class, row.charged_bytes, stack);
        let bytes = row.charged_bytes.saturating_mul(devices);
        self.0.entry(alike).or_default().add(1, bytes);
    }

    /// All of them, most bytes first; `None` if there are none.
    pub(super) fn most_first(self) -> Option<Vec<Holder>> {
        let holders = self.0.into_iter();
        let mut holders: Vec<Holder> = holders
            .map(|((operation, class, each_bytes, stack), held)| Holder {
                operation,
                stack,
                class,
                each_bytes,
                buffers: held.buffers,
                bytes: held.bytes,
            })
            .collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        (!holders.is_empty()).then_some(holders)
    }
}

pub(super) fn by_operation(holders: &[Holder]) -> Vec<(Option<&str>, Held)> {
    let mut sums: BTreeMap<Option<&str>, Held> = BTreeMap::new();
    for holder in holders {
        let held = sums.entry(holder.operation.as_deref()).or_default();
        held.add(holder.buffers, holder.bytes);
    }
    let mut sums: Vec<(Option<&str>, Held)> = sums.into_iter().collect();
    sums.sort_by_key(|(_operation, held)| std::cmp::Reverse(held.bytes));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_api::HexId;

    fn row(operation: Option<&str>, charged_bytes: u64, device_ids: Vec<u32>) -> BufferRow {
        BufferRow {
            pid: Some(1),
            instance: None,
            device_ids,
            class: MemoryClass::Dram,
            id: HexId(1),
            address: None,
            requested_bytes: charged_bytes,
            charged_bytes,
            per_bank_bytes: None,
            banks: None,
            layout: None,
            page_bytes: None,
            aliases: 0,
            time: None,
            operation: operation.map(str::to_owned),
            stack: None,
            python: None,
        }
    }

    #[test]
    fn buffers_from_other_places_in_the_program_are_not_alike() {
        let from = |frame: &str| BufferRow {
            stack: Some(vec![frame.to_owned()]),
            ..row(None, 10, vec![0])
        };
        let mut holders = Holders::default();
        for row in [from("a+0x1"), from("a+0x2"), from("a+0x1")] {
            holders.add(&row);
        }
        let holders = holders.most_first().expect("two");
        let lines: Vec<(Option<&[String]>, u64)> = holders
            .iter()
            .map(|holder| (holder.stack.as_deref(), holder.buffers))
            .collect();
        let one = ["a+0x1".to_owned()];
        let other = ["a+0x2".to_owned()];
        assert_eq!(lines, [(Some(&one[..]), 2), (Some(&other[..]), 1)]);
    }

    #[test]
    fn buffers_that_are_alike_are_one_line_and_operations_are_summed() {
        assert_eq!(Holders::default().most_first(), None);
        let mut holders = Holders::default();
        for row in [
            row(Some("Matmul"), 100, vec![0]),
            row(None, 40, vec![0, 1]),
            row(Some("Matmul"), 10, vec![0]),
            row(None, 40, vec![0, 1]),
        ] {
            holders.add(&row);
        }
        let holders = holders.most_first().expect("three");
        let lines: Vec<(Option<&str>, u64, u64, u64)> = holders
            .iter()
            .map(|holder| {
                let operation = holder.operation.as_deref();
                (operation, holder.each_bytes, holder.buffers, holder.bytes)
            })
            .collect();
        assert_eq!(
            lines,
            [
                (None, 40, 2, 160),
                (Some("Matmul"), 100, 1, 100),
                (Some("Matmul"), 10, 1, 10)
            ]
        );
        let held = |buffers, bytes| Held { buffers, bytes };
        assert_eq!(
            by_operation(&holders),
            [(None, held(2, 160)), (Some("Matmul"), held(2, 110))]
        );
    }
}
