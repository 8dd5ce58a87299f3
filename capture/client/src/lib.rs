//! The client of ttmem: what runs inside the workload.
//!
//! [`Tracker`] records events. An event is 64 bytes, written into the calling
//! thread's ring in shared memory; a thread of our own, the pump, merges the
//! rings, keeps what the process holds, and ships everything to the server. If
//! there is none, or it is slow, stopped or replaced, the workload does not
//! notice; when one is there, its view of this process becomes exact.
//!
//! The client must not harm its process: any failure turns tracking off and lets the
//! program run; there is no signal handler, no output but one line on stderr
//! when tracking cannot be, and nothing at all before the first call.

mod cgroup;
mod client;
mod clock;
mod config;
mod forward;
mod futex;
mod host;
mod labels;
mod local;
mod own_account;
mod pump;
mod room;
mod start;
mod tracker;
mod trust;

pub use clock::Instant;
pub use config::{ClockChoice, Config, environment_warnings};
pub use host::complain;
pub use own_account::{AskError, Question};
pub use tracker::{FlushError, Statistics, Tracker};
pub use trust::is_trusted;
