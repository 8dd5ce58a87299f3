//! The honest process: a client of each protocol and a reader, and what it knows that the server must show.

use super::costly::allocated;
use crate::harness::{OwnServer, median, mesh, n150};
use crate::old_client::{GENERATION, ask};
use crate::wire_client::WireClient;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use ttmem_event::legacy::{Request, RequestKind};
use ttmem_event::{BufferId, Definition, Event, EventKind, MeshId};
use ttmem_reader::ApiClient;

/// Events of a round trip: an operation or two.
const EVENTS: u64 = 16;
/// Buffers that stay live.
const LIVE: u64 = 1000;
const SIZE: u64 = 4096;
const MESH: MeshId = MeshId(1);
/// A chip that no attacker names.
const CHIP: u32 = 7;

/// Between round trips: a client that measures is not one that floods.
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Honest {
    new: WireClient,
    old: UnixStream,
    allocated: [u64; 2],
}

impl Honest {
    pub(super) fn connect(server: &OwnServer) -> Result<Self> {
        let mut new = WireClient::greet(server.connect()?, *b"ttmem bench fair", "honest")?;
        let device = n150(CHIP);
        let mesh = mesh(MESH, 1, &[device.id]);
        new.define(&[Definition::Device(device), Definition::Mesh(mesh)])?;
        let mut honest = Self {
            new,
            old: server.connect()?,
            allocated: [0; 2],
        };
        while honest.allocated[0] < LIVE {
            honest.report_new()?;
            honest.report_old()?;
        }
        Ok(honest)
    }

    /// Round trips of both protocols and of a reader, one after the other, for some time.
    pub(super) fn run(&mut self, server: &OwnServer, time: Duration) -> Result<[RoundTrips; 3]> {
        let mut found: [RoundTrips; 3] = Default::default();
        let begun = Instant::now();
        while begun.elapsed() < time {
            for (protocol, found) in found.iter_mut().enumerate() {
                let begun = Instant::now();
                match protocol {
                    0 => self.report_new()?,
                    1 => self.report_old()?,
                    _reader => ask_for_health(server)?,
                }
                found.micros.push(begun.elapsed().as_secs_f64() * 1e6);
                std::thread::sleep(PAUSE);
            }
        }
        Ok(found)
    }

    /// Events, and the confirmation that they are applied.
    fn report_new(&mut self) -> Result<()> {
        let mut events = Vec::new();
        for number in self.numbers(0) {
            events.extend([
                allocated(MESH, number, SIZE),
                EventKind::BufferFreed {
                    mesh: MESH,
                    buffer: BufferId(number.saturating_sub(LIVE)),
                },
            ]);
            if number < LIVE {
                events.pop();
            }
        }
        let events: Vec<Event> = events
            .into_iter()
            .map(|kind| Event { time: 1, kind })
            .collect();
        self.new.send(&events)?;
        self.new.wait_for_ack()
    }

    /// The same as messages, and a question that is answered after them.
    fn report_old(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        for number in self.numbers(1) {
            let request = |kind, number: u64| Request {
                kind,
                device_id: 0,
                size: SIZE,
                buffer_type: 0,
                process_id: 1,
                buffer_id: (number + 1) * SIZE,
                timestamp: 0,
            };
            request(RequestKind::Alloc, number).encode(GENERATION, &mut bytes);
            if number >= LIVE {
                request(RequestKind::Free, number - LIVE).encode(GENERATION, &mut bytes);
            }
        }
        self.old.write_all(&bytes)?;
        ask(&mut self.old)?;
        Ok(())
    }

    fn numbers(&mut self, protocol: usize) -> std::ops::Range<u64> {
        let allocated = &mut self.allocated[protocol];
        let first = *allocated;
        *allocated += EVENTS / 2;
        first..*allocated
    }

    /// What the server shows wrong of this process, if anything.
    pub(super) fn is_blind(&self, server: &OwnServer) -> Result<Option<String>> {
        let client = ApiClient::new(&server.socket).with_timeout(Duration::from_secs(60));
        let processes = match client.processes() {
            Ok(found) => found.processes,
            Err(error) => return Ok(Some(format!("BLIND: readers get no answer: {error}"))),
        };
        let own = processes
            .iter()
            .filter(|process| process.pid == Some(std::process::id()));
        let mut wrong = Vec::new();
        let mut found = 0;
        for process in own {
            found += 1;
            let devices = process.devices.iter();
            let bytes: u64 = devices.map(|device| device.dram_bytes).sum();
            if bytes != LIVE * SIZE || process.incomplete || process.anomalies > 0 {
                wrong.push(format!(
                    "{bytes} of {} bytes, incomplete: {}, anomalies: {}",
                    LIVE * SIZE,
                    process.incomplete,
                    process.anomalies
                ));
            }
        }
        if found != 2 {
            wrong.push(format!("{found} of 2 processes are shown"));
        }
        Ok((!wrong.is_empty()).then(|| format!("BLIND: {}", wrong.join("; "))))
    }
}

/// A reader that connects and is answered.
fn ask_for_health(server: &OwnServer) -> Result<()> {
    let mut stream = server.connect()?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    ensure!(answer.starts_with(b"HTTP/1.1 200"), "it is not healthy");
    Ok(())
}

/// How long round trips took.
#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    micros: Vec<f64>,
}

impl RoundTrips {
    pub(super) fn median(&self) -> f64 {
        median(self.micros.clone())
    }

    pub(super) fn p99(&self) -> f64 {
        let mut sorted = self.micros.clone();
        sorted.sort_by(f64::total_cmp);
        let place = sorted.len() * 99 / 100;
        sorted.get(place).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn figures(&self) -> Value {
        let worst = self.micros.iter().copied().fold(f64::NAN, f64::max);
        json!({
            "round_trips": self.micros.len(),
            "micros_median": self.median().round(),
            "micros_p99": self.p99().round(),
            "micros_worst": worst.round(),
        })
    }
}
