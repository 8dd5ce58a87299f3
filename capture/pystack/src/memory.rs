//! Reading this process's own memory, trusting an address or not.

/// A number that lies in memory; any bytes are one.
pub(crate) trait Number: Copy + Default {}

impl Number for u8 {}
impl Number for u32 {}
impl Number for i32 {}
impl Number for u64 {}
impl Number for usize {}

pub(crate) trait Memory {
    /// The number at an address; `None` where nothing can be read.
    fn number<N: Number>(&self, at: usize) -> Option<N>;

    /// Appends the bytes at an address; `None` also where there is no memory for them.
    fn bytes(&self, at: usize, length: usize, to: &mut Vec<u8>) -> Option<()>;
}

/// Reads directly: only for addresses that a checked layout gives.
#[derive(Debug)]
pub(crate) struct Trusted(());

impl Trusted {
    /// # Safety
    /// Everything that is read through it is readable memory for as long as the calling thread
    /// stays in its native call.
    pub(crate) const unsafe fn new() -> Self {
        Self(())
    }
}

impl Memory for Trusted {
    #[inline]
    fn number<N: Number>(&self, at: usize) -> Option<N> {
        // SAFETY: readable by the promise of `new`; any bytes are a number.
        Some(unsafe { (at as *const N).read_unaligned() })
    }

    fn bytes(&self, at: usize, length: usize, to: &mut Vec<u8>) -> Option<()> {
        to.try_reserve(length).ok()?;
        // SAFETY: readable by the promise of `new`.
        to.extend_from_slice(unsafe { std::slice::from_raw_parts(at as *const u8, length) });
        Some(())
    }
}

/// Reads through the kernel, which refuses an address where nothing is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Untrusted;

impl Untrusted {
    fn read(at: usize, to: *mut u8, length: usize) -> Option<()> {
        let local = libc::iovec {
            iov_base: to.cast(),
            iov_len: length,
        };
        let remote = libc::iovec {
            iov_base: at as *mut libc::c_void,
            iov_len: length,
        };
        // SAFETY: no conditions.
        let this = unsafe { libc::getpid() };
        // SAFETY: it writes at most `length` bytes to `to`, where callers have room for them; from
        // `at` it only reads, and fails where nothing is.
        let count =
            unsafe { libc::process_vm_readv(this, &raw const local, 1, &raw const remote, 1, 0) };
        (usize::try_from(count) == Ok(length)).then_some(())
    }
}

impl Memory for Untrusted {
    fn number<N: Number>(&self, at: usize) -> Option<N> {
        let mut number = N::default();
        Self::read(at, (&raw mut number).cast(), size_of::<N>())?;
        Some(number)
    }

    fn bytes(&self, at: usize, length: usize, to: &mut Vec<u8>) -> Option<()> {
        let before = to.len();
        to.try_reserve(length).ok()?;
        to.resize(before + length, 0);
        Self::read(at, to[before..].as_mut_ptr(), length)
    }
}
