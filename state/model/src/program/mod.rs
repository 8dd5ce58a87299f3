//! Programs: kernels on cores, their storage in L1, and the config that launches them.
//!
//! A program is built by adding to it, then compiled, placed, checked and finalized, in that
//! order, each time it is enqueued; what did not change is not computed again. The runtime model
//! calls this; nothing here tracks, waits or knows a device.

mod config;
mod error;
mod groups;
mod inventory;
mod kernel;
mod layout;
mod ranges;
mod semaphores;
mod storage;
#[cfg(test)]
mod tests;

pub use self::config::{ConfigLayout, CoreConfig, TextPlace, finalize};
pub use self::error::ProgramError;
pub use self::groups::KernelGroup;
pub use self::kernel::{Kernel, KernelSpec, Processor};
pub use self::ranges::{CoreRanges, RangeText};
pub use self::storage::{CbPlace, CbSpec, PlacedStorage, StorageFamily, StorageKind, StorageSpec};

use self::config::Finalized;
use self::inventory::Inventory;
use self::layout::Ground;
use self::semaphores::Semaphores;
use ttmem_event::catalogue::{Grid, MemoryMap};
use ttmem_event::{CoreSet, CoreType, ProgramId};

#[derive(Debug)]
pub struct Program {
    id: ProgramId,
    name: String,
    map: &'static MemoryMap,
    kernels: Vec<Kernel>,
    storage: Inventory,
    semaphores: Semaphores,
    compiled: bool,
    finalized: Option<Finalized>,
}

impl Program {
    /// An empty program for chips with that memory.
    #[must_use]
    pub fn new(id: ProgramId, name: &str, map: &'static MemoryMap) -> Self {
        Self {
            id,
            name: name.to_owned(),
            map,
            kernels: Vec::new(),
            storage: Inventory::default(),
            semaphores: Semaphores::default(),
            compiled: false,
            finalized: None,
        }
    }

    #[must_use]
    pub const fn id(&self) -> ProgramId {
        self.id
    }

    /// What it is called, in text only.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a kernel; returns its place among [`kernels`](Self::kernels).
    ///
    /// # Errors
    /// When its cores have no such processor, or another kernel runs on it there, or the program
    /// is compiled.
    pub fn add_kernel(&mut self, spec: KernelSpec) -> Result<usize, ProgramError> {
        self.check_open("kernel", &spec.cores)?;
        if self.map.core(spec.core_type).is_none() || !spec.processor.is_on(spec.core_type) {
            return Err(ProgramError::WrongCore {
                kernel: spec.name().to_owned(),
                core_type: spec.core_type,
            });
        }
        let set = spec.cores.set();
        for other in &self.kernels {
            let same_processor =
                other.spec.core_type == spec.core_type && other.spec.processor == spec.processor;
            if !same_processor {
                continue;
            }
            let shared = other.spec.cores.set().intersection(&set);
            // The first one as the runtime compares cores: by column, then by row.
            let first = spec
                .cores
                .cores()
                .filter(|(x, y)| shared.contains(*x, *y))
                .min();
            if let Some((x, y)) = first {
                return Err(ProgramError::KernelOverlap {
                    existing: other.spec.name().to_owned(),
                    new: spec.name().to_owned(),
                    x,
                    y,
                });
            }
        }
        self.kernels.push(Kernel::new(spec));
        Ok(self.kernels.len() - 1)
    }

    /// Adds a circular buffer; returns its number.
    ///
    /// # Errors
    /// When its index, size or pages are not possible, its index is taken on one of its cores,
    /// the program has dataflow buffers, or is compiled.
    pub fn add_cb(&mut self, spec: CbSpec) -> Result<u32, ProgramError> {
        inventory::check_cb(&spec, self.map.max_circular_buffers)?;
        self.check_open("circular buffer", &spec.cores)?;
        self.storage.add_cb(spec)
    }

    /// Adds a dataflow buffer or a scratchpad; returns its number.
    ///
    /// # Errors
    /// When it has no bytes, no slot is free on its cores, the program has circular buffers, or
    /// is compiled.
    pub fn add_storage(&mut self, spec: StorageSpec) -> Result<u32, ProgramError> {
        let what = match spec.kind {
            StorageKind::Dataflow | StorageKind::DataflowBorrowed { .. } => "dataflow buffer",
            StorageKind::Scratchpad => "scratchpad",
        };
        self.check_open(what, &spec.cores)?;
        // Dataflow buffers use the slots of circular buffers.
        self.storage.add(spec, self.map.max_circular_buffers)
    }

    /// Adds a semaphore on the cores; returns its number, the lowest that is free on all of them.
    ///
    /// # Errors
    /// When no number is, or the program is compiled.
    pub fn add_semaphore(
        &mut self,
        core_type: CoreType,
        cores: CoreRanges,
    ) -> Result<u32, ProgramError> {
        self.check_open("semaphore", &cores)?;
        self.semaphores.add(core_type, &cores)
    }

