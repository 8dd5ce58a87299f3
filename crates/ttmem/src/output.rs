//! Standard output, whose failures are kept apart from all others.
//!
//! `ttmem dump | head` must end quietly: a reader that left is not our failure. The same error on
//! the server's socket is one, so what goes wrong here has a type of its own.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

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

    /// Makes sure that all was printed.
    pub(crate) fn finish(mut self) -> Result<(), PrintError> {
        self.writer.flush().map_err(PrintError)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) width: usize,
    pub(crate) color: bool,
}

/// Columns when nobody says how many there are.
const DEFAULT_WIDTH: usize = 80;

impl Screen {
    /// The screen that a standard stream and the environment describe.
    pub(crate) fn detect(stream: &impl IsTerminal) -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let columns = set("COLUMNS");
        let columns = columns.as_ref().and_then(|value| value.to_str());
        Self {
            width: columns
                .and_then(|columns| columns.parse().ok())
                .unwrap_or(DEFAULT_WIDTH),
            color: stream.is_terminal() && set("NO_COLOR").is_none(),
        }
    }
}
