//! Lines of bounded length, without terminal escapes.

use std::io::{self, BufRead};

/// Longer lines come in pieces; a message is a few hundred bytes.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;

/// A piece ends at the last blank of so many bytes, so that no word or number is cut.
const CUT_WITHIN_BYTES: usize = 256;

const ESCAPE: u8 = 0x1b;

pub(super) struct Lines<R> {
    log: R,
    line: Vec<u8>,
    /// Bytes of the line that were handed out and are dropped next.
    taken: usize,
    number: u64,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(log: R) -> Self {
        Self {
            log,
            line: Vec::new(),
            taken: 0,
            number: 1,
            ended: true,
        }
    }

    /// The next line or piece of one, without its end, and the line's number.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        self.line.drain(..self.taken);
        self.taken = 0;
        if self.ended {
            self.line.clear();
        }
        let number = self.number;
        loop {
            if self.line.len() >= MAX_LINE_BYTES {
                self.ended = false;
                self.taken = cut(&self.line);
                return Ok(Some((number, &self.line[..self.taken])));
            }
            let read = match self.log.fill_buf() {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if read.is_empty() {
                self.ended = true;
                let has_more = !self.line.is_empty();
                self.taken = self.line.len();
                return Ok(has_more.then_some((number, self.line.as_slice())));
            }
            let room = MAX_LINE_BYTES - self.line.len();
            let read = &read[..read.len().min(room)];
            let end = read.iter().position(|byte| *byte == b'\n');
            self.line
                .extend_from_slice(end.map_or(read, |end| &read[..end]));
            let used = end.map_or(read.len(), |end| end + 1);
            self.log.consume(used);
            if end.is_some() {
                self.number += 1;
                self.ended = true;
                self.taken = self.line.len();
                return Ok(Some((number, &self.line)));
            }
        }
    }
}

/// Where to cut a line that is too long.
fn cut(line: &[u8]) -> usize {
    let from = line.len() - CUT_WITHIN_BYTES;
    let blank = line[from..].iter().rposition(u8::is_ascii_whitespace);
    blank.map_or(line.len(), |blank| from + blank + 1)
}

/// Puts a line's text into `text`: colours and other terminal sequences are left out, what is no
/// UTF-8 is replaced.
pub(super) fn without_escapes(line: &[u8], text: &mut String) {
    text.clear();
    let mut rest = line;
    while let Some(at) = rest.iter().position(|byte| *byte == ESCAPE) {
        text.push_str(&String::from_utf8_lossy(&rest[..at]));
        rest = behind_escape(&rest[at + 1..]);
    }
    text.push_str(&String::from_utf8_lossy(rest));
}

/// What follows a sequence, which begins behind its escape character.
fn behind_escape(rest: &[u8]) -> &[u8] {
    let (introducer, rest) = match rest.split_first() {
        Some((introducer, rest)) => (*introducer, rest),
        None => return rest,
    };
    let end = match introducer {
        b'[' => rest.iter().position(|byte| (0x40..=0x7e).contains(byte)),
        // A title or link: up to BEL, or to the escape of ESC \.
        b']' => rest.iter().position(|byte| matches!(*byte, 0x07 | ESCAPE)),
        _one_character => return rest,
    };
    match end {
        Some(end) if rest[end] == ESCAPE => &rest[end..],
        Some(end) => &rest[end + 1..],
        // Not a sequence after all: what looks like one must not swallow the line.
        None => rest,
    }
}
