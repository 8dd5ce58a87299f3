//! Where everything lies, on a core and in a bank.

use super::documents::run_program;
use super::hostility::{exchange, refusal};
use super::*;
use ttmem_event::CoreType;
use ttmem_report::{Block, BlockMap, L1Map, MemoryClass, SegmentKind, Stretch};

const OUTSIDE: (u16, &str) = (404, "unknown_core");

fn told<T: std::fmt::Debug>(outcome: Result<T, ttmem_reader::ApiRequestError>) -> (u16, String) {
    refusal(outcome)
}

/// Checks one core of a map: no gap, no overlap, and as much in use as the core says.
fn check_column(map: &L1Map) {
    let column = map.core.as_ref().unwrap();
    let mut at = 0;
    let mut used = 0;
    for segment in &column.segments {
        assert_eq!(segment.address, at, "{column:?}");
        assert!(segment.size_bytes > 0, "{segment:?}");
        at += segment.size_bytes;
        if segment.kind == SegmentKind::Free {
            assert_eq!((segment.more, segment.pid), (0, None));
        } else {
            used += segment.size_bytes;
        }
    }
    assert_eq!(Some(at), map.bytes_per_core);
    let is_it = |core: &&ttmem_report::L1Core| (core.x, core.y) == (column.x, column.y);
    let core = map.cores.iter().find(is_it).unwrap();
    assert_eq!(Some(used), core.occupied_bytes, "{column:?}");
}

#[test]
fn every_core_adds_up() {
    let capacities = n150();
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    run_program(&mut ledger, process);
    let ring = EventKind::ConfigRingOpened {
        mesh: BOTH,
        sub_device: 0,
        core_type: CoreType::Tensix,
        base: 0x8000,
        size_bytes: 0x1000,
    };
    apply(&mut ledger, process, 51, ring);
    let top = capacities.l1.end();
    let small = capacities.l1_small.base;
    apply(
        &mut ledger,
        process,
        52,
        allocated(1, Class::L1, top - 2048, 2048),
    );
    apply(
        &mut ledger,
        process,
        53,
        allocated(2, Class::L1Small, small, 64),
    );
    // Handed out a second time by another process, and more.
    let other = joined(&mut ledger, 4002);
    apply(
        &mut ledger,
        other,
        54,
        allocated(3, Class::L1, top - 6144, 6144),
    );

    let served = Served::new(ledger);
    let client = served.client();
    let device = client.device("1").unwrap().device;
    let map = client.l1_map("1", None).unwrap();
    assert_eq!((map.device, map.unique_id), (1, device.unique_id));
    assert_eq!(
        (map.columns, map.rows, map.cores.len()),
        (Some(8), Some(8), 64)
    );
    assert_eq!(map.bytes_per_core, Some(capacities.l1_bytes_per_core));
    assert_eq!(
        map.reserved_bytes,
        Some(capacities.l1_reserved_bytes_per_core)
    );
    assert_eq!(map.core, None);
    let occupied: Option<u64> = map.cores.iter().map(|core| core.occupied_bytes).sum();
    assert_eq!(occupied, device.l1.occupied_bytes);
    assert!(occupied.is_some());
    let addresses: Vec<u64> = map.buffers.iter().map(|block| block.address).collect();
    assert_eq!(addresses, [top - 6144, top - 2048, small]);
    assert_eq!(map.buffers_left_out, 0);
    let [resident] = map.residents.as_slice() else {
        panic!("{:?}", map.residents);
    };
    assert_eq!(
        (resident.pid, resident.program, resident.cores),
        (Some(4001), Some(5), 16)
    );
    assert_eq!(resident.name.as_deref(), Some("ttnn::add"));
    for core in &map.cores {
        let runs = core.x < 4 && core.y < 4;
        assert_eq!(core.resident, runs.then_some(0), "{core:?}");
        assert_eq!(core.cb_bytes, if runs { 4096 } else { 0 });
        assert_eq!(core.cb_end, runs.then_some(capacities.l1.base + 4096));
        assert_eq!(core.lowest_buffer, Some(top - 6144));
    }
    for core in &map.cores {
        let at = (
            u16::try_from(core.x).unwrap(),
            u16::try_from(core.y).unwrap(),
        );
        let map = client.l1_map("0xfeed0001", Some(at)).unwrap();
        check_column(&map);
        let column = map.core.unwrap();
        let bottom = core.cb_end.or(map.reserved_bytes).unwrap();
        assert_eq!(column.gap_bytes, Some(top - 6144 - bottom));
        let mut kinds: Vec<(SegmentKind, u64, u32)> = column
            .segments
            .iter()
            .map(|segment| (segment.kind, segment.size_bytes, segment.more))
            .filter(|(kind, ..)| *kind != SegmentKind::Free)
            .collect();
        if core.resident.is_some() {
            let cb = kinds.iter().position(|(kind, ..)| *kind == SegmentKind::Cb);
            assert_eq!(kinds.remove(cb.unwrap()).1, 4096);
        }
        let reserved = capacities.l1_reserved_bytes_per_core;
        assert_eq!(
            kinds,
            [
                (SegmentKind::Reserved, 0x8000, 0),
                (SegmentKind::ConfigRing, 0x1000, 0),
                (SegmentKind::Reserved, reserved - 0x9000, 0),
                (SegmentKind::Buffer, 4096, 0),
                (SegmentKind::Buffer, 2048, 1),
                (SegmentKind::L1Small, 64, 0),
            ]
        );
    }
}

