//! Kernels: collected as programs get them, reported when a program is first sent.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::interpose;
use super::programs::with_program;
use crate::family::Family;
use crate::runtime::Object;
use crate::runtime::kernel::{self, Kernel};
use crate::{program_table, report};
use ttmem_event::{BufferId, CoreType, EventKind, KernelId, KernelKind, MeshId};

pub(crate) static FAMILY: Family = Family::new("kernels");

/// The kernels of a program, with the runtime's numbers of their kinds of core.
pub(super) fn kernels_of(program: Object) -> Option<impl Iterator<Item = (Object, u8)>> {
    let known = program_table::with_known(program.address(), |known| known.kernels.clone())?;
    Some(known.into_iter().map(|(kernel, core_type)| {
        // SAFETY: the program keeps its kernels until it is destroyed, and is then forgotten.
        (unsafe { Object::at(kernel) }, core_type)
    }))
}

/// Reports the kernels of a program that is on a device for the first time, and built for it.
pub(super) fn report_loaded(
    object: Object,
    device: Object,
    mesh: MeshId,
    kind: KernelKind,
) -> Option<()> {
    let accessors = FAMILY.need(&*kernel::ACCESSORS)?;
    let (program, binary_bytes) = program_table::with_known(object.address(), |program| {
        (program.id, program.binary_bytes)
    })?;
    let mut kernels: Vec<Kernel> = Vec::new();
    for (kernel, core_type) in kernels_of(object)? {
        let core_type = *CoreType::ALL.get(usize::from(core_type))?;
        let Some(kernel) = accessors.read(kernel, core_type, device) else {
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
    let config_ring_bytes = accessors.config_ring_bytes(object)?;
    FAMILY.contain(|| {
        let tracker = report::tracker();
        let text_bytes = kernel::text_bytes(&kernels);
        tracker.track(EventKind::ProgramFinalized {
            mesh,
            program,
            config_bytes: config_ring_bytes.saturating_sub(text_bytes),
            text_bytes,
            binary_bytes,
        });
        for kernel in kernel::by_binary(&kernels) {
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
        report::stack(mesh, BufferId(0), program);
    });
    Some(())
}

/// Notes a kernel of a program, by a shared pointer to it and a reference to its kind of core.
fn note(program: Object, kernel: Object, core_type: Object) -> Option<()> {
    FAMILY.need(&*kernel::ACCESSORS)?;
    // SAFETY: a shared pointer begins with the address of its object, which it keeps.
    let kernel = unsafe { kernel.first_member() };
    // SAFETY: there are so few kinds that the first byte distinguishes them.
    let core_type = unsafe { core_type.read::<u8>(0) };
    if kernel.is_null() {
        return None;
    }
    let kernel = (kernel.address(), core_type);
    with_program(program, |program| program.kernels.push(kernel))
}

interpose! {
    /// `u32 ProgramImpl::add_kernel(shared_ptr<Kernel> const&, HalProgrammableCoreType const&)`.
    "_ZN2tt8tt_metal6detail11ProgramImpl10add_kernelERKSt10shared_ptrINS0_6KernelEERKNS0_23HalProgrammableCoreTypeE"
    fn add_kernel(program: Object, kernel: Object, core_type: Object) -> u32 |real| {
        let handle = real();
        if FAMILY.is_tracking() {
            note(program, kernel, core_type);
        }
        handle
    }
}
