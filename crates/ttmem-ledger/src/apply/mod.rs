//! Applying one event of one process.
//!
//! A [`Scope`] is the part of the ledger that an event may touch: the process
//! that sent it and the devices. Each submodule handles one family of events.
//! `Err` means that the event was refused and changed nothing; contradictions
//! that could be resolved are noted and the event goes on.

mod buffers;
mod caches;
mod cbs;
mod define;
mod devices;
mod kernels;
mod legacy;
mod programs;
mod traces;

use crate::anomaly::{Anomalies, Anomaly};
use crate::device::Device;
use crate::effect::{Change, Effect};
use crate::ledger::Limits;
use crate::process::{Mesh, Process};
use std::sync::Arc;
use ttmem_event::{MeshId, What};

pub(crate) use define::{DeviceTable, Introduction};

/// What applying an event comes to.
pub(crate) type Outcome = Result<(), Anomaly>;

/// The most that one process may hold of one figure on one device.
///
/// Far above any machine, and low enough that no sum over processes overflows.
pub(crate) const MAX_HELD_BYTES: u64 = 1 << 48;

/// Larger than any device: a size above it is noise where no capacity is known.
pub(crate) const ABSURD_BYTES: u64 = 100 << 30;

/// Effects that are collected before the listener must take them: closing a mesh
/// with a million buffers would otherwise tell of each on every device at once.
const MAX_EFFECTS: usize = 1 << 18;

/// What one event may touch.
pub(crate) struct Scope<'a> {
    pub(crate) index: u32,
    pub(crate) process: &'a mut Process,
    pub(crate) devices: &'a mut [Device],
    pub(crate) anomalies: &'a mut Anomalies,
    pub(crate) limits: &'a Limits,
    pub(crate) time: u64,
    pub(crate) effects: Option<&'a mut Vec<Effect>>,
    /// Effects that found no room.
    pub(crate) untold: &'a mut u64,
}

impl Scope<'_> {
    /// Applies an event that is not about old senders, definitions or marks.
    pub(crate) fn apply(&mut self, what: &What) -> Outcome {
        match *what {
            What::BufferAllocated { .. } => self.allocate_buffer(what),
            What::BufferFreed { buffer, .. } => self.free_buffer(buffer),
            What::BuffersReleased { mesh, class } => self.release_buffers(mesh, class),
            What::CbAllocated { .. } => self.allocate_cb(what),
            What::CbFreed { mesh, program, cb } => self.free_cb(mesh, program, cb),
            What::KernelLoaded { .. } => self.load_kernel(what),
            What::KernelUnloaded {
                mesh,
                program,
                kernel,
            } => self.unload_kernel(mesh, program, kernel),
            What::ProgramCreated { .. }
            | What::ProgramFinalized { .. }
            | What::CommandsCached { .. }
            | What::BinarySent { .. }
            | What::BinaryStatusChanged { .. }
            | What::ProgramDestroyed { .. }
            | What::Dispatched { .. } => self.run_program(what),
            What::TraceBegan { .. }
            | What::TraceEnded { .. }
            | What::TraceReplayed { .. }
            | What::TraceReleased { .. } => self.trace(what),
            What::RingOpened { .. }
            | What::RingReserved { .. }
            | What::RingAllocated { .. }
            | What::RingFreed { .. }
            | What::RingFilled { .. }
            | What::PrefetchOpened { .. }
            | What::Prefetched { .. }
            | What::PrefetchReset { .. }
            | What::JitDiskLookup { .. } => self.use_cache(what),
            What::DeviceOpened { .. }
            | What::DeviceClosed { .. }
            | What::MeshOpened { .. }
            | What::MeshClosed { .. }
            | What::CapacityReported { .. }
            | What::StatisticsReported { .. }
            | What::AllocationFailed { .. }
            | What::Clashed { .. } => self.change_devices(what),
            What::EventsLost { count } => {
                let lost = &mut self.process.facts.lost_events;
                *lost = lost.saturating_add(count);
                self.happened(what);
                Ok(())
            }
            What::EventsElided { count } => {
                let elided = &mut self.process.facts.elided_events;
                *elided = elided.saturating_add(count);
                self.happened(what);
                Ok(())
            }
            What::Forked { first_buffer } => {
                self.process.first_own_buffer = first_buffer.0;
                Ok(())
            }
            What::Marked { .. } => {
                self.happened(what);
                Ok(())
            }
            What::StackNoted { buffer, stack, .. } => {
                self.note_stack(buffer, stack);
                self.happened(what);
                Ok(())
            }
            What::LegacyAllocated { .. }
            | What::LegacyFreed { .. }
            | What::LegacyCbAllocated { .. }
            | What::LegacyCbFreed { .. }
            | What::LegacyKernelLoaded { .. }
            | What::LegacyKernelUnloaded { .. } => Err(Anomaly::Malformed),
        }
    }

    /// Counts a contradiction that was resolved.
    fn note(&mut self, anomaly: Anomaly, what: &What) {
        self.process.facts.anomalies.count(anomaly);
        self.anomalies.count(anomaly);
        self.effect(
            None,
            Change::Contradicted {
                anomaly,
                what: *what,
            },
        );
    }

    /// Tells whoever listens of an event that changes no bytes.
    fn happened(&mut self, what: &What) {
        self.effect(None, Change::Happened(*what));
    }

    fn effect(&mut self, device: Option<u32>, change: Change) {
        if let Some(effects) = self.effects.as_deref_mut() {
            if effects.len() >= MAX_EFFECTS {
                *self.untold += 1;
                return;
            }
            effects.push(Effect {
                time: self.time,
                process: self.index,
                device,
                change,
            });
        }
    }

    /// The slot of a defined mesh.
    fn mesh_slot(&self, id: MeshId) -> Result<u32, Anomaly> {
        self.process
            .mesh_ids
            .get(&id.0)
            .copied()
            .ok_or(Anomaly::Undefined)
    }

    fn mesh(&self, slot: u32) -> &Mesh {
        &self.process.facts.meshes[slot as usize]
    }

    fn mesh_mut(&mut self, slot: u32) -> &mut Mesh {
        &mut self.process.facts.meshes[slot as usize]
    }

    /// The devices of a defined mesh, as the process counts them.
    fn members(&self, id: MeshId) -> Result<Arc<[u32]>, Anomaly> {
        let slot = self.mesh_slot(id)?;
        Ok(Arc::clone(&self.mesh(slot).devices))
    }

    /// The device behind a device slot of the process, as the ledger counts them.
    fn device_index(&self, slot: u32) -> u32 {
        self.process.facts.devices[slot as usize].device
    }
}
