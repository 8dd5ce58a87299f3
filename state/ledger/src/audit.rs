//! Comparing every kept total with a count of the live set.
//!
//! The totals of a ledger are kept event by event; this works them out a second
//! time from the rows alone. Tests and the server's summary use it.

use crate::peak_composition::PeakComposition;
use crate::view::{ProcessView, View};
use ttmem_account::{Charge, GaugeKind, Holding, Totals};
use ttmem_event::{Class, CoresId, ProgramId};

/// A kept total that differs from the live set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is kept as {kept} but the live set has {counted}")]
pub struct AuditError {
    /// Which total, of which device or process.
    pub what: String,
    pub kept: u64,
    pub counted: u64,
}

impl View {
    /// Compares every total with the live set, and every peak with what was live then.
    pub fn audit(&self) -> Result<(), AuditError> {
        let mut by_device = vec![Totals::default(); self.devices.len()];
        for process in &self.processes {
            let counted = count_process(process);
            let held = process.account.devices.iter().zip(&process.devices);
            for ((held, device), mut counted) in held.zip(counted) {
                let who = format!("process {} on device {device}", process.index);
                compare(held.totals, counted, &who)?;
                let sums = by_device[*device as usize].figures();
                for ((.., sum), (.., counted)) in sums.zip(counted.figures()) {
                    *sum += *counted;
                }
                for gauge in GaugeKind::all() {
                    let peak = self.process_peak(process.index, *device as usize, gauge);
                    audit_peak(&who, gauge, peak)?;
                }
            }
            self.audit_allocators(process)?;
        }
        for (index, (device, counted)) in self.devices.iter().zip(&by_device).enumerate() {
            let who = format!("device {index}");
            compare(device.totals, *counted, &who)?;
            for gauge in GaugeKind::all() {
                audit_peak(&who, gauge, self.device_peak(index, gauge))?;
            }
        }
        for departed in self.departed.iter() {
            for (index, device) in self.devices.iter().enumerate() {
                let who = format!("departed process on {:?}", device.key);
                for gauge in GaugeKind::all() {
                    if let Some(peak) = self.departed_peak(departed, index, gauge) {
                        audit_peak(&who, gauge, Some(peak))?;
                    }
                }
            }
        }
        self.audit_bounds()
    }

    fn audit_allocators(&self, process: &ProcessView) -> Result<(), AuditError> {
        let meshes = &process.account.meshes;
        let mut counted = vec![[(0_u64, 0_u64, 0_u64); Class::COUNT]; meshes.len()];
        for (_slot, row) in process.rows.buffers.iter() {
            let (charged, per_bank, buffers) = &mut counted[row.mesh as usize][row.class.index()];
            *charged += row.charged_bytes();
            *per_bank += if row.cores_id == CoresId::NONE {
                row.per_bank_bytes
            } else {
                0
            };
            *buffers += 1;
        }
        for (slot, (mesh, counted)) in meshes.iter().zip(&counted).enumerate() {
            for class in Class::ALL {
                let allocator = &mesh.allocators[class.index()];
                let (charged, per_bank, buffers) = counted[class.index()];
                let who = format!("process {} mesh {slot} {}", process.index, class.name());
                expect(&who, "charged", allocator.charged_bytes, charged)?;
                expect(&who, "charged per bank", allocator.per_bank_bytes, per_bank)?;
                expect(&who, "buffers", allocator.buffers, buffers)?;
                if let Some(capacity) = allocator.capacity {
                    let most = capacity.total_bytes();
                    expect_at_most(&who, "charged", allocator.charged_bytes, most)?;
                }
            }
        }
        Ok(())
    }

