//! `ttmem forget`: drops what the server holds for a process.

use super::reach::patiently;
use crate::output::Output;
use crate::render;
use anyhow::Result;
use std::io::Write;
use ttmem_api::ApiClient;

/// Asks the server to forget a process and says what that released.
pub(super) fn run(client: &ApiClient, pid: u32, output: &mut Output<impl Write>) -> Result<()> {
    let forgotten = patiently(|| client.forget(pid))?;
    output.print(&render::forgotten(&forgotten))?;
    Ok(())
}
