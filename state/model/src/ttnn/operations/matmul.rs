//! Matrix multiplication: blocks of both operands are multicast, each core owns a block of output.

use super::super::draft::{Draft, Operand};
use super::super::job::{Job, divisor_up_to, intermediate, spread};
use super::{Body, OUTPUT_INDEX, Operation, Output, shaped};
use crate::program::{CoreRanges, KernelSpec};
use crate::tensor::TensorSpec;
use ttmem_event::{Class, CoreSet};

pub(super) static OPERATIONS: &[Operation] = &[multiply("matmul"), multiply("linear")];

const fn multiply(name: &'static str) -> Operation {
    Operation::new(
        name,
        "MatmulDeviceOperation",
        2..=3,
        Output::Inferred(product),
        Body::Drawn(draw),
    )
    .with(&["single_core"])
}

/// Rows of the first, columns of the second, in DRAM: ttnn's default for matrices.
fn product(job: &Job<'_>) -> TensorSpec {
    let mut shape = job.first().spec.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = job.second().dim(0);
    }
    TensorSpec {
        class: Class::Dram,
        ..shaped(job, shape)
    }
}

/// One side this many times the other: then one operand is multicast to all cores.
const NARROW: u64 = 8;

/// Blocks of the shared dimension are at most so many tiles.
const LONGEST_BLOCK: u64 = 64;

/// Of a narrow matrix the shared dimension goes in short blocks, as the wide one fills the L1.
const NARROW_BLOCK: u64 = 4;

/// Cores, and tiles that each has at a time.
#[derive(Clone, Debug)]
struct Blocks {
    cores: CoreRanges,
    /// Tiles down and across of the output block of a core.
    high: u64,
    wide: u64,
    /// Tiles of the shared dimension at a time.
    deep: u64,
    /// Whether both operands are multicast along rows and columns of cores.
    two_dimensional: bool,
}

impl Blocks {
    fn of(job: &Job<'_>) -> Self {
        let grid = job.chip.grid;
        let (high, wide) = (job.first().tiles_high(), job.second().tiles_wide());
        let shared = job.first().tiles_wide();
        let shards = job.shard_cores();
        let shard_cores = shards.as_ref().map(|cores| cores.set().len());
        let all = u64::from(shard_cores.unwrap_or_else(|| grid.cores())).max(1);
        let narrow = |count: u64| u16::try_from(count).unwrap_or(u16::MAX);
        let (deep, blocks) = if wide >= high.saturating_mul(NARROW) {
            let each = wide.div_ceil(all);
            (
                NARROW_BLOCK,
                (spread(wide.div_ceil(each), grid), high, each),
            )
        } else if high >= wide.saturating_mul(NARROW) {
            let each = high.div_ceil(all);
            (
                NARROW_BLOCK,
                (spread(high.div_ceil(each), grid), each, wide),
            )
        } else {
            let (rows, columns) = (u64::from(grid.y).max(1), u64::from(grid.x).max(1));
            let (down, across) = (high.div_ceil(rows), wide.div_ceil(columns));
            let used = |tiles: u64, each: u64| narrow(tiles.div_ceil(each));
            let cores = CoreRanges::grid(used(wide, across), used(high, down));
            (shared.div_ceil(columns), (cores, down, across))
        };
        let (cores, down, across) = blocks;
        Self {
            two_dimensional: wide < high.saturating_mul(NARROW)
                && high < wide.saturating_mul(NARROW),
            cores: shards.unwrap_or(cores),
            high: down,
            wide: across,
            deep: divisor_up_to(shared, deep.min(LONGEST_BLOCK)),
        }
    }

    /// What the blocks take of each core, both operands twice.
    fn bytes(&self, job: &Job<'_>) -> u64 {
        let of = |tiles_down: u64, tiles_across: u64, tile: u64| {
            tiles_down.saturating_mul(tiles_across).saturating_mul(tile)
        };
        let twice = of(self.high, self.deep, job.first().tile_bytes()).saturating_add(of(
            self.deep,
            self.wide,
            job.second().tile_bytes(),
        ));
        let sums = intermediate(job.result().spec.data_type).tile_bytes();
        let output = job.result().tile_bytes().saturating_add(sums);
        let output = of(self.high, self.wide, output);
        twice.saturating_mul(2).saturating_add(output)
    }

