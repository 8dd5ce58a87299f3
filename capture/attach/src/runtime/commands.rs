//! The commands that every run of a program sends.

#![expect(unsafe_code, reason = "is called back by the runtime")]

use super::function::{Function, Kept};
use super::{Object, accessors};

/// Calls a `std::function<void(void const*, u32)>`.
type Invoker = unsafe extern "C-unwind" fn(*const Kept, *const Object, *const u32);

accessors! {
    /// What is asked of a `ProgramCommandSequence`.
    ///
    /// The flags are whether to wait first, whether to wait before the launch, and whether the
    /// binary is sent as well.
    struct CommandAccessors => ACCESSORS {
        for_each_chunk: fn(Object, bool, bool, bool, &Function<Invoker>) -> () = c"_ZN2tt8tt_metal16program_dispatch39for_each_program_command_sequence_chunkERKNS0_22ProgramCommandSequenceEbbbRKSt8functionIFvPKvjEE";
    }
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
    pub(crate) fn size_bytes(&self, commands: Object) -> u64 {
        let mut sum = 0_u64;
        let function = Function::<Invoker>::lent((&raw mut sum).cast(), add);
        (self.for_each_chunk)(commands, false, false, true, &function);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls a function as C++ does, for two chunks.
    extern "C-unwind" fn two_chunks(
        _commands: Object,
        waits_first: bool,
        waits_before_launch: bool,
        sends_binary: bool,
        function: &Function<Invoker>,
    ) {
        assert_eq!(
            (waits_first, waits_before_launch, sends_binary),
            (false, false, true)
        );
        let (kept, data) = ((&raw const *function).cast(), Object::NULL);
        for size in [1024_u32, 48] {
            // SAFETY: the function is the one under test, which gets what it keeps.
            unsafe { (function.invoker)(kept, &raw const data, &raw const size) };
        }
    }

    #[test]
    fn the_sizes_of_all_chunks_are_added() {
        let accessors = CommandAccessors {
            for_each_chunk: two_chunks,
        };
        assert_eq!(accessors.size_bytes(Object::NULL), 1072);
    }
}
