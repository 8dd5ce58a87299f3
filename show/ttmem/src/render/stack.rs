//! Frames of a native call stack, a line for each.
//!
//! A frame comes as `library+0xoffset symbol`, with the symbol as the linker has it. People know
//! functions by their C++ names; arguments say little more and are long, so they are left out.

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt;
use ttmem_tui::text::clip;

/// Bytes of a name that is written out: a short symbol can stand for one without an end.
const MAX_NAME_BYTES: usize = 4096;

/// Columns of a library and the offset in it; longer names of libraries are cut.
const PLACE_WIDTH: usize = 56;

const INDENT: usize = 6;

/// The line of a frame in `width` columns: the function, then the place.
pub(super) fn frame_line(frame: &str, width: usize) -> String {
    let (place, symbol) = frame.split_once(' ').unwrap_or((frame, ""));
    let place = clip(place, PLACE_WIDTH);
    let indent = " ".repeat(INDENT);
    if symbol.is_empty() {
        return format!("{indent}{place}\n");
    }
    let name = demangled(symbol).unwrap_or_else(|| symbol.to_owned());
    // A space and two parentheses.
    let taken = INDENT + place.chars().count() + 3;
    let name = clip(&name, width.saturating_sub(taken));
    format!("{indent}{name} ({place})\n")
}

/// The C++ name of a symbol, if it is one.
fn demangled(symbol: &str) -> Option<String> {
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut name = Bounded(String::new());
    // What did not fit any more is cut further by whoever shows it.
    let written = Symbol::new(symbol)
        .ok()?
        .structured_demangle(&mut name, &options);
    let is_whole = written.is_ok() || name.0.len() > MAX_NAME_BYTES / 2;
    is_whole.then_some(name.0).filter(|name| !name.is_empty())
}

/// A text that takes no more than it may.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.0.len() + more.len() > MAX_NAME_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(more);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: &str = "_ZN2tt8tt_metal10BufferImpl6createEPNS0_7IDeviceEmm";

    #[test]
    fn functions_have_their_names_and_places_stay_whole() {
        let line = frame_line(&format!("libtt_metal.so+0xc77141 {CREATE}"), 80);
        assert_eq!(
            line,
            "      tt::tt_metal::BufferImpl::create (libtt_metal.so+0xc77141)\n"
        );
        let python = frame_line("libpython3.10.so.1.0+0xc1e3c _PyObject_Call", 80);
        assert_eq!(
            python,
            "      _PyObject_Call (libpython3.10.so.1.0+0xc1e3c)\n"
        );
        assert_eq!(frame_line("_ttnn.so+0x10", 80), "      _ttnn.so+0x10\n");
        let long = format!("a.so+0x1 {}", "f".repeat(500));
        let line = frame_line(&long, 80);
        assert_eq!(line.trim_end().chars().count(), 80);
        assert!(line.ends_with("f… (a.so+0x1)\n"), "{line}");
    }

    #[test]
    fn what_a_stranger_sends_is_no_command_to_a_terminal_and_has_an_end() {
        let line = frame_line("a\u{1b}[2J+0x1 b\nc", 80);
        assert!(!line.contains('\u{1b}'), "{line:?}");
        assert_eq!(line.matches('\n').count(), 1, "{line:?}");
        // Every part doubles the one before it.
        let mut bomb = "_Z1fISt4pairIiiE".to_owned();
        for place in ["_", "0_", "1_", "2_", "3_", "4_", "5_", "6_", "7_"] {
            bomb.push_str(&format!("St4pairIS{place}S{place}E"));
        }
        bomb.push_str("EvT_");
        assert!(frame_line(&format!("a+0x1 {bomb}"), 160).len() < 400);
        for nonsense in ["_Z", "_ZN", "_ZN99999999999999999999x", "_ZN4ttnn", "::"] {
            let line = frame_line(&format!("a+0x1 {nonsense}"), 80);
            assert_eq!(line, format!("      {nonsense} (a+0x1)\n"));
        }
    }
}
