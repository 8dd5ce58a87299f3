//! Files of recordings, and a recorder whose place fails it.

use super::*;
use crate::clock::unix_nanos;
use crate::log::{Log, LogFileOptions, LogOptions, LogTarget};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use ttmem_event::catalogue::Arch;
use ttmem_event::{
    Class, Definition, DeviceDefinition, DeviceId, Event, EventKind, MeshDefinition, MeshId,
    MeshKind, Source, TextId,
};
use ttmem_ledger::{ApplyLimits, Batch, Change, Ledger, ProcessIdentity};
use ttmem_record::{Recording, Writer, WriterOptions};

const SECOND: u64 = 1_000_000_000;

fn saved(ledger: &Ledger) -> Arc<Vec<u8>> {
    let mut saved = Vec::new();
    ledger.save(&mut saved);
    Arc::new(saved)
}

fn join() -> Change {
    Change::Join {
        identity: ProcessIdentity {
            pid: Some(7),
            start_time: None,
            instance: None,
            uid: 0,
            name: "model".into(),
            command: "".into(),
            source: Source::Attached,
            visible_devices: "".into(),
        },
        claimed_pid: 7,
    }
}

/// A mesh of one device, and so much text that files hardly differ in size.
fn define() -> Change {
    let device = Definition::Device(DeviceDefinition {
        id: DeviceId(0),
        logical_id: 0,
        unique_id: None,
        arch: Arch::Wormhole,
        board: TextId::NONE,
        remote: None,
        grid_columns: 8,
        grid_rows: 8,
        l1_bytes_per_core: 0,
        l1_reserved_bytes: 0,
    });
    let mesh = Definition::Mesh(MeshDefinition {
        id: MeshId(0),
        kind: MeshKind::Mesh,
        handle: 0,
        rows: 1,
        columns: 1,
        devices: vec![DeviceId(0)],
    });
    let mut number = 1_u64;
    let texts = (1..2000).map(|id| {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Definition::Text {
            id: TextId(id),
            text: format!("{number:x}"),
        }
    });
    Change::Define {
        process: 0,
        definitions: Arc::new(texts.chain([device, mesh]).collect()),
    }
}

fn apply(kind: EventKind) -> Change {
    let event = Event { time: 1, kind };
    Change::Apply(Batch::whole(0, Arc::new(vec![event])))
}

fn refused() -> Change {
    apply(EventKind::AllocationFailed {
        mesh: MeshId(0),
        class: Class::Dram,
        requested_bytes: 1 << 40,
        per_bank_bytes: 1 << 40,
        operation: TextId::NONE,
        call_first: 0,
        free_bytes: 2,
        largest_free_bytes: 1,
        bank_bytes: 3,
        banks: 1,
    })
}

fn lost() -> Change {
    apply(EventKind::EventsLost { count: 1 })
}

/// Records a short life to the next file of a folder; its name.
fn record(folder: &mut Folder, time: u64, fails: bool) -> String {
    let out = folder.begin(time).unwrap();
    let path = folder.files().pop().unwrap();
    let options = WriterOptions::default();
    let mut writer = Writer::new(out, options, time, &Ledger::default()).unwrap();
    writer.append(time, &join()).unwrap();
    writer.append(time, &define()).unwrap();
    let input = if fails { refused() } else { lost() };
    writer.append(time, &input).unwrap();
    let finished = writer.finish().unwrap();
    assert_eq!(finished.summary.failures.len(), usize::from(fails));
    folder.ended(&finished.summary, finished.bytes);
    folder.tidy(time, None);
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn options(path: &Path, files: u64) -> RecordFolder {
    // The size of one of these files, which hardly differ.
    let scratch = tempfile::tempdir().unwrap();
    let mut one = Folder::open(RecordFolder {
        path: scratch.path().to_owned(),
        max_file_bytes: 1 << 20,
        max_age: Duration::from_secs(1000),
        max_bytes: 1 << 30,
    })
    .unwrap();
    let name = record(&mut one, SECOND, true);
    let bytes = fs::metadata(scratch.path().join(name)).unwrap().len();
    RecordFolder {
        path: path.to_owned(),
        max_file_bytes: bytes,
        max_age: Duration::from_secs(1000),
        max_bytes: bytes * files,
    }
}

#[test]
fn the_oldest_files_go_when_there_are_too_many_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorded = Folder::open(options(folder.path(), 6)).unwrap();
    let all: Vec<String> = (1..=20)
        .map(|number| record(&mut recorded, number * SECOND, false))
        .collect();
    // One has room to be written.
    assert_eq!(names(folder.path()), all[15..]);
    assert_eq!(recorded.files().len(), 5);
    for file in recorded.files() {
        assert_eq!(fs::metadata(file).unwrap().mode() & 0o777, 0o600);
    }
    drop(recorded);
    // Those of an earlier server count.
    let mut again = Folder::open(RecordFolder {
        max_age: Duration::from_secs(1 << 40),
        ..options(folder.path(), 6)
    })
    .unwrap();
    let next = record(&mut again, 21 * SECOND, false);
    let expected: Vec<_> = all[16..].iter().cloned().chain([next]).collect();
    assert_eq!(names(folder.path()), expected);
}

