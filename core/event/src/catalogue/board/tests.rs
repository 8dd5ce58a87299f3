use super::*;
use std::collections::HashSet;

const fn grid(x: u16, y: u16) -> Option<Grid> {
    Some(Grid::new(x, y))
}

#[test]
fn boards_are_built_like_this() {
    use BoardKind as B;
    // board, chips, Tensix present, compute with default Tensix dispatch, Ethernet cores, banks
    let table = [
        (B::N150, 1, (8, 9), 64, 16, 12),
        (B::N300, 2, (8, 8), 56, 16, 12),
        (B::T3000, 8, (8, 8), 56, 16, 12),
        (B::GalaxyWormhole, 32, (8, 10), 72, 16, 12),
        (B::P100, 1, (12, 10), 110, 0, 7),
        (B::P150, 1, (12, 10), 110, 12, 8),
        (B::P300, 2, (12, 10), 110, 12, 8),
        (B::GalaxyBlackhole, 32, (13, 10), 120, 12, 8),
    ];
    assert_eq!(table.map(|row| row.0), BoardKind::ALL);
    for (board, chips, (x, y), compute, ethernet, banks) in table {
        assert_eq!(board.chip_count(), chips, "{board:?}");
        assert_eq!(board.tensix_grid(), Grid::new(x, y), "{board:?}");
        let tensix_dispatch = match board.arch() {
            Arch::Wormhole => DispatchCores::TensixRow,
            _ => DispatchCores::TensixColumn,
        };
        let cores = board.compute_grid(tensix_dispatch).map(Grid::cores);
        assert_eq!(cores, Some(compute), "{board:?}");
        assert_eq!(board.ethernet_cores(), ethernet, "{board:?}");
        assert_eq!(board.dram_banks(), banks, "{board:?}");
    }
}

#[test]
fn compute_grids_per_kind_of_dispatch() {
    // In the order of DispatchCores::ALL: Tensix row, Tensix column, Ethernet, slow.
    let blackhole = [None, grid(11, 10), None, grid(12, 10)];
    let x2 = [grid(8, 7), grid(7, 8), grid(8, 8), grid(8, 8)];
    for (board, grids) in [
        (
            BoardKind::N150,
            [grid(8, 8), grid(7, 9), grid(8, 8), grid(8, 9)],
        ),
        (BoardKind::N300, x2),
        (BoardKind::T3000, x2),
        (
            BoardKind::GalaxyWormhole,
            [grid(8, 9), grid(7, 10), grid(8, 10), grid(8, 10)],
        ),
        (BoardKind::P100, blackhole),
        (BoardKind::P150, blackhole),
        (BoardKind::P300, blackhole),
        (
            BoardKind::GalaxyBlackhole,
            [None, grid(12, 10), None, grid(13, 10)],
        ),
    ] {
        assert_eq!(
            DispatchCores::ALL.map(|kind| board.compute_grid(kind)),
            grids,
            "{board:?}"
        );
    }
}

#[test]
fn dispatch_takes_its_cores_from_where_it_runs() {
    for board in BoardKind::ALL {
        for dispatch in DispatchCores::ALL {
            let Some(compute) = board.compute_grid(dispatch) else {
                continue;
            };
            let tensix = board.tensix_grid();
            assert!(compute.x <= tensix.x && compute.y <= tensix.y, "{board:?}");
            let taken = tensix.cores() - compute.cores();
            match dispatch {
                DispatchCores::TensixRow => assert_eq!(taken, tensix.x.into(), "{board:?}"),
                DispatchCores::TensixColumn => assert_eq!(taken, tensix.y.into(), "{board:?}"),
                DispatchCores::Slow => assert_eq!(taken, 0, "{board:?}"),
                DispatchCores::Ethernet => {}
            }
        }
    }
}

