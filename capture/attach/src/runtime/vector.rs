//! `std::vector` and `CoreRangeSet` as they lie in memory.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::Object;
use std::ffi::c_void;
use std::slice;
use ttmem_event::{CoreRange, CoreSet};

/// More elements than any vector that is read here has.
const MAX_ELEMENTS: usize = 1 << 16;

/// More ranges than any set of cores has.
const MAX_RANGES: usize = 1 << 13;

/// `std::vector`: begin, end and the end of its room.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vector {
    begin: *const c_void,
    end: *const c_void,
    limit: *const c_void,
}

impl Vector {
    #[cfg(test)]
    pub(crate) const EMPTY: Self = Self {
        begin: std::ptr::null(),
        end: std::ptr::null(),
        limit: std::ptr::null(),
    };

    /// Where its elements are; 0 = it has no memory.
    pub(crate) fn address(&self) -> usize {
        self.begin.addr()
    }

    /// Gives back the memory of a vector that the runtime has handed over.
    pub(crate) fn delete_by(self, delete: extern "C-unwind" fn(Object)) {
        if !self.begin.is_null() {
            delete(Object(self.begin));
        }
    }

    /// The elements, if this looks like a vector of such.
    ///
    /// # Safety
    /// If it is a vector, its elements are of type `T`, and it is not changed meanwhile.
    pub(crate) unsafe fn elements<T: Copy>(&self) -> Option<&[T]> {
        let (begin, end) = (self.begin.addr(), self.end.addr());
        if begin == 0 && end == 0 {
            return Some(&[]);
        }
        let bytes = end.checked_sub(begin)?;
        let whole = bytes.is_multiple_of(size_of::<T>());
        let aligned = begin.is_multiple_of(align_of::<T>());
        let roomy = end <= self.limit.addr();
        let count = bytes / size_of::<T>();
        if begin == 0 || !whole || !aligned || !roomy || count > MAX_ELEMENTS {
            return None;
        }
        // SAFETY: begin to end are the vector's elements, as the caller vouches, and not moved.
        Some(unsafe { slice::from_raw_parts(self.begin.cast(), count) })
    }
}

/// The ranges of a `CoreRangeSet`, which is a vector of ranges of four words.
pub(crate) fn ranges_at(cores: Object) -> Option<Vec<CoreRange>> {
    if cores.is_null() {
        return None;
    }
    // SAFETY: a set of core ranges is a vector.
    let vector = unsafe { cores.read::<Vector>(0) };
    // SAFETY: a range is two coordinates of two 64-bit words each; nobody changes what the
    // runtime has passed.
    ranges_of(unsafe { vector.elements::<[u64; 4]>() }?)
}

/// The cores of the vector of a `CoreRangeSet`.
///
/// # Safety
/// If it is a vector, it is one of core ranges that is not changed meanwhile.
pub(crate) unsafe fn cores_of_vector(vector: &Vector) -> Option<CoreSet> {
    // SAFETY: a range is two coordinates of two 64-bit words each.
    let ranges = unsafe { vector.elements::<[u64; 4]>() }?;
    CoreSet::from_ranges(ranges_of(ranges)?).ok()
}

pub(super) fn one_core((x, y): (u16, u16)) -> CoreRange {
    CoreRange {
        x_first: x,
        y_first: y,
        x_last: x,
        y_last: y,
    }
}

fn ranges_of(ranges: &[[u64; 4]]) -> Option<Vec<CoreRange>> {
    if ranges.len() > MAX_RANGES {
        return None;
    }
    let range = |&[x_first, y_first, x_last, y_last]: &[u64; 4]| {
        Some(CoreRange {
            x_first: u16::try_from(x_first).ok()?,
            y_first: u16::try_from(y_first).ok()?,
            x_last: u16::try_from(x_last).ok()?,
            y_last: u16::try_from(y_last).ok()?,
        })
    };
    ranges.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector_of<T>(elements: &[T]) -> Vector {
        let range = elements.as_ptr_range();
        Vector {
            begin: range.start.cast(),
            end: range.end.cast(),
            limit: range.end.cast(),
        }
    }

    fn cores(vector: &Vector) -> Option<CoreSet> {
        // SAFETY: it is a vector of ranges, or must be recognised as none.
        unsafe { cores_of_vector(vector) }
    }

    #[test]
    fn the_ranges_of_a_core_range_set_are_read() {
        let ranges = [[0_u64, 0, 7, 6], [0, 7, 3, 7]];
        let set = cores(&vector_of(&ranges)).expect("two ranges of a grid");
        assert_eq!(set.len(), 60);
        assert_eq!(cores(&Vector::EMPTY), Some(CoreSet::default()));
    }

    #[test]
    fn what_cannot_be_a_core_range_set_is_none() {
        let turned = [[5_u64, 0, 4, 0]];
        let far = [[0_u64, 0, 1 << 40, 0]];
        assert_eq!(cores(&vector_of(&turned)), None);
        assert_eq!(cores(&vector_of(&far)), None);
        let part = [0_u64; 6];
        assert_eq!(cores(&vector_of(&part)), None);
        let range = [[0_u64, 0, 1, 1]];
        let good = vector_of(&range);
        let backwards = Vector {
            begin: good.end,
            end: good.begin,
            ..good
        };
        assert_eq!(cores(&backwards), None);
        let without_room = Vector {
            limit: good.begin,
            ..good
        };
        assert_eq!(cores(&without_room), None);
        let crooked = Vector {
            begin: good.begin.wrapping_byte_add(1),
            end: good.end.wrapping_byte_add(1),
            limit: good.end.wrapping_byte_add(1),
        };
        assert_eq!(cores(&crooked), None);
    }

    #[test]
    fn more_elements_than_there_can_be_are_not_a_vector() {
        let vector = Vector {
            begin: std::ptr::without_provenance(0x1000),
            end: std::ptr::without_provenance(0x1000 + 8 * (MAX_ELEMENTS + 1)),
            limit: std::ptr::without_provenance(usize::MAX),
        };
        // SAFETY: nothing is read: it is too long.
        assert_eq!(unsafe { vector.elements::<u64>() }, None);
    }
}
