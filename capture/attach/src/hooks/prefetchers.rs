//! Prefetcher caches: which workloads' binaries the dispatch cores still have.
//!
//! A command queue makes two: the one it uses, and one that stands in for it while a
//! trace is captured. The first queue's first is reported as its mesh's.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{interpose_needed, queues};
use crate::family::Family;
use crate::mesh_objects::{MeshObject, MeshObjects};
use crate::report;
use crate::runtime::Object;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use ttmem_event::{EventKind, MeshId};

pub(crate) static FAMILY: Family = Family::new("prefetcher caches");

/// The caches: twice as many as a machine has devices.
pub(crate) static CACHES: MeshObjects<Cache, 128> = MeshObjects::new();

/// A `RingbufferCacheManager`.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    block_bytes: AtomicU64,
    size_bytes: AtomicU64,
    /// Whether nothing was placed since it was emptied.
    is_empty: AtomicBool,
}

/// What was found for a workload: whether it was there, where it is in blocks, whether it fits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Found {
    is_there: u32,
    offset: u32,
    fits: u64,
}

thread_local! {
    /// The mesh for whose queue this thread has made a cache.
    static MADE_FOR: Cell<usize> = const { Cell::new(0) };
}

/// Ends the caches of a mesh that was closed: their addresses are anybody's.
pub(super) fn mesh_closed(mesh: usize) {
    FAMILY.contain(|| CACHES.end_of_mesh(mesh));
}

/// Notes a cache that was made for a queue.
#[cold]
fn note(object: Object, block_bytes: u32, blocks: u32) -> Option<()> {
    FAMILY.need(&*NEEDED)?;
    // What comes first is the one in use; other queues of the mesh have their own.
    let mesh = queues::making().filter(|making| making.number == 0)?.mesh;
    if MADE_FOR.try_with(|made_for| made_for.replace(mesh)) == Ok(mesh) {
        return None;
    }
    // One that had this address before may have ended unseen.
    mesh_closed(mesh);
    let cache = &CACHES.register(object.address(), mesh)?.state;
    let size_bytes = u64::from(block_bytes).saturating_mul(blocks.into());
    cache.block_bytes.store(block_bytes.into(), Relaxed);
    cache.size_bytes.store(size_bytes, Relaxed);
    cache.is_empty.store(true, Relaxed);
    Some(())
}

/// A queue was made: what the next one makes is its own.
pub(super) fn queue_made() {
    let _ending = MADE_FOR.try_with(|mesh| mesh.set(0));
}

/// The mesh of a cache, with which the cache is reported if it was not.
fn report_opened(cache: &MeshObject<Cache>) -> Option<MeshId> {
    if let Some(mesh) = cache.reported() {
        return Some(mesh);
    }
    let mesh = cache.mesh()?;
    cache.set_reported(mesh);
    let size_bytes = cache.state.size_bytes.load(Relaxed);
    FAMILY.contain(|| report::event(EventKind::PrefetchOpened { mesh, size_bytes }));
    Some(mesh)
}

/// Reports the cache of a mesh that was just reported.
pub(super) fn mesh_opened(mesh: Object) {
    if FAMILY.need(&*NEEDED).is_some()
        && let Some(cache) = CACHES.of_mesh(mesh.address()).next()
    {
        report_opened(cache);
    }
}

fn report_found(object: Object, workload: u64, size_bytes: u32, found: Found) -> Option<()> {
    let cache = CACHES.at(object.address())?;
    // A flag leaves the upper bits of its register undefined.
    if found.fits & 0xff == 0 || size_bytes == 0 {
        return None;
    }
    let mesh = report_opened(cache)?;
    let block_bytes = cache.state.block_bytes.load(Relaxed);
    cache.state.is_empty.store(false, Relaxed);
    FAMILY.contain(|| {
        report::event(EventKind::Prefetched {
            mesh,
            workload,
            offset: u64::from(found.offset).saturating_mul(block_bytes),
            size_bytes: size_bytes.into(),
            hit: found.is_there & 0xff != 0,
        });
    });
    Some(())
}

/// Reports that a cache was emptied; one that was empty is as it was.
fn report_emptied(object: Object) -> Option<()> {
    let cache = CACHES.at(object.address())?;
    if cache.state.is_empty.load(Relaxed) {
        return None;
    }
    cache.state.is_empty.store(true, Relaxed);
    let mesh = report_opened(cache)?;
    FAMILY.contain(|| report::event(EventKind::PrefetchReset { mesh }));
    Some(())
}

// A runtime without one of these has no such cache, or another.
interpose_needed! {
    /// `RingbufferCacheManager::RingbufferCacheManager(int, int, int)`: bytes of a block, blocks.
    "_ZN2tt8tt_metal22RingbufferCacheManagerC1Eiii"
    fn make_cache(cache: Object, block_bytes: u32, blocks: u32, entries: u32) |real| {
        real();
        if FAMILY.is_tracking() {
            FAMILY.contain(|| note(cache, block_bytes, blocks));
        }
    }

    /// `optional<CacheOffset> RingbufferCacheManager::get_cache_offset(u64, u32)`.
    "_ZN2tt8tt_metal22RingbufferCacheManager16get_cache_offsetEmj"
    fn ask_cache(cache: Object, workload: u64, size_bytes: u32) -> Found |real| {
        let found = real();
        if FAMILY.is_tracking() {
            report_found(cache, workload, size_bytes, found);
        }
        found
    }

    /// `void RingbufferCacheManager::reset()`: before every workload that is not cached.
    "_ZN2tt8tt_metal22RingbufferCacheManager5resetEv"
    fn empty_cache(cache: Object) |real| {
        real();
        if FAMILY.is_tracking() {
            report_emptied(cache);
        }
    }
}
