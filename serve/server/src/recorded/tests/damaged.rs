//! Files that are no recordings, or not any more.

use super::*;
use crate::history::MAX_DEVICES;
use crate::recorded::{MAX_POINTS, RecordedError};
use proptest::prelude::*;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use ttmem_event::catalogue::Arch;
use ttmem_event::{
    BufferId, Class, CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, Direction, Event,
    EventKind, Layout, MeshDefinition, MeshId, MeshKind, Source, TextId,
};
use ttmem_ledger::{Audience, Batch, ProcessIdentity};
use ttmem_report::GroupBy;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    written(
        (START, &Ledger::default()),
        &session(1, 160),
        small_blocks(),
    )
});

/// Asks everything of a file with these bytes; what it says of its damage, if it can be opened.
fn ask(bytes: &[u8]) -> Result<Option<String>, RecordedError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.ttmem");
    std::fs::write(&path, bytes).unwrap();
    let source = of_file(&path);
    let recording = source.recording()?;
    let (from, to) = (recording.from.unix_nanos(), recording.to.unix_nanos());
    let window = source.window(None, None).unwrap();
    for part in 0..=8 {
        let time = from + (to - from) / 8 * part;
        let Ok(moment) = source.moment(at(time), None) else {
            continue;
        };
        moment.view.audit().unwrap();
        let _unreadable = source.last(&moment, &moment.view, (100, None), None);
        let _unreadable = source.history(&moment, (600, None), None);
        let Some(device) = moment.view.devices.iter().next() else {
            continue;
        };
        let over = crate::recorded::OverTime {
            window,
            key: device.key.clone(),
            logical_id: device.facts.logical_id,
            capacity_bytes: None,
            class: Class::Dram,
            gone: None,
        };
        let everybody = Audience::Everything;
        if let Ok(timeline) = source.timeline((&over, &[]), GroupBy::Line, (50, everybody)) {
            let sums = (0..timeline.total_max.len()).map(|step| {
                let layers = timeline.series.iter().map(|layer| layer.values[step]);
                layers.sum::<u64>() + timeline.other[step]
            });
            assert!(sums.eq(timeline.total_max.iter().copied()));
        }
        let _unreadable = source.allocations(&over, (10, everybody));
        let _unreadable = source.timeline((&over, &[]), GroupBy::Process, (MAX_POINTS, everybody));
    }
    Ok(recording.damage)
}

#[test]
fn a_whole_file_has_no_damage() {
    assert_eq!(ask(&BYTES).unwrap(), None);
}

