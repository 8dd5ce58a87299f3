//! Which program was dispatched last on each core of a device.
//!
//! A core's storage and kernels are those of the last program that covered it.
//! The entry ends when another program is dispatched on the core, when the
//! program is destroyed, or when the process lets go of the device.

use std::sync::Arc;
use ttmem_event::{CoreSet, CoreType};

const CORES: usize = 32 * 32;

/// A program of some process: where the owner of a core is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The process.
    pub process: u32,
    /// The slot of the program in its process.
    pub program: u32,
}

/// The last program on each core of one device, per core type.
#[derive(Clone, Debug, Default)]
pub struct Residency {
    // Pages of a reader's view: written through `Arc::make_mut`.
    cores: [Option<Arc<[Option<Owner>; CORES]>>; CoreType::ALL.len()],
}

impl Residency {
    /// The program now runs on these cores.
    pub(crate) fn settle(&mut self, core_type: CoreType, cores: &CoreSet, owner: Owner) {
        let map = self.cores[core_type as usize].get_or_insert_with(|| Arc::new([None; CORES]));
        let map = Arc::make_mut(map);
        for run in cores.runs() {
            map[run].fill(Some(owner));
        }
    }

    /// Every core for which `gone` holds has no program any more.
    pub(crate) fn clear(&mut self, gone: impl Fn(Owner) -> bool) {
        for map in self.cores.iter_mut().flatten() {
            if map.iter().flatten().any(|owner| gone(*owner)) {
                for core in Arc::make_mut(map) {
                    core.take_if(|owner| gone(*owner));
                }
            }
        }
    }

    /// The cores of one type with their programs, grouped by program.
    #[must_use]
    pub fn by_owner(&self, core_type: CoreType) -> Vec<(Owner, Vec<usize>)> {
        let Some(map) = &self.cores[core_type as usize] else {
            return Vec::new();
        };
        let mut owned: Vec<(Owner, usize)> = map
            .iter()
            .enumerate()
            .filter_map(|(index, owner)| Some(((*owner)?, index)))
            .collect();
        owned.sort_unstable();
        owned
            .chunk_by(|one, next| one.0 == next.0)
            .map(|group| {
                (
                    group[0].0,
                    group.iter().map(|(_owner, index)| *index).collect(),
                )
            })
            .collect()
    }
}