#[test]
fn a_core_without_buffers_has_room_up_to_the_small_region() {
    let mut ledger = empty_ledger();
    joined(&mut ledger, 4001);
    let served = Served::new(ledger);
    let map = served.client().l1_map("0", Some((7, 7))).unwrap();
    check_column(&map);
    let room = n150().l1.end() - n150().l1_reserved_bytes_per_core;
    assert_eq!(map.core.unwrap().gap_bytes, Some(room));
}

#[test]
fn a_core_that_is_not_there_is_refused() {
    let mut ledger = empty_ledger();
    joined(&mut ledger, 4001);
    let served = Served::new(ledger);
    let client = served.client();
    let outside = (OUTSIDE.0, OUTSIDE.1.to_owned());
    for core in [(8, 0), (0, 8), (63, 63), (u16::MAX, u16::MAX)] {
        assert_eq!(told(client.l1_map("0", Some(core))), outside, "{core:?}");
    }
    for parameters in ["x=1", "y=1", "x=65536&y=0", "x=-1&y=0", "x=a&y=0", "z=1"] {
        let request = format!("GET /api/v1/l1map/0?{parameters} HTTP/1.1\r\n\r\n");
        let answer = exchange(&served, request.as_bytes());
        assert!(
            answer.starts_with("HTTP/1.1 400 "),
            "{parameters}: {answer}"
        );
    }
}

#[test]
fn of_an_old_senders_device_no_core_is_known() {
    let mut ledger = empty_ledger();
    let process = ledger.join(identity(Some(9), Source::Legacy));
    let event = EventKind::LegacyAllocated {
        device: 0,
        class: Class::L1,
        size_bytes: 2048,
        id: 64,
    };
    apply(&mut ledger, process, 1, event);
    let served = Served::new(ledger);
    let client = served.client();
    let map = client.l1_map("0", Some((0, 0))).unwrap();
    assert_eq!(
        (map.columns, map.bytes_per_core, map.cores.len()),
        (None, None, 0)
    );
    let column = map.core.unwrap();
    assert_eq!((column.segments.len(), column.gap_bytes), (0, None));
    let blocks = client.blocks("0", MemoryClass::L1, None).unwrap();
    assert_eq!((blocks.banks, blocks.free_bytes), (None, None));
    assert_eq!((blocks.cells.len(), blocks.free.len()), (0, 0));
}

