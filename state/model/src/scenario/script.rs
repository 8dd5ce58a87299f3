//! A scenario as it is played: the content of a file, read and checked.
//!
//! Owns the types that the reader makes and the player walks. Blocks and traces are
//! named, not linked; that they exist, that no block runs itself, and that every
//! name in an expression has a value is checked before a `Scenario` exists.
//!
//! What steps mean beyond their fields: a name given to a second tensor lets go of
//! the first, after the step, as an assignment in Python does; a block runs in the
//! same space of names as the step that runs it.

use std::collections::BTreeMap;

use ttmem_event::Class;
use ttmem_event::catalogue::{BoardKind, ChipAttachment, DispatchCores, Grid};

use super::expression::{EvaluateError, Lookup, NameTemplate, Number};
use super::value::Declared;
use crate::board::whole_mesh;
use crate::runtime::FailureKind;
use crate::tensor::{DataType, Shard, Sharding, TensorSpec, TileLayout};

/// How often one step may run a block or replay a trace.
pub const MAX_TIMES: u64 = 1_000_000;

/// Longest pause of one step.
pub const MAX_PAUSE_MILLIS: u64 = 60_000;

/// What a program does with memory, to be played on a model of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The name of the file.
    pub name: String,
    /// What it shows, in a line.
    pub about: String,
    /// Where it may run; the first is the default.
    pub boards: Vec<BoardKind>,
    /// How the devices are opened.
    pub device: DeviceSetup,
    /// The values of expressions, in an order in which each needs only those before it.
    pub values: Vec<Declared>,
    pub blocks: BTreeMap<String, Vec<Step>>,
    /// The steps that are played.
    pub steps: Vec<Step>,
    pub expect: Expect,
}

impl Scenario {
    /// The steps of a block; none if there is no such block, which no step names.
    #[must_use]
    pub fn block(&self, name: &str) -> &[Step] {
        self.blocks.get(name).map_or(&[], Vec::as_slice)
    }
}

/// How the devices are opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSetup {
    /// The mesh; all chips of the board if `None`.
    pub mesh: Option<(u16, u16)>,
    /// The meshes it is cut into, and the steps run on each; uncut if `None`.
    pub submesh: Option<(u16, u16)>,
    /// Where the runtime dispatches; the board's default if `None`.
    pub dispatch: Option<DispatchCores>,
    /// Whether linked Ethernet cores run the fabric; where the board needs it if `None`.
    pub fabric: Option<bool>,
    /// Device parameter `l1_small_size`: bytes per core.
    pub l1_small_size: u64,
    /// Device parameter `trace_region_size`: bytes over all DRAM banks.
    pub trace_region_size: u64,
}

impl DeviceSetup {
    /// Rows and columns of the mesh on that board.
    #[must_use]
    pub fn mesh_on(&self, board: BoardKind) -> (u16, u16) {
        self.mesh.unwrap_or_else(|| whole_mesh(board))
    }

    /// Rows and columns of each mesh that the steps run on.
    #[must_use]
    pub fn submesh_on(&self, board: BoardKind) -> (u16, u16) {
        self.submesh.unwrap_or(self.mesh_on(board))
    }

    /// Where the runtime dispatches on that board.
    #[must_use]
    pub fn dispatch_on(&self, board: BoardKind) -> DispatchCores {
        self.dispatch.unwrap_or(board.default_dispatch())
    }

    /// Whether linked Ethernet cores run the fabric on that board.
    ///
    /// Fast dispatch needs it to reach chips behind another one.
    #[must_use]
    pub fn fabric_on(&self, board: BoardKind) -> bool {
        self.fabric.unwrap_or_else(|| {
            self.dispatch_on(board) != DispatchCores::Slow
                && board
                    .chips()
                    .any(|chip| matches!(chip.attachment, ChipAttachment::Remote { .. }))
        })
    }
}

/// What a scenario leaves behind on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    /// Tensors that nobody gives back before the devices close, on each mesh the steps run on.
    pub leaked_buffers: Number,
}

/// One step, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The line in the file, from 1; that of `blocks_of` for a step of another file.
    pub line: usize,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates a tensor on the mesh.
    Tensor(TensorStep),
    Op(OpStep),
    Free {
        names: Vec<NameTemplate>,
    },
    /// Runs a block.
    Run {
        block: String,
        /// A value that counts the runs from 0.
        variable: Option<String>,
        /// How often; at most [`MAX_TIMES`].
        times: Number,
    },
    Pick {
        value: String,
    },
    /// Leaves a mark in the record.
    Mark {
        name: NameTemplate,
        number: Number,
    },
    /// Runs a block while a trace is captured.
    Trace {
        /// What the trace is called.
        name: String,
        /// The block.
        block: String,
    },
    Replay {
        trace: String,
        /// How often; at most [`MAX_TIMES`].
        times: Number,
    },
    Release {
        trace: String,
    },
    /// Runs a block that must end in this failure.
    Attempt {
        block: String,
        failure: FailureKind,
    },
    /// Drops every program that is kept.
    ClearProgramCache,
    Pause {
        /// How much; at most [`MAX_PAUSE_MILLIS`].
        millis: Number,
    },
}

