//! Memory that a server may be given: sealed, allocated before use, not inherited.
//!
//! It is a memfd where there is one, so that its descriptor can be passed on.
//! Where the system refuses memfds (a seccomp filter), it is memory of this
//! process alone: everything works, only nothing outlives the process. A system
//! without room is an error: going on would be a SIGBUS in the record path.
//!
//! The length is fixed. What lies beyond the part that is allocated at once has
//! addresses only: it is allocated piece by piece, and can be given back.

use crate::heap::footprint::{self, Kind as Footprint};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::Resource;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// Descriptors of ours start here if the limit allows it: programs that number
/// theirs by hand use low ones.
const FIRST_DESCRIPTOR: i32 = 700;

/// Bytes of a page, and of a large one.
const SMALL_PAGE: usize = 4096;
const LARGE_PAGE: usize = 2 << 20;

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// What makes a memory safe to read for somebody who does not trust its owner.
pub const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// Only its owner may open it, and only to read. A seal against writing would forbid to give
/// pieces of it back as well.
const OWNER_READS: Mode = Mode::RUSR;

/// Why there is no memory.
#[derive(Debug, thiserror::Error)]
pub enum CreateMemoryError {
    /// The system has no room for it.
    #[error("no room for {bytes} bytes of shared memory: {source}")]
    NoRoom {
        /// How much was asked for.
        bytes: usize,
        source: Errno,
    },
    /// It could not be mapped.
    #[error("cannot map {bytes} bytes of shared memory: {source}")]
    Map {
        /// How much was asked for.
        bytes: usize,
        source: Errno,
    },
}

/// Zeroed memory for as long as the process lives.
///
/// It is never unmapped: threads may be writing to it until the very end.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    bytes: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Of this process alone.
    Private,
    Shared {
        /// To be passed on: it can only be read.
        readable: Option<Descriptor>,
        /// To allocate pieces with, on systems that cannot do it by address.
        writable: Option<Descriptor>,
    },
}

// SAFETY: the base is an address that stays mapped for ever; what lies there is shared by types
// that say for themselves how.
#[expect(unsafe_code, reason = "an address may go anywhere")]
unsafe impl Send for Memory {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "an address may go anywhere")]
unsafe impl Sync for Memory {}

/// A type of which zeroed memory is a value.
///
/// # Safety
/// Bytes that are all zero are a valid value of the type.
#[expect(unsafe_code, reason = "what zeroes mean is the type's affair")]
pub(crate) unsafe trait Zeroed: Sync + 'static {}

/// A descriptor that may have been closed behind our back, and its number given to another file.
#[derive(Debug)]
pub struct Descriptor {
    file: ManuallyDrop<OwnedFd>,
    identity: (u64, u64),
}

impl Descriptor {
    /// Keeps a descriptor at a high number, closed on exec.
    pub fn keep(file: OwnedFd) -> Result<Self, Errno> {
        let Ok(high) = rustix::io::fcntl_dupfd_cloexec(&file, FIRST_DESCRIPTOR) else {
            // The limit is below that: where it is will do.
            return Self::at(file);
        };
        let high = Self::at(high)?;
        // The program may have closed the low one meanwhile and have given its number to a file of its own.
        drop(Self {
            file: ManuallyDrop::new(file),
            identity: high.identity,
        });
        Ok(high)
    }

    /// Keeps a descriptor where it is.
    fn at(file: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&file)?;
        Ok(Self {
            file: ManuallyDrop::new(file),
            identity: (stat.st_dev, stat.st_ino),
        })
    }

    /// The descriptor, unless it is no longer the file that it was.
    #[must_use]
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        let stat = rustix::fs::fstat(&*self.file).ok()?;
        ((stat.st_dev, stat.st_ino) == self.identity).then(|| self.file.as_fd())
    }

    /// Its number, and the device and the inode of what it is.
    #[must_use]
    pub fn identity(&self) -> (i32, u64, u64) {
        (self.file.as_raw_fd(), self.identity.0, self.identity.1)
    }
}

impl Drop for Descriptor {
    /// Closes it, unless its number is somebody else's by now.
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: once, and not used afterwards: this is the end of it.
            #[expect(unsafe_code, reason = "closes only what is ours")]
            unsafe {
                ManuallyDrop::drop(&mut self.file);
            }
        }
    }
}

