//! A tracked process: who it is, what it defined, what it holds.

use crate::anomaly::{Anomalies, Anomaly};
use crate::buffers::{BufferBook, BufferList};
use crate::device::Capacity;
use crate::pages::Pages;
use crate::program::Program;
use crate::ring::{Prefetcher, Ring};
use crate::totals::Totals;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use ttmem_event::{
    Class, CoreSet, CoreType, CoresId, DeviceId, KernelId, MeshId, MeshKind, ProgramId, Source,
    TextId, TraceId, What,
};

/// A map keyed by what a client sends: seeded, so that it cannot be made slow on purpose.
pub(crate) type Map<K, V> = HashMap<K, V, RandomState>;

/// Who a process is, as the kernel and the handshake say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Its pid where the server can see it.
    pub pid: Option<u32>,
    /// Its start, in nanoseconds since the epoch.
    pub start_time: Option<u64>,
    /// The instance id of its handshake; old senders have none.
    pub instance: Option<[u8; 16]>,
    /// Its user.
    pub uid: u32,
    /// Its name.
    pub name: Arc<str>,
    /// How its events become known.
    pub source: Source,
    /// The visible-device set its logical ids are counted in.
    pub visible_devices: Arc<str>,
}

/// Whether a process can still say something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// Connected.
    Live,
    /// Alive, but its connection ended without a goodbye: it keeps what it holds.
    Detached,
    /// Gone: it holds nothing any more.
    Exited,
}

/// Why a process was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It said goodbye.
    Goodbye,
    /// It died.
    Died,
    /// Another instance runs under its pid.
    Replaced,
    /// Somebody asked to forget it.
    Forgotten,
}

impl Departure {
    /// The word for JSON and text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodbye => "goodbye",
            Self::Died => "died",
            Self::Replaced => "replaced",
            Self::Forgotten => "forgotten",
        }
    }
}

/// What was given back in one go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Buffers.
    pub buffers: u64,
    /// Their charged bytes, over all devices.
    pub buffer_bytes: u64,
    /// Per-core storage entries.
    pub cbs: u64,
    /// Their bytes.
    pub cb_bytes: u64,
    /// Kernels.
    pub kernels: u64,
    /// Their bytes.
    pub kernel_bytes: u64,
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// When.
    pub time: u64,
    /// Why.
    pub departure: Departure,
    /// What it still held.
    pub released: Released,
}

/// What one process holds on one device.
#[derive(Clone, Debug)]
pub struct ProcessDevice {
    /// The device, as the ledger counts them.
    pub device: u32,
    /// The first id it has in the process's events; old senders have only device numbers.
    pub id: Option<DeviceId>,
    /// What it holds there.
    pub totals: Totals,
}

/// One class of a mesh: the runtime has an allocator of its own for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator {
    /// What it can hand out on each device, as the runtime reports it.
    pub capacity: Option<Capacity>,
    /// What it took on each device.
    pub charged_bytes: u64,
    /// The same per bank, over the buffers that take every bank.
    pub per_bank_bytes: u64,
    /// Live buffers.
    pub buffers: u64,
    /// Whether the allocator's own statistics agreed when last compared.
    pub verified: Option<bool>,
    pub(crate) list: BufferList,
}

/// A mesh handle of a process.
#[derive(Clone, Debug)]
pub struct Mesh {
    /// Its id in the process's events; `None` for the devices of old senders.
    pub id: Option<MeshId>,
    /// What it stands for.
    pub kind: MeshKind,
    /// The runtime's own id.
    pub handle: u64,
    /// Its devices, as the process counts them.
    pub devices: Arc<[u32]>,
    /// Its allocators, by class.
    pub allocators: [Allocator; Class::COUNT],
}

impl Mesh {
    pub(crate) fn new(kind: MeshKind, handle: u64, devices: Arc<[u32]>) -> Self {
        Self {
            id: None,
            kind,
            handle,
            devices,
            allocators: Default::default(),
        }
    }
}

