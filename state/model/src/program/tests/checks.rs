//! Storage that does not fit, and the texts of it.

use super::*;
use ttmem_event::ClashKind;

const GRID: Grid = Grid::new(8, 8);
const L1: u64 = 1_499_136;

fn placed(specs: impl IntoIterator<Item = CbSpec>) -> Program {
    let mut program = program();
    for spec in specs {
        program.add_cb(spec).unwrap();
    }
    addresses(&mut program);
    program
}

#[test]
fn circular_buffers_that_meet_an_l1_buffer() {
    let program = placed([cb(0, cores(0, 0, 7, 7), 4096)]);
    assert_eq!(program.check_region(L1, None, GRID), Ok(()));
    assert_eq!(program.check_region(L1, Some(109_920), GRID), Ok(()));
    let clash = program.check_region(L1, Some(109_919), GRID).unwrap_err();
    assert_eq!(
        clash.to_string(),
        "Statically allocated circular buffers in program 7 clash with L1 buffers on core range \
         [0-0 - 7-7]. L1 buffer allocated at 109919 and static circular buffer region \
         ends at 109920"
    );
    let tracked = (ClashKind::L1Buffer, range(0, 0, 7, 7), 109_920, 109_919);
    assert_eq!(clash.clash(), Some(tracked));
}

#[test]
fn circular_buffers_that_outgrow_l1() {
    let room = L1 - 105_824;
    let fits = placed([cb(0, cores(1, 2, 3, 4), room)]);
    assert_eq!(fits.check_region(L1, None, GRID), Ok(()));
    let program = placed([cb(0, cores(1, 2, 3, 4), room + 1)]);
    let beyond = program.check_region(L1, Some(0), GRID).unwrap_err();
    assert_eq!(
        beyond.to_string(),
        "Statically allocated circular buffers on core range [1-2 - 3-4] grow to \
         1499137 B which is beyond max L1 size of 1499136 B"
    );
    let tracked = (ClashKind::BeyondL1, range(1, 2, 3, 4), L1 + 1, L1);
    assert_eq!(beyond.clash(), Some(tracked));
}

#[test]
fn circular_buffers_outside_the_compute_grid() {
    let program = placed([cb(0, cores(0, 0, 7, 7), 64), cb(1, cores(0, 8, 7, 8), 4096)]);
    assert_eq!(program.check_region(L1, None, Grid::new(8, 9)), Ok(()));
    let outside = program.check_region(L1, None, GRID).unwrap_err();
    assert_eq!(
        outside.to_string(),
        "Circular buffer core range [0-8 - 7-8] in program 7 exceeds device compute \
         grid (8x8) and is not entirely on cores claimed via ServiceCoreManager"
    );
    let tracked = (ClashKind::OutsideGrid, range(0, 8, 7, 8), 109_920, L1);
    assert_eq!(outside.clash(), Some(tracked));
}

#[test]
fn dataflow_buffers_have_the_same_texts_with_their_own_name() {
    let mut program = program();
    let spec = storage(StorageKind::Dataflow, cores(0, 0, 7, 7), 65_536);
    program.add_storage(spec).unwrap();
    addresses(&mut program);
    assert_eq!(
        text(program.check_region(L1, Some(150_000), GRID)),
        "Statically allocated dataflow buffers in program 7 clash with L1 buffers on core range \
         [0-0 - 7-7]. L1 buffer allocated at 150000 and static dataflow buffer region \
         ends at 171360"
    );
    assert_eq!(
        text(program.check_region(150_000, None, GRID)),
        "Statically allocated dataflow buffers on core range [0-0 - 7-7] grow to \
         171360 B which is beyond max L1 size of 150000 B"
    );
}

#[test]
fn every_range_is_checked_not_only_the_first() {
    let program = placed([cb(0, cores(0, 0, 3, 7), 64), cb(0, cores(4, 0, 7, 7), 8192)]);
    let clash = program.check_region(L1, Some(110_000), GRID).unwrap_err();
    let tracked = (ClashKind::L1Buffer, range(4, 0, 7, 7), 114_016, 110_000);
    assert_eq!(clash.clash(), Some(tracked));
}

#[test]
fn after_a_buffer_shrank_and_was_placed_again_the_clash_is_gone() {
    let mut program = program();
    let spec = CbSpec::local(0, cores(0, 0, 7, 7), 8192, 2048);
    program.add_cb(spec).unwrap();
    addresses(&mut program);
    assert!(program.check_region(L1, Some(110_000), GRID).is_err());
    program.update_cb_size(0, 4096).unwrap();
    addresses(&mut program);
    assert_eq!(program.check_region(L1, Some(110_000), GRID), Ok(()));
}

#[test]
fn other_refusals_are_no_clash() {
    assert_eq!(ProgramError::DataflowBesideCb.clash(), None);
}
