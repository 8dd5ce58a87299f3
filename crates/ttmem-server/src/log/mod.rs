//! The server's log: how its figures look, and where its text goes.
//!
//! The ledger thread and the sessions format lines and hand them over as owned text; threads of
//! this module write them. Nothing here decides what is logged, and nothing here may ever hold up
//! or end the server: a reader that stalls, a pipe that breaks or a disk that fills costs log
//! lines, which are counted and reported, and nothing else.

mod lane;
mod number;
mod output;
mod rotate;
mod sink;

pub use number::{CppDouble, cpp_double};
pub use rotate::{DEFAULT_MAX_BYTES, DEFAULT_MAX_FILES, LogFileOptions, OpenLogFileError};
pub use sink::{FLUSH_WAIT, Log, LogHandle, LogTarget, StartLogError};
