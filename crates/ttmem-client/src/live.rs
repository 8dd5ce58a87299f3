//! The process's own live set: what it would have to say to be understood anew.
//!
//! The pump keeps, beside the events that the server has not acknowledged, the
//! state as of the oldest of them. After a reconnect it sends [`Snapshot`] and
//! then those events; the server's view is then what it would have been had it
//! heard everything. Only the pump's thread touches this: no clock, no I/O.
//!
//! A snapshot is a selection of the events that were applied, in their order
//! and with their times. Whatever of it is replayed, no total is ever above what
//! it was then, so nothing that the ledger accepted once is refused the second
//! time. What the ledger refuses is refused here by the same rules, for a
//! refused event can push out something live. Its limits on how much one
//! process may have are the server's and are not repeated here.
//!
//! What neither an event nor a frame of the protocol carries is lost on a server
//! that never heard of this process: marks and the peaks since them, peaks of
//! per-core storage and kernels, counts of what rings and prefetcher caches
//! did, of lookups on disk and of trace replays, device-wide dispatch counts,
//! program cache misses beyond the first of a program on a mesh, frees of a
//! parent's buffers, leak candidates, anomalies, and of old senders their peaks
//! and all but four dispatches of a kernel. Counts of a program that ran on
//! meshes which overlap each other are exact as far as some mesh tells the
//! devices apart.

mod buffers;
mod caches;
mod covers;
mod hash;
mod legacy;
mod meshes;
mod programs;
mod replay;
mod selection;
#[cfg(test)]
mod tests;

use buffers::Buffers;
use caches::Caches;
use legacy::Legacy;
use meshes::Meshes;
use programs::Programs;
use ttmem_event::wire::{PeakRecord, ProgramCounters};
use ttmem_event::{Definition, Event, What};

/// The most that one process may hold of one figure on one device, as in the ledger.
const MAX_HELD_BYTES: u64 = 1 << 48;

/// Larger than any device, as in the ledger: refused where no capacity is known.
const ABSURD_BYTES: u64 = 100 << 30;

/// An event that left something behind, with its place among all events.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Counts from 1.
    sequence: u64,
    event: Event,
}

/// All that a server must hear to know a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Events that lead to the live set, in order.
    pub(crate) events: Vec<Event>,
    /// The highest charged bytes of each device and class.
    pub(crate) peaks: Vec<PeakRecord>,
    /// What the live programs did, to be restored in this order.
    pub(crate) counters: Vec<ProgramCounters>,
}

/// What a process holds, kept event by event.
///
/// A process speaks either the old senders' vocabulary or the new one; whoever
/// feeds this drops what the server would refuse as the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveSet {
    sequence: u64,
    meshes: Meshes,
    buffers: Buffers,
    caches: Caches,
    programs: Programs,
    legacy: Legacy,
    forked: Option<Told>,
}

impl LiveSet {
    /// Takes over what later events refer to.
    pub(crate) fn define(&mut self, definition: &Definition) {
        self.meshes.define(definition);
    }

    /// Takes over what an event leaves behind.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.sequence += 1;
        let told = Told {
            sequence: self.sequence,
            event: *event,
        };
        match event.what {
            What::BufferAllocated { .. } => self.buffers.allocate(&self.meshes, told),
            What::BufferFreed { buffer, .. } => self.buffers.free(&self.meshes, buffer),
            What::BuffersReleased { mesh, class } => {
                self.buffers.release(&self.meshes, mesh.0, class);
            }
            What::CapacityReported { .. } => self.buffers.report_capacity(&self.meshes, told),
            What::StatisticsReported { .. } => {
                self.buffers.compare_statistics(&self.meshes, told);
            }
            What::RingOpened { .. }
            | What::RingAllocated { .. }
            | What::RingFreed { .. }
            | What::RingFilled { .. }
            | What::PrefetchOpened { .. }
            | What::Prefetched { .. }
            | What::PrefetchReset { .. } => self.caches.apply(&self.meshes, told),
            What::CbAllocated { .. }
            | What::CbFreed { .. }
            | What::ProgramCreated { .. }
            | What::ProgramFinalized { .. }
            | What::CommandsCached { .. }
            | What::BinarySent { .. }
            | What::ProgramDestroyed { .. }
            | What::KernelLoaded { .. }
            | What::KernelUnloaded { .. }
            | What::BinaryStatusChanged { .. }
            | What::Dispatched { .. }
            | What::TraceBegan { .. }
            | What::TraceEnded { .. }
            | What::TraceReplayed { .. }
            | What::TraceReleased { .. } => self.programs.apply(&self.meshes, told),
            What::MeshClosed { mesh } => {
                if self.meshes.is_mesh(mesh.0) {
                    self.close_mesh(mesh.0);
                    self.programs.apply(&self.meshes, told);
                }
            }
            What::DeviceClosed { device } => {
                if let Some(chip) = self.meshes.chip(device.0) {
                    for mesh in self.meshes.meshes_with(chip) {
                        self.close_mesh(mesh);
                    }
                    self.programs.apply(&self.meshes, told);
                }
            }
            What::StackNoted { buffer, .. } => self.buffers.note_stack(buffer, told),
            What::Forked { .. } => self.forked = Some(told),
            What::LegacyAllocated { .. }
            | What::LegacyFreed { .. }
            | What::LegacyCbAllocated { .. }
            | What::LegacyCbFreed { .. }
            | What::LegacyKernelLoaded { .. }
            | What::LegacyKernelUnloaded { .. } => self.legacy.apply(told),
            // Counted elsewhere, or without a trace in the live set.
            What::RingReserved { .. }
            | What::JitDiskLookup { .. }
            | What::DeviceOpened { .. }
            | What::MeshOpened { .. }
            | What::AllocationFailed { .. }
            | What::Clashed { .. }
            | What::Marked { .. }
            | What::EventsLost { .. }
            | What::EventsElided { .. } => {}
        }
    }

    fn close_mesh(&mut self, mesh: u32) {
        self.buffers.release(&self.meshes, mesh, None);
        self.caches.close(mesh);
        self.programs.close_mesh(mesh);
    }

    /// All that a server must hear to know the process as of the last event.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut told = Vec::new();
        told.extend(self.forked);
        self.buffers.tell(&mut told);
        self.caches.tell(&mut told);
        self.programs.tell(&self.meshes, &mut told);
        self.legacy.tell(&mut told);
        // Stable: an old sender's device may be told by two events in one place.
        told.sort_by_key(|each| each.sequence);
        let mut events: Vec<Event> = told.iter().map(|each| each.event).collect();
        self.buffers.tell_verdicts(&mut events);
        self.legacy.tell_aliases(&mut events);
        Snapshot {
            events,
            peaks: self.buffers.peaks(&self.meshes),
            counters: self.programs.counters(&self.meshes),
        }
    }

    /// About how many events a snapshot has.
    pub(crate) fn len(&self) -> usize {
        self.buffers.len() + self.programs.len() + self.legacy.len()
    }

    /// The highest buffer id that was ever allocated.
    pub(crate) fn highest_buffer(&self) -> u64 {
        self.buffers.highest()
    }
}
