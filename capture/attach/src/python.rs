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

use crate::family::Family;
use crate::hooks::buffers;
use crate::lock_free::per_process::PerProcess;
use crate::{operation, report};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use ttmem_client::complain;
use ttmem_event::TextId;
use ttmem_pystack::{Fingerprint, Frame, Interpreter, Unsupported};
use ttmem_ring::heap::Heap;

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

/// What is known of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    text: TextId,
    place: CallPlace,
}

/// Where a stack has the call that the user's program made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CallPlace {
    /// A hash of the frames that made it, with their lines.
    caller: u64,
    /// The call's own frame, counted from the innermost; none where it has no frame of Python.
    depth: Option<u8>,
}

/// A call of the runtime, as a thread makes one after the other.
///
/// Two calls with equal ones are taken for one: buffers of the earlier one then count as the later one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Call {
    place: CallPlace,
    /// Differs between calls from the same place, where it is known.
    version: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    generation: u32,
    operation: TextId,
    fingerprint: Fingerprint,
    known: Known,
}

thread_local! {
    static CACHE: [Cell<Cached>; CACHED] = const {
        [const {
            Cell::new(Cached {
                generation: 0,
                operation: TextId::NONE,
                fingerprint: Fingerprint(0, 0),
                known: Known {
                    text: TextId::NONE,
                    place: CallPlace { caller: 0, depth: None },
                },
            })
        }; CACHED]
    };

    /// The call that this thread is in, with the lower half of the id that its first buffer has or
    /// would have.
    static CALL: Cell<Option<(Call, u32)>> = const { Cell::new(None) };
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

/// The same of a buffer, which the call that this thread is in has placed.
#[inline]
pub(crate) fn origin_of_buffer(operation: TextId, id: u64) -> TextId {
    if !is_on() {
        return operation;
    }
    let origin = with_stack(operation);
    // Of two threads at once, the one with the older buffer may report it later.
    let _ended = CALL.try_with(|call| {
        let half = lower_half(id);
        let first = call.get();
        if let Some((now, _first)) = first.filter(|(_, first)| is_before(half, *first)) {
            call.set(Some((now, half)));
        }
    });
    origin
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
        note_call(interpreter, cached.known.place);
        return cached.known.text;
    }
    let Some(known) = known(interpreter, operation, fingerprint) else {
        // Of what has no text it is not known which call it belongs to.
        let _ended = CALL.try_with(|call| call.set(None));
        return operation;
    };
    note_call(interpreter, known.place);
    // A thread that is ending has no cache.
    let _ended = CACHE.try_with(|cache| {
        cache[place].set(Cached {
            generation,
            operation,
            fingerprint,
            known,
        });
    });
    known.text
}

/// Notes which call of the user's program this thread is in.
#[inline]
fn note_call(interpreter: &Interpreter, place: CallPlace) {
    let version = place.depth.and_then(|depth| {
        // SAFETY: as for the stack's fingerprint.
        unsafe { interpreter.call_version(usize::from(depth)) }
    });
    let now = Call { place, version };
    // A thread that is ending knows of none.
    let _ended = CALL.try_with(|call| {
        if call.get().is_none_or(|(before, _first)| before != now) {
            call.set(Some((now, first_buffer())));
        }
    });
}

/// The lower half of the id that the next buffer has at least.
fn first_buffer() -> u32 {
    lower_half(buffers::newest().wrapping_add(1))
}

fn lower_half(id: u64) -> u32 {
    u32::try_from(id & u64::from(u32::MAX)).unwrap_or(0)
}

/// Whether a buffer is older than another; ids grow, and their halves begin anew.
fn is_before(half: u32, other: u32) -> bool {
    half.wrapping_sub(other).cast_signed() < 0
}

/// The lower half of the id of the first buffer of the call that this thread is in; 0 if that is not
/// known.
///
/// What was reported last on this thread must have been reported with its origin.
pub(crate) fn call_first() -> u32 {
    if !is_on() {
        return 0;
    }
    let call = CALL.try_with(Cell::get).ok().flatten();
    call.map_or(0, |(_call, first)| first)
}

