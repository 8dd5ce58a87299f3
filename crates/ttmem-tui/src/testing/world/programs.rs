//! Programs and kernels of a world.

use super::World;
use crate::data::Listed;
use ttmem_api::{KernelRow, ProgramRow};

impl World {
    pub(super) fn programs(self) -> Listed<ProgramRow> {
        Listed {
            rows: Vec::new(),
            has_more: false,
        }
    }

    pub(super) fn kernels(self) -> Listed<KernelRow> {
        Listed {
            rows: Vec::new(),
            has_more: false,
        }
    }
}
