//! Dataflow buffers, whose fields no accessor gives.
//!
//! Three shapes of them are known, from 0.74 to 0.81.1. The first that makes sense of all of
//! a program's buffers is the runtime's, and only while every value makes sense: the
//! first that does not ends it for good.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::vector::{Vector, cores_of_vector, vector_at};
use super::{Object, Shared, accessors};
use crate::family::Doubt;
use crate::symbols;
use std::ffi::CStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use ttmem_event::CoreSet;

accessors! {
    /// Where the dataflow buffers of a program are.
    struct DataflowAccessors {
        dataflow_buffers: fn(Object) -> *const Vector = c"_ZNK2tt8tt_metal6detail11ProgramImpl16dataflow_buffersEv";
    }
}

/// A function that came with the first shape that is known.
const CAME_WITH: &CStr =
    c"_ZN2tt8tt_metal12experimental3dfb6detail18DataflowBufferImpl11update_sizeESt8optionalIjES6_";

/// The accessors of this process's runtime.
pub(crate) static ACCESSORS: LazyLock<Result<DataflowAccessors, Doubt>> = LazyLock::new(|| {
    symbols::find(CAME_WITH).ok_or(Doubt::Missing(CAME_WITH))?;
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

/// Where the fields of `DataflowBufferImpl` are that are read, in bytes from its beginning.
#[derive(Debug)]
struct Shape {
    cores: usize,
    /// Bytes of an entry, and behind them the number of entries.
    entry: usize,
    groups: usize,
}

/// The shapes of 0.74 - 0.76, of 0.80, and of 0.77 - 0.79 and 0.81.
///
/// In this order: what an earlier one finds in the place of a vector in an object of a later
/// one is a small number and a pointer, which cannot begin a vector.
static SHAPES: [Shape; 3] = [
    Shape {
        cores: 8,
        entry: 32,
        groups: 0x78,
    },
    Shape {
        cores: 16,
        entry: 40,
        groups: 0x78,
    },
    Shape {
        cores: 16,
        entry: 40,
        groups: 0x80,
    },
];

/// The place of this runtime's shape in the list, once it is sure.
static SHAPE: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The fields of `DataflowBufferImpl` that are read.
#[derive(Clone, Copy, Debug)]
struct Fields {
    number: u32,
    cores: Vector,
    entry_bytes: u32,
    entries: u32,
    groups: Vector,
}

impl Shape {
    /// The fields of an object that may be of this shape.
    ///
    /// # Safety
    /// `object` is a live `DataflowBufferImpl`, which is larger than any shape.
    unsafe fn read(&self, object: Object) -> Fields {
        let at = |offset: usize| object.wrapping_byte_add(offset);
        // SAFETY: it is within the object, as the caller vouches.
        let number = unsafe { object.cast::<u32>().read() };
        // SAFETY: as above.
        let cores = unsafe { vector_at(at(self.cores)) };
        // SAFETY: as above.
        let [entry_bytes, entries] = unsafe { at(self.entry).cast::<[u32; 2]>().read() };
        // SAFETY: as above.
        let groups = unsafe { vector_at(at(self.groups)) };
        Fields {
            number,
            cores,
            entry_bytes,
            entries,
            groups,
        }
    }
}

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
        // SAFETY: the list holds live objects of a program that does not change meanwhile.
        unsafe { read_all(list, &SHAPE) }.ok_or(Doubt::Unexpected(
            "dataflow buffers are laid out in another way",
        ))
    }
}

/// The dataflow buffers of a list, in the first shape that makes sense of them all.
///
/// A shape that was sure once is the only one to try; it is when it finds cores in a group.
///
/// # Safety
/// The list holds live objects that are not changed meanwhile.
unsafe fn read_all(list: &[Shared], sure: &AtomicUsize) -> Option<Vec<DataflowBuffer>> {
    let known = sure.load(Ordering::Relaxed);
    let to_try = SHAPES.iter().enumerate();
    let mut to_try = to_try.filter(|(at, _shape)| known == usize::MAX || known == *at);
    to_try.find_map(|(at, shape)| {
        let mut has_groups = false;
        let understood = list.iter().map(|shared| {
            if shared.object.is_null() || !shared.object.cast::<usize>().is_aligned() {
                return None;
            }
            // SAFETY: as the caller vouches.
            let fields = unsafe { shape.read(shared.object) };
            has_groups |= !fields.groups.memory().is_null();
            // SAFETY: as above.
            unsafe { understand(&fields) }
        });
        let understood: Vec<DataflowBuffer> = understood.collect::<Option<_>>()?;
        if has_groups {
            sure.store(at, Ordering::Relaxed);
        }
        Some(understood)
    })
}

impl DataflowAccessors {
    /// A number that differs when a program's dataflow buffers were moved or resized.
    ///
    /// It takes a small part of the time of [`Self::read`], which decides when it differs. All
    /// cores of a buffer move at once, so the first and the last of a group stand for all.
    /// None when something is not as expected.
    ///
    /// # Safety
    /// As of [`Self::read`].
    pub(crate) unsafe fn glance(&self, program: Object) -> Option<u64> {
        // SAFETY: as the caller vouches.
        let list = unsafe { (self.dataflow_buffers)(program) };
        // SAFETY: it returns a reference to a member of the live program.
        let list = unsafe { list.as_ref() }?;
        // SAFETY: it is a vector of shared pointers.
        let list = unsafe { list.elements::<Shared>() }?;
        // Before the shape is sure, nothing can be told at a glance.
        let shape = SHAPES.get(SHAPE.load(Ordering::Relaxed))?;
        let mut seen = Glance::default();
        for shared in list {
            if shared.object.is_null() || !shared.object.cast::<usize>().is_aligned() {
                return None;
            }
            // SAFETY: the list holds live objects of this shape.
            let fields = unsafe { shape.read(shared.object) };
            // SAFETY: the object is the program's, which does not change meanwhile.
            unsafe { seen.look_at(&fields) }?;
        }
        Some(seen.0)
    }
}

/// What was seen so far, as one number.
#[derive(Debug, Default)]
struct Glance(u64);

impl Glance {
    fn add(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 29);
    }

    fn add_place(&mut self, place: Object) {
        self.add(u64::try_from(place.addr()).unwrap_or_default());
    }

    /// Looks at a dataflow buffer; none if it has no such vectors.
    ///
    /// # Safety
    /// The vectors of `fields`, if they are such, are alive.
    unsafe fn look_at(&mut self, fields: &Fields) -> Option<()> {
        self.add(u64::from(fields.number));
        self.add(u64::from(fields.entry_bytes) << 32 | u64::from(fields.entries));
        self.add_place(fields.cores.memory());
        // SAFETY: as the caller vouches.
        for group in unsafe { fields.groups.elements::<Group>() }? {
            // SAFETY: as above.
            let places = unsafe { group.places.elements::<Place>() }?;
            self.add_place(group.places.memory());
            for place in places.first().into_iter().chain(places.last()) {
                self.add(u64::from(place.address));
            }
        }
        Some(())
    }
}

/// What a dataflow buffer's fields say; none if they make no sense.
///
/// # Safety
/// The vectors of `fields`, if they are such, are alive.
unsafe fn understand(fields: &Fields) -> Option<DataflowBuffer> {
    // SAFETY: as the caller vouches; it is checked to look like a vector of ranges.
    let cores = unsafe { cores_of_vector(&fields.cores) }?;
    // SAFETY: as above.
    let groups = unsafe { fields.groups.elements::<Group>() }?;
    let size_bytes = u64::from(fields.entry_bytes) * u64::from(fields.entries);
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
        number: fields.number,
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
