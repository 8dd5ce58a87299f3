//! A blocking client of the read API, over the server's Unix socket or TCP.
//!
//! Used by the command line and by viewers, on whatever thread wants to wait. One request is one
//! connection: a viewer asks a few times a second at most, and a connection that is kept would
//! have to be watched. Nothing is retried here; the caller knows whether waiting makes sense. No
//! redirection is followed: a token goes to the server it was meant for and to nobody else.

mod connection;
mod error;
mod exchange;
mod target;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) use connection::Deadline;
pub use error::ApiRequestError;
pub(crate) use exchange::undecodable;

use crate::{Address, EventReader, RecordRequest, RecordingReader, Token};
use serde::Serialize;
use target::of_device;
pub(crate) use target::with_query;
use ttmem_report::{
    Allocations, BlockMap, BufferGroups, BufferPage, BufferQuery, DeviceDetail, Failures,
    Forgotten, GroupBy, History, L1Map, LastEvents, Leaks, LeftBehind, Marked, MemoryClass, Page,
    PeakContents, PeakOf, Problems, Processes, Recording, Row, Snapshot, Timeline, Timestamp,
    routes,
};

/// The server answers from memory: one that takes longer for an answer hangs.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// A buffer takes about 330 bytes of JSON: room for some 800,000 rows in one page.
const DEFAULT_BODY_LIMIT_BYTES: u64 = 256 * 1024 * 1024;

/// Asks one server; cheap to make and to clone, holds no connection.
#[derive(Debug, Clone)]
pub struct ApiClient {
    server: Address,
    token: Option<Token>,
    at: Option<Timestamp>,
    device: Option<String>,
    timeout: Duration,
    /// When every answer has to be there, however many are asked for until then.
    end: Option<Instant>,
    body_limit_bytes: u64,
}

