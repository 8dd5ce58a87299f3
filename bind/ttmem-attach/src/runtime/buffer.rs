//! Buffers.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::{Object, accessors};
use crate::family::Doubt;
use crate::symbols;
use std::sync::LazyLock;
use ttmem_event::{Class, Layout};

accessors! {
    /// What is asked of a buffer.
    struct BufferAccessors {
        address: fn(Object) -> u32 = c"_ZNK2tt8tt_metal6Buffer7addressEv";
        size: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6Buffer4sizeEv";
        page_size: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6Buffer9page_sizeEv";
        aligned_size_per_bank: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6Buffer21aligned_size_per_bankEv";
        buffer_type: fn(Object) -> u32 = c"_ZNK2tt8tt_metal6Buffer11buffer_typeEv";
        buffer_layout: fn(Object) -> u32 = c"_ZNK2tt8tt_metal6Buffer13buffer_layoutEv";
        unique_id: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6Buffer9unique_idEv";
        is_allocated: fn(Object) -> bool = c"_ZNK2tt8tt_metal6Buffer12is_allocatedEv";
        device: fn(Object) -> Object = c"_ZNK2tt8tt_metal6Buffer6deviceEv";
    }
}

/// The accessors of this process's runtime.
pub(crate) static ACCESSORS: LazyLock<Result<BufferAccessors, Doubt>> = LazyLock::new(|| {
    // SAFETY: the loader gives the runtime's function of each name.
    unsafe { BufferAccessors::find_all(symbols::find) }
});

/// A buffer, as far as it is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    pub(crate) device: Object,
    pub(crate) class: Class,
    pub(crate) layout: Layout,
    pub(crate) size_bytes: u64,
    pub(crate) per_bank_bytes: u64,
    pub(crate) page_bytes: u64,
}

impl BufferAccessors {
    /// The runtime's number of a buffer, which it never uses again.
    ///
    /// # Safety
    /// `buffer` is a live `Buffer`.
    pub(crate) unsafe fn unique_id(&self, buffer: Object) -> u64 {
        // SAFETY: as the caller vouches.
        unsafe { (self.unique_id)(buffer) }
    }

    /// Where a buffer lies; none if it was never placed, as in a capture without a device.
    ///
    /// # Safety
    /// `buffer` is a live `Buffer`.
    pub(crate) unsafe fn address(&self, buffer: Object) -> Option<u64> {
        // SAFETY: as the caller vouches.
        if !unsafe { (self.is_allocated)(buffer) } {
            return None;
        }
        // SAFETY: as above; of a buffer that is allocated this does not throw.
        let address = u64::from(unsafe { (self.address)(buffer) });
        (address != 0).then_some(address)
    }

    /// Bytes of a buffer over all banks of one device.
    ///
    /// # Safety
    /// `buffer` is a live `Buffer`.
    pub(crate) unsafe fn size_bytes(&self, buffer: Object) -> u64 {
        // SAFETY: as the caller vouches.
        unsafe { (self.size)(buffer) }
    }

    /// The device object that a buffer is on: a mesh or a chip.
    ///
    /// # Safety
    /// `buffer` is a live `Buffer`.
    pub(crate) unsafe fn device(&self, buffer: Object) -> Object {
        // SAFETY: as the caller vouches.
        unsafe { (self.device)(buffer) }
    }

    /// Everything that an event needs; none of a class that we do not know.
    ///
    /// # Safety
    /// `buffer` is a live `Buffer` whose device is open.
    pub(crate) unsafe fn read(&self, buffer: Object) -> Option<Buffer> {
        // SAFETY: as the caller vouches.
        let class = unsafe { (self.buffer_type)(buffer) };
        // SAFETY: as above.
        let layout = unsafe { (self.buffer_layout)(buffer) };
        let class = u8::try_from(class).ok().and_then(Class::from_code)?;
        let layout = u8::try_from(layout).ok().and_then(Layout::from_code);
        // SAFETY: as above.
        let device = unsafe { (self.device)(buffer) };
        // SAFETY: as above.
        let size_bytes = unsafe { (self.size)(buffer) };
        // SAFETY: as above; it asks the device's allocator, which an open device has.
        let per_bank_bytes = unsafe { (self.aligned_size_per_bank)(buffer) };
        // SAFETY: as above.
        let page_bytes = unsafe { (self.page_size)(buffer) };
        Some(Buffer {
            device,
            class,
            layout: layout.unwrap_or(Layout::Unknown),
            size_bytes,
            per_bank_bytes,
            page_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_missing_accessor_is_enough_to_have_none() {
        let missing = c"_ZNK2tt8tt_metal6Buffer9unique_idEv";
        let somewhere = std::ptr::NonNull::<u64>::dangling().cast();
        let find = |name: &std::ffi::CStr| (name != missing).then_some(somewhere);
        // SAFETY: none of them is called.
        let found = unsafe { BufferAccessors::find_all(find) };
        assert_eq!(found.err(), Some(Doubt::Missing(missing)));
    }
}
