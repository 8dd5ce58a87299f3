//! A body that is read while it arrives.

use std::io::{self, BufRead, Read};

use crate::http::{CHUNK_LINE_LIMIT_BYTES, Framing};

/// The bytes of a body without their framing. A read that fails for want of time can be repeated:
/// nothing that arrived is lost.
#[derive(Debug)]
pub(super) struct StreamingBody<S> {
    stream: S,
    next: Next,
    /// The line of the framing that is arriving.
    line: Vec<u8>,
}

/// What the stream has next.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// So many bytes of the body, and how it goes on.
    Bytes { left: u64, chunked: bool },
    /// The end of a chunk.
    ChunkEnd,
    /// The length of a chunk.
    ChunkLength,
    /// The body, until the stream ends.
    All,
    /// Nothing.
    Nothing,
}

impl<S> StreamingBody<S> {
    pub(super) fn new(stream: S, framing: Framing) -> Self {
        let next = match framing {
            Framing::Length(0) => Next::Nothing,
            Framing::Length(left) => Next::Bytes {
                left,
                chunked: false,
            },
            Framing::Chunked => Next::ChunkLength,
            Framing::UntilEof => Next::All,
        };
        Self {
            stream,
            next,
            line: Vec::new(),
        }
    }

    /// What it is read from.
    pub(super) fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl<S: BufRead> StreamingBody<S> {
    /// A line of the framing, once it is there; it must come within so many bytes.
    fn framing_line(&mut self, limit_bytes: u64) -> io::Result<Vec<u8>> {
        let have = u64::try_from(self.line.len()).unwrap_or(u64::MAX);
        let mut room = self.stream.by_ref().take(limit_bytes.saturating_sub(have));
        // What came before an error stays in the line.
        room.read_until(b'\n', &mut self.line)?;
        if self.line.ends_with(b"\n") {
            return Ok(std::mem::take(&mut self.line));
        }
        if room.limit() == 0 {
            return Err(malformed("the framing of the stream is too long"));
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn read_bytes(&mut self, buffer: &mut [u8], left: u64, chunked: bool) -> io::Result<usize> {
        let count = self.stream.by_ref().take(left).read(buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        self.next = match (left, chunked) {
            (0, true) => Next::ChunkEnd,
            (0, false) => Next::Nothing,
            (left, chunked) => Next::Bytes { left, chunked },
        };
        Ok(count)
    }
}

impl<S: BufRead> Read for StreamingBody<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self.next {
                Next::Nothing => return Ok(0),
                Next::All => return self.stream.read(buffer),
                Next::Bytes { left, chunked } => return self.read_bytes(buffer, left, chunked),
                Next::ChunkEnd => {
                    if self.framing_line(2)? != b"\r\n" {
                        return Err(malformed("a chunk is longer than announced"));
                    }
                    self.next = Next::ChunkLength;
                }
                Next::ChunkLength => {
                    let line = self.framing_line(CHUNK_LINE_LIMIT_BYTES)?;
                    let Ok(httparse::Status::Complete((_, left))) =
                        httparse::parse_chunk_size(&line)
                    else {
                        return Err(malformed("bad chunk size"));
                    };
                    self.next = match left {
                        0 => Next::Nothing,
                        left => Next::Bytes {
                            left,
                            chunked: true,
                        },
                    };
                }
            }
        }
    }
}

fn malformed(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
