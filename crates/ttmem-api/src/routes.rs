//! The paths of the read API, shared by the server's router and the client.

/// Totals per device and per process: [`Snapshot`](crate::Snapshot).
pub const SNAPSHOT: &str = "/api/v1/snapshot";

/// Live buffers, a page at a time: [`BufferPage`](crate::BufferPage).
pub const BUFFERS: &str = "/api/v1/buffers";

/// Live circular buffers, a page at a time: [`CbPage`](crate::CbPage).
pub const CBS: &str = "/api/v1/cbs";

/// Live kernels, a page at a time: [`KernelPage`](crate::KernelPage).
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
