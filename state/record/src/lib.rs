//! Recordings: the changes of a ledger in a file, and the ledger at any instant of them.
//!
//! The ledger is pure: the same [`Change`](ttmem_ledger::Change)s in the same order give the same state. So a recording is
//! what the ledger was given, and replay is the same ledger, given it again. A [`Writer`] is handed the
//! changes as they are applied; it packs them into blocks, and now and then the whole state of its own
//! ledger, so that a [`Player`] gets to any instant from a state that is near. A [`Recording`] finds
//! the blocks, by the index of a file that was finished and by their headers in one that was not.
//!
//! No clock and no file: what is written and read is handed in. Every byte that is read may be
//! anything.

mod blocks;
mod bytes;
mod coding;
mod columns;
mod format;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod growth;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod hostile;
mod index;
mod notes;
mod player;
mod recording;
mod redaction;
mod selection;
mod writer;

pub use format::{OLDEST_VERSION, VERSION, is_recording};
pub use notes::{FailureNote, GapNote, MarkNote, PeakNote, Summary};
pub use player::{Follow, Played, Player, Until};
pub use recording::{Contents, Damage, OpenError, ReadError, Recording, StatePlace};
pub use ttmem_account::budget::{Budget, Charge, OverBudget, Turn, TurnEnd};
pub use writer::{Finished, WriteError, Writer, WriterOptions};