    fn check_open(&self, what: &'static str, cores: &CoreRanges) -> Result<(), ProgramError> {
        let program = self.id.0;
        if self.compiled {
            Err(ProgramError::Compiled { what, program })
        } else if cores.is_empty() {
            Err(ProgramError::NoCores { what, program })
        } else {
            Ok(())
        }
    }

    /// Its kernels, in the order in which they were added.
    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// Closes the program: nothing can be added from now on.
    pub const fn compile(&mut self) {
        self.compiled = true;
    }

    #[must_use]
    pub const fn is_compiled(&self) -> bool {
        self.compiled
    }

    /// Places its storage from `base` upwards, if that is due.
    ///
    /// True if it was: the runtime then reports all storage, global circular buffers too, and
    /// what it reported before is void. It is not due when nothing changed since the last time,
    /// and never in a program that has only global circular buffers.
    ///
    /// # Errors
    /// When core ranges overlap in a way that the runtime cannot place. Stacks stay as high as
    /// they got, as the runtime leaves them.
    pub fn place_storage(&mut self, base: u64) -> Result<bool, ProgramError> {
        self.storage.place(Ground {
            base,
            alignment: self.map.dram_alignment,
        })
    }

    /// The storage that has an address, in the order in which it was added.
    #[must_use]
    pub fn storage(&self) -> Vec<PlacedStorage> {
        self.storage.placed()
    }

    /// How often that list has changed: equal numbers, equal lists.
    #[must_use]
    pub const fn storage_revision(&self) -> u64 {
        self.storage.revision()
    }

    /// Whether it has storage of any kind.
    #[must_use]
    pub fn has_storage(&self) -> bool {
        !self.storage.is_empty()
    }

    /// Changes the size of a circular buffer; a local one makes the layout due again.
    ///
    /// # Errors
    /// When there is no such circular buffer, or it cannot have that size.
    pub fn update_cb_size(&mut self, cb: u32, size: u64) -> Result<(), ProgramError> {
        self.storage.resize_cb(self.id.0, cb, size)
    }

    /// Puts a global circular buffer into another L1 buffer, which makes nothing due.
    ///
    /// # Errors
    /// When there is no such circular buffer, it is not a global one, or the buffer is too small.
    pub fn update_cb_address(
        &mut self,
        cb: u32,
        address: u64,
        bank_bytes: u64,
    ) -> Result<(), ProgramError> {
        self.storage.move_cb(self.id.0, cb, address, bank_bytes)
    }

    /// Puts a borrowing dataflow buffer into another L1 buffer, which makes nothing due.
    ///
    /// # Errors
    /// When no dataflow buffer of that number borrows its memory.
    pub fn update_borrowed_address(
        &mut self,
        number: u32,
        address: u64,
    ) -> Result<(), ProgramError> {
        if self.storage.move_borrowed(number, address) {
            return Ok(());
        }
        Err(ProgramError::NotGlobal {
            cb: number,
            program: self.id.0,
        })
    }

    /// Checks placed storage against the compute grid, the end of L1, and the lowest L1 buffer.
    ///
    /// # Errors
    /// One of [`ProgramError::OutsideGrid`], [`ProgramError::BeyondL1`] and
    /// [`ProgramError::Clash`].
    pub fn check_region(
        &self,
        max_l1: u64,
        lowest_l1: Option<u64>,
        grid: Grid,
    ) -> Result<(), ProgramError> {
        self.storage.check(self.id.0, max_l1, lowest_l1, grid)
    }

    /// Its kernel groups on cores of that type.
    #[must_use]
    pub fn groups(&self, core_type: CoreType) -> Vec<KernelGroup> {
        groups::groups(&self.kernels, core_type)
    }

    /// The cores of that type that run a kernel.
    #[must_use]
    pub fn cores(&self, core_type: CoreType) -> CoreSet {
        let mut cores = CoreSet::default();
        for kernel in self.kernels_on(core_type) {
            cores.insert_all(&kernel.spec.cores.set());
        }
        cores
    }

    /// Whether it has kernels on cores of that type.
    #[must_use]
    pub fn uses(&self, core_type: CoreType) -> bool {
        self.kernels_on(core_type).next().is_some()
    }

    fn kernels_on(&self, core_type: CoreType) -> impl Iterator<Item = &Kernel> {
        self.kernels
            .iter()
            .filter(move |kernel| kernel.spec.core_type == core_type)
    }

    /// Its config, once [`finalize`] has fixed it.
    #[must_use]
    pub fn config(&self) -> Option<&ConfigLayout> {
        self.finalized.as_ref().map(|finalized| &finalized.layout)
    }

    /// Whether [`finalize`] has fixed its config.
    #[must_use]
    pub const fn is_finalized(&self) -> bool {
        self.finalized.is_some()
    }

    /// Bytes of its binaries as they lie in DRAM and in the prefetcher's cache.
    ///
    /// 0 until it is finalized, and on a mock device.
    #[must_use]
    pub fn binary_bytes(&self) -> u64 {
        self.finalized.map_or(0, |finalized| finalized.binary_bytes)
    }
}
