//! The allocator of the libraries that run inside other programs: it never ends the program.
//!
//! Small blocks come from a heap in mappings of ours, large ones are mappings themselves; the
//! program's own heap is not touched. That keeps our threads from getting arenas of the C library,
//! which take 64 MiB of addresses each, and bounds our share of the process's limits ([`footprint`]).
//!
//! Rust ends a process that has no memory left for a `Vec` or a `Box`. Here that cannot happen:
//!
//! * The first request that fails turns tracking off, by the function that [`Heap::when_exhausted`]
//!   was given. No further event is recorded or applied.
//! * A thread of ours whose request fails stops there, for ever. It does not unwind, and whatever it
//!   was changing is never looked at again.
//! * A thread of the program whose request fails gets the block from a reserve (`heap/reserve.rs`), so that
//!   the call it is in can end. Calls after it find tracking off, so each thread of the program takes
//!   no more than one call needs. A large request gets its mapping in spite of our share.
//! * A large request fails as an error only where the system itself has no room, or in [`Fallible`]
//!   code: whatever grows with the program's data there uses `try_reserve`.
//!
//! A program in Rust that links the client brings its own allocator: none of this applies there.

#![expect(unsafe_code, reason = "an allocator")]

#[cfg(debug_assertions)]
mod failing;
pub mod footprint;
mod lock;
mod reserve;

use dlmalloc::{Allocator, Dlmalloc};
use footprint::Kind;
use lock::Lock;
use reserve::Reserve;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

/// Requests from here on are mappings of their own, and have no reserve.
pub const LARGE_BYTES: usize = 256 << 10;

/// Bytes that the heap asks of the system at a time.
const GRANULARITY: usize = 256 << 10;

const PAGE_BYTES: usize = 4096;

/// How long a call waits for others to give back the reserve. Longer than any call takes, and an end
/// where one waits for this thread.
const MAX_RESERVE_MILLIS: u32 = 2000;

/// Threads that are noted: of ours there are three at most.
const THREADS: usize = 16;

/// What a library of ours declares as its `#[global_allocator]`.
#[derive(Debug)]
pub struct Heap;

struct Small {
    lock: Lock,
    blocks: UnsafeCell<Dlmalloc<Mappings>>,
}

// SAFETY: `blocks` is used only under the lock.
unsafe impl Sync for Small {}

static SMALL: Small = Small {
    lock: Lock::new(),
    blocks: UnsafeCell::new(
        const {
            let mut blocks = Dlmalloc::new_with_allocator(Mappings);
            assert!(blocks.set_granularity(GRANULARITY));
            blocks
        },
    ),
};

static RESERVE: Reserve = Reserve::new();

/// Set by the first request that failed; tracking is off from then on.
static EXHAUSTED: AtomicBool = AtomicBool::new(false);

/// What turns tracking off.
static TURN_OFF: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Thread ids of our threads, and of threads in code that takes "no" for an answer; 0 is a free entry.
static OWN: Threads = [const { AtomicI32::new(0) }; THREADS];
static FALLIBLE: Threads = [const { AtomicI32::new(0) }; THREADS];

/// Whether a thread that recorded has ended: programs without one are spared reading `/proc`.
static THREAD_ENDED: AtomicBool = AtomicBool::new(false);

type Threads = [AtomicI32; THREADS];

impl Heap {
    /// Sets what turns tracking off when memory runs out. It must not allocate or wait.
    pub fn when_exhausted(turn_off: fn()) {
        TURN_OFF.store(turn_off as *mut (), Ordering::Relaxed);
    }

    /// Whether a request has failed.
    #[must_use]
    pub fn is_exhausted() -> bool {
        EXHAUSTED.load(Ordering::Relaxed)
    }

    /// Turns tracking off: there is no memory left for it.
    #[cold]
    pub fn exhaust() {
        EXHAUSTED.store(true, Ordering::Relaxed);
        let turn_off = TURN_OFF.load(Ordering::Relaxed);
        if !turn_off.is_null() {
            // SAFETY: only `when_exhausted` stores here, functions of this type.
            let turn_off = unsafe { std::mem::transmute::<*mut (), fn()>(turn_off) };
            turn_off();
        }
    }

    /// Stops this thread for as long as the program has others; only for threads of ours.
    pub fn stop_thread() -> ! {
        use rustix::thread::{NanosleepRelativeResult, Timespec, nanosleep};
        const SECOND: Timespec = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        while !Self::has_last_threads() {
            if let NanosleepRelativeResult::Err(_refused) = nanosleep(&SECOND) {
                // A filter refuses to sleep: trying again would keep a processor busy.
                // SAFETY: waits for a signal; our threads block them all.
                unsafe { libc::pause() };
            }
        }
        // SAFETY: what the C library does at the end of a program's last thread. This one holds no lock.
        unsafe { libc::exit(0) }
    }

    /// A thread that recorded has ended; only then may ours be the last ones.
    pub fn note_thread_end() {
        THREAD_ENDED.store(true, Ordering::Relaxed);
    }

