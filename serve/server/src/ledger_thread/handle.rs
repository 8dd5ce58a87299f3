//! How the other threads reach the ledger thread.

use super::command::{Command, ForgetError, ProcessNumber};
use super::latency::LatencyCounts;
use super::published::{Published, Publisher};
use super::queue::{Commands, Feedback, Lane, Pushed, Queue, queue};
use crate::recorder::Tap;
use crossbeam_channel::{Sender, bounded};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::oneshot;
use ttmem_ledger::{Released, View};

#[derive(Clone, Debug)]
pub(crate) struct LedgerHandle {
    commands: Commands,
    published: Published,
}

impl LedgerHandle {
    /// A handle, and the thread's ends: what it is to do, and its way to publish views.
    ///
    /// `wake` is written to when there is [feedback](Self::take_feedback).
    pub(crate) fn new(wake: Arc<OwnedFd>) -> (Self, Queue, Publisher) {
        let published = Published::default();
        let publisher = Publisher::new(published.clone());
        let (commands, queue) = queue(wake);
        let handle = Self {
            commands,
            published,
        };
        (handle, queue, publisher)
    }

    pub(crate) fn send(&self, lane: Lane, command: Command) -> Pushed {
        self.commands.push(lane, command)
    }

    /// Nothing more comes from a process.
    pub(crate) fn retire(&self, process: ProcessNumber) {
        self.commands.retire(Lane::Process(process));
    }

    /// How many bytes of commands a lane has room for.
    pub(crate) fn room(&self, lane: Lane) -> usize {
        self.commands.room(lane)
    }

    /// How long commands of processes waited so far.
    pub(crate) fn latency(&self) -> LatencyCounts {
        self.commands.latency()
    }

    pub(crate) fn take_feedback(&self) -> Feedback {
        self.commands.take_feedback()
    }

    /// Ends the thread, after a bounded number of work units.
    pub(crate) fn stop(&self) {
        self.commands.stop();
    }

    /// Sends a command and waits for its answer; `None` when the thread has ended.
    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = bounded(1);
        // What is full here is what readers asked, and each of them waits for its answer.
        let _full = self.commands.push(Lane::Control, command(reply));
        answer.recv().ok()
    }

    /// Everything that was acknowledged so far; `None` when the thread has ended.
    pub(crate) async fn view(&self) -> Option<Arc<View>> {
        self.request_view().await.ok()
    }

    /// The same for a thread of its own.
    #[must_use]
    pub(crate) fn wait_for_view(&self) -> Option<Arc<View>> {
        self.request_view().blocking_recv().ok()
    }

    /// Has the thread look whether something is to be done besides commands.
    pub(crate) fn wake(&self) {
        self.commands.request_view();
    }

    fn request_view(&self) -> oneshot::Receiver<Arc<View>> {
        self.published.request(|| self.commands.request_view())
    }

    /// Waits until all commands so far are done; false when the thread has ended.
    #[must_use]
    pub(crate) fn catch_up(&self) -> bool {
        let (reply, answer) = bounded(1);
        self.commands.push_to_all(reply) && answer.recv().is_ok()
    }

    /// Hands everything from now on to one more who records; the tap is dropped when the thread has ended.
    pub(crate) fn record(&self, tap: Tap) {
        // Few may, and what is full here is what readers asked.
        let _full = self.commands.push(Lane::Control, Command::Record(tap));
    }

    /// Sets a mark; its number. `None` when the thread has ended.
    #[must_use]
    pub(crate) fn mark(&self, uid: u32, name: Arc<str>, time: u64) -> Option<u64> {
        self.ask(|reply| Command::Mark {
            uid,
            name,
            time,
            reply,
        })
    }

    /// Forgets what is known of a pid, on behalf of a user.
    pub(crate) fn forget(
        &self,
        pid: u32,
        uid: u32,
        time: u64,
    ) -> Result<Vec<Released>, ForgetError> {
        let answer = self.ask(|reply| Command::Forget {
            pid,
            uid,
            time,
            reply,
        });
        answer.unwrap_or(Err(ForgetError::Stopping))
    }
}
