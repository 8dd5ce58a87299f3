//! The calls that a runtime makes.

use crate::client::{Client, PAGE};
use crate::config::Config;
use crate::own_account::{self, AskError, Question};
use crate::{forward, local, start};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use ttmem_event::wire::{DEFINITION_HEAD_BYTES, DEFINITION_ID_BYTES, DefinitionKind};
use ttmem_event::{
    BufferId, CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, EventKind, MeshDefinition,
    MeshId, ProgramId, TextId,
};
use ttmem_ring::dictionary::MAX_BODY_BYTES;
use ttmem_ring::page::{FIRST_GENERATION, FORWARDING, OFF};

static LAST_PROGRAM: AtomicU64 = AtomicU64::new(0);

/// The tracking of this process.
///
/// It has no state of its own: every copy of it is the same one. Nothing happens until the first
/// call that records or defines something; that one starts the client.
#[derive(Clone, Copy, Debug)]
pub struct Tracker;

/// Why not everything is known to be with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlushError {
    #[error("tracking is off")]
    Disabled,
    /// The server did not answer in time, or there is none.
    #[error("no server confirmed in time")]
    TimedOut,
}

/// What the client knows about itself; after a flush, as of its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Statistics {
    /// Events that could not be recorded: totals are not to be trusted.
    pub lost_events: u64,
    /// Events that the server was never sent one by one; totals are exact.
    pub elided_events: u64,
    /// Whether a server is connected and has confirmed the state of this process; events since then
    /// may be on their way.
    pub connected: bool,
    /// How often the whole state was sent.
    pub resyncs: u64,
    /// CPU time that the pump's thread has used.
    pub pump_cpu_nanos: u64,
    /// Rings that threads have or had.
    pub rings: usize,
}

impl Statistics {
    /// CPU time that the pump's thread has used.
    #[must_use]
    pub fn pump_cpu(&self) -> Duration {
        Duration::from_nanos(self.pump_cpu_nanos)
    }
}

impl Tracker {
    /// The tracking of this process, configured; the first configuration counts.
    #[must_use]
    pub fn start(config: Config) -> Self {
        start::configure(config);
        Self
    }

    /// Turns tracking off for this process and its children.
    #[must_use]
    pub fn disabled() -> Self {
        start::disable();
        Self
    }

    /// Whether events are recorded; before the first call that is not known yet, and true.
    #[inline]
    #[must_use]
    pub fn is_enabled(self) -> bool {
        PAGE.word() != OFF
    }

    #[inline(always)]
    pub fn track(self, event: EventKind) {
        // Known where the event is written down: for all others this is nothing.
        if event.is_legacy() && !start::is_legacy() && !decide_legacy() {
            return;
        }
        local::record(&event);
    }

    /// Records events that happened at one moment, in their order, for little more than one.
    #[inline(always)]
    pub fn track_together<const COUNT: usize>(self, all: [EventKind; COUNT]) {
        if all.iter().any(EventKind::is_legacy) {
            return all.into_iter().for_each(|event| self.track(event));
        }
        local::record_together(&all);
    }

    #[must_use]
    pub fn text(self, text: &str) -> TextId {
        let text = &text[..text.floor_char_boundary(MAX_BODY_BYTES)];
        TextId(define(DefinitionKind::Text, text.as_bytes()))
    }

    #[must_use]
    pub fn cores(self, cores: &CoreSet) -> CoresId {
        let (id, cores) = (CoresId::NONE, *cores);
        CoresId(define_as(
            DefinitionKind::Cores,
            &Definition::Cores { id, cores },
        ))
    }

    /// The id of a device; the one inside of the definition is not used.
    #[must_use]
    pub fn device(self, device: &DeviceDefinition) -> DeviceId {
        let definition = Definition::Device(device.clone());
        DeviceId(define_as(DefinitionKind::Device, &definition))
    }

    /// The id of a mesh; the one inside of the definition is not used.
    #[must_use]
    pub fn mesh(self, mesh: &MeshDefinition) -> MeshId {
        let definition = Definition::Mesh(mesh.clone());
        MeshId(define_as(DefinitionKind::Mesh, &definition))
    }

    #[must_use]
    pub fn next_buffer(self) -> BufferId {
        let forwarded = (decided() == FORWARDING).then(forward::next_buffer);
        BufferId(forwarded.flatten().unwrap_or_else(|| next_buffer()))
    }

