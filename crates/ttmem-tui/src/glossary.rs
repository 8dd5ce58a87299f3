//! What every figure means: one word, one sentence, the same on every screen.

/// A word of the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// What the caller asked for.
    Requested,
    /// What the allocator takes.
    Charged,
    /// Of every live program.
    Registered,
    /// Of the program that ran last on each core.
    Resident,
    /// The union per core.
    Occupied,
    /// Taken by the runtime.
    Reserved,
    /// What an allocator can hand out.
    Capacity,
    /// What is there.
    Physical,
    /// The highest value.
    Peak,
    /// The largest free block.
    LargestFree,
    /// How scattered what is free is.
    Fragmentation,
    /// Allocators that share memory.
    Overlap,
    /// Compared with the runtime.
    Verified,
    /// Events were lost.
    Incomplete,
    /// Figures that are old.
    Stale,
    /// Circular buffers.
    Cb,
    /// Kernel code.
    Kernels,
    /// Kernel code that several programs have.
    Shared,
    /// The config ring.
    ConfigRing,
    /// The prefetcher's cache.
    Prefetcher,
    /// Where a program's binary is.
    BinaryState,
    /// The four caches.
    Caches,
    /// The bytes between circular buffers and L1 buffers.
    Gap,
    /// What outlived its mesh.
    LeakCandidate,
    /// What was given back at the end.
    Released,
    /// A moment with a name.
    Mark,
    /// The classes of memory.
    Classes,
}

impl Word {
    /// How it is written on the screen.
    pub(crate) const fn term(self) -> &'static str {
        self.entry().0
    }

    /// What it means.
    pub(crate) const fn meaning(self) -> &'static str {
        self.entry().1
    }

    const fn entry(self) -> (&'static str, &'static str) {
        match self {
            Self::Requested => ("requested", "what the caller asked for"),
            Self::Charged => (
                "charged",
                "what the allocator takes: bytes per bank, aligned, times banks; also on banks that \
                 hold no data. Equals the allocator's own statistics",
            ),
            Self::Registered => (
                "registered",
                "circular buffers or kernels of every live program, cached ones included: bytes \
                 times cores. Programs overlap in address, so the sum may exceed what is there",
            ),
            Self::Resident => (
                "resident",
                "per core, what belongs to the program that ran last on it; of a device, the sum \
                 over its cores",
            ),
            Self::Occupied => (
                "occupied",
                "per core, the union of the reserved region, L1 and L1_SMALL buffers, and resident \
                 circular buffers, dataflow buffers and scratchpads; of a device, the sum over its \
                 cores. Never above what is there",
            ),
            Self::Reserved => (
                "reserved",
                "the bottom of L1 on every core, which the runtime takes before any allocator; the \
                 config ring with its kernels lies in it",
            ),
            Self::Capacity => (
                "capacity",
                "what an allocator can hand out: banks times bank size",
            ),
            Self::Physical => (
                "physical",
                "what is there: compute cores times L1 of a core",
            ),
            Self::Peak => (
                "peak",
                "the highest value and its time: since the server saw the device, per process, and \
                 since each mark",
            ),
            Self::LargestFree => (
                "largest free",
                "the largest contiguous free block of a bank: no buffer that takes more of a bank \
                 can be allocated",
            ),
            Self::Fragmentation => (
                "fragmentation",
                "1 - largest free / free: 0 is one block, near 1 is many small ones",
            ),
            Self::Overlap => (
                "overlap",
                "bytes that several allocators handed out at the same place; percentages count \
                 them once",
            ),
            Self::Verified => (
                "verified",
                "compared with the runtime's own allocator statistics and found equal",
            ),
            Self::Incomplete => (
                "incomplete",
                "events of this process were lost: its figures cannot be trusted",
            ),
            Self::Stale => (
                "stale",
                "the server has not answered for some time: the figures are those of then",
            ),
            Self::Cb => (
                "CBs",
                "circular buffers, dataflow buffers and scratchpads: memory of programs on their \
                 cores that no allocator knows. Global ones lie inside an L1 buffer and take \
                 nothing more",
            ),
            Self::Kernels => (
                "kernels",
                "kernel code, bytes times cores, of application, fabric and dispatch; it lies in \
                 the reserved region and adds nothing to occupied",
            ),
            Self::Shared => (
                "unique, shared",
                "unique counts a kernel once however many programs have it; shared is what is \
                 registered beyond that",
            ),
            Self::ConfigRing => (
                "config ring",
                "a ring in L1 of every core that holds code and arguments of the last programs; it \
                 wraps, evicts old entries, and stalls while it waits for room",
            ),
            Self::Prefetcher => (
                "prefetcher cache",
                "binaries of programs on the dispatch core: a hit saves a read from DRAM",
            ),
            Self::BinaryState => (
                "binary",
                "of a program on a device: not sent, in flight, or committed to its DRAM",
            ),
            Self::Caches => (
                "caches",
                "program cache: the operation found its program. Binary reuse: its binary was on \
                 the device. Prefetch: its commands were in the prefetcher. JIT: its kernels were \
                 compiled on disk",
            ),
            Self::Gap => (
                "gap",
                "bytes between the end of the circular buffers and the lowest L1 buffer of a core: \
                 at 0 the next program or tensor clashes",
            ),
            Self::LeakCandidate => (
                "leak candidate",
                "a buffer that was still held when its mesh was closed",
            ),
            Self::Released => (
                "released",
                "what a process held when it ended; given back at once",
            ),
            Self::Mark => (
                "mark",
                "a moment with a name: peaks and growth are counted from it as well",
            ),
            Self::Classes => (
                "classes",
                "DRAM, L1, L1_SMALL (a region at the top of L1), TRACE (a region of DRAM), SYSTEM \
                 (host memory)",
            ),
        }
    }
}
