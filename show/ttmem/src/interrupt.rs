//! Ctrl-C and its like, as messages on a channel.
//!
//! A command that shows a screen of its own or has processes of its own must tidy up before it
//! ends. Signals are blocked in every thread but one, which waits for them.

use crate::threads;
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use std::sync::mpsc::SyncSender;

/// Why a command that runs for a while stops waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    Ended,
    /// The user, or the system, wants it to end.
    Interrupted,
}

/// Reports the first INT, TERM or HUP; the second one ends the process the usual way.
///
/// To be called before any thread is started: threads inherit what is blocked.
pub(crate) fn watch(stop: SyncSender<StopReason>) -> Result<()> {
    let signals = signals();
    signals.thread_block().context("cannot block signals")?;
    threads::spawn("ttmem-signals", "signals", move || {
        if signals.wait().is_err() {
            return;
        }
        // Unblocked here and nowhere else: this thread takes the next one, and dies of it.
        let _obeys = signals.thread_unblock();
        // Full: the command is stopping already. Disconnected: it has ended.
        let _stopping = stop.try_send(StopReason::Interrupted);
        loop {
            std::thread::park();
        }
    })?;
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
