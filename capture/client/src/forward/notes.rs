//! The note of this copy, and those of the other copies among the loaded objects.

#![expect(
    unsafe_code,
    reason = "assembles the note, and reads what the loader has mapped"
)]

use super::{LAYOUT_HASH, OWN, Table, VERSION};
use crate::client::PAGE;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use ttmem_ring::page::{Page, Rival};

/// The name in the note, with the zero that ends it.
const NAME: &[u8] = b"ttmem\0";

/// Bytes before the name of a note: the lengths of name and content, and the type.
const HEAD_BYTES: usize = 12;

// Distances, not addresses: they need no relocation, so that the note is right before the loader
// has come to its object, and stays in read-only memory.
std::arch::global_asm!(
    ".pushsection .note.ttmem, \"a\", %note",
    ".balign 4",
    ".long 6, 24, {version}",
    ".asciz \"ttmem\"",
    ".balign 4",
    ".hidden {page}",
    ".hidden {table}",
    ".quad {page} - .",
    ".quad {table} - .",
    ".quad {layout}",
    ".popsection",
    version = const VERSION,
    page = sym PAGE,
    table = sym OWN,
    layout = const LAYOUT_HASH,
);

/// Another copy of this library, for as long as the loader lists it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedCopy<'l> {
    /// The first word of its page.
    claim: &'l AtomicU32,
    /// `None` if it is of another version. It stays if the copy runs: that one is pinned before.
    pub(super) table: Option<&'static Table>,
}

impl LoadedCopy<'_> {
    pub(super) fn rival(&self) -> Rival {
        Rival::of(self.claim)
    }

    /// Of two that would do the work.
    pub(super) fn goes_first(&self) -> bool {
        self.address() < PAGE.address()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self.claim).addr()
    }
}

/// Calls `look` for every other copy, while the loader keeps all of them loaded.
pub(super) fn for_each_copy(mut look: impl FnMut(&LoadedCopy<'_>)) {
    for_each_note(|content, object| {
        if let Some(copy) = read_copy(content, object)
            && copy.address() != PAGE.address()
        {
            look(&copy);
        }
    });
}

/// The parts of a loaded object that can be read, as the loader placed them.
#[derive(Debug)]
struct Object<'l> {
    info: &'l libc::dl_phdr_info,
}

impl<'l> Object<'l> {
    fn segments(&self) -> &'l [libc::Elf64_Phdr] {
        if self.info.dlpi_phdr.is_null() {
            return &[];
        }
        // SAFETY: the loader's own table, which is there while its callback runs.
        unsafe { std::slice::from_raw_parts(self.info.dlpi_phdr, self.info.dlpi_phnum.into()) }
    }

    fn range(&self, segment: &libc::Elf64_Phdr) -> Option<Range<usize>> {
        let start = self.info.dlpi_addr.wrapping_add(segment.p_vaddr);
        let end = start.checked_add(segment.p_memsz)?;
        Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// Whether so many bytes at an address are memory of this object with these permissions.
    fn holds(&self, address: usize, bytes: usize, flags: u32) -> bool {
        let Some(end) = address.checked_add(bytes) else {
            return false;
        };
        self.segments().iter().any(|segment| {
            segment.p_type == libc::PT_LOAD
                && segment.p_flags & flags == flags
                && self
                    .range(segment)
                    .is_some_and(|range| range.start <= address && end <= range.end)
        })
    }

    /// A reference to something of this object, if all of it is inside and where it can be.
    fn get<T>(&self, address: usize, flags: u32) -> Option<*const T> {
        let fits = address.is_multiple_of(align_of::<T>());
        let held = fits && self.holds(address, size_of::<T>(), flags);
        held.then(|| std::ptr::with_exposed_provenance(address))
    }
}

/// Calls `look` with the content of every note of ours, and the object that it is in.
fn for_each_note(mut look: impl FnMut(Content<'_>, &Object<'_>)) {
    let mut look: &mut dyn FnMut(Content<'_>, &Object<'_>) = &mut look;
    let data = (&raw mut look).cast::<c_void>();
    // SAFETY: the callback gets the pointer to `look`, which outlives the call.
    unsafe {
        libc::dl_iterate_phdr(Some(look_at_object), data);
    }
}

/// What a note says, and its type.
#[derive(Clone, Copy, Debug)]
struct Content<'l> {
    kind: u32,
    bytes: &'l [u8],
}

