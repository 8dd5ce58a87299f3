//! What the allocator is asked for: a buffer's class, pages and shards.
//!
//! Owns the arithmetic from a logical size to bytes per bank. Tensors make these,
//! and whoever needs raw buffers (binaries, traces, semaphores). Where a buffer
//! ends up is the allocator's answer and not kept here.

use ttmem_event::{Class, CoreSet, Direction, Layout};

/// A request for a buffer on every chip of a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// Where it is to live.
    pub class: Class,
    /// How its pages are laid out over banks.
    pub layout: Layout,
    /// Logical bytes over all banks, nothing padded.
    pub size: u64,
    /// Logical bytes of a page.
    pub page: u64,
    /// Its shards; `None` if the pages are dealt over all banks.
    pub shards: Option<Shards>,
    /// The end of the bank it is taken from.
    pub direction: Direction,
}

/// The shards of a sharded buffer, one for each core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    /// The cores (or DRAM banks, as a row) that hold a shard.
    pub cores: CoreSet,
    /// Pages of each shard, also where the last ones hold nothing.
    pub pages_per_shard: u64,
}

impl BufferSpec {
    /// A buffer whose pages are dealt over all banks of the class.
    #[must_use]
    pub const fn interleaved(class: Class, size: u64, page: u64) -> Self {
        Self {
            class,
            layout: Layout::Interleaved,
            size,
            page,
            shards: None,
            direction: default_direction(class),
        }
    }

    /// A height-sharded buffer of `per_core` bytes, in whole pages, on each of `cores`.
    #[must_use]
    pub fn sharded(class: Class, cores: CoreSet, per_core: u64, page: u64) -> Self {
        let pages_per_shard = if page == 0 {
            0
        } else {
            per_core.div_ceil(page)
        };
        Self {
            layout: Layout::HeightSharded,
            shards: Some(Shards {
                cores,
                pages_per_shard,
            }),
            ..Self::interleaved(
                class,
                pages_per_shard
                    .saturating_mul(page)
                    .saturating_mul(u64::from(cores.len())),
                page,
            )
        }
    }

    /// The same, taken from the high end of the bank.
    #[must_use]
    pub fn top_down(self) -> Self {
        Self {
            direction: Direction::TopDown,
            ..self
        }
    }

    /// Pages that exist on a chip, those that only fill up a shard included.
    ///
    /// `None` if there are none, if the pages do not make up the size, or on overflow.
    #[must_use]
    pub fn device_pages(&self) -> Option<u64> {
        if self.size.checked_rem(self.page)? != 0 {
            return None;
        }
        let pages = match &self.shards {
            None => self.size / self.page,
            Some(shards) => shards
                .pages_per_shard
                .checked_mul(u64::from(shards.cores.len()))?,
        };
        (pages > 0).then_some(pages)
    }

    /// Bytes over all banks, with every page aligned; `None` as for [`Self::device_pages`].
    #[must_use]
    pub fn aligned_size(&self, alignment: u64) -> Option<u64> {
        self.device_pages()?
            .checked_mul(self.aligned_page(alignment)?)
    }

    /// Bytes in each bank: an equal share of aligned pages, or one shard.
    ///
    /// `banks` are those of the class; a sharded buffer does not use it. `None`
    /// as for [`Self::device_pages`], or without banks.
    #[must_use]
    pub fn per_bank(&self, banks: u32, alignment: u64) -> Option<u64> {
        let pages = match &self.shards {
            Some(shards) => self.device_pages().map(|_| shards.pages_per_shard)?,
            None if banks == 0 => return None,
            None => self.device_pages()?.div_ceil(u64::from(banks)),
        };
        pages.checked_mul(self.aligned_page(alignment)?)
    }

    fn aligned_page(&self, alignment: u64) -> Option<u64> {
        self.page.checked_next_multiple_of(alignment)
    }
}

