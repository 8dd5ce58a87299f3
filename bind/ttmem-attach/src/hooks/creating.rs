//! Tensors that are created on a device: by which operation.
//!
//! The runtime's calls for buffers do not say who asks. ttnn creates its device tensors
//! in two functions, each of which is on the stack while the buffer is placed or refused;
//! the address they return to names the operation. The name holds during the call, to
//! its end or until an exception passes, so it is never that of an earlier operation. Of
//! what the runtime allocates for itself, semaphores and global circular buffers are
//! named for what they are.
//!
//! Tensors only on x86-64, where a result that does not fit in registers is passed as a
//! first argument; elsewhere they have no operation.

#![expect(unsafe_code, reason = "is called in place of ttnn's functions")]

use super::buffers::FAMILY;
use super::interpose;
use crate::runtime::Object;
use crate::{report, thread};
use ttmem_event::TextId;

/// The operation for which this thread creates a tensor; none outside of ttnn's functions.
#[inline]
pub(crate) fn operation() -> TextId {
    thread::with(|block| block.creating.get())
}

/// Sets it; what it was.
#[inline]
fn set_operation(operation: TextId) -> TextId {
    thread::with(|block| block.creating.replace(operation))
}

/// Forgets the operation, whose text is the parent's.
pub(crate) fn forget() {
    set_operation(TextId::NONE);
}

/// The time in which tensors are created for an operation; the one around it goes on after.
#[derive(Debug)]
struct During {
    outer: TextId,
}

impl During {
    fn begin(operation: TextId) -> Self {
        let outer = set_operation(operation);
        Self { outer }
    }
}

impl Drop for During {
    fn drop(&mut self) {
        set_operation(self.outer);
    }
}

/// The time in which the runtime allocates something that has a name of its own.
fn during(name: &str) -> During {
    During::begin(if FAMILY.is_tracking() {
        FAMILY.contain(|| report::tracker().text(name))
    } else {
        TextId::NONE
    })
}

interpose! {
    /// `void GlobalCircularBufferImpl::setup_cb_buffers(BufferType, u32)`.
    "_ZN2tt8tt_metal12experimental24GlobalCircularBufferImpl16setup_cb_buffersENS0_10BufferTypeEj"
    fn setup_global_cb(buffer: Object, class: u32, blocks: u32) |real| {
        let _during = during("GlobalCircularBuffer");
        real();
    }
}

interpose! {
    /// `void GlobalSemaphoreImpl::setup_buffer(optional<u32>, BufferType, optional<u64>)`.
    ///
    /// The last one comes in two registers.
    "_ZN2tt8tt_metal19GlobalSemaphoreImpl12setup_bufferESt8optionalIjENS0_10BufferTypeES2_ImE"
    fn setup_semaphore(semaphore: Object, value: u64, class: u32, address: u64, given: u64) |real| {
        let _during = during("GlobalSemaphore");
        real();
    }
}

#[cfg(target_arch = "x86_64")]
mod functions {
    use super::During;
    use crate::hooks::buffers::FAMILY;
    use crate::hooks::real_function;
    use crate::operation;
    use crate::runtime::Object;
    use ttmem_event::TextId;

    /// The operation that creates tensors at an address.
    fn creator(return_address: usize, usual: Option<&str>) -> TextId {
        if FAMILY.is_tracking() {
            FAMILY.contain(|| operation::creator_at(return_address, usual))
        } else {
            TextId::NONE
        }
    }

    /// `Tensor ttnn::create_device_tensor(TensorSpec const&, MeshDevice*, optional<TensorTopology>)`,
    /// with the address it returns to.
    unsafe extern "C-unwind" fn create_device_tensor_from(
        result: Object,
        spec: Object,
        mesh: Object,
        topology: Object,
        return_address: usize,
    ) -> Object {
        let real = real_function!(
            "_ZN4ttnn20create_device_tensorERKN2tt8tt_metal10TensorSpecEPNS1_11distributed10MeshDeviceESt8optionalINS1_14TensorTopologyEE",
            unsafe extern "C-unwind" fn(Object, Object, Object, Object) -> Object
        );
        let _during = During::begin(creator(return_address, None));
        // SAFETY: the caller's own arguments.
        unsafe { real(result, spec, mesh, topology) }
    }

    /// `Tensor ttnn::create_device_tensor(TensorSpec const&, MeshDevice*, optional<TensorTopology>)`.
    ///
    /// As of the hook for programs: the address it returns to is passed as one more argument.
    #[unsafe(export_name = "_ZN4ttnn20create_device_tensorERKN2tt8tt_metal10TensorSpecEPNS1_11distributed10MeshDeviceESt8optionalINS1_14TensorTopologyEE")]
    #[unsafe(naked)]
    unsafe extern "C-unwind" fn create_device_tensor() {
        std::arch::naked_asm!("mov r8, [rsp]", "jmp {from}", from = sym create_device_tensor_from);
    }

    /// `Tensor Tensor::to_device(MeshDevice*, optional_reference<MemoryConfig const>, optional<QueueId>) const`,
    /// with the address it returns to.
    unsafe extern "C-unwind" fn to_device_from(
        result: Object,
        tensor: Object,
        mesh: Object,
        memory: Object,
        queue: u64,
        return_address: usize,
    ) -> Object {
        let real = real_function!(
            "_ZNK4ttnn6Tensor9to_deviceEPN2tt8tt_metal11distributed10MeshDeviceEN4ttsl18optional_referenceIKNS2_12MemoryConfigEEESt8optionalINS6_10StrongTypeIhNS_10QueueIdTagEEEE",
            unsafe extern "C-unwind" fn(Object, Object, Object, Object, u64) -> Object
        );
        let _during = During::begin(creator(return_address, Some("to_device")));
        // SAFETY: the caller's own arguments.
        unsafe { real(result, tensor, mesh, memory, queue) }
    }

    /// `Tensor Tensor::to_device(MeshDevice*, optional_reference<MemoryConfig const>, optional<QueueId>) const`.
    #[unsafe(export_name = "_ZNK4ttnn6Tensor9to_deviceEPN2tt8tt_metal11distributed10MeshDeviceEN4ttsl18optional_referenceIKNS2_12MemoryConfigEEESt8optionalINS6_10StrongTypeIhNS_10QueueIdTagEEEE")]
    #[unsafe(naked)]
    unsafe extern "C-unwind" fn to_device() {
        std::arch::naked_asm!("mov r9, [rsp]", "jmp {from}", from = sym to_device_from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn an_operation_holds_for_its_call_also_when_that_fails() {
        assert_eq!(operation(), TextId::NONE);
        let outer = During::begin(TextId(1));
        let failed = catch_unwind(|| {
            let _inner = During::begin(TextId(2));
            assert_eq!(operation(), TextId(2));
            panic!("as an exception would pass");
        });
        assert!(failed.is_err());
        assert_eq!(operation(), TextId(1));
        drop(outer);
        assert_eq!(operation(), TextId::NONE);
    }
}
