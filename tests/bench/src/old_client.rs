//! How many messages of the old protocol get through, end to end.
//!
//! The clock runs from the first byte until the server has answered a question
//! that came after the last message: by then all of them are in the ledger.

use super::harness::{OwnServer, Programs, best, median};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;
use ttmem_event::legacy::{Generation, Reply, Request, RequestKind};

pub(super) const GENERATION: Generation = Generation::G4;
const RUNS: usize = 5;
/// Buffers that are live at a time.
const LIVE: u64 = 10_000;
const SIZE: u64 = 4096;

pub(super) fn measure(programs: &Programs, scale: u64) -> Result<Value> {
    let bulk = report(programs, 4_000_000 / scale, &["--quiet"], Sending::Bulk)?;
    let logged = report(programs, 1_000_000 / scale, &[], Sending::Bulk)?;
    let each = report(
        programs,
        1_000_000 / scale,
        &["--quiet"],
        Sending::EachItsOwn,
    )?;
    Ok(json!({
        "bulk": with_target(bulk, 1_000_000),
        "bulk_with_log": logged,
        "one_send_each": with_target(each, 300_000),
    }))
}

fn with_target(mut report: Value, target: u64) -> Value {
    report["target_messages_per_second"] = json!(target);
    report
}

#[derive(Clone, Copy)]
enum Sending {
    Bulk,
    EachItsOwn,
}

fn report(programs: &Programs, messages: u64, options: &[&str], sending: Sending) -> Result<Value> {
    let server = OwnServer::start(programs, options)?;
    let mut rates = Vec::new();
    let cpu = server.cpu_seconds()?;
    for _run in 0..RUNS {
        let mut stream = server.connect()?;
        let bytes = stream_of(messages);
        let begun = Instant::now();
        match sending {
            Sending::Bulk => stream.write_all(&bytes)?,
            Sending::EachItsOwn => {
                for message in bytes.chunks(GENERATION.record_bytes()) {
                    stream.write_all(message)?;
                }
            }
        }
        let held = ask(&mut stream)?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(held == 0, "{held} bytes are left where all were freed");
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        rates.push(messages as f64 / seconds);
    }
    let cpu = server.cpu_seconds()? - cpu;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let cpu_nanos = cpu * 1e9 / (messages * RUNS as u64) as f64;
    Ok(json!({
        "messages": messages,
        "runs": RUNS,
        "messages_per_second_best": best(&rates).round(),
        "messages_per_second_median": median(rates).round(),
        "server_cpu_nanos_per_message": cpu_nanos.round(),
    }))
}

/// Allocations and frees, with a window of them live.
fn stream_of(messages: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let pairs = messages / 2;
    let request = |kind, size, number: u64| Request {
        kind,
        device_id: 0,
        size,
        buffer_type: 0,
        process_id: 1,
        buffer_id: 1_048_640 + (number % (2 * LIVE)) * SIZE,
        timestamp: 0,
    };
    for number in 0..pairs + LIVE {
        if number < pairs {
            request(RequestKind::Alloc, SIZE, number).encode(GENERATION, &mut bytes);
        }
        if number >= LIVE {
            request(RequestKind::Free, 0, number - LIVE).encode(GENERATION, &mut bytes);
        }
    }
    bytes
}

/// Asks for the totals of the device and returns its DRAM bytes.
pub(super) fn ask(stream: &mut UnixStream) -> Result<u64> {
    let question = Request {
        kind: RequestKind::Query,
        device_id: 0,
        size: 0,
        buffer_type: 0,
        process_id: 0,
        buffer_id: 0,
        timestamp: 0,
    };
    let mut bytes = Vec::new();
    question.encode(GENERATION, &mut bytes);
    stream.write_all(&bytes)?;
    let mut reply = vec![0; GENERATION.record_bytes()];
    stream
        .read_exact(&mut reply)
        .context("the server did not answer")?;
    match Reply::decode(GENERATION, &reply)? {
        Reply::Totals { totals, .. } => Ok(totals.dram),
        Reply::DeviceInfo(_) => anyhow::bail!("the server answered another question"),
    }
}
