//! The kernel compiler as far as memory is concerned: how large a binary is, and whether it must
//! be built.
//!
//! There is no compiler here. Sizes are stand-ins in the range of real binaries, fixed by the
//! name of the source, so that a scenario takes the same bytes on every run and on every machine.
//! A kernel whose size is known says so itself and never asks this module.

use crate::program::Processor;
use std::collections::BTreeSet;
use ttmem_event::KernelId;

const WORD_BYTES: u64 = 4;

/// Every kernel carries at least its start-up code.
const SMALLEST_BYTES: u64 = 1536;

/// The largest binary of a data movement or Ethernet processor.
const LARGEST_DATA_MOVEMENT_BYTES: u64 = 6 * 1024;

/// The largest binary of one of the three compute processors.
const LARGEST_COMPUTE_BYTES: u64 = 9 * 1024;

/// Packed bytes of each binary that `source` compiles to; a compute kernel has three.
#[must_use]
pub fn text_bytes(source: &str, processor: Processor) -> Vec<u64> {
    let largest = match processor {
        Processor::Compute => LARGEST_COMPUTE_BYTES,
        Processor::DataMovement0 | Processor::DataMovement1 | Processor::Ethernet => {
            LARGEST_DATA_MOVEMENT_BYTES
        }
    };
    let words = (largest - SMALLEST_BYTES) / WORD_BYTES + 1;
    (0..processor.binaries())
        .map(|binary| {
            let mut hash = StableHash::new();
            hash.text(source);
            hash.number(binary);
            SMALLEST_BYTES + hash.value() % words * WORD_BYTES
        })
        .collect()
}

/// The binaries that the compiler keeps on disk, for this process and for those after it.
#[derive(Clone, Debug, Default)]
pub struct KernelCache {
    kernels: BTreeSet<KernelId>,
}

impl KernelCache {
    /// A cache with nothing in it.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            kernels: BTreeSet::new(),
        }
    }

    /// Whether the kernel's binaries were there; if not, they are built and kept.
    pub fn look_up(&mut self, kernel: KernelId) -> bool {
        !self.kernels.insert(kernel)
    }

    pub fn clear(&mut self) {
        self.kernels.clear();
    }

    /// How many kernels have their binaries here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kernels.len()
    }

    /// Whether no kernel has its binaries here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }
}

/// A 64-bit FNV-1a hash: the same on every machine and in every release, which std's is not.
#[derive(Debug)]
pub(crate) struct StableHash(u64);

impl StableHash {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Takes in a text; its length comes first, so that `("ab", "c")` is not `("a", "bc")`.
    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The hash of what was taken in so far.
    pub(crate) const fn value(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: [&str; 4] = [
        "reader_unary_interleaved_start_id.cpp",
        "writer_unary_interleaved_start_id.cpp",
        "eltwise_binary_no_bcast.cpp",
        "bmm_large_block_zm_fused_bias_activation.cpp",
    ];

    #[test]
    fn sizes_depend_on_the_source_and_lie_in_the_range_of_real_binaries() {
        let mut seen = BTreeSet::new();
        for source in SOURCES {
            let reader = text_bytes(source, Processor::DataMovement1);
            assert_eq!(reader.len(), 1);
            assert!((1536..=6144).contains(&reader[0]), "{reader:?}");
            let compute = text_bytes(source, Processor::Compute);
            assert_eq!(compute.len(), 3);
            assert!(compute.iter().all(|size| (1536..=9216).contains(size)));
            assert!(reader.iter().chain(&compute).all(|size| size % 4 == 0));
            seen.insert((reader, compute));
        }
        assert_eq!(seen.len(), SOURCES.len());
    }

    /// As they were when this was written: a change would move the peaks of every scenario.
    #[test]
    fn sizes_never_change() {
        assert_eq!(text_bytes(SOURCES[0], Processor::DataMovement0), [3364]);
        assert_eq!(
            text_bytes(SOURCES[2], Processor::Compute),
            [8292, 3372, 3788]
        );
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        let mut hash = StableHash::new();
        hash.bytes(b"foobar");
        assert_eq!(hash.value(), 0x8594_4171_f739_67e8);
        assert_eq!(StableHash::new().value(), 0xcbf2_9ce4_8422_2325);
    }

    #[test]
    fn a_kernel_is_built_once_until_the_cache_is_cleared() {
        let mut cache = KernelCache::new();
        assert!(cache.is_empty());
        assert!(!cache.look_up(KernelId(7)));
        assert!(cache.look_up(KernelId(7)));
        assert!(!cache.look_up(KernelId(8)));
        assert_eq!(cache.len(), 2);
        cache.clear();
        assert_eq!(cache.len(), 0);
        assert!(!cache.look_up(KernelId(7)));
    }
}
