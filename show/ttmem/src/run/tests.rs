//! The account of a run, put together from what a server may say; and what a shell reads.

use super::report::Ran;
use super::watch::{Watched, Whose};
use super::*;
use crate::render::tests::{device, process, reason, snapshot};
use std::time::Duration;
use ttmem_report::{
    CbUsage, ClassUsage, Device, Explanation, GrowingGroup, KernelUsage, LeakCandidates, LeakGroup,
    LeftGroup, MemoryClass, PeakBytes, PeakContents, PeakGroup, PeakOf, Process, ProcessState,
    Released, SCHEMA, Timestamp,
};

const PLAIN: Screen = Screen {
    width: 80,
    color: false,
};

/// No process has such a pid.
const NOBODY: u32 = u32::MAX;

fn ran(own_server: bool) -> Ran {
    Ran {
        command: vec!["python".into(), "model.py".into()],
        pid: 4711,
        ended: Ended::Exited(0),
        took: Duration::from_millis(12_345),
        begun: Timestamp::from_unix_nanos(0),
        socket: "/run/user/1000/ttmem.sock".into(),
        own_server,
        attached: true,
        warnings: Vec::new(),
    }
}

/// A run of which the server says this at the end, and of which nothing was seen before.
fn report(devices: Vec<Device>, processes: Vec<Process>) -> Report {
    let after = snapshot(devices, processes);
    let mut watched = Watched::new(Whose::All, &snapshot(Vec::new(), Vec::new()));
    watched.take(&after);
    Report::without_contents(ran(true), watched, &after)
}

/// A class that held so much at most.
fn peak(peak_bytes: u64, banks: Option<u32>) -> ClassUsage {
    ClassUsage {
        peak_bytes,
        banks,
        ..ClassUsage::default()
    }
}

#[test]
fn words_are_quoted_for_a_shell() {
    assert_eq!(quoted("/opt/tt lib/a.so"), "'/opt/tt lib/a.so'");
    assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
}

#[test]
fn regions_are_those_of_the_neediest_device() {
    let with = |id, trace| Device {
        trace,
        l1_small: ClassUsage::default(),
        ..device(id, 0)
    };
    let devices = [
        with(0, peak(12 * 8192, Some(12))),
        with(1, peak(12 * 8192 + 1, Some(12))),
        with(2, peak(0, Some(12))),
    ];
    let processes = vec![process(1, "python", &devices)];
    let report = report(devices.to_vec(), processes);
    let sizes: Vec<(&str, u64)> = report
        .regions
        .iter()
        .map(|region| (region.setting.name.as_str(), region.setting.value))
        .collect();
    assert_eq!(sizes, [("trace_region_size", 12 * 16_384)]);
}

