//! "Per-Core Kernel Tracking".

use crate::rig::{MATMUL_TEXT, Rig, add_reader, count, ethernet, grid};
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{CacheResult, CoreSet, CoreType, EventKind, KernelKind};
use ttmem_model::program::KernelSpec;
use ttmem_model::runtime::{FailureKind, RuntimeOptions};

#[test]
fn usage_is_the_bytes_on_a_core_times_the_cores() {
    for mut rig in Rig::on_both_paths() {
        let before = rig.account.kernel_bytes(0);
        for (columns, rows) in [(1, 1), (2, 1), (8, 8)] {
            let cores = grid(columns, rows);
            let workload = rig.one_kernel("kernel", &cores, 5_000);
            rig.run(workload);
            let count = u64::from(columns) * u64::from(rows);
            assert_eq!(rig.account.kernel_bytes(0) - before, 5_000 * count);
            rig.destroy(workload);
        }
    }
}

#[test]
fn the_fabric_on_16_ethernet_cores_is_896_kib_on_every_device() {
    let mut rig = Rig::dp_4();
    for chip in 0..4 {
        let fabric = rig.account.kernel_bytes_of(chip, KernelKind::Fabric);
        assert_eq!(fabric, 57_344 * 16);
        assert_eq!(fabric, 896 * 1024);
        let kernel = rig.account.totals(chip).kernel;
        assert_eq!(kernel.by_core_type[CoreType::ActiveEth as usize], fabric);
    }
}

#[test]
fn dispatch_on_2_cores_is_92_kib_on_every_device() {
    let mut rig = Rig::dp_4();
    for chip in 0..4 {
        let dispatch = rig.account.kernel_bytes_of(chip, KernelKind::Dispatch);
        assert_eq!(dispatch, 46 * 1024 * 2);
    }
    let facts = rig.account.facts();
    let program = &rig.account.programs("dispatch")[0];
    let mut cores = CoreSet::default();
    for kernel in program.on[0].kernels() {
        let on = facts.definitions.cores(kernel.cores_id);
        cores.insert_all(on.expect("the model tells them"));
    }
    assert_eq!(cores.len(), 2);
}

#[test]
fn fabric_and_dispatch_together_are_988_kib_on_every_device() {
    let mut rig = Rig::dp_4();
    for chip in 0..4 {
        assert_eq!(rig.account.kernel_bytes(chip), 988 * 1024);
    }
}

#[test]
fn an_unload_gives_back_the_total_that_was_booked() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let system = rig.account.kernel_bytes(2);
        let kept = rig.one_kernel("kept", &grid(4, 4), 1_000);
        let gone = rig.one_kernel("gone", &grid(8, 8), 5_000);
        rig.run(kept);
        rig.run(gone);
        rig.destroy(gone);
        assert_eq!(rig.account.kernel_bytes(2), system + 16_000);
        rig.destroy(kept);
        assert_eq!(rig.account.kernel_bytes(2), system);
    }
}

#[test]
fn cores_are_summed_over_all_kinds_of_cores() {
    let mut rig = Rig::open(RuntimeOptions::of(BoardKind::N300), 1, 1);
    let before = rig.account.kernel_bytes(0);
    let program = rig.program("all gather", |program| {
        add_reader(program, "reader.cpp", &grid(8, 8), 1_000);
        let links = ethernet(&[8, 9]);
        let sender = KernelSpec::ethernet("sender.cpp", CoreType::ActiveEth, links);
        let added = program.add_kernel(sender.with_text_bytes(1_000));
        added.expect("Ethernet cores have that processor");
    });
    let workload = rig.workload(program);
    rig.run(workload);
    assert_eq!(rig.account.kernel_bytes(0) - before, 1_000 * (64 + 2));
}

#[test]
fn a_kernel_is_counted_once_on_either_path() {
    for mut rig in Rig::dp_4_on_both_paths() {
        let workload = rig.matmul(&grid(8, 8));
        for _run in 0..3 {
            rig.run(workload);
        }
        for chip in 0..4 {
            let bytes = rig.account.kernel_bytes_of(chip, KernelKind::Application);
            assert_eq!(bytes, MATMUL_TEXT * 64);
        }
    }
}

#[test]
fn applications_of_100_kb_on_80_cores_are_8000_kb() {
    // All 80 cores of the chip compute when the host dispatches.
    let mut rig = Rig::open(RuntimeOptions::of(BoardKind::GalaxyWormhole).slow(), 1, 1);
    let cores = grid(8, 10);
    assert_eq!(cores.set().len(), 80);
    // As one program it would not fit the 69 KiB that a core has for configuration and text.
    let whole = rig.one_kernel("whole", &cores, 102_400);
    let refused = rig.try_run(whole, CacheResult::Miss);
    let refused = refused.expect_err("it is too large");
    assert_eq!(refused.kind(), FailureKind::ProgramTooLarge);
    rig.destroy(whole);
    for half in ["first half", "second half"] {
        let workload = rig.one_kernel(half, &cores, 51_200);
        rig.run(workload);
    }
    assert_eq!(rig.account.kernel_bytes(0), 8_000 * 1024);
}

#[test]
fn application_fabric_and_dispatch_kernels_are_counted_alike() {
    let mut rig = Rig::dp_4();
    let workload = rig.matmul(&grid(8, 8));
    rig.run(workload);
    let mut kinds = Vec::new();
    for event in rig.account.news() {
        if let EventKind::KernelLoaded {
            binary_bytes,
            core_count,
            kind,
            ..
        } = event
        {
            assert!(binary_bytes > 0 && core_count > 0, "{event:?}");
            kinds.push(kind);
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            KernelKind::Application,
            KernelKind::Fabric,
            KernelKind::Dispatch
        ]
    );
    let totals = rig.account.totals(0).kernel;
    let by_kind: u64 = totals.by_kind.iter().sum();
    assert_eq!(by_kind, totals.registered.bytes());
}

#[test]
fn the_bytes_on_a_core_are_its_text_and_not_the_dram_buffer() {
    let mut rig = Rig::n150();
    let workload = rig.one_kernel("small", &grid(8, 8), 100);
    rig.run(workload);
    let program = rig.account.programs("small")[0].clone();
    let kernel = program.on[0].kernels()[0];
    assert_eq!(kernel.binary_bytes, Some(100));
    assert_eq!(kernel.total_bytes, 6_400);
    // The copy in DRAM is padded to a page.
    let sizes = program.finalized.expect("it ran");
    assert_eq!(sizes.binary_bytes, 2_048);
    assert_eq!(count(&rig.account.news(), "KernelLoaded"), 0);
}
