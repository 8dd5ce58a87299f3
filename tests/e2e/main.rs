//! End to end: the real program, real sockets, real processes being killed.
//!
//! Every test starts servers of its own on sockets in a folder of its own and
//! talks to them as users and workloads do. No test asserts a maximum time: waits
//! have a generous watchdog, and what is asserted is what was reached.

mod api_load;
mod attach;
mod bundle;
mod check;
mod cli;
mod clients;
mod deaths;
mod defects;
mod demo;
#[path = "../dispositions.rs"]
mod dispositions;
mod doctor;
mod driver_errors;
mod explain;
mod faults;
mod fleet;
mod flight_recorder;
mod hostile;
mod hostile_recordings;
mod hostile_server;
mod http;
mod kept_files;
mod load;
mod logging;
mod machine;
mod many_clients;
mod metrics;
mod old_protocol;
mod old_vocabulary;
mod privacy;
mod python;
mod questions;
mod readme;
mod recipes;
mod record;
mod recording;
mod remedies;
mod replay;
mod run;
mod run_signals;
mod run_top;
mod screens;
mod service;
mod shares;
mod signals;
mod sockets;
mod support;
mod surroundings;
mod top;
mod top_recorded;
mod wait;

/// The loader calls it before any test runs, whichever program runs the tests.
#[expect(
    unsafe_code,
    reason = "only the loader reads this section, and it calls functions of this type"
)]
#[used]
#[unsafe(link_section = ".init_array")]
static DISPOSITIONS: extern "C" fn() = {
    extern "C" fn restore() {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
        dispositions::restore(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]);
    }
    restore
};

/// Not a test of its own: the body of the workload processes that tests start and kill.
#[test]
fn workload_process() {
    support::workload::run_if_asked();
    support::tracked::run_if_asked();
    support::planted::run_if_asked();
    support::reading::run_if_asked();
}
