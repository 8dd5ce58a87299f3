//! Programs.

#![expect(unsafe_code, reason = "reads objects of C++ by their layout")]

use super::{Object, accessors};

accessors! {
    struct ProgramAccessors => ACCESSORS {
        /// The runtime's number of the program's current run.
        pub(crate) runtime_id: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6detail11ProgramImpl14get_runtime_idEv";
    }
}

/// The `ProgramImpl` of a `Program`, which is a pointer to it.
pub(crate) fn implementation(program: Object) -> Object {
    if program.is_null() {
        return program;
    }
    // SAFETY: a `Program` begins with the shared pointer to its implementation.
    unsafe { program.first_member() }
}