/// A captured trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// Runs in the order of their capture.
    pub(crate) captured: Vec<Captured>,
    /// Once captured: the last program on each core.
    pub(crate) settled: Vec<TraceCores>,
}

/// A run that was captured: on the mesh of the trace or on a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured {
    pub(crate) program: ProgramId,
    /// The slot of the program.
    pub(crate) slot: u32,
    /// The slot of the mesh it was dispatched on.
    pub(crate) mesh: u32,
}

/// Cores that a trace leaves to a program.
#[derive(Clone, Debug)]
pub(crate) struct TraceCores {
    pub(crate) device: u32,
    pub(crate) core_type: CoreType,
    pub(crate) cores: CoreSet,
    pub(crate) program: ProgramId,
}

/// Where a program's id comes from: an old sender's ids are not unique among each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProgramKey {
    /// The client's counter.
    Tracked(ProgramId),
    /// The id an old sender gave a kernel.
    LegacyKernel(u64),
    /// The address an old sender gave a circular buffer.
    LegacyCb(u64),
}

/// What a process defined, shared with readers.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    texts: Map<u32, Arc<str>>,
    cores: Map<u32, CoreSet>,
    pub(crate) text_bytes: usize,
}

impl Definitions {
    /// A defined text.
    #[must_use]
    pub fn text(&self, id: TextId) -> Option<&Arc<str>> {
        self.texts.get(&id.0)
    }

    /// A defined core set.
    #[must_use]
    pub fn cores(&self, id: CoresId) -> Option<&CoreSet> {
        self.cores.get(&id.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len() + self.cores.len()
    }

    pub(crate) fn insert_text(&mut self, id: TextId, text: &str) {
        self.text_bytes += text.len();
        self.texts.insert(id.0, text.into());
    }

    pub(crate) fn insert_cores(&mut self, id: CoresId, cores: CoreSet) {
        self.cores.insert(id.0, cores);
    }
}

/// A ring's place: mesh, sub-device, core type.
pub type RingKey = (u32, u8, CoreType);

/// Everything of a process that readers see, its rows aside.
#[derive(Clone, Debug)]
pub struct ProcessFacts {
    /// Who it is.
    pub identity: ProcessIdentity,
    /// Whether it can still say something.
    pub state: ProcessState,
    /// How many connections it has.
    pub connections: u32,
    /// The pid it claims; shown, never used.
    pub claimed_pid: Option<i64>,
    /// Whether it is sending its whole state anew.
    pub resyncing: bool,
    /// Events it lost: its totals are not to be trusted.
    pub lost_events: u64,
    /// Events it left out: its totals are exact, its history is not.
    pub elided_events: u64,
    /// Frees of buffers that belong to the process it was forked from.
    pub inherited_frees: u64,
    /// What it still held when it closed its devices.
    pub leak_candidates: Released,
    /// What was wrong with its events.
    pub anomalies: Anomalies,
    /// What it holds, by device.
    pub devices: Vec<ProcessDevice>,
    /// Its mesh handles.
    pub meshes: Vec<Mesh>,
    /// What it defined.
    pub definitions: Arc<Definitions>,
    /// Its config rings.
    pub rings: BTreeMap<RingKey, Ring>,
    /// Its prefetcher caches, by mesh.
    pub prefetchers: BTreeMap<u32, Prefetcher>,
}

/// A process, with what only the ledger needs.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) facts: ProcessFacts,
    pub(crate) buffers: BufferBook,
    pub(crate) programs: Pages<Program>,
    pub(crate) program_index: Map<ProgramKey, u32>,
    pub(crate) device_ids: Map<u32, u32>,
    pub(crate) mesh_ids: Map<u32, u32>,
    pub(crate) legacy_meshes: Map<u32, u32>,
    /// Devices of all meshes together.
    pub(crate) mesh_members: usize,
    /// Devices of all programs together.
    pub(crate) parts: usize,
    /// Per-core storage and kernels on all devices together.
    pub(crate) placed: usize,
    /// Per device of the process: each binary with the totals it is loaded with.
    pub(crate) kernels: Vec<Map<KernelId, BTreeMap<u64, u32>>>,
    pub(crate) traces: BTreeMap<(u32, TraceId), Trace>,
    /// The mesh slots on which a trace is being captured, by mesh id, and the trace.
    pub(crate) capturing: BTreeMap<MeshId, (u32, TraceId)>,
    /// Buffers below this id belong to the process this one was forked from.
    pub(crate) first_own_buffer: u64,
    /// The time given to an old sender's last report.
    pub(crate) last_report: u64,
}

