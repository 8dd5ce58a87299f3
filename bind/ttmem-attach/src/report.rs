//! What becomes which event.
//!
//! Plain facts in, events of the tracker out. Nothing here touches the runtime, so all
//! of it may be contained against panics.

pub(crate) mod prefetcher;
pub(crate) mod rings;
pub(crate) mod stacks;

use crate::hooks::identities::Identity;
use crate::hooks::scratchpads::Scratchpad;
use crate::regions::Clash;
use crate::runtime::allocator::{CLASSES, Regions, Statistics};
use crate::runtime::buffer::Buffer;
use crate::runtime::dataflow::DataflowBuffer;
use crate::runtime::device::{Chip, Mesh};
use crate::runtime::kernel::{self, Kernel};
use crate::runtime::per_core::Part;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use ttmem_client::{Config, Tracker};
use ttmem_event::catalogue::Arch;
use ttmem_event::{
    BinaryStatus, BufferId, CacheResult, CbKind, Class, CoreSet, CoresId, DeviceDefinition,
    DeviceId, Direction, DispatchPath, EventKind, KernelId, KernelKind, MeshDefinition, MeshId,
    MeshKind, ProgramId, Source, TextId, TraceId,
};

/// Nobody has asked for the tracker yet: it is not configured.
const FRESH: u8 = 0;
const TELLING: u8 = 1;
/// Hooks pass their calls on as if tracking were off: for a while, for a measurement.
const PAUSED: u8 = 2;

/// One of the words above: all that a hook has to look at, besides the tracker's own.
static STATE: AtomicU8 = AtomicU8::new(FRESH);

/// The tracker of this process; the first call configures it.
#[inline]
pub(crate) fn tracker() -> Tracker {
    if STATE.load(Ordering::Relaxed) == FRESH {
        configure();
    }
    Tracker
}

#[cold]
fn configure() {
    static CONFIGURED: OnceLock<Tracker> = OnceLock::new();
    CONFIGURED.get_or_init(|| {
        let variable = std::env::var_os(crate::stacks::VARIABLE);
        crate::stacks::configure(variable.as_deref());
        Tracker::start(Config {
            source: Source::Attached,
            ..Config::from_env()
        })
    });
    // Who paused it meanwhile has the last word.
    let _paused = STATE.compare_exchange(FRESH, TELLING, Ordering::Relaxed, Ordering::Relaxed);
}

/// Whether anything is to be told at all.
#[inline]
pub(crate) fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        TELLING => Tracker.is_enabled(),
        PAUSED => false,
        _fresh => tracker().is_enabled(),
    }
}

/// Pauses or goes on.
pub(crate) fn pause(paused: bool) {
    tracker();
    let state = if paused { PAUSED } else { TELLING };
    STATE.store(state, Ordering::Relaxed);
}

/// A buffer's id: the runtime's own number, which begins at 0 and is never used again.
pub(crate) fn buffer_id(unique_id: u64) -> BufferId {
    BufferId(unique_id.saturating_add(1))
}

