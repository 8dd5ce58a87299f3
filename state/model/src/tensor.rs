//! Tensors as far as memory knows them: shape, data type, layout, and the buffer they need.
//!
//! Owns the way from a shape to pages and shards: padding to tiles, rows as
//! pages, one shard for each core of a grid. The operations layer describes its
//! operands with it; nothing here is allocated.

use ttmem_event::catalogue::Grid;
use ttmem_event::core::GRID_SIDE;
use ttmem_event::{Class, CoreSet, Layout};

use crate::buffer::{BufferSpec, Shards};

/// Rows and columns of a tile.
pub const TILE_SIDE: u64 = 32;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// Two bytes.
    Bfloat16,
    /// One byte, and an exponent for every 16 elements.
    Bfloat8B,
    /// Half a byte, and an exponent for every 16 elements.
    Bfloat4B,
    /// Four bytes.
    Float32,
    /// Four bytes.
    Uint32,
    /// Four bytes.
    Int32,
    /// Two bytes.
    Uint16,
    Uint8,
}

/// In which order elements lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileLayout {
    /// Tiles of 32 × 32, one to a page.
    Tile,
    /// Rows, one to a page.
    RowMajor,
}

/// Along which dimension a tensor is cut into shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shard {
    Height,
    Width,
    /// Rows over the rows of cores, columns over their columns.
    Block,
}

/// How a tensor is cut, and for which cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sharding {
    pub shard: Shard,
    /// The cores: columns × rows at the origin.
    pub grid: Grid,
}

/// A tensor on a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    pub data_type: DataType,
    /// Their order.
    pub layout: TileLayout,
    pub class: Class,
    /// Its shards; `None` if it is interleaved.
    pub sharding: Option<Sharding>,
}

/// Why there is no buffer for a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// A dimension is 0.
    #[error("tensor of shape {shape:?} has no elements")]
    Empty { shape: Vec<u64> },
    /// Its bytes do not fit into 64 bits.
    #[error("tensor of shape {shape:?} is larger than any memory")]
    TooLarge { shape: Vec<u64> },
    /// Block floats share their exponents within a tile and do not come in rows.
    #[error("{} exists in tiles only, not row-major", .data_type.name())]
    RowMajorBlockFloat { data_type: DataType },
    /// There are no such cores.
    #[error("cannot shard on {grid} cores")]
    Grid { grid: Grid },
}

/// The names of a fixed set of values, as ttnn spells them.
macro_rules! names {
    ($($name:ident { $($variant:ident $text:literal,)* })*) => {$(
        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name, as ttnn spells it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The value of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    )*};
}

names! {
    DataType {
        Bfloat16 "bfloat16",
        Bfloat8B "bfloat8_b",
        Bfloat4B "bfloat4_b",
        Float32 "float32",
        Uint32 "uint32",
        Int32 "int32",
        Uint16 "uint16",
        Uint8 "uint8",
    }

    TileLayout {
        Tile "tile",
        RowMajor "row_major",
    }

    Shard {
        Height "height",
        Width "width",
        Block "block",
    }
}

impl DataType {
    /// Bytes of a tile, its shared exponents included.
    #[must_use]
    pub const fn tile_bytes(self) -> u64 {
        const ELEMENTS: u64 = TILE_SIDE * TILE_SIDE;
        /// One byte for every 16 elements.
        const EXPONENTS: u64 = ELEMENTS / 16;
        match self {
            Self::Bfloat8B => ELEMENTS + EXPONENTS,
            Self::Bfloat4B => ELEMENTS / 2 + EXPONENTS,
            Self::Float32 | Self::Uint32 | Self::Int32 => 4 * ELEMENTS,
            Self::Bfloat16 | Self::Uint16 => 2 * ELEMENTS,
            Self::Uint8 => ELEMENTS,
        }
    }

    /// Bytes of an element in a row; `None` for block floats.
    #[must_use]
    pub const fn element_bytes(self) -> Option<u64> {
        match self {
            Self::Float32 | Self::Uint32 | Self::Int32 => Some(4),
            Self::Bfloat16 | Self::Uint16 => Some(2),
            Self::Uint8 => Some(1),
            Self::Bfloat8B | Self::Bfloat4B => None,
        }
    }
}

impl TileLayout {
    /// What both sides of a matrix are padded to.
    const fn unit(self) -> u64 {
        match self {
            Self::Tile => TILE_SIDE,
            Self::RowMajor => 1,
        }
    }
}

impl Shard {
    const fn layout(self) -> Layout {
        match self {
            Self::Height => Layout::HeightSharded,
            Self::Width => Layout::WidthSharded,
            Self::Block => Layout::BlockSharded,
        }
    }
}

impl Sharding {
    /// Into how many parts the height and the width are cut.
    fn parts(self) -> (u64, u64) {
        let Grid { x, y } = self.grid;
        match self.shard {
            Shard::Height => (self.grid.cores().into(), 1),
            Shard::Width => (1, self.grid.cores().into()),
            Shard::Block => (y.into(), x.into()),
        }
    }

    /// The cores that hold `down` × `across` shards, which may be fewer than the grid has.
    fn cores_with_data(self, down: u64, across: u64) -> CoreSet {
        // Both are bounded by the parts of the grid, whose sides are 16 bits wide.
        let narrow = |count: u64| u16::try_from(count).unwrap_or(u16::MAX);
        if self.shard == Shard::Block {
            return CoreSet::grid(narrow(across), narrow(down));
        }
        // Shards go to the cores row by row; the last row may be used in part.
        let (shards, columns) = (down * across, u64::from(self.grid.x));
        let full_rows = narrow(shards / columns);
        let mut cores = CoreSet::grid(self.grid.x, full_rows);
        cores.insert_all(&CoreSet::grid(
            narrow(shards % columns),
            full_rows.saturating_add(1),
        ));
        cores
    }
}

