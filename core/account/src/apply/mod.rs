//! Applying one event to an account.
//!
//! An [`Apply`] is one event at work: the account, who follows it, the limits.
//! Each submodule handles one family of events. `Err` means that the event was
//! refused and changed nothing; contradictions that could be settled are noted
//! and the event goes on.

mod buffers;
mod caches;
mod define;
mod devices;
mod entries;
mod legacy;
mod programs;
mod traces;

pub(crate) use entries::MAX_PER_PROGRAM;

use crate::account::Account;
use crate::anomaly::Anomaly;
use crate::device::HeldDevice;
use crate::limits::Limits;
use crate::mark::{Mark, MarkOwner};
use crate::mesh::Mesh;
use crate::observer::{Holding, Observer};
use crate::peak_composition::PeakEntry;
use crate::totals::{GaugeKind, PeakSet};
use crate::untracked::Untracked;
use std::sync::Arc;
use ttmem_event::{EventKind, MeshId, TextId};

pub(crate) type Outcome = Result<(), Anomaly>;

/// One event, or definition, at work.
pub(crate) struct Apply<'a, O> {
    pub(crate) account: &'a mut Account,
    pub(crate) observer: &'a mut O,
    pub(crate) limits: &'a Limits,
    pub(crate) time: u64,
}

impl<O: Observer> Apply<'_, O> {
    pub(crate) fn event(&mut self, kind: &EventKind) -> Outcome {
        if !self.account.may_send(kind) {
            return Err(Anomaly::Malformed);
        }
        match *kind {
            EventKind::BufferAllocated { .. } => self.allocate_buffer(kind),
            EventKind::BufferFreed { buffer, .. } => self.free_buffer(buffer),
            EventKind::BuffersReleased { mesh, class } => self.release_buffers(mesh, class),
            EventKind::CbAllocated { .. } => self.allocate_cb(kind),
            EventKind::CbFreed { mesh, program, cb } => self.free_cb(mesh, program, cb),
            EventKind::KernelLoaded { .. } => self.load_kernel(kind),
            EventKind::KernelUnloaded {
                mesh,
                program,
                kernel,
            } => self.unload_kernel(mesh, program, kernel),
            EventKind::ProgramCreated { .. }
            | EventKind::ProgramFinalized { .. }
            | EventKind::CommandsCached { .. }
            | EventKind::BinarySent { .. }
            | EventKind::BinaryStatusChanged { .. }
            | EventKind::ProgramDestroyed { .. }
            | EventKind::Dispatched { .. } => self.run_program(kind),
            EventKind::TraceBegan { .. }
            | EventKind::TraceEnded { .. }
            | EventKind::TraceReplayed { .. }
            | EventKind::TraceReleased { .. } => self.trace(kind),
            EventKind::ConfigRingOpened { .. }
            | EventKind::ConfigRingReserved { .. }
            | EventKind::ConfigRingAllocated { .. }
            | EventKind::ConfigRingFreed { .. }
            | EventKind::ConfigRingFilled { .. }
            | EventKind::PrefetchOpened { .. }
            | EventKind::Prefetched { .. }
            | EventKind::PrefetchReset { .. }
            | EventKind::JitDiskLookup { .. } => self.use_cache(kind),
            EventKind::DeviceOpened { .. }
            | EventKind::DeviceClosed { .. }
            | EventKind::MeshOpened { .. }
            | EventKind::MeshClosed { .. }
            | EventKind::CapacityReported { .. }
            | EventKind::StatisticsReported { .. }
            | EventKind::AllocationFailed { .. }
            | EventKind::Clashed { .. } => self.change_devices(kind),
            EventKind::EventsLost { count } => {
                let lost = &mut self.account.facts.lost_events;
                *lost = lost.saturating_add(count);
                self.happened(kind)
            }
            EventKind::EventsElided { count } => {
                let elided = &mut self.account.facts.elided_events;
                *elided = elided.saturating_add(count);
                self.happened(kind)
            }
            EventKind::Forked { first_buffer } => {
                self.account.first_own_buffer = first_buffer.0;
                Ok(())
            }
            EventKind::Marked { name, number } => {
                self.mark(name, number);
                self.happened(kind)
            }
            EventKind::StackNoted { buffer, stack, .. } => {
                self.note_stack(buffer, stack);
                self.happened(kind)
            }
            EventKind::NotTracked { what, why } => {
                self.account.facts.note_untracked(Untracked { what, why });
                self.happened(kind)
            }
            EventKind::LegacyAllocated { .. }
            | EventKind::LegacyFreed { .. }
            | EventKind::LegacyCbAllocated { .. }
            | EventKind::LegacyCbFreed { .. }
            | EventKind::LegacyKernelLoaded { .. }
            | EventKind::LegacyKernelUnloaded { .. } => self.apply_legacy(kind),
        }
    }

    /// Counts a contradiction that was settled.
    fn note(&mut self, anomaly: Anomaly, kind: &EventKind) {
        self.account.facts.anomalies.count(anomaly);
        self.observer.contradicted(anomaly, kind, self.time);
    }

    /// Passes on an event that changes no bytes, once all of it is done.
    fn happened(&mut self, kind: &EventKind) -> Outcome {
        if self.account.unfinished {
            return Ok(());
        }
        self.observer.happened(kind, self.time);
        Ok(())
    }

    fn mark(&mut self, name: TextId, number: u64) {
        let time = self.time;
        let facts = &mut self.account.facts;
        self.account.work += facts.devices.len() as u64;
        let devices = facts.devices.iter_mut();
        let ended: Vec<PeakSet> = devices.map(|held| held.totals.mark(time)).collect();
        Arc::make_mut(&mut facts.marks).push(
            MarkOwner::default(),
            Mark { time, name, number },
            ended,
        );
    }

    fn mesh_slot(&self, id: MeshId) -> Result<u32, Anomaly> {
        let slot = self.account.mesh_ids.get(&id.0);
        slot.copied().ok_or(Anomaly::Undefined)
    }

    fn mesh(&self, slot: u32) -> &Mesh {
        &self.account.facts.meshes[slot as usize]
    }

    /// The devices of a defined mesh, as the process counts them.
    fn members(&self, id: MeshId) -> Result<Arc<[u32]>, Anomaly> {
        let slot = self.mesh_slot(id)?;
        Ok(Arc::clone(&self.mesh(slot).devices))
    }

    /// Books storage or a kernel on one device.
    #[inline(always)]
    pub(crate) fn book_holding(&mut self, slot: u32, holding: &Holding<'_>) {
        if let Holding::Kernel(_program, kernel) = holding {
            self.change_unique(slot, kernel, true);
        }
        let account = &mut *self.account;
        account.placed += 1;
        account.work += 1;
        let held = &mut account.facts.devices[slot as usize];
        let device_peaks = self.observer.booked(slot, holding, self.time);
        note_device_peak(held, device_peaks, account.order, holding.gauge());
        held.totals.book(holding, self.time, account.order);
    }

    /// Gives back storage or a kernel on one device; `name` is that of its program.
    #[inline(always)]
    fn release_holding(&mut self, slot: u32, name: TextId, holding: &Holding<'_>) {
        if let Holding::Kernel(_program, kernel) = holding {
            self.change_unique(slot, kernel, false);
        }
        let account = &mut *self.account;
        account.placed -= 1;
        account.work += 1;
        let held = &mut account.facts.devices[slot as usize];
        let gauge = holding.gauge();
        let device_peaks = self.observer.released(slot, holding, self.time);
        note_device_peak(held, device_peaks, account.order, gauge);
        held.totals.release(holding);
        let peaks = at_peaks(held, gauge);
        let on_device = &mut account.on_device[slot as usize];
        let list = match holding {
            Holding::Cb(..) => &mut on_device.freed_cbs,
            Holding::Kernel(..) => &mut on_device.freed_kernels,
        };
        account.freed.trim(list, peaks.first);
        if let Some(placed) = peaks.first_since(holding.order()) {
            let freed = PeakEntry {
                placed,
                freed: account.order,
                ..PeakEntry::of_holding(slot, name, holding)
            };
            account.freed.push(list, freed, peaks.last);
        }
    }

    /// The mesh has something that ends when it or one of its devices closes.
    pub(crate) fn use_mesh(&mut self, slot: u32) {
        let mesh = &mut self.account.facts.meshes[slot as usize];
        if !mesh.in_use {
            mesh.in_use = true;
            self.account.work += mesh.devices.len() as u64;
            for device in mesh.devices.iter() {
                self.account.on_device[*device as usize].meshes.insert(slot);
            }
        }
    }
}

