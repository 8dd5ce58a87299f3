//! What the model reports, booked in a real ledger and read from there.
//!
//! An event that the ledger refuses fails the test; every reading audits all totals.

use ttmem_event::{CbKind, Class, CoreType, Event, EventKind, KernelKind, MeshId, Source};
use ttmem_ledger::Allocator;
use ttmem_ledger::CacheCounters;
use ttmem_ledger::config_ring::{ConfigRing, Prefetcher};
use ttmem_ledger::geometry::DeviceGeometry;
use ttmem_ledger::program::{Program, ProgramOnDevice};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{
    AccountFacts, BufferRow, Device, Ledger, Limits, ProcessIdentity, Totals, View,
};
use ttmem_model::hooks::{Entry, Hooks, Journal};
use ttmem_model::runtime::{Runtime, RuntimeOptions};

/// A ledger that follows a journal.
#[derive(Debug)]
pub(crate) struct Account {
    journal: Journal,
    ledger: Ledger,
    process: u32,
    now: u64,
    /// What the rings of closed meshes had counted: wraps and stalls.
    closed_rings: (u64, u64),
}

impl Account {
    pub(crate) fn new() -> Self {
        let mut ledger = Ledger::new(Limits::default());
        let process = ledger.join(ProcessIdentity {
            pid: None,
            start_time: None,
            instance: None,
            uid: 1000,
            name: "model".into(),
            source: Source::Model,
            command: "".into(),
            visible_devices: "".into(),
        });
        Self {
            journal: Journal::new(),
            ledger,
            process,
            now: 0,
            closed_rings: (0, 0),
        }
    }

    /// A runtime that reports to this account.
    pub(crate) fn runtime(&self, options: RuntimeOptions) -> Runtime {
        Runtime::new(self.hooks(), options).expect("the options are possible")
    }

    pub(crate) fn hooks(&self) -> Box<dyn Hooks> {
        Box::new(self.journal.clone())
    }

    /// Books what was reported since the last reading; the events themselves.
    pub(crate) fn news(&mut self) -> Vec<EventKind> {
        let mut events = Vec::new();
        for entry in self.journal.news() {
            match entry {
                Entry::Defined(definition) => {
                    let outcome = self.ledger.define(self.process, &definition);
                    assert_eq!(outcome, Ok(()), "{definition:?}");
                }
                Entry::Happened(content) => {
                    match content {
                        EventKind::MeshClosed { mesh }
                        // The first of a new division.
                        | EventKind::ConfigRingOpened {
                            mesh,
                            sub_device: 0,
                            core_type: CoreType::Tensix,
                            ..
                        } => self.keep_rings_of(mesh),
                        _other => {}
                    }
                    self.book(content);
                    events.push(content);
                }
            }
        }
        events
    }

    /// Rings go with their mesh: what they counted is written down before.
    fn keep_rings_of(&mut self, mesh: MeshId) {
        let process = self.ledger.process(self.process);
        let facts = process.expect("the model is a process").account;
        let slot = facts.meshes.iter().position(|each| each.id == Some(mesh));
        for ((of, _sub_device, _core_type), ring) in &facts.config_rings {
            if usize::try_from(*of).ok() == slot {
                self.closed_rings.0 += ring.wraps;
                self.closed_rings.1 += ring.stalls;
            }
        }
    }

    /// Wraps and stalls of all rings that were ever there.
    pub(crate) fn wraps_and_stalls(&mut self) -> (u64, u64) {
        let facts = self.facts();
        let rings = || facts.config_rings.values();
        let open = |figure: fn(&ConfigRing) -> u64| rings().map(|ring| figure(ring)).sum::<u64>();
        let (wraps, stalls) = self.closed_rings;
        (
            wraps + open(|ring| ring.wraps),
            stalls + open(|ring| ring.stalls),
        )
    }

    /// Everything that was reported so far.
    pub(crate) fn events(&self) -> Vec<EventKind> {
        self.journal.events()
    }

    fn book(&mut self, content: EventKind) {
        self.now += 1;
        let event = Event {
            time: self.now,
            kind: content,
        };
        let outcome = self.ledger.tell(self.process, &event);
        assert_eq!(outcome, Ok(()), "{content:?}");
    }

    /// Books an event once more, as a runtime that reports in two places would.
    pub(crate) fn repeat(&mut self, content: EventKind) {
        self.news();
        self.book(content);
    }

    /// The ledger at this moment, audited.
    pub(crate) fn view(&mut self) -> View {
        self.news();
        let view = self.ledger.view();
        assert_eq!(view.audit(), Ok(()));
        view
    }

    /// A device by the runtime's number of its chip.
    pub(crate) fn device(&mut self, chip: u32) -> Device {
        let view = self.view();
        let mut devices = view.devices.iter();
        let found = devices.find(|device| device.facts.logical_id == chip);
        found.expect("the chip was opened").clone()
    }

