//! The commands that every run of a program sends.

#![expect(unsafe_code, reason = "calls the runtime's functions")]

use super::{Object, accessors};
use crate::family::Doubt;
use crate::symbols;
use std::ffi::c_void;

/// `std::function`: its own storage, then what manages it and what calls it.
///
/// Nobody copies or destroys the one that is lent here, so there is nothing to manage; it
/// must only not look empty.
#[repr(C)]
struct Function {
    storage: [*mut c_void; 2],
    manager: unsafe extern "C" fn(),
    invoker: unsafe extern "C-unwind" fn(*const Self, *const Object, *const u32),
}

accessors! {
    /// What is asked of a `ProgramCommandSequence`.
    ///
    /// The flags are whether to wait first, whether to wait before the launch, and whether the
    /// binary is sent as well.
    struct Functions {
        for_each_chunk: fn(Object, bool, bool, bool, *const Function) -> () = c"_ZN2tt8tt_metal16program_dispatch39for_each_program_command_sequence_chunkERKNS0_22ProgramCommandSequenceEbbbRKSt8functionIFvPKvjEE";
    }
}

/// What is asked of commands.
#[derive(Debug)]
pub(crate) struct CommandAccessors {
    functions: Functions,
}

/// Finds what is asked of commands.
pub(crate) fn find() -> Result<CommandAccessors, Doubt> {
    // SAFETY: the loader gives the runtime's function of each name.
    let functions = unsafe { Functions::find_all(symbols::find) }?;
    Ok(CommandAccessors { functions })
}

/// Is never called: what it would manage is only lent.
unsafe extern "C" fn manage() {}

/// Adds the size of a chunk to the sum that the function's storage points to.
unsafe extern "C-unwind" fn add(function: *const Function, _data: *const Object, size: *const u32) {
    // SAFETY: the runtime passes on the function it was lent.
    let sum = unsafe { (*function).storage[0] };
    // SAFETY: it passes a reference to the chunk's size.
    let size = unsafe { size.read() };
    // SAFETY: `size_bytes` put the address of its own sum there and waits for the end.
    let sum = unsafe { &mut *sum.cast::<u64>() };
    *sum = sum.saturating_add(size.into());
}

impl CommandAccessors {
    /// Bytes of the commands of a first run, without those that wait for earlier programs.
    ///
    /// # Safety
    /// `commands` is a live `ProgramCommandSequence`.
    pub(crate) unsafe fn size_bytes(&self, commands: Object) -> u64 {
        let mut sum = 0_u64;
        let function = Function {
            storage: [(&raw mut sum).cast(), std::ptr::null_mut()],
            manager: manage,
            invoker: add,
        };
        // SAFETY: as the caller vouches; the function is only called before this returns.
        unsafe {
            (self.functions.for_each_chunk)(commands, false, false, true, &raw const function)
        };
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls a function as C++ does, for two chunks.
    unsafe extern "C-unwind" fn two_chunks(
        _commands: Object,
        waits_first: bool,
        waits_before_launch: bool,
        sends_binary: bool,
        function: *const Function,
    ) {
        assert_eq!(
            (waits_first, waits_before_launch, sends_binary),
            (false, false, true)
        );
        let data: Object = std::ptr::null();
        for size in [1024_u32, 48] {
            // SAFETY: the function is the one under test.
            let invoker = unsafe { (*function).invoker };
            // SAFETY: as above.
            unsafe { invoker(function, &raw const data, &raw const size) };
        }
    }

    #[test]
    fn the_sizes_of_all_chunks_are_added() {
        let accessors = CommandAccessors {
            functions: Functions {
                for_each_chunk: two_chunks,
            },
        };
        // SAFETY: the function above does not look at the commands.
        assert_eq!(unsafe { accessors.size_bytes(std::ptr::null()) }, 1072);
    }
}
