//! How the program ends: one number per kind of failure, for scripts.

use crate::cli::Cli;
use crate::commands::reach::NoServer;
use crate::output::PrintError;
use crate::run::StartChildError;
use crate::wait::StillHeld;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use ttmem_reader::{ApiRequestError, PrometheusError};
use ttmem_report::is_deceptive;
use ttmem_server::socket::BindSocketError;
use ttmem_server::{ListenError, StartServerError};

/// Every exit code and what it means, for `--help` and the manual.
pub(crate) const EXIT_CODES: &[(u8, &str)] = &[
    (
        OK,
        "done; a reader of our output that went away counts as done",
    ),
    (FAILED, "failed; standard error says why"),
    (USAGE, "the command line was not understood"),
    (NO_SERVER, "no server could be reached"),
    (SERVED, "another server holds the socket"),
    (
        NOTHING_FOUND,
        "`explain`: there is no failure to explain; `fleet`: Prometheus knows no server",
    ),
    (
        ABOVE_BASELINE,
        "`check`: more was taken or left behind than the baseline says",
    ),
    (
        PROGRAM_FAILED,
        "`check`: the command failed by itself; standard error has its code",
    ),
    (
        NEEDS_ATTENTION,
        "`doctor`: something on this machine does not work",
    ),
    (
        STILL_HELD,
        "`wait`: something is still held when the time is over; standard error says by whom",
    ),
    (
        CANNOT_START,
        "`run` and `check`: the command cannot be started",
    ),
    (NOT_FOUND, "`run` and `check`: there is no such command"),
];

const OK: u8 = 0;
const FAILED: u8 = 1;
const USAGE: u8 = 2;
const NO_SERVER: u8 = 3;
const SERVED: u8 = 4;
const NOTHING_FOUND: u8 = 5;
pub(crate) const ABOVE_BASELINE: u8 = 6;
/// One code whatever the program's was: any of ours may be a program's as well.
pub(crate) const PROGRAM_FAILED: u8 = 7;
pub(crate) const NEEDS_ATTENTION: u8 = 8;
const STILL_HELD: u8 = 9;
/// What a shell ends with for a command that it may not or cannot start.
const CANNOT_START: u8 = 126;
/// What a shell ends with for a command that is not there.
const NOT_FOUND: u8 = 127;

/// A command line that only turned out not to make sense when it was carried out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Nothing of what was looked for is there; what was done about it was printed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NothingFound(pub(crate) String);

/// Prints a failure and returns the exit code.
///
/// A command that did what it was asked for chooses its own: that of a program it ran, or 0.
pub(crate) fn report(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match outcome {
        Ok(code) => return code,
        Err(error) => error,
    };
    let code = code_of(&error);
    if code != OK {
        say(format_args!("{error:#}"));
    }
    ExitCode::from(code)
}

/// Prints why a command line was not understood, or the help that it asked for, and returns the exit code.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    let complaint = Cli::complaint(std::env::args_os()).filter(|_text| error.use_stderr());
    let shown = complaint.as_deref().map(visible);
    // Whoever closed the stream does not want to know.
    let _closed = match shown {
        // The words of the command line are in it: they must not drive the terminal.
        Some(shown) if Some(&shown) != complaint.as_ref() => {
            write!(std::io::stderr(), "{shown}")
        }
        _harmless => error.print(),
    };
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Says something on standard error, where every message of ours goes: names of files and words of the command line are
/// part of them, and must not drive the terminal.
pub(crate) fn say(what: impl Display) {
    let text = visible(&what.to_string());
    // Whoever closed standard error does not want to know.
    let _closed = writeln!(std::io::stderr(), "ttmem: {}", text.trim_end());
}

/// The same text with deceptive characters as escapes. Lines stay lines.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for sign in text.chars() {
        if sign != '\n' && is_deceptive(sign) {
            shown.extend(sign.escape_unicode());
        } else {
            shown.push(sign);
        }
    }
    shown
}

pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<PrintError>() {
        return if error.reader_left() { OK } else { FAILED };
    }
    if error.downcast_ref::<UsageError>().is_some() {
        return USAGE;
    }
    if error.downcast_ref::<NothingFound>().is_some() {
        return NOTHING_FOUND;
    }
    if error.downcast_ref::<StillHeld>().is_some() {
        return STILL_HELD;
    }
    if error.downcast_ref::<NoServer>().is_some() {
        return NO_SERVER;
    }
    if let Some(error) = error.downcast_ref::<StartChildError>() {
        return if error.is_not_found() {
            NOT_FOUND
        } else {
            CANNOT_START
        };
    }
    let of_prometheus = match error.downcast_ref::<PrometheusError>() {
        Some(PrometheusError::Request(error)) => Some(error),
        Some(PrometheusError::Slow { .. }) => return NO_SERVER,
        _other => None,
    };
    if let Some(error) = error.downcast_ref::<ApiRequestError>().or(of_prometheus) {
        return match error {
            ApiRequestError::NotRunning { .. }
            | ApiRequestError::Connect { .. }
            | ApiRequestError::Timeout { .. }
            | ApiRequestError::Broken { .. } => NO_SERVER,
            ApiRequestError::Status { .. }
            | ApiRequestError::Malformed { .. }
            | ApiRequestError::TooLarge { .. }
            | ApiRequestError::Schema { .. } => FAILED,
        };
    }
    match error.downcast_ref::<StartServerError>() {
        Some(StartServerError::Listen(ListenError::Bind(BindSocketError::Served { .. }))) => SERVED,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use std::io;
    use std::path::PathBuf;
    use ttmem_reader::Address;

    fn broken() -> io::Error {
        io::ErrorKind::BrokenPipe.into()
    }

    #[test]
    fn what_would_drive_a_terminal_is_visible_and_lines_stay_lines() {
        let text = "cannot read a\u{1b}[31m\r\u{202e}\u{9b}ü:\nno such file";
        let shown = r"cannot read a\u{1b}[31m\u{d}\u{202e}\u{9b}ü:".to_owned() + "\nno such file";
        assert_eq!(visible(text), shown);
    }

    #[test]
    fn each_failure_has_its_code() {
        let path = PathBuf::from("/run/ttmem.sock");
        let server = Address::Unix(path.clone());
        let refused = ApiRequestError::Status {
            server: server.clone(),
            code: 403,
            problem: None,
        };
        let server_left = ApiRequestError::Broken {
            server,
            source: broken(),
        };
        let no_server = NoServer {
            tried: vec![path],
            others: None,
        };
        for (error, code) in [
            (anyhow!("anything"), 1),
            (UsageError("not on this board".to_owned()).into(), 2),
            (NothingFound("nothing there".to_owned()).into(), 5),
            (refused.into(), 1),
            (no_server.into(), 3),
            // The server's pipe, not ours: that is a failure.
            (server_left.into(), 3),
            (PrintError(broken()).into(), 0),
            (PrintError(io::ErrorKind::StorageFull.into()).into(), 1),
        ] {
            assert_eq!(code_of(&error), code, "{error:#}");
            let wrapped = Err::<(), _>(error).context("while trying").unwrap_err();
            assert_eq!(code_of(&wrapped), code, "{wrapped:#}");
        }
    }
}
