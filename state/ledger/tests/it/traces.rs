//! What the real runtime did, and its allocator's own view after each step.
//!
//! A few steps of a run of ttnn 0.81.1 on an n150: every size and address was
//! chosen by the runtime, and both figures are the allocator's answer.

use crate::world::World;
use ttmem_event::{Class, CoreSet, EventKind, MeshId};

/// One thing the runtime did.
enum Did {
    /// Id, class, address, bytes asked for, bytes taken of every bank.
    Allocate(u64, Class, u64, u64, u64),
    Free(u64),
}

use Did::{Allocate, Free};

/// Taken and largest free block of a bank, as the allocator says.
type Bank = (u64, u64);

/// What was done, and the banks of DRAM and of L1 after it.
struct Step(&'static [Did], Bank, Bank);

const STEPS: &[Step] = &[
    Step(&[], (0, 1_071_988_672), (0, 1_360_544)),
    Step(
        &[Allocate(0, Class::Dram, 1_048_640, 2_097_152, 176_128)],
        (176_128, 1_071_812_544),
        (0, 1_360_544),
    ),
    Step(
        &[Allocate(2, Class::L1, 1_433_600, 2_097_152, 32_768)],
        (176_128, 1_071_812_544),
        (32_768, 1_327_776),
    ),
    // Padded: 368640 B asked for, 12 × 32768 B taken.
    Step(
        &[
            Allocate(4, Class::Dram, 1_224_768, 557_056, 46_784),
            Allocate(6, Class::Dram, 1_271_552, 368_640, 32_768),
            Allocate(8, Class::Dram, 1_304_320, 12_800, 1344),
        ],
        (257_024, 1_071_731_648),
        (32_768, 1_327_776),
    ),
    // Sharded on 16 cores: every one of the 64 banks gives up the bytes.
    Step(
        &[
            Allocate(10, Class::L1, 1_417_216, 262_144, 16_384),
            Allocate(12, Class::L1, 1_400_832, 262_144, 16_384),
            Allocate(14, Class::L1, 1_368_064, 524_288, 32_768),
        ],
        (257_024, 1_071_731_648),
        (98_304, 1_262_240),
    ),
    Step(
        &[
            Allocate(16, Class::Dram, 1_305_664, 2_097_152, 176_128),
            Allocate(18, Class::Dram, 1_481_792, 2_097_152, 176_128),
            Allocate(22, Class::Dram, 1_657_920, 2_097_152, 176_128),
        ],
        (785_408, 1_071_203_264),
        (98_304, 1_262_240),
    ),
    // A hole, then a buffer that fills the start of it.
    Step(&[Free(16)], (609_280, 1_071_203_264), (98_304, 1_262_240)),
    Step(
        &[Allocate(37, Class::Dram, 1_305_664, 131_072, 12_288)],
        (621_568, 1_071_203_264),
        (98_304, 1_262_240),
    ),
    Step(
        &[
            Free(2),
            Free(4),
            Free(6),
            Free(8),
            Free(10),
            Free(12),
            Free(14),
            Free(18),
            Free(22),
            Free(37),
        ],
        (176_128, 1_071_812_544),
        (0, 1_360_544),
    ),
];

#[test]
fn charged_and_largest_free_equal_the_allocators_own_view_after_every_step() {
    let (mut world, model) = World::n150();
    for (step, Step(did, dram, l1)) in STEPS.iter().enumerate() {
        for each in *did {
            match *each {
                Allocate(id, class, address, requested, per_bank) => {
                    world
                        .by(model)
                        .alloc_asking(id, class, address, per_bank, requested);
                }
                Free(id) => {
                    world.by(model).free(id);
                }
            }
        }
        for (class, banks, (taken, largest)) in [(Class::Dram, 12, *dram), (Class::L1, 64, *l1)] {
            let process = world.process_view(model);
            let allocator = process.account.meshes[0].allocators[class.index()];
            assert_eq!(allocator.per_bank_bytes, taken, "step {step} {class:?}");
            assert_eq!(world.charged(0, class), taken * banks);
            let geometry = world.allocator(model, 0, class);
            assert_eq!(
                geometry.largest_free_bytes,
                Some(largest),
                "step {step} {class:?}"
            );
            // The ledger says the same when the runtime itself asks.
            world.by(model).tell(EventKind::StatisticsReported {
                mesh: MeshId(0),
                class,
                allocated_bytes: taken,
                largest_free_bytes: largest,
            });
        }
    }
    assert_eq!(world.all_anomalies(), 0);
    let dram = world.totals(0).class(Class::Dram).charged;
    assert_eq!(
        (dram.bytes(), dram.peak().bytes),
        (176_128 * 12, 785_408 * 12)
    );
}

#[test]
fn the_cbs_of_an_addition_lie_one_after_the_other_above_the_reserved_region() {
    let (mut world, model) = World::n150();
    world.by(model).cores(1, CoreSet::grid(8, 8)).create(1);
    for (number, address) in [(0, 105_824), (1, 109_920), (2, 114_016)] {
        world.by(model).cb(1, number, address, 4096, 1);
    }
    world.by(model).dispatch(1);
    assert_eq!(world.cb_bytes(0), 786_432);
    let occupied = (105_824 + 3 * 4096) * 64;
    assert_eq!(world.geometry(0).occupied_bytes, Some(occupied));
    // The same program from the cache, then its cache is cleared.
    world.by(model).dispatch(1).free_cb(1, None);
    assert_eq!(world.cb_bytes(0), 0);
    assert_eq!(world.geometry(0).occupied_bytes, Some(105_824 * 64));
    assert_eq!(world.all_anomalies(), 0);
}
