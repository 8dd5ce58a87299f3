//! Where CPython keeps what a stack needs, by version: offsets on 64-bit machines.

/// How a version keeps its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frames {
    /// Frame objects, linked from the thread's state; instructions by number.
    Objects,
    /// Frames behind the C frame of the thread's state; instructions by address.
    BehindCFrame { current_frame: usize },
    /// Frames of the thread's state itself.
    OfThread,
}

/// Offsets of one minor version.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) minor: u32,
    pub(crate) frames: Frames,
    /// Of a thread's state: its innermost frame, or its C frame.
    pub(crate) thread_frame: usize,
    /// Of an interpreter: its first thread's state. `None` where a thread's own state is always
    /// that of the interpreter that the thread is in.
    pub(crate) interpreter_threads: Option<usize>,
    /// Of a frame.
    pub(crate) frame_code: usize,
    pub(crate) frame_previous: usize,
    /// The current instruction: its number or its address.
    pub(crate) frame_instruction: usize,
    /// Who owns the frame; frames of the C stack are no calls of Python.
    pub(crate) frame_owner: usize,
    /// Of a code object.
    pub(crate) code_first_line: usize,
    pub(crate) code_file: usize,
    pub(crate) code_name: usize,
    pub(crate) code_lines: usize,
    /// A number that no two code objects share; `None` where they have none.
    pub(crate) code_version: Option<usize>,
    /// The first instruction that a traceback shows, by number.
    pub(crate) code_first_traceable: usize,
    /// The instructions themselves.
    pub(crate) code_instructions: usize,
    /// Where a frame has its variables, and where code has how many arguments it takes: by place or
    /// name, by name only, and the flags that tell of more.
    pub(crate) frame_locals: usize,
    pub(crate) code_arguments: usize,
    pub(crate) code_named_arguments: usize,
    pub(crate) code_flags: usize,
    /// Size of a string's header: of one that is ASCII, and of any other.
    pub(crate) ascii_header: usize,
    pub(crate) compact_header: usize,
}

/// Of an interpreter: the next one.
pub(crate) const INTERPRETER_NEXT: usize = 0;
/// Of a thread's state, in versions in which threads are looked for: the next of the same interpreter.
pub(crate) const THREAD_NEXT: usize = 8;
/// And its interpreter.
pub(crate) const THREAD_INTERPRETER: usize = 16;

/// Of every object.
pub(crate) const TYPE: usize = 8;
/// Of objects with a variable size.
pub(crate) const SIZE: usize = 16;
/// Of strings.
pub(crate) const TEXT_LENGTH: usize = 16;
pub(crate) const TEXT_HASH: usize = 24;
pub(crate) const TEXT_STATE: usize = 32;
/// Of byte strings.
pub(crate) const BYTES: usize = 32;

/// Of dictionaries: a number that no other dictionary has, another one after each change.
pub(crate) const DICT_VERSION: usize = 24;

/// Bits of the flags of code: it takes further arguments, or further named ones.
pub(crate) const TAKES_MORE: u32 = 4;
pub(crate) const TAKES_MORE_NAMED: u32 = 8;

/// Bits of a string's state.
pub(crate) const TEXT_IS_COMPACT: u32 = 0x20;
pub(crate) const TEXT_IS_ASCII: u32 = 0x40;
pub(crate) const TEXT_KIND_SHIFT: u32 = 2;
pub(crate) const TEXT_KIND_MASK: u32 = 7;

/// Owners of frames.
pub(crate) const OWNED_BY_GENERATOR: u8 = 1;
pub(crate) const OWNED_BY_C_STACK: u8 = 3;

/// Bytes of an instruction.
pub(crate) const INSTRUCTION: usize = 2;

const KNOWN: [Layout; 4] = [
    Layout {
        minor: 10,
        frames: Frames::Objects,
        thread_frame: 24,
        interpreter_threads: Some(8),
        frame_code: 32,
        frame_previous: 24,
        frame_instruction: 96,
        frame_owner: 0,
        code_first_line: 40,
        code_file: 104,
        code_name: 112,
        code_lines: 120,
        code_version: None,
        code_first_traceable: 0,
        code_instructions: 0,
        frame_locals: 352,
        code_arguments: 16,
        code_named_arguments: 24,
        code_flags: 36,
        ascii_header: 48,
        compact_header: 72,
    },
    Layout {
        minor: 11,
        frames: Frames::BehindCFrame { current_frame: 8 },
        thread_frame: 56,
        interpreter_threads: Some(16),
        frame_code: 32,
        frame_previous: 48,
        frame_instruction: 56,
        frame_owner: 69,
        code_first_line: 72,
        code_file: 112,
        code_name: 120,
        code_lines: 136,
        code_version: None,
        code_first_traceable: 168,
        code_instructions: 184,
        frame_locals: 72,
        code_arguments: 56,
        code_named_arguments: 64,
        code_flags: 48,
        ascii_header: 48,
        compact_header: 72,
    },
    Layout {
        minor: 12,
        frames: Frames::BehindCFrame { current_frame: 0 },
        thread_frame: 56,
        interpreter_threads: None,
        frame_code: 0,
        frame_previous: 8,
        frame_instruction: 56,
        frame_owner: 70,
        code_first_line: 68,
        code_file: 112,
        code_name: 120,
        code_lines: 136,
        code_version: Some(92),
        code_first_traceable: 176,
        code_instructions: 192,
        frame_locals: 72,
        code_arguments: 52,
        code_named_arguments: 60,
        code_flags: 48,
        ascii_header: 40,
        compact_header: 56,
    },
    Layout {
        minor: 13,
        frames: Frames::OfThread,
        thread_frame: 72,
        interpreter_threads: None,
        frame_code: 0,
        frame_previous: 8,
        frame_instruction: 56,
        frame_owner: 70,
        code_first_line: 68,
        code_file: 112,
        code_name: 120,
        code_lines: 136,
        code_version: Some(92),
        code_first_traceable: 184,
        code_instructions: 200,
        frame_locals: 72,
        code_arguments: 52,
        code_named_arguments: 60,
        code_flags: 48,
        ascii_header: 40,
        compact_header: 56,
    },
];

impl Layout {
    /// That of CPython 3.`minor`.
    pub(crate) fn of(minor: u32) -> Option<&'static Self> {
        KNOWN.iter().find(|layout| layout.minor == minor)
    }
}
