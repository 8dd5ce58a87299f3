//! Events of a world.

use super::World;
use ttmem_api::StreamEvent;

impl World {
    pub(super) fn events(self) -> Vec<StreamEvent> {
        Vec::new()
    }
}
