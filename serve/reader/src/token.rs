//! The secret with which readers are let in over TCP.
//!
//! Both ends read it from a file: a command line is seen by every user of the machine, and so is
//! the environment by everything that a shell starts. The file has to be as private as the secret.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The longest token: many times what a secret needs.
const MAX_TOKEN_BYTES: usize = 1024;

/// What may follow a token in its file: a line end, as editors and `echo` leave it.
const LINE_END_BYTES: u64 = 2;

/// Permission bits with which others than the owner can get at a file.
const OTHERS: u32 = 0o077;

/// A secret that is sent as `Authorization: Bearer TOKEN`.
///
/// It is not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why a text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseTokenError {
    #[error("it is empty")]
    Empty,
    #[error("a token has at most {MAX_TOKEN_BYTES} characters")]
    TooLong,
    /// It has characters that a header cannot carry.
    #[error("a token is one line of printable ASCII characters, without spaces")]
    Characters,
}

/// Why a file has no token.
#[derive(Debug, thiserror::Error)]
pub enum ReadTokenError {
    #[error("cannot read the token file {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the token file {} is not a regular file", path.display())]
    NotRegular { path: PathBuf },
    #[error("the token file {} can be used by others (mode {mode:04o}): chmod 600", path.display())]
    NotPrivate { path: PathBuf, mode: u32 },
    #[error("the token file {} belongs to user {uid}, not to this one or root", path.display())]
    NotOurs { path: PathBuf, uid: u32 },
    #[error("the token file {} has no token", path.display())]
    Content {
        path: PathBuf,
        source: ParseTokenError,
    },
}

impl Token {
    /// A token from its text.
    pub fn new(text: &str) -> Result<Self, ParseTokenError> {
        if text.is_empty() {
            return Err(ParseTokenError::Empty);
        }
        if text.len() > MAX_TOKEN_BYTES {
            return Err(ParseTokenError::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ParseTokenError::Characters);
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads the token of a file, which must be private to this user or to root.
    pub fn read(path: &Path) -> Result<Self, ReadTokenError> {
        let owned = || path.to_owned();
        let io = |source| ReadTokenError::Io {
            path: owned(),
            source,
        };
        // What was opened is looked at, not what the path may mean a moment later; a pipe that
        // nobody writes to must not hold us up.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let mut options = File::options();
        let opened = options.read(true).custom_flags(nonblocking).open(path);
        let file = opened.map_err(io)?;
        let facts = file.metadata().map_err(io)?;
        if !facts.is_file() {
            return Err(ReadTokenError::NotRegular { path: owned() });
        }
        let mode = facts.mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(ReadTokenError::NotPrivate {
                path: owned(),
                mode,
            });
        }
        let uid = facts.uid();
        if uid != 0 && uid != rustix::process::geteuid().as_raw() {
            return Err(ReadTokenError::NotOurs { path: owned(), uid });
        }
        let mut bytes = Vec::new();
        // One more than there may be: that is how too much is noticed.
        let limit = MAX_TOKEN_BYTES as u64 + LINE_END_BYTES + 1;
        file.take(limit).read_to_end(&mut bytes).map_err(io)?;
        token_of(&bytes).map_err(|source| ReadTokenError::Content {
            path: owned(),
            source,
        })
    }

    /// Whether somebody shows this token; how long that takes reveals nothing about it.
    #[must_use]
    pub fn matches(&self, shown: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let mut difference = u8::from(own.len() != shown.len());
        for (byte, ours) in shown.iter().zip(own.iter().cycle()) {
            // Kept from being cut short at the first difference.
            difference = std::hint::black_box(difference | (byte ^ ours));
        }
        difference == 0
    }

    /// The text, for the header.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The token of a file's bytes: one line, with its end or without.
fn token_of(bytes: &[u8]) -> Result<Token, ParseTokenError> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = str::from_utf8(line).map_err(|_error| ParseTokenError::Characters)?;
    Token::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    fn refused(content: &[u8], mode: u32) -> String {
        let (_folder, path) = file(content, mode);
        let error = anyhow_like(&Token::read(&path).unwrap_err());
        error.replace(path.to_str().unwrap(), "FILE")
    }

    /// An error with its reasons, as the program prints them.
    fn anyhow_like(error: &dyn std::error::Error) -> String {
        match error.source() {
            Some(source) => format!("{error}: {}", anyhow_like(source)),
            None => error.to_string(),
        }
    }

    #[test]
    fn a_private_file_with_a_line_is_a_token() {
        for content in [&b"s3cret+/=~"[..], b"s3cret+/=~\n", b"s3cret+/=~\r\n"] {
            for mode in [0o600, 0o400] {
                let (_folder, path) = file(content, mode);
                assert!(Token::read(&path).unwrap().matches(b"s3cret+/=~"));
            }
        }
        let longest = "x".repeat(MAX_TOKEN_BYTES);
        let (_folder, path) = file(format!("{longest}\r\n").as_bytes(), 0o600);
        assert!(Token::read(&path).unwrap().matches(longest.as_bytes()));
    }

    #[test]
    fn a_file_is_refused_for_its_reason() {
        for mode in [0o640, 0o604, 0o620, 0o610, 0o644] {
            let said = refused(b"x", mode);
            let expected = format!("can be used by others (mode {mode:04o}): chmod 600");
            assert_eq!(said, format!("the token file FILE {expected}"));
        }
        for (content, reason) in [
            (&b""[..], "it is empty"),
            (b"\n", "it is empty"),
            (b"two words", "without spaces"),
            (b"two\nlines\n", "one line"),
            (b"\x1b[2J", "printable"),
            (b"\xff\xfe", "printable"),
            ("ü".as_bytes(), "ASCII"),
            (&[b'x'; MAX_TOKEN_BYTES + 1], "at most 1024"),
            (&[b'x'; 1 << 20], "at most 1024"),
        ] {
            let said = refused(content, 0o600);
            assert!(said.contains(reason), "{said}");
        }
    }

    #[test]
    fn only_a_regular_file_is_read() {
        let (folder, path) = file(b"x", 0o600);
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, mode, 0).unwrap();
        for other in [folder.path(), &pipe] {
            let error = Token::read(other).unwrap_err();
            assert!(
                matches!(error, ReadTokenError::NotRegular { .. }),
                "{error}"
            );
        }
        std::fs::remove_file(&path).unwrap();
        let error = Token::read(&path).unwrap_err();
        assert!(matches!(error, ReadTokenError::Io { .. }), "{error}");
    }

    #[test]
    fn nothing_but_the_token_is_the_token() {
        let token = Token::new("abcabc").unwrap();
        assert!(token.matches(b"abcabc"));
        for said in [
            &b""[..],
            b"abc",
            b"abcab",
            b"abcabcabc",
            b"abcabd",
            b"Abcabc",
        ] {
            assert!(!token.matches(said), "{said:?}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
