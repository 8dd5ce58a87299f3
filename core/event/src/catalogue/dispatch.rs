//! Where the runtime runs its dispatch kernels, and what that leaves to compute.

/// A rectangle of cores with its corner at (0, 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    pub x: u16,
    pub y: u16,
}

impl Grid {
    /// A grid of `x` columns and `y` rows.
    #[must_use]
    pub const fn new(x: u16, y: u16) -> Self {
        Self { x, y }
    }

    /// How many cores it has.
    #[must_use]
    pub fn cores(self) -> u32 {
        u32::from(self.x) * u32::from(self.y)
    }
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.x, self.y)
    }
}

/// Logical Ethernet cores (all in column 0, these are the rows) that Wormhole dispatches on.
pub const WORMHOLE_ETHERNET_DISPATCH_CORES: [u16; 6] = [4, 5, 10, 11, 12, 13];

/// The cores that run the runtime's dispatch kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DispatchCores {
    /// The last row of Tensix cores.
    TensixRow,
    /// The last column of Tensix cores.
    TensixColumn,
    Ethernet,
    /// None: the host launches every program itself and compute has the whole grid.
    Slow,
}

impl DispatchCores {
    pub const ALL: [Self; 4] = [
        Self::TensixRow,
        Self::TensixColumn,
        Self::Ethernet,
        Self::Slow,
    ];

    /// The name used in options and in text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TensixRow => "tensix-row",
            Self::TensixColumn => "tensix-column",
            Self::Ethernet => "ethernet",
            Self::Slow => "slow",
        }
    }

    /// The kind of that name, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.trim();
        Self::ALL
            .into_iter()
            .find(|kind| name.eq_ignore_ascii_case(kind.name()))
    }

    /// Bytes of the prefetcher's cache of kernel binaries; slow dispatch has no prefetcher.
    #[must_use]
    pub const fn prefetcher_cache_bytes(self) -> Option<u64> {
        match self {
            Self::TensixRow | Self::TensixColumn => Some(1024 * 1024),
            // Ethernet cores have a sixth to a third of a Tensix core's L1.
            Self::Ethernet => Some(67 * 1024),
            Self::Slow => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for kind in DispatchCores::ALL {
            assert_eq!(DispatchCores::from_name(kind.name()), Some(kind));
            assert_eq!(
                DispatchCores::from_name(&kind.name().to_uppercase()),
                Some(kind)
            );
        }
        assert_eq!(DispatchCores::from_name("tensix"), None);
    }

    #[test]
    fn the_largest_grid_does_not_overflow() {
        assert_eq!(Grid::new(u16::MAX, u16::MAX).cores(), 4_294_836_225);
        assert_eq!(Grid::new(8, 7).cores(), 56);
        assert_eq!(Grid::new(8, 7).to_string(), "8x7");
    }

    #[test]
    fn the_prefetcher_cache_depends_on_the_core_it_runs_on() {
        let sizes = DispatchCores::ALL.map(DispatchCores::prefetcher_cache_bytes);
        assert_eq!(
            sizes,
            [Some(1_048_576), Some(1_048_576), Some(68_608), None]
        );
    }
}
