//! Circular buffers of old senders: any number at one address, distinguished by size alone.

use crate::Map;
use crate::footprint;
use crate::pages::Pages;
use std::collections::BTreeMap;

/// Entries that may share one address: more than a process has programs.
const MAX_AT_ONE_ADDRESS: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyCb {
    /// The device, as the process counts them.
    pub device: u32,
    /// The storage: an address, a size, and no cores.
    pub cb: crate::program::Cb,
}

/// The entries at one address of a device.
#[derive(Clone, Debug, Default)]
struct AtAddress {
    /// Rows by size and then by age, so that the newest of a size is found.
    by_size: BTreeMap<(u64, u64), u32>,
    by_age: BTreeMap<u64, u32>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LegacyCbs {
    pub(crate) rows: Pages<LegacyCb>,
    addresses: Map<(u32, u64), AtAddress>,
}

footprint! {
    LegacyCbs { rows, addresses }
    AtAddress { by_size, by_age }
}

impl LegacyCbs {
    /// Whether one more may lie at an address.
    pub(crate) fn has_room(&self, device: u32, address: u64) -> bool {
        let at = self.addresses.get(&(device, address));
        at.is_none_or(|at| at.by_age.len() < MAX_AT_ONE_ADDRESS)
    }

    /// Adds an entry; false when there is no slot left.
    pub(crate) fn insert(&mut self, entry: LegacyCb) -> bool {
        let Some(slot) = self.rows.insert(entry) else {
            return false;
        };
        let at = self.addresses.entry((entry.device, entry.cb.address));
        let at = at.or_default();
        at.by_size
            .insert((entry.cb.size_bytes, entry.cb.order), slot);
        at.by_age.insert(entry.cb.order, slot);
        true
    }

    /// Takes out the newest of that size at an address, else the newest of any.
    ///
    /// The older clients send no size: there is nothing to look for then.
    pub(crate) fn remove(
        &mut self,
        device: u32,
        address: u64,
        size_bytes: u64,
    ) -> Option<LegacyCb> {
        let key = (device, address);
        let at = self.addresses.get_mut(&key)?;
        let of_size = (size_bytes, 0)..=(size_bytes, u64::MAX);
        let equal = at.by_size.range(of_size).next_back();
        let equal = equal.filter(|_found| size_bytes > 0);
        let slot = equal.map(|(_key, slot)| *slot);
        let slot = slot.or_else(|| at.by_age.last_key_value().map(|(_age, slot)| *slot))?;
        let gone = self.rows.remove(slot)?;
        at.by_size.remove(&(gone.cb.size_bytes, gone.cb.order));
        at.by_age.remove(&gone.cb.order);
        if at.by_age.is_empty() {
            self.addresses.remove(&key);
        }
        Some(gone)
    }
}
