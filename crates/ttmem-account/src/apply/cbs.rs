//! Per-core storage of programs: circular buffers, dataflow buffers, scratchpads.
//!
//! The runtime places the storage of a program anew after a change and reports
//! it again without taking the old back; a second report of the same storage
//! therefore replaces the first, and is no contradiction.

use super::{Apply, Outcome};
use crate::anomaly::Anomaly;
use crate::limits::ABSURD_BYTES;
use crate::observer::{Holding, Observer};
use crate::program::Cb;
use ttmem_event::{EventKind, MeshId, ProgramId};

/// The runtime has 64 indices at most; several entries may share one.
const MAX_PER_PROGRAM: usize = 1024;

impl<O: Observer> Apply<'_, O> {
    pub(super) fn allocate_cb(&mut self, event: &EventKind) -> Outcome {
        let EventKind::CbAllocated {
            mesh,
            program,
            cb,
            kind,
            address,
            size_bytes,
            cores,
        } = *event
        else {
            return Err(Anomaly::Malformed);
        };
        let members = self.members(mesh)?;
        let set = self.account.facts.definitions.cores(cores);
        let set = *set.ok_or(Anomaly::Undefined)?;
        let entry = Cb {
            number: cb,
            kind,
            address,
            size_bytes,
            cores_id: cores,
            core_count: set.len(),
            time: self.time,
            order: self.account.order,
        };
        if size_bytes == 0 || set.is_empty() {
            return Err(Anomaly::ZeroSize);
        }
        if size_bytes > ABSURD_BYTES / 1024 {
            return Err(Anomaly::AbsurdSize);
        }
        let registered = |totals: &crate::Totals| totals.cb.registered.bytes();
        self.check_held(&members, registered, entry.total_bytes())?;
        let program = self.program_slot_or_new(program, event)?;
        for slot in members.iter() {
            let grid = self.account.facts.devices[*slot as usize].compute;
            if grid.is_some_and(|grid| !set.is_subset(&grid.cores)) {
                self.note(Anomaly::OutsideGrid, event);
            }
        }
        let most = self.most_placed(members.len(), MAX_PER_PROGRAM);
        let put = self.change_parts(program, &members, |placed| placed.put_cb(entry, most))?;
        let (id, _name) = self.program_id_and_name(program);
        let mut outcome = Ok(());
        for (slot, put) in members.iter().zip(put) {
            match put {
                Ok(old) => {
                    if let Some(old) = old {
                        self.give_back_cb(*slot, program, &old);
                    }
                    self.book_holding(*slot, &Holding::Cb(id, &entry));
                }
                Err(refused) => outcome = Err(refused),
            }
        }
        outcome
    }

    pub(super) fn free_cb(
        &mut self,
        mesh: MeshId,
        program: ProgramId,
        number: Option<u32>,
    ) -> Outcome {
        let members = self.members(mesh)?;
        let Some(program) = self.program_slot(program) else {
            // The runtime takes back the storage of programs that never reported any.
            return if number.is_none() {
                Ok(())
            } else {
                Err(Anomaly::UnknownFree)
            };
        };
        let mut found = number.is_none();
        let taken = self.change_known_parts(program, &members, |placed| placed.take_cbs(number));
        for (slot, cbs) in taken {
            for cb in cbs {
                found = true;
                self.give_back_cb(slot, program, &cb);
            }
        }
        if found {
            Ok(())
        } else {
            Err(Anomaly::UnknownFree)
        }
    }

    pub(super) fn give_back_cb(&mut self, slot: u32, program: u32, cb: &Cb) {
        let (id, name) = self.program_id_and_name(program);
        self.release_holding(slot, name, &Holding::Cb(id, cb));
    }
}
