//! What an operation is built for: operands as kernels see them, attributes, and the chip.

use crate::jit::StableHash;
use crate::program::CoreRanges;
use crate::tensor::{DataType, TILE_SIDE, TensorError, TensorSpec};
use ttmem_event::catalogue::Grid;
use ttmem_event::{Class, CoreRange};

/// An operand: its tensor, pages and shards.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    pub(super) spec: &'a TensorSpec,
    /// Bytes of a page: a tile or a row.
    pub(super) page: u64,
    /// Its shards, if it lies in L1 in shards: then kernels work on it in place.
    pub(super) shards: Option<ShardView>,
}

/// The shards of an operand in L1.
#[derive(Clone, Debug)]
pub(super) struct ShardView {
    pub(super) cores: CoreRanges,
    pub(super) pages: u64,
}

impl<'a> View<'a> {
    pub(super) fn of(spec: &'a TensorSpec) -> Result<Self, TensorError> {
        let buffer = spec.buffer()?;
        let shards = buffer.shards.filter(|_shards| spec.class == Class::L1);
        Ok(Self {
            spec,
            page: buffer.page,
            shards: shards.map(|shards| ShardView {
                cores: CoreRanges::from_ranges(shards.cores.ranges()).unwrap_or_default(),
                pages: shards.pages_per_shard,
            }),
        })
    }

    /// A dimension from the end: 0 is the last; 1 where the tensor has none.
    pub(super) fn dim(&self, from_end: usize) -> u64 {
        self.spec
            .shape
            .iter()
            .rev()
            .nth(from_end)
            .copied()
            .unwrap_or(1)
    }

    /// All dimensions but the last.
    pub(super) fn rows(&self) -> u64 {
        let outer = self.spec.shape.iter().rev().skip(1);
        outer.fold(1, |rows, dim| rows.saturating_mul(*dim))
    }

    /// Rows of tiles, over all dimensions but the last.
    pub(super) fn tiles_high(&self) -> u64 {
        let outer = self.spec.shape.iter().rev().skip(2);
        outer.fold(self.dim(1).div_ceil(TILE_SIDE), |high, dim| {
            high.saturating_mul(*dim)
        })
    }

    pub(super) fn tiles_wide(&self) -> u64 {
        self.dim(0).div_ceil(TILE_SIDE)
    }

    pub(super) fn tiles(&self) -> u64 {
        self.tiles_high().saturating_mul(self.tiles_wide())
    }

    pub(super) const fn tile_bytes(&self) -> u64 {
        self.spec.data_type.tile_bytes()
    }

    /// Bytes of a row as it comes, in rows.
    pub(super) fn row_bytes(&self) -> u64 {
        let element = self.spec.data_type.element_bytes();
        // Block floats are unpacked to two bytes on their way into rows.
        let element = element.unwrap_or(2);
        self.dim(0).saturating_mul(element)
    }
}

/// What the chip offers to a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chip {
    pub(super) grid: Grid,
    /// L1 of each core that buffers and storage share.
    pub(super) l1_bytes: u64,
    /// Whether it was opened with L1_SMALL.
    pub(super) has_l1_small: bool,
}

/// Which device of how many a program is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) row: u16,
    pub(super) column: u16,
    pub(super) rows: u16,
    pub(super) columns: u16,
}

/// One build of an operation.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) operation: &'static str,
    pub(super) inputs: Vec<View<'a>>,
    pub(super) output: Option<View<'a>>,
    pub(super) attributes: &'a [(&'a str, u64)],
    pub(super) chip: Chip,
    pub(super) seat: Seat,
}

impl<'a> Job<'a> {
    /// The first input, which every operation has: [`Operation`](super::operations::Operation)
    /// refuses calls with fewer inputs than it names before anything is built.
    pub(super) fn first(&self) -> &View<'a> {
        &self.inputs[0]
    }

    /// The second input, or the first of an operation that takes one.
    pub(super) fn second(&self) -> &View<'a> {
        self.inputs.get(1).unwrap_or_else(|| self.first())
    }

    /// What it returns; of an operation in place, what it changes.
    pub(super) fn result(&self) -> &View<'a> {
        self.output.as_ref().unwrap_or_else(|| self.first())
    }

    /// An attribute, or what stands for it.
    pub(super) fn attribute(&self, name: &str, default: u64) -> u64 {
        let mut given = self.attributes.iter();
        given
            .find(|(given, _value)| *given == name)
            .map_or(default, |(_name, value)| *value)
    }

    /// What a kernel source that serves several operations is told: another one, another binary.
    pub(super) fn code(&self) -> u64 {
        let mut hash = StableHash::new();
        hash.text(self.operation);
        hash.value()
    }

    /// The cores of the first operand with shards, the output before the inputs.
    pub(super) fn shard_cores(&self) -> Option<CoreRanges> {
        let operands = self.output.iter().chain(&self.inputs);
        let shards = operands.filter_map(|operand| operand.shards.as_ref());
        shards.map(|shards| shards.cores.clone()).next()
    }

    /// Where so many units of work go: to shards if there are any, else spread over the chip.
    pub(super) fn cores(&self, units: u64) -> CoreRanges {
        self.shard_cores()
            .unwrap_or_else(|| spread(units, self.chip.grid))
    }

    pub(super) fn all_cores(&self) -> CoreRanges {
        CoreRanges::grid(self.chip.grid.x, self.chip.grid.y)
    }

    /// What an operation may plan for its storage: half of L1 is left to tensors.
    pub(super) const fn budget(&self) -> u64 {
        self.chip.l1_bytes / 2
    }

    /// As many of `pages` as the budget has room for in `copies`, at least one.
    pub(super) fn fit(&self, pages: u64, page: u64, copies: u64) -> u64 {
        let each = page.saturating_mul(copies).max(1);
        pages.min(self.budget() / each).max(1)
    }
}

/// The type that sums are kept in: block floats are unpacked for them.
pub(super) const fn intermediate(data_type: DataType) -> DataType {
    match data_type {
        DataType::Bfloat8B | DataType::Bfloat4B => DataType::Bfloat16,
        other => other,
    }
}

/// Cores for so many units of work, column after column, as ttnn splits work.
pub(super) fn spread(units: u64, grid: Grid) -> CoreRanges {
    let all = u64::from(grid.cores());
    // Not more than the grid has, which is counted in 16 bits each way.
    let narrow = |count: u64| u16::try_from(count).unwrap_or(u16::MAX);
    let cores = units.clamp(1, all.max(1));
    let rows = u64::from(grid.y).max(1);
    let (columns, rest) = (narrow(cores / rows), narrow(cores % rows));
    let full = CoreRange::grid(columns, grid.y);
    let last = CoreRange {
        x_first: columns,
        y_first: 0,
        x_last: columns,
        y_last: rest.saturating_sub(1),
    };
    let ranges = [(columns > 0, full), (rest > 0, last)];
    let used = ranges.into_iter().filter(|(used, _range)| *used);
    CoreRanges::from_ranges(used.map(|(_used, range)| range)).unwrap_or_default()
}

/// The largest divisor of `number` up to `limit`.
pub(super) fn divisor_up_to(number: u64, limit: u64) -> u64 {
    let candidates = 1..=limit.min(number);
    candidates
        .rev()
        .find(|divisor| number.is_multiple_of(*divisor))
        .unwrap_or(1)
}
