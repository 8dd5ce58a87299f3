//! A program that allocates: what the benchmarks and the fault tests run and kill.
//!
//! It uses the client as any program does, from several threads that also free
//! what others allocated, and keeps its own account of what it holds. That
//! account is printed at the end, to be compared with the server's.

use super::harness::{mesh, n150};
use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use ttmem_client::{Config, Tracker};
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoreRange, CoreSet, CoreType, CoresId, DeviceId,
    Direction, DispatchPath, EventKind, KernelId, KernelKind, Layout, MeshId, ProgramId, TextId,
};

/// Devices of the workload; mesh 0 and 1 are one each, mesh 2 is both.
const DEVICES: usize = 2;
const MESHES: usize = 3;
const DRAM_BANKS: u16 = 12;
const L1_BANKS: u16 = 64;
const CB_BYTES: u64 = 4096;
const KERNEL_BYTES: u64 = 2048;
/// CBs and kernels of one thread's program.
const PLACED: u32 = 16;

/// What the workload does.
#[derive(Clone, Debug, Parser)]
pub struct WorkloadOptions {
    /// Threads that record at the same time.
    #[arg(long, default_value_t = 1)]
    pub threads: u32,
    /// Events of each thread; 0 = until killed.
    #[arg(long, default_value_t = 10_000)]
    pub events: u64,
    /// Events per second of all threads together; 0 = as fast as it goes.
    #[arg(long, default_value_t = 0)]
    pub rate: u64,
    /// Where its random choices begin.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Live buffers of each thread: at first only allocated up to half of this, at most this.
    #[arg(long, default_value_t = 256)]
    pub live: usize,
    /// Only dispatches, each numbered and by an operation of its own name.
    #[arg(long)]
    pub numbered: bool,
    /// A file whose first eight bytes always hold the number of events recorded.
    #[arg(long)]
    pub count: Option<PathBuf>,
    /// Keep everything until the standard input ends.
    #[arg(long)]
    pub hold: bool,
    /// How long the server may take to confirm.
    #[arg(long, default_value_t = 60)]
    pub flush_seconds: u64,
}

/// What one device holds, as the workload counts it.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    dram: i64,
    l1: i64,
    cb: i64,
    kernel: i64,
    buffers: i64,
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    id: BufferId,
    mesh: usize,
    class: Class,
    charged: i64,
}

/// What all threads share.
#[derive(Debug)]
struct World {
    tracker: Tracker,
    meshes: [MeshId; MESHES],
    cores: CoresId,
    core_count: i64,
    operation: TextId,
    /// Buffers that anybody may free.
    orphans: Mutex<Vec<Buffer>>,
    recorded: AtomicU64,
    count: Option<File>,
}

/// Runs the workload against the server that the environment names, and prints its account.
pub fn run(options: &WorkloadOptions) -> Result<()> {
    let world = World::open(Tracker::start(Config::from_env()), options)?;
    let begun = Instant::now();
    let held: Vec<[Held; DEVICES]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads)
            .map(|number| {
                let world = &world;
                scope.spawn(move || Thread::new(world, number, options).run(options, begun))
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.collect::<Result<_, _>>()
    })
    .map_err(|_panic| anyhow::anyhow!("a thread of the workload failed"))?;
    let recording = begun.elapsed();
    let flushed = world
        .tracker
        .flush(Duration::from_secs(options.flush_seconds));
    let account = account(&world, &held, recording, begun.elapsed(), flushed.is_ok());
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{account}").context("cannot print the account")?;
    stdout.flush().context("cannot print the account")?;
    if options.hold {
        // Ends by itself when whoever started it is gone.
        std::io::stdin().read_line(&mut String::new())?;
    }
    Ok(())
}

fn account(
    world: &World,
    held: &[[Held; DEVICES]],
    recording: Duration,
    flushed_after: Duration,
    flushed: bool,
) -> Value {
    let sum = |device: usize, of: fn(&Held) -> i64| -> i64 {
        held.iter().map(|thread| of(&thread[device])).sum()
    };
    let devices: Vec<Value> = (0..DEVICES)
        .map(|device| {
            json!({
                "id": device,
                "dram_bytes": sum(device, |held| held.dram),
                "l1_bytes": sum(device, |held| held.l1),
                "cb_bytes": sum(device, |held| held.cb),
                "kernel_bytes": sum(device, |held| held.kernel),
                "buffers": sum(device, |held| held.buffers),
            })
        })
        .collect();
    let statistics = world.tracker.statistics();
    json!({
        "pid": std::process::id(),
        "events": world.recorded.load(Ordering::Relaxed),
        "devices": devices,
        "recording_seconds": recording.as_secs_f64(),
        "flushed": flushed,
        "flushed_after_seconds": flushed_after.as_secs_f64(),
        "lost_events": statistics.lost_events,
        "elided_events": statistics.elided_events,
        "resyncs": statistics.resyncs,
        "pump_cpu_seconds": statistics.pump_cpu().as_secs_f64(),
    })
}

