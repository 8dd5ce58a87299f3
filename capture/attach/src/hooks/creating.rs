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
#[cfg(target_arch = "x86_64")]
use super::interpose_with_return_address;
use crate::runtime::Object;
use crate::{operation, thread};
use ttmem_event::TextId;

/// The operation for which this thread creates a tensor; none outside of ttnn's functions.
#[inline]
pub(crate) fn current_operation() -> TextId {
    thread::with(|block| block.creating.get())
}

/// Forgets the operation, whose text is the parent's.
pub(crate) fn forget() {
    thread::with(|block| block.creating.set(TextId::NONE));
}

/// The time in which tensors are created for an operation; the one around it goes on after.
#[derive(Debug)]
struct During {
    outer: TextId,
}

impl During {
    fn begin(operation: TextId) -> Self {
        let outer = thread::with(|block| block.creating.replace(operation));
        Self { outer }
    }
}

impl Drop for During {
    fn drop(&mut self) {
        thread::with(|block| block.creating.set(self.outer));
    }
}

/// The time in which the runtime allocates something that has a name of its own.
fn during(name: &str) -> During {
    During::begin(if FAMILY.is_tracking() {
        FAMILY.contain(|| operation::named(name))
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
fn creator(return_address: usize, usual: Option<&str>) -> TextId {
    if FAMILY.is_tracking() {
        FAMILY.contain(|| operation::creator_at(return_address, usual))
    } else {
        TextId::NONE
    }
}

#[cfg(target_arch = "x86_64")]
interpose_with_return_address! {
    /// `Tensor ttnn::create_device_tensor(TensorSpec const&, MeshDevice*, optional<TensorTopology>)`.
    "_ZN4ttnn20create_device_tensorERKN2tt8tt_metal10TensorSpecEPNS1_11distributed10MeshDeviceESt8optionalINS1_14TensorTopologyEE"
    "mov r8, [rsp]\njmp {hook}" ""
    fn create_device_tensor(
        result: Object, spec: Object, mesh: Object, topology: Object; return_address
    ) -> Object |real| {
        let _during = During::begin(creator(return_address, None));
        real()
    }

    /// `Tensor Tensor::to_device(MeshDevice*, optional_reference<MemoryConfig const>, optional<QueueId>) const`.
    "_ZNK4ttnn6Tensor9to_deviceEPN2tt8tt_metal11distributed10MeshDeviceEN4ttsl18optional_referenceIKNS2_12MemoryConfigEEESt8optionalINS6_10StrongTypeIhNS_10QueueIdTagEEEE"
    "mov r9, [rsp]\njmp {hook}" ""
    fn to_device(
        result: Object, tensor: Object, mesh: Object, memory: Object, queue: u64; return_address
    ) -> Object |real| {
        let _during = During::begin(creator(return_address, Some("to_device")));
        real()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn an_operation_holds_for_its_call_also_when_that_fails() {
        assert_eq!(current_operation(), TextId::NONE);
        let outer = During::begin(TextId(1));
        let failed = catch_unwind(|| {
            let _inner = During::begin(TextId(2));
            assert_eq!(current_operation(), TextId(2));
            panic!("as an exception would pass");
        });
        assert!(failed.is_err());
        assert_eq!(current_operation(), TextId(1));
        drop(outer);
        assert_eq!(current_operation(), TextId::NONE);
    }
}
