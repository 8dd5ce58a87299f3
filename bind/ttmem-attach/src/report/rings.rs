//! Events of config rings.

use super::tracker;
use crate::ring_managers::{Manager, Taken};
use ttmem_event::{CoreType, MeshId, ProgramId, What};

/// The rings of a sub-device exist, with nothing in them.
pub(crate) fn opened(mesh: MeshId, manager: &Manager) {
    for (core_type, space) in manager.spaces() {
        tracker().track(What::RingOpened {
            mesh,
            sub_device: manager.sub_device(),
            core_type,
            base: space.base.into(),
            size_bytes: space.size_bytes.into(),
        });
    }
}

/// A program took room; `sync` completions end it.
#[inline]
pub(crate) fn taken(mesh: MeshId, sub_device: u8, taken: &Taken, program: ProgramId, sync: u32) {
    let tracker = tracker();
    let places = || CoreType::ALL.into_iter().zip(&taken.places);
    let places = || places().filter(|(_core_type, place)| place.size_bytes > 0);
    for (core_type, place) in places() {
        tracker.track(What::RingReserved {
            mesh,
            sub_device,
            core_type,
            stalled: taken.waits_for.is_some(),
            size_bytes: place.size_bytes.into(),
            sync: taken.waits_for.unwrap_or_default().into(),
        });
    }
    if let Some(waits_for) = taken.waits_for {
        freed(mesh, sub_device, taken.used, waits_for);
    }
    for (core_type, place) in places() {
        tracker.track(What::RingAllocated {
            mesh,
            sub_device,
            core_type,
            program,
            address: place.base.into(),
            size_bytes: place.size_bytes.into(),
            sync: sync.into(),
        });
    }
}

/// What ends with `sync` completions left the rings of the kinds of cores with these bits.
pub(crate) fn freed(mesh: MeshId, sub_device: u8, kinds: u32, sync: u32) {
    for (kind, core_type) in CoreType::ALL.into_iter().enumerate() {
        if kinds >> kind & 1 == 1 {
            tracker().track(What::RingFreed {
                mesh,
                sub_device,
                core_type,
                sync: sync.into(),
            });
        }
    }
}

/// The rings hold something else until `sync` completions came.
pub(crate) fn filled(mesh: MeshId, manager: &Manager, sync: u32) {
    for (core_type, _space) in manager.spaces() {
        tracker().track(What::RingFilled {
            mesh,
            sub_device: manager.sub_device(),
            core_type,
            sync: sync.into(),
        });
    }
}
