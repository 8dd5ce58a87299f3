//! Mesh devices and sub-meshes: each has an allocator and command queues of its own.

use super::sub_devices::SubDeviceState;
use super::{Mesh, Runtime, RuntimeError};
use crate::allocator::{Allocator, Statistics};
use crate::board::{mesh_order, whole_mesh};
use crate::prefetcher::PrefetcherCache;
use ttmem_event::{Class, DeviceId, EventKind, MeshDefinition, MeshId, MeshKind};

/// Classes that an allocator of the device hands out.
pub(super) const DEVICE_CLASSES: [Class; 4] =
    [Class::Dram, Class::L1, Class::L1Small, Class::Trace];

#[derive(Debug)]
pub(super) struct MeshState {
    pub(super) id: MeshId,
    pub(super) handle: u32,
    pub(super) rows: u16,
    pub(super) columns: u16,
    /// Chips in the order of the mesh.
    pub(super) devices: Vec<usize>,
    pub(super) parent: Option<Mesh>,
    pub(super) allocator: Allocator,
    /// At least one: without a division, all cores.
    pub(super) sub_devices: Vec<SubDeviceState>,
    /// How often they were divided: a trace is of one division.
    pub(super) division: u64,
    pub(super) prefetcher: Option<PrefetcherCache>,
    /// The trace that is being captured.
    pub(super) capturing: Option<super::Trace>,
}

/// A rectangle of a mesh.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rectangle {
    pub(super) rows: u16,
    pub(super) columns: u16,
    pub(super) row: u16,
    pub(super) column: u16,
}

impl Rectangle {
    /// The chips of the rectangle, from those of a mesh of that shape.
    pub(super) fn of(self, chips: &[usize], (rows, columns): (u16, u16)) -> Option<Vec<usize>> {
        let fits = |first: u16, length: u16, whole: u16| {
            length > 0 && first.checked_add(length).is_some_and(|end| end <= whole)
        };
        if !fits(self.row, self.rows, rows) || !fits(self.column, self.columns, columns) {
            return None;
        }
        let row = |row: u16| {
            let first = usize::from(row) * usize::from(columns) + usize::from(self.column);
            chips.get(first..first + usize::from(self.columns))
        };
        let mut inside = Vec::new();
        for each in self.row..self.row + self.rows {
            inside.extend_from_slice(row(each)?);
        }
        Some(inside)
    }
}

impl Runtime {
    /// Opens a mesh over the first chips of the machine.
    ///
    /// # Errors
    /// When the machine has no mesh of that shape, or a system program does not fit its cores.
    pub fn open_mesh(&mut self, rows: u16, columns: u16) -> Result<Mesh, RuntimeError> {
        let board = self.options.board;
        let order = mesh_order(board).into_iter();
        let chips: Vec<usize> = order
            .filter_map(|chip| usize::try_from(chip).ok())
            .collect();
        let rectangle = Rectangle {
            rows,
            columns,
            row: 0,
            column: 0,
        };
        let inside = rectangle
            .of(&chips, whole_mesh(board))
            .or_else(|| line(&chips, whole_mesh(board), rectangle));
        let inside = inside.ok_or_else(|| wrong_shape(rectangle, board.name().to_owned()))?;
        self.open(inside, rectangle, None)
    }

    /// Makes a mesh over some devices of another; its allocator knows nothing of its parent's.
    ///
    /// # Errors
    /// When the rectangle does not lie in the parent.
    pub fn create_submesh(
        &mut self,
        parent: Mesh,
        rows: u16,
        columns: u16,
        (row, column): (u16, u16),
    ) -> Result<Mesh, RuntimeError> {
        let rectangle = Rectangle {
            rows,
            columns,
            row,
            column,
        };
        let state = self.mesh_state(parent)?;
        let shape = (state.rows, state.columns);
        let inside = rectangle.of(&state.devices, shape);
        let inside = inside
            .ok_or_else(|| wrong_shape(rectangle, format!("a mesh of {}x{}", shape.0, shape.1)))?;
        self.open(inside, rectangle, Some(parent))
    }

    fn open(
        &mut self,
        devices: Vec<usize>,
        rectangle: Rectangle,
        parent: Option<Mesh>,
    ) -> Result<Mesh, RuntimeError> {
        let mut ids: Vec<DeviceId> = Vec::new();
        for device in &devices {
            ids.push(self.open_device(*device)?);
        }
        let handle = self.next_mesh;
        self.next_mesh += 1;
        let id = self.hooks.mesh(&MeshDefinition {
            id: MeshId(0),
            kind: MeshKind::Mesh,
            handle: u64::from(handle),
            rows: rectangle.rows,
            columns: rectangle.columns,
            devices: ids,
        });
        let allocator = Allocator::new(&self.capacities, self.map.dram_alignment);
        let cache_bytes = self.options.dispatch.prefetcher_cache_bytes();
        let mesh = Mesh(handle);
        self.meshes.insert(
            mesh,
            MeshState {
                id,
                handle,
                rows: rectangle.rows,
                columns: rectangle.columns,
                devices,
                parent,
                allocator,
                sub_devices: Vec::new(),
                division: 0,
                prefetcher: cache_bytes
                    .map(|bytes| PrefetcherCache::new(bytes, self.map.dram_alignment)),
                capturing: None,
            },
        );
        self.track(EventKind::MeshOpened { mesh: id });
        self.report_capacities(mesh)?;
        self.divide(mesh, &[])?;
        if let Some(size_bytes) = cache_bytes {
            self.track(EventKind::PrefetchOpened {
                mesh: id,
                size_bytes,
            });
        }
        Ok(mesh)
    }

