//! Any sequence of calls, sensible or not: the account follows the model to the byte.
//!
//! Calls name meshes, buffers, workloads and traces by a number; numbers of what is gone are as
//! likely as others. After every call the account must have refused nothing, hold what the model's
//! allocators hold, with the same largest free block, and count what the model counts.

use crate::account::Account;
use proptest::prelude::*;
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{CacheResult, Class, CoreRange, CoreType};
use ttmem_model::buffer::BufferSpec;
use ttmem_model::program::{CbPlace, CbSpec, CoreRanges, KernelSpec, Program};
use ttmem_model::runtime::{
    Buffer, DeviceRange, Mesh, Run, Runtime, RuntimeOptions, SubDevice, Target, Trace, Workload,
};

const CLASSES: [Class; 4] = [Class::Dram, Class::L1, Class::L1Small, Class::Trace];
const BOARDS: [BoardKind; 4] = [
    BoardKind::N150,
    BoardKind::N300,
    BoardKind::T3000,
    BoardKind::P150,
];

#[derive(Clone, Debug)]
enum Act {
    Open {
        rows: u16,
        columns: u16,
    },
    Submesh {
        of: usize,
        columns: u16,
        at: u16,
    },
    Close {
        mesh: usize,
    },
    Allocate {
        mesh: usize,
        class: usize,
        pages: u64,
        sharded: bool,
    },
    Free {
        buffer: usize,
    },
    Build {
        mesh: usize,
        kernels: Vec<AKernel>,
        cbs: Vec<ACb>,
        parts: u16,
    },
    Run {
        workload: usize,
        cached: bool,
    },
    Resize {
        workload: usize,
        pages: u64,
    },
    Destroy {
        workload: usize,
    },
    BeginTrace {
        mesh: usize,
    },
    EndTrace {
        trace: usize,
    },
    Replay {
        trace: usize,
    },
    Release {
        trace: usize,
    },
    Divide {
        mesh: usize,
        parts: u16,
    },
    Compare {
        mesh: usize,
    },
}

#[derive(Clone, Debug)]
struct AKernel {
    name: u8,
    core_type: u8,
    side: u16,
    text: u64,
    args: u32,
}

#[derive(Clone, Debug)]
struct ACb {
    index: u8,
    side: u16,
    pages: u64,
    global: bool,
}

fn kernel() -> impl Strategy<Value = AKernel> {
    (0..4_u8, 0..8_u8, 1..9_u16, 0..30_000_u64, 0..30_u32).prop_map(
        |(name, core_type, side, text, args)| AKernel {
            name,
            core_type,
            side,
            text,
            args,
        },
    )
}

fn cb() -> impl Strategy<Value = ACb> {
    (0..6_u8, 1..9_u16, 1..60_u64, any::<bool>()).prop_map(|(index, side, pages, global)| ACb {
        index,
        side,
        pages,
        global,
    })
}

fn act() -> impl Strategy<Value = Act> {
    let which = 0..8_usize;
    prop_oneof![
        2 => (1..3_u16, 1..5_u16).prop_map(|(rows, columns)| Act::Open { rows, columns }),
        1 => (which.clone(), 1..3_u16, 0..3_u16)
            .prop_map(|(of, columns, at)| Act::Submesh { of, columns, at }),
        1 => which.clone().prop_map(|mesh| Act::Close { mesh }),
        6 => (which.clone(), 0..4_usize, 1..3000_u64, any::<bool>()).prop_map(
            |(mesh, class, pages, sharded)| Act::Allocate { mesh, class, pages, sharded }
        ),
        4 => which.clone().prop_map(|buffer| Act::Free { buffer }),
        4 => (
            which.clone(),
            prop::collection::vec(kernel(), 0..4),
            prop::collection::vec(cb(), 0..4),
            1..3_u16,
        )
            .prop_map(|(mesh, kernels, cbs, parts)| Act::Build { mesh, kernels, cbs, parts }),
        10 => (which.clone(), any::<bool>()).prop_map(|(workload, cached)| Act::Run { workload, cached }),
        1 => (which.clone(), 1..60_u64).prop_map(|(workload, pages)| Act::Resize { workload, pages }),
        1 => which.clone().prop_map(|workload| Act::Destroy { workload }),
        1 => which.clone().prop_map(|mesh| Act::BeginTrace { mesh }),
        1 => which.clone().prop_map(|trace| Act::EndTrace { trace }),
        2 => which.clone().prop_map(|trace| Act::Replay { trace }),
        1 => which.clone().prop_map(|trace| Act::Release { trace }),
        1 => (which.clone(), 0..3_u16).prop_map(|(mesh, parts)| Act::Divide { mesh, parts }),
        1 => which.prop_map(|mesh| Act::Compare { mesh }),
    ]
}