#[test]
fn files_that_ended_long_ago_go() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorded = Folder::open(options(folder.path(), 100)).unwrap();
    record(&mut recorded, SECOND, false);
    let kept = record(&mut recorded, 500 * SECOND, false);
    recorded.tidy(1400 * SECOND, None);
    assert_eq!(names(folder.path()), [kept]);
    assert!(!recorded.is_full(1, Duration::from_secs(10)));
    assert!(recorded.is_full(1, Duration::from_secs(100)));
}

#[test]
fn a_failure_is_kept_with_what_is_beside_it_and_the_newest_count() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorded = Folder::open(options(folder.path(), 12)).unwrap();
    let mut all = vec![String::new()];
    all.extend((1..=40).map(|number| record(&mut recorded, number * SECOND, number == 5)));
    let found = names(folder.path());
    assert_eq!(found[..3], all[4..=6]);
    assert_eq!(found.len(), 11);
    recorded.tidy(1_000_000 * SECOND, None);
    assert_eq!(names(folder.path()), all[4..=6]);
    // Half of the bytes: two failures with what is beside them, not more.
    for number in 41..=90 {
        let fails = number % 10 == 0 && number < 90;
        all.push(record(&mut recorded, number * SECOND, fails));
    }
    let expected = [69, 70, 71, 79, 80, 81, 86, 87, 88, 89, 90];
    assert_eq!(
        names(folder.path()),
        expected.map(|number| all[number].clone())
    );
}

#[test]
fn what_is_not_ours_in_a_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    fs::write(place("notes.txt"), "mine").unwrap();
    fs::write(place("ttmem-20200101T000000.000Z.ttrec"), "no recording").unwrap();
    symlink("notes.txt", place("ttmem-20200101T000000.001Z.ttrec")).unwrap();
    fs::write(place("ttmem-2020.ttrec"), "").unwrap();
    let before = names(folder.path());
    let options = RecordFolder {
        max_age: Duration::from_secs(1),
        ..options(folder.path(), 2)
    };
    let mut recorded = Folder::open(options.clone()).unwrap();
    assert!(recorded.files().is_empty());
    for number in 1..5 {
        record(&mut recorded, number * 100 * SECOND, false);
    }
    let after = names(folder.path());
    assert!(before.iter().all(|name| after.contains(name)));
    let busy = Folder::open(options).unwrap_err();
    assert!(matches!(busy, OpenRecordingError::Busy { .. }), "{busy}");
}

#[test]
fn two_files_of_one_millisecond_have_two_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorded = Folder::open(options(folder.path(), 100)).unwrap();
    let first = record(&mut recorded, 1_800_000_000 * SECOND, false);
    let second = record(&mut recorded, 1_800_000_000 * SECOND, false);
    assert_eq!(first, "ttmem-20270115T080000.000Z.ttrec");
    assert_eq!(second, "ttmem-20270115T080000.001Z.ttrec");
}

