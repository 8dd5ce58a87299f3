//! Circular buffers, asked of the program that has them.
//!
//! Everything comes through exported functions. One of them, the address, throws for what
//! is not placed: only those inside of tensors are asked, which are placed from the beginning.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::{Object, Shared, accessors};
use crate::family::Doubt;
use crate::symbols;
use std::sync::LazyLock;
use ttmem_event::{CoreRange, CoreSet};

/// `std::span` of shared pointers, as it is returned in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    first: *const Shared,
    count: usize,
}

/// `tt::xy_pair`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    x: u64,
    y: u64,
}

/// `CircularBuffer`, a view of one that programs hand out: a pointer, and room to spare.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct View([u64; 8]);

accessors! {
    /// What is asked of programs and of their circular buffers.
    struct CircularAccessors {
        circular_buffers: fn(Object) -> Span = c"_ZNK2tt8tt_metal6detail11ProgramImpl16circular_buffersEv";
        make_view: fn(*mut View, Object) -> () = c"_ZN2tt8tt_metal14CircularBufferC1EPKNS0_18CircularBufferImplE";
        is_global: fn(*const View) -> bool = c"_ZNK2tt8tt_metal14CircularBuffer18globally_allocatedEv";
        address: fn(Object) -> u32 = c"_ZNK2tt8tt_metal18CircularBufferImpl7addressEv";
        uses_index: fn(Object, u32) -> bool = c"_ZNK2tt8tt_metal18CircularBufferImpl17uses_buffer_indexEj";
        num_pages: fn(Object, u32) -> u32 = c"_ZNK2tt8tt_metal18CircularBufferImpl9num_pagesEj";
        page_size: fn(Object, u32) -> u32 = c"_ZNK2tt8tt_metal18CircularBufferImpl9page_sizeEj";
        is_on_core: fn(Object, *const Pair) -> bool = c"_ZNK2tt8tt_metal18CircularBufferImpl18is_on_logical_coreERKNS_7xy_pairE";
    }
}

/// The accessors of this process's runtime.
pub(crate) static ACCESSORS: LazyLock<Result<CircularAccessors, Doubt>> = LazyLock::new(|| {
    // SAFETY: the loader gives the runtime's function of each name.
    unsafe { CircularAccessors::find_all(symbols::find) }
});

/// No grid of cores has a longer side.
const GRID_SIDE: u16 = 32;

/// A core has so many indices for circular buffers, and fewer on some architectures.
const INDICES: u32 = 64;

/// A circular buffer, as far as it is told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CircularBuffer {
    /// Whether it lies inside of a tensor.
    pub(crate) is_global: bool,
    pub(crate) address: u64,
    pub(crate) size_bytes: u64,
    pub(crate) cores: CoreSet,
}

impl CircularAccessors {
    /// The objects of a program's circular buffers, in the order in which it has them.
    ///
    /// # Safety
    /// `program` is a live `ProgramImpl` that no other thread changes while they are taken.
    pub(crate) unsafe fn objects(&self, program: Object) -> impl Iterator<Item = Object> + use<> {
        // SAFETY: as the caller vouches.
        let span = unsafe { (self.circular_buffers)(program) };
        let count = if span.first.is_null() { 0 } else { span.count };
        (0..count).map(move |at| {
            // SAFETY: the span has so many elements, in the memory of the program.
            let shared = unsafe { span.first.add(at) };
            // SAFETY: as above.
            unsafe { shared.read() }.object
        })
    }

    /// Whether a circular buffer lies inside of a tensor.
    ///
    /// # Safety
    /// `object` is a live `CircularBufferImpl`.
    pub(crate) unsafe fn is_global(&self, object: Object) -> bool {
        let mut view = View([0; 8]);
        // SAFETY: as the caller vouches; the view is a pointer, for which there is room.
        unsafe { (self.make_view)(&raw mut view, object) };
        // SAFETY: it was just made. It owns nothing, so it has no destructor to call.
        unsafe { (self.is_global)(&raw const view) }
    }

    /// Where a circular buffer lies.
    ///
    /// # Safety
    /// `object` is a live `CircularBufferImpl` that is placed: inside of a tensor it always is.
    pub(crate) unsafe fn address(&self, object: Object) -> u64 {
        // SAFETY: as the caller vouches.
        u64::from(unsafe { (self.address)(object) })
    }

    /// Its size on each core.
    ///
    /// # Safety
    /// `object` is a live `CircularBufferImpl` of a program that was sent.
    pub(crate) unsafe fn size_bytes(&self, object: Object) -> u64 {
        // SAFETY: as the caller vouches.
        let used = (0..INDICES).find(|&index| unsafe { (self.uses_index)(object, index) });
        let Some(index) = used else {
            return 0;
        };
        // SAFETY: as above; of an index that it uses, and with pages that could be sent, this
        // does not throw.
        let pages = unsafe { (self.num_pages)(object, index) };
        // SAFETY: as above.
        let page_bytes = unsafe { (self.page_size)(object, index) };
        u64::from(pages) * u64::from(page_bytes)
    }

    /// The cores that it is on.
    ///
    /// # Safety
    /// `object` is a live `CircularBufferImpl`.
    pub(crate) unsafe fn cores(&self, object: Object) -> CoreSet {
        let all = (0..GRID_SIDE).flat_map(|y| (0..GRID_SIDE).map(move |x| (x, y)));
        let its = all.filter(|&(x, y)| {
            let pair = Pair {
                x: u64::from(x),
                y: u64::from(y),
            };
            // SAFETY: as the caller vouches; the pair outlives the call.
            unsafe { (self.is_on_core)(object, &raw const pair) }
        });
        let ranges = its.map(|(x, y)| CoreRange {
            x_first: x,
            y_first: y,
            x_last: x,
            y_last: y,
        });
        CoreSet::from_ranges(ranges).unwrap_or_default()
    }
}
