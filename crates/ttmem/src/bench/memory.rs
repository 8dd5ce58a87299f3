//! What a million live allocations cost: memory, and the time of a status.
//!
//! One client of the new protocol fills the DRAM allocator of an n150 in an order
//! that is not that of the addresses. A reader then holds a view of every row
//! while all of them are allocated anew, which is the worst case for pages that
//! are copied on write.

use super::harness::{OwnServer, median, time_command};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use ttmem_api::ApiClient;
use ttmem_event::catalogue::Arch;
use ttmem_event::wire::{Clock, Frame, FrameReader, Hello, Preamble};
use ttmem_event::{
    BufferId, Class, CoresId, Definition, DeviceDefinition, DeviceId, Direction, Event, Layout,
    MeshDefinition, MeshId, MeshKind, Source, TextId, What,
};

const BANKS: u16 = 12;
const BASE: u64 = 1_048_640;
const PER_BANK: u64 = 1_072_693_184;
const SIZE: u64 = 1024;
const MESH: MeshId = MeshId(1);
/// Events in a frame.
const BATCH: usize = 8192;

pub(super) fn measure(scale: u64) -> Result<Value> {
    let buffers = 1_000_000 / scale;
    let server = OwnServer::start(&["--quiet"])?;
    let before = server.memory_bytes()?;
    let mut client = Client::connect(&server)?;
    client.open()?;
    client.allocate(0, buffers)?;
    let filled = server.memory_bytes()?;

    let mut changed = Vec::new();
    let mut unchanged = Vec::new();
    for _run in 0..9 {
        // Anything that happens makes the next reader work out all places anew.
        client.free(0, 1)?;
        client.allocate(0, 1)?;
        changed.push(time_status(&server, buffers)?);
        unchanged.push(time_status(&server, buffers)?);
    }
    let api = ApiClient::new(&server.socket);
    let read = read_all(&api)?;
    ensure!(
        read == buffers,
        "{read} rows were read instead of {buffers}"
    );
    client.free(0, buffers)?;
    client.allocate(buffers, buffers)?;
    let with_reader = server.memory_bytes()?;
    let fastest = changed.iter().copied().fold(f64::NAN, f64::min);
    Ok(json!({
        "live_buffers": buffers,
        "added_bytes": filled.saturating_sub(before),
        "added_bytes_after_reader_and_rewrite": with_reader.saturating_sub(before),
        "target_added_bytes": 200_000_000,
        "status_json_millis_best": fastest,
        "status_json_millis_median": median(changed),
        "status_json_millis_median_when_nothing_changed": median(unchanged),
        "target_status_json_millis": 50,
    }))
}

/// How long `ttmem status --json` takes, as a process of its own.
fn time_status(server: &OwnServer, buffers: u64) -> Result<f64> {
    let socket = server.socket.display().to_string();
    let (millis, output) = time_command(&["status", "--json", "--socket", &socket])?;
    let status: Value = serde_json::from_slice(&output).context("status is not JSON")?;
    let shown = status["devices"][0]["dram"]["buffers"].as_u64();
    ensure!(
        shown == Some(buffers),
        "{shown:?} buffers are shown instead of {buffers}"
    );
    Ok(millis)
}

fn read_all(api: &ApiClient) -> Result<u64> {
    let mut cursor: Option<String> = None;
    let mut rows = 0;
    loop {
        let page = api.buffers(cursor.as_deref(), Some(10_000))?;
        rows += page.rows.len() as u64;
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(rows),
        }
    }
}

/// Enough of a client to fill a ledger.
struct Client {
    stream: UnixStream,
    reader: FrameReader,
    sequence: u64,
}

