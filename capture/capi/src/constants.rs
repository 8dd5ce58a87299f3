//! The words of the vocabulary as C constants.
//!
//! They are integers and not enumerations: a C program can put any number where
//! an enumeration is asked for, which in Rust would be undefined behaviour. Each
//! is turned into its word where it comes in, or refused.

/// Where a buffer lives: one of TTMEM_CLASS_*. The numbers are the runtime's own.
pub type ttmem_class_t = u8;
/// Device DRAM.
pub const TTMEM_CLASS_DRAM: ttmem_class_t = 0;
/// The L1 of the compute cores.
pub const TTMEM_CLASS_L1: ttmem_class_t = 1;
/// Host memory the device can reach; never device memory.
pub const TTMEM_CLASS_SYSTEM_MEMORY: ttmem_class_t = 2;
/// The small region at the top of L1.
pub const TTMEM_CLASS_L1_SMALL: ttmem_class_t = 3;
/// The trace region at the top of DRAM.
pub const TTMEM_CLASS_TRACE: ttmem_class_t = 4;
/// In ttmem_buffers_released: every class.
pub const TTMEM_CLASS_ALL: ttmem_class_t = 255;

/// How a buffer is laid out over banks: one of TTMEM_LAYOUT_*. The numbers are the runtime's own.
pub type ttmem_layout_t = u8;
/// Pages dealt over all banks.
pub const TTMEM_LAYOUT_INTERLEAVED: ttmem_layout_t = 0;
/// Not known.
pub const TTMEM_LAYOUT_UNKNOWN: ttmem_layout_t = 1;
/// Sharded by rows.
pub const TTMEM_LAYOUT_HEIGHT_SHARDED: ttmem_layout_t = 2;
/// Sharded by columns.
pub const TTMEM_LAYOUT_WIDTH_SHARDED: ttmem_layout_t = 3;
/// Sharded by blocks.
pub const TTMEM_LAYOUT_BLOCK_SHARDED: ttmem_layout_t = 4;
/// Sharded in any number of dimensions.
pub const TTMEM_LAYOUT_ND_SHARDED: ttmem_layout_t = 5;

/// The end of the bank that a buffer was taken from: one of TTMEM_DIRECTION_*.
pub type ttmem_direction_t = u8;
/// From low addresses.
pub const TTMEM_DIRECTION_BOTTOM_UP: ttmem_direction_t = 0;
/// From high addresses.
pub const TTMEM_DIRECTION_TOP_DOWN: ttmem_direction_t = 1;

/// The kinds of per-core storage that a program places itself: one of TTMEM_CB_KIND_*.
pub type ttmem_cb_kind_t = u8;
/// A circular buffer placed by the program.
pub const TTMEM_CB_KIND_LOCAL: ttmem_cb_kind_t = 0;
/// A circular buffer inside an existing L1 buffer: shown, but no further memory.
pub const TTMEM_CB_KIND_GLOBAL: ttmem_cb_kind_t = 1;
/// A dataflow buffer placed by the program.
pub const TTMEM_CB_KIND_DATAFLOW: ttmem_cb_kind_t = 2;
/// A dataflow buffer inside an existing L1 buffer: shown, but no further memory.
pub const TTMEM_CB_KIND_DATAFLOW_BORROWED: ttmem_cb_kind_t = 3;
/// Scratch memory placed by the program.
pub const TTMEM_CB_KIND_SCRATCHPAD: ttmem_cb_kind_t = 4;

/// What a kernel is for: one of TTMEM_KERNEL_KIND_*.
pub type ttmem_kernel_kind_t = u8;
/// The user's computation.
pub const TTMEM_KERNEL_KIND_APPLICATION: ttmem_kernel_kind_t = 0;
/// Fabric routers.
pub const TTMEM_KERNEL_KIND_FABRIC: ttmem_kernel_kind_t = 1;
/// Command queues.
pub const TTMEM_KERNEL_KIND_DISPATCH: ttmem_kernel_kind_t = 2;
/// Not known.
pub const TTMEM_KERNEL_KIND_UNKNOWN: ttmem_kernel_kind_t = 3;

