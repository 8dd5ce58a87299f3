//! Enough of a client to fill a ledger: chips with their DRAM allocators, and buffers in them.

use super::harness::{OwnServer, mesh, n150};
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use ttmem_event::wire::{Clock, Frame, FrameReader, Hello, Preamble};
use ttmem_event::{
    BufferId, Class, CoresId, Definition, Direction, Event, EventKind, Layout, MeshId, Source,
    TextId,
};

const BANKS: u16 = 12;
const BASE: u64 = 1_048_640;
const PER_BANK: u64 = 1_072_693_184;
const SIZE: u64 = 1024;
const BATCH: usize = 8192;

/// A client of the new protocol that owns some chips, each on a mesh of its own.
#[derive(Debug)]
pub(super) struct Filler {
    stream: UnixStream,
    reader: FrameReader,
    sequence: u64,
}

impl Filler {
    /// Connects and opens so many n150.
    pub(super) fn connect(server: &OwnServer, chips: u32) -> Result<Self> {
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
        for chip in 0..chips {
            client.open(chip)?;
        }
        Ok(client)
    }

    /// One n150 with its DRAM allocator.
    fn open(&mut self, chip: u32) -> Result<()> {
        let device = n150(chip);
        let mesh = mesh(mesh_of(chip), u64::from(chip) + 1, &[device.id]);
        let mut bytes = Vec::new();
        Frame::put_define(
            &mut bytes,
            &[Definition::Device(device), Definition::Mesh(mesh)],
        );
        self.stream.write_all(&bytes)?;
        let capacity = EventKind::CapacityReported {
            mesh: mesh_of(chip),
            class: Class::Dram,
            banks: BANKS,
            base: BASE,
            per_bank_bytes: PER_BANK,
            alignment: 32,
        };
        self.send(vec![Event {
            time: 1,
            kind: capacity,
        }])
    }

    /// Allocates so many buffers on a chip, in an order that is not that of their addresses.
    pub(super) fn allocate(&mut self, chip: u32, first: u64, count: u64) -> Result<()> {
        self.allocate_behind(0, chip, first, count)
    }

    /// Allocates so many buffers on a chip, behind room for so many others.
    pub(super) fn allocate_behind(
        &mut self,
        others: u64,
        chip: u32,
        first: u64,
        count: u64,
    ) -> Result<()> {
        // A step that shares no factor with the count visits every place once.
        let place = |number: u64| others + number * 7919 % count;
        let events = (0..count).map(|number| Event {
            time: number,
            kind: EventKind::BufferAllocated {
                mesh: mesh_of(chip),
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

    /// Frees so many buffers of a chip.
    pub(super) fn free(&mut self, chip: u32, first: u64, count: u64) -> Result<()> {
        let events = (first..first + count).map(|number| Event {
            time: number,
            kind: EventKind::BufferFreed {
                mesh: mesh_of(chip),
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

/// The mesh of a chip.
fn mesh_of(chip: u32) -> MeshId {
    MeshId(chip + 1)
}
