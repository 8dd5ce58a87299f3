//! What was live when a gauge was highest.
//!
//! Nothing is copied when a peak is reached. What was live then is what lives
//! now and was placed by then, and what was freed since: the account keeps freed
//! entries for as long as they were live at a peak. The same holds for the peak
//! of a device that other processes share, of which each notes how far its own
//! events had come.

use crate::account::{AccountFacts, AccountRows};
use crate::buffers::BufferRow;
use crate::freed::{Freed, FreedStorage};
use crate::pages::PagesView;
use crate::program::{Cb, Kernel, Program, ProgramOnDevice};
use crate::totals::GaugeKind;
use ttmem_event::{ProgramId, TextId};

/// What lives is freed by no event that will ever be.
const LIVE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// That of the process on the device.
    OfProcess,
    /// That of the device over all processes, by how many it had so far.
    OfDevice(u64),
}

/// Something that was live at a peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeakEntry {
    Buffer(BufferRow),
    Cb(FreedStorage<Cb>),
    Kernel(FreedStorage<Kernel>),
}

impl PeakEntry {
    /// The bytes it took on the device.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Buffer(row) => row.charged_bytes(),
            Self::Cb(storage) => storage.entry.total_bytes(),
            Self::Kernel(storage) => storage.entry.total_bytes,
        }
    }
}

/// What was live on a device of a process at a peak of one gauge, in no order.
pub fn at<'a>(
    facts: &'a AccountFacts,
    rows: &'a AccountRows,
    slot: u32,
    gauge: GaugeKind,
    moment: Moment,
) -> Box<dyn Iterator<Item = PeakEntry> + 'a> {
    let Some(held) = facts.devices.get(slot as usize) else {
        return Box::new(std::iter::empty());
    };
    let peak = match moment {
        Moment::OfProcess => held.totals.gauge(gauge).peak_order(),
        Moment::OfDevice(number) => {
            let noted = held.moments[gauge.index()];
            // Without an event since then, everything is as it was.
            if noted.peak_number == number {
                noted.order
            } else {
                u64::MAX
            }
        }
    };
    match gauge {
        GaugeKind::Class(class) => {
            let here = move |row: &BufferRow| {
                let mesh = facts.meshes.get(row.mesh as usize);
                row.class == class && mesh.is_some_and(|mesh| mesh.devices.contains(&slot))
            };
            let live = rows.buffers.iter().map(|(_slot, row)| row);
            let live = live.filter(move |row| row.order <= peak && here(row));
            let freed = live_at(&rows.freed_buffers, peak, |row| row.order);
            let freed = freed.filter(move |row| here(row));
            Box::new(live.chain(freed).map(|row| PeakEntry::Buffer(*row)))
        }
        GaugeKind::Cb => {
            let live = parts(rows, slot).flat_map(move |(program, name, on)| {
                on.cbs()
                    .iter()
                    .map(move |cb| named(slot, program, name, *cb))
            });
            let legacy = rows.legacy_cbs.iter();
            let legacy = legacy.filter(move |(_slot, row)| row.device == slot);
            let legacy =
                legacy.map(move |(_slot, row)| named(slot, ProgramId(0), TextId::NONE, row.cb));
            let live = live.chain(legacy).filter(move |cb| cb.entry.order <= peak);
            let freed = live_at(&rows.freed_cbs, peak, |cb| cb.entry.order);
            let freed = freed.filter(move |cb| cb.device == slot).copied();
            Box::new(live.chain(freed).map(PeakEntry::Cb))
        }
        GaugeKind::Kernel => {
            let live = parts(rows, slot).flat_map(move |(program, name, on)| {
                let kernels = on.kernels().iter();
                kernels.map(move |kernel| named(slot, program, name, *kernel))
            });
            let live = live.filter(move |kernel| kernel.entry.order <= peak);
            let freed = live_at(&rows.freed_kernels, peak, |kernel| kernel.entry.order);
            let freed = freed.filter(move |kernel| kernel.device == slot).copied();
            Box::new(live.chain(freed).map(PeakEntry::Kernel))
        }
    }
}

