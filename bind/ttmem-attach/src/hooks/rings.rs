//! Config rings: where the configuration and the text of the programs in flight lie.
//!
//! Managers are learnt when the runtime makes a mesh's first command queue, or divides a
//! mesh anew; other queues have rings of their own, which are not followed. A mesh is told of later than its managers are made, so their rings are told of when the
//! mesh is, or when they are first used.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{OnException, dispatch, interpose, queues};
use crate::family::{Doubt, Family};
use crate::report::{self, rings as events};
use crate::ring_managers::{self, Manager, Space};
use crate::runtime::Object;
use crate::runtime::vector::vector_at;
use crate::symbols;
use std::cell::RefCell;
use std::ffi::CStr;
use std::sync::LazyLock;
use ttmem_event::MeshId;

pub(crate) static FAMILY: Family = Family::new("config rings");

/// A runtime without one of these has rings of another kind.
const NEEDED: [&CStr; 5] = [
    c"_ZN2tt8tt_metal16program_dispatch42reset_config_buf_mgrs_and_expected_workersERKNS0_3HalERSt5arrayINS0_21WorkerConfigBufferMgrELm8EERS5_IjLm8EEjj",
    c"_ZN2tt8tt_metal21WorkerConfigBufferMgr15init_add_bufferEjj",
    c"_ZN2tt8tt_metal21WorkerConfigBufferMgr7reserveERKSt6vectorIjSaIjEE",
    c"_ZN2tt8tt_metal21WorkerConfigBufferMgr4freeEj",
    c"_ZN2tt8tt_metal21WorkerConfigBufferMgr5allocEj",
];

/// Whether all that is needed is there.
pub(crate) static SYMBOLS: LazyLock<Result<(), Doubt>> =
    LazyLock::new(|| symbols::need_all(&NEEDED));

/// Managers of a queue: the runtime makes them all at once, used or not.
const MANAGERS_PER_QUEUE: usize = 8;

/// A result of two words.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct TwoWords(u64, Object);

/// A manager that is being set up, and its rings so far.
type SettingUp = (usize, Vec<Space>);

thread_local! {
    /// The managers that this thread sets up, in the order of their sub-devices.
    static SETTING_UP: RefCell<Option<Vec<SettingUp>>> = const { RefCell::new(None) };
}

/// Changes what this thread sets up; a thread that is ending sets up nothing.
fn with_setting_up<R>(change: impl FnOnce(&mut Option<Vec<SettingUp>>) -> R) -> Option<R> {
    let changed =
        SETTING_UP.try_with(|cell| cell.try_borrow_mut().ok().map(|mut cell| change(&mut cell)));
    changed.ok().flatten()
}

/// Notes a ring of a manager that is being set up.
fn note_ring(manager: usize, ring: Space) {
    with_setting_up(|managers| {
        let managers = managers.as_mut()?;
        match managers.last_mut() {
            Some((last, rings)) if *last == manager => rings.push(ring),
            _other => managers.push((manager, vec![ring])),
        }
        Some(())
    });
}

/// Notes managers that were set up, and tells of their rings if their mesh is known.
fn note_managers(managers: &[SettingUp]) -> Option<()> {
    FAMILY.need(&*SYMBOLS)?;
    let making = queues::making();
    if let Some(making) = making {
        if making.number != 0 {
            for (address, _rings) in managers {
                ring_managers::end_at(std::ptr::without_provenance(*address));
            }
            return None;
        }
        // One that had this address before may have ended unseen.
        ring_managers::end_of_mesh(making.mesh);
    }
    let mut mesh = None;
    let mut known: Vec<&'static Manager> = Vec::with_capacity(managers.len());
    for (index, (address, rings)) in managers.iter().enumerate() {
        let object = std::ptr::without_provenance(*address);
        let sub_device = u8::try_from(index).ok()?;
        let manager = match making {
            Some(making) => ring_managers::register(object, making.mesh, sub_device),
            // Those that were not made for a mesh, such as one for a list of commands.
            None => ring_managers::known(object).filter(|known| !known.is_ended()),
        }?;
        // What is being made was not told of: only a mesh that is divided anew was.
        mesh = mesh.or(manager.told());
        if !manager.reset(rings) {
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
    tell_opened(mesh, known.iter().take(in_use));
    Some(())
}

fn tell_opened<'a>(mesh: MeshId, managers: impl Iterator<Item = &'a &'static Manager>) {
    for manager in managers {
        if manager.told().is_none() {
            manager.set_told(mesh);
            FAMILY.contain(|| events::opened(mesh, manager));
        }
    }
}

/// Tells of the rings of a mesh that was just told of.
pub(super) fn mesh_opened(mesh: Object, id: MeshId) {
    if FAMILY.need(&*SYMBOLS).is_some() {
        FAMILY.contain(|| tell_opened(id, ring_managers::of_mesh(mesh, 0).iter()));
    }
}

/// Ends what is known of the rings of a mesh that was closed.
pub(super) fn mesh_closed(mesh: Object) {
    FAMILY.contain(|| ring_managers::end_of_mesh(mesh));
}

/// A manager of a mesh whose rings are told of.
#[inline]
fn manager_in_use(object: Object) -> Option<(&'static Manager, MeshId)> {
    if !FAMILY.is_on() || !report::is_on() {
        return None;
    }
    let manager = ring_managers::known(object)?;
    match manager.told() {
        Some(mesh) => Some((manager, mesh)),
        None => first_use(manager),
    }
}

/// Tells of the rings of a sub-device that is used for the first time.
#[cold]
fn first_use(manager: &'static Manager) -> Option<(&'static Manager, MeshId)> {
    FAMILY.need(&*SYMBOLS)?;
    let mesh = manager.mesh()?;
    tell_opened(mesh, [manager].iter());
    Some((manager, mesh))
}

interpose! {
    /// `void reset_config_buf_mgrs_and_expected_workers(Hal const&, array<WorkerConfigBufferMgr, 8>&,
    /// array<u32, 8>&, u32, u32)`: sets up the first so many managers.
    "_ZN2tt8tt_metal16program_dispatch42reset_config_buf_mgrs_and_expected_workersERKNS0_3HalERSt5arrayINS0_21WorkerConfigBufferMgrELm8EERS5_IjLm8EEjj"
    fn reset_managers(hal: Object, managers: Object, expected: Object, count: u32, end: u32) |real| {
        with_setting_up(|managers| managers.replace(Vec::new()));
        let failed = OnException::new(|| {
            with_setting_up(Option::take);
        });
        // SAFETY: the caller's own arguments.
        unsafe { real(hal, managers, expected, count, end) };
        failed.disarm();
        let managers = with_setting_up(Option::take).flatten();
        if FAMILY.is_on() && report::is_on() {
            FAMILY.contain(|| note_managers(&managers.unwrap_or_default()));
        }
    }
}

interpose! {
    /// `void WorkerConfigBufferMgr::init_add_buffer(u32, u32)`: one more ring.
    "_ZN2tt8tt_metal21WorkerConfigBufferMgr15init_add_bufferEjj"
    fn add_ring(manager: Object, base: u32, size_bytes: u32) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(manager, base, size_bytes) };
        FAMILY.contain(|| note_ring(manager.addr(), Space { base, size_bytes }));
    }
}