#[test]
fn the_default_dispatch_is_one_the_board_can_do() {
    for board in BoardKind::ALL {
        assert!(
            board.compute_grid(board.default_dispatch()).is_some(),
            "{board:?}"
        );
    }
    let defaults = BoardKind::ALL.map(BoardKind::default_dispatch);
    use DispatchCores::{Ethernet, TensixColumn, TensixRow};
    assert_eq!(
        defaults,
        [
            TensixRow,
            Ethernet,
            Ethernet,
            TensixRow,
            TensixColumn,
            TensixColumn,
            TensixColumn,
            TensixColumn,
        ]
    );
}

#[test]
fn remote_chips_hang_on_the_local_chip_of_their_card() {
    let remote = |gateway| ChipAttachment::Remote { gateway };
    let local = ChipAttachment::Local;
    let attachments = |board: BoardKind| {
        board
            .chips()
            .map(|chip| chip.attachment)
            .collect::<Vec<_>>()
    };
    assert_eq!(attachments(BoardKind::N300), [local, remote(0)]);
    assert_eq!(
        attachments(BoardKind::T3000),
        [
            local,
            local,
            local,
            local,
            remote(0),
            remote(1),
            remote(2),
            remote(3)
        ]
    );
    for board in [
        BoardKind::P300,
        BoardKind::GalaxyWormhole,
        BoardKind::GalaxyBlackhole,
    ] {
        assert!(
            attachments(board)
                .iter()
                .all(|attachment| *attachment == local)
        );
    }
}

#[test]
fn chips_are_numbered_from_zero_and_end() {
    for board in BoardKind::ALL {
        let ids: Vec<u32> = board.chips().map(|chip| chip.logical_id).collect();
        assert_eq!(
            ids,
            (0..board.chip_count()).collect::<Vec<_>>(),
            "{board:?}"
        );
        assert_eq!(board.chip(board.chip_count()), None, "{board:?}");
        assert_eq!(board.chip(u32::MAX), None, "{board:?}");
    }
    assert_eq!(BoardKind::T3000.chip(5).unwrap().board_type, "n300");
    assert_eq!(
        BoardKind::GalaxyWormhole.chip(31).unwrap().board_type,
        "ubb"
    );
}

#[test]
fn the_memory_map_is_that_of_the_architecture() {
    for board in BoardKind::ALL {
        assert_eq!(
            board.arch().memory_map(),
            Some(board.memory_map()),
            "{board:?}"
        );
    }
}

#[test]
fn usual_spellings_are_understood() {
    use BoardKind as B;
    for (spelling, board) in [
        ("N150", B::N150),
        (" n300\n", B::N300),
        ("T3K", B::T3000),
        ("t3000", B::T3000),
        ("Galaxy", B::GalaxyWormhole),
        ("6U", B::GalaxyWormhole),
        ("galaxy_wormhole", B::GalaxyWormhole),
        ("tt-galaxy-wh", B::GalaxyWormhole),
        ("UBB", B::GalaxyWormhole),
        ("p100a", B::P100),
        ("p150A", B::P150),
        ("p150b", B::P150),
        ("p150c", B::P150),
        ("P300c", B::P300),
        ("galaxy-blackhole", B::GalaxyBlackhole),
        ("BH Galaxy", B::GalaxyBlackhole),
        ("ubb_blackhole", B::GalaxyBlackhole),
    ] {
        assert_eq!(BoardKind::from_name(spelling), Some(board), "{spelling}");
    }
}

#[test]
fn no_spelling_names_two_boards() {
    let mut seen = HashSet::new();
    for row in BoardKind::ALL.map(BoardKind::row) {
        for spelling in row.aliases.iter().chain([&row.name]) {
            assert!(seen.insert(*spelling), "{spelling}");
        }
    }
}

#[test]
fn names_round_trip() {
    for board in BoardKind::ALL {
        assert_eq!(BoardKind::from_name(board.name()), Some(board));
    }
}

#[test]
fn other_names_are_no_board() {
    let long = "x".repeat(100_000);
    let names = [
        "tg",
        "p400",
        "",
        "  ",
        "n1500",
        "a b",
        "\u{1b}[31mn150",
        "é",
        &long,
    ];
    for name in names {
        assert_eq!(BoardKind::from_name(name), None, "{name}");
    }
}