    /// Nothing is above what there is, and rings hold what their entries hold.
    fn audit_bounds(&self) -> Result<(), AuditError> {
        let geometry = self.geometry();
        for (index, (device, geometry)) in self.devices.iter().zip(&geometry.devices).enumerate() {
            let who = format!("device {index}");
            if let (Some(occupied), Some(compute)) = (geometry.occupied_bytes, device.facts.compute)
            {
                expect_at_most(&who, "occupied", occupied, compute.physical_bytes())?;
            }
            let resident = geometry.cb_resident_bytes.unwrap_or(0);
            let registered = device.totals.cb.registered.bytes();
            expect_at_most(&who, "resident CB bytes", resident, registered)?;
            let resident = geometry.kernel_resident_bytes.unwrap_or(0);
            let registered = device.totals.kernel.registered.bytes();
            expect_at_most(&who, "resident kernel bytes", resident, registered)?;
            for (class, geometry) in Class::ALL.iter().zip(&geometry.classes) {
                let charged = device.totals.class(*class).charged.bytes();
                let sum = geometry.union_bytes + geometry.overlap_bytes;
                expect(&who, "union + overlap", sum, charged)?;
                if let Some(capacity) = geometry.capacity {
                    let most = capacity.total_bytes();
                    expect_at_most(&who, "union", geometry.union_bytes, most)?;
                    let largest = geometry.largest_free_bytes.unwrap_or(0);
                    expect_at_most(&who, "largest free", largest, capacity.per_bank_bytes)?;
                }
            }
        }
        for process in &self.processes {
            for (key, config_ring) in &process.account.config_rings {
                let who = format!("process {} ring {key:?}", process.index);
                let used = config_ring.entries().map(|entry| entry.size_bytes).sum();
                expect(&who, "used", config_ring.used_bytes, used)?;
                expect_at_most(&who, "used", used, config_ring.size_bytes)?;
            }
            for (mesh, cache) in &process.account.prefetchers {
                let who = format!("process {} prefetcher of mesh {mesh}", process.index);
                let used = cache.entries.values().map(|entry| entry.size_bytes).sum();
                expect(&who, "used", cache.used_bytes, used)?;
                expect_at_most(&who, "used", used, cache.size_bytes)?;
            }
        }
        Ok(())
    }
}

/// What a process holds, counted from its rows, by its device slots.
fn count_process(process: &ProcessView) -> Vec<Totals> {
    let account = &process.account;
    let mut totals = vec![Totals::default(); account.devices.len()];
    for (_slot, row) in process.rows.buffers.iter() {
        let mesh = &account.meshes[row.mesh as usize];
        let charge = Charge::of(row, mesh.id.is_some());
        for slot in mesh.devices.iter() {
            totals[*slot as usize].book_buffer(charge, 0, 0);
        }
    }
    for (_slot, row) in process.rows.legacy_cbs.iter() {
        let holding = Holding::Cb(ProgramId(0), &row.cb);
        totals[row.device as usize].book(&holding, 0, 0);
    }
    let mut unique = vec![std::collections::BTreeMap::new(); account.devices.len()];
    for (_slot, program) in process.rows.programs.iter() {
        for on in &program.on {
            let totals = &mut totals[on.device as usize];
            for cb in on.cbs() {
                totals.book(&Holding::Cb(program.id, cb), 0, 0);
            }
            for kernel in on.kernels() {
                totals.book(&Holding::Kernel(program.id, kernel), 0, 0);
                let largest = unique[on.device as usize].entry(kernel.id).or_insert(0);
                *largest = kernel.total_bytes.max(*largest);
            }
        }
    }
    for (totals, unique) in totals.iter_mut().zip(unique) {
        totals.kernel.unique_bytes = unique.values().sum();
    }
    totals
}

fn audit_peak(
    who: &str,
    gauge: GaugeKind,
    composition: Option<PeakComposition>,
) -> Result<(), AuditError> {
    let Some(composition) = composition else {
        return Ok(());
    };
    let figure = format!("the peak of {gauge:?}");
    expect(who, &figure, composition.peak.bytes, composition.bytes())
}

fn compare(mut kept: Totals, mut counted: Totals, who: &str) -> Result<(), AuditError> {
    let mut pairs = kept.figures().zip(counted.figures());
    pairs.try_for_each(|((group, figure, kept), (.., counted))| {
        expect(who, &format!("{group} {figure}"), *kept, *counted)
    })
}

fn expect(who: &str, figure: &str, kept: u64, counted: u64) -> Result<(), AuditError> {
    if kept == counted {
        return Ok(());
    }
    Err(AuditError {
        what: format!("{figure} of {who}"),
        kept,
        counted,
    })
}

fn expect_at_most(who: &str, figure: &str, value: u64, most: u64) -> Result<(), AuditError> {
    if value <= most {
        return Ok(());
    }
    let what = format!("{figure} of {who} (the most there can be is the second figure)");
    Err(AuditError {
        what,
        kept: value,
        counted: most,
    })
}