#[test]
fn a_large_file_that_is_written_takes_the_room_of_older_ones() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path(), 6);
    let one = options.max_file_bytes;
    let mut recorded = Folder::open(options).unwrap();
    for number in 1..=4 {
        record(&mut recorded, number * SECOND, false);
    }
    assert_eq!(names(folder.path()).len(), 4);
    recorded.tidy(5 * SECOND, Some((&Summary::default(), 4 * one)));
    let left = names(folder.path()).len();
    assert!((1..=2).contains(&left), "{left} files are left");
}

#[test]
fn a_file_that_is_no_recording_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    fs::write(place("text"), "a thesis").unwrap();
    let refused = open_recording(&place("text")).unwrap_err();
    assert!(matches!(refused, OpenRecordingError::NotARecording { .. }));
    assert_eq!(fs::read_to_string(place("text")).unwrap(), "a thesis");
    symlink("text", place("link")).unwrap();
    let refused = open_recording(&place("link")).unwrap_err();
    assert!(matches!(refused, OpenRecordingError::Link { .. }));
    let refused = open_recording(folder.path()).unwrap_err();
    assert!(matches!(refused, OpenRecordingError::NotRegular { .. }));
    let file = open_recording(&place("new")).unwrap();
    let busy = open_recording(&place("new")).unwrap_err();
    assert!(matches!(busy, OpenRecordingError::Busy { .. }));
    let options = WriterOptions::default();
    let writer = Writer::new(file, options, 1, &Ledger::default()).unwrap();
    drop(writer.finish().unwrap());
    let again = open_recording(&place("new")).unwrap();
    let facts = again.metadata().unwrap();
    assert_eq!((facts.len(), facts.mode() & 0o777), (0, 0o600));
}

struct Running {
    tap: Tap,
    recorder: Recorder,
    log: Log,
    folder: tempfile::TempDir,
}

impl Running {
    fn start(destination: impl FnOnce(&Path) -> Box<dyn Destination>, redact: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let target = LogTarget::File(LogFileOptions::new(folder.path().join("log")));
        let log = Log::start(target, LogOptions::default()).unwrap();
        let destination = destination(folder.path());
        let (prepared, tap) = PreparedRecorder::new(
            destination,
            WriterOptions {
                redact,
                ..WriterOptions::default()
            },
            queue(MAX_BYTES),
        );
        let recorder = prepared.start(Some(log.handle()), || {}).unwrap();
        Self {
            tap,
            recorder,
            log,
            folder,
        }
    }
}

fn file_in(folder: &Path) -> Box<dyn Destination> {
    Box::new(files::SingleFile::open(&folder.join("f.ttrec")).unwrap())
}

#[test]
fn what_was_handed_over_can_be_read_while_the_file_grows() {
    let mut running = Running::start(file_in, false);
    let mut ledger = Ledger::default();
    running.tap.resume(&saved(&ledger));
    for input in [join(), lost(), lost()] {
        ledger.apply(&input, ApplyLimits::NONE, None);
        running.tap.push(unix_nanos(), input);
    }
    let files = running.recorder.state().files().flushed_files();
    assert_eq!(files, [running.folder.path().join("f.ttrec")]);
    let recording = Recording::open(File::open(&files[0]).unwrap()).unwrap();
    assert_eq!(recording.summary().events, 2);
    running.tap.push(unix_nanos(), lost());
    drop(running.tap);
    assert!(running.recorder.finish());
    let recording = Recording::open(File::open(&files[0]).unwrap()).unwrap();
    assert_eq!((recording.summary().events, recording.damage()), (3, None));
}

