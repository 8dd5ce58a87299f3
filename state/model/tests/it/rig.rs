//! An open model with its account, and the programs that the tests run on it.

use crate::account::Account;
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{CacheResult, Class, CoreRange, EventKind};
use ttmem_model::buffer::BufferSpec;
use ttmem_model::program::{CbPlace, CbSpec, CoreRanges, KernelSpec, Program};
use ttmem_model::runtime::{
    Buffer, DeviceRange, Mesh, Run, Runtime, RuntimeError, RuntimeOptions, Workload,
};

/// A tile of bfloat16, the page of most buffers.
pub(crate) const TILE: u64 = 2048;

/// Where the allocator's part of a Wormhole's L1 begins, and with it circular buffers.
pub(crate) const L1_BASE: u64 = 105_824;

/// Bytes of text that a core of [`Rig::matmul`] runs: a reader, a writer, three compute binaries.
pub(crate) const MATMUL_TEXT: u64 = 3_000 + 2_600 + 9_000;

/// Bytes of circular buffers on each of its cores: two inputs and an output of two tiles.
pub(crate) const MATMUL_CBS: u64 = 3 * 2 * TILE;

/// A runtime with one open mesh.
pub(crate) struct Rig {
    pub(crate) account: Account,
    pub(crate) runtime: Runtime,
    pub(crate) mesh: Mesh,
}

impl Rig {
    pub(crate) fn open(options: RuntimeOptions, rows: u16, columns: u16) -> Self {
        let account = Account::new();
        let mut runtime = account.runtime(options);
        let mesh = runtime.open_mesh(rows, columns);
        Self {
            account,
            runtime,
            mesh: mesh.expect("the board has such a mesh"),
        }
    }

    pub(crate) fn n150() -> Self {
        Self::open(RuntimeOptions::of(BoardKind::N150), 1, 1)
    }

    pub(crate) fn slow_n150() -> Self {
        Self::open(RuntimeOptions::of(BoardKind::N150).slow(), 1, 1)
    }

    /// The machine of the notes' figures: four chips of a Galaxy, with the fabric.
    pub(crate) fn dp_4() -> Self {
        let options = RuntimeOptions {
            fabric: true,
            ..RuntimeOptions::of(BoardKind::GalaxyWormhole)
        };
        Self::open(options, 1, 4)
    }

    pub(crate) fn slow_dp_4() -> Self {
        let options = RuntimeOptions::of(BoardKind::GalaxyWormhole);
        Self::open(options.slow(), 1, 4)
    }

    /// One n150 by fast, one by slow dispatch.
    pub(crate) fn on_both_paths() -> [Self; 2] {
        [Self::n150(), Self::slow_n150()]
    }

    /// Four devices by fast, four by slow dispatch.
    pub(crate) fn dp_4_on_both_paths() -> [Self; 2] {
        [Self::dp_4(), Self::slow_dp_4()]
    }

    /// A program that `fill` adds to.
    pub(crate) fn program(&mut self, name: &str, fill: impl FnOnce(&mut Program)) -> Program {
        let mut program = self.runtime.new_program(name);
        fill(&mut program);
        program
    }

    /// A workload of one program on every device of the mesh.
    pub(crate) fn workload(&mut self, program: Program) -> Workload {
        self.workload_of(vec![(DeviceRange::All, program)])
    }

    pub(crate) fn workload_of(&mut self, programs: Vec<(DeviceRange, Program)>) -> Workload {
        let workload = self.runtime.new_workload(self.mesh, programs);
        workload.expect("the programs lie in the mesh")
    }

    /// A matmul on some cores of every device, not run yet.
    pub(crate) fn matmul(&mut self, cores: &CoreRanges) -> Workload {
        let program = self.program("matmul", |program| fill_matmul(program, cores));
        self.workload(program)
    }

    /// A program of one kernel, on every device: `text` bytes on each of `cores`.
    pub(crate) fn one_kernel(&mut self, name: &str, cores: &CoreRanges, text: u64) -> Workload {
        let program = self.program(name, |program| {
            add_reader(program, &format!("{name}.cpp"), cores, text);
        });
        self.workload(program)
    }

    /// Runs a workload that was built for this run.
    pub(crate) fn run(&mut self, workload: Workload) {
        let ran = self.try_run(workload, CacheResult::Miss);
        ran.expect("there is room for the workload");
    }

