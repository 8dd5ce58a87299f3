//! Buffers.
//!
//! What every runtime can be asked is asked. The rest is asked where functions for it
//! exist, from 0.79 on, and otherwise taken from the buffer's creation.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::bank_sizes::{BANK_SIZES, Key};
use super::creation::{self, CREATING, Creation};
use super::{Object, accessors};
use crate::call_context;
use crate::family::Unsupported;
use crate::symbols;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::LazyLock;
use ttmem_event::{Class, Layout};

accessors! {
    /// What every buffer can be asked.
    struct Common {
        address: fn(Object) -> u32 = c"_ZNK2tt8tt_metal6Buffer7addressEv";
        page_size: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6Buffer9page_sizeEv";
        aligned_size_per_bank: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6Buffer21aligned_size_per_bankEv";
        is_allocated: fn(Object) -> bool = c"_ZNK2tt8tt_metal6Buffer12is_allocatedEv";
    }
}

accessors! {
    /// What a buffer can be asked from 0.79 on.
    struct Asked {
        size: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6Buffer4sizeEv";
        buffer_type: fn(Object) -> u32 = c"_ZNK2tt8tt_metal6Buffer11buffer_typeEv";
        buffer_layout: fn(Object) -> u32 = c"_ZNK2tt8tt_metal6Buffer13buffer_layoutEv";
        unique_id: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6Buffer9unique_idEv";
        device: fn(Object) -> Object = c"_ZNK2tt8tt_metal6Buffer6deviceEv";
    }
}

accessors! {
    /// What confirms that a buffer is what was created before.
    struct Confirmed {
        num_pages: fn(Object) -> u32 = c"_ZNK2tt8tt_metal6Buffer9num_pagesEv";
        is_l1: fn(Object) -> bool = c"_ZNK2tt8tt_metal6Buffer5is_l1Ev";
        is_dram: fn(Object) -> bool = c"_ZNK2tt8tt_metal6Buffer7is_dramEv";
        is_trace: fn(Object) -> bool = c"_ZNK2tt8tt_metal6Buffer8is_traceEv";
    }
}

/// The function by which older runtimes create buffers; without it nothing is known of them.
const CREATE: &CStr = c"_ZN2tt8tt_metal6Buffer6createEPNS0_7IDeviceEmmNS0_10BufferTypeERKNS0_18BufferShardingArgsESt8optionalIbES8_IN4ttsl10StrongTypeIhNS0_14SubDeviceIdTagEEEE";

#[derive(Debug)]
enum Rest {
    Asked(Asked),
    Created(Confirmed),
}

#[derive(Debug)]
pub(crate) struct BufferAccessors {
    common: Common,
    rest: Rest,
}

pub(crate) static ACCESSORS: LazyLock<Result<BufferAccessors, Unsupported>> = LazyLock::new(|| {
    // SAFETY: the loader gives the runtime's function of each name.
    unsafe { find(symbols::find) }
});

/// Finds the accessors of a runtime.
///
/// # Safety
/// What `find` gives for a mangled name is the function of that name.
unsafe fn find(
    find: impl Fn(&CStr) -> Option<NonNull<c_void>>,
) -> Result<BufferAccessors, Unsupported> {
    // SAFETY: the caller vouches for `find`.
    let common = unsafe { Common::find(&find) }?;
    // SAFETY: the caller vouches for `find`.
    let rest = match unsafe { Asked::find(&find) } {
        Ok(asked) => Rest::Asked(asked),
        Err(_older) => {
            find(CREATE).ok_or(Unsupported::Missing(CREATE))?;
            // SAFETY: the caller vouches for `find`.
            Rest::Created(unsafe { Confirmed::find(&find) }?)
        }
    };
    Ok(BufferAccessors { common, rest })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    pub(crate) device: Object,
    pub(crate) class: Class,
    pub(crate) layout: Layout,
    pub(crate) size_bytes: u64,
    /// Of each bank that it takes; 0 of a request, which has none yet.
    pub(crate) per_bank_bytes: u64,
    pub(crate) page_bytes: u64,
    /// The runtime's own number for it, which no other ever has; none where it cannot be asked.
    pub(crate) number: Option<u64>,
}

impl Buffer {
    /// Whether it may be one that takes blocks of its cores' own: only sharded ones of L1 can.
    #[inline]
    pub(crate) fn may_be_per_core(&self) -> bool {
        self.class == Class::L1 && self.layout != Layout::Interleaved
    }
}

