//! What becomes which event.
//!
//! Plain facts in, events of the tracker out. Nothing here touches the runtime, so all
//! of it may be contained against panics.

pub(crate) mod config_rings;

use crate::hooks::identities::Identity;
use crate::hot::{CONFIGURED, HOT, PAUSED};
use crate::runtime::allocator::{CLASSES, Regions};
use crate::runtime::buffer::Buffer;
use crate::runtime::device::{Chip, Mesh};
use crate::runtime::per_core::Part;
use crate::{python, stacks};
use std::sync::OnceLock;
use ttmem_client::{Config, Tracker};
use ttmem_event::catalogue::Arch;
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoreSet, CoresId, DeviceDefinition, DeviceId, Direction,
    DispatchPath, EventKind, MeshDefinition, MeshId, MeshKind, ProgramId, Source, TextId,
};

/// The tracker of this process; the first call configures it.
#[inline]
pub(crate) fn tracker() -> Tracker {
    if HOT.state() & CONFIGURED == 0 {
        configure();
    }
    Tracker
}

#[cold]
fn configure() {
    static TRACKER: OnceLock<Tracker> = OnceLock::new();
    TRACKER.get_or_init(|| {
        let variable = std::env::var_os(stacks::VARIABLE);
        stacks::configure(variable.as_deref());
        python::configure(std::env::var_os(python::VARIABLE).as_deref());
        Tracker::start(Config {
            source: Source::Attached,
            ..Config::from_env()
        })
    });
    HOT.set(CONFIGURED, true);
}

/// Whether anything is reported, in a state of [`HOT`].
#[inline]
pub(crate) fn is_on_in(state: u8) -> bool {
    if state & (CONFIGURED | PAUSED) == CONFIGURED {
        return Tracker.is_enabled();
    }
    state & PAUSED == 0 && tracker().is_enabled()
}

pub(crate) fn pause(paused: bool) {
    tracker();
    HOT.set(PAUSED, paused);
}

/// A buffer's id: the runtime's own number, which begins at 0 and is never used again.
pub(crate) fn buffer_id(unique_id: u64) -> BufferId {
    BufferId(unique_id.saturating_add(1))
}

#[inline]
pub(crate) fn event(event: EventKind) {
    tracker().track(event);
}

/// Something happened that was not reported: the totals of this process are not to be trusted.
pub(crate) fn event_lost() {
    event(EventKind::EventsLost { count: 1 });
}

/// From here on something is not reported: the process is incomplete, and readers see why.
pub(crate) fn not_tracked(what: &str, why: &str) {
    // A panic of ours ends here, and the host goes on.
    let _contained = std::panic::catch_unwind(|| {
        let tracker = tracker();
        let (what, why) = (tracker.text(what), tracker.text(why));
        tracker.track(EventKind::NotTracked { what, why });
    });
}

// Who records the commonest events has looked whether tracking is on: the tracker is configured.

/// A buffer was placed on all banks of its class.
pub(crate) fn buffer_allocated(
    mesh: MeshId,
    unique_id: u64,
    buffer: &Buffer,
    address: u64,
    banks: u16,
    direction: Option<Direction>,
    operation: TextId,
) {
    let id = buffer_id(unique_id);
    Tracker.track(EventKind::BufferAllocated {
        mesh,
        buffer: id,
        class: buffer.class,
        layout: buffer.layout,
        direction: direction.unwrap_or(usual_direction(buffer.class)),
        address,
        requested_bytes: buffer.size_bytes,
        per_bank_bytes: buffer.per_bank_bytes,
        banks,
        page_bytes: u32::try_from(buffer.page_bytes).unwrap_or(u32::MAX),
        cores: CoresId::NONE,
        operation,
    });
    large_stack(mesh, id, buffer, banks.into());
}

/// How far the ids of a buffer's parts are apart: no process has that many buffers.
const PART_STEP: u64 = 1 << 40;

/// The id of a part of a buffer, of which the first has the buffer's own.
fn part_id(unique_id: u64, part: u64) -> BufferId {
    let BufferId(first) = buffer_id(unique_id);
    BufferId(first.saturating_add(part.saturating_mul(PART_STEP)))
}