/// Where the binary of a program is, per device: one of TTMEM_BINARY_STATUS_*.
pub type ttmem_binary_status_t = u8;
/// Not yet written.
pub const TTMEM_BINARY_STATUS_NOT_SENT: ttmem_binary_status_t = 0;
/// The commands to write it were issued.
pub const TTMEM_BINARY_STATUS_IN_FLIGHT: ttmem_binary_status_t = 1;
/// Written, reused from now on.
pub const TTMEM_BINARY_STATUS_COMMITTED: ttmem_binary_status_t = 2;

/// Whether something was found in a cache: one of TTMEM_CACHE_RESULT_*.
pub type ttmem_cache_result_t = u8;
/// The runtime did not say.
pub const TTMEM_CACHE_RESULT_UNKNOWN: ttmem_cache_result_t = 0;
/// Found.
pub const TTMEM_CACHE_RESULT_HIT: ttmem_cache_result_t = 1;
/// Not found.
pub const TTMEM_CACHE_RESULT_MISS: ttmem_cache_result_t = 2;

/// The way a program reaches the device: one of TTMEM_DISPATCH_PATH_*.
pub type ttmem_dispatch_path_t = u8;
/// Through the command queues on the device.
pub const TTMEM_DISPATCH_PATH_FAST: ttmem_dispatch_path_t = 0;
/// Written by the host.
pub const TTMEM_DISPATCH_PATH_SLOW: ttmem_dispatch_path_t = 1;

/// Why a program's per-core storage was refused: one of TTMEM_CLASH_KIND_*.
pub type ttmem_clash_kind_t = u8;
/// It grows into an L1 buffer.
pub const TTMEM_CLASH_KIND_L1_BUFFER: ttmem_clash_kind_t = 0;
/// It grows beyond the end of L1.
pub const TTMEM_CLASH_KIND_BEYOND_L1: ttmem_clash_kind_t = 1;
/// It grows into memory of service cores.
pub const TTMEM_CLASH_KIND_SERVICE_CORE: ttmem_clash_kind_t = 2;
/// Its cores lie outside the compute grid.
pub const TTMEM_CLASH_KIND_OUTSIDE_GRID: ttmem_clash_kind_t = 3;

/// What a mesh handle stands for in the runtime: one of TTMEM_MESH_KIND_*.
pub type ttmem_mesh_kind_t = u8;
/// A mesh device with an allocator of its own.
pub const TTMEM_MESH_KIND_MESH: ttmem_mesh_kind_t = 0;
/// A single physical device used directly.
pub const TTMEM_MESH_KIND_CHIP: ttmem_mesh_kind_t = 1;

/// The kinds of programmable cores of a device: one of TTMEM_CORE_*.
pub type ttmem_core_type_t = u8;
/// Compute cores.
pub const TTMEM_CORE_TENSIX: ttmem_core_type_t = 0;
/// Ethernet cores with a trained link.
pub const TTMEM_CORE_ACTIVE_ETH: ttmem_core_type_t = 1;
/// Ethernet cores without a link, free for dispatch.
pub const TTMEM_CORE_IDLE_ETH: ttmem_core_type_t = 2;
/// Cores of the DRAM controllers.
pub const TTMEM_CORE_DRAM: ttmem_core_type_t = 3;

/// A chip architecture, with the runtime's own numbers; others are shown as unknown.
pub type ttmem_arch_t = u16;
/// Not known.
pub const TTMEM_ARCH_UNKNOWN: ttmem_arch_t = 0;
/// Grayskull.
pub const TTMEM_ARCH_GRAYSKULL: ttmem_arch_t = 1;
/// Wormhole B0.
pub const TTMEM_ARCH_WORMHOLE_B0: ttmem_arch_t = 2;
/// Blackhole.
pub const TTMEM_ARCH_BLACKHOLE: ttmem_arch_t = 3;
/// Quasar.
pub const TTMEM_ARCH_QUASAR: ttmem_arch_t = 4;

/// How a chip is reached: one of TTMEM_REACH_*.
pub type ttmem_reach_t = u8;
/// Not known.
pub const TTMEM_REACH_UNKNOWN: ttmem_reach_t = 0;
/// Over PCIe.
pub const TTMEM_REACH_LOCAL: ttmem_reach_t = 1;
/// Through another chip.
pub const TTMEM_REACH_REMOTE: ttmem_reach_t = 2;