impl Memory {
    /// Makes memory that holds a header and after it `count` zeroed things.
    ///
    /// The name is the one that `/proc` shows.
    pub(crate) fn create<H: Sync + 'static, T: Zeroed>(
        name: &str,
        header: H,
        count: usize,
    ) -> Result<(Self, &'static H, &'static [T]), CreateMemoryError> {
        const {
            assert!(size_of::<H>().is_multiple_of(align_of::<T>()));
        }
        let bytes = size_of::<H>() + count * size_of::<T>();
        let memory = Self::map(name, bytes, bytes)?;
        let header = memory.place(header);
        // SAFETY: after the header, and nobody else places anything in this memory.
        #[expect(unsafe_code, reason = "places what follows")]
        let rest = unsafe { memory.zeroed(size_of::<H>(), count) };
        Ok((memory, header, rest))
    }

    /// Puts a value at the beginning; once.
    pub(crate) fn place<H: Sync + 'static>(&self, value: H) -> &'static H {
        const {
            assert!(align_of::<H>() <= SMALL_PAGE);
        }
        assert!(
            size_of::<H>() <= self.bytes,
            "memory ends inside its header"
        );
        let place = self.base.cast::<H>();
        // SAFETY: mapped, page-aligned and long enough; whoever made the memory places this once,
        // before anybody else knows of it.
        #[expect(unsafe_code, reason = "places the header")]
        unsafe {
            place.write(value);
        }
        // SAFETY: written just now, never unmapped, and from here on only shared.
        #[expect(unsafe_code, reason = "places the header")]
        unsafe {
            place.as_ref()
        }
    }

    /// Zeroed things from a place on.
    ///
    /// # Safety
    /// Nothing else has been placed there, and whoever uses them allocates the pieces they lie in.
    #[expect(unsafe_code, reason = "the caller knows what lies where")]
    pub(crate) unsafe fn zeroed<T: Zeroed>(&self, at: usize, count: usize) -> &'static [T] {
        const {
            assert!(align_of::<T>() <= SMALL_PAGE);
        }
        assert!(
            at.is_multiple_of(align_of::<T>()) && at + count * size_of::<T>() <= self.bytes,
            "memory ends before its last part"
        );
        // SAFETY: within the mapping, as was just found.
        let first = unsafe { self.base.add(at) }.cast::<T>();
        // SAFETY: so many fit, they are aligned, zeroes are values of theirs, and the mapping is
        // never undone.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), count) }
    }

    /// Maps memory of this length, of which the first `allocated` bytes can be used at once.
    pub(crate) fn map(
        name: &str,
        bytes: usize,
        allocated: usize,
    ) -> Result<Self, CreateMemoryError> {
        if !footprint::take(Footprint::Shared, bytes) {
            let source = Errno::NOMEM;
            return Err(CreateMemoryError::NoRoom { bytes, source });
        }
        let mapped = Self::map_uncounted(name, bytes, allocated);
        mapped.inspect_err(|_error| footprint::give_back(Footprint::Shared, bytes))
    }

    fn map_uncounted(
        name: &str,
        bytes: usize,
        allocated: usize,
    ) -> Result<Self, CreateMemoryError> {
        let file = match shared_file(name, bytes, allocated) {
            Ok(file) => Some(file),
            Err(source @ (Errno::NOSPC | Errno::NOMEM | Errno::DQUOT)) => {
                return Err(CreateMemoryError::NoRoom { bytes, source });
            }
            // Not allowed, not known, or no descriptor left: ours alone.
            Err(_refused) => None,
        };
        let base = match &file {
            Some(file) => map_file(file, bytes, allocated),
            None => {
                let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
                // SAFETY: a new mapping at an address of the system's choice touches nothing of ours.
                #[expect(unsafe_code, reason = "maps memory")]
                unsafe {
                    rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, READ_WRITE, flags)
                }
            }
        };
        let base = base.map_err(|source| CreateMemoryError::Map { bytes, source })?;
        // SAFETY: the range was mapped just now. A child of a fork must not write to it: there it
        // is not mapped at all.
        #[expect(unsafe_code, reason = "changes how the new mapping is inherited")]
        let advised = unsafe { rustix::mm::madvise(base, bytes, Advice::LinuxDontFork) };
        advised.map_err(|source| CreateMemoryError::Map { bytes, source })?;
        let base = NonNull::new(base.cast()).ok_or(CreateMemoryError::Map {
            bytes,
            source: Errno::FAULT,
        })?;
        let mut memory = Self {
            base,
            bytes,
            kind: Kind::Private,
        };
        let is_sparse = allocated < bytes;
        if let Some(file) = file {
            let needs_writable = is_sparse && memory.populate(0, allocated) == Err(Errno::INVAL);
            memory.kind = shared(file, needs_writable);
        } else {
            // Older systems do not know how: then it is allocated as it is used.
            let _later = memory.populate(0, allocated);
        }
        Ok(memory)
    }

    /// Allocates a piece, before anybody writes to it; it is made of whole pages.
    pub(crate) fn allocate(&self, piece: Range<usize>) -> Result<(), CreateMemoryError> {
        let (at, bytes) = (piece.start, piece.len());
        let no_room = |source| CreateMemoryError::NoRoom { bytes, source };
        let populated = self.populate(at, bytes);
        if populated != Err(Errno::INVAL) {
            return populated.map_err(no_room);
        }
        // Before Linux 5.14: what the file has is found there when it is touched.
        let Kind::Shared { writable, .. } = &self.kind else {
            return Ok(());
        };
        let file = writable.as_ref().and_then(Descriptor::get);
        let file = file.ok_or(no_room(Errno::BADF))?;
        rustix::fs::fallocate(file, FallocateFlags::empty(), at as u64, bytes as u64)
            .map_err(no_room)
    }

    /// Gives the memory of a piece back, which nobody uses; it reads as zeroes from then on.
    pub(crate) fn give_back(&self, piece: Range<usize>) -> bool {
        let advice = match self.kind {
            Kind::Shared { .. } => Advice::LinuxRemove,
            Kind::Private => Advice::LinuxDontNeed,
        };
        if piece.end > self.bytes {
            return false;
        }
        let place = self.base.as_ptr().wrapping_add(piece.start);
        // SAFETY: within the mapping, and the caller sees to it that nobody uses the piece.
        #[expect(unsafe_code, reason = "gives memory back")]
        let given_back = unsafe { rustix::mm::madvise(place.cast(), piece.len(), advice) };
        given_back.is_ok()
    }

    /// Allocates a piece and maps it, so that no page fault comes later; without a signal where
    /// there is no room.
    fn populate(&self, at: usize, bytes: usize) -> Result<(), Errno> {
        if at + bytes > self.bytes {
            return Err(Errno::RANGE);
        }
        let place = self.base.as_ptr().wrapping_add(at);
        // SAFETY: within the mapping; what is there stays as it is.
        #[expect(unsafe_code, reason = "allocates memory")]
        unsafe {
            rustix::mm::madvise(place.cast(), bytes, Advice::LinuxPopulateWrite)
        }
    }

    /// How many bytes there are, allocated or not.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What to pass on, if it can be passed on and is still ours.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Private => None,
            Kind::Shared { readable, .. } => readable.as_ref()?.get(),
        }
    }
}

