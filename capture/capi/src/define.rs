//! Definitions, and the counters that ids come from.
#![expect(
    unsafe_code,
    reason = "exports C symbols by their names, and takes pointers from C"
)]

use crate::code::{TTMEM_E_NULL, TTMEM_E_VALUE, try_guard, ttmem_code_t};
use crate::constants::{
    TTMEM_REACH_LOCAL, TTMEM_REACH_REMOTE, TTMEM_REACH_UNKNOWN, ttmem_arch_t, ttmem_mesh_kind_t,
    ttmem_reach_t,
};
use crate::ids::{
    ttmem_buffer_id_t, ttmem_cores_id_t, ttmem_device_id_t, ttmem_mesh_id_t, ttmem_program_id_t,
    ttmem_text_id_t,
};
use crate::sized::{self, Growing};
use std::ffi::c_char;
use ttmem_client::Tracker;
use ttmem_event::catalogue::Arch;
use ttmem_event::core::GRID_SIDE;
use ttmem_event::wire::MAX_MESH_DEVICES;
use ttmem_event::{
    CoreRange, CoreSet, DeviceDefinition, DeviceId, MeshDefinition, MeshId, MeshKind, TextId,
};

/// A rectangle of cores in logical coordinates, both corners included; at most 32 by 32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ttmem_core_range_t {
    /// Left column.
    pub x_first: u16,
    /// Top row.
    pub y_first: u16,
    /// Right column.
    pub x_last: u16,
    /// Bottom row.
    pub y_last: u16,
}

/// A physical device. Set everything that is not known to zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_device_t {
    /// sizeof(ttmem_device_t), so that the structure can grow.
    pub struct_bytes: usize,
    /// The chip's burnt-in id; with it, the server knows the chip whatever its logical id is.
    pub unique_id: u64,
    /// The runtime's logical id.
    pub logical_id: u32,
    /// The board's name.
    pub board: ttmem_text_id_t,
    /// Bytes of L1 of each compute core.
    pub l1_bytes_per_core: u32,
    /// Bytes at the bottom of L1 that no allocator hands out.
    pub l1_reserved_bytes: u32,
    /// The architecture.
    pub arch: ttmem_arch_t,
    /// Columns of the compute grid.
    pub grid_columns: u16,
    /// Rows of the compute grid.
    pub grid_rows: u16,
    /// How it is reached.
    pub reach: ttmem_reach_t,
    /// Zero.
    pub reserved: u8,
}

// SAFETY: `repr(C)`, a `usize` first, then integers.
unsafe impl Growing for ttmem_device_t {
    const FIRST_BYTES: usize = 40;
}

/// The devices behind a mesh handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_mesh_t {
    /// sizeof(ttmem_mesh_t), so that the structure can grow.
    pub struct_bytes: usize,
    /// The runtime's own id of it.
    pub handle: u64,
    /// Its devices in mesh order, each once.
    pub devices: *const ttmem_device_id_t,
    /// How many; at most 256.
    pub device_count: usize,
    /// Rows of the mesh.
    pub rows: u16,
    /// Columns of the mesh.
    pub columns: u16,
    /// What the handle stands for.
    pub kind: ttmem_mesh_kind_t,
    /// Zero.
    pub reserved: [u8; 3],
}

// SAFETY: `repr(C)`, a `usize` first, then integers and a pointer.
unsafe impl Growing for ttmem_mesh_t {
    const FIRST_BYTES: usize = 40;
}

/// The longest text that is kept: a definition has two bytes for its length.
const MAX_TEXT_BYTES: usize = 32 << 10;

/// Every range of a set is at least one core, and more ranges than cores repeat themselves.
const MAX_RANGES: usize = GRID_SIDE as usize * GRID_SIDE as usize;

/// Gives an id to a text: the name of an operation, a kernel, a board, a mark.
///
/// The text is UTF-8 and need not be closed by a zero; other bytes are replaced. At most 32 KiB.
/// `*id` is 0 (no text) whenever the call fails or tracking is off.
///
/// # Safety
/// `text` is null or points to `length_bytes` bytes; `id` is null or points to an id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_text_define(
    text: *const c_char,
    length_bytes: usize,
    id: Option<&mut ttmem_text_id_t>,
) -> ttmem_code_t {
    define(id, || {
        if text.is_null() {
            return Err(TTMEM_E_NULL);
        }
        // SAFETY: not null, so the caller promises that many bytes.
        let text = unsafe { array(text.cast::<u8>(), length_bytes, MAX_TEXT_BYTES) }?;
        // Names come from file systems and compilers: one bad byte must not lose the name.
        Ok(Tracker.text(&String::from_utf8_lossy(text)).0)
    })
}