/// What was live at the peaks of a process's devices over all processes.
///
/// `numbers` has how many peaks each device had so far, by the process's slots.
pub fn at_all_devices(
    facts: &AccountFacts,
    rows: &AccountRows,
    numbers: &[[u64; GaugeKind::COUNT]],
    mut give: impl FnMut(u32, GaugeKind, PeakEntry),
) {
    let devices = facts.devices.iter().zip(numbers);
    // The last event before each peak; 0 where there was none.
    let peaks: Vec<[u64; GaugeKind::COUNT]> = devices
        .map(|(held, numbers)| {
            std::array::from_fn(|gauge| match numbers[gauge] {
                0 => 0,
                number if held.moments[gauge].peak_number == number => held.moments[gauge].order,
                _no_event_since => u64::MAX,
            })
        })
        .collect();
    let mut buffer = |row: &BufferRow, freed: u64| {
        let gauge = GaugeKind::Class(row.class);
        let mesh = facts.meshes.get(row.mesh as usize);
        for slot in mesh.iter().flat_map(|mesh| mesh.devices.iter()) {
            let peak = peaks[*slot as usize][gauge.index()];
            if row.order <= peak && (freed == LIVE || peak < freed) {
                give(*slot, gauge, PeakEntry::Buffer(*row));
            }
        }
    };
    for (_slot, row) in rows.buffers.iter() {
        buffer(row, LIVE);
    }
    for (_slot, freed) in rows.freed_buffers.iter() {
        buffer(&freed.entry, freed.freed);
    }
    let live_at = |slot: u32, gauge: GaugeKind, placed: u64, freed: u64| {
        let peak = peaks
            .get(slot as usize)
            .map_or(0, |peaks| peaks[gauge.index()]);
        placed <= peak && (freed == LIVE || peak < freed)
    };
    // By what there is and not by device: a process may have many of both.
    let mut cb = |cb: FreedStorage<Cb>, freed: u64| {
        if live_at(cb.device, GaugeKind::Cb, cb.entry.order, freed) {
            give(cb.device, GaugeKind::Cb, PeakEntry::Cb(cb));
        }
    };
    for (_slot, row) in rows.legacy_cbs.iter() {
        cb(named(row.device, ProgramId(0), TextId::NONE, row.cb), LIVE);
    }
    for (_slot, freed) in rows.freed_cbs.iter() {
        cb(freed.entry, freed.freed);
    }
    for (program, on) in all_parts(rows) {
        for each in on.cbs() {
            cb(named(on.device, program.id, program.name, *each), LIVE);
        }
    }
    let mut kernel = |kernel: FreedStorage<Kernel>, freed: u64| {
        if live_at(kernel.device, GaugeKind::Kernel, kernel.entry.order, freed) {
            give(kernel.device, GaugeKind::Kernel, PeakEntry::Kernel(kernel));
        }
    };
    for (_slot, freed) in rows.freed_kernels.iter() {
        kernel(freed.entry, freed.freed);
    }
    for (program, on) in all_parts(rows) {
        for each in on.kernels() {
            kernel(named(on.device, program.id, program.name, *each), LIVE);
        }
    }
}

/// Every part of every program.
fn all_parts(rows: &AccountRows) -> impl Iterator<Item = (&Program, &ProgramOnDevice)> {
    let programs = rows.programs.iter();
    programs.flat_map(|(_slot, program)| program.on.iter().map(move |on| (program, on)))
}

/// Freed entries that were live after the event `peak`.
fn live_at<T>(
    freed: &PagesView<Freed<T>>,
    peak: u64,
    placed: impl Fn(&T) -> u64,
) -> impl Iterator<Item = &T> {
    let rows = freed.iter().map(|(_slot, freed)| freed);
    let live = rows.filter(move |row| row.freed > peak && placed(&row.entry) <= peak);
    live.map(|row| &row.entry)
}

/// The parts of programs on a device.
fn parts(
    rows: &AccountRows,
    slot: u32,
) -> impl Iterator<Item = (ProgramId, TextId, &ProgramOnDevice)> {
    rows.programs.iter().filter_map(move |(_slot, program)| {
        let on = program.on_device(slot)?;
        Some((program.id, program.name, on))
    })
}

fn named<T>(device: u32, program: ProgramId, name: TextId, entry: T) -> FreedStorage<T> {
    FreedStorage {
        device,
        program,
        name,
        entry,
    }
}
