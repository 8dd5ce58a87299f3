//! Messages as they stand in logs: every shape, every wrapping, and what is not one.

use super::lines::MAX_LINE_BYTES;
use super::*;
use crate::{Explanation, MemoryClass, StorageKind, StorageLimit, Verdict};
use proptest::prelude::*;
use std::io::{BufReader, Read};

fn found(log: &str) -> Vec<Explanation> {
    read(log.as_bytes()).unwrap().failures
}

fn only(log: &str) -> Explanation {
    let mut found = found(log);
    assert_eq!(found.len(), 1, "{log}\n{found:#?}");
    found.remove(0)
}

fn out_of_memory(
    total: u64,
    class: &str,
    banks: u32,
    need: u64,
    bank: u64,
    [allocated, free, largest]: [u64; 3],
) -> String {
    format!(
        "Out of Memory: Not enough space to allocate {total} B {class} buffer across {banks} banks, \
         where each bank needs to store {need} B, but bank size is {bank} B (allocated: {allocated} \
         B, free: {free} B, largest free block: {largest} B)"
    )
}

/// Messages that people quoted in reports, with what was wrong.
#[test]
fn quoted_messages_get_their_verdict_and_figures() {
    use Verdict::{Capacity, Fragmentation};
    for (total, class, banks, need, bank, figures, verdict) in [
        (
            3_294_625_792,
            "DRAM",
            12,
            274_686_208,
            1_071_821_792,
            [784_847_680, 286_974_112, 216_504_544],
            Fragmentation,
        ),
        (
            58_720_256,
            "DRAM",
            12,
            4_894_720,
            1_071_821_792,
            [888_424_448, 183_397_344, 3_382_944],
            Fragmentation,
        ),
        (
            141_557_760,
            "DRAM",
            12,
            11_796_480,
            1_070_773_184,
            [1_058_111_680, 12_661_504, 6_266_880],
            Fragmentation,
        ),
        (
            1_073_741_824,
            "DRAM",
            12,
            89_479_168,
            1_073_741_792,
            [952_757_280, 120_984_512, 34_953_216],
            Fragmentation,
        ),
        (
            1_050_673_152,
            "DRAM",
            12,
            87_556_096,
            1_073_741_792,
            [943_941_568, 129_800_224, 34_201_600],
            Fragmentation,
        ),
        (
            26_542_080,
            "L1",
            48,
            552_960,
            1_329_888,
            [417_792, 912_096, 522_240],
            Fragmentation,
        ),
        (
            38_928_384,
            "L1",
            64,
            608_256,
            1_329_888,
            [323_936, 1_005_952, 591_872],
            Fragmentation,
        ),
        (
            1_050_673_152,
            "DRAM",
            12,
            87_556_096,
            1_070_773_184,
            [999_249_056, 71_524_128, 71_231_936],
            Capacity,
        ),
        (
            1_073_741_824,
            "DRAM",
            12,
            89_479_168,
            1_070_773_184,
            [1_003_628_544, 67_144_640, 67_140_352],
            Capacity,
        ),
        (
            1_244_659_712,
            "DRAM",
            12,
            103_723_008,
            1_070_773_184,
            [1_054_848_640, 15_924_544, 15_475_264],
            Capacity,
        ),
    ] {
        let message = out_of_memory(total, class, banks, need, bank, figures);
        let log = format!(
            "2026-05-14 01:00:31.755 | critical |          Always | TT_FATAL: {message} \
             (assert.hpp:104)\n"
        );
        let explained = only(&log);
        assert_eq!(explained.verdict, verdict, "{log}");
        let request = explained.request.unwrap();
        assert_eq!(
            request.class.unwrap().to_string().to_uppercase(),
            class,
            "{log}"
        );
        assert_eq!(request.requested_bytes, Some(total));
        assert_eq!(request.banks, Some(banks));
        assert_eq!(request.need_bytes_per_bank, Some(need));
        assert_eq!(request.bank_bytes, Some(bank));
        let [allocated, free, largest] = figures;
        assert_eq!(request.allocated_bytes_per_bank, Some(allocated));
        assert_eq!(request.free_bytes_per_bank, Some(free));
        assert_eq!(request.largest_free_bytes_per_bank, Some(largest));
        assert_eq!(explained.log.unwrap().message, message[15..]);
        assert!(explained.holders.is_none() && explained.release.is_none());
        let [who, line] = explained.unknown.as_slice() else {
            panic!("{:?}", explained.unknown);
        };
        assert!(who.contains("`ttmem run`"), "{who}");
        assert!(line.contains("line of Python"), "{line}");
    }
}

