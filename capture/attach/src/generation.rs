//! Which releases of ttnn a runtime is like, by the functions that it has.
//!
//! For people only: what is done depends on each function that is there or not, never on
//! this. A runtime that was built from source, or into another library, has no version
//! that could be asked for; its functions show what it is close to.

use std::ffi::CStr;

/// Releases that differ from those before them by a function that came with them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) releases: &'static str,
    /// A function that they have and the generations below do not.
    came_with: &'static CStr,
}

/// Newest first: a runtime is of the first whose function it has.
static GENERATIONS: [Generation; 7] = [
    Generation {
        releases: "0.79 - 0.81",
        came_with: c"_ZNK2tt8tt_metal6Buffer9unique_idEv",
    },
    Generation {
        releases: "0.77 - 0.78",
        came_with: c"_ZN2tt8tt_metal12GraphTracker30track_allocate_dataflow_bufferERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE",
    },
    Generation {
        releases: "0.70 - 0.76",
        came_with: c"_ZN2tt8tt_metal6detail11ProgramImpl27deallocate_circular_buffersEv",
    },
    Generation {
        releases: "0.66 - 0.69",
        came_with: c"_ZN2tt8tt_metal11distributed14MeshDeviceImpl10close_implEPNS1_10MeshDeviceE",
    },
    Generation {
        releases: "0.65",
        came_with: c"_ZN2tt8tt_metal12GraphTracker8instanceEv",
    },
    Generation {
        releases: "0.64.1 - 0.64.5",
        came_with: c"_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE",
    },
    Generation {
        releases: "0.62.0 - 0.64.0",
        came_with: c"_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERK12CoreRangeSetmmbPKNS0_7IDeviceE",
    },
];

/// The generation of a runtime that has the functions for which `has` says so.
pub(crate) fn of(has: impl Fn(&CStr) -> bool) -> Option<&'static Generation> {
    GENERATIONS
        .iter()
        .find(|generation| has(generation.came_with))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The releases that a runtime with these functions is like.
    fn like(functions: &[&CStr]) -> Option<&'static str> {
        of(|name| functions.contains(&name)).map(|generation| generation.releases)
    }

    #[test]
    fn each_generation_is_known_by_the_newest_function_that_it_has() {
        for (at, generation) in GENERATIONS.iter().enumerate() {
            let functions: Vec<&CStr> = GENERATIONS[at..].iter().map(|g| g.came_with).collect();
            assert_eq!(like(&functions), Some(generation.releases));
        }
    }

    #[test]
    fn the_three_kinds_of_tracker_are_told_apart() {
        let instance = c"_ZN2tt8tt_metal12GraphTracker8instanceEv";
        let global =
            c"_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERK12CoreRangeSetmmbPKNS0_7IDeviceE";
        let nested = c"_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE";
        let dataflow = c"_ZN2tt8tt_metal12GraphTracker30track_allocate_dataflow_bufferERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE";
        assert_eq!(like(&[global]), Some("0.62.0 - 0.64.0"));
        assert_eq!(like(&[nested]), Some("0.64.1 - 0.64.5"));
        assert_eq!(like(&[nested, instance]), Some("0.65"));
        assert_eq!(like(&[nested, instance, dataflow]), Some("0.77 - 0.78"));
    }

    #[test]
    fn a_runtime_without_any_of_them_is_like_none() {
        assert_eq!(like(&[]), None);
    }
}