/// A buffer that is given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) number: u64,
    /// The address of its device, which may be gone.
    pub(crate) device: usize,
    /// Where buffers are counted, what it took of the banks of a class.
    pub(crate) counted: Option<(Class, u64)>,
}

impl BufferAccessors {
    /// Whether it matters what buffers are created with.
    pub(crate) fn needs_creation(&self) -> bool {
        matches!(self.rest, Rest::Created(_))
    }

    /// Where a buffer lies; none if it was never placed, as in a capture without a device.
    pub(crate) fn address(&self, buffer: Object) -> Option<u64> {
        if !(self.common.is_allocated)(buffer) {
            return None;
        }
        // Of a buffer that is allocated this does not throw.
        let address = u64::from((self.common.address)(buffer));
        (address != 0).then_some(address)
    }

    /// Bytes of a buffer over all banks of one device, with the padding of its pages where
    /// nothing else is known.
    pub(crate) fn size_bytes(&self, buffer: Object) -> u64 {
        match &self.rest {
            Rest::Asked(asked) => (asked.size)(buffer),
            Rest::Created(confirmed) => {
                let pages = u64::from((confirmed.num_pages)(buffer));
                (self.common.page_size)(buffer).saturating_mul(pages)
            }
        }
    }

    /// The device object, a mesh or a chip, on which this thread places a buffer.
    pub(crate) fn device(&self, buffer: Object) -> Option<Object> {
        match &self.rest {
            Rest::Asked(asked) => Some((asked.device)(buffer)),
            Rest::Created(_) => call_context::get(&CREATING).map(|creation| creation.device),
        }
    }

    /// A buffer that is given back; none if it was never reported.
    pub(crate) fn end(&self, buffer: Object) -> Option<Ended> {
        match &self.rest {
            Rest::Asked(asked) => Some(Ended {
                number: (asked.unique_id)(buffer),
                device: (asked.device)(buffer).address(),
                counted: None,
            }),
            Rest::Created(_) => creation::end(buffer).map(|ended| Ended {
                number: ended.number,
                device: ended.device,
                counted: Some((ended.class, ended.per_bank_bytes)),
            }),
        }
    }

    /// What a buffer was created with that this thread is creating on an open device, and nothing
    /// of a bank: the runtime may not have looked yet whether it can be placed, and would divide
    /// by the banks of a class that has none.
    #[inline]
    pub(crate) fn read_request(&self, buffer: Object) -> Result<Option<Buffer>, Unsupported> {
        let page_bytes = (self.common.page_size)(buffer);
        let (creation, layout, number) = match &self.rest {
            Rest::Asked(asked) => {
                let (creation, layout) = asked.read(buffer, page_bytes);
                (creation, layout, Some((asked.unique_id)(buffer)))
            }
            Rest::Created(confirmed) => {
                let (creation, layout) = confirmed.read(buffer, page_bytes)?;
                (creation, layout, None)
            }
        };
        // Host memory has no banks: asking for its share of one throws.
        let Some(class) = creation.class().filter(|class| *class != Class::System) else {
            return Ok(None);
        };
        let layout = layout.and_then(|layout| u8::try_from(layout).ok());
        let layout = layout.and_then(Layout::from_code);
        Ok(Some(Buffer {
            device: creation.device,
            class,
            layout: layout.unwrap_or(Layout::Unknown),
            size_bytes: creation.size_bytes,
            per_bank_bytes: 0,
            page_bytes,
            number,
        }))
    }

    /// Everything that an event needs of a buffer that this thread is creating and that was placed;
    /// none of a class that is not on the device, or not known.
    #[inline]
    pub(crate) fn read(&self, buffer: Object) -> Result<Option<Buffer>, Unsupported> {
        let Some(mut facts) = self.read_request(buffer)? else {
            return Ok(None);
        };
        // The allocator has made the same division to place it.
        let ask = || (self.common.aligned_size_per_bank)(buffer);
        facts.per_bank_bytes = match facts.layout {
            Layout::Interleaved => BANK_SIZES.get(Key::new(&facts), ask),
            // It depends on the shards.
            _other => ask(),
        };
        Ok(Some(facts))
    }
}

impl Asked {
    #[inline]
    fn read(&self, buffer: Object, page_bytes: u64) -> (Creation, Option<u32>) {
        let creation = Creation {
            device: (self.device)(buffer),
            size_bytes: (self.size)(buffer),
            page_bytes,
            class: (self.buffer_type)(buffer),
        };
        (creation, Some((self.buffer_layout)(buffer)))
    }
}