impl World {
    fn open(tracker: Tracker, options: &WorkloadOptions) -> Result<Self> {
        let devices: Vec<DeviceId> = (0_u32..)
            .take(DEVICES)
            .map(|number| tracker.device(&n150(number)))
            .collect();
        let mesh = |handle, devices: &[DeviceId]| tracker.mesh(&mesh(MeshId(0), handle, devices));
        let meshes = [
            mesh(0, &devices[..1]),
            mesh(1, &devices[1..]),
            mesh(2, &devices),
        ];
        let range = CoreRange {
            x_first: 0,
            y_first: 0,
            x_last: 7,
            y_last: 3,
        };
        let cores = CoreSet::from_ranges([range]).context("a range within the grid")?;
        let world = Self {
            tracker,
            meshes,
            cores: tracker.cores(&cores),
            core_count: 32,
            operation: tracker.text("ttnn::matmul"),
            orphans: Mutex::new(Vec::new()),
            recorded: AtomicU64::new(0),
            count: options
                .count
                .as_ref()
                .map(|path| {
                    File::options()
                        .write(true)
                        .create(true)
                        .truncate(false)
                        .open(path)
                })
                .transpose()
                .context("cannot open the file for the count")?,
        };
        ensure!(tracker.is_enabled(), "tracking is off");
        for device in devices {
            world.record(EventKind::DeviceOpened { device });
        }
        for mesh in meshes {
            world.record(EventKind::MeshOpened { mesh });
        }
        if world.count.is_none() {
            let opened = (DEVICES + MESHES) as u64;
            world.recorded.fetch_add(opened, Ordering::Relaxed);
        }
        Ok(world)
    }

    #[inline]
    fn record(&self, event: EventKind) {
        self.tracker.track(event);
        if let Some(file) = &self.count {
            let recorded = self.recorded.fetch_add(1, Ordering::Relaxed) + 1;
            // One thread only, where it matters: the number of calls that have returned.
            let _full = file.write_at(&recorded.to_le_bytes(), 0);
        }
    }
}

/// One thread of the workload.
#[derive(Debug)]
struct Thread<'w> {
    world: &'w World,
    random: u64,
    program: ProgramId,
    buffers: Vec<Buffer>,
    held: [Held; DEVICES],
    /// Which CBs and kernels its program has, by number.
    cbs: u32,
    kernels: u32,
    steps: u64,
}

impl<'w> Thread<'w> {
    fn new(world: &'w World, number: u32, options: &WorkloadOptions) -> Self {
        let seed = options.seed.wrapping_mul(1000) + u64::from(number) + 1;
        Self {
            world,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            program: world.tracker.next_program(),
            buffers: Vec::new(),
            held: [Held::default(); DEVICES],
            cbs: 0,
            kernels: 0,
            steps: 0,
        }
    }