/// A matrix: what remains of a tensor's dimensions in memory.
#[derive(Clone, Copy)]
struct Matrix {
    height: u64,
    width: u64,
}

const TILE: Matrix = Matrix {
    height: TILE_SIDE,
    width: TILE_SIDE,
};

impl Matrix {
    /// How many pages of that shape it has in both directions.
    fn in_units_of(self, unit: Self) -> Self {
        Self {
            height: self.height.div_ceil(unit.height),
            width: self.width.div_ceil(unit.width),
        }
    }

    fn area(self) -> Option<u64> {
        self.height.checked_mul(self.width)
    }
}

impl TensorSpec {
    /// An interleaved tensor in tiles.
    #[must_use]
    pub fn tiled(shape: &[u64], data_type: DataType, class: Class) -> Self {
        Self {
            shape: shape.to_vec(),
            data_type,
            layout: TileLayout::Tile,
            class,
            sharding: None,
        }
    }

    /// An interleaved tensor in rows.
    #[must_use]
    pub fn row_major(shape: &[u64], data_type: DataType, class: Class) -> Self {
        Self {
            layout: TileLayout::RowMajor,
            ..Self::tiled(shape, data_type, class)
        }
    }

    /// The same, cut into shards for a grid of cores.
    #[must_use]
    pub fn sharded(self, shard: Shard, grid: Grid) -> Self {
        Self {
            sharding: Some(Sharding { shard, grid }),
            ..self
        }
    }

    /// The buffer the tensor needs on each chip.
    ///
    /// A page is a tile or a row; rows of a width- or block-sharded tensor are
    /// cut at the edge of the shard. A shard is an equal part of the padded
    /// tensor, in whole tiles; cores for which nothing remains hold no shard.
    ///
    /// # Errors
    /// When the tensor is empty or too large, when its data type has no rows, or
    /// when there is no such grid.
    pub fn buffer(&self) -> Result<BufferSpec, TensorError> {
        if self.shape.contains(&0) {
            return Err(TensorError::Empty {
                shape: self.shape.clone(),
            });
        }
        let element = self.data_type.element_bytes();
        if self.layout == TileLayout::RowMajor && element.is_none() {
            return Err(TensorError::RowMajorBlockFloat {
                data_type: self.data_type,
            });
        }
        if let Some(Sharding { grid, .. }) = self.sharding {
            let sides = 1..=GRID_SIDE;
            if !sides.contains(&grid.x) || !sides.contains(&grid.y) {
                return Err(TensorError::Grid { grid });
            }
        }
        self.checked_buffer().ok_or_else(|| TensorError::TooLarge {
            shape: self.shape.clone(),
        })
    }

    /// The buffer of a tensor that is well formed; `None` on overflow.
    fn checked_buffer(&self) -> Option<BufferSpec> {
        let matrix = matrix(&self.padded_shape())?;
        let shard = match self.sharding {
            Some(sharding) => self.shard_of(matrix, sharding)?,
            None => matrix,
        };
        let (unit, page) = match self.layout {
            TileLayout::Tile => (TILE, self.data_type.tile_bytes()),
            TileLayout::RowMajor => (
                Matrix {
                    height: 1,
                    width: shard.width,
                },
                shard.width.checked_mul(self.data_type.element_bytes()?)?,
            ),
        };
        let pages = matrix.in_units_of(unit).area()?;
        let mut buffer = BufferSpec::interleaved(self.class, pages.checked_mul(page)?, page);
        if let Some(sharding) = self.sharding {
            let shards = matrix.in_units_of(shard);
            buffer.layout = sharding.shard.layout();
            buffer.shards = Some(Shards {
                cores: sharding.cores_with_data(shards.height, shards.width),
                pages_per_shard: shard.in_units_of(unit).area()?,
            });
        }
        Some(buffer)
    }

    /// The part of the matrix that one core gets.
    fn shard_of(&self, matrix: Matrix, sharding: Sharding) -> Option<Matrix> {
        let (down, across) = sharding.parts();
        let part = |side: u64, parts| {
            side.div_ceil(parts)
                .checked_next_multiple_of(self.layout.unit())
        };
        Some(Matrix {
            height: part(matrix.height, down)?,
            width: part(matrix.width, across)?,
        })
    }

    /// How many tiles it has; for a row-major tensor, how many it would have. Saturates.
    #[must_use]
    pub fn tiles(&self) -> u64 {
        matrix(&padded(&self.shape, TileLayout::Tile))
            .and_then(|matrix| matrix.in_units_of(TILE).area())
            .unwrap_or(u64::MAX)
    }

    /// The shape as it lies in memory: of tiles, the last two dimensions are padded. Saturates.
    #[must_use]
    pub fn padded_shape(&self) -> Vec<u64> {
        padded(&self.shape, self.layout)
    }
}

fn padded(shape: &[u64], layout: TileLayout) -> Vec<u64> {
    let mut shape = shape.to_vec();
    // A vector is the first row of its tiles.
    while layout == TileLayout::Tile && shape.len() < 2 {
        shape.insert(0, 1);
    }
    for dim in shape.iter_mut().rev().take(2) {
        *dim = dim
            .checked_next_multiple_of(layout.unit())
            .unwrap_or(u64::MAX);
    }
    shape
}

/// All dimensions but the last as height; `None` on overflow.
fn matrix(shape: &[u64]) -> Option<Matrix> {
    let (width, outer) = shape.split_last().unwrap_or((&1, &[]));
    let height = outer
        .iter()
        .try_fold(1, |h: u64, dim| h.checked_mul(*dim))?;
    Some(Matrix {
        height,
        width: *width,
    })
}

#[cfg(test)]
mod tests;
