//! What is kept, for whom, and how it looks.

use super::*;
use ttmem_event::catalogue::Arch;
use ttmem_event::{
    BufferId, CacheResult, Class, CoreSet, CoreType, CoresId, Definition, DeviceDefinition,
    DeviceId, DispatchPath, EventKind, KernelId, KernelKind, MeshDefinition, MeshId, MeshKind,
    ProgramId, Source, TextId,
};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Departure, Ledger, Limits, ProcessIdentity};
use ttmem_report::FieldValue;

fn marked(time: u64) -> Event {
    let content = EventKind::Marked {
        name: TextId(1),
        number: time,
    };
    Event {
        time,
        kind: content,
    }
}

fn join(ledger: &mut Ledger, pid: u32) -> u32 {
    ledger.join(ProcessIdentity {
        pid: Some(pid),
        start_time: None,
        instance: None,
        uid: 0,
        name: "python".into(),
        source: Source::Client,
        command: "".into(),
        visible_devices: "".into(),
    })
}

fn depart(ledger: &mut Ledger, journal: &Journal, slot: u32) {
    let process = ledger.process(slot).expect("it lives");
    journal.depart(slot, process, |device| ledger.logical_id(device));
    ledger.depart(slot, Departure::Ended, 0);
}

fn times(ledger: &mut Ledger, journal: &Journal, count: usize, pid: Option<u32>) -> Vec<u64> {
    let document = journal.last(count, pid).document(&ledger.view());
    let times = document.events.iter().map(|event| event.time.unix_nanos());
    times.collect()
}

fn push(journal: &Journal, slot: u32, pid: u32, events: &[Event]) {
    journal.push(Batch {
        slot,
        pid: Some(pid),
        events: events.to_vec().into(),
        ..Batch::default()
    });
}

#[test]
fn events_are_counted_from_one_and_given_behind_an_id() {
    let journal = Journal::default();
    let reader = journal.clone();
    let ids = |after: u64, count: usize| -> Vec<u64> {
        let batches = reader.since(after, count).batches;
        let batches = batches.iter();
        let ids = |batch: &Arc<Batch>| {
            let first = batch.first_id;
            let places = batch.behind(after);
            places.map(move |place| first + place as u64)
        };
        batches.flat_map(ids).collect()
    };
    assert_eq!((reader.newest(), reader.since(0, 10).oldest), (0, 1));
    push(&journal, 0, 11, &[marked(0), marked(1), marked(2)]);
    push(&journal, 0, 11, &[]);
    push(&journal, 0, 11, &[marked(3), marked(4)]);
    assert_eq!(reader.newest(), 5);
    assert_eq!(ids(0, 10), [1, 2, 3, 4, 5]);
    assert_eq!(ids(2, 10), [3, 4, 5]);
    assert_eq!(ids(3, 10), [4, 5]);
    assert_eq!(ids(5, 10), [0_u64; 0]);
    assert_eq!(ids(0, 1), [1, 2, 3], "whole batches");
    assert_eq!(ids(u64::MAX, 10), [0_u64; 0]);
}

#[test]
fn only_the_newest_events_are_kept() {
    let journal = Journal::default();
    let thousand: Vec<Event> = (0..1000).map(marked).collect();
    for _batch in 0..100 {
        push(&journal, 0, 11, &thousand);
    }
    let since = journal.since(0, usize::MAX);
    assert_eq!(journal.newest(), 100_000);
    assert_eq!(since.oldest, 35_001, "65 batches of a thousand fit");
    let kept: usize = since.batches.iter().map(|batch| batch.events.len()).sum();
    assert_eq!(kept, 65_000);
    for _batch in 0..10_000 {
        push(&journal, 0, 11, &thousand[..1]);
    }
    let since = journal.since(0, usize::MAX);
    assert_eq!(since.batches.len(), KEPT_BATCHES, "however small they are");
}

#[test]
fn the_last_256_events_of_a_process_are_kept_however_they_came() {
    let mut history = History::default();
    let all: Vec<Event> = (0..1000).map(marked).collect();
    let batch = |events: &[Event], recovered| {
        Arc::new(Batch {
            events: events.to_vec().into(),
            recovered,
            ..Batch::default()
        })
    };
    let mut rest = all.as_slice();
    for size in [0, 1, 255, 1, 300, 2, 400, 41] {
        let (some, after) = rest.split_at(size);
        history.push(batch(some, false));
        rest = after;
        let so_far = all.len() - rest.len();
        let kept = history.places(usize::MAX);
        let kept: Vec<Event> = kept.map(|(batch, at)| batch.events[at]).collect();
        assert_eq!(kept, all[so_far.saturating_sub(256)..so_far]);
    }
    let last = history.last(3);
    let last = last.places(3).map(|(batch, at)| batch.events[at].time);
    assert!(last.eq([997, 998, 999]));
    history.push(batch(&[marked(1000), marked(1001)], true));
    let recovered = history.places(4).map(|(batch, _at)| batch.recovered);
    assert!(recovered.eq([false, false, true, true]));
    history.push(batch(&all, true));
    assert!(history.places(usize::MAX).all(|(batch, _)| batch.recovered));
    // Of a large batch only what is kept stays in memory.
    let before: Vec<u64> = history
        .places(256)
        .map(|(batch, at)| batch.events[at].time)
        .collect();
    history.trim();
    assert_eq!((history.events, history.batches.len()), (256, 1));
    assert_eq!(history.batches[0].events.len(), 256);
    let after: Vec<u64> = history
        .places(256)
        .map(|(batch, at)| batch.events[at].time)
        .collect();
    assert_eq!(before, after);
}

