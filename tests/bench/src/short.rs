//! Ten thousand real processes that each live for a moment and call themselves what they like, and scrapers over TCP
//! that ask and take nothing: does a monitoring system get more series for it?
//!
//! Every process is one of its own, with a job of its own and hostile labels. Between batches `/metrics` is scraped over
//! TCP as Prometheus does it, and with the largest bounds that a scraper may ask for; what comes is held against
//! Prometheus's own reader, where there is one.

use super::harness::{OwnServer, Programs, memory_bytes};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Processes in all, and at a time.
const PROCESSES: usize = 10_000;
const BATCH: usize = 50;
/// Batches between two scrapes.
const BATCHES_OF_A_SCRAPE: usize = 5;

/// Scrapers that ask and read nothing, as many as the server serves at once over TCP.
const STALLED: usize = 32;

/// Series of processes that a scrape has at most, by default and with the largest bound: those, and the sum.
const BOUNDS: [(&str, usize); 2] = [("/metrics", 33), ("/metrics?processes=256&min_age=0", 257)];

/// How long a process, a permit and the end of everything may take: a machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// What processes say of themselves, in turn: text that ends a label, a line or a sample, or has no end.
const HOSTILE: [&str; 6] = [
    "\"} 1\n# HELP ttmem_up lies\nttmem_up 0",
    "\\\"\\n\\\\",
    "\u{202e}reversed\u{200b}\u{7}",
    "a=b,c=d,9=x,=,rank=99999999",
    "",
    "long",
];

/// What was seen of the scrapes of one kind.
#[derive(Debug, Default)]
struct Seen {
    scrapes: u64,
    most_series: usize,
    most_samples: usize,
    most_bytes: usize,
    /// The label sets of processes over all scrapes: what a monitoring system keeps.
    series: BTreeSet<String>,
    slowest: Duration,
}

pub(super) fn measure(programs: &Programs, quick: bool) -> Result<Value> {
    let wanted = if quick { PROCESSES / 100 } else { PROCESSES };
    let address = free_address()?;
    let http = address.to_string();
    let server = OwnServer::start(programs, &["--quiet", "--http", &http, "--http-names"])?;
    let before = memory_bytes(server.pid())?;
    let mut seen = [Seen::default(), Seen::default()];
    let (mut started, mut checked, mut stalls) = (0, 0, 0);
    let begun = Instant::now();
    while started < wanted {
        let mut living = Vec::new();
        for _process in 0..BATCH.min(wanted - started) {
            living.push(Short(start(programs, &server, started)?));
            started += 1;
        }
        if (started / BATCH).is_multiple_of(BATCHES_OF_A_SCRAPE) || started == wanted {
            let stalled = stall(address)?;
            stalls += stalled.len();
            for ((path, bound), seen) in BOUNDS.iter().zip(&mut seen) {
                checked += u64::from(seen.take(address, path, *bound)?);
            }
        }
        for short in &mut living {
            short.wait()?;
        }
    }
    let took = begun.elapsed();
    wait_for_the_end(&server)?;
    for ((path, bound), seen) in BOUNDS.iter().zip(&mut seen) {
        checked += u64::from(seen.take(address, path, *bound)?);
    }
    let complaints = server.complaints();
    ensure!(complaints.is_empty(), "the server wrote: {complaints}");
    let [usual, largest] = &seen;
    ensure!(
        usual.series.len() <= BOUNDS[0].1,
        "short processes made {} series",
        usual.series.len()
    );
    Ok(json!({
        "processes_started": started,
        "processes_at_a_time": BATCH,
        "seconds": took.as_secs_f64(),
        "stalled_scrapers_over_tcp": stalls,
        "scrapes_by_default": usual.json(),
        "scrapes_with_the_largest_bounds": largest.json(),
        "scrapes_checked_by_promtool": checked,
        "server_memory_bytes": { "before": before, "after": memory_bytes(server.pid())? },
    }))
}

