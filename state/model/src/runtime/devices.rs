//! Physical devices: opened with the first mesh over them, closed with the last.

use super::{Runtime, RuntimeError};
use crate::board::linked_channels;
use ttmem_event::catalogue::{BoardKind, ChipAttachment};
use ttmem_event::{
    CoreRange, CoreSet, DeviceDefinition, DeviceId, EventKind, MeshDefinition, MeshId, MeshKind,
    ProgramId, TextId,
};

/// A chip of the board.
#[derive(Debug)]
pub(super) struct DeviceState {
    pub(super) logical_id: u32,
    pub(super) attachment: ChipAttachment,
    /// Ethernet cores with a link.
    pub(super) linked: CoreSet,
    pub(super) open: Option<OpenDevice>,
}

/// What a chip is called while it is open.
#[derive(Debug)]
pub(super) struct OpenDevice {
    pub(super) id: DeviceId,
    /// The chip by itself: what the runtime's hooks for circular buffers name.
    pub(super) chip: MeshId,
    /// The fabric's and the dispatcher's programs.
    pub(super) system_programs: Vec<ProgramId>,
}

pub(super) fn chips_of(board: BoardKind) -> Vec<DeviceState> {
    let state = |logical_id: u32, attachment| {
        let links = linked_channels(board, logical_id).into_iter();
        DeviceState {
            logical_id,
            attachment,
            linked: column_zero(links),
            open: None,
        }
    };
    board
        .chips()
        .map(|chip| state(chip.logical_id, chip.attachment))
        .collect()
}

/// Ethernet cores stand one below the other in column 0.
pub(super) fn column_zero(rows: impl IntoIterator<Item = u16>) -> CoreSet {
    let core = |row| CoreRange {
        x_first: 0,
        y_first: row,
        x_last: 0,
        y_last: row,
    };
    CoreSet::from_ranges(rows.into_iter().map(core)).unwrap_or_default()
}

impl Runtime {
    /// Opens a chip if it is not open yet.
    pub(super) fn open_device(&mut self, index: usize) -> Result<DeviceId, RuntimeError> {
        let device = self.devices.get(index).ok_or(RuntimeError::MeshClosed)?;
        if let Some(open) = &device.open {
            return Ok(open.id);
        }
        let (logical_id, attachment) = (device.logical_id, device.attachment);
        let board = self.hooks.text(self.options.board.name());
        let id = self.define_device(logical_id, attachment, board);
        let chip = self.hooks.mesh(&MeshDefinition {
            id: MeshId(0),
            kind: MeshKind::Chip,
            handle: u64::from(logical_id),
            rows: 1,
            columns: 1,
            devices: vec![id],
        });
        self.devices[index].open = Some(OpenDevice {
            id,
            chip,
            system_programs: Vec::new(),
        });
        self.track(EventKind::DeviceOpened { device: id });
        self.launch_system_programs(index)?;
        Ok(id)
    }

    fn define_device(
        &mut self,
        logical_id: u32,
        attachment: ChipAttachment,
        board: TextId,
    ) -> DeviceId {
        let grid = self.capacities.compute_grid;
        let small = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        self.hooks.device(&DeviceDefinition {
            id: DeviceId(0),
            logical_id,
            unique_id: None,
            arch: self.options.board.arch(),
            board,
            remote: Some(matches!(attachment, ChipAttachment::Remote { .. })),
            grid_columns: grid.x,
            grid_rows: grid.y,
            l1_bytes_per_core: small(self.capacities.l1_bytes_per_core),
            l1_reserved_bytes: small(self.capacities.l1_reserved_bytes_per_core),
        })
    }

    /// Closes the chips that no open mesh lies on.
    pub(super) fn close_unused_devices(&mut self) {
        for index in 0..self.devices.len() {
            let used = self
                .meshes
                .values()
                .any(|mesh| mesh.devices.contains(&index));
            if used {
                continue;
            }
            if let Some(open) = self.devices[index].open.take() {
                for program in open.system_programs {
                    self.end_program(program, open.chip);
                }
                self.track(EventKind::DeviceClosed { device: open.id });
            }
        }
    }

    /// The chip's own mesh id; devices of an open mesh are open.
    pub(super) fn chip(&self, index: usize) -> MeshId {
        let open = self
            .devices
            .get(index)
            .and_then(|device| device.open.as_ref());
        open.map_or(MeshId(0), |open| open.chip)
    }
}
