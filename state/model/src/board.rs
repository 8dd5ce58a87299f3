//! What a runtime learns about a machine besides its memory: links and the order of chips.

use ttmem_event::catalogue::{BoardKind, ChipAttachment};

/// Rows and columns of the mesh of all chips of a board.
#[must_use]
pub fn whole_mesh(board: BoardKind) -> (u16, u16) {
    match board {
        BoardKind::N150 | BoardKind::P100 | BoardKind::P150 => (1, 1),
        BoardKind::N300 | BoardKind::P300 => (1, 2),
        BoardKind::T3000 => (2, 4),
        BoardKind::GalaxyWormhole | BoardKind::GalaxyBlackhole => (8, 4),
    }
}

/// Logical chip ids in the order of a mesh of all chips, row by row.
///
/// On a T3000 the mesh follows the links, not the numbers.
#[must_use]
pub fn mesh_order(board: BoardKind) -> Vec<u32> {
    match board {
        BoardKind::T3000 => vec![4, 0, 2, 6, 5, 1, 3, 7],
        other => (0..other.chip_count()).collect(),
    }
}

/// The Ethernet channels of a chip that have a link; each is a core in column 0.
#[must_use]
pub fn linked_channels(board: BoardKind, logical_id: u32) -> Vec<u16> {
    let remote = matches!(
        board.chip(logical_id).map(|chip| chip.attachment),
        Some(ChipAttachment::Remote { .. })
    );
    match board {
        BoardKind::N150 | BoardKind::P100 | BoardKind::P150 => Vec::new(),
        // Two links within the card; both chips of it see them at different channels.
        BoardKind::N300 if remote => vec![0, 1],
        BoardKind::N300 => vec![8, 9],
        // Within the card, and to the cards beside it; the outer chips have fewer neighbours.
        BoardKind::T3000 if remote => vec![0, 1, 6, 7],
        BoardKind::T3000 if logical_id.is_multiple_of(2) => vec![6, 7, 8, 9, 14, 15],
        BoardKind::T3000 => vec![0, 1, 8, 9, 14, 15],
        BoardKind::P300 => vec![0, 1, 2, 3],
        // Every channel leads to a neighbour: four directions, as many channels each.
        BoardKind::GalaxyWormhole => (0..16).collect(),
        BoardKind::GalaxyBlackhole => (0..12).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::catalogue::WORMHOLE_ETHERNET_DISPATCH_CORES;

    #[test]
    fn every_chip_stands_once_in_the_mesh() {
        for board in BoardKind::ALL {
            let (rows, columns) = whole_mesh(board);
            let mut order = mesh_order(board);
            assert_eq!(order.len(), usize::from(rows) * usize::from(columns));
            order.sort_unstable();
            assert!(order.into_iter().eq(0..board.chip_count()), "{board:?}");
        }
    }

    #[test]
    fn links_exist_and_leave_the_dispatch_cores_alone() {
        for board in [BoardKind::N300, BoardKind::T3000] {
            for chip in board.chips() {
                let channels = linked_channels(board, chip.logical_id);
                assert!(channels.len() >= 2);
                for channel in channels {
                    assert!(u32::from(channel) < board.ethernet_cores());
                    assert!(!WORMHOLE_ETHERNET_DISPATCH_CORES.contains(&channel));
                }
            }
        }
    }
}