/// A message of a shape, with or without all that some versions leave out.
fn message_of(template: &str, with_optional: bool) -> String {
    const VALUES: [(&str, &str); 17] = [
        ("requested", "1200"),
        ("class", "DRAM"),
        ("banks", "12"),
        ("need", "100"),
        ("bank", "90"),
        ("allocated", "80"),
        ("free", "10"),
        ("largest", "5"),
        ("limit", "500"),
        ("start", "100"),
        ("end", "700"),
        ("other_end", "650"),
        ("cores", "[(x=0,y=0) - (x=3,y=0)]"),
        ("core_type", "TENSIX"),
        ("program", "3"),
        ("width", "8"),
        ("height", "7"),
    ];
    let mut message = String::new();
    let mut left_out = 0;
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '{' => rest.find('}').unwrap() + 1,
            _other => first.len_utf8(),
        };
        let (part, after) = rest.split_at(end);
        rest = after;
        match first {
            '<' if !with_optional => left_out += 1,
            '>' if !with_optional => left_out -= 1,
            '<' | '>' => {}
            _ if left_out > 0 => {}
            '{' => {
                let name = part.trim_matches(['{', '}']);
                let value = VALUES.iter().find(|(known, _value)| *known == name);
                message.push_str(value.map_or("32", |(_name, value)| value));
            }
            _literal => message.push_str(part),
        }
    }
    message
}

#[test]
fn every_shape_is_found_in_its_longest_and_its_shortest_form() {
    for (template, _reading) in super::shapes::SHAPES {
        for with_optional in [true, false] {
            let message = message_of(template, with_optional);
            let log = format!("before\nTT_FATAL: {message}\nafter\n");
            let found = only(&log);
            assert!(!found.sentence.is_empty(), "{message}");
            let place = found.log.as_ref().expect("it is of a log");
            assert_eq!(place.line, 2, "{message}");
        }
    }
}

#[test]
fn older_messages_of_allocators_say_less() {
    let only_need = "Out of Memory: Not enough space to allocate 536870912 B DRAM buffer across 12 \
                     banks, where each bank needs to store 44740608 B";
    let with_bank = format!("{only_need}, but bank size is only 1046181792 B");
    for (message, bank) in [(only_need, None), (&with_bank, Some(1_046_181_792))] {
        // The next line is not part of it.
        for log in [
            format!("{message}\n"),
            format!("{message}\nbacktrace:\n --- x\n"),
            message.into(),
        ] {
            let explained = only(&log);
            assert_eq!(explained.verdict, Verdict::Unknown, "{log}");
            let request = explained.request.unwrap();
            assert_eq!(request.need_bytes_per_bank, Some(44_740_608));
            assert_eq!(
                (request.bank_bytes, request.free_bytes_per_bank),
                (bank, None)
            );
            assert!(explained.sentence.contains("42.7 MiB in each of 12 banks"));
            assert!(
                explained
                    .unknown
                    .iter()
                    .any(|each| each.contains("fragmentation"))
            );
        }
    }
    let larger_than_a_bank = "Out of Memory: Not enough space to allocate 21139292160 B DRAM buffer \
                              across 12 banks, where each bank needs to store 1761607680 B, but bank \
                              size is only 1071821792 B";
    let explained = only(larger_than_a_bank);
    assert_eq!(explained.verdict, Verdict::Capacity);
    assert!(explained.advice[0].contains("no release"), "{explained:?}");

    let oldest = only("TT_THROW: Not enough space to interleave 4096 bytes across8 banks");
    assert_eq!(oldest.verdict, Verdict::Unknown);
    assert_eq!(oldest.request.unwrap().requested_bytes, Some(4096));

    for (message, address) in [
        ("Cannot allocate at an address below 107904", None),
        (
            "Cannot allocate at an address below 107904. Tried to allocate at 98304",
            Some("98304 (0x18000)"),
        ),
        (
            "Cannot allocate at an address below 107904. Allocation at 98304",
            Some("98304 (0x18000)"),
        ),
    ] {
        let explained = only(&format!("Out of Memory: {message}\n"));
        assert_eq!(explained.verdict, Verdict::Unknown);
        assert_eq!(explained.request.unwrap().class, Some(MemoryClass::L1));
        assert!(explained.sentence.contains("107904 (0x1a580)"));
        assert!(
            address.is_none_or(|address| explained.sentence.contains(address)),
            "{}",
            explained.sentence
        );
    }
}

