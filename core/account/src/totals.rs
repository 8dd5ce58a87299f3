//! What is held on one device: by everybody, or by one process.
//!
//! The same figures are kept twice, per device and per process on it, and every
//! booking goes to both; a process that leaves takes exactly its part away.

use crate::gauge::{Gauge, Peak};
use crate::observer::{Charge, Holding};
use ttmem_event::{CbKind, Class, CoreType, CoresId, KernelKind};

#[derive(Clone, Copy, Debug, Default)]
pub struct ClassTotals {
    pub charged: Gauge,
    pub requested_bytes: u64,
    pub buffers: u64,
    /// Live buffers whose place in a bank is not known: those of old senders.
    pub unplaced: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct CbTotals {
    /// Storage of every live program.
    pub registered: Gauge,
    pub by_kind: [u64; CbKind::ALL.len()],
    pub count: u64,
    /// Entries whose cores are not known: what is resident cannot be known then.
    pub unplaced: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct KernelTotals {
    /// Kernels of every live program.
    pub registered: Gauge,
    pub by_kind: [u64; KernelKind::ALL.len()],
    /// The same by core type, where it is known.
    pub by_core_type: [u64; CoreType::ALL.len()],
    /// Each kernel once, however many programs of a process hold it.
    pub unique_bytes: u64,
    pub count: u64,
    /// Entries whose cores are not known: what is resident cannot be known then.
    pub unplaced: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub classes: [ClassTotals; Class::COUNT],
    pub cb: CbTotals,
    pub kernel: KernelTotals,
}

/// The peaks of a stretch between two marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakSet {
    /// Charged bytes, by class.
    pub classes: [Peak; Class::COUNT],
    pub cb: Peak,
    pub kernel: Peak,
}

impl PeakSet {
    #[must_use]
    pub fn peak(&self, kind: GaugeKind) -> Peak {
        match kind {
            GaugeKind::Class(class) => self.classes[class.index()],
            GaugeKind::Cb => self.cb,
            GaugeKind::Kernel => self.kernel,
        }
    }

    pub(crate) fn peak_mut(&mut self, kind: GaugeKind) -> &mut Peak {
        match kind {
            GaugeKind::Class(class) => &mut self.classes[class.index()],
            GaugeKind::Cb => &mut self.cb,
            GaugeKind::Kernel => &mut self.kernel,
        }
    }

    #[must_use]
    pub fn max(mut self, other: &Self) -> Self {
        for kind in GaugeKind::all() {
            let peak = self.peak_mut(kind);
            *peak = peak.max(other.peak(kind));
        }
        self
    }
}

/// A total that has a peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GaugeKind {
    /// Charged bytes of a class.
    Class(Class),
    Cb,
    Kernel,
}

impl GaugeKind {
    pub const COUNT: usize = Class::COUNT + 2;

    /// Every one, in the order of [`GaugeKind::index`].
    pub fn all() -> impl Iterator<Item = Self> {
        let classes = Class::ALL.iter().map(|class| Self::Class(*class));
        classes.chain([Self::Cb, Self::Kernel])
    }

    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Class(class) => class.index(),
            Self::Cb => Class::COUNT,
            Self::Kernel => Class::COUNT + 1,
        }
    }
}

impl Totals {
    #[must_use]
    pub fn class(&self, class: Class) -> &ClassTotals {
        &self.classes[class.index()]
    }

    /// Live buffers of all classes.
    #[must_use]
    pub fn buffers(&self) -> u64 {
        self.classes.iter().map(|class| class.buffers).sum()
    }

    #[must_use]
    #[inline]
    pub fn gauge(&self, kind: GaugeKind) -> &Gauge {
        match kind {
            GaugeKind::Class(class) => &self.classes[class.index()].charged,
            GaugeKind::Cb => &self.cb.registered,
            GaugeKind::Kernel => &self.kernel.registered,
        }
    }

    pub fn gauge_mut(&mut self, kind: GaugeKind) -> &mut Gauge {
        match kind {
            GaugeKind::Class(class) => &mut self.classes[class.index()].charged,
            GaugeKind::Cb => &mut self.cb.registered,
            GaugeKind::Kernel => &mut self.kernel.registered,
        }
    }

    /// Books a buffer; true if its class holds more than ever.
    #[inline(always)]
    pub fn book_buffer(&mut self, charge: Charge, time: u64, order: u64) -> bool {
        let class = &mut self.classes[charge.class.index()];
        // Checked to be far below what overflows, over all processes.
        class.requested_bytes += charge.requested_bytes;
        class.buffers += 1;
        class.unplaced += u64::from(!charge.placed);
        class.charged.add(charge.bytes, time, order)
    }

    /// Gives back a buffer that was booked.
    #[inline(always)]
    pub fn release_buffer(&mut self, charge: Charge) {
        let class = &mut self.classes[charge.class.index()];
        class.charged.sub(charge.bytes);
        class.requested_bytes -= charge.requested_bytes;
        class.buffers -= 1;
        class.unplaced -= u64::from(!charge.placed);
    }

