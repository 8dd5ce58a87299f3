//! What a monitoring system is told: the same figures as everybody, under names that stay, whatever processes say.

use super::hostility::{WATCHDOG, exchange};
use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::{Command as Program, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ttmem_event::{ClashKind, ProgramId};
use ttmem_ledger::{FailureKind, Labels, Resync};
use ttmem_report::{ClassUsage, ProcessState};

const OPEN: &str = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";

/// Every name with its type and the labels that it has beside those of a process.
const NAMES_AND_TYPES: &str = include_str!("metrics_names.txt");

type Sample = (String, BTreeMap<String, String>, f64);

/// Asks for metrics; head and body.
fn scraped(served: &Served, query: &str, headers: &str) -> (String, String) {
    let request =
        format!("GET /metrics{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    let answer = exchange(served, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    (head.to_owned(), body.to_owned())
}

/// The samples of a text, each line of which must be one that can be read.
fn samples(text: &str) -> Vec<Sample> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples: Vec<Sample> = lines.map(sample).collect();
    let sets: BTreeSet<String> = samples
        .iter()
        .map(|(n, l, _)| format!("{n}{l:?}"))
        .collect();
    assert_eq!(sets.len(), samples.len(), "no sample comes twice");
    samples
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).expect(line);
    let (name, mut rest) = line.split_at(end);
    let is_name = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
    assert!(
        name.starts_with("ttmem_") && name.chars().all(is_name),
        "{line}"
    );
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (key, value) = rest.split_once("=\"").expect(line);
            assert!(key.chars().all(is_name), "{line}");
            let mut text = String::new();
            let mut chars = value.char_indices();
            let end = loop {
                match chars.next().expect(line) {
                    (end, '"') => break end,
                    (_, '\\') => match chars.next().expect(line).1 {
                        'n' => text.push('\n'),
                        other => {
                            assert!("\\\"".contains(other), "{line}");
                            text.push(other);
                        }
                    },
                    (_, other) => text.push(other),
                }
            };
            assert_eq!(labels.insert(key.to_owned(), text), None, "{line}");
            rest = &value[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break rest = rest.strip_prefix('}').expect(line),
            }
        }
    }
    let value = rest.strip_prefix(' ').expect(line).parse().expect(line);
    (name.to_owned(), labels, value)
}

/// Holds a text against Prometheus's own reader, where there is one.
fn check(text: &str) {
    let started = Program::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = started else {
        let is_required = std::env::var("CI").as_deref() == Ok("true");
        assert!(
            !is_required,
            "promtool is not there: cargo xtask installs it"
        );
        return;
    };
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}\n{text}");
}

fn labelled(ledger: &mut Ledger, process: u32, labels: &[(&str, &str)]) {
    ledger.make(Change::SetLabels {
        process,
        labels: Labels::new(labels.iter().copied()),
    });
}

/// A process that holds something of every kind, and that was refused something.
fn busy() -> Ledger {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    labelled(
        &mut ledger,
        process,
        &[
            ("job", "91"),
            ("rank", "3"),
            ("container", "4f5e0c1b2a39"),
            ("team", "vision"),
        ],
    );
    let (dram, l1) = (n150().dram.base, n150().l1.base);
    apply(
        &mut ledger,
        process,
        5,
        allocated(1, Class::Dram, dram, 2048),
    );
    apply(&mut ledger, process, 6, allocated(2, Class::L1, l1, 4096));
    apply(&mut ledger, process, 7, refused(2048, 8192, 1024));
    apply(&mut ledger, process, 8, refused(1 << 20, 8192, 1024));
    for count in [3, 4] {
        apply(&mut ledger, process, 9, EventKind::EventsLost { count });
    }
    ledger
}

/// A request for DRAM that was refused.
fn refused(need: u64, free: u64, largest: u64) -> EventKind {
    EventKind::AllocationFailed {
        mesh: BOTH,
        class: Class::Dram,
        banks: 12,
        requested_bytes: 12 * need,
        per_bank_bytes: need,
        free_bytes: free,
        largest_free_bytes: largest,
        bank_bytes: 1 << 30,
        operation: TextId(2),
        call_first: 0,
    }
}

