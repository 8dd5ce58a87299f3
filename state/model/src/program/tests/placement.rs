//! Where storage lies.

use super::*;
use proptest::prelude::*;
use ttmem_event::CbKind;

const WH: u64 = 105_824;

#[test]
fn the_buffers_of_an_addition_lie_where_ttnn_puts_them() {
    for (map, grid, expected) in [
        (wormhole(), cores(0, 0, 7, 7), [105_824, 109_920, 114_016]),
        (blackhole(), cores(0, 0, 10, 9), [111_744, 115_840, 119_936]),
    ] {
        let mut program = Program::new(ProgramId(1), "add", map);
        for index in [0, 1, 2] {
            let spec = CbSpec::local(index, grid.clone(), 4096, 2048);
            assert_eq!(program.add_cb(spec), Ok(u32::from(index)));
        }
        assert_eq!(addresses(&mut program), expected);
        let placed = program.storage();
        assert!(placed.iter().all(|s| s.cores == grid && s.size == 4096));
        assert!(placed.iter().all(|s| s.kind == CbKind::Local));
        assert_eq!(
            placed.iter().map(|s| s.number).collect::<Vec<_>>(),
            [0, 1, 2]
        );
    }
}

#[test]
fn addresses_are_aligned_as_dram_is() {
    for (map, second) in [(wormhole(), 105_824 + 128), (blackhole(), 111_744 + 128)] {
        let mut program = Program::new(ProgramId(1), "", map);
        program.add_cb(cb(0, cores(0, 0, 0, 0), 100)).unwrap();
        program.add_cb(cb(1, cores(0, 0, 0, 0), 100)).unwrap();
        assert_eq!(addresses(&mut program)[1], second);
    }
}

#[test]
fn disjoint_ranges_do_not_move_each_other() {
    let mut program = program();
    program.add_cb(cb(0, cores(0, 0, 3, 7), 4096)).unwrap();
    program.add_cb(cb(0, cores(4, 0, 7, 7), 8192)).unwrap();
    program.add_cb(cb(1, cores(0, 0, 3, 7), 64)).unwrap();
    program.add_cb(cb(1, cores(4, 0, 7, 7), 64)).unwrap();
    assert_eq!(addresses(&mut program), [WH, WH, WH + 4096, WH + 8192]);
}

#[test]
fn a_buffer_on_two_ranges_lies_above_both_and_leaves_a_gap() {
    let both = CoreRanges::from_ranges([range(0, 0, 1, 0), range(4, 0, 5, 0)]).unwrap();
    let mut program = program();
    program.add_cb(cb(0, cores(0, 0, 1, 0), 4096)).unwrap();
    program.add_cb(cb(0, cores(4, 0, 5, 0), 1024)).unwrap();
    program.add_cb(cb(1, both, 2048)).unwrap();
    program.add_cb(cb(2, cores(4, 0, 5, 0), 32)).unwrap();
    // On the right, the bytes from 1024 to 4096 stay empty: storage is only ever put on top.
    assert_eq!(
        addresses(&mut program),
        [WH, WH, WH + 4096, WH + 4096 + 2048]
    );
}

#[test]
fn a_range_inside_another_counts_for_it_in_either_order() {
    let (whole, part) = (cores(0, 0, 7, 7), cores(2, 2, 3, 3));
    for order in [[&whole, &part, &whole], [&part, &whole, &part]] {
        let mut program = program();
        for (index, cores) in (0..).zip(order) {
            program.add_cb(cb(index, cores.clone(), 1024)).unwrap();
        }
        assert_eq!(addresses(&mut program), [WH, WH + 1024, WH + 2048]);
    }
}

