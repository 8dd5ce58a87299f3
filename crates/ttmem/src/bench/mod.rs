//! `ttmem bench`: measurements that print what they found, as JSON.
//!
//! Each runs the real program: a server process of its own on a private socket,
//! talked to over the real protocols. Nothing here asserts a time; the targets
//! are printed beside what was measured.

mod harness;
mod memory;
mod old_client;
mod release;

pub(crate) use release::hold;

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