/// One allocator for all cores, and others for single ones.
#[test]
fn dependent_allocators() {
    let begin = "Out of Memory: Not enough space after considering dependencies to allocate 1048576 B \
                 L1 across 64 banks (16384 B per bank)";
    assert_eq!(only(begin).verdict, Verdict::Unknown);
    let figures = format!(
        "{begin}, bank size is 1393312 B (allocated: 1000000 B, free: 393312 B, largest free block: \
         393312 B)"
    );
    let explained = only(&figures);
    assert_eq!(explained.verdict, Verdict::Unknown);
    assert!(
        explained.sentence.contains("single cores"),
        "{}",
        explained.sentence
    );
    for (placeable, largest, verdict) in [
        (16_000, 16_000, Verdict::Capacity),
        (32_000, 16_000, Verdict::Fragmentation),
    ] {
        let newest = format!(
            "{figures}. After subtracting 64 dependency range(s) and 0 additional occupied range(s), \
             {placeable} B remained placeable across 2 window(s), largest {largest} B."
        );
        let explained = only(&newest);
        assert_eq!(explained.verdict, verdict, "{newest}");
        let request = explained.request.unwrap();
        assert_eq!(request.free_bytes_per_bank, Some(placeable));
        assert_eq!(request.largest_free_bytes_per_bank, Some(largest));
        assert_eq!(request.bank_bytes, Some(1_393_312));
    }
}

#[test]
fn clashes_of_every_version() {
    let circular = StorageKind::CircularBuffers;
    let dataflow = StorageKind::DataflowBuffers;
    for (message, storage, met, program, cores, overlap) in [
        (
            "Statically allocated circular buffers in program 453 clash with L1 buffers on core range \
             [(x=0,y=0) - (x=4,y=0)]. L1 buffer allocated at 622592 and static circular buffer region \
             ends at 654368",
            circular,
            StorageLimit::L1Buffer,
            Some(453),
            "[0-0 - 4-0]",
            31_776,
        ),
        (
            "Statically allocated circular buffers in program 2282 clash with L1 buffers on core range \
             [0-0 - 10-9]. L1 buffer allocated at 1563072 and static circular buffer region ends at \
             1563264",
            circular,
            StorageLimit::L1Buffer,
            Some(2282),
            "[0-0 - 10-9]",
            192,
        ),
        (
            "Statically allocated circular buffers in program 4 clash with L1 buffers on core \
             (x=1,y=2). L1 buffer allocated at 267584 and static circular buffer region ends at 435136",
            circular,
            StorageLimit::L1Buffer,
            Some(4),
            "1-2",
            167_552,
        ),
        (
            "Circular buffers in program 4 clash with L1 buffers on core (x=1,y=2). L1 buffer \
             allocated at 267584 and local buffers end at 267585",
            circular,
            StorageLimit::L1Buffer,
            Some(4),
            "1-2",
            1,
        ),
        (
            "Statically allocated dataflow buffers in program 7 clash with L1 buffers on core range \
             [0-0 - 7-7]. L1 buffer allocated at 709760 and static dataflow buffer region ends at \
             1364672",
            dataflow,
            StorageLimit::L1Buffer,
            Some(7),
            "[0-0 - 7-7]",
            654_912,
        ),
        (
            "Circular buffers on service-core range [0-0 - 1-0] in program 9 clash with \
             ServiceCoreManager-allocated L1 (lowest service allocation at 1400000, CB region ends at \
             1400100)",
            circular,
            StorageLimit::ServiceCore,
            Some(9),
            "[0-0 - 1-0]",
            100,
        ),
        (
            "Statically allocated circular buffers on core range [(x=0,y=0) - (x=7,y=2)] grow to \
             1754272 B which is beyond max L1 size of 1499136 B",
            circular,
            StorageLimit::EndOfL1,
            None,
            "[0-0 - 7-2]",
            255_136,
        ),
        (
            "Statically allocated dataflow buffers on core range [0-0 - 0-0] grow to 1600000 B which \
             is beyond max L1 size of 1499136 B",
            dataflow,
            StorageLimit::EndOfL1,
            None,
            "[0-0 - 0-0]",
            100_864,
        ),
        (
            "Local buffers on core (x=0,y=0) grow to 1100000 B which is beyond max L1 size of 1048576 B",
            circular,
            StorageLimit::EndOfL1,
            None,
            "0-0",
            51_424,
        ),
        (
            "Local buffers on core (x=0,y=0) grow to 1025 KB which is beyond max L1 size of 1024 KB",
            circular,
            StorageLimit::EndOfL1,
            None,
            "0-0",
            1024,
        ),
        (
            "Globally allocated circular buffer on core (x=0,y=0) grow to 1100000 B which is beyond \
             max L1 size of 1048576 B",
            circular,
            StorageLimit::EndOfL1,
            None,
            "0-0",
            51_424,
        ),
    ] {
        let explained = only(&format!("TT_THROW: {message} (assert.hpp:104)\n"));
        let (verdict, is_clash) = match met {
            StorageLimit::EndOfL1 => (Verdict::Capacity, false),
            _in_use => (Verdict::Clash, true),
        };
        assert_eq!(explained.verdict, verdict, "{message}");
        let clash = explained.clash.unwrap();
        assert_eq!((clash.storage, clash.met), (storage, met), "{message}");
        assert_eq!(clash.program, program, "{message}");
        assert_eq!(clash.cores.as_deref(), Some(cores), "{message}");
        assert_eq!(clash.overlap_bytes, overlap, "{message}");
        assert_eq!(clash.storage_end - clash.limit, overlap);
        for address in [clash.storage_end, clash.limit] {
            let both = format!("{address} ({address:#x})");
            assert!(explained.sentence.contains(&both), "{}", explained.sentence);
        }
        assert_eq!(
            explained
                .unknown
                .iter()
                .any(|each| each.contains("who holds")),
            is_clash
        );
    }
}

