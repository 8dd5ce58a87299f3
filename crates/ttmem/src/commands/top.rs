//! `ttmem top`: the account of a server or of a recording, on the terminal or once as text.

use super::fleet;
use super::reach::patiently;
use crate::cli::{At, Look, ThemeChoice, TopOptions};
use crate::exit::UsageError;
use crate::output::{Output, Screen, text_size};
use crate::recording_file::Source;
use anyhow::{Context, Result, anyhow};
use std::io::{IsTerminal, Write, stdin, stdout};
use ttmem_api::{ApiClient, HttpUrl, Prometheus, Timestamp, Token};
use ttmem_tui::fleet::{FleetLeft, FleetOptions};
use ttmem_tui::{Background, Companion, ExportForm, Left, OnceOptions, Theme};

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

/// Shows a source until the user leaves, or prints what there is to see.
pub(super) fn run(
    source: &Source,
    options: &TopOptions,
    mut output: Output<impl Write>,
) -> Result<()> {
    let client = source.client().clone();
    let client = client.of_devices(options.chosen.device.clone());
    let address = source.name().to_owned();
    let at = options.recorded.at.map(|at| instant(&client, at));
    let at = at.transpose()?;
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
            at,
            size: text_size(&stdout()),
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
        at,
        theme,
        asks_background,
        companion: None,
        of_fleet: false,
    })?;
    Ok(())
}

/// Shows the fleet that a Prometheus knows, and the servers of hosts that the user opens.
pub(super) fn run_fleet(
    prometheus: &Prometheus,
    options: &TopOptions,
    screen: Screen,
    mut output: Output<impl Write>,
) -> Result<()> {
    let token = match &options.http.http_token_file {
        Some(file) => Some(Token::read(file)?),
        None => None,
    };
    if options.csv {
        let what = "a fleet has several lists and no CSV: use --json";
        return Err(UsageError(what.to_owned()).into());
    }
    if options.once || options.json || terminal_obstacle().is_some() {
        fleet::print(prometheus, options.json, fleet::ROWS, screen, &mut output)?;
        return Ok(output.finish()?);
    }
    output.finish()?;
    let (theme, asks_background) = theme(&options.look);
    loop {
        let left = ttmem_tui::fleet::fleet(FleetOptions {
            prometheus: prometheus.clone(),
            theme,
            asks_background,
        })?;
        let FleetLeft::Open(host) = left else {
            return Ok(());
        };
        // What a Prometheus calls a host need not be an address; nothing but one is connected to.
        let url: HttpUrl = format!("http://{host}").parse().map_err(|error| {
            anyhow!("{host} is not the address of a server ({error}): set `instance` to HOST:PORT")
        })?;
        let client = ApiClient::at(url);
        let client = match &token {
            Some(token) => client.with_token(token.clone()),
            None => client,
        };
        let left = ttmem_tui::top(ttmem_tui::TopOptions {
            address: client.server().to_string(),
            client,
            interval: options.look.interval,
            tab: options.look.view,
            at: None,
            theme,
            asks_background,
            companion: None,
            of_fleet: true,
        })?;
        if left != Left::ToFleet {
            return Ok(());
        }
    }
}

/// The time of an instant of a recording: the nearest that it has, which is said if it is another.
fn instant(client: &ApiClient, at: At) -> Result<Timestamp> {
    let recording = patiently(|| client.recording());
    let recording = match (recording, at) {
        // A server that has no recording says so where the instant is asked for.
        (Err(_none), At::Time(time)) => return Ok(time),
        (recording, _at) => recording?,
    };
    let at = match at {
        At::Time(time) => time,
        At::Failure => {
            let last = recording.failures.last().map(|failure| failure.time);
            last.context("nothing failed in this recording")?
        }
        At::Peak => {
            let highest = recording.peaks.iter().max_by_key(|peak| peak.bytes);
            let time = highest.map(|peak| peak.time);
            time.context("nothing was held in this recording")?
        }
    };
    let nearest = at.max(recording.from).min(recording.to);
    if nearest != at {
        // Whoever closed standard error does not want to know.
        let _closed = writeln!(
            std::io::stderr(),
            "ttmem: the recording is from {} to {}: {nearest} is shown",
            recording.from,
            recording.to
        );
    }
    Ok(nearest)
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
        at: None,
        theme,
        asks_background,
        companion: Some(companion),
        of_fleet: false,
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
