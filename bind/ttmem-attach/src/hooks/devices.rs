//! Meshes and chips: opened, closed, and resized.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{OnException, interpose, prefetchers, rings};
use crate::family::Family;
use crate::runtime::Object;
use crate::{places, report};

pub(crate) static FAMILY: Family = Family::new("devices");

/// Tells what an allocator can hand out after it was resized.
fn tell_resized(allocator: Object) {
    if FAMILY.is_on()
        && report::is_on()
        && let Some(place) = places::known_place(allocator)
    {
        place.tell_resized();
    }
}

/// Tells that a mesh was closed; what it had is nobody's.
fn mesh_closed(mesh: Object) {
    rings::mesh_closed(mesh);
    prefetchers::mesh_closed(mesh);
    places::close(mesh);
}

interpose! {
    /// `bool MeshDeviceImpl::initialize_impl(MeshDevice*, …)`: afterwards the mesh has an allocator.
    ///
    /// Its numbers are dead: callers leave what was in the registers. They are passed on.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl15initialize_implEPNS1_10MeshDeviceEhmmmSt4spanIKjLm18446744073709551615EEb"
    fn initialize_mesh(
        implementation: Object, mesh: Object, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64
    ) -> u64 |real| {
        // SAFETY: the caller's own arguments.
        let result = unsafe { real(implementation, mesh, a, b, c, d, e, f, g) };
        if FAMILY.is_on() && report::is_on() {
            // SAFETY: the runtime has just initialised the mesh.
            if let Some(place) = unsafe { places::place_of(mesh) } {
                place.begin();
                place.add_implementation(implementation);
                place.verify();
                rings::mesh_opened(mesh, place.mesh);
                prefetchers::mesh_opened(mesh);
            }
        }
        result
    }
}

interpose! {
    /// `bool MeshDeviceImpl::close_impl(MeshDevice*)`: comes again when the mesh is destroyed.
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl10close_implEPNS1_10MeshDeviceE"
    fn close_mesh(implementation: Object, mesh: Object) -> u64 |real| {
        if let Some(place) = places::known_place(mesh) {
            place.verify();
            place.begin_closing();
        }
        let failed = OnException::new(|| mesh_closed(mesh));
        // SAFETY: the caller's own arguments.
        let result = unsafe { real(implementation, mesh) };
        failed.disarm();
        mesh_closed(mesh);
        result
    }
}

interpose! {
    /// `bool Device::initialize(u8, u64, u64, u64, span, bool)`: the span is on the stack.
    "_ZN2tt8tt_metal6Device10initializeEhmmmSt4spanIKjLm18446744073709551615EEb"
    fn initialize_chip(
        chip: Object, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64
    ) -> u64 |real| {
        // SAFETY: the caller's own arguments.
        let result = unsafe { real(chip, a, b, c, d, e, f, g, h) };
        if FAMILY.is_on() && report::is_on() {
            // SAFETY: the runtime has just initialised the chip.
            if let Some(place) = unsafe { places::place_of(chip) } {
                place.begin();
            }
        }
        result
    }
}

interpose! {
    /// `bool Device::close()`.
    "_ZN2tt8tt_metal6Device5closeEv"
    fn close_chip(chip: Object) -> u64 |real| {
        if let Some(place) = places::known_place(chip) {
            place.begin_closing();
        }
        let failed = OnException::new(|| places::close(chip));
        // SAFETY: the caller's own argument.
        let result = unsafe { real(chip) };
        failed.disarm();
        places::close(chip);
        result
    }
}

interpose! {
    /// `void AllocatorImpl::shrink_allocator_size(BufferType const&, u64, bool)`: parts of a device
    /// get memory of their own.
    "_ZN2tt8tt_metal13AllocatorImpl21shrink_allocator_sizeERKNS0_10BufferTypeEmb"
    fn shrink_allocator(allocator: Object, class: Object, size: u64, bottom_up: u64) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(allocator, class, size, bottom_up) };
        tell_resized(allocator);
    }
}

interpose! {
    /// `void AllocatorImpl::reset_allocator_size(BufferType const&)`: the parts give it back.
    "_ZN2tt8tt_metal13AllocatorImpl20reset_allocator_sizeERKNS0_10BufferTypeE"
    fn reset_allocator(allocator: Object, class: Object) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(allocator, class) };
        tell_resized(allocator);
    }
}

interpose! {
    /// `void AllocatorImpl::mirror_lockstep_allocation(u64, u64)`: where cores have allocators of
    /// their own, those of chips hold what their meshes have placed.
    "_ZN2tt8tt_metal13AllocatorImpl26mirror_lockstep_allocationEmm"
    fn mirror_allocation(allocator: Object, address: u64, size: u64) |real| {
        // Before it is done, so that nobody compares the two in between.
        if let Some(place) = places::known_place(allocator) {
            place.note_mirrored();
        }
        // SAFETY: the caller's own arguments.
        unsafe { real(allocator, address, size) };
    }
}