#[test]
fn trace_regions() {
    for device in ["MeshDevice 0", "device 0"] {
        let explained = only(&format!(
            "Creating trace buffers of size 53616640B on {device}, but only 50000000B is allocated \
             for trace region.\n"
        ));
        assert_eq!(explained.verdict, Verdict::RegionTooSmall);
        let setting = explained.setting.unwrap();
        assert_eq!(setting.name, "trace_region_size");
        assert_eq!(
            (setting.value, setting.given),
            (53_616_640, Some(50_000_000))
        );
        assert_eq!(setting.bytes_per_bank, None);
        assert!(
            explained
                .sentence
                .contains("at least trace_region_size=53616640 is needed")
        );
        assert!(explained.unknown[0].contains("banks"));
    }
    // A size that no page divides is rounded up.
    let odd = only(
        "Creating trace buffers of size 2219009B on MeshDevice 1, but only 1B is \
                    allocated for trace region.",
    );
    assert_eq!(odd.setting.unwrap().value, 2_220_032);

    let in_region = only(&out_of_memory(
        24_576,
        "TRACE",
        12,
        2048,
        8192,
        [7168, 1024, 1024],
    ));
    assert_eq!(in_region.verdict, Verdict::RegionTooSmall);
    let setting = in_region.setting.unwrap();
    assert_eq!(setting.bytes_per_bank, Some(16_384));
    assert_eq!((setting.value, setting.given), (196_608, Some(98_304)));
}

#[test]
fn traces_without_a_region() {
    for (message, overlap) in [
        (
            "overlaps with DRAM activity during trace capture. Allocation high water mark: 1500, \
             Deletion high water mark: 2000. Reduce allocations during trace capture.",
            1000,
        ),
        (
            "overlaps with buffers deallocated during trace capture (deletion high water mark: 1500).",
            500,
        ),
        (
            "overlaps with buffers allocated during trace capture (allocation high water mark: 1500).",
            500,
        ),
        (
            "overlaps with DRAM activity captured by another live trace (maximum live trace high \
             water mark: 1100).",
            100,
        ),
    ] {
        let explained = only(&format!("TT_FATAL: Trace buffer at address 1000 {message}"));
        assert_eq!(explained.verdict, Verdict::Clash, "{message}");
        let clash = explained.clash.unwrap();
        assert_eq!(clash.met, StorageLimit::CapturedDram);
        assert_eq!(
            (clash.limit, clash.overlap_bytes),
            (1000, overlap),
            "{message}"
        );
        assert!(explained.advice[0].contains("trace_region_size"));
    }
}

