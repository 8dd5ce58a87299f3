//! What an old sender holds: buffers by class and address, circular buffers at
//! one address as a multiset, kernels by whatever id it chose.
//!
//! What is given back is what was booked, whatever the message says.

use super::hash::IdMap;
use super::{ABSURD_BYTES, MAX_HELD_BYTES, Told};
use std::collections::{BTreeMap, HashSet};
use ttmem_event::{Class, Event, What};

/// The highest device number that the server lets old senders use.
const LAST_DEVICE: i32 = 1023;

/// Circular buffers that the ledger lets share one address.
const MAX_AT_ONE_ADDRESS: usize = 65_536;

/// Bookings of one buffer that are told again: a sender that books it in a loop without
/// ever giving it back must not make the snapshot endless.
const MAX_TOLD_REFERENCES: u32 = 65_536;

/// A buffer that may be booked more than once.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    told: Told,
    size_bytes: u64,
    references: u32,
}

/// A kernel with the reports that its state comes from.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    first: Told,
    /// The last report of the size before the present one.
    before: Option<Told>,
    /// The report that the present size and kind come from.
    loaded: Told,
    last: Told,
    size_bytes: u64,
}

/// What is held on one device number.
#[derive(Clone, Debug)]
struct Held {
    /// The report that the device became known by.
    first: Told,
    classes: [u64; Class::COUNT],
    cb_bytes: u64,
    kernel_bytes: u64,
}

/// What an old sender holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Legacy {
    held: BTreeMap<i32, Held>,
    buffers: IdMap<(i32, u8, u64), Buffer>,
    cbs: IdMap<(i32, u64), Vec<(Told, u64)>>,
    kernels: IdMap<(i32, u64), Kernel>,
}

impl Legacy {
    pub(super) fn len(&self) -> usize {
        self.buffers.len() + self.cbs.len() + self.kernels.len()
    }

    pub(super) fn apply(&mut self, told: Told) {
        if let Some(device) = named_device(&told.event.what) {
            self.held.entry(device).or_insert_with(|| Held::new(told));
        }
        match told.event.what {
            What::LegacyAllocated {
                device,
                class,
                size_bytes,
                id,
            } => self.allocate(told, device, class, size_bytes, id),
            What::LegacyFreed { device, id } => self.free(device, id),
            What::LegacyCbAllocated {
                device,
                size_bytes,
                id,
            } => self.allocate_cb(told, device, size_bytes, id),
            What::LegacyCbFreed {
                device,
                size_bytes,
                id,
            } => self.free_cb(device, size_bytes, id),
            What::LegacyKernelLoaded {
                device,
                size_bytes,
                id,
                ..
            } => self.load_kernel(told, device, size_bytes, id),
            What::LegacyKernelUnloaded { device, id } => {
                let kernel = self.kernels.remove(&(device, id));
                if let (Some(kernel), Some(held)) = (kernel, self.held.get_mut(&device)) {
                    held.kernel_bytes -= kernel.size_bytes;
                }
            }
            _newer => {}
        }
    }

    fn allocate(&mut self, told: Told, device: i32, class: Class, size_bytes: u64, id: u64) {
        let Some(held) = self.held.get_mut(&device) else {
            return;
        };
        if size_bytes == 0 || size_bytes > ABSURD_BYTES {
            return;
        }
        let held = &mut held.classes[class.index()];
        let key = (device, class.code(), id);
        if let Some(known) = self.buffers.get_mut(&key) {
            if known.size_bytes == size_bytes {
                known.references = known.references.saturating_add(1);
                return;
            }
            *held -= known.size_bytes;
            self.buffers.remove(&key);
        }
        if *held + size_bytes > MAX_HELD_BYTES {
            return;
        }
        *held += size_bytes;
        let buffer = Buffer {
            told,
            size_bytes,
            references: 1,
        };
        self.buffers.insert(key, buffer);
    }

    /// Of several classes at one address, the buffer that was booked last goes.
    fn free(&mut self, device: i32, id: u64) {
        let at_address = Class::ALL.iter().filter_map(|class| {
            let buffer = self.buffers.get(&(device, class.code(), id))?;
            Some((buffer.told.sequence, *class))
        });
        let Some((_sequence, class)) = at_address.max_by_key(|(sequence, _class)| *sequence) else {
            return;
        };
        let key = (device, class.code(), id);
        let Some(buffer) = self.buffers.get_mut(&key) else {
            return;
        };
        if buffer.references > 1 {
            buffer.references -= 1;
            return;
        }
        let size_bytes = buffer.size_bytes;
        self.buffers.remove(&key);
        if let Some(held) = self.held.get_mut(&device) {
            held.classes[class.index()] -= size_bytes;
        }
    }

