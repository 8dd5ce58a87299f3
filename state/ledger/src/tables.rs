//! The devices of a ledger and its processes as views have them, and which of them changed.

use crate::device::{Device, DeviceFacts, DeviceKey};
use crate::shares::{Holder, Shares};
use crate::view::ProcessView;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use ttmem_account::{Anomaly, Pages};

/// Devices that a process is refused last: those of a usual machine.
const MIN_DEVICES: u64 = 8;

/// All devices, found by their keys.
#[derive(Debug, Default)]
pub(crate) struct DeviceTable {
    pub(crate) devices: Vec<Device>,
    limit: usize,
    /// Who is charged with the devices that are in use.
    shares: Shares,
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
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            shares: Shares::new(limit as u64, MIN_DEVICES),
            ..Self::default()
        }
    }

    /// Adds a device that was saved, with the number of those who use it; false if that cannot be.
    pub(crate) fn restore(&mut self, device: Device) -> bool {
        let Ok(index) = u32::try_from(self.devices.len()) else {
            return false;
        };
        let is_charged = device.charged.is_some() || device.configured.is_some();
        let is_known = self.index.insert(device.key.clone(), index).is_some();
        let is_uncharged = device.references > 0 && !is_charged;
        if is_known || is_uncharged || index as usize >= self.limit {
            return false;
        }
        if device.configured.is_some() {
            self.shares.reserve(1);
        }
        if let Some(holder) = device.charged {
            self.shares.charge(holder, 1);
        }
        self.devices.push(device);
        self.change(index);
        true
    }

    /// Adds a device that stays, whoever uses it.
    pub(crate) fn configure(&mut self, key: DeviceKey, facts: DeviceFacts) {
        let capacities = facts.capacities;
        if let Ok(index) = self.find_or_add(key, || facts) {
            let before = self.change(index).configured.replace(capacities);
            self.shares.reserve(u64::from(before.is_none()));
        }
    }

    /// The device with this key for one more process to use, made from `facts` if it is new.
    ///
    /// The first of those who use a device at a time is charged with it.
    pub(crate) fn refer(
        &mut self,
        key: DeviceKey,
        facts: impl FnOnce() -> DeviceFacts,
        holder: Holder,
    ) -> Result<u32, Anomaly> {
        let known = self.index.get(&key).copied();
        let known_device = known.map(|index| &self.devices[index as usize]);
        let is_charged = known_device
            .is_some_and(|device| device.charged.is_some() || device.configured.is_some());
        if !is_charged && !self.shares.take(holder, 1) {
            return Err(Anomaly::NoRoom);
        }
        let index = match known {
            Some(index) => index,
            None => self.find_or_add(key, facts).inspect_err(|_full| {
                self.shares.give_back(holder, 1);
            })?,
        };
        let device = self.change(index);
        device.references += 1;
        device.last_user = Some(holder.uid);
        if !is_charged {
            device.charged = Some(holder);
        }
        Ok(index)
    }

    /// A process no longer uses a device; true if somebody else has to be charged with it.
    pub(crate) fn release(&mut self, index: u32, holder: Holder) -> bool {
        let device = self.change(index);
        device.references -= 1;
        let is_charged = device.charged == Some(holder);
        if is_charged && device.references == 0 {
            device.charged = None;
            self.shares.give_back(holder, 1);
            return false;
        }
        is_charged
    }

    /// Charges a process with a device that it uses, if `from` is charged with it.
    pub(crate) fn transfer(&mut self, index: u32, from: Holder, to: Holder) -> bool {
        let device = &mut self.devices[index as usize];
        if device.charged != Some(from) {
            return false;
        }
        device.charged = Some(to);
        self.shares.transfer(from, to, 1);
        true
    }

    /// When the table is full, an unused device is replaced.
    fn find_or_add(
        &mut self,
        key: DeviceKey,
        facts: impl FnOnce() -> DeviceFacts,
    ) -> Result<u32, Anomaly> {
        if let Some(index) = self.index.get(&key) {
            return Ok(*index);
        }
        let device = Device::new(key.clone(), facts());
        let index = if self.devices.len() < self.limit {
            self.devices.push(device);
            self.devices.len() - 1
        } else {
            let index = self.replaceable().ok_or(Anomaly::NoRoom)?;
            self.index.remove(&self.devices[index].key);
            self.devices[index] = device;
            index
        };
        let index = u32::try_from(index).map_err(|_many| Anomaly::NoRoom)?;
        self.index.insert(key, index);
        self.change(index);
        Ok(index)
    }

    /// The first unused device of the user with the most unused devices: a user who opens thousands of them replaces
    /// none of another user's.
    fn replaceable(&self) -> Option<usize> {
        let mut unused = HashMap::new();
        for (index, device) in self.devices.iter().enumerate() {
            if device.references == 0 && device.configured.is_none() {
                let of_user = unused.entry(device.last_user);
                of_user.or_insert((0_u64, Reverse(index))).0 += 1;
            }
        }
        let (_devices, Reverse(first)) = unused.into_values().max()?;
        Some(first)
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