#[test]
fn small_regions() {
    let newest = out_of_memory(1_267_712, "L1_SMALL", 64, 19_808, 0, [0, 0, 0])
        + ". The L1_SMALL region is 0 B because it is reserved at device open";
    let newest = only(&newest);
    assert_eq!(newest.verdict, Verdict::RegionTooSmall);
    let setting = newest.setting.unwrap();
    assert_eq!(
        (setting.name.as_str(), setting.value),
        ("l1_small_size", 19_840)
    );
    assert!(setting.is_smallest);

    let in_use = out_of_memory(
        1_267_712,
        "L1_SMALL",
        64,
        19_808,
        65_536,
        [50_016, 15_520, 15_520],
    );
    let in_use = only(&in_use);
    assert_eq!(in_use.verdict, Verdict::RegionTooSmall);
    // 50016 + 19808, rounded up to the largest alignment that there is.
    assert_eq!(in_use.setting.unwrap().value, 69_824);
    assert!(
        in_use
            .unknown
            .iter()
            .any(|each| each.contains("end of the region"))
    );

    let scattered = out_of_memory(
        1_267_712,
        "L1_SMALL",
        64,
        19_808,
        65_536,
        [40_000, 25_536, 9000],
    );
    let scattered = only(&scattered);
    assert_eq!(scattered.verdict, Verdict::Fragmentation);
    let setting = scattered.setting.unwrap();
    assert_eq!((setting.value, setting.is_smallest), (85_376, false));
    assert!(
        scattered
            .unknown
            .iter()
            .any(|each| each.contains("at least 59808 B"))
    );

    let older = "Out of Memory: Not enough space to allocate 1267712 B L1_SMALL buffer across 64 \
                 banks, where each bank needs to store 19808 B, but bank size is only 65536 B ";
    let older = only(older);
    assert_eq!(older.verdict, Verdict::Unknown);
    let setting = older.setting.unwrap();
    assert_eq!((setting.value, setting.is_smallest), (85_376, false));

    let oldest = "Out of Memory: Not enough space to allocate 272640 B L1_SMALL buffer across 12 \
                  banks, where each bank needs to store 22720 B";
    let oldest = only(oldest);
    assert_eq!((oldest.verdict, oldest.setting), (Verdict::Unknown, None));
    assert!(
        oldest
            .unknown
            .iter()
            .any(|each| each.contains("l1_small_size"))
    );
}

#[test]
fn other_limits() {
    for message in [
        "Program size (80000) too large for kernel config buffer (70656) on TENSIX",
        "Program size (80000) too large for kernel config buffer (70656) on TENSIX, 9344 B over: x",
    ] {
        let ring = only(message);
        assert_eq!(ring.verdict, Verdict::RegionTooSmall);
        assert!(
            ring.sentence.contains("9344 B too few"),
            "{}",
            ring.sentence
        );
    }
    let grid = only(
        "Circular buffer core range [0-0 - 9-9] in program 3 exceeds device compute grid (8x7) and is \
         not entirely on cores claimed via ServiceCoreManager",
    );
    assert_eq!(grid.verdict, Verdict::Unknown);
    assert!(grid.sentence.contains("[0-0 - 9-9]") && grid.sentence.contains("8x7"));
    let arena = |end| {
        only(&format!(
            "Persistent L1 arena is out of memory: cannot place 4096 bytes aligned to 16 on cores \
             {{[0-0 - 3-3], [5-0 - 5-3]}} in [1000, {end})"
        ))
    };
    assert_eq!(arena(2000).verdict, Verdict::Capacity);
    assert_eq!(arena(8000).verdict, Verdict::Unknown);
}

/// For a while the runtime threw its format string with the values below it.
#[test]
fn values_below_their_message() {
    let log = "FAILED test_falcon.py::test_end_to_end - RuntimeError: TT_THROW @ \
               tt_metal/impl/allocator/allocator.cpp:107: tt::exception\n\
               info:\n\
               Out of Memory: Not enough space to allocate {} B {} buffer across {} banks, where each \
               bank needs to store {} B\n\
               148897792\nDRAM\n8\n18612224\nbacktrace:\n --- x\n";
    let request = only(log).request.unwrap();
    assert_eq!(request.class, Some(MemoryClass::Dram));
    assert_eq!(request.requested_bytes, Some(148_897_792));
    assert_eq!(
        (request.banks, request.need_bytes_per_bank),
        (Some(8), Some(18_612_224))
    );
    let clash = "E   Statically allocated circular buffers in program {} clash with L1 buffers on core \
                 range {}. L1 buffer allocated at {} and static circular buffer region ends at {}\n\
                 E   4\nE   [(x=0,y=0) - (x=11,y=7)]\nE   267584\nE   435136\n";
    let clash = only(clash).clash.unwrap();
    assert_eq!(clash.cores.as_deref(), Some("[0-0 - 11-7]"));
    assert_eq!((clash.program, clash.overlap_bytes), (Some(4), 167_552));
    // The source code of the runtime is no failure.
    let code = "\"Out of Memory: Not enough space to allocate {} B {} buffer across {} banks, where \
                each bank needs to store {} B\",\n size,\n enum_name(buffer_type),\n num_banks);\n";
    assert!(found(code).is_empty());
}

