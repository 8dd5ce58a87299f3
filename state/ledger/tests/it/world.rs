//! Processes, devices and events in the words of the statements they test.
//!
//! A [`World`] is a ledger with a clock that ticks once per event. Whoever
//! speaks does so through [`World::by`]; an event that is refused fails the
//! test unless the refusal was announced with [`Speaker::expecting`]. Reading
//! goes through [`World::view`], which audits every total.

mod speech;

use std::cell::RefCell;
use std::sync::Arc;
use ttmem_account::Account;
use ttmem_event::catalogue::Arch;
use ttmem_event::wire::Clock;
use ttmem_event::{
    BufferId, Class, CoresId, Definition, DeviceDefinition, DeviceId, Direction, Event, EventKind,
    Layout, MeshDefinition, MeshId, MeshKind, Source, TextId,
};
use ttmem_ledger::geometry::{AllocatorGeometry, ClassGeometry, DeviceGeometry};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{
    AccountLimits, Anomaly, Capacity, Departure, Effect, Exit, Ledger, Limits, ProcessIdentity,
    ProcessView, Resync, Totals, View,
};

/// A board as its runtime reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Board {
    pub(crate) arch: Arch,
    pub(crate) columns: u16,
    pub(crate) rows: u16,
    pub(crate) l1_bytes_per_core: u32,
    pub(crate) l1_reserved_bytes: u32,
    /// Class, banks, first address, bytes of a bank.
    pub(crate) classes: &'static [(Class, u16, u64, u64)],
}

impl Board {
    /// One chip with an 8 × 8 grid, as ttnn 0.81.1 opens it with 32 KiB of
    /// L1_SMALL and 8 MiB of trace region.
    pub(crate) const N150: Self = Self {
        arch: Arch::Wormhole,
        columns: 8,
        rows: 8,
        l1_bytes_per_core: 1_499_136,
        l1_reserved_bytes: 105_824,
        classes: &[
            (Class::Dram, 12, 1_048_640, 1_071_988_672),
            (Class::Trace, 12, 1_073_037_312, 704_512),
            (Class::L1, 64, 105_824, 1_360_544),
            (Class::L1Small, 64, 1_466_368, 32_768),
        ],
    };
}

/// A process, by its slot in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(pub(crate) u32);

/// The ledger, a clock, and what the last events did.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) ledger: RefCell<Ledger>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) now: u64,
}

/// The state of a client that lived through these events.
pub(crate) fn state_of(
    source: Source,
    definitions: &[Definition],
    events: impl IntoIterator<Item = Event>,
) -> Vec<u8> {
    let limits = AccountLimits::default();
    let mut account = Account::new(source == Source::Legacy);
    for definition in definitions {
        let _refused = account.define(definition, &limits, &mut ());
    }
    for event in events {
        let _refused = account.apply(&event, &limits, &mut ());
    }
    let mut state = Vec::new();
    account.save(&mut state);
    state
}

