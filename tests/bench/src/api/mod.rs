//! `cargo xtask bench api`: the read API while a client sends a hundred thousand events per second.
//!
//! A server process, a workload process at a steady rate, and readers in this process, in three
//! parts: one reader that follows every event; a crowd of readers half of which stall; and hostile
//! requests among good ones. In each, every event is recorded, applied and accounted for to the
//! byte, or the measurement fails; so it does when the server panics, or answers with an error of
//! its own. Times and sizes are printed, not judged.

mod crowd;
mod follower;
mod hostile;
mod request;
mod stream;

use super::client::{compare, read_account, start_workload};
use super::harness::{OwnServer, Programs};
use anyhow::{Context, Result, ensure};
use follower::Follower;
use serde_json::{Value, json};
use std::process::Child;
use std::time::{Duration, Instant};
use ttmem_reader::{ApiClient, ApiRequestError};
use ttmem_report::Snapshot;

/// Long enough that only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Scale {
    rate: u64,
    /// Seconds of the first part, and of the one with hostile requests.
    seconds: u64,
    /// Seconds of the crowd: those who stall for good are dropped before.
    crowd_seconds: u64,
    /// With the follower, as many as the server has streams.
    crowd: usize,
    requests: usize,
}

const FULL: Scale = Scale {
    rate: 100_000,
    seconds: 20,
    crowd_seconds: 70,
    crowd: 7,
    requests: 10_000,
};

/// Enough to see that it runs: some seconds.
const QUICK: Scale = Scale {
    rate: 50_000,
    seconds: 2,
    crowd_seconds: 4,
    crowd: 7,
    requests: 1000,
};

/// Measures everything; with `quick`, a tenth of it.
pub(super) fn measure(programs: &Programs, quick: bool) -> Result<Value> {
    let scale = if quick { QUICK } else { FULL };
    Ok(json!({
        "rate": scale.rate,
        "targets": { "received_millis_p99": 50 },
        "follower": followed(programs, &scale)?,
        "crowd": crowd::measure(programs, &scale)?,
        "hostile": hostile::measure(programs, &scale)?,
    }))
}

/// One reader that gets every event.
fn followed(programs: &Programs, scale: &Scale) -> Result<Value> {
    let server = OwnServer::start(programs, &["--quiet"])?;
    let mut load = Load::start(programs, &server, scale.rate, scale.seconds)?;
    let account = load.account()?;
    load.end(&server, &account)
}

/// A workload at a steady rate, and one reader that follows it event by event.
struct Load {
    child: Child,
    follower: Follower,
    begun: Instant,
    before_bytes: u64,
    most_bytes: u64,
}

impl Load {
    /// Starts both; the reader is there before the first event.
    fn start(programs: &Programs, server: &OwnServer, rate: u64, seconds: u64) -> Result<Self> {
        let before_bytes = server.memory_bytes()?;
        let follower = Follower::start(&server.socket)?;
        let (rate, events) = (rate.to_string(), (rate * seconds).to_string());
        let words = ["--rate", &rate, "--events", &events, "--hold"];
        Ok(Self {
            child: start_workload(programs, server, &words)?,
            follower,
            begun: Instant::now(),
            before_bytes,
            most_bytes: before_bytes,
        })
    }

    /// How long it has been going.
    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Looks how much memory the server has.
    fn look_at_memory(&mut self, server: &OwnServer) -> Result<()> {
        self.most_bytes = self.most_bytes.max(server.memory_bytes()?);
        Ok(())
    }

    /// Waits for the workload's account: all is applied that it recorded.
    fn account(&mut self) -> Result<Value> {
        let stdout = self.child.stdout.as_mut().context("its output is piped")?;
        read_account(stdout)
    }

    /// Compares all accounts, and says what was found.
    fn end(&mut self, server: &OwnServer, account: &Value) -> Result<Value> {
        let figure = |name: &str| account[name].as_f64().unwrap_or(f64::NAN);
        let recorded = account["events"].as_u64().context("no count of events")?;
        let snapshot = patiently(|| ApiClient::new(&server.socket).snapshot())?;
        let applied = snapshot.server.events_applied;
        ensure!(
            applied == recorded,
            "{recorded} events recorded, {applied} applied: {account}"
        );
        compare(account, &snapshot)?;
        self.look_at_memory(server)?;
        let followed = self.follower.end(applied)?;
        let complaints = server.complaints();
        ensure!(
            !complaints.contains("panicked"),
            "the server panicked: {complaints}"
        );
        drop(self.child.stdin.take());
        self.child.wait().context("cannot reap the workload")?;
        Ok(json!({
            "events_recorded": recorded,
            "events_applied": applied,
            "events_per_second": figure("events") / figure("recording_seconds"),
            "confirmed_after_last_event_millis":
                (figure("flushed_after_seconds") - figure("recording_seconds")) * 1e3,
            "totals": "equal",
            "server_cores": server.cpu_seconds()? / self.begun.elapsed().as_secs_f64(),
            "server_memory_bytes": {
                "before": self.before_bytes,
                "most": self.most_bytes,
                "after": server.memory_bytes()?,
            },
            "raw_reader": followed,
        }))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Asks again while the server says that it is busy.
fn patiently(ask: impl Fn() -> Result<Snapshot, ApiRequestError>) -> Result<Snapshot> {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(ApiRequestError::Status { code: 503, .. }) if begun.elapsed() < WATCHDOG => {
                std::thread::sleep(Duration::from_millis(20));
            }
            answer => return answer.context("the server does not answer"),
        }
    }
}
