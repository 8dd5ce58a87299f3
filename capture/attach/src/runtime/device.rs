//! Devices: meshes and chips, distinguished by their virtual tables.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::allocator::{self, AllocatorAccessors};
use super::vector::Vector;
use super::{Object, Pair, accessors, slot_of, table_at};
use crate::family::Unsupported;
use crate::symbols;
use std::ffi::CStr;
use std::sync::LazyLock;

accessors! {
    /// What is asked of meshes and of chips.
    ///
    /// `get_devices` returns a vector, for which both languages pass a hidden place; its
    /// memory is then ours to free. Allocators come as a place that holds their address.
    struct Functions {
        mesh_id: fn(Object) -> i32 = c"_ZNK2tt8tt_metal11distributed10MeshDevice2idEv";
        mesh_rows: fn(Object) -> u64 = c"_ZNK2tt8tt_metal11distributed10MeshDevice8num_rowsEv";
        mesh_columns: fn(Object) -> u64 = c"_ZNK2tt8tt_metal11distributed10MeshDevice8num_colsEv";
        mesh_devices: fn(Object) -> Vector = c"_ZNK2tt8tt_metal11distributed10MeshDevice11get_devicesEv";
        mesh_allocator: fn(Object) -> *const Object = c"_ZNK2tt8tt_metal11distributed10MeshDevice14allocator_implEv";
        chip_allocator: fn(Object) -> *const Object = c"_ZNK2tt8tt_metal6Device14allocator_implEv";
        chip_arch: fn(Object) -> u32 = c"_ZNK2tt8tt_metal6Device4archEv";
        chip_grid: fn(Object) -> Pair = c"_ZNK2tt8tt_metal6Device30compute_with_storage_grid_sizeEv";
        chip_l1_bytes: fn(Object) -> u32 = c"_ZNK2tt8tt_metal6Device16l1_size_per_coreEv";
        chip_is_local: fn(Object) -> bool = c"_ZNK2tt8tt_metal6Device15is_mmio_capableEv";
        delete: fn(Object) -> () = c"_ZdlPv";
    }
}

const MESH_TABLE: &CStr = c"_ZTVN2tt8tt_metal11distributed10MeshDeviceE";
const CHIP_TABLE: &CStr = c"_ZTVN2tt8tt_metal6DeviceE";
const MESH_ID: &CStr = c"_ZNK2tt8tt_metal11distributed10MeshDevice2idEv";

/// A runtime without it closes meshes in a way that is not seen: they would stay open for ever.
const CLOSE_MESH: &CStr =
    c"_ZN2tt8tt_metal11distributed14MeshDeviceImpl10close_implEPNS1_10MeshDeviceE";

/// What is asked of devices, and how they are distinguished.
#[derive(Debug)]
pub(crate) struct DeviceAccessors {
    functions: Functions,
    pub(crate) allocators: &'static AllocatorAccessors,
    mesh_table: usize,
    chip_table: usize,
    /// The place of `id()` in the table of every device.
    id_slot: usize,
}

pub(crate) static ACCESSORS: LazyLock<Result<DeviceAccessors, Unsupported>> = LazyLock::new(find);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mesh,
    Chip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chip {
    pub(crate) id: i32,
    pub(crate) arch: u32,
    pub(crate) columns: u64,
    pub(crate) rows: u64,
    pub(crate) l1_bytes: u32,
    pub(crate) is_local: bool,
    pub(crate) allocator: Object,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mesh {
    pub(crate) id: i32,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    /// Its chips, in mesh order.
    pub(crate) chips: Vec<Object>,
    pub(crate) allocator: Object,
}

fn find() -> Result<DeviceAccessors, Unsupported> {
    symbols::require(CLOSE_MESH)?;
    Ok(DeviceAccessors {
        // SAFETY: the loader gives the function of each name.
        functions: unsafe { Functions::find(symbols::find) }?,
        allocators: allocator::ACCESSORS.as_ref().map_err(Clone::clone)?,
        mesh_table: table_at(MESH_TABLE)?,
        chip_table: table_at(CHIP_TABLE)?,
        // It is among the first.
        id_slot: slot_of::<16>(MESH_TABLE, MESH_ID, "a device's table has no id()")?,
    })
}

impl DeviceAccessors {
    /// What a device object is; none if it is of no class that we know.
    pub(crate) fn kind(&self, device: Object) -> Option<Kind> {
        if device.is_null() {
            return None;
        }
        // SAFETY: an object with virtual functions begins with the address of its table.
        let table = unsafe { device.read::<usize>(0) };
        match table {
            table if table == self.mesh_table => Some(Kind::Mesh),
            table if table == self.chip_table => Some(Kind::Chip),
            _other => None,
        }
    }

    /// A mesh that is initialised; none while it has no allocator.
    ///
    /// A mesh all of whose chips are another host's never has one, and throws when it is asked.
    pub(crate) fn read_mesh(&self, mesh: Object) -> Option<Mesh> {
        let f = &self.functions;
        let vector = (f.mesh_devices)(mesh);
        // SAFETY: it is a vector of pointers, and nobody else has it.
        let chips = unsafe { vector.elements::<Object>() }.map(<[Object]>::to_vec);
        vector.delete_by(f.delete);
        let chips = chips.filter(|chips| !chips.is_empty())?;
        // SAFETY: the place is a member of the live mesh.
        let allocator = unsafe { (f.mesh_allocator)(mesh).as_ref() }.copied()?;
        Some(Mesh {
            id: (f.mesh_id)(mesh),
            rows: (f.mesh_rows)(mesh),
            columns: (f.mesh_columns)(mesh),
            chips,
            allocator: (!allocator.is_null()).then_some(allocator)?,
        })
    }

    pub(crate) fn read_chip(&self, chip: Object) -> Chip {
        let f = &self.functions;
        // It is virtual and not exported.
        // SAFETY: the slot is that of `id() const` in the tables of all devices.
        let id = unsafe { chip.virtual_function::<i32>(self.id_slot) };
        let grid = (f.chip_grid)(chip);
        // SAFETY: the place is a member of the live chip.
        let allocator = unsafe { (f.chip_allocator)(chip).as_ref() };
        Chip {
            id: id(chip),
            arch: (f.chip_arch)(chip),
            columns: grid.x,
            rows: grid.y,
            l1_bytes: (f.chip_l1_bytes)(chip),
            is_local: (f.chip_is_local)(chip),
            allocator: allocator.copied().unwrap_or(Object::NULL),
        }
    }

    /// The columns and rows of compute cores, of a mesh those of its first chip.
    pub(crate) fn grid(&self, device: Object) -> Option<(u64, u64)> {
        let chip = match self.kind(device)? {
            Kind::Chip => device,
            Kind::Mesh => *self.read_mesh(device)?.chips.first()?,
        };
        let grid = (self.functions.chip_grid)(chip);
        Some((grid.x, grid.y))
    }
}
