//! Native call stacks, of what is reported while they are on.
//!
//! They are off unless `TTMEM_STACKS` has a number of bytes: then buffers from that size on,
//! allocations that were refused and loads of kernels are reported with the stack they happened
//! under. A hook that finds them off has looked at one flag.
//!
//! A stack is walked by the unwinder and named by the loader, once: equal stacks are one text.
//! Both work on the calling thread and touch no object of the runtime. The loader has locks of
//! its own, so it is never asked under the lock of the table.

#![expect(unsafe_code, reason = "asks the unwinder and the loader")]

use crate::hot::{HOT, STACKS};
use crate::lock_free::per_process::PerProcess;
use crate::{report, symbols};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fmt::Write as _;
use std::num::ParseIntError;
use std::sync::atomic::{AtomicU64, Ordering};
use ttmem_client::complain;
use ttmem_event::TextId;
use ttmem_ring::heap::Heap;

pub(crate) const VARIABLE: &str = "TTMEM_STACKS";

/// Frames that are reported; what is further out is mostly the interpreter's.
const MAX_FRAMES: usize = 32;

/// Frames that are walked: those of ours and of the allocator are left out.
const MAX_WALKED: usize = 48;

/// Different stacks that a process reports; a program has some hundreds.
const MAX_STACKS: usize = 4096;

/// Bytes of all their texts, a quarter of what a server keeps of a process.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// Bytes of a symbol; names of templates can be without an end.
const MAX_SYMBOL_BYTES: usize = 512;

/// Parts of symbols of the allocator itself: that an allocation is in there goes without saying.
const ALLOCATOR: [&str; 4] = [
    "13AllocatorImpl",
    "11BankManager",
    "12GraphTracker",
    // Of `Buffer` in older releases, of `BufferImpl` in newer ones.
    "13allocate_impl",
];

/// Buffers from so many charged bytes on have their stack reported.
static LEAST_BYTES: AtomicU64 = AtomicU64::new(0);

/// Turns them on if the variable's value says so; a value that makes no sense is said.
pub(crate) fn configure(value: Option<&OsStr>) {
    match parse(value) {
        Ok(None) => {}
        Ok(Some(least_bytes)) => {
            LEAST_BYTES.store(least_bytes, Ordering::Relaxed);
            HOT.set(STACKS, true);
        }
        Err(_no_number) => complain(&format!(
            "call stacks are off: {VARIABLE} is not a number of bytes"
        )),
    }
}

fn parse(value: Option<&OsStr>) -> Result<Option<u64>, ParseIntError> {
    let value = value.filter(|value| !value.is_empty());
    value
        .map(|value| value.to_string_lossy().parse())
        .transpose()
}

#[inline]
pub(crate) fn are_on() -> bool {
    HOT.state() & STACKS != 0
}

/// Whether that of a buffer of this size is, if any is.
pub(crate) fn is_large(charged_bytes: u64) -> bool {
    charged_bytes >= LEAST_BYTES.load(Ordering::Relaxed)
}

/// The stack of the caller; none if there is no room for another one.
#[cold]
#[inline(never)]
pub(crate) fn here() -> TextId {
    let mut walked = Walked {
        calls: [0; MAX_WALKED],
        len: 0,
    };
    // SAFETY: the walk ends before this returns, and `step` takes just such a pointer.
    unsafe { _Unwind_Backtrace(step, (&raw mut walked).cast()) };
    let calls = &walked.calls[..walked.len];
    let mut frames: Vec<Option<Frame>> = {
        let known = KNOWN.lock();
        if let Some(text) = known.stacks.get(calls) {
            return *text;
        }
        if known.is_full {
            return TextId::NONE;
        }
        calls
            .iter()
            .map(|call| known.frames.get(call).cloned())
            .collect()
    };
    let own = symbols::around((here as fn() -> TextId as *const ()).addr());
    let own_library = own.map(|own| own.base);
    for (frame, call) in frames.iter_mut().zip(calls) {
        frame.get_or_insert_with(|| frame_at(*call, own_library));
    }
    let text = written(frames.iter().flatten());
    let mut known = KNOWN.lock();
    if !known.has_room(text.len()) {
        return TextId::NONE;
    }
    let has_memory =
        known.stacks.try_reserve(1).is_ok() && known.frames.try_reserve(calls.len()).is_ok();
    if !has_memory {
        Heap::exhaust();
        return TextId::NONE;
    }
    known.text_bytes += text.len();
    let id = if text.is_empty() {
        TextId::NONE
    } else {
        report::tracker().text(&text)
    };
    let frames = frames.into_iter().flatten();
    known.frames.extend(calls.iter().copied().zip(frames));
    known.stacks.insert(calls.into(), id);
    id
}

