//! Reading one HTTP/1.1 response from any byte stream.
//!
//! Owned by the client, which asks with `Connection: close`, so a stream carries exactly one
//! response. Everything read is hostile: whoever bound the socket path first may answer. Sizes
//! are bounded, the two framings may not contradict each other, and no length that was
//! announced is allocated before that much has arrived. What is no response, or ends too early, is
//! `InvalidData` or `UnexpectedEof`; a body beyond the limit is `FileTooLarge`.

use std::io::{self, BufRead, Read};

use ttmem_report::decimal;

/// Room for status line and headers, and for the trailers of a chunked body.
const HEAD_LIMIT_BYTES: u64 = 16 * 1024;

/// Our server sends fewer than ten.
const HEADER_LIMIT: usize = 64;

/// Sixteen hex digits, an extension, and the line end.
const CHUNK_LINE_LIMIT_BYTES: u64 = 256;

/// Reads the status code and how the body is framed.
pub(crate) fn read_head(stream: &mut impl BufRead) -> io::Result<(u16, Next)> {
    // Line by line: the parser then sees each head once, however small the pieces arrive.
    let mut head = Vec::new();
    loop {
        let line_start = head.len();
        let room = HEAD_LIMIT_BYTES - len(&head);
        stream.by_ref().take(room).read_until(b'\n', &mut head)?;
        match &head[line_start..] {
            b"\r\n" | b"\n" if line_start > 0 => break,
            [.., b'\n'] => {}
            _ if len(&head) == HEAD_LIMIT_BYTES => {
                return Err(malformed("the headers are larger than 16 KiB"));
            }
            _ if head.is_empty() => {
                return Err(malformed("the connection was closed without an answer"));
            }
            _ => return Err(malformed("the connection was closed inside the headers")),
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADER_LIMIT];
    let mut parsed = httparse::Response::new(&mut headers);
    match parsed.parse(&head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(malformed("the headers are incomplete")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(malformed("more than 64 headers"));
        }
        Err(_) => return Err(malformed("not an HTTP response")),
    }
    let code = parsed.code.ok_or_else(|| malformed("no status code"))?;
    // Neither has a body, whatever its headers say.
    if code == 204 || code == 304 {
        return Ok((code, Next::bytes(0, false)));
    }
    Ok((code, framing(parsed.headers)?))
}

fn framing(headers: &[httparse::Header<'_>]) -> io::Result<Next> {
    let mut found = None;
    for header in headers {
        let framing = if header.name.eq_ignore_ascii_case("content-length") {
            let length = str::from_utf8(header.value).ok().and_then(decimal);
            Next::bytes(
                length.ok_or_else(|| malformed("bad Content-Length"))?,
                false,
            )
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !header.value.eq_ignore_ascii_case(b"chunked") {
                return Err(malformed("unknown Transfer-Encoding"));
            }
            Next::ChunkLength
        } else {
            continue;
        };
        // Two framings that differ are how one response is made to look like two.
        if found.is_some_and(|earlier| earlier != framing) {
            return Err(malformed("contradicting body lengths"));
        }
        found = Some(framing);
    }
    Ok(found.unwrap_or(Next::All))
}

/// The bytes of a body without their framing.
///
/// A read that fails for want of time can be repeated: nothing that arrived is lost.
#[derive(Debug)]
pub(crate) struct Body<S> {
    stream: S,
    next: Next,
    /// How many bytes the body may still have.
    room: u64,
    /// The line of the framing that is arriving.
    line: Vec<u8>,
}

/// What the stream has next, and so how the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// So many bytes of the body, and how it goes on.
    Bytes { left: u64, chunked: bool },
    /// The end of a chunk.
    ChunkEnd,
    /// The length of a chunk.
    ChunkLength,
    /// Headers behind the last chunk, which may have so many bytes.
    Trailers { room: u64 },
    /// The body, until the stream ends.
    All,
    /// Nothing.
    Nothing,
}

impl Next {
    /// So many bytes of the body, and what follows them.
    fn bytes(left: u64, chunked: bool) -> Self {
        match (left, chunked) {
            (0, true) => Self::ChunkEnd,
            (0, false) => Self::Nothing,
            (left, chunked) => Self::Bytes { left, chunked },
        }
    }
}

impl<S> Body<S> {
    /// A body of at most so many bytes.
    pub(crate) fn new(stream: S, next: Next, limit_bytes: u64) -> Self {
        Self {
            stream,
            next,
            room: limit_bytes,
            line: Vec::new(),
        }
    }

    /// What it is read from.
    pub(crate) fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl<S: BufRead> Body<S> {
    /// All of it.
    pub(crate) fn read_whole(mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        self.read_to_end(&mut body)?;
        Ok(body)
    }

    /// A line of the framing, once it is there; it must come within so many bytes.
    fn framing_line(&mut self, limit_bytes: u64) -> io::Result<Vec<u8>> {
        let mut room = self
            .stream
            .by_ref()
            .take(limit_bytes.saturating_sub(len(&self.line)));
        // What came before an error stays in the line.
        room.read_until(b'\n', &mut self.line)?;
        if self.line.ends_with(b"\n") {
            return Ok(std::mem::take(&mut self.line));
        }
        if room.limit() == 0 {
            return Err(malformed("the framing of the body is too long"));
        }
        Err(cut_short())
    }

    /// Reads bytes of the body itself, of which so many can come at once.
    fn read_bytes(&mut self, buffer: &mut [u8], most: u64) -> io::Result<usize> {
        let count = self.stream.by_ref().take(most).read(buffer)?;
        let room = self.room.checked_sub(count as u64);
        self.room = room.ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(count)
    }
}

impl<S: BufRead> Read for Body<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self.next {
                Next::Nothing => return Ok(0),
                Next::All => return self.read_bytes(buffer, u64::MAX),
                Next::Bytes { left, chunked } => {
                    if left > self.room {
                        return Err(io::ErrorKind::FileTooLarge.into());
                    }
                    let count = self.read_bytes(buffer, left)?;
                    if count == 0 {
                        return Err(cut_short());
                    }
                    self.next = Next::bytes(left - count as u64, chunked);
                    return Ok(count);
                }
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
                        0 => Next::Trailers {
                            room: HEAD_LIMIT_BYTES,
                        },
                        left => Next::bytes(left, true),
                    };
                }
                Next::Trailers { room } => {
                    let line = self.framing_line(room)?;
                    self.next = match &*line {
                        b"\r\n" => Next::Nothing,
                        line => Next::Trailers {
                            room: room - len(line),
                        },
                    };
                }
            }
        }
    }
}

