//! What events refer to by id: an append-only text of definitions.
//!
//! Equal definitions have one id. An entry is complete and published before its
//! id is given to anybody, so whoever sees an event can read what it refers to,
//! also after the death of the process. Looking up what is there takes no lock;
//! adding takes one, which only adders meet.

use crate::MAX_DICTIONARY_SEGMENTS;
use crate::index::{Index, PLACES};
#[cfg(not(loom))]
use crate::memory::{Memory, Zeroed};
use crate::published::Published;
use crate::sync::{AtomicU64, Mutex, Ordering, UnsafeCell};
use ttmem_event::wire::{
    DEFINITION_HEAD_BYTES as HEAD_BYTES, DEFINITION_ID_BYTES as ID_BYTES, DefinitionKind,
};

/// What a dictionary segment begins with.
pub const MAGIC: [u8; 8] = *b"TTMEMDIC";

/// The version of the layout.
pub const VERSION: u32 = 1;

/// Bytes before the first definition.
pub const HEADER_BYTES: usize = 64;

/// Bytes of a segment: more than the longest definition, little enough to cost nothing.
pub const SEGMENT_BYTES: usize = 1 << 20;

/// Segments that are never made for the sake of a text.
const KEPT_FROM_TEXTS: usize = 8;

/// The longest body without its id.
pub const MAX_BODY_BYTES: usize = u16::MAX as usize - ID_BYTES;

const _: () = assert!(MAX_DICTIONARY_SEGMENTS * SEGMENT_BYTES - 1 <= PLACES);

/// The words at the beginning of a segment.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct DictionaryHeader {
    magic: [u8; 8],
    pub(crate) version: u32,
    reserved: u32,
    pub(crate) published: AtomicU64,
    padding: [u64; 5],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<DictionaryHeader>() == HEADER_BYTES);
    assert!(std::mem::offset_of!(DictionaryHeader, published) == 16);
};

impl DictionaryHeader {
    /// The header of an empty segment.
    pub(crate) fn new() -> Self {
        Self {
            magic: MAGIC,
            version: VERSION,
            reserved: 0,
            published: AtomicU64::new(0),
            padding: [0; 5],
        }
    }
}

#[derive(Debug)]
#[repr(transparent)]
pub struct ByteCell(UnsafeCell<u8>);

// SAFETY: a cell is written once, by whoever holds the writer's lock, before `published` passes it
// (SYNC(define)), and only read afterwards.
#[expect(unsafe_code, reason = "append-only: what is shared is not written")]
unsafe impl Sync for ByteCell {}

// SAFETY: any byte is a byte.
#[cfg(not(loom))]
#[expect(unsafe_code, reason = "a byte may be zero")]
unsafe impl Zeroed for ByteCell {}

/// A piece of the dictionary, wherever it lies; it stays for ever.
#[derive(Debug)]
pub struct DictionarySegment {
    #[cfg(not(loom))]
    memory: Memory,
    header: &'static DictionaryHeader,
    cells: &'static [ByteCell],
}

impl DictionarySegment {
    /// A segment for as long as the process lives; `None` when there is no memory for it.
    #[cfg(not(loom))]
    #[must_use]
    pub fn create() -> Option<&'static Self> {
        let cells = SEGMENT_BYTES - HEADER_BYTES;
        let created = Memory::create("ttmem-dictionary", DictionaryHeader::new(), cells);
        let (memory, header, cells) = created.ok()?;
        Some(Box::leak(Box::new(Self {
            memory,
            header,
            cells,
        })))
    }

    /// A small segment.
    #[cfg(all(loom, test))]
    pub(crate) fn with_bytes<const BYTES: usize>() -> Option<&'static Self> {
        let header = Box::leak(Box::new(DictionaryHeader::new()));
        let cells = std::array::from_fn::<_, BYTES, _>(|_cell| ByteCell(UnsafeCell::new(0)));
        let cells = Box::leak(Box::new(cells));
        Some(Box::leak(Box::new(Self { header, cells })))
    }

    /// The memory, to be handed over.
    #[cfg(not(loom))]
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// How many bytes of definitions are complete.
    #[must_use]
    pub fn published(&self) -> usize {
        // SYNC(define): the cells before it are written.
        let published = self.header.published.load(Ordering::Acquire);
        usize::try_from(published)
            .unwrap_or(0)
            .min(self.cells.len())
    }

    /// Appends the published bytes from `from` on to `out`; returns where they end.
    pub fn copy(&self, from: usize, out: &mut Vec<u8>) -> usize {
        let until = self.published();
        if let Some(cells) = self.cells.get(from..until) {
            out.extend(cells.iter().map(read));
        }
        until
    }

    fn byte(&self, at: usize) -> u8 {
        self.cells.get(at).map_or(0, read)
    }

    /// Adds bytes after those that are published; false when they do not fit.
    fn append(&self, parts: &[&[u8]]) -> bool {
        let start = self.published();
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let Some(cells) = self.cells.get(start..start + bytes) else {
            return false;
        };
        for (cell, byte) in cells.iter().zip(parts.iter().copied().flatten()) {
            cell.0.with_mut(|cell| {
                // SAFETY: nobody reads beyond `published`, and only the holder of the writer's
                // lock writes there.
                #[expect(unsafe_code, reason = "writes what is not shared yet")]
                unsafe {
                    *cell = *byte;
                }
            });
        }
        // SYNC(define): the cells are written.
        self.header
            .published
            .store((start + bytes) as u64, Ordering::Release);
        true
    }
}

