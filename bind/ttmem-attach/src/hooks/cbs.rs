//! Circular buffers, told per chip while a program places them.
//!
//! The runtime's call for a circular buffer does not say which program it is of: the
//! calls around it do, on the same thread.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::programs::with_program;
use super::{OnException, interpose};
use crate::family::{Doubt, Family};
use crate::programs::Program;
use crate::regions::Regions;
use crate::runtime::circular::CircularBuffer;
use crate::runtime::vector::ranges_at;
use crate::runtime::{Object, device};
use crate::{places, programs, report, symbols};
use std::cell::RefCell;
use std::ffi::CStr;
use std::sync::LazyLock;
use ttmem_event::{CoreSet, MeshId};

pub(crate) static FAMILY: Family = Family::new("circular buffers");

/// A runtime without it gives circular buffers back without saying whose they were.
const DEALLOCATE: &CStr = c"_ZN2tt8tt_metal6detail11ProgramImpl27deallocate_circular_buffersEv";

/// Whether this process's runtime tells whose circular buffers it gives back.
pub(crate) static GIVEN_BACK: LazyLock<Result<(), Doubt>> = LazyLock::new(|| {
    symbols::find(DEALLOCATE).ok_or(Doubt::Missing(DEALLOCATE))?;
    Ok(())
});

/// The program whose circular buffers this thread places or gives back.
#[derive(Debug)]
struct Placing {
    /// The `ProgramImpl`.
    program: usize,
    /// Circular buffers so far, by mesh.
    counts: Vec<(MeshId, u32)>,
}

thread_local! {
    static PLACING: RefCell<Option<Placing>> = const { RefCell::new(None) };
}

/// Changes what this thread places; a thread that is ending places nothing.
fn set_placing(placing: Option<Placing>) {
    let _ending = PLACING.try_with(|cell| {
        if let Ok(mut cell) = cell.try_borrow_mut() {
            *cell = placing;
        }
    });
}

/// What this thread places next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Next {
    /// The `ProgramImpl`.
    program: Object,
    /// Its number on the mesh.
    number: u32,
    /// Whether it is the first on any mesh.
    is_first: bool,
}

/// The program that this thread is at, and the next number on a mesh.
fn next_on(mesh: MeshId) -> Option<Next> {
    PLACING
        .try_with(|cell| {
            let mut cell = cell.try_borrow_mut().ok()?;
            let placing = cell.as_mut()?;
            let mut next = Next {
                program: std::ptr::with_exposed_provenance(placing.program),
                number: 0,
                is_first: placing.counts.is_empty(),
            };
            if let Some((_mesh, count)) = placing.counts.iter_mut().find(|(on, _)| *on == mesh) {
                *count += 1;
                next.number = *count;
            } else {
                placing.counts.push((mesh, 0));
            }
            Some(next)
        })
        .ok()
        .flatten()
}

/// Runs a call during which circular buffers are those of a program.
fn while_placing<R>(program: Object, call: impl FnOnce() -> R) -> R {
    set_placing(Some(Placing {
        program: program.expose_provenance(),
        counts: Vec::new(),
    }));
    let failed = OnException::new(|| set_placing(None));
    let result = call();
    failed.disarm();
    set_placing(None);
    result
}

