//! Meshes and chips: opened, closed, and resized.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{OnExit, config_rings, interpose, prefetchers};
use crate::family::Family;
use crate::open_devices::{self, OpenDevice};
use crate::runtime::Object;

pub(crate) static FAMILY: Family = Family::new("devices");

fn opened(device: Object) -> Option<&'static OpenDevice> {
    if !FAMILY.is_tracking() {
        return None;
    }
    let opened = open_devices::of(device)?;
    opened.begin();
    Some(opened)
}

/// Reports what an allocator can hand out after it was resized.
fn report_resized(allocator: Object) {
    if FAMILY.is_tracking()
        && let Some(device) = open_devices::at(allocator.address())
    {
        device.report_resized();
    }
}

interpose! {
    /// `bool MeshDeviceImpl::initialize_impl(MeshDevice*, …)`: afterwards the mesh has an allocator.
    ///
    /// Its numbers are dead: callers leave what was in the registers. They are passed on.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl15initialize_implEPNS1_10MeshDeviceEhmmmSt4spanIKjLm18446744073709551615EEb"
    fn initialize_mesh(
        implementation: Object, mesh: Object, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64
    ) -> u64 |real| {
        let result = real();
        if let Some(opened) = opened(mesh) {
            opened.add_implementation(implementation);
            opened.verify();
            config_rings::mesh_opened(mesh, opened.mesh);
            prefetchers::mesh_opened(mesh);
        }
        result
    }

    /// `bool MeshDeviceImpl::close_impl(MeshDevice*)`: comes again when the mesh is destroyed.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl10close_implEPNS1_10MeshDeviceE"
    fn close_mesh(implementation: Object, mesh: Object) -> u64 |real| {
        if let Some(open) = open_devices::at(mesh.address()) {
            open.verify();
            open.is_closing.set(true);
        }
        // What it had is nobody's.
        let _closed = OnExit(|| {
            config_rings::mesh_closed(mesh);
            prefetchers::mesh_closed(mesh.address());
            open_devices::close(mesh);
        });
        real()
    }

    /// `bool Device::initialize(u8, u64, u64, u64, span, bool)`: the span is on the stack.
    "_ZN2tt8tt_metal6Device10initializeEhmmmSt4spanIKjLm18446744073709551615EEb"
    fn initialize_chip(
        chip: Object, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64
    ) -> u64 |real| {
        let result = real();
        opened(chip);
        result
    }

    /// `bool Device::close()`.
    "_ZN2tt8tt_metal6Device5closeEv"
    fn close_chip(chip: Object) -> u64 |real| {
        if let Some(open) = open_devices::at(chip.address()) {
            open.is_closing.set(true);
        }
        let _closed = OnExit(|| open_devices::close(chip));
        real()
    }

    /// `void AllocatorImpl::shrink_allocator_size(BufferType const&, u64, bool)`: parts of a device
    /// get memory of their own.
    "_ZN2tt8tt_metal13AllocatorImpl21shrink_allocator_sizeERKNS0_10BufferTypeEmb"
    fn shrink_allocator(allocator: Object, class: Object, size: u64, bottom_up: u64) |real| {
        real();
        report_resized(allocator);
    }

    /// `void AllocatorImpl::reset_allocator_size(BufferType const&)`: the parts give it back.
    "_ZN2tt8tt_metal13AllocatorImpl20reset_allocator_sizeERKNS0_10BufferTypeE"
    fn reset_allocator(allocator: Object, class: Object) |real| {
        real();
        report_resized(allocator);
    }

    /// `void AllocatorImpl::mirror_lockstep_allocation(u64, u64)`: where cores have allocators of
    /// their own, those of chips hold what their meshes have placed.
    "_ZN2tt8tt_metal13AllocatorImpl26mirror_lockstep_allocationEmm"
    fn mirror_allocation(allocator: Object, address: u64, size: u64) |real| {
        // Before it is done, so that nobody compares the two in between.
        if let Some(device) = open_devices::at(allocator.address()) {
            device.is_mirror.set(true);
        }
        real();
    }
}
