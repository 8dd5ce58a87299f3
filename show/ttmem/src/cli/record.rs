//! Options of what is recorded.

use super::{HttpOptions, size};
use anyhow::{Result, ensure};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use ttmem_server::{RecordConfig, RecordFolder, RecordTarget};

/// Recordings of a server, one after the other.
#[derive(Debug, Clone, Args)]
pub(crate) struct RecordFolderOptions {
    /// Record everything to files in this folder, and remove the oldest.
    ///
    /// A file with a failure stays longer than the others, with the one before and the one behind it.
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,

    /// Begin the next file at this size; K, M and G are binary.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "256M",
        value_parser = size,
        requires = "record"
    )]
    pub(crate) record_max_size: u64,

    /// Remove files that ended longer ago: 90s, 30m, 24h, 7d.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "24h",
        value_parser = age,
        requires = "record"
    )]
    pub(crate) record_max_age: Duration,

    /// The most that all files take together; at least twice --record-max-size.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "2G",
        value_parser = size,
        requires = "record"
    )]
    pub(crate) record_total: u64,

    /// Leave names, paths and command lines out of what is recorded.
    #[arg(long, requires = "record")]
    pub(crate) record_redact: bool,
}

impl RecordFolderOptions {
    pub(crate) fn config(&self) -> Result<Option<RecordConfig>> {
        let Some(path) = self.record.clone() else {
            return Ok(None);
        };
        ensure!(
            self.record_total / 2 >= self.record_max_size,
            "--record-total has to be at least twice --record-max-size: one file is written while \
             others are kept"
        );
        Ok(Some(RecordConfig {
            target: RecordTarget::Folder(RecordFolder {
                path,
                max_file_bytes: self.record_max_size,
                max_age: self.record_max_age,
                max_bytes: self.record_total,
            }),
            redact: self.record_redact,
        }))
    }
}

/// A recording of one run.
#[derive(Debug, Default, Args)]
pub(crate) struct RecordFileOptions {
    /// Record everything to this file; a recording that is there is replaced, nothing else is.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Leave names, paths and command lines out of the recording.
    #[arg(long, requires = "record")]
    pub(crate) redact: bool,
}

impl RecordFileOptions {
    pub(crate) fn config(&self) -> Option<RecordConfig> {
        Some(RecordConfig {
            target: RecordTarget::File(self.record.clone()?),
            redact: self.redact,
        })
    }
}

/// A recording of a server that runs.
#[derive(Debug, Args)]
pub(crate) struct RecordOptions {
    /// The file to write; a recording that is there is replaced, nothing else is.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Record this process alone; the recording ends when it does.
    #[arg(long, value_name = "PID", conflicts_with = "device", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,

    /// Record the processes alone that use this device: its number (3), its node (/dev/tenstorrent/3), its PCI address
    /// (0000:0a:00.0), the number of its chip in hex, or its place in a Galaxy (tray1/chip5).
    #[arg(long, value_name = "DEVICE", value_parser = super::device_name)]
    pub(crate) device: Option<String>,

    /// End after this time: 90s, 30m, 24h, 7d. Without it, Ctrl-C ends the recording.
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) duration: Option<Duration>,

    /// End before the file gets larger than this; K, M and G are binary.
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = size)]
    pub(crate) max_size: u64,

    /// Leave names, paths and command lines out of the recording.
    #[arg(long)]
    pub(crate) redact: bool,

    #[command(flatten)]
    pub(crate) http: HttpOptions,
}

/// The page of a recording, as a file.
#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// The recording: a file, or a folder of `serve --record`.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The file to write; without it, the recording's name with .html at its end.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

fn age(text: &str) -> Result<Duration, String> {
    let (digits, unit) = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((digits, "s")) => (digits, 1),
        Some((digits, "m")) => (digits, 60),
        Some((digits, "h")) => (digits, 3600),
        Some((digits, "d")) => (digits, 86_400),
        _ => ("", 0),
    };
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    plain
        .then(|| digits.parse::<u64>().ok()?.checked_mul(unit))
        .flatten()
        .filter(|seconds| (1..=10 * 366 * 86_400).contains(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| "expected a time such as 90s, 30m, 24h or 7d".to_owned())
}
