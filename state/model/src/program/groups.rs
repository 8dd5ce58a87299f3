//! Kernel groups: the cores of a program that run the same set of kernels.
//!
//! The runtime sends one launch message per group, and the config of a core is laid out for the
//! largest group.

use super::kernel::Kernel;
use std::collections::BTreeMap;
use ttmem_event::{CoreSet, CoreType};

/// Cores that run the same kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelGroup {
    pub cores: CoreSet,
    /// Places of the kernels in the program, in the order of their processors.
    pub kernels: Vec<usize>,
}

/// The groups of one core type, ordered as the runtime does: by their sets of kernels.
pub(super) fn groups(kernels: &[Kernel], core_type: CoreType) -> Vec<KernelGroup> {
    let mut by_kernels: BTreeMap<Vec<usize>, CoreSet> = BTreeMap::new();
    let of_type = kernels
        .iter()
        .enumerate()
        .filter(|(_, kernel)| kernel.spec.core_type == core_type);
    for (place, kernel) in of_type {
        // Each kernel splits the groups so far into the cores that it is on and the others.
        let mut alone = kernel.spec.cores.set();
        let mut split = BTreeMap::new();
        for (set, cores) in by_kernels {
            let shared = cores.intersection(&alone);
            let others = cores.without(&alone);
            alone = alone.without(&shared);
            if !shared.is_empty() {
                let mut with_this = set.clone();
                with_this.push(place);
                split.insert(with_this, shared);
            }
            if !others.is_empty() {
                split.insert(set, others);
            }
        }
        if !alone.is_empty() {
            split.insert(vec![place], alone);
        }
        by_kernels = split;
    }
    by_kernels
        .into_iter()
        .map(|(mut places, cores)| {
            places.sort_by_key(|place| kernels[*place].spec.processor);
            KernelGroup {
                cores,
                kernels: places,
            }
        })
        .collect()
}
