//! Explanations of moments that an account recorded.

use crate::explain::*;
use crate::{
    BlockOwner, Device, Explanation, FailedRequest, HeldBlock, MemoryClass, PeakBytes, Setting,
    StorageKind, StorageLimit, Timestamp, Verdict,
};

fn block(address: u64, size_bytes: u64, line: &str, since: u64) -> HeldBlock {
    HeldBlock {
        address,
        size_bytes,
        owner: BlockOwner {
            pid: Some(42),
            process: Some("python".into()),
            python: Some(format!("/home/me/{line} forward")),
            operation: Some("ttnn.empty".into()),
            class: Some(MemoryClass::Dram),
            since: Some(Timestamp::from_unix_nanos(since)),
            of_call: false,
        },
    }
}

fn caller() -> Caller {
    Caller {
        pid: Some(42),
        process: Some("python".into()),
        operation: Some("ttnn.linear".into()),
        python: Some("/home/me/model.py:57 forward".into()),
        is_call_known: true,
        ..Caller::default()
    }
}

fn refused(class: MemoryClass, need: u64, table: BlockTable) -> Explanation {
    explain(&Moment {
        caller: caller(),
        failure: Failure::Refused(Refused {
            request: FailedRequest {
                class: Some(class),
                requested_bytes: Some(need * 12),
                banks: Some(12),
                ..FailedRequest::default()
            },
            alignment: Some(32),
            table: Some(table),
            ..Refused::default()
        }),
        witness: Witness::Account,
    })
}

#[test]
fn fragmentation_names_what_to_release() {
    // 0..1024 taken, 1024 free, 64 taken, 1024 free, 2048 taken.
    let table = BlockTable {
        base: 4096,
        bank_bytes: 5184,
        blocks: vec![
            block(4096, 1024, "model.py:10", 1),
            block(6144, 64, "model.py:41", 2),
            block(7232, 1024, "model.py:10", 3),
            block(8256, 1024, "model.py:10", 5),
        ],
    };
    let explained = refused(MemoryClass::Dram, 2048, table);
    assert_eq!(explained.verdict, Verdict::Fragmentation);
    assert_eq!(
        explained.sentence,
        "DRAM is fragmented: `ttnn.linear` at model.py:57 needs 2.0 KiB in one piece in each of 12 \
         banks; 2.0 KiB are free, but the largest free block is 1.0 KiB."
    );
    let request = explained.request.unwrap();
    assert_eq!(request.need_bytes_per_bank, Some(2048));
    assert_eq!(request.bank_bytes, Some(5184));
    assert_eq!(request.allocated_bytes_per_bank, Some(3136));
    assert_eq!(request.free_bytes_per_bank, Some(2048));
    assert_eq!(request.largest_free_bytes_per_bank, Some(1024));
    let release = explained.release.unwrap();
    assert_eq!((release.buffers, release.bytes_per_bank), (1, 64));
    assert_eq!((release.address, release.free_bytes), (5120, 2112));
    assert_eq!(
        release.blocks[0].owner.python.as_deref(),
        Some("/home/me/model.py:41 forward")
    );
    let map = explained.map.unwrap();
    let released: Vec<u64> = map
        .iter()
        .filter(|row| row.in_release)
        .map(|row| row.address)
        .collect();
    assert_eq!(released, [6144]);
    assert_eq!(map.iter().filter(|row| row.owner.is_none()).count(), 2);
    let holders = explained.holders.unwrap();
    assert_eq!(holders.len(), 2);
    assert_eq!((holders[0].buffers, holders[0].bytes_per_bank), (3, 3072));
    assert_eq!(holders[0].owner.since, Some(Timestamp::from_unix_nanos(1)));
    assert_eq!(holders[0].newest, Some(Timestamp::from_unix_nanos(5)));
    assert!(explained.unknown.is_empty(), "{:?}", explained.unknown);
    assert_eq!(
        explained.advice,
        [
            "release 1 buffer of model.py:41 at 6144 (0x1800), 64 B per bank, to make it fit, unless \
             this call uses it",
            "or release 1 buffer of model.py:10 at 7232 (0x1c40), 1.0 KiB per bank, to make it fit, \
             unless this call uses it"
        ]
    );
}

fn of_call(mut block: HeldBlock) -> HeldBlock {
    block.owner.of_call = true;
    block
}