/// However a message is wrapped, coloured or prefixed, it is the same one.
#[test]
fn wrapping_colours_and_prefixes_change_nothing() {
    let message = out_of_memory(
        26_542_080,
        "L1",
        48,
        552_960,
        1_329_888,
        [417_792, 912_096, 522_240],
    );
    let plain = only(&message);
    let blanks: Vec<usize> = message.match_indices(' ').map(|(at, _blank)| at).collect();
    for end in ["\n", "\r\n", "\n          ", "\u{1b}[0m\n\u{1b}[31m"] {
        for prefix in [
            "",
            "E       ",
            "ERROR 10-23 04:15:50 [engine.py:187] ",
            "[1,0]<stderr>: ",
        ] {
            for &at in &blanks {
                let (begin, rest) = message.split_at(at);
                let end = end.replacen('\n', &format!("\n{prefix}"), 1);
                let log = format!(
                    "{prefix}TT_FATAL: {begin}{end}{}\nafter\n",
                    rest.trim_start()
                );
                // A colour may also stand where the blank was.
                let log = log.replace("\u{1b}[31m", "\u{1b}[38;5;1m");
                let explained = only(&log);
                assert_eq!(explained.request, plain.request, "{log}");
                assert_eq!(explained.verdict, Verdict::Fragmentation);
            }
        }
    }
    let everywhere = message.replace(' ', "\r\n");
    // More lines than any terminal makes of it: what is there is taken.
    assert!(found(&everywhere).len() <= 1);
    let coloured = message.replace(' ', " \u{1b}[1;31m");
    assert_eq!(only(&coloured).request, plain.request);
}

#[test]
fn a_traceback_that_ended_with_another_exception_is_not_a_messages() {
    let message = out_of_memory(4096, "L1", 1, 4096, 8192, [8192, 0, 0]);
    for (exception, python) in [
        ("ValueError: no such model", None),
        ("huggingface_hub.errors.HTTPError: 404", None),
        (
            "RuntimeError: TT_FATAL @ a.cpp:1: false",
            Some("load.py:3 load"),
        ),
    ] {
        let log = format!(
            "Traceback (most recent call last):\n  File \"load.py\", line 3, in load\n    \
             return ttnn.load(name)\n{exception}\ninfo:\n{message}\n"
        );
        assert_eq!(only(&log).python.as_deref(), python, "{log}");
    }
}

#[test]
fn the_line_of_python_is_the_users_innermost() {
    let message = out_of_memory(
        26_542_080,
        "L1",
        48,
        552_960,
        1_329_888,
        [417_792, 912_096, 522_240],
    );
    for prefix in ["", "ERROR 10-23 04:15:50 [engine.py:187] "] {
        let lines = [
            "Traceback (most recent call last):",
            "  File \"/home/me/run.py\", line 9, in <module>",
            "    main()",
            "  File \"/home/me/models/mlp.py\", line 135, in forward",
            "    w3_out = ttnn.linear(",
            "             ^^^^^^^^^^^^",
            "  File \"/opt/venv/lib/python3.10/site-packages/ttnn/decorators.py\", line 377, in __call__",
            "    result = self.function(*function_args, **function_kwargs)",
            "RuntimeError: TT_FATAL @ /home/me/tt_metal/impl/allocator/bank_manager.cpp:433: false",
            "info:",
            &message,
            "backtrace:",
        ];
        let critical =
            format!("2025-10-23 | critical | Always | TT_FATAL: {message} (assert.hpp:103)\n");
        let log: String = lines
            .iter()
            .map(|line| format!("{prefix}{line}\n"))
            .collect();
        let explained = only(&(critical + &log));
        assert_eq!(
            explained.python.as_deref(),
            Some("/home/me/models/mlp.py:135 forward")
        );
        assert_eq!(explained.operation.as_deref(), Some("ttnn.linear"));
        assert!(
            explained
                .sentence
                .contains("`ttnn.linear` at mlp.py:135 needs 540.0 KiB")
        );
        // Logged, thrown, and one failure.
        assert_eq!(explained.log.unwrap().line, 1);
        assert_eq!(explained.times, 1);
        assert!(
            explained
                .unknown
                .iter()
                .all(|each| !each.contains("Python"))
        );
    }
}

#[test]
fn pytest_prints_the_line_below() {
    let message = out_of_memory(
        26_542_080,
        "L1",
        48,
        552_960,
        1_329_888,
        [417_792, 912_096, 522_240],
    );
    let log = format!(
        "_________________________ test_mlp _________________________\n\
         \n\
         tests/test_mlp.py:40: in test_mlp\n\
         \u{20}   out = model(x)\n\
         models/mlp.py:135: in forward\n\
         \u{20}   w3 = ttnn.linear(x, w)\n\
         _ _ _ _ _ _\n\
         \n\
         >       return ttnn.linear(\n\
         E       RuntimeError: TT_FATAL @ bank_manager.cpp:433: false\n\
         E       info:\n\
         E       {message}\n\
         E       backtrace:\n\
         E        --- tt::tt_metal::BankManager::allocate_buffer\n\
         \n\
         ttnn/ttnn/decorators.py:377: RuntimeError\n\
         ----------------------------- Captured stderr call -----------------------------\n\
         2025 | critical | Always | TT_FATAL: {message} (assert.hpp:103)\n"
    );
    let explained = only(&log);
    assert_eq!(
        explained.python.as_deref(),
        Some("models/mlp.py:135 forward")
    );
    assert_eq!(explained.times, 1);
    let own = log.replace("ttnn/ttnn/decorators.py:377", "models/mlp.py:140");
    let explained = only(&own);
    assert_eq!(explained.python.as_deref(), Some("models/mlp.py:140"));
    assert_eq!(explained.operation.as_deref(), Some("ttnn.linear"));
}

