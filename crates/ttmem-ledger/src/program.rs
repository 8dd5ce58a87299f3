//! A program of a process: what it placed where, and what it did.
//!
//! Everything is kept per device, because that is how it occupies memory, even
//! where the runtime computes it once and reports it for a whole mesh.

use std::sync::Arc;
use ttmem_event::{
    BinaryStatus, CbKind, CoreSet, CoreType, CoresId, KernelId, KernelKind, ProgramId, TextId,
};

/// Per-core storage of a program on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cb {
    /// Its number within the program.
    pub number: u32,
    /// What it is.
    pub kind: CbKind,
    /// Its address on every core.
    pub address: u64,
    /// Bytes on every core.
    pub size_bytes: u64,
    /// The cores it was defined on.
    pub cores_id: CoresId,
    /// How many those are.
    pub core_count: u32,
    /// When it was placed.
    pub time: u64,
}

impl Cb {
    /// Bytes over all its cores.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.size_bytes.saturating_mul(u64::from(self.core_count))
    }
}

/// A kernel of a program on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The binary.
    pub id: KernelId,
    /// Its name.
    pub name: TextId,
    /// What it is for.
    pub kind: KernelKind,
    /// The kind of core it runs on; `None` from old senders.
    pub core_type: Option<CoreType>,
    /// Bytes on each core; `None` from old senders.
    pub binary_bytes: Option<u64>,
    /// How many cores; `None` from old senders.
    pub core_count: Option<u32>,
    /// The cores, where their places are known.
    pub cores_id: CoresId,
    /// Bytes over all cores.
    pub total_bytes: u64,
    /// When it was loaded.
    pub time: u64,
}

/// What a program has on one device.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// Its per-core storage.
    pub cbs: Vec<Cb>,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// The cores that storage or kernels lie on, by core type.
    pub cover: [CoreSet; CoreType::ALL.len()],
}

/// A program on one device.
#[derive(Clone, Debug)]
pub struct ProgramOnDevice {
    /// The device, as the process counts its devices.
    pub device: u32,
    /// Shared with readers, so that counting a dispatch does not copy it.
    pub placement: Arc<Placement>,
    /// Where its binary is.
    pub binary_status: BinaryStatus,
    /// Bytes of commands generated for it.
    pub command_bytes: Option<u64>,
    /// Bytes of binary sent.
    pub sent_bytes: Option<u64>,
    /// Runs.
    pub dispatches: u64,
    /// Runs of a trace that contains it are counted at the trace, not here.
    pub program_cache_hits: u64,
    /// Runs that had to build the program.
    pub program_cache_misses: u64,
    /// Runs that found the binary on the device.
    pub binary_reuses: u64,
    /// The first run.
    pub first_dispatch: Option<u64>,
    /// The last run.
    pub last_dispatch: Option<u64>,
}

impl ProgramOnDevice {
    fn new(device: u32) -> Self {
        Self {
            device,
            placement: Arc::default(),
            binary_status: BinaryStatus::NotSent,
            command_bytes: None,
            sent_bytes: None,
            dispatches: 0,
            program_cache_hits: 0,
            program_cache_misses: 0,
            binary_reuses: 0,
            first_dispatch: None,
            last_dispatch: None,
        }
    }
}

/// What is known of a program once its offsets are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalized {
    /// When.
    pub time: u64,
    /// Bytes of configuration per core.
    pub config_bytes: u64,
    /// Bytes of kernel text per core.
    pub text_bytes: u64,
    /// Bytes of all binaries packed for DRAM.
    pub binary_bytes: u64,
}

/// A program, from construction to destruction.
#[derive(Clone, Debug)]
pub struct Program {
    /// The client's own counter, or the id an old sender used.
    pub id: ProgramId,
    /// Its name.
    pub name: TextId,
    /// The runtime's id of its last run.
    pub runtime_id: u64,
    /// Its address in the process.
    pub pointer: u64,
    /// When it was created, or first heard of.
    pub created: u64,
    /// Its sizes, once fixed.
    pub finalized: Option<Finalized>,
    /// Its devices, by device.
    pub on: Vec<ProgramOnDevice>,
    /// Lookups of its kernels in the compiler's cache that hit.
    pub jit_disk_hits: u64,
}

impl Program {
    pub(crate) fn new(id: ProgramId, created: u64) -> Self {
        Self {
            id,
            name: TextId::NONE,
            runtime_id: 0,
            pointer: 0,
            created,
            finalized: None,
            on: Vec::new(),
            jit_disk_hits: 0,
        }
    }

    /// The program's part on a device, where it has one.
    #[must_use]
    pub fn on_device(&self, device: u32) -> Option<&ProgramOnDevice> {
        let place = self.on.binary_search_by_key(&device, |on| on.device).ok()?;
        self.on.get(place)
    }

    pub(crate) fn on_device_mut(&mut self, device: u32) -> Option<&mut ProgramOnDevice> {
        let place = self.on.binary_search_by_key(&device, |on| on.device).ok()?;
        self.on.get_mut(place)
    }

    pub(crate) fn on_device_or_new(&mut self, device: u32) -> &mut ProgramOnDevice {
        let place = match self.on.binary_search_by_key(&device, |on| on.device) {
            Ok(place) => place,
            Err(place) => {
                self.on.insert(place, ProgramOnDevice::new(device));
                place
            }
        };
        &mut self.on[place]
    }
}
