//! What a million live allocations cost: memory, and the time of a status.
//!
//! One client of the new protocol fills the DRAM allocator of an n150 in an order
//! that is not that of the addresses. A reader then holds a view of every row
//! while all of them are allocated anew, which is the worst case for pages that
//! are copied on write.

use super::filler::Filler;
use super::harness::{OwnServer, Programs, median, time_command};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use ttmem_reader::ApiClient;

pub(super) fn measure(programs: &Programs, scale: u64) -> Result<Value> {
    let buffers = 1_000_000 / scale;
    let server = OwnServer::start(programs, &["--quiet"])?;
    let before = server.memory_bytes()?;
    let mut client = Filler::connect(&server, 1)?;
    client.allocate(0, 0, buffers)?;
    let filled = server.memory_bytes()?;

    let mut changed = Vec::new();
    let mut unchanged = Vec::new();
    for _run in 0..9 {
        // Anything that happens makes the next reader work out all places anew.
        client.free(0, 0, 1)?;
        client.allocate(0, 0, 1)?;
        changed.push(time_status(programs, &server, buffers)?);
        unchanged.push(time_status(programs, &server, buffers)?);
    }
    let api = ApiClient::new(&server.socket);
    let read = read_all(&api)?;
    ensure!(
        read == buffers,
        "{read} rows were read instead of {buffers}"
    );
    client.free(0, 0, buffers)?;
    client.allocate(0, buffers, buffers)?;
    let with_reader = server.memory_bytes()?;
    let fastest = changed.iter().copied().fold(f64::NAN, f64::min);
    Ok(json!({
        "live_buffers": buffers,
        "added_bytes": filled.saturating_sub(before),
        "added_bytes_after_reader_and_rewrite": with_reader.saturating_sub(before),
        "target_added_bytes": 200_000_000,
        "status_json_millis_best": fastest,
        "status_json_millis_median": median(changed),
        "status_json_millis_median_when_nothing_changed": median(unchanged),
        "target_status_json_millis": 50,
    }))
}

/// How long `ttmem status --json` takes, as a process of its own.
fn time_status(programs: &Programs, server: &OwnServer, buffers: u64) -> Result<f64> {
    let socket = server.socket.display().to_string();
    let (millis, output) = time_command(programs, &["status", "--json", "--socket", &socket])?;
    let status: Value = serde_json::from_slice(&output).context("status is not JSON")?;
    let shown = status["devices"][0]["dram"]["buffers"].as_u64();
    ensure!(
        shown == Some(buffers),
        "{shown:?} buffers are shown instead of {buffers}"
    );
    Ok(millis)
}

fn read_all(api: &ApiClient) -> Result<u64> {
    let mut cursor: Option<String> = None;
    let mut rows = 0;
    loop {
        let page = api.page::<ttmem_report::BufferRow>(cursor.as_deref(), Some(10_000))?;
        rows += page.rows.len() as u64;
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(rows),
        }
    }
}