    pub(crate) fn totals(&mut self, chip: u32) -> Totals {
        self.device(chip).totals
    }

    pub(crate) fn charged(&mut self, chip: u32, class: Class) -> u64 {
        self.totals(chip).class(class).charged.bytes()
    }

    pub(crate) fn cb_bytes(&mut self, chip: u32) -> u64 {
        self.totals(chip).cb.registered.bytes()
    }

    pub(crate) fn cb_bytes_of(&mut self, chip: u32, kind: CbKind) -> u64 {
        self.totals(chip).cb.by_kind[kind as usize]
    }

    pub(crate) fn kernel_bytes(&mut self, chip: u32) -> u64 {
        self.totals(chip).kernel.registered.bytes()
    }

    pub(crate) fn kernel_bytes_of(&mut self, chip: u32, kind: KernelKind) -> u64 {
        self.totals(chip).kernel.by_kind[kind as usize]
    }

    pub(crate) fn geometry(&mut self, chip: u32) -> DeviceGeometry {
        let view = self.view();
        let place = view
            .devices
            .iter()
            .position(|device| device.facts.logical_id == chip);
        view.geometry().devices[place.expect("the chip was opened")]
    }

    pub(crate) fn facts(&mut self) -> AccountFacts {
        let view = self.view();
        let process = view.process(self.process);
        process.expect("the model is a process").account.clone()
    }

    /// The config ring of a kind of core, of the mesh that has one and was opened last.
    pub(crate) fn ring(&mut self, core_type: CoreType) -> ConfigRing {
        let rings = self.facts().config_rings;
        let last = rings
            .into_iter()
            .rfind(|((_mesh, sub_device, kind), _ring)| *sub_device == 0 && *kind == core_type);
        let (_key, ring) = last.expect("the mesh dispatches by itself");
        (*ring).clone()
    }

    pub(crate) fn prefetcher(&mut self) -> Prefetcher {
        let last = self.facts().prefetchers.into_iter().next_back();
        let (_mesh, cache) = last.expect("the mesh dispatches by itself");
        (*cache).clone()
    }

    /// Live programs of that name, oldest first.
    pub(crate) fn programs(&mut self, name: &str) -> Vec<Program> {
        let view = self.view();
        let process = view.process(self.process);
        let process = process.expect("the model is a process");
        let texts = &process.account.definitions;
        let named =
            |program: &&Program| texts.text(program.name).is_some_and(|text| &**text == name);
        let mut programs: Vec<Program> = process
            .rows
            .programs
            .iter()
            .map(|(_slot, program)| program)
            .filter(named)
            .cloned()
            .collect();
        programs.sort_by_key(|program| program.id);
        programs
    }

    /// What the only live program of that name has on a chip.
    pub(crate) fn on_device(&mut self, name: &str, chip: u32) -> ProgramOnDevice {
        let view = self.view();
        let place = view
            .devices
            .iter()
            .position(|device| device.facts.logical_id == chip);
        let device = u32::try_from(place.expect("the chip was opened")).expect("a few");
        let process = view.process(self.process);
        let slot = process.and_then(|process| process.device_slot(device));
        let programs = self.programs(name);
        assert_eq!(programs.len(), 1, "programs of that name");
        let on = slot.and_then(|slot| programs[0].on_device(slot));
        on.expect("the program is on the chip").clone()
    }

    /// Live buffers, oldest first.
    pub(crate) fn buffers(&mut self) -> Vec<BufferRow> {
        let view = self.view();
        let process = view.process(self.process);
        let process = process.expect("the model is a process");
        let rows = process.rows.buffers.iter().map(|(_slot, row)| *row);
        let mut rows: Vec<BufferRow> = rows.collect();
        rows.sort_by_key(|row| row.id);
        rows
    }

    pub(crate) fn caches(&mut self, chip: u32) -> CacheCounters {
        self.device(chip).caches
    }

    /// The account of one class of the mesh that was defined last and has an allocator of it.
    pub(crate) fn allocator(&mut self, class: Class) -> Allocator {
        let allocators = self.facts().meshes.into_iter().rev();
        let mut of_class = allocators.map(|mesh| mesh.allocators[class.index()]);
        let known = of_class.find(|allocator| allocator.capacity.is_some());
        known.expect("a mesh was opened")
    }

    /// Nothing is live on any device, and nothing contradicted itself.
    pub(crate) fn assert_nothing_left(&mut self) {
        let view = self.view();
        assert_eq!(view.anomalies.total(), 0);
        for device in &view.devices {
            let totals = &device.totals;
            for class in Class::ALL {
                let held = totals.class(*class);
                assert_eq!((held.charged.bytes(), held.buffers), (0, 0), "{class:?}");
            }
            assert_eq!((totals.cb.registered.bytes(), totals.cb.count), (0, 0));
            assert_eq!(
                (totals.kernel.registered.bytes(), totals.kernel.count),
                (0, 0)
            );
        }
    }
}