impl Seen {
    /// Scrapes once; whether Prometheus's own reader agreed with what came.
    fn take(&mut self, address: SocketAddr, path: &str, bound: usize) -> Result<bool> {
        let begun = Instant::now();
        let text = scraped(address, path)?;
        self.slowest = self.slowest.max(begun.elapsed());
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let of_process = |line: &&str| line.starts_with("ttmem_process_incomplete{");
        let series: BTreeSet<String> = samples
            .clone()
            .filter(of_process)
            .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()))
            .collect();
        ensure!(
            series.len() <= bound,
            "{path}: {} series of processes",
            series.len()
        );
        ensure!(
            text.lines()
                .filter(|line| line.starts_with("ttmem_up "))
                .eq(["ttmem_up 1"]),
            "{path}: somebody else says whether the server is up"
        );
        self.scrapes += 1;
        self.most_series = self.most_series.max(series.len());
        self.most_samples = self.most_samples.max(samples.count());
        self.most_bytes = self.most_bytes.max(text.len());
        self.series.extend(series);
        promtool(&text)
    }

    fn json(&self) -> Value {
        json!({
            "scrapes": self.scrapes,
            "most_series_of_processes": self.most_series,
            "series_of_processes_over_all_scrapes": self.series.len(),
            "most_samples": self.most_samples,
            "most_kilobytes": self.most_bytes as f64 / 1e3,
            "slowest_millis": self.slowest.as_secs_f64() * 1e3,
        })
    }
}

/// A process that ends by itself; killed with this value, if it has not.
#[derive(Debug)]
struct Short(Child);

impl Short {
    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        while self.0.try_wait()?.is_none() {
            ensure!(begun.elapsed() < PATIENCE, "a short process does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Short {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn start(programs: &Programs, server: &OwnServer, number: usize) -> Result<Child> {
    let long = "x".repeat(5000);
    let hostile = match HOSTILE[number % HOSTILE.len()] {
        "long" => &long,
        text => text,
    };
    let seed = number.to_string();
    let words = ["--events", "20", "--live", "4", "--seed", &seed];
    (programs.workload)(&words)?
        .env("TTMEM_SOCKET", &server.socket)
        .env("TTMEM_NAME", format!("{number}{hostile}"))
        .env("TTMEM_LABELS", format!("team={hostile},rank={number}"))
        .env("SLURM_JOB_ID", format!("{number}{hostile}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start a short process")
}

/// Scrapers that have asked and read nothing.
fn stall(address: SocketAddr) -> Result<Vec<TcpStream>> {
    let stalled = (0..STALLED).map(|_scraper| {
        let mut stream = TcpStream::connect(address)?;
        // Who is refused meanwhile may be closed already.
        let _sent = stream.write_all(request(address, BOUNDS[1].0).as_bytes());
        Ok(stream)
    });
    stalled.collect()
}

fn request(address: SocketAddr, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
}

/// The body of a scrape; a server that is busy with others is asked again, as a scraper does.
fn scraped(address: SocketAddr, path: &str) -> Result<String> {
    let begun = Instant::now();
    loop {
        let mut stream = TcpStream::connect(address).context("cannot reach the server")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request(address, path).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("no text")?;
        if answer.starts_with("HTTP/1.1 200") {
            let (_head, body) = answer.split_once("\r\n\r\n").context("no body")?;
            return Ok(body.to_owned());
        }
        ensure!(
            answer.starts_with("HTTP/1.1 503") && begun.elapsed() < PATIENCE,
            "{path} is answered with {answer}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Holds a text against Prometheus's own reader; false where there is none.
fn promtool(text: &str) -> Result<bool> {
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = started else {
        return Ok(false);
    };
    let mut input = promtool.stdin.take().context("it is piped")?;
    input.write_all(text.as_bytes())?;
    drop(input);
    let output = promtool.wait_with_output()?;
    ensure!(
        output.status.success(),
        "promtool: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(true)
}

/// Until the server has noticed that all are gone; then nothing may be held.
fn wait_for_the_end(server: &OwnServer) -> Result<()> {
    let client = ttmem_reader::ApiClient::new(&server.socket).with_timeout(PATIENCE);
    let begun = Instant::now();
    loop {
        let snapshot = client.snapshot()?;
        let held: u64 = snapshot
            .devices
            .iter()
            .map(|device| device.dram.charged_bytes)
            .sum();
        let mut processes = snapshot.processes.iter();
        if held == 0 && processes.all(|process| process.released.is_some()) {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "{held} bytes are still held");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?)
}