/// The runtime fills DRAM from below and L1 from above, where circular buffers are below.
const fn default_direction(class: Class) -> Direction {
    match class {
        Class::L1 | Class::L1Small => Direction::TopDown,
        Class::Dram | Class::Trace | Class::System => Direction::BottomUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 2048;

    #[test]
    fn dram_fills_from_below_and_l1_from_above() {
        let direction = |class| BufferSpec::interleaved(class, PAGE, PAGE).direction;
        assert_eq!(direction(Class::Dram), Direction::BottomUp);
        assert_eq!(direction(Class::Trace), Direction::BottomUp);
        assert_eq!(direction(Class::L1), Direction::TopDown);
        assert_eq!(direction(Class::L1Small), Direction::TopDown);
        let spec = BufferSpec::interleaved(Class::Dram, PAGE, PAGE).top_down();
        assert_eq!(spec.direction, Direction::TopDown);
    }

    #[test]
    fn the_fullest_bank_decides() {
        let spec = |pages| BufferSpec::interleaved(Class::Dram, pages * PAGE, PAGE);
        assert_eq!(spec(1).per_bank(12, 32), Some(PAGE));
        assert_eq!(spec(12).per_bank(12, 32), Some(PAGE));
        assert_eq!(spec(13).per_bank(12, 32), Some(2 * PAGE));
        assert_eq!(spec(1024).per_bank(12, 32), Some(176_128));
    }

    #[test]
    fn every_page_is_aligned() {
        let spec = BufferSpec::interleaved(Class::Dram, 12_800, 200);
        assert_eq!(spec.device_pages(), Some(64));
        assert_eq!(spec.per_bank(12, 32), Some(6 * 224));
        assert_eq!(spec.per_bank(8, 64), Some(8 * 256));
        assert_eq!(spec.aligned_size(32), Some(64 * 224));
    }

    #[test]
    fn a_shard_is_whole_pages_on_each_core() {
        let spec = BufferSpec::sharded(Class::L1, CoreSet::grid(4, 4), 3 * PAGE + 1, PAGE);
        assert_eq!(spec.layout, Layout::HeightSharded);
        assert_eq!(spec.size, 16 * 4 * PAGE);
        assert_eq!(spec.device_pages(), Some(64));
        assert_eq!(spec.per_bank(64, 32), Some(4 * PAGE));
        assert_eq!(spec.aligned_size(32), Some(64 * PAGE));
    }

    #[test]
    fn pages_beyond_the_tensor_count_as_well() {
        let spec = BufferSpec {
            size: 5 * PAGE,
            ..BufferSpec::sharded(Class::L1, CoreSet::grid(3, 1), 2 * PAGE, PAGE)
        };
        assert_eq!(spec.aligned_size(32), Some(6 * PAGE));
    }

    #[test]
    fn nonsense_has_no_size() {
        let interleaved = |size, page| BufferSpec::interleaved(Class::Dram, size, page);
        for spec in [
            interleaved(0, 0),
            interleaved(0, PAGE),
            interleaved(PAGE, 0),
            interleaved(PAGE + 1, PAGE),
            interleaved(u64::MAX, u64::MAX),
            BufferSpec::sharded(Class::L1, CoreSet::default(), PAGE, PAGE),
            BufferSpec::sharded(Class::L1, CoreSet::grid(1, 1), 0, PAGE),
            BufferSpec::sharded(Class::L1, CoreSet::grid(1, 1), PAGE, 0),
            BufferSpec::sharded(Class::L1, CoreSet::grid(8, 8), u64::MAX, PAGE),
        ] {
            assert_eq!(spec.per_bank(12, 32), None, "{spec:?}");
            assert_eq!(spec.aligned_size(32), None, "{spec:?}");
        }
        assert_eq!(interleaved(PAGE, PAGE).per_bank(0, 32), None);
        // One byte per page: the pages fit, their aligned bytes do not.
        assert_eq!(interleaved(u64::MAX, 1).aligned_size(32), None);
    }
}