#[test]
fn a_buffer_of_the_call_is_not_proposed() {
    // The smallest of them is the call's own.
    let table = |blocks| BlockTable {
        base: 0,
        bank_bytes: 4096,
        blocks,
    };
    let blocks = vec![
        of_call(block(1024, 64, "model.py:57", 9)),
        block(2112, 128, "model.py:11", 2),
        block(3264, 832, "model.py:12", 3),
    ];
    let explained = refused(MemoryClass::L1, 2048, table(blocks.clone()));
    assert_eq!(explained.verdict, Verdict::Fragmentation);
    assert_eq!(explained.release.unwrap().blocks, [blocks[1].clone()]);
    assert_eq!(
        explained.other_release, None,
        "the call's own is in between"
    );
    // All of it is: no release helps.
    let own: Vec<HeldBlock> = blocks.into_iter().map(of_call).collect();
    let explained = refused(MemoryClass::L1, 2048, table(own));
    assert_eq!(explained.release, None);
    assert_eq!(
        explained.advice,
        [
            "no release can make it fit: this call itself placed 3 buffers with 1.0 KiB per bank. Ask \
             it for less at once, or keep its inputs and its output in DRAM"
        ]
    );
}

#[test]
fn without_calls_any_buffer_may_be_of_the_call() {
    let blocks = vec![block(1024, 64, "model.py:57", 9)];
    let table = BlockTable {
        base: 0,
        bank_bytes: 2112,
        blocks,
    };
    let explained = explain(&Moment {
        caller: Caller {
            is_call_known: false,
            ..caller()
        },
        failure: Failure::Refused(Refused {
            request: FailedRequest {
                need_bytes_per_bank: Some(2048),
                ..FailedRequest::default()
            },
            table: Some(table),
            ..Refused::default()
        }),
        witness: Witness::Account,
    });
    assert_eq!(
        explained.release.unwrap().unless,
        "unless this call made or uses it"
    );
}

#[test]
fn an_output_in_the_way_is_not_to_be_released() {
    let clash = |buffers| {
        explain(&Moment {
            caller: caller(),
            failure: Failure::Storage(StorageRefused {
                storage: StorageKind::DataflowBuffers,
                met: StorageLimit::L1Buffer,
                program: Some(3),
                cores: None,
                start: Some(1000),
                end: 3000,
                limit: 2000,
                buffers: Some(buffers),
            }),
            witness: Witness::Account,
        })
    };
    let output = of_call(block(2000, 500, "model.py:57", 2));
    let alone = clash(vec![output.clone()]);
    assert!(
        alone
            .sentence
            .contains("which this call placed itself, at 2000"),
        "{}",
        alone.sentence
    );
    assert_eq!(alone.advice.len(), 1);
    assert!(!alone.advice[0].contains("release"), "{:?}", alone.advice);
    let beside = clash(vec![output, block(2600, 100, "a.py:1", 1)]);
    assert_eq!(
        beside.advice[1],
        "the other buffer in the way: release it before this program runs, unless this call uses it, \
         or keep it in DRAM"
    );
}

#[test]
fn capacity_names_how_much_is_missing() {
    let table = BlockTable {
        base: 0,
        bank_bytes: 4096,
        blocks: vec![block(0, 3072, "model.py:10", 1)],
    };
    let explained = refused(MemoryClass::Dram, 2048, table.clone());
    assert_eq!(explained.verdict, Verdict::Capacity);
    assert!(
        explained
            .sentence
            .starts_with("DRAM is full: `ttnn.linear` at model.py:57 needs 2.0 KiB"),
        "{}",
        explained.sentence
    );
    assert_eq!(explained.release.unwrap().buffers, 1);
    let [mut named, mut unnamed] = [table.clone(), table.clone()];
    named.blocks[0].owner.python = None;
    unnamed.blocks[0].owner = BlockOwner::default();
    let advice = |table| refused(MemoryClass::Dram, 2048, table).advice[0].clone();
    assert!(advice(named).starts_with("release 1 buffer of `ttnn.empty` at 0 "));
    assert!(advice(unnamed).starts_with("release 1 buffer at 0 "));
    let never = refused(MemoryClass::Dram, 5000, table);
    assert_eq!((never.verdict, never.release), (Verdict::Capacity, None));
    assert!(never.advice[0].contains("no release"), "{:?}", never.advice);
}

