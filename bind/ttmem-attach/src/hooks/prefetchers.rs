//! Prefetcher caches: which workloads' binaries the dispatch cores still have.
//!
//! A command queue makes two: the one it uses, and one that stands in for it while a
//! trace is captured. The first queue's first is told of as its mesh's.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{interpose, queues};
use crate::family::{Doubt, Family};
use crate::place_map::PlaceMap;
use crate::runtime::Object;
use crate::{places, report, symbols};
use std::cell::Cell;
use std::ffi::CStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use ttmem_event::MeshId;

pub(crate) static FAMILY: Family = Family::new("prefetcher caches");

/// A runtime without one of these has no such cache, or another.
const NEEDED: [&CStr; 3] = [
    c"_ZN2tt8tt_metal22RingbufferCacheManagerC1Eiii",
    c"_ZN2tt8tt_metal22RingbufferCacheManager16get_cache_offsetEmj",
    c"_ZN2tt8tt_metal22RingbufferCacheManager5resetEv",
];

/// Whether all that is needed is there.
pub(crate) static SYMBOLS: LazyLock<Result<(), Doubt>> =
    LazyLock::new(|| symbols::need_all(&NEEDED));

/// Twice as many as a machine has devices.
const MAX_CACHES: usize = 128;

static CACHES: PlaceMap<MAX_CACHES> = PlaceMap::new();

/// A `RingbufferCacheManager`; used under a lock of the runtime.
#[derive(Debug, Default)]
struct Cache {
    address: AtomicUsize,
    mesh_object: AtomicUsize,
    block_bytes: AtomicU64,
    size_bytes: AtomicU64,
    /// The mesh that was told of it; 0 = none was.
    told: AtomicU32,
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

/// Forgets every cache: in a child, they are its parent's.
pub(crate) fn forget() {
    CACHES.forget();
}

fn known(object: Object) -> Option<&'static Cache> {
    cache_at(CACHES.get(object.addr())?)
}

fn cache_at(address: usize) -> Option<&'static Cache> {
    let cache = std::ptr::with_exposed_provenance::<Cache>(address);
    // SAFETY: only `note` makes such addresses, each of a cache that is never freed.
    unsafe { cache.as_ref() }
}

/// The caches of a mesh, by its address; 0 = those whose mesh is gone.
fn of_mesh(mesh: usize) -> impl Iterator<Item = &'static Cache> {
    let is_of_mesh = move |cache: &&Cache| cache.mesh_object.load(Ordering::Relaxed) == mesh;
    CACHES.values().filter_map(cache_at).filter(is_of_mesh)
}

/// Ends the caches of a mesh that was closed: their addresses are anybody's.
pub(super) fn mesh_closed(mesh: Object) {
    FAMILY.contain(|| {
        for cache in of_mesh(mesh.addr()) {
            cache.mesh_object.store(0, Ordering::Relaxed);
            cache.told.store(0, Ordering::Relaxed);
        }
    });
}

fn mesh_of(cache: &Cache) -> Option<MeshId> {
    let object = std::ptr::without_provenance(cache.mesh_object.load(Ordering::Relaxed));
    places::known_place(object).map(|place| place.mesh)
}

/// Notes a cache that was made for a queue.
#[cold]
fn note(object: Object, block_bytes: u32, blocks: u32) -> Option<()> {
    FAMILY.need(&*SYMBOLS)?;
    // What comes first is the one in use; other queues of the mesh have their own.
    let making = queues::making().filter(|making| making.number == 0)?;
    if MADE_FOR.try_with(|mesh| mesh.replace(making.mesh.addr())) == Ok(making.mesh.addr()) {
        return None;
    }
    // One that had this address before may have ended unseen.
    mesh_closed(making.mesh);
    let cache = known(object).unwrap_or_else(|| {
        let new: &'static Cache = match of_mesh(0).next() {
            Some(ended) => {
                CACHES.remove(ended.address.load(Ordering::Relaxed));
                ended
            }
            None => Box::leak(Box::default()),
        };
        new.address.store(object.addr(), Ordering::Relaxed);
        CACHES.insert(object.addr(), (&raw const *new).expose_provenance());
        new
    });
    let size_bytes = u64::from(block_bytes).saturating_mul(blocks.into());
    let relaxed = Ordering::Relaxed;
    cache.mesh_object.store(making.mesh.addr(), relaxed);
    cache.block_bytes.store(block_bytes.into(), relaxed);
    cache.size_bytes.store(size_bytes, relaxed);
    cache.told.store(0, relaxed);
    cache.is_empty.store(true, relaxed);
    Some(())
}

