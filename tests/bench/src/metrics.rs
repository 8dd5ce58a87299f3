//! `cargo xtask bench metrics`: what a scrape takes of a full machine, 64 processes on 32 devices.
//!
//! Each process is one of its own, with labels and a mesh over all devices. Scrapes are timed at the other end of the
//! socket: while nothing changes, and each behind a mark, so that everything is worked out anew.

use super::harness::{OwnServer, Programs, median, mesh, n150};
use super::wire_client::WireClient;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use ttmem_event::{
    BufferId, Class, CoresId, Definition, DeviceId, Direction, Event, EventKind, Layout, MeshId,
    TextId,
};

const DEVICES: u32 = 32;
const PROCESSES: u32 = 64;
const SCRAPES: usize = 50;
const BUFFERS: u64 = 200;
const READY: &str = "holding";
const MESH: MeshId = MeshId(1);

/// A process that holds something; ends with this value.
struct Member(Child);

impl Member {
    fn start(server: &OwnServer, number: u32) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(["member", "--number", &number.to_string(), "--socket"])
            .arg(&server.socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process")?;
        let mut member = Self(child);
        let output = member.0.stdout.take().context("its output is piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line.trim() == READY, "process {number} printed {line:?}");
        Ok(member)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

pub(super) fn measure(programs: &Programs, quick: bool) -> Result<Value> {
    let server = OwnServer::start(programs, &["--quiet"])?;
    let members = (0..PROCESSES).map(|number| Member::start(&server, number));
    let members = members.collect::<Result<Vec<_>>>()?;
    let scrapes = if quick { SCRAPES / 10 } else { SCRAPES };
    let mut found = json!({ "devices": DEVICES, "processes": members.len(), "scrapes": scrapes });
    // All of them have series of their own.
    let path = format!("/metrics?processes={PROCESSES}&min_age=0");
    for (name, marks) in [("unchanged", false), ("after_a_mark", true)] {
        let mut millis = Vec::new();
        let mut bytes = 0;
        for _scrape in 0..scrapes {
            if marks {
                asked(&server, "POST", "/api/v1/mark?name=step")?;
            }
            let begun = Instant::now();
            let answer = asked(&server, "GET", &path)?;
            millis.push(begun.elapsed().as_secs_f64() * 1e3);
            bytes = answer.len();
        }
        let worst = millis.iter().copied().fold(f64::NAN, f64::max);
        found[name] = json!({
            "millis_median": median(millis),
            "millis_worst": worst,
            "kilobytes": bytes as f64 / 1e3,
        });
    }
    found["target"] = json!({ "millis": 20, "kilobytes": 500 });
    Ok(found)
}

/// The answer to a request on a connection of its own.
fn asked(server: &OwnServer, method: &str, path: &str) -> Result<Vec<u8>> {
    let mut stream = server.connect()?;
    let head = format!("{method} {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    ensure!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{path} is answered with {}",
        String::from_utf8_lossy(&answer[..answer.len().min(200)])
    );
    Ok(answer)
}

/// One of the processes: reports what it holds, prints a line, and waits until its input ends.
pub fn hold_as_member(socket: &Path, number: u32) -> Result<()> {
    let stream = UnixStream::connect(socket).context("cannot reach the server")?;
    let mut instance = [7; 16];
    instance[..4].copy_from_slice(&number.to_le_bytes());
    let labels = [
        ("job", (4711 + number / 16).to_string()),
        ("rank", number.to_string()),
        ("container", format!("{number:012x}")),
    ];
    let labels = labels.iter().map(|(key, value)| (*key, value.as_str()));
    let mut client = WireClient::greet_with(stream, instance, "member", labels.collect())?;
    let devices: Vec<DeviceId> = (0..DEVICES).map(|device| n150(device).id).collect();
    let mut definitions: Vec<Definition> = (0..DEVICES)
        .map(|device| Definition::Device(n150(device)))
        .collect();
    definitions.push(Definition::Mesh(mesh(MESH, 1, &devices)));
    client.define(&definitions)?;
    let regions = [
        (Class::Dram, 12, 1_048_640, 1_072_693_184),
        (Class::L1, 64, 105_824, 1_393_312),
    ];
    let mut kinds = Vec::new();
    for (class, banks, base, per_bank_bytes) in regions {
        kinds.push(EventKind::CapacityReported {
            mesh: MESH,
            class,
            banks,
            base,
            per_bank_bytes,
            alignment: 32,
        });
        // Each process has a part of each bank for itself.
        let size = (per_bank_bytes / u64::from(PROCESSES) / BUFFERS).next_multiple_of(32) / 2;
        for buffer in 0..BUFFERS {
            let place = u64::from(number) * BUFFERS + buffer;
            kinds.push(EventKind::BufferAllocated {
                mesh: MESH,
                buffer: BufferId(buffer * 2 + u64::from(class == Class::L1)),
                class,
                layout: Layout::Interleaved,
                direction: Direction::BottomUp,
                address: base + place * size,
                requested_bytes: size * u64::from(banks),
                per_bank_bytes: size,
                page_bytes: 1024,
                cores: CoresId::NONE,
                operation: TextId::NONE,
                banks,
            });
        }
    }
    let events = (1..).zip(kinds).map(|(time, kind)| Event { time, kind });
    client.send(&events.collect::<Vec<_>>())?;
    client.wait_for_ack()?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{READY}")?;
    stdout.flush()?;
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
