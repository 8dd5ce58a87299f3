//! Memory that a server may be given: sealed, allocated up front, not inherited.
//!
//! It is a memfd where there is one, so that its descriptor can be passed on.
//! Where the system refuses memfds (a seccomp filter), it is memory of this
//! process alone: everything works, only nothing outlives the process. A system
//! without room is an error: going on would be a SIGBUS in the record path.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::Resource;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
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

/// Whoever is given the descriptor can read the memory and not write to it; systems before 5.1
/// do not know this seal.
const READERS_ONLY: SealFlags = SealFlags::FUTURE_WRITE;

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
    bytes: usize,
    descriptor: Option<Descriptor>,
}

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
        let file = match rustix::io::fcntl_dupfd_cloexec(&file, FIRST_DESCRIPTOR) {
            Ok(high) => high,
            // The limit is below that: where it is will do.
            Err(_too_low) => file,
        };
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
            assert!(align_of::<H>() <= 4096 && align_of::<T>() <= 4096);
        }
        let bytes = size_of::<H>() + count * size_of::<T>();
        let (base, descriptor) = Self::map(name, bytes)?;
        let place = base.cast::<H>();
        // SAFETY: the mapping is new, page-aligned and longer than a header.
        #[expect(unsafe_code, reason = "places the header")]
        unsafe {
            place.write(header);
        }
        // SAFETY: written just now, never unmapped, and from here on only shared.
        #[expect(unsafe_code, reason = "places the header")]
        let header = unsafe { place.as_ref() };
        // SAFETY: the mapping goes on beyond the header.
        #[expect(unsafe_code, reason = "places what follows")]
        let first = unsafe { base.add(size_of::<H>()) }.cast::<T>();
        // SAFETY: so many fit after the header, they are aligned because the header's size is,
        // zeroes are values of theirs, and the mapping is never undone.
        #[expect(unsafe_code, reason = "places what follows")]
        let rest = unsafe { std::slice::from_raw_parts(first.as_ptr(), count) };
        let memory = Self { bytes, descriptor };
        Ok((memory, header, rest))
    }

    fn map(
        name: &str,
        bytes: usize,
    ) -> Result<(NonNull<u8>, Option<Descriptor>), CreateMemoryError> {
        let file = match shared_file(name, bytes) {
            Ok(file) => Some(file),
            Err(source @ (Errno::NOSPC | Errno::NOMEM | Errno::DQUOT)) => {
                return Err(CreateMemoryError::NoRoom { bytes, source });
            }
            // Not allowed, not known, or no descriptor left: ours alone.
            Err(_refused) => None,
        };
        let base = match &file {
            Some(file) => map_file(file, bytes),
            None => {
                let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
                // SAFETY: a new mapping at an address of the system's choice touches nothing of ours.
                #[expect(unsafe_code, reason = "maps memory")]
                unsafe {
                    rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, READ_WRITE, flags)
                }
            }
        };
        let base = base.map_err(|source| CreateMemoryError::Map { bytes, source })?;
        let file = file.filter(|file| seal(file).is_ok());
        // SAFETY: the range was mapped just now. A child of a fork must not write to it: there it
        // is not mapped at all.
        #[expect(unsafe_code, reason = "changes how the new mapping is inherited")]
        let advised = unsafe { rustix::mm::madvise(base, bytes, Advice::LinuxDontFork) };
        advised.map_err(|source| CreateMemoryError::Map { bytes, source })?;
        let base = NonNull::new(base.cast()).ok_or(CreateMemoryError::Map {
            bytes,
            source: Errno::FAULT,
        })?;
        Ok((base, file.and_then(|file| Descriptor::keep(file).ok())))
    }

    /// How many bytes there are.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What to pass on, if it can be passed on and is still ours.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref()?.get()
    }
}

fn shared_file(name: &str, bytes: usize) -> Result<OwnedFd, Errno> {
    // Going beyond it would be a SIGXFSZ for the program.
    let largest = rustix::process::getrlimit(Resource::Fsize).current;
    if largest.is_some_and(|largest| largest < bytes as u64) {
        return Err(Errno::PERM);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(name, flags)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
    Ok(file)
}

/// Maps a file, in large pages where the system has them.
///
/// Populated, because a page fault in the record path costs a hundred events; in large pages,
/// because walking the tables of small ones after a pause costs twenty, once in every 64.
fn map_file(file: &OwnedFd, bytes: usize) -> Result<*mut c_void, Errno> {
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    let Some(place) = large_place(bytes) else {
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

/// Seals memory that is mapped already: who maps it from now on can only read.
fn seal(file: &OwnedFd) -> Result<(), Errno> {
    rustix::fs::fcntl_add_seals(file, SEALS | READERS_ONLY)
        .or_else(|_unknown| rustix::fs::fcntl_add_seals(file, SEALS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, FromRawFd};

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
        drop(memory.descriptor);
        assert!(
            rustix::fs::fstat(&*ours).is_ok(),
            "closed what was not ours"
        );
    }
}