fn malformed(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

fn cut_short() -> io::Error {
    let reason = "the body is shorter than announced";
    io::Error::new(io::ErrorKind::UnexpectedEof, reason)
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("usize has at most 64 bits")
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    const LIMIT: u64 = 1000;

    /// A response, read whole.
    #[derive(Debug, PartialEq, Eq)]
    struct Response {
        code: u16,
        body: Vec<u8>,
    }

    fn read_response(stream: impl Read, limit_bytes: u64) -> io::Result<Response> {
        let mut stream = BufReader::new(stream);
        let (code, framing) = read_head(&mut stream)?;
        let body = Body::new(stream, framing, limit_bytes).read_whole()?;
        Ok(Response { code, body })
    }

    /// Gives its bytes one at a time, as the worst of networks would.
    struct OneByOne<'a>(&'a [u8]);

    impl Read for OneByOne<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = 1.min(buffer.len());
            self.0.read(&mut buffer[..count])
        }
    }

    fn read(bytes: &[u8]) -> Result<Response, String> {
        let whole = read_response(bytes, LIMIT).map_err(|error| error.to_string());
        let pieces = read_response(OneByOne(bytes), LIMIT).map_err(|error| error.to_string());
        assert_eq!(whole, pieces, "the answer depends on how the bytes arrive");
        whole
    }

    fn ok(body: &str) -> Result<Response, String> {
        Ok(Response {
            code: 200,
            body: body.into(),
        })
    }

    const SIZED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        3;ext=1\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n";
    const UNTIL_EOF: &[u8] = b"HTTP/1.0 200 OK\r\n\r\nhello";

    #[test]
    fn the_three_framings() {
        assert_eq!(read(SIZED), ok("hello"));
        assert_eq!(read(CHUNKED), ok("hello"));
        assert_eq!(read(UNTIL_EOF), ok("hello"));
    }

    #[test]
    fn any_truncation_of_a_framed_body_is_an_error() {
        for response in [SIZED, CHUNKED] {
            for end in 0..response.len() {
                assert!(read(&response[..end]).is_err(), "cut at {end}");
            }
        }
    }

    #[test]
    fn no_mutation_panics_and_every_answer_stays_within_the_limit() {
        for response in [SIZED, CHUNKED, UNTIL_EOF] {
            for at in 0..response.len() {
                for byte in 0..=u8::MAX {
                    let mut mutated = response.to_vec();
                    mutated[at] = byte;
                    if let Ok(response) = read(&mutated) {
                        assert!(len(&response.body) <= LIMIT);
                    }
                }
            }
        }
    }

    #[test]
    fn contradicting_or_bad_framing_is_refused() {
        for headers in [
            "Content-Length: 5\r\nContent-Length: 4",
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: +5",
            "Content-Length: -1",
            "Content-Length:",
            "Content-Length: 5, 5",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: gzip",
            "Transfer-Encoding: gzip, chunked",
        ] {
            let response = format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\nhello");
            assert!(read(response.as_bytes()).is_err(), "{headers:?}");
        }
        let twice = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\nhello";
        assert_eq!(read(twice), ok("hello"));
    }

    #[test]
    fn limits_hold_in_every_framing() {
        let large = "x".repeat(1001);
        for response in [
            format!("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n{large}"),
            format!("HTTP/1.1 200 OK\r\n\r\n{large}"),
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{large}\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n".to_owned(),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n".to_owned(),
        ] {
            let error = read_response(response.as_bytes(), LIMIT).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
        }
        let exact = format!("HTTP/1.1 200 OK\r\n\r\n{}", &large[1..]);
        assert!(read(exact.as_bytes()).is_ok());
    }

    #[test]
    fn endless_heads_and_trailers_are_refused() {
        let header = "X: y\r\n".repeat(10_000);
        assert!(read(format!("HTTP/1.1 200 OK\r\n{header}").as_bytes()).is_err());
        assert!(read("x".repeat(100_000).as_bytes()).is_err());
        let trailers =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{header}\r\n");
        assert!(read(trailers.as_bytes()).is_err());
    }

    #[test]
    fn no_content_has_no_body() {
        let response = b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(
            read(response),
            Ok(Response {
                code: 204,
                body: Vec::new()
            })
        );
    }
}
