//! Config rings: where the configuration and the text of the programs in flight lie.
//!
//! Managers are learnt when the runtime makes a mesh's first command queue, or divides a
//! mesh anew; other queues have rings of their own, which are not followed. A mesh is reported
//! later than its managers are made, so their rings are reported when the mesh is, or when
//! they are first used.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{dispatch, interpose, interpose_needed, queues};
use crate::call_context::{self, Slot, during};
use crate::config_ring_managers::{Entry, MANAGERS, Manager, Space};
use crate::family::Family;
use crate::mesh_objects::MeshObject;
use crate::report::config_rings as events;
use crate::runtime::Object;
use crate::runtime::vector::Vector;
use crate::thread::{self, Reservation};
use ttmem_event::MeshId;

pub(crate) static FAMILY: Family = Family::new("config rings");

/// Managers of a queue: the runtime makes them all at once, used or not.
const MANAGERS_PER_QUEUE: usize = 8;

/// A result of two words.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Reserved(u64, Object);

/// The address of a manager that is being set up, and its rings so far.
type SettingUp = (usize, Vec<Space>);

thread_local! {
    /// The managers that this thread sets up, in the order of their sub-devices.
    static SETTING_UP: Slot<Vec<SettingUp>> = const { Slot::new() };
}

/// Notes a ring of a manager that is being set up.
fn note_ring(manager: usize, ring: Space) {
    call_context::with(&SETTING_UP, |managers| match managers.last_mut() {
        Some((last, rings)) if *last == manager => rings.push(ring),
        _other => managers.push((manager, vec![ring])),
    });
}

/// Notes managers that were set up, and reports their rings if their mesh is known.
fn note_managers(managers: &[SettingUp]) -> Option<()> {
    FAMILY.need(&*NEEDED)?;
    let making = queues::making();
    if let Some(making) = making {
        if making.number != 0 {
            let known = managers
                .iter()
                .filter_map(|(address, _)| MANAGERS.at(*address));
            known.for_each(MeshObject::end);
            return None;
        }
        // One that had this address before may have ended unseen.
        MANAGERS.end_of_mesh(making.mesh);
    }
    let mut mesh = None;
    let mut known = Vec::with_capacity(managers.len());
    for (index, (address, rings)) in managers.iter().enumerate() {
        let manager = match making {
            Some(making) => MANAGERS.register(*address, making.mesh),
            // Those that were not made for a mesh, such as one for a list of commands.
            None => MANAGERS.at(*address).filter(|known| !known.is_ended()),
        }?;
        // What is being made was not reported: only a mesh that is divided anew was.
        mesh = mesh.or(manager.reported());
        manager.set_reported(MeshId(0));
        if !manager.state.reset(u8::try_from(index).ok()?, rings) {
            FAMILY.turn_off("there are other rings than expected");
            return None;
        }
        known.push(manager);
    }
    // All at once are set up for a mesh that is not divided.
    let in_use = if known.len() >= MANAGERS_PER_QUEUE {
        1
    } else {
        known.len()
    };
    let mesh = mesh.or_else(|| known.first()?.mesh())?;
    known
        .iter()
        .take(in_use)
        .for_each(|manager| report_opened(mesh, manager));
    Some(())
}

fn report_opened(mesh: MeshId, manager: &MeshObject<Manager>) {
    if manager.reported().is_none() {
        manager.set_reported(mesh);
        FAMILY.contain(|| events::opened(mesh, &manager.state));
    }
}

/// Reports the rings of a mesh that was just reported.
pub(super) fn mesh_opened(mesh: Object, id: MeshId) {
    if FAMILY.need(&*NEEDED).is_some() {
        let mut managers = MANAGERS.of_mesh(mesh.address());
        if let Some(first) = managers.find(|manager| manager.state.sub_device() == 0) {
            report_opened(id, first);
        }
    }
}

/// Ends what is known of the rings of a mesh that was closed.
pub(super) fn mesh_closed(mesh: Object) {
    FAMILY.contain(|| MANAGERS.end_of_mesh(mesh.address()));
}

/// A manager of a mesh whose rings are reported.
#[inline]
fn manager_in_use(object: Object) -> Option<(&'static Manager, MeshId)> {
    if !FAMILY.is_tracking() {
        return None;
    }
    let manager = MANAGERS.at(object.address())?;
    let mesh = manager.reported().or_else(|| first_use(manager))?;
    Some((&manager.state, mesh))
}

/// Reports the rings of a sub-device that is used for the first time; its mesh.
#[cold]
fn first_use(manager: &MeshObject<Manager>) -> Option<MeshId> {
    FAMILY.need(&*NEEDED)?;
    let mesh = manager.mesh()?;
    report_opened(mesh, manager);
    Some(mesh)
}