#[test]
fn names_and_types_are_those_that_are_promised() {
    let served = Served::new(busy());
    let (head, text) = scraped(&served, "", "");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    let mut found = String::new();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            writeln!(found, "{described}").unwrap();
        }
    }
    assert_eq!(
        found, NAMES_AND_TYPES,
        "a name that is promised is gone, or one is not in the list"
    );
    let manual = include_str!("../../../../../docs/metrics.md");
    for line in NAMES_AND_TYPES.lines() {
        let (name, kind) = line.split_once(' ').unwrap();
        let row = manual
            .lines()
            .find(|row| row.starts_with(&format!("| `{name}` | {kind}")));
        assert!(row.is_some(), "docs/metrics.md has no {line}");
    }
    let rows = manual
        .lines()
        .filter(|line| line.starts_with("| `ttmem_"))
        .count();
    assert_eq!(
        rows,
        NAMES_AND_TYPES.lines().count(),
        "docs/metrics.md has others"
    );
    check(&text);
}

#[test]
fn both_formats_have_the_same_samples() {
    let served = Served::new(busy());
    let (head, open) = scraped(&served, "", OPEN);
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(open.ends_with("# EOF\n"));
    assert!(open.contains("# UNIT ttmem_device_charged_bytes bytes\n"));
    assert!(open.contains("# TYPE ttmem_device_failures counter\n"));
    let (_head, classic) = scraped(&served, "", "");
    assert_eq!(samples(&open), samples(&classic));
    assert!(!classic.contains("# EOF") && !classic.contains("# UNIT"));
    assert!(classic.contains("# TYPE ttmem_device_failures_total counter\n"));
}

