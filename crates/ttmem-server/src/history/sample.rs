//! What is kept of a device for one step.

/// Totals of a device: the highest within a step, but for the free blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) dram: u64,
    pub(super) l1: u64,
    pub(super) l1_small: u64,
    pub(super) trace: u64,
    pub(super) occupied: Option<u64>,
    pub(super) cb_resident: Option<u64>,
    pub(super) cb_registered: u64,
    pub(super) kernel_registered: u64,
    /// The smallest within the step.
    pub(super) dram_largest_free: Option<u64>,
    /// The smallest within the step.
    pub(super) l1_largest_free: Option<u64>,
    /// Programs run in the step.
    pub(super) dispatches: u64,
}

impl Sample {
    /// Two samples of one step as one.
    pub(super) fn join(self, later: Self) -> Self {
        Self {
            dram: self.dram.max(later.dram),
            l1: self.l1.max(later.l1),
            l1_small: self.l1_small.max(later.l1_small),
            trace: self.trace.max(later.trace),
            occupied: self.occupied.max(later.occupied),
            cb_resident: self.cb_resident.max(later.cb_resident),
            cb_registered: self.cb_registered.max(later.cb_registered),
            kernel_registered: self.kernel_registered.max(later.kernel_registered),
            dram_largest_free: least(self.dram_largest_free, later.dram_largest_free),
            l1_largest_free: least(self.l1_largest_free, later.l1_largest_free),
            dispatches: self.dispatches.saturating_add(later.dispatches),
        }
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
