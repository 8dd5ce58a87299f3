//! The figures the project set out to show, to the byte.

use crate::world::{Board, World};
use ttmem_event::{CoreSet, CoreType, KernelKind};
use ttmem_ledger::{EffectKind, Totals};

const FABRIC: (KernelKind, CoreType) = (KernelKind::Fabric, CoreType::ActiveEth);
const DISPATCH: (KernelKind, CoreType) = (KernelKind::Dispatch, CoreType::Tensix);
const APPLICATION: (KernelKind, CoreType) = (KernelKind::Application, CoreType::Tensix);

fn by_kind(totals: &Totals, kind: KernelKind) -> u64 {
    totals.kernel.by_kind[kind as usize]
}

#[test]
fn a_fabric_kernel_of_57344_bytes_on_16_ethernet_cores_is_917504_bytes() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(16, 1))
        .kernel(1, 10, FABRIC, 57_344, 1);
    let totals = world.totals(0);
    assert_eq!(totals.kernel.registered.bytes(), 917_504);
    assert_eq!(by_kind(&totals, KernelKind::Fabric), 917_504);
    let ethernet = totals.kernel.by_core_type[CoreType::ActiveEth as usize];
    assert_eq!(ethernet, 917_504);
    let booked = world.effects.iter().find_map(|effect| match effect.kind {
        EffectKind::KernelBooked {
            binary_bytes,
            cores,
            bytes,
            ..
        } => Some((binary_bytes, cores, bytes)),
        _other => None,
    });
    assert_eq!(booked, Some((Some(57_344), Some(16), 917_504)));
}

#[test]
fn a_dispatch_kernel_of_47104_bytes_on_2_cores_is_94208_bytes() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(2, 1))
        .kernel(1, 11, DISPATCH, 47_104, 1);
    assert_eq!(by_kind(&world.totals(0), KernelKind::Dispatch), 94_208);
}

#[test]
fn fabric_and_dispatch_together_are_988_kib_on_every_device_of_a_mesh() {
    let mut world = World::new();
    let model = world.process("model");
    let mut says = world.by(model);
    for device in 0..4 {
        says.device(device, Some(u64::from(device)), &Board::N150);
    }
    says.mesh(0, &[0, 1, 2, 3], &Board::N150)
        .cores(1, CoreSet::grid(16, 1))
        .cores(2, CoreSet::grid(2, 1))
        .kernel(1, 10, FABRIC, 57_344, 1)
        .kernel(2, 11, DISPATCH, 47_104, 2);
    for device in 0..4 {
        assert_eq!(world.kernel_bytes(device), 988 * 1024);
    }
}

#[test]
fn an_application_kernel_of_102400_bytes_on_80_cores_is_8192000_bytes() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 10))
        .kernel(1, 12, APPLICATION, 102_400, 1);
    assert_eq!(
        by_kind(&world.totals(0), KernelKind::Application),
        8_192_000
    );
}

#[test]
fn the_old_protocol_books_the_same_figures_by_kind() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_kernel(0, KernelKind::Fabric, 0xF0, 917_504)
        .old_kernel(0, KernelKind::Dispatch, 0xD0, 94_208)
        .old_kernel(0, KernelKind::Application, 0xA0, 8_192_000);
    let totals = world.totals(0);
    assert_eq!(by_kind(&totals, KernelKind::Fabric), 917_504);
    assert_eq!(by_kind(&totals, KernelKind::Dispatch), 94_208);
    assert_eq!(by_kind(&totals, KernelKind::Application), 8_192_000);
    assert_eq!(totals.kernel.registered.bytes(), 988 * 1024 + 8_192_000);
}

#[test]
fn all_four_devices_of_a_mesh_show_their_cbs() {
    let mut world = World::new();
    let model = world.process("model");
    let mut says = world.by(model);
    for device in 0..4 {
        says.device(device, Some(u64::from(device)), &Board::N150);
    }
    says.mesh(0, &[0, 1, 2, 3], &Board::N150)
        .cores(1, CoreSet::grid(8, 8))
        .cb(1, 0, 105_824, 4096, 1)
        .cb(1, 1, 109_920, 2048, 1);
    for device in 0..4 {
        assert_eq!(world.cb_bytes(device), (4096 + 2048) * 64);
    }
    world.by(model).destroy(1);
    for device in 0..4 {
        assert_eq!(world.cb_bytes(device), 0);
    }
}

#[test]
fn all_four_devices_of_an_old_sender_show_their_cbs() {
    let mut world = World::new();
    let old = world.old_sender("old");
    for device in 0..4 {
        world.by(old).old_cb(device, 105_824, 262_144);
    }
    for device in 0..4 {
        assert_eq!(world.cb_bytes(device), 262_144);
    }
}

#[test]
fn a_cb_freed_without_a_size_leaves_0() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_cb(0, 105_824, 262_144)
        .old_cb_free(0, 105_824, 0);
    assert_eq!(world.cb_bytes(0), 0);
    assert_eq!(world.totals(0).cb.count, 0);
    assert_eq!(world.all_anomalies(), 0);
}

#[test]
fn a_cached_dispatch_adds_no_memory() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .create(1)
        .cb(1, 0, 105_824, 4096, 1)
        .kernel(1, 12, APPLICATION, 20_000, 1)
        .dispatch(1);
    let first = (world.cb_bytes(0), world.kernel_bytes(0), world.geometry(0));
    for _run in 0..100 {
        world.by(model).dispatch(1);
    }
    let again = (world.cb_bytes(0), world.kernel_bytes(0), world.geometry(0));
    assert_eq!(first, again);
    let view = world.view();
    assert_eq!(view.devices[0].caches.dispatches, 101);
    assert_eq!(view.devices[0].caches.binary_reuses, 101);
}

#[test]
fn a_repeated_load_of_an_old_sender_is_a_dispatch_and_adds_no_memory() {
    let mut world = World::new();
    let old = world.old_sender("old");
    for _run in 0..100 {
        world
            .by(old)
            .old_kernel(0, KernelKind::Application, 0xA0, 8_192_000);
    }
    assert_eq!(world.kernel_bytes(0), 8_192_000);
    assert_eq!(world.view().devices[0].caches.dispatches, 100);
    assert_eq!(world.all_anomalies(), 0);
}

#[test]
fn a_kernel_of_n_programs_counts_once_in_unique_and_n_times_in_registered() {
    let (mut world, model) = World::n150();
    world.by(model).cores(1, CoreSet::grid(8, 8));
    for program in 1..=5 {
        world
            .by(model)
            .kernel(program, 12, APPLICATION, 1000, 1)
            .kernel(program, 100 + program, APPLICATION, 10, 1);
    }
    let kernel = world.totals(0).kernel;
    assert_eq!(kernel.registered.bytes(), 5 * 64_000 + 5 * 640);
    assert_eq!(kernel.unique_bytes, 64_000 + 5 * 640);
    for program in 1..=4 {
        world.by(model).destroy(program);
    }
    let kernel = world.totals(0).kernel;
    assert_eq!(kernel.registered.bytes(), 64_640);
    assert_eq!(kernel.unique_bytes, 64_640);
}