fn read(cell: &ByteCell) -> u8 {
    cell.0.with(|cell| {
        // SAFETY: callers read below `published` only, where nobody writes any more.
        #[expect(unsafe_code, reason = "reads what no longer changes")]
        unsafe {
            *cell
        }
    })
}

/// All definitions of a process.
#[derive(Debug)]
pub struct Dictionary {
    segments: [Published<DictionarySegment>; MAX_DICTIONARY_SEGMENTS],
    index: Index,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    segment_count: usize,
    last_ids: [u32; DefinitionKind::ALL.len()],
    /// Makes the next segment; `None` when there is no more memory.
    make: fn() -> Option<&'static DictionarySegment>,
}

impl Dictionary {
    /// An empty dictionary that makes its segments by `make`.
    #[must_use]
    pub fn new(make: fn() -> Option<&'static DictionarySegment>) -> Self {
        Self {
            segments: std::array::from_fn(|_segment| Published::unset()),
            index: Index::new(),
            writer: Mutex::new(Writer {
                segment_count: 0,
                last_ids: [0; DefinitionKind::ALL.len()],
                make,
            }),
        }
    }

    /// Makes the first segment, which can then be handed over before anything is defined; false when
    /// there is no memory for it.
    pub fn prepare(&self) -> bool {
        let writer = self.writer.lock();
        writer.is_ok_and(|mut writer| writer.segment_count > 0 || self.add_segment(&mut writer))
    }

    /// Adds a segment after the last one; false when there is no memory for it.
    fn add_segment(&self, writer: &mut Writer) -> bool {
        let Some(segment) = (writer.make)() else {
            return false;
        };
        self.segments[writer.segment_count].set(segment);
        writer.segment_count += 1;
        true
    }

    pub fn segments(&self) -> impl Iterator<Item = &'static DictionarySegment> + '_ {
        (0..MAX_DICTIONARY_SEGMENTS).map_while(|number| self.segment(number))
    }

    /// The id of a definition, added if it is new; 0 when there is no room for it.
    ///
    /// The body is what the wire has after the id; there is none for one that is too long.
    pub fn id(&self, kind: DefinitionKind, body: &[u8]) -> u32 {
        if body.len() > MAX_BODY_BYTES {
            return 0;
        }
        let hash = hash(kind, body);
        match self.find(hash, kind, body) {
            Some(id) => id,
            None => self.add(hash, kind, body),
        }
    }

    fn segment(&self, number: usize) -> Option<&'static DictionarySegment> {
        self.segments.get(number)?.get()
    }

    fn find(&self, hash: u64, kind: DefinitionKind, body: &[u8]) -> Option<u32> {
        let place = self.index.find(hash, |place| {
            self.segment(place / SEGMENT_BYTES)
                .is_some_and(|segment| holds(segment, place % SEGMENT_BYTES, kind, body))
        })?;
        let segment = self.segment(place / SEGMENT_BYTES)?;
        let at = place % SEGMENT_BYTES + HEAD_BYTES;
        Some(u32::from_le_bytes(std::array::from_fn(|byte| {
            segment.byte(at + byte)
        })))
    }

    #[cold]
    fn add(&self, hash: u64, kind: DefinitionKind, body: &[u8]) -> u32 {
        let Ok(mut writer) = self.writer.lock() else {
            return 0;
        };
        // Somebody else may have been faster.
        if let Some(id) = self.find(hash, kind, body) {
            return id;
        }
        let Some(id) = writer.last_ids[kind as usize - 1].checked_add(1) else {
            return 0;
        };
        let length = u16::try_from(ID_BYTES + body.len()).unwrap_or(u16::MAX);
        let length = length.to_le_bytes();
        let head = [kind as u8, length[0], length[1]];
        let id_bytes = id.to_le_bytes();
        let parts: [&[u8]; 3] = [&head, &id_bytes, body];
        loop {
            let last = writer.segment_count.checked_sub(1);
            if let Some((number, segment)) = last.and_then(|n| Some((n, self.segment(n)?))) {
                let place = number * SEGMENT_BYTES + segment.published();
                if segment.append(&parts) {
                    writer.last_ids[kind as usize - 1] = id;
                    self.index.insert(hash, place);
                    return id;
                }
            }
            // Names must not crowd out what totals depend on.
            let most = match kind {
                DefinitionKind::Text => MAX_DICTIONARY_SEGMENTS - KEPT_FROM_TEXTS,
                DefinitionKind::Cores | DefinitionKind::Device | DefinitionKind::Mesh => {
                    MAX_DICTIONARY_SEGMENTS
                }
            };
            if writer.segment_count >= most {
                return 0;
            }
            if !self.add_segment(&mut writer) {
                return 0;
            }
        }
    }
}

