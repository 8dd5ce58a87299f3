//! Pages of live programs.

use super::rows::{self, PageRequest};
use super::vocabulary;
use std::collections::HashMap;
use ttmem_event::CoreType;
use ttmem_ledger::program::{Program, ProgramOnDevice};
use ttmem_ledger::{Owner, ProcessView, View, last_replays};
use ttmem_report::{HexId, KernelKind, Page, ProgramDevice, ProgramRow, Timestamp};

/// Compute cores by device and by the program that ran last on them.
type ResidentCores = HashMap<(u32, Owner), u32>;

pub(super) fn programs(view: &View, request: PageRequest) -> Page<ProgramRow> {
    let resident = resident_cores(view);
    rows::page(view, request, |process, first_slot, give| {
        let replays = last_replays(&process.account, &process.rows);
        for (slot, program) in process.rows.programs.iter_from(first_slot) {
            give(slot, 0, &mut || {
                let owner = Owner {
                    process: process.index,
                    program: slot,
                };
                let ran = replays.get(&slot).copied();
                program_row(view, process, (program, ran), owner, &resident)
            })?;
        }
        Ok(())
    })
}

fn resident_cores(view: &View) -> ResidentCores {
    let mut resident = ResidentCores::new();
    for (index, on_device) in (0..).zip(view.residents()) {
        for (owner, cores) in &on_device[CoreType::Tensix as usize] {
            resident.insert((index, *owner), cores.len());
        }
    }
    resident
}

/// The most that a program has on any of its devices.
fn most(program: &Program, figure: impl Fn(&ProgramOnDevice) -> u64) -> u64 {
    program.on.iter().map(figure).max().unwrap_or(0)
}

fn program_row(
    view: &View,
    process: &ProcessView,
    (program, replayed): (&Program, Option<u64>),
    owner: Owner,
    resident: &ResidentCores,
) -> ProgramRow {
    let time = |nanos: u64| Timestamp::from_unix_nanos(nanos);
    let tracked = rows::is_tracked(process);
    let cores = most(program, |on| {
        let definitions = &process.account.definitions;
        let types = CoreType::ALL.into_iter();
        let cores = types.map(|each| on.cores(definitions, each).len());
        cores.map(u64::from).sum()
    });
    let first_run = program.on.iter().filter_map(|on| on.first_dispatch).min();
    let last_run = program.on.iter().filter_map(|on| on.last_dispatch).max();
    // A program of a trace runs whenever the trace does.
    let last_run = last_run.max(replayed);
    let devices = program.on.iter().filter_map(|on| {
        let number = *process.devices.get(on.device as usize)?;
        let device = view.devices.get(number as usize)?;
        Some(ProgramDevice {
            id: device.facts.logical_id,
            unique_id: device.facts.unique_id.map(HexId),
            binary: vocabulary::binary_state(on.binary_status),
            sent_bytes: on.sent_bytes,
            command_bytes: on.command_bytes,
            dispatches: on.dispatches,
            program_cache_hits: on.program_cache_hits,
            program_cache_misses: on.program_cache_misses,
            binary_reuses: on.binary_reuses,
            last_run: on.last_dispatch.map(time),
            resident_cores: resident.get(&(number, owner)).copied().unwrap_or(0),
        })
    });
    ProgramRow {
        pid: process.facts.identity.pid,
        instance: rows::instance(process),
        program: tracked.then_some(program.id.0),
        name: rows::defined_text(process, program.name),
        python: rows::python(process, program.name),
        runtime_id: (program.runtime_id != 0).then_some(program.runtime_id),
        kind: kind(program),
        created: time(program.created),
        cores: tracked.then(|| u32::try_from(cores).unwrap_or(u32::MAX)),
        config_bytes: program.finalized.map(|finalized| finalized.config_bytes),
        text_bytes: program.finalized.map(|finalized| finalized.text_bytes),
        binary_bytes: program.finalized.map(|finalized| finalized.binary_bytes),
        cb_bytes: most(program, |on| {
            on.cbs().iter().map(|cb| cb.total_bytes()).sum()
        }),
        kernel_bytes: most(program, |on| {
            on.kernels().iter().map(|kernel| kernel.total_bytes).sum()
        }),
        kernels: most(program, |on| on.kernels().len() as u64),
        jit_disk_hits: program.jit_disk_hits,
        dispatches: most(program, |on| on.dispatches),
        first_run: first_run.map(time),
        last_run: last_run.map(time),
        devices: devices.collect(),
    }
}

/// What a program is for: what its kernels are for, the runtime's own purposes first.
fn kind(program: &Program) -> Option<KernelKind> {
    let kernels = program.on.iter().flat_map(|on| on.kernels());
    let kinds: Vec<KernelKind> = kernels
        .map(|kernel| vocabulary::kernel_kind(kernel.kind))
        .collect();
    let order = [
        KernelKind::Fabric,
        KernelKind::Dispatch,
        KernelKind::Application,
        KernelKind::Unknown,
    ];
    order.into_iter().find(|kind| kinds.contains(kind))
}
