//! Hostile requests from several threads at once, good ones among them, and what becomes of both.

use super::request::{Kind, Random};
use super::{Load, Scale, WATCHDOG};
use crate::harness::{OwnServer, Programs};
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use ttmem_reader::{ApiClient, ApiRequestError};

const ATTACKERS: usize = 8;

/// Half requests that each of them keeps open, until all are done: together more than there are
/// seats, so that some are told to come back.
const KEPT_HALVES: usize = 9;

/// Of an answer so much is looked at.
const LOOKED_AT_BYTES: usize = 1 << 16;

pub(super) fn measure(programs: &Programs, scale: &Scale) -> Result<Value> {
    let server = OwnServer::start(programs, &["--quiet"])?;
    let mut load = Load::start(programs, &server, scale.rate, scale.seconds)?;
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    let found = std::thread::scope(|scope| -> Result<_> {
        let reader = scope.spawn(|| read_well(&server.socket, &is_over));
        let attackers: Vec<_> = (1..=ATTACKERS)
            .map(|number| {
                let (socket, count) = (&server.socket, scale.requests / ATTACKERS);
                scope.spawn(move || attack(socket, number as u64, count))
            })
            .collect();
        while attackers.iter().any(|attacker| !attacker.is_finished()) {
            load.look_at_memory(&server)?;
            std::thread::sleep(Duration::from_millis(50));
        }
        let took = begun.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let failed = |_panic| anyhow!("a thread failed");
        let mut answers = Answers::default();
        for attacker in attackers {
            let (theirs, _kept_open) = attacker.join().map_err(failed)??;
            answers.add(theirs);
        }
        Ok((answers, reader.join().map_err(failed)??, took))
    });
    let (answers, good, took) = found?;
    ensure!(
        answers.wrong.is_empty(),
        "answers that should not be: {:?}",
        answers.wrong
    );
    let account = load.account()?;
    Ok(json!({
        "load": load.end(&server, &account)?,
        "requests": answers.requests,
        "requests_per_second": answers.requests as f64 / took.as_secs_f64(),
        "answers": answers.by_code,
        "good_reader": good,
    }))
}

#[derive(Debug, Default)]
struct Answers {
    requests: u64,
    /// By status, or by what else became of the request.
    by_code: BTreeMap<String, u64>,
    /// Answers that are the server's fault, or lack what they must have.
    wrong: Vec<String>,
}

impl Answers {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        for (code, count) in other.by_code {
            *self.by_code.entry(code).or_default() += count;
        }
        self.wrong.extend(other.wrong);
    }

    fn count(&mut self, request: &[u8], answer: &[u8]) {
        let answer = String::from_utf8_lossy(answer);
        let code = answer
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.get(2..5));
        let head = answer.split("\r\n\r\n").next().unwrap_or("");
        let comes_back = head.to_ascii_lowercase().contains("\r\nretry-after: ");
        let is_right = match code {
            None => answer.is_empty(),
            Some("503" | "429") => comes_back,
            Some(code) => !code.starts_with('5'),
        };
        if !is_right {
            let request = String::from_utf8_lossy(&request[..request.len().min(200)]);
            self.wrong.push(format!("{request:?}: {head:?}"));
        }
        self.put(code.unwrap_or("closed without an answer"));
    }

    fn put(&mut self, what: &str) {
        *self.by_code.entry(what.to_owned()).or_default() += 1;
    }
}

/// Sends requests of all kinds, one after the other: what was answered, and what is still open.
fn attack(socket: &Path, seed: u64, count: usize) -> Result<(Answers, VecDeque<UnixStream>)> {
    let mut random = Random::new(seed);
    let mut answers = Answers::default();
    let mut halves = VecDeque::new();
    for number in 0..count {
        let kind = Kind::ALL[number % Kind::ALL.len()];
        let request = kind.bytes(&mut random);
        let mut stream = UnixStream::connect(socket).context("cannot reach the server")?;
        stream.set_read_timeout(Some(WATCHDOG))?;
        stream.set_write_timeout(Some(WATCHDOG))?;
        answers.requests += 1;
        // The server may answer and close before it has taken everything.
        let _sent = stream.write_all(&request);
        match kind {
            Kind::Half => {
                answers.put("left open");
                halves.push_back(stream);
                if halves.len() > KEPT_HALVES {
                    halves.pop_front();
                }
            }
            Kind::Reset => answers.put("left unread"),
            _waits_for_its_answer => {
                if kind == Kind::Noise {
                    // It has no end otherwise.
                    let _gone = stream.shutdown(Shutdown::Write);
                }
                answers.count(&request, &read_answer(&mut stream)?);
            }
        }
    }
    Ok((answers, halves))
}

/// An answer, as far as it matters.
fn read_answer(stream: &mut UnixStream) -> Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while answer.len() < LOOKED_AT_BYTES {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error).context("a request is neither answered nor refused"),
        }
    }
    Ok(answer)
}

/// Asks as a viewer does, until it is over: how often it was answered, and told to come back.
fn read_well(socket: &Path, is_over: &AtomicBool) -> Result<Value> {
    let client = ApiClient::new(socket).with_timeout(WATCHDOG);
    let (mut answered, mut busy) = (0_u64, 0_u64);
    let mut worst = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let snapshot = client.snapshot().map(drop);
        let page = client
            .page::<ttmem_report::BufferRow>(None, Some(100))
            .map(drop);
        for answer in [snapshot, page] {
            match answer {
                Ok(()) => answered += 1,
                Err(ApiRequestError::Status { code: 503, .. }) => busy += 1,
                Err(error) => return Err(error).context("a good reader is not answered"),
            }
        }
        worst = worst.max(begun.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(json!({
        "answered": answered,
        "told_to_come_back": busy,
        "worst_pair_of_answers_millis": worst.as_secs_f64() * 1e3,
    }))
}