#[test]
fn every_figure_is_that_of_the_snapshot() {
    let served = Served::new(busy());
    let (_head, text) = scraped(&served, "", "");
    let found = samples(&text);
    let value = |name: &str, labels: &[(&str, &str)]| {
        let mut found = found.iter().filter(|(known, of, _)| {
            known == name
                && labels
                    .iter()
                    .all(|(key, value)| of.get(*key).is_some_and(|it| it == value))
        });
        let first = found.next().map(|(_, _, value)| *value);
        assert!(found.next().is_none(), "{name} {labels:?} is one sample");
        first
    };
    let figure = |known: Option<u64>| known.map(|bytes| bytes as f64);
    let snapshot = served.client().snapshot().unwrap();
    assert_eq!(snapshot.devices.len(), 2);
    for device in &snapshot.devices {
        let id = device.id.to_string();
        for (class, usage) in [
            ("dram", device.dram),
            ("l1", device.l1),
            ("l1_small", device.l1_small),
            ("trace", device.trace),
        ] {
            let of = |name: &str| {
                value(
                    &format!("ttmem_device_{name}_bytes"),
                    &[("device", &id), ("class", class)],
                )
            };
            let ClassUsage {
                charged_bytes,
                requested_bytes,
                peak_bytes,
                ..
            } = usage;
            assert_eq!(of("capacity"), figure(usage.capacity_bytes));
            assert_eq!(of("charged"), figure(Some(charged_bytes)));
            assert_eq!(of("requested"), figure(Some(requested_bytes)));
            assert_eq!(of("peak"), figure(Some(peak_bytes)));
            assert_eq!(of("free"), figure(usage.free_bytes()));
            assert_eq!(of("largest_fit"), figure(usage.largest_fit_bytes()));
        }
        let of = |name: &str| value(&format!("ttmem_device_{name}"), &[("device", &id)]);
        assert_eq!(of("l1_physical_bytes"), figure(device.l1.physical_bytes));
        assert_eq!(of("l1_occupied_bytes"), figure(device.l1.occupied_bytes));
        assert_eq!(of("cb_resident_bytes"), figure(device.cb.resident_bytes));
        assert_eq!(
            of("cb_headroom_bytes"),
            device.cb_headroom_bytes.map(|bytes| bytes as f64)
        );
        assert_eq!(of("dispatches_total"), figure(Some(device.dispatches)));
        assert_eq!(of("clashes_total"), figure(Some(device.failures.clash)));
        assert_eq!(
            of("config_ring_stalls_total"),
            figure(Some(device.ring_stalls))
        );
        let failed = |verdict| {
            value(
                "ttmem_device_failures_total",
                &[("device", &id), ("verdict", verdict)],
            )
        };
        assert_eq!(failed("fragmentation"), Some(1.0));
        assert_eq!(
            (failed("capacity"), device.failures.capacity),
            (Some(1.0), 1)
        );
    }
    let process = &snapshot.processes[0];
    assert_eq!(process.labels["team"], "vision");
    let pid = process.pid.unwrap().to_string();
    let of_process = [
        ("pid", &*pid),
        ("name", "python"),
        ("job", "91"),
        ("rank", "3"),
        ("container", "4f5e0c1b2a39"),
    ];
    let charged = |class| {
        let labels: Vec<_> = of_process.into_iter().chain([("class", class)]).collect();
        value("ttmem_process_charged_bytes", &labels)
    };
    let sum: u64 = process.devices.iter().map(|device| device.dram_bytes).sum();
    assert!(sum > 0);
    assert_eq!(charged("dram"), figure(Some(sum)));
    let sum: u64 = process.devices.iter().map(|device| device.l1_bytes).sum();
    assert_eq!(charged("l1"), figure(Some(sum)));
    assert_eq!(
        value("ttmem_process_incomplete", &of_process),
        Some(1.0),
        "events were lost"
    );
    assert_eq!(value("ttmem_incomplete_processes", &[]), Some(1.0));
    assert_eq!(
        value("ttmem_events_total", &[]),
        figure(Some(snapshot.server.events_applied))
    );
    assert_eq!(value("ttmem_lost_events_total", &[]), Some(7.0));
    assert_eq!(snapshot.server.events_lost, 7);
    assert_eq!(
        value("ttmem_failures_total", &[]),
        figure(Some(snapshot.failures.count))
    );
    assert_eq!(
        value("ttmem_start_time_seconds", &[]),
        Some((NOW / 1_000_000 - 90_500) as f64 / 1000.0)
    );
    let live = snapshot
        .processes
        .iter()
        .filter(|it| it.state == ProcessState::Live);
    assert_eq!(
        value("ttmem_processes", &[("state", "live")]),
        Some(live.count() as f64)
    );
    for (anomaly, count) in &snapshot.anomalies.0 {
        assert_eq!(
            value("ttmem_anomalies_total", &[("anomaly", anomaly)]),
            figure(Some(*count))
        );
    }
}

#[test]
fn what_is_not_known_has_no_sample() {
    let mut ledger = empty_ledger();
    ledger.join(identity(Some(7), Source::Legacy));
    let served = Served::new(ledger);
    let (_head, text) = scraped(&served, "", "");
    for unknown in [
        "ttmem_process_growth_per_mark_bytes{",
        "job=",
        "rank=",
        "container=",
    ] {
        assert!(!text.contains(unknown), "{unknown}: {text}");
    }
    assert!(text.contains("ttmem_up 1\n"));
    check(&text);
}

#[test]
fn counts_stay_when_those_who_counted_are_gone() {
    let mut ledger = busy();
    let before = ledger.view();
    ledger.resync(
        0,
        Resync {
            definitions: Vec::new(),
            state: Vec::new(),
            clock: ttmem_event::wire::Clock::UNIX_NANOS,
            lost_events: 1,
            elided_events: 5,
        },
    );
    let after = ledger.view();
    assert_eq!(
        after.counts.lost_events, before.counts.lost_events,
        "it says less than is known"
    );
    assert_eq!(after.counts.elided_events, 5);
    ledger.depart(0, Departure::Ended, 30);
    let gone = ledger.view();
    assert_eq!(gone.counts, after.counts);
    for (gone, before) in gone.devices.iter().zip(&before.devices) {
        assert_eq!(gone.counts, before.counts);
        assert_eq!(
            gone.counts
                .failures()
                .map(|(_kind, count)| count)
                .sum::<u64>(),
            2
        );
    }
}

