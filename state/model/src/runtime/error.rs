//! What the runtime throws.

use crate::allocator::AllocateError;
use crate::program::ProgramError;
use ttmem_event::ClashKind;

/// Why a call failed; the texts are the runtime's own where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// The board cannot be opened like that.
    #[error(
        "{board} cannot dispatch on {dispatch} cores, or a region of its memory is larger than it"
    )]
    Options {
        board: &'static str,
        dispatch: &'static str,
    },
    /// The mesh does not lie on the machine.
    #[error("a mesh of {rows}x{columns} at ({row}, {column}) does not fit {parent}")]
    MeshShape {
        rows: u16,
        columns: u16,
        /// First row.
        row: u16,
        /// First column.
        column: u16,
        /// What it should have fitted.
        parent: String,
    },
    /// The mesh is not open.
    #[error("the mesh is not open")]
    MeshClosed,
    /// The buffer is not live.
    #[error("the buffer is not live")]
    BufferFreed,
    #[error("the workload is gone")]
    WorkloadGone,
    /// The trace is gone, or not in the state that the call needs.
    #[error("the trace is not {expected}")]
    TraceState { expected: &'static str },
    /// The runtime does not do this.
    #[error("{0}")]
    Refused(&'static str),
    /// A buffer found no place.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// A program cannot be.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The commands of a trace do not fit the trace region.
    #[error(
        "Creating trace buffers of size {bytes}B on MeshDevice {mesh}, but only {region}B is \
         allocated for trace region."
    )]
    TraceTooLarge {
        bytes: u64,
        /// The runtime's number of the mesh.
        mesh: u32,
        /// The region over all banks.
        region: u64,
    },
}

/// The kinds of failure that people meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// An allocator has no block that is large enough.
    OutOfMemory,
    /// Per-core storage would grow into an L1 buffer.
    Clash,
    /// Per-core storage would grow beyond L1.
    BeyondL1,
    /// A trace does not fit its region.
    TraceTooLarge,
    /// A program's configuration and text do not fit the config ring.
    ProgramTooLarge,
    /// Anything else that the runtime refuses.
    Refused,
}

impl FailureKind {
    pub const ALL: [Self; 6] = [
        Self::OutOfMemory,
        Self::Clash,
        Self::BeyondL1,
        Self::TraceTooLarge,
        Self::ProgramTooLarge,
        Self::Refused,
    ];

    /// The name in scenario files and in text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out_of_memory",
            Self::Clash => "clash",
            Self::BeyondL1 => "beyond_l1",
            Self::TraceTooLarge => "trace_too_large",
            Self::ProgramTooLarge => "program_too_large",
            Self::Refused => "refused",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl RuntimeError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Allocate(AllocateError::OutOfMemory { .. }) => FailureKind::OutOfMemory,
            Self::TraceTooLarge { .. } => FailureKind::TraceTooLarge,
            Self::Program(ProgramError::TooLarge { .. }) => FailureKind::ProgramTooLarge,
            Self::Program(error) => match error.clash().map(|(kind, ..)| kind) {
                Some(ClashKind::L1Buffer | ClashKind::ServiceCore) => FailureKind::Clash,
                Some(ClashKind::BeyondL1) => FailureKind::BeyondL1,
                Some(ClashKind::OutsideGrid) | None => FailureKind::Refused,
            },
            _other => FailureKind::Refused,
        }
    }
}
