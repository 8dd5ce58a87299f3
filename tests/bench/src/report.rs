//! What a report of a long recording takes: `ttmem report` as a process of its own.

use crate::harness::Programs;
use crate::recording::record_file;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often it is looked how much memory it has.
const LOOK: Duration = Duration::from_millis(20);

/// Reports on so many events of the scenario of [`record_file`].
pub(crate) fn measure(programs: &Programs, events: u64) -> Result<Value> {
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let (recording, report) = (folder.path().join("r.ttrec"), folder.path().join("r.html"));
    record_file(&recording, events)?;
    let begun = Instant::now();
    let mut command = Command::new(&programs.ttmem);
    command.arg("report").arg(&recording).arg("-o").arg(&report);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut most = 0;
    let status = loop {
        most = most.max(peak_bytes(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK);
    };
    let seconds = begun.elapsed().as_secs_f64();
    if !status.success() {
        bail!("ttmem report failed: {status}; a build without `cargo xtask web` has no page");
    }
    let bytes = fs::metadata(&report)?.len();
    ensure!(bytes > 0, "the report is empty");
    Ok(json!({
        "events": events,
        "recording_bytes": fs::metadata(&recording)?.len(),
        "seconds": (seconds * 10.0).round() / 10.0,
        "target_seconds": 60,
        "report_bytes": bytes,
        "target_report_bytes": 15_000_000,
        "most_resident_bytes": most,
        "target_resident_bytes": 1_000_000_000,
    }))
}

/// The most memory that a process had so far.
fn peak_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
