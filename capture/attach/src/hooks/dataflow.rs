//! Dataflow buffers, which the runtime reports to nobody: read when they are placed.
//!
//! Scratchpads are placed with them, checked with them, and reported with them.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::programs::with_program;
use super::scratchpads::{self, Scratchpad};
use super::{cbs, interpose, on_exception};
use crate::family::Family;
use crate::regions::Regions;
use crate::runtime::dataflow::{self, DataflowBuffer};
use crate::runtime::{Object, device};
use crate::{open_devices, program_table, report};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use ttmem_event::{CbKind, EventKind, MeshId};

pub(crate) static FAMILY: Family = Family::new("dataflow buffers");

/// Scratchpads are numbered from here on, behind a program's other storage.
const FIRST_SCRATCHPAD: u32 = 1 << 16;

/// A number that differs when anything about the storage does.
fn fingerprint(mesh: MeshId, buffers: &[DataflowBuffer], scratchpads: &[Scratchpad]) -> u64 {
    let mut hasher = DefaultHasher::new();
    mesh.hash(&mut hasher);
    for buffer in buffers {
        (buffer.number, buffer.address, buffer.size_bytes).hash(&mut hasher);
        buffer.cores.hash(&mut hasher);
    }
    scratchpads.hash(&mut hasher);
    // 0 stands for nothing reported yet.
    hasher.finish().max(1)
}

/// Reports a program's dataflow buffers and scratchpads, if they are not what was last reported.
fn report_placed(object: Object, device: Object) -> Option<()> {
    FAMILY.need(&*device::ACCESSORS)?;
    let accessors = FAMILY.need(&*dataflow::ACCESSORS)?;
    let mut buffers = FAMILY.ok_or_turn_off(accessors.read(object))?;
    let scratchpads = scratchpads::of(object);
    if buffers.is_empty() && scratchpads.is_empty() {
        return None;
    }
    let mesh = open_devices::of(device)?.mesh;
    let glance = accessors.glance(object).map(|glance| (mesh, glance));
    dataflow::without_aliases(&mut buffers);
    let fingerprint = fingerprint(mesh, &buffers, &scratchpads);
    let (program, reported, borrowed) = with_program(object, |program| {
        program.glance = glance;
        let reported = std::mem::replace(&mut program.dataflow, fingerprint);
        if reported == 0 {
            let without_place = buffers.iter().filter(|buffer| buffer.address.is_none());
            program.borrowed = without_place.map(|buffer| buffer.number).collect();
        }
        (program.id, reported, program.borrowed.clone())
    })?;
    if reported == fingerprint {
        return None;
    }
    FAMILY.contain(|| {
        if reported != 0 {
            report::event(EventKind::CbFreed {
                mesh,
                program,
                cb: None,
            });
        }
        for buffer in &buffers {
            // Those lie inside of tensors.
            let kind = if borrowed.contains(&buffer.number) {
                CbKind::DataflowBorrowed
            } else {
                CbKind::Dataflow
            };
            let (number, address) = (buffer.number, buffer.address.unwrap_or_default());
            let (size_bytes, cores) = (buffer.size_bytes, &buffer.cores);
            report::cb_allocated(mesh, program, number, kind, address, size_bytes, cores);
        }
        for (number, pad) in (FIRST_SCRATCHPAD..).zip(&scratchpads) {
            let (kind, address, size_bytes) = (CbKind::Scratchpad, pad.address, pad.size_bytes);
            report::cb_allocated(mesh, program, number, kind, address, size_bytes, &pad.cores);
        }
    });
    Some(())
}

/// Reports a program's dataflow buffers when it is sent to a mesh again: those inside of
/// tensors may have moved, which a glance shows.
pub(super) fn report_moved(object: Object, device: Object, mesh: MeshId) -> Option<()> {
    let accessors = FAMILY.need(&*dataflow::ACCESSORS)?;
    let glance = accessors.glance(object).map(|glance| (mesh, glance));
    let known = program_table::with_known(object.address(), |program| program.glance).flatten();
    if glance.is_some() && glance == known {
        return None;
    }
    report_placed(object, device)
}

/// Reports dataflow buffers that, with the scratchpads above them, did not fit, when the
/// allocator's lock is not held.
fn report_clash(object: Object, device: Object) -> Option<()> {
    let accessors = FAMILY.need(&*dataflow::ACCESSORS)?;
    let mut regions = Regions::default();
    for buffer in FAMILY.ok_or_turn_off(accessors.read(object))? {
        if let Some(address) = buffer.address {
            regions.add(&buffer.cores.ranges(), address + buffer.size_bytes);
        }
    }
    for scratchpad in scratchpads::of(object) {
        let end = scratchpad.address + scratchpad.size_bytes;
        regions.add(&scratchpad.cores.ranges(), end);
    }
    cbs::report_first_clash(object, device, &regions)
}

interpose! {
    /// `void ProgramImpl::validate_dataflow_buffer_region(IDevice const*)`: afterwards all are placed.
    "_ZN2tt8tt_metal6detail11ProgramImpl31validate_dataflow_buffer_regionEPKNS0_7IDeviceE"
    fn validate_dataflow_buffers(program: Object, device: Object) |real| {
        let on = FAMILY.is_tracking();
        on_exception(real, || {
            if on {
                // The exception has left whatever took the lock. They are placed, as circular buffers
                // are that clash: whose storage it is, and where it begins, is known by that.
                report_placed(program, device);
                report_clash(program, device);
            }
        });
        if on {
            report_placed(program, device);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::CoreSet;

    #[test]
    fn the_fingerprint_differs_with_every_change() {
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
