//! A client of the new protocol, as small as a test needs it.

use super::WATCHDOG;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use ttmem_event::catalogue::Arch;
use ttmem_event::wire::{Clock, Frame, FrameReader, Hello, Preamble, Welcome};
use ttmem_event::{
    BufferId, Class, CoresId, Definition, DeviceDefinition, DeviceId, Direction, Event, EventKind,
    Layout, MeshDefinition, MeshId, MeshKind, Source, TextId,
};

/// The mesh that [`Client::open_n150`] defines.
pub(crate) const MESH: MeshId = MeshId(1);

/// A connection that speaks the new protocol.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    reader: FrameReader,
    pub(crate) sequence: u64,
    pub(crate) welcome: Welcome,
}

impl Client {
    /// Connects and introduces itself; fails the test if it is refused.
    pub(crate) fn connect(socket: &Path, instance: [u8; 16]) -> Self {
        Self::connect_as(socket, instance, Source::Client)
    }

    /// Connects as a client whose events become known in another way.
    pub(crate) fn connect_as(socket: &Path, instance: [u8; 16], source: Source) -> Self {
        Self::introduce(socket, &hello(instance, source))
    }

    /// Connects as whoever this is.
    pub(crate) fn introduce(socket: &Path, hello: &Hello<'_>) -> Self {
        let mut stream = UnixStream::connect(socket).expect("the server listens");
        stream.set_read_timeout(Some(WATCHDOG)).expect("a timeout");
        let mut bytes = Vec::new();
        put_introduction(&mut bytes, hello);
        stream.write_all(&bytes).expect("the server reads");
        let welcome = Welcome {
            version: 0,
            needs_resync: false,
            server_instance: 0,
            next_sequence: 0,
        };
        let mut client = Self {
            stream,
            reader: FrameReader::default(),
            sequence: 0,
            welcome,
        };
        client.welcome = client.wait_for(|frame| match frame {
            Frame::Welcome(welcome) => Some(*welcome),
            _other => None,
        });
        client.sequence = client.welcome.next_sequence;
        client
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Defines one n150 with its DRAM and L1 allocators.
    pub(crate) fn open_n150(&mut self, logical_id: u32, unique_id: u64) {
        let mut bytes = Vec::new();
        Frame::put_define(&mut bytes, &n150(logical_id, unique_id));
        self.send_bytes(&bytes);
        self.send(&n150_capacities());
    }

    /// Sends events and waits until they are applied.
    pub(crate) fn send(&mut self, events: &[Event]) {
        let mut bytes = Vec::new();
        Frame::put_events(&mut bytes, self.sequence, events);
        Frame::put(&mut bytes, ttmem_event::wire::FrameKind::Flush, |_empty| {});
        self.send_bytes(&bytes);
        self.sequence += events.len() as u64;
        let wanted = self.sequence;
        self.wait_for(|frame| match frame {
            Frame::Ack { next_sequence } if *next_sequence == wanted => Some(()),
            _other => None,
        });
    }

    /// The first frame that `wanted` takes; fails the test when the server refuses or leaves.
    pub(crate) fn wait_for<T>(&mut self, wanted: impl Fn(&Frame<'_>) -> Option<T>) -> T {
        let mut buffer = [0; 4096];
        loop {
            while let Some(frame) = self.reader.next_frame().expect("the server speaks it too") {
                if let Some(found) = wanted(&frame) {
                    return found;
                }
                assert!(
                    !matches!(frame, Frame::Refused { .. }),
                    "refused: {frame:?}"
                );
            }
            let count = self.stream.read(&mut buffer).expect("the server answers");
            assert!(count > 0, "the server ended the connection");
            self.reader.push(&buffer[..count]);
        }
    }
}

/// What a client sends first.
pub(crate) fn put_greeting(bytes: &mut Vec<u8>, instance: [u8; 16]) {
    put_introduction(bytes, &hello(instance, Source::Client));
}

fn hello(instance: [u8; 16], source: Source) -> Hello<'static> {
    Hello {
        instance,
        pid: std::process::id(),
        source,
        name: "e2e",
        visible_devices: "",
        labels: vec![],
    }
}

fn put_introduction(bytes: &mut Vec<u8>, hello: &Hello<'_>) {
    bytes.extend_from_slice(&Preamble::OURS.encode());
    Frame::put_hello(bytes, hello);
    Frame::put_clock(bytes, &Clock::UNIX_NANOS);
}

/// One n150 and a mesh over it.
pub(crate) fn n150(logical_id: u32, unique_id: u64) -> Vec<Definition> {
    vec![
        Definition::Device(DeviceDefinition {
            id: DeviceId(0),
            logical_id,
            unique_id: Some(unique_id),
            arch: Arch::Wormhole,
            board: TextId::NONE,
            remote: Some(false),
            grid_columns: 8,
            grid_rows: 8,
            l1_bytes_per_core: 1_499_136,
            l1_reserved_bytes: 105_824,
        }),
        Definition::Mesh(MeshDefinition {
            id: MESH,
            kind: MeshKind::Mesh,
            handle: 1,
            rows: 1,
            columns: 1,
            devices: vec![DeviceId(0)],
        }),
    ]
}

/// What its allocators can hand out.
pub(crate) fn n150_capacities() -> Vec<Event> {
    let capacity = |class, banks, base, per_bank_bytes| Event {
        time: 1,
        kind: EventKind::CapacityReported {
            mesh: MESH,
            class,
            banks,
            base,
            per_bank_bytes,
            alignment: 32,
        },
    };
    vec![
        capacity(Class::Dram, 12, 1_048_640, 1_072_693_184),
        capacity(Class::L1, 64, 105_824, 1_393_312),
    ]
}

/// A DRAM buffer of so many bytes in each of 12 banks.
pub(crate) fn allocation(buffer: u64, address: u64, per_bank_bytes: u64) -> Event {
    Event {
        time: buffer,
        kind: EventKind::BufferAllocated {
            mesh: MESH,
            buffer: BufferId(buffer),
            class: Class::Dram,
            layout: Layout::Interleaved,
            direction: Direction::BottomUp,
            address,
            requested_bytes: per_bank_bytes * 12,
            per_bank_bytes,
            page_bytes: 2048,
            cores: CoresId::NONE,
            operation: TextId::NONE,
            banks: 12,
        },
    }
}
