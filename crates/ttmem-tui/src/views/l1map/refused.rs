//! A program that was refused: where its storage would have lain, and what it met.

use crate::data::Data;
use crate::format;
use crate::theme::Ink;
use ttmem_api::{Clash, Device, Explanation, StorageKind};

#[derive(Debug, Clone, Copy)]
pub(super) struct Refused<'d> {
    pub(super) clash: &'d Clash,
    age_seconds: u64,
}

impl<'d> Refused<'d> {
    /// The latest refusal on a device; none if it is long ago.
    pub(super) fn latest(device: &Device, data: &'d Data) -> Option<Self> {
        let is_here = |failure: &&Explanation| {
            let ids = failure.device_ids.as_deref().unwrap_or_default();
            ids.is_empty() || ids.contains(&device.id)
        };
        let mut here = data
            .fresh_failures()
            .filter(|(failure, _age)| is_here(failure));
        here.find_map(|(failure, age_seconds)| {
            let clash = failure.clash.as_ref()?;
            Some(Self { clash, age_seconds })
        })
    }

    /// One sentence: when, what, and by how much.
    pub(super) fn sentence(&self) -> (String, Ink) {
        let clash = self.clash;
        let program = clash.program.map_or_else(
            || "a program".to_owned(),
            |program| format!("program {program}"),
        );
        let storage = match clash.storage {
            StorageKind::DataflowBuffers => "dataflow buffers",
            _circular => "CBs",
        };
        let words = format!(
            "refused {} ago: {storage} of {program} end at {} ({:#x}), {} beyond {} ({:#x})",
            format::duration(self.age_seconds),
            clash.storage_end,
            clash.storage_end,
            format::bytes(clash.overlap_bytes),
            clash.limit,
            clash.limit,
        );
        (words, Ink::Danger)
    }
}
