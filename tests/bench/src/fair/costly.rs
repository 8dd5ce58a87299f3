//! Streams of events of the new protocol: plain ones, and those that cost a server much.

use super::attacks::{AttackOptions, begun, new_instance};
use crate::harness::{mesh, n150};
use crate::wire_client::WireClient;
use anyhow::Result;
use std::collections::VecDeque;
use std::ops::Range;
use ttmem_account::{Account, Limits};
use ttmem_event::wire::{Frame, FrameKind, ResyncEnd};
use ttmem_event::{
    BufferId, CacheResult, Class, CoreSet, CoreType, CoresId, Definition, DeviceId, Direction,
    DispatchPath, Event, EventKind, KernelId, KernelKind, Layout, MeshId, ProgramId, TextId,
};

const MESH: MeshId = MeshId(1);
const SIZE: u64 = 1024;

/// Batches that a busy client sends before it waits for the first to be confirmed.
const AHEAD: usize = 8;

pub(super) fn events(kinds: impl IntoIterator<Item = EventKind>) -> Vec<Event> {
    let events = kinds.into_iter().map(|kind| Event { time: 1, kind });
    events.collect()
}

/// A buffer of one bank, each at an address of its own.
pub(super) fn allocated(mesh: MeshId, number: u64, bytes: u64) -> EventKind {
    EventKind::BufferAllocated {
        mesh,
        buffer: BufferId(number),
        class: Class::Dram,
        layout: Layout::Interleaved,
        direction: Direction::BottomUp,
        address: number * bytes,
        requested_bytes: bytes,
        per_bank_bytes: bytes,
        page_bytes: 1024,
        cores: CoresId::NONE,
        operation: TextId::NONE,
        banks: 1,
    }
}

pub(super) fn allocations(numbers: Range<u64>) -> Vec<Event> {
    events(numbers.map(|number| allocated(MESH, number, SIZE)))
}

fn frees(mesh: MeshId, numbers: Range<u64>) -> Vec<Event> {
    events(numbers.map(|number| EventKind::BufferFreed {
        mesh,
        buffer: BufferId(number),
    }))
}

/// Chips from 16 on, and one mesh of them all.
fn chips(count: u32) -> Vec<Definition> {
    let devices: Vec<_> = (16..16 + count).map(n150).collect();
    let ids: Vec<DeviceId> = devices.iter().map(|device| device.id).collect();
    let devices = devices.into_iter().map(Definition::Device);
    devices
        .chain([Definition::Mesh(mesh(MESH, 1, &ids))])
        .collect()
}

pub(super) fn open_chip(client: &mut WireClient) -> Result<()> {
    client.define(&chips(1))
}

pub(super) fn busy(options: &AttackOptions) -> Result<()> {
    let mut client = options.greet()?;
    open_chip(&mut client)?;
    begun()?;
    let mut sent = VecDeque::new();
    loop {
        client.send(&allocations(0..500))?;
        client.send(&frees(MESH, 0..500))?;
        sent.push_back(client.sequence);
        // A few batches ahead, as a client's pump is.
        if sent.len() > AHEAD
            && let Some(oldest) = sent.pop_front()
        {
            client.wait_for_ack_of(oldest)?;
        }
    }
}

/// Allocates and frees on each of many meshes in turn.
pub(super) fn on_meshes(client: &mut WireClient, meshes: Range<u32>) -> Result<()> {
    loop {
        let each = meshes
            .clone()
            .map(|id| allocated(MeshId(id), id.into(), SIZE));
        client.send(&events(each))?;
        let numbers = u64::from(meshes.start)..u64::from(meshes.end);
        client.send(&frees(MESH, numbers))?;
        client.wait_for_ack()?;
    }
}

