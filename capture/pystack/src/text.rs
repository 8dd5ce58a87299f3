//! Python's strings.

use crate::layout::{
    Layout, TEXT_HASH, TEXT_IS_ASCII, TEXT_IS_COMPACT, TEXT_KIND_MASK, TEXT_KIND_SHIFT,
    TEXT_LENGTH, TEXT_STATE,
};
use crate::memory::Memory;

/// Characters that are read of one; file names can be as long as the program likes.
const MAX_CHARACTERS: usize = 4096;

/// A string; what is beyond [`MAX_CHARACTERS`] is left out. `None` if it is not one.
pub(crate) fn read<M: Memory>(memory: &M, layout: &Layout, at: usize) -> Option<String> {
    let (data, characters, width) = place(memory, layout, at)?;
    let characters = characters.min(MAX_CHARACTERS);
    let mut bytes = Vec::new();
    memory.bytes(data, characters * width, &mut bytes)?;
    let code = |unit: &[u8]| match *unit {
        [a] => u32::from(a),
        [a, b] => u32::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
        _ => 0,
    };
    // A lone surrogate is no character; such names exist for files that are not in UTF-8.
    let character = |unit| char::from_u32(code(unit)).unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(bytes.chunks_exact(width).map(character).collect())
}

/// Where a string's characters lie, how many there are, and how wide each is.
fn place<M: Memory>(memory: &M, layout: &Layout, at: usize) -> Option<(usize, usize, usize)> {
    let state: u32 = memory.number(at + TEXT_STATE)?;
    let characters: usize = memory.number(at + TEXT_LENGTH)?;
    if state & TEXT_IS_COMPACT == 0 {
        return None;
    }
    let width = match state >> TEXT_KIND_SHIFT & TEXT_KIND_MASK {
        width @ (1 | 2 | 4) => width as usize,
        _ => return None,
    };
    let header = if state & TEXT_IS_ASCII == 0 {
        layout.compact_header
    } else {
        layout.ascii_header
    };
    Some((at + header, characters, width))
}

/// A number that differs between strings: Python's own hash where it was computed, as it was of names,
/// which are interned.
#[inline]
pub(crate) fn hash<M: Memory>(memory: &M, layout: &Layout, at: usize) -> Option<u64> {
    const NOT_COMPUTED: u64 = u64::MAX;
    match memory.number(at + TEXT_HASH)? {
        NOT_COMPUTED => end_hash(memory, layout, at),
        hash => Some(hash),
    }
}

/// A number from a string's length and its last bytes, where names of files differ; of what is no
/// plain string, its address.
fn end_hash<M: Memory>(memory: &M, layout: &Layout, at: usize) -> Option<u64> {
    const WORD: usize = 8;
    let Some((data, characters, width)) = place(memory, layout, at) else {
        return Some(at as u64);
    };
    let length = characters * width;
    let mut hash = characters as u64;
    for back in 1..=(length / WORD).min(8) {
        hash = crate::walk::mix(hash, memory.number(data + length - back * WORD)?);
    }
    if length < WORD {
        for byte in 0..length {
            hash = crate::walk::mix(hash, u64::from(memory.number::<u8>(data + byte)?));
        }
    }
    Some(hash)
}
