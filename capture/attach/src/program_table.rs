//! The programs of the process: our own numbers for the runtime's objects.
//!
//! An object's address names a program from its first appearance in a hook to its
//! destruction; addresses are reused, numbers are not.

use crate::hooks::scratchpads::Scratchpad;
use crate::lock_free::per_process::PerProcess;
use crate::regions::Regions;
use crate::runtime::circular::CircularBuffer;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use ttmem_event::{MeshId, ProgramId, TextId};
use ttmem_ring::heap::Heap;

#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) id: ProgramId,
    pub(crate) name: TextId,
    /// The meshes that it was sent to before: hardly ever more than one.
    pub(crate) sent_to: Vec<MeshId>,
    /// A fingerprint of the dataflow buffers last reported.
    pub(crate) dataflow: u64,
    /// What a glance at them gave then, and for which mesh.
    pub(crate) glance: Option<(MeshId, u64)>,
    /// Dataflow buffers that are inside of tensors: their places follow these.
    pub(crate) borrowed: Vec<u32>,
    /// Its circular buffers, as they were reported.
    pub(crate) circular: Circulars,
    pub(crate) scratchpads: Vec<Scratchpad>,
    /// Where its circular buffers end.
    pub(crate) regions: Regions,
    pub(crate) binary_bytes: u64,
    pub(crate) command_bytes: u64,
    /// Its kernels: objects and their kinds of core.
    pub(crate) kernels: Vec<(usize, u8)>,
}

impl Program {
    /// Whether there is nothing to report of it but that it is sent to a mesh by an operation.
    #[inline]
    pub(crate) fn is_settled(&self, mesh: MeshId, operation: TextId) -> bool {
        let is_known = self.name == operation && self.sent_to.contains(&mesh);
        is_known && self.borrowed.is_empty() && !self.circular.can_move()
    }
}

/// The circular buffers of a program, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Circulars {
    pub(crate) reported: Vec<CircularBuffer>,
    /// Whether any of them was inside of a tensor.
    pub(crate) has_global: bool,
    /// Whether the program was asked for them after it was sent.
    pub(crate) is_checked: bool,
    /// Whether it has them in another order than they were reported: which is which is not known.
    pub(crate) is_odd: bool,
}

impl Circulars {
    pub(crate) fn note(&mut self, number: u32, buffer: CircularBuffer) {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        if at >= self.reported.len() {
            let count = at.saturating_add(1);
            if self
                .reported
                .try_reserve(count - self.reported.len())
                .is_err()
            {
                return Heap::exhaust();
            }
            self.reported.resize(count, CircularBuffer::default());
        }
        self.has_global |= buffer.is_global;
        self.reported[at] = buffer;
    }

    /// Whether any may be elsewhere when the program is sent again: those inside of tensors.
    pub(crate) fn can_move(&self) -> bool {
        !self.is_odd && (!self.is_checked || self.has_global)
    }
}

type Programs = HashMap<usize, Program, BuildHasherDefault<AddressHasher>>;

static TABLE: PerProcess<Programs> = PerProcess::new();

/// Spreads addresses, which nobody chooses to collide: one multiplication.
#[derive(Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    #[inline]
    fn write_usize(&mut self, address: usize) {
        let address = u64::try_from(address).unwrap_or_default();
        let product = (self.0 ^ address).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // The best bits of a product are its upper ones; the table uses both ends.
        self.0 = product ^ (product >> 32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Forgets every program: in a child, they are its parent's.
pub(crate) fn forget() {
    TABLE.forget();
}

/// Looks at a program; `new` gives the number of one that was not seen before.
pub(crate) fn with<R>(
    object: usize,
    new: impl FnOnce() -> ProgramId,
    look: impl FnOnce(&mut Program) -> R,
) -> R {
    let mut programs = TABLE.lock();
    if programs.try_reserve(1).is_err() {
        Heap::exhaust();
        return look(&mut Program::default());
    }
    let program = programs.entry(object).or_insert_with(|| Program {
        id: new(),
        ..Program::default()
    });
    look(program)
}

pub(crate) fn with_known<R>(object: usize, look: impl FnOnce(&mut Program) -> R) -> Option<R> {
    TABLE.lock().get_mut(&object).map(look)
}

pub(crate) fn remove(object: usize) -> Option<Program> {
    TABLE.lock().remove(&object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_inside_of_tensors_can_move() {
        let mut circular = Circulars::default();
        assert!(circular.can_move());
        circular.is_checked = true;
        assert!(!circular.can_move());
        circular.note(1, CircularBuffer::default());
        assert!(!circular.can_move());
        let global = CircularBuffer {
            is_global: true,
            ..CircularBuffer::default()
        };
        circular.note(0, global);
        assert!(circular.can_move());
        assert_eq!(circular.reported.len(), 2);
        circular.is_odd = true;
        assert!(!circular.can_move(), "it is not known which is which");
    }

    #[test]
    fn a_program_is_settled_when_it_runs_again_where_everything_stays() {
        let (mesh, operation) = (MeshId(1), TextId(2));
        let mut program = Program::default();
        program.circular.is_checked = true;
        assert!(!program.is_settled(mesh, operation));
        program.sent_to.push(mesh);
        assert!(!program.is_settled(mesh, operation), "its name is new");
        program.name = operation;
        assert!(program.is_settled(mesh, operation));
        assert!(!program.is_settled(MeshId(2), operation));
        program.borrowed.push(0);
        assert!(
            !program.is_settled(mesh, operation),
            "what it borrows may move"
        );
        program.borrowed.clear();
        program.circular.is_checked = false;
        assert!(!program.is_settled(mesh, operation));
    }

    #[test]
    fn an_address_names_another_program_after_destruction() {
        let mut numbers = (1..).map(ProgramId);
        let mut number = |object| {
            with(
                object,
                || numbers.next().expect("endless"),
                |program| program.id,
            )
        };
        assert_eq!(number(0x9000), ProgramId(1));
        assert_eq!(number(0x9100), ProgramId(2));
        assert_eq!(number(0x9000), ProgramId(1));
        assert_eq!(remove(0x9000).map(|program| program.id), Some(ProgramId(1)));
        assert!(remove(0x9000).is_none());
        assert!(with_known(0x9000, |_program| ()).is_none());
        assert_eq!(number(0x9000), ProgramId(3));
    }
}
