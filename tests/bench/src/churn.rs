//! Processes that come and go for an hour, and a terminal view that watches them: does anything grow?
//!
//! A fixed number of processes record beside each other. Every second some of them end, by
//! themselves or killed, and as many start. Memory and descriptors of the server and of
//! `ttmem top` are read once a minute; once all processes are gone, nothing may be held.

use super::harness::{OwnServer, Programs, memory_bytes};
use super::screen::OnScreen;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use ttmem_reader::ApiClient;
use ttmem_report::Snapshot;

/// The whole of it, and what `quick` does.
const WHOLE: Scale = Scale {
    processes: 1_000,
    lasts: Duration::from_secs(60 * 60),
    sampled_every: Duration::from_secs(60),
};
const QUICK: Scale = Scale {
    processes: 50,
    lasts: Duration::from_secs(30),
    sampled_every: Duration::from_secs(1),
};

/// A process lives for about this many rounds of a second.
const ROUNDS_OF_A_LIFE: usize = 60;

/// Views that the second terminal goes through, one every round.
const VIEWS: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "8"];

/// How long the server may take until the last process that ended holds nothing.
const RELEASE: Duration = Duration::from_secs(60);

/// What the mean of the last third may be above that of the second, for it to be flat.
const GROWTH_PERCENT: f64 = 10.0;

#[derive(Clone, Copy, Debug)]
struct Scale {
    processes: usize,
    lasts: Duration,
    sampled_every: Duration,
}

/// What a process uses at one moment.
#[derive(Clone, Copy, Debug)]
struct Usage {
    memory_bytes: u64,
    descriptors: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: u64,
    server: Usage,
    top: Usage,
    live_processes: u64,
}

pub(super) fn measure(programs: &Programs, quick: bool) -> Result<Value> {
    let scale = if quick { QUICK } else { WHOLE };
    let server = OwnServer::start(programs, &["--quiet"])?;
    let socket = server.socket.display().to_string();
    let still = OnScreen::start(programs, &["top", "--socket", &socket])?;
    still.wait_for("live")?;
    let mut moving = OnScreen::start(programs, &["top", "--socket", &socket])?;
    moving.wait_for("live")?;

    let mut crowd = Crowd::new(programs, &server);
    let mut samples = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < scale.lasts {
        let round = Instant::now();
        crowd.replace_some(scale.processes)?;
        let view = VIEWS[crowd.rounds % VIEWS.len()];
        moving.press(view)?;
        if begun.elapsed() >= scale.sampled_every * u32::try_from(samples.len())? {
            let sample = Sample {
                seconds: begun.elapsed().as_secs(),
                server: usage(server.pid())?,
                top: usage(moving.pid())?,
                live_processes: live_processes(&reader(&server).snapshot()?),
            };
            // An hour is long: what was seen is not lost if it breaks off.
            writeln!(std::io::stderr(), "{}", sample.json())?;
            samples.push(sample);
        }
        std::thread::sleep(Duration::from_secs(1).saturating_sub(round.elapsed()));
    }
    let (started, killed) = (crowd.started, crowd.killed);
    drop(crowd);
    let held = held_in_the_end(&server)?;
    let complaints = server.complaints();
    ensure!(complaints.is_empty(), "the server wrote: {complaints}");
    let of = |figure: fn(&Sample) -> u64| growth_percent(samples.iter().map(figure).collect());
    let growth = json!({
        "server_memory": of(|sample| sample.server.memory_bytes),
        "server_descriptors": of(|sample| sample.server.descriptors),
        "top_memory": of(|sample| sample.top.memory_bytes),
        "top_descriptors": of(|sample| sample.top.descriptors),
    });
    let flat = growth.as_object().is_some_and(|figures| {
        let mut figures = figures.values().filter_map(Value::as_f64);
        figures.all(|percent| percent <= GROWTH_PERCENT)
    });
    Ok(json!({
        "seconds": begun.elapsed().as_secs(),
        "processes_at_a_time": scale.processes,
        "processes_started": started,
        "processes_killed": killed,
        "samples": samples.iter().map(Sample::json).collect::<Vec<_>>(),
        "growth_percent_of_last_third_over_second": growth,
        "flat": flat,
        "held_bytes_in_the_end": held,
        "memory_bytes_in_the_end": server.memory_bytes()?,
        "idle_top_memory_bytes": memory_bytes(still.pid())?,
    }))
}