#[test]
fn partly_overlapping_ranges_stack_on_the_cores_they_share() {
    let mut program = program();
    program.add_cb(cb(0, cores(0, 0, 3, 0), 4096)).unwrap();
    program.add_cb(cb(1, cores(2, 0, 5, 0), 1024)).unwrap();
    program.add_cb(cb(2, cores(0, 0, 3, 0), 64)).unwrap();
    // The third does not go back below the second, although cores 0 and 1 have room there.
    assert_eq!(addresses(&mut program), [WH, WH + 4096, WH + 5120]);
}

#[test]
fn a_neighbour_raised_by_one_side_is_not_raised_by_the_other() {
    // The middle range meets both outer ones, which do not meet each other. The runtime skips a
    // neighbour that is already above the new buffer's start, even if not above its end: the
    // middle buffer lies on top of the left one, and inside the larger right one.
    let mut program = program();
    program.add_cb(cb(0, cores(0, 0, 3, 0), 1024)).unwrap();
    program.add_cb(cb(1, cores(4, 0, 7, 0), 4096)).unwrap();
    program.add_cb(cb(2, cores(2, 0, 5, 0), 32)).unwrap();
    assert_eq!(addresses(&mut program), [WH, WH, WH + 1024]);
}

#[test]
fn dataflow_buffers_of_a_matmul_follow_one_another() {
    let mut program = program();
    for size in [65_536, 65_536, 32_768, 32_768] {
        let spec = storage(StorageKind::Dataflow, cores(0, 0, 7, 7), size);
        program.add_storage(spec).unwrap();
    }
    assert_eq!(
        addresses(&mut program),
        [105_824, 171_360, 236_896, 269_664]
    );
    assert!(program.storage().iter().all(|s| s.kind == CbKind::Dataflow));
}

#[test]
fn scratchpads_lie_above_dataflow_buffers_on_every_core_they_meet() {
    let mut program = program();
    let add = |program: &mut Program, kind, cores, size| {
        program.add_storage(storage(kind, cores, size)).unwrap()
    };
    add(&mut program, StorageKind::Scratchpad, cores(3, 0, 4, 0), 64);
    add(&mut program, StorageKind::Dataflow, cores(0, 0, 3, 0), 1024);
    add(&mut program, StorageKind::Dataflow, cores(4, 0, 7, 0), 4096);
    let borrowed = StorageKind::DataflowBorrowed { address: 1_000_000 };
    add(&mut program, borrowed, cores(0, 0, 7, 0), 512);
    assert_eq!(
        addresses(&mut program),
        [WH + 4096, WH, WH, 1_000_000],
        "in the order of adding, not of placing"
    );
    let kinds = program.storage().into_iter().map(|s| s.kind);
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [
            CbKind::Scratchpad,
            CbKind::Dataflow,
            CbKind::Dataflow,
            CbKind::DataflowBorrowed
        ]
    );
}

#[test]
fn global_buffers_keep_their_address_and_move_no_local_ones() {
    let inside = CbPlace::Global {
        address: 1_400_000,
        bank_bytes: 65_536,
    };
    let remote = CbPlace::Remote {
        address: 1_300_000,
        bank_bytes: 65_536,
    };
    let mut program = program();
    let grid = cores(0, 0, 7, 7);
    program.add_cb(cb(0, grid.clone(), 4096)).unwrap();
    program
        .add_cb(global(1, grid.clone(), 65_536, inside))
        .unwrap();
    program
        .add_cb(global(31, cores(0, 0, 3, 3), 1024, remote))
        .unwrap();
    program.add_cb(cb(2, grid, 4096)).unwrap();
    assert_eq!(
        addresses(&mut program),
        [WH, 1_400_000, 1_300_000, WH + 4096]
    );
    assert_eq!(program.storage()[1].kind, CbKind::Global);
    assert_eq!(program.storage()[2].kind, CbKind::Global);
    // Nor do they count as storage that could clash.
    let grid = Grid::new(8, 8);
    assert_eq!(
        program.check_region(1_499_136, Some(WH + 8192), grid),
        Ok(())
    );
}