/// The call in a stack: the outermost of ttnn's own frames at its inner end.
///
/// It is called through a function of Python that takes any arguments, which makes calls from one line
/// distinguishable; a native function that is called directly is part of the caller's line.
fn call_place(frames: &[Frame]) -> CallPlace {
    let is_runtime = |frame: &&Frame| {
        let parts = ["-packages/ttnn/", "ttnn/ttnn/"];
        parts.iter().any(|part| frame.file.contains(part))
    };
    let own = frames.iter().take_while(is_runtime).count();
    let mut hasher = DefaultHasher::new();
    for frame in &frames[own..] {
        (&frame.file, frame.line, &frame.function).hash(&mut hasher);
    }
    CallPlace {
        caller: hasher.finish(),
        depth: own
            .checked_sub(1)
            .and_then(|depth| u8::try_from(depth).ok()),
    }
}

/// What is known of a stack that this thread has not met lately; none if it cannot be reported.
#[cold]
fn known(interpreter: &Interpreter, operation: TextId, fingerprint: Fingerprint) -> Option<Known> {
    let key = (fingerprint, operation);
    {
        let known = KNOWN.lock();
        if let Some(stack) = known.stacks.get(&key) {
            return Some(*stack);
        }
        if known.is_full {
            return None;
        }
    }
    // SAFETY: as for its fingerprint.
    let frames = unsafe { interpreter.frames(|| !Heap::is_exhausted()) };
    let Ok(Some(frames)) = frames else {
        return None;
    };
    let stack = written(&frames);
    if stack.is_empty() {
        return None;
    }
    let mut known = KNOWN.lock();
    if !known.has_room(stack.len()) {
        return None;
    }
    if known.stacks.try_reserve(1).is_err() {
        Heap::exhaust();
        return None;
    }
    known.text_bytes += stack.len();
    let text = operation::name(operation) + &stack;
    let stack = Known {
        text: report::tracker().text(&text),
        place: call_place(&frames),
    };
    known.stacks.insert(key, stack);
    Some(stack)
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
struct Stacks {
    stacks: HashMap<(Fingerprint, TextId), Known>,
    text_bytes: usize,
    is_full: bool,
}

impl Stacks {
    /// Whether another stack fits; that one does not is said once.
    fn has_room(&mut self, more_bytes: usize) -> bool {
        let is_full = self.stacks.len() >= MAX_STACKS
            || self.text_bytes.saturating_add(more_bytes) > MAX_TEXT_BYTES;
        if is_full && !self.is_full {
            self.is_full = true;
            complain("there are too many different Python stacks: no further ones are reported");
        }
        !self.is_full
    }
}

static KNOWN: PerProcess<Stacks> = PerProcess::new();

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
    fn the_call_is_the_outermost_frame_of_ttnn() {
        let frame_of = |file: &str, line| frame(file, Some(line));
        let package = "/v/lib/python3.10/site-packages/ttnn/decorators.py";
        let stack = |line| {
            vec![
                frame_of(package, 1249),
                frame_of("/src/tt-metal/ttnn/ttnn/operations/core.py", 30),
                frame_of(package, 1249),
                frame_of("/home/ada/model.py", line),
                frame_of(package, 1249),
            ]
        };
        let place = call_place(&stack(57));
        assert_eq!(place.depth, Some(2));
        assert_eq!(
            call_place(&stack(57)[2..]),
            CallPlace {
                depth: Some(0),
                ..place
            }
        );
        let elsewhere = call_place(&stack(58));
        assert!(elsewhere.caller != place.caller, "another line calls");
        assert_eq!(
            call_place(&stack(57)[3..]),
            CallPlace {
                depth: None,
                ..place
            }
        );
        assert_eq!(call_place(&stack(57)[..3]).caller, call_place(&[]).caller);
    }

    #[test]
    fn halves_of_ids_are_in_the_order_of_ids() {
        for (id, other, before) in [(1, 2, true), (2, 2, false), (3, 2, false)] {
            for from in [0, (1 << 32) - 2, 5 << 32] {
                let (id, other) = (lower_half(from + id), lower_half(from + other));
                assert_eq!(is_before(id, other), before);
            }
        }
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
        let mut known = Stacks::default();
        assert!(known.has_room(MAX_TEXT_BYTES));
        assert!(!known.has_room(MAX_TEXT_BYTES + 1));
        assert!(!known.has_room(1), "once full, it stays so");
    }
}
