//! Dataflow buffers, whose fields no accessor gives.
//!
//! The layout is that of 0.81.1. It is used only if the runtime has the functions of
//! that generation, and only while every value makes sense: the first that does not
//! ends it for good.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::vector::{Vector, cores_at};
use super::{Object, accessors};
use crate::family::Doubt;
use crate::symbols;
use std::ffi::CStr;
use std::sync::LazyLock;
use ttmem_event::CoreSet;

accessors! {
    /// Where the dataflow buffers of a program are.
    struct DataflowAccessors {
        dataflow_buffers: fn(Object) -> *const Vector = c"_ZNK2tt8tt_metal6detail11ProgramImpl16dataflow_buffersEv";
    }
}

/// Functions that came with the layout that is known.
const GENERATION: [&CStr; 2] = [
    c"_ZN2tt8tt_metal12experimental3dfb6detail18DataflowBufferImpl11update_sizeESt8optionalIjES6_",
    c"_ZN2tt8tt_metal6detail11ProgramImpl24reserve_program_local_l1EPKNS0_7IDeviceERKNS0_12CoreRangeSetE",
];

/// The accessors of this process's runtime.
pub(crate) static ACCESSORS: LazyLock<Result<DataflowAccessors, Doubt>> = LazyLock::new(|| {
    for name in GENERATION {
        symbols::find(name).ok_or(Doubt::Missing(name))?;
    }
    // SAFETY: the loader gives the runtime's function of each name.
    unsafe { DataflowAccessors::find_all(symbols::find) }
});

/// No L1 is larger.
const MAX_L1_BYTES: u64 = 16 << 20;

/// Nobody asks for more in one piece: what is above L1 is refused, but it is seen before.
const MAX_BUFFER_BYTES: u64 = 1 << 30;

/// A dataflow buffer, as far as it is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataflowBuffer {
    pub(crate) number: u32,
    /// Where it lies on each of its cores; none while it is inside of a buffer.
    pub(crate) address: Option<u64>,
    pub(crate) size_bytes: u64,
    pub(crate) cores: CoreSet,
}

/// `std::shared_ptr`: the object and its count.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Shared {
    object: *const Layout,
    count: Object,
}

/// The beginning of `DataflowBufferImpl`, as far as it is read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Layout {
    number: u32,
    context: u32,
    device_slot: u32,
    padding: u32,
    cores: Vector,
    entry_bytes: u32,
    entries: u32,
    /// The rest of the configuration, and what is derived from it.
    unread: [u64; 10],
    groups: Vector,
}

const _: () = assert!(std::mem::offset_of!(Layout, cores) == 16);
const _: () = assert!(std::mem::offset_of!(Layout, entry_bytes) == 40);
const _: () = assert!(std::mem::offset_of!(Layout, groups) == 0x80);

/// `DfbGroup`: cores that share one setting.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Group {
    cores: Vector,
    processors: Vector,
    places: Vector,
}

const _: () = assert!(size_of::<Group>() == 72);

/// A core, and the address of the buffer there, which is the same on all of them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Place {
    x: u64,
    y: u64,
    address: u32,
}

const _: () = assert!(size_of::<Place>() == 24);

impl DataflowAccessors {
    /// The dataflow buffers of a program whose storage is placed.
    ///
    /// # Safety
    /// `program` is a live `ProgramImpl` that no other thread changes.
    pub(crate) unsafe fn read(&self, program: Object) -> Result<Vec<DataflowBuffer>, Doubt> {
        // SAFETY: as the caller vouches.
        let list = unsafe { (self.dataflow_buffers)(program) };
        // SAFETY: it returns a reference to a member of the live program.
        let list = unsafe { list.as_ref() };
        let odd = Doubt::Unexpected("a program's list of dataflow buffers is none");
        let list = list.ok_or(odd.clone())?;
        // SAFETY: it is a vector of shared pointers.
        let list = unsafe { list.elements::<Shared>() }.ok_or(odd)?;
        list.iter()
            .map(|shared| {
                let odd = Doubt::Unexpected("dataflow buffers are laid out in another way");
                if shared.object.is_null() || !shared.object.is_aligned() {
                    return Err(odd);
                }
                // SAFETY: the list holds live objects, which are larger than what is read.
                let layout = unsafe { shared.object.read() };
                // SAFETY: the object is the program's, which does not change meanwhile.
                unsafe { understand(&layout) }.ok_or(odd)
            })
            .collect()
    }
}

/// What a dataflow buffer's fields say; none if they make no sense.
///
/// # Safety
/// The vectors of `layout`, if they are such, are alive.
unsafe fn understand(layout: &Layout) -> Option<DataflowBuffer> {
    // SAFETY: as the caller vouches; it is checked to look like a vector of ranges.
    let cores = unsafe { cores_at((&raw const layout.cores).cast()) }?;
    // SAFETY: as above.
    let groups = unsafe { layout.groups.elements::<Group>() }?;
    let size_bytes = u64::from(layout.entry_bytes) * u64::from(layout.entries);
    let mut address = 0;
    for group in groups {
        // SAFETY: as above.
        let places = unsafe { group.places.elements::<Place>() }?;
        for place in places {
            let core = (u16::try_from(place.x).ok()?, u16::try_from(place.y).ok()?);
            if core.0 >= 32 || core.1 >= 32 {
                return None;
            }
            if address != 0 && u64::from(place.address) != address {
                return None;
            }
            address = u64::from(place.address);
        }
    }
    let sized = size_bytes > 0 && size_bytes <= MAX_BUFFER_BYTES;
    let sensible = sized && address <= MAX_L1_BYTES && !cores.is_empty();
    sensible.then_some(DataflowBuffer {
        number: layout.number,
        address: (address != 0).then_some(address),
        size_bytes,
        cores,
    })
}

/// Keeps of buffers that share their place only the largest: aliases are counted once.
pub(crate) fn without_aliases(buffers: &mut Vec<DataflowBuffer>) {
    let all = buffers.clone();
    buffers.retain(|buffer| {
        let shadows = |other: &&DataflowBuffer| {
            let same_place = buffer.address.is_some() && other.address == buffer.address;
            let larger = other.size_bytes > buffer.size_bytes;
            let first = other.size_bytes == buffer.size_bytes && other.number < buffer.number;
            same_place && other.cores == buffer.cores && (larger || first)
        };
        !all.iter().any(|other| shadows(&other))
    });
}

#[cfg(test)]
mod tests;
