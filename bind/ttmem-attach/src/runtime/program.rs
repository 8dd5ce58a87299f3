//! Programs.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::{Object, accessors};
use crate::family::Doubt;
use crate::symbols;
use std::sync::LazyLock;

accessors! {
    /// What is asked of a `Program`.
    struct ProgramAccessors {
        runtime_id: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6detail11ProgramImpl14get_runtime_idEv";
    }
}

/// The accessors of this process's runtime.
pub(crate) static ACCESSORS: LazyLock<Result<ProgramAccessors, Doubt>> = LazyLock::new(|| {
    // SAFETY: the loader gives the runtime's function of each name.
    unsafe { ProgramAccessors::find_all(symbols::find) }
});

impl ProgramAccessors {
    /// The runtime's number of the program's current run.
    ///
    /// # Safety
    /// `implementation` is a live `ProgramImpl`.
    pub(crate) unsafe fn runtime_id(&self, implementation: Object) -> u64 {
        // SAFETY: as the caller vouches.
        unsafe { (self.runtime_id)(implementation) }
    }
}

/// The `ProgramImpl` of a `Program`, which is a pointer to it.
///
/// # Safety
/// `program` is null or a live `Program`.
pub(crate) unsafe fn implementation(program: Object) -> Object {
    if program.is_null() {
        return program;
    }
    // SAFETY: a `Program` begins with the shared pointer to its implementation.
    unsafe { program.cast::<Object>().read() }
}
