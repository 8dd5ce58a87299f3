//! What was live when a gauge was highest.
//!
//! Nothing is copied when a peak is reached. What was live then is what lives
//! now and was placed by then, and what was freed since: the account keeps freed
//! entries for as long as they were live at a peak. The same holds for the peak
//! of a device that processes share: each records the order of its own events at
//! that peak.

use crate::account::{Account, AccountFacts, AccountRows};
use crate::buffers::BufferRow;
use crate::observer::Holding;
use crate::pages::PagesView;
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
    pub place: u32,
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

    pub(crate) fn devices<'a>(&'a self, facts: &'a AccountFacts) -> &'a [u32] {
        match self.gauge {
            GaugeKind::Class(_class) => {
                let mesh = facts.meshes.get(self.place as usize);
                mesh.map_or(&[], |mesh| &mesh.devices)
            }
            GaugeKind::Cb | GaugeKind::Kernel => slice::from_ref(&self.place),
        }
    }

    #[must_use]
    pub fn gauge(&self) -> GaugeKind {
        self.gauge
    }

    /// Whether it may have been placed after the event `order`; of what lives, whether it was.
    ///
    /// What is freed is known to the next peak after it was placed.
    #[must_use]
    pub fn is_placed_after(&self, order: u64) -> bool {
        self.placed > order
    }

    #[must_use]
    pub fn is_live(&self) -> bool {
        self.freed == LIVE
    }

    /// Whether it was live after the event `peak`.
    #[must_use]
    pub fn was_live_at(&self, peak: u64) -> bool {
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
        GaugeKind::Cb => Box::new(live_cbs(rows, slot)),
        GaugeKind::Kernel => Box::new(live_kernels(rows, slot)),
    };
    live.chain(freed(rows)).filter(move |entry| {
        entry.gauge == gauge && entry.was_live_at(peak) && entry.devices(facts).contains(&slot)
    })
}

/// The buffers that live, and those that are freed and were live at a peak, in no order.
pub fn buffers(rows: &AccountRows) -> impl Iterator<Item = PeakEntry> {
    let freed = freed(rows).filter(|entry| matches!(entry.gauge, GaugeKind::Class(_class)));
    live_buffers(rows).chain(freed)
}

/// What visiting an entry costs in work units, and as much again on each of its devices: its name is
/// looked up there.
const VISIT_WORK: u64 = 2;

/// A walk over all that was live at some peak of a process, a part at a time.
///
/// The account must not change until it is done.
#[derive(Debug, Default)]
pub struct Walk {
    table: usize,
    /// The slot to go on at.
    next: u32,
}

impl Walk {
    /// Visits entries and the devices of each, and live buffers with the number of their devices, for
    /// about so many work units. What that cost; and whether it is done.
    pub fn go_on(
        &mut self,
        account: &Account,
        work: u64,
        mut visit: impl FnMut(u32, &PeakEntry),
        mut visit_buffer: impl FnMut(&BufferRow, u64),
    ) -> (u64, bool) {
        let mut units = 0;
        let mut entry = |entry: PeakEntry| {
            let devices = entry.devices(&account.facts);
            for slot in devices {
                visit(*slot, &entry);
            }
            VISIT_WORK * (1 + devices.len() as u64)
        };
        loop {
            let from = self.next;
            let paused = match self.table {
                0 => visit_some(&account.buffers.rows, from, work, &mut units, |row| {
                    let units = entry(PeakEntry::of_buffer(row));
                    visit_buffer(row, units / VISIT_WORK - 1);
                    units
                }),
                1 => visit_some(&account.programs, from, work, &mut units, |program| {
                    let holdings = program.on.iter().flat_map(|on| {
                        let cbs = on.cbs().iter().map(|cb| Holding::Cb(program.id, cb));
                        let kernels = on.kernels().iter();
                        let kernels = kernels.map(|kernel| Holding::Kernel(program.id, kernel));
                        let of_part = cbs.chain(kernels);
                        of_part.map(|each| PeakEntry::of_holding(on.device, program.name, &each))
                    });
                    1 + holdings.map(&mut entry).sum::<u64>()
                }),
                2 => visit_some(&account.legacy_cbs.rows, from, work, &mut units, |row| {
                    let cb = Holding::Cb(ProgramId(0), &row.cb);
                    entry(PeakEntry::of_holding(row.device, TextId::NONE, &cb))
                }),
                3 => visit_some(account.freed.rows(), from, work, &mut units, |freed| {
                    entry(freed.entry)
                }),
                _behind => return (units, true),
            };
            if let Some(slot) = paused {
                self.next = slot;
                return (units, false);
            }
            (self.table, self.next) = (self.table + 1, 0);
        }
    }
}

/// Visits rows from a slot on; the slot to go on at when the work is done before they are.
fn visit_some<T>(
    rows: &PagesView<T>,
    from: u32,
    work: u64,
    units: &mut u64,
    mut visit: impl FnMut(&T) -> u64,
) -> Option<u32> {
    for (slot, row) in rows.iter_from(from) {
        if *units >= work {
            return Some(slot);
        }
        *units += visit(row);
    }
    None
}

fn freed(rows: &AccountRows) -> impl Iterator<Item = PeakEntry> {
    rows.freed.iter().map(|(_slot, freed)| freed.entry)
}

fn live_buffers(rows: &AccountRows) -> impl Iterator<Item = PeakEntry> {
    let rows = rows.buffers.iter();
    rows.map(|(_slot, row)| PeakEntry::of_buffer(row))
}

fn live_cbs(rows: &AccountRows, slot: u32) -> impl Iterator<Item = PeakEntry> {
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

fn live_kernels(rows: &AccountRows, slot: u32) -> impl Iterator<Item = PeakEntry> {
    parts(rows, slot).flat_map(|(program, on)| {
        let kernels = on.kernels().iter();
        let kernels = kernels.map(|kernel| Holding::Kernel(program.id, kernel));
        kernels.map(|kernel| PeakEntry::of_holding(on.device, program.name, &kernel))
    })
}

/// The parts of programs on a device.
fn parts(rows: &AccountRows, slot: u32) -> impl Iterator<Item = (&Program, &ProgramOnDevice)> {
    let programs = rows.programs.iter();
    programs.filter_map(move |(_slot, program)| Some((program, program.on_device(slot)?)))
}