/// A model and everything it ever handed out.
struct Session {
    account: Account,
    runtime: Runtime,
    meshes: Vec<Mesh>,
    buffers: Vec<Buffer>,
    workloads: Vec<Workload>,
    traces: Vec<Trace>,
}

/// The newest are asked for most: they are the likeliest to be there.
fn recent<T: Copy>(all: &[T], back: usize) -> Option<T> {
    all.iter().rev().nth(back).copied()
}

impl Session {
    fn new(options: RuntimeOptions) -> Self {
        let account = Account::new();
        let runtime = account.runtime(options);
        Self {
            account,
            runtime,
            meshes: Vec::new(),
            buffers: Vec::new(),
            workloads: Vec::new(),
            traces: Vec::new(),
        }
    }

    /// Does it; `None` if there is nothing to do it to, or the model refused.
    fn perform(&mut self, act: &Act) -> Option<()> {
        match act {
            Act::Open { rows, columns } => {
                let mesh = self.runtime.open_mesh(*rows, *columns).ok()?;
                self.meshes.push(mesh);
            }
            Act::Submesh { of, columns, at } => {
                let parent = recent(&self.meshes, *of)?;
                let made = self.runtime.create_submesh(parent, 1, *columns, (0, *at));
                self.meshes.push(made.ok()?);
            }
            Act::Close { mesh } => {
                let mesh = recent(&self.meshes, *mesh)?;
                self.runtime.close_mesh(mesh).ok()?;
            }
            Act::Allocate {
                mesh,
                class,
                pages,
                sharded,
            } => {
                let mesh = recent(&self.meshes, *mesh)?;
                let class = CLASSES[*class];
                let spec = if *sharded {
                    let cores = CoreRanges::grid(4, 4).set();
                    BufferSpec::sharded(class, cores, pages * 16, 32)
                } else {
                    BufferSpec::interleaved(class, pages * 2048, 2048)
                };
                let buffer = self.runtime.allocate(mesh, &spec, "allocate").ok()?;
                self.buffers.push(buffer);
            }
            Act::Free { buffer } => {
                let buffer = recent(&self.buffers, *buffer)?;
                self.runtime.free(buffer).ok()?;
            }
            Act::Build {
                mesh,
                kernels,
                cbs,
                parts,
            } => {
                let mesh = recent(&self.meshes, *mesh)?;
                let mut programs = Vec::new();
                for part in 0..*parts {
                    let range = if *parts == 1 {
                        DeviceRange::All
                    } else {
                        DeviceRange::one(0, part)
                    };
                    let mut program = self.runtime.new_program("program");
                    fill(&mut program, kernels, cbs);
                    programs.push((range, program));
                }
                let workload = self.runtime.new_workload(mesh, programs).ok()?;
                self.workloads.push(workload);
            }
            Act::Run { workload, cached } => {
                let workload = recent(&self.workloads, *workload)?;
                let program_cache = if *cached {
                    CacheResult::Hit
                } else {
                    CacheResult::Miss
                };
                let run = Run {
                    operation: "run",
                    program_cache,
                };
                self.runtime.enqueue(workload, &run).ok()?;
            }
            Act::Resize { workload, pages } => {
                let workload = recent(&self.workloads, *workload)?;
                let program = self.runtime.program_mut(workload, 0)?;
                program.update_cb_size(0, pages * 2048).ok()?;
            }
            Act::Destroy { workload } => {
                let workload = recent(&self.workloads, *workload)?;
                self.runtime.destroy(workload).ok()?;
            }
            Act::BeginTrace { mesh } => {
                let mesh = recent(&self.meshes, *mesh)?;
                self.traces.push(self.runtime.begin_trace(mesh).ok()?);
            }
            Act::EndTrace { trace } => {
                let trace = recent(&self.traces, *trace)?;
                self.runtime.end_trace(trace).ok()?;
            }
            Act::Replay { trace } => {
                let trace = recent(&self.traces, *trace)?;
                self.runtime.replay(trace).ok()?;
            }
            Act::Release { trace } => {
                let trace = recent(&self.traces, *trace)?;
                self.runtime.release(trace).ok()?;
            }
            Act::Divide { mesh, parts } => {
                let mesh = recent(&self.meshes, *mesh)?;
                let grid = self.runtime.grid();
                let part = |index: u16| SubDevice {
                    cores: CoreRanges::of(CoreRange {
                        x_first: index * 4,
                        y_first: 0,
                        x_last: index * 4 + 3,
                        y_last: grid.y - 1,
                    }),
                    local_l1: 0,
                };
                let parts: Vec<SubDevice> = (0..*parts).map(part).collect();
                self.runtime.load_sub_devices(mesh, &parts).ok()?;
            }
            Act::Compare { mesh } => {
                let mesh = recent(&self.meshes, *mesh)?;
                self.runtime.report_statistics(mesh).ok()?;
            }
        }
        Some(())
    }