/// The ledger counts by the same rule by which failures are explained.
#[test]
fn a_failure_is_counted_as_what_its_explanation_says() {
    let events = (0..4_u64).flat_map(|need| {
        (0..4).flat_map(move |free| {
            (0..=free).flat_map(move |largest| {
                (0..4).flat_map(move |bank| {
                    [Class::Dram, Class::L1, Class::L1Small, Class::Trace].map(|class| {
                        EventKind::AllocationFailed {
                            mesh: BOTH,
                            class,
                            banks: 1,
                            requested_bytes: need,
                            per_bank_bytes: need,
                            free_bytes: free,
                            largest_free_bytes: largest,
                            bank_bytes: bank,
                            operation: TextId(2),
                            call_first: 0,
                        }
                    })
                })
            })
        })
    });
    let clashes = [
        ClashKind::L1Buffer,
        ClashKind::BeyondL1,
        ClashKind::ServiceCore,
        ClashKind::OutsideGrid,
    ];
    let clashes = clashes.map(|kind| EventKind::Clashed {
        mesh: BOTH,
        program: ProgramId(1),
        kind,
        cores: CoresId(1),
        region_end: 5000,
        limit: 4000,
        call_first: 0,
    });
    let mut seen = BTreeSet::new();
    for event in events.chain(clashes) {
        let mut ledger = empty_ledger();
        let process = joined(&mut ledger, 4001);
        apply(&mut ledger, process, 5, event);
        let view = ledger.view();
        let explained =
            crate::read::failures::explained(&view.failures.newest().unwrap().clone(), vec![0]);
        let (mesh, kind) = FailureKind::of(&event).unwrap();
        assert_eq!(mesh, BOTH);
        let counted: Vec<_> = view.devices[0]
            .counts
            .failures()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(counted, [(kind, 1)]);
        assert_eq!(explained.verdict.as_str(), word(kind), "{event:?}");
        seen.insert(kind);
    }
    assert_eq!(seen.len(), FailureKind::ALL.len());
    assert_eq!(FailureKind::of(&EventKind::EventsLost { count: 1 }), None);
}

fn word(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Capacity => "capacity",
        FailureKind::Fragmentation => "fragmentation",
        FailureKind::Clash => "clash",
        FailureKind::RegionTooSmall => "region_too_small",
        FailureKind::Unknown => "unknown",
    }
}

#[test]
fn hostile_names_and_labels_inject_nothing() {
    let mut ledger = empty_ledger();
    let hostile = [
        "a\"} 1\nttmem_up 0\n# EOF",
        "\\",
        "\"",
        "x\\\"",
        "\u{1b}[31m\u{202e}\r\u{0}",
        "# TYPE ttmem_up counter",
        "{}",
        "模型",
    ];
    for (number, text) in (0..).zip(hostile) {
        let process = ledger.join(ProcessIdentity {
            name: text.into(),
            visible_devices: text.into(),
            ..identity(Some(100 + number), Source::Client)
        });
        labelled(
            &mut ledger,
            process,
            &[
                ("job", text),
                ("rank", text),
                ("container", text),
                ("x", text),
            ],
        );
        let id = TextId(1);
        let board = Definition::Text {
            id,
            text: text.to_owned(),
        };
        ledger.define(process, &board).unwrap();
        let device = DeviceDefinition {
            id: DeviceId(1),
            logical_id: 0,
            unique_id: None,
            arch: Arch::Wormhole,
            board: TextId(1),
            remote: None,
            grid_columns: 8,
            grid_rows: 8,
            l1_bytes_per_core: 1 << 20,
            l1_reserved_bytes: 0,
        };
        ledger.define(process, &Definition::Device(device)).unwrap();
        let mesh = MeshDefinition {
            id: BOTH,
            kind: MeshKind::Mesh,
            handle: 1,
            rows: 1,
            columns: 1,
            devices: vec![DeviceId(1)],
        };
        ledger.define(process, &Definition::Mesh(mesh)).unwrap();
    }
    let served = Served::new(ledger);
    for headers in ["", OPEN] {
        let (_head, text) = scraped(&served, "", headers);
        let found = samples(&text);
        let up: Vec<f64> = found
            .iter()
            .filter(|(name, ..)| name == "ttmem_up")
            .map(|it| it.2)
            .collect();
        assert_eq!(up, [1.0]);
        let of = found
            .iter()
            .filter(|(name, ..)| name == "ttmem_process_incomplete");
        let jobs: Vec<&String> = of.map(|(_, labels, _)| &labels["job"]).collect();
        assert_eq!(jobs.len(), hostile.len());
        assert!(
            jobs.contains(&&"a\"} 1?ttmem_up 0?# EOF".to_owned()),
            "{jobs:?}"
        );
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\r', '\u{0}']));
        let devices = found
            .iter()
            .filter(|(name, ..)| name == "ttmem_device_info");
        assert_eq!(devices.count(), hostile.len(), "each in a set of its own");
        if headers.is_empty() {
            check(&text);
        }
    }
}

