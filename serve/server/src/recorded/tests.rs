//! The recorded past against a ledger that is given the same.

mod damaged;
mod over_time;
#[path = "../../../../state/record/tests/it/session.rs"]
mod session;

use super::{NamedFiles, Recorded};
use crate::recorder::RecordedFiles;
pub(crate) use session::{Timed, session};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use ttmem_ledger::{ApplyLimits, Change, Ledger};
use ttmem_record::{Writer, WriterOptions};
use ttmem_report::{RecordingSource, Timestamp};

/// The instant at which every recording of a test begins.
pub(crate) const START: u64 = 500;

/// Blocks and states so small that a short session has many.
pub(crate) fn small_blocks() -> WriterOptions {
    WriterOptions {
        block_events: 50,
        checkpoint_events: 400,
        ..WriterOptions::default()
    }
}

/// The bytes of a recording of these inputs, from a ledger on.
pub(crate) fn written(start: (u64, &Ledger), inputs: &[Timed], options: WriterOptions) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options, start.0, start.1).unwrap();
    for (time, input) in inputs {
        writer.append(*time, input).unwrap();
    }
    writer.finish().unwrap().out
}

/// A recording of these inputs in a file.
pub(crate) fn recorded(inputs: &[Timed]) -> (TempDir, Recorded) {
    let bytes = written((START, &Ledger::default()), inputs, small_blocks());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.ttmem");
    std::fs::write(&path, bytes).unwrap();
    (folder, of_file(&path))
}

pub(crate) fn of_file(path: &Path) -> Recorded {
    Recorded::new(RecordingSource::File, Arc::new(NamedFiles(path.to_owned())))
}

#[derive(Debug)]
struct Several(Vec<PathBuf>);

impl RecordedFiles for Several {
    fn open(&self, path: &Path) -> std::io::Result<std::fs::File> {
        std::fs::File::open(path)
    }

    fn flushed_files(&self) -> Vec<PathBuf> {
        self.0.clone()
    }
}

/// The same inputs in several files, as a server that rotates writes them.
///
/// They are cut where all that happened before was applied: of two files the later one gives an event from before
/// its beginning an instant behind that, while one file gives it the instant at which it happened.
pub(crate) fn in_files(inputs: &[Timed], count: usize) -> (TempDir, Recorded) {
    let length = inputs.len().div_ceil(count);
    let mut parts = Vec::new();
    let mut rest = inputs;
    for number in 1..count {
        let end = cut_from(number * length, inputs, is_over);
        let (part, behind) = rest.split_at(end - (inputs.len() - rest.len()));
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    in_parts(&parts)
}

/// The first number of inputs, from a given one on, after which the ledger is not within an event and the last of
/// them is of a given kind.
fn cut_from(least: usize, inputs: &[Timed], is_wanted: impl Fn(&[Timed], usize) -> bool) -> usize {
    let mut ledger = Ledger::default();
    let mut applied = inputs
        .iter()
        .enumerate()
        .filter(|(number, (_time, input))| {
            ledger.apply(input, ApplyLimits::NONE, None);
            number + 1 >= least && ledger.can_save() && is_wanted(inputs, *number)
        });
    let (number, _last) = applied.next().expect("a place to cut");
    number + 1
}

/// One recording of a file for each part.
fn in_parts(parts: &[&[Timed]]) -> (TempDir, Recorded) {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::default();
    let mut start = START;
    let mut paths = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let bytes = written((start, &ledger), part, small_blocks());
        let path = folder.path().join(format!("{number}.ttmem"));
        std::fs::write(&path, bytes).unwrap();
        paths.push(path);
        for (time, input) in *part {
            ledger.apply(input, ApplyLimits::NONE, None);
            start = *time;
        }
    }
    let files = Arc::new(Several(paths));
    (folder, Recorded::new(RecordingSource::Live, files))
}

/// Whether nothing that comes after an input happened before it was applied.
pub(crate) fn is_over(inputs: &[Timed], number: usize) -> bool {
    match inputs.get(number + 1) {
        Some((_applied, Change::Apply(batch))) => {
            let mut events = batch.events().iter();
            events.all(|event| event.time > inputs[number].0)
        }
        _later => true,
    }
}

pub(crate) fn at(time: u64) -> Option<Timestamp> {
    Some(Timestamp::from_unix_nanos(time))
}

/// The state of a view's ledger as text, without what says when and how it was reached.
fn shown(view: &ttmem_ledger::View) -> String {
    let ttmem_ledger::View {
        devices,
        processes,
        departed,
        anomalies,
        events,
        ..
    } = view;
    let devices: Vec<_> = devices
        .iter()
        .map(|device| (device.totals, device.caches))
        .collect();
    let rows: Vec<_> = processes
        .iter()
        .map(|process| {
            let rows: Vec<_> = process.rows.buffers.iter().collect();
            format!("{:?} {rows:?}", process.facts)
        })
        .collect();
    format!(
        "{devices:?}\n{rows:?}\n{}\n{anomalies:?}\n{events}",
        departed.len()
    )
}

