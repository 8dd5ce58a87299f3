//! A ledger with one process that has introduced its devices.

use std::ops::Range;
use std::sync::Arc;
use ttmem_event::catalogue::{BankedRegion, BoardKind, Capacities, DeviceOptions};
use ttmem_event::{
    Class, CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, Event, EventKind,
    MeshDefinition, MeshId, MeshKind, Source, TextId,
};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{ApplyLimits, Batch, Change, Effect, Ledger, Limits, ProcessIdentity, View};

/// The board of every workload.
const BOARD: BoardKind = BoardKind::N150;

/// A ledger and the process whose events it gets.
#[derive(Debug)]
pub(crate) struct World {
    ledger: Ledger,
    process: u32,
}

impl World {
    /// The mesh of all devices.
    pub(crate) const MESH: MeshId = MeshId(1);
    /// The operation that every buffer is for.
    pub(crate) const OPERATION: TextId = TextId(1);

    /// A client on a mesh of so many devices, with their capacities reported.
    pub(crate) fn with_mesh(devices: u16) -> Self {
        let mut world = Self::new(Source::Attached);
        let (definitions, events) = Self::introduction(devices);
        for definition in &definitions {
            world.define(definition);
        }
        for event in events {
            world.apply(event);
        }
        world
    }

    /// What a client on a mesh of so many devices says first.
    pub(crate) fn introduction(devices: u16) -> (Vec<Definition>, Vec<EventKind>) {
        let board = Self::capacities();
        let definition = |id: u16| DeviceDefinition {
            id: DeviceId(u32::from(id)),
            logical_id: u32::from(id),
            unique_id: Some(0x1000 + u64::from(id)),
            arch: BOARD.arch(),
            board: TextId::NONE,
            remote: Some(false),
            grid_columns: board.compute_grid.x,
            grid_rows: board.compute_grid.y,
            l1_bytes_per_core: narrow(board.l1_bytes_per_core),
            l1_reserved_bytes: narrow(board.l1_reserved_bytes_per_core),
        };
        let mesh = MeshDefinition {
            id: Self::MESH,
            kind: MeshKind::Mesh,
            handle: 1,
            rows: 1,
            columns: devices,
            devices: (0..devices).map(|id| DeviceId(u32::from(id))).collect(),
        };
        let operation = Definition::Text {
            id: Self::OPERATION,
            text: "ttnn.matmul".to_owned(),
        };
        let chips = (0..devices).map(|id| Definition::Device(definition(id)));
        let definitions = chips.chain([Definition::Mesh(mesh), operation]);
        let regions = [(Class::Dram, board.dram), (Class::L1, board.l1)];
        let capacities = regions.map(|(class, region)| EventKind::CapacityReported {
            mesh: Self::MESH,
            class,
            banks: banks(&region),
            base: region.base,
            per_bank_bytes: region.bytes_per_bank,
            alignment: 32,
        });
        (definitions.collect(), capacities.to_vec())
    }

    /// A sender of the old protocol.
    pub(crate) fn with_old_sender() -> Self {
        Self::new(Source::Legacy)
    }

    fn new(source: Source) -> Self {
        let mut ledger = Ledger::new(Limits::default());
        let process = ledger.join(ProcessIdentity {
            pid: Some(1),
            start_time: Some(1),
            instance: (source != Source::Legacy).then_some([7; 16]),
            uid: 0,
            name: Arc::from("bench"),
            source,
            command: "".into(),
            visible_devices: Arc::from(""),
        });
        Self { ledger, process }
    }

    /// What each device can hand out.
    pub(crate) fn capacities() -> Capacities {
        BOARD
            .capacities(&DeviceOptions::default_of(BOARD))
            .expect("a board can dispatch as it does by default")
    }

    pub(crate) fn define_cores(&mut self, id: CoresId, cores: CoreSet) {
        self.define(&Definition::Cores { id, cores });
    }

    fn define(&mut self, definition: &Definition) {
        self.ledger
            .define(self.process, definition)
            .expect("the definitions of a workload do not contradict each other");
    }

    /// Applies an event of the set-up.
    pub(crate) fn apply(&mut self, content: EventKind) {
        let event = Event {
            time: 1,
            kind: content,
        };
        let applied = self.ledger.tell(self.process, &event);
        applied.expect("the events of a workload do not contradict each other");
    }

    /// Applies some events of a list as a server does, and appends what they changed to `effects`.
    pub(crate) fn apply_batch(
        &mut self,
        events: &Arc<Vec<Event>>,
        range: Range<usize>,
        effects: Option<&mut Vec<Effect>>,
    ) {
        let batch = Batch {
            range,
            ..Batch::whole(self.process, Arc::clone(events))
        };
        let applied = self
            .ledger
            .apply(&Change::Apply(batch), ApplyLimits::NONE, effects);
        assert_eq!(applied.refused, None, "a workload is at fault");
    }

    /// The ledger as it is now.
    pub(crate) fn view(&mut self) -> View {
        self.ledger.view()
    }

    /// Checks that no event was resolved the slow way, as a contradiction.
    pub(crate) fn assert_sound(&mut self) {
        assert_eq!(self.view().anomalies.total(), 0, "a workload is at fault");
    }
}

/// How many banks a buffer takes from.
pub(crate) fn banks(region: &BankedRegion) -> u16 {
    u16::try_from(region.banks).expect("a chip has few banks")
}

fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).expect("the L1 of a core is a few megabytes")
}