/// An identity with nothing but a name that matters.
pub(crate) fn identity(name: &str, source: Source, visible_devices: &str) -> ProcessIdentity {
    ProcessIdentity {
        pid: None,
        start_time: None,
        instance: None,
        uid: 1000,
        name: name.into(),
        source,
        command: "".into(),
        visible_devices: visible_devices.into(),
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self {
            ledger: RefCell::new(Ledger::new(limits)),
            effects: Vec::new(),
            now: 0,
        }
    }

    /// A world with one process that opened one n150.
    pub(crate) fn n150() -> (Self, Process) {
        let mut world = Self::new();
        let process = world.process("model");
        world.by(process).chip(0, &Board::N150);
        (world, process)
    }

    /// A process with the new client.
    pub(crate) fn process(&mut self, name: &str) -> Process {
        self.process_seeing(name, "")
    }

    /// A process with the new client and a set of visible devices.
    pub(crate) fn process_seeing(&mut self, name: &str, visible: &str) -> Process {
        Process(
            self.ledger
                .get_mut()
                .join(identity(name, Source::Attached, visible)),
        )
    }

    /// A process that speaks the old protocol.
    pub(crate) fn old_sender(&mut self, name: &str) -> Process {
        Process(
            self.ledger
                .get_mut()
                .join(identity(name, Source::Legacy, "")),
        )
    }

    /// The process speaks, about its mesh 0 until it says another.
    pub(crate) fn by(&mut self, process: Process) -> Speaker<'_> {
        Speaker {
            world: self,
            process,
            mesh: MeshId(0),
            expected: None,
        }
    }

    pub(crate) fn depart(&mut self, process: Process, departure: Departure) -> Exit {
        self.now += 1;
        let exit = self.ledger.get_mut().depart(process.0, departure, self.now);
        exit.expect("a process departs once")
    }

    pub(crate) fn resync(
        &mut self,
        process: Process,
        definitions: &[Definition],
        whats: &[EventKind],
        (lost_events, elided_events): (u64, u64),
    ) {
        let ledger = self.ledger.get_mut();
        let identity = ledger.identity(process.0).expect("the process lives");
        let events = whats.iter().map(|content| Event {
            time: self.now,
            kind: *content,
        });
        let resync = Resync {
            definitions: definitions.to_vec(),
            state: state_of(identity.source, definitions, events),
            clock: Clock::UNIX_NANOS,
            lost_events,
            elided_events,
        };
        ledger.resync(process.0, resync);
    }

    /// The ledger at this moment, with all totals audited.
    pub(crate) fn view(&self) -> View {
        let view = self.ledger.borrow_mut().view();
        assert_eq!(view.audit(), Ok(()));
        view
    }

    /// What everybody holds on a device, by the order the devices became known.
    pub(crate) fn totals(&self, device: usize) -> Totals {
        self.view().devices[device].totals
    }

    /// What a process holds on a device, by the order it spoke of its devices.
    pub(crate) fn held(&self, process: Process, device: usize) -> Totals {
        self.process_view(process).account.devices[device].totals
    }

    pub(crate) fn process_view(&self, process: Process) -> ProcessView {
        let view = self.view();
        view.process(process.0).expect("the process lives").clone()
    }

    /// Charged bytes of a class on a device.
    pub(crate) fn charged(&self, device: usize, class: Class) -> u64 {
        self.totals(device).class(class).charged.bytes()
    }

    /// Registered bytes of circular buffers on a device.
    pub(crate) fn cb_bytes(&self, device: usize) -> u64 {
        self.totals(device).cb.registered.bytes()
    }

    /// Registered bytes of kernels on a device.
    pub(crate) fn kernel_bytes(&self, device: usize) -> u64 {
        self.totals(device).kernel.registered.bytes()
    }

    pub(crate) fn geometry(&self, device: usize) -> DeviceGeometry {
        self.view().geometry().devices[device]
    }

    pub(crate) fn class_geometry(&self, device: usize, class: Class) -> ClassGeometry {
        self.geometry(device).classes[class.index()]
    }

    /// The geometry of an allocator, by the order the process defined its meshes.
    pub(crate) fn allocator(&self, process: Process, mesh: u32, class: Class) -> AllocatorGeometry {
        let view = self.view();
        let mut allocators = view.geometry().allocators.into_iter();
        let found = allocators
            .find(|each| (each.process, each.mesh, each.class) == (process.0, mesh, class));
        found.expect("the allocator holds something or has a capacity")
    }

    /// How often something was wrong with a process's events.
    pub(crate) fn anomalies(&self, process: Process, anomaly: Anomaly) -> u64 {
        self.process_view(process).account.anomalies.of(anomaly)
    }

    /// Everything that was wrong, over all processes.
    pub(crate) fn all_anomalies(&self) -> u64 {
        self.view().anomalies.total()
    }
}