/// Blocks of one size: any release is as small as another, and what fills the memory is a leak.
#[test]
fn memory_that_is_full_names_who_fills_it() {
    let mut blocks = vec![
        block(0, 64, "model.py:3", 90),
        block(64, 64, "model.py:4", 91),
    ];
    blocks.extend((0..94).map(|at| block(128 + at * 64, 64, "model.py:11", at)));
    let full = |need, blocks: &[HeldBlock]| {
        let table = BlockTable {
            base: 0,
            bank_bytes: blocks.len() as u64 * 64,
            blocks: blocks.to_vec(),
        };
        refused(MemoryClass::Dram, need, table)
    };
    let explained = full(64, &blocks);
    assert_eq!(explained.verdict, Verdict::Capacity);
    assert_eq!(
        explained.advice,
        [
            "94 buffers of model.py:11 (`ttnn.empty`) hold 5.9 KiB per bank, 98 % of what is \
             allocated",
            "release 1 buffer of model.py:11 at 6080 (0x17c0), 64 B per bank, to make it fit, unless \
             this call uses it",
            "or release 1 buffer of model.py:11 at 6016 (0x1780), 64 B per bank, to make it fit, \
             unless this call uses it"
        ],
        "the youngest of those who hold most"
    );
    // Half is not most, and what is all released need not be named twice.
    blocks.truncate(4);
    blocks[1].owner.python = blocks[0].owner.python.clone();
    let half = full(64, &blocks);
    let names = |one: &Explanation| one.advice.iter().any(|line| line.contains(" hold "));
    assert!(!names(&half), "{:?}", half.advice);
    blocks[1].owner.python = blocks[3].owner.python.clone();
    let all = full(192, &blocks);
    assert!(!names(&all), "{:?}", all.advice);
}

/// What the allocator says beats the blocks that are known, and both are shown.
#[test]
fn the_allocators_figures_win_and_a_difference_is_said() {
    let moment = Moment {
        caller: Caller::default(),
        failure: Failure::Refused(Refused {
            request: FailedRequest {
                class: Some(MemoryClass::L1),
                need_bytes_per_bank: Some(2048),
                free_bytes_per_bank: Some(1000),
                largest_free_bytes_per_bank: Some(900),
                ..FailedRequest::default()
            },
            table: Some(BlockTable {
                base: 0,
                bank_bytes: 8192,
                blocks: Vec::new(),
            }),
            ..Refused::default()
        }),
        witness: Witness::Account,
    };
    let explained = explain(&moment);
    assert_eq!(explained.verdict, Verdict::Capacity);
    assert!(
        explained.unknown[0].contains("8192 B are free"),
        "{explained:?}"
    );
    assert_eq!(explained.release, None);
}

#[test]
fn regions_of_a_known_table_get_the_smallest_size() {
    // Filled from the top: a hole of 64 at the upper end stays.
    let table = |class| BlockTable {
        base: 1_000_000,
        bank_bytes: 1024,
        blocks: match class {
            MemoryClass::L1Small => vec![block(1_000_320, 640, "a.py:1", 1)],
            _trace => vec![block(1_000_064, 640, "a.py:1", 1)],
        },
    };
    let small = refused(MemoryClass::L1Small, 512, table(MemoryClass::L1Small));
    assert_eq!(small.verdict, Verdict::RegionTooSmall);
    let setting = small.setting.unwrap();
    // 64 free at the top, 640 taken, 512 more.
    assert_eq!(
        (setting.name.as_str(), setting.value),
        ("l1_small_size", 1216)
    );
    assert!(setting.is_smallest);
    assert!(
        small
            .sentence
            .ends_with("; at least l1_small_size=1216 is needed."),
        "{}",
        small.sentence
    );
    assert_eq!(
        small.advice,
        [
            "open the device with at least l1_small_size=1216: what is put there later needs room as \
          well. To learn the exact size at once, run it under `ttmem run` with l1_small_size=32768: \
          the report says it"
        ]
    );
    let trace = refused(MemoryClass::Trace, 512, table(MemoryClass::Trace));
    let setting = trace.setting.unwrap();
    assert_eq!(setting.bytes_per_bank, Some(8192));
    assert_eq!(setting.value, 12 * 8192);
    let traces = explain(&Moment {
        caller: caller(),
        failure: Failure::TraceRegion(TraceRegion {
            need_bytes: 2_220_032,
            region_bytes: 1_000_000,
            banks: Some(12),
        }),
        witness: Witness::Account,
    });
    let advice = &traces.advice[0];
    assert!(
        advice.contains("with trace_region_size=67108864:"),
        "{advice}"
    );
    let setting = traces.setting.unwrap();
    assert_eq!(setting.value, 2_220_032);
    // 185003 bytes, in whole pages.
    assert_eq!(setting.bytes_per_bank, Some(188_416));
}

