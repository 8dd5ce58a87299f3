//! Kernels: collected as programs get them, told when a program is first sent.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::interpose;
use super::programs::with_program;
use crate::family::Family;
use crate::runtime::Object;
use crate::runtime::kernel::{self, Kernel};
use crate::{programs, report};
use ttmem_event::{CoreType, KernelKind, MeshId};

pub(crate) static FAMILY: Family = Family::new("kernels");

/// Tells of the kernels of a program that is on a device for the first time.
///
/// # Safety
/// `object` is a live `ProgramImpl` that is built for the open device `device`.
pub(super) unsafe fn tell_loaded(
    object: Object,
    device: Object,
    mesh: MeshId,
    kind: KernelKind,
) -> Option<()> {
    let accessors = FAMILY.need(&*kernel::ACCESSORS)?;
    let (program, binary_bytes, objects) = programs::with_known(object.addr(), |program| {
        (program.id, program.binary_bytes, program.kernels.clone())
    })?;
    let mut kernels: Vec<Kernel> = Vec::with_capacity(objects.len());
    for (kernel, core_type) in objects {
        let kernel = std::ptr::with_exposed_provenance(kernel);
        let core_type = CoreType::ALL.get(usize::from(core_type)).copied();
        // SAFETY: as the caller vouches; the program keeps its kernels.
        let kernel = unsafe { accessors.read(kernel, core_type?, device) };
        let Some(kernel) = kernel else {
            FAMILY.turn_off("a kernel's cores are laid out in another way");
            return None;
        };
        kernels.push(kernel);
    }
    // On a mock without fast dispatch nothing is built.
    let are_built = kernels.iter().any(|kernel| kernel.binary_bytes > 0);
    if !kernels.is_empty() && !are_built {
        return None;
    }
    // SAFETY: as above.
    let ring_bytes = unsafe { accessors.ring_bytes(object) }?;
    FAMILY.contain(|| {
        report::kernels(mesh, program, &kernels, ring_bytes, binary_bytes, kind);
        report::stacks::of_kernels(mesh, program);
    });
    Some(())
}

/// Notes a kernel of a program.
///
/// # Safety
/// `program` is a live `ProgramImpl`, `kernel` a shared pointer to a `Kernel`, and
/// `core_type` a kind of core.
unsafe fn note(program: Object, kernel: Object, core_type: Object) -> Option<()> {
    FAMILY.need(&*kernel::ACCESSORS)?;
    // SAFETY: a shared pointer begins with the object's address.
    let kernel = unsafe { kernel.cast::<Object>().read() };
    // SAFETY: as the caller vouches; there are so few kinds that one byte tells them apart.
    let core_type = unsafe { core_type.cast::<u8>().read() };
    if kernel.is_null() {
        return None;
    }
    let kernel = (kernel.expose_provenance(), core_type);
    // SAFETY: as above.
    unsafe { with_program(program, |program| program.kernels.push(kernel)) }
}

interpose! {
    /// `u32 ProgramImpl::add_kernel(shared_ptr<Kernel> const&, HalProgrammableCoreType const&)`.
    "_ZN2tt8tt_metal6detail11ProgramImpl10add_kernelERKSt10shared_ptrINS0_6KernelEERKNS0_23HalProgrammableCoreTypeE"
    fn add_kernel(program: Object, kernel: Object, core_type: Object) -> u32 |real| {
        // SAFETY: the caller's own arguments.
        let handle = unsafe { real(program, kernel, core_type) };
        if FAMILY.is_on() && report::is_on() {
            // SAFETY: the program has just taken the kernel.
            unsafe { note(program, kernel, core_type) };
        }
        handle
    }
}
