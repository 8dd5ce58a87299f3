//! The figures of a device that are drawn over time.

use crate::theme::Ink;
use ttmem_report::format;
use ttmem_report::{Device, DeviceHistory};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Series {
    Dram,
    /// L1 in use for anything.
    Occupied,
    /// Circular buffers of the programs that ran last.
    Resident,
    /// Kernels of every live program.
    Kernels,
    DramFree,
    L1Free,
    Dispatches,
}

impl Series {
    pub(super) const ALL: [Self; 7] = [
        Self::Dram,
        Self::Occupied,
        Self::Resident,
        Self::Kernels,
        Self::DramFree,
        Self::L1Free,
        Self::Dispatches,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Dram => "DRAM",
            Self::Occupied => "L1",
            Self::Resident => "CBs",
            Self::Kernels => "kernels of cached programs",
            Self::DramFree => "DRAM largest fit",
            Self::L1Free => "L1 buffers largest fit",
            Self::Dispatches => "programs run",
        }
    }

    pub(super) const fn ink(self) -> Ink {
        match self {
            Self::Dram => Ink::Dram,
            Self::Occupied => Ink::L1,
            Self::Resident => Ink::Storage,
            Self::Kernels => Ink::Kernel,
            Self::DramFree | Self::L1Free => Ink::Good,
            Self::Dispatches => Ink::Text,
        }
    }

    /// What the figure is at each step, from what the server keeps of it.
    ///
    /// It keeps the largest block of one bank: a request has one in every bank.
    pub(super) fn of_kept(self, kept: u64, device: &Device) -> u64 {
        let banks = match self {
            Self::DramFree => device.dram.banks,
            Self::L1Free => device.l1.banks,
            _whole => None,
        };
        kept.saturating_mul(banks.map_or(1, u64::from))
    }

    pub(super) fn values(self, history: &DeviceHistory) -> &[Option<u64>] {
        match self {
            Self::Dram => &history.dram_bytes,
            Self::Occupied => &history.occupied_bytes,
            Self::Resident => &history.cb_resident_bytes,
            Self::Kernels => &history.kernel_registered_bytes,
            Self::DramFree => &history.dram_largest_free_bytes,
            Self::L1Free => &history.l1_largest_free_bytes,
            Self::Dispatches => &history.dispatches,
        }
    }

    /// What it is now; none of what has no present, and of what is not known.
    pub(super) fn now(self, device: &Device) -> Option<u64> {
        match self {
            Self::Dram => Some(device.dram.used_bytes()),
            Self::Occupied => device.l1.occupied_bytes,
            Self::Resident => device.cb.resident_bytes,
            Self::Kernels => Some(device.kernel.registered_bytes),
            Self::DramFree => device.dram.largest_fit_bytes(),
            Self::L1Free => device.l1.largest_fit_bytes(),
            Self::Dispatches => None,
        }
    }

    /// What there is of it at most; none of what has no bound.
    pub(super) fn whole(self, device: &Device) -> Option<u64> {
        match self {
            Self::Dram => device.dram.capacity_bytes,
            Self::Occupied | Self::Resident => device.l1.physical_bytes,
            Self::DramFree => device.dram.capacity_bytes,
            Self::L1Free => device.l1.capacity_bytes,
            Self::Kernels | Self::Dispatches => None,
        }
    }

    /// Whether a low value is the one to be afraid of.
    pub(super) const fn low_is_bad(self) -> bool {
        matches!(self, Self::DramFree | Self::L1Free)
    }

    pub(super) fn text(self, value: u64) -> String {
        match self {
            Self::Dispatches => format::count(value),
            _bytes => format::bytes(value),
        }
    }

    /// A round figure that is somewhat above a value: a scale for what has no bound.
    pub(super) fn roof(self, value: u64) -> u64 {
        let above = value.saturating_add(value / 16).max(1);
        let (mut roof, factors): (u64, [u64; 3]) = match self {
            Self::Dispatches => (1, [2, 5, 10]),
            _bytes => (1, [2, 3, 4]),
        };
        while let Some(next) = roof.checked_mul(factors[2])
            && next < above
        {
            roof = next;
        }
        let mut roofs = factors
            .iter()
            .filter_map(|factor| roof.checked_mul(*factor));
        roofs.find(|roof| *roof >= above).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roof_is_round_and_never_below() {
        for (series, value, roof) in [
            (Series::Kernels, 0, 2),
            (Series::Kernels, 3 << 20, 4 << 20),
            (Series::Kernels, (5 << 20) / 2, 3 << 20),
            (Series::Dispatches, 4_000, 5_000),
            (Series::Dispatches, 10_000, 20_000),
            (Series::Dispatches, u64::MAX, u64::MAX),
            (Series::Dram, u64::MAX - 1, u64::MAX),
        ] {
            assert_eq!(series.roof(value), roof, "{value}");
        }
    }
}
