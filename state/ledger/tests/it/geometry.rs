//! Where things lie, against a count of single bytes.

use crate::world::{Board, Process, World, capacity, capacity_of};
use proptest::collection::vec;
use proptest::prelude::*;
use ttmem_event::catalogue::Arch;
use ttmem_event::{CbKind, Class, CoreRange, CoreSet, MeshId};

const L1_BASE: u64 = 105_824;

#[test]
fn an_empty_bank_is_one_block_and_a_full_one_has_none() {
    let (mut world, model) = World::n150();
    let bank = capacity_of(&Board::N150, Class::L1);
    let empty = world.allocator(model, 0, Class::L1);
    assert_eq!(empty.largest_free_bytes, Some(bank.per_bank_bytes));
    world
        .by(model)
        .alloc(1, Class::L1, bank.base, bank.per_bank_bytes);
    let full = world.allocator(model, 0, Class::L1);
    assert_eq!(full.largest_free_bytes, Some(0));
}

#[test]
fn the_largest_hole_counts() {
    let (mut world, model) = World::n150();
    let bank = capacity_of(&Board::N150, Class::L1Small);
    let quarter = bank.per_bank_bytes / 4;
    world
        .by(model)
        .alloc(1, Class::L1Small, bank.base, quarter)
        .alloc(2, Class::L1Small, bank.base + 2 * quarter, quarter);
    let allocator = world.allocator(model, 0, Class::L1Small);
    assert_eq!(allocator.largest_free_bytes, Some(quarter));
}

#[test]
fn a_buffer_on_one_core_blocks_its_addresses_for_all_banks() {
    let (mut world, model) = World::n150();
    let bank = capacity_of(&Board::N150, Class::L1);
    world
        .by(model)
        .cores(1, CoreSet::grid(1, 1))
        .alloc_on_cores(1, Class::L1, bank.base + 1000, 10, 1);
    let allocator = world.allocator(model, 0, Class::L1);
    let largest = Some(bank.per_bank_bytes - 1010);
    assert_eq!(allocator.largest_free_bytes, largest);
    let l1 = world.class_geometry(0, Class::L1);
    assert_eq!((l1.union_bytes, l1.largest_free_bytes), (10, largest));
}

#[test]
fn occupied_is_the_union_of_reserved_buffers_and_resident_storage() {
    let (mut world, model) = World::n150();
    let rows = |first, last| {
        let range = CoreRange {
            x_first: 0,
            y_first: first,
            x_last: 7,
            y_last: last,
        };
        CoreSet::from_ranges([range]).expect("inside the grid")
    };
    world
        .by(model)
        .cores(1, rows(0, 1))
        .alloc(1, Class::L1, 1_000_000, 5000)
        .alloc(2, Class::L1Small, 1_466_368, 300)
        // On 16 cores: 4000 bytes above the reserved region, 500 of them in it,
        // and 2000 bytes of which 1000 lie in the buffer.
        .cb(1, 0, L1_BASE - 500, 4000, 1)
        .cb(1, 1, 999_000, 2000, 1);
    let base = (L1_BASE + 5000 + 300) * 64;
    assert_eq!(world.geometry(0).occupied_bytes, Some(base));
    world.by(model).dispatch(1);
    let more = (3500 + 1000) * 16;
    assert_eq!(world.geometry(0).occupied_bytes, Some(base + more));
    assert_eq!(world.geometry(0).cb_resident_bytes, Some(6000 * 16));
}

#[test]
fn borrowed_storage_is_resident_but_adds_nothing_to_occupied() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .alloc(1, Class::L1, 1_000_000, 5000)
        .storage(CbKind::Global, 1, 0, 1_000_000, 5000, 1)
        .storage(CbKind::DataflowBorrowed, 1, 1, 900_000, 77, 1)
        .dispatch(1);
    let geometry = world.geometry(0);
    assert_eq!(geometry.occupied_bytes, Some((L1_BASE + 5000) * 64));
    assert_eq!(geometry.cb_resident_bytes, Some(5077 * 64));
    let by_kind = world.totals(0).cb.by_kind;
    assert_eq!(by_kind[CbKind::Global as usize], 5000 * 64);
    assert_eq!(by_kind[CbKind::DataflowBorrowed as usize], 77 * 64);
}

#[test]
fn dataflow_buffers_and_scratchpads_occupy_like_circular_buffers() {
    let (mut world, model) = World::n150();
    world
        .by(model)
        .cores(1, CoreSet::grid(8, 8))
        .storage(CbKind::Dataflow, 1, 0, 200_000, 1000, 1)
        .storage(CbKind::Scratchpad, 1, 1, 300_000, 10, 1)
        .dispatch(1);
    assert_eq!(
        world.geometry(0).occupied_bytes,
        Some((L1_BASE + 1010) * 64)
    );
}

