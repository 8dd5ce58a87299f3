//! The making of a mesh's command queues: what is made meanwhile belongs to that mesh.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{OnException, interpose, prefetchers};
use crate::runtime::Object;
use std::cell::Cell;

/// A command queue that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Making {
    /// The `MeshDevice`, which is not initialised yet.
    pub(super) mesh: Object,
    /// The queue's number on its mesh.
    pub(super) number: u32,
}

thread_local! {
    static MAKING: Cell<Option<Making>> = const { Cell::new(None) };
}

/// The queue that this thread is making.
pub(super) fn making() -> Option<Making> {
    MAKING.try_with(Cell::get).ok().flatten()
}

fn set_making(making: Option<Making>) {
    let _ending = MAKING.try_with(|cell| cell.set(making));
}

interpose! {
    /// `FDMeshCommandQueue::FDMeshCommandQueue(MeshDevice*, u32, …)`: what is passed by value after
    /// the sixth argument lies on the stack as an address.
    "_ZN2tt8tt_metal11distributed18FDMeshCommandQueueC1EPNS1_10MeshDeviceEjRSt10shared_ptrINS0_10ThreadPoolEES8_RS5_INS0_13CQSharedStateEESt8functionIFSt10lock_guardISt5mutexEvEES5_INS1_9multihost18DistributedContextEE"
    fn make_queue(
        queue: Object, mesh: Object, number: u32, a: u64, b: u64, c: u64, d: u64, e: u64
    ) |real| {
        set_making(Some(Making { mesh, number }));
        let failed = OnException::new(|| {
            set_making(None);
            prefetchers::queue_made();
        });
        // SAFETY: the caller's own arguments.
        unsafe { real(queue, mesh, number, a, b, c, d, e) };
        failed.disarm();
        set_making(None);
        prefetchers::queue_made();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_being_made_only_by_the_thread_that_makes_it() {
        let mesh = std::ptr::without_provenance(0x1000);
        let queue = Some(Making { mesh, number: 1 });
        set_making(queue);
        assert_eq!(making(), queue);
        let elsewhere = std::thread::spawn(|| making().is_none());
        assert!(elsewhere.join().expect("it does not panic"));
        set_making(None);
        assert_eq!(making(), None);
    }
}