impl Client {
    fn connect(server: &OwnServer) -> Result<Self> {
        let mut stream = server.connect()?;
        let mut bytes = Preamble::OURS.encode().to_vec();
        Frame::put_hello(
            &mut bytes,
            &Hello {
                instance: *b"ttmem bench mem!",
                pid: std::process::id(),
                source: Source::Client,
                name: "bench",
                visible_devices: "",
            },
        );
        Frame::put_clock(&mut bytes, &Clock::UNIX_NANOS);
        stream.write_all(&bytes)?;
        let mut client = Self {
            stream,
            reader: FrameReader::default(),
            sequence: 0,
        };
        client.wait_for(|frame| matches!(frame, Frame::Welcome(_)))?;
        Ok(client)
    }

    /// One n150 with its DRAM allocator.
    fn open(&mut self) -> Result<()> {
        let device = DeviceDefinition {
            id: DeviceId(0),
            logical_id: 0,
            unique_id: Some(1),
            arch: Arch::Wormhole,
            board: TextId::NONE,
            remote: Some(false),
            grid_columns: 8,
            grid_rows: 8,
            l1_bytes_per_core: 1_499_136,
            l1_reserved_bytes: 105_824,
        };
        let mesh = MeshDefinition {
            id: MESH,
            kind: MeshKind::Mesh,
            handle: 1,
            rows: 1,
            columns: 1,
            devices: vec![DeviceId(0)],
        };
        let mut bytes = Vec::new();
        Frame::put_define(
            &mut bytes,
            &[Definition::Device(device), Definition::Mesh(mesh)],
        );
        self.stream.write_all(&bytes)?;
        let capacity = What::CapacityReported {
            mesh: MESH,
            class: Class::Dram,
            banks: BANKS,
            base: BASE,
            per_bank_bytes: PER_BANK,
            alignment: 32,
        };
        self.send(vec![Event {
            time: 1,
            what: capacity,
        }])
    }

    fn allocate(&mut self, first: u64, count: u64) -> Result<()> {
        // A step that shares no factor with the count visits every place once.
        let place = |number: u64| number * 7919 % count;
        let events = (0..count).map(|number| Event {
            time: number,
            what: What::BufferAllocated {
                mesh: MESH,
                buffer: BufferId(first + number),
                class: Class::Dram,
                layout: Layout::Interleaved,
                direction: Direction::BottomUp,
                address: BASE + place(number) * SIZE,
                requested_bytes: SIZE * u64::from(BANKS),
                per_bank_bytes: SIZE,
                page_bytes: 1024,
                cores: CoresId::NONE,
                operation: TextId::NONE,
                banks: BANKS,
            },
        });
        self.send(events.collect())
    }

    fn free(&mut self, first: u64, count: u64) -> Result<()> {
        let events = (first..first + count).map(|number| Event {
            time: number,
            what: What::BufferFreed {
                mesh: MESH,
                buffer: BufferId(number),
            },
        });
        self.send(events.collect())
    }

    /// Sends events and waits until the last of them is applied.
    fn send(&mut self, events: Vec<Event>) -> Result<()> {
        for batch in events.chunks(BATCH) {
            let mut bytes = Vec::new();
            Frame::put_events(&mut bytes, self.sequence, batch);
            self.stream.write_all(&bytes)?;
            self.sequence += batch.len() as u64;
        }
        let wanted = self.sequence;
        self.wait_for(
            |frame| matches!(frame, Frame::Ack { next_sequence } if *next_sequence == wanted),
        )
    }

    fn wait_for(&mut self, wanted: impl Fn(&Frame<'_>) -> bool) -> Result<()> {
        let mut buffer = [0; 4096];
        loop {
            while let Some(frame) = self.reader.next_frame()? {
                if let Frame::Refused { reason, .. } = &frame {
                    bail!("the server refused: {reason}");
                }
                if wanted(&frame) {
                    return Ok(());
                }
            }
            let count = self
                .stream
                .read(&mut buffer)
                .context("the server does not answer")?;
            ensure!(count > 0, "the server ended the connection");
            self.reader.push(&buffer[..count]);
        }
    }
}
