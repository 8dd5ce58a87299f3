//! A view as sorted lines of text, to compare two ledgers.
//!
//! [`live_set`] leaves out what the order of different processes may change:
//! peaks, times, residents, slots, and which anomalies another's grid causes.
//! [`everything`] leaves out nothing.

use crate::world::name_of;
use std::fmt::Debug;
use ttmem_ledger::program::Program;
use ttmem_ledger::{Anomaly, BufferRow, GaugeKind, ProcessView, Totals, View};

/// What is held by whom, and every total of it.
pub(crate) fn live_set(view: &View) -> Vec<String> {
    let mut lines = Vec::new();
    for device in &view.devices {
        let who = format!("device {:?}", device.key);
        lines.push(format!("{who} {}", totals(&device.totals)));
        lines.push(format!("{who} {:?}", device.caches));
    }
    for process in &view.processes {
        describe_process(view, process, &mut lines);
    }
    for anomaly in Anomaly::ALL {
        if *anomaly != Anomaly::OutsideGrid {
            lines.push(format!("{anomaly}: {}", view.anomalies.of(*anomaly)));
        }
    }
    lines.sort();
    lines
}

/// The live set and all that is kept besides.
pub(crate) fn everything(view: &View) -> Vec<String> {
    let mut lines = live_set(view);
    let residents = view.residents();
    let mut add = |name: &str, value: &dyn Debug| lines.push(format!("{name} {value:?}"));
    for (index, device) in view.devices.iter().enumerate() {
        add("key", &device.key);
        add("facts", &device.facts);
        add("source", &device.source);
        add("totals", &device.totals);
        add("resident", &residents[index]);
        let running = device.totals.since_mark();
        let since: Vec<_> = view.marks.peaks_since(index, running).collect();
        add("since", &since);
    }
    for process in &view.processes {
        add("identity", &process.facts.identity);
        add("devices", &process.account.devices);
        for (slot, row) in process.rows.buffers.iter() {
            add("row", &(slot, row));
        }
        for (slot, program) in process.rows.programs.iter() {
            add("program", &(slot, program));
        }
    }
    let geometry = view.geometry();
    add("geometry", &geometry.devices);
    for allocator in &geometry.allocators {
        add("largest", &allocator.largest_free_bytes);
    }
    add("departed", &view.departed);
    add("anomalies", &view.anomalies);
    add("events", &view.events);
    lines
}

fn totals(totals: &Totals) -> String {
    let classes: Vec<_> = totals
        .classes
        .iter()
        .map(|class| {
            let charged = class.charged.bytes();
            (
                charged,
                class.requested_bytes,
                class.buffers,
                class.unplaced,
            )
        })
        .collect();
    let (cb, kernel) = (totals.cb, totals.kernel);
    let cb = (cb.registered.bytes(), cb.by_kind, cb.count, cb.unplaced);
    let kernel = (
        (kernel.registered.bytes(), kernel.unique_bytes),
        (kernel.by_kind, kernel.by_core_type),
        (kernel.count, kernel.unplaced),
    );
    format!("holds {classes:?} {cb:?} {kernel:?}")
}