/// Sets of labels of processes in a scrape.
fn series(served: &Served, query: &str) -> BTreeSet<String> {
    let (_head, text) = scraped(served, query, "");
    let found = samples(&text).into_iter();
    let found = found.filter(|(name, ..)| name == "ttmem_process_incomplete");
    found.map(|(_, labels, _)| labels["pid"].clone()).collect()
}

#[test]
fn ten_thousand_short_processes_make_one_series() {
    let ledger = Arc::new(Mutex::new(empty_ledger()));
    let served = Served::from(state(ledger_thread_of(&ledger), facts), HttpLimits::SOCKET);
    let mut seen = BTreeSet::new();
    for batch in 0..50_u32 {
        let mut known = ledger.lock().unwrap();
        let slots: Vec<u32> = (0..200)
            .map(|number| {
                let pid = 1000 + batch * 200 + number;
                let process = known.join(ProcessIdentity {
                    start_time: Some(NOW - 2_000_000_000),
                    name: format!("short-{pid}").into(),
                    ..identity(Some(pid), Source::Client)
                });
                labelled(
                    &mut known,
                    process,
                    &[("job", &pid.to_string()), ("rank", "0")],
                );
                process
            })
            .collect();
        drop(known);
        seen.extend(series(&served, ""));
        let mut known = ledger.lock().unwrap();
        for slot in slots {
            known.depart(slot, Departure::Ended, NOW);
        }
    }
    assert_eq!(seen, BTreeSet::from(["other".to_owned()]));
}

#[test]
fn of_many_processes_those_that_hold_most_have_series_and_the_sum_is_the_same() {
    let mut ledger = empty_ledger();
    for number in 0..300_u32 {
        let process = joined(&mut ledger, 1000 + number);
        let at = n150().dram.base;
        let bytes = 64 * (1 + u64::from(number));
        apply(
            &mut ledger,
            process,
            5,
            allocated(1, Class::Dram, at, bytes),
        );
    }
    let expected: u64 = (1..=300).map(|number| 2 * 12 * 64 * number).sum();
    let served = Served::new(ledger);
    for (query, own) in [
        ("", 32),
        ("?processes=0", 0),
        ("?processes=256", 256),
        ("?processes=5&min_age=61", 0),
        ("?min_age=60", 32),
    ] {
        let (_head, text) = scraped(&served, query, "");
        let found: Vec<Sample> = samples(&text)
            .into_iter()
            .filter(|(name, labels, _)| {
                name == "ttmem_process_charged_bytes" && labels["class"] == "dram"
            })
            .collect();
        assert_eq!(found.len(), own + 1, "{query}");
        let sum: f64 = found.iter().map(|(_, _, bytes)| bytes).sum();
        assert_eq!(sum, expected as f64, "{query}");
        let pids: BTreeSet<&str> = found.iter().map(|(_, labels, _)| &*labels["pid"]).collect();
        assert!(pids.contains("other"));
        assert_eq!(
            pids.contains("1299"),
            own > 0,
            "the one that holds most: {query}"
        );
    }
    for query in [
        "?processes=257",
        "?processes=x",
        "?min_age=3601",
        "?min_age=-1",
        "?top=3",
    ] {
        let request =
            format!("GET /metrics{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = exchange(&served, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400"), "{query}");
        if query == "?processes=257" {
            let why = "processes 257 is not between 0 and 256";
            assert!(answer.contains(why), "{answer}");
        }
    }
}