/// When a process and its device had their present peaks of one gauge.
#[inline(always)]
fn at_peaks(held: &HeldDevice, gauge: GaugeKind) -> AtPeaks {
    let own = held.totals.gauge(gauge).peak_order();
    let moment = held.moments[gauge.index()];
    let of_device = if moment.peak_number > 0 {
        moment.order
    } else {
        own
    };
    AtPeaks {
        first: own.min(of_device),
        last: own.max(of_device),
    }
}

/// The events at which a process and its device had their peaks of one gauge.
#[derive(Clone, Copy)]
struct AtPeaks {
    first: u64,
    last: u64,
}

impl AtPeaks {
    /// The first at which something was live that the event `order` placed.
    fn first_since(self, order: u64) -> Option<u64> {
        let peaks = [self.first, self.last];
        peaks.into_iter().find(|peak| order <= *peak)
    }
}

/// Other processes may have raised the peak of the device since this one's last event.
#[inline(always)]
fn note_device_peak(held: &mut HeldDevice, peak_number: u64, order: u64, gauge: GaugeKind) {
    let moment = &mut held.moments[gauge.index()];
    if moment.peak_number != peak_number {
        moment.peak_number = peak_number;
        // A loaded state may have rows of order 0: nothing came before them.
        moment.order = order.saturating_sub(1);
    }
}
