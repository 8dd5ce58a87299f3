//! Fabric and dispatch: on their own cores, from the opening of a device to its closing.

use crate::account::Account;
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{CoreType, KernelKind};
use ttmem_model::runtime::RuntimeOptions;

#[test]
fn every_board_opens_all_its_chips_and_leaves_nothing_behind() {
    for board in BoardKind::ALL {
        let mut account = Account::new();
        let mut runtime = account.runtime(RuntimeOptions::of(board));
        let (rows, columns) = ttmem_model::board::whole_mesh(board);
        let mesh = runtime
            .open_mesh(rows, columns)
            .expect("the whole board is a mesh");
        assert_eq!(
            runtime.mesh_chips(mesh),
            ttmem_model::board::mesh_order(board)
        );
        for chip in 0..board.chip_count() {
            assert!(
                account.kernel_bytes_of(chip, KernelKind::Dispatch) > 0,
                "{board:?}"
            );
            assert_eq!(account.kernel_bytes_of(chip, KernelKind::Application), 0);
        }
        runtime.close();
        account.assert_nothing_left();
    }
}

#[test]
fn under_slow_dispatch_nothing_runs_before_the_user_does() {
    let mut account = Account::new();
    let mut runtime = account.runtime(RuntimeOptions::of(BoardKind::N150).slow());
    runtime.open_mesh(1, 1).expect("one chip");
    assert_eq!(account.kernel_bytes(0), 0);
    assert!(account.facts().config_rings.is_empty());
    assert_eq!(runtime.grid().to_string(), "8x9");
}

#[test]
fn a_t3000_dispatches_on_idle_ethernet_cores_and_its_gateways_forward() {
    let mut account = Account::new();
    let mut runtime = account.runtime(RuntimeOptions::of(BoardKind::T3000));
    runtime.open_mesh(2, 4).expect("the whole machine");
    let on = |account: &mut Account, chip, core_type: CoreType| {
        account.totals(chip).kernel.by_core_type[core_type as usize]
    };
    // Chips 0 to 3 are on PCIe and forward for 4 to 7.
    assert_eq!(on(&mut account, 0, CoreType::Tensix), 0);
    assert!(on(&mut account, 0, CoreType::IdleEth) > on(&mut account, 4, CoreType::IdleEth));
    // Routers run on the channels with a link: six on the inner chips, four on the outer.
    assert_eq!(on(&mut account, 0, CoreType::ActiveEth), 57_344 * 6);
    assert_eq!(on(&mut account, 4, CoreType::ActiveEth), 57_344 * 4);
}
