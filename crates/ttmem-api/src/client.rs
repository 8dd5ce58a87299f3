//! A blocking client of the read API over the server's Unix socket.
//!
//! Used by the command line and by viewers, on whatever thread wants to wait. One request is one
//! connection: a viewer asks a few times a second at most, and a connection that is kept would
//! have to be watched. Nothing is retried here; the caller knows whether waiting makes sense.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::http::{ReadResponseError, Response, read_body, read_head, read_response};
use crate::{
    BlockMap, BufferGroups, BufferPage, BufferQuery, CbPage, DeviceDetail, EventReader, Forgotten,
    History, KernelPage, L1Map, LastEvents, Marked, MemoryClass, Pace, Page, Problem, Processes,
    ProgramPage, SCHEMA, Snapshot, routes,
};

#[cfg(test)]
mod tests;

/// The server answers from memory; five seconds without a byte means it hangs.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// A whole answer may take this many timeouts: a server that trickles bytes still ends.
const ANSWER_TIMEOUTS: u32 = 12;

/// A buffer takes about 330 bytes of JSON: room for some 800,000 rows in one page.
const DEFAULT_BODY_LIMIT_BYTES: u64 = 256 * 1024 * 1024;

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ApiRequestError {
    /// Nothing listens on the socket.
    #[error("no server listens on {}", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The socket is there, but may not or cannot be used.
    #[error("cannot connect to {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The server took too long.
    #[error("{} did not answer within {after:?}", path.display())]
    Timeout {
        /// The socket.
        path: PathBuf,
        /// The time that was waited.
        after: Duration,
    },
    /// The connection broke.
    #[error("the connection to {} broke", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The server refused the request.
    #[error("the server answered {code}{}", explanation(problem.as_ref()))]
    Status {
        /// The HTTP status code.
        code: u16,
        /// The reason, if the server gave one in a form we know.
        problem: Option<Problem>,
    },
    /// What was answered is not what this API answers.
    #[error("{} does not speak this API: {reason}", path.display())]
    Malformed {
        /// The socket.
        path: PathBuf,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The answer is larger than this client accepts.
    #[error("the answer of {} is larger than {limit_bytes} bytes", path.display())]
    TooLarge {
        /// The socket.
        path: PathBuf,
        /// The client's limit.
        limit_bytes: u64,
    },
    /// The server speaks another version of the read API.
    #[error("the server answers in schema {got}, this program knows schema {known}")]
    Schema {
        /// The server's.
        got: u64,
        /// Ours.
        known: u32,
    },
}

fn explanation(problem: Option<&Problem>) -> String {
    problem
        .map(|problem| format!(": {problem}"))
        .unwrap_or_default()
}

/// Asks one server; cheap to make and to clone, holds no connection.
#[derive(Debug, Clone)]
pub struct ApiClient {
    path: PathBuf,
    timeout: Duration,
    body_limit_bytes: u64,
}

impl ApiClient {
    /// A client of the server that listens on the Unix socket `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            timeout: DEFAULT_TIMEOUT,
            body_limit_bytes: DEFAULT_BODY_LIMIT_BYTES,
        }
    }

    /// Changes how long to wait for a connection, and for each part of the answer.
    ///
    /// Zero would mean "for ever" to the kernel: a millisecond is the least, a day the most.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), Duration::from_secs(86_400));
        self
    }

    /// Changes how large an answer may be.
    #[must_use]
    pub fn with_body_limit(mut self, limit_bytes: u64) -> Self {
        self.body_limit_bytes = limit_bytes;
        self
    }

    /// The socket this client asks.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All totals.
    pub fn snapshot(&self) -> Result<Snapshot, ApiRequestError> {
        self.document(&self.exchange("GET", routes::SNAPSHOT)?)
    }

    /// A page of live buffers: the first, or the one a cursor points to.
    ///
    /// Without a limit the server chooses how many rows a page has.
    pub fn buffers(
        &self,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> Result<BufferPage, ApiRequestError> {
        self.page(routes::BUFFERS, cursor, limit)
    }

    /// A page of live circular buffers, as [`buffers`](Self::buffers).
    pub fn cbs(&self, cursor: Option<&str>, limit: Option<u32>) -> Result<CbPage, ApiRequestError> {
        self.page(routes::CBS, cursor, limit)
    }

    /// A page of live kernels, as [`buffers`](Self::buffers).
    pub fn kernels(
        &self,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> Result<KernelPage, ApiRequestError> {
        self.page(routes::KERNELS, cursor, limit)
    }

    /// A page of live programs, as [`buffers`](Self::buffers).
    pub fn programs(
        &self,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> Result<ProgramPage, ApiRequestError> {
        self.page(routes::PROGRAMS, cursor, limit)
    }

    /// One device, named by its logical id or by its unique id in hex.
    pub fn device(&self, name: &str) -> Result<DeviceDetail, ApiRequestError> {
        self.get(&of_device(routes::DEVICES, name), &())
    }

    /// Every process.
    pub fn processes(&self) -> Result<Processes, ApiRequestError> {
        self.get(routes::PROCESSES, &())
    }

    /// A page of the live buffers that a query asks for.
    pub fn buffers_where(&self, query: &BufferQuery) -> Result<BufferPage, ApiRequestError> {
        let page: BufferPage = self.get(routes::BUFFERS, query)?;
        self.not_itself(page, query.cursor.as_deref())
    }

    /// The live buffers that a query asks for, put together by what it says.
    pub fn buffer_groups(&self, query: &BufferQuery) -> Result<BufferGroups, ApiRequestError> {
        self.get(routes::BUFFER_GROUPS, query)
    }

    /// Totals over time, so many seconds back.
    pub fn history(&self, seconds: u32) -> Result<History, ApiRequestError> {
        self.get(routes::HISTORY, &[("seconds", seconds)])
    }

    /// L1 of a device, named as for [`device`](Self::device), and of one core of it: x and y.
    pub fn l1_map(&self, name: &str, core: Option<(u16, u16)>) -> Result<L1Map, ApiRequestError> {
        let core = core.map_or(Vec::new(), |(x, y)| vec![("x", x), ("y", y)]);
        self.get(&of_device(routes::L1_MAP, name), &core)
    }

    /// The banks of a class of a device, named as for [`device`](Self::device).
    ///
    /// Without a number of cells the server chooses one.
    pub fn blocks(
        &self,
        name: &str,
        class: MemoryClass,
        cells: Option<u32>,
    ) -> Result<BlockMap, ApiRequestError> {
        let cells = cells.map(|cells| ("cells", cells.to_string()));
        let query: Vec<_> = [("class", class.to_string())]
            .into_iter()
            .chain(cells)
            .collect();
        self.get(&of_device(routes::BLOCKS, name), &query)
    }

    /// Sets a mark, from which peaks are counted as well.
    pub fn mark(&self, name: &str) -> Result<Marked, ApiRequestError> {
        let target = format!("{}?name={}", routes::MARK, percent_encoded(name));
        self.document(&self.exchange("POST", &target)?)
    }

    /// Follows what happens, from now on or from behind an id.
    pub fn events(&self, pace: Pace, after: Option<u64>) -> Result<EventReader, ApiRequestError> {
        let after = after.map_or(String::new(), |after| format!("&after={after}"));
        let target = format!("{}?pace={pace}{after}", routes::EVENTS);
        let (answer, sent) = self.send("GET", &target)?;
        let mut answer = BufReader::new(answer);
        let head = match (read_head(&mut answer), sent) {
            (Ok(head), _) => head,
            (Err(_), Err(source)) => return Err(self.transport(source)),
            (Err(error), Ok(())) => return Err(self.unreadable(error)),
        };
        match head {
            (200, framing) => Ok(EventReader::new(self.path.clone(), answer, framing)),
            (code, framing) => {
                let body = read_body(&mut answer, framing, self.body_limit_bytes);
                let body = body.map_err(|error| self.unreadable(error))?;
                Err(refused(code, &body))
            }
        }
    }

    /// The last `count` events, of one process or of all.
    pub fn last(&self, count: u32, pid: Option<u32>) -> Result<LastEvents, ApiRequestError> {
        let of = pid.map_or(String::new(), |pid| format!("&pid={pid}"));
        let target = format!("{}?count={count}{of}", routes::LAST);
        self.document(&self.exchange("GET", &target)?)
    }

    /// Makes the server drop everything a process holds.
    pub fn forget(&self, pid: u32) -> Result<Forgotten, ApiRequestError> {
        self.document(&self.exchange("POST", &format!("{}?pid={pid}", routes::FORGET))?)
    }

    /// Whether the server answers at all.
    pub fn healthy(&self) -> Result<(), ApiRequestError> {
        self.exchange("GET", routes::HEALTH).map(drop)
    }

    /// Whether the server has applied all that it was sent.
    pub fn ready(&self) -> Result<(), ApiRequestError> {
        self.exchange("GET", routes::READY).map(drop)
    }

    /// The document of a path, asked for with the fields of `query`.
    fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, ApiRequestError> {
        self.document(&self.exchange("GET", &with_query(path, query))?)
    }

    fn page<R: DeserializeOwned>(
        &self,
        route: &str,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<R>, ApiRequestError> {
        let mut target = route.to_owned();
        let mut separator = '?';
        if let Some(cursor) = cursor {
            target.push_str(&format!("{separator}cursor={}", percent_encoded(cursor)));
            separator = '&';
        }
        if let Some(limit) = limit {
            target.push_str(&format!("{separator}limit={limit}"));
        }
        let page: Page<R> = self.document(&self.exchange("GET", &target)?)?;
        self.not_itself(page, cursor)
    }

    /// A page that does not point to itself: whoever follows cursors would never get to the end.
    fn not_itself<R>(
        &self,
        page: Page<R>,
        cursor: Option<&str>,
    ) -> Result<Page<R>, ApiRequestError> {
        if page.next.is_some() && page.next.as_deref() == cursor {
            return Err(self.malformed("the page points to itself"));
        }
        Ok(page)
    }

    /// Decodes a document of the schema this crate knows.
    fn document<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ApiRequestError> {
        #[derive(Deserialize)]
        struct Versioned {
            schema: u64,
        }
        // First the version: another schema may well fail to decode, and that is the lesser news.
        let Versioned { schema } = serde_json::from_slice(body)
            .map_err(|error| self.malformed(format!("no JSON with a schema: {error}")))?;
        if schema != u64::from(SCHEMA) {
            return Err(ApiRequestError::Schema {
                got: schema,
                known: SCHEMA,
            });
        }
        serde_json::from_slice(body)
            .map_err(|error| self.malformed(format!("unexpected document: {error}")))
    }

    /// Sends a request and returns the body of a 200.
    fn exchange(&self, method: &str, target: &str) -> Result<Vec<u8>, ApiRequestError> {
        let (mut answer, sent) = self.send(method, target)?;
        // A server that is full answers and closes without reading: its reason is worth more
        // than our broken pipe.
        let response = match (read_response(&mut answer, self.body_limit_bytes), sent) {
            (Ok(response), _) => response,
            (Err(_), Err(source)) => return Err(self.transport(source)),
            (Err(error), Ok(())) => return Err(self.unreadable(error)),
        };
        match response {
            Response { code: 200, body } => Ok(body),
            Response { code, body } => Err(refused(code, &body)),
        }
    }

    /// Connects and sends a request: where its answer comes, and whether all of it was sent.
    fn send(
        &self,
        method: &str,
        target: &str,
    ) -> Result<(Deadline, io::Result<()>), ApiRequestError> {
        let mut stream = self.connect()?;
        let content_length = if method == "POST" {
            "Content-Length: 0\r\n"
        } else {
            ""
        };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: ttmem\r\nAccept: application/json\r\n\
             {content_length}Connection: close\r\n\r\n"
        );
        let sent = stream.write_all(request.as_bytes());
        let answer = Deadline {
            stream,
            timeout: self.timeout,
            end: Instant::now() + self.timeout * ANSWER_TIMEOUTS,
        };
        Ok((answer, sent))
    }

    fn connect(&self) -> Result<UnixStream, ApiRequestError> {
        let attempt = || -> io::Result<UnixStream> {
            let address = SocketAddrUnix::new(&self.path)?;
            let socket = rustix::net::socket_with(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            )?;
            // The send timeout also bounds `connect`, which waits while the backlog is full.
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(self.timeout))?;
            rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
            Ok(UnixStream::from(socket))
        };
        attempt().map_err(|source| {
            let path = self.path.clone();
            match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    ApiRequestError::NotRunning { path, source }
                }
                io::ErrorKind::WouldBlock => ApiRequestError::Timeout {
                    path,
                    after: self.timeout,
                },
                _ => ApiRequestError::Connect { path, source },
            }
        })
    }

    fn transport(&self, source: io::Error) -> ApiRequestError {
        let path = self.path.clone();
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ApiRequestError::Timeout {
                path,
                after: self.timeout,
            },
            _ => ApiRequestError::Broken { path, source },
        }
    }

    fn unreadable(&self, error: ReadResponseError) -> ApiRequestError {
        match error {
            ReadResponseError::Io(source) => self.transport(source),
            ReadResponseError::Malformed(reason) => self.malformed(reason),
            ReadResponseError::TooLarge => ApiRequestError::TooLarge {
                path: self.path.clone(),
                limit_bytes: self.body_limit_bytes,
            },
        }
    }

    fn malformed(&self, reason: impl Into<String>) -> ApiRequestError {
        ApiRequestError::Malformed {
            path: self.path.clone(),
            reason: reason.into(),
        }
    }
}