/// Called by the loader for each object.
///
/// # Safety
/// Only for [`for_each_note`].
unsafe extern "C" fn look_at_object(
    info: *mut libc::dl_phdr_info,
    _bytes: usize,
    data: *mut c_void,
) -> c_int {
    type Look<'a> = &'a mut dyn FnMut(Content<'_>, &Object<'_>);
    // SAFETY: `for_each_note` passes this, and nobody else calls.
    let look = unsafe { &mut *data.cast::<Look<'_>>() };
    // SAFETY: the loader passes what it knows of an object, for as long as this call.
    let info = unsafe { &*info };
    let object = Object { info };
    for segment in object.segments() {
        let range = object.range(segment).filter(|range| {
            segment.p_type == libc::PT_NOTE && object.holds(range.start, range.len(), libc::PF_R)
        });
        let Some(range) = range else {
            continue;
        };
        let start = std::ptr::with_exposed_provenance::<u8>(range.start);
        // SAFETY: inside a segment that the loader mapped readable, and does not unmap before
        // this call returns.
        let bytes = unsafe { std::slice::from_raw_parts(start, range.len()) };
        let alignment = if segment.p_align == 8 { 8 } else { 4 };
        for content in notes(bytes, alignment) {
            look(content, &object);
        }
    }
    0
}

/// The notes of ours among others.
fn notes(mut bytes: &[u8], alignment: usize) -> impl Iterator<Item = Content<'_>> {
    std::iter::from_fn(move || {
        loop {
            let (name, content) = take_note(&mut bytes, alignment)?;
            if name == NAME {
                return Some(content);
            }
        }
    })
}

/// Takes the first note off; `None` when there is no whole one.
fn take_note<'b>(bytes: &mut &'b [u8], alignment: usize) -> Option<(&'b [u8], Content<'b>)> {
    let number = |at: usize| {
        let four = bytes.get(at..at + 4)?.first_chunk().copied()?;
        Some(u32::from_ne_bytes(four))
    };
    let length = |at| usize::try_from(number(at)?).ok();
    let (name_bytes, content_bytes, kind) = (length(0)?, length(4)?, number(8)?);
    let content_at = HEAD_BYTES
        .checked_add(name_bytes)?
        .checked_next_multiple_of(alignment)?;
    let end = content_at.checked_add(content_bytes)?;
    let name = bytes.get(HEAD_BYTES..HEAD_BYTES + name_bytes)?;
    let content = Content {
        kind,
        bytes: bytes.get(content_at..end)?,
    };
    // The last one may lack its padding.
    *bytes = bytes
        .get(end.checked_next_multiple_of(alignment)?..)
        .unwrap_or_default();
    Some((name, content))
}

/// The copy that a note speaks of, if all that it refers to is in the note's own object.
fn read_copy<'l>(content: Content<'l>, object: &Object<'l>) -> Option<LoadedCopy<'l>> {
    let field = |at: usize| {
        let field = content.bytes.get(at..at + 8)?;
        let number = u64::from_ne_bytes(field.first_chunk().copied()?);
        Some((field.as_ptr().addr(), number))
    };
    let target = |at: usize| {
        let (place, distance) = field(at)?;
        Some(place.wrapping_add(usize::try_from(distance).ok()?))
    };
    let page = object.get::<Page<()>>(target(0)?, libc::PF_R | libc::PF_W)?;
    // SAFETY: inside a writable segment of a loaded object, aligned, and only ever used atomically.
    let claim = unsafe { &*page.cast::<AtomicU32>() };
    let is_ours = content.kind == VERSION && field(16)?.1 == LAYOUT_HASH;
    let table = is_ours.then(|| target(8)).flatten();
    let table = table.and_then(|at| object.get::<Table>(at, libc::PF_R));
    // SAFETY: inside a readable segment of a loaded object and aligned; by version and layout it is
    // such a table. Only that of a copy that runs is used after this, and that one stays loaded.
    let table = table.and_then(|table| unsafe { table.as_ref() });
    Some(LoadedCopy { claim, table })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_copy_has_one_note_which_leads_to_its_page_and_its_table() {
        let mut found = Vec::new();
        for_each_note(|content, object| {
            let copy = read_copy(content, object).unwrap();
            found.push((copy.address(), copy.table.map(std::ptr::from_ref)));
        });
        assert_eq!(found, [(PAGE.address(), Some(&raw const OWN))]);
        for_each_copy(|copy| panic!("found itself: {copy:?}"));
    }

    fn note(name: &[u8], content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [name.len(), content.len(), 7] {
            bytes.extend_from_slice(&u32::try_from(number).unwrap().to_ne_bytes());
        }
        for part in [name, content] {
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn a_note_is_found_among_others() {
        let bytes = [
            note(b"GNU\0", b"12345"),
            note(NAME, b"here"),
            note(b"", b""),
        ]
        .concat();
        let found: Vec<_> = notes(&bytes, 4)
            .map(|note| (note.kind, note.bytes))
            .collect();
        assert_eq!(found, [(7, &b"here"[..])]);
    }

    #[test]
    fn nothing_beyond_the_end_of_the_notes_is_read() {
        let whole = note(NAME, b"content");
        for length in 0..whole.len() - 1 {
            assert_eq!(notes(&whole[..length], 4).count(), 0, "{length}");
        }
        let mut endless = whole;
        endless[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(notes(&endless, 4).count(), 0);
    }
}
