//! What the runtime's description of the machine says of its chips.
//!
//! Two tables of it are read as they lie in memory, `std::unordered_map`s, each checked
//! to be one before it is believed.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::{Object, accessors};
use crate::family::Doubt;
use crate::symbols;
use std::sync::LazyLock;

accessors! {
    /// What is asked of a `ClusterDescriptor`.
    struct Functions {
        unique_ids: fn(Object) -> *const Table = c"_ZNK2tt3umd17ClusterDescriptor19get_chip_unique_idsEv";
        are_authentic: fn(Object) -> bool = c"_ZNK2tt3umd17ClusterDescriptor29has_authentic_chip_unique_idsEv";
    }
}

/// The names of boards by their codes.
const BOARD_NAMES: &std::ffi::CStr = c"_ZN2tt29board_type_canonical_name_mapE";

/// What is asked of the description of the machine.
#[derive(Debug)]
pub(crate) struct ClusterAccessors {
    functions: Functions,
    /// Codes of boards, with their names.
    boards: Vec<(u32, String)>,
}

/// The accessors of this process's runtime.
pub(crate) static ACCESSORS: LazyLock<Result<ClusterAccessors, Doubt>> = LazyLock::new(|| {
    // SAFETY: the loader gives the runtime's function of each name.
    let functions = unsafe { Functions::find_all(symbols::find) }?;
    Ok(ClusterAccessors {
        functions,
        boards: board_names().unwrap_or_default(),
    })
});

/// The names of all boards; without the table that is known, boards have none.
fn board_names() -> Option<Vec<(u32, String)>> {
    // Several libraries have the table; only one's is used, and the others' stay empty.
    let tables = [
        symbols::find_anywhere(BOARD_NAMES),
        symbols::find(BOARD_NAMES),
    ];
    tables.into_iter().flatten().find_map(|table| {
        // SAFETY: it is the table of that name, which is made when its library is loaded.
        let names = unsafe { entries::<View>(table.as_ptr().cast()) }?;
        names.iter().map(name).collect()
    })
}

/// More entries than a table of chips or boards has.
const MAX_ENTRIES: usize = 4096;

/// No board has a longer name.
const MAX_NAME_BYTES: usize = 64;

/// `std::unordered_map`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Table {
    buckets: Object,
    bucket_count: usize,
    first: Object,
    count: usize,
    /// As full as it may become before it grows, which is never set to anything but 1.
    max_load: f32,
    next_resize: usize,
    single_bucket: Object,
}

const _: () = assert!(size_of::<Table>() == 56);

/// An entry with a key of 32 bits, for which the hash is not kept.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Entry<V> {
    next: Object,
    key: u32,
    value: V,
}

const _: () = assert!(std::mem::offset_of!(Entry<u64>, value) == 16);

/// `std::string_view`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct View {
    length: usize,
    begin: *const u8,
}

/// The entries of a table; none if it does not look like one.
///
/// # Safety
/// If there is such a table, its values are of type `V`, and nobody changes it meanwhile.
unsafe fn entries<V: Copy>(table: *const Table) -> Option<Vec<(u32, V)>> {
    if table.is_null() || !table.is_aligned() {
        return None;
    }
    // SAFETY: as the caller vouches.
    let table = unsafe { &*table };
    let sized = table.count <= MAX_ENTRIES && table.count <= table.bucket_count;
    if table.buckets.is_null() || !sized || table.max_load.to_bits() != 1.0_f32.to_bits() {
        return None;
    }
    let mut found = Vec::with_capacity(table.count);
    let mut next = table.first;
    while !next.is_null() {
        let entry = next.cast::<Entry<V>>();
        if found.len() == table.count || !entry.is_aligned() {
            return None;
        }
        // SAFETY: the table looks like one, and it has this many entries.
        let entry = unsafe { entry.read() };
        found.push((entry.key, entry.value));
        next = entry.next;
    }
    (found.len() == table.count).then_some(found)
}

