//! Events of config rings.

use super::{event, tracker};
use crate::config_ring_managers::{Manager, Space, Taken};
use ttmem_event::{CoreType, EventKind, MeshId, ProgramId};

/// The rings of a sub-device exist, with nothing in them.
pub(crate) fn opened(mesh: MeshId, manager: &Manager) {
    for (core_type, space) in manager.spaces() {
        event(EventKind::ConfigRingOpened {
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
pub(crate) fn taken(
    mesh: MeshId,
    sub_device: u8,
    taken: &Taken<'_>,
    program: ProgramId,
    sync: u32,
) {
    let reserved = |(core_type, place): (CoreType, Space)| EventKind::ConfigRingReserved {
        mesh,
        sub_device,
        core_type,
        stalled: taken.waits_for.is_some(),
        size_bytes: place.size_bytes.into(),
        sync: taken.waits_for.unwrap_or_default().into(),
    };
    let allocated = |(core_type, place): (CoreType, Space)| EventKind::ConfigRingAllocated {
        mesh,
        sub_device,
        core_type,
        program,
        address: place.base.into(),
        size_bytes: place.size_bytes.into(),
        sync: sync.into(),
    };
    // Nearly always it is one kind of cores, and something has to go before.
    if let (Some(only), Some(waits_for)) = (taken.only_place(), taken.waits_for) {
        let freed = config_ring_freed(mesh, sub_device, only.0, waits_for);
        tracker().track_together([reserved(only), freed, allocated(only)]);
        return;
    }
    taken.places().map(reserved).for_each(event);
    if let Some(waits_for) = taken.waits_for {
        freed(mesh, sub_device, taken.used, waits_for);
    }
    taken.places().map(allocated).for_each(event);
}

fn config_ring_freed(mesh: MeshId, sub_device: u8, core_type: CoreType, sync: u32) -> EventKind {
    EventKind::ConfigRingFreed {
        mesh,
        sub_device,
        core_type,
        sync: sync.into(),
    }
}

/// What ends with `sync` completions left the rings of the kinds of cores with these bits.
pub(crate) fn freed(mesh: MeshId, sub_device: u8, kinds: u32, sync: u32) {
    for (kind, core_type) in CoreType::ALL.into_iter().enumerate() {
        if kinds >> kind & 1 == 1 {
            event(config_ring_freed(mesh, sub_device, core_type, sync));
        }
    }
}

/// The rings hold something else until `sync` completions came.
pub(crate) fn filled(mesh: MeshId, manager: &Manager, sync: u32) {
    for (core_type, _space) in manager.spaces() {
        event(EventKind::ConfigRingFilled {
            mesh,
            sub_device: manager.sub_device(),
            core_type,
            sync: sync.into(),
        });
    }
}
