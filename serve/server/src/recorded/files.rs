//! The files of a recording: which instants each has, and what it says about itself.

use super::error::RecordedError;
use crate::recorder::{EXTENSION, RecordedFiles};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use ttmem_event::EventKind;
use ttmem_record::{
    Budget, Charge, Contents, OpenError, PeakNote, Player, StatePlace, Summary, Turn,
};
use ttmem_report::{
    HexId, Mark, PeakOf, RecordedFailure, RecordedFailureKind, RecordedPeak, Recording,
    RecordingSource, SCHEMA, Timestamp,
};

/// Marks and failures that are listed, of each; the newest.
const MAX_LISTED: usize = 2000;

/// States above this are held once, and not for each who looks somewhere else.
const LARGE_STATE: u64 = 64 << 20;

/// Devices of a failure that are listed.
const MAX_DEVICES: usize = 256;

/// Files of a folder that are looked at.
const MAX_FILES: usize = 10_000;

/// How far a clock may be ahead of that of a server which looks at its files.
const MAX_AHEAD_NANOS: u64 = 3600 * 1_000_000_000;

/// A recording that was named: one file, or a folder of those that follow each other.
#[derive(Debug)]
pub(crate) struct NamedFiles(pub(crate) PathBuf);

impl RecordedFiles for NamedFiles {
    fn flushed_files(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(&self.0) else {
            return vec![self.0.clone()];
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let files = paths.filter(|path| path.extension().is_some_and(|end| end == EXTENSION));
        let mut files: Vec<PathBuf> = files.take(MAX_FILES).collect();
        files.sort();
        if files.is_empty() {
            // It is refused as what it is.
            files.push(self.0.clone());
        }
        files
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        // A pipe would keep who opens it waiting for somebody who writes to it.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        File::options().read(true).custom_flags(flags).open(path)
    }
}

/// What reads a file of a recording.
pub(super) type FilePlayer = Player<BufReader<File>>;

/// A file whose blocks were found.
#[derive(Debug)]
pub(super) struct KnownFile {
    /// By which it is opened.
    source: Arc<dyn RecordedFiles>,
    pub(super) path: PathBuf,
    /// Which file it is, whatever it is called.
    pub(super) inode: u64,
    /// How long it was then.
    length: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) states: Vec<StatePlace>,
    largest_state: u64,
    contents: Arc<Contents>,
    pub(super) budget: Budget,
    damage: Option<String>,
    is_unfinished: bool,
    is_redacted: bool,
}

impl KnownFile {
    /// Opens a file; `budget` is that of all that are read together.
    fn open(
        source: &Arc<dyn RecordedFiles>,
        path: &Path,
        budget: &Budget,
    ) -> Result<Self, OpenError> {
        let (file, inode, length) = opened(source, path)?;
        let budget = Budget::part_of(budget, length);
        let file = BufReader::new(file);
        let recording = ttmem_record::Recording::open_within(file, &budget, None)?;
        let states: Vec<StatePlace> = recording.states().collect();
        let contents = Arc::clone(recording.contents());
        let summary = contents.summary();
        Ok(Self {
            source: Arc::clone(source),
            path: path.to_owned(),
            inode,
            length,
            from: summary.from,
            to: summary.to.max(summary.from),
            largest_state: states.iter().map(|state| state.bytes).max().unwrap_or(0),
            states,
            damage: recording.damage().map(ToString::to_string),
            is_unfinished: recording.is_unfinished(),
            is_redacted: recording.is_redacted(),
            contents,
            budget,
        })
    }

    pub(super) fn summary(&self) -> &Summary {
        self.contents.summary()
    }

    /// Whether its ledgers are so large that few may be held.
    pub(super) fn is_large(&self) -> bool {
        self.largest_state > LARGE_STATE
    }

    /// Something that reads it, at its beginning, for the question of a turn.
    pub(super) fn player(&self, turn: Turn) -> Result<FilePlayer, RecordedError> {
        let opened = opened(&self.source, &self.path).and_then(|(file, inode, _length)| {
            let file = BufReader::new(file);
            let mut recording = if inode == self.inode {
                let contents = Arc::clone(&self.contents);
                ttmem_record::Recording::of(file, contents, &self.budget)
            } else {
                // Another one has its name by now.
                ttmem_record::Recording::open_within(file, &self.budget, None)?
            };
            let _opening = recording.begin_turn(turn);
            Ok(Player::new(recording)?)
        });
        opened.map_err(|source| match source {
            OpenError::Gone => RecordedError::Gone,
            source => RecordedError::Open {
                path: self.path.clone(),
                source,
            },
        })
    }

    /// About how many events it has up to an instant.
    pub(super) fn events_up_to(&self, time: u64) -> u64 {
        let (first, end) = (self.summary().first_event, self.summary().events);
        if time >= self.to {
            return end;
        }
        let behind = self.states.partition_point(|state| state.time <= time);
        let state = behind.checked_sub(1).and_then(|at| self.states.get(at));
        state.map_or(0, |state| state.event.saturating_sub(first).min(end))
    }
}