/// `pytest --tb=short` has a frame's place above its source and none below the message; by default
/// pytest prints the frames in between so, and the place below comes while a message may still go on.
#[test]
fn pytest_prints_the_line_above() {
    let message = "Out of Memory: Not enough space to allocate 58720256 B L1 buffer across 64 banks, \
                   where each bank needs to store 917504 B, but bank size is only 1331936 B";
    let frames = "tt/mlp.py:135: in forward\n    return ttnn.linear(x, w)\n\
                  /opt/venv/lib/python3.10/site-packages/ttnn/decorators.py:377: in __call__\n    \
                  result = self.function(*function_args, **function_kwargs)\n";
    let error = format!(
        "E   RuntimeError: TT_FATAL @ bank_manager.cpp:439: tt::exception\nE   info:\nE   {message}\n"
    );
    let heading = "______ test_mlp ______\n";
    let short = format!(
        "{heading}tests/test_mlp.py:8: in test_mlp\n    forward(x)\n{frames}{error}====== short test \
         summary info ======\nFAILED tests/test_mlp.py::test_mlp - RuntimeError: TT_FATAL @ ...\n"
    );
    let auto = format!(
        "{heading}\n    def test_mlp():\n        x = 1\n>       forward(x)\n\ntests/test_mlp.py:8: \n_ _ _ _ \
         _ _ _ _\n{frames}{error}E   backtrace:\n\n\
         /opt/venv/lib/python3.10/site-packages/ttnn/decorators.py:377: RuntimeError\n"
    );
    for log in [&short, &auto] {
        let explained = only(log);
        let python = explained.python.as_deref();
        assert_eq!(python, Some("tt/mlp.py:135 forward"), "{log}");
        assert_eq!(explained.operation.as_deref(), Some("ttnn.linear"), "{log}");
        assert_eq!(explained.times, 1);
        // What cannot be decided can still be found out.
        assert_eq!(explained.verdict, Verdict::Unknown);
        assert!(explained.advice[0].contains("`ttmem run`"), "{explained:?}");
    }
    // The next test has no place: it does not get that of the one before, nor the other way round.
    let next = format!(
        "{short}______ test_next ______\n{}",
        error.replace("58720256", "1")
    );
    let lines: Vec<Option<String>> = found(&next).into_iter().map(|each| each.python).collect();
    assert_eq!(lines, [Some("tt/mlp.py:135 forward".to_owned()), None]);
    let twice = only(&format!("{short}{auto}"));
    assert_eq!(twice.times, 2, "two tests");
}

/// Each is logged and thrown, at two lines with the same figures.
#[test]
fn what_is_logged_and_thrown_happened_once() {
    let message = "Program size (2) too large for kernel config buffer (1) on TENSIX";
    let failed = |line: u32| {
        format!(
            "2026 | critical | Always | TT_THROW: {message} (program.cpp:1)\n\
             Traceback (most recent call last):\n  File \"a.py\", line {line}, in f\n\
             RuntimeError: TT_THROW @ program.cpp:1: tt::exception\ninfo:\n{message}\n{}",
            "x\n".repeat(20)
        )
    };
    let log = failed(1) + &failed(2) + &failed(2) + &failed(2);
    let found = found(&log);
    let found = found
        .iter()
        .map(|each| (each.python.as_deref(), each.times));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [(Some("a.py:1 f"), 1), (Some("a.py:2 f"), 3)]
    );
}

#[test]
fn a_compressed_log_is_not_a_log_without_a_failure() {
    for (magic, format) in [
        (b"\x1f\x8b\x08\0\0\0".as_slice(), "gzip"),
        (b"\xfd7zXZ\0\0", "xz"),
        (b"\x28\xb5\x2f\xfd\0", "zstd"),
        (b"BZh91AY", "bzip2"),
    ] {
        let error = read(magic).unwrap_err().to_string();
        assert!(error.contains(format), "{error}");
    }
}