    /// Runs a workload that the program cache had.
    pub(crate) fn run_cached(&mut self, workload: Workload) {
        let ran = self.try_run(workload, CacheResult::Hit);
        ran.expect("there is room for the workload");
    }

    pub(crate) fn try_run(
        &mut self,
        workload: Workload,
        program_cache: CacheResult,
    ) -> Result<(), RuntimeError> {
        let run = Run {
            operation: "ttnn.matmul",
            program_cache,
        };
        self.runtime.enqueue(workload, &run)
    }

    pub(crate) fn destroy(&mut self, workload: Workload) {
        let destroyed = self.runtime.destroy(workload);
        destroyed.expect("it was not destroyed yet");
    }

    pub(crate) fn try_allocate(&mut self, spec: &BufferSpec) -> Result<Buffer, RuntimeError> {
        self.runtime.allocate(self.mesh, spec, "ttnn.zeros")
    }

    /// A buffer over all banks of the mesh.
    pub(crate) fn interleaved(&mut self, class: Class, tiles: u64) -> Buffer {
        let spec = BufferSpec::interleaved(class, tiles * TILE, TILE);
        self.try_allocate(&spec).expect("there is room")
    }

    /// An L1 buffer with so many bytes on each of some cores.
    pub(crate) fn sharded(&mut self, cores: &CoreRanges, per_core: u64) -> Buffer {
        let spec = BufferSpec::sharded(Class::L1, cores.set(), per_core, TILE);
        self.try_allocate(&spec).expect("there is room")
    }

    pub(crate) fn address(&self, buffer: Buffer) -> u64 {
        self.runtime.address(buffer).expect("it is live")
    }

    /// Where a circular buffer inside of an L1 buffer lies.
    pub(crate) fn inside(&self, buffer: Buffer) -> CbPlace {
        CbPlace::Global {
            address: self.address(buffer),
            bank_bytes: self.runtime.per_bank(buffer).expect("it is live"),
        }
    }
}

/// `columns` × `rows` cores from the origin.
pub(crate) fn grid(columns: u16, rows: u16) -> CoreRanges {
    CoreRanges::grid(columns, rows)
}

/// Ethernet cores by their channels: they stand one below the other in column 0.
pub(crate) fn ethernet(channels: &[u16]) -> CoreRanges {
    let cores = channels.iter().map(|channel| CoreRange {
        x_first: 0,
        y_first: *channel,
        x_last: 0,
        y_last: *channel,
    });
    CoreRanges::from_ranges(cores).expect("single cores are ranges")
}

pub(crate) fn add_reader(program: &mut Program, source: &str, cores: &CoreRanges, text: u64) {
    let kernel = KernelSpec::reader(source, cores.clone()).with_text_bytes(text);
    program
        .add_kernel(kernel)
        .expect("its processor is free there");
}

/// A circular buffer of whole tiles.
pub(crate) fn add_cb(program: &mut Program, index: u8, cores: &CoreRanges, size: u64) -> u32 {
    let cb = CbSpec::local(index, cores.clone(), size, TILE);
    program.add_cb(cb).expect("its index is free there")
}

/// The same inside of an L1 buffer.
pub(crate) fn add_global_cb(
    program: &mut Program,
    index: u8,
    cores: &CoreRanges,
    size: u64,
    place: CbPlace,
) -> u32 {
    let cb = CbSpec {
        place,
        ..CbSpec::local(index, cores.clone(), size, TILE)
    };
    program.add_cb(cb).expect("its index is free there")
}

/// Reader, writer and compute kernel, two inputs and an output.
pub(crate) fn fill_matmul(program: &mut Program, cores: &CoreRanges) {
    add_reader(program, "reader_bmm.cpp", cores, 3_000);
    let writer = KernelSpec::writer("writer_bmm.cpp", cores.clone()).with_text_bytes(2_600);
    let compute = KernelSpec::compute("bmm.cpp", cores.clone()).with_text_bytes(9_000);
    for kernel in [writer, compute] {
        program
            .add_kernel(kernel)
            .expect("its processor is free there");
    }
    for index in [0, 1, 16] {
        add_cb(program, index, cores, 2 * TILE);
    }
}

/// How many events of a kind there are.
pub(crate) fn count(events: &[EventKind], name: &str) -> usize {
    events.iter().filter(|event| event.name() == name).count()
}

/// The kinds of events in order, runs of one kind as one.
pub(crate) fn steps(events: &[EventKind]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = events.iter().map(EventKind::name).collect();
    names.dedup();
    names
}