/// A process of a user with devices that nobody else has heard of.
fn with_devices(ledger: &mut Ledger, pid: u32, uid: u32, chips: std::ops::Range<u64>) -> u32 {
    with_devices_since(ledger, NOW - 60 * SECOND, (pid, uid), chips)
}

/// The same of a process that began then.
fn with_devices_since(
    ledger: &mut Ledger,
    began: u64,
    (pid, uid): (u32, u32),
    chips: std::ops::Range<u64>,
) -> u32 {
    let process = ledger.join(ProcessIdentity {
        uid,
        start_time: Some(began),
        ..identity(Some(pid), Source::Client)
    });
    for (number, chip) in (0..).zip(chips) {
        let definition = DeviceDefinition {
            id: DeviceId(number + 1),
            logical_id: number,
            unique_id: Some(chip),
            arch: Arch::Wormhole,
            board: TextId::NONE,
            remote: None,
            grid_columns: 8,
            grid_rows: 8,
            l1_bytes_per_core: 1 << 20,
            l1_reserved_bytes: 0,
        };
        let defined = ledger.define(process, &Definition::Device(definition));
        assert_eq!(defined, Ok(()), "chip {chip}");
    }
    process
}

/// The chips that have samples, and how many devices have none.
fn listed(served: &Served) -> (BTreeSet<u64>, usize) {
    let (_head, text) = scraped(served, "", "");
    let samples = samples(&text);
    let named = |wanted: &'static str| samples.iter().filter(move |(name, ..)| name == wanted);
    let chip = |key: &str| u64::from_str_radix(key.strip_prefix("0x")?, 16).ok();
    let chips = named("ttmem_device_info").filter_map(|(_, labels, _)| chip(&labels["key"]));
    let left_out = named("ttmem_devices_left_out").map(|(.., count)| count.to_string());
    (
        chips.collect(),
        left_out.collect::<String>().parse().unwrap(),
    )
}

#[test]
fn who_invents_devices_hides_none_of_others() {
    const HOSTILE: u32 = 2000;
    const ALSO_HOSTILE: u32 = 2001;
    let mut ledger = empty_ledger();
    // Before anybody else, and in several processes.
    for pid in 0..3 {
        let chips = 10_000 + 1000 * u64::from(pid);
        with_devices(&mut ledger, 500 + pid, HOSTILE, chips..chips + 400);
    }
    with_devices(&mut ledger, 600, ALSO_HOSTILE, 20_000..20_400);
    with_devices(&mut ledger, 700, UID, 1..33);
    // The same chips in use by everybody are nobody's invention.
    with_devices(&mut ledger, 701, UID, 9000..9008);
    with_devices(&mut ledger, 702, HOSTILE, 9000..9008);
    let configured = ttmem_ledger::DeviceFacts {
        unique_id: Some(77),
        ..Default::default()
    };
    ledger.make(Change::ConfigureDevice(Box::new(configured)));
    let ledger = Arc::new(Mutex::new(ledger));
    let served = Served::from(state(ledger_thread_of(&ledger), facts), HttpLimits::SOCKET);
    let (chips, left_out) = listed(&served);
    let expected = (1..33).chain(9000..9008).chain([77]);
    let missing: Vec<u64> = expected.filter(|chip| !chips.contains(chip)).collect();
    assert_eq!(missing, [0_u64; 0]);
    assert_eq!((chips.len(), left_out), (256, 1600 + 32 + 8 + 1 - 256));
    for hostile in [10_000..13_000, 20_000..21_000] {
        let count = chips.range(hostile).count();
        assert!((80..=140).contains(&count), "the rest is shared: {count}");
    }
    // Alone, a user has all places.
    let mut alone = empty_ledger();
    with_devices(&mut alone, 500, HOSTILE, 10_000..10_300);
    assert_eq!(listed(&Served::new(alone)).0.len(), 256);
}

