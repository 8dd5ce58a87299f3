//! A ledger, the process that is hostile, and what it says.

use crate::Work;
use std::sync::Arc;
use ttmem_account::Account;
use ttmem_event::catalogue::Arch;
use ttmem_event::wire::Clock;
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoreSet, CoreType, CoresId, Definition, DeviceDefinition,
    DeviceId, Direction, DispatchPath, Event, EventKind, KernelId, KernelKind, Layout,
    MeshDefinition, MeshId, MeshKind, ProgramId, Source, TextId,
};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Departure, Ledger, Limits, ProcessIdentity, Resync, View};

/// The mesh of all devices.
pub(crate) const MESH: MeshId = MeshId(1);
/// One core, defined in every world.
pub(crate) const ONE_CORE: CoresId = CoresId(1);
/// Meshes of other kinds have ids from here on.
const FIRST_CHIP: u32 = 100;
/// Bytes of every buffer in each of its banks.
pub(crate) const BUFFER_BYTES: u64 = 64;

/// A ledger and the process whose events it gets.
pub(crate) struct World {
    pub(crate) ledger: Ledger,
    pub(crate) process: u32,
    time: u64,
    pub(crate) definitions: Vec<Definition>,
    /// The same process as its own client sees it, where a case wants its state.
    pub(crate) client: Option<Account>,
}

impl World {
    /// A client with a mesh of so many devices, and each of them as a mesh of its own.
    pub(crate) fn with_devices(devices: u32) -> Self {
        Self::started(devices, false)
    }

    /// The same, with the account of the client beside that of the server.
    pub(crate) fn with_account(devices: u32) -> Self {
        Self::started(devices, true)
    }

    fn started(devices: u32, with_account: bool) -> Self {
        let mut world = Self::of(Source::Attached);
        world.client = with_account.then(|| Account::new(false));
        world.define_devices(devices);
        world.define_cores(ONE_CORE, cores(1));
        world
    }

    /// A sender of the old protocol.
    pub(crate) fn of_old_sender() -> Self {
        Self::of(Source::Legacy)
    }

    fn of(source: Source) -> Self {
        let mut ledger = Ledger::new(Limits::default());
        let process = ledger.join(identity(1, source));
        Self {
            ledger,
            process,
            time: 1,
            definitions: Vec::new(),
            client: None,
        }
    }

    /// A process with one device and one buffer on it joins; it becomes the one that speaks.
    pub(crate) fn join_with_buffer(&mut self, pid: u32) {
        self.process = self.ledger.join(identity(pid, Source::Attached));
        self.define_devices(1);
        self.apply(buffer(MESH, u64::from(pid)));
    }

    /// The process that speaks leaves.
    pub(crate) fn depart(&mut self) {
        let departed = self
            .ledger
            .depart(self.process, Departure::Ended, self.time);
        departed.expect("the process that speaks is there");
    }

    fn define_devices(&mut self, devices: u32) {
        for id in 0..devices {
            self.define(Definition::Device(DeviceDefinition {
                id: DeviceId(id),
                logical_id: id,
                unique_id: Some(0x1000 + u64::from(id)),
                arch: Arch::Blackhole,
                board: TextId::NONE,
                remote: Some(false),
                grid_columns: 32,
                grid_rows: 32,
                l1_bytes_per_core: 1 << 20,
                l1_reserved_bytes: 0,
            }));
        }
        self.define_mesh(MESH, 0..devices);
        if devices > 1 {
            for id in 0..devices {
                self.define_mesh(chip(id), id..id + 1);
            }
        }
    }

    pub(crate) fn define_mesh(&mut self, id: MeshId, devices: std::ops::Range<u32>) {
        self.define(mesh_of(id, devices));
    }

    pub(crate) fn define_cores(&mut self, id: CoresId, cores: CoreSet) {
        self.define(Definition::Cores { id, cores });
    }

    pub(crate) fn define(&mut self, definition: Definition) {
        let defined = self.ledger.define(self.process, &definition);
        defined.expect("definitions of a case do not contradict each other");
        if let Some(client) = &mut self.client {
            let limits = &Limits::default().account;
            let defined = client.define(&definition, limits, &mut ());
            defined.expect("both accounts have the same rules");
            self.definitions.push(definition);
        }
    }

    #[inline]
    pub(crate) fn apply(&mut self, content: EventKind) {
        self.time += 1;
        let event = Event {
            time: self.time,
            kind: content,
        };
        let applied = self.ledger.tell(self.process, &event);
        applied.expect("events of a case do not contradict each other");
        if let Some(client) = &mut self.client {
            let limits = &Limits::default().account;
            let applied = client.apply(&event, limits, &mut ());
            applied.expect("both accounts have the same rules");
        }
    }

    pub(crate) fn apply_all(&mut self, events: impl IntoIterator<Item = EventKind>) {
        for content in events {
            self.apply(content);
        }
    }

    /// The ledger as it is now.
    pub(crate) fn view(&mut self) -> View {
        self.ledger.view()
    }

    /// What the process sends as its whole state.
    pub(crate) fn resync(&self) -> Resync {
        let mut state = Vec::new();
        let client = self.client.as_ref();
        client.expect("the world has its account").save(&mut state);
        Resync {
            definitions: self.definitions.clone(),
            state,
            clock: Clock::UNIX_NANOS,
            lost_events: 0,
            elided_events: 0,
        }
    }

