//! The device catalogue: what each Tenstorrent board is made of.
//!
//! It owns the constants of the hardware and of the runtime's static memory
//! layout: chips of a board, core grids, banks, bases, alignments. The server
//! answers with it when no client has described a device yet, and the runtime
//! model builds its devices from it.
//!
//! Bases move between releases of the runtime and grids with its settings, so
//! whatever a running client reports beats the catalogue. Hardware the
//! catalogue does not know is no [`BoardKind`], or [`Arch::Unknown`], whose figures
//! are absent: never a guess, never a panic.

mod arch;
mod board;
mod capacity;
mod dispatch;
mod memory_map;
mod visible;

pub use self::arch::Arch;
pub use self::board::{BoardKind, ChipAttachment, ChipDescription};
pub use self::capacity::{BankedRegion, Capacities, DeviceOptions};
pub use self::dispatch::{DispatchCores, Grid, WORMHOLE_ETHERNET_DISPATCH_CORES};
pub use self::memory_map::{ConfigRing, CoreMemory, MemoryMap, TRACE_PAGE_BYTES};
pub use self::visible::is_device_list;
