//! The Ethernet links of a board, end by end.
//!
//! The runtime model knows which channels of a chip have a link; a cluster
//! descriptor also says where each leads. A test holds the two together.

use ttmem_event::catalogue::{BoardKind, ChipAttachment};

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkEnd {
    pub chip: u32,
    /// Ethernet channel of that chip.
    pub channel: u16,
}

/// A link between two chips.
pub type Link = [LinkEnd; 2];

/// Channels that lead from a local chip of an n300 to the remote one of the same card.
const CARD_LOCAL_CHANNELS: [u16; 2] = [8, 9];
const CARD_REMOTE_CHANNELS: [u16; 2] = [0, 1];

/// Cables of a T3000 between cards: the two chips, and the channels at either end.
const T3000_CABLES: [(u32, u32, [u16; 2]); 6] = [
    (0, 1, [14, 15]),
    (0, 2, [6, 7]),
    (1, 3, [0, 1]),
    (2, 3, [14, 15]),
    (4, 5, [6, 7]),
    (6, 7, [6, 7]),
];

/// The links of a board, each once; `None` where we do not know where they lead.
#[must_use]
pub fn links(board: BoardKind) -> Option<Vec<Link>> {
    match board {
        BoardKind::N150 | BoardKind::P100 | BoardKind::P150 => Some(Vec::new()),
        BoardKind::N300 => Some(card_links(board)),
        BoardKind::T3000 => {
            let cables = T3000_CABLES.into_iter().flat_map(|(one, other, channels)| {
                channels.map(|channel| link(one, channel, other, channel))
            });
            Some(card_links(board).into_iter().chain(cables).collect())
        }
        BoardKind::P300 | BoardKind::GalaxyWormhole | BoardKind::GalaxyBlackhole => None,
    }
}

/// The links within the cards of a machine of n300.
fn card_links(board: BoardKind) -> Vec<Link> {
    let remotes = board.chips().filter_map(|chip| match chip.attachment {
        ChipAttachment::Remote { gateway } => Some((gateway, chip.logical_id)),
        ChipAttachment::Local => None,
    });
    remotes
        .flat_map(|(gateway, remote)| {
            CARD_LOCAL_CHANNELS
                .into_iter()
                .zip(CARD_REMOTE_CHANNELS)
                .map(move |(near, far)| link(gateway, near, remote, far))
        })
        .collect()
}

fn link(one: u32, one_channel: u16, other: u32, other_channel: u16) -> Link {
    [(one, one_channel), (other, other_channel)].map(|(chip, channel)| LinkEnd { chip, channel })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_model::board::linked_channels;

    #[test]
    fn the_ends_are_the_linked_channels_of_the_runtime_model() {
        for board in BoardKind::ALL {
            let Some(links) = links(board) else { continue };
            for chip in board.chips() {
                let mut ends: Vec<u16> = links
                    .iter()
                    .flatten()
                    .filter(|end| end.chip == chip.logical_id)
                    .map(|end| end.channel)
                    .collect();
                ends.sort_unstable();
                assert_eq!(
                    ends,
                    linked_channels(board, chip.logical_id),
                    "{board:?} {chip:?}"
                );
            }
        }
    }

    #[test]
    fn a_t3000_has_twenty_links() {
        assert_eq!(links(BoardKind::T3000).map(|links| links.len()), Some(20));
    }
}