/// Whether the entry at this place is that definition, whatever its id.
fn holds(segment: &DictionarySegment, at: usize, kind: DefinitionKind, body: &[u8]) -> bool {
    let length = [segment.byte(at + 1), segment.byte(at + 2)];
    if segment.byte(at) != kind as u8
        || usize::from(u16::from_le_bytes(length)) != ID_BYTES + body.len()
    {
        return false;
    }
    let start = at + HEAD_BYTES + ID_BYTES;
    let cells = segment.cells.get(start..start + body.len());
    cells.is_some_and(|cells| {
        cells
            .iter()
            .zip(body)
            .all(|(cell, byte)| read(cell) == *byte)
    })
}

/// Eight bytes at a time; names are short and come from this process alone.
fn hash(kind: DefinitionKind, body: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |state: u64, word: u64| (state ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let (words, rest) = body.as_chunks::<8>();
    let mut state = mix(kind as u64, body.len() as u64);
    for word in words {
        state = mix(state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    state = mix(state, u64::from_le_bytes(last));
    state ^ (state >> 32)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use ttmem_event::wire::Frame;
    use ttmem_event::{Definition, TextId};

    fn definitions(dictionary: &Dictionary) -> Vec<Definition> {
        let mut all = Vec::new();
        for segment in dictionary.segments() {
            let mut bytes = Vec::new();
            segment.copy(0, &mut bytes);
            let Ok(Frame::Define(definitions)) = Frame::decode(2, &bytes) else {
                panic!("not definitions");
            };
            all.extend(definitions.map(Result::unwrap));
        }
        all
    }

    #[test]
    fn equal_definitions_have_one_id_and_are_written_once() {
        let dictionary = Dictionary::new(DictionarySegment::create);
        let matmul = dictionary.id(DefinitionKind::Text, b"matmul");
        let softmax = dictionary.id(DefinitionKind::Text, b"softmax");
        assert_eq!((matmul, softmax), (1, 2));
        assert_eq!(dictionary.id(DefinitionKind::Text, b"matmul"), 1);
        // Kinds are counted apart.
        assert_eq!(dictionary.id(DefinitionKind::Cores, &[0; 8]), 1);
        let texts = [(1, "matmul"), (2, "softmax")].map(|(id, text)| Definition::Text {
            id: TextId(id),
            text: text.to_owned(),
        });
        let all = definitions(&dictionary);
        assert_eq!(all[..2], texts);
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn a_definition_that_does_not_fit_begins_another_segment() {
        let dictionary = Dictionary::new(DictionarySegment::create);
        let long = vec![b'x'; MAX_BODY_BYTES];
        for number in 0..40_u8 {
            let mut text = long.clone();
            text[0] = b'a' + number % 26;
            text[1] = b'a' + number / 26;
            assert_eq!(
                dictionary.id(DefinitionKind::Text, &text),
                u32::from(number) + 1
            );
        }
        assert_eq!(dictionary.segments().count(), 3);
        assert_eq!(definitions(&dictionary).len(), 40);
        let mut again = long;
        again[..2].copy_from_slice(b"bb");
        assert_eq!(dictionary.id(DefinitionKind::Text, &again), 28);
    }

    #[test]
    fn names_do_not_crowd_out_what_totals_depend_on() {
        let dictionary = Dictionary::new(DictionarySegment::create);
        let mut text = vec![b'x'; MAX_BODY_BYTES];
        let mut texts: u32 = 0;
        while dictionary.id(DefinitionKind::Text, &text) != 0 {
            texts += 1;
            text[..4].copy_from_slice(&texts.to_le_bytes());
        }
        assert!(texts > 800, "only {texts}");
        let count = dictionary.segments().count();
        assert_eq!(count, MAX_DICTIONARY_SEGMENTS - KEPT_FROM_TEXTS);
        assert_eq!(dictionary.id(DefinitionKind::Cores, &[0; 8]), 1);
    }

    #[test]
    fn what_is_too_long_for_a_definition_has_no_id() {
        let dictionary = Dictionary::new(DictionarySegment::create);
        let long = vec![0; MAX_BODY_BYTES + 1];
        assert_eq!(dictionary.id(DefinitionKind::Mesh, &long), 0);
    }

    #[test]
    fn without_memory_there_is_no_id() {
        let dictionary = Dictionary::new(|| None);
        assert_eq!(dictionary.id(DefinitionKind::Text, b"matmul"), 0);
        assert_eq!(dictionary.segments().count(), 0);
    }

    #[test]
    fn threads_that_define_the_same_agree() {
        let dictionary = Dictionary::new(DictionarySegment::create);
        let ids: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_thread| {
                    scope.spawn(|| {
                        (0..5000_u32)
                            .map(|name| {
                                dictionary.id(DefinitionKind::Text, &(name / 2).to_le_bytes())
                            })
                            .collect()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
        let mut bytes = Vec::new();
        let written: usize = dictionary.segments().map(|s| s.copy(0, &mut bytes)).sum();
        assert_eq!(written, 2500 * (HEAD_BYTES + ID_BYTES + 4));
    }
}