/// What a refusal says.
fn refused(code: u16, body: &[u8]) -> ApiRequestError {
    ApiRequestError::Status {
        code,
        problem: serde_json::from_slice(body).ok(),
    }
}

/// The path of one device's document.
fn of_device(route: &str, name: &str) -> String {
    format!("{route}/{}", percent_encoded(name))
}

/// A path with the fields of a query that are there.
fn with_query(path: &str, query: &impl Serialize) -> String {
    let mut target = path.to_owned();
    let mut put = |name: &str, value: &serde_json::Value| {
        let separator = if target.contains('?') { '&' } else { '?' };
        let value = match value {
            serde_json::Value::String(text) => percent_encoded(text),
            other => other.to_string(),
        };
        target.push_str(&format!("{separator}{name}={value}"));
    };
    match serde_json::to_value(query) {
        Ok(serde_json::Value::Object(fields)) => {
            fields.iter().for_each(|(name, value)| put(name, value));
        }
        Ok(serde_json::Value::Array(pairs)) => {
            for pair in &pairs {
                if let (Some(name), Some(value)) = (pair[0].as_str(), pair.get(1)) {
                    put(name, value);
                }
            }
        }
        // Nothing is asked.
        _nothing => {}
    }
    target
}

/// A stream whose every read waits a bounded time, and all of them together too.
#[derive(Debug)]
pub(crate) struct Deadline {
    stream: UnixStream,
    timeout: Duration,
    end: Instant,
}

impl Deadline {
    /// Lets all reads from now on take so long together.
    pub(crate) fn extend(&mut self, wait: Duration) {
        self.timeout = wait;
        self.end = Instant::now() + wait;
    }
}

impl Read for Deadline {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left.min(self.timeout)))?;
        self.stream.read(buffer)
    }
}

/// Encodes all but unreserved characters: a cursor is the server's text and ends up in our
/// request line.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
