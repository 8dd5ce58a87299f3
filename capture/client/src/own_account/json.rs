//! JSON, written by hand: no serde comes into other people's processes.

use super::AskError;
use std::fmt::{self, Write};
use ttmem_ring::heap::Heap;

/// Writes an object or a list: what separates its parts is written once they are there.
///
/// Where the system has no memory for more, nothing more is written: the process is somebody else's,
/// and must not end because of it.
#[derive(Default)]
pub(super) struct Json {
    text: String,
    is_cut: bool,
}

impl Write for Json {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.put(part);
        Ok(())
    }
}

impl Json {
    /// The document, if it is whole.
    pub(super) fn finish(self) -> Result<Box<[u8]>, AskError> {
        if self.is_cut {
            return Err(AskError::NoMemory);
        }
        boxed(self.text.as_bytes())
    }

    fn put(&mut self, part: &str) {
        self.is_cut =
            self.is_cut || Heap::is_exhausted() || self.text.try_reserve(part.len()).is_err();
        if !self.is_cut {
            self.text.push_str(part);
        }
    }

    fn separate(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(['{', '[', ':']) {
            self.put(",");
        }
    }

    pub(super) fn key(&mut self, key: &str) -> &mut Self {
        self.text(key);
        self.put(":");
        self
    }

    pub(super) fn number(&mut self, number: u64) {
        self.separate();
        // Writing to a text cannot fail.
        let _fits = write!(self, "{number}");
    }

    pub(super) fn maybe(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.number(number),
            None => self.null(),
        }
    }

    pub(super) fn flag(&mut self, is: bool) {
        self.separate();
        self.put(if is { "true" } else { "false" });
    }

    pub(super) fn null(&mut self) {
        self.separate();
        self.put("null");
    }

    pub(super) fn text(&mut self, text: &str) {
        self.separate();
        self.put("\"");
        for letter in text.chars() {
            match letter {
                '"' => self.put("\\\""),
                '\\' => self.put("\\\\"),
                '\n' => self.put("\\n"),
                control if control < ' ' => {
                    let _fits = write!(self, "\\u{:04x}", u32::from(control));
                }
                letter => self.put(letter.encode_utf8(&mut [0; 4])),
            }
        }
        self.put("\"");
    }

    pub(super) fn object(&mut self, fill: impl FnOnce(&mut Self)) {
        self.enclose(["{", "}"], fill);
    }

    pub(super) fn list(&mut self, fill: impl FnOnce(&mut Self)) {
        self.enclose(["[", "]"], fill);
    }

    fn enclose(&mut self, brackets: [&str; 2], fill: impl FnOnce(&mut Self)) {
        self.separate();
        self.put(brackets[0]);
        fill(self);
        self.put(brackets[1]);
    }
}

/// A copy that takes no more than its length.
pub(crate) fn boxed(bytes: &[u8]) -> Result<Box<[u8]>, AskError> {
    let mut copy = Vec::new();
    let reserved = copy.try_reserve_exact(bytes.len());
    reserved.map_err(|_none| AskError::NoMemory)?;
    copy.extend_from_slice(bytes);
    Ok(copy.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_was_cut_is_none() {
        let json = Json {
            is_cut: true,
            ..Json::default()
        };
        assert_eq!(json.finish(), Err(AskError::NoMemory));
    }

    #[test]
    fn texts_are_escaped_and_parts_are_separated() {
        let mut json = Json::default();
        json.object(|json| {
            json.key("a \"b\"\\").text("x\ny\u{1}");
            json.key("c").list(|json| {
                json.number(1);
                json.null();
                json.list(|_empty| {});
                json.object(|_empty| {});
            });
            // A text that ends as an opening bracket does.
            json.key("d[").text("{");
            json.key("e").maybe(Some(2));
            json.key("f").flag(true);
        });
        let expected = r#"{"a \"b\"\\":"x\ny\u0001","c":[1,null,[],{}],"d[":"{","e":2,"f":true}"#;
        assert_eq!(&*json.finish().unwrap(), expected.as_bytes());
    }
}
