//! `ttmem status`: the snapshot, for people or as JSON.

use super::reach::patiently;
use crate::cli::StatusOptions;
use crate::output::{Output, Screen};
use crate::render;
use anyhow::Result;
use std::io::Write;
use ttmem_api::ApiClient;

/// Prints the snapshot.
pub(super) fn run(
    client: &ApiClient,
    options: &StatusOptions,
    screen: Screen,
    output: &mut Output<impl Write>,
) -> Result<()> {
    let snapshot = patiently(|| client.snapshot())?;
    if options.json {
        let mut text = serde_json::to_string_pretty(&snapshot)?;
        text.push('\n');
        output.print(&text)?;
    } else {
        output.print(&render::status(&snapshot, screen.width, screen.color))?;
    }
    Ok(())
}
