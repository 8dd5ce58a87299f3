//! `ttmem top`: the account of a server or of a recording, on the terminal or once as text.

use super::fleet;
use super::reach::patiently;
use crate::cli::{At, Look, ThemeChoice, TopOptions};
use crate::exit::{self, UsageError};
use crate::output::{Output, Screen, text_size};
use crate::recording_file::Source;
use anyhow::{Context, Result};
use std::io::{IsTerminal, Write, stdin, stdout};
use ttmem_reader::{ApiClient, HostPattern, HttpUrl, Prometheus, Token};
use ttmem_report::Timestamp;
use ttmem_tui::fleet::{FleetLeft, FleetOptions};
use ttmem_tui::{Background, Companion, ExportForm, Left, OnceOptions, Tab, Theme};

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
    let prints = options.once || export.is_some() || terminal_obstacle().is_some();
    if options.group.is_some() && !(prints && options.look.view == Tab::Buffers) {
        let what = "--group is for --once, --json and --csv, with --view buffers; on the screen, `b` groups them";
        return Err(UsageError(what.to_owned()).into());
    }
    if prints {
        let options = OnceOptions {
            group: options.group,
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
        let (client, address) = host_server(host, token.as_ref(), &options.http_token_host);
        let left = ttmem_tui::top(ttmem_tui::TopOptions {
            address,
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

/// The server of a host that a Prometheus named, and what it is called on the screen. Whoever controls that Prometheus
/// chooses the host, so the token goes only to those that the user named.
fn host_server(
    host: HttpUrl,
    token: Option<&Token>,
    trusted: &[HostPattern],
) -> (ApiClient, String) {
    let is_trusted = trusted.iter().any(|pattern| pattern.matches(&host));
    let address = host.to_string();
    let client = ApiClient::at(host);
    match token {
        Some(token) if is_trusted => (client.with_token(token.clone()), address),
        Some(_kept) => {
            let address = format!("{address} without the token, see --http-token-host");
            (client, address)
        }
        None => (client, address),
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
            let highest = ttmem_tui::highest_peak(&recording);
            let time = highest.map(|peak| peak.time);
            time.context("nothing was held in this recording")?
        }
    };
    let nearest = at.max(recording.from).min(recording.to);
    if nearest != at {
        let (from, to) = (recording.from, recording.to);
        exit::say(format_args!(
            "the recording is from {from} to {to}: {nearest} is shown"
        ));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_only_to_hosts_that_the_user_named() {
        let url = |text: &str| text.parse::<HttpUrl>().unwrap();
        let token = Token::new("secret").unwrap();
        let trusted: HostPattern = "node-*.example".parse().unwrap();
        let asked = |host, token| host_server(url(host), token, std::slice::from_ref(&trusted));
        let (client, address) = asked("http://node-1.example:9400", Some(&token));
        assert!(client.has_token());
        assert_eq!(address, "http://node-1.example:9400");
        for host in [
            "http://evil.example:9400",
            "http://node-1.example.evil:9400",
        ] {
            let (client, address) = asked(host, Some(&token));
            assert!(!client.has_token());
            assert!(address.ends_with("without the token, see --http-token-host"));
        }
        let (client, address) = asked("http://evil.example:9400", None);
        assert!(!client.has_token());
        assert_eq!(address, "http://evil.example:9400");
    }
}
