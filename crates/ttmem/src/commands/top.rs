//! `ttmem top`: the server's account, live on the terminal or once as text.

use super::reach::patiently;
use crate::cli::{Look, ThemeChoice, TopOptions};
use crate::output::Output;
use anyhow::Result;
use rustix::termios::tcgetwinsize;
use std::io::{IsTerminal, Write, stdin, stdout};
use ttmem_api::ApiClient;
use ttmem_tui::{Background, Companion, ExportForm, Left, OnceOptions, Theme};

/// Columns of text when nobody says how many there are: no name is cut for a screen that is not there.
const DEFAULT_COLUMNS: u16 = 160;

/// Why no view can be shown on this terminal; none if it can.
pub(crate) fn terminal_obstacle() -> Option<&'static str> {
    if !stdin().is_terminal() {
        return Some("standard input is not a terminal");
    }
    if !stdout().is_terminal() {
        return Some("standard output is not a terminal");
    }
    let terminal = std::env::var_os("TERM").unwrap_or_default();
    (terminal.is_empty() || terminal == "dumb")
        .then_some("TERM names no terminal that can be drawn on")
}

/// Shows the server until the user leaves, or prints what there is to see.
pub(super) fn run(
    client: ApiClient,
    options: &TopOptions,
    mut output: Output<impl Write>,
) -> Result<()> {
    let address = client.server().to_string();
    let (theme, asks_background) = theme(&options.look);
    let export = match (options.json, options.csv) {
        (true, _) => Some(ExportForm::Json),
        (false, true) => Some(ExportForm::Csv),
        (false, false) => None,
    };
    if options.once || export.is_some() || terminal_obstacle().is_some() {
        let options = OnceOptions {
            address,
            tab: options.look.view,
            size: text_size(),
            unicode: theme.unicode(),
            export,
        };
        let text = patiently(|| ttmem_tui::once(&client, &options))?;
        output.print(&text)?;
        return Ok(output.finish()?);
    }
    // The screen has standard output for itself.
    output.finish()?;
    ttmem_tui::top(ttmem_tui::TopOptions {
        client,
        address,
        interval: options.look.interval,
        tab: options.look.view,
        theme,
        asks_background,
        companion: None,
    })?;
    Ok(())
}

/// Shows a server with the lines of something that runs beside it.
pub(crate) fn show_beside(
    server: &ApiClient,
    companion: &dyn Companion,
    look: &Look,
) -> Result<Left, ttmem_tui::TopError> {
    let (theme, asks_background) = theme(look);
    ttmem_tui::top(ttmem_tui::TopOptions {
        client: server.clone(),
        address: server.server().to_string(),
        interval: look.interval,
        tab: look.view,
        theme,
        asks_background,
        companion: Some(companion),
    })
}

/// The theme that was chosen, and whether the terminal is asked for its background.
fn theme(look: &Look) -> (Theme, bool) {
    let detected = Theme::detect(|name| std::env::var_os(name));
    let detected = match look.colour.depth() {
        Some(depth) => detected.with_depth(depth),
        None => detected,
    };
    match look.theme {
        ThemeChoice::Auto => (detected, true),
        ThemeChoice::Dark => (detected.with_background(Background::Dark), false),
        ThemeChoice::Light => (detected.with_background(Background::Light), false),
    }
}

/// The size that text is laid out for: that of the terminal, or what the environment says.
///
/// Without a number of rows there are as many as the view needs.
fn text_size() -> (u16, Option<u16>) {
    if let Ok(size) = tcgetwinsize(stdout())
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return (size.ws_col, Some(size.ws_row));
    }
    let said = |name: &str| {
        let value = std::env::var(name).ok()?;
        value.parse().ok().filter(|count| *count > 0)
    };
    (said("COLUMNS").unwrap_or(DEFAULT_COLUMNS), said("LINES"))
}