    /// Checks that nothing was resolved the slow way, as a contradiction.
    ///
    /// Without a view: pages that a view has are copied when they are next written to.
    pub(crate) fn assert_sound(&self) {
        let process = self.ledger.process(self.process);
        let process = process.expect("the process that speaks is there");
        let anomalies = &process.account.anomalies;
        assert_eq!(anomalies.total(), 0, "a case is at fault: {anomalies:?}");
    }

    /// A case whose events end in the state they begin in: once to warm up, once to count.
    pub(crate) fn cycle(self, events: Vec<EventKind>) -> Work {
        let units = events.len();
        self.cycle_of(events, units)
    }

    /// The same, counted by other units than events.
    pub(crate) fn cycle_of(mut self, events: Vec<EventKind>, units: usize) -> Work {
        self.apply_all(events.iter().copied());
        self.once_of(events, units)
    }

    /// A case whose events can happen once.
    pub(crate) fn once_of(self, events: Vec<EventKind>, units: usize) -> Work {
        self.assert_sound();
        let mut world = self;
        Work::new(units, move || {
            for content in &events {
                world.apply(*content);
            }
        })
    }
}

fn identity(pid: u32, source: Source) -> ProcessIdentity {
    ProcessIdentity {
        pid: Some(pid),
        start_time: Some(1),
        instance: (source != Source::Legacy).then_some([7; 16]),
        uid: 0,
        name: Arc::from("worst"),
        source,
        command: "".into(),
        visible_devices: Arc::from(""),
    }
}

/// A mesh of some devices.
pub(crate) fn mesh_of(id: MeshId, devices: std::ops::Range<u32>) -> Definition {
    Definition::Mesh(MeshDefinition {
        id,
        kind: MeshKind::Mesh,
        handle: u64::from(id.0),
        rows: 1,
        columns: narrow(u64::from(devices.end - devices.start)),
        devices: devices.map(DeviceId).collect(),
    })
}

/// The mesh of one device alone.
pub(crate) fn chip(device: u32) -> MeshId {
    MeshId(FIRST_CHIP + device)
}

/// The first so many cores.
pub(crate) fn cores(count: u64) -> CoreSet {
    let mut cores = CoreSet::default();
    for at in 0..count {
        cores.insert_index(narrow(at));
    }
    cores
}

/// A number in the type that a field wants.
pub(crate) fn narrow<T>(number: u64) -> T
where
    T: TryFrom<u64>,
{
    let fits = T::try_from(number).ok();
    fits.expect("the sizes of a case fit the fields of its events")
}

pub(crate) fn buffer(mesh: MeshId, id: u64) -> EventKind {
    EventKind::BufferAllocated {
        mesh,
        buffer: BufferId(id),
        class: Class::Dram,
        layout: Layout::Interleaved,
        direction: Direction::BottomUp,
        address: id * BUFFER_BYTES,
        requested_bytes: BUFFER_BYTES,
        per_bank_bytes: BUFFER_BYTES,
        page_bytes: 64,
        cores: CoresId::NONE,
        operation: TextId::NONE,
        banks: 1,
    }
}

pub(crate) fn buffer_freed(mesh: MeshId, id: u64) -> EventKind {
    let buffer = BufferId(id);
    EventKind::BufferFreed { mesh, buffer }
}

pub(crate) fn created(program: u64) -> EventKind {
    EventKind::ProgramCreated {
        program: ProgramId(program),
        name: TextId::NONE,
        runtime_id: program,
        pointer: program,
    }
}

/// A circular buffer of a program.
pub(crate) fn cb(mesh: MeshId, program: u64, number: u64, cores: CoresId) -> EventKind {
    EventKind::CbAllocated {
        mesh,
        program: ProgramId(program),
        cb: narrow(number),
        kind: CbKind::Local,
        address: 64 * number,
        size_bytes: 64,
        cores,
    }
}

pub(crate) fn cb_freed(mesh: MeshId, program: u64, number: u64) -> EventKind {
    EventKind::CbFreed {
        mesh,
        program: ProgramId(program),
        cb: Some(narrow(number)),
    }
}

/// A kernel of a program.
pub(crate) fn kernel(mesh: MeshId, program: u64, kernel: u64, cores: CoresId) -> EventKind {
    sized_kernel(mesh, program, kernel, cores, 64)
}

/// The same of other sizes.
pub(crate) fn sized_kernel(
    mesh: MeshId,
    program: u64,
    kernel: u64,
    cores: CoresId,
    binary_bytes: u64,
) -> EventKind {
    EventKind::KernelLoaded {
        mesh,
        program: ProgramId(program),
        kernel: KernelId(kernel),
        name: TextId::NONE,
        binary_bytes,
        cores,
        core_count: 0,
        kind: KernelKind::Application,
        core_type: CoreType::Tensix,
    }
}

pub(crate) fn unloaded(mesh: MeshId, program: u64, kernel: u64) -> EventKind {
    EventKind::KernelUnloaded {
        mesh,
        program: ProgramId(program),
        kernel: Some(KernelId(kernel)),
    }
}

pub(crate) fn dispatched(mesh: MeshId, program: u64) -> EventKind {
    EventKind::Dispatched {
        mesh,
        program: ProgramId(program),
        runtime_id: program,
        operation: TextId::NONE,
        program_cache: CacheResult::Hit,
        binary_reused: true,
        path: DispatchPath::Fast,
    }
}

pub(crate) fn destroyed(program: u64) -> EventKind {
    EventKind::ProgramDestroyed {
        program: ProgramId(program),
    }
}
