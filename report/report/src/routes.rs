//! The paths of the read API, shared by the server's router and the client.

/// Totals per device and per process: [`Snapshot`](crate::Snapshot).
pub const SNAPSHOT: &str = "/api/v1/snapshot";

/// Live buffers, a page at a time: [`BufferPage`](crate::BufferPage).
pub const BUFFERS: &str = "/api/v1/buffers";

/// Live circular buffers, a page at a time: [`CbRow`](crate::CbRow)s.
pub const CBS: &str = "/api/v1/cbs";

/// Live kernels, a page at a time: [`KernelRow`](crate::KernelRow)s.
pub const KERNELS: &str = "/api/v1/kernels";

/// The last events, of all processes or with `pid=N` of one, `count=N` of them:
/// [`LastEvents`](crate::LastEvents).
///
/// The server keeps 256 of every process that lives and of the 64 that departed last.
pub const LAST: &str = "/api/v1/last";

/// POST with `?pid=N`: drops what a process holds, answers [`Forgotten`](crate::Forgotten).
pub const FORGET: &str = "/api/v1/forget";

/// 200 when the server is up; the body says nothing a program should read.
pub const HEALTH: &str = "/healthz";

/// 200 when the server has applied all that clients had sent when it was asked, 503 while it starts
/// or stops.
pub const READY: &str = "/readyz";

/// One device, with `/ID`: its logical id or its unique id in hex: [`DeviceDetail`](crate::DeviceDetail).
pub const DEVICES: &str = "/api/v1/devices";

/// Every process: [`Processes`](crate::Processes).
pub const PROCESSES: &str = "/api/v1/processes";

/// Live buffers summed up, `by=` what they have in common: [`BufferGroups`](crate::BufferGroups).
///
/// Takes the filters of [`BUFFERS`].
pub const BUFFER_GROUPS: &str = "/api/v1/buffers/groups";

/// Live programs, a page at a time: [`ProgramRow`](crate::ProgramRow)s.
pub const PROGRAMS: &str = "/api/v1/programs";

/// What a process left behind, with `pid=N` and `instance=ID`: [`LeftBehind`](crate::LeftBehind).
///
/// Of processes that ended, the last 64 are known.
pub const LEFT: &str = "/api/v1/left";

/// The last failures with their explanations, newest first, `count=N` of them:
/// [`Failures`](crate::Failures).
pub const FAILURES: &str = "/api/v1/failures";

/// What grows from mark to mark, and what was held at the end: [`Leaks`](crate::Leaks).
pub const LEAKS: &str = "/api/v1/leaks";
/// What is wrong.
pub const PROBLEMS: &str = "/api/v1/problems";

/// Totals over time, `seconds=N` back: [`History`](crate::History).
pub const HISTORY: &str = "/api/v1/history";

/// Which instants can be looked back at: [`Recording`](crate::Recording). 404 where nothing is recorded.
///
/// Where something is, every document of one instant takes `at=TIME` and holds of that instant.
pub const RECORDING: &str = "/api/v1/recording";

/// A class of a device over time, with `/ID`, `class=`, `by=`, `from=`, `to=` and `points=`:
/// [`Timeline`](crate::Timeline).
pub const TIMELINE: &str = "/api/v1/timeline";

/// Where the buffers of a class of a device lay and how long, with `/ID`, `class=`, `from=`, `to=` and `limit=`:
/// [`Allocations`](crate::Allocations).
pub const ALLOCATIONS: &str = "/api/v1/allocations";

/// L1 of one device, with `/ID`, and with `x=` and `y=` one core of it: [`L1Map`](crate::L1Map).
pub const L1_MAP: &str = "/api/v1/l1map";

/// The banks of one device, with `/ID`, `class=` and `cells=`: [`BlockMap`](crate::BlockMap).
pub const BLOCKS: &str = "/api/v1/blocks";

/// A peak of one device, with `/ID`, `of=`, `pid=` and `instance=`, and what was live then:
/// [`PeakContents`](crate::PeakContents).
pub const PEAK: &str = "/api/v1/peak";

/// A stream of [`StreamMessage`](crate::StreamMessage)s, with `after=ID` from behind an event on.
pub const EVENTS: &str = "/api/v1/events";

/// A recording of what happens from now on, with `pid=N` or `device=ID` of a part of it, `redact=true` without
/// names, and `max_bytes=N`. It goes on until the reader ends its side of the connection.
pub const RECORD: &str = "/api/v1/record";

/// POST with `?name=TEXT`: sets a mark, answers [`Marked`](crate::Marked).
pub const MARK: &str = "/api/v1/mark";

/// What a monitoring system keeps over time, as text: see `docs/metrics.md`.
pub const METRICS: &str = "/metrics";

/// The description of all this for programs, in OpenAPI 3.1.
pub const OPENAPI: &str = "/openapi.json";
