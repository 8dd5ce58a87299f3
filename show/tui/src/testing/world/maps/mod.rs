//! Where everything lies on the first device of a world: the same bytes as its totals, with places.

mod banks;
mod l1;

use super::World;
use ttmem_report::{BlockMap, DeviceKey, L1Map};

impl World {
    /// L1 with the first core.
    pub(super) fn l1_map(self) -> Option<(DeviceKey, L1Map)> {
        self.l1_map_with((0, 0))
    }

    pub(super) fn blocks(self) -> Option<(DeviceKey, BlockMap)> {
        self.blocks_of_dram()
    }
}