#[test]
fn without_a_grid_nothing_is_said_about_occupied() {
    let mut world = World::new();
    let model = world.process("model");
    let unknown = Board {
        columns: 0,
        ..Board::N150
    };
    world.by(model).chip(0, &unknown);
    assert_eq!(world.geometry(0).occupied_bytes, None);
    assert_eq!(world.view().devices[0].facts.compute, None);
}

/// A buffer inside a bank: an offset and a length.
type Piece = (u64, u64);

/// An allocator over a small bank.
#[derive(Clone, Debug)]
struct Small {
    banks: u16,
    base: u64,
    size: u64,
    pieces: Vec<Piece>,
}

/// Addresses of the small banks lie below this.
const ADDRESSES: usize = 64;

fn any_small() -> impl Strategy<Value = Small> {
    (
        1..=4_u16,
        0..12_u64,
        8..50_u64,
        vec((0..50_u64, 1..20_u64), 0..6),
    )
        .prop_map(|(banks, base, size, wanted)| {
            let mut left = size;
            let mut pieces = Vec::new();
            for (offset, len) in wanted {
                let offset = offset % size;
                let len = len.min(size - offset).min(left);
                if len > 0 {
                    left -= len;
                    pieces.push((base + offset, len));
                }
            }
            Small {
                banks,
                base,
                size,
                pieces,
            }
        })
}

/// The longest run of free addresses of `[base, base + size)`.
fn longest_run(taken: &[bool], base: u64, size: u64) -> u64 {
    let bank = taken.iter().skip(at(base)).take(at(size));
    let (longest, _run) = bank.fold((0, 0), |(longest, run): (u64, u64), taken| {
        let run = if *taken { 0 } else { run + 1 };
        (longest.max(run), run)
    });
    longest
}

fn at(address: u64) -> usize {
    usize::try_from(address).expect("a small address")
}

fn take(flags: &mut [bool], (address, len): Piece) {
    for flag in flags.iter_mut().skip(at(address)).take(at(len)) {
        *flag = true;
    }
}

fn count(flags: &[bool]) -> u64 {
    flags.iter().filter(|flag| **flag).count() as u64
}

/// One chip without a grid that matters.
const BARE: Board = Board {
    arch: Arch::Wormhole,
    columns: 0,
    rows: 0,
    l1_bytes_per_core: 0,
    l1_reserved_bytes: 0,
    classes: &[],
};

/// The process takes its pieces on the chip that all share.
fn open_small(world: &mut World, class: Class, small: &Small) -> Process {
    let process = world.process("small");
    let mut says = world.by(process);
    says.device(0, Some(1), &BARE)
        .mesh(0, &[0], &BARE)
        .tell(capacity(
            MeshId(0),
            class,
            small.banks,
            small.base,
            small.size,
        ));
    for (id, (address, len)) in (0..).zip(&small.pieces) {
        says.alloc(id, class, *address, *len);
    }
    process
}

proptest! {
    #[test]
    fn unions_and_gaps_of_several_allocators_agree_with_counting_bytes(
        allocators in vec(any_small(), 1..5),
    ) {
        let mut world = World::new();
        let mut banks = vec![[false; ADDRESSES]; 4];
        let mut any_bank = [false; ADDRESSES];
        let mut charged = 0;
        for small in &allocators {
            let process = open_small(&mut world, Class::Dram, small);
            let mut own = [false; ADDRESSES];
            for piece in &small.pieces {
                charged += piece.1 * u64::from(small.banks);
                take(&mut own, *piece);
                take(&mut any_bank, *piece);
                for bank in banks.iter_mut().take(usize::from(small.banks)) {
                    take(bank, *piece);
                }
            }
            let allocator = world.allocator(process, 0, Class::Dram);
            let largest = longest_run(&own, small.base, small.size);
            prop_assert_eq!(allocator.largest_free_bytes, Some(largest));
        }
        let largest = allocators.iter().max_by_key(|small| {
            (small.size * u64::from(small.banks), small.banks, small.base)
        });
        let largest = largest.expect("there is one at least");
        let most = largest.size * u64::from(largest.banks);
        let union = banks.iter().map(|bank| count(bank)).sum::<u64>().min(most);
        let found = world.class_geometry(0, Class::Dram);
        prop_assert_eq!((found.union_bytes, found.overlap_bytes), (union, charged - union));
        let gap = longest_run(&any_bank, largest.base, largest.size);
        prop_assert_eq!(found.largest_free_bytes, Some(gap));
    }
}

/// A chip of 3 × 2 cores with 96 bytes each, of which buffers may have the upper 80.
const TINY: Board = Board {
    arch: Arch::Wormhole,
    columns: 3,
    rows: 2,
    l1_bytes_per_core: 96,
    l1_reserved_bytes: 16,
    classes: &[(Class::L1, 6, 16, 60), (Class::L1Small, 6, 76, 20)],
};

/// Storage of a program: kind, address, size, and which core set it lies on.
type Storage = (CbKind, u64, u64, u32);

