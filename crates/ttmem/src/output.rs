//! Standard output, whose failures are kept apart from all others.
//!
//! `ttmem dump | head` must end quietly: a reader that left is not our failure. The same error on
//! the server's socket is one, so what goes wrong here has a type of its own.

use rustix::termios::tcgetwinsize;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::os::fd::AsFd;

#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub(crate) struct PrintError(#[source] pub(crate) io::Error);

impl PrintError {
    pub(crate) fn reader_left(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

#[derive(Debug)]
pub(crate) struct Output<W: Write> {
    writer: W,
}

impl Output<BufWriter<StdoutLock<'static>>> {
    pub(crate) fn stdout() -> Self {
        Self::new(BufWriter::new(io::stdout().lock()))
    }
}

impl<W: Write> Output<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self { writer }
    }

    pub(crate) fn print(&mut self, text: &str) -> Result<(), PrintError> {
        self.writer.write_all(text.as_bytes()).map_err(PrintError)
    }

    /// Makes sure that all so far was printed, by a command that goes on.
    pub(crate) fn flush(&mut self) -> Result<(), PrintError> {
        self.writer.flush().map_err(PrintError)
    }

    /// Makes sure that all was printed.
    pub(crate) fn finish(mut self) -> Result<(), PrintError> {
        self.flush()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) width: usize,
    pub(crate) color: bool,
}

/// Columns when nobody says how many there are: no name is cut for a screen that is not there.
const DEFAULT_WIDTH: u16 = 160;

impl Screen {
    /// The screen that a standard stream and the environment describe.
    pub(crate) fn detect(stream: &(impl IsTerminal + AsFd)) -> Self {
        let no_color = std::env::var_os("NO_COLOR").filter(|value| !value.is_empty());
        Self {
            width: text_size(stream).0.into(),
            color: stream.is_terminal() && no_color.is_none(),
        }
    }
}

/// The columns and rows that text is laid out for: those of the terminal, or what the environment
/// says.
///
/// Without a number of rows there are as many as the text needs.
pub(crate) fn text_size(stream: &impl AsFd) -> (u16, Option<u16>) {
    if let Ok(size) = tcgetwinsize(stream)
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return (size.ws_col, Some(size.ws_row));
    }
    let said = |name: &str| {
        let value = std::env::var(name).ok()?;
        value.parse().ok().filter(|count| *count > 0)
    };
    (said("COLUMNS").unwrap_or(DEFAULT_WIDTH), said("LINES"))
}
