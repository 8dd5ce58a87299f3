//! Cluster descriptors: the YAML in which ttnn is told of a machine it cannot see.
//!
//! Everything comes from the catalogue and [`links`]. Which cores of a die are fused
//! off is the one thing the catalogue does not say: it knows how many are left, and
//! any choice of that many gives the same memory. The choice matters for speed
//! only: it is part of the runtime's build key, so a usual one finds the
//! ready-made firmware of the wheel.

use std::fmt::Write as _;

use ttmem_event::catalogue::{Arch, BoardKind, ChipAttachment, ChipDescription};

use crate::links::links;

/// Rows of Tensix cores of a Wormhole die.
const WORMHOLE_ROWS: u32 = 10;
/// Columns of Tensix cores of a Blackhole die.
const BLACKHOLE_COLUMNS: u32 = 14;
/// Ethernet cores of a Blackhole die.
const BLACKHOLE_ETHERNET_CORES: u32 = 14;
/// DRAM banks of a Blackhole die.
const BLACKHOLE_DRAM_BANKS: u32 = 8;

/// What is fused off on one chip, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Harvesting {
    /// Rows of Tensix cores on Wormhole, columns on Blackhole.
    tensix: u32,
    dram: u32,
    ethernet: u32,
    pcie: u32,
}

/// The descriptor of a board, with the unique ids of a run; `None` for one whose links we do not know.
#[must_use]
pub fn cluster_descriptor(board: BoardKind, run: u32) -> Option<String> {
    let links = links(board)?;
    let mut yaml = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(yaml, "{text}").expect("a String takes whatever is written to it");
    };

    line(format_args!("arch:"));
    for chip in board.chips() {
        line(format_args!(
            "  {}: {}",
            chip.logical_id,
            board.arch().name()
        ));
    }

    // Only chips with links have a place in an Ethernet grid.
    if links.is_empty() {
        line(format_args!("chips: {{}}"));
    } else {
        line(format_args!("chips:"));
        for chip in board.chips() {
            let (x, y) = ethernet_place(board, chip.logical_id);
            line(format_args!("  {}: [{x}, {y}, 0, 0]", chip.logical_id));
        }
    }

    line(format_args!("chip_unique_ids:"));
    for (chip, unique_id) in unique_ids(board, run) {
        line(format_args!("  {chip}: {unique_id}"));
    }

    if links.is_empty() {
        line(format_args!("ethernet_connections: []"));
    } else {
        line(format_args!("ethernet_connections:"));
        for [one, other] in &links {
            line(format_args!(
                "  - [{{chip: {}, chan: {}}}, {{chip: {}, chan: {}}}]",
                one.chip, one.channel, other.chip, other.channel
            ));
        }
    }

    line(format_args!("chips_with_mmio:"));
    for chip in local_chips(board) {
        line(format_args!("  - {0}: {0}", chip.logical_id));
    }

    line(format_args!("harvesting:"));
    for chip in board.chips() {
        let harvesting = harvesting(board);
        line(format_args!(
            "  {}: {{noc_translation: true, harvest_mask: {}, dram_harvesting_mask: {}, \
             eth_harvesting_mask: {}, pcie_harvesting_mask: {}}}",
            chip.logical_id,
            harvesting.tensix,
            harvesting.dram,
            harvesting.ethernet,
            harvesting.pcie
        ));
    }

    line(format_args!("boards:"));
    for local in local_chips(board) {
        let on_card = board
            .chips()
            .filter(|chip| card_of(*chip) == local.logical_id);
        let chips: Vec<String> = on_card.map(|chip| chip.logical_id.to_string()).collect();
        line(format_args!(
            "  - [{{board_id: {}}}, {{board_type: {}}}, {{chips: [{}]}}]",
            board_id(board, local, run),
            local.board_type,
            chips.join(", ")
        ));
    }
    Some(yaml)
}

fn local_chips(board: BoardKind) -> impl Iterator<Item = ChipDescription> {
    board
        .chips()
        .filter(|chip| chip.attachment == ChipAttachment::Local)
}

/// The local chip of the card a chip sits on.
fn card_of(chip: ChipDescription) -> u32 {
    match chip.attachment {
        ChipAttachment::Local => chip.logical_id,
        ChipAttachment::Remote { gateway } => gateway,
    }
}

/// Column and row of a chip among those linked with it.
///
/// On a T3000 the remote chips are at the outer ends of two rows of four.
fn ethernet_place(board: BoardKind, chip: u32) -> (u32, u32) {
    match (board, chip) {
        (BoardKind::T3000, 0..4) => (1 + chip / 2, chip % 2),
        (BoardKind::T3000, _) => (3 * ((chip - 4) / 2), chip % 2),
        _ => (chip, 0),
    }
}

