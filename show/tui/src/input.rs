//! Keys and pointers, from the bytes that a terminal sends.
//!
//! Own code instead of crossterm's reader: that one waits for readiness by edge, so a paste longer
//! than its buffer is seen half, and it reads a closed terminal again for ever.

use crate::theme::Background;

#[cfg(test)]
mod tests;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Key(Key),
    /// A letter of a pasted text: never a command.
    Pasted(char),
    Pointer(Pointer),
    /// The terminal's answer to [`ASK_BACKGROUND`].
    Background(Background),
}

/// Asks a terminal for the colour behind its text; most answer.
pub(crate) const ASK_BACKGROUND: &str = "\u{1b}]11;?\u{1b}\\";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Control(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) column: u16,
    pub(crate) row: u16,
    pub(crate) did: Gesture,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gesture {
    Click,
    WheelUp,
    WheelDown,
}

const ESCAPE: u8 = 0x1b;

/// No sequence that means anything here is longer.
const LONGEST: usize = 32;

/// Makes inputs of bytes, however they are cut into pieces.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// The beginning of a sequence or letter whose rest has not come yet.
    begun: Vec<u8>,
    pasting: bool,
}

enum Parsed {
    /// So many bytes mean this, or nothing.
    Whole(usize, Option<Input>),
    Incomplete,
}

impl Parser {
    /// Takes bytes in; what they mean, in order.
    ///
    /// A terminal sends a sequence in one piece, so an escape character at the end of the bytes is the
    /// key of that name.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Input> {
        self.begun.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.begun);
        let mut inputs = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match self.next(rest) {
                Parsed::Whole(length, input) => {
                    inputs.extend(input);
                    rest = &rest[length..];
                }
                Parsed::Incomplete if rest.len() < LONGEST => {
                    self.begun = rest.to_vec();
                    break;
                }
                Parsed::Incomplete => rest = &rest[1..],
            }
        }
        inputs
    }

    fn next(&mut self, bytes: &[u8]) -> Parsed {
        let key = |key| Parsed::Whole(1, Some(Input::Key(key)));
        match bytes {
            [ESCAPE, b'[', rest @ ..] => self.control_sequence(rest),
            [ESCAPE, b']', rest @ ..] => system_answer(rest),
            [ESCAPE, b'O', last, ..] => Parsed::Whole(3, cursor_key(*last).map(Input::Key)),
            [ESCAPE, b'O'] => Parsed::Incomplete,
            [_, ..] if self.pasting => pasted(bytes),
            [ESCAPE, ..] => key(Key::Escape),
            [b'\r' | b'\n', ..] => key(Key::Enter),
            [b'\t', ..] => key(Key::Tab),
            [0x7f | 0x08, ..] => key(Key::Backspace),
            [code @ 0x01..=0x1a, ..] => key(Key::Control(char::from(code - 1 + b'a'))),
            [0..0x20, ..] => Parsed::Whole(1, None),
            _text => letter(bytes, |letter| Input::Key(Key::Char(letter))),
        }
    }

    /// A sequence behind its `ESC [`: parameters, then a last byte that says what it is.
    fn control_sequence(&mut self, bytes: &[u8]) -> Parsed {
        let Some(end) = bytes.iter().position(|byte| (0x40..0x7f).contains(byte)) else {
            return Parsed::Incomplete;
        };
        let (parameters, last) = (&bytes[..end], bytes[end]);
        let input = match (parameters, last) {
            (b"200", b'~') => {
                self.pasting = true;
                None
            }
            (b"201", b'~') => {
                self.pasting = false;
                None
            }
            ([b'<', parameters @ ..], b'M') => pointer(parameters).map(Input::Pointer),
            (parameters, b'~') => tilde_key(parameters).map(Input::Key),
            (_modifiers, last) => cursor_key(last).map(Input::Key),
        };
        Parsed::Whole(end + 3, input.filter(|_| !self.pasting))
    }
}

/// What a terminal answers, behind `ESC ]`: up to a bell, or `ESC \`.
fn system_answer(bytes: &[u8]) -> Parsed {
    let Some(end) = bytes.iter().position(|byte| matches!(*byte, 0x07 | ESCAPE)) else {
        return Parsed::Incomplete;
    };
    let length = match &bytes[end..] {
        [0x07, ..] => end + 3,
        [ESCAPE, b'\\', ..] => end + 4,
        [ESCAPE] => return Parsed::Incomplete,
        // Another sequence begins: this one was cut off.
        _other => end + 2,
    };
    let background = background(&bytes[..end]).map(Input::Background);
    Parsed::Whole(length, background)
}

/// The background of an answer `11;rgb:ffff/ffff/ffff`, with one to four digits of each colour.
fn background(answer: &[u8]) -> Option<Background> {
    let colours = answer.strip_prefix(b"11;rgb:")?;
    let mut parts = std::str::from_utf8(colours).ok()?.split('/').map(|part| {
        let most = (1_u32 << (4 * u32::try_from(part.len()).ok()?.clamp(1, 4))) - 1;
        Some(u32::from_str_radix(part, 16).ok()?.min(most) * 255 / most)
    });
    let (red, green, blue) = (parts.next()??, parts.next()??, parts.next()??);
    // How bright the eye finds it, of 255000.
    let light = red * 299 + green * 587 + blue * 114;
    Some(if light > 127_500 {
        Background::Light
    } else {
        Background::Dark
    })
}

fn pasted(bytes: &[u8]) -> Parsed {
    match bytes {
        [0..0x20 | 0x7f, ..] => Parsed::Whole(1, None),
        _text => letter(bytes, Input::Pasted),
    }
}

/// The first letter of some UTF-8; a byte that begins none means nothing.
fn letter(bytes: &[u8], input: impl Fn(char) -> Input) -> Parsed {
    let longest = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(longest) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&longest[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) if error.error_len().is_none() => return Parsed::Incomplete,
        Err(_) => return Parsed::Whole(1, None),
    };
    match valid.chars().next() {
        Some(letter) if letter.is_control() => Parsed::Whole(letter.len_utf8(), None),
        Some(letter) => Parsed::Whole(letter.len_utf8(), Some(input(letter))),
        None => Parsed::Whole(1, None),
    }
}

const fn cursor_key(last: u8) -> Option<Key> {
    Some(match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'F' => Key::End,
        b'H' => Key::Home,
        b'Z' => Key::BackTab,
        _other => return None,
    })
}

fn tilde_key(parameters: &[u8]) -> Option<Key> {
    let number = parameters.split(|byte| *byte == b';').next()?;
    Some(match number {
        b"1" | b"7" => Key::Home,
        b"4" | b"8" => Key::End,
        b"5" => Key::PageUp,
        b"6" => Key::PageDown,
        _other => return None,
    })
}

/// A press of the left button, or a turn of the wheel, whatever else is held down.
fn pointer(parameters: &[u8]) -> Option<Pointer> {
    const MODIFIERS: u16 = 4 | 8 | 16;
    let text = std::str::from_utf8(parameters).ok()?;
    let mut numbers = text.split(';').map(|number| number.parse::<u16>().ok());
    let did = match numbers.next()?? & !MODIFIERS {
        0 => Gesture::Click,
        64 => Gesture::WheelUp,
        65 => Gesture::WheelDown,
        _other => return None,
    };
    Some(Pointer {
        column: numbers.next()??.checked_sub(1)?,
        row: numbers.next()??.checked_sub(1)?,
        did,
    })
}