impl ApiClient {
    /// A client of the server that listens on the Unix socket `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::at(Address::Unix(path.into()))
    }

    /// A client of the server at an address of either kind.
    pub fn at(server: impl Into<Address>) -> Self {
        Self {
            server: server.into(),
            token: None,
            at: None,
            device: None,
            timeout: DEFAULT_TIMEOUT,
            end: None,
            body_limit_bytes: DEFAULT_BODY_LIMIT_BYTES,
        }
    }

    /// Shows a token with every request, for servers that let nobody in without one.
    #[must_use]
    pub fn with_token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Whether a token is shown.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Asks for documents of an instant of the server's recording; for those of now with `None`.
    #[must_use]
    pub fn at_instant(mut self, at: Option<Timestamp>) -> Self {
        self.at = at;
        self
    }

    /// Asks for snapshots and problems of some devices alone: those that any name of a device or of its card means.
    #[must_use]
    pub fn of_devices(mut self, name: Option<String>) -> Self {
        self.device = name;
        self
    }

    /// Changes how long one question may take, from the connection to the last byte of the answer.
    ///
    /// Zero would mean "for ever" to the kernel: a millisecond is the least, a day the most.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), Duration::from_secs(86_400));
        self
    }

    /// Gives up on every request at an instant, whatever arrived until then.
    #[must_use]
    pub fn until(mut self, end: Instant) -> Self {
        self.end = Some(end);
        self
    }

    /// Whether that instant has passed.
    pub(crate) fn is_late(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Changes how large an answer may be.
    #[must_use]
    pub fn with_body_limit(mut self, limit_bytes: u64) -> Self {
        self.body_limit_bytes = limit_bytes;
        self
    }

    /// The server this client asks.
    #[must_use]
    pub fn server(&self) -> &Address {
        &self.server
    }

    /// All totals.
    pub fn snapshot(&self) -> Result<Snapshot, ApiRequestError> {
        self.document("GET", routes::SNAPSHOT, &self.chosen_devices())
    }

    /// What is wrong, what matters most first.
    pub fn problems(&self) -> Result<Problems, ApiRequestError> {
        self.document("GET", routes::PROBLEMS, &self.chosen_devices())
    }

    fn chosen_devices(&self) -> Vec<(&'static str, &String)> {
        let device = self.device.iter();
        device.map(|name| ("device", name)).collect()
    }

    /// A page of live rows of a kind: the first, or the one a cursor points to.
    ///
    /// Without a limit the server chooses how many rows a page has.
    pub fn page<R: Row>(
        &self,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<R>, ApiRequestError> {
        self.page_where(&BufferQuery {
            cursor: cursor.map(str::to_owned),
            limit,
            ..BufferQuery::default()
        })
    }

    /// One device, by any of its names.
    pub fn device(&self, name: &str) -> Result<DeviceDetail, ApiRequestError> {
        self.document("GET", &of_device(routes::DEVICES, name), &())
    }

    /// Every process.
    pub fn processes(&self) -> Result<Processes, ApiRequestError> {
        self.document("GET", routes::PROCESSES, &())
    }

    /// A page of the live buffers that a query asks for.
    pub fn buffers_where(&self, query: &BufferQuery) -> Result<BufferPage, ApiRequestError> {
        self.page_where(query)
    }

    /// The live buffers that a query asks for, put together by what it says.
    pub fn buffer_groups(&self, query: &BufferQuery) -> Result<BufferGroups, ApiRequestError> {
        self.document("GET", routes::BUFFER_GROUPS, query)
    }

    /// The last failures, each explained, the newest first.
    pub fn failures(&self, count: u32) -> Result<Failures, ApiRequestError> {
        self.document("GET", routes::FAILURES, &[("count", count)])
    }

    /// What grows from mark to mark, and what was held at the end.
    pub fn leaks(&self) -> Result<Leaks, ApiRequestError> {
        self.document("GET", routes::LEAKS, &())
    }

    /// Totals over time, so many seconds back.
    pub fn history(&self, seconds: u32) -> Result<History, ApiRequestError> {
        self.document("GET", routes::HISTORY, &[("seconds", seconds)])
    }

    /// The document of a path and query as the server wrote it, at the instant that this client asks about.
    pub fn text(&self, target: &str) -> Result<Vec<u8>, ApiRequestError> {
        self.exchange("GET", &self.of_instant(target))
    }

    /// Which instants can be looked back at.
    pub fn recording(&self) -> Result<Recording, ApiRequestError> {
        self.timeless(routes::RECORDING, &())
    }

    /// A class of a device over time, named as for [`device`](Self::device).
    pub fn timeline(
        &self,
        name: &str,
        class: MemoryClass,
        by: GroupBy,
        window: (Option<Timestamp>, Option<Timestamp>),
        points: Option<u32>,
    ) -> Result<Timeline, ApiRequestError> {
        let (from, to) = (("from", window.0), ("to", window.1));
        let query = (("class", class), ("by", by), from, to, ("points", points));
        self.timeless(&of_device(routes::TIMELINE, name), &query)
    }

    /// Where the buffers of a class of a device lay, and how long.
    pub fn allocations(
        &self,
        name: &str,
        class: MemoryClass,
        window: (Option<Timestamp>, Option<Timestamp>),
        limit: Option<u32>,
    ) -> Result<Allocations, ApiRequestError> {
        let (from, to) = (("from", window.0), ("to", window.1));
        let query = (("class", class), from, to, ("limit", limit));
        self.timeless(&of_device(routes::ALLOCATIONS, name), &query)
    }

    /// L1 of a device, named as for [`device`](Self::device), and of one core of it: x and y.
    pub fn l1_map(&self, name: &str, core: Option<(u16, u16)>) -> Result<L1Map, ApiRequestError> {
        let (x, y) = core.unzip();
        self.document(
            "GET",
            &of_device(routes::L1_MAP, name),
            &[("x", x), ("y", y)],
        )
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
        let query = (("class", class), ("cells", cells));
        self.document("GET", &of_device(routes::BLOCKS, name), &query)
    }

    /// A peak of a device, named as for [`device`](Self::device), or of a process on it, and what
    /// was live then.
    pub fn peak(
        &self,
        name: &str,
        of: PeakOf,
        pid: Option<u32>,
        instance: Option<&str>,
    ) -> Result<PeakContents, ApiRequestError> {
        let query = (("of", of), ("pid", pid), ("instance", instance));
        self.document("GET", &of_device(routes::PEAK, name), &query)
    }

    /// What a process left behind.
    pub fn left(
        &self,
        pid: Option<u32>,
        instance: Option<&str>,
    ) -> Result<LeftBehind, ApiRequestError> {
        let query = (("pid", pid), ("instance", instance));
        self.document("GET", routes::LEFT, &query)
    }

    /// Sets a mark, from which peaks are counted as well.
    pub fn mark(&self, name: &str) -> Result<Marked, ApiRequestError> {
        self.document("POST", routes::MARK, &[("name", name)])
    }

    /// Follows what happens, from now on or from behind an id.
    pub fn events(&self, after: Option<u64>) -> Result<EventReader, ApiRequestError> {
        self.follow(&[("after", after)])
    }

    /// Follows what happens, beginning with the newest `count` events.
    pub fn newest_events(&self, count: u32) -> Result<EventReader, ApiRequestError> {
        self.follow(&[("last", count)])
    }

    fn follow(&self, query: &impl Serialize) -> Result<EventReader, ApiRequestError> {
        let target = with_query(routes::EVENTS, query);
        let body = self.open("GET", &target, u64::MAX)?;
        Ok(EventReader::new(self.server.clone(), body))
    }

    /// Has the server record what happens from now on, and reads that.
    pub fn record(&self, request: &RecordRequest) -> Result<RecordingReader, ApiRequestError> {
        let target = with_query(routes::RECORD, request);
        let body = self.open("GET", &target, u64::MAX)?;
        Ok(RecordingReader::new(self.server.clone(), body))
    }

    /// The last `count` events, of one process or of all.
    pub fn last(&self, count: u32, pid: Option<u32>) -> Result<LastEvents, ApiRequestError> {
        self.document("GET", routes::LAST, &(("count", count), ("pid", pid)))
    }

    /// Makes the server drop everything a process holds.
    pub fn forget(&self, pid: u32) -> Result<Forgotten, ApiRequestError> {
        self.document("POST", routes::FORGET, &[("pid", pid)])
    }

    /// Whether the server answers at all.
    pub fn healthy(&self) -> Result<(), ApiRequestError> {
        self.exchange("GET", routes::HEALTH).map(drop)
    }

    /// Whether the server has applied all that it was sent.
    pub fn ready(&self) -> Result<(), ApiRequestError> {
        self.exchange("GET", routes::READY).map(drop)
    }
}
