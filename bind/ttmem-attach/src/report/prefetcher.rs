//! Events of prefetcher caches.

use super::tracker;
use ttmem_event::{EventKind, MeshId};

/// A mesh has a cache, with nothing in it.
pub(crate) fn opened(mesh: MeshId, size_bytes: u64) {
    tracker().track(EventKind::PrefetchOpened { mesh, size_bytes });
}

/// A cache was asked for a workload, which is there now.
#[inline]
pub(crate) fn asked(mesh: MeshId, workload: u64, offset: u64, size_bytes: u64, hit: bool) {
    tracker().track(EventKind::Prefetched {
        mesh,
        workload,
        offset,
        size_bytes,
        hit,
    });
}

#[inline]
pub(crate) fn emptied(mesh: MeshId) {
    tracker().track(EventKind::PrefetchReset { mesh });
}
