//! The file with the figures to compare with: the one that `pytest --ttmem-update` writes.

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Serializer;
use serde_json::ser::PrettyFormatter;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const SCHEMA: u64 = 1;

/// A longer file is no baseline: one of a hundred thousand tests has 20 MB.
const LONGEST: u64 = 64 << 20;

/// Links that are followed one after another: as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// How long another one may take that writes the same file, and how often to look.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// Sizes by name: `peak_dram`, `peak_l1`, `peak_l1_small`, `peak_trace`, `leaked`.
pub(super) type Figures = BTreeMap<String, u64>;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Baseline {
    schema: u64,
    /// By test, or by what was run.
    tests: BTreeMap<String, Figures>,
}

/// What every version has of a baseline.
#[derive(Deserialize)]
struct Version {
    schema: u64,
}

impl Baseline {
    /// Reads a file; one that is to be written need not be there.
    pub(super) fn read(path: &Path, missing_ok: bool) -> Result<Self> {
        let shown = path.display();
        let text = match content(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                ensure!(
                    missing_ok,
                    "there is no baseline {shown}; --update writes it"
                );
                return Ok(Self {
                    schema: SCHEMA,
                    tests: BTreeMap::new(),
                });
            }
            Err(error) => {
                return Err(error).with_context(|| format!("the baseline {shown} cannot be read"));
            }
        };
        // Never as a value of anything: lists of lists would take a hundred times their text.
        match serde_json::from_str(&text) {
            Ok(Version { schema: SCHEMA }) => {}
            Err(error) if !error.is_data() => {
                return Err(error).with_context(|| format!("the baseline {shown} cannot be read"));
            }
            Ok(_) | Err(_) => {
                bail!("{shown} is no baseline of this version (schema {SCHEMA})");
            }
        }
        serde_json::from_str(&text)
            .with_context(|| format!("{shown} is no baseline: its `tests` are not sizes by test"))
    }

    /// Tries whether a file can be written, so that nobody finds out when the program has run.
    pub(super) fn check_target(path: &Path) -> Result<()> {
        let cannot = || format!("cannot write the baseline {}", path.display());
        let target = target(path).with_context(cannot)?;
        let folder = target.parent().with_context(cannot)?;
        tempfile::tempfile_in(folder).with_context(cannot)?;
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Figures> {
        self.tests.get(name)
    }

    /// Puts figures into a file, as the pytest plugin does: byte for byte, whole or not at all, with what
    /// others put into it meanwhile.
    pub(super) fn update(path: &Path, name: String, figures: Figures) -> Result<()> {
        let cannot = || format!("cannot write the baseline {}", path.display());
        let target = target(path).with_context(cannot)?;
        let folder = target.parent().with_context(cannot)?;
        let _locked = lock(folder).with_context(cannot)?;
        let mut baseline = Self::read(&target, true)?;
        baseline.tests.insert(name, figures);
        let mut text = Vec::new();
        let mut serializer =
            Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b" "));
        baseline.serialize(&mut serializer)?;
        text.push(b'\n');
        replace(&target, folder, &text).with_context(cannot)
    }
}

/// What a path leads to, there or not: a link stays.
pub(super) fn target(path: &Path) -> io::Result<PathBuf> {
    let mut target = std::path::absolute(path)?;
    for _link in 0..MAX_LINKS {
        let Ok(leads_to) = fs::read_link(&target) else {
            return Ok(target);
        };
        target.pop();
        target.push(leads_to);
    }
    Err(Errno::LOOP.into())
}

/// A file that is neither a pipe nor endless.
fn content(path: &Path) -> io::Result<String> {
    let mut options = File::options();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::other(format!(
            "it is longer than {} MiB",
            LONGEST >> 20
        )));
    }
    Ok(text)
}

/// Locks a folder against others that update a baseline in it, the pytest plugin included.
fn lock(folder: &Path) -> io::Result<File> {
    let folder = File::open(folder)?;
    let begun = Instant::now();
    loop {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(folder),
            Err(Errno::AGAIN) if begun.elapsed() < PATIENCE => thread::sleep(PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Puts a file in the place of another one, with the other's mode and owner.
fn replace(target: &Path, folder: &Path, text: &[u8]) -> io::Result<()> {
    let mut beside = tempfile::Builder::new();
    // Readable by others, as the mask allows: it is checked in.
    let beside = beside.permissions(Permissions::from_mode(0o666));
    let mut file = beside.tempfile_in(folder)?;
    if let Ok(before) = fs::metadata(target) {
        // Only root gives files away; who may write to the folder may have this one, too.
        let _refused = fchown(&file, Some(before.uid()), Some(before.gid()));
        file.as_file().set_permissions(before.permissions())?;
    }
    file.write_all(text)?;
    file.persist(target)?;
    Ok(())
}

/// What a figure is called.
pub(super) fn label(name: &str) -> String {
    match name.strip_prefix("peak_") {
        Some(kind) => format!("peak {kind}"),
        None if name == "leaked" => "left behind".to_owned(),
        None => name.to_owned(),
    }
}
