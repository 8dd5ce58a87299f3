//! The tracker of this process with an observer.
//!
//! The demo counts what was recorded, to hold the server's account against it; the load generator
//! keeps to its rate. Both want to see every event just before it is recorded, on the thread that
//! plays.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use ttmem_client::{FlushError, Tracker};
use ttmem_event::{
    BufferId, CoreSet, CoresId, DeviceDefinition, DeviceId, EventKind, MeshDefinition, MeshId,
    ProgramId, TextId,
};
use ttmem_model::hooks::Hooks;

/// Events after which a scenario waits for the server.
///
/// A quarter of what the client keeps for a server that is slow: history is never elided.
const EVENTS_AHEAD: u64 = 128 << 10;

/// How long a server may take to confirm what it was sent.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(60);

/// Sees every event just before it is recorded.
pub(crate) trait Observer {
    fn mesh(&mut self, _id: MeshId, _mesh: &MeshDefinition) {}

    /// An event will be recorded next; how many were before it.
    fn before(&mut self, event: &EventKind) -> u64;
}

impl<O: Observer> Observer for Rc<RefCell<O>> {
    fn mesh(&mut self, id: MeshId, mesh: &MeshDefinition) {
        self.borrow_mut().mesh(id, mesh);
    }

    fn before(&mut self, event: &EventKind) -> u64 {
        self.borrow_mut().before(event)
    }
}

#[derive(Debug)]
pub(crate) struct ObservedTracker<O> {
    tracker: Tracker,
    observer: O,
}

impl<O: Observer> ObservedTracker<O> {
    pub(crate) const fn new(tracker: Tracker, observer: O) -> Self {
        Self { tracker, observer }
    }
}

impl<O: Observer> Hooks for ObservedTracker<O> {
    fn track(&mut self, event: EventKind) {
        let before = self.observer.before(&event);
        self.tracker.track(event);
        if (before + 1).is_multiple_of(EVENTS_AHEAD) {
            // Whether everything arrived is asked again at the end, where it can be reported.
            let _later: Result<(), FlushError> = self.tracker.flush(FLUSH_TIMEOUT);
        }
    }

    fn text(&mut self, text: &str) -> TextId {
        self.tracker.text(text)
    }

    fn cores(&mut self, cores: &CoreSet) -> CoresId {
        self.tracker.cores(cores)
    }

    fn device(&mut self, device: &DeviceDefinition) -> DeviceId {
        self.tracker.device(device)
    }

    fn mesh(&mut self, mesh: &MeshDefinition) -> MeshId {
        let id = self.tracker.mesh(mesh);
        self.observer.mesh(id, mesh);
        id
    }

    fn next_buffer(&mut self) -> BufferId {
        self.tracker.next_buffer()
    }

    fn next_program(&mut self) -> ProgramId {
        self.tracker.next_program()
    }
}
