//! The boards and machines that are built, one row each.
//!
//! Compute grids are those of the runtime's core descriptors for one or two
//! command queues. They are listed, not derived: on n150 with Ethernet dispatch
//! the runtime leaves a row of Tensix cores unused.

use super::arch::Arch;
use super::capacity::{Capacities, DeviceOptions};
use super::dispatch::{DispatchCores, Grid};
use super::memory_map::{BLACKHOLE, MemoryMap, WORMHOLE};

/// A board or machine of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoardKind {
    N150,
    /// Two Wormholes, the second reached through the first.
    N300,
    /// Four n300 in one machine.
    T3000,
    /// Galaxy 6U: 32 Wormholes, all on PCIe.
    GalaxyWormhole,
    /// One Blackhole without Ethernet and with one DRAM bank less.
    P100,
    P150,
    /// Two Blackholes, both on PCIe.
    P300,
    /// Galaxy of 32 Blackholes, all on PCIe.
    GalaxyBlackhole,
}

/// How the host reaches a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChipAttachment {
    Local,
    /// Over the Ethernet of a local chip of the same card.
    Remote {
        /// Logical id of that local chip.
        gateway: u32,
    },
}

/// One chip of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChipDescription {
    /// The runtime's logical chip id when it sees the whole board and nothing else.
    pub logical_id: u32,
    /// How the host reaches it.
    pub attachment: ChipAttachment,
    /// The type of the card it sits on, as the driver's cluster descriptor spells it.
    pub board_type: &'static str,
}

struct Row {
    name: &'static str,
    /// Other spellings: lower case, with `-` for `_` and blanks.
    aliases: &'static [&'static str],
    arch: Arch,
    memory_map: &'static MemoryMap,
    board_type: &'static str,
    local_chips: u32,
    /// Remote chip `local_chips + i` hangs on local chip `i`.
    remote_chips: u32,
    tensix_grid: Grid,
    row_dispatch: Option<Grid>,
    column_dispatch: Option<Grid>,
    ethernet_dispatch: Option<Grid>,
    default_dispatch: DispatchCores,
    ethernet_cores: u32,
    dram_banks: u32,
}

const N150: Row = Row {
    name: "n150",
    aliases: &[],
    arch: Arch::Wormhole,
    memory_map: &WORMHOLE,
    board_type: "n150",
    local_chips: 1,
    remote_chips: 0,
    tensix_grid: Grid::new(8, 9),
    row_dispatch: Some(Grid::new(8, 8)),
    column_dispatch: Some(Grid::new(7, 9)),
    ethernet_dispatch: Some(Grid::new(8, 8)),
    default_dispatch: DispatchCores::TensixRow,
    ethernet_cores: 16,
    dram_banks: 12,
};

const N300: Row = Row {
    name: "n300",
    board_type: "n300",
    remote_chips: 1,
    tensix_grid: Grid::new(8, 8),
    row_dispatch: Some(Grid::new(8, 7)),
    column_dispatch: Some(Grid::new(7, 8)),
    ethernet_dispatch: Some(Grid::new(8, 8)),
    // The runtime's own default for n300 and T3000, seen in their 64 L1 banks.
    default_dispatch: DispatchCores::Ethernet,
    ..N150
};

const T3000: Row = Row {
    name: "t3000",
    aliases: &["t3k"],
    local_chips: 4,
    remote_chips: 4,
    ..N300
};

const GALAXY_WORMHOLE: Row = Row {
    name: "galaxy-wormhole",
    // Not "tg": that is the older Galaxy behind n150 cards, with other grids.
    aliases: &[
        "galaxy",
        "6u",
        "galaxy-6u",
        "galaxy-wh",
        "wh-galaxy",
        "wormhole-galaxy",
        "tt-galaxy-wh",
        "ubb",
        "ubb-wormhole",
    ],
    board_type: "ubb",
    local_chips: 32,
    tensix_grid: Grid::new(8, 10),
    row_dispatch: Some(Grid::new(8, 9)),
    column_dispatch: Some(Grid::new(7, 10)),
    ethernet_dispatch: Some(Grid::new(8, 10)),
    ..N150
};

const P150: Row = Row {
    name: "p150",
    aliases: &["p150a", "p150b", "p150c"],
    arch: Arch::Blackhole,
    memory_map: &BLACKHOLE,
    board_type: "p150",
    local_chips: 1,
    remote_chips: 0,
    tensix_grid: Grid::new(12, 10),
    // Refused by the runtime on Blackhole unless Tensix cores also run the fabric multiplexer.
    row_dispatch: None,
    column_dispatch: Some(Grid::new(11, 10)),
    // The runtime's list for it names all 14 Ethernet cores of the die, while
    // products have 12 or none, so a device does not open with it.
    ethernet_dispatch: None,
    default_dispatch: DispatchCores::TensixColumn,
    ethernet_cores: 12,
    dram_banks: 8,
};