/// Gives an id to a set of cores: the union of some ranges.
///
/// TTMEM_E_VALUE when a range is turned round or leaves the grid of 32 by 32. `*id` is 0 (no cores)
/// whenever the call fails or tracking is off.
///
/// # Safety
/// `ranges` is null or points to `count` ranges; `id` is null or points to an id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_cores_define(
    ranges: *const ttmem_core_range_t,
    count: usize,
    id: Option<&mut ttmem_cores_id_t>,
) -> ttmem_code_t {
    define(id, || {
        // SAFETY: the caller promises that many ranges, or null.
        let ranges = unsafe { array(ranges, count, MAX_RANGES) }?;
        let ranges = ranges.iter().map(|range| CoreRange {
            x_first: range.x_first,
            y_first: range.y_first,
            x_last: range.x_last,
            y_last: range.y_last,
        });
        let cores = CoreSet::from_ranges(ranges).map_err(|_invalid| TTMEM_E_VALUE)?;
        Ok(Tracker.cores(&cores).0)
    })
}

/// Gives an id to a physical device.
///
/// `*id` is 0 whenever the call fails or tracking is off.
///
/// # Safety
/// `device` is null or points to a structure as long as its `struct_bytes` says; `id` is null or
/// points to an id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_device_define(
    device: *const ttmem_device_t,
    id: Option<&mut ttmem_device_id_t>,
) -> ttmem_code_t {
    define(id, || {
        // SAFETY: the caller promises a structure as long as it says, or null.
        let device = unsafe { sized::read(device) }?;
        Ok(Tracker.device(&device.definition()?).0)
    })
}

impl ttmem_device_t {
    fn definition(&self) -> Result<DeviceDefinition, ttmem_code_t> {
        Ok(DeviceDefinition {
            // The client gives one.
            id: DeviceId(0),
            logical_id: self.logical_id,
            unique_id: (self.unique_id != 0).then_some(self.unique_id),
            arch: Arch::from_code(self.arch),
            board: TextId(self.board),
            remote: match self.reach {
                TTMEM_REACH_UNKNOWN => None,
                TTMEM_REACH_LOCAL => Some(false),
                TTMEM_REACH_REMOTE => Some(true),
                _other => return Err(TTMEM_E_VALUE),
            },
            grid_columns: self.grid_columns,
            grid_rows: self.grid_rows,
            l1_bytes_per_core: self.l1_bytes_per_core,
            l1_reserved_bytes: self.l1_reserved_bytes,
        })
    }
}

/// Gives an id to a mesh. A single chip is a mesh of one.
///
/// `*id` is 0 whenever the call fails or tracking is off.
///
/// # Safety
/// `mesh` is null or points to a structure as long as its `struct_bytes` says, whose `devices` is
/// null or points to `device_count` ids; `id` is null or points to an id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_mesh_define(
    mesh: *const ttmem_mesh_t,
    id: Option<&mut ttmem_mesh_id_t>,
) -> ttmem_code_t {
    define(id, || {
        // SAFETY: the caller promises a structure as long as it says, or null.
        let mesh = unsafe { sized::read(mesh) }?;
        // SAFETY: the caller promises that many ids, or null.
        let devices = unsafe { array(mesh.devices, mesh.device_count, MAX_MESH_DEVICES) }?;
        Ok(Tracker.mesh(&mesh.definition(devices)?).0)
    })
}

impl ttmem_mesh_t {
    fn definition(&self, devices: &[ttmem_device_id_t]) -> Result<MeshDefinition, ttmem_code_t> {
        let is_repeated = |at: usize| devices[..at].contains(&devices[at]);
        if devices.is_empty() || (0..devices.len()).any(is_repeated) {
            return Err(TTMEM_E_VALUE);
        }
        Ok(MeshDefinition {
            // The client gives one.
            id: MeshId(0),
            kind: MeshKind::from_code(self.kind).ok_or(TTMEM_E_VALUE)?,
            handle: self.handle,
            rows: self.rows,
            columns: self.columns,
            devices: devices.iter().copied().map(DeviceId).collect(),
        })
    }
}

/// The next id for a buffer: a counter of this process, from 1.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_buffer_next() -> ttmem_buffer_id_t {
    Tracker.next_buffer().0
}

/// The next id for a program: a counter of this process, from 1.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_program_next() -> ttmem_program_id_t {
    Tracker.next_program().0
}

/// Stores what `definition` gives, or 0.
fn define(
    id: Option<&mut u32>,
    definition: impl FnOnce() -> Result<u32, ttmem_code_t>,
) -> ttmem_code_t {
    let Some(id) = id else {
        return TTMEM_E_NULL;
    };
    *id = 0;
    try_guard(|| {
        *id = definition()?;
        Ok(())
    })
}