/// Numbers that look random and are the same in each run.
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |end| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % end
    }
}

#[test]
fn wherever_buffers_lie_a_core_is_told_without_overlaps() {
    for seed in 0..20 {
        let mut dice = dice(seed);
        let mut ledger = empty_ledger();
        let processes = [joined(&mut ledger, 4001), joined(&mut ledger, 4002)];
        run_program(&mut ledger, processes[0]);
        let (base, end) = (n150().l1.base, n150().l1.end());
        let mut spans = Vec::new();
        for buffer in 1..=60 {
            let process = processes[usize::try_from(dice(2)).unwrap()];
            let address = base + 64 * dice((end - base) / 64);
            let size = (64 + 64 * dice(400)).min(end - address);
            apply(
                &mut ledger,
                process,
                buffer,
                allocated(buffer, Class::L1, address, size),
            );
            spans.push((address, address + size));
        }
        let served = Served::new(ledger);
        let map = served.client().l1_map("0", Some((1, 1))).unwrap();
        check_column(&map);
        for segment in map.core.unwrap().segments {
            let over = |at: u64| {
                spans
                    .iter()
                    .filter(|span| span.0 <= at && at < span.1)
                    .count()
            };
            let first = over(segment.address);
            let last = over(segment.address + segment.size_bytes - 1);
            assert_eq!(first, last, "{segment:?}");
            let is_buffer = segment.kind == SegmentKind::Buffer;
            assert_eq!(is_buffer, first > 0, "{segment:?}");
            if is_buffer {
                assert_eq!(segment.more as usize, first - 1, "{segment:?}");
            }
        }
    }
}

/// Holes and what is taken of each cell, counted another way: unit by unit.
fn check_blocks(map: &BlockMap, spans: &[(u64, u64)], unit: u64) {
    let (base, size) = (map.base.unwrap(), map.per_bank_bytes.unwrap());
    let units = usize::try_from(size / unit).unwrap();
    let mut taken = vec![false; units];
    for (from, to) in spans {
        let place = |address: u64| usize::try_from((address - base) / unit).unwrap();
        taken[place(*from)..place(*to)].fill(true);
    }
    let mut holes: Vec<Stretch> = Vec::new();
    for (place, _free) in taken.iter().enumerate().filter(|(_place, taken)| !**taken) {
        let address = base + place as u64 * unit;
        match holes.last_mut() {
            Some(hole) if hole.address + hole.size_bytes == address => hole.size_bytes += unit,
            _other => holes.push(Stretch {
                address,
                size_bytes: unit,
            }),
        }
    }
    let free: u64 = holes.iter().map(|hole| hole.size_bytes).sum();
    assert_eq!(
        (map.free_count, map.free_bytes),
        (holes.len() as u64, Some(free))
    );
    holes.sort_by_key(|hole| (std::cmp::Reverse(hole.size_bytes), hole.address));
    holes.truncate(64);
    assert_eq!(map.free, holes);
    let cells = map.cells.len() as u64;
    let edge =
        |cell: u64| u64::try_from(u128::from(size) * u128::from(cell) / u128::from(cells)).unwrap();
    for (cell, told) in (0..).zip(&map.cells) {
        let (from, to) = (edge(cell), edge(cell + 1));
        let bytes: u64 = (from / unit..to.div_ceil(unit))
            .filter(|place| taken[usize::try_from(*place).unwrap()])
            .map(|place| to.min((place + 1) * unit) - from.max(place * unit))
            .sum();
        assert_eq!(*told, bytes, "cell {cell}");
    }
    assert_eq!(map.cells.iter().sum::<u64>(), size - free);
}

