//! The line of Python behind what is reported, while Python lines are on.
//!
//! They are on where `TTMEM_PYTHON` is 1. Then the text of an operation is followed by the stack
//! that called it, a line for each frame, innermost first: one id names both, so an event is no
//! longer than without. Equal stacks are one text.
//!
//! A hook never takes the GIL: [`ttmem_pystack`] reads the frames of the calling thread, which is
//! inside a native call. Its fingerprint is looked up in the thread's own cache first; only a
//! stack that this thread has not met lately is read in full, under a lock of this library.

#![expect(unsafe_code, reason = "reads the stack of a native call's caller")]

use crate::family::{Family, warn};
use crate::lock_free::per_process::PerProcess;
use crate::{operation, report};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use ttmem_event::TextId;
use ttmem_pystack::{Fingerprint, Frame, Interpreter, Unsupported};

pub(crate) const VARIABLE: &str = "TTMEM_PYTHON";

/// Frames of a stack that are reported: the innermost, and some at its outer end.
const INNER_FRAMES: usize = 48;
const OUTER_FRAMES: usize = 8;

/// Bytes of a file's or function's name, which can be as long as the program likes. Readers are
/// shown 512 bytes of a frame, in which the line must be.
const MAX_NAME_BYTES: usize = 240;

/// Different stacks that a process reports; a program has some hundreds.
const MAX_STACKS: usize = 16_384;

/// Bytes of all their texts, a quarter of what a server keeps of a process.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// Stacks that a thread finds without a lock.
const CACHED: usize = 64;

/// Not a family of hooks, but what is off is said in the same way.
static FAMILY: Family = Family::new("Python lines");

static ON: AtomicBool = AtomicBool::new(false);
static INTERPRETER: OnceLock<Result<Interpreter, Unsupported>> = OnceLock::new();

/// Counts forks: what threads have cached are texts of the parent.
static GENERATION: AtomicU32 = AtomicU32::new(1);

#[derive(Clone, Copy, Debug)]
struct Cached {
    generation: u32,
    operation: TextId,
    fingerprint: Fingerprint,
    text: TextId,
}

thread_local! {
    static CACHE: [Cell<Cached>; CACHED] = const {
        [const {
            Cell::new(Cached {
                generation: 0,
                operation: TextId::NONE,
                fingerprint: Fingerprint(0, 0),
                text: TextId::NONE,
            })
        }; CACHED]
    };
}

pub(crate) fn configure(value: Option<&OsStr>) {
    ON.store(value.is_some_and(|value| value == "1"), Relaxed);
}

pub(crate) fn is_on() -> bool {
    ON.load(Relaxed)
}

/// The text of an operation, with the Python stack that called it where there is one.
#[inline]
pub(crate) fn origin(operation: TextId) -> TextId {
    if is_on() {
        with_stack(operation)
    } else {
        operation
    }
}

#[inline(never)]
fn with_stack(operation: TextId) -> TextId {
    let interpreter = match INTERPRETER.get_or_init(Interpreter::find) {
        Ok(interpreter) => interpreter,
        Err(why) => {
            turn_off(why);
            return operation;
        }
    };
    // SAFETY: hooks run on the thread whose call of the runtime they stand for: if Python made
    // that call, the thread is inside of it.
    let fingerprint = match unsafe { interpreter.fingerprint() } {
        Ok(Some(fingerprint)) => fingerprint,
        Ok(None) => return operation,
        Err(why) => {
            turn_off(&why);
            return operation;
        }
    };
    let generation = GENERATION.load(Relaxed);
    let place = usize::try_from(fingerprint.0 % CACHED as u64).unwrap_or(0);
    let cached = CACHE.try_with(|cache| cache[place].get());
    if let Ok(cached) = cached
        && cached.fingerprint == fingerprint
        && cached.operation == operation
        && cached.generation == generation
    {
        return cached.text;
    }
    let text = known(interpreter, operation, fingerprint);
    // A thread that is ending has no cache.
    let _ended = CACHE.try_with(|cache| {
        cache[place].set(Cached {
            generation,
            operation,
            fingerprint,
            text,
        });
    });
    text
}