/// After a failure nobody knows what would have come: sizes are lower bounds then.
#[test]
fn regions_of_a_run_that_failed_are_at_least_so_large() {
    let given = ClassUsage {
        capacity_bytes: Some(12 * 8192),
        ..peak(0, Some(12))
    };
    let one = Device {
        trace: given,
        l1_small: peak(64 * 32, Some(64)),
        ..device(0, 0)
    };
    let after = snapshot(vec![one.clone()], vec![process(1, "python", &[one])]);
    let mut watched = Watched::new(Whose::All, &after);
    watched.take(&after);
    let ran = |ended| Ran { ended, ..ran(true) };
    for ended in [Ended::Exited(1), Ended::Killed(11), Ended::Exited(0)] {
        let report = Report::without_contents(ran(ended), watched.clone(), &after);
        let text = render::ran(&report, PLAIN);
        let at_least = if ended == Ended::Exited(0) {
            ""
        } else {
            "at least "
        };
        for line in [
            "trace_region_size=0 (96.0 KiB given, never used)",
            "l1_small_size=32 (32 B per bank)",
        ] {
            let line = format!("set {at_least}{line}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
        assert_eq!(text.contains("until the failure"), !at_least.is_empty());
        let exact = &report.json()["regions"][0]["is_exact"];
        assert_eq!(*exact, at_least.is_empty(), "{text}");
    }
    // A failure that the program survived: of what it lacked, more may have been wanted.
    let mut report = Report::without_contents(ran(Ended::Exited(0)), watched, &after);
    let log = "Out of Memory: Not enough space to allocate 6144 B L1_SMALL buffer across 64 banks, \
               where each bank needs to store 96 B, but bank size is 0 B (allocated: 0 B, free: 0 B, \
               largest free block: 0 B)";
    report.contents.failures = ttmem_report::explain::log::read(log.as_bytes())
        .unwrap()
        .failures;
    report.enlarge_regions();
    let text = render::ran(&report, PLAIN);
    for line in [
        "set trace_region_size=0 (96.0 KiB given, never used)\n",
        "set at least l1_small_size=128 (128 B per bank)\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

fn peak_group(name: Option<&str>, count: u64, bytes: u64) -> PeakGroup {
    PeakGroup {
        pid: Some(100),
        departed: true,
        name: name.map(str::to_owned),
        line: name.map(|_name| "/home/me/model.py:12 load".to_owned()),
        callers: name
            .map(|_name| "/home/me/run.py:3 <module>".to_owned())
            .into_iter()
            .collect(),
        count,
        bytes,
    }
}

#[test]
fn a_peak_is_shown_with_what_was_live_then_and_what_was_left_with_its_origin() {
    let mut one = process(100, "python", &[device(0, 0)]);
    one.leak_candidates = LeakCandidates {
        buffers: 2,
        bytes: 4096,
    };
    let mut report = report(vec![device(0, 0)], vec![one]);
    let mut groups = vec![peak_group(Some("ttnn.empty"), 1, 48 << 20)];
    groups.extend((0..12).map(|_small| peak_group(None, 1, 3 << 20)));
    let contents = PeakContents {
        schema: SCHEMA,
        time: Timestamp::from_unix_nanos(0),
        device: 0,
        unique_id: None,
        pid: None,
        of: PeakOf::Dram,
        peak_bytes: 84 << 20,
        peak_time: Some(Timestamp::from_unix_nanos(1_000_000_000)),
        groups,
    };
    report.contents.peaks = vec![PeakOfClass {
        class: MemoryClass::Dram,
        contents,
        devices: 8,
    }];
    report.contents.left_at_close = vec![LeftGroup {
        class: MemoryClass::L1,
        operation: Some("ttnn.add".into()),
        line: None,
        callers: Vec::new(),
        stack: Some(vec!["libtt_metal.so+0x1f _ZN2tt4makeEv".into()]),
        buffers: 2,
        bytes: 4096,
    }];
    let text = render::ran(&report, PLAIN);
    for part in [
        "DRAM at its peak: 84.0 MiB on each of 8 devices, 1970-01-01 00:00:01\n",
        "  48.0 MiB        1   ttnn.empty at model.py:12, called from run.py:3\n",
        "   3.0 MiB        1   other or unknown operations\n",
        "  and 3 buffers with 9.0 MiB\n",
        "held at close: 2 buffers, 4.0 KiB\n",
        "   4.0 KiB        2   L1 buffers of ttnn.add\n",
        "libtt_metal.so+0x1f",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let document = report.json();
    let groups = document["peaks"][0]["groups"].as_array().unwrap();
    let sum: u64 = groups
        .iter()
        .map(|group| group["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(document["peaks"][0]["peak_bytes"], sum);
    assert_eq!(document["left"]["at_close"][0]["operation"], "ttnn.add");
}

#[test]
fn failures_come_first_each_with_its_sentence_and_few_in_full() {
    let one = process(100, "python", &[device(0, 0)]);
    let mut report = report(vec![device(0, 0)], vec![one]);
    let log: String = (1..=5)
        .map(|number| {
            format!(
                "TT_FATAL: Out of Memory: Not enough space to allocate {} B DRAM buffer across 12 \
                 banks, where each bank needs to store {} B, but bank size is 900000 B (allocated: \
                 890000 B, free: 10000 B, largest free block: 10000 B)\n",
                number * 1_200_000,
                number * 100_000
            )
        })
        .collect();
    report.contents.failures = ttmem_report::explain::log::read(log.as_bytes())
        .unwrap()
        .failures;
    report.contents.failures_not_kept = 2;
    let text = render::ran(&report, PLAIN);
    let (before, after) = text.split_once("\nPEAK").unwrap();
    assert_eq!(before.matches("DRAM is full").count(), 5, "{text}");
    assert_eq!(before.matches("what to do").count(), 3, "{text}");
    assert!(before.contains("2 failures before these"), "{text}");
    assert!(!after.contains("is full"), "{text}");
    assert_eq!(report.json()["failures"].as_array().unwrap().len(), 5);
}

/// Each step of a loop is a program of its own, and fails alike.
#[test]
fn failures_that_are_alike_are_printed_once() {
    let one = process(100, "python", &[device(0, 0)]);
    let mut report = report(vec![device(0, 0)], vec![one]);
    let clash = |program: u32, limit: u32, by: u32| {
        format!(
            "Statically allocated circular buffers in program {program} clash with L1 buffers on core \
             range [0-0 - 7-3]. L1 buffer allocated at {limit} and static circular buffer region \
             ends at {}\n",
            limit + by
        )
    };
    let log: String = (1..=5).map(|program| clash(program, 147_456, 64)).collect();
    let log = log + &clash(6, 150_000, 64) + &clash(7, 147_456, 96);
    report.contents.failures = ttmem_report::explain::log::read(log.as_bytes())
        .unwrap()
        .failures;
    assert_eq!(report.contents.failures.len(), 7);
    let text = render::ran(&report, PLAIN);
    assert_eq!(text.matches("CLASH").count(), 2, "{text}");
    assert!(text.contains("CLASH · line 1 · 6 times\n"), "{text}");
    assert!(text.contains("96 B too much"), "by another size\n{text}");
    let all = report.json();
    assert_eq!(all["failures"].as_array().unwrap().len(), 7);
}

/// Two ranks of one program, each with a device of its own.
fn two_ranks() -> Report {
    let rank = |number: u32| {
        let mut process = process(100 + number, "python", &[device(number, 1)]);
        let labels = [("rank", number.to_string()), ("world_size", "2".to_owned())];
        process.labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
        process
    };
    report(vec![device(0, 1), device(1, 1)], vec![rank(0), rank(1)])
}

#[test]
fn ranks_that_fail_alike_are_named_in_one_failure() {
    let full = "TT_FATAL: Out of Memory: Not enough space to allocate 1200000 B DRAM buffer across 12 banks, \
                where each bank needs to store 100000 B, but bank size is 900000 B (allocated: 890000 B, \
                free: 10000 B, largest free block: 10000 B)\n";
    let mut report = two_ranks();
    let [failure] = &ttmem_report::explain::log::read(full.as_bytes())
        .unwrap()
        .failures[..]
    else {
        panic!("one message is one failure");
    };
    let of = |pid: u32| Explanation {
        pid: Some(pid),
        device_ids: Some(vec![pid - 100]),
        ..failure.clone()
    };
    report.contents.failures = vec![of(101), of(100)];
    let text = render::ran(&report, PLAIN);
    assert_eq!(text.matches("what to do").count(), 1, "{text}");
    let said = "ranks 0-1 failed alike, shown as of rank 1:\n";
    assert!(text.contains(said), "{text}");
    // Processes that are no ranks of one program failed each for itself.
    report.contents.failures = vec![of(200), of(201)];
    let text = render::ran(&report, PLAIN);
    assert_eq!(text.matches("what to do").count(), 2, "{text}");
    assert!(!text.contains("alike"), "{text}");
}

#[test]
fn a_peak_has_what_every_process_placed_once() {
    let mut report = two_ranks();
    let of = |pid, name, bytes| PeakGroup {
        pid: Some(pid),
        ..peak_group(Some(name), 3, bytes)
    };
    let contents = PeakContents {
        schema: SCHEMA,
        time: Timestamp::from_unix_nanos(0),
        device: 0,
        unique_id: None,
        pid: None,
        of: PeakOf::Dram,
        peak_bytes: 9 << 20,
        peak_time: None,
        groups: vec![
            of(100, "only one", 3 << 20),
            of(101, "both", 2 << 20),
            of(100, "both", 2 << 20),
            of(100, "stranger", 1 << 20),
            of(7, "stranger", 1 << 20),
        ],
    };
    report.contents.peaks = vec![PeakOfClass {
        class: MemoryClass::Dram,
        contents,
        devices: 1,
    }];
    let wide = Screen {
        width: 120,
        ..PLAIN
    };
    let text = render::ran(&report, wide);
    let from = "at model.py:12, called from run.py:3";
    for line in [
        format!("   4.0 MiB        6   both {from}, ranks 0-1\n"),
        format!("   3.0 MiB        3   only one {from}, rank 0, pid 100\n"),
        format!("   2.0 MiB        6   stranger {from}, 2 processes\n"),
    ] {
        assert!(text.contains(&line), "no {line:?} in\n{text}");
    }
}

#[test]
fn what_grew_is_said_before_the_peaks_with_its_line() {
    let one = process(100, "python", &[device(0, 0)]);
    let mut report = report(vec![device(0, 0)], vec![one]);
    assert!(!render::ran(&report, PLAIN).contains("growing"));
    let group = LeakGroup {
        pid: Some(100),
        instance: None,
        process: None,
        departed: true,
        line: Some("/home/me/model.py:57 forward".into()),
        callers: Vec::new(),
        operation: Some("ttnn.empty".into()),
        class: None,
        buffers: 4,
        bytes: 8 << 20,
        each_bytes: Some(2 << 20),
    };
    report.contents.growing = vec![
        GrowingGroup {
            group,
            mark: Some("step".into()),
            since: 3,
            steps: 4,
            bytes_per_step: 2 << 20,
            sentence: String::new(),
        }
        .in_words(),
    ];
    let text = render::ran(&report, PLAIN);
    let (before, _after) = text.split_once("\nPEAK").unwrap();
    let sentence = "growing: +2.0 MiB per step since step 3, model.py:57 (ttnn.empty, 4 buffers)\n";
    assert!(before.contains(sentence), "{text}");
    assert_eq!(report.json()["growing"][0]["since"], 3);
}

#[test]
fn what_processes_left_is_told_even_if_the_server_forgot_them() {
    let mut first = process(100, "worker", &[device(0, 1)]);
    first.leak_candidates = LeakCandidates {
        buffers: 2,
        bytes: 4096,
    };
    let mut second = process(200, "python", &[device(0, 1)]);
    let early = snapshot(vec![device(0, 1)], vec![first, second.clone()]);
    second.state = ProcessState::Exited;
    second.devices.clear();
    second.released = Some(Released {
        buffers: 3,
        cbs: 0,
        kernels: 2,
        bytes: 3 << 20,
        buffer_bytes: 3 << 20,
        time: Timestamp::from_unix_nanos(0),
        reason: "ended".into(),
    });
    second.lost_events = 7;
    second.incomplete_reasons = vec![
        reason("events_lost", 7, None),
        reason(
            "not_tracked",
            1,
            Some("scratchpads are not tracked: no `x`"),
        ),
    ];
    let late = snapshot(vec![device(0, 0)], vec![second]);
    let mut watched = Watched::new(Whose::All, &snapshot(Vec::new(), Vec::new()));
    watched.take(&early);
    watched.take(&late);
    let mut report = Report::without_contents(ran(true), watched, &late);
    assert_eq!(report.leak_candidates.buffers, 2);
    assert_eq!((report.lost_events(), report.still_running()), (7, 1));
    let text = render::ran(&report, PLAIN);
    for line in [
        "ttmem: python model.py ended with code 0 after 12.3 s",
        "2 processes tracked",
        "  pid 200 python: INCOMPLETE, 7 events lost",
        "  pid 200 python: INCOMPLETE, scratchpads are not tracked: no `x`",
        "held at close: 2 buffers, 4.0 KiB",
        "  pid 100 worker: 2 buffers, 4.0 KiB",
        "  pid 200 python: ended, held at exit 3 buffers: 3.0 MiB",
        "still running: 1 process, no longer tracked",
        "anomalies 0, lost 7 events, elided 0 events",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(!text.contains("other users"), "{text}");
    report.ran.own_server = false;
    let text = render::ran(&report, PLAIN);
    assert!(!text.contains("other users"), "{text}");
    assert!(text.contains("was not started for this run"), "{text}");
    report.has_other_users = true;
    let text = render::ran(&report, PLAIN);
    assert!(text.contains("other users: peaks are of one\n"), "{text}");
}

/// A server remembers who has ended: only who lives beside the run uses it, too.
#[test]
fn other_users_are_those_who_live_beside_the_run() {
    let other = process(NOBODY, "other", &[device(0, 1)]);
    let mut ended = other.clone();
    ended.state = ProcessState::Exited;
    let own = process(4711, "python", &[device(0, 1)]);
    for (before, comes, has_others) in [
        (vec![], vec![], false),
        (vec![ended.clone()], vec![], false),
        (vec![other], vec![], true),
        // This very process has no tag of the run.
        (
            vec![ended],
            vec![process(std::process::id(), "test", &[])],
            true,
        ),
    ] {
        let mut watched = Watched::new(
            Whose::Tagged("1-2".into()),
            &snapshot(Vec::new(), before.clone()),
        );
        watched.program = Some(4711);
        let processes = [before, comes, vec![own.clone()]].concat();
        let after = snapshot(vec![device(0, 1)], processes);
        watched.take(&after);
        let report = Report::without_contents(ran(false), watched, &after);
        let text = render::ran(&report, PLAIN);
        assert!(report.is_tracked(), "{text}");
        assert_eq!(text.contains("has other users"), has_others, "{text}");
    }
}

#[test]
fn the_page_is_short_where_there_is_little_to_say() {
    let mut one = process(100, "python", &[device(0, 0)]);
    one.leak_candidates = LeakCandidates {
        buffers: 2,
        bytes: 4096,
    };
    let with_capacity = |id, capacity_bytes| Device {
        dram: ClassUsage {
            capacity_bytes: Some(capacity_bytes),
            ..ClassUsage::default()
        },
        l1: ClassUsage::default(),
        cb: CbUsage::default(),
        kernel: KernelUsage::default(),
        l1_small: ClassUsage::default(),
        trace: ClassUsage::default(),
        ..device(id, 0)
    };
    let alike = vec![with_capacity(0, 3 << 30), with_capacity(1, 3 << 30)];
    let mut short = report(alike, vec![one.clone()]);
    short.ran.command[0] = "/opt/venv/bin/python".into();
    short.ran.command.push("x".repeat(300).into());
    let text = render::ran(&short, PLAIN);
    assert!(text.starts_with("ttmem: python model.py"), "{text}");
    assert!(text.contains('…'), "a long command is cut\n{text}");
    // A process that is the only one needs no line of its own.
    assert!(text.contains("held at close: 2 buffers, 4.0 KiB\n"));
    assert!(!text.contains("pid 100"), "{text}");
    assert!(
        text.contains("\nEND: nothing is held: what was left went with the devices\n"),
        "{text}"
    );
    assert!(text.contains("\nof        3.0 GiB\n"), "{text}");
    let different = vec![with_capacity(0, 3 << 30), with_capacity(1, 1 << 30)];
    let text = render::ran(&report(different, vec![one]), PLAIN);
    assert!(!text.contains("\nof "), "{text}");
}

#[test]
fn on_a_server_of_others_only_devices_and_processes_of_the_run_count() {
    let stranger = process(NOBODY, "other", &[device(0, 1)]);
    let before = snapshot(vec![device(0, 1)], vec![stranger.clone()]);
    let mut watched = Watched::new(Whose::Tagged("1-2".into()), &before);
    // This very process is not of the run either, and says so by its environment.
    let here = process(std::process::id(), "test", &[device(1, 1)]);
    let mut gone = process(NOBODY - 1, "quick", &[]);
    gone.state = ProcessState::Exited;
    let after = snapshot(vec![device(0, 1), device(1, 1)], vec![stranger, here, gone]);
    watched.take(&after);
    let report = Report::without_contents(ran(false), watched, &after);
    assert!(!report.is_tracked() && report.devices.is_empty());
    assert_eq!(report.unknown_processes, 1);
    let text = render::ran(&report, PLAIN);
    assert!(text.contains("not tracked: nothing was reported"), "{text}");
    assert!(
        text.contains("1 process ended too soon to know whether of this run"),
        "{text}"
    );
}

#[test]
fn the_worst_names_and_the_largest_numbers_fit_the_page() {
    let mut worst = process(NOBODY, &"\u{1b}[2J n\n".repeat(60), &[]);
    worst.leak_candidates = LeakCandidates {
        buffers: u64::MAX,
        bytes: u64::MAX,
    };
    worst.anomalies = u64::MAX;
    worst.lost_events = u64::MAX;
    let mut full = device(NOBODY, 8);
    full.dram.peak_bytes = u64::MAX;
    let mut report = report(vec![full], vec![worst.clone(), process(1, "x", &[])]);
    report.ran.command = vec!["\u{202e}".repeat(300).into(), "\r".into()];
    let text = render::ran(&report, PLAIN);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.contains(['\u{1b}', '\r', '\u{202e}']), "{line:?}");
    }
    let colored = render::ran(
        &report,
        Screen {
            color: true,
            ..PLAIN
        },
    );
    assert!(colored.contains('\u{1b}'));
    let document = report.json();
    assert_eq!(document["devices"][0]["peak_bytes"]["dram"], u64::MAX);
}

#[test]
fn ranks_have_a_row_each_and_the_odd_ones_are_named() {
    let rank = |number: u32, gib: u64| {
        let mut process = process(100 + number, "python", &[device(number, 1)]);
        process.devices[0].peak = Some(PeakBytes {
            dram: gib << 30,
            ..PeakBytes::default()
        });
        let labels = [("rank", number.to_string()), ("world_size", "6".to_owned())];
        process.labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
        process
    };
    let mut processes = vec![rank(0, 2), rank(1, 2), rank(2, 5)];
    processes[1].leak_candidates = LeakCandidates {
        buffers: 3,
        bytes: 3 << 20,
    };
    let report = report(vec![device(0, 1), device(1, 1), device(2, 1)], processes);
    let text = render::ran(&report, PLAIN);
    for line in [
        "RANK         DRAM  L1 buffers    L1_SMALL       TRACE\n",
        "2         5.0 GiB         0 B         0 B         0 B\n",
        "rank 2 took 5.0 GiB of DRAM, the median of the others is 2.0 GiB\n",
        "rank 1 held at close: 3 buffers, 3.0 MiB\n",
        "ranks 3-5 reported nothing here: they use no device, ran elsewhere or report to\n",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    assert_eq!(
        report.json()["ranks"]["missing"],
        serde_json::json!([3, 4, 5])
    );
}

#[test]
fn a_peak_above_the_capacity_is_explained() {
    let mut over = device(0, 1);
    over.dram.peak_bytes = 15 << 30;
    let devices = vec![over.clone(), Device { id: 1, ..over }];
    let report = report(devices.clone(), vec![process(1, "python", &devices)]);
    let text = render::ran(&report, PLAIN);
    let said = "device 0: DRAM peak 15.0 GiB, more than the device has (12.0 GiB): allocators \
                overlapped, or it was opened with more then, and so on 1 other device";
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(said), "{text}");
}

#[test]
fn labels_that_do_not_count_are_named() {
    let mut one = process(100, "python", &[device(0, 0)]);
    one.labels.insert("rank".to_owned(), "9999999".to_owned());
    let mut other = process(101, "python", &[device(0, 0)]);
    other.labels.insert("rank".to_owned(), "1".to_owned());
    let mut report = report(vec![device(0, 0)], vec![one, other]);
    report.ran.warnings = vec!["TTMEM_DISABLE: \"maybe\" is neither 0 nor 1".to_owned()];
    let text = render::ran(&report, PLAIN);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let rank =
        "pid 100: its label rank, \"9999999\", is not a number up to 1048576 and does not count";
    assert!(text.contains(rank), "{text}");
    assert!(text.contains("TTMEM_DISABLE: \"maybe\" is"), "{text}");
    assert!(!text.contains("101: its label"), "{text}");
    assert_eq!(report.json()["refused_labels"][0]["value"], "9999999");
    let warnings = &report.json()["warnings"];
    assert_eq!(warnings.as_array().map(Vec::len), Some(1), "{warnings}");
    assert!(!text.contains("held at close"), "nothing was: {text}");
    // Also where they are why nothing was tracked.
    let mut nothing = self::report(Vec::new(), Vec::new());
    nothing.ran.warnings = vec!["TTMEM_DISABLE: \"1\" turns tracking off".to_owned()];
    let text = render::ran(&nothing, PLAIN);
    assert!(text.contains("turns tracking off"), "{text}");
}

#[test]
fn what_was_left_behind_again_and_again_is_said_to_be_a_sum() {
    let devices = [device(0, 0)];
    let mut leaking = process(100, "python", &devices);
    leaking.leak_candidates.buffers = 7;
    for (bytes, is_sum) in [(1 << 20, false), (1 << 30, true)] {
        leaking.leak_candidates.bytes = bytes;
        leaking.devices[0].peak = Some(PeakBytes {
            dram: 1 << 20,
            ..PeakBytes::default()
        });
        let text = render::ran(&report(devices.to_vec(), vec![leaking.clone()]), PLAIN);
        assert!(text.contains("\nheld at close: 7 buffers, "), "{text}");
        let said = text.contains("The sum over every time");
        assert_eq!(said, is_sum, "{text}");
    }
}
