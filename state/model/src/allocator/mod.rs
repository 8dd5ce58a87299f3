//! The allocator of one mesh: a bank manager for each class of device memory.
//!
//! Owns which addresses are taken. The runtime asks it for a place for every
//! buffer and gives the place back; a mesh has one allocator for all its chips,
//! so a place holds on each of them. Neither the contents of buffers nor
//! circular buffers are its business: the latter live below the L1 buffers
//! without asking, which is why [`Allocator::lowest_l1`] exists.

mod block_list;
mod free_list;

use ttmem_event::Class;
use ttmem_event::catalogue::{BankedRegion, Capacities};

pub use self::free_list::{Block, FreeList, Statistics};
use crate::buffer::BufferSpec;

/// The four bank managers of one mesh.
#[derive(Clone, Debug)]
pub struct Allocator {
    dram: BankManager,
    l1: BankManager,
    l1_small: BankManager,
    trace: BankManager,
    /// Of pages and blocks: DRAM's alignment, which the runtime uses for every class.
    alignment: u64,
}

/// The banks of one class: the same free list for all of them.
#[derive(Clone, Debug)]
struct BankManager {
    banks: u32,
    base: u64,
    list: FreeList,
}

/// Where a buffer was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// First address, the same in every bank.
    pub address: u64,
    /// Bytes taken in every bank, as charged: whole aligned pages.
    pub per_bank: u64,
    /// Banks that hold data: all of the class, or the cores with shards.
    pub banks: u32,
}

/// Why a buffer got no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// No hole is large enough; the text is the runtime's own.
    #[error(
        "Out of Memory: Not enough space to allocate {requested} B {} buffer across {banks} banks, \
         where each bank needs to store {per_bank} B, but bank size is {bank_size} B \
         (allocated: {allocated} B, free: {free} B, largest free block: {largest_free} B)",
        .class.name()
    )]
    OutOfMemory {
        /// Bytes over all banks, with every page aligned.
        requested: u64,
        class: Class,
        /// Banks it would be spread over.
        banks: u32,
        /// Bytes it needs in each.
        per_bank: u64,
        /// Bytes of a bank.
        bank_size: u64,
        allocated: u64,
        free: u64,
        /// Of these, in one piece.
        largest_free: u64,
    },
    /// The class has no banks on a device.
    #[error("{} is not device memory: it has no banks", .class.name())]
    NoBanks { class: Class },
    /// L1_SMALL is never interleaved; the text is the runtime's own.
    #[error("L1_SMALL only supports sharded allocations, see validate_num_banks")]
    InterleavedL1Small,
    /// There are more shards than banks to hold them.
    #[error("{shards} shards do not fit into the {banks} banks of {}", .class.name())]
    TooManyShards {
        shards: u32,
        banks: u32,
        class: Class,
    },
    /// Nothing was asked for, a page is empty, or the pages do not make up the size.
    #[error(
        "a {} buffer of {size} B in pages of {page} B has no whole number of pages \
         that can be addressed",
        .class.name()
    )]
    Pages {
        class: Class,
        /// Bytes asked for.
        size: u64,
        /// Bytes of a page.
        page: u64,
    },
}

impl BankManager {
    fn new(region: &BankedRegion, alignment: u64) -> Self {
        Self {
            banks: region.banks,
            base: region.base,
            list: FreeList::new(region.base, region.bytes_per_bank, alignment),
        }
    }
}

impl Allocator {
    /// An allocator with nothing taken, for chips of these capacities.
    ///
    /// `alignment` is that of DRAM: the runtime aligns L1 buffers to it as well.
    #[must_use]
    pub fn new(capacities: &Capacities, alignment: u64) -> Self {
        let manager = |region| BankManager::new(region, alignment);
        Self {
            dram: manager(&capacities.dram),
            l1: manager(&capacities.l1),
            l1_small: manager(&capacities.l1_small),
            trace: manager(&capacities.trace),
            alignment: alignment.max(1),
        }
    }

