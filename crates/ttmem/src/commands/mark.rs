//! `ttmem mark`: sets a mark.

use super::reach::patiently;
use crate::output::Output;
use anyhow::Result;
use std::io::Write;
use ttmem_api::ApiClient;

/// Sets a mark and says its number.
pub(super) fn run(client: &ApiClient, name: &str, output: &mut Output<impl Write>) -> Result<()> {
    let number = patiently(|| client.mark(name))?.mark.number;
    // What the server sent back is not printed: whoever answers is not always our server.
    let named = if name.is_empty() {
        String::new()
    } else {
        format!(": {name}")
    };
    output.print(&format!("mark {number} set{named}\n"))?;
    Ok(())
}
