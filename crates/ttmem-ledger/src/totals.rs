//! What is held on one device: by everybody, or by one process.
//!
//! The same figures are kept twice, per device and per process on it, and every
//! booking goes to both; a process that leaves takes exactly its part away.

use crate::gauge::{Gauge, Peak};
use crate::program::{Cb, Kernel};
use ttmem_event::{CbKind, Class, CoreType, CoresId, KernelKind};

/// Totals of one class.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassTotals {
    /// What the allocators take.
    pub charged: Gauge,
    /// What was asked for.
    pub requested_bytes: u64,
    /// Live buffers.
    pub buffers: u64,
    /// Live buffers whose place in a bank is not known: those of old senders.
    pub unplaced: u64,
}

/// Totals of per-core storage.
#[derive(Clone, Copy, Debug, Default)]
pub struct CbTotals {
    /// Storage of every live program.
    pub registered: Gauge,
    /// The same by kind.
    pub by_kind: [u64; CbKind::ALL.len()],
    /// Entries.
    pub count: u64,
    /// Entries whose cores are not known: what is resident cannot be known then.
    pub unplaced: u64,
}

/// Totals of kernels.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelTotals {
    /// Kernels of every live program.
    pub registered: Gauge,
    /// The same by kind.
    pub by_kind: [u64; KernelKind::ALL.len()],
    /// The same by core type, where it is known.
    pub by_core_type: [u64; CoreType::ALL.len()],
    /// Each kernel once, however many programs of a process hold it.
    pub unique_bytes: u64,
    /// Entries.
    pub count: u64,
    /// Entries whose cores are not known: what is resident cannot be known then.
    pub unplaced: u64,
}

/// What is held on a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Buffers, by class.
    pub classes: [ClassTotals; Class::COUNT],
    /// Per-core storage.
    pub cb: CbTotals,
    /// Kernels.
    pub kernel: KernelTotals,
}

/// The peaks of a stretch between two marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakSet {
    /// Charged bytes, by class.
    pub classes: [Peak; Class::COUNT],
    /// Registered per-core storage.
    pub cb: Peak,
    /// Registered kernels.
    pub kernel: Peak,
}

impl PeakSet {
    /// The higher of each.
    #[must_use]
    pub fn max(mut self, other: &Self) -> Self {
        for (peak, its) in self.classes.iter_mut().zip(other.classes) {
            *peak = peak.max(its);
        }
        self.cb = self.cb.max(other.cb);
        self.kernel = self.kernel.max(other.kernel);
        self
    }
}

/// What a buffer takes on one device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferShare {
    pub(crate) class: Class,
    pub(crate) charged_bytes: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) placed: bool,
}

impl Totals {
    /// Totals of one class.
    #[must_use]
    pub fn class(&self, class: Class) -> &ClassTotals {
        &self.classes[class.index()]
    }

    pub(crate) fn book_buffer(&mut self, share: &BufferShare, time: u64) {
        let class = &mut self.classes[share.class.index()];
        class.charged.add(share.charged_bytes, time);
        class.requested_bytes = class.requested_bytes.saturating_add(share.requested_bytes);
        class.buffers += 1;
        class.unplaced += u64::from(!share.placed);
    }

    pub(crate) fn release_buffer(&mut self, share: &BufferShare) {
        let class = &mut self.classes[share.class.index()];
        class.charged.sub(share.charged_bytes);
        class.requested_bytes -= share.requested_bytes;
        class.buffers -= 1;
        class.unplaced -= u64::from(!share.placed);
    }

    pub(crate) fn book_cb(&mut self, cb: &Cb, time: u64) {
        let bytes = cb.total_bytes();
        self.cb.registered.add(bytes, time);
        self.cb.by_kind[cb.kind as usize] += bytes;
        self.cb.count += 1;
        self.cb.unplaced += u64::from(cb.cores_id == CoresId::NONE);
    }

    pub(crate) fn release_cb(&mut self, cb: &Cb) {
        let bytes = cb.total_bytes();
        self.cb.registered.sub(bytes);
        self.cb.by_kind[cb.kind as usize] -= bytes;
        self.cb.count -= 1;
        self.cb.unplaced -= u64::from(cb.cores_id == CoresId::NONE);
    }

    pub(crate) fn book_kernel(&mut self, kernel: &Kernel, time: u64) {
        self.kernel.registered.add(kernel.total_bytes, time);
        self.kernel.by_kind[kernel.kind as usize] += kernel.total_bytes;
        if let Some(core_type) = kernel.core_type {
            self.kernel.by_core_type[core_type as usize] += kernel.total_bytes;
        }
        self.kernel.count += 1;
        self.kernel.unplaced += u64::from(kernel.cores_id == CoresId::NONE);
    }

    pub(crate) fn release_kernel(&mut self, kernel: &Kernel) {
        self.kernel.registered.sub(kernel.total_bytes);
        self.kernel.by_kind[kernel.kind as usize] -= kernel.total_bytes;
        if let Some(core_type) = kernel.core_type {
            self.kernel.by_core_type[core_type as usize] -= kernel.total_bytes;
        }
        self.kernel.count -= 1;
        self.kernel.unplaced -= u64::from(kernel.cores_id == CoresId::NONE);
    }

    pub(crate) fn change_unique(&mut self, before: u64, after: u64) {
        self.kernel.unique_bytes = self.kernel.unique_bytes - before + after;
    }

    /// Takes away all that a process held.
    pub(crate) fn subtract(&mut self, part: &Self) {
        for (mine, its) in self.classes.iter_mut().zip(&part.classes) {
            mine.charged.sub(its.charged.bytes());
            mine.requested_bytes -= its.requested_bytes;
            mine.buffers -= its.buffers;
            mine.unplaced -= its.unplaced;
        }
        self.cb.registered.sub(part.cb.registered.bytes());
        subtract_each(&mut self.cb.by_kind, &part.cb.by_kind);
        self.cb.count -= part.cb.count;
        self.cb.unplaced -= part.cb.unplaced;
        self.kernel.registered.sub(part.kernel.registered.bytes());
        subtract_each(&mut self.kernel.by_kind, &part.kernel.by_kind);
        subtract_each(&mut self.kernel.by_core_type, &part.kernel.by_core_type);
        self.kernel.unique_bytes -= part.kernel.unique_bytes;
        self.kernel.count -= part.kernel.count;
        self.kernel.unplaced -= part.kernel.unplaced;
    }

    /// Starts a new stretch and returns the peaks of the one that ends.
    pub(crate) fn mark(&mut self, time: u64) -> PeakSet {
        let mut peaks = PeakSet::default();
        for (peak, class) in peaks.classes.iter_mut().zip(&mut self.classes) {
            *peak = class.charged.mark(time);
        }
        peaks.cb = self.cb.registered.mark(time);
        peaks.kernel = self.kernel.registered.mark(time);
        peaks
    }

    /// The peaks since the last mark.
    #[must_use]
    pub fn since_mark(&self) -> PeakSet {
        let mut peaks = PeakSet::default();
        for (peak, class) in peaks.classes.iter_mut().zip(&self.classes) {
            *peak = class.charged.since_mark();
        }
        peaks.cb = self.cb.registered.since_mark();
        peaks.kernel = self.kernel.registered.since_mark();
        peaks
    }
}

fn subtract_each(mine: &mut [u64], its: &[u64]) {
    for (mine, its) in mine.iter_mut().zip(its) {
        *mine -= its;
    }
}
