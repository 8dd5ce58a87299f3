//! Buffers over a mesh, and meshes over other meshes.

use crate::rig::{MATMUL_CBS, MATMUL_TEXT, Rig, TILE, count, fill_matmul, grid};
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{Class, CoreType, KernelKind};
use ttmem_model::buffer::BufferSpec;
use ttmem_model::runtime::{DeviceRange, RuntimeOptions};

#[test]
fn a_mesh_buffer_is_one_allocation_at_one_address_on_every_chip() {
    let mut rig = Rig::open(RuntimeOptions::of(BoardKind::T3000), 2, 4);
    let dram = rig.interleaved(Class::Dram, 24);
    let l1 = rig.sharded(&grid(8, 8), 4 * TILE);
    assert_eq!(rig.runtime.counts().allocations, 2);
    let rows = rig.account.buffers();
    let addresses: Vec<u64> = rows.iter().map(|row| row.address).collect();
    assert_eq!(addresses, [rig.address(dram), rig.address(l1)]);
    for chip in 0..8 {
        assert_eq!(rig.account.charged(chip, Class::Dram), 24 * TILE);
        assert_eq!(rig.account.charged(chip, Class::L1), 4 * TILE * 64);
    }
}

#[test]
fn a_sub_mesh_and_its_parent_hand_out_the_same_addresses() {
    let mut rig = Rig::open(RuntimeOptions::of(BoardKind::N300), 1, 2);
    let child = rig.runtime.create_submesh(rig.mesh, 1, 1, (0, 1));
    let child = child.expect("it lies in the parent");
    let spec = BufferSpec::interleaved(Class::Dram, 12 * TILE, TILE);
    let of_parent = rig.try_allocate(&spec).expect("there is room");
    let of_child = rig.runtime.allocate(child, &spec, "ttnn.zeros");
    let of_child = of_child.expect("there is room");
    assert_eq!(rig.address(of_parent), rig.address(of_child));
    let dram = |rig: &mut Rig, chip| rig.account.geometry(chip).classes[Class::Dram.index()];
    // The chip of both holds twice what it has room for there, and the account says so.
    let (alone, shared) = (dram(&mut rig, 0), dram(&mut rig, 1));
    assert_eq!((alone.union_bytes, alone.overlap_bytes), (12 * TILE, 0));
    assert_eq!(
        (shared.union_bytes, shared.overlap_bytes),
        (12 * TILE, 12 * TILE)
    );
    assert_eq!(rig.account.charged(1, Class::Dram), 24 * TILE);
}

#[test]
fn closing_a_parent_closes_its_sub_meshes_and_then_the_chips() {
    let mut rig = Rig::open(RuntimeOptions::of(BoardKind::T3000), 2, 4);
    for column in 0..4 {
        let child = rig.runtime.create_submesh(rig.mesh, 2, 1, (0, column));
        let child = child.expect("it lies in the parent");
        assert_eq!(rig.runtime.mesh_devices(child), 2);
    }
    assert_eq!(rig.runtime.open_meshes().len(), 5);
    rig.account.news();
    rig.runtime.close_mesh(rig.mesh).expect("it is open");
    assert!(rig.runtime.open_meshes().is_empty());
    let events = rig.account.news();
    assert_eq!(count(&events, "MeshClosed"), 5);
    assert_eq!(count(&events, "DeviceClosed"), 8);
    let last_mesh = events
        .iter()
        .rposition(|event| event.name() == "MeshClosed");
    let first_chip = events
        .iter()
        .position(|event| event.name() == "DeviceClosed");
    assert!(last_mesh < first_chip);
    rig.account.assert_nothing_left();
}

#[test]
fn a_sub_mesh_that_leaves_its_parent_is_refused() {
    let mut rig = Rig::open(RuntimeOptions::of(BoardKind::N300), 1, 2);
    let refused = rig.runtime.create_submesh(rig.mesh, 1, 2, (0, 1));
    let text = refused.expect_err("it leaves the parent").to_string();
    assert_eq!(text, "a mesh of 1x2 at (0, 1) does not fit a mesh of 1x2");
    assert_eq!(rig.runtime.open_meshes(), [rig.mesh]);
}

#[test]
fn data_parallel_sub_meshes_run_each_on_its_own_chip_and_ring() {
    let mut rig = Rig::dp_4();
    let replicas = [0, 1, 2, 3].map(|column| {
        let replica = rig.runtime.create_submesh(rig.mesh, 1, 1, (0, column));
        replica.expect("it lies in the parent")
    });
    for (runs, replica) in (1..).zip(replicas) {
        let program = rig.program("replica", |program| fill_matmul(program, &grid(8, 8)));
        let programs = vec![(DeviceRange::All, program)];
        let workload = rig.runtime.new_workload(replica, programs);
        let workload = workload.expect("it is the whole mesh");
        for _run in 0..runs {
            rig.run(workload);
        }
    }
    for chip in 0..4 {
        assert_eq!(rig.account.cb_bytes(chip), MATMUL_CBS * 64);
        let application = rig.account.kernel_bytes_of(chip, KernelKind::Application);
        assert_eq!(application, MATMUL_TEXT * 64);
        // Fabric and dispatcher ran before.
        assert_eq!(rig.account.caches(chip).dispatches, 2 + u64::from(chip) + 1);
    }
    let rings = rig.account.facts().config_rings;
    let tensix = rings
        .iter()
        .filter(|((_mesh, _part, core_type), _ring)| *core_type == CoreType::Tensix);
    let reserves: Vec<u64> = tensix.map(|(_key, ring)| ring.reserves).collect();
    assert_eq!(reserves, [0, 1, 2, 3, 4]);
}