    fn allocate_cb(&mut self, told: Told, device: i32, size_bytes: u64, id: u64) {
        let Some(held) = self.held.get_mut(&device) else {
            return;
        };
        let held = &mut held.cb_bytes;
        if size_bytes > ABSURD_BYTES {
            return;
        }
        let cbs = self.cbs.entry((device, id)).or_default();
        if *held + size_bytes > MAX_HELD_BYTES || cbs.len() >= MAX_AT_ONE_ADDRESS {
            return;
        }
        *held += size_bytes;
        cbs.push((told, size_bytes));
    }

    /// The newest of the claimed size goes, else the newest of all.
    fn free_cb(&mut self, device: i32, size_bytes: u64, id: u64) {
        let Some(cbs) = self.cbs.get_mut(&(device, id)) else {
            return;
        };
        let equal = (size_bytes > 0)
            .then(|| cbs.iter().rposition(|(_told, size)| *size == size_bytes))
            .flatten();
        if let Some(at) = equal.or_else(|| cbs.len().checked_sub(1)) {
            let (_told, size_bytes) = cbs.remove(at);
            if let Some(held) = self.held.get_mut(&device) {
                held.cb_bytes -= size_bytes;
            }
        }
        if cbs.is_empty() {
            self.cbs.remove(&(device, id));
        }
    }

    fn load_kernel(&mut self, told: Told, device: i32, size_bytes: u64, id: u64) {
        let Some(held) = self.held.get_mut(&device) else {
            return;
        };
        let held = &mut held.kernel_bytes;
        if size_bytes > ABSURD_BYTES {
            return;
        }
        if *held + size_bytes > MAX_HELD_BYTES {
            return;
        }
        let fresh = Kernel {
            first: told,
            before: None,
            loaded: told,
            last: told,
            size_bytes,
        };
        let Some(known) = self.kernels.get_mut(&(device, id)) else {
            *held += size_bytes;
            self.kernels.insert((device, id), fresh);
            return;
        };
        known.last = told;
        if known.size_bytes != size_bytes {
            *held = *held - known.size_bytes + size_bytes;
            known.before = Some(known.loaded);
            known.loaded = told;
            known.size_bytes = size_bytes;
        }
    }

    /// Everything once; further bookings of a buffer follow at the end.
    pub(super) fn tell(&self, told: &mut Vec<Told>) {
        told.extend(self.buffers.values().map(|buffer| buffer.told));
        told.extend(self.cbs.values().flatten().map(|(each, _size)| *each));
        self.kernels.values().for_each(|kernel| {
            // The first and the last report of a kernel are its first and its last run; one
            // of another size is needed for the present size to be news.
            let mut reports = vec![kernel.first];
            reports.extend(kernel.before);
            reports.extend([kernel.loaded, kernel.last]);
            reports.dedup_by_key(|each| each.sequence);
            told.extend(reports);
        });
        self.tell_devices(told);
    }

    /// A device stays known when all that was on it is gone, and devices keep their order.
    fn tell_devices(&self, told: &mut Vec<Told>) {
        let already: HashSet<u64> = told.iter().map(|each| each.sequence).collect();
        for (device, held) in &self.held {
            if already.contains(&held.first.sequence) {
                continue;
            }
            // A circular buffer of no bytes, given back at once, leaves nothing but the device.
            let (device, size_bytes, id) = (*device, 0, 0);
            for what in [
                What::LegacyCbAllocated {
                    device,
                    size_bytes,
                    id,
                },
                What::LegacyCbFreed {
                    device,
                    size_bytes,
                    id,
                },
            ] {
                let mut each = held.first;
                each.event.what = what;
                told.push(each);
            }
        }
    }

    /// Bookings of a buffer beyond the first.
    ///
    /// They come last: the ledger lets no two reports of an old sender have one time, and
    /// would otherwise move the times of the buffers behind them.
    pub(super) fn tell_aliases(&self, events: &mut Vec<Event>) {
        let mut aliased: Vec<&Buffer> = self.buffers.values().collect();
        aliased.retain(|buffer| buffer.references > 1);
        aliased.sort_unstable_by_key(|buffer| buffer.told.sequence);
        for buffer in aliased {
            let more = buffer.references.min(MAX_TOLD_REFERENCES) - 1;
            events.extend((0..more).map(|_again| buffer.told.event));
        }
    }
}

impl Held {
    fn new(first: Told) -> Self {
        Self {
            first,
            classes: [0; Class::COUNT],
            cb_bytes: 0,
            kernel_bytes: 0,
        }
    }
}

/// The device that a report makes known, if it is one that old senders may name.
fn named_device(what: &What) -> Option<i32> {
    match *what {
        What::LegacyAllocated { device, .. }
        | What::LegacyCbAllocated { device, .. }
        | What::LegacyKernelLoaded { device, .. } => Some(device),
        _gives_back => None,
    }
    .filter(|device| (0..=LAST_DEVICE).contains(device))
}
