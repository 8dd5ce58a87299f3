//! What one call takes of memory on the thread of a program: the bound of the reserve.
//!
//! The reserve of our libraries (`ttmem_ring::heap`) serves the small requests of calls that are under
//! way when memory runs out. Here the requests of each call are counted, and what it had at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;
use ttmem_client::{Config, Question, Tracker};
use ttmem_event::catalogue::Arch;
use ttmem_event::{
    BufferId, Class, CoreSet, CoresId, DeviceDefinition, DeviceId, Direction, EventKind,
    Layout as BufferLayout, MeshDefinition, MeshId, MeshKind, TextId,
};
use ttmem_ring::heap::LARGE_BYTES;

/// Half of the reserve.
const MOST_BYTES: i64 = 512 << 10;
const _: () = assert!(2 * LARGE_BYTES == 512 << 10);

thread_local! {
    /// Bytes of small blocks that this thread has, and the most that it had.
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static MOST: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

impl Counting {
    fn count(bytes: usize, sign: i64) {
        if bytes < LARGE_BYTES {
            let live = LIVE.get() + sign * i64::try_from(bytes).unwrap_or(i64::MAX);
            LIVE.set(live);
            MOST.set(MOST.get().max(live));
        }
    }
}

// SAFETY: the system's allocator does it; what is counted are variables of the thread.
#[expect(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size(), 1);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Self::count(layout.size(), -1);
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The most that a call has at once.
fn most_of<R>(call: impl FnOnce() -> R) -> (i64, R) {
    LIVE.set(0);
    MOST.set(0);
    let result = call();
    (MOST.get(), result)
}

fn device(number: u32) -> DeviceDefinition {
    DeviceDefinition {
        id: DeviceId(0),
        logical_id: number,
        unique_id: Some(u64::from(number) + 1),
        arch: Arch::Wormhole,
        board: TextId::NONE,
        remote: None,
        grid_columns: 8,
        grid_rows: 8,
        l1_bytes_per_core: 1 << 20,
        l1_reserved_bytes: 0,
    }
}

fn allocated(mesh: MeshId, buffer: BufferId) -> EventKind {
    EventKind::BufferAllocated {
        mesh,
        buffer,
        class: Class::Dram,
        layout: BufferLayout::Interleaved,
        direction: Direction::BottomUp,
        address: buffer.0 * 4096,
        requested_bytes: 4096,
        per_bank_bytes: 4096,
        banks: 12,
        page_bytes: 4096,
        cores: CoresId::NONE,
        operation: TextId::NONE,
    }
}

#[test]
fn calls_take_less_than_the_reserve_has() {
    let socket = tempfile::tempdir().expect("a folder");
    let config = Config {
        socket: Some(socket.path().join("no-server")),
        ..Config::from_env()
    };
    let tracker = Tracker::start(config);
    let mut taken = Vec::with_capacity(16);
    let (first, one) = most_of(|| tracker.device(&device(0)));
    taken.push(("first call", first));
    let devices: Vec<DeviceId> = (1..64)
        .map(|number| tracker.device(&device(number)))
        .collect();
    let mesh = MeshDefinition {
        id: MeshId(0),
        kind: MeshKind::Mesh,
        handle: 0,
        rows: 8,
        columns: 8,
        devices: std::iter::once(one).chain(devices).collect(),
    };
    let (bytes, mesh) = most_of(|| tracker.mesh(&mesh));
    taken.push(("mesh of 64 devices", bytes));
    let long = "x".repeat(32 << 10);
    taken.push(("text of 32 KiB", most_of(|| tracker.text(&long)).0));
    taken.push(("cores", most_of(|| tracker.cores(&CoreSet::grid(8, 8))).0));
    tracker.track(EventKind::MeshOpened { mesh });
    let records = || {
        for _each in 0..10_000 {
            tracker.track(allocated(mesh, tracker.next_buffer()));
        }
    };
    taken.push(("10,000 events", most_of(records).0));
    let ask = |question| {
        let answer = tracker.own_account(question, Duration::from_secs(20));
        assert!(answer.is_ok(), "{answer:?}");
    };
    let figures = Question::Figures { stretch: 0 };
    taken.push(("figures", most_of(|| ask(figures)).0));
    let rows = Question::Snapshot {
        stretch: 0,
        max_rows: 100,
    };
    taken.push(("the 100 largest of 10,000 rows", most_of(|| ask(rows)).0));
    for (call, bytes) in &taken {
        println!("{bytes:>8} bytes: {call}");
    }
    let events = taken.iter().find(|(call, _bytes)| call.ends_with("events"));
    assert_eq!(events.map(|(_call, bytes)| *bytes), Some(0));
    assert!(taken.iter().all(|(_call, bytes)| *bytes <= MOST_BYTES));
}