#[test]
fn several_failures_stay_apart_and_in_order() {
    let one = "Not enough space to allocate 100 B DRAM buffer across 1 banks, where each bank needs to \
               store 100 B";
    let other = "Not enough space to allocate 200 B DRAM buffer across 1 banks, where each bank needs \
                 to store 200 B";
    // Two on one line, as threads write them; then the first again.
    let log = format!("x\nOut of Memory: {one}    Out of Memory: {other}\nx\n{one}\n");
    let found = found(&log);
    let needs = found
        .iter()
        .map(|each| each.request.as_ref().unwrap().requested_bytes);
    assert_eq!(needs.collect::<Vec<_>>(), [Some(100), Some(200)]);
    assert_eq!(found[0].times, 2);
    assert_eq!(found[1].log.as_ref().unwrap().line, 2);

    // The same failure at two lines of Python is two.
    let at = |line| {
        format!("Traceback (most recent call last):\n  File \"a.py\", line {line}, in f\n{one}\n")
    };
    assert_eq!(super::tests::found(&(at(1) + &at(2) + &at(1))).len(), 2);

    let many: String = (0..1000)
        .map(|n| format!("Program size ({n}) too large for kernel config buffer (1) on TENSIX\n"))
        .collect();
    let many = read(many.as_bytes()).unwrap();
    assert_eq!((many.failures.len(), many.omitted), (256, 744));
}

#[test]
fn logs_without_a_failure() {
    for log in [
        "",
        "\n\n",
        "all is well\n",
        "Not enough space to allocate",
        "Not enough space to allocate many B DRAM buffer across 12 banks",
        "Statically allocated circular buffers in program 1 clash with L1 buffers on core range [0-0",
        "Creating trace buffers of size 99999999999999999999999B on MeshDevice 0, but only 1B is \
         allocated for trace region.",
        "OSError: [Errno 28] No space left on device\n",
    ] {
        assert!(found(log).is_empty(), "{log}");
    }
}

/// A log of any length is read with bounded memory: counted by what a line may hold.
#[test]
fn endless_lines_are_cut_and_their_messages_found() {
    let message = out_of_memory(
        26_542_080,
        "L1",
        48,
        552_960,
        1_329_888,
        [417_792, 912_096, 522_240],
    );
    // At every offset around the cut.
    for before in (MAX_LINE_BYTES - 300..MAX_LINE_BYTES + 20).step_by(7) {
        let log = format!("{} {message} {}", "x".repeat(before), "y".repeat(100_000));
        let explained = only(&log);
        assert_eq!(explained.verdict, Verdict::Fragmentation, "{before}");
        assert_eq!(explained.log.unwrap().line, 1);
    }
    let endless = BufReader::new(std::io::repeat(b'N').take(64 << 20));
    assert!(read(endless).unwrap().failures.is_empty());
    let unclosed = BufReader::new(std::io::repeat(0x1b).take(8 << 20));
    assert!(read(unclosed).unwrap().failures.is_empty());
}

#[test]
fn lines_are_counted_and_never_longer_than_their_bound() {
    let log = format!("a\n{}\n\nb", "x".repeat(3 * MAX_LINE_BYTES + 5));
    let mut lines = Lines::new(log.as_bytes());
    let mut seen = Vec::new();
    let mut bytes = 0;
    while let Some((number, line)) = lines.next().unwrap() {
        assert!(line.len() <= MAX_LINE_BYTES);
        bytes += line.len();
        seen.push(number);
    }
    assert_eq!(seen, [1, 2, 2, 2, 2, 3, 4]);
    assert_eq!(bytes, log.len() - 3);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(log in prop::collection::vec(any::<u8>(), 0..4000)) {
        let is_compressed = compressed(&log).is_some();
        prop_assert_eq!(read(log.as_slice()).is_err(), is_compressed);
    }

    /// Pieces of messages, tracebacks and control sequences in any order.
    #[test]
    fn torn_messages_are_survived(pieces in prop::collection::vec(prop::sample::select(vec![
        "Not", " ", "\n", "enough space to allocate ", "{}", "12", " B ", "DRAM", " buffer across ",
        "\u{1b}[", "\u{1b}]0;", "\r", "Statically allocated ", "circular buffers in program ", "[", "]",
        "File \"", "\", line ", "a.py:3: in f", "a.py:3: RuntimeError", "E   ", "Traceback (",
        "99999999999999999999999", "ttnn.", "(", "____", "2025-10-14T04:33:23.9048735Z ", "ü",
    ]), 0..200)) {
        read(pieces.concat().as_bytes()).unwrap();
    }
}
