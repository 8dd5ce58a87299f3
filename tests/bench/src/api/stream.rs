//! A stream as bytes: when they came matters here, so nothing is decoded that need not be.

use super::WATCHDOG;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Opens a stream and reads its head, byte by byte, so that all that follows is the stream.
///
/// In HTTP/1.0, whose bodies come as they are until the connection ends. Asks again while the
/// server says that it is busy.
pub(super) fn open(socket: &Path) -> Result<UnixStream> {
    let begun = Instant::now();
    loop {
        let mut stream = UnixStream::connect(socket).context("cannot reach the server")?;
        stream.set_read_timeout(Some(WATCHDOG))?;
        // A server that is busy may close before it has read.
        let _sent = stream.write_all(b"GET /api/v1/events HTTP/1.0\r\n\r\n");
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
            head.push(byte[0]);
        }
        if head.starts_with(b"HTTP/1.0 200 ") {
            return Ok(stream);
        }
        let is_busy = head.get(9..12) == Some(b"503");
        if !is_busy || begun.elapsed() > WATCHDOG {
            bail!("no stream: {}", String::from_utf8_lossy(&head));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Cuts bytes into messages.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// What came and is no whole message yet.
    rest: Vec<u8>,
}

impl Scanner {
    /// Takes bytes, and gives each message that is whole.
    pub(super) fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Message<'_>)) {
        self.rest.extend_from_slice(bytes);
        let mut begin = 0;
        while let Some(length) = find(&self.rest[begin..], b"\n\n") {
            take(Message(&self.rest[begin..begin + length]));
            begin += length + 2;
        }
        self.rest.drain(..begin);
    }
}

/// One message, without the empty line behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'m>(&'m [u8]);

impl<'m> Message<'m> {
    /// Whether it is of a kind.
    pub(super) fn is(&self, kind: &str) -> bool {
        let name = find(self.0, b"event: ").map(|at| &self.0[at + 7..]);
        let end = |name: &[u8]| name.get(kind.len()) == Some(&b'\n');
        name.is_some_and(|name| name.starts_with(kind.as_bytes()) && end(name))
    }

    /// What stands behind the first field of this name: the server's own come before any text of
    /// a client.
    pub(super) fn field(&self, name: &str) -> Option<&'m str> {
        let key = format!("\"{name}\":");
        let value = &self.0[find(self.0, key.as_bytes())? + key.len()..];
        let value = value.strip_prefix(b"\"").unwrap_or(value);
        let end = value
            .iter()
            .position(|byte| matches!(byte, b'"' | b',' | b'}'))?;
        std::str::from_utf8(&value[..end]).ok()
    }

    /// A field that is a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }
}

/// Where a text begins in some bytes.
fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|part| part == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_wherever_the_bytes_are() {
        let text = b"event: hello\ndata: {\"type\":\"hello\"}\n\n: still here\n\n\
            id: 7\nevent: event\ndata: {\"type\":\"event\",\"id\":7,\"time\":\"now\"}\n\n";
        for size in 1..text.len() {
            let mut scanner = Scanner::default();
            let mut seen = Vec::new();
            for part in text.chunks(size) {
                scanner.push(part, |message| {
                    let time = message.field("time").map(str::to_owned);
                    seen.push((message.is("event"), message.number("id"), time));
                });
            }
            let event = (true, Some(7), Some("now".to_owned()));
            assert_eq!(seen, [(false, None, None), (false, None, None), event]);
        }
    }
}