/// A disk with so many bytes.
#[derive(Debug)]
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(bytes.len())
            .ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Destination for Full {
    fn begin(&mut self, _time: u64) -> Result<Box<dyn Write + Send>, OpenRecordingError> {
        Ok(Box::new(Self(self.0)))
    }

    fn is_full(&self, _bytes: u64, _age: Duration) -> bool {
        false
    }

    fn ended(&mut self, _summary: &Summary, _bytes: u64) {}

    fn tidy(&mut self, _now: u64, _current: Option<(&Summary, u64)>) {}

    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn path(&self) -> &Path {
        Path::new("full")
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_is_told_once() {
    let mut running = Running::start(|_folder| Box::new(Full(1000)), false);
    let mut ledger = Ledger::default();
    running.tap.resume(&saved(&ledger));
    let mut number = 0;
    // Whether it has ended is seen with the next input.
    while running.tap.is_open() {
        let join = join();
        ledger.apply(&join, ApplyLimits::NONE, None);
        running.tap.push(unix_nanos(), join);
        running.recorder.state().files().flushed_files();
        number += 1;
        assert!(number < 1000, "it never ends");
    }
    let state = running.recorder.state();
    drop(running.tap);
    assert!(running.recorder.finish());
    drop(running.log);
    let failure = state.failure().unwrap();
    assert!(
        failure.starts_with("the recording to full has ended: cannot write"),
        "{failure}"
    );
    let log = fs::read_to_string(running.folder.path().join("log")).unwrap();
    assert_eq!(log.matches(&failure).count(), 1, "{log}");
}

/// A disk on which there is room now and then, and the files on it.
#[derive(Clone, Debug, Default)]
struct Disk {
    room: Arc<Mutex<usize>>,
    files: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut room = lock(&self.room);
        *room = room
            .checked_sub(bytes.len())
            .ok_or(io::ErrorKind::StorageFull)?;
        let mut files = lock(&self.files);
        files.last_mut().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Destination for Disk {
    fn begin(&mut self, _time: u64) -> Result<Box<dyn Write + Send>, OpenRecordingError> {
        lock(&self.files).push(Vec::new());
        Ok(Box::new(self.clone()))
    }

    fn is_full(&self, _bytes: u64, _age: Duration) -> bool {
        false
    }

    fn ended(&mut self, _summary: &Summary, _bytes: u64) {}

    fn tidy(&mut self, _now: u64, _current: Option<(&Summary, u64)>) {}

    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn path(&self) -> &Path {
        Path::new("a disk")
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn abandon(&mut self) {
        lock(&self.files).pop();
    }
}

#[test]
fn a_recording_goes_on_in_the_next_file_when_there_is_room_again() {
    let disk = Disk::default();
    *lock(&disk.room) = 2000;
    let destination = disk.clone();
    let mut running = Running::start(|_folder| Box::new(destination), false);
    let mut ledger = Ledger::default();
    let state = running.recorder.state();
    let mut step = |running: &mut Running| {
        // As the ledger thread does after each of its steps.
        if running.tap.wants_state(false) {
            running.tap.resume(&saved(&ledger));
        }
        for input in [join(), lost()] {
            ledger.apply(&input, ApplyLimits::NONE, None);
            running.tap.push(unix_nanos(), input);
        }
        running.recorder.state().files().flushed_files();
        ledger.events()
    };
    let mut events = 0;
    while state.failure().is_none() {
        events = step(&mut running);
        assert!(events < 5000, "it is never full");
    }
    let failure = state.failure().unwrap();
    assert!(
        failure.contains("is interrupted, and goes on when it can"),
        "{failure}"
    );
    for _more in 0..20 {
        step(&mut running);
    }
    assert_eq!(
        lock(&disk.files).len(),
        1,
        "a file that cannot be begun is removed"
    );
    *lock(&disk.room) = 100 << 20;
    while state.failure().is_some() {
        step(&mut running);
    }
    let last = step(&mut running);
    drop(running.tap);
    assert!(running.recorder.finish());
    drop(running.log);
    let log = fs::read_to_string(running.folder.path().join("log")).unwrap();
    assert_eq!(log.matches(&failure).count(), 1, "{log}");
    assert_eq!(log.matches("goes on; ").count(), 1, "{log}");
    let files = lock(&disk.files).clone();
    assert_eq!(files.len(), 2);
    let open = |file: &Vec<u8>| Recording::open(io::Cursor::new(file.clone())).unwrap();
    let (first, second) = (open(&files[0]), open(&files[1]));
    assert_eq!(second.damage(), None);
    let (first, second) = (first.summary().clone(), second.summary().clone());
    assert!(first.events <= events && second.missing_events > 0);
    assert_eq!(first.events + second.missing_events, second.first_event);
    assert_eq!(second.first_event + second.events, last);
}
