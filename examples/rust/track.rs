//! A program that tells ttmem what it does with device memory, in Rust.
//!
//! ```text
//! cargo run --package ttmem-capi --example track
//! cargo run --package ttmem-capi --example track -- --hold
//! ```
//!
//! With `--hold` it prints what it holds and keeps it until stdin is closed. It
//! runs just the same without a server: tracking is idle then.
#![expect(clippy::print_stdout, reason = "says what it holds when asked")]

use std::io::Read;
use std::time::Duration;
use ttmem_client::{Config, Tracker};
use ttmem_event::catalogue::Arch;
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoreSet, CoreType, CoresId, DeviceDefinition, DeviceId,
    Direction, DispatchPath, EventKind, KernelId, KernelKind, Layout, MeshDefinition, MeshId,
    MeshKind, ProgramId,
};

const DRAM_BANKS: u16 = 12;
const PAGE_BYTES: u32 = 2048;
const PER_BANK_BYTES: u64 = 32 * 2048;
const CB_BYTES: u64 = 4096;
const KERNEL_BYTES: u64 = 10_000;

fn main() -> std::io::Result<()> {
    let tracker = Tracker::start(Config::from_env());
    let device = open_device(tracker);
    let mesh = open_mesh(tracker, device);
    let buffer = allocate(tracker, mesh);
    let cores = CoreSet::grid(8, 1);
    let program = run_program(tracker, mesh, &cores);

    if std::env::args().any(|word| word == "--hold") {
        if let Err(error) = tracker.flush(Duration::from_secs(10)) {
            println!("# {error}");
        }
        let dram_bytes = u64::from(DRAM_BANKS) * PER_BANK_BYTES;
        let cb_bytes = u64::from(cores.len()) * CB_BYTES;
        let kernel_bytes = u64::from(cores.len()) * KERNEL_BYTES;
        print!("dram_bytes={dram_bytes} l1_bytes=0 cb_bytes={cb_bytes} ");
        println!("kernel_bytes={kernel_bytes} buffers=1");
        std::io::stdin().read_to_end(&mut Vec::new())?;
    }

    tracker.track(EventKind::ProgramDestroyed { program });
    tracker.track(EventKind::BufferFreed { mesh, buffer });
    tracker.track(EventKind::MeshClosed { mesh });
    tracker.track(EventKind::DeviceClosed { device });
    // Without a server this waits a second for one, in vain; nothing depends on it.
    let _flushed = tracker.close(Duration::from_secs(1));
    Ok(())
}

fn open_device(tracker: Tracker) -> DeviceId {
    let device = tracker.device(&DeviceDefinition {
        id: DeviceId(0),
        logical_id: 0,
        unique_id: None,
        arch: Arch::Wormhole,
        board: tracker.text("n150"),
        remote: Some(false),
        grid_columns: 8,
        grid_rows: 8,
        l1_bytes_per_core: 1_499_136,
        l1_reserved_bytes: 0,
    });
    tracker.track(EventKind::DeviceOpened { device });
    device
}

/// Every event names a mesh; a single chip is a mesh of one.
fn open_mesh(tracker: Tracker, device: DeviceId) -> MeshId {
    let mesh = tracker.mesh(&MeshDefinition {
        id: MeshId(0),
        kind: MeshKind::Mesh,
        handle: 0,
        rows: 1,
        columns: 1,
        devices: vec![device],
    });
    tracker.track(EventKind::MeshOpened { mesh });
    mesh
}

fn allocate(tracker: Tracker, mesh: MeshId) -> BufferId {
    let buffer = tracker.next_buffer();
    tracker.track(EventKind::BufferAllocated {
        mesh,
        buffer,
        class: Class::Dram,
        layout: Layout::Interleaved,
        direction: Direction::BottomUp,
        address: 0x40000,
        requested_bytes: u64::from(DRAM_BANKS) * PER_BANK_BYTES,
        per_bank_bytes: PER_BANK_BYTES,
        page_bytes: PAGE_BYTES,
        cores: CoresId::NONE,
        operation: tracker.text("ttnn.empty"),
        banks: DRAM_BANKS,
    });
    buffer
}

/// A program with a circular buffer and a kernel, run once.
fn run_program(tracker: Tracker, mesh: MeshId, cores: &CoreSet) -> ProgramId {
    let cores = tracker.cores(cores);
    let operation = tracker.text("ttnn.add");
    let program = tracker.next_program();
    tracker.track(EventKind::ProgramCreated {
        program,
        name: operation,
        runtime_id: 0,
        pointer: 0,
    });
    tracker.track(EventKind::CbAllocated {
        mesh,
        program,
        cb: 0,
        kind: CbKind::Local,
        address: 0x19000,
        size_bytes: CB_BYTES,
        cores,
    });
    tracker.track(EventKind::KernelLoaded {
        mesh,
        program,
        kernel: KernelId(0xADD),
        name: tracker.text("eltwise_add"),
        binary_bytes: KERNEL_BYTES,
        cores,
        core_count: 0,
        kind: KernelKind::Application,
        core_type: CoreType::Tensix,
    });
    tracker.track(EventKind::Dispatched {
        mesh,
        program,
        runtime_id: 0,
        operation,
        program_cache: CacheResult::Miss,
        binary_reused: false,
        path: DispatchPath::Fast,
    });
    program
}