    #[must_use]
    pub fn next_program(self) -> ProgramId {
        let forwarded = (decided() == FORWARDING).then(forward::next_program);
        ProgramId(forwarded.flatten().unwrap_or_else(|| next_program()))
    }

    /// Waits until the server's ledger has applied everything recorded before this call.
    ///
    /// # Errors
    /// When tracking is off or no server confirms in time.
    pub fn flush(self, timeout: Duration) -> Result<(), FlushError> {
        settle(timeout, false)
    }

    /// Flushes, sends the server a goodbye and turns tracking off.
    ///
    /// All that the process held is released, as if it had ended. A program need not call this:
    /// the end of a process is noticed.
    ///
    /// # Errors
    /// When tracking was off or no server confirmed in time; it is off in any case.
    pub fn close(self, timeout: Duration) -> Result<(), FlushError> {
        let outcome = settle(timeout, true);
        start::disable();
        outcome
    }

    /// Asks the process's own account: a JSON document of what the process holds, everything
    /// recorded before this call included. No server is needed.
    ///
    /// # Errors
    /// When tracking is off, the question makes no sense, the account does not answer in time, or there
    /// is no memory for the answer.
    pub fn own_account(self, question: Question, timeout: Duration) -> Result<Box<[u8]>, AskError> {
        match decided() {
            OFF => Err(AskError::Disabled),
            FORWARDING => forward::ask(question, timeout),
            _running => {
                let client = PAGE.client().ok_or(AskError::Disabled)?;
                own_account::ask(client, question, timeout)
            }
        }
    }

    /// What the client knows about itself.
    #[must_use]
    pub fn statistics(self) -> Statistics {
        let own = || PAGE.client().map(Client::statistics);
        let known = if PAGE.word() == FORWARDING {
            forward::statistics()
        } else {
            own()
        };
        known.unwrap_or_default()
    }
}

pub(crate) extern "C" fn next_buffer() -> u64 {
    start::LAST_BUFFER.fetch_add(1, Ordering::Relaxed) + 1
}

pub(crate) extern "C" fn next_program() -> u64 {
    LAST_PROGRAM.fetch_add(1, Ordering::Relaxed) + 1
}

/// Starts the client if nothing is decided yet; the word that was decided.
fn decided() -> u32 {
    loop {
        match PAGE.settled_word() {
            word @ (OFF | FORWARDING) => return word,
            word if word >= FIRST_GENERATION => return word,
            _undecided => start::start(),
        }
    }
}

/// Whether the old protocol's events are recorded, in a process where that is not known yet.
///
/// Not where the process tracks itself in full: everything would count twice. A copy that
/// forwards leaves it to the other one.
#[cold]
fn decide_legacy() -> bool {
    match decided() {
        FORWARDING => true,
        word => word >= FIRST_GENERATION && start::is_legacy(),
    }
}

fn define(kind: DefinitionKind, body: &[u8]) -> u32 {
    match decided() {
        OFF => 0,
        FORWARDING => forward::define(kind, body),
        _running => PAGE.client().map_or(0, |client| client.define(kind, body)),
    }
}

/// Defines something whose body is written the way the wire has it.
fn define_as(kind: DefinitionKind, definition: &Definition) -> u32 {
    let mut bytes = Vec::new();
    definition.encode(&mut bytes);
    // The dictionary has a head and an id of its own.
    let body = bytes.get(DEFINITION_HEAD_BYTES + DEFINITION_ID_BYTES..);
    body.map_or(0, |body| define(kind, body))
}

fn settle(timeout: Duration, closing: bool) -> Result<(), FlushError> {
    let settled = match decided() {
        OFF => return Err(FlushError::Disabled),
        FORWARDING => forward::flush(timeout),
        _running => {
            let client = PAGE.client().ok_or(FlushError::Disabled)?;
            if closing {
                client.wait_for_close(timeout)
            } else {
                client.wait_for_flush(timeout)
            }
        }
    };
    if settled {
        Ok(())
    } else if PAGE.word() == OFF {
        // Turned off meanwhile: nothing more will be confirmed.
        Err(FlushError::Disabled)
    } else {
        Err(FlushError::TimedOut)
    }
}
