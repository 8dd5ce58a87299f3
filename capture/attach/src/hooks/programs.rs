//! Programs: their numbers, and their end.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::interpose;
use crate::family::Family;
use crate::program_table::{self, Program};
use crate::runtime::{Object, program};
use crate::{pending, report};
use ttmem_event::{EventKind, ProgramId, TextId};

pub(crate) static FAMILY: Family = Family::new("programs");

/// The number of a program; reports it if it is new. None when programs are off.
///
/// The runtime constructs more programs than it uses: only those that come here count.
pub(crate) fn number_of(object: Object) -> Option<ProgramId> {
    with_program(object, |program| program.id)
}

/// Looks at what is known of a program; reports it if it is new.
pub(crate) fn with_program<R>(object: Object, look: impl FnOnce(&mut Program) -> R) -> Option<R> {
    let accessors = FAMILY.need(&*program::ACCESSORS)?;
    if object.is_null() {
        return None;
    }
    let mut look = Some(look);
    let known = FAMILY.contain(|| {
        program_table::with_known(object.address(), |program| {
            look.take().map(|look| look(program))
        })
    });
    let Some(look) = look else {
        return known.flatten();
    };
    let runtime_id = (accessors.runtime_id)(object);
    FAMILY.contain(|| {
        let new = || {
            let number = report::tracker().next_program();
            report::program(number, TextId::NONE, runtime_id, object.address());
            number
        };
        Some(program_table::with(object.address(), new, look))
    })
}

interpose! {
    /// `ProgramImpl::~ProgramImpl()`.
    "_ZN2tt8tt_metal6detail11ProgramImplD1Ev"
    fn destroy_program(object: Object) |real| {
        real();
        // The memory is not given back yet: no other program can have this address.
        pending::forget(object.address());
        if FAMILY.is_on() {
            FAMILY.contain(|| {
                if let Some(program) = program_table::remove(object.address()) {
                    report::event(EventKind::ProgramDestroyed { program: program.id });
                }
            });
        }
    }
}