#[test]
fn a_clash_names_the_buffers_in_the_way() {
    let clash = |buffers| {
        explain(&Moment {
            caller: caller(),
            failure: Failure::Storage(StorageRefused {
                storage: StorageKind::CircularBuffers,
                met: StorageLimit::L1Buffer,
                program: Some(3),
                cores: Some("[0-0 - 7-7]".into()),
                start: Some(1000),
                end: 3000,
                limit: 2000,
                buffers,
            }),
            witness: Witness::Account,
        })
    };
    let explained = clash(Some(vec![
        block(2900, 500, "b.py:2", 2),
        block(2000, 100, "a.py:1", 1),
        block(3000, 100, "c.py:3", 3),
        block(500, 500, "d.py:4", 4),
    ]));
    assert_eq!(explained.verdict, Verdict::Clash);
    assert_eq!(
        explained.sentence,
        "Circular buffers of program 3 (`ttnn.linear` at model.py:57) on cores [0-0 - 7-7] end at 3000 \
         (0xbb8), 1000 B beyond the lowest L1 buffer of a.py:1 (`ttnn.empty`) at 2000 (0x7d0)."
    );
    let in_the_way = explained.clash.unwrap().in_the_way.unwrap();
    let places: Vec<(u64, u64)> = in_the_way
        .iter()
        .map(|each| (each.block.address, each.overlap_bytes))
        .collect();
    assert_eq!(places, [(2000, 100), (2900, 100)]);
    assert_eq!(explained.holders.unwrap().len(), 2);
    let of_nobody = |mut block: HeldBlock| {
        block.owner = BlockOwner::default();
        clash(Some(vec![block])).sentence
    };
    let sentence = of_nobody(block(2000, 100, "a.py:1", 1));
    assert!(
        sentence.ends_with("the lowest L1 buffer at 2000 (0x7d0)."),
        "{sentence}"
    );
    let unknown = clash(None);
    assert!(unknown.clash.unwrap().in_the_way.is_none());
    assert_eq!(unknown.unknown.len(), 1);
}

#[test]
fn what_is_not_known_is_null_in_json() {
    let explained = explain(&Moment {
        caller: Caller::default(),
        failure: Failure::Refused(Refused::default()),
        witness: Witness::Log,
    });
    let json = serde_json::to_value(&explained).unwrap();
    for field in [
        "holders", "release", "map", "setting", "python", "pid", "clash",
    ] {
        assert!(json[field].is_null(), "{field}: {json}");
    }
    assert_eq!(json["verdict"], "unknown");
    assert!(json["request"]["free_bytes_per_bank"].is_null());
    let back: Explanation = serde_json::from_value(json).unwrap();
    assert_eq!(back, explained);
}

/// The sizes that are enough: trace region and L1_SMALL, in 12 and 64 banks.
fn sizes(arch: &str, trace: (u64, Option<u64>), small: (u64, Option<u64>)) -> Vec<Setting> {
    let mut device = Device {
        arch: Some(arch.to_owned()),
        ..Device::default()
    };
    // Without banks of their own, those of the memory that the regions are parts of.
    device.dram.banks = Some(12);
    device.l1.banks = Some(64);
    device.trace.capacity_bytes = trace.1;
    device.l1_small.capacity_bytes = small.1;
    let peaks = PeakBytes {
        trace: trace.0,
        l1_small: small.0,
        ..PeakBytes::default()
    };
    regions(&device, &peaks)
}

#[test]
fn regions_are_rounded_up_to_what_is_typed_and_what_is_never_used_is_known() {
    let typed = |settings: Vec<Setting>| -> Vec<(String, u64, Option<u64>)> {
        let settings = settings.into_iter();
        settings
            .map(|each| (each.name.clone(), each.value, each.unused()))
            .collect()
    };
    let unused = sizes("wormhole_b0", (0, None), (0, Some(0)));
    assert_eq!(unused, [], "neither given nor used");
    // Exactly whole pages, and one byte more in one bank.
    let (trace, small) = ("trace_region_size".to_owned(), "l1_small_size".to_owned());
    assert_eq!(
        typed(sizes("wormhole_b0", (12 * 8192, None), (64 * 32, None))),
        [(trace.clone(), 12 * 8192, None), (small.clone(), 32, None)]
    );
    assert_eq!(
        typed(sizes(
            "wormhole_b0",
            (12 * 8192 + 1, Some(12 * 32_768)),
            (64 * 32 + 1, Some(64 * 1024))
        )),
        [
            (trace.clone(), 12 * 16_384, Some(12 * 16_384)),
            (small.clone(), 64, Some(960))
        ]
    );
    assert_eq!(
        typed(sizes(
            "wormhole_b0",
            (0, Some(12 * 8192)),
            (0, Some(64 * 1024))
        )),
        [(trace, 0, Some(12 * 8192)), (small.clone(), 0, Some(1024))],
        "given and never used"
    );
    assert_eq!(
        typed(sizes("quasar", (0, None), (64 * 65, None))),
        [(small, 128, None)],
        "aligned for any chip"
    );
    let endless = sizes("quasar", (u64::MAX, None), (u64::MAX, None));
    assert_eq!(endless.len(), 1, "no such trace region");
}