#[test]
fn a_quiet_process_keeps_its_last_events_and_no_more_memory_than_they_need() {
    let (mut ledger, journal) = (Ledger::new(Limits::default()), Journal::default());
    let quiet = join(&mut ledger, 11);
    let busy = join(&mut ledger, 22);
    let large: Vec<Event> = (0..5000).map(marked).collect();
    journal.push(Batch {
        slot: quiet,
        pid: Some(11),
        events: large.clone().into(),
        anomalies: vec![(7, Anomaly::Malformed), (4999, Anomaly::UnknownTrace)],
        ..Batch::default()
    });
    for _batch in 0..20 {
        push(&journal, busy, 22, &large);
    }
    assert!(journal.since(0, 1).oldest > 5000);
    let kept: usize = lock(&journal.shared.kept).processes[quiet as usize]
        .batches
        .iter()
        .map(|batch| batch.events.len())
        .sum();
    assert_eq!(kept, 256);
    let last = journal.last(1000, Some(11)).document(&ledger.view());
    let times = last.events.iter().map(|event| event.time.unix_nanos());
    assert!(times.eq(4744..5000));
    let anomalies = last.events.iter().filter_map(LastEvent::anomaly);
    assert!(anomalies.eq(["unknown_trace"]));
    assert_eq!(last.events[255].anomaly(), Some("unknown_trace"));
}

#[test]
fn events_of_the_living_and_of_the_departed_come_in_the_order_of_their_times() {
    let (mut ledger, journal) = (Ledger::new(Limits::default()), Journal::default());
    let first = join(&mut ledger, 11);
    let second = join(&mut ledger, 22);
    push(&journal, first, 11, &[marked(1), marked(4), marked(6)]);
    push(&journal, second, 22, &[marked(2), marked(5)]);
    depart(&mut ledger, &journal, first);
    // Its slot is somebody else's now.
    let third = join(&mut ledger, 33);
    assert_eq!(third, first);
    push(&journal, third, 33, &[marked(3)]);
    assert_eq!(times(&mut ledger, &journal, 100, None), [1, 2, 3, 4, 5, 6]);
    assert_eq!(times(&mut ledger, &journal, 2, None), [5, 6]);
    assert_eq!(times(&mut ledger, &journal, 2, Some(11)), [4, 6]);
    assert_eq!(times(&mut ledger, &journal, 100, Some(22)), [2, 5]);
    assert!(times(&mut ledger, &journal, 100, Some(44)).is_empty());
}

#[test]
fn events_of_a_process_that_departs_before_the_view_are_not_lost() {
    let (mut ledger, journal) = (Ledger::new(Limits::default()), Journal::default());
    let slot = join(&mut ledger, 11);
    push(&journal, slot, 11, &[marked(1)]);
    let last = journal.last(10, None);
    depart(&mut ledger, &journal, slot);
    assert_eq!(join(&mut ledger, 22), slot);
    let events = last.document(&ledger.view()).events;
    assert_eq!((events.len(), events[0].pid), (1, Some(11)));
    assert_eq!(events[0].process, None, "it is not said to be another one");
}

#[test]
fn the_events_of_64_departed_processes_are_kept() {
    let (mut ledger, journal) = (Ledger::new(Limits::default()), Journal::default());
    for pid in 1..=70_u32 {
        let slot = join(&mut ledger, pid);
        push(&journal, slot, pid, &[marked(u64::from(pid))]);
        depart(&mut ledger, &journal, slot);
        // One that said nothing takes nobody's place.
        let silent = join(&mut ledger, 1000 + pid);
        depart(&mut ledger, &journal, silent);
    }
    let kept: Vec<u64> = (7..=70).collect();
    assert_eq!(times(&mut ledger, &journal, 1000, None), kept);
}

