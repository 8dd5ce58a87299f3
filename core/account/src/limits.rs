//! How much one account may have.

/// The most that one process may hold of one figure on one device.
///
/// Far above any machine, and low enough that no sum over processes overflows.
pub const MAX_HELD_BYTES: u64 = 1 << 48;

/// Larger than any device: a size above it is noise where no capacity is known.
pub const ABSURD_BYTES: u64 = 100 << 30;

/// How much one process may have.
///
/// Each is far above what real programs have; together they bound what a
/// hostile client can make the server keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub devices: usize,
    /// The highest device number that old senders may use.
    pub last_legacy_device: u32,
    pub meshes: usize,
    /// Devices of all mesh handles together.
    pub mesh_members: usize,
    pub buffers: usize,
    pub programs: usize,
    /// Devices of all programs together.
    pub parts: usize,
    /// Per-core storage and kernels, on all devices together.
    pub placed: usize,
    pub definitions: usize,
    pub text_bytes: usize,
    pub config_rings: usize,
    pub traces: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            devices: 1024,
            last_legacy_device: 1023,
            meshes: 16_384,
            mesh_members: 65_536,
            buffers: 16 << 20,
            programs: 4 << 20,
            parts: 1 << 20,
            placed: 8 << 20,
            definitions: 1 << 20,
            text_bytes: 64 << 20,
            config_rings: 4096,
            traces: 256,
        }
    }
}