#[test]
fn every_instant_is_that_of_the_ledger_whoever_looked_elsewhere_before() {
    let inputs = session(3, 260);
    let (_folder, one) = recorded(&inputs);
    let (_files, many) = in_files(&inputs, 4);
    let mut ledger = Ledger::default();
    let mut expected = Vec::new();
    for (number, (time, input)) in inputs.iter().enumerate() {
        ledger.apply(input, ApplyLimits::NONE, None);
        if is_over(&inputs, number) {
            expected.push((*time, shown(&ledger.view())));
        }
    }
    let end = one.recording().unwrap().to.unix_nanos();
    // Forward, backward, and two readers in turn.
    let count = expected.len();
    let order = (0..count).chain((0..count).rev().step_by(3)).chain(
        (0..count / 2)
            .flat_map(|place| [place, count - 1 - place])
            .step_by(5),
    );
    for place in order {
        let (time, expected) = &expected[place];
        for source in [&one, &many] {
            let moment = source.moment(at(*time), None).unwrap();
            // The last input was applied after all that it is about.
            assert_eq!(moment.time, (*time).min(end));
            assert_eq!(shown(&moment.view), *expected, "at {time}");
        }
    }
    for absurd in [0, u64::MAX] {
        let moment = one.moment(at(absurd), None).unwrap();
        assert_eq!(moment.time, absurd.clamp(START, end));
    }
}

#[test]
fn an_event_from_before_a_file_comes_behind_its_beginning() {
    let inputs = session(2, 160);
    let is_early = |inputs: &[Timed], number| !is_over(inputs, number);
    let cut = cut_from(inputs.len() / 2, &inputs, is_early);
    let (before, after) = inputs.split_at(cut);
    let (_files, many) = in_parts(&[before, after]);
    let mut ledger = Ledger::default();
    for (part, asked) in [(before, at(before[cut - 1].0)), (after, None)] {
        for (_time, input) in part {
            ledger.apply(input, ApplyLimits::NONE, None);
        }
        let moment = many.moment(asked, None).unwrap();
        assert_eq!(shown(&moment.view), shown(&ledger.view()), "at {asked:?}");
    }
}

#[test]
fn what_is_being_written_is_read_up_to_its_last_block() {
    let inputs = session(5, 200);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("growing.ttmem");
    let source = Recorded::new(RecordingSource::Live, Arc::new(Several(vec![path.clone()])));
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = Writer::new(file, small_blocks(), START, &Ledger::default()).unwrap();
    let mut ledger = Ledger::default();
    for (number, (time, input)) in inputs.iter().enumerate() {
        writer.append(*time, input).unwrap();
        ledger.apply(input, ApplyLimits::NONE, None);
        if number % 37 == 0 {
            writer.flush().unwrap();
            let recording = source.recording().unwrap();
            assert!(recording.to <= Timestamp::from_unix_nanos(*time));
            assert_eq!(
                (recording.source, recording.damage),
                (RecordingSource::Live, None)
            );
            assert_eq!(recording.events, ledger.events());
            for asked in [None, at(*time), at(u64::MAX)] {
                let moment = source.moment(asked, None).unwrap();
                assert_eq!(shown(&moment.view), shown(&ledger.view()));
            }
        }
    }
}

#[test]
fn a_folder_is_one_recording() {
    let inputs = session(5, 200);
    let (files, many) = in_files(&inputs, 3);
    for number in 0..3 {
        let path = |end: &str| files.path().join(format!("{number}.{end}"));
        std::fs::rename(path("ttmem"), path("ttrec")).unwrap();
    }
    std::fs::write(files.path().join("notes.txt"), "nothing of ours").unwrap();
    let folder = of_file(files.path());
    let (_file, one) = recorded(&inputs);
    let [folder, one] = [&folder, &one].map(|source| source.recording().unwrap());
    assert_eq!((folder.from, folder.to), (one.from, one.to));
    assert_eq!((folder.events, folder.damage), (one.events, None));
    drop(many);
}

#[test]
fn a_file_of_the_far_future_does_not_stretch_what_a_server_shows() {
    let inputs = session(6, 100);
    let folder = tempfile::tempdir().unwrap();
    let far = crate::clock::unix_nanos() + 400 * 86_400 * 1_000_000_000;
    let place = |name: &str| folder.path().join(name);
    let bytes = written((START, &Ledger::default()), &inputs, small_blocks());
    std::fs::write(place("now"), bytes).unwrap();
    let bytes = written((far, &Ledger::default()), &[], small_blocks());
    std::fs::write(place("later"), bytes).unwrap();
    let paths = vec![place("now"), place("later")];
    let live = Recorded::new(RecordingSource::Live, Arc::new(Several(paths)));
    let recording = live.recording().unwrap();
    let of_now = of_file(&place("now")).recording().unwrap();
    assert_eq!(recording.to, of_now.to);
    let damage = recording.damage.unwrap();
    assert!(damage.contains("later is of the future"), "{damage}");
}