/// The chips of a board, and the unique id that each has in a run.
pub(crate) fn unique_ids(board: BoardKind, run: u32) -> impl Iterator<Item = (u32, u64)> {
    board.chips().map(move |chip| {
        let unique_id = board_id(board, chip, run) ^ u64::from(chip.logical_id);
        (chip.logical_id, unique_id)
    })
}

/// A serial number as the vendor forms them: the kind of board, then a number, of the run and of the card.
fn board_id(board: BoardKind, chip: ChipDescription, run: u32) -> u64 {
    let kind: u64 = match board {
        BoardKind::N150 => 0x18,
        BoardKind::N300 | BoardKind::T3000 => 0x14,
        BoardKind::GalaxyWormhole => 0x35,
        BoardKind::P100 => 0x43,
        BoardKind::P150 => 0x40,
        BoardKind::P300 => 0x45,
        BoardKind::GalaxyBlackhole => 0x47,
    };
    // No number of a process has more than 22 bits, and no board as many cards as the six bits below them tell apart.
    (kind << 36) | (u64::from(run) << 14) | (u64::from(card_of(chip) + 1) << 8)
}

fn harvesting(board: BoardKind) -> Harvesting {
    let grid = board.tensix_grid();
    match board.arch() {
        Arch::Blackhole => Harvesting {
            tensix: mask_from(6, BLACKHOLE_COLUMNS - u32::from(grid.x)),
            dram: mask_from(0, BLACKHOLE_DRAM_BANKS - board.dram_banks()),
            ethernet: mask_from(5, BLACKHOLE_ETHERNET_CORES - board.ethernet_cores()),
            // One of the two PCIe cores of the die is connected.
            pcie: 0b10,
        },
        _ => Harvesting {
            tensix: mask_from(6, WORMHOLE_ROWS - u32::from(grid.y)),
            dram: 0,
            ethernet: 0,
            pcie: 0,
        },
    }
}

/// `count` bits from `first` on; from 0 when there are too many for that.
fn mask_from(first: u32, count: u32) -> u32 {
    let ones = (1 << count) - 1;
    if count <= 4 { ones << first } else { ones }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_model::board::{mesh_order, whole_mesh};

    #[test]
    fn places_follow_the_mesh() {
        for board in [BoardKind::N300, BoardKind::T3000] {
            let (_, columns) = whole_mesh(board);
            for (position, chip) in (0_u32..).zip(mesh_order(board)) {
                let columns = u32::from(columns);
                let expected = (position % columns, position / columns);
                assert_eq!(ethernet_place(board, chip), expected, "{board:?} {chip}");
            }
        }
    }

    #[test]
    fn as_many_cores_are_fused_off_as_the_catalogue_lacks() {
        let bits = |board| {
            let harvesting = harvesting(board);
            [harvesting.tensix, harvesting.dram, harvesting.ethernet].map(u32::count_ones)
        };
        assert_eq!(bits(BoardKind::N150), [1, 0, 0]);
        assert_eq!(bits(BoardKind::N300), [2, 0, 0]);
        assert_eq!(bits(BoardKind::P150), [2, 0, 2]);
        assert_eq!(bits(BoardKind::P100), [2, 1, 14]);
    }

    #[test]
    fn serial_numbers_differ_by_card_and_unique_ids_by_chip_and_run() {
        let of_run = |run| unique_ids(BoardKind::T3000, run).map(|(_chip, id)| id);
        let mut ids: Vec<u64> = of_run(0)
            .chain(of_run(1))
            .chain(of_run((1 << 22) - 1))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 3 * 8);
    }

    #[test]
    fn a_card_of_two_chips_is_described_in_full() {
        let expected = "\
arch:
  0: wormhole_b0
  1: wormhole_b0
chips:
  0: [0, 0, 0, 0]
  1: [1, 0, 0, 0]
chip_unique_ids:
  0: 1374389534976
  1: 1374389534977
ethernet_connections:
  - [{chip: 0, chan: 8}, {chip: 1, chan: 0}]
  - [{chip: 0, chan: 9}, {chip: 1, chan: 1}]
chips_with_mmio:
  - 0: 0
harvesting:
  0: {noc_translation: true, harvest_mask: 192, dram_harvesting_mask: 0, \
            eth_harvesting_mask: 0, pcie_harvesting_mask: 0}
  1: {noc_translation: true, harvest_mask: 192, dram_harvesting_mask: 0, \
            eth_harvesting_mask: 0, pcie_harvesting_mask: 0}
boards:
  - [{board_id: 1374389534976}, {board_type: n300}, {chips: [0, 1]}]
";
        assert_eq!(
            cluster_descriptor(BoardKind::N300, 0).as_deref(),
            Some(expected)
        );
    }
}
