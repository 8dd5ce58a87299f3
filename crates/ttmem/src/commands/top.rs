//! `ttmem top`: the server's account, live on the terminal or once as text.

use super::reach::patiently;
use crate::cli::TopOptions;
use crate::output::Output;
use anyhow::Result;
use rustix::termios::tcgetwinsize;
use std::io::{IsTerminal, Write, stdout};
use ttmem_api::ApiClient;
use ttmem_tui::{Companion, INTERVAL, Left, OnceOptions, Tab, Theme};

/// Columns and rows of text when nobody says how many there are.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// Shows the server until the user leaves, or prints what there is to see.
pub(super) fn run(
    client: ApiClient,
    options: &TopOptions,
    mut output: Output<impl Write>,
) -> Result<()> {
    let address = client.server().to_string();
    let theme = Theme::detect(|name| std::env::var_os(name));
    if options.once || !stdout().is_terminal() {
        let options = OnceOptions {
            address,
            tab: options.view,
            size: text_size(),
            unicode: theme.unicode(),
        };
        let text = patiently(|| ttmem_tui::once(&client, &options))?;
        output.print(&text)?;
        return Ok(output.finish()?);
    }
    // The screen has standard output for itself.
    output.finish()?;
    let theme = match options.colour.depth() {
        Some(depth) => theme.with_depth(depth),
        None => theme,
    };
    ttmem_tui::top(ttmem_tui::TopOptions {
        client,
        address,
        interval: options.interval,
        tab: options.view,
        theme,
        companion: None,
    })?;
    Ok(())
}

/// Shows a server with the lines of something that runs beside it.
pub(crate) fn show_beside(
    server: &ApiClient,
    companion: &dyn Companion,
) -> Result<Left, ttmem_tui::TopError> {
    ttmem_tui::top(ttmem_tui::TopOptions {
        client: server.clone(),
        address: server.server().to_string(),
        interval: INTERVAL,
        tab: Tab::Overview,
        theme: Theme::detect(|name| std::env::var_os(name)),
        companion: Some(companion),
    })
}

/// The size that text is laid out for: that of the terminal, or what the environment says.
fn text_size() -> (u16, u16) {
    if let Ok(size) = tcgetwinsize(stdout())
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return (size.ws_col, size.ws_row);
    }
    let said = |name: &str| {
        let value = std::env::var(name).ok()?;
        value.parse().ok().filter(|count| *count > 0)
    };
    (
        said("COLUMNS").unwrap_or(DEFAULT_SIZE.0),
        said("LINES").unwrap_or(DEFAULT_SIZE.1),
    )
}
