//! The files of a recording: which instants each has, and what it says about itself.

use super::error::RecordedError;
use crate::recorder::{EXTENSION, RecordedFiles};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use ttmem_api::{
    HexId, Mark, PeakOf, RecordedFailure, RecordedFailureKind, RecordedPeak, Recording,
    RecordingSource, SCHEMA, Timestamp,
};
use ttmem_event::EventKind;
use ttmem_record::{OpenError, PeakNote, Player, ReadError, StatePlace, Summary};

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
}

/// What reads a file of a recording.
pub(super) type FilePlayer = Player<BufReader<File>>;

/// A file whose blocks were found.
#[derive(Debug)]
pub(super) struct KnownFile {
    pub(super) path: PathBuf,
    /// Which file it is, whatever it is called.
    pub(super) inode: u64,
    /// How long it was then.
    length: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) states: Vec<StatePlace>,
    largest_state: u64,
    pub(super) summary: Summary,
    damage: Option<String>,
    is_unfinished: bool,
    is_redacted: bool,
}

impl KnownFile {
    fn open(path: &Path) -> Result<Self, OpenError> {
        let (file, inode, length) = opened(path)?;
        let recording = ttmem_record::Recording::open(BufReader::new(file))?;
        let states: Vec<StatePlace> = recording.states().collect();
        let summary = recording.summary().clone();
        Ok(Self {
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
            summary,
        })
    }

    /// Whether its ledgers are so large that few may be held.
    pub(super) fn is_large(&self) -> bool {
        self.largest_state > LARGE_STATE
    }

    /// Something that reads it, at its beginning.
    pub(super) fn player(&self) -> Result<FilePlayer, RecordedError> {
        let opened = opened(&self.path).and_then(|(file, ..)| {
            let recording = ttmem_record::Recording::open(BufReader::new(file))?;
            Player::new(recording).map_err(|error| match error {
                ReadError::Io(error) => OpenError::Io(error),
                ReadError::Damaged(damage) => OpenError::Damaged(damage),
            })
        });
        opened.map_err(|source| RecordedError::Open {
            path: self.path.clone(),
            source,
        })
    }

    /// About how many events it has up to an instant.
    pub(super) fn events_up_to(&self, time: u64) -> u64 {
        let (first, end) = (self.summary.first_event, self.summary.events);
        if time >= self.to {
            return end;
        }
        let behind = self.states.partition_point(|state| state.time <= time);
        let state = behind.checked_sub(1).and_then(|at| self.states.get(at));
        state.map_or(0, |state| state.event.saturating_sub(first).min(end))
    }
}

/// A regular file, which one it is, and how long.
fn opened(path: &Path) -> Result<(File, u64, u64), OpenError> {
    // A pipe would keep who opens it waiting for somebody who writes to it.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
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
}

impl KnownFiles {
    pub(super) fn new(source: RecordingSource, files: Arc<dyn RecordedFiles>) -> Self {
        Self {
            source: files,
            is_live: source == RecordingSource::Live,
            known: Arc::default(),
            refused: Vec::new(),
        }
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
        for path in paths {
            let known = self.known.iter().find(|known| known.path == path);
            let known = known.filter(|known| {
                let facts = std::fs::metadata(&path);
                facts.is_ok_and(|facts| (facts.ino(), facts.len()) == known.identity())
            });
            match known.map_or_else(
                || KnownFile::open(&path).map(Arc::new),
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
        let peaks = files.flat_map(|file| &file.summary.peaks);
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
            let each = files().map(|file| of(&file.summary));
            each.fold(0, u64::saturating_add)
        };
        let mut left_out = summed(|summary| summary.left_out);
        let mut marks: Vec<Mark> = Vec::new();
        let mut failures: Vec<RecordedFailure> = Vec::new();
        let mut peaks: BTreeMap<(u32, u32, usize), PeakNote> = BTreeMap::new();
        for file in files() {
            let summary = &file.summary;
            marks.extend(summary.marks.iter().map(|mark| Mark {
                name: crate::read::vocabulary::text(&mark.name),
                number: mark.number,
                time: Timestamp::from_unix_nanos(mark.at.clamp(from, to)),
            }));
            failures.extend(summary.failures.iter().map(|failure| RecordedFailure {
                time: Timestamp::from_unix_nanos(failure.at.clamp(from, to)),
                kind: match failure.kind {
                    EventKind::Clashed { .. } => RecordedFailureKind::Clashed,
                    _refused => RecordedFailureKind::Refused,
                },
                pid: failure.pid,
                device_ids: failure.devices.iter().take(MAX_DEVICES).copied().collect(),
            }));
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
        left_out += newest(&mut marks) + newest(&mut failures);
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

/// Keeps the newest; how many were dropped.
fn newest<T>(list: &mut Vec<T>) -> u64 {
    let dropped = list.len().saturating_sub(MAX_LISTED);
    list.drain(..dropped);
    dropped as u64
}
