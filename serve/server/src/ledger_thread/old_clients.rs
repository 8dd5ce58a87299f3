//! What old clients ask for, and the answers.

use super::LedgerThread;
use crate::hardware::info_of;
use ttmem_event::Class;
use ttmem_event::legacy::{
    DeviceInfo, Generation, Request, RequestKind, Totals, encode_device_count, encode_device_info,
    encode_response,
};

impl LedgerThread {
    fn totals(&self, logical_id: i32) -> Totals {
        let mut totals = Totals::default();
        for device in self.devices_numbered(logical_id) {
            let held = &device.totals;
            let class = |class: Class| held.class(class).charged.bytes();
            // Any number of devices can claim one logical id.
            let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
            add(&mut totals.dram, class(Class::Dram));
            add(&mut totals.l1, class(Class::L1));
            add(&mut totals.l1_small, class(Class::L1Small));
            add(&mut totals.trace, class(Class::Trace));
            add(&mut totals.cb, held.cb.registered.bytes());
            add(&mut totals.kernel, held.kernel.registered.bytes());
        }
        totals
    }

    fn devices_numbered(&self, logical_id: i32) -> impl Iterator<Item = &ttmem_ledger::Device> {
        let wanted = u32::try_from(logical_id).ok();
        let devices = self.ledger.devices().iter();
        devices.filter(move |device| Some(device.facts.logical_id) == wanted)
    }

    pub(super) fn legacy_answer(&self, generation: Generation, request: &Request) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(generation.record_bytes());
        let device = request.device_id;
        if request.kind == RequestKind::Query {
            encode_response(generation, device, &self.totals(device), &mut bytes);
        } else if device == -1 {
            encode_device_count(generation, self.device_count(), &mut bytes);
        } else {
            let info = self.known_info(device);
            encode_device_info(generation, device, info.as_ref(), &mut bytes);
        }
        bytes
    }

    /// From the configuration, else from what clients opened.
    fn device_count(&self) -> u32 {
        let configured = self.config.devices.len();
        let devices = self.ledger.devices().iter();
        let opened = devices.filter(|device| device.facts.arch.is_some()).count();
        u32::try_from(if configured > 0 { configured } else { opened }).unwrap_or(u32::MAX)
    }

    fn known_info(&self, logical_id: i32) -> Option<DeviceInfo> {
        let wanted = u32::try_from(logical_id).ok()?;
        let mut configured = self.config.devices.iter();
        if let Some(device) = configured.find(|device| device.facts.logical_id == wanted) {
            return Some(device.info);
        }
        let mut reported = self.devices_numbered(logical_id);
        let reported = reported.find(|device| device.facts.arch.is_some())?;
        Some(info_of(&reported.facts))
    }
}
