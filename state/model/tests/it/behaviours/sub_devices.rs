//! Sub-devices: parts of the grid with rings and memory of their own.

use crate::rig::{L1_BASE, Rig, TILE, add_cb, grid};
use ttmem_event::{CacheResult, Class, CoreRange, CoreType};
use ttmem_model::buffer::BufferSpec;
use ttmem_model::program::CoreRanges;
use ttmem_model::runtime::{FailureKind, RuntimeError, SubDevice};

const LOCAL: u64 = 64 * 1024;

fn lower_half() -> CoreRanges {
    CoreRanges::of(CoreRange {
        x_first: 0,
        y_first: 4,
        x_last: 7,
        y_last: 7,
    })
}

/// An n150 in two halves, the first with L1 of its own.
fn halves() -> Rig {
    let mut rig = Rig::n150();
    let parts = [(grid(8, 4), LOCAL), (lower_half(), 0)];
    let parts = parts.map(|(cores, local_l1)| SubDevice { cores, local_l1 });
    let divided = rig.runtime.load_sub_devices(rig.mesh, &parts);
    divided.expect("nothing lies there");
    rig
}

#[test]
fn a_buffer_in_a_sub_devices_own_l1_takes_only_its_cores() {
    let mut rig = halves();
    let spec = BufferSpec::sharded(Class::L1, grid(8, 4).set(), 4 * TILE, TILE);
    let local = rig.runtime.allocate_local(rig.mesh, 0, &spec, "ttnn.zeros");
    let local = local.expect("there is room");
    let end = L1_BASE + LOCAL;
    assert!((L1_BASE..end).contains(&rig.address(local)));
    assert_eq!(rig.account.charged(0, Class::L1), 4 * TILE * 32);
    // The mesh's own allocator has so much less.
    let statistics = rig.runtime.statistics(rig.mesh, Class::L1);
    let statistics = statistics.expect("the mesh is open");
    let whole = rig.runtime.capacities().l1.bytes_per_bank;
    assert_eq!((statistics.total, statistics.allocated), (whole - LOCAL, 0));
    rig.runtime.free(local).expect("it is live");
    assert_eq!(rig.account.charged(0, Class::L1), 0);
    rig.runtime.close();
    rig.account.assert_nothing_left();
}

#[test]
fn a_sub_devices_l1_can_be_full_while_the_mesh_has_room() {
    let mut rig = halves();
    let spec = BufferSpec::sharded(Class::L1, grid(8, 4).set(), LOCAL + TILE, TILE);
    let full = rig.runtime.allocate_local(rig.mesh, 0, &spec, "ttnn.zeros");
    let full = full.expect_err("it is larger than the region");
    assert_eq!(full.kind(), FailureKind::OutOfMemory);
    assert!(full.to_string().contains("but bank size is 65536 B"));
    assert!(rig.try_allocate(&spec).is_ok());
    let elsewhere = rig.runtime.allocate_local(rig.mesh, 1, &spec, "ttnn.zeros");
    assert_eq!(
        elsewhere,
        Err(RuntimeError::Refused(
            "the shards are not on the cores of the sub-device"
        ))
    );
    let spec = BufferSpec::sharded(Class::L1, lower_half().set(), TILE, TILE);
    let none = rig.runtime.allocate_local(rig.mesh, 1, &spec, "ttnn.zeros");
    assert_eq!(
        none,
        Err(RuntimeError::Refused("the sub-device has no L1 of its own"))
    );
}

#[test]
fn each_sub_device_has_a_ring_of_its_own() {
    let mut rig = halves();
    let upper = rig.one_kernel("upper", &grid(8, 4), 1_000);
    let lower = rig.one_kernel("lower", &lower_half(), 2_000);
    rig.run(upper);
    rig.run(lower);
    let facts = rig.account.facts();
    let used = |part: u8| -> Vec<u64> {
        let rings = facts.config_rings.iter();
        rings
            .filter(|((_mesh, sub_device, core_type), _ring)| {
                *sub_device == part && *core_type == CoreType::Tensix
            })
            .map(|(_key, ring)| ring.used_bytes)
            .collect()
    };
    assert_eq!((used(0), used(1)), (vec![1_008], vec![2_000]));
}

#[test]
fn a_program_over_two_sub_devices_is_refused() {
    let mut rig = halves();
    let workload = rig.one_kernel("both", &grid(8, 8), 1_000);
    let refused = rig.try_run(workload, CacheResult::Miss);
    assert_eq!(
        refused.expect_err("it crosses the line").to_string(),
        "Programs must be executed on a single sub-device"
    );
}

#[test]
fn circular_buffers_clash_with_a_sub_devices_buffer_too() {
    let mut rig = halves();
    let spec = BufferSpec::sharded(Class::L1, grid(8, 4).set(), 4 * TILE, TILE);
    let local = rig.runtime.allocate_local(rig.mesh, 0, &spec, "ttnn.zeros");
    let local = local.expect("there is room");
    let tiles = (rig.address(local) - L1_BASE) / TILE + 1;
    let program = rig.program("tall", |program| {
        add_cb(program, 0, &grid(8, 4), tiles * TILE);
    });
    let workload = rig.workload(program);
    let clash = rig.try_run(workload, CacheResult::Miss);
    assert_eq!(clash.expect_err("it meets it").kind(), FailureKind::Clash);
}

#[test]
fn sub_devices_cannot_take_l1_that_is_in_use_nor_leave_the_grid() {
    let mut rig = Rig::n150();
    let room = rig.runtime.capacities().l1.bytes_per_bank / TILE;
    let tensor = rig.sharded(&grid(8, 8), room * TILE);
    let part = |cores, local_l1| [SubDevice { cores, local_l1 }];
    let taken = rig
        .runtime
        .load_sub_devices(rig.mesh, &part(grid(8, 4), LOCAL));
    assert!(taken.is_err());
    rig.runtime.free(tensor).expect("it is live");
    let taken = rig
        .runtime
        .load_sub_devices(rig.mesh, &part(grid(8, 4), LOCAL));
    assert_eq!(taken, Ok(()));
    let outside = rig.runtime.load_sub_devices(rig.mesh, &part(grid(8, 9), 0));
    assert_eq!(
        outside,
        Err(RuntimeError::Refused(
            "a sub-device leaves the compute grid"
        ))
    );
}