/// Waits longer than a person would: the machine is busy.
fn reader(server: &OwnServer) -> ApiClient {
    ApiClient::new(&server.socket).with_timeout(Duration::from_secs(60))
}

/// The processes that come and go; all end with this value.
#[derive(Debug)]
struct Crowd<'p> {
    programs: &'p Programs,
    server: &'p OwnServer,
    living: Vec<Child>,
    rounds: usize,
    started: u64,
    killed: u64,
}

impl<'p> Crowd<'p> {
    fn new(programs: &'p Programs, server: &'p OwnServer) -> Self {
        Self {
            programs,
            server,
            living: Vec::new(),
            rounds: 0,
            started: 0,
            killed: 0,
        }
    }

    /// Kills some, counts out those that ended by themselves, and starts as many as are missing.
    fn replace_some(&mut self, wanted: usize) -> Result<()> {
        self.rounds += 1;
        // The oldest half of those due is killed; the others end by themselves.
        let due = self.living.len() / (2 * ROUNDS_OF_A_LIFE);
        for mut child in self.living.drain(..due) {
            child.kill().context("cannot kill a workload")?;
            child.wait().context("cannot reap a workload")?;
            self.killed += 1;
        }
        let mut living = Vec::with_capacity(wanted);
        for mut child in self.living.drain(..) {
            if child.try_wait()?.is_none() {
                living.push(child);
            }
        }
        self.living = living;
        // Not all at once: starting is the costly part.
        let missing = (wanted - self.living.len()).min(wanted / 20 + 1);
        for _missing in 0..missing {
            self.started += 1;
            let seed = self.started.to_string();
            // At ten events a second, lives between half and one and a half of the mean.
            let events = (self.started * 7 % 600 + 300).to_string();
            let words = ["--events", &events, "--rate", "10", "--live", "32"];
            let mut command = (self.programs.workload)(&words)?;
            let command = command.args(["--seed", &seed]);
            let child = command
                .env("TTMEM_SOCKET", &self.server.socket)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .context("cannot start a workload")?;
            self.living.push(child);
        }
        Ok(())
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        for child in &mut self.living {
            // Already gone is as good as killed.
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

impl Sample {
    fn json(&self) -> Value {
        json!({
            "seconds": self.seconds,
            "live_processes": self.live_processes,
            "server_memory_bytes": self.server.memory_bytes,
            "server_descriptors": self.server.descriptors,
            "top_memory_bytes": self.top.memory_bytes,
            "top_descriptors": self.top.descriptors,
        })
    }
}

fn usage(pid: u32) -> Result<Usage> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
    Ok(Usage {
        memory_bytes: memory_bytes(pid)?,
        descriptors,
    })
}

fn live_processes(snapshot: &Snapshot) -> u64 {
    let live = snapshot.processes.iter();
    live.filter(|process| process.released.is_none()).count() as u64
}

/// Bytes of all classes on all devices, once the server has noticed every death.
fn held_in_the_end(server: &OwnServer) -> Result<u64> {
    let client = reader(server);
    let begun = Instant::now();
    loop {
        let snapshot = client.snapshot()?;
        let held = snapshot.devices.iter().map(|device| {
            device.dram.charged_bytes + device.l1.charged_bytes + device.cb.registered_bytes
        });
        let held: u64 = held.sum();
        if (held == 0 && live_processes(&snapshot) == 0) || begun.elapsed() > RELEASE {
            return Ok(held);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// By how many percent the mean of the last third lies above that of the second.
fn growth_percent(figures: Vec<u64>) -> f64 {
    let third = figures.len() / 3;
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len().max(1) as f64;
    let (second, last) = (&figures[third..2 * third], &figures[2 * third..]);
    if second.is_empty() {
        return 0.0;
    }
    (mean(last) / mean(second) - 1.0) * 100.0
}
