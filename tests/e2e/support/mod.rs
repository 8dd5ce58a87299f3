//! Servers, clients and workload processes for the tests.

pub(crate) mod c_program;
pub(crate) mod client;
pub(crate) mod flight;
pub(crate) mod hogs;
pub(crate) mod hostile_traffic;
pub(crate) mod old_client;
pub(crate) mod place;
pub(crate) mod planted;
pub(crate) mod random;
pub(crate) mod reading;
pub(crate) mod server;
pub(crate) mod tmux;
pub(crate) mod tracked;
pub(crate) mod workload;

use std::time::{Duration, Instant};

/// Nothing here should take this long; it only ends what hangs.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(90);

/// Whether a test is for `cargo xtask test` alone, because of what it costs; says so.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
pub(crate) fn is_left_to_the_whole_run(why: &str) -> bool {
    let is_left = !crate::python::found::is_whole();
    if is_left {
        println!("skipped: {why}; cargo xtask test runs it");
    }
    is_left
}

/// Waits until something holds; fails with its name if it never does.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WATCHDOG, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
