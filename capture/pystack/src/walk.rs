//! Walking a thread's frames.

use crate::interpreter::Types;
use crate::layout::{
    BYTES, DICT_VERSION, Frames, INSTRUCTION, INTERPRETER_NEXT, Layout, OWNED_BY_C_STACK,
    OWNED_BY_GENERATOR, SIZE, TAKES_MORE, TAKES_MORE_NAMED, THREAD_INTERPRETER, THREAD_NEXT, TYPE,
};
use crate::memory::Memory;
use crate::{line_table, text};
use std::ffi::c_int;

/// Frames that are looked at; a recursion can be deeper.
pub(crate) const MAX_FRAMES: usize = 8192;

/// Frames that are walked between two looks at whether the interpreter ends: well below the time
/// that it takes from saying so to freeing anything.
const FRAMES_PER_LOOK: usize = 8;

/// Interpreters, and threads of each, that are looked at.
const MAX_LISTED: usize = 4096;

/// Bytes of a line table that are read; a module of a million lines has more.
const MAX_TABLE: usize = 1 << 24;

/// Two numbers that differ between stacks: equal stacks have equal ones, and different ones differ
/// unless 128 bits of hash collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u64, pub u64);

impl Fingerprint {
    /// That of a stack with one more frame.
    #[inline]
    pub(crate) fn and(self, identity: u64, code: u64, instruction: u64) -> Self {
        let instruction = code ^ (instruction << 48);
        Self(
            mix(self.0, identity ^ instruction),
            mix(self.1, identity.wrapping_add(instruction)),
        )
    }
}

/// The identity of code with a version. Versions and addresses both grow in small steps, and must not make up
/// for each other: the product has differences in all bits.
#[inline]
pub(crate) fn of_version(version: u32) -> u64 {
    u64::from(version).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A call of Python, as a traceback shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub file: String,
    /// `None` for code that belongs to no line.
    pub line: Option<u32>,
    pub function: String,
}

/// A name that is no plain string.
const NO_NAME: &str = "?";

impl Frame {
    pub(crate) fn has_names(&self) -> bool {
        let is_name = |name: &str| !name.is_empty() && name != NO_NAME;
        is_name(&self.file) && is_name(&self.function)
    }
}

/// A frame that runs Python code, and the instruction it is at.
#[derive(Debug, Clone, Copy)]
struct Place {
    code: usize,
    /// Bytes from the first instruction.
    instruction: usize,
}

/// The frames of a thread, innermost first.
#[derive(Debug)]
pub(crate) struct Walk<'l, M> {
    pub(crate) memory: M,
    pub(crate) is_finalizing: unsafe extern "C" fn() -> c_int,
    pub(crate) layout: &'l Layout,
    pub(crate) types: &'l Types,
}

/// Nothing that a checked layout gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unexpected;

type Result<T> = std::result::Result<T, Unexpected>;