    /// Whether the program's last thread has ended, and only ours keep the process running.
    ///
    /// A process ends with its last thread. After `pthread_exit` in the main thread that must not be one of ours.
    #[must_use]
    pub fn has_last_threads() -> bool {
        if !THREAD_ENDED.load(Ordering::Relaxed) {
            return false;
        }
        let own = OWN
            .iter()
            .filter(|thread| thread.load(Ordering::Relaxed) != 0);
        process_stat().is_some_and(|(state, threads)| state == b'Z' && threads <= 1 + own.count())
    }

    /// Holds the heap for a fork, so that the child finds it whole.
    pub fn before_fork() {
        SMALL.lock.take();
    }

    pub fn after_fork_in_parent() {
        SMALL.lock.release();
    }

    pub fn after_fork_in_child() {
        SMALL.lock.reset();
        for thread in OWN.iter().chain(&FALLIBLE) {
            thread.store(0, Ordering::Relaxed);
        }
        footprint::forget_shared();
    }
}

/// While it lives, the calling thread is noted in a table.
#[derive(Debug)]
struct Noted(Option<&'static AtomicI32>);

impl Noted {
    /// Where the table is full it is not.
    fn begin(threads: &'static Threads) -> Self {
        let id = thread_id();
        let free = |entry: &&AtomicI32| {
            let taken = entry.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        };
        Self(threads.iter().find(free))
    }

    fn is_here(threads: &Threads) -> bool {
        let id = thread_id();
        let mut threads = threads.iter();
        threads.any(|thread| thread.load(Ordering::Relaxed) == id)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(entry) = self.0 {
            entry.store(0, Ordering::Relaxed);
        }
    }
}

/// While it lives, the calling thread is one of ours.
#[derive(Debug)]
pub struct OwnThread {
    _noted: Noted,
}

impl OwnThread {
    #[must_use]
    pub fn begin() -> Self {
        let _noted = Noted::begin(&OWN);
        Self { _noted }
    }
}

/// While it lives, a large request of this thread that fails is an error and no more: its code makes
/// all of them with `try_reserve`.
#[derive(Debug)]
pub struct Fallible {
    _noted: Noted,
}

impl Fallible {
    #[must_use]
    pub fn begin() -> Self {
        let _noted = Noted::begin(&FALLIBLE);
        Self { _noted }
    }
}

/// The state of the main thread, and how many threads there are with it; allocates nothing.
fn process_stat() -> Option<(u8, usize)> {
    let mut bytes = [0_u8; 1024];
    // SAFETY: the path ends with a zero byte.
    let file = unsafe {
        libc::open(
            c"/proc/self/stat".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    if file < 0 {
        return None;
    }
    // SAFETY: there is room for as many bytes.
    let length = unsafe { libc::read(file, bytes.as_mut_ptr().cast(), bytes.len()) };
    // SAFETY: opened above, and not used again.
    unsafe { libc::close(file) };
    let text = bytes.get(..usize::try_from(length).ok()?)?;
    // The name, in brackets, may have any bytes.
    let behind = text.iter().rposition(|byte| *byte == b')')?;
    let mut fields = text.get(behind + 2..)?.split(|byte| *byte == b' ');
    let state = *fields.next()?.first()?;
    let threads = std::str::from_utf8(fields.nth(16)?).ok()?;
    Some((state, threads.parse().ok()?))
}

fn thread_id() -> i32 {
    // The system call: glibc has a function for it from 2.30 on, and packages are for 2.28.
    // SAFETY: takes no arguments and cannot fail.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "thread ids are 32 bits wide"
    )]
    {
        id as i32
    }
}

/// A request that failed: what becomes of it depends on whose thread made it.
#[cold]
#[inline(never)]
fn fail(layout: Layout) -> *mut u8 {
    if is_large(layout) && Noted::is_here(&FALLIBLE) {
        return null_mut();
    }
    Heap::exhaust();
    if Noted::is_here(&OWN) {
        Heap::stop_thread();
    }
    if is_large(layout) {
        footprint::take_anyway(Kind::Heap, whole_pages(layout.size()));
        map_counted(whole_pages(layout.size()))
    } else {
        take_from_reserve(layout)
    }
}

/// Waits where many calls under way have used up the reserve: each gives its blocks back when it ends,
/// and no later call takes any.
fn take_from_reserve(layout: Layout) -> *mut u8 {
    for _millisecond in 0..MAX_RESERVE_MILLIS {
        let block = RESERVE.take(layout);
        if !block.is_null() {
            return block;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    null_mut()
}

const fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE_BYTES && layout.align() <= PAGE_BYTES
}

// SAFETY: blocks come from the heap, from mappings or from the reserve, each of which gives out
// memory that is free, as large and as aligned as was asked for; nothing here unwinds.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = if is_made_to_fail() {
            null_mut()
        } else if is_large(layout) {
            map(layout.size())
        } else {
            small(|blocks| {
                // SAFETY: any size and alignment may be asked for.
                unsafe { blocks.malloc(layout.size(), layout.align()) }
            })
        };
        if block.is_null() { fail(layout) } else { block }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller vouches for its own.
        let block = unsafe { self.alloc(layout) };
        // A mapping begins as zeroes.
        if !block.is_null() && !is_large(layout) {
            // SAFETY: as large as that, and nobody else's.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: large blocks are mappings; the caller vouches for this one.
            unsafe { unmap(block, layout.size()) };
        } else if !RESERVE.give_back(block) {
            // Where the lock cannot be had, the block is lost; see `Lock::take`.
            small(|blocks| {
                // SAFETY: small blocks that are not of the reserve are of the heap.
                unsafe { blocks.free(block, layout.size(), layout.align()) };
                null_mut()
            });
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller vouches that the size, rounded up, does not overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if is_large(layout) && is_large(wanted) {
            // SAFETY: a mapping of that size, as the caller vouches.
            let moved = unsafe { remap(block, layout.size(), size) };
            if !moved.is_null() {
                return moved;
            }
        } else if !is_large(layout) && !is_large(wanted) && !RESERVE.has(block) {
            let moved = small(|blocks| {
                // SAFETY: a block of the heap, as the caller vouches.
                unsafe { blocks.realloc(block, layout.size(), layout.align(), size) }
            });
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the size is not zero, as the caller vouches.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            let common = layout.size().min(size);
            // SAFETY: both have so many bytes, and the new one is nobody else's.
            unsafe { moved.copy_from_nonoverlapping(block, common) };
            // SAFETY: the caller gives it up for the new one.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}

/// Whether a test wants a request to fail; never in a library that is shipped.
#[inline]
fn is_made_to_fail() -> bool {
    #[cfg(debug_assertions)]
    return failing::fails();
    #[cfg(not(debug_assertions))]
    false
}

/// Uses the heap; null where it cannot be had.
fn small(change: impl FnOnce(&mut Dlmalloc<Mappings>) -> *mut u8) -> *mut u8 {
    if !SMALL.lock.take() {
        return null_mut();
    }
    // SAFETY: this thread has the lock, and nothing below comes here again.
    let blocks = unsafe { &mut *SMALL.blocks.get() };
    let block = change(blocks);
    SMALL.lock.release();
    block
}

const fn whole_pages(bytes: usize) -> usize {
    // No layout is so large that this overflows.
    bytes.next_multiple_of(PAGE_BYTES)
}

/// A new mapping of zeroes, or null.
fn map(bytes: usize) -> *mut u8 {
    let bytes = whole_pages(bytes);
    if footprint::take(Kind::Heap, bytes) {
        map_counted(bytes)
    } else {
        null_mut()
    }
}

fn map_counted(bytes: usize) -> *mut u8 {
    let (read_write, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at an address of the system's choice touches nothing of ours.
    let mapped = unsafe { rustix::mm::mmap_anonymous(null_mut(), bytes, read_write, private) };
    mapped.map_or_else(
        |_no_memory| {
            footprint::give_back(Kind::Heap, bytes);
            null_mut()
        },
        <*mut _>::cast,
    )
}

/// # Safety
/// The range is a mapping, or the end of one, that nobody uses.
unsafe fn unmap(start: *mut u8, bytes: usize) -> bool {
    let bytes = whole_pages(bytes);
    // SAFETY: as the caller vouches.
    let unmapped = unsafe { rustix::mm::munmap(start.cast(), bytes) }.is_ok();
    if unmapped {
        footprint::give_back(Kind::Heap, bytes);
    }
    unmapped
}

/// A mapping with another size, maybe elsewhere; null where that cannot be.
///
/// # Safety
/// The block is a mapping of ours of that size.
unsafe fn remap(block: *mut u8, bytes: usize, wanted: usize) -> *mut u8 {
    let (bytes, wanted) = (whole_pages(bytes), whole_pages(wanted));
    if wanted == bytes {
        return block;
    }
    let more = wanted.saturating_sub(bytes);
    if more > 0 && !footprint::take(Kind::Heap, more) {
        return null_mut();
    }
    // SAFETY: as the caller vouches.
    let moved = unsafe { rustix::mm::mremap(block.cast(), bytes, wanted, MremapFlags::MAYMOVE) };
    let excess = if moved.is_ok() {
        bytes.saturating_sub(wanted)
    } else {
        more
    };
    footprint::give_back(Kind::Heap, excess);
    moved.map_or(null_mut(), <*mut _>::cast)
}

/// Where the heap has its memory from.
struct Mappings;

// SAFETY: mappings are what it says they are: new, private, zeroed, and given back in whole pages.
unsafe impl Allocator for Mappings {
    fn alloc(&self, bytes: usize) -> (*mut u8, usize, u32) {
        (map(bytes), whole_pages(bytes), 0)
    }

    fn remap(&self, _block: *mut u8, _bytes: usize, _wanted: usize, _move: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, start: *mut u8, bytes: usize, kept: usize) -> bool {
        // SAFETY: the heap does not use what is behind that any more.
        unsafe { unmap(start.wrapping_add(kept), bytes - kept) }
    }

    fn free(&self, start: *mut u8, bytes: usize) -> bool {
        // SAFETY: the heap does not use it any more.
        unsafe { unmap(start, bytes) }
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE_BYTES
    }
}

#[cfg(test)]
mod tests;
