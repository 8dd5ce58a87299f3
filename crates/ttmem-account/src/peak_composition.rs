//! What was live when a gauge was highest.
//!
//! Nothing is copied when a peak is reached. What was live then is what lives
//! now and was placed by then, and what was freed since: the account keeps freed
//! entries for as long as they were live at a peak. The same holds for the peak
//! of a device that processes share: each records the order of its own events at
//! that peak.

use crate::account::{AccountFacts, AccountRows};
use crate::buffers::BufferRow;
use crate::observer::Holding;
use crate::program::{Program, ProgramOnDevice};
use crate::totals::GaugeKind;
use std::slice;
use ttmem_event::{ProgramId, TextId};

/// Sentinel for `freed`: still live.
const LIVE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    OfProcess,
    /// The device-wide peak with this number.
    OfDevice(u64),
}

/// Something of one name that was live at a peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakEntry {
    /// The event from which on it was live, in the order of the process's events.
    ///
    /// Of what is freed, the first event after that which reached a peak.
    pub(crate) placed: u64,
    /// The event that released it.
    pub(crate) freed: u64,
    /// The bytes it took on a device.
    pub bytes: u64,
    /// How many buffers, storage entries or kernels it stands for.
    pub count: u32,
    /// The operation that asked for it, or the program.
    pub name: TextId,
    /// The mesh of a buffer, the device of anything else, as the process counts them.
    pub(crate) place: u32,
    pub(crate) gauge: GaugeKind,
}

impl PeakEntry {
    pub(crate) fn of_buffer(row: &BufferRow) -> Self {
        Self {
            placed: row.order,
            freed: LIVE,
            bytes: row.charged_bytes(),
            count: 1,
            name: row.operation,
            place: row.mesh,
            gauge: GaugeKind::Class(row.class),
        }
    }

    pub(crate) fn of_holding(device: u32, name: TextId, holding: &Holding<'_>) -> Self {
        Self {
            placed: holding.order(),
            freed: LIVE,
            bytes: holding.bytes(),
            count: 1,
            name,
            place: device,
            gauge: holding.gauge(),
        }
    }

    fn devices<'a>(&'a self, facts: &'a AccountFacts) -> &'a [u32] {
        match self.gauge {
            GaugeKind::Class(_class) => {
                let mesh = facts.meshes.get(self.place as usize);
                mesh.map_or(&[], |mesh| &mesh.devices)
            }
            GaugeKind::Cb | GaugeKind::Kernel => slice::from_ref(&self.place),
        }
    }

    /// Whether it was live after the event `peak`.
    fn was_live_at(&self, peak: u64) -> bool {
        self.placed <= peak && (self.freed == LIVE || peak < self.freed)
    }
}

/// What was live on a device of a process at a peak of one gauge, in no order.
pub fn at<'a>(
    facts: &'a AccountFacts,
    rows: &'a AccountRows,
    slot: u32,
    gauge: GaugeKind,
    moment: Moment,
) -> impl Iterator<Item = PeakEntry> + 'a {
    let held = facts.devices.get(slot as usize);
    let peak = held.map_or(0, |held| match moment {
        Moment::OfProcess => held.totals.gauge(gauge).peak_order(),
        Moment::OfDevice(number) => held.moments[gauge.index()].order_of(number),
    });
    let live: Box<dyn Iterator<Item = PeakEntry> + 'a> = match gauge {
        GaugeKind::Class(_class) => Box::new(live_buffers(rows)),
        GaugeKind::Cb => Box::new(live_cbs(rows, Some(slot))),
        GaugeKind::Kernel => Box::new(live_kernels(rows, Some(slot))),
    };
    live.chain(freed(rows)).filter(move |entry| {
        entry.gauge == gauge && entry.was_live_at(peak) && entry.devices(facts).contains(&slot)
    })
}

/// What was live at the peaks of a process's devices over all processes.
///
/// `numbers` has how many peaks each device had so far, by the process's slots.
pub fn at_all_devices(
    facts: &AccountFacts,
    rows: &AccountRows,
    numbers: &[[u64; GaugeKind::COUNT]],
    mut visit: impl FnMut(u32, GaugeKind, PeakEntry),
) {
    // The last event before each peak; 0 where there was none.
    let devices = facts.devices.iter().zip(numbers);
    let peaks: Vec<[u64; GaugeKind::COUNT]> = devices
        .map(|(held, numbers)| {
            std::array::from_fn(|gauge| match numbers[gauge] {
                0 => 0,
                number => held.moments[gauge].order_of(number),
            })
        })
        .collect();
    // By what there is and not by device: a process may have many of both.
    let live = live_buffers(rows);
    let live = live
        .chain(live_cbs(rows, None))
        .chain(live_kernels(rows, None));
    for entry in live.chain(freed(rows)) {
        for slot in entry.devices(facts) {
            let peaks = peaks.get(*slot as usize);
            if peaks.is_some_and(|peaks| entry.was_live_at(peaks[entry.gauge.index()])) {
                visit(*slot, entry.gauge, entry);
            }
        }
    }
}

fn freed(rows: &AccountRows) -> impl Iterator<Item = PeakEntry> {
    rows.freed.iter().map(|(_slot, freed)| freed.entry)
}

fn live_buffers(rows: &AccountRows) -> impl Iterator<Item = PeakEntry> {
    let rows = rows.buffers.iter();
    rows.map(|(_slot, row)| PeakEntry::of_buffer(row))
}

fn live_cbs(rows: &AccountRows, slot: Option<u32>) -> impl Iterator<Item = PeakEntry> {
    let of_programs = parts(rows, slot).flat_map(|(program, on)| {
        let cbs = on.cbs().iter().map(|cb| Holding::Cb(program.id, cb));
        cbs.map(|cb| PeakEntry::of_holding(on.device, program.name, &cb))
    });
    let legacy = rows.legacy_cbs.iter();
    of_programs.chain(legacy.map(|(_slot, row)| {
        let cb = Holding::Cb(ProgramId(0), &row.cb);
        PeakEntry::of_holding(row.device, TextId::NONE, &cb)
    }))
}

fn live_kernels(rows: &AccountRows, slot: Option<u32>) -> impl Iterator<Item = PeakEntry> {
    parts(rows, slot).flat_map(|(program, on)| {
        let kernels = on.kernels().iter();
        let kernels = kernels.map(|kernel| Holding::Kernel(program.id, kernel));
        kernels.map(|kernel| PeakEntry::of_holding(on.device, program.name, &kernel))
    })
}

/// The parts of programs on a device, or on any.
fn parts(
    rows: &AccountRows,
    slot: Option<u32>,
) -> impl Iterator<Item = (&Program, &ProgramOnDevice)> {
    rows.programs.iter().flat_map(move |(_slot, program)| {
        let on = match slot {
            Some(slot) => program.on_device(slot).map_or(&[][..], slice::from_ref),
            None => &program.on,
        };
        on.iter().map(move |on| (program, on))
    })
}