fn define(ledger: &mut Ledger, slot: u32) {
    let device = |id: u32, logical_id: u32| {
        Definition::Device(DeviceDefinition {
            id: DeviceId(id),
            logical_id,
            unique_id: Some(u64::from(id)),
            arch: Arch::Wormhole,
            board: TextId::NONE,
            remote: None,
            grid_columns: 8,
            grid_rows: 8,
            l1_bytes_per_core: 0,
            l1_reserved_bytes: 0,
        })
    };
    let definitions = [
        Definition::Text {
            id: TextId(1),
            text: "ttnn::add".to_owned(),
        },
        Definition::Cores {
            id: CoresId(1),
            cores: CoreSet::grid(4, 3),
        },
        device(50, 2),
        device(51, 3),
        Definition::Mesh(MeshDefinition {
            id: MeshId(9),
            kind: MeshKind::Mesh,
            handle: 0,
            rows: 1,
            columns: 2,
            devices: vec![DeviceId(51), DeviceId(50)],
        }),
    ];
    for definition in &definitions {
        ledger.define(slot, definition).expect("sound");
    }
}

#[test]
fn ids_are_shown_by_what_they_stand_for() {
    let (mut ledger, journal) = (Ledger::new(Limits::default()), Journal::default());
    let slot = join(&mut ledger, 11);
    define(&mut ledger, slot);
    let whats = [
        EventKind::KernelLoaded {
            mesh: MeshId(9),
            program: ProgramId(4),
            kernel: KernelId(0xab),
            kind: KernelKind::Fabric,
            core_type: CoreType::ActiveEth,
            binary_bytes: 100,
            cores: CoresId(1),
            core_count: 12,
            name: TextId(7),
        },
        EventKind::Dispatched {
            mesh: MeshId(8),
            program: ProgramId(4),
            runtime_id: 1,
            operation: TextId(1),
            program_cache: CacheResult::Hit,
            binary_reused: false,
            path: DispatchPath::Fast,
        },
        EventKind::DeviceOpened {
            device: DeviceId(51),
        },
        EventKind::BuffersReleased {
            mesh: MeshId(9),
            class: Some(Class::L1Small),
        },
        EventKind::LegacyFreed { device: -1, id: 16 },
        EventKind::BufferFreed {
            mesh: MeshId(9),
            buffer: BufferId(255),
        },
    ];
    let events: Vec<Event> = (1..)
        .zip(whats)
        .map(|(time, content)| Event {
            time,
            kind: content,
        })
        .collect();
    journal.push(Batch {
        slot,
        pid: Some(11),
        recovered: true,
        events: events.into(),
        anomalies: vec![(5, Anomaly::UnknownFree)],
        ..Batch::default()
    });
    let before = journal.last(10, None).document(&ledger.view());
    depart(&mut ledger, &journal, slot);
    let after = journal.last(10, None).document(&ledger.view());
    assert_eq!(before, after, "a departure changes no names");

    let event = |place: usize| &after.events[place];
    assert!(after.events.iter().all(|event| event.recovered));
    assert_eq!(event(0).pid, Some(11));
    assert_eq!(event(0).process.as_deref(), Some("python"));
    let names: Vec<&str> = after
        .events
        .iter()
        .map(|each| each.event.as_str())
        .collect();
    assert_eq!(names[..3], ["kernel_loaded", "dispatched", "device_opened"]);
    let field = |place: usize, name: &str| {
        let fields = &event(place).fields.0;
        let found = fields.iter().find(|field| field.0 == name);
        found.expect("a field of that name").1.clone()
    };
    let text = |text: &str| FieldValue::Text(text.to_owned());
    assert_eq!(field(0, "devices"), FieldValue::Devices(vec![3, 2]));
    assert_eq!(field(0, "kernel"), text("0xab"));
    assert_eq!(field(0, "core_type"), text("active_eth"));
    assert_eq!(field(0, "cores"), FieldValue::Number(12));
    assert_eq!(field(0, "name"), FieldValue::Unknown);
    assert_eq!(field(1, "devices"), FieldValue::Unknown);
    assert_eq!(field(1, "operation"), text("ttnn::add"));
    assert_eq!(field(1, "binary_reused"), FieldValue::Flag(false));
    assert_eq!(field(2, "device"), FieldValue::Number(3));
    assert_eq!(field(3, "class"), text("l1_small"));
    assert_eq!(field(4, "device"), FieldValue::Negative(-1));
    assert_eq!(field(5, "buffer"), text("0xff"));
    assert_eq!(event(5).anomaly(), Some("unknown_free"));
    assert_eq!(event(4).anomaly(), None);

    // Of a process that is gone with all that it defined, an id stands for nothing.
    let since = journal.since(0, 10);
    let unnamed = since.batches[0].event(0, &Names::default()).event;
    let unknown = |name: &str| (name.to_owned(), FieldValue::Unknown);
    for name in ["devices", "cores", "name"] {
        assert!(unnamed.fields.0.contains(&unknown(name)), "{name}");
    }
    assert_eq!((unnamed.pid, unnamed.process), (Some(11), None));
}