    /// Makes the blocks smaller until the budget has room: first shallow, then narrow and low.
    fn shrink(&mut self, job: &Job<'_>) {
        while self.bytes(job) > job.budget() {
            if self.deep > 2 {
                self.deep = divisor_up_to(self.deep, self.deep / 2);
            } else if self.wide >= self.high && self.wide > 1 {
                self.wide = self.wide.div_ceil(2);
            } else if self.high > 1 {
                self.high = self.high.div_ceil(2);
            } else if self.deep > 1 {
                self.deep = 1;
            } else {
                break;
            }
        }
    }
}

fn draw(job: &Job<'_>) -> Draft {
    if job.attribute("single_core", 0) > 0 {
        return draw_single_core(job);
    }
    let mut blocks = Blocks::of(job);
    blocks.shrink(job);
    let Blocks {
        high, wide, deep, ..
    } = blocks;
    let mut draft = Draft::dataflow(blocks.cores.clone());
    let twice = |tiles: u64| tiles.saturating_mul(2);
    draft.operand(
        0,
        Operand::Input(0),
        job.first(),
        twice(high.saturating_mul(deep)),
    );
    draft.operand(
        1,
        Operand::Input(1),
        job.second(),
        twice(wide.saturating_mul(deep)),
    );
    let output = high.saturating_mul(wide);
    draft.operand(OUTPUT_INDEX, Operand::Output, job.result(), output);
    let sums = intermediate(job.result().spec.data_type).tile_bytes();
    draft.local(24, output, sums);
    if let Some(bias) = job.inputs.get(2) {
        draft.operand(3, Operand::Input(2), bias, wide);
    }
    add_kernels(&mut draft, job, &blocks);
    draft
}

/// The smallest matrix multiplication: tile by tile on the first core.
fn draw_single_core(job: &Job<'_>) -> Draft {
    let mut draft = Draft::circular(CoreRanges::core(0, 0));
    draft.local(0, 2, job.first().tile_bytes());
    draft.local(1, 2, job.second().tile_bytes());
    draft.local(OUTPUT_INDEX, 2, job.result().tile_bytes());
    let shape = [
        job.first().tiles_high(),
        job.first().tiles_wide(),
        job.second().tiles_wide(),
    ];
    draft.reader("reader_single_core_mm.cpp", &[1, 1], 5);
    draft.writer("writer_single_core_mm.cpp", &[1], 3);
    draft.compute("mm.cpp", &shape, 0);
    draft
}

fn add_kernels(draft: &mut Draft, job: &Job<'_>, blocks: &Blocks) {
    let shape = [blocks.high, blocks.wide, blocks.deep];
    let all = blocks.cores.set();
    let columns = job.chip.grid.x;
    let (in0_senders, in1_senders) = if blocks.two_dimensional {
        (CoreSet::grid(1, job.chip.grid.y), CoreSet::grid(columns, 1))
    } else {
        (CoreSet::grid(1, 1), all)
    };
    let within = |cores: CoreSet| CoreRanges::from_ranges(cores.ranges()).unwrap_or_default();
    let halves = |senders: &CoreSet| {
        (
            within(all.intersection(senders)),
            within(all.without(senders)),
        )
    };
    let (senders, receivers) = halves(&in0_senders);
    let sender = "reader_bmm_tile_layout_in0_sender_padding.cpp";
    draft.kernel(KernelSpec::reader(sender, senders), &shape, 8);
    let receiver = "reader_bmm_tile_layout_in0_receiver.cpp";
    draft.kernel(KernelSpec::reader(receiver, receivers), &shape, 2);
    let (senders, receivers) = halves(&in1_senders);
    let sender = "reader_bmm_tile_layout_in1_sender_writer_padding.cpp";
    draft.kernel(KernelSpec::writer(sender, senders), &shape, 24);
    let receiver = "reader_bmm_tile_layout_in1_receiver_writer_padding.cpp";
    draft.kernel(KernelSpec::writer(receiver, receivers), &shape, 16);
    let bias = u64::from(job.inputs.len() > 2);
    let compute = "bmm_large_block_zm_fused_bias_activation.cpp";
    draft.compute(compute, &[shape[0], shape[1], shape[2], bias], 0);
    draft.semaphores = 4;
}