/// Where a thread is: the calls that have not returned, the innermost first.
#[derive(Debug)]
struct Walked {
    calls: [usize; MAX_WALKED],
    len: usize,
}

unsafe extern "C" {
    /// Calls `step` for every frame of the calling thread until it returns another number than 0.
    fn _Unwind_Backtrace(
        step: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        walked: *mut c_void,
    ) -> c_int;

    /// Where a frame goes on, and whether that is before the instruction that it is in.
    fn _Unwind_GetIPInfo(frame: *mut c_void, is_before: *mut c_int) -> usize;
}

/// Notes one frame; anything but 0 ends the walk.
///
/// # Safety
/// `frame` is the unwinder's, and `walked` a [`Walked`] that nobody else uses.
unsafe extern "C" fn step(frame: *mut c_void, walked: *mut c_void) -> c_int {
    // SAFETY: `here` has passed its own, which outlives the walk.
    let walked = unsafe { &mut *walked.cast::<Walked>() };
    let mut is_before = 0;
    // SAFETY: the unwinder has passed the frame; `is_before` is writable.
    let next = unsafe { _Unwind_GetIPInfo(frame, &raw mut is_before) };
    let Some(place) = walked.calls.get_mut(walked.len).filter(|_room| next > 0) else {
        return 1;
    };
    // A frame goes on behind its call, which may be the first byte of another function.
    *place = if is_before == 0 { next - 1 } else { next };
    walked.len += 1;
    0
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    text: String,
    is_own: bool,
    is_allocator: bool,
}

/// The name of the place that a call is at, as in `libtt_metal.so+0x1f2e3d _ZN2tt…`.
fn frame_at(call: usize, own_library: Option<usize>) -> Frame {
    let Some(found) = symbols::around(call) else {
        return Frame {
            text: format!("?+{call:#x}"),
            is_own: false,
            is_allocator: false,
        };
    };
    let text = |name: Option<&CStr>| {
        let name = name.unwrap_or_default().to_string_lossy();
        // These two are between frames, and between the parts of one.
        name.replace([';', ' '], "_")
    };
    let path = text(found.library);
    let library = path.rsplit('/').next().unwrap_or_default();
    let mut frame = format!("{library}+{:#x}", call.wrapping_sub(found.base));
    let symbol = text(found.symbol);
    let shown = &symbol[..symbol.floor_char_boundary(MAX_SYMBOL_BYTES)];
    if !shown.is_empty() {
        // Writing to a text cannot fail.
        let _fits = write!(frame, " {shown}");
    }
    Frame {
        text: frame,
        is_own: Some(found.base) == own_library,
        is_allocator: ALLOCATOR.iter().any(|part| symbol.contains(part)),
    }
}

/// The text of a stack: what is ours is left out, and what of the allocator is innermost.
///
/// Our hooks call the functions that they stand for, so nothing is missing without them.
fn written<'f>(frames: impl Iterator<Item = &'f Frame>) -> String {
    let shown: Vec<&str> = frames
        .filter(|frame| !frame.is_own)
        .skip_while(|frame| frame.is_allocator)
        .take(MAX_FRAMES)
        .map(|frame| frame.text.as_str())
        .collect();
    shown.join(";")
}

/// The stacks that were reported, and the names of their frames.
#[derive(Debug, Default)]
struct Known {
    stacks: HashMap<Box<[usize]>, TextId>,
    frames: HashMap<usize, Frame>,
    text_bytes: usize,
    is_full: bool,
}

impl Known {
    /// Whether another stack fits; that one does not is said once.
    fn has_room(&mut self, more_bytes: usize) -> bool {
        let is_full = self.stacks.len() >= MAX_STACKS
            || self.text_bytes.saturating_add(more_bytes) > MAX_TEXT_BYTES;
        if is_full && !self.is_full {
            self.is_full = true;
            complain("there are too many different call stacks: no further ones are reported");
        }
        !self.is_full
    }
}

static KNOWN: PerProcess<Known> = PerProcess::new();

/// Forgets all, in a child: the texts are its parent's, and somebody may have held the lock.
pub(crate) fn forget() {
    KNOWN.forget();
}

#[cfg(test)]
mod tests;
