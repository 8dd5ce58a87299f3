//! Circular buffers, reported per chip while a program places them.
//!
//! The runtime's call for a circular buffer does not say which program it is of: the
//! calls around it do, on the same thread.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::programs::{number_of, with_program};
use super::{interpose, interpose_needed, on_exception};
use crate::call_context::{self, Slot, during};
use crate::family::Family;
use crate::program_table::{self, Program};
use crate::regions::{Clash, Regions};
use crate::runtime::circular::CircularBuffer;
use crate::runtime::vector::ranges_at;
use crate::runtime::{Object, device, program};
use crate::{open_devices, pending, python, report};
use ttmem_event::{CbKind, CoreSet, EventKind, MeshId, ProgramId, TextId};

pub(crate) static FAMILY: Family = Family::new("circular buffers");

thread_local! {
    /// The `ProgramImpl` whose circular buffers this thread places or gives back, and how many
    /// so far, by mesh.
    static PLACING: Slot<(Object, Vec<(MeshId, u32)>)> = const { Slot::new() };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Next {
    program: Object,
    /// Its number on the mesh.
    number: u32,
    is_first: bool,
}

/// The program that this thread is at, and the next number on a mesh.
fn next_on(mesh: MeshId) -> Option<Next> {
    call_context::with(&PLACING, |(program, counts)| {
        let mut next = Next {
            program: *program,
            number: 0,
            is_first: counts.is_empty(),
        };
        if let Some((_mesh, count)) = counts.iter_mut().find(|(on, _)| *on == mesh) {
            *count += 1;
            next.number = *count;
        } else {
            counts.push((mesh, 0));
        }
        next
    })
}

fn report_allocated(
    cores: Object,
    address: u64,
    size_bytes: u64,
    is_global: bool,
    device: Object,
) -> Option<()> {
    FAMILY.need(&*NEEDED)?;
    FAMILY.need(&*device::ACCESSORS)?;
    let ranges = ranges_at(cores);
    let cores = ranges.clone().map(CoreSet::from_ranges);
    let (Some(ranges), Some(Ok(cores))) = (ranges, cores) else {
        FAMILY.turn_off("a core range set is laid out in another way");
        return None;
    };
    // In a capture without a device nothing is placed.
    if address == 0 {
        return None;
    }
    let mesh = open_devices::of(device)?.mesh;
    let next = next_on(mesh)?;
    let buffer = CircularBuffer {
        is_global,
        address,
        size_bytes,
        cores,
    };
    let program = with_program(next.program, |program| {
        if next.is_first {
            program.regions.clear();
        }
        program.circular.note(next.number, buffer);
        if !is_global && size_bytes > 0 {
            let end = address.saturating_add(size_bytes);
            program.regions.add(&ranges, end);
        }
        program.id
    })?;
    // One without bytes or cores has its number, and takes no memory.
    if size_bytes > 0 && !cores.is_empty() {
        report_circular(&FAMILY, mesh, program, next.number, &buffer);
    }
    Some(())
}

pub(super) fn report_circular(
    family: &Family,
    mesh: MeshId,
    program: ProgramId,
    number: u32,
    buffer: &CircularBuffer,
) {
    let kind = if buffer.is_global {
        CbKind::Global
    } else {
        CbKind::Local
    };
    let (address, size_bytes, cores) = (buffer.address, buffer.size_bytes, &buffer.cores);
    family.contain(|| {
        report::cb_allocated(mesh, program, number, kind, address, size_bytes, cores);
    });
}

fn report_clash(mesh: MeshId, program: ProgramId, clash: &Clash) {
    FAMILY.contain(|| {
        report::event(EventKind::Clashed {
            mesh,
            program,
            kind: clash.kind,
            cores: report::tracker().cores(&clash.cores),
            region_end: clash.region_end,
            limit: clash.limit,
            // Its program has just been named with the line that was about to send it.
            call_first: python::call_first(),
        });
    });
}

/// The number of a program that is refused, with the operation and the line of Python that were about to
/// send it: it will not be sent, which is when a name is reported otherwise. One that the runtime
/// had in its cache was named by the call that built it.
fn number_of_refused(object: Object) -> Option<ProgramId> {
    let number = number_of(object)?;
    let sending = pending::first().filter(|pending| pending.operation != TextId::NONE);
    let accessors = FAMILY.need(&*program::ACCESSORS)?;
    let runtime_id = (accessors.runtime_id)(object);
    let (name, renamed) = with_program(object, |program| {
        let before = program.name;
        program.name = sending.map_or(before, |pending| pending.operation);
        (program.name, program.name != before)
    })?;
    if renamed || python::is_on() {
        FAMILY.contain(|| report::program(number, name, runtime_id, object.address()));
    }
    Some(number)
}

/// Reports storage that did not fit, if it is known why, when the allocator's lock is not held.
pub(super) fn report_first_clash(object: Object, device: Object, regions: &Regions) -> Option<()> {
    let accessors = FAMILY.need(&*device::ACCESSORS)?;
    let program = number_of_refused(object)?;
    let device = open_devices::of(device)?;
    let lowest = accessors.allocators.lowest_l1_address(device.allocator()?);
    let clash = regions.first_clash(lowest, device.l1_end())?;
    report_clash(device.mesh, program, &clash);
    Some(())
}

/// Reports circular buffers on cores that are not there to be computed on.
fn report_outside(object: Object, device: Object) -> Option<()> {
    let accessors = FAMILY.need(&*device::ACCESSORS)?;
    let (columns, rows) = accessors.grid(device)?;
    let device = open_devices::of(device)?;
    let known = |program: &mut Program| (program.id, program.regions.clone());
    let (program, regions) = program_table::with_known(object.address(), known)?;
    let clash = regions.first_outside(columns, rows, device.l1_end())?;
    report_clash(device.mesh, program, &clash);
    Some(())
}

// A runtime without it gives circular buffers back without saying whose they were.
interpose_needed! {
    /// `void ProgramImpl::deallocate_circular_buffers()`.
    "_ZN2tt8tt_metal6detail11ProgramImpl27deallocate_circular_buffersEv"
    fn deallocate_circular_buffers(program: Object) |real| {
        during(&PLACING, (program, Vec::new()), real);
    }
}

interpose! {
    /// `void ProgramImpl::allocate_circular_buffers(IDevice const*)`.
    "_ZN2tt8tt_metal6detail11ProgramImpl25allocate_circular_buffersEPKNS0_7IDeviceE"
    fn allocate_circular_buffers(program: Object, device: Object) |real| {
        during(&PLACING, (program, Vec::new()), real);
    }

    /// `void GraphTracker::track_allocate_cb(CoreRangeSet const&, u64, u64, bool, IDevice const*)`.
    "_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE"
    fn track_allocate_cb(
        tracker: Object, cores: Object, address: u64, size: u64, is_global: u64, device: Object
    ) |real| {
        if FAMILY.is_tracking() {
            // A flag leaves the upper bits of its register undefined.
            let is_global = is_global & 0xff != 0;
            report_allocated(cores, address, size, is_global, device);
        }
        real();
    }

    /// `void GraphTracker::track_deallocate_cb(IDevice const*)`: all of a program on a chip.
    "_ZN2tt8tt_metal12GraphTracker19track_deallocate_cbEPKNS0_7IDeviceE"
    fn track_deallocate_cb(tracker: Object, device: Object) |real| {
        if FAMILY.is_tracking() {
            FAMILY.contain(|| {
                // Programs outlive their devices: this one may be gone.
                let mesh = open_devices::at(device.address())?.mesh;
                let object = next_on(mesh)?.program.address();
                let program = program_table::with_known(object, |program| program.id)?;
                report::event(EventKind::CbFreed { mesh, program, cb: None });
                Some(())
            });
        }
        real();
    }

    /// `void ProgramImpl::validate_circular_buffer_core_ranges(IDevice const*)`: cores outside of
    /// the grid leave it as an exception.
    "_ZN2tt8tt_metal6detail11ProgramImpl36validate_circular_buffer_core_rangesEPKNS0_7IDeviceE"
    fn validate_circular_buffer_cores(program: Object, device: Object) |real| {
        on_exception(real, || {
            if FAMILY.is_tracking() {
                report_outside(program, device);
            }
        });
    }

    /// `void ProgramImpl::validate_circular_buffer_region(IDevice const*)`: a clash leaves it.
    "_ZN2tt8tt_metal6detail11ProgramImpl31validate_circular_buffer_regionEPKNS0_7IDeviceE"
    fn validate_circular_buffers(program: Object, device: Object) |real| {
        on_exception(real, || {
            if FAMILY.is_tracking() {
                let known = |program: &mut Program| program.regions.clone();
                let regions = program_table::with_known(program.address(), known);
                // The exception has left whatever took the lock.
                report_first_clash(program, device, &regions.unwrap_or_default());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circular_buffers_are_numbered_per_mesh_within_one_placing() {
        let program = Object::NULL;
        assert_eq!(next_on(MeshId(1)), None);
        for _again in 0..2 {
            let (numbers, _placing) = during(&PLACING, (program, Vec::new()), || {
                [1, 1, 2, 1, 2].map(|mesh| next_on(MeshId(mesh)).map(|next| next.number))
            });
            assert_eq!(numbers, [Some(0), Some(1), Some(0), Some(2), Some(1)]);
        }
        assert_eq!(next_on(MeshId(1)), None);
    }
}
