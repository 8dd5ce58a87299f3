//! A program that was refused: where its storage would have lain, and what it met.

use crate::data::Data;
use crate::theme::Ink;
use ttmem_report::format;
use ttmem_report::{Clash, Device, L1Map, Process, StorageKind};

#[derive(Debug, Clone, Copy)]
pub(super) struct Refused<'d> {
    pub(super) clash: &'d Clash,
    age_seconds: u64,
    pid: Option<u32>,
}

impl<'d> Refused<'d> {
    /// The latest refusal on a device; none if it is long ago, or of a process of which nothing is
    /// on the map: it would be drawn over what is another's.
    pub(super) fn latest(device: &Device, map: &L1Map, data: &'d Data) -> Option<Self> {
        data.fresh_failures().find_map(|fresh| {
            let ids = fresh.failure.device_ids.as_deref().unwrap_or_default();
            let on_device = ids.is_empty() || ids.contains(&device.id);
            let process = fresh.living.filter(|_| on_device)?;
            let clash = fresh.failure.clash.as_ref()?;
            is_shown(process, device, map).then_some(Self {
                clash,
                age_seconds: fresh.age_seconds,
                pid: process.pid,
            })
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
            "refused {} ago: {storage} of {program}{} end at {} ({:#x}), {} beyond {} ({:#x})",
            format::duration(self.age_seconds),
            self.pid
                .map_or_else(String::new, |pid| format!(" of pid {pid}")),
            clash.storage_end,
            clash.storage_end,
            format::bytes(clash.overlap_bytes),
            clash.limit,
            clash.limit,
        );
        (words, Ink::Danger)
    }
}

/// Whether what is on the map of a device is a process's: it has the device, and the core in sight is
/// not another's alone.
fn is_shown(process: &Process, device: &Device, map: &L1Map) -> bool {
    let segments = map.core.iter().flat_map(|core| &core.segments);
    let mut owners = segments.filter_map(|segment| segment.pid).peekable();
    let is_owner = owners.peek().is_none() || owners.any(|pid| process.pid == Some(pid));
    let key = device.key();
    process.devices.iter().any(|on| on.key() == key) && is_owner
}
