//! `--http`: a server that listens on TCP, and one that is asked there in the place of a socket. `--file`: a recording in
//! the place of a server.
//!
//! A command asks one server. Whether two places were named cannot be left to the parser: a variable
//! that is set for other programs must not stand against what is typed.

use super::{Cli, Command};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use ttmem_reader::{HttpUrl, PrometheusUrl};
use ttmem_report::{ParseTimestampError, Timestamp};

/// Options of the commands that only read.
#[derive(Debug, Default, Clone, PartialEq, Eq, Args)]
pub(crate) struct HttpOptions {
    /// Ask the server with this URL, such as http://127.0.0.1:9400, instead of a socket.
    #[arg(long, value_name = "URL", env = "TTMEM_HTTP")]
    pub(crate) http: Option<HttpUrl>,

    /// The file with the token that this server asks for; only for --http.
    #[arg(long, value_name = "FILE", env = "TTMEM_HTTP_TOKEN_FILE")]
    pub(crate) http_token_file: Option<PathBuf>,
}

/// Options of the commands that can ask for a whole fleet.
#[derive(Debug, Default, Clone, PartialEq, Eq, Args)]
pub(crate) struct PrometheusOptions {
    /// Ask the Prometheus with this URL, such as http://127.0.0.1:9090, for the whole fleet.
    #[arg(long, value_name = "URL", env = "TTMEM_PROMETHEUS")]
    pub(crate) prometheus: Option<PrometheusUrl>,

    /// The file with the token that this Prometheus asks for.
    #[arg(long, value_name = "FILE", env = "TTMEM_PROMETHEUS_TOKEN_FILE")]
    pub(crate) prometheus_token_file: Option<PathBuf>,
}

/// Options of the commands that can look back.
#[derive(Debug, Default, Clone, PartialEq, Eq, Args)]
pub(crate) struct RecordedOptions {
    /// Look at a recording in place of a server: a file, or a folder of `serve --record`.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// The instant of a recording, of a file or of a server that records: a time in UTC, such as
    /// 2026-11-15T08:25:03.5Z, `failure` (the last one) or `peak` (the highest of DRAM, as the key `p`).
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<At>,
}

/// An instant of a recording, by its time or by what happened then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Time(Timestamp),
    Failure,
    Peak,
}

impl FromStr for At {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "failure" => Ok(Self::Failure),
            "peak" => Ok(Self::Peak),
            time => {
                // Also as our own reports have it: 2026-11-15 08:25:03.
                let zone = if time.ends_with('Z') { "" } else { "Z" };
                let time = time.replacen(' ', "T", 1) + zone;
                time.parse().map(Self::Time)
            }
        }
    }
}

impl Command {
    /// Which recording the command may look at.
    const fn recorded_options(&self) -> Option<&RecordedOptions> {
        match self {
            Self::Top(options) => Some(&options.recorded),
            _others => None,
        }
    }

    /// Where the command may look for a server besides a socket.
    pub(crate) fn http_options(&mut self) -> Option<&mut HttpOptions> {
        match self {
            Self::Top(options) => Some(&mut options.http),
            Self::Status(options) => Some(&mut options.http),
            Self::Dump(options) => Some(&mut options.http),
            Self::Mark(options) => Some(&mut options.http),
            Self::Explain(options) => Some(&mut options.http),
            Self::Record(options) => Some(&mut options.http),
            _others => None,
        }
    }
}

/// Leaves one place to ask: what is typed wins over variables, and of those the URL, since the
/// variable of the socket is also there for programs that are tracked.
pub(super) fn settle(cli: &mut Cli, matches: &ArgMatches) -> Result<(), clap::Error> {
    let recorded = cli.command.recorded_options();
    let has_file = recorded.is_some_and(|recorded| recorded.file.is_some());
    let asks_fleet =
        matches!(&cli.command, Command::Top(top) if top.prometheus.prometheus.is_some());
    let Some(options) = cli.command.http_options() else {
        return Ok(());
    };
    let of_command = matches.subcommand().map(|(_name, matches)| matches);
    let typed = |id: &str| {
        let source = of_command.and_then(|matches| matches.value_source(id));
        source == Some(ValueSource::CommandLine)
    };
    let socket_typed = matches.value_source("socket") == Some(ValueSource::CommandLine);
    // Only commands that have the option may be asked where it came from.
    if asks_fleet && typed("prometheus") {
        let places = [
            (has_file, "--file <FILE>"),
            (typed("http"), "--http <URL>"),
            (socket_typed, "--socket <PATH>"),
        ];
        if let Some((_typed, place)) = places.into_iter().find(|(typed, _)| *typed) {
            let reason = format!("the argument '--prometheus <URL>' cannot be used with '{place}'");
            return Err(Cli::command().error(ErrorKind::ArgumentConflict, reason));
        }
    }
    if has_file {
        let places = [
            (typed("http"), "--http <URL>"),
            (typed("http_token_file"), "--http-token-file <FILE>"),
            (socket_typed, "--socket <PATH>"),
        ];
        if let Some((_typed, place)) = places.into_iter().find(|(typed, _)| *typed) {
            let reason = format!("the argument '--file <FILE>' cannot be used with '{place}'");
            return Err(Cli::command().error(ErrorKind::ArgumentConflict, reason));
        }
        *options = HttpOptions::default();
        cli.socket = None;
        return Ok(());
    }
    match (typed("http"), socket_typed) {
        (true, true) => {
            let reason = "the argument '--http <URL>' cannot be used with '--socket <PATH>'";
            return Err(Cli::command().error(ErrorKind::ArgumentConflict, reason));
        }
        (false, true) => options.http = None,
        (_, false) if options.http.is_some() => cli.socket = None,
        (_, false) => {}
    }
    // With --prometheus it is shown to those of --http-token-host.
    if options.http.is_none() && typed("http_token_file") && !asks_fleet {
        let reason = "'--http-token-file <FILE>' is only for '--http <URL>'";
        return Err(Cli::command().error(ErrorKind::MissingRequiredArgument, reason));
    }
    Ok(())
}

/// Where a server listens: an address and a port.
pub(super) fn tcp_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_error| {
        "expected an address with a port, such as 127.0.0.1:9400 or [::1]:9400".to_owned()
    })
}

/// A name as the header Host has it, without a port.
pub(super) fn host_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = !text.is_empty() && text.len() <= 253 && text.bytes().all(plain);
    is_name
        .then(|| text.to_owned())
        .ok_or_else(|| "expected a host name without a port".to_owned())
}
