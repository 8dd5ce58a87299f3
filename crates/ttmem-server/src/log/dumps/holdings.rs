//! The rows of one device, collected from all processes.

use std::cmp::Reverse;

use ttmem_event::{Class, ProgramId, TextId};
use ttmem_ledger::program::{Cb, Kernel, Program};
use ttmem_ledger::{BufferRow, ProcessView, View};

/// A buffer and its process.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldBuffer<'v> {
    pub(super) pid: Option<u32>,
    pub(super) row: &'v BufferRow,
}

/// A circular buffer, its program and its process.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldCb<'v> {
    pub(super) pid: Option<u32>,
    pub(super) program: ProgramId,
    pub(super) cb: &'v Cb,
}

/// A kernel, its program and its process.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldKernel<'v> {
    pub(super) process: &'v ProcessView,
    pub(super) program: &'v Program,
    pub(super) kernel: &'v Kernel,
}

impl<'v> HeldKernel<'v> {
    /// The pid of its process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.facts.identity.pid
    }

    /// A text that its process defined.
    pub(super) fn text(&self, id: TextId) -> Option<&'v str> {
        let text: &str = self.process.account.definitions.text(id)?;
        (!text.is_empty()).then_some(text)
    }
}

/// The buffers of a device, by class.
pub(super) fn buffers(view: &View, device: u32) -> [Vec<HeldBuffer<'_>>; Class::COUNT] {
    let mut held: [Vec<HeldBuffer<'_>>; Class::COUNT] = Default::default();
    for (process, slot) in processes_on(view, device) {
        let meshes = &process.account.meshes;
        let on_device: Vec<bool> = meshes
            .iter()
            .map(|mesh| mesh.devices.contains(&slot))
            .collect();
        let pid = process.facts.identity.pid;
        for (_, row) in process.rows.buffers.iter() {
            let mesh = usize::try_from(row.mesh).ok();
            if mesh.and_then(|mesh| on_device.get(mesh)) == Some(&true) {
                held[row.class.index()].push(HeldBuffer { pid, row });
            }
        }
    }
    held
}

/// The circular buffers and other per-core storage of a device.
pub(super) fn cbs(view: &View, device: u32) -> Vec<HeldCb<'_>> {
    let mut held = Vec::new();
    for (process, slot) in processes_on(view, device) {
        let pid = process.facts.identity.pid;
        for (_, program) in process.rows.programs.iter() {
            let on = program.on_device(slot);
            let cbs = on.map_or(&[][..], |on| on.cbs());
            held.extend(cbs.iter().map(|cb| HeldCb {
                pid,
                program: program.id,
                cb,
            }));
        }
        let legacy = process.rows.legacy_cbs.iter();
        let legacy = legacy.filter(|(_, row)| row.device == slot);
        held.extend(legacy.map(|(_, row)| HeldCb {
            pid,
            program: ProgramId(0),
            cb: &row.cb,
        }));
    }
    held
}

/// The kernels of a device.
pub(super) fn kernels(view: &View, device: u32) -> Vec<HeldKernel<'_>> {
    let mut held = Vec::new();
    for (process, slot) in processes_on(view, device) {
        for (_, program) in process.rows.programs.iter() {
            let on = program.on_device(slot);
            let kernels = on.map_or(&[][..], |on| on.kernels());
            held.extend(kernels.iter().map(|kernel| HeldKernel {
                process,
                program,
                kernel,
            }));
        }
    }
    held
}

/// The processes that speak of a device, each with its own number for it.
fn processes_on(view: &View, device: u32) -> impl Iterator<Item = (&ProcessView, u32)> {
    view.processes
        .iter()
        .filter_map(move |process| Some((process, process.device_slot(device)?)))
}

/// Keeps the `shown` largest rows, largest first; equal ones by id.
///
/// Only those are sorted: of a million rows a dump shows a thousand.
pub(super) fn keep_largest<T>(
    rows: &mut Vec<T>,
    shown: usize,
    size_and_id: impl Fn(&T) -> (u64, u64),
) {
    let order = |row: &T| {
        let (size, id) = size_and_id(row);
        (Reverse(size), id)
    };
    if shown < rows.len() {
        rows.select_nth_unstable_by_key(shown, order);
        rows.truncate(shown);
    }
    rows.sort_by_key(order);
}