/// 0 for no, 1 for yes; anything else is refused with TTMEM_E_VALUE.
pub type ttmem_flag_t = u8;

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::catalogue::Arch;
    use ttmem_event::event::enumerations::NamedCodes;
    use ttmem_event::{
        BinaryStatus, CacheResult, CbKind, ClashKind, Class, CoreType, Direction, DispatchPath,
        KernelKind, Layout, MeshKind,
    };

    /// Every word of the vocabulary with the constants of this file that stand for it.
    #[test]
    fn every_word_has_its_number() {
        let table: &[(NamedCodes, &[u8])] = &[
            (
                Class::VALUES,
                &[
                    TTMEM_CLASS_DRAM,
                    TTMEM_CLASS_L1,
                    TTMEM_CLASS_SYSTEM_MEMORY,
                    TTMEM_CLASS_L1_SMALL,
                    TTMEM_CLASS_TRACE,
                ],
            ),
            (
                Layout::VALUES,
                &[
                    TTMEM_LAYOUT_INTERLEAVED,
                    TTMEM_LAYOUT_UNKNOWN,
                    TTMEM_LAYOUT_HEIGHT_SHARDED,
                    TTMEM_LAYOUT_WIDTH_SHARDED,
                    TTMEM_LAYOUT_BLOCK_SHARDED,
                    TTMEM_LAYOUT_ND_SHARDED,
                ],
            ),
            (
                Direction::VALUES,
                &[TTMEM_DIRECTION_BOTTOM_UP, TTMEM_DIRECTION_TOP_DOWN],
            ),
            (
                CbKind::VALUES,
                &[
                    TTMEM_CB_KIND_LOCAL,
                    TTMEM_CB_KIND_GLOBAL,
                    TTMEM_CB_KIND_DATAFLOW,
                    TTMEM_CB_KIND_DATAFLOW_BORROWED,
                    TTMEM_CB_KIND_SCRATCHPAD,
                ],
            ),
            (
                KernelKind::VALUES,
                &[
                    TTMEM_KERNEL_KIND_APPLICATION,
                    TTMEM_KERNEL_KIND_FABRIC,
                    TTMEM_KERNEL_KIND_DISPATCH,
                    TTMEM_KERNEL_KIND_UNKNOWN,
                ],
            ),
            (
                BinaryStatus::VALUES,
                &[
                    TTMEM_BINARY_STATUS_NOT_SENT,
                    TTMEM_BINARY_STATUS_IN_FLIGHT,
                    TTMEM_BINARY_STATUS_COMMITTED,
                ],
            ),
            (
                CacheResult::VALUES,
                &[
                    TTMEM_CACHE_RESULT_UNKNOWN,
                    TTMEM_CACHE_RESULT_HIT,
                    TTMEM_CACHE_RESULT_MISS,
                ],
            ),
            (
                DispatchPath::VALUES,
                &[TTMEM_DISPATCH_PATH_FAST, TTMEM_DISPATCH_PATH_SLOW],
            ),
            (
                ClashKind::VALUES,
                &[
                    TTMEM_CLASH_KIND_L1_BUFFER,
                    TTMEM_CLASH_KIND_BEYOND_L1,
                    TTMEM_CLASH_KIND_SERVICE_CORE,
                    TTMEM_CLASH_KIND_OUTSIDE_GRID,
                ],
            ),
            (
                MeshKind::VALUES,
                &[TTMEM_MESH_KIND_MESH, TTMEM_MESH_KIND_CHIP],
            ),
        ];
        for (words, constants) in table {
            let numbers: Vec<u8> = words.iter().map(|(number, _word)| *number).collect();
            assert_eq!(&numbers, constants, "{words:?}");
        }
        let types = [
            TTMEM_CORE_TENSIX,
            TTMEM_CORE_ACTIVE_ETH,
            TTMEM_CORE_IDLE_ETH,
            TTMEM_CORE_DRAM,
        ];
        assert_eq!(types, CoreType::ALL.map(|core_type| core_type as u8));
        let archs = [
            TTMEM_ARCH_GRAYSKULL,
            TTMEM_ARCH_WORMHOLE_B0,
            TTMEM_ARCH_BLACKHOLE,
            TTMEM_ARCH_QUASAR,
        ];
        assert_eq!(archs.map(Arch::from_code), Arch::NAMED);
        assert_eq!(Arch::from_code(TTMEM_ARCH_UNKNOWN), Arch::Unknown(0));
    }
}
