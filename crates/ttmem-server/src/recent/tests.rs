//! What is kept, for whom, and how it looks.

use super::*;
use ttmem_api::FieldValue;
use ttmem_event::catalogue::Arch;
use ttmem_event::{
    BufferId, CacheResult, Class, CoreSet, CoreType, CoresId, Definition, DeviceDefinition,
    DeviceId, DispatchPath, KernelId, KernelKind, MeshDefinition, MeshId, MeshKind, ProgramId,
    Source, TextId, What,
};
use ttmem_ledger::{Departure, Ledger, Limits, ProcessIdentity};

fn marked(time: u64) -> Event {
    let what = What::Marked {
        name: TextId(1),
        number: time,
    };
    Event { time, what }
}

fn join(ledger: &mut Ledger, recent: &mut Recent, pid: u32) -> u32 {
    let slot = ledger.join(ProcessIdentity {
        pid: Some(pid),
        start_time: None,
        instance: None,
        uid: 0,
        name: "python".into(),
        source: Source::Client,
        visible_devices: "".into(),
    });
    recent.join(slot);
    slot
}

fn depart(ledger: &mut Ledger, recent: &mut Recent, slot: u32) {
    let facts = ledger.facts(slot).expect("it lives");
    recent.depart(slot, &Shown::new(facts, ledger.devices()));
    ledger.depart(slot, Departure::Died, 0);
}

fn times(ledger: &Ledger, recent: &Recent, count: usize, pid: Option<u32>) -> Vec<u64> {
    let document = recent.last(count, pid, ledger.view()).document();
    let times = document.events.iter().map(|event| event.time.unix_nanos());
    times.collect()
}

#[test]
fn the_last_256_events_of_a_process_are_kept_however_they_came() {
    let mut recent = RecentEvents::default();
    let all: Vec<Event> = (0..1000).map(marked).collect();
    let mut rest = all.as_slice();
    for size in [0, 1, 255, 1, 300, 2, 400, 41] {
        let (batch, after) = rest.split_at(size);
        recent.extend(batch, false);
        rest = after;
        let so_far = all.len() - rest.len();
        let kept: Vec<Event> = recent.last(KEPT_EVENTS).map(|(event, _)| *event).collect();
        assert_eq!(kept, all[so_far.saturating_sub(256)..so_far]);
    }
    let last: Vec<u64> = recent.last(3).map(|(event, _)| event.time).collect();
    assert_eq!(last, [997, 998, 999]);
    recent.extend(&[marked(1000), marked(1001)], true);
    let recovered: Vec<bool> = recent.last(4).map(|(_, recovered)| recovered).collect();
    assert_eq!(recovered, [false, false, true, true]);
    recent.extend(&all, true);
    assert!(recent.last(KEPT_EVENTS).all(|(_, recovered)| recovered));
}

#[test]
fn events_of_the_living_and_of_the_departed_are_told_in_the_order_of_their_times() {
    let (mut ledger, mut recent) = (Ledger::new(Limits::default()), Recent::default());
    let first = join(&mut ledger, &mut recent, 11);
    let second = join(&mut ledger, &mut recent, 22);
    recent.extend(first, &[marked(1), marked(4), marked(6)], false);
    recent.extend(second, &[marked(2), marked(5)], false);
    depart(&mut ledger, &mut recent, first);
    // Its slot is somebody else's now.
    let third = join(&mut ledger, &mut recent, 33);
    assert_eq!(third, first);
    recent.extend(third, &[marked(3)], false);
    assert_eq!(times(&ledger, &recent, 100, None), [1, 2, 3, 4, 5, 6]);
    assert_eq!(times(&ledger, &recent, 2, None), [5, 6]);
    assert_eq!(times(&ledger, &recent, 2, Some(11)), [4, 6]);
    assert_eq!(times(&ledger, &recent, 100, Some(22)), [2, 5]);
    assert!(times(&ledger, &recent, 100, Some(44)).is_empty());
}

#[test]
fn the_events_of_64_departed_processes_are_kept() {
    let (mut ledger, mut recent) = (Ledger::new(Limits::default()), Recent::default());
    for pid in 1..=70_u32 {
        let slot = join(&mut ledger, &mut recent, pid);
        recent.extend(slot, &[marked(u64::from(pid))], false);
        depart(&mut ledger, &mut recent, slot);
        // One that said nothing takes nobody's place.
        let silent = join(&mut ledger, &mut recent, 1000 + pid);
        depart(&mut ledger, &mut recent, silent);
    }
    let kept: Vec<u64> = (7..=70).collect();
    assert_eq!(times(&ledger, &recent, 1000, None), kept);
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
fn ids_are_told_by_what_they_stand_for() {
    let (mut ledger, mut recent) = (Ledger::new(Limits::default()), Recent::default());
    let slot = join(&mut ledger, &mut recent, 11);
    define(&mut ledger, slot);
    let whats = [
        What::KernelLoaded {
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
        What::Dispatched {
            mesh: MeshId(8),
            program: ProgramId(4),
            runtime_id: 1,
            operation: TextId(1),
            program_cache: CacheResult::Hit,
            binary_reused: false,
            path: DispatchPath::Fast,
        },
        What::DeviceOpened {
            device: DeviceId(51),
        },
        What::BuffersReleased {
            mesh: MeshId(9),
            class: Some(Class::L1Small),
        },
        What::LegacyFreed { device: -1, id: 16 },
        What::BufferFreed {
            mesh: MeshId(9),
            buffer: BufferId(255),
        },
    ];
    let events: Vec<Event> = (1..)
        .zip(whats)
        .map(|(time, what)| Event { time, what })
        .collect();
    recent.extend(slot, &events, true);
    let before = recent.last(10, None, ledger.view()).document();
    depart(&mut ledger, &mut recent, slot);
    let after = recent.last(10, None, ledger.view()).document();
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
}
