//! Writing one JSON object at the end of a text, key by key.
//!
//! Every method appends and none keeps anything, so a line costs no allocation but the growth of
//! the text. Keys and words are the program's own and need no escaping; texts may be anything.

use std::fmt::{self, Write as _};

use ttmem_api::Timestamp;

/// An object that is being written.
#[derive(Debug)]
pub(super) struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> Object<'a> {
    fn open(out: &'a mut String) -> Self {
        out.push('{');
        Self {
            out,
            is_empty: true,
        }
    }

    /// Begins a log line: an object whose first key is its time.
    pub(super) fn line(out: &'a mut String, time_nanos: u64) -> Self {
        let mut object = Self::open(out);
        object.key("time");
        object.put(format_args!(
            "\"{}\"",
            Timestamp::from_unix_nanos(time_nanos)
        ));
        object
    }

    /// Ends the object and its line.
    pub(super) fn end_line(self) {
        self.out.push_str("}\n");
    }

    fn put(&mut self, value: fmt::Arguments<'_>) {
        self.out.write_fmt(value).expect("a String takes any text");
    }

    fn key(&mut self, name: &str) {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
    }

    /// An integer, or `null`.
    pub(super) fn number(&mut self, name: &str, number: Option<impl Into<i128> + fmt::Display>) {
        self.key(name);
        match number {
            Some(number) => self.put(format_args!("{number}")),
            None => self.out.push_str("null"),
        }
    }

    /// What is not known.
    pub(super) fn null(&mut self, name: &str) {
        self.key(name);
        self.out.push_str("null");
    }

    /// Yes or no.
    pub(super) fn flag(&mut self, name: &str, flag: bool) {
        self.key(name);
        self.out.push_str(if flag { "true" } else { "false" });
    }

    /// A 64-bit id, as a string: doubles hold only 53 bits of it.
    pub(super) fn hex(&mut self, name: &str, id: u64) {
        self.key(name);
        self.put(format_args!("\"{id:#x}\""));
    }

    /// A word of the program's own.
    pub(super) fn word(&mut self, name: &str, word: &'static str) {
        self.key(name);
        self.out.push('"');
        self.out.push_str(word);
        self.out.push('"');
    }

    /// A type's name in the way of JSON: `TraceBegan` as `trace_began`.
    pub(super) fn snake_case(&mut self, name: &str, camel_case: &'static str) {
        self.key(name);
        self.out.push('"');
        for (place, character) in camel_case.char_indices() {
            if character.is_ascii_uppercase() && place > 0 {
                self.out.push('_');
            }
            self.out.push(character.to_ascii_lowercase());
        }
        self.out.push('"');
    }

    /// Any text.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.key(name);
        push_text(self.out, text);
    }

    /// A list of texts.
    pub(super) fn texts<T: AsRef<str>>(&mut self, name: &str, texts: impl IntoIterator<Item = T>) {
        self.key(name);
        self.out.push('[');
        for (place, text) in texts.into_iter().enumerate() {
            if place > 0 {
                self.out.push(',');
            }
            push_text(self.out, text.as_ref());
        }
        self.out.push(']');
    }

    /// An object inside this one.
    pub(super) fn nested(&mut self, name: &str, write: impl FnOnce(&mut Object<'_>)) {
        self.key(name);
        let mut inner = Object::open(self.out);
        write(&mut inner);
        self.out.push('}');
    }

    /// A list of objects.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        items: &[T],
        mut write: impl FnMut(&mut Object<'_>, &T),
    ) {
        self.key(name);
        self.out.push('[');
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                self.out.push(',');
            }
            let mut inner = Object::open(self.out);
            write(&mut inner, item);
            self.out.push('}');
        }
        self.out.push(']');
    }
}

fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control if control.is_control() => {
                // Every control character lies below U+00A0: four digits hold it.
                write!(out, "\\u{:04x}", u32::from(control)).expect("a String takes any text");
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives() {
        let all: String = (0..=0x2100).filter_map(char::from_u32).collect();
        let mut line = String::new();
        let mut object = Object::line(&mut line, 0);
        object.text("text", &all);
        object.texts("texts", ["", "\"\\\n\u{7f}\u{10ffff}"]);
        object.end_line();
        assert!(!line.trim_end().contains(char::is_control));
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["text"], all);
        assert_eq!(json["texts"][1], "\"\\\n\u{7f}\u{10ffff}");
    }

    #[test]
    fn nested_objects_and_lists() {
        let mut line = String::new();
        let mut object = Object::line(&mut line, 1);
        object.nested("empty", |_| {});
        object.nested("inner", |inner| {
            inner.number("most", Some(u64::MAX));
            inner.number("least", Some(i32::MIN));
            inner.number("none", None::<u32>);
            inner.flag("flag", true);
            inner.hex("id", 0);
        });
        object.list("list", &[1_u32, 2], |inner, item| {
            inner.number("n", Some(*item));
        });
        object.snake_case("name", "L1PeakSeen");
        object.null("nothing");
        object.end_line();
        assert_eq!(
            line,
            "{\"time\":\"1970-01-01T00:00:00.000000001Z\",\"empty\":{},\"inner\":{\"most\":\
             18446744073709551615,\"least\":-2147483648,\"none\":null,\"flag\":true,\
             \"id\":\"0x0\"},\"list\":[{\"n\":1},{\"n\":2}],\"name\":\"l1_peak_seen\",\
             \"nothing\":null}\n"
        );
    }
}