/// A code with its name; none if the name cannot be one.
fn name(&(code, view): &(u32, View)) -> Option<(u32, String)> {
    if view.begin.is_null() || view.length > MAX_NAME_BYTES {
        return None;
    }
    // SAFETY: the views of the table are of texts that are part of its library.
    let bytes = unsafe { std::slice::from_raw_parts(view.begin, view.length) };
    let name = std::str::from_utf8(bytes).ok()?;
    let sensible = name.bytes().all(|byte| byte.is_ascii_graphic());
    sensible.then(|| (code, name.to_owned()))
}

impl ClusterAccessors {
    /// The id of a chip that no other chip has.
    ///
    /// None where the runtime has made it up; a doubt if its ids are kept in another way.
    ///
    /// # Safety
    /// `descriptor` is a live `ClusterDescriptor` that nobody changes meanwhile.
    pub(crate) unsafe fn unique_id(
        &self,
        descriptor: Object,
        chip: u32,
    ) -> Result<Option<u64>, Doubt> {
        // SAFETY: as the caller vouches.
        if !unsafe { (self.functions.are_authentic)(descriptor) } {
            return Ok(None);
        }
        // SAFETY: as above.
        let table = unsafe { (self.functions.unique_ids)(descriptor) };
        // SAFETY: as above; its values are ids.
        let ids = unsafe { entries::<u64>(table) };
        let odd = Doubt::Unexpected("the ids of chips are laid out in another way");
        let ids = ids.ok_or(odd)?;
        let own = ids.iter().find(|(key, _)| *key == chip);
        Ok(own.map(|(_, id)| *id).filter(|id| *id != 0))
    }

    /// The name of a board; none of one that is unknown to the runtime as well.
    pub(crate) fn board_name(&self, code: u32) -> Option<&str> {
        let known = self.boards.iter().find(|(key, _)| *key == code);
        known
            .map(|(_, name)| name.as_str())
            .filter(|name| *name != "unknown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(next: Option<&Entry<u64>>, key: u32, value: u64) -> Entry<u64> {
        let next = next.map_or(std::ptr::null(), |next| (&raw const *next).cast());
        Entry { next, key, value }
    }

    fn table(first: &Entry<u64>, count: usize) -> Table {
        Table {
            buckets: std::ptr::dangling(),
            bucket_count: 13,
            first: (&raw const *first).cast(),
            count,
            max_load: 1.0,
            next_resize: 13,
            single_bucket: std::ptr::null(),
        }
    }

    fn read(table: &Table) -> Option<Vec<(u32, u64)>> {
        // SAFETY: it is a table of such, or must be recognised as none.
        unsafe { entries::<u64>(table) }
    }

    #[test]
    fn every_entry_of_a_table_is_read() {
        let second = entry(None, 1, 20);
        let first = entry(Some(&second), 0, 10);
        assert_eq!(read(&table(&first, 2)), Some(vec![(0, 10), (1, 20)]));
        let mut empty = table(&first, 0);
        empty.first = std::ptr::null();
        assert_eq!(read(&empty), Some(Vec::new()));
    }

    #[test]
    fn what_cannot_be_a_table_is_none() {
        let second = entry(None, 1, 20);
        let first = entry(Some(&second), 0, 10);
        assert_eq!(read(&table(&first, 1)), None, "more entries than it says");
        assert_eq!(read(&table(&first, 3)), None, "fewer");
        assert_eq!(read(&table(&first, 14)), None, "fuller than it may be");
        let mut other = table(&first, 2);
        other.max_load = 0.0;
        assert_eq!(read(&other), None);
        // SAFETY: it is seen that there is none.
        let none = unsafe { entries::<u64>(std::ptr::null()) };
        assert_eq!(none, None);
    }

    #[test]
    fn a_name_is_short_and_printable() {
        let view = |text: &'static str| View {
            length: text.len(),
            begin: text.as_ptr(),
        };
        assert_eq!(name(&(3, view("n300"))), Some((3, "n300".to_owned())));
        assert_eq!(name(&(3, view("n\n"))), None);
        let long = View {
            length: usize::MAX,
            begin: std::ptr::dangling(),
        };
        assert_eq!(name(&(3, long)), None);
    }
}