#[test]
fn a_program_with_global_buffers_only_never_has_a_layout() {
    let place = CbPlace::Global {
        address: 1_400_000,
        bank_bytes: 4096,
    };
    let mut program = program();
    assert!(!program.has_storage());
    program
        .add_cb(global(0, cores(0, 0, 7, 7), 4096, place))
        .unwrap();
    assert_eq!(program.place_storage(WH), Ok(false));
    assert_eq!(program.storage()[0].address, 1_400_000);
    assert!(program.has_storage());
    program.update_cb_size(0, 2048).unwrap_err();
    program.update_cb_address(0, 1_390_000, 8192).unwrap();
    assert_eq!(program.place_storage(WH), Ok(false));
    assert_eq!(program.storage()[0].address, 1_390_000);
}

#[test]
fn the_layout_is_computed_once_and_again_after_a_local_buffer_changed() {
    let mut program = program();
    let grid = cores(0, 0, 7, 7);
    let place = CbPlace::Global {
        address: 1_400_000,
        bank_bytes: 8192,
    };
    program
        .add_cb(CbSpec::local(0, grid.clone(), 4096, 2048))
        .unwrap();
    program
        .add_cb(CbSpec::local(1, grid.clone(), 4096, 2048))
        .unwrap();
    program
        .add_cb(CbSpec {
            place,
            ..CbSpec::local(2, grid, 4096, 2048)
        })
        .unwrap();
    assert_eq!(
        program.storage().len(),
        1,
        "only the global one has an address yet"
    );
    program.compile();
    assert_eq!(addresses(&mut program), [WH, WH + 4096, 1_400_000]);
    assert_eq!(program.place_storage(WH), Ok(false));

    program.update_cb_size(2, 8192).unwrap();
    assert_eq!(program.place_storage(WH), Ok(false), "a global one changed");
    program.update_cb_size(0, 8192).unwrap();
    assert_eq!(
        program.storage()[1].address,
        WH + 4096,
        "not placed again yet"
    );
    assert_eq!(addresses(&mut program), [WH, WH + 8192, 1_400_000]);
    let sizes = program.storage().into_iter().map(|s| s.size);
    assert_eq!(sizes.collect::<Vec<_>>(), [8192, 4096, 8192]);
}

#[test]
fn a_program_without_storage_has_nothing_to_place() {
    let mut program = program();
    assert_eq!(program.place_storage(WH), Ok(false));
    assert_eq!(program.storage(), []);
    assert_eq!(program.check_region(0, Some(0), Grid::new(0, 0)), Ok(()));
}

fn any_cores() -> impl Strategy<Value = CoreRanges> {
    let corner = (0_u16..6, 0_u16..6, 0_u16..3, 0_u16..3);
    let range = corner.prop_map(|(x, y, w, h)| range(x, y, x + w, y + h));
    proptest::collection::vec(range, 1..3)
        .prop_map(|ranges| CoreRanges::from_ranges(ranges).unwrap())
}

proptest! {
    #[test]
    fn whatever_is_asked_for_is_placed_in_order_on_its_own_ranges(
        specs in proptest::collection::vec((any_cores(), 0_u64..9000), 1..12)
    ) {
        let mut program = program();
        for (index, (cores, size)) in (0..).zip(&specs) {
            let spec = CbSpec::local(index, cores.clone(), *size, 1);
            program.add_cb(spec).unwrap();
        }
        prop_assert_eq!(program.place_storage(WH), Ok(true));
        let placed = program.storage();
        prop_assert_eq!(placed.len(), specs.len());
        for (number, later) in placed.iter().enumerate() {
            prop_assert!(later.address >= WH && later.address.is_multiple_of(32));
            for earlier in &placed[..number] {
                if later.cores.iter().any(|range| earlier.cores.iter().any(|r| r == range)) {
                    prop_assert!(later.address >= earlier.address + earlier.size);
                }
            }
        }
    }
}
