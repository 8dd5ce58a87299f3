//! Dataflow buffers, whose fields no accessor gives.
//!
//! Three shapes of them are known, from 0.74 to 0.81.1. The first that makes sense of all of
//! a program's buffers is the runtime's, and only while every value makes sense: the
//! first that does not ends it for good.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::vector::{Vector, cores_of_vector};
use super::{MAX_L1_BYTES, Object, Shared, accessors};
use crate::family::Unsupported;
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

pub(crate) static ACCESSORS: LazyLock<Result<DataflowAccessors, Unsupported>> =
    LazyLock::new(|| {
        symbols::require(CAME_WITH)?;
        // SAFETY: the loader gives the function of each name.
        unsafe { DataflowAccessors::find(symbols::find) }
    });

/// Nobody asks for more in one piece: what is above L1 is refused, but it is seen before.
const MAX_BUFFER_BYTES: u64 = 1 << 30;

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

#[derive(Clone, Copy, Debug)]
struct Fields {
    number: u32,
    cores: Vector,
    entry_bytes: u32,
    entries: u32,
    groups: Vector,
}

impl Shape {
    /// The fields of a `DataflowBufferImpl`, which is larger than any shape; none if it is nowhere.
    fn read(&self, object: Object) -> Option<Fields> {
        if object.is_null() || !object.address().is_multiple_of(align_of::<usize>()) {
            return None;
        }
        // SAFETY: every shape begins with the number.
        let number = unsafe { object.read::<u32>(0) };
        // SAFETY: three words lie within the object, and any are valid for a vector.
        let cores = unsafe { object.read::<Vector>(self.cores) };
        // SAFETY: two numbers lie within the object.
        let [entry_bytes, entries] = unsafe { object.read::<[u32; 2]>(self.entry) };
        // SAFETY: three words lie within the object, and any are valid for a vector.
        let groups = unsafe { object.read::<Vector>(self.groups) };
        Some(Fields {
            number,
            cores,
            entry_bytes,
            entries,
            groups,
        })
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
    fn objects(&self, program: Object) -> Option<&[Shared]> {
        // SAFETY: it returns a reference to a member of the live program.
        let list = unsafe { (self.dataflow_buffers)(program).as_ref() }?;
        // SAFETY: it is a vector of shared pointers, and only this thread changes the program.
        unsafe { list.elements::<Shared>() }
    }

    /// The dataflow buffers of a program whose storage is placed.
    pub(crate) fn read(&self, program: Object) -> Result<Vec<DataflowBuffer>, Unsupported> {
        let odd = Unsupported::Unexpected("a program's list of dataflow buffers is none");
        let list = self.objects(program).ok_or(odd)?;
        // SAFETY: the list holds live objects of a program that does not change meanwhile.
        unsafe { read_all(list, &SHAPE) }.ok_or(Unsupported::Unexpected(
            "dataflow buffers are laid out in another way",
        ))
    }

    /// A number that differs when a program's dataflow buffers were moved or resized.
    ///
    /// It takes a small part of the time of [`Self::read`], which decides when it differs. All
    /// cores of a buffer move at once, so the first and the last of a group stand for all.
    /// None when something is not as expected.
    pub(crate) fn glance(&self, program: Object) -> Option<u64> {
        let list = self.objects(program)?;
        // Before the shape is sure, nothing can be known at a glance.
        let shape = SHAPES.get(SHAPE.load(Ordering::Relaxed))?;
        let mut seen = Glance::default();
        for shared in list {
            let fields = shape.read(shared.object)?;
            // SAFETY: the object is the program's, which does not change meanwhile.
            unsafe { seen.look_at(&fields) }?;
        }
        Some(seen.0)
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
            let fields = shape.read(shared.object)?;
            has_groups |= fields.groups.address() != 0;
            // SAFETY: the fields are those of an object of the list.
            unsafe { understand(&fields) }
        });
        let understood: Vec<DataflowBuffer> = understood.collect::<Option<_>>()?;
        if has_groups {
            sure.store(at, Ordering::Relaxed);
        }
        Some(understood)
    })
}

#[derive(Debug, Default)]
struct Glance(u64);

impl Glance {
    fn add(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 29);
    }

    fn add_address(&mut self, vector: &Vector) {
        self.add(u64::try_from(vector.address()).unwrap_or_default());
    }

    /// Looks at a dataflow buffer; none if it has no such vectors.
    ///
    /// # Safety
    /// The vectors of `fields`, if they are such, are alive.
    unsafe fn look_at(&mut self, fields: &Fields) -> Option<()> {
        self.add(u64::from(fields.number));
        self.add(u64::from(fields.entry_bytes) << 32 | u64::from(fields.entries));
        self.add_address(&fields.cores);
        // SAFETY: the caller vouches for the vector.
        for group in unsafe { fields.groups.elements::<Group>() }? {
            // SAFETY: a live vector's elements are alive.
            let places = unsafe { group.places.elements::<Place>() }?;
            self.add_address(&group.places);
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
    // SAFETY: the caller vouches for the vector; it is checked to look like one of ranges.
    let cores = unsafe { cores_of_vector(&fields.cores) }?;
    // SAFETY: the caller vouches for the vector.
    let groups = unsafe { fields.groups.elements::<Group>() }?;
    let size_bytes = u64::from(fields.entry_bytes) * u64::from(fields.entries);
    let mut address = 0;
    for group in groups {
        // SAFETY: a live vector's elements are alive.
        for place in unsafe { group.places.elements::<Place>() }? {
            let is_elsewhere = address != 0 && u64::from(place.address) != address;
            if place.x >= 32 || place.y >= 32 || is_elsewhere {
                return None;
            }
            address = u64::from(place.address);
        }
    }
    let sized = size_bytes > 0 && size_bytes <= MAX_BUFFER_BYTES;
    let sensible = sized && address <= u64::from(MAX_L1_BYTES) && !cores.is_empty();
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