impl Process {
    pub(crate) fn new(identity: ProcessIdentity) -> Self {
        let by_address = identity.source == Source::Legacy;
        Self {
            facts: ProcessFacts {
                identity,
                state: ProcessState::Live,
                connections: 0,
                claimed_pid: None,
                resyncing: false,
                lost_events: 0,
                elided_events: 0,
                inherited_frees: 0,
                leak_candidates: Released::default(),
                anomalies: Anomalies::default(),
                devices: Vec::new(),
                meshes: Vec::new(),
                definitions: Arc::default(),
                rings: BTreeMap::new(),
                prefetchers: BTreeMap::new(),
            },
            buffers: BufferBook::new(by_address),
            programs: Pages::default(),
            program_index: Map::default(),
            device_ids: Map::default(),
            mesh_ids: Map::default(),
            legacy_meshes: Map::default(),
            mesh_members: 0,
            parts: 0,
            placed: 0,
            kernels: Vec::new(),
            traces: BTreeMap::new(),
            capturing: BTreeMap::new(),
            first_own_buffer: 0,
            last_report: 0,
        }
    }

    /// What it holds, over all devices.
    pub(crate) fn holdings(&self) -> Released {
        let mut held = Released::default();
        for device in &self.facts.devices {
            let totals = &device.totals;
            for class in &totals.classes {
                held.buffer_bytes += class.charged.bytes();
            }
            held.cbs += totals.cb.count;
            held.cb_bytes += totals.cb.registered.bytes();
            held.kernels += totals.kernel.count;
            held.kernel_bytes += totals.kernel.registered.bytes();
        }
        held.buffers = self.buffers.rows.len() as u64;
        held
    }
}

impl Process {
    /// Lets pass what a fork gives back of its parent's: the parent's own entry keeps it.
    pub(crate) fn excuse_inherited(
        &mut self,
        what: &What,
        anomaly: Anomaly,
    ) -> Result<(), Anomaly> {
        match (what, anomaly) {
            (What::LegacyFreed { id, .. }, Anomaly::UnknownFree) if *id < self.first_own_buffer => {
                self.facts.inherited_frees += 1;
                Ok(())
            }
            _other => Err(anomaly),
        }
    }

    /// Takes over what a program did before a reconnect.
    pub(crate) fn restore_counters(
        &mut self,
        record: &ttmem_event::wire::ProgramCounters,
        most_parts: usize,
    ) {
        let (key, meshes) = if self.facts.identity.source == Source::Legacy {
            // A kernel is all it knows of a program, and a device number all of a mesh.
            (
                ProgramKey::LegacyKernel(record.program.0),
                &self.legacy_meshes,
            )
        } else {
            (ProgramKey::Tracked(record.program), &self.mesh_ids)
        };
        let (Some(slot), Some(mesh)) = (self.program_index.get(&key), meshes.get(&record.mesh.0))
        else {
            return;
        };
        let Some(program) = self.programs.get_mut(*slot) else {
            return;
        };
        for device in self.facts.meshes[*mesh as usize].devices.iter() {
            if program.on_device(*device).is_none() {
                if self.parts >= most_parts {
                    return;
                }
                self.parts += 1;
            }
            let on = program.on_device_or_new(*device);
            on.dispatches = record.dispatches;
            on.program_cache_hits = record.program_cache_hits;
            on.binary_reuses = record.binary_reuses;
            on.first_dispatch = (record.dispatches > 0).then_some(record.first_time);
            on.last_dispatch = (record.dispatches > 0).then_some(record.last_time);
        }
    }
}
