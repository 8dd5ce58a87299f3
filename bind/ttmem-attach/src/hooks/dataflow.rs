//! Dataflow buffers, which the runtime tells nobody of: read when they are placed.
//!
//! Scratchpads are placed with them, checked with them, and told with them.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::programs::with_program;
use super::scratchpads::{self, Scratchpad};
use super::{OnException, cbs, interpose};
use crate::family::Family;
use crate::regions::Regions;
use crate::runtime::dataflow::{self, DataflowBuffer};
use crate::runtime::{Object, device};
use crate::{places, programs, report};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use ttmem_event::MeshId;

pub(crate) static FAMILY: Family = Family::new("dataflow buffers");

/// The dataflow buffers of a program; none if they are off.
///
/// # Safety
/// `object` is a live `ProgramImpl` that only this thread changes.
unsafe fn read(object: Object) -> Option<Vec<DataflowBuffer>> {
    let accessors = FAMILY.need(&*dataflow::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    match unsafe { accessors.read(object) } {
        Ok(buffers) => Some(buffers),
        Err(doubt) => {
            FAMILY.turn_off(&doubt.to_string());
            None
        }
    }
}

/// A number that differs when anything about the storage does.
fn fingerprint(mesh: MeshId, buffers: &[DataflowBuffer], scratchpads: &[Scratchpad]) -> u64 {
    let mut hasher = DefaultHasher::new();
    mesh.hash(&mut hasher);
    for buffer in buffers {
        (buffer.number, buffer.address, buffer.size_bytes).hash(&mut hasher);
        buffer.cores.hash(&mut hasher);
    }
    scratchpads.hash(&mut hasher);
    // 0 stands for nothing told yet.
    hasher.finish().max(1)
}

/// Tells of a program's dataflow buffers and scratchpads, if they are not what was last told.
///
/// # Safety
/// `object` is a live `ProgramImpl` that only this thread changes, `device` an
/// initialised `IDevice`.
pub(super) unsafe fn tell_placed(object: Object, device: Object) -> Option<()> {
    FAMILY.need(&*device::ACCESSORS)?;
    let accessors = FAMILY.need(&*dataflow::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let mut buffers = unsafe { read(object) }?;
    let scratchpads = scratchpads::of(object);
    if buffers.is_empty() && scratchpads.is_empty() {
        return None;
    }
    // SAFETY: as above.
    let place = unsafe { places::place_of(device) }?;
    // SAFETY: as above.
    let glance = unsafe { accessors.glance(object) }.map(|glance| (place.mesh, glance));
    dataflow::without_aliases(&mut buffers);
    let fingerprint = fingerprint(place.mesh, &buffers, &scratchpads);
    // SAFETY: as above.
    let (program, told, borrowed) = unsafe {
        with_program(object, |program| {
            program.glance = glance;
            let told = std::mem::replace(&mut program.dataflow, fingerprint);
            if told == 0 {
                let without_place = buffers.iter().filter(|buffer| buffer.address.is_none());
                program.borrowed = without_place.map(|buffer| buffer.number).collect();
            }
            (program.id, told, program.borrowed.clone())
        })
    }?;
    if told == fingerprint {
        return None;
    }
    FAMILY.contain(|| {
        if told != 0 {
            report::storage_freed(place.mesh, program);
        }
        report::dataflow_buffers(place.mesh, program, &buffers, &borrowed);
        report::scratchpads(place.mesh, program, &scratchpads);
    });
    Some(())
}

/// Tells of a program's dataflow buffers when it is sent to a mesh again: those inside of
/// tensors may have moved, which a glance shows.
///
/// # Safety
/// As of [`tell_placed`].
pub(super) unsafe fn tell_moved(object: Object, device: Object, mesh: MeshId) -> Option<()> {
    let accessors = FAMILY.need(&*dataflow::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    let glance = unsafe { accessors.glance(object) }.map(|glance| (mesh, glance));
    let known = programs::with_known(object.addr(), |program| program.glance).flatten();
    if glance.is_some() && glance == known {
        return None;
    }
    // SAFETY: as above.
    unsafe { tell_placed(object, device) }
}

/// Tells of dataflow buffers that, with the scratchpads above them, did not fit.
///
/// # Safety
/// As of [`tell_placed`]; the allocator's lock is not held.
unsafe fn tell_clash(object: Object, device: Object) -> Option<()> {
    // SAFETY: as the caller vouches.
    let buffers = unsafe { read(object) }?;
    let mut regions = Regions::default();
    for buffer in buffers {
        if let Some(address) = buffer.address {
            regions.add(&buffer.cores.ranges(), address + buffer.size_bytes);
        }
    }
    for scratchpad in scratchpads::of(object) {
        let end = scratchpad.address + scratchpad.size_bytes;
        regions.add(&scratchpad.cores.ranges(), end);
    }
    // SAFETY: as above.
    unsafe { cbs::tell_clash(object, device, &regions) }
}

interpose! {
    /// `void ProgramImpl::validate_dataflow_buffer_region(IDevice const*)`: afterwards all are placed.
    "_ZN2tt8tt_metal6detail11ProgramImpl31validate_dataflow_buffer_regionEPKNS0_7IDeviceE"
    fn validate_dataflow_buffers(program: Object, device: Object) |real| {
        let on = FAMILY.is_on() && report::is_on();
        let failed = OnException::new(|| {
            if on {
                // SAFETY: the program and the device are the caller's; the exception has left
                // whatever took the lock.
                unsafe { tell_clash(program, device) };
            }
        });
        // SAFETY: the caller's own arguments.
        unsafe { real(program, device) };
        failed.disarm();
        if on {
            // SAFETY: as above.
            unsafe { tell_placed(program, device) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::CoreSet;

    #[test]
    fn the_fingerprint_tells_of_every_change() {
        let buffer = DataflowBuffer {
            number: 0,
            address: Some(4096),
            size_bytes: 64,
            cores: CoreSet::grid(2, 2),
        };
        let scratchpad = Scratchpad {
            address: 8192,
            size_bytes: 64,
            cores: CoreSet::grid(2, 2),
        };
        let fingerprints = [
            fingerprint(MeshId(1), &[buffer], &[]),
            fingerprint(MeshId(2), &[buffer], &[]),
            fingerprint(MeshId(1), &[buffer, buffer], &[]),
            fingerprint(
                MeshId(1),
                &[DataflowBuffer {
                    size_bytes: 128,
                    ..buffer
                }],
                &[],
            ),
            fingerprint(
                MeshId(1),
                &[DataflowBuffer {
                    address: None,
                    ..buffer
                }],
                &[],
            ),
            fingerprint(
                MeshId(1),
                &[DataflowBuffer {
                    cores: CoreSet::grid(2, 1),
                    ..buffer
                }],
                &[],
            ),
            fingerprint(MeshId(1), &[buffer], &[scratchpad]),
            fingerprint(MeshId(1), &[], &[scratchpad]),
        ];
        for (at, one) in fingerprints.iter().enumerate() {
            assert!(!fingerprints[..at].contains(one), "{at}");
        }
        assert_eq!(fingerprints[0], fingerprint(MeshId(1), &[buffer], &[]));
    }
}