    const fn manager(&self, class: Class) -> Option<&BankManager> {
        match class {
            Class::Dram => Some(&self.dram),
            Class::L1 => Some(&self.l1),
            Class::L1Small => Some(&self.l1_small),
            Class::Trace => Some(&self.trace),
            Class::System => None,
        }
    }

    const fn manager_mut(&mut self, class: Class) -> Option<&mut BankManager> {
        match class {
            Class::Dram => Some(&mut self.dram),
            Class::L1 => Some(&mut self.l1),
            Class::L1Small => Some(&mut self.l1_small),
            Class::Trace => Some(&mut self.trace),
            Class::System => None,
        }
    }

    /// How many banks of that class a chip has; 0 for memory of the host.
    #[must_use]
    pub fn banks(&self, class: Class) -> u32 {
        self.manager(class).map_or(0, |manager| manager.banks)
    }

    /// First address of a bank of that class.
    #[must_use]
    pub fn base(&self, class: Class) -> u64 {
        self.manager(class).map_or(0, |manager| manager.base)
    }

    /// What every page and block is aligned to.
    #[must_use]
    pub const fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Takes a place for a buffer.
    ///
    /// # Errors
    /// When no hole is large enough, or no allocator could ever serve the request.
    pub fn allocate(&mut self, spec: &BufferSpec) -> Result<Placement, AllocateError> {
        let class = spec.class;
        let alignment = self.alignment;
        let manager = self
            .manager_mut(class)
            .filter(|manager| manager.banks > 0)
            .ok_or(AllocateError::NoBanks { class })?;
        let banks = match &spec.shards {
            Some(shards) => shards.cores.len(),
            None if class == Class::L1Small => return Err(AllocateError::InterleavedL1Small),
            None => manager.banks,
        };
        if banks > manager.banks {
            return Err(AllocateError::TooManyShards {
                shards: banks,
                banks: manager.banks,
                class,
            });
        }
        let pages = AllocateError::Pages {
            class,
            size: spec.size,
            page: spec.page,
        };
        let per_bank = spec.per_bank(manager.banks, alignment).ok_or(pages)?;
        let requested = spec.aligned_size(alignment).ok_or(pages)?;
        match manager.list.allocate(per_bank, spec.direction) {
            Some(address) => Ok(Placement {
                address,
                per_bank,
                banks,
            }),
            None => {
                let statistics = manager.list.statistics();
                Err(AllocateError::OutOfMemory {
                    requested,
                    class,
                    banks,
                    per_bank,
                    bank_size: statistics.total,
                    allocated: statistics.allocated,
                    free: statistics.free,
                    largest_free: statistics.largest_free,
                })
            }
        }
    }

    /// Gives a place back; returns its bytes per bank, `None` if nothing lies there.
    pub fn free(&mut self, class: Class, address: u64) -> Option<u64> {
        self.manager_mut(class)?.list.free(address)
    }

    /// How full the banks of that class are; all 0 for memory of the host.
    #[must_use]
    pub fn statistics(&self, class: Class) -> Statistics {
        self.list(class)
            .map(FreeList::statistics)
            .unwrap_or_default()
    }

    /// The lowest address of an L1 buffer: where circular buffers, which grow upwards, must end.
    ///
    /// L1_SMALL lies above all of L1 and cannot be lower.
    #[must_use]
    pub fn lowest_l1(&self) -> Option<u64> {
        self.l1.list.lowest_occupied()
    }

    /// The free list of that class.
    #[must_use]
    pub fn list(&self, class: Class) -> Option<&FreeList> {
        self.manager(class).map(|manager| &manager.list)
    }

    /// Takes the lowest `bytes` out of L1, for the local allocators of sub-devices.
    ///
    /// False, and nothing changed, if a buffer lies there.
    pub fn shrink_l1(&mut self, bytes: u64) -> bool {
        self.l1.list.shrink_bottom(bytes)
    }

    /// Puts back what [`shrink_l1`](Self::shrink_l1) took, at most that much.
    pub fn grow_l1(&mut self, bytes: u64) {
        self.l1.list.grow_bottom(bytes);
    }
}

#[cfg(test)]
mod tests;
