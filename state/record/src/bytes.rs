//! Numbers and texts of a block, read front to back.
//!
//! Numbers are in groups of seven bits, the lowest first; what may be missing has a byte before it.

use std::cell::RefCell;
use std::sync::Arc;
use ttmem_account::state::codec::Room;

/// What a shared text takes besides its bytes.
const TEXT_BYTES: usize = 48;

pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = (number & 0x7f).to_le_bytes()[0];
        number >>= 7;
        if number == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_optional<T>(
    out: &mut Vec<u8>,
    value: Option<T>,
    put: impl FnOnce(&mut Vec<u8>, T),
) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) rest: &'a [u8],
    /// Whatever is made of the bytes is drawn here.
    room: Option<&'a RefCell<Room>>,
}

impl<'a> Cursor<'a> {
    #[cfg(test)]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            room: None,
        }
    }

    /// Reads bytes that may come to so much.
    pub(crate) fn within(bytes: &'a [u8], room: &'a RefCell<Room>) -> Self {
        Self {
            rest: bytes,
            room: Some(room),
        }
    }

    /// Reads other bytes in the same room.
    pub(crate) fn part(&self, bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            ..*self
        }
    }

    /// Draws memory before it is reserved; none if there is no more.
    pub(crate) fn draw(&self, bytes: usize) -> Option<()> {
        match self.room {
            Some(room) => room.borrow_mut().draw(bytes),
            None => Some(()),
        }
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for group in 0..10 {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if group == 9 && bits > 1 {
                return None;
            }
            number |= bits << (7 * group);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.small()?;
        self.take(count)
    }

    pub(crate) fn text(&mut self) -> Option<Arc<str>> {
        let text = std::str::from_utf8(self.bytes()?).ok()?;
        self.draw(text.len() + TEXT_BYTES)?;
        Some(Arc::from(text))
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _other => None,
        }
    }

    pub(crate) fn optional<T>(
        &mut self,
        get: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        Some(if self.flag()? { Some(get(self)?) } else { None })
    }

    /// A list; nothing is reserved for its length, which comes from outside.
    pub(crate) fn list<T>(&mut self, get: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.list_up_to(u64::MAX, get)
    }

    /// The same; none if it is longer than this.
    pub(crate) fn list_up_to<T>(
        &mut self,
        most: u64,
        mut get: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.number()?;
        if count > most {
            return None;
        }
        let mut list = Vec::new();
        for _item in 0..count {
            // A list that grows has room for twice as many.
            self.draw(2 * size_of::<T>())?;
            list.push(get(self)?);
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_what_is_too_long_is_none() {
        for number in [0, 1, 127, 128, 300, 1 << 35, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.number(), Some(number));
            assert!(cursor.rest.is_empty());
        }
        assert_eq!(Cursor::new(&[0xff; 11]).number(), None);
        assert_eq!(Cursor::new(&[0x80]).number(), None);
    }
}