    /// Books storage or a kernel; true if its gauge is higher than ever.
    #[inline(always)]
    pub fn book(&mut self, holding: &Holding<'_>, time: u64, order: u64) -> bool {
        self.change(holding, |figure, by| *figure += by);
        let gauge = self.gauge_mut(holding.gauge());
        gauge.add(holding.bytes(), time, order)
    }

    /// Gives back storage or a kernel that was booked.
    #[inline(always)]
    pub fn release(&mut self, holding: &Holding<'_>) {
        self.change(holding, |figure, by| *figure -= by);
        self.gauge_mut(holding.gauge()).sub(holding.bytes());
    }

    #[inline(always)]
    fn change(&mut self, holding: &Holding<'_>, change: impl Fn(&mut u64, u64)) {
        match *holding {
            Holding::Cb(_program, cb) => {
                change(&mut self.cb.by_kind[cb.kind as usize], cb.total_bytes());
                change(&mut self.cb.count, 1);
                let unplaced = cb.cores_id == CoresId::NONE;
                change(&mut self.cb.unplaced, u64::from(unplaced));
            }
            Holding::Kernel(_program, kernel) => {
                let totals = &mut self.kernel;
                change(
                    &mut totals.by_kind[kernel.kind as usize],
                    kernel.total_bytes,
                );
                if let Some(core_type) = kernel.core_type {
                    let of_type = &mut totals.by_core_type[core_type as usize];
                    change(of_type, kernel.total_bytes);
                }
                change(&mut totals.count, 1);
                let unplaced = kernel.cores_id == CoresId::NONE;
                change(&mut totals.unplaced, u64::from(unplaced));
            }
        }
    }

    /// The largest load of a kernel binary changed.
    pub fn change_unique(&mut self, before: u64, after: u64) {
        self.kernel.unique_bytes = self.kernel.unique_bytes - before + after;
    }

    /// Every figure, with what it counts.
    pub fn figures(&mut self) -> impl Iterator<Item = (&'static str, &'static str, &mut u64)> {
        let classes = Class::ALL.iter().zip(&mut self.classes);
        let classes = classes.flat_map(|(class, totals)| {
            [
                (class.name(), "charged", &mut totals.charged.bytes),
                (class.name(), "requested", &mut totals.requested_bytes),
                (class.name(), "buffers", &mut totals.buffers),
                (class.name(), "unplaced", &mut totals.unplaced),
            ]
        });
        let kinds = CbKind::ALL.iter().zip(&mut self.cb.by_kind);
        let cb = kinds
            .map(|(kind, bytes)| ("CB", kind.name(), bytes))
            .chain([
                ("CB", "registered", &mut self.cb.registered.bytes),
                ("CB", "count", &mut self.cb.count),
                ("CB", "unplaced", &mut self.cb.unplaced),
            ]);
        let kinds = KernelKind::ALL.iter().zip(&mut self.kernel.by_kind);
        let kernel = kinds.map(|(kind, bytes)| ("kernel", kind.name(), bytes));
        let by_core_type = self.kernel.by_core_type.iter_mut();
        let kernel = kernel
            .chain(by_core_type.map(|bytes| ("kernel", "core type", bytes)))
            .chain([
                ("kernel", "registered", &mut self.kernel.registered.bytes),
                ("kernel", "unique", &mut self.kernel.unique_bytes),
                ("kernel", "count", &mut self.kernel.count),
                ("kernel", "unplaced", &mut self.kernel.unplaced),
            ]);
        classes.chain(cb).chain(kernel)
    }

    /// Takes away all that a process held.
    pub fn subtract(&mut self, mut part: Self) {
        for ((.., mine), (.., its)) in self.figures().zip(part.figures()) {
            debug_assert!(*its <= *mine, "took {its} of {mine}");
            *mine = mine.saturating_sub(*its);
        }
    }

    /// Adds all that a process holds; true for each gauge that is higher than ever.
    pub fn add(&mut self, mut part: Self, time: u64, order: u64) -> [bool; GaugeKind::COUNT] {
        for ((.., mine), (.., its)) in self.figures().zip(part.figures()) {
            *mine = mine.saturating_add(*its);
        }
        let mut raised = [false; GaugeKind::COUNT];
        for kind in GaugeKind::all() {
            raised[kind.index()] = self.gauge_mut(kind).add(0, time, order);
        }
        raised
    }

    /// Starts a new stretch and returns the peaks of the one that ends.
    pub fn mark(&mut self, time: u64) -> PeakSet {
        let mut peaks = PeakSet::default();
        for kind in GaugeKind::all() {
            *peaks.peak_mut(kind) = self.gauge_mut(kind).mark(time);
        }
        peaks
    }

    #[must_use]
    pub fn since_mark(&self) -> PeakSet {
        let mut peaks = PeakSet::default();
        for kind in GaugeKind::all() {
            *peaks.peak_mut(kind) = self.gauge(kind).since_mark();
        }
        peaks
    }
}