/// Tells of one circular buffer.
///
/// # Safety
/// `cores` is a `CoreRangeSet` and `device` an initialised `IDevice`.
unsafe fn tell_allocated(
    cores: Object,
    address: u64,
    size_bytes: u64,
    is_global: bool,
    device: Object,
) -> Option<()> {
    FAMILY.need(&*GIVEN_BACK)?;
    FAMILY.need(&*device::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let ranges = unsafe { ranges_at(cores) };
    let cores = ranges.clone().map(CoreSet::from_ranges);
    let (Some(ranges), Some(Ok(cores))) = (ranges, cores) else {
        FAMILY.turn_off("a core range set is laid out in another way");
        return None;
    };
    // In a capture without a device nothing is placed.
    if address == 0 || size_bytes == 0 || cores.is_empty() {
        return None;
    }
    // SAFETY: as above.
    let place = unsafe { places::place_of(device) }?;
    let next = next_on(place.mesh)?;
    // SAFETY: the program is placing its circular buffers, so it is alive.
    let program = unsafe {
        with_program(next.program, |program| {
            if next.is_first {
                program.regions.clear();
            }
            program.circular.note(
                next.number,
                CircularBuffer {
                    is_global,
                    address,
                    size_bytes,
                    cores,
                },
            );
            if !is_global {
                let end = address.saturating_add(size_bytes);
                program.regions.add(&ranges, end);
            }
            program.id
        })
    }?;
    FAMILY.contain(|| {
        report::cb_allocated(
            place.mesh,
            program,
            next.number,
            is_global,
            address,
            size_bytes,
            &cores,
        );
    });
    Some(())
}

/// Tells of storage that did not fit, if it is known why.
///
/// # Safety
/// `object` is a live `ProgramImpl` and `device` an initialised `IDevice`, whose
/// allocator's lock is not held.
pub(super) unsafe fn tell_clash(object: Object, device: Object, regions: &Regions) -> Option<()> {
    let accessors = FAMILY.need(&*device::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let program = unsafe { super::programs::number_of(object) }?;
    // SAFETY: as above.
    let place = unsafe { places::place_of(device) }?;
    let allocator = place.allocator()?;
    // SAFETY: as above.
    let lowest = unsafe { accessors.allocators().lowest_l1_address(allocator) };
    let clash = regions.first_clash(lowest, place.l1_end())?;
    FAMILY.contain(|| report::clashed(place.mesh, program, &clash));
    Some(())
}

/// Tells of circular buffers on cores that are not there to be computed on.
///
/// # Safety
/// `object` is a live `ProgramImpl` and `device` an initialised `IDevice`.
unsafe fn tell_outside(object: Object, device: Object) -> Option<()> {
    let accessors = FAMILY.need(&*device::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let (columns, rows) = unsafe { accessors.grid(device) }?;
    // SAFETY: as above.
    let place = unsafe { places::place_of(device) }?;
    let (program, regions) = programs::with_known(object.addr(), |program| {
        (program.id, program.regions.clone())
    })?;
    let clash = regions.first_outside(columns, rows, place.l1_end())?;
    FAMILY.contain(|| report::clashed(place.mesh, program, &clash));
    Some(())
}

interpose! {
    /// `void ProgramImpl::allocate_circular_buffers(IDevice const*)`.
    "_ZN2tt8tt_metal6detail11ProgramImpl25allocate_circular_buffersEPKNS0_7IDeviceE"
    fn allocate_circular_buffers(program: Object, device: Object) |real| {
        // SAFETY: the caller's own arguments.
        while_placing(program, || unsafe { real(program, device) });
    }
}

interpose! {
    /// `void ProgramImpl::deallocate_circular_buffers()`.
    "_ZN2tt8tt_metal6detail11ProgramImpl27deallocate_circular_buffersEv"
    fn deallocate_circular_buffers(program: Object) |real| {
        // SAFETY: the caller's own argument.
        while_placing(program, || unsafe { real(program) });
    }
}

interpose! {
    /// `void GraphTracker::track_allocate_cb(CoreRangeSet const&, u64, u64, bool, IDevice const*)`.
    "_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE"
    fn track_allocate_cb(
        tracker: Object, cores: Object, address: u64, size: u64, is_global: u64, device: Object
    ) |real| {
        if FAMILY.is_on() && report::is_on() {
            // A flag leaves the upper bits of its register undefined.
            let is_global = is_global & 0xff != 0;
            // SAFETY: the runtime passes a set of cores and an open device.
            unsafe { tell_allocated(cores, address, size, is_global, device) };
        }
        // SAFETY: the caller's own arguments.
        unsafe { real(tracker, cores, address, size, is_global, device) }
    }
}

interpose! {
    /// `void GraphTracker::track_deallocate_cb(IDevice const*)`: all of a program on a chip.
    "_ZN2tt8tt_metal12GraphTracker19track_deallocate_cbEPKNS0_7IDeviceE"
    fn track_deallocate_cb(tracker: Object, device: Object) |real| {
        if FAMILY.is_on() && report::is_on() {
            FAMILY.contain(|| {
                // Programs outlive their devices: this one may be gone.
                let place = places::known_place(device)?;
                let object = next_on(place.mesh)?.program;
                let program = programs::with_known(object.addr(), |program| program.id)?;
                report::storage_freed(place.mesh, program);
                Some(())
            });
        }
        // SAFETY: the caller's own arguments.
        unsafe { real(tracker, device) }
    }
}

interpose! {
    /// `void ProgramImpl::validate_circular_buffer_core_ranges(IDevice const*)`: cores outside of
    /// the grid leave it as an exception.
    "_ZN2tt8tt_metal6detail11ProgramImpl36validate_circular_buffer_core_rangesEPKNS0_7IDeviceE"
    fn validate_circular_buffer_cores(program: Object, device: Object) |real| {
        let failed = OnException::new(|| {
            if FAMILY.is_on() && report::is_on() {
                // SAFETY: the program and the device are the caller's.
                unsafe { tell_outside(program, device) };
            }
        });
        // SAFETY: the caller's own arguments.
        unsafe { real(program, device) };
        failed.disarm();
    }
}

interpose! {
    /// `void ProgramImpl::validate_circular_buffer_region(IDevice const*)`: a clash leaves it.
    "_ZN2tt8tt_metal6detail11ProgramImpl31validate_circular_buffer_regionEPKNS0_7IDeviceE"
    fn validate_circular_buffers(program: Object, device: Object) |real| {
        let failed = OnException::new(|| {
            if FAMILY.is_on() && report::is_on() {
                let known = |program: &mut Program| program.regions.clone();
                let regions = programs::with_known(program.addr(), known).unwrap_or_default();
                // SAFETY: the program and the device are the caller's; the exception has left
                // whatever took the lock.
                unsafe { tell_clash(program, device, &regions) };
            }
        });
        // SAFETY: the caller's own arguments.
        unsafe { real(program, device) };
        failed.disarm();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circular_buffers_are_numbered_per_mesh_within_one_placing() {
        let program: Object = std::ptr::without_provenance(0x100);
        assert_eq!(next_on(MeshId(1)), None);
        for _again in 0..2 {
            let numbers = while_placing(program, || {
                [1, 1, 2, 1, 2].map(|mesh| next_on(MeshId(mesh)).map(|next| next.number))
            });
            assert_eq!(numbers, [Some(0), Some(1), Some(0), Some(2), Some(1)]);
        }
        assert_eq!(next_on(MeshId(1)), None);
    }
}