/// A buffer was placed on some cores: each part has its own address, and its own id.
pub(crate) fn parts_allocated(
    mesh: MeshId,
    unique_id: u64,
    buffer: &Buffer,
    parts: &[Part],
    direction: Option<Direction>,
    operation: TextId,
) {
    let all_cores = parts.iter().map(|part| u64::from(part.cores.len())).sum();
    let mut cores_before = 0;
    for (number, part) in (0..).zip(parts) {
        let cores = tracker().cores(&part.cores);
        if cores == CoresId::NONE {
            // Without its cores it would count on all of them.
            event_lost();
            continue;
        }
        let count = part.cores.len();
        let share = |cores| share_of(buffer.size_bytes, cores, all_cores);
        let cores_so_far = cores_before + u64::from(count);
        let requested_bytes = share(cores_so_far).saturating_sub(share(cores_before));
        cores_before = cores_so_far;
        let id = part_id(unique_id, number);
        tracker().track(EventKind::BufferAllocated {
            mesh,
            buffer: id,
            class: buffer.class,
            layout: buffer.layout,
            direction: direction.unwrap_or(usual_direction(buffer.class)),
            address: part.address,
            requested_bytes,
            per_bank_bytes: buffer.per_bank_bytes,
            banks: u16::try_from(count).unwrap_or(u16::MAX),
            page_bytes: u32::try_from(buffer.page_bytes).unwrap_or(u32::MAX),
            cores,
            operation,
        });
        large_stack(mesh, id, buffer, all_cores);
    }
}

/// What some of all cores have of so many bytes.
fn share_of(bytes: u64, cores: u64, all_cores: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(cores);
    let share = share.checked_div(u128::from(all_cores)).unwrap_or(0);
    u64::try_from(share).unwrap_or(bytes)
}

/// The end of the bank that the runtime takes from unless asked otherwise.
fn usual_direction(class: Class) -> Direction {
    if class.is_l1() {
        Direction::TopDown
    } else {
        Direction::BottomUp
    }
}

/// A buffer was given back that had so many parts.
pub(crate) fn buffer_freed(mesh: MeshId, unique_id: u64, parts: u32) {
    Tracker.track(EventKind::BufferFreed {
        mesh,
        buffer: buffer_id(unique_id),
    });
    if parts > 1 {
        other_parts_freed(mesh, unique_id, parts);
    }
}

/// Out of the way of buffers without parts, which are nearly all.
#[cold]
fn other_parts_freed(mesh: MeshId, unique_id: u64, parts: u32) {
    for part in 1..parts {
        event(EventKind::BufferFreed {
            mesh,
            buffer: part_id(unique_id, part.into()),
        });
    }
}

/// The call stack behind what was reported just before, if it is a buffer that is large enough.
#[inline]
fn large_stack(mesh: MeshId, id: BufferId, buffer: &Buffer, banks: u64) {
    if stacks::are_on() && stacks::is_large(buffer.per_bank_bytes.saturating_mul(banks)) {
        stack(mesh, id, ProgramId(0));
    }
}

/// The call stack behind what was reported just before, if stacks are reported at all.
pub(crate) fn stack(mesh: MeshId, buffer: BufferId, program: ProgramId) {
    if !stacks::are_on() {
        return;
    }
    let stack = stacks::here();
    if stack != TextId::NONE {
        event(EventKind::StackNoted {
            mesh,
            buffer,
            program,
            stack,
        });
    }
}

/// A chip was opened; its device, and the chip as a mesh of one.
pub(crate) fn chip_opened(
    chip: &Chip,
    identity: &Identity,
    l1_reserved_bytes: u64,
) -> (DeviceId, MeshId) {
    let tracker = tracker();
    let logical_id = u32::try_from(chip.id).unwrap_or_default();
    let small = |number: u64| u16::try_from(number).unwrap_or_default();
    let board = identity.board.as_deref();
    let board = board.map_or(TextId::NONE, |board| tracker.text(board));
    let device = tracker.device(&DeviceDefinition {
        id: DeviceId(0),
        logical_id,
        unique_id: identity.unique_id,
        arch: u16::try_from(chip.arch).map_or(Arch::Unknown(0), Arch::from_code),
        board,
        remote: Some(!chip.is_local),
        grid_columns: small(chip.columns),
        grid_rows: small(chip.rows),
        l1_bytes_per_core: chip.l1_bytes,
        l1_reserved_bytes: u32::try_from(l1_reserved_bytes).unwrap_or_default(),
    });
    let mesh = tracker.mesh(&MeshDefinition {
        id: MeshId(0),
        kind: MeshKind::Chip,
        handle: u64::from(logical_id),
        rows: 1,
        columns: 1,
        devices: vec![device],
    });
    tracker.track(EventKind::DeviceOpened { device });
    (device, mesh)
}

