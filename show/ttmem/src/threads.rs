//! Threads of this program: each has a name, and may not be there to be had.

use anyhow::{Context, Result};
use std::thread::{Builder, JoinHandle};

/// Starts a thread; `purpose` completes "cannot start a thread for".
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    purpose: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let started = Builder::new().name(name.to_owned()).spawn(work);
    started.with_context(|| format!("cannot start a thread for {purpose}"))
}
