//! Standard output, whose failures are kept apart from all others.
//!
//! `ttmem dump | head` must end quietly: a reader that left is not our failure. The same error on
//! the server's socket is one, so what goes wrong here has a type of its own.

use anyhow::{Context, Result, ensure};
use rustix::fs::OFlags;
use rustix::process::geteuid;
use rustix::termios::tcgetwinsize;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

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

/// Opens a file for a report, empty. A report has names and lines: it is written neither into a file of another user, who
/// could read it, nor through a link that another user made.
pub(crate) fn create_report(path: &Path) -> Result<File> {
    let cannot = || format!("cannot write to {}", path.display());
    let link = fs::symlink_metadata(path).ok();
    let link = link.filter(fs::Metadata::is_symlink);
    if let Some(uid) = link.as_ref().map(MetadataExt::uid) {
        let is_trusted = uid == 0 || uid == geteuid().as_raw();
        ensure!(is_trusted, "{}: it is a link of uid {uid}", cannot());
    }
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    if link.is_none() {
        // What is put there meanwhile.
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    }
    let file = options.open(path).with_context(cannot)?;
    let facts = file.metadata().with_context(cannot)?;
    if facts.is_file() {
        let uid = facts.uid();
        let is_own = link.is_some() || uid == geteuid().as_raw();
        ensure!(
            is_own,
            "{}: it belongs to uid {uid}; remove it, or name another file",
            cannot()
        );
        file.set_len(0).with_context(cannot)?;
    }
    Ok(file)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, lchown, symlink};

    #[test]
    fn reports_are_not_written_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        fs::write(&path, "older and longer").unwrap();
        create_report(&path).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        create_report(&link).unwrap().write_all(b"by").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "by");
        create_report(Path::new("/dev/null")).unwrap();
        if !geteuid().is_root() {
            // Only root gives files away.
            return;
        }
        chown(&path, Some(12_345), None).unwrap();
        let said = create_report(&path).unwrap_err().to_string();
        assert!(said.contains("it belongs to uid 12345"), "{said}");
        lchown(&link, Some(12_345), None).unwrap();
        let said = create_report(&link).unwrap_err().to_string();
        assert!(said.ends_with("it is a link of uid 12345"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "by");
    }
}