/// What is kept of a file that is mapped: who maps it from now on can only read.
fn shared(file: OwnedFd, needs_writable: bool) -> Kind {
    let sealed = rustix::fs::fcntl_add_seals(&file, SEALS).is_ok();
    // Where the file system of processes is not there, the server is trusted with more.
    let readable = read_only(&file).or_else(|_no_proc| rustix::io::fcntl_dupfd_cloexec(&file, 0));
    let readable = readable.ok().filter(|_file| sealed);
    Kind::Shared {
        readable: readable.and_then(|file| Descriptor::keep(file).ok()),
        writable: needs_writable
            .then(|| Descriptor::keep(file).ok())
            .flatten(),
    }
}

/// The same file, to be read only.
fn read_only(file: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::fs::fchmod(file, OWNER_READS)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn shared_file(name: &str, bytes: usize, allocated: usize) -> Result<OwnedFd, Errno> {
    // Going beyond it would be a SIGXFSZ for the program.
    let largest = rustix::process::getrlimit(Resource::Fsize).current;
    if largest.is_some_and(|largest| largest < bytes as u64) {
        return Err(Errno::PERM);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(name, flags)?;
    rustix::fs::ftruncate(&file, bytes as u64)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, allocated as u64)?;
    Ok(file)
}

/// Maps a file, in large pages where the system has them and all of it is allocated.
///
/// Populated, because a page fault in the record path costs a hundred events; in large pages,
/// because walking the tables of small ones after a pause costs twenty, once in every 64.
fn map_file(file: &OwnedFd, bytes: usize, allocated: usize) -> Result<*mut c_void, Errno> {
    let is_whole = bytes == allocated;
    let flags = MapFlags::SHARED;
    let populate = if is_whole {
        MapFlags::POPULATE
    } else {
        MapFlags::empty()
    };
    let flags = flags | populate;
    let Some(place) = is_whole.then(|| large_place(bytes)).flatten() else {
        // SAFETY: a new mapping at an address of the system's choice touches nothing of ours.
        #[expect(unsafe_code, reason = "maps memory")]
        return unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, READ_WRITE, flags, file, 0)
        };
    };
    let flags = flags | MapFlags::FIXED;
    // SAFETY: the place was reserved just now, for this.
    #[expect(unsafe_code, reason = "maps memory")]
    let base = unsafe { rustix::mm::mmap(place, bytes, READ_WRITE, flags, file, 0) }?;
    let large = bytes / LARGE_PAGE * LARGE_PAGE;
    // SAFETY: within the mapping. Older systems refuse, and small pages do as well.
    #[expect(unsafe_code, reason = "asks for large pages")]
    let _small = unsafe { libc::madvise(base, large, libc::MADV_COLLAPSE) };
    Ok(base)
}