const SECOND: u64 = 1_000_000_000;

/// A server whose clock the test sets, in seconds after [`NOW`].
struct Clocked {
    ledger: Arc<Mutex<Ledger>>,
    seconds: Arc<AtomicU64>,
    served: Served,
}

impl Clocked {
    fn new(ledger: Ledger) -> Self {
        let (ledger, seconds) = (Arc::new(Mutex::new(ledger)), Arc::<AtomicU64>::default());
        let clock = Arc::clone(&seconds);
        let facts = move || ServerFacts {
            time: Timestamp::from_unix_nanos(NOW + clock.load(Relaxed) * SECOND),
            ..facts()
        };
        let served = Served::from(state(ledger_thread_of(&ledger), facts), HttpLimits::SOCKET);
        Self {
            ledger,
            seconds,
            served,
        }
    }

    fn at(&self, seconds: u64) -> u64 {
        self.seconds.store(seconds, Relaxed);
        NOW + seconds * SECOND
    }

    /// The chips that have samples at this time.
    fn listed(&self, seconds: u64) -> BTreeSet<u64> {
        self.at(seconds);
        listed(&self.served).0
    }
}

#[test]
fn unused_devices_stay_ten_minutes() {
    let mut ledger = empty_ledger();
    let configured = ttmem_ledger::DeviceFacts {
        unique_id: Some(77),
        ..Default::default()
    };
    ledger.make(Change::ConfigureDevice(Box::new(configured)));
    let process = with_devices(&mut ledger, 500, UID, 1000..1300);
    ledger.depart(process, Departure::Ended, NOW);
    let server = Clocked::new(ledger);
    assert_eq!(
        listed(&server.served).1,
        45,
        "one more than there is room for"
    );
    // What is known of the process goes before that.
    let mut ledger = server.ledger.lock().unwrap();
    for pid in 0..64 {
        let other = ledger.join(identity(Some(1000 + pid), Source::Client));
        ledger.depart(other, Departure::Ended, NOW);
    }
    drop(ledger);
    assert_eq!(server.listed(599).len(), 256);
    assert_eq!(server.listed(601), BTreeSet::from([77]), "of the driver");
    // In use again they are there again.
    with_devices(&mut server.ledger.lock().unwrap(), 501, UID, 1000..1002);
    assert_eq!(server.listed(602), BTreeSet::from([77, 1000, 1001]));
}

/// An honest process with one device that has ended, and what hostile ones do in twenty scrapes.
fn beside_hostile_devices(age: u64, seconds_between: u64) -> (BTreeSet<String>, BTreeSet<u64>) {
    const HOSTILE: u32 = 2000;
    let mut ledger = empty_ledger();
    let honest = with_devices(&mut ledger, 700, UID, 5..6);
    ledger.depart(honest, Departure::Ended, NOW);
    let server = Clocked::new(ledger);
    let (mut series, mut devices) = (BTreeSet::new(), BTreeSet::new());
    let mut running = None;
    for scrape in 0..20_u64 {
        let now = server.at(scrape * seconds_between);
        let mut ledger = server.ledger.lock().unwrap();
        if let Some(process) = running.take() {
            ledger.depart(process, Departure::Ended, now);
        }
        let pid = 1000 + u32::try_from(scrape).unwrap();
        let chips = 10_000 + 256 * scrape;
        let began = now - age * SECOND;
        let who = (pid, HOSTILE);
        running = Some(with_devices_since(
            &mut ledger,
            began,
            who,
            chips..chips + 256,
        ));
        drop(ledger);
        let (_head, text) = scraped(&server.served, "", "");
        let samples = samples(&text).into_iter();
        series.extend(samples.map(|(name, labels, _value)| format!("{name}{labels:?}")));
        let listed = listed(&server.served).0;
        // A user's devices make room for that user's only, so the other user's stays listed.
        assert!(listed.contains(&5), "scrape {scrape}");
        devices.extend(listed);
    }
    (series, devices)
}

#[test]
fn devices_of_short_processes_make_no_series() {
    let (series, devices) = beside_hostile_devices(0, 1);
    assert_eq!(devices, BTreeSet::from([5]));
    assert!(series.len() < 200, "{} series", series.len());
}