const P100: Row = Row {
    name: "p100",
    aliases: &["p100a"],
    board_type: "p100",
    ethernet_cores: 0,
    dram_banks: 7,
    ..P150
};

const P300: Row = Row {
    name: "p300",
    aliases: &["p300a", "p300b", "p300c"],
    board_type: "p300",
    local_chips: 2,
    ..P150
};

const GALAXY_BLACKHOLE: Row = Row {
    name: "galaxy-blackhole",
    aliases: &[
        "bh-galaxy",
        "galaxy-bh",
        "blackhole-galaxy",
        "tt-galaxy-bh",
        "ubb-blackhole",
    ],
    board_type: "ubb_blackhole",
    local_chips: 32,
    tensix_grid: Grid::new(13, 10),
    column_dispatch: Some(Grid::new(12, 10)),
    ..P150
};

impl BoardKind {
    /// Every board of the catalogue.
    pub const ALL: [Self; 8] = [
        Self::N150,
        Self::N300,
        Self::T3000,
        Self::GalaxyWormhole,
        Self::P100,
        Self::P150,
        Self::P300,
        Self::GalaxyBlackhole,
    ];

    const fn row(self) -> &'static Row {
        match self {
            Self::N150 => &N150,
            Self::N300 => &N300,
            Self::T3000 => &T3000,
            Self::GalaxyWormhole => &GALAXY_WORMHOLE,
            Self::P100 => &P100,
            Self::P150 => &P150,
            Self::P300 => &P300,
            Self::GalaxyBlackhole => &GALAXY_BLACKHOLE,
        }
    }

    /// The name in options, JSON and text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The architecture of its chips.
    #[must_use]
    pub const fn arch(self) -> Arch {
        self.row().arch
    }

    /// The memory layout of its chips.
    #[must_use]
    pub const fn memory_map(self) -> &'static MemoryMap {
        self.row().memory_map
    }

    /// How many chips it has.
    #[must_use]
    pub const fn chip_count(self) -> u32 {
        self.row().local_chips + self.row().remote_chips
    }

    /// The chip of that logical id.
    #[must_use]
    pub fn chip(self, logical_id: u32) -> Option<ChipDescription> {
        let row = self.row();
        let attachment = match logical_id.checked_sub(row.local_chips) {
            None => ChipAttachment::Local,
            Some(gateway) if gateway < row.remote_chips => ChipAttachment::Remote { gateway },
            Some(_) => return None,
        };
        Some(ChipDescription {
            logical_id,
            attachment,
            board_type: row.board_type,
        })
    }

    /// Its chips, in the order of their logical ids.
    pub fn chips(self) -> impl Iterator<Item = ChipDescription> {
        (0..self.chip_count()).filter_map(move |logical_id| self.chip(logical_id))
    }

    /// The Tensix cores of each chip that are not fused off.
    #[must_use]
    pub const fn tensix_grid(self) -> Grid {
        self.row().tensix_grid
    }

    /// The Tensix cores left to compute; `None` if the board cannot dispatch that way.
    #[must_use]
    pub const fn compute_grid(self, dispatch: DispatchCores) -> Option<Grid> {
        let row = self.row();
        match dispatch {
            DispatchCores::TensixRow => row.row_dispatch,
            DispatchCores::TensixColumn => row.column_dispatch,
            DispatchCores::Ethernet => row.ethernet_dispatch,
            DispatchCores::Slow => Some(row.tensix_grid),
        }
    }

    /// Where the runtime dispatches by default.
    #[must_use]
    pub const fn default_dispatch(self) -> DispatchCores {
        self.row().default_dispatch
    }

    /// Ethernet cores of each chip that are not fused off.
    #[must_use]
    pub const fn ethernet_cores(self) -> u32 {
        self.row().ethernet_cores
    }

    /// DRAM banks of each chip.
    #[must_use]
    pub const fn dram_banks(self) -> u32 {
        self.row().dram_banks
    }

    /// What the allocator of one chip has to give under `options`.
    ///
    /// `None` if the board cannot dispatch that way or an optional region does not fit.
    #[must_use]
    pub fn capacities(self, options: &DeviceOptions) -> Option<Capacities> {
        let grid = self.compute_grid(options.dispatch)?;
        Capacities::of(self.memory_map(), grid, self.dram_banks(), options)
    }

    /// The board of that name, in any of its usual spellings and in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase().replace(['_', ' '], "-");
        Self::ALL.into_iter().find(|kind| {
            let row = kind.row();
            row.name == name || row.aliases.contains(&name.as_str())
        })
    }
}

#[cfg(test)]
mod tests;
