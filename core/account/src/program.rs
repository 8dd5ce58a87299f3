//! A program of a process: what it placed where, and what it did.
//!
//! Everything is kept per device, because that is how it occupies memory, even
//! where the runtime computes it once and reports it for a whole mesh.

use crate::anomaly::Anomaly;
use crate::definitions::Definitions;
use crate::observer::Holding;
use std::sync::Arc;
use ttmem_event::{
    BinaryStatus, CbKind, CoreSet, CoreType, CoresId, KernelId, KernelKind, ProgramId, TextId,
};

/// Per-core storage of a program on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cb {
    pub number: u32,
    pub kind: CbKind,
    /// Its address on every core.
    pub address: u64,
    /// Bytes on every core.
    pub size_bytes: u64,
    /// The cores it was defined on.
    pub cores_id: CoresId,
    pub core_count: u32,
    pub time: u64,
    /// The event that placed it, in the order of the process's events.
    pub order: u64,
}

impl Cb {
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.size_bytes.saturating_mul(u64::from(self.core_count))
    }
}

/// A kernel of a program on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub id: KernelId,
    pub name: TextId,
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
    pub time: u64,
    /// The event that loaded it, in the order of the process's events.
    pub order: u64,
}

/// Storage or a kernel of a program on a device.
pub(crate) trait Entry: Copy {
    type Key: Ord + Copy;
    /// Its identity within its program.
    fn key(&self) -> Self::Key;
    /// The cores that it is on, where they are known.
    fn core_set(&self) -> Option<(CoreType, CoresId)>;
    /// Whether it equals what has its key, times aside.
    fn repeats(&self, known: &Self) -> bool;
    fn holding(&self, program: ProgramId) -> Holding<'_>;
    fn list(placement: &mut Placement) -> &mut Vec<Self>;
}

impl Entry for Cb {
    type Key = u32;
    fn key(&self) -> u32 {
        self.number
    }

    fn core_set(&self) -> Option<(CoreType, CoresId)> {
        (self.cores_id != CoresId::NONE).then_some((CoreType::Tensix, self.cores_id))
    }

    fn repeats(&self, _known: &Self) -> bool {
        false
    }

    fn holding(&self, program: ProgramId) -> Holding<'_> {
        Holding::Cb(program, self)
    }

    fn list(placement: &mut Placement) -> &mut Vec<Self> {
        &mut placement.cbs
    }
}

impl Entry for Kernel {
    type Key = KernelId;
    fn key(&self) -> KernelId {
        self.id
    }

    fn core_set(&self) -> Option<(CoreType, CoresId)> {
        let core_type = self.core_type?;
        (self.cores_id != CoresId::NONE).then_some((core_type, self.cores_id))
    }

    fn repeats(&self, known: &Self) -> bool {
        let figures = |kernel: &Self| {
            let bytes = (kernel.binary_bytes, kernel.total_bytes);
            (kernel.kind, kernel.core_type, kernel.cores_id, bytes)
        };
        figures(self) == figures(known)
    }

    fn holding(&self, program: ProgramId) -> Holding<'_> {
        Holding::Kernel(program, self)
    }

    fn list(placement: &mut Placement) -> &mut Vec<Self> {
        &mut placement.kernels
    }
}

/// What became of an entry that was put in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Put<E> {
    /// It was there already.
    Repeated,
    Added,
    Replaced(E),
}

/// The cores that a program lies on, as the core sets that its entries name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cover {
    /// Each once, in order.
    sets: Vec<(CoreType, CoresId)>,
}

impl Cover {
    #[must_use]
    pub fn cores(&self, definitions: &Definitions, core_type: CoreType) -> CoreSet {
        let mut cores = CoreSet::default();
        let sets = self.sets.iter().filter(|(each, _id)| *each == core_type);
        for more in sets.filter_map(|(_type, id)| definitions.cores(*id)) {
            cores.insert_all(more);
        }
        cores
    }

    /// Whether every set of this one is in the other, too.
    pub(crate) fn is_within(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        if Arc::ptr_eq(self, other) {
            return true;
        }
        // Both stand in order: one walk over the two.
        let mut others = other.sets.iter();
        let mut has = |set: &(CoreType, CoresId)| others.find(|other| *other >= set) == Some(set);
        self.sets.iter().all(&mut has)
    }

    /// Adds a set, unless there would be too many.
    pub(crate) fn insert(
        &mut self,
        core_type: CoreType,
        cores: CoresId,
        most: usize,
    ) -> Result<(), Anomaly> {
        let Err(at) = self.sets.binary_search(&(core_type, cores)) else {
            return Ok(());
        };
        if self.sets.len() >= most {
            return Err(Anomaly::LimitReached);
        }
        self.sets.insert(at, (core_type, cores));
        Ok(())
    }

    pub(crate) fn sets(&self) -> &[(CoreType, CoresId)] {
        &self.sets
    }
}

/// What a program has on one device.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    cbs: Vec<Cb>,
    kernels: Vec<Kernel>,
    /// Apart from the entries: who ran with it keeps it, and it seldom changes.
    cover: Arc<Cover>,
    /// How many entries name each set of the cover.
    named: Vec<u32>,
}

impl Placement {
    #[must_use]
    pub fn cbs(&self) -> &[Cb] {
        &self.cbs
    }

    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    pub(crate) fn cover(&self) -> &Arc<Cover> {
        &self.cover
    }

