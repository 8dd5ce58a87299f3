//! What a process chooses when it opens its devices.

use ttmem_event::catalogue::{BoardKind, Capacities, ChipAttachment, DeviceOptions, DispatchCores};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Silicon,
    /// The runtime's own stand-in for one: no kernel text is placed and no binary is sent.
    Mock,
}

/// The parameters of a process's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeOptions {
    pub board: BoardKind,
    /// Where it dispatches; [`DispatchCores::Slow`] for the host itself.
    pub dispatch: DispatchCores,
    /// Device parameter `l1_small_size`: bytes per core.
    pub l1_small_size: u64,
    /// Device parameter `trace_region_size`: bytes over all DRAM banks.
    pub trace_region_size: u64,
    /// Whether Ethernet cores with a link run the fabric.
    pub fabric: bool,
    pub target: Target,
}

impl RuntimeOptions {
    /// What the runtime does with that board by default.
    #[must_use]
    pub fn of(board: BoardKind) -> Self {
        let DeviceOptions {
            dispatch,
            l1_small_size,
            trace_region_size,
        } = DeviceOptions::default_of(board);
        // Commands reach a remote chip over the fabric: the runtime switches it on by itself.
        let remote = |attachment| matches!(attachment, ChipAttachment::Remote { .. });
        Self {
            board,
            dispatch,
            l1_small_size,
            trace_region_size,
            fabric: board.chips().any(|chip| remote(chip.attachment)),
            target: Target::Silicon,
        }
    }

    /// The same with the host launching every program itself.
    #[must_use]
    pub fn slow(self) -> Self {
        Self {
            dispatch: DispatchCores::Slow,
            fabric: false,
            ..self
        }
    }

    pub(super) fn capacities(&self) -> Option<Capacities> {
        self.board.capacities(&DeviceOptions {
            dispatch: self.dispatch,
            l1_small_size: self.l1_small_size,
            trace_region_size: self.trace_region_size,
        })
    }
}
