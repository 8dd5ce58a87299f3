//! Circular buffers, asked of the program that has them.
//!
//! Everything comes through exported functions. One of them, the address, throws for what
//! is not placed: only those inside of tensors are asked, which are placed from the beginning.
//! Pages are not asked for: the runtime divides by them, and throws for those that nobody set,
//! which it does not notice of a circular buffer on no cores.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::vector::one_core;
use super::{Object, Pair, Shared, accessors};
use ttmem_event::CoreSet;

/// `std::span` of shared pointers, as it is returned in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    first: *const Shared,
    count: usize,
}

/// `CircularBuffer`, a view of one that programs hand out: a pointer, and room to spare.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct View([u64; 8]);

accessors! {
    /// What is asked of programs and of their circular buffers.
    struct CircularAccessors => ACCESSORS {
        circular_buffers: fn(Object) -> Span = c"_ZNK2tt8tt_metal6detail11ProgramImpl16circular_buffersEv";
        make_view: fn(&mut View, Object) -> () = c"_ZN2tt8tt_metal14CircularBufferC1EPKNS0_18CircularBufferImplE";
        is_global: fn(&View) -> bool = c"_ZNK2tt8tt_metal14CircularBuffer18globally_allocatedEv";
        size: fn(&View) -> u64 = c"_ZNK2tt8tt_metal14CircularBuffer4sizeEv";
        address: fn(Object) -> u32 = c"_ZNK2tt8tt_metal18CircularBufferImpl7addressEv";
        is_on_core: fn(Object, &Pair) -> bool = c"_ZNK2tt8tt_metal18CircularBufferImpl18is_on_logical_coreERKNS_7xy_pairE";
    }
}

/// No grid of cores has a longer side.
const GRID_SIDE: u16 = 32;

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
    pub(crate) fn objects(&self, program: Object) -> impl Iterator<Item = Object> + use<> {
        let span = (self.circular_buffers)(program);
        let count = if span.first.is_null() { 0 } else { span.count };
        (0..count).map(move |at| {
            // SAFETY: the span has so many elements, in the memory of the program.
            let shared = unsafe { span.first.add(at) };
            // SAFETY: it is one of the span's shared pointers, which the program keeps.
            unsafe { shared.read() }.object
        })
    }

    /// A view of it, which owns nothing: it has no destructor to call.
    fn view(&self, object: Object) -> View {
        let mut view = View([0; 8]);
        (self.make_view)(&mut view, object);
        view
    }

    pub(crate) fn is_global(&self, object: Object) -> bool {
        (self.is_global)(&self.view(object))
    }

    /// Where a circular buffer lies that is inside of a tensor: of any other that is not placed
    /// this would throw.
    pub(crate) fn address(&self, object: Object) -> u64 {
        u64::from((self.address)(object))
    }

    /// Its size on each core.
    pub(crate) fn size_bytes(&self, object: Object) -> u64 {
        (self.size)(&self.view(object))
    }

    pub(crate) fn cores(&self, object: Object) -> CoreSet {
        let all = (0..GRID_SIDE).flat_map(|y| (0..GRID_SIDE).map(move |x| (x, y)));
        let its = all.filter(|&(x, y)| {
            let (x, y) = (u64::from(x), u64::from(y));
            (self.is_on_core)(object, &Pair { x, y })
        });
        CoreSet::from_ranges(its.map(one_core)).unwrap_or_default()
    }
}