#[test]
fn users_bring_a_bounded_number_of_devices() {
    // Of processes that live for longer.
    let (_series, devices) = beside_hostile_devices(60, 20);
    assert_eq!(devices.len(), 256 + 1);
}

#[test]
fn names_of_devices_are_not_given_to_others() {
    let mut ledger = empty_ledger();
    let first = with_devices(&mut ledger, 500, UID, 1000..1001);
    with_devices(&mut ledger, 501, UID, 2000..2001);
    let server = Clocked::new(ledger);
    let names = || {
        let (_head, text) = scraped(&server.served, "", "");
        let infos = samples(&text).into_iter();
        let infos = infos.filter(|(name, ..)| name == "ttmem_device_info");
        let named: BTreeMap<String, String> = infos
            .map(|(_name, labels, _value)| (labels["key"].clone(), labels["device"].clone()))
            .collect();
        named
    };
    let both = names();
    let second = "0x7d0";
    let later_name = format!("0@{second}");
    assert_eq!(both["0x3e8"], "0");
    assert_eq!(both[second], later_name);
    let mut ledger = server.ledger.lock().unwrap();
    ledger.depart(first, Departure::Ended, NOW);
    let third = with_devices(&mut ledger, 502, UID, 3000..3001);
    drop(ledger);
    server.at(601);
    let left: Vec<String> = names().into_values().collect();
    assert_eq!(left, [later_name, "0@0xbb8".to_owned()]);
    // Back again, it has its name.
    let mut ledger = server.ledger.lock().unwrap();
    ledger.depart(third, Departure::Ended, NOW);
    with_devices(&mut ledger, 503, UID, 1000..1001);
    drop(ledger);
    assert_eq!(names()["0x3e8"], "0");
}

#[test]
fn names_and_labels_are_for_those_who_may_see_them() {
    let names = NamePolicy {
        server_uid: 77,
        over_tcp: false,
    };
    for (uid, sees) in [(UID, true), (0, true), (77, true), (1001, false)] {
        let state = ReadState {
            names,
            ..state(ledger_thread(busy()), facts)
        };
        let served = Served::to(state, HttpLimits::SOCKET, uid);
        let (_head, text) = scraped(&served, "", "");
        for private in ["python", "job=\"91\"", "rank=\"3\"", "4f5e0c1b2a39"] {
            assert_eq!(text.contains(private), sees, "{private} for {uid}: {text}");
        }
        assert!(text.contains("pid=\"4001\""));
        let snapshot = served.client().snapshot().unwrap();
        assert_eq!(snapshot.processes[0].labels.is_empty(), !sees);
    }
    // Nor of one that has ended.
    let mut gone = busy();
    gone.depart(0, Departure::Ended, 30);
    let state = ReadState {
        names,
        ..state(ledger_thread(gone), facts)
    };
    let served = Served::to(state, HttpLimits::SOCKET, 1001);
    assert!(
        served.client().snapshot().unwrap().processes[0]
            .labels
            .is_empty()
    );
}

#[test]
fn scrapers_that_take_nothing_or_ask_all_the_time_hold_up_nobody() {
    let mut ledger = empty_ledger();
    for number in 0..100 {
        joined(&mut ledger, 1000 + number);
    }
    let served = Served::new(ledger);
    let request = b"GET /metrics?processes=256 HTTP/1.1\r\nHost: x\r\n\r\n";
    let stalled: Vec<UnixStream> = (0..24)
        .map(|_scraper| {
            let mut stream = UnixStream::connect(&served.path).unwrap();
            stream.write_all(request).unwrap();
            stream
        })
        .collect();
    thread::scope(|scope| {
        let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        for _hammering in 0..4 {
            let (over, served) = (Arc::clone(&is_over), &served);
            scope.spawn(move || {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    scraped(served, "", "");
                }
            });
        }
        for _reader in 0..20 {
            let client = served.client().with_timeout(WATCHDOG);
            assert_eq!(client.snapshot().unwrap().processes.len(), 100);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    drop(stalled);
}