fn describe_process(view: &View, process: &ProcessView, lines: &mut Vec<String>) {
    let name = name_of(process);
    let facts = &process.account;
    let key = |slot: u32| &view.devices[process.devices[slot as usize] as usize].key;
    for (slot, held) in (0..).zip(&facts.devices) {
        lines.push(format!("{name} {:?} {}", key(slot), totals(&held.totals)));
    }
    for mesh in &facts.meshes {
        let devices: Vec<_> = mesh.devices.iter().map(|slot| key(*slot)).collect();
        lines.push(format!("{name} mesh {:?} {devices:?}", mesh.id));
        for allocator in &mesh.allocators {
            let held = (allocator.charged_bytes, allocator.per_bank_bytes);
            let known = (allocator.capacity, allocator.verified);
            let buffers = allocator.buffers;
            lines.push(format!(
                "{name} mesh {:?} {held:?} {known:?} {buffers}",
                mesh.id
            ));
        }
    }
    for (_slot, row) in process.rows.buffers.iter() {
        lines.push(format!("{name} {}", describe_row(row)));
    }
    for (_slot, program) in process.rows.programs.iter() {
        lines.push(format!("{name} {}", describe_program(program, &key)));
    }
    for (_slot, row) in process.rows.legacy_cbs.iter() {
        let cb = (row.cb.address, row.cb.size_bytes);
        lines.push(format!("{name} {:?} {cb:?}", key(row.device)));
    }
    for (key, ring) in &facts.config_rings {
        // Not by its `Debug`: how it numbers its entries is its own affair.
        let place = (ring.base, ring.size_bytes, ring.used_bytes);
        let state = (ring.last_address, ring.filled, ring.filled_until);
        let counts = (ring.wraps, ring.evictions, ring.stalls, ring.reserves);
        let entries: Vec<_> = ring.entries().collect();
        lines.push(format!(
            "{name} {key:?} {place:?} {state:?} {counts:?} {entries:?}"
        ));
    }
    lines.push(format!("{name} {:?}", facts.prefetchers));
    let lost = (
        facts.lost_events,
        facts.elided_events,
        facts.inherited_frees,
    );
    lines.push(format!("{name} {lost:?} {:?}", facts.leak_candidates));
    lines.push(format!("{name} {:?}", facts.not_tracked()));
    for (anomaly, count) in facts.anomalies.iter() {
        if anomaly != Anomaly::OutsideGrid {
            lines.push(format!("{name} {anomaly}: {count}"));
        }
    }
}

fn describe_row(row: &BufferRow) -> String {
    let place = (row.mesh, row.class, row.id, row.address, row.cores_id);
    let size = (row.requested_bytes, row.per_bank_bytes, row.banks);
    let rest = (row.references, row.page_bytes, row.layout, row.direction);
    format!("buffer {place:?} {size:?} {rest:?} {:?}", row.stack)
}

fn describe_program<K: Debug>(program: &Program, key: &impl Fn(u32) -> K) -> String {
    let on: Vec<String> = program
        .on
        .iter()
        .map(|on| {
            let cbs: Vec<_> = on
                .cbs()
                .iter()
                .map(|cb| (cb.number, cb.kind, cb.address, cb.size_bytes, cb.cores_id))
                .collect();
            let kernels: Vec<_> = on
                .kernels()
                .iter()
                .map(|kernel| (kernel.id, kernel.kind, kernel.core_type, kernel.total_bytes))
                .collect();
            let sent = (on.binary_status, on.command_bytes, on.sent_bytes);
            let runs = (on.dispatches, on.program_cache_hits, on.binary_reuses);
            format!("{:?} {cbs:?} {kernels:?} {sent:?} {runs:?}", key(on.device))
        })
        .collect();
    let facts = (
        program.id,
        program.name,
        program.runtime_id,
        program.pointer,
    );
    format!("program {facts:?} {} {on:?}", program.jit_disk_hits)
}

/// Every peak with its time and what was live then, in an order that does not depend on slots.
pub(crate) fn peaks_of(view: &View) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, device) in view.devices.iter().enumerate() {
        for gauge in GaugeKind::all() {
            let who = format!("peak of {:?} {gauge:?}", device.key);
            lines.push(format!("{who} {:?}", view.device_peak(index, gauge)));
            for process in &view.processes {
                if let Some(peak) = view.process_peak(process.index, index, gauge) {
                    lines.push(format!("{} {who} {peak:?}", name_of(process)));
                }
            }
        }
        let running = device.totals.since_mark();
        let since: Vec<_> = view.marks.peaks_since(index, running).collect();
        lines.push(format!("{:?} since marks {since:?}", device.key));
    }
    lines
}
