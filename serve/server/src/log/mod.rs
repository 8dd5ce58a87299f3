//! The server's log: what is in it, how that looks, and where the text goes.
//!
//! The ledger thread and the sessions hand over [`LogEntry`]s or batches of the journal, [`Note`]s
//! and views; the threads of the [`Log`], one for each output, make text of them and write it. Nothing here
//! decides what happens, and nothing here may ever hold up or end the server: a reader that
//! stalls, a pipe that breaks or a disk that fills costs log lines, which are counted and
//! reported, and nothing else.

mod display;
mod dumps;
mod entry;
mod json;
mod note;
mod number;
mod output;
mod plain;
mod queue;
mod threads;
mod writer;

pub(crate) use display::OrUnknown;
pub use dumps::DumpKind;
pub use entry::{FailedNote, LogEntry, Note, NotedDevice};
pub use output::{DEFAULT_MAX_BYTES, DEFAULT_MAX_FILES, LogFileOptions, OpenLogFileError};
pub use queue::LogHandle;
pub use threads::{Log, LogFormat, LogOptions, LogTarget, StartLogError};
pub(crate) use writer::with_causes;