#[test]
fn what_is_no_recording_is_refused_with_its_name() {
    for bytes in [&b""[..], b"short", &[0; 4096], &BYTES[..70]] {
        let error = ask(bytes).unwrap_err().in_words();
        assert!(error.contains("damaged.ttmem: "), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let missing = of_file(&folder.path().join("missing.ttmem")).recording();
    let error = missing.unwrap_err().in_words();
    assert!(error.contains("No such file"), "{error}");
    let error = of_file(folder.path()).recording().unwrap_err().in_words();
    assert!(error.contains("no recording"), "{error}");
}

fn a_process() -> ProcessIdentity {
    ProcessIdentity {
        pid: None,
        start_time: None,
        instance: None,
        uid: 0,
        name: "".into(),
        command: "".into(),
        source: Source::Attached,
        visible_devices: "".into(),
    }
}

/// As many processes as fit into a few hundred bytes.
fn many_processes() -> Vec<u8> {
    let joins = (0..60_000).map(|_process| {
        (
            START + 1,
            Change::Join {
                identity: a_process(),
                claimed_pid: 0,
            },
        )
    });
    let joins: Vec<_> = joins.collect();
    let no_states = WriterOptions {
        checkpoint_events: u64::MAX,
        ..WriterOptions::default()
    };
    written((START, &Ledger::default()), &joins, no_states)
}

#[test]
fn more_memory_than_stored_bytes_allow_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.ttmem");
    let bytes = many_processes();
    std::fs::write(&path, &bytes).unwrap();
    let source = of_file(&path);
    let recording = source.recording().unwrap();
    assert!(source.moment(Some(recording.from), None).is_ok());
    let error = source.moment(Some(recording.to), None).unwrap_err();
    let words = error.in_words();
    assert!(words.contains("the recording needs at least "), "{words}");
    let budget = format!("{} stored bytes may use ", bytes.len());
    assert!(words.contains(&budget), "{words}");
    // What was given up for it is found again.
    assert!(source.moment(Some(recording.from), None).is_ok());
}

/// Devices, cores and buffers on single cores that multiply, in a few kilobytes; one mark each millisecond.
fn crowded(marks: u64) -> Vec<u8> {
    let ids = (1..=200).map(DeviceId);
    let mut definitions: Vec<Definition> = ids
        .clone()
        .map(|id| {
            Definition::Device(DeviceDefinition {
                id,
                logical_id: id.0,
                unique_id: Some(id.0.into()),
                arch: Arch::from_code(1),
                board: TextId::NONE,
                remote: None,
                grid_columns: 8,
                grid_rows: 8,
                l1_bytes_per_core: 1 << 20,
                l1_reserved_bytes: 0,
            })
        })
        .collect();
    definitions.push(Definition::Mesh(MeshDefinition {
        id: MeshId(1),
        kind: MeshKind::Mesh,
        handle: 1,
        rows: 1,
        columns: 200,
        devices: ids.clone().collect(),
    }));
    let mut cores = CoreSet::default();
    (0..8).for_each(|row| cores.insert_row(row, 0xff));
    definitions.push(Definition::Cores {
        id: CoresId(1),
        cores,
    });
    let opened = ids.map(|device| EventKind::DeviceOpened { device });
    let opened = opened.chain([EventKind::MeshOpened { mesh: MeshId(1) }]);
    let placed = (1..=2000).map(|number| EventKind::BufferAllocated {
        mesh: MeshId(1),
        buffer: BufferId(number),
        class: Class::L1,
        layout: Layout::Interleaved,
        direction: Direction::BottomUp,
        address: 512 * number,
        requested_bytes: 256,
        per_bank_bytes: 256,
        page_bytes: 256,
        cores: CoresId(1),
        operation: TextId::NONE,
        banks: 64,
    });
    let time = START + 1;
    let events = opened.chain(placed).map(|kind| Event { time, kind });
    let (identity, claimed_pid) = (a_process(), 0);
    let definitions = Arc::new(definitions);
    let mut inputs = vec![
        Change::Join {
            identity,
            claimed_pid,
        },
        Change::Define {
            process: 0,
            definitions,
        },
        Change::Apply(Batch::whole(0, Arc::new(events.collect()))),
    ];
    let mut inputs: Vec<Timed> = inputs.drain(..).map(|input| (time, input)).collect();
    inputs.extend((1..=marks).map(|number| {
        let time = START + 1_000_000 * number;
        let (user, name) = (0, "".into());
        let mark = Change::SetMark {
            user,
            time,
            name,
            number,
        };
        (time, mark)
    }));
    let no_states = WriterOptions {
        checkpoint_events: u64::MAX,
        ..WriterOptions::default()
    };
    written((START, &Ledger::default()), &inputs, no_states)
}

#[test]
fn a_history_takes_no_more_than_stored_bytes_allow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crowded.ttmem");
    let bytes = crowded(2000);
    std::fs::write(&path, &bytes).unwrap();
    let source = of_file(&path);
    let moment = source.moment(None, None).unwrap();
    let history = source.history(&moment, (600, Some(2000)), None).unwrap();
    assert!(!source.is_over_budget(0));
    // The document has what its files allow: fewer devices and steps than there are.
    assert_eq!(history.devices.len(), MAX_DEVICES);
    assert!((100..1000).contains(&history.times.len()));
    let device = &history.devices[0];
    assert!(device.l1_bytes.iter().all(Option::is_some));
    // Where everything lay is worked out for some steps, all over the window.
    let known = device.occupied_bytes.iter().filter(|bytes| bytes.is_some());
    let (known, all) = (known.count(), history.times.len());
    assert!((2..all / 2).contains(&known), "{known} of {all}");
    // Who is gone is not waited for, in the middle of it either.
    let gone = Arc::new(AtomicBool::new(true));
    let other = of_file(&path);
    let moment = other.moment(None, None).unwrap();
    let refused = other.history(&moment, (600, Some(2000)), Some(&gone));
    assert!(matches!(refused, Err(RecordedError::Gone)));
}

#[test]
fn a_reader_that_is_gone_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.ttmem");
    std::fs::write(&path, &*BYTES).unwrap();
    let source = of_file(&path);
    let gone = Arc::new(AtomicBool::new(true));
    let refused = source.moment(None, Some(&gone)).unwrap_err();
    assert!(matches!(refused, RecordedError::Gone), "{refused}");
    let moment = source.moment(None, None).unwrap();
    let last = source.last(&moment, &moment.view, (100, None), Some(&gone));
    assert!(matches!(last, Err(RecordedError::Gone)));
    let history = source.history(&moment, (600, None), Some(&gone));
    assert!(matches!(history, Err(RecordedError::Gone)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_file_that_was_cut_anywhere_says_so(end in 0..BYTES.len()) {
        match ask(&BYTES[..end]) {
            Ok(damage) => assert!(damage.is_some()),
            Err(RecordedError::Open { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_byte_that_was_changed_anywhere_harms_nobody(place in 0..BYTES.len(), by in 1..=255_u8) {
        let mut bytes = BYTES.clone();
        bytes[place] ^= by;
        match ask(&bytes) {
            Ok(_) | Err(RecordedError::Open { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