pub(crate) fn buffer_allocated(
    mesh: MeshId,
    unique_id: u64,
    buffer: &Buffer,
    address: u64,
    banks: u16,
    direction: Option<Direction>,
    operation: TextId,
) {
    tracker().track(EventKind::BufferAllocated {
        mesh,
        buffer: buffer_id(unique_id),
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
}

/// How far the ids of a buffer's parts are apart: no process has that many buffers.
const PART_STEP: u64 = 1 << 40;

/// The id of a part of a buffer, of which the first has the buffer's own.
fn part_id(unique_id: u64, part: u64) -> BufferId {
    BufferId(
        buffer_id(unique_id)
            .0
            .saturating_add(part.saturating_mul(PART_STEP)),
    )
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
            events_lost();
            continue;
        }
        let count = part.cores.len();
        let share = |cores| share_of(buffer.size_bytes, cores, all_cores);
        let cores_so_far = cores_before + u64::from(count);
        let requested_bytes = share(cores_so_far).saturating_sub(share(cores_before));
        cores_before = cores_so_far;
        tracker().track(EventKind::BufferAllocated {
            mesh,
            buffer: part_id(unique_id, number),
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
        stacks::of_part(mesh, part_id(unique_id, number), buffer, all_cores);
    }
}

/// What some of all cores have of so many bytes.
fn share_of(bytes: u64, cores: u64, all_cores: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(cores);
    let share = share.checked_div(u128::from(all_cores)).unwrap_or(0);
    u64::try_from(share).unwrap_or(bytes)
}

/// A buffer was given back that had so many parts.
pub(crate) fn parts_freed(mesh: MeshId, unique_id: u64, parts: usize) {
    for part in (0..).take(parts) {
        tracker().track(EventKind::BufferFreed {
            mesh,
            buffer: part_id(unique_id, part),
        });
    }
}

/// The end of the bank that the runtime takes from if it is not told otherwise.
fn usual_direction(class: Class) -> Direction {
    if class.is_l1() {
        Direction::TopDown
    } else {
        Direction::BottomUp
    }
}

/// A buffer was given back.
pub(crate) fn buffer_freed(mesh: MeshId, unique_id: u64) {
    tracker().track(EventKind::BufferFreed {
        mesh,
        buffer: buffer_id(unique_id),
    });
}

/// All buffers of a mesh are off the account.
pub(crate) fn buffers_released(mesh: MeshId) {
    let class = None;
    tracker().track(EventKind::BuffersReleased { mesh, class });
}

/// Something happened that was not told: the totals of this process are not to be trusted.
pub(crate) fn events_lost() {
    tracker().track(EventKind::EventsLost { count: 1 });
}

/// A chip's ids: of the device, and of the chip as a mesh of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChipIds {
    pub(crate) device: DeviceId,
    pub(crate) mesh: MeshId,
}

pub(crate) fn chip_opened(chip: &Chip, identity: &Identity, l1_reserved_bytes: u64) -> ChipIds {
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
    ChipIds { device, mesh }
}

pub(crate) fn chip_closed(device: DeviceId) {
    tracker().track(EventKind::DeviceClosed { device });
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

pub(crate) fn mesh_closed(mesh: MeshId) {
    tracker().track(EventKind::MeshClosed { mesh });
}

/// What an allocator can hand out.
pub(crate) fn capacities(mesh: MeshId, regions: &Regions) {
    for class in CLASSES {
        let region = regions[class.index()];
        tracker().track(EventKind::CapacityReported {
            mesh,
            class,
            banks: region.banks,
            base: region.base,
            per_bank_bytes: region.per_bank_bytes,
            alignment: region.alignment,
        });
    }
}

/// The allocator's own statistics, to compare with.
pub(crate) fn statistics(mesh: MeshId, class: Class, statistics: &Statistics) {
    tracker().track(EventKind::StatisticsReported {
        mesh,
        class,
        allocated_bytes: statistics.allocated,
        largest_free_bytes: statistics.largest_free,
    });
}

pub(crate) fn allocation_failed(
    mesh: MeshId,
    buffer: &Buffer,
    banks: u16,
    statistics: &Statistics,
    operation: TextId,
) {
    tracker().track(EventKind::AllocationFailed {
        mesh,
        class: buffer.class,
        banks,
        requested_bytes: buffer.size_bytes,
        per_bank_bytes: buffer.per_bank_bytes,
        free_bytes: statistics.free,
        largest_free_bytes: statistics.largest_free,
        bank_bytes: statistics.total,
        operation,
    });
}

/// A program appeared, or its name became known.
pub(crate) fn program(program: ProgramId, name: TextId, runtime_id: u64, object: usize) {
    let pointer = u64::try_from(object).unwrap_or_default();
    tracker().track(EventKind::ProgramCreated {
        program,
        name,
        runtime_id,
        pointer,
    });
}

pub(crate) fn program_destroyed(program: ProgramId) {
    tracker().track(EventKind::ProgramDestroyed { program });
}

/// A program placed a circular buffer.
pub(crate) fn cb_allocated(
    mesh: MeshId,
    program: ProgramId,
    number: u32,
    is_global: bool,
    address: u64,
    size_bytes: u64,
    cores: &CoreSet,
) {
    let kind = if is_global {
        CbKind::Global
    } else {
        CbKind::Local
    };
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

/// A program placed its dataflow buffers.
///
/// Those whose numbers are among the borrowed ones lie inside of tensors.
pub(crate) fn dataflow_buffers(
    mesh: MeshId,
    program: ProgramId,
    buffers: &[DataflowBuffer],
    borrowed: &[u32],
) {
    for buffer in buffers {
        let kind = if borrowed.contains(&buffer.number) {
            CbKind::DataflowBorrowed
        } else {
            CbKind::Dataflow
        };
        tracker().track(EventKind::CbAllocated {
            mesh,
            program,
            cb: buffer.number,
            kind,
            address: buffer.address.unwrap_or_default(),
            size_bytes: buffer.size_bytes,
            cores: tracker().cores(&buffer.cores),
        });
    }
}

/// Scratchpads are numbered from here on, behind a program's other storage.
const FIRST_SCRATCHPAD: u32 = 1 << 16;

/// A program placed its scratchpads.
pub(crate) fn scratchpads(mesh: MeshId, program: ProgramId, scratchpads: &[Scratchpad]) {
    for (number, scratchpad) in (FIRST_SCRATCHPAD..).zip(scratchpads) {
        tracker().track(EventKind::CbAllocated {
            mesh,
            program,
            cb: number,
            kind: CbKind::Scratchpad,
            address: scratchpad.address,
            size_bytes: scratchpad.size_bytes,
            cores: tracker().cores(&scratchpad.cores),
        });
    }
}

/// A program gave back all its storage on a mesh.
pub(crate) fn storage_freed(mesh: MeshId, program: ProgramId) {
    tracker().track(EventKind::CbFreed {
        mesh,
        program,
        cb: None,
    });
}

/// A program's storage was refused.
pub(crate) fn clashed(mesh: MeshId, program: ProgramId, clash: &Clash) {
    tracker().track(EventKind::Clashed {
        mesh,
        program,
        kind: clash.kind,
        cores: tracker().cores(&clash.cores),
        region_end: clash.region_end,
        limit: clash.limit,
    });
}

/// A program's kernels are on their cores, and what it takes in the ring is fixed.
pub(crate) fn kernels(
    mesh: MeshId,
    program: ProgramId,
    kernels: &[Kernel],
    ring_bytes: u64,
    binary_bytes: u64,
    kind: KernelKind,
) {
    let tracker = tracker();
    let text_bytes = kernel::text_bytes(kernels);
    tracker.track(EventKind::ProgramFinalized {
        mesh,
        program,
        config_bytes: ring_bytes.saturating_sub(text_bytes),
        text_bytes,
        binary_bytes,
    });
    for kernel in kernel::by_binary(kernels) {
        tracker.track(EventKind::KernelLoaded {
            mesh,
            program,
            kernel: KernelId(kernel.hash),
            name: tracker.text(&kernel.name),
            binary_bytes: kernel.binary_bytes,
            cores: tracker.cores(&kernel.cores),
            core_count: kernel.cores.len(),
            kind,
            core_type: kernel.core_type,
        });
    }
}

/// A program was sent for the first time; 0 bytes of something are none that is known.
pub(crate) fn first_run(
    mesh: MeshId,
    program: ProgramId,
    binary_bytes: u64,
    command_bytes: u64,
    status: Option<BinaryStatus>,
) {
    let tracker = tracker();
    let tell_status = |status| {
        tracker.track(EventKind::BinaryStatusChanged {
            mesh,
            program,
            status,
        });
    };
    if binary_bytes > 0 {
        tracker.track(EventKind::BinarySent {
            mesh,
            program,
            bytes: binary_bytes,
        });
        tell_status(BinaryStatus::InFlight);
    }
    if command_bytes > 0 {
        tracker.track(EventKind::CommandsCached {
            mesh,
            program,
            bytes: command_bytes,
        });
    }
    if let Some(status) = status {
        tell_status(status);
    }
}

/// A program was sent to run.
pub(crate) fn dispatched(
    mesh: MeshId,
    program: ProgramId,
    runtime_id: u64,
    operation: TextId,
    ran_before: bool,
    path: DispatchPath,
) {
    // A program that runs again was kept by the program cache.
    let program_cache = if ran_before {
        CacheResult::Hit
    } else {
        CacheResult::Miss
    };
    tracker().track(EventKind::Dispatched {
        mesh,
        program,
        runtime_id,
        operation,
        program_cache,
        // Where there are no dispatch cores, the host writes it anew.
        binary_reused: ran_before && path == DispatchPath::Fast,
        path,
    });
}

/// The compiler's cache on disk was asked for a kernel.
pub(crate) fn disk_lookup(name: &str, hit: bool) {
    let tracker = tracker();
    tracker.track(EventKind::JitDiskLookup {
        program: ProgramId(0),
        kernel: KernelId(0),
        name: tracker.text(name),
        hit,
    });
}

pub(crate) fn trace_began(mesh: MeshId, trace: TraceId) {
    tracker().track(EventKind::TraceBegan { mesh, trace });
}

pub(crate) fn trace_ended(mesh: MeshId, trace: TraceId, bytes: u64) {
    tracker().track(EventKind::TraceEnded { mesh, trace, bytes });
}

pub(crate) fn trace_replayed(mesh: MeshId, trace: TraceId) {
    tracker().track(EventKind::TraceReplayed { mesh, trace });
}

/// A trace was given up.
pub(crate) fn trace_released(mesh: MeshId, trace: TraceId) {
    tracker().track(EventKind::TraceReleased { mesh, trace });
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
