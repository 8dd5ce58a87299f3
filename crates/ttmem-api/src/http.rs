//! Reading one HTTP/1.1 response from any byte stream.
//!
//! Owned by the client, which asks with `Connection: close`, so a stream carries exactly one
//! response. Everything read is hostile: whoever bound the socket path first may answer. Sizes
//! are bounded, the two framings may not contradict each other, and no length that was
//! announced is allocated before that much has arrived.

use std::io::{self, BufRead, BufReader, Read};

/// Room for status line and headers, and for the trailers of a chunked body.
const HEAD_LIMIT_BYTES: u64 = 16 * 1024;

/// Our server sends fewer than ten.
const HEADER_LIMIT: usize = 64;

/// Sixteen hex digits, an extension, and the line end.
pub(crate) const CHUNK_LINE_LIMIT_BYTES: u64 = 256;

/// A response, read whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    /// The status code.
    pub(crate) code: u16,
    /// The body, unchunked.
    pub(crate) body: Vec<u8>,
}

/// Why no response could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadResponseError {
    /// The stream failed, or its deadline passed.
    #[error("reading failed")]
    Io(#[from] io::Error),
    /// The bytes are not an HTTP response, or end too early.
    #[error("{0}")]
    Malformed(&'static str),
    /// The body is larger than the caller accepts.
    #[error("the body is larger than the limit")]
    TooLarge,
}

use ReadResponseError::Malformed;

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// It has so many bytes.
    Length(u64),
    /// It comes in chunks that say their lengths.
    Chunked,
    /// It is all that comes.
    UntilEof,
}

/// Reads a response whose body has at most `body_limit_bytes`.
pub(crate) fn read_response(
    stream: impl Read,
    body_limit_bytes: u64,
) -> Result<Response, ReadResponseError> {
    let mut stream = BufReader::with_capacity(64 * 1024, stream);
    let (code, framing) = read_head(&mut stream)?;
    let body = read_body(&mut stream, framing, body_limit_bytes)?;
    Ok(Response { code, body })
}

/// Reads a body of at most so many bytes.
pub(crate) fn read_body(
    stream: &mut impl BufRead,
    framing: Framing,
    body_limit_bytes: u64,
) -> Result<Vec<u8>, ReadResponseError> {
    let body = match framing {
        Framing::Length(length) => read_sized(stream, length, body_limit_bytes)?,
        Framing::Chunked => read_chunked(stream, body_limit_bytes)?,
        Framing::UntilEof => {
            let mut body = Vec::new();
            append(stream, body_limit_bytes.saturating_add(1), &mut body)?;
            body
        }
    };
    if len(&body) > body_limit_bytes {
        return Err(ReadResponseError::TooLarge);
    }
    Ok(body)
}

/// Reads the status code and how the body is framed.
pub(crate) fn read_head(stream: &mut impl BufRead) -> Result<(u16, Framing), ReadResponseError> {
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
                return Err(Malformed("the headers are larger than 16 KiB"));
            }
            _ if head.is_empty() => {
                return Err(Malformed("the connection was closed without an answer"));
            }
            _ => return Err(Malformed("the connection was closed inside the headers")),
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADER_LIMIT];
    let mut parsed = httparse::Response::new(&mut headers);
    match parsed.parse(&head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(Malformed("the headers are incomplete")),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed("more than 64 headers")),
        Err(_) => return Err(Malformed("not an HTTP response")),
    }
    let code = parsed.code.ok_or(Malformed("no status code"))?;
    // Neither has a body, whatever its headers say.
    if code == 204 || code == 304 {
        return Ok((code, Framing::Length(0)));
    }
    Ok((code, framing(parsed.headers)?))
}

fn framing(headers: &[httparse::Header<'_>]) -> Result<Framing, ReadResponseError> {
    let mut found = None;
    for header in headers {
        let framing = if header.name.eq_ignore_ascii_case("content-length") {
            let length = decimal(header.value).ok_or(Malformed("bad Content-Length"))?;
            Framing::Length(length)
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !header.value.eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed("unknown Transfer-Encoding"));
            }
            Framing::Chunked
        } else {
            continue;
        };
        // Two framings that differ are how one response is made to look like two.
        if found.is_some_and(|earlier| earlier != framing) {
            return Err(Malformed("contradicting body lengths"));
        }
        found = Some(framing);
    }
    Ok(found.unwrap_or(Framing::UntilEof))
}

fn read_sized(
    stream: &mut impl BufRead,
    length: u64,
    limit_bytes: u64,
) -> Result<Vec<u8>, ReadResponseError> {
    if length > limit_bytes {
        return Err(ReadResponseError::TooLarge);
    }
    let mut body = Vec::new();
    if append(stream, length, &mut body)? < length {
        return Err(Malformed("the body is shorter than announced"));
    }
    Ok(body)
}

fn read_chunked(stream: &mut impl BufRead, limit_bytes: u64) -> Result<Vec<u8>, ReadResponseError> {
    let mut body = Vec::new();
    let mut line = Vec::new();
    loop {
        read_line(stream, CHUNK_LINE_LIMIT_BYTES, &mut line)?;
        let Ok(httparse::Status::Complete((_, chunk_bytes))) = httparse::parse_chunk_size(&line)
        else {
            return Err(Malformed("bad chunk size"));
        };
        if chunk_bytes == 0 {
            break;
        }
        if chunk_bytes > limit_bytes.saturating_sub(len(&body)) {
            return Err(ReadResponseError::TooLarge);
        }
        if append(stream, chunk_bytes, &mut body)? < chunk_bytes {
            return Err(Malformed("the body ended inside a chunk"));
        }
        read_line(stream, 2, &mut line)?;
        if line != b"\r\n" {
            return Err(Malformed("a chunk is longer than announced"));
        }
    }
    let mut room = HEAD_LIMIT_BYTES;
    loop {
        read_line(stream, room, &mut line)?;
        if line == b"\r\n" {
            return Ok(body);
        }
        room -= len(&line);
    }
}

/// Reads up to and including a line feed into `line`, which must come within `limit_bytes`.
fn read_line(
    stream: &mut impl BufRead,
    limit_bytes: u64,
    line: &mut Vec<u8>,
) -> Result<(), ReadResponseError> {
    line.clear();
    stream.by_ref().take(limit_bytes).read_until(b'\n', line)?;
    if line.ends_with(b"\n") {
        Ok(())
    } else {
        Err(Malformed(
            "the body ended inside its framing, or the framing is too long",
        ))
    }
}

/// Appends at most `count` bytes; fewer than that only at the end of the stream.
fn append(stream: &mut impl BufRead, count: u64, body: &mut Vec<u8>) -> io::Result<u64> {
    let appended = stream.by_ref().take(count).read_to_end(body)?;
    Ok(u64::try_from(appended).expect("usize has at most 64 bits"))
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("usize has at most 64 bits")
}

/// Digits only: `parse` would also take a sign.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1000;

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
            assert!(matches!(error, ReadResponseError::TooLarge), "{error}");
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
