//! Enough of a client to fill a ledger: chips with their DRAM allocators, and buffers in them.

use super::harness::{OwnServer, mesh, n150};
use super::wire_client::WireClient;
use anyhow::Result;
use ttmem_event::{
    BufferId, Class, CoresId, Definition, Direction, Event, EventKind, Layout, MeshId, TextId,
};

const BANKS: u16 = 12;
const BASE: u64 = 1_048_640;
const PER_BANK: u64 = 1_072_693_184;
const SIZE: u64 = 1024;

/// A client of the new protocol that owns some chips, each on a mesh of its own.
#[derive(Debug)]
pub(super) struct Filler {
    client: WireClient,
}

impl Filler {
    /// Connects and opens so many n150.
    pub(super) fn connect(server: &OwnServer, chips: u32) -> Result<Self> {
        let client = WireClient::greet(server.connect()?, *b"ttmem bench mem!", "bench")?;
        let mut client = Self { client };
        for chip in 0..chips {
            client.open(chip)?;
        }
        Ok(client)
    }

    /// One n150 with its DRAM allocator.
    fn open(&mut self, chip: u32) -> Result<()> {
        let device = n150(chip);
        let mesh = mesh(mesh_of(chip), u64::from(chip) + 1, &[device.id]);
        self.client
            .define(&[Definition::Device(device), Definition::Mesh(mesh)])?;
        let capacity = EventKind::CapacityReported {
            mesh: mesh_of(chip),
            class: Class::Dram,
            banks: BANKS,
            base: BASE,
            per_bank_bytes: PER_BANK,
            alignment: 32,
        };
        self.send(&[Event {
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
        self.send(&events.collect::<Vec<_>>())
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
        self.send(&events.collect::<Vec<_>>())
    }

    /// Sends events and waits until the last of them is applied.
    fn send(&mut self, events: &[Event]) -> Result<()> {
        self.client.send(events)?;
        self.client.wait_for_ack()
    }
}

/// The mesh of a chip.
fn mesh_of(chip: u32) -> MeshId {
    MeshId(chip + 1)
}