/// Reserves room for a mapping that begins where a large page may, if it has use for one.
fn large_place(bytes: usize) -> Option<*mut c_void> {
    if bytes < LARGE_PAGE {
        return None;
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let (reserved, nothing) = (bytes + LARGE_PAGE, ProtFlags::empty());
    // SAFETY: a new mapping at an address of the system's choice touches nothing of ours.
    #[expect(unsafe_code, reason = "reserves addresses")]
    let room =
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), reserved, nothing, flags) }
            .ok()?;
    let before = room.addr().next_multiple_of(LARGE_PAGE) - room.addr();
    let place = room.wrapping_byte_add(before);
    let end = bytes.next_multiple_of(SMALL_PAGE);
    let after = (
        place.wrapping_byte_add(end),
        LARGE_PAGE.saturating_sub(before),
    );
    for (rest, rest_bytes) in [(room, before), after] {
        let rest_bytes = rest_bytes / SMALL_PAGE * SMALL_PAGE;
        if rest_bytes > 0 {
            // SAFETY: a part of the reservation that is not used.
            #[expect(unsafe_code, reason = "gives addresses back")]
            let _kept = unsafe { rustix::mm::munmap(rest, rest_bytes) };
        }
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;

    // SAFETY: any bytes are a number.
    #[expect(unsafe_code, reason = "numbers may be zero")]
    unsafe impl Zeroed for u64 {}

    fn create(count: usize) -> Result<Memory, CreateMemoryError> {
        Memory::create("ttmem-test", 7_u64, count).map(|(memory, header, rest): (_, _, &[u64])| {
            assert_eq!((*header, rest.len()), (7, count));
            assert!(rest.iter().all(|word| *word == 0));
            memory
        })
    }

    #[test]
    fn memory_is_sealed_and_of_the_size_asked_for() {
        let memory = create(1023).unwrap();
        let descriptor = memory.descriptor().unwrap();
        assert_eq!(rustix::fs::fstat(descriptor).unwrap().st_size, 8192);
        assert!(
            rustix::fs::fcntl_get_seals(descriptor)
                .unwrap()
                .contains(SEALS)
        );
        assert!(rustix::io::pwrite(descriptor, b"x", 0).is_err());
        assert!(rustix::fs::ftruncate(descriptor, 0).is_err());
        let mut bytes = vec![1; 8192];
        assert_eq!(rustix::io::pread(descriptor, &mut bytes, 0), Ok(8192));
        assert_eq!((bytes[0], bytes[8192 - 1]), (7, 0));
    }

    #[test]
    fn a_descriptor_whose_number_was_reused_is_not_ours() {
        let memory = create(511).unwrap();
        let number = memory.descriptor().unwrap().as_raw_fd();
        let other = rustix::fs::memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
        // SAFETY: the number belongs to the memory under test; replacing it is what is tested.
        #[expect(unsafe_code, reason = "plays a program that reuses our number")]
        let ours = unsafe { OwnedFd::from_raw_fd(number) };
        let mut ours = std::mem::ManuallyDrop::new(ours);
        rustix::io::dup2(&other, &mut ours).unwrap();
        assert!(memory.descriptor().is_none());
        drop(memory.kind);
        assert!(
            rustix::fs::fstat(&*ours).is_ok(),
            "closed what was not ours"
        );
    }
}
