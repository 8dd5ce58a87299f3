//! What the server says, brought by threads of its own.
//!
//! One thread asks for documents in turn; one listens to events while a view shows them. Every figure
//! comes from the document that it belongs to, so all figures of a document are of one moment. The app
//! sets what is fetched and takes what has come; it never waits for the server. A server that is
//! gone is asked again every second.

mod document;
mod poller;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use document::{Document, fetch_all};
pub(crate) use settings::Settings;
pub(crate) use stream::fetch_last_events;

use crate::data::Update;
use poller::Poller;
use settings::SharedSettings;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;
use stream::Listener;
use ttmem_reader::ApiClient;

/// Updates that may wait for the app; the threads wait while it takes none.
const QUEUE: usize = 64;

/// How long a server that does not answer is left alone.
const RETRY: Duration = Duration::from_secs(1);

/// The threads that bring what the server says; they end when it is dropped.
#[derive(Debug)]
pub(crate) struct Fetcher {
    settings: Arc<SharedSettings>,
    updates: Receiver<Update>,
}

/// A thread is gone, which only a fault in it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FetchEnded;

impl Fetcher {
    /// Starts to ask a server.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn start(client: ApiClient, interval: Duration) -> io::Result<Self> {
        let settings = Arc::new(SharedSettings::new(interval));
        let (sender, updates) = sync_channel(QUEUE);
        let poller = Poller::new(client.clone(), Arc::clone(&settings), sender.clone());
        let listener = Listener::new(client, Arc::clone(&settings), sender);
        let fetcher = Self { settings, updates };
        fetcher.spawn("ttmem-poll", move || poller.run())?;
        fetcher.spawn("ttmem-listen", move || listener.run())?;
        Ok(fetcher)
    }

    /// Starts a thread; not waited for at the end, because it may be waiting for a server that hangs.
    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let settings = Arc::clone(&self.settings);
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(move || {
            // Nothing of it is used afterwards, so nothing can be seen half done.
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                settings.end(true);
            }
        })?;
        Ok(())
    }

    /// What has come, if anything has.
    ///
    /// # Errors
    /// When a thread has failed: what is on the screen would never change again.
    pub(crate) fn next(&self) -> Result<Option<Update>, FetchEnded> {
        if self.settings.has_failed() {
            return Err(FetchEnded);
        }
        match self.updates.try_recv() {
            Ok(update) => Ok(Some(update)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(FetchEnded),
        }
    }

    /// Says what is wanted from now on; something new is asked for at once.
    pub(crate) fn set(&self, settings: Settings) {
        self.settings.set(settings);
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.settings.end(false);
    }
}