/// What happens on a tiny chip.
#[derive(Clone, Debug)]
struct Tiny {
    core_sets: Vec<CoreSet>,
    lockstep: Vec<Piece>,
    small: Vec<Piece>,
    per_core: Vec<(Piece, u32)>,
    programs: Vec<Vec<Storage>>,
    dispatches: Vec<usize>,
}

/// Some of the cores of a 4 × 3 rectangle, which is larger than the chip.
fn any_core_set() -> impl Strategy<Value = CoreSet> {
    vec((0..4_u16, 0..3_u16), 1..8).prop_map(|cores| {
        let ranges = cores.into_iter().map(|(x, y)| CoreRange {
            x_first: x,
            y_first: y,
            x_last: x,
            y_last: y,
        });
        CoreSet::from_ranges(ranges).expect("inside the grid")
    })
}

fn any_tiny() -> impl Strategy<Value = Tiny> {
    let storage = (
        proptest::sample::select(CbKind::ALL),
        0..110_u64,
        1..30_u64,
        1..4_u32,
    );
    (
        vec(any_core_set(), 3),
        vec((16..66_u64, 1..10_u64), 0..4),
        vec((76..90_u64, 1..6_u64), 0..3),
        vec(((16..66_u64, 1..10_u64), 1..4_u32), 0..3),
        vec(vec(storage, 1..4), 3),
        vec(0..3_usize, 0..5),
    )
        .prop_map(
            |(core_sets, lockstep, small, per_core, programs, dispatches)| Tiny {
                core_sets,
                lockstep,
                small,
                per_core,
                programs,
                dispatches,
            },
        )
}

fn open_tiny(tiny: &Tiny) -> World {
    let mut world = World::new();
    let process = world.process("tiny");
    let mut says = world.by(process);
    says.chip(0, &TINY);
    for (id, cores) in (1..).zip(&tiny.core_sets) {
        says.cores(id, *cores);
    }
    for (id, (address, len)) in (0..).zip(&tiny.lockstep) {
        says.alloc(id, Class::L1, *address, *len);
    }
    for (id, (address, len)) in (10..).zip(&tiny.small) {
        says.alloc(id, Class::L1Small, *address, *len);
    }
    for (id, ((address, len), cores)) in (20..).zip(&tiny.per_core) {
        says.alloc_on_cores(id, Class::L1, *address, *len, *cores);
    }
    for (program, storage) in (0..).zip(&tiny.programs) {
        for (number, (kind, address, size, cores)) in (0..).zip(storage) {
            says.storage(*kind, program, number, *address, *size, *cores);
        }
    }
    for program in &tiny.dispatches {
        says.dispatch(*program as u64);
    }
    world
}

/// The program that ran last on a core, if any did.
fn resident_on(tiny: &Tiny, on: impl Fn(u32) -> bool) -> Option<&[Storage]> {
    let covers = |program: &&usize| tiny.programs[**program].iter().any(|cb| on(cb.3));
    let last = tiny.dispatches.iter().rev().find(covers)?;
    Some(&tiny.programs[*last])
}

proptest! {
    #[test]
    fn occupied_and_resident_agree_with_counting_the_bytes_of_every_core(tiny in any_tiny()) {
        let world = open_tiny(&tiny);
        let (mut occupied, mut resident, mut union) = (0, 0, 0);
        for y in 0..3_u16 {
            for x in 0..4_u16 {
                let on = |cores: u32| tiny.core_sets[cores as usize - 1].contains(x, y);
                let on_chip = x < TINY.columns && y < TINY.rows;
                let mut l1 = [false; 96];
                for piece in tiny.lockstep.iter().filter(|_every| on_chip) {
                    take(&mut l1, *piece);
                }
                for (piece, cores) in &tiny.per_core {
                    if on(*cores) {
                        take(&mut l1, *piece);
                    }
                }
                union += count(&l1);
                let mut flags = l1;
                take(&mut flags, (0, u64::from(TINY.l1_reserved_bytes)));
                for piece in &tiny.small {
                    take(&mut flags, *piece);
                }
                for (kind, address, size, cores) in resident_on(&tiny, on).unwrap_or_default() {
                    if !on(*cores) {
                        continue;
                    }
                    resident += size;
                    if !matches!(kind, CbKind::Global | CbKind::DataflowBorrowed) {
                        take(&mut flags, (*address, *size));
                    }
                }
                occupied += if on_chip { count(&flags) } else { 0 };
            }
        }
        let found = world.geometry(0);
        prop_assert_eq!(found.occupied_bytes, Some(occupied));
        prop_assert_eq!(found.cb_resident_bytes, Some(resident));
        // Cores beyond the chip are nonsense that the union must survive, not explain.
        let sensible = tiny.per_core.iter().all(|(_piece, cores)| {
            tiny.core_sets[*cores as usize - 1].is_subset(&CoreSet::grid(TINY.columns, TINY.rows))
        });
        if sensible {
            prop_assert_eq!(found.classes[Class::L1.index()].union_bytes, union);
        }
    }
}
