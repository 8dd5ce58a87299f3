//! `--http`: a server that listens on TCP, and one that is asked there in the place of a socket.
//!
//! A command asks one server. Whether two places were named cannot be left to the parser: a variable
//! that is set for other programs must not stand against what is typed.

use super::{Cli, Command};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory};
use std::net::SocketAddr;
use std::path::PathBuf;
use ttmem_api::HttpUrl;

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

impl Command {
    /// Where the command may look for a server besides a socket.
    pub(crate) fn http_options(&mut self) -> Option<&mut HttpOptions> {
        match self {
            Self::Top(options) => Some(&mut options.http),
            Self::Status(options) => Some(&mut options.http),
            Self::Dump(options) => Some(&mut options.http),
            Self::Mark(options) => Some(&mut options.http),
            Self::Explain(options) => Some(&mut options.http),
            _others => None,
        }
    }
}

/// Leaves one place to ask: what is typed wins over variables, and of those the URL, since the
/// variable of the socket is also there for programs that are tracked.
pub(super) fn settle(cli: &mut Cli, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(options) = cli.command.http_options() else {
        return Ok(());
    };
    let of_command = matches.subcommand().map(|(_name, matches)| matches);
    let typed = |id: &str| {
        let source = of_command.and_then(|matches| matches.value_source(id));
        source == Some(ValueSource::CommandLine)
    };
    let socket_typed = matches.value_source("socket") == Some(ValueSource::CommandLine);
    match (typed("http"), socket_typed) {
        (true, true) => {
            let reason = "the argument '--http <URL>' cannot be used with '--socket <PATH>'";
            return Err(Cli::command().error(ErrorKind::ArgumentConflict, reason));
        }
        (false, true) => options.http = None,
        (_, false) if options.http.is_some() => cli.socket = None,
        (_, false) => {}
    }
    if options.http.is_none() && typed("http_token_file") {
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