/// The array of a C program; a null pointer is an array of nothing only.
///
/// # Safety
/// A pointer that is not null points to `count` readable elements that stay valid for `'a`.
unsafe fn array<'a, T>(
    first: *const T,
    count: usize,
    max_count: usize,
) -> Result<&'a [T], ttmem_code_t> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(TTMEM_E_NULL);
    }
    if count > max_count {
        return Err(TTMEM_E_VALUE);
    }
    // SAFETY: not null, and the caller promises that many elements that stay valid.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::TTMEM_E_SIZE;
    use crate::constants::{TTMEM_ARCH_BLACKHOLE, TTMEM_MESH_KIND_CHIP, TTMEM_REACH_REMOTE};

    const DEVICE: ttmem_device_t = ttmem_device_t {
        struct_bytes: size_of::<ttmem_device_t>(),
        unique_id: 1,
        logical_id: 2,
        board: 3,
        l1_bytes_per_core: 4,
        l1_reserved_bytes: 5,
        arch: TTMEM_ARCH_BLACKHOLE,
        grid_columns: 6,
        grid_rows: 7,
        reach: TTMEM_REACH_REMOTE,
        reserved: 0,
    };

    const MESH: ttmem_mesh_t = ttmem_mesh_t {
        struct_bytes: size_of::<ttmem_mesh_t>(),
        handle: 1,
        devices: std::ptr::null(),
        device_count: 0,
        rows: 2,
        columns: 3,
        kind: TTMEM_MESH_KIND_CHIP,
        reserved: [0; 3],
    };

    #[test]
    fn a_device_is_taken_over_member_by_member() {
        let expected = DeviceDefinition {
            id: DeviceId(0),
            logical_id: 2,
            unique_id: Some(1),
            arch: Arch::Blackhole,
            board: TextId(3),
            remote: Some(true),
            grid_columns: 6,
            grid_rows: 7,
            l1_bytes_per_core: 4,
            l1_reserved_bytes: 5,
        };
        assert_eq!(DEVICE.definition(), Ok(expected));
        let unknown = ttmem_device_t {
            unique_id: 0,
            reach: 0,
            ..DEVICE
        };
        let unknown = unknown.definition().unwrap();
        assert_eq!((unknown.unique_id, unknown.remote), (None, None));
        let nowhere = ttmem_device_t { reach: 3, ..DEVICE };
        assert_eq!(nowhere.definition(), Err(TTMEM_E_VALUE));
    }

    #[test]
    fn a_mesh_has_each_device_once() {
        let mesh = MESH.definition(&[8, 9]).unwrap();
        assert_eq!(mesh.devices, [DeviceId(8), DeviceId(9)]);
        assert_eq!((mesh.handle, mesh.rows, mesh.columns), (1, 2, 3));
        assert_eq!(mesh.kind, MeshKind::Chip);
        assert_eq!(MESH.definition(&[8, 9, 8]), Err(TTMEM_E_VALUE));
        assert_eq!(MESH.definition(&[]), Err(TTMEM_E_VALUE));
        let strange = ttmem_mesh_t { kind: 2, ..MESH };
        assert_eq!(strange.definition(&[8]), Err(TTMEM_E_VALUE));
    }

    /// What fails leaves no id behind.
    #[test]
    fn what_cannot_be_defined_has_the_id_0() {
        let mut id = 77;
        // SAFETY: null is allowed.
        let code = unsafe { ttmem_text_define(std::ptr::null(), 1, Some(&mut id)) };
        assert_eq!((code, id), (TTMEM_E_NULL, 0));

        id = 77;
        let turned = ttmem_core_range_t {
            x_first: 1,
            y_first: 0,
            x_last: 0,
            y_last: 0,
        };
        // SAFETY: there is one range.
        let code = unsafe { ttmem_cores_define(&raw const turned, 1, Some(&mut id)) };
        assert_eq!((code, id), (TTMEM_E_VALUE, 0));
        // SAFETY: so many ranges are refused before they are read.
        let code = unsafe { ttmem_cores_define(&raw const turned, usize::MAX, Some(&mut id)) };
        assert_eq!((code, id), (TTMEM_E_VALUE, 0));

        let short = ttmem_device_t {
            struct_bytes: 0,
            ..DEVICE
        };
        // SAFETY: it is longer than it says.
        let code = unsafe { ttmem_device_define(&raw const short, Some(&mut id)) };
        assert_eq!((code, id), (TTMEM_E_SIZE, 0));

        let without = ttmem_mesh_t {
            device_count: 1,
            ..MESH
        };
        // SAFETY: null devices are allowed.
        let code = unsafe { ttmem_mesh_define(&raw const without, Some(&mut id)) };
        assert_eq!((code, id), (TTMEM_E_NULL, 0));
        // SAFETY: null is allowed.
        let code = unsafe { ttmem_mesh_define(&raw const without, None) };
        assert_eq!(code, TTMEM_E_NULL);
    }
}
