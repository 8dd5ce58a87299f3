//! One client of a load: a process that plays a scenario again and again until its time is over.
//!
//! Ends the last play in order, waits until the server has confirmed everything, prints its
//! account as one line of JSON and stays until its standard input ends, so that the server can be
//! asked about it.

use super::clients::ClientAccount;
use super::meter::{Ending, Meter};
use crate::interrupt;
use crate::observer::{FLUSH_TIMEOUT, ObservedTracker};
use crate::output::PrintError;
use crate::scenarios::{self, ChosenScenario};
use crate::threads;
use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use ttmem_client::{Config, Tracker};
use ttmem_event::Source;
use ttmem_model::jit::KernelCache;
use ttmem_model::scenario::{Pace, Play, StepDone, play_again};

/// How long a client that has to end early waits for the server.
const EARLY_FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// What one client does.
#[derive(Debug, Args)]
pub(crate) struct LoadClientOptions {
    /// Its number, for its name.
    #[arg(long)]
    pub(crate) number: u32,
    /// Its events per second; 0 = as fast as it goes.
    #[arg(long)]
    pub(crate) rate: u64,
    /// Seconds.
    #[arg(long)]
    pub(crate) duration: u32,
    /// What it plays.
    #[arg(long, value_parser = scenarios::parse)]
    pub(crate) scenario: ChosenScenario,
    /// Where its random choices begin.
    #[arg(long)]
    pub(crate) seed: u64,
    /// Who started it.
    #[arg(long)]
    pub(crate) parent: u32,
}

pub(crate) fn run(options: &LoadClientOptions, socket: Option<PathBuf>) -> Result<()> {
    interrupt::obey()?;
    end_with_parent(options.parent)?;
    let tracker = Tracker::start(Config {
        socket,
        source: Source::Model,
        name: Some(format!("load {}", options.number)),
        // Nothing may be lost, however far the server is behind.
        full_ring_wait: FLUSH_TIMEOUT,
        ..Config::from_env()
    });
    let begun = Instant::now();
    let ending = Ending {
        deadline: begun + Duration::from_secs(u64::from(options.duration)),
        early: Arc::new(AtomicBool::new(false)),
    };
    let is_early = Arc::clone(&ending.early);
    let input_ends = end_with_input(Arc::clone(&is_early))?;
    let meter = Rc::new(RefCell::new(Meter::new(options.rate, ending.clone())));
    // As on a real machine: what was compiled for one play is there for the next.
    let mut kernels = KernelCache::new();
    let mut stories: u64 = 0;
    let mut until = Until(ending);
    while !until.0.has_come() {
        let asked = Play {
            scenario: options.scenario.scenario(),
            board: None,
            seed: options.seed.wrapping_add(stories),
        };
        let hooks = ObservedTracker::new(tracker, Rc::clone(&meter));
        play_again(&asked, Box::new(hooks), &mut until, &mut kernels)
            .context("the scenario did not go as it is written")?;
        stories += 1;
    }
    let recording = begun.elapsed();
    ensure!(tracker.is_enabled(), "tracking is off");
    // Whoever ends it early does not wait for a server that may be gone.
    let patience = match is_early.load(Ordering::Relaxed) {
        true => EARLY_FLUSH_TIMEOUT,
        false => FLUSH_TIMEOUT,
    };
    let flushed = tracker.flush(patience).is_ok();
    let statistics = tracker.statistics();
    let account = ClientAccount {
        pid: std::process::id(),
        stories,
        events: meter.borrow().events,
        flushed,
        recording_seconds: recording.as_secs_f64(),
        lost_events: statistics.lost_events,
        elided_events: statistics.elided_events,
        cpu_seconds: cpu_time().as_secs_f64(),
        pump_cpu_seconds: statistics.pump_cpu().as_secs_f64(),
    };
    let account = serde_json::to_string(&account)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{account}")
        .and_then(|()| stdout.flush())
        .map_err(PrintError)?;
    input_ends
        .join()
        .map_err(|_panic| anyhow!("the thread that waits for the end failed"))
}

/// Plays on until the end.
struct Until(Ending);

impl Pace for Until {
    fn after(&mut self, _step: &StepDone<'_>) -> ControlFlow<()> {
        if self.0.has_come() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Has the kernel end this process with the one that started it, whose server may be gone as well: nobody is there to
/// confirm or to read anything.
fn end_with_parent(parent: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot follow the parent")?;
    // It may have been gone before.
    let now = getppid().map_or(0, |pid| pid.as_raw_nonzero().get().cast_unsigned());
    ensure!(now == parent, "whoever started this client is gone");
    Ok(())
}

/// Sets the flag when standard input ends: whoever started this client is done with it.
fn end_with_input(ended: Arc<AtomicBool>) -> Result<std::thread::JoinHandle<()>> {
    threads::spawn("ttmem-input", "the input", move || {
        let mut ignored = [0; 64];
        // An input that cannot be read is one that has ended.
        while std::io::stdin()
            .read(&mut ignored)
            .is_ok_and(|count| count > 0)
        {}
        ended.store(true, Ordering::Relaxed);
    })
}

/// Processor time of all threads of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