/// Reports what a program takes of what a manager has found; false if that is laid out in another
/// way.
fn report_taken(manager: &Manager, mesh: MeshId, reservation: Reservation, sync: u32) -> bool {
    if reservation.found == 0 {
        return false;
    }
    // SAFETY: it is a member of the manager, which is in use.
    let found = unsafe { Object::at(reservation.found) };
    // SAFETY: it is the vector of what was found.
    let found = unsafe { found.read::<Vector>(0) };
    // SAFETY: an entry is three words; the runtime changes them only when it finds room anew.
    let entries = unsafe { found.elements::<Entry>() };
    let taken = entries.and_then(|entries| manager.take(entries, reservation.freed));
    let Some(taken) = taken else {
        return false;
    };
    let program = dispatch::sending().unwrap_or_default();
    FAMILY.contain(|| events::taken(mesh, manager.sub_device(), &taken, program, sync));
    true
}

// A runtime without one of these has rings of another kind.
interpose_needed! {
    /// `void reset_config_buf_mgrs_and_expected_workers(Hal const&, array<WorkerConfigBufferMgr, 8>&,
    /// array<u32, 8>&, u32, u32)`: sets up the first so many managers.
    "_ZN2tt8tt_metal16program_dispatch42reset_config_buf_mgrs_and_expected_workersERKNS0_3HalERSt5arrayINS0_21WorkerConfigBufferMgrELm8EERS5_IjLm8EEjj"
    fn reset_managers(hal: Object, managers: Object, expected: Object, count: u32, end: u32) |real| {
        let ((), managers) = during(&SETTING_UP, Vec::new(), real);
        if FAMILY.is_tracking() {
            FAMILY.contain(|| note_managers(&managers.unwrap_or_default()));
        }
    }

    /// `void WorkerConfigBufferMgr::init_add_buffer(u32, u32)`: one more ring.
    "_ZN2tt8tt_metal21WorkerConfigBufferMgr15init_add_bufferEjj"
    fn add_ring(manager: Object, base: u32, size_bytes: u32) |real| {
        real();
        FAMILY.contain(|| note_ring(manager.address(), Space { base, size_bytes }));
    }

    /// `pair<ConfigBufferSync, vector<ConfigBufferEntry>&> WorkerConfigBufferMgr::reserve(vector<u32>
    /// const&)`: a member with what it found is in the second word. Called up to three times, with
    /// other sizes, before one counts: so it is only noted where that is.
    "_ZN2tt8tt_metal21WorkerConfigBufferMgr7reserveERKSt6vectorIjSaIjEE"
    fn reserve(object: Object, sizes: Object) -> Reserved |real| {
        let result = real();
        thread::with(|block| block.note_reservation(object.address(), result.1.address()));
        result
    }

    /// `void WorkerConfigBufferMgr::free(u32)`: what ends with so many completions may go.
    "_ZN2tt8tt_metal21WorkerConfigBufferMgr4freeEj"
    fn free(object: Object, sync: u32) |real| {
        real();
        let is_for_room = thread::with(|block| block.note_freed(object.address(), sync));
        if !is_for_room && let Some((manager, mesh)) = manager_in_use(object) {
            FAMILY.contain(|| events::freed(mesh, manager.sub_device(), manager.used(), sync));
        }
    }

    /// `void WorkerConfigBufferMgr::alloc(u32)`: takes what was found, until so many completions came.
    "_ZN2tt8tt_metal21WorkerConfigBufferMgr5allocEj"
    fn take(object: Object, sync: u32) |real| {
        real();
        let reservation = thread::with(|block| block.take_reservation(object.address()));
        if let Some(reservation) = reservation
            && let Some((manager, mesh)) = manager_in_use(object)
            && !report_taken(manager, mesh, reservation, sync)
        {
            FAMILY.turn_off("a reservation is laid out in another way");
        }
    }
}

interpose! {
    /// `void WorkerConfigBufferMgr::mark_completely_full(u32)`: a trace wrote where it pleased.
    "_ZN2tt8tt_metal21WorkerConfigBufferMgr20mark_completely_fullEj"
    fn fill(object: Object, sync: u32) |real| {
        real();
        if let Some((manager, mesh)) = manager_in_use(object) {
            manager.fill();
            FAMILY.contain(|| events::filled(mesh, manager, sync));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_count_towards_the_manager_they_are_added_to() {
        let ring = |base| Space {
            base,
            size_bytes: 8,
        };
        note_ring(0x1000, ring(0));
        let ((), managers) = during(&SETTING_UP, Vec::new(), || {
            for (manager, base) in [(0x1000, 1), (0x1000, 2), (0x2000, 1)] {
                note_ring(manager, ring(base));
            }
        });
        let expected = vec![(0x1000, vec![ring(1), ring(2)]), (0x2000, vec![ring(1)])];
        assert_eq!(managers, Some(expected));
    }
}