/// The text of a stack that this thread has not met lately.
#[cold]
fn known(interpreter: &Interpreter, operation: TextId, fingerprint: Fingerprint) -> TextId {
    let key = (fingerprint, operation);
    {
        let known = KNOWN.lock();
        if let Some(text) = known.texts.get(&key) {
            return *text;
        }
        if known.is_full {
            return operation;
        }
    }
    // SAFETY: as for its fingerprint.
    let Ok(Some(frames)) = (unsafe { interpreter.frames() }) else {
        return operation;
    };
    let stack = written(&frames);
    if stack.is_empty() {
        return operation;
    }
    let mut known = KNOWN.lock();
    if !known.has_room(stack.len()) {
        return operation;
    }
    known.text_bytes += stack.len();
    let text = operation::name(operation) + &stack;
    let text = report::tracker().text(&text);
    known.texts.insert(key, text);
    text
}

/// The text of a stack: `file:line function` for each frame, each on a line of its own.
fn written(frames: &[Frame]) -> String {
    let mut text = String::new();
    let left_out = frames.len().saturating_sub(INNER_FRAMES + OUTER_FRAMES);
    for (number, frame) in frames.iter().enumerate() {
        if left_out > 0 && (INNER_FRAMES..INNER_FRAMES + left_out).contains(&number) {
            if number == INNER_FRAMES {
                // Writing to a text cannot fail.
                let _fits = write!(text, "\n… {left_out} more frames");
            }
            continue;
        }
        let (file, function) = (clean(&frame.file), clean(&frame.function));
        let line = frame.line.unwrap_or(0);
        let _fits = write!(text, "\n{file}:{line} {function}");
    }
    text
}

/// A name without line breaks, cut to what is useful: the end of a path is.
fn clean(name: &str) -> String {
    let from = name.len().saturating_sub(MAX_NAME_BYTES);
    let name = &name[name.ceil_char_boundary(from)..];
    name.replace(char::is_control, " ")
}

/// Turns them off for good; why is said unless there is no Python.
#[cold]
fn turn_off(why: &Unsupported) {
    ON.store(false, Relaxed);
    if *why != Unsupported::NoPython {
        FAMILY.turn_off(&why.to_string());
    }
}

/// Adds the line of the status, if they were asked for.
pub(crate) fn describe(text: &mut String) {
    if is_on() || !FAMILY.is_on() {
        FAMILY.describe(None, text);
    }
}

/// Reports once more that they are off, if they are.
pub(crate) fn report_off() {
    FAMILY.report_off();
}

#[derive(Debug, Default)]
struct Known {
    texts: HashMap<(Fingerprint, TextId), TextId>,
    text_bytes: usize,
    is_full: bool,
}

impl Known {
    /// Whether another stack fits; that one does not is said once.
    fn has_room(&mut self, more_bytes: usize) -> bool {
        let is_full = self.texts.len() >= MAX_STACKS
            || self.text_bytes.saturating_add(more_bytes) > MAX_TEXT_BYTES;
        if is_full && !self.is_full {
            self.is_full = true;
            warn("there are too many different Python stacks: no further ones are reported");
        }
        !self.is_full
    }
}

static KNOWN: PerProcess<Known> = PerProcess::new();

/// Forgets all, in a child: the texts are its parent's, and somebody may have held the lock.
pub(crate) fn forget() {
    GENERATION.fetch_add(1, Relaxed);
    KNOWN.forget();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(file: &str, line: Option<u32>) -> Frame {
        Frame {
            file: file.to_owned(),
            line,
            function: "forward".to_owned(),
        }
    }

    #[test]
    fn a_frame_is_one_line_whatever_its_names_are() {
        let frames = [frame("a\nb.py", Some(7)), frame("/x/model.py", None)];
        assert_eq!(
            written(&frames),
            "\na b.py:7 forward\n/x/model.py:0 forward"
        );
        let long = frame(&"長".repeat(1000), Some(1));
        let text = written(&[long]);
        assert!(text.len() < MAX_NAME_BYTES + 20, "{}", text.len());
        assert_eq!(written(&[]), "");
    }

    #[test]
    fn the_middle_of_a_deep_stack_is_left_out_and_counted() {
        let frames: Vec<Frame> = (0..1000).map(|line| frame("m.py", Some(line))).collect();
        let text = written(&frames);
        assert_eq!(text.matches('\n').count(), INNER_FRAMES + 1 + OUTER_FRAMES);
        assert!(text.contains("\nm.py:47 forward\n… 944 more frames\nm.py:992 forward"));
        let whole: Vec<Frame> = frames.into_iter().take(56).collect();
        assert!(!written(&whole).contains('…'));
    }

    #[test]
    fn there_is_room_for_so_many_stacks() {
        let mut known = Known::default();
        assert!(known.has_room(MAX_TEXT_BYTES));
        assert!(!known.has_room(MAX_TEXT_BYTES + 1));
        assert!(!known.has_room(1), "once full, it stays so");
    }
}
