//! Where everything lies on the first device of a world.

use super::World;
use crate::wants::DeviceKey;
use ttmem_api::{BlockMap, L1Map};

impl World {
    pub(super) fn l1_map(self) -> Option<(DeviceKey, L1Map)> {
        None
    }

    pub(super) fn blocks(self) -> Option<(DeviceKey, BlockMap)> {
        None
    }
}