    fn run(mut self, options: &WorkloadOptions, begun: Instant) -> [Held; DEVICES] {
        self.record(EventKind::ProgramCreated {
            program: self.program,
            name: self.world.operation,
            runtime_id: 1,
            pointer: 0,
        });
        let mine = options.rate / u64::from(options.threads.max(1));
        while options.events == 0 || self.steps < options.events {
            if options.numbered {
                let operation = format!("op-{}", self.steps);
                self.dispatch_as(self.world.tracker.text(&operation));
            } else {
                self.step(options.live);
            }
            if mine > 0 && self.steps.is_multiple_of(64) {
                let due = Duration::from_nanos(self.steps.saturating_mul(1_000_000_000) / mine);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        }
        if self.world.count.is_none() {
            self.world.recorded.fetch_add(self.steps, Ordering::Relaxed);
        }
        self.held
    }

    fn record(&mut self, event: EventKind) {
        self.steps += 1;
        self.world.record(event);
    }

    /// Xorshift: what matters is that it is the same every time.
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    fn step(&mut self, live: usize) {
        match self.random(100) {
            0..2 => self.toggle_kernel(),
            2..8 => self.toggle_cb(),
            8..12 => self.dispatch(),
            choice => {
                let (few, full) = (self.buffers.len() < live / 2, self.buffers.len() >= live);
                if few || (!full && choice < 56) {
                    self.allocate();
                } else {
                    self.free();
                }
            }
        }
    }

    fn allocate(&mut self) {
        let mesh = usize::try_from(self.random(3)).unwrap_or(0);
        let is_l1 = self.random(4) == 0;
        let (class, banks) = if is_l1 {
            (Class::L1, L1_BANKS)
        } else {
            (Class::Dram, DRAM_BANKS)
        };
        let per_bank_bytes = 2048 * (1 + self.random(4));
        let id = self.world.tracker.next_buffer();
        self.record(EventKind::BufferAllocated {
            mesh: self.world.meshes[mesh],
            buffer: id,
            class,
            layout: Layout::Interleaved,
            direction: Direction::BottomUp,
            address: (id.0 * 64) % (1 << 30),
            requested_bytes: per_bank_bytes * u64::from(banks),
            per_bank_bytes,
            page_bytes: 2048,
            cores: CoresId::NONE,
            operation: self.world.operation,
            banks,
        });
        let charged = i64::try_from(per_bank_bytes).unwrap_or(0) * i64::from(banks);
        let buffer = Buffer {
            id,
            mesh,
            class,
            charged,
        };
        self.account(buffer.mesh, |held| held.buffer(&buffer, 1));
        if self.random(8) == 0
            && let Ok(mut orphans) = self.world.orphans.lock()
        {
            orphans.push(buffer);
        } else {
            self.buffers.push(buffer);
        }
    }

    fn free(&mut self) {
        let orphan = if self.random(8) == 0 {
            let orphans = self.world.orphans.lock();
            orphans.ok().and_then(|mut orphans| orphans.pop())
        } else {
            None
        };
        let mine = self.buffers.len() as u64;
        let buffer = match orphan {
            Some(buffer) => buffer,
            None if mine == 0 => return self.dispatch(),
            None => {
                let which = usize::try_from(self.random(mine)).unwrap_or(0);
                self.buffers.swap_remove(which)
            }
        };
        self.record(EventKind::BufferFreed {
            mesh: self.world.meshes[buffer.mesh],
            buffer: buffer.id,
        });
        self.account(buffer.mesh, |held| held.buffer(&buffer, -1));
    }

    fn toggle_cb(&mut self) {
        let cb = u32::try_from(self.random(u64::from(PLACED))).unwrap_or(0);
        let (mesh, program) = (self.world.meshes[2], self.program);
        let placed = self.cbs & (1 << cb) != 0;
        self.cbs ^= 1 << cb;
        let bytes = i64::try_from(CB_BYTES).unwrap_or(0) * self.world.core_count;
        if placed {
            let cb = Some(cb);
            self.record(EventKind::CbFreed { mesh, program, cb });
            self.account(2, |held| held.cb -= bytes);
        } else {
            self.record(EventKind::CbAllocated {
                mesh,
                program,
                cb,
                kind: CbKind::Local,
                address: 110_592 + u64::from(cb) * CB_BYTES,
                size_bytes: CB_BYTES,
                cores: self.world.cores,
            });
            self.account(2, |held| held.cb += bytes);
        }
    }

    fn toggle_kernel(&mut self) {
        let number = u32::try_from(self.random(u64::from(PLACED))).unwrap_or(0);
        let (mesh, program) = (self.world.meshes[2], self.program);
        let kernel = KernelId(u64::from(number) + 1);
        let loaded = self.kernels & (1 << number) != 0;
        self.kernels ^= 1 << number;
        let bytes = i64::try_from(KERNEL_BYTES).unwrap_or(0) * self.world.core_count;
        if loaded {
            let kernel = Some(kernel);
            self.record(EventKind::KernelUnloaded {
                mesh,
                program,
                kernel,
            });
            self.account(2, |held| held.kernel -= bytes);
        } else {
            self.record(EventKind::KernelLoaded {
                mesh,
                program,
                kernel,
                name: self.world.operation,
                binary_bytes: KERNEL_BYTES,
                cores: self.world.cores,
                core_count: 0,
                kind: KernelKind::Application,
                core_type: CoreType::Tensix,
            });
            self.account(2, |held| held.kernel += bytes);
        }
    }

    fn dispatch(&mut self) {
        self.dispatch_as(self.world.operation);
    }

    fn dispatch_as(&mut self, operation: TextId) {
        self.record(EventKind::Dispatched {
            mesh: self.world.meshes[0],
            program: self.program,
            runtime_id: self.steps,
            operation,
            program_cache: CacheResult::Hit,
            binary_reused: true,
            path: DispatchPath::Fast,
        });
    }

    /// Changes the account of every device of a mesh.
    fn account(&mut self, mesh: usize, change: impl Fn(&mut Held)) {
        match mesh {
            2 => self.held.iter_mut().for_each(change),
            one => change(&mut self.held[one]),
        }
    }
}

impl Held {
    fn buffer(&mut self, buffer: &Buffer, sign: i64) {
        self.buffers += sign;
        match buffer.class {
            Class::L1 => self.l1 += sign * buffer.charged,
            _dram => self.dram += sign * buffer.charged,
        }
    }
}
