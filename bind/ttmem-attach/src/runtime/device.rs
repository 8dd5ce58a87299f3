//! Devices: meshes and chips, told apart by their virtual tables.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::allocator::{self, AllocatorAccessors};
use super::vector::Vector;
use super::{Object, accessors, slot_of, table_at};
use crate::family::Doubt;
use crate::symbols;
use std::ffi::CStr;
use std::sync::LazyLock;

/// A coordinate, as it is returned in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coordinate {
    x: u64,
    y: u64,
}

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
        chip_grid: fn(Object) -> Coordinate = c"_ZNK2tt8tt_metal6Device30compute_with_storage_grid_sizeEv";
        chip_l1_bytes: fn(Object) -> u32 = c"_ZNK2tt8tt_metal6Device16l1_size_per_coreEv";
        chip_is_local: fn(Object) -> bool = c"_ZNK2tt8tt_metal6Device15is_mmio_capableEv";
        free: fn(Object) -> () = c"_ZdlPv";
    }
}

const MESH_TABLE: &CStr = c"_ZTVN2tt8tt_metal11distributed10MeshDeviceE";
const CHIP_TABLE: &CStr = c"_ZTVN2tt8tt_metal6DeviceE";
const MESH_ID: &CStr = c"_ZNK2tt8tt_metal11distributed10MeshDevice2idEv";

/// A runtime without it closes meshes in a way that is not seen: they would stay open for ever.
const CLOSE_MESH: &CStr =
    c"_ZN2tt8tt_metal11distributed14MeshDeviceImpl10close_implEPNS1_10MeshDeviceE";

/// How many entries of a virtual table are searched: `id` is among the first.
const SEARCHED_ENTRIES: usize = 16;

/// What is asked of devices, and how they are told apart.
#[derive(Debug)]
pub(crate) struct DeviceAccessors {
    functions: Functions,
    allocators: &'static AllocatorAccessors,
    mesh_table: usize,
    chip_table: usize,
    /// The place of `id()` in the table of every device.
    id_slot: usize,
}

/// The accessors of this process's runtime.
pub(crate) static ACCESSORS: LazyLock<Result<DeviceAccessors, Doubt>> = LazyLock::new(find);

/// What a device object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A `MeshDevice`.
    Mesh,
    /// A `Device`.
    Chip,
}

/// A chip, as far as it is told of.
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

/// A mesh, as far as it is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mesh {
    pub(crate) id: i32,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    /// Its chips, in mesh order.
    pub(crate) chips: Vec<Object>,
    pub(crate) allocator: Object,
}

fn find() -> Result<DeviceAccessors, Doubt> {
    // SAFETY: the loader gives the runtime's function of each name.
    let functions = unsafe { Functions::find_all(symbols::find_with_delete) }?;
    let allocators = allocator::ACCESSORS.as_ref().map_err(Clone::clone)?;
    symbols::find(CLOSE_MESH).ok_or(Doubt::Missing(CLOSE_MESH))?;
    let (mesh_table, chip_table) = (table_at(MESH_TABLE)?, table_at(CHIP_TABLE)?);
    let entries = std::ptr::with_exposed_provenance::<[usize; SEARCHED_ENTRIES]>(mesh_table);
    // SAFETY: the table of a class with so many virtual functions has these entries.
    let entries = unsafe { entries.read() };
    let id_slot = slot_of(&entries, MESH_ID, "a device's table has no id()")?;
    Ok(DeviceAccessors {
        functions,
        allocators,
        mesh_table,
        chip_table,
        id_slot,
    })
}

