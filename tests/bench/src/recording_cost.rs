//! What recording costs the thread that owns the ledger.
//!
//! The same workload reports to a server that records and to one that does not, in turn, so that what
//! the machine does besides counts for both. What is compared is the processor time of the ledger
//! thread for each event: how long somebody else keeps it from the processor does not count.

use crate::client::{read_account, start_workload};
use crate::harness::{OwnServer, Programs, median};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// Events of one run of the workload.
const EVENTS: u64 = 2_000_000;

/// Runs of each kind.
const PAIRS: usize = 9;

/// How long a server may take to start its threads.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most that recording may add.
const TARGET_PERCENT: f64 = 15.0;

pub(crate) fn measure(programs: &Programs, quick: bool) -> Result<Value> {
    let (events, pairs) = if quick {
        (EVENTS / 10, 3)
    } else {
        (EVENTS, PAIRS)
    };
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut missing = 0;
    for pair in 0..pairs {
        // Who is first changes from pair to pair.
        let records_first = pair % 2 == 1;
        let first = run(programs, events, records_first)?;
        let second = run(programs, events, !records_first)?;
        let (plain, recorded) = if records_first {
            (second, first)
        } else {
            (first, second)
        };
        without.push(plain.nanos_per_event);
        with.push(recorded.nanos_per_event);
        ratios.push(recorded.nanos_per_event / plain.nanos_per_event);
        missing += recorded.missing_events;
    }
    ratios.sort_by(f64::total_cmp);
    let percent = |ratio: f64| ((ratio - 1.0) * 1000.0).round() / 10.0;
    Ok(json!({
        "events": events,
        "pairs": pairs,
        "ledger_thread_nanos_per_event": median(without).round(),
        "the_same_while_recording": median(with).round(),
        "cost_percent_median": percent(median(ratios.clone())),
        "cost_percent_least": ratios.first().copied().map(percent),
        "cost_percent_most": ratios.last().copied().map(percent),
        "target_cost_percent": TARGET_PERCENT,
        "missing_events": missing,
    }))
}

struct Run {
    nanos_per_event: f64,
    missing_events: u64,
}

fn run(programs: &Programs, events: u64, records: bool) -> Result<Run> {
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let place = folder.path().display().to_string();
    let options: &[&str] = if records {
        &["--quiet", "--record", &place]
    } else {
        &["--quiet"]
    };
    let server = OwnServer::start(programs, options)?;
    let before = ledger_thread_nanos(server.pid())?;
    let words = ["--hold", "--events", &events.to_string(), "--live", "4096"];
    let mut workload = start_workload(programs, &server, &words)?;
    let account = match workload.stdout.as_mut() {
        Some(output) => read_account(output),
        None => Err(anyhow::anyhow!("its output is no pipe")),
    };
    let spent = ledger_thread_nanos(server.pid())? - before;
    // It waits for its input to end.
    drop(workload.stdin.take());
    workload.wait().context("the workload is gone")?;
    let account = account?;
    ensure!(account["flushed"] == true, "not all was applied: {account}");
    // What a full history left out never reached the server.
    let elided = account["elided_events"].as_u64().unwrap_or(0);
    let count = account["events"].as_u64().unwrap_or(events) - elided;
    let missing_events = if records { missing(&folder)? } else { 0 };
    Ok(Run {
        // Some billions at most.
        nanos_per_event: spent as f64 / count as f64,
        missing_events,
    })
}

/// What a recording that goes on lacks so far.
fn missing(folder: &tempfile::TempDir) -> Result<u64> {
    let mut missing = 0;
    for entry in fs::read_dir(folder.path())? {
        let file = fs::File::open(entry?.path())?;
        let recording = ttmem_record::Recording::open(std::io::BufReader::new(file))?;
        missing += recording.summary().missing_events;
    }
    Ok(missing)
}

/// Processor time of the ledger thread of a server, in nanoseconds.
fn ledger_thread_nanos(pid: u32) -> Result<u64> {
    let begun = Instant::now();
    loop {
        if let Some(nanos) = find_ledger_thread(pid)? {
            return Ok(nanos);
        }
        // A thread has its name a moment after it was started.
        ensure!(
            begun.elapsed() < PATIENCE,
            "the server has no ledger thread"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn find_ledger_thread(pid: u32) -> Result<Option<u64>> {
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = entry?.path();
        // A thread may end while it is looked at.
        let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
        if name.trim() == "ttmem-ledger" {
            let times = fs::read_to_string(task.join("schedstat"))?;
            let nanos = times.split_whitespace().next();
            let nanos = nanos.and_then(|nanos| nanos.parse().ok());
            let nanos = nanos.context("the kernel does not say what a thread used");
            return nanos.map(Some);
        }
    }
    Ok(None)
}
