//! The semaphores of a program: which numbers are taken on which cores.

use super::error::ProgramError;
use super::ranges::CoreRanges;
use ttmem_event::{CoreSet, CoreType};

/// How many semaphores a program has on each core.
const PER_CORE: u32 = 16;

#[derive(Debug)]
struct Semaphore {
    number: u32,
    cores: CoreSet,
    core_type: CoreType,
}

/// Every semaphore of a program.
///
/// The runtime does not tell active from idle Ethernet cores here: a semaphore on either takes
/// its number, and its room in the config, on both.
#[derive(Debug, Default)]
pub(super) struct Semaphores(Vec<Semaphore>);

impl Semaphores {
    /// Takes the lowest number that is free on all of the cores.
    pub(super) fn add(
        &mut self,
        core_type: CoreType,
        cores: &CoreRanges,
    ) -> Result<u32, ProgramError> {
        let core_type = told_apart(core_type);
        let alike = || self.0.iter().filter(|other| other.core_type == core_type);
        let full = cores.cores().find(|(x, y)| {
            let here = alike().filter(|other| other.cores.contains(*x, *y));
            here.count() >= PER_CORE as usize
        });
        if let Some((x, y)) = full {
            return Err(ProgramError::CoreOutOfSemaphores {
                x,
                y,
                limit: PER_CORE,
            });
        }
        let set = cores.set();
        let is_free = |number: &u32| {
            alike()
                .all(|other| other.number != *number || other.cores.intersection(&set).is_empty())
        };
        let number =
            (0..PER_CORE)
                .find(is_free)
                .ok_or_else(|| ProgramError::NoCommonSemaphore {
                    cores: cores.clone(),
                    limit: PER_CORE,
                })?;
        self.0.push(Semaphore {
            number,
            cores: set,
            core_type,
        });
        Ok(number)
    }

    /// Behind the highest number on cores of that type.
    pub(super) fn end(&self, core_type: CoreType) -> u32 {
        let core_type = told_apart(core_type);
        self.0
            .iter()
            .filter(|semaphore| semaphore.core_type == core_type)
            .map(|semaphore| semaphore.number + 1)
            .max()
            .unwrap_or(0)
    }
}

/// The core type that stands for this one among semaphores.
const fn told_apart(core_type: CoreType) -> CoreType {
    match core_type {
        CoreType::ActiveEth | CoreType::IdleEth => CoreType::ActiveEth,
        CoreType::Tensix | CoreType::Dram => core_type,
    }
}