#[test]
fn a_bank_is_told_cell_by_cell() {
    for (class, word) in [
        (Class::L1, MemoryClass::L1),
        (Class::L1Small, MemoryClass::L1Small),
    ] {
        let region = if class == Class::L1 {
            n150().l1
        } else {
            n150().l1_small
        };
        let mut dice = dice(7);
        let mut ledger = empty_ledger();
        let processes = [joined(&mut ledger, 4001), joined(&mut ledger, 4002)];
        let mut spans = Vec::new();
        for buffer in 1..=100 {
            let process = processes[usize::try_from(dice(2)).unwrap()];
            let address = region.base + 32 * dice(region.bytes_per_bank / 32);
            let size = (32 + 32 * dice(20)).min(region.end() - address);
            apply(
                &mut ledger,
                process,
                buffer,
                allocated(buffer, class, address, size),
            );
            spans.push((address, address + size));
        }
        let served = Served::new(ledger);
        for cells in [1, 3, 255, 256, 1000, 4096] {
            let map = served.client().blocks("0", word, Some(cells)).unwrap();
            assert_eq!((map.class, map.device), (word, 0));
            assert_eq!(map.banks, Some(region.banks));
            assert_eq!(map.cells.len(), cells as usize);
            check_blocks(&map, &spans, 32);
        }
        let device = served.client().device("0").unwrap().device;
        let map = served.client().blocks("0", word, None).unwrap();
        assert_eq!(map.cells.len(), 256);
        let usage = if class == Class::L1 {
            device.l1
        } else {
            device.l1_small
        };
        assert_eq!(
            usage.largest_free_bytes_per_bank,
            Some(map.free[0].size_bytes)
        );
    }
}

#[test]
fn the_largest_blocks_are_the_largest() {
    let base = n150().dram.base;
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    // The largest come 64th and last, among equal ones.
    let sizes: Vec<u64> = (1..=200)
        .map(|place| if place == 64 { 9999 } else { 1 + place / 3 })
        .collect();
    for (buffer, size) in (1..).zip(&sizes) {
        let event = allocated(
            buffer,
            Class::Dram,
            base + (1 << 20) * (300 - buffer),
            64 * size,
        );
        apply(&mut ledger, process, buffer, event);
    }
    let served = Served::new(ledger);
    let map = served
        .client()
        .blocks("0", MemoryClass::Dram, None)
        .unwrap();
    let mut expected: Vec<(u64, u64)> = (1..)
        .zip(&sizes)
        .map(|(buffer, size)| (64 * size, base + (1 << 20) * (300 - buffer)))
        .collect();
    expected.sort_by_key(|(size, address)| (std::cmp::Reverse(*size), *address));
    expected.truncate(64);
    let told = |block: &Block| (block.size_bytes, block.address);
    assert_eq!(map.largest.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!(map.largest[0].buffer.0, 64);
    assert_eq!(
        (map.largest[0].pid, map.largest[0].mesh),
        (Some(4001), Some(10))
    );
    assert_eq!(map.largest[0].operation.as_deref(), Some("ttnn::add"));
}

#[test]
fn an_empty_bank_is_one_hole_and_bad_questions_are_refused() {
    let mut ledger = empty_ledger();
    joined(&mut ledger, 4001);
    let served = Served::new(ledger);
    let client = served.client();
    let map = client.blocks("1", MemoryClass::Dram, Some(10)).unwrap();
    let region = n150().dram;
    let hole = Stretch {
        address: region.base,
        size_bytes: region.bytes_per_bank,
    };
    assert_eq!((map.free.as_slice(), map.free_count), (&[hole][..], 1));
    assert_eq!((map.cells, map.largest.len()), (vec![0; 10], 0));
    let system = client.blocks("1", MemoryClass::System, None).unwrap();
    assert_eq!((system.per_bank_bytes, system.cells.len()), (None, 0));
    for parameters in [
        "cells=0",
        "cells=4097",
        "class=ram",
        "class=other",
        "sort=size",
    ] {
        let request = format!("GET /api/v1/blocks/0?{parameters} HTTP/1.1\r\n\r\n");
        let answer = exchange(&served, request.as_bytes());
        assert!(
            answer.starts_with("HTTP/1.1 400 "),
            "{parameters}: {answer}"
        );
    }
}
