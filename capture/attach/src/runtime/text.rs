//! `std::string` as it lies in memory.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::Object;

/// No text that is read here is longer: names and paths.
const MAX_BYTES: usize = 32 << 10;

/// `std::string`: its text, its length, and room for a short one.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Text {
    begin: *const u8,
    length: usize,
    short: [u8; 16],
}

impl Text {
    /// The text, if this looks like one.
    ///
    /// # Safety
    /// If it is a text, it is not changed meanwhile.
    pub(crate) unsafe fn read(&self) -> Option<String> {
        let is_short = self.begin == self.short.as_ptr();
        let sensible = self.length <= MAX_BYTES && (!is_short || self.length < self.short.len());
        if self.begin.is_null() || !sensible {
            return None;
        }
        // SAFETY: these are the text's own bytes, as the caller vouches.
        let bytes = unsafe { std::slice::from_raw_parts(self.begin, self.length) };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Gives back the memory of a text that is too long to be inside of its object.
    pub(crate) fn delete_by(&self, delete: extern "C-unwind" fn(Object)) {
        if self.begin != self.short.as_ptr() {
            delete(Object(self.begin.cast()));
        }
    }
}

pub(crate) fn text_at(text: Object) -> Option<String> {
    // SAFETY: a text lies where the runtime passed one.
    let text = unsafe { text.0.cast::<Text>().as_ref() }?;
    // SAFETY: nobody changes what the runtime has passed.
    unsafe { text.read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C-unwind" fn never(_memory: Object) {
        panic!("a short text has no memory of its own");
    }

    #[test]
    fn a_long_text_is_outside_of_its_object_and_a_short_one_inside() {
        let long = b"a text of more than fifteen bytes";
        let text = Text {
            begin: long.as_ptr(),
            length: long.len(),
            short: [0; 16],
        };
        let read = text_at(Object((&raw const text).cast()));
        assert_eq!(read.as_deref(), Some("a text of more than fifteen bytes"));
        let mut text = Text {
            begin: std::ptr::null(),
            length: 2,
            short: *b"ab..............",
        };
        // SAFETY: it is no text, which is seen.
        assert_eq!(unsafe { text.read() }, None);
        text.begin = text.short.as_ptr();
        // SAFETY: it is laid out as a text.
        assert_eq!(unsafe { text.read() }.as_deref(), Some("ab"));
        text.delete_by(never);
        text.length = 16;
        // SAFETY: it is no text, which is seen.
        assert_eq!(unsafe { text.read() }, None);
    }
}
