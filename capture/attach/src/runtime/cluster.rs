//! What the runtime's description of the machine says of its chips.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::unordered_map::{UnorderedMap, entries};
use super::{Object, accessors};
use crate::family::Unsupported;
use crate::symbols;
use std::ffi::CStr;
use std::sync::LazyLock;

accessors! {
    struct Functions {
        unique_ids: fn(Object) -> *const UnorderedMap = c"_ZNK2tt3umd17ClusterDescriptor19get_chip_unique_idsEv";
        are_authentic: fn(Object) -> bool = c"_ZNK2tt3umd17ClusterDescriptor29has_authentic_chip_unique_idsEv";
    }
}

const BOARD_NAMES: &CStr = c"_ZN2tt29board_type_canonical_name_mapE";

/// What is asked of the description of the machine.
#[derive(Debug)]
pub(crate) struct ClusterAccessors {
    functions: Functions,
    boards: Vec<(u32, String)>,
}

pub(crate) static ACCESSORS: LazyLock<Result<ClusterAccessors, Unsupported>> =
    LazyLock::new(|| {
        Ok(ClusterAccessors {
            // SAFETY: the loader gives the function of each name.
            functions: unsafe { Functions::find(symbols::find) }?,
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
        let names = unsafe { entries::<Entry<View>>(table.as_ptr().cast()) }?;
        names.iter().map(name).collect()
    })
}

/// No board has a longer name.
const MAX_NAME_BYTES: usize = 64;

/// What is known by a number of 32 bits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Entry<V> {
    key: u32,
    value: V,
}

const _: () = assert!(std::mem::offset_of!(Entry<u64>, value) == 8);

/// `std::string_view`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct View {
    length: usize,
    begin: *const u8,
}

/// A code with its name; none if the name cannot be one.
fn name(board: &Entry<View>) -> Option<(u32, String)> {
    let view = board.value;
    if view.begin.is_null() || view.length > MAX_NAME_BYTES {
        return None;
    }
    // SAFETY: the views of the table are of texts that are part of its library.
    let bytes = unsafe { std::slice::from_raw_parts(view.begin, view.length) };
    let name = std::str::from_utf8(bytes).ok()?;
    let sensible = name.bytes().all(|byte| byte.is_ascii_graphic());
    sensible.then(|| (board.key, name.to_owned()))
}

impl ClusterAccessors {
    /// The id of a chip that no other chip has.
    ///
    /// None where the runtime has made it up; a doubt if its ids are kept in another way.
    pub(crate) fn unique_id(
        &self,
        descriptor: Object,
        chip: u32,
    ) -> Result<Option<u64>, Unsupported> {
        if !(self.functions.are_authentic)(descriptor) {
            return Ok(None);
        }
        // SAFETY: the map is a member of the descriptor, which the runtime itself reads now; its
        // values are ids.
        let ids = unsafe { entries::<Entry<u64>>((self.functions.unique_ids)(descriptor)) };
        let odd = Unsupported::Unexpected("the ids of chips are laid out in another way");
        let ids = ids.ok_or(odd)?;
        let own = ids.iter().find(|entry| entry.key == chip);
        Ok(own.map(|entry| entry.value).filter(|id| *id != 0))
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

    #[test]
    fn a_name_is_short_and_printable() {
        let entry = |length, begin| Entry {
            key: 3,
            value: View { length, begin },
        };
        let view = |text: &'static str| entry(text.len(), text.as_ptr());
        assert_eq!(name(&view("n300")), Some((3, "n300".to_owned())));
        assert_eq!(name(&view("n\n")), None);
        assert_eq!(name(&entry(usize::MAX, std::ptr::dangling())), None);
    }
}