    fn compare(&mut self) {
        let view = self.account.view();
        assert_eq!(view.anomalies.total(), 0);
        let counts = *self.runtime.counts();
        let dispatches: u64 = view.devices.iter().map(|each| each.caches.dispatches).sum();
        assert_eq!(dispatches, counts.dispatches);
        let rings = (counts.ring_wraps, counts.ring_stalls);
        let geometry = view.geometry();
        let facts = self.account.facts();
        for mesh in self.runtime.open_meshes() {
            let handle = self.runtime.mesh_handle(mesh);
            let known = |each: &ttmem_ledger::Mesh| {
                // Parts of a mesh that programs run on have its handle and no allocator.
                Some(each.handle) == handle && each.allocators[0].capacity.is_some()
            };
            let slot = facts.meshes.iter().position(known);
            let slot = slot.expect("an open mesh is known");
            for class in CLASSES {
                let statistics = self.runtime.statistics(mesh, class);
                let statistics = statistics.expect("it is open");
                if statistics.total == 0 {
                    continue;
                }
                let allocator = &facts.meshes[slot].allocators[class.index()];
                assert_eq!(allocator.per_bank_bytes, statistics.allocated, "{class:?}");
                let place = geometry
                    .allocators
                    .iter()
                    .find(|each| usize::try_from(each.mesh) == Ok(slot) && each.class == class);
                let largest = place.and_then(|place| place.largest_free_bytes);
                assert_eq!(largest, Some(statistics.largest_free), "{class:?}");
            }
        }
        assert_eq!(self.account.wraps_and_stalls(), rings);
    }
}

/// Adds what fits; what the program refuses is left out.
fn fill(program: &mut Program, kernels: &[AKernel], cbs: &[ACb]) {
    for each in kernels {
        let source = format!("kernel_{}.cpp", each.name);
        let ethernet = CoreRanges::of(CoreRange {
            x_first: 0,
            y_first: 0,
            x_last: 0,
            y_last: each.side,
        });
        let grid = CoreRanges::grid(each.side, each.side);
        let spec = match each.core_type {
            0 => KernelSpec::ethernet(&source, CoreType::ActiveEth, ethernet),
            1 => KernelSpec::ethernet(&source, CoreType::IdleEth, ethernet),
            2 | 3 => KernelSpec::compute(&source, grid),
            4 => KernelSpec::writer(&source, grid),
            _most => KernelSpec::reader(&source, grid),
        };
        let spec = spec.with_text_bytes(each.text).with_args(each.args, 1);
        program.add_kernel(spec).ok();
    }
    for each in cbs {
        let cores = CoreRanges::grid(each.side, each.side);
        let spec = CbSpec::local(each.index, cores, each.pages * 2048, 2048);
        let place = if each.global {
            CbPlace::Global {
                address: 1_200_000,
                bank_bytes: 200_000,
            }
        } else {
            CbPlace::Local
        };
        program.add_cb(CbSpec { place, ..spec }).ok();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_account_follows_whatever_is_called(
        board in 0..BOARDS.len(),
        slow in prop::bool::weighted(0.2),
        mock in prop::bool::weighted(0.1),
        regions in any::<bool>(),
        acts in prop::collection::vec(act(), 1..80),
    ) {
        let mut options = RuntimeOptions::of(BOARDS[board]);
        if slow {
            options = options.slow();
        }
        if mock {
            options.target = Target::Mock;
        }
        if regions {
            options.l1_small_size = 32_768;
            options.trace_region_size = 300_000;
        }
        let mut session = Session::new(options);
        let (rows, columns) = ttmem_model::board::whole_mesh(BOARDS[board]);
        session.perform(&Act::Open { rows, columns });
        for act in &acts {
            session.perform(act);
            session.compare();
        }
        session.runtime.close();
        session.account.assert_nothing_left();
        let facts = session.account.facts();
        prop_assert!(facts.config_rings.is_empty());
        prop_assert!(facts.prefetchers.is_empty());
    }
}
