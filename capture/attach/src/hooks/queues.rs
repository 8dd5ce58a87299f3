//! The making of a mesh's command queues: what is made meanwhile belongs to that mesh.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{OnExit, interpose, prefetchers};
use crate::call_context::{self, Slot, during};
use crate::runtime::Object;

/// A command queue that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Making {
    /// The address of the `MeshDevice`, which is not initialised yet.
    pub(super) mesh: usize,
    /// The queue's number on its mesh.
    pub(super) number: u32,
}

thread_local! {
    static MAKING: Slot<Making> = const { Slot::new() };
}

pub(super) fn making() -> Option<Making> {
    call_context::get(&MAKING)
}

interpose! {
    /// `FDMeshCommandQueue::FDMeshCommandQueue(MeshDevice*, u32, …)`: what is passed by value after
    /// the sixth argument lies on the stack as an address.
    "_ZN2tt8tt_metal11distributed18FDMeshCommandQueueC1EPNS1_10MeshDeviceEjRSt10shared_ptrINS0_10ThreadPoolEES8_RS5_INS0_13CQSharedStateEESt8functionIFSt10lock_guardISt5mutexEvEES5_INS1_9multihost18DistributedContextEE"
    fn make_queue(
        queue: Object, mesh: Object, number: u32, a: u64, b: u64, c: u64, d: u64, e: u64
    ) |real| {
        let _made = OnExit(prefetchers::queue_made);
        during(&MAKING, Making { mesh: mesh.address(), number }, real);
    }
}