impl Action {
    /// The word that the step begins with in a file.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Tensor(_) => "tensor",
            Self::Op(_) => "op",
            Self::Free { .. } => "free",
            Self::Run { .. } => "run",
            Self::Pick { .. } => "pick",
            Self::Mark { .. } => "mark",
            Self::Trace { .. } => "trace",
            Self::Replay { .. } => "replay",
            Self::Release { .. } => "release",
            Self::Attempt { .. } => "attempt",
            Self::ClearProgramCache => "clear_program_cache",
            Self::Pause { .. } => "pause_ms",
        }
    }

    /// The block that the step runs.
    #[must_use]
    pub fn block(&self) -> Option<&str> {
        match self {
            Self::Run { block, .. } | Self::Trace { block, .. } | Self::Attempt { block, .. } => {
                Some(block)
            }
            _ => None,
        }
    }
}

/// A tensor that a step creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorStep {
    /// What it is called from then on.
    pub name: NameTemplate,
    /// Its dimensions, outermost first.
    pub shape: Vec<Number>,
    pub data_type: DataType,
    /// Their order.
    pub layout: TileLayout,
    pub memory: Memory,
    /// The operation that creates it; the player's choice if `None`.
    pub by: Option<String>,
}

impl TensorStep {
    /// The tensor, its numbers computed.
    ///
    /// # Errors
    ///
    /// If a number has no value.
    pub fn spec(&self, lookup: &dyn Lookup) -> Result<TensorSpec, EvaluateError> {
        self.memory.spec(
            evaluate_all(&self.shape, lookup)?,
            self.data_type,
            self.layout,
            lookup,
        )
    }
}

/// An operation that a step runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpStep {
    pub operation: String,
    pub inputs: Vec<NameTemplate>,
    /// The tensor it makes; `None` for one that works in place.
    pub output: Option<OutputStep>,
    /// Numbers that change the program it builds.
    pub attributes: Vec<(String, Number)>,
}

/// The tensor that an operation makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputStep {
    /// What it is called from then on.
    pub name: NameTemplate,
    /// Its dimensions; those of the first input if `None`.
    pub shape: Option<Vec<Number>>,
    /// Its elements; those of the first input if `None`.
    pub data_type: Option<DataType>,
    /// Their order; that of the first input if `None`.
    pub layout: Option<TileLayout>,
    /// Where it lives; in DRAM if `None`.
    pub memory: Option<Memory>,
}

impl OutputStep {
    /// Whether only its name is given: then the operation decides what it makes.
    #[must_use]
    pub const fn is_inferred(&self) -> bool {
        self.shape.is_none()
            && self.data_type.is_none()
            && self.layout.is_none()
            && self.memory.is_none()
    }

    /// The tensor, its numbers computed and its gaps filled from the first input.
    ///
    /// # Errors
    ///
    /// If a number has no value.
    pub fn spec(
        &self,
        first_input: &TensorSpec,
        lookup: &dyn Lookup,
    ) -> Result<TensorSpec, EvaluateError> {
        let shape = match &self.shape {
            Some(shape) => evaluate_all(shape, lookup)?,
            None => first_input.shape.clone(),
        };
        let memory = self.memory.clone().unwrap_or_default();
        memory.spec(
            shape,
            self.data_type.unwrap_or(first_input.data_type),
            self.layout.unwrap_or(first_input.layout),
            lookup,
        )
    }
}

/// Where a tensor lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    pub class: Class,
    /// How it is cut over cores; interleaved if `None`.
    pub sharding: Option<MemorySharding>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            class: Class::Dram,
            sharding: None,
        }
    }
}

/// How a tensor is cut over cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySharding {
    pub shard: Shard,
    /// Columns and rows of cores.
    pub grid: [Number; 2],
}

impl Memory {
    fn spec(
        &self,
        shape: Vec<u64>,
        data_type: DataType,
        layout: TileLayout,
        lookup: &dyn Lookup,
    ) -> Result<TensorSpec, EvaluateError> {
        let sharding = match &self.sharding {
            None => None,
            Some(sharding) => {
                let [columns, rows] = &sharding.grid;
                Some(Sharding {
                    shard: sharding.shard,
                    grid: Grid::new(side(columns, lookup)?, side(rows, lookup)?),
                })
            }
        };
        Ok(TensorSpec {
            shape,
            data_type,
            layout,
            class: self.class,
            sharding,
        })
    }
}

fn evaluate_all(numbers: &[Number], lookup: &dyn Lookup) -> Result<Vec<u64>, EvaluateError> {
    let values = numbers.iter().map(|number| number.evaluate(lookup));
    values.collect()
}

/// A number of columns or rows, or one of them.
fn side(number: &Number, lookup: &dyn Lookup) -> Result<u16, EvaluateError> {
    let side = number.evaluate_up_to(u64::from(u16::MAX), lookup)?;
    Ok(u16::try_from(side).expect("it was compared with the largest"))
}