/// Programs on all cores and on every other one, run on many devices in turn: each run leaves the
/// cores of the one before.
pub(super) fn dispatch(options: &AttackOptions) -> Result<()> {
    let mut client = options.greet()?;
    let mut definitions = chips(256);
    let every = CoreSet::grid(32, 32);
    let mut odd = CoreSet::default();
    for y in 0..32 {
        odd.insert_row(y, if y % 2 == 0 { 0x5555_5555 } else { 0xAAAA_AAAA });
    }
    for (id, cores) in [(1, every), (2, odd), (3, every.without(&odd))] {
        let id = CoresId(id);
        definitions.push(Definition::Cores { id, cores });
    }
    client.define(&definitions)?;
    let load = |program: u32| EventKind::KernelLoaded {
        mesh: MESH,
        program: ProgramId(1),
        kernel: KernelId(u64::from(program)),
        name: TextId::NONE,
        binary_bytes: 1000,
        cores: CoresId(program),
        core_count: 1024,
        kind: KernelKind::Unknown,
        core_type: CoreType::Tensix,
    };
    let unload = |program: u32| EventKind::KernelUnloaded {
        mesh: MESH,
        program: ProgramId(1),
        kernel: Some(KernelId(u64::from(program))),
    };
    let run = EventKind::Dispatched {
        mesh: MESH,
        program: ProgramId(1),
        runtime_id: 1,
        operation: TextId::NONE,
        program_cache: CacheResult::Hit,
        binary_reused: true,
        path: DispatchPath::Fast,
    };
    let mut stream = vec![load(2), run];
    for _turn in 0..500 {
        stream.extend([load(3), unload(2), run, load(2), unload(3), run]);
    }
    let stream = events(stream);
    begun()?;
    loop {
        client.send(&stream)?;
    }
}

pub(super) fn close_meshes(options: &AttackOptions) -> Result<()> {
    let mut client = options.greet()?;
    client.define(&chips(64))?;
    let mut stream = allocations(0..20_000);
    stream.extend(events([EventKind::MeshClosed { mesh: MESH }]));
    begun()?;
    loop {
        client.send(&stream)?;
    }
}

pub(super) fn mark(options: &AttackOptions) -> Result<()> {
    let mut client = options.greet()?;
    client.define(&chips(256))?;
    let marks = (0..5000).map(|number| EventKind::Marked {
        name: TextId::NONE,
        number,
    });
    let marks = events(marks);
    begun()?;
    loop {
        client.send(&marks)?;
    }
}

/// The state of a process with a million buffers, sent over and over.
pub(super) fn resync(options: &AttackOptions) -> Result<()> {
    let mut account = Account::new(false);
    let limits = Limits::default();
    let definitions = chips(4);
    for definition in &definitions {
        // The account is its own: nothing is refused.
        let _known = account.define(definition, &limits, &mut ());
    }
    for event in allocations(0..1_000_000) {
        let _booked = account.apply(&event, &limits, &mut ());
    }
    let mut state = Vec::new();
    account.save(&mut state);
    let mut client = options.greet()?;
    let mut bytes = Vec::new();
    Frame::put(&mut bytes, FrameKind::ResyncBegin, |_out| {});
    Frame::put_define(&mut bytes, &definitions);
    Frame::put_state(&mut bytes, &state);
    let end = ResyncEnd {
        next_sequence: 0,
        lost_events: 0,
        elided_events: 0,
    };
    Frame::put_resync_end(&mut bytes, &end);
    begun()?;
    loop {
        client.write(&bytes)?;
        client.wait_for_ack()?;
    }
}

/// Bytes of a state that is none.
const BROKEN_BYTES: usize = 200_000;

pub(super) fn broken_resyncs(options: &AttackOptions) -> Result<()> {
    let mut bytes = Vec::new();
    Frame::put(&mut bytes, FrameKind::ResyncBegin, |_out| {});
    Frame::put_state(&mut bytes, &[0xA5; BROKEN_BYTES]);
    let end = ResyncEnd {
        next_sequence: 0,
        lost_events: 0,
        elided_events: 0,
    };
    Frame::put_resync_end(&mut bytes, &end);
    begun()?;
    loop {
        // A connection beyond its share is refused: that is what is tried.
        let Ok(mut client) = options.greet_as(new_instance()) else {
            continue;
        };
        let _refused = client.write(&bytes).and_then(|()| client.wait_for_ack());
    }
}
