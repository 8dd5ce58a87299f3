//! What the server says, brought by threads of its own.
//!
//! One thread asks for documents in turn; one listens to events while a view shows them. Every figure
//! comes from the document that it belongs to, so all figures of a document are of one moment. The app
//! says what it wants and takes what has come; it never waits for the server. A server that is
//! gone is asked again every second.

mod orders;
mod poller;
mod questions;
mod stream;

pub(crate) use questions::{ask_all, ask_totals};
pub(crate) use stream::listen_briefly;

use crate::app;
use crate::data::Update;
use crate::wants::{Request, Wants};
use orders::Orders;
use poller::Poller;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;
use stream::Listener;
use ttmem_api::ApiClient;

/// Updates that may wait for the app; the threads wait while it takes none.
const QUEUE: usize = 64;

/// Requests that may wait for a server that does not answer.
const REQUESTS: usize = 8;

/// How long a server that does not answer is left alone.
const RETRY: Duration = Duration::from_secs(1);

/// The threads that bring what the server says; they end when it is dropped.
#[derive(Debug)]
pub(crate) struct Feed {
    orders: Arc<Orders>,
    updates: Receiver<Update>,
}

/// A thread of the feed is gone, which only a fault in it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FeedEnded;

impl Feed {
    /// Starts to ask a server.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn start(client: ApiClient, interval: Duration) -> io::Result<Self> {
        let orders = Arc::new(Orders::new(interval));
        let (sender, updates) = sync_channel(QUEUE);
        let poller = Poller::new(client.clone(), Arc::clone(&orders), sender.clone());
        let listener = Listener::new(client, Arc::clone(&orders), sender);
        let feed = Self { orders, updates };
        feed.spawn("ttmem-poll", move || poller.run())?;
        feed.spawn("ttmem-listen", move || listener.run())?;
        Ok(feed)
    }

    /// Starts a thread; not waited for at the end, because it may be waiting for a server that hangs.
    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let orders = Arc::clone(&self.orders);
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(move || {
            // Nothing of it is used afterwards, so nothing can be seen half done.
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                orders.fail();
            }
        })?;
        Ok(())
    }

    /// What has come, if anything has.
    ///
    /// # Errors
    /// When a thread has failed: what is on the screen would never change again.
    pub(crate) fn next(&self) -> Result<Option<Update>, FeedEnded> {
        if self.orders.has_failed() {
            return Err(FeedEnded);
        }
        match self.updates.try_recv() {
            Ok(update) => Ok(Some(update)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(FeedEnded),
        }
    }

    /// Says what is wanted from now on; something new is asked for at once.
    pub(crate) fn want(&self, wants: Wants) {
        self.orders.want(wants);
    }
}

impl app::Orders for Feed {
    fn refresh(&self) {
        self.orders.change(|order| order.refreshed += 1);
    }

    fn set_interval(&self, interval: Duration) {
        self.orders.change(|order| order.interval = interval);
    }

    fn pause(&self, paused: bool) {
        self.orders.change(|order| order.paused = paused);
    }

    fn request(&self, request: Request) {
        self.orders.change(|order| {
            if order.requests.len() < REQUESTS {
                order.requests.push(request);
            }
        });
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.orders.change(|order| order.ended = true);
    }
}