impl Confirmed {
    /// What the buffer that this thread creates was created with, if the buffer confirms it, and
    /// its layout.
    #[cold]
    fn read(
        &self,
        buffer: Object,
        page_bytes: u64,
    ) -> Result<(Creation, Option<u32>), Unsupported> {
        let unseen = Unsupported::Unexpected("a buffer was placed that nobody created");
        let creation = call_context::get(&CREATING).ok_or(unseen)?;
        let said = Said {
            page_bytes,
            pages: u64::from((self.num_pages)(buffer)),
            is_l1: (self.is_l1)(buffer),
            is_dram: (self.is_dram)(buffer),
            is_trace: (self.is_trace)(buffer),
        };
        if !said.confirms(&creation) {
            return Err(Unsupported::Unexpected("a buffer is not what was created"));
        }
        Ok((creation, creation::layout_of(buffer, &creation)))
    }
}

/// What a buffer of an older runtime says of itself.
#[derive(Clone, Copy, Debug)]
struct Said {
    page_bytes: u64,
    pages: u64,
    is_l1: bool,
    is_dram: bool,
    is_trace: bool,
}

impl Said {
    fn confirms(&self, creation: &Creation) -> bool {
        let kinds = match creation.class() {
            Some(Class::Dram) => [false, true, false],
            Some(Class::Trace) => [false, true, true],
            Some(Class::L1 | Class::L1Small) => [true, false, false],
            _other => [false, false, false],
        };
        // A page of the whole buffer may be given as 0 and set by the buffer itself.
        let pages = creation.size_bytes.checked_div(self.page_bytes);
        let as_large = pages.unwrap_or_default() == self.pages;
        let as_paged = creation.page_bytes == self.page_bytes || creation.page_bytes == 0;
        // Trace regions lie in DRAM, which not every runtime says of them.
        let as_kind = self.is_l1 == kinds[0]
            && self.is_trace == kinds[2]
            && (self.is_dram == kinds[1] || self.is_trace);
        as_large && as_paged && as_kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the accessors of a runtime that lacks those whose names have `missing` in them.
    fn find_without(missing: &str) -> Result<BufferAccessors, Unsupported> {
        let somewhere = NonNull::<u64>::dangling().cast();
        let finder = |name: &CStr| {
            let lacks = name.to_string_lossy().contains(missing);
            (!lacks).then_some(somewhere)
        };
        // SAFETY: none of them is called.
        unsafe { find(finder) }
    }

    #[test]
    fn one_missing_accessor_of_all_runtimes_is_enough_to_have_none() {
        let missing = c"_ZNK2tt8tt_metal6Buffer7addressEv";
        assert_eq!(
            find_without("7address").err(),
            Some(Unsupported::Missing(missing))
        );
    }

    #[test]
    fn without_the_newer_accessors_buffers_must_be_seen_being_created() {
        let newer = find_without("nothing").expect("all are there");
        assert!(!newer.needs_creation());
        let older = find_without("9unique_id").expect("creation is seen");
        assert!(older.needs_creation());
        let somewhere = NonNull::<u64>::dangling().cast();
        let finder = |name: &CStr| {
            let lacks = name == CREATE || name == c"_ZNK2tt8tt_metal6Buffer9unique_idEv";
            (!lacks).then_some(somewhere)
        };
        // SAFETY: none of them is called.
        let neither = unsafe { find(finder) };
        assert_eq!(neither.err(), Some(Unsupported::Missing(CREATE)));
    }

    #[test]
    fn a_buffer_confirms_its_class_its_pages_and_its_size() {
        let creation = Creation {
            device: Object::NULL,
            size_bytes: 8192,
            page_bytes: 2048,
            class: u32::from(Class::L1.code()),
        };
        let said = Said {
            page_bytes: 2048,
            pages: 4,
            is_l1: true,
            is_dram: false,
            is_trace: false,
        };
        assert!(said.confirms(&creation));
        let small = u32::from(Class::L1Small.code());
        assert!(said.confirms(&Creation {
            class: small,
            ..creation
        }));
        for other in [Class::Dram, Class::Trace, Class::System] {
            let class = u32::from(other.code());
            assert!(!said.confirms(&Creation { class, ..creation }), "{other:?}");
        }
        assert!(!said.confirms(&Creation {
            size_bytes: 4096,
            ..creation
        }));
        assert!(!said.confirms(&Creation {
            page_bytes: 1024,
            ..creation
        }));
        let trace = Said {
            is_l1: false,
            is_trace: true,
            ..said
        };
        let class = u32::from(Class::Trace.code());
        assert!(trace.confirms(&Creation { class, ..creation }));
    }
}
