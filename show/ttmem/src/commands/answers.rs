//! `ttmem status`, `forget` and `mark`: one question, and what the server says to it.

use super::reach::patiently;
use crate::cli::StatusOptions;
use crate::output::{Output, Screen};
use crate::render;
use anyhow::Result;
use std::io::Write;
use ttmem_reader::ApiClient;
use ttmem_report::escape_json;

pub(super) fn status(
    client: &ApiClient,
    options: &StatusOptions,
    screen: Screen,
    output: &mut Output<impl Write>,
) -> Result<()> {
    let client = client.clone().of_devices(options.chosen.device.clone());
    let snapshot = patiently(|| client.snapshot())?;
    if options.json {
        output.print(&format!(
            "{}\n",
            escape_json(serde_json::to_string_pretty(&snapshot)?)
        ))?;
    } else {
        let problems = patiently(|| client.problems())?;
        output.print(&render::status(&snapshot, &problems, screen))?;
    }
    Ok(())
}

/// Asks the server to forget a process and says what that released.
pub(super) fn forget(client: &ApiClient, pid: u32, output: &mut Output<impl Write>) -> Result<()> {
    let forgotten = patiently(|| client.forget(pid))?;
    output.print(&render::forgotten(&forgotten))?;
    Ok(())
}

pub(super) fn mark(client: &ApiClient, name: &str, output: &mut Output<impl Write>) -> Result<()> {
    patiently(|| client.mark(name))?;
    // What the server sent back is not printed: whoever answers is not always our server.
    let named = if name.is_empty() {
        String::new()
    } else {
        format!(" {name}")
    };
    output.print(&format!("mark{named} set\n"))?;
    Ok(())
}