    fn report_capacities(&mut self, mesh: Mesh) -> Result<(), RuntimeError> {
        let id = self.mesh_state(mesh)?.id;
        let capacities = self.capacities;
        let regions = [
            (Class::Dram, capacities.dram),
            (Class::L1, capacities.l1),
            (Class::L1Small, capacities.l1_small),
            (Class::Trace, capacities.trace),
        ];
        let alignment = u32::try_from(self.map.dram_alignment).unwrap_or(u32::MAX);
        for (class, region) in regions {
            if region.bytes_per_bank == 0 {
                continue;
            }
            self.track(EventKind::CapacityReported {
                mesh: id,
                class,
                banks: u16::try_from(region.banks).unwrap_or(u16::MAX),
                base: region.base,
                per_bank_bytes: region.bytes_per_bank,
                alignment,
            });
        }
        Ok(())
    }

    /// Reports the allocator's own figures, so that the account can be compared with them.
    ///
    /// # Errors
    /// When the mesh is not open.
    pub fn report_statistics(&mut self, mesh: Mesh) -> Result<(), RuntimeError> {
        let state = self.mesh_state(mesh)?;
        let id = state.id;
        let local = state.sub_devices.iter().any(SubDeviceState::holds_buffers);
        for class in DEVICE_CLASSES {
            // What sub-devices hold is in no statistics of the mesh's own allocator.
            if local && class == Class::L1 {
                continue;
            }
            let statistics = self.mesh_state(mesh)?.allocator.statistics(class);
            if statistics.total > 0 {
                self.track(EventKind::StatisticsReported {
                    mesh: id,
                    class,
                    allocated_bytes: statistics.allocated,
                    largest_free_bytes: statistics.largest_free,
                });
            }
        }
        Ok(())
    }

    /// Closes a mesh and the sub-meshes over it.
    ///
    /// Workloads and traces go first. Buffers that are still live are not given back one by one:
    /// the runtime forgets them with their allocator.
    ///
    /// # Errors
    /// When it is not open.
    pub fn close_mesh(&mut self, mesh: Mesh) -> Result<(), RuntimeError> {
        self.mesh_state(mesh)?;
        let children: Vec<Mesh> = self
            .meshes
            .iter()
            .filter(|(_child, state)| state.parent == Some(mesh))
            .map(|(child, _state)| *child)
            .collect();
        for child in children {
            self.close_mesh(child)?;
        }
        self.drop_traces(mesh)?;
        self.drop_workloads(mesh)?;
        self.report_statistics(mesh)?;
        if let Some(state) = self.meshes.remove(&mesh) {
            self.buffers.retain(|_buffer, live| live.mesh != mesh);
            self.track(EventKind::MeshClosed { mesh: state.id });
        }
        self.close_unused_devices();
        Ok(())
    }

    /// Closes everything that is open.
    pub fn close(&mut self) {
        while let Some(mesh) = self.meshes.keys().next().copied() {
            if self.close_mesh(mesh).is_err() {
                break;
            }
        }
    }

    /// The open meshes, in the order in which they were opened.
    #[must_use]
    pub fn open_meshes(&self) -> Vec<Mesh> {
        self.meshes.keys().copied().collect()
    }

    /// How many chips a mesh has; 0 when it is not open.
    #[must_use]
    pub fn mesh_devices(&self, mesh: Mesh) -> usize {
        self.meshes
            .get(&mesh)
            .map_or(0, |state| state.devices.len())
    }

    /// Rows and columns of a mesh; 0 when it is not open.
    #[must_use]
    pub fn mesh_shape(&self, mesh: Mesh) -> (u16, u16) {
        let state = self.meshes.get(&mesh);
        state.map_or((0, 0), |state| (state.rows, state.columns))
    }

    /// The runtime's own number of an open mesh; collides with chip ids.
    #[must_use]
    pub fn mesh_handle(&self, mesh: Mesh) -> Option<u64> {
        let state = self.meshes.get(&mesh)?;
        Some(u64::from(state.handle))
    }

    /// Logical ids of a mesh's chips, in the order of the mesh.
    #[must_use]
    pub fn mesh_chips(&self, mesh: Mesh) -> Vec<u32> {
        let chips = self
            .meshes
            .get(&mesh)
            .map_or(&[][..], |state| &state.devices);
        let logical_id = |chip: &usize| self.devices.get(*chip).map(|device| device.logical_id);
        chips.iter().filter_map(logical_id).collect()
    }

    /// The allocator's figures of a class on a mesh.
    #[must_use]
    pub fn statistics(&self, mesh: Mesh, class: Class) -> Option<Statistics> {
        let state = self.meshes.get(&mesh)?;
        Some(state.allocator.statistics(class))
    }
}

/// A line of chips that turns at the end of each row, so that neighbours stay neighbours.
fn line(chips: &[usize], (rows, columns): (u16, u16), wanted: Rectangle) -> Option<Vec<usize>> {
    let length = usize::from(wanted.rows.max(wanted.columns));
    if wanted.rows.min(wanted.columns) != 1 || columns == 0 || rows == 0 {
        return None;
    }
    let mut along: Vec<usize> = Vec::new();
    for (index, row) in chips.chunks(usize::from(columns)).enumerate() {
        if index.is_multiple_of(2) {
            along.extend(row);
        } else {
            along.extend(row.iter().rev());
        }
    }
    along.truncate(length);
    (along.len() == length).then_some(along)
}

fn wrong_shape(rectangle: Rectangle, parent: String) -> RuntimeError {
    RuntimeError::MeshShape {
        rows: rectangle.rows,
        columns: rectangle.columns,
        row: rectangle.row,
        column: rectangle.column,
        parent,
    }
}