impl DeviceAccessors {
    pub(crate) fn allocators(&self) -> &'static AllocatorAccessors {
        self.allocators
    }

    /// What a device object is; none if it is of no class that we know.
    ///
    /// # Safety
    /// `device` is null or a live `IDevice`.
    pub(crate) unsafe fn kind(&self, device: Object) -> Option<Kind> {
        if device.is_null() {
            return None;
        }
        // SAFETY: an object with virtual functions begins with the address of its table.
        let table = unsafe { device.cast::<usize>().read() };
        self.kind_of_table(table)
    }

    fn kind_of_table(&self, table: usize) -> Option<Kind> {
        match table {
            table if table == self.mesh_table => Some(Kind::Mesh),
            table if table == self.chip_table => Some(Kind::Chip),
            _other => None,
        }
    }

    /// A mesh; none while it has no allocator.
    ///
    /// # Safety
    /// `mesh` is a live `MeshDevice` that is initialised.
    pub(crate) unsafe fn read_mesh(&self, mesh: Object) -> Option<Mesh> {
        let f = &self.functions;
        // SAFETY: as the caller vouches.
        let id = unsafe { (f.mesh_id)(mesh) };
        // SAFETY: as above.
        let rows = unsafe { (f.mesh_rows)(mesh) };
        // SAFETY: as above.
        let columns = unsafe { (f.mesh_columns)(mesh) };
        // SAFETY: as above.
        let vector = unsafe { (f.mesh_devices)(mesh) };
        // SAFETY: it is a vector of pointers, and nobody else has it.
        let chips = unsafe { vector.elements::<Object>() }.map(<[Object]>::to_vec);
        if !vector.memory().is_null() {
            // SAFETY: the vector is ours, and the runtime got its memory by `operator new`.
            unsafe { (f.free)(vector.memory()) };
        }
        // SAFETY: as above.
        let place = unsafe { (f.mesh_allocator)(mesh) };
        // SAFETY: the place is a member of the live mesh.
        let allocator = unsafe { place.as_ref() }.copied()?;
        Some(Mesh {
            id,
            rows,
            columns,
            chips: chips?,
            allocator: (!allocator.is_null()).then_some(allocator)?,
        })
    }

    /// A chip.
    ///
    /// # Safety
    /// `chip` is a live `Device` that is initialised.
    pub(crate) unsafe fn read_chip(&self, chip: Object) -> Chip {
        let f = &self.functions;
        // SAFETY: as the caller vouches.
        let id = unsafe { self.chip_id(chip) };
        // SAFETY: as above.
        let arch = unsafe { (f.chip_arch)(chip) };
        // SAFETY: as above.
        let grid = unsafe { (f.chip_grid)(chip) };
        // SAFETY: as above.
        let l1_bytes = unsafe { (f.chip_l1_bytes)(chip) };
        // SAFETY: as above.
        let is_local = unsafe { (f.chip_is_local)(chip) };
        // SAFETY: as above.
        let place = unsafe { (f.chip_allocator)(chip) };
        // SAFETY: the place is a member of the live chip.
        let allocator = unsafe { place.as_ref() }.copied();
        Chip {
            id,
            arch,
            columns: grid.x,
            rows: grid.y,
            l1_bytes,
            is_local,
            allocator: allocator.unwrap_or(std::ptr::null()),
        }
    }

    /// The columns and rows of compute cores, of a mesh those of its first chip.
    ///
    /// # Safety
    /// `device` is a live `IDevice` that is initialised.
    pub(crate) unsafe fn grid(&self, device: Object) -> Option<(u64, u64)> {
        // SAFETY: as the caller vouches.
        let chip = match unsafe { self.kind(device) }? {
            Kind::Chip => device,
            // SAFETY: as above; it is a mesh.
            Kind::Mesh => *unsafe { self.read_mesh(device) }?.chips.first()?,
        };
        // SAFETY: the chips of an initialised mesh are initialised.
        let grid = unsafe { (self.functions.chip_grid)(chip) };
        Some((grid.x, grid.y))
    }

    /// The number of a chip, which is virtual and not exported.
    ///
    /// # Safety
    /// `chip` is a live `Device`.
    unsafe fn chip_id(&self, chip: Object) -> i32 {
        type Id = unsafe extern "C-unwind" fn(Object) -> i32;
        // SAFETY: an object with virtual functions begins with the address of its table.
        let table = unsafe { chip.cast::<*const usize>().read() };
        // SAFETY: the tables of all devices begin with the slots of their common base.
        let slot = unsafe { table.add(self.id_slot) };
        // SAFETY: as above.
        let id = unsafe { slot.cast::<Id>().read() };
        // SAFETY: the slot is that of `id() const`.
        unsafe { id(chip) }
    }
}
