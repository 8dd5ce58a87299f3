//! `ttmem bench`: measurements that print what they found, as JSON.
//!
//! Each runs the real program: a server process of its own on a private socket,
//! talked to over the real protocols. Nothing here asserts a time; the targets
//! are printed beside what was measured.

mod api;
mod client;
mod filler;
mod harness;
mod memory;
mod old_client;
mod record;
mod release;
mod screen;
mod top;
mod workload;

pub(crate) use record::{RecordOptions, run as record};
pub(crate) use release::hold;
pub(crate) use workload::{WorkloadOptions, run as workload};

use anyhow::Result;
use serde_json::{Value, json};

/// Measures the server and returns what was found.
pub(crate) fn server(quick: bool) -> Result<Value> {
    let scale = if quick { 10 } else { 1 };
    Ok(json!({
        "schema": 1,
        "bench": "server",
        "quick": quick,
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "old_protocol": old_client::measure(scale)?,
        "memory": memory::measure(scale)?,
        "release": release::measure()?,
    }))
}

/// Measures the read API under load and returns what was found.
pub(crate) fn api(quick: bool) -> Result<Value> {
    Ok(json!({
        "schema": 1,
        "bench": "api",
        "quick": quick,
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "api": api::measure(quick)?,
    }))
}

/// Measures the client and returns what was found.
pub(crate) fn client(quick: bool) -> Result<Value> {
    Ok(json!({
        "schema": 1,
        "bench": "client",
        "quick": quick,
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "client": client::measure(quick)?,
    }))
}

/// Measures the terminal view and returns what was found.
pub(crate) fn top(quick: bool) -> Result<Value> {
    Ok(json!({
        "schema": 1,
        "bench": "top",
        "quick": quick,
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "top": top::measure(quick)?,
    }))
}