/// A regular file, which one it is, and how long.
fn opened(source: &Arc<dyn RecordedFiles>, path: &Path) -> Result<(File, u64, u64), OpenError> {
    let file = source.open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        // Whoever writes to a pipe decides when reading ends.
        return Err(OpenError::NotARecording);
    }
    Ok((file, facts.ino(), facts.len()))
}

/// All files, oldest first; a clone shares what is known of them.
#[derive(Clone, Debug)]
pub(super) struct KnownFiles {
    source: Arc<dyn RecordedFiles>,
    is_live: bool,
    known: Arc<Vec<Arc<KnownFile>>>,
    /// What could not be opened, and why.
    refused: Vec<String>,
    /// What may be used for all of them.
    budget: Budget,
    /// Work units of all questions so far.
    spent: Arc<AtomicU64>,
}

impl KnownFiles {
    pub(super) fn new(source: RecordingSource, files: Arc<dyn RecordedFiles>) -> Self {
        Self {
            source: files,
            is_live: source == RecordingSource::Live,
            known: Arc::default(),
            refused: Vec::new(),
            budget: Budget::of_stored(0),
            spent: Arc::default(),
        }
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// A charge for what is worked out from all of them.
    pub(super) fn charge(&self) -> Charge {
        self.budget.charge()
    }

    /// Counts work that was done for a question.
    pub(super) fn spend(&self, units: u64) {
        self.spent.fetch_add(units, Ordering::Relaxed);
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// A turn for a question about any of them.
    pub(super) fn turn(&self, gone: Option<Arc<AtomicBool>>) -> Turn {
        Turn::new(self.budget.stored(), gone)
    }

    /// Whether more comes while this server runs.
    pub(super) fn grows(&self) -> bool {
        self.is_live
    }

    pub(super) fn all(&self) -> &[Arc<KnownFile>] {
        &self.known
    }

    /// Looks for what was written since, unless an instant is known already.
    pub(super) fn reach(&mut self, time: u64) -> Result<(), RecordedError> {
        let is_known = self.known.last().is_some_and(|last| time < last.to);
        if is_known { Ok(()) } else { self.refresh() }
    }

    /// Looks for what was written since.
    pub(super) fn refresh(&mut self) -> Result<(), RecordedError> {
        let paths = self.source.flushed_files();
        let mut found: Vec<Arc<KnownFile>> = Vec::with_capacity(paths.len());
        let mut first_error = None;
        let last = crate::clock::unix_nanos().saturating_add(MAX_AHEAD_NANOS);
        self.refused.clear();
        let lengths = paths.iter().filter_map(|path| std::fs::metadata(path).ok());
        let stored = lengths.fold(0, |sum: u64, facts| sum.saturating_add(facts.len()));
        self.budget.set_stored(stored);
        for path in paths {
            let known = self.known.iter().find(|known| known.path == path);
            let known = known.filter(|known| {
                let facts = self.source.open(&path).and_then(|file| file.metadata());
                facts.is_ok_and(|facts| (facts.ino(), facts.len()) == known.identity())
            });
            match known.map_or_else(
                || KnownFile::open(&self.source, &path, &self.budget).map(Arc::new),
                |it| Ok(Arc::clone(it)),
            ) {
                Ok(file) if self.is_live && file.to.max(file.from) > last => {
                    let name = path.file_name().unwrap_or(path.as_os_str()).display();
                    let refused = format!("{name} is of the future, and is left out");
                    self.refused.push(refused);
                }
                Ok(file) => found.push(file),
                // The oldest go while others look at them.
                Err(OpenError::Io(error))
                    if self.is_live && error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => {
                    let error = RecordedError::Open { path, source };
                    self.refused.push(error.in_words());
                    first_error.get_or_insert(error);
                }
            }
        }
        // By their instants, whatever order they were named in.
        found.sort_by_key(|file| (file.from, file.to));
        self.known = Arc::new(found);
        match first_error {
            Some(error) if self.known.is_empty() => Err(error),
            _some_can_be_read => Ok(()),
        }
    }

    /// The first and the last instant.
    pub(super) fn span(&self) -> Result<(u64, u64), RecordedError> {
        let from = self.known.first().map(|file| file.from);
        let to = self.known.iter().map(|file| file.to).max();
        from.zip(to).ok_or(RecordedError::Nothing)
    }

    /// The file that an instant is in.
    pub(super) fn of(&self, time: u64) -> Result<Arc<KnownFile>, RecordedError> {
        let behind = self.known.partition_point(|file| file.from <= time);
        let file = self.known.get(behind.saturating_sub(1));
        file.cloned().ok_or(RecordedError::Nothing)
    }

    /// The highest of the ledger's numbers of devices that notes refer to, and one more.
    pub(super) fn noted_devices(&self) -> usize {
        let files = self.known.iter();
        let peaks = files.flat_map(|file| &file.summary().peaks);
        peaks
            .map(|peak| peak.device as usize + 1)
            .max()
            .unwrap_or(0)
    }

    /// What the files say about themselves; devices have logical and unique ids by the ledger's numbers.
    pub(super) fn document(
        &self,
        source: RecordingSource,
        devices: &[(u32, Option<u64>)],
    ) -> Result<Recording, RecordedError> {
        let (from, to) = self.span()?;
        let files = || self.known.iter();
        let summed = |of: fn(&Summary) -> u64| {
            let each = files().map(|file| of(file.summary()));
            each.fold(0, u64::saturating_add)
        };
        let mut left_out = summed(|summary| summary.left_out);
        let mut marks: Vec<Mark> = Vec::new();
        let mut failures: Vec<RecordedFailure> = Vec::new();
        let mut peaks: BTreeMap<(u32, u32, usize), PeakNote> = BTreeMap::new();
        for file in files() {
            let summary = file.summary();
            left_out += older(&summary.marks) + older(&summary.failures);
            marks.extend(newest_of(&summary.marks).iter().map(|mark| Mark {
                name: crate::read::vocabulary::text(&mark.name),
                name_hidden: false,
                number: mark.number,
                time: Timestamp::from_unix_nanos(mark.at.clamp(from, to)),
            }));
            failures.extend(
                newest_of(&summary.failures)
                    .iter()
                    .map(|failure| RecordedFailure {
                        time: Timestamp::from_unix_nanos(failure.at.clamp(from, to)),
                        kind: match failure.kind {
                            EventKind::Clashed { .. } => RecordedFailureKind::Clashed,
                            _refused => RecordedFailureKind::Refused,
                        },
                        pid: failure.pid,
                        device_ids: failure.devices.iter().take(MAX_DEVICES).copied().collect(),
                    }),
            );
            left_out += newest(&mut marks) + newest(&mut failures);
            // What was reached before the recording began cannot be looked at.
            let reached = summary
                .peaks
                .iter()
                .filter(|peak| peak.event > summary.first_event && peak.time <= to);
            for peak in reached {
                // Files of several servers may number their devices in several ways.
                let place = (peak.logical_id, peak.device, peak.gauge.index());
                let known = peaks.entry(place).or_insert(*peak);
                if peak.bytes > known.bytes {
                    *known = *peak;
                }
            }
        }
        let peaks = peaks
            .into_values()
            .take(MAX_LISTED)
            .map(|peak| RecordedPeak {
                time: Timestamp::from_unix_nanos(peak.time.clamp(from, to)),
                device: peak.logical_id,
                unique_id: devices
                    .get(peak.device as usize)
                    .filter(|(logical_id, _unique_id)| *logical_id == peak.logical_id)
                    .and_then(|(_logical_id, unique_id)| unique_id.map(HexId)),
                of: crate::read::peak_of(peak.gauge),
                bytes: peak.bytes,
            });
        let last = self.known.len().saturating_sub(1);
        let damage = files().enumerate().filter_map(|(number, file)| {
            // What is being written has no end yet.
            let grows = self.is_live && number == last && file.is_unfinished;
            let damage = file.damage.as_ref().filter(|_damage| !grows)?;
            Some(format!("{}: {damage}", name(&file.path)))
        });
        let damage: Vec<String> = damage.chain(self.refused.iter().cloned()).collect();
        Ok(Recording {
            schema: SCHEMA,
            source,
            from: Timestamp::from_unix_nanos(from),
            to: Timestamp::from_unix_nanos(to),
            events: summed(|summary| summary.events),
            missing_events: summed(|summary| summary.missing_events),
            damage: (!damage.is_empty()).then(|| damage.join("; ")),
            redacted: files().any(|file| file.is_redacted),
            marks,
            failures,
            peaks: peaks.filter(|peak| peak.of != PeakOf::Other).collect(),
            left_out,
        })
    }
}

impl KnownFile {
    fn identity(&self) -> (u64, u64) {
        (self.inode, self.length)
    }
}

/// A file's name, without the folder that it is in: readers elsewhere need not know that.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Those of a list that can be listed, and how many there are before them.
fn newest_of<T>(list: &[T]) -> &[T] {
    list.get(list.len().saturating_sub(MAX_LISTED)..)
        .unwrap_or_default()
}

fn older<T>(list: &[T]) -> u64 {
    list.len().saturating_sub(MAX_LISTED) as u64
}

/// Keeps the newest; how many were dropped.
fn newest<T>(list: &mut Vec<T>) -> u64 {
    let dropped = list.len().saturating_sub(MAX_LISTED);
    list.drain(..dropped);
    dropped as u64
}
