//! What two ledgers must agree on, in an order that does not depend on their slots.

use std::collections::{BTreeMap, BTreeSet};
use ttmem_event::{Class, CoreType, Source};
use ttmem_ledger::program::{Program, ProgramOnDevice};
use ttmem_ledger::{ProcessView, View};

/// Every figure that a reconnect must not change, by name.
pub(super) type Figures = BTreeMap<String, String>;

pub(super) fn figures(view: &View) -> Figures {
    let mut figures = Figures::new();
    let process = &view.processes[0];
    let old = process.facts.identity.source == Source::Legacy;
    buffers(process, &mut figures);
    devices(view, process, &mut figures);
    for (slot, program) in process.programs.iter() {
        // An old sender's programs have no ids of their own.
        let entries = program.on.iter().flat_map(|on| &on.placement.cbs);
        let address = entries.map(|cb| cb.address).next().filter(|_address| old);
        let name = format!("program {} {address:?}", program.id.0);
        assert!(!figures.contains_key(&name), "{name} twice, at {slot}");
        if !old {
            figures.insert(name.clone(), attributes(program));
        }
        for on in &program.on {
            if let Some(part) = part(on, old) {
                figures.insert(format!("{name} on {}", on.device), part);
            }
        }
    }
    for (key, ring) in &process.facts.rings {
        let size = (ring.base, ring.size_bytes, ring.used_bytes);
        let until = ring.filled.then_some(ring.filled_until);
        let state = (until, ring.last_address);
        figures.insert(
            format!("ring {key:?}"),
            format!("{size:?} {state:?} {:?}", ring.entries),
        );
    }
    for (mesh, cache) in &process.facts.prefetchers {
        let state = (cache.size_bytes, cache.used_bytes);
        figures.insert(
            format!("prefetcher {mesh}"),
            format!("{state:?} {:?}", cache.entries),
        );
    }
    figures
}

/// The figures of which two ledgers tell differently.
pub(super) fn differences(one: &Figures, other: &Figures) -> Vec<String> {
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differ = names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name));
    let tell = |name: &String| format!("{name}: {:?} but {:?}", one.get(name), other.get(name));
    differ.map(tell).collect()
}

fn buffers(process: &ProcessView, figures: &mut Figures) {
    for (_slot, row) in process.buffers.iter() {
        let place = (
            row.mesh,
            row.address,
            row.cores_id,
            row.banks,
            row.layout,
            row.direction,
        );
        let size = (row.requested_bytes, row.per_bank_bytes, row.page_bytes);
        let told = (row.time, row.operation, row.stack, row.references);
        let name = format!("buffer {} {:?} {}", row.id, row.class, row.mesh);
        figures.insert(name, format!("{place:?} {size:?} {told:?}"));
    }
    for (slot, mesh) in process.facts.meshes.iter().enumerate() {
        for (class, allocator) in Class::ALL.iter().zip(&mesh.allocators) {
            let held = (
                allocator.charged_bytes,
                allocator.per_bank_bytes,
                allocator.buffers,
            );
            let told = (allocator.capacity, allocator.verified);
            let name = format!("allocator {:?} {slot} {class:?}", mesh.id);
            if allocator.capacity.is_some() || allocator.verified.is_some() || held.2 > 0 {
                figures.insert(name, format!("{held:?} {told:?}"));
            }
        }
    }
}

fn devices(view: &View, process: &ProcessView, figures: &mut Figures) {
    let geometry = view.geometry();
    for held in &process.facts.devices {
        let device = &view.devices[held.device as usize];
        let name = format!("device {:?}", device.key);
        let geometry = &geometry.devices[held.device as usize];
        let totals = &held.totals;
        for class in Class::ALL {
            let total = totals.class(*class);
            let now = (
                total.charged.bytes(),
                total.requested_bytes,
                total.buffers,
                total.unplaced,
            );
            // An old sender's devices have no id to carry a peak under.
            let tracked = process.facts.identity.source != Source::Legacy;
            let peak = tracked.then(|| total.charged.peak());
            figures.insert(format!("{name} {class:?}"), format!("{now:?} {peak:?}"));
        }
        let cb = (
            totals.cb.registered.bytes(),
            totals.cb.by_kind,
            totals.cb.count,
        );
        let kernel = &totals.kernel;
        let kernel = (
            (kernel.registered.bytes(), kernel.unique_bytes, kernel.count),
            (kernel.by_kind, kernel.by_core_type),
        );
        let known = (geometry, device.facts.capacities);
        figures.insert(name.clone(), format!("{cb:?} {kernel:?} {known:?}"));
        for core_type in CoreType::ALL {
            let mut cores: Vec<(u64, Vec<usize>)> = Vec::new();
            for (owner, places) in device.residency.by_owner(core_type) {
                let program = process.programs.get(owner.program);
                cores.push((program.map_or(u64::MAX, |program| program.id.0), places));
            }
            cores.sort();
            figures.insert(format!("{name} {core_type:?}"), format!("{cores:?}"));
        }
    }
}

fn attributes(program: &Program) -> String {
    let told = (
        program.name,
        program.runtime_id,
        program.pointer,
        program.created,
    );
    format!("{told:?} {:?}", program.finalized)
}

/// A program on a device; `None` where nothing of it is there.
fn part(on: &ProgramOnDevice, old: bool) -> Option<String> {
    let state = (on.binary_status, on.command_bytes, on.sent_bytes);
    let mut counts = (on.dispatches, on.program_cache_hits, on.binary_reuses);
    // Of an old sender's kernel a few runs are carried.
    if old {
        counts.0 = counts.0.min(1);
    }
    let times = (on.first_dispatch, on.last_dispatch);
    let (cbs, kernels) = (&on.placement.cbs, &on.placement.kernels);
    Some(format!(
        "{state:?} {counts:?} {times:?} {cbs:?} {kernels:?}"
    ))
}