/// A process that says what it does.
#[derive(Debug)]
pub(crate) struct Speaker<'w> {
    world: &'w mut World,
    process: Process,
    mesh: MeshId,
    expected: Option<Anomaly>,
}

impl Speaker<'_> {
    /// What follows is about this mesh.
    pub(crate) fn on(&mut self, mesh: u32) -> &mut Self {
        self.mesh = MeshId(mesh);
        self
    }

    /// What follows happens at this time.
    pub(crate) fn at(&mut self, time: u64) -> &mut Self {
        self.world.now = time - 1;
        self
    }

    /// The next event or definition must be refused with this anomaly.
    pub(crate) fn expecting(&mut self, anomaly: Anomaly) -> &mut Self {
        self.expected = Some(anomaly);
        self
    }

    /// Says it, and checks that it was taken or refused as expected.
    pub(crate) fn tell(&mut self, content: EventKind) -> &mut Self {
        self.world.now += 1;
        let time = self.world.now;
        let (ledger, effects) = (&mut self.world.ledger, &mut self.world.effects);
        effects.clear();
        let event = Event {
            time,
            kind: content,
        };
        let outcome = ledger
            .get_mut()
            .tell_with(self.process.0, &event, Some(effects));
        assert_eq!(outcome.err(), self.expected.take(), "{content:?}");
        self
    }

    pub(crate) fn define(&mut self, definition: &Definition) -> &mut Self {
        let outcome = self
            .world
            .ledger
            .get_mut()
            .define(self.process.0, definition);
        assert_eq!(outcome.err(), self.expected.take(), "{definition:?}");
        self
    }
}

/// A buffer over all banks of a mesh.
pub(crate) fn buffer(
    mesh: MeshId,
    id: u64,
    class: Class,
    address: u64,
    per_bank_bytes: u64,
    requested_bytes: u64,
) -> EventKind {
    EventKind::BufferAllocated {
        mesh,
        buffer: BufferId(id),
        class,
        layout: Layout::Interleaved,
        direction: Direction::BottomUp,
        address,
        requested_bytes,
        per_bank_bytes,
        page_bytes: 2048,
        cores: CoresId::NONE,
        operation: TextId::NONE,
        banks: 1,
    }
}

pub(crate) fn capacity(
    mesh: MeshId,
    class: Class,
    banks: u16,
    base: u64,
    per_bank_bytes: u64,
) -> EventKind {
    EventKind::CapacityReported {
        mesh,
        class,
        banks,
        base,
        per_bank_bytes,
        alignment: 32,
    }
}

pub(crate) fn device(id: u32, unique_id: Option<u64>, board: &Board) -> Definition {
    Definition::Device(DeviceDefinition {
        id: DeviceId(id),
        logical_id: id,
        unique_id,
        arch: board.arch,
        board: TextId::NONE,
        remote: None,
        grid_columns: board.columns,
        grid_rows: board.rows,
        l1_bytes_per_core: board.l1_bytes_per_core,
        l1_reserved_bytes: board.l1_reserved_bytes,
    })
}

pub(crate) fn mesh(id: u32, devices: &[u32]) -> Definition {
    Definition::Mesh(MeshDefinition {
        id: MeshId(id),
        kind: MeshKind::Mesh,
        handle: u64::from(id),
        rows: 1,
        columns: u16::try_from(devices.len()).expect("a small mesh"),
        devices: devices.iter().copied().map(DeviceId).collect(),
    })
}

/// What a board's class can hand out.
pub(crate) fn capacity_of(board: &Board, class: Class) -> Capacity {
    let mut classes = board.classes.iter();
    let found = classes.find(|(each, ..)| *each == class);
    let (_class, banks, base, per_bank_bytes) = *found.expect("the board has the class");
    Capacity {
        banks: u32::from(banks),
        base,
        per_bank_bytes,
    }
}

/// The name of a process, as the view has it.
pub(crate) fn name_of(process: &ProcessView) -> Arc<str> {
    Arc::clone(&process.facts.identity.name)
}
