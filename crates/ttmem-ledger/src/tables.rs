//! The devices of a ledger and its processes as views have them, and which of them changed.

use crate::device::{Device, DeviceFacts, DeviceKey};
use crate::view::ProcessView;
use std::collections::HashMap;
use std::sync::Arc;
use ttmem_account::{Anomaly, Pages};

/// All devices, found by their keys.
#[derive(Debug, Default)]
pub(crate) struct DeviceTable {
    pub(crate) devices: Vec<Device>,
    index: HashMap<DeviceKey, u32>,
    /// Devices that changed since a view was last taken: those marked so.
    changed: Vec<u32>,
}

/// Processes as the last view had them, those aside that changed since.
#[derive(Debug, Default)]
pub(crate) struct ProcessViews {
    pub(crate) rows: Pages<Arc<ProcessView>>,
    is_changed: Vec<bool>,
    changed: Vec<u32>,
}

impl ProcessViews {
    /// A process is about to change, or did.
    #[inline]
    pub(crate) fn change(&mut self, index: u32) {
        if self.is_changed.get(index as usize) != Some(&true) {
            self.begin_change(index);
        }
    }

    #[cold]
    fn begin_change(&mut self, index: u32) {
        if self.is_changed.len() <= index as usize {
            self.is_changed.resize(index as usize + 1, false);
        }
        self.is_changed[index as usize] = true;
        self.changed.push(index);
        // Its pages would be copied when they are written to, for no reader.
        self.rows.clear(index);
    }

    pub(crate) fn take_changed(&mut self) -> Vec<u32> {
        let changed = std::mem::take(&mut self.changed);
        for index in &changed {
            self.is_changed[*index as usize] = false;
        }
        changed
    }
}

impl DeviceTable {
    /// The device with this key, made from `facts` if it is new.
    ///
    /// When the table is full, a device that no process uses any more makes room.
    pub(crate) fn find_or_add(
        &mut self,
        key: DeviceKey,
        facts: impl FnOnce() -> DeviceFacts,
        limit: usize,
    ) -> Result<u32, Anomaly> {
        if let Some(index) = self.index.get(&key) {
            return Ok(*index);
        }
        let device = Device::new(key.clone(), facts());
        let index = if self.devices.len() < limit {
            self.devices.push(device);
            self.devices.len() - 1
        } else {
            let unused = |device: &Device| device.references == 0 && device.configured.is_none();
            let index = self.devices.iter().position(unused);
            let index = index.ok_or(Anomaly::LimitReached)?;
            self.index.remove(&self.devices[index].key);
            self.devices[index] = device;
            index
        };
        let index = u32::try_from(index).map_err(|_many| Anomaly::LimitReached)?;
        self.index.insert(key, index);
        self.change(index);
        Ok(index)
    }

    #[inline(always)]
    pub(crate) fn change(&mut self, index: u32) -> &mut Device {
        let device = &mut self.devices[index as usize];
        if !device.changed {
            device.changed = true;
            self.changed.push(index);
        }
        device
    }

    /// The devices that changed since this was last asked.
    pub(crate) fn take_changed(&mut self) -> Vec<u32> {
        let changed = std::mem::take(&mut self.changed);
        for index in &changed {
            self.devices[*index as usize].changed = false;
        }
        changed
    }
}
