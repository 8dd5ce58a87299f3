//! Ctrl-C and its like, as news on a channel.
//!
//! A command that shows a screen of its own or has processes of its own must tidy up before it
//! ends. Signals are blocked in every thread but one, which waits for them.

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use std::sync::mpsc::SyncSender;

/// What a command that runs for a while waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// What it started has ended.
    Ended,
    /// The user, or the system, wants it to end.
    Interrupted,
}

/// Sends news of the first INT, TERM or HUP; the second one ends the process the usual way.
///
/// To be called before any thread is started: threads inherit what is blocked.
pub(crate) fn watch(news: SyncSender<News>) -> Result<()> {
    let signals = signals();
    signals.thread_block().context("cannot block signals")?;
    std::thread::Builder::new()
        .name("ttmem-signals".to_owned())
        .spawn(move || {
            if signals.wait().is_err() {
                return;
            }
            // Unblocked here and nowhere else: this thread takes the next one, and dies of it.
            let _obeys = signals.thread_unblock();
            // Full means that there are news already, and nobody left that the end has come.
            let _told = news.try_send(News::Interrupted);
            loop {
                std::thread::park();
            }
        })
        .context("cannot start a thread for signals")?;
    Ok(())
}

/// Lets the signals through that a parent blocked: a mask is inherited by programs, too.
pub(crate) fn obey() -> Result<()> {
    signals().thread_unblock().context("cannot unblock signals")
}

fn signals() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .collect()
}