pub(crate) fn mesh_opened(mesh: &Mesh, devices: Vec<DeviceId>) -> MeshId {
    let tracker = tracker();
    let small = |number: u64| u16::try_from(number).unwrap_or_default();
    let id = tracker.mesh(&MeshDefinition {
        id: MeshId(0),
        kind: MeshKind::Mesh,
        handle: u64::try_from(mesh.id).unwrap_or_default(),
        rows: small(mesh.rows),
        columns: small(mesh.columns),
        devices,
    });
    tracker.track(EventKind::MeshOpened { mesh: id });
    id
}

/// What an allocator can hand out.
pub(crate) fn capacities(mesh: MeshId, regions: &Regions) {
    for class in CLASSES {
        let region = regions[class.index()];
        event(EventKind::CapacityReported {
            mesh,
            class,
            banks: region.banks,
            base: region.base,
            per_bank_bytes: region.per_bank_bytes,
            alignment: region.alignment,
        });
    }
}

/// A program appeared, or its name became known.
pub(crate) fn program(program: ProgramId, name: TextId, runtime_id: u64, object: usize) {
    let pointer = u64::try_from(object).unwrap_or_default();
    tracker().track(EventKind::ProgramCreated {
        program,
        name: python::origin(name),
        runtime_id,
        pointer,
    });
}

/// A program placed storage of its own on cores.
pub(crate) fn cb_allocated(
    mesh: MeshId,
    program: ProgramId,
    number: u32,
    kind: CbKind,
    address: u64,
    size_bytes: u64,
    cores: &CoreSet,
) {
    tracker().track(EventKind::CbAllocated {
        mesh,
        program,
        cb: number,
        kind,
        address,
        size_bytes,
        cores: tracker().cores(cores),
    });
}

pub(crate) fn dispatched(
    mesh: MeshId,
    program: ProgramId,
    runtime_id: u64,
    operation: TextId,
    ran_before: bool,
    path: DispatchPath,
) {
    Tracker.track(EventKind::Dispatched {
        mesh,
        program,
        runtime_id,
        operation,
        // A program that runs again was kept by the program cache.
        program_cache: if ran_before {
            CacheResult::Hit
        } else {
            CacheResult::Miss
        },
        // Where there are no dispatch cores, the host writes it anew.
        binary_reused: ran_before && path == DispatchPath::Fast,
        path,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_ids_from_one_on() {
        assert_eq!(buffer_id(0), BufferId(1));
        assert_eq!(buffer_id(u64::MAX), BufferId(u64::MAX));
    }

    #[test]
    fn parts_of_a_buffer_have_ids_that_no_buffer_has() {
        assert_eq!(part_id(6, 0), buffer_id(6));
        assert_eq!(part_id(6, 2), BufferId(7 + (2 << 40)));
    }

    #[test]
    fn parts_have_what_was_asked_for_together() {
        let ends = [0, 1, 3, 7].map(|cores| share_of(1000, cores, 7));
        assert_eq!(ends, [0, 142, 428, 1000]);
        assert_eq!(share_of(u64::MAX, 64, 64), u64::MAX);
        assert_eq!(share_of(1000, 0, 0), 0);
    }

    #[test]
    fn l1_is_taken_from_the_top() {
        assert_eq!(usual_direction(Class::L1), Direction::TopDown);
        assert_eq!(usual_direction(Class::L1Small), Direction::TopDown);
        assert_eq!(usual_direction(Class::Dram), Direction::BottomUp);
        assert_eq!(usual_direction(Class::Trace), Direction::BottomUp);
    }
}