/// A queue was made: what the next one makes is its own.
pub(super) fn queue_made() {
    let _ending = MADE_FOR.try_with(|mesh| mesh.set(0));
}

/// The mesh of a cache, which is told of the cache if it was not.
fn tell_opened(cache: &Cache) -> Option<MeshId> {
    let told = cache.told.load(Ordering::Relaxed);
    if told != 0 {
        return Some(MeshId(told));
    }
    let mesh = mesh_of(cache)?;
    cache.told.store(mesh.0, Ordering::Relaxed);
    let size_bytes = cache.size_bytes.load(Ordering::Relaxed);
    FAMILY.contain(|| report::prefetcher::opened(mesh, size_bytes));
    Some(mesh)
}

/// Tells of the cache of a mesh that was just told of.
pub(super) fn mesh_opened(mesh: Object) {
    if FAMILY.need(&*SYMBOLS).is_none() {
        return;
    }
    if let Some(cache) = of_mesh(mesh.addr()).next() {
        tell_opened(cache);
    }
}

/// Tells what a cache was asked for.
fn tell_found(object: Object, workload: u64, size_bytes: u32, found: Found) -> Option<()> {
    let cache = known(object)?;
    // A flag leaves the upper bits of its register undefined.
    if found.fits & 0xff == 0 || size_bytes == 0 {
        return None;
    }
    let mesh = tell_opened(cache)?;
    let hit = found.is_there & 0xff != 0;
    let block_bytes = cache.block_bytes.load(Ordering::Relaxed);
    let offset = u64::from(found.offset).saturating_mul(block_bytes);
    cache.is_empty.store(false, Ordering::Relaxed);
    FAMILY.contain(|| {
        report::prefetcher::asked(mesh, workload, offset, size_bytes.into(), hit);
    });
    Some(())
}

/// Tells that a cache was emptied; one that was empty is as it was.
fn tell_emptied(object: Object) -> Option<()> {
    let cache = known(object)?;
    if cache.is_empty.load(Ordering::Relaxed) {
        return None;
    }
    cache.is_empty.store(true, Ordering::Relaxed);
    let mesh = tell_opened(cache)?;
    FAMILY.contain(|| report::prefetcher::emptied(mesh));
    Some(())
}

interpose! {
    /// `RingbufferCacheManager::RingbufferCacheManager(int, int, int)`: bytes of a block, blocks.
    "_ZN2tt8tt_metal22RingbufferCacheManagerC1Eiii"
    fn make_cache(cache: Object, block_bytes: u32, blocks: u32, entries: u32) |real| {
        // SAFETY: the caller's own arguments.
        unsafe { real(cache, block_bytes, blocks, entries) };
        if FAMILY.is_on() && report::is_on() {
            FAMILY.contain(|| note(cache, block_bytes, blocks));
        }
    }
}

interpose! {
    /// `optional<CacheOffset> RingbufferCacheManager::get_cache_offset(u64, u32)`.
    "_ZN2tt8tt_metal22RingbufferCacheManager16get_cache_offsetEmj"
    fn ask_cache(cache: Object, workload: u64, size_bytes: u32) -> Found |real| {
        // SAFETY: the caller's own arguments.
        let found = unsafe { real(cache, workload, size_bytes) };
        if FAMILY.is_on() && report::is_on() {
            tell_found(cache, workload, size_bytes, found);
        }
        found
    }
}

interpose! {
    /// `void RingbufferCacheManager::reset()`: before every workload that is not cached.
    "_ZN2tt8tt_metal22RingbufferCacheManager5resetEv"
    fn empty_cache(cache: Object) |real| {
        // SAFETY: the caller's own argument.
        unsafe { real(cache) };
        if FAMILY.is_on() && report::is_on() {
            tell_emptied(cache);
        }
    }
}
