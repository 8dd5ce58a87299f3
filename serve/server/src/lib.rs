//! The server: sessions, the ledger thread, the event log, the read API.
//!
//! [`Server::start`] binds the sockets and starts five threads: one talks to
//! clients and decodes, one owns the ledger, one formats the log, one answers
//! readers, one keeps the history; one more looks at the machine, if it is to, and one records, if it is to. Commands flow from the first to the second; nothing flows back but
//! answers. See `ARCHITECTURE.md` for the picture.

mod clock;
mod freed_memory;
mod hardware;
mod history;
mod in_turns;
mod ingest;
mod journal;
mod kept_folder;
mod ledger_thread;
mod listeners;
pub mod log;
mod machine;
mod peer;
pub mod read;
mod recorded;
mod recorder;
mod replay;
mod server;
pub mod socket;
mod stream;

pub use listeners::ListenError;
pub use machine::describe_machine;
pub use read::{HttpConfig, ReportPage, missing_page};
pub use recorder::{OpenRecordingError, RecordConfig, RecordFolder, RecordTarget, open_recording};
pub use replay::{Replay, ReplayConfig, StartReplayError};
pub use server::{LogConfig, Server, ServerConfig, ServerHandle, Signals, StartServerError};
pub use socket::SocketConfig;
pub use ttmem_record::is_recording;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A thread that ends when what it receives from is dropped, and is waited for then.
#[derive(Debug)]
struct OwnedThread<S> {
    sender: Option<S>,
    thread: Option<JoinHandle<()>>,
}

impl<S> OwnedThread<S> {
    fn start(name: &str, sender: S, work: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        Ok(Self {
            sender: Some(sender),
            thread: Some(thread.spawn(work)?),
        })
    }
}

impl<S> Drop for OwnedThread<S> {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed; there is nothing left to save.
            let _ended = thread.join();
        }
    }
}

/// Locks what no panic under its lock can leave half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
