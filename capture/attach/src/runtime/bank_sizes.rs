//! What interleaved buffers take of a bank, remembered.
//!
//! The runtime works it out anew whenever it is asked, from the allocator's banks and
//! alignment: a dozen cache lines of code for a number that is the same for every buffer
//! of the same size on the same device. Programs have few sizes, and use them all the time.
//!
//! Each place of the table is two words that threads read and write without a lock: a key
//! and a size that belong to different entries do not fit together, and count as nothing.

use super::buffer::Buffer;
use std::sync::atomic::{AtomicU64, Ordering};

/// Places of the table: more than a layer of a model has sizes.
const PLACES: usize = 128;

#[derive(Debug)]
struct Entry {
    /// The key, with the size mixed in.
    lock: AtomicU64,
    size_bytes: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct BankSizes {
    entries: [Entry; PLACES],
}

/// The sizes of this process. A child's runtime is a copy of its parent's: they stay true.
pub(crate) static BANK_SIZES: BankSizes = BankSizes::new();

impl BankSizes {
    const fn new() -> Self {
        Self {
            entries: [const {
                Entry {
                    lock: AtomicU64::new(0),
                    size_bytes: AtomicU64::new(0),
                }
            }; PLACES],
        }
    }

    /// Forgets everything, when a device is closed: the next at its address may have other banks.
    pub(crate) fn forget(&self) {
        for entry in &self.entries {
            entry.size_bytes.store(0, Ordering::Relaxed);
        }
    }

    /// The size for a key; `work_out` gives one that is not known.
    #[inline]
    pub(crate) fn get(&self, key: Key, work_out: impl FnOnce() -> u64) -> u64 {
        let entry = &self.entries[key.place()];
        let size_bytes = entry.size_bytes.load(Ordering::Relaxed);
        if size_bytes != 0 && entry.lock.load(Ordering::Relaxed) ^ size_bytes == key.0 {
            return size_bytes;
        }
        let size_bytes = work_out();
        entry.lock.store(key.0 ^ size_bytes, Ordering::Relaxed);
        entry.size_bytes.store(size_bytes, Ordering::Relaxed);
        size_bytes
    }
}

/// All that the size depends on, as one number of 64 well mixed bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    #[inline]
    pub(crate) fn new(buffer: &Buffer) -> Self {
        let device = u64::try_from(buffer.device.address()).unwrap_or_default();
        let mut key = device ^ u64::from(buffer.class.code()).rotate_right(8);
        for word in [buffer.size_bytes, buffer.page_bytes] {
            key = (key ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            key ^= key >> 32;
        }
        Self(key)
    }

    #[inline]
    fn place(self) -> usize {
        usize::try_from(self.0 >> 40).unwrap_or_default() % PLACES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Object;
    use ttmem_event::{Class, Layout};

    #[test]
    fn what_was_forgotten_is_worked_out_anew() {
        let sizes = BankSizes::new();
        let key = key(0x7000, Class::L1, 4096, 2048);
        assert_eq!(sizes.get(key, || 64), 64);
        assert_eq!(sizes.get(key, || 128), 64);
        sizes.forget();
        assert_eq!(sizes.get(key, || 128), 128);
    }

    fn key(device: usize, class: Class, size_bytes: u64, page_bytes: u64) -> Key {
        Key::new(&Buffer {
            device: Object(std::ptr::without_provenance(device)),
            class,
            layout: Layout::Interleaved,
            size_bytes,
            per_bank_bytes: 0,
            page_bytes,
            number: None,
        })
    }

    #[test]
    fn a_size_is_worked_out_once_for_each_kind_of_buffer() {
        let sizes = BankSizes::new();
        let keys = [
            key(0x1000, Class::Dram, 24_576, 2048),
            key(0x2000, Class::Dram, 24_576, 2048),
            key(0x1000, Class::L1, 24_576, 2048),
            key(0x1000, Class::Dram, 24_577, 2048),
            key(0x1000, Class::Dram, 24_576, 4096),
        ];
        for (size, key) in (1..).zip(keys) {
            assert_eq!(sizes.get(key, || size), size, "it is not taken for another");
            assert_eq!(sizes.get(key, || 0), size, "it is remembered");
        }
    }

    #[test]
    fn an_entry_that_two_threads_wrote_half_of_is_none() {
        let sizes = BankSizes::new();
        let key = key(0x1000, Class::Dram, 24_576, 2048);
        assert_eq!(sizes.get(key, || 2048), 2048);
        let entry = &sizes.entries[key.place()];
        entry.size_bytes.store(4096, Ordering::Relaxed);
        assert_eq!(sizes.get(key, || 2048), 2048);
    }
}
