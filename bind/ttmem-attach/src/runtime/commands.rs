//! The commands that every run of a program sends.

#![expect(unsafe_code, reason = "calls the runtime's functions")]

use super::function::{Function, Kept};
use super::{Object, accessors};
use crate::family::Doubt;
use crate::symbols;

/// Calls a `std::function<void(void const*, u32)>`.
type Invoker = unsafe extern "C-unwind" fn(*const Kept, *const Object, *const u32);

accessors! {
    /// What is asked of a `ProgramCommandSequence`.
    ///
    /// The flags are whether to wait first, whether to wait before the launch, and whether the
    /// binary is sent as well.
    struct Functions {
        for_each_chunk: fn(Object, bool, bool, bool, *const Function<Invoker>) -> () = c"_ZN2tt8tt_metal16program_dispatch39for_each_program_command_sequence_chunkERKNS0_22ProgramCommandSequenceEbbbRKSt8functionIFvPKvjEE";
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

/// Adds the size of a chunk to the sum whose address is kept.
unsafe extern "C-unwind" fn add(kept: *const Kept, _data: *const Object, size: *const u32) {
    // SAFETY: the runtime passes on what the function that it was lent keeps.
    let [sum, _] = unsafe { kept.read() };
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
        let function = Function::<Invoker>::lent((&raw mut sum).cast(), add);
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
        function: *const Function<Invoker>,
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
            unsafe { invoker(function.cast(), &raw const data, &raw const size) };
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