    /// Puts an entry in place of what has its key, unless there would be too many.
    pub(crate) fn put<E: Entry>(&mut self, entry: E, most: usize) -> Result<Put<E>, Anomaly> {
        let list = E::list(self);
        let put = match list.binary_search_by_key(&entry.key(), E::key) {
            Ok(at) if entry.repeats(&list[at]) => return Ok(Put::Repeated),
            Ok(at) => Put::Replaced(std::mem::replace(&mut list[at], entry)),
            Err(_at) if list.len() >= most => return Err(Anomaly::LimitReached),
            Err(at) => {
                insert_at(list, at, entry);
                Put::Added
            }
        };
        self.name(entry.core_set());
        if let Put::Replaced(old) = &put {
            self.drop_name(old.core_set());
        }
        Ok(put)
    }

    /// Takes out the entry of a key, or all.
    pub(crate) fn take<E: Entry>(&mut self, key: Option<E::Key>) -> Vec<E> {
        let list = E::list(self);
        let taken = match key {
            None => std::mem::take(list),
            Some(key) => {
                let at = list.binary_search_by_key(&key, E::key);
                at.map(|at| list.remove(at)).into_iter().collect()
            }
        };
        for entry in &taken {
            self.drop_name(entry.core_set());
        }
        taken
    }

    fn name(&mut self, set: Option<(CoreType, CoresId)>) {
        let Some(set) = set else {
            return;
        };
        match self.cover.sets.binary_search(&set) {
            Ok(at) => self.named[at] += 1,
            Err(at) => {
                let sets = &mut Arc::make_mut(&mut self.cover).sets;
                insert_at(sets, at, set);
                insert_at(&mut self.named, at, 1);
            }
        }
    }

    fn drop_name(&mut self, set: Option<(CoreType, CoresId)>) {
        let Some(Ok(at)) = set.map(|set| self.cover.sets.binary_search(&set)) else {
            return;
        };
        self.named[at] -= 1;
        if self.named[at] == 0 {
            Arc::make_mut(&mut self.cover).sets.remove(at);
            self.named.remove(at);
        }
    }
}

/// Puts an entry into a list that in most programs has no other, and takes no room for more.
fn insert_at<T>(list: &mut Vec<T>, at: usize, entry: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.insert(at, entry);
}

#[derive(Clone, Debug)]
pub struct ProgramOnDevice {
    /// The device, as the process counts its devices.
    pub device: u32,
    pub binary_status: BinaryStatus,
    /// What it has there, if anything; shared with readers, and by devices where it is the same.
    pub(crate) placement: Option<Arc<Placement>>,
    /// The cores that it had when it ran last; none before its first run.
    pub(crate) ran: Option<Arc<Cover>>,
    /// The number of its last run among all runs of the process; 0 before the first.
    pub(crate) run: u64,
    pub command_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
    /// Runs; those of a trace that contains it are counted at the trace, not here.
    pub dispatches: u64,
    pub program_cache_hits: u64,
    pub program_cache_misses: u64,
    pub binary_reuses: u64,
    pub first_dispatch: Option<u64>,
    pub last_dispatch: Option<u64>,
}

impl ProgramOnDevice {
    pub(crate) fn new(device: u32) -> Self {
        Self {
            device,
            binary_status: BinaryStatus::NotSent,
            placement: None,
            ran: None,
            run: 0,
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

    #[must_use]
    pub fn cbs(&self) -> &[Cb] {
        self.placement.as_ref().map_or(&[], |placed| &placed.cbs)
    }

    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        self.placement
            .as_ref()
            .map_or(&[], |placed| &placed.kernels)
    }

    /// The cores of one type that it lies on.
    #[must_use]
    pub fn cores(&self, definitions: &Definitions, core_type: CoreType) -> CoreSet {
        let cover = self.placement.as_ref().map(|placed| &placed.cover);
        cover.map_or_else(CoreSet::default, |cover| {
            cover.cores(definitions, core_type)
        })
    }
}

/// What is known of a program once its offsets are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalized {
    pub time: u64,
    pub config_bytes: u64,
    /// Bytes of kernel text per core.
    pub text_bytes: u64,
    /// Bytes of all binaries packed for DRAM.
    pub binary_bytes: u64,
}

/// A program, from construction to destruction.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The client's own counter, or the id an old sender used.
    pub id: ProgramId,
    pub name: TextId,
    /// The runtime's id of its last run.
    pub runtime_id: u64,
    pub pointer: u64,
    /// When it was created, or first mentioned.
    pub created: u64,
    pub finalized: Option<Finalized>,
    pub on: Vec<ProgramOnDevice>,
    /// Lookups of its kernels in the compiler's cache that hit.
    pub jit_disk_hits: u64,
}

impl Program {
    /// The program's part on a device, where it has one.
    #[must_use]
    pub fn on_device(&self, device: u32) -> Option<&ProgramOnDevice> {
        let place = self.on.binary_search_by_key(&device, |on| on.device).ok()?;
        self.on.get(place)
    }

    /// The same, to change; `near` is where it stands if the program is on one mesh alone.
    #[inline]
    pub(crate) fn on_device_near(
        &mut self,
        near: usize,
        device: u32,
    ) -> Option<&mut ProgramOnDevice> {
        if self.on.get(near).is_some_and(|on| on.device == device) {
            return self.on.get_mut(near);
        }
        self.on_device_mut(device)
    }

    pub(crate) fn on_device_mut(&mut self, device: u32) -> Option<&mut ProgramOnDevice> {
        let place = self.on.binary_search_by_key(&device, |on| on.device).ok()?;
        self.on.get_mut(place)
    }

    pub(crate) fn on_device_or_new(&mut self, device: u32) -> &mut ProgramOnDevice {
        let place = match self.on.binary_search_by_key(&device, |on| on.device) {
            Ok(place) => place,
            Err(place) => {
                // Most programs are on one device, or on all of a mesh at once.
                self.on.reserve_exact(1);
                self.on.insert(place, ProgramOnDevice::new(device));
                place
            }
        };
        &mut self.on[place]
    }
}