interpose! {
    /// `pair<ConfigBufferSync, vector<ConfigBufferEntry>&> WorkerConfigBufferMgr::reserve(vector<u32>
    /// const&)`: what it found is in the second word. Called again with other sizes before it counts.
    "_ZN2tt8tt_metal21WorkerConfigBufferMgr7reserveERKSt6vectorIjSaIjEE"
    fn reserve(object: Object, sizes: Object) -> TwoWords |real| {
        // SAFETY: the caller's own arguments.
        let result = unsafe { real(object, sizes) };
        if let Some((manager, _mesh)) = manager_in_use(object) {
            // SAFETY: the caller passes a vector of sizes.
            let sizes = unsafe { vector_at(sizes) };
            // SAFETY: the second word is where the vector of what was found is.
            let found = unsafe { vector_at(result.1) };
            // SAFETY: as above; neither is changed before this returns.
            let sizes = unsafe { sizes.elements::<u32>() };
            // SAFETY: as above; an entry is an address, a size and when it may go.
            let found = unsafe { found.elements::<[u32; 3]>() };
            let is_expected = match (sizes, found) {
                (Some(sizes), Some(found)) => manager.find(sizes, found),
                _other => false,
            };
            if !is_expected {
                FAMILY.turn_off("a reservation is laid out in another way");
            }
        }
        result
    }
}

interpose! {
    /// `void WorkerConfigBufferMgr::free(u32)`: what ends with so many completions may go.
    "_ZN2tt8tt_metal21WorkerConfigBufferMgr4freeEj"
    fn free(object: Object, sync: u32) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(object, sync) };
        if let Some((manager, mesh)) = manager_in_use(object)
            && !manager.free(sync)
        {
            FAMILY.contain(|| events::freed(mesh, manager.sub_device(), manager.used(), sync));
        }
    }
}

interpose! {
    /// `void WorkerConfigBufferMgr::alloc(u32)`: takes what was found, until so many completions came.
    "_ZN2tt8tt_metal21WorkerConfigBufferMgr5allocEj"
    fn take(object: Object, sync: u32) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(object, sync) };
        if let Some((manager, mesh)) = manager_in_use(object)
            && let Some(taken) = manager.take()
        {
            let program = dispatch::sending().unwrap_or_default();
            FAMILY.contain(|| events::taken(mesh, manager, taken, program, sync));
        }
    }
}

interpose! {
    /// `void WorkerConfigBufferMgr::mark_completely_full(u32)`: a trace wrote where it pleased.
    "_ZN2tt8tt_metal21WorkerConfigBufferMgr20mark_completely_fullEj"
    fn fill(object: Object, sync: u32) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(object, sync) };
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
        assert_eq!(with_setting_up(Option::take), Some(None));
        with_setting_up(|managers| managers.replace(Vec::new()));
        for (manager, base) in [(0x1000, 1), (0x1000, 2), (0x2000, 1)] {
            note_ring(manager, ring(base));
        }
        let expected = vec![(0x1000, vec![ring(1), ring(2)]), (0x2000, vec![ring(1)])];
        assert_eq!(with_setting_up(Option::take), Some(Some(expected)));
    }
}