impl<M: Memory> Walk<'_, M> {
    pub(crate) fn fingerprint(&self, thread: usize) -> Result<Fingerprint> {
        let mut found = Fingerprint(0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F);
        self.each(thread, |place| {
            let identity = self.identity(place.code)?;
            found = found.and(identity, place.code as u64, place.instruction as u64);
            Some(())
        })?;
        Ok(found)
    }

    pub(crate) fn frames(&self, thread: usize, goes_on: &dyn Fn() -> bool) -> Result<Vec<Frame>> {
        let mut frames = Vec::new();
        self.each(thread, |place| {
            frames.try_reserve(1).ok().filter(|()| goes_on())?;
            frames.push(self.frame(place)?);
            Some(())
        })?;
        Ok(frames)
    }

    /// The version of the dictionary with the further named arguments of a frame, which is made anew
    /// for each call. `None` if the frame at this depth takes none, or there is no such frame.
    pub(crate) fn call_version(&self, thread: usize, depth: usize) -> Result<Option<u64>> {
        let mut frame = self.innermost(thread).ok_or(Unexpected)?;
        let mut shown = 0;
        // Frames that are not shown stand between those that are.
        for _frame in 0..2 * FRAMES_PER_LOOK {
            if frame == 0 {
                return Ok(None);
            }
            if let Some(place) = self.place(frame)? {
                if shown == depth {
                    return Ok(self.version_of_named(frame, place.code));
                }
                shown += 1;
            }
            frame = self.number(frame + self.layout.frame_previous)?;
        }
        Ok(None)
    }

    fn version_of_named(&self, frame: usize, code: usize) -> Option<u64> {
        let (memory, layout) = (&self.memory, self.layout);
        let flags: u32 = memory.number(code + layout.code_flags)?;
        if flags & TAKES_MORE_NAMED == 0 {
            return None;
        }
        let by_place: u32 = memory.number(code + layout.code_arguments)?;
        let by_name: u32 = memory.number(code + layout.code_named_arguments)?;
        let more = u32::from(flags & TAKES_MORE != 0);
        let at = usize::try_from(by_place.checked_add(by_name)?.checked_add(more)?).ok()?;
        let variable = frame + layout.frame_locals + at.checked_mul(size_of::<usize>())?;
        let named: usize = memory.number(variable)?;
        // A variable that inner functions use, or that was deleted, is elsewhere.
        if named == 0 || memory.number::<usize>(named + TYPE)? != self.types.dict {
            return None;
        }
        memory.number(named + DICT_VERSION)
    }

    #[inline]
    fn each(&self, thread: usize, mut see: impl FnMut(Place) -> Option<()>) -> Result<()> {
        let mut frame = self.innermost(thread).ok_or(Unexpected)?;
        for count in 0..MAX_FRAMES {
            if frame == 0 {
                return Ok(());
            }
            // An interpreter that ends frees what is walked here, some steps after it says so.
            // SAFETY: it only reads a global, and may be called without the GIL.
            if count % FRAMES_PER_LOOK == 0 && unsafe { (self.is_finalizing)() } != 0 {
                return Err(Unexpected);
            }
            if let Some(place) = self.place(frame)? {
                see(place).ok_or(Unexpected)?;
            }
            frame = self.number(frame + self.layout.frame_previous)?;
        }
        Ok(())
    }

    fn innermost(&self, thread: usize) -> Option<usize> {
        let first: usize = self.memory.number(thread + self.layout.thread_frame)?;
        match self.layout.frames {
            Frames::Objects | Frames::OfThread => Some(first),
            Frames::BehindCFrame { .. } if first == 0 => None,
            Frames::BehindCFrame { current_frame } => self.memory.number(first + current_frame),
        }
    }

    /// What a frame runs; `None` if it is no call that a traceback shows.
    #[inline]
    fn place(&self, frame: usize) -> Result<Option<Place>> {
        let layout = self.layout;
        let has_owner = layout.frames != Frames::Objects;
        let owner: u8 = if has_owner {
            self.number(frame + layout.frame_owner)?
        } else {
            0
        };
        if has_owner && owner == OWNED_BY_C_STACK {
            return Ok(None);
        }
        let code: usize = self.number(frame + layout.frame_code)?;
        if code == 0 || self.number::<usize>(code + TYPE)? != self.types.code {
            return Err(Unexpected);
        }
        if !has_owner {
            let number: i32 = self.number(frame + layout.frame_instruction)?;
            let number = usize::try_from(number).unwrap_or(0);
            let instruction = number * INSTRUCTION;
            return Ok(Some(Place { code, instruction }));
        }
        let address: usize = self.number(frame + layout.frame_instruction)?;
        let first_traceable: i32 = self.number(code + layout.code_first_traceable)?;
        let first_traceable = usize::try_from(first_traceable).map_err(|_negative| Unexpected)?;
        // One instruction before the first: the frame has not begun.
        let instruction = address.wrapping_sub(code + layout.code_instructions);
        let has_begun = instruction.cast_signed() >= (first_traceable * INSTRUCTION).cast_signed();
        if owner != OWNED_BY_GENERATOR && !has_begun {
            return Ok(None);
        }
        let instruction = if instruction.cast_signed() < 0 {
            0
        } else {
            instruction
        };
        Ok(Some(Place { code, instruction }))
    }

    /// A number that differs between code objects, also when one comes to lie where another was.
    #[inline]
    fn identity(&self, code: usize) -> Option<u64> {
        if let Some(at) = self.layout.code_version {
            // 0 once the interpreter has run out of them.
            let version: u32 = self.memory.number(code + at)?;
            if version != 0 {
                return Some(of_version(version));
            }
        }
        self.content(code)
    }

    /// The same from what it consists of: name, file, first line, and which line an instruction has.
    #[inline]
    fn content(&self, code: usize) -> Option<u64> {
        let (memory, layout) = (&self.memory, self.layout);
        let name: usize = memory.number(code + layout.code_name)?;
        let file: usize = memory.number(code + layout.code_file)?;
        let line: u32 = memory.number(code + layout.code_first_line)?;
        let table: usize = memory.number(code + layout.code_lines)?;
        let size: u64 = memory.number(table + SIZE)?;
        // Both ends: code that came to lie where other code was differs in one of them, as a rule.
        let first: u64 = memory.number(table + BYTES)?;
        let last_at = usize::try_from(size).ok()?.saturating_sub(size_of::<u64>());
        let last: u64 = memory.number(table + BYTES + last_at)?;
        let lines = mix(mix(size ^ table as u64, first), last);
        let file = text::hash(memory, layout, file)? ^ file as u64;
        let texts = mix(text::hash(memory, layout, name)?, file);
        Some(texts ^ lines ^ (u64::from(line) << 32))
    }

    fn frame(&self, place: Place) -> Option<Frame> {
        let (memory, layout) = (&self.memory, self.layout);
        let text = |field: usize| {
            let at: usize = memory.number(place.code + field)?;
            if memory.number::<usize>(at + TYPE)? != self.types.text {
                return Some(NO_NAME.to_owned());
            }
            // Strings made by old functions of C have another form.
            Some(text::read(memory, layout, at).unwrap_or_else(|| NO_NAME.to_owned()))
        };
        Some(Frame {
            file: text(layout.code_file)?,
            line: self.line(place)?.and_then(|line| u32::try_from(line).ok()),
            function: text(layout.code_name)?,
        })
    }

    /// The line of a place; none if its code has a table that is not plain bytes, as a program can
    /// give it one.
    fn line(&self, place: Place) -> Option<Option<i32>> {
        let (memory, layout) = (&self.memory, self.layout);
        let table: usize = memory.number(place.code + layout.code_lines)?;
        if memory.number::<usize>(table + TYPE)? != self.types.bytes {
            return Some(None);
        }
        let length = memory.number::<usize>(table + SIZE)?.min(MAX_TABLE);
        let mut lines = Vec::new();
        memory.bytes(table + BYTES, length, &mut lines)?;
        let first: i32 = memory.number(place.code + layout.code_first_line)?;
        Some(match layout.frames {
            Frames::Objects => line_table::by_pairs(&lines, first, place.instruction),
            _ => line_table::by_locations(&lines, first, place.instruction),
        })
    }

    /// Whether an interpreter runs that is neither the main one nor that of a thread's state.
    ///
    /// Other threads may change what is read here: only for memory that refuses bad addresses.
    pub(crate) fn runs_another(&self, thread: usize, main: usize, first: usize) -> Option<bool> {
        let Some(threads) = self.layout.interpreter_threads else {
            return Some(false);
        };
        let own: usize = self.memory.number(thread + THREAD_INTERPRETER)?;
        let mut interpreter = first;
        for _count in 0..MAX_LISTED {
            if interpreter == 0 {
                return Some(false);
            }
            if interpreter != main && interpreter != own {
                let mut other: usize = self.memory.number(interpreter + threads)?;
                for _count in 0..MAX_LISTED {
                    if other == 0 {
                        break;
                    }
                    if self.innermost(other).is_some_and(|frame| frame != 0) {
                        return Some(true);
                    }
                    other = self.memory.number(other + THREAD_NEXT)?;
                }
            }
            interpreter = self.memory.number(interpreter + INTERPRETER_NEXT)?;
        }
        None
    }

    #[inline]
    fn number<N: crate::memory::Number>(&self, at: usize) -> Result<N> {
        self.memory.number(at).ok_or(Unexpected)
    }
}

/// Folds a number into a hash: both halves of a product, so that every bit counts.
#[inline]
pub(crate) fn mix(hash: u64, number: u64) -> u64 {
    let product =
        u128::from(hash ^ 0xA076_1D64_78BD_642F) * u128::from(number ^ 0xE703_7ED1_A0B4_28DB);
    let [low, high] = [0, 64].map(|bits| (product >> bits) & u128::from(u64::MAX));
    u64::try_from(low ^ high).unwrap_or(0)
}
