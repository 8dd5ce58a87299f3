//! The calling thread's Python stack, read from CPython's memory.
//!
//! A hook inside a native call must not take the GIL: the runtime may hold locks that another
//! Python thread waits for. It need not, either. While the thread is inside that call its own
//! frames do not change, and nothing they refer to is freed, so they can be read as they lie in
//! memory, without taking a reference.
//!
//! Where they lie differs from version to version (`layout.rs`). The first walk of a process reads
//! through the kernel, which refuses a bad address instead of faulting, and checks the type of every
//! object; if anything is not as expected the process gets no Python lines, and nothing else
//! changes. Later walks read directly.
//!
//! One thing does free a thread's frames while it is inside a native call: the interpreter's end,
//! for threads that nobody joined. Nothing is walked once it has begun.

#![expect(
    unsafe_code,
    reason = "reading another runtime's memory; see interpreter.rs and memory.rs"
)]

mod interpreter;
mod layout;
mod line_table;
mod memory;
mod text;
mod walk;

#[cfg(test)]
mod tests;

pub use interpreter::{Interpreter, Unsupported};
pub use walk::{Fingerprint, Frame};

/// Whether the kernel lets a process read its own memory by `process_vm_readv`, by which frames are checked.
///
/// Seccomp profiles of containers may refuse it.
#[must_use]
pub fn reads_memory() -> bool {
    use memory::{Memory, Untrusted};
    let known = 0x5EED_u32;
    Untrusted.number::<u32>((&raw const known).addr()) == Some(known)
}

/// Whether the frames of CPython 3.`minor` are known.
#[must_use]
pub fn reads_lines_of(minor: u32) -> bool {
    layout::Layout::of(minor).is_some()
}
