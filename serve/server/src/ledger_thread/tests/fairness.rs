//! How long an honest process waits beside a costly one, in work units.

use super::*;
use crossbeam_channel::Receiver;
use tempfile::TempDir;
use ttmem_event::catalogue::Arch;
use ttmem_event::wire::Clock;
use ttmem_event::{
    BufferId, CoresId, Definition, DeviceDefinition, DeviceId, Direction, Layout, MeshDefinition,
    MeshId, MeshKind, TextId,
};

pub(super) const HOSTILE: ProcessNumber = ProcessNumber(1);
pub(super) const HONEST: ProcessNumber = ProcessNumber(2);
const SESSION: SessionNumber = SessionNumber(9);
pub(super) const MESH: MeshId = MeshId(1);
const DEVICES: u32 = 64;

/// A turn of each of the three classes, what an event may take beyond its own, and the few
/// commands of the honest process itself: far less than what the hostile one has waiting.
const FEW_UNITS: u64 = 1 << 16;

pub(super) struct Tested {
    pub(super) thread: LedgerThread,
    pub(super) handle: LedgerHandle,
    answered: Receiver<Answer>,
    pub(super) log: Log,
    _folder: TempDir,
}

impl Tested {
    /// The thread without a thread: the test does its steps. Both processes have joined.
    fn new() -> Self {
        Self::recorded_by(Vec::new())
    }

    pub(super) fn recorded_by(taps: Vec<Tap>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let target = LogTarget::File(LogFileOptions::new(folder.path().join("log")));
        let options = LogOptions {
            quiet: true,
            ..LogOptions::default()
        };
        let log = Log::start(target, options).unwrap();
        let (answers, answered) = crossbeam_channel::bounded(16);
        let flags = rustix::event::EventfdFlags::empty();
        let config = LedgerThreadConfig {
            devices: Vec::new(),
            log: log.handle(),
            answers,
            wake: Arc::new(rustix::event::eventfd(0, flags).unwrap()),
            uid: 0,
            journal: Journal::default(),
            taps,
        };
        let (handle, queue, publisher) = LedgerHandle::new(Arc::clone(&config.wake));
        let mut tested = Self {
            thread: LedgerThread::new(config, publisher, queue),
            handle,
            answered,
            log,
            _folder: folder,
        };
        for (process, pid) in [(HOSTILE, 1), (HONEST, 2)] {
            let identity = ProcessIdentity {
                pid: Some(pid),
                start_time: None,
                instance: Some([7; 16]),
                uid: 0,
                name: "tested".into(),
                source: Source::Client,
                command: "".into(),
                visible_devices: "".into(),
            };
            let join = Command::Join(process, identity, i64::from(pid));
            let _room = tested.handle.send(Lane::Process(process), join);
            tested.send(process, ProcessCommand::define(definitions(pid)));
        }
        while tested.thread.step().is_some() {}
        tested
    }

    pub(super) fn send(&self, process: ProcessNumber, command: ProcessCommand) {
        let command = Command::Process(process, command);
        let _room = self.handle.send(Lane::Process(process), command);
    }

    pub(super) fn send_events(
        &self,
        process: ProcessNumber,
        kinds: impl IntoIterator<Item = EventKind>,
    ) {
        let events = kinds.into_iter().map(|kind| Event { time: 1, kind });
        let events: Vec<Event> = events.collect();
        self.send(process, ProcessCommand::Events(events.into()));
    }

    /// The honest process reports something and wants to know that it was applied: the units until
    /// it does.
    pub(super) fn units_to_answer(&mut self) -> u64 {
        self.send_events(HONEST, [allocated(1)]);
        let answer = Command::Acknowledge(SESSION, 1);
        let _room = self.handle.send(Lane::Process(HONEST), answer);
        let mut units = 0;
        while self.answered.is_empty() {
            units += self.thread.step().expect("the answer is to come");
        }
        self.answered.try_recv().unwrap();
        units
    }

    pub(super) fn buffers(&self, process: ProcessNumber) -> Option<u64> {
        let known = self
            .thread
            .ledger
            .process(*self.thread.slots.get(&process)?)?;
        let held = known.account.devices.first()?;
        Some(held.totals.class(Class::Dram).buffers)
    }
}

/// So many devices of a process's own, and a mesh of them.
pub(super) fn definitions(pid: u32) -> Vec<Definition> {
    let devices = (0..DEVICES).map(|number| DeviceDefinition {
        id: DeviceId(number),
        logical_id: number,
        unique_id: Some(u64::from(pid * 1000 + number)),
        arch: Arch::Wormhole,
        board: TextId::NONE,
        remote: None,
        grid_columns: 8,
        grid_rows: 8,
        l1_bytes_per_core: 0,
        l1_reserved_bytes: 0,
    });
    let mesh = MeshDefinition {
        id: MESH,
        kind: MeshKind::Mesh,
        handle: 1,
        rows: 1,
        columns: 1,
        devices: (0..DEVICES).map(DeviceId).collect(),
    };
    let mesh = Definition::Mesh(mesh);
    devices.map(Definition::Device).chain([mesh]).collect()
}

pub(super) fn allocated(number: u64) -> EventKind {
    EventKind::BufferAllocated {
        mesh: MESH,
        buffer: BufferId(number),
        class: Class::Dram,
        layout: Layout::Interleaved,
        direction: Direction::BottomUp,
        address: 64 * number,
        requested_bytes: 64,
        per_bank_bytes: 64,
        page_bytes: 64,
        cores: CoresId::NONE,
        operation: TextId::NONE,
        banks: 1,
    }
}

/// What the first process sends to be known anew, with so many buffers.
pub(super) fn whole_state(buffers: u64) -> ProcessCommand {
    let mut account = Account::new(false);
    let limits = ttmem_ledger::AccountLimits::default();
    for definition in definitions(1) {
        account.define(&definition, &limits, &mut ()).unwrap();
    }
    for number in 0..buffers {
        let event = Event {
            time: 1,
            kind: allocated(number),
        };
        account.apply(&event, &limits, &mut ()).unwrap();
    }
    let mut state = Vec::new();
    account.save(&mut state);
    let resync = Resync {
        definitions: definitions(1),
        state,
        clock: Clock::UNIX_NANOS,
        lost_events: 0,
        elided_events: 0,
    };
    let holder = ttmem_ledger::Holder { uid: 0, process: 0 };
    let memory = ResyncMemory { holder, bytes: 0 };
    ProcessCommand::Resync(Arc::new(resync), memory)
}

#[test]
fn an_honest_process_waits_for_a_few_turns_of_a_costly_one() {
    let mut tested = Tested::new();
    for first in 0..100 {
        tested.send_events(
            HOSTILE,
            (0..1000).map(|number| allocated(1000 * first + number)),
        );
    }
    for _report in 0..20 {
        let units = tested.units_to_answer();
        assert!(units <= FEW_UNITS, "{units}");
    }
    assert!(tested.buffers(HOSTILE).unwrap() < 50_000, "it is not done");
    while tested.thread.step().is_some() {}
    assert_eq!(tested.buffers(HOSTILE), Some(100_000));
}

#[test]
fn one_event_that_releases_much_is_done_in_turns() {
    let mut tested = Tested::new();
    tested.send_events(HOSTILE, (0..20_000).map(allocated));
    while tested.thread.step().is_some() {}
    tested.send_events(HOSTILE, [EventKind::MeshClosed { mesh: MESH }]);
    for _report in 0..20 {
        let units = tested.units_to_answer();
        assert!(units <= FEW_UNITS, "{units}");
    }
    let left = tested.buffers(HOSTILE).unwrap();
    assert!((1..20_000).contains(&left), "{left}");
    while tested.thread.step().is_some() {}
    assert_eq!(tested.buffers(HOSTILE), Some(0));
    assert_eq!(tested.thread.ledger.view().audit(), Ok(()));
}

#[test]
fn a_large_process_is_released_in_turns_and_shown_until_it_is() {
    let mut tested = Tested::new();
    tested.send_events(HOSTILE, (0..20_000).map(allocated));
    while tested.thread.step().is_some() {}
    tested.send(HOSTILE, ProcessCommand::depart(Departure::Ended, 1));
    tested.handle.retire(HOSTILE);
    for _report in 0..20 {
        let units = tested.units_to_answer();
        assert!(units <= FEW_UNITS, "{units}");
    }
    assert_eq!(tested.buffers(HOSTILE), Some(20_000));
    while tested.thread.step().is_some() {}
    assert_eq!(tested.buffers(HOSTILE), None);
    assert_eq!(tested.thread.ledger.view().audit(), Ok(()));
}

#[test]
fn the_dead_are_released_before_the_living_are_done() {
    let mut tested = Tested::new();
    for first in 0..100 {
        tested.send_events(
            HOSTILE,
            (0..1000).map(|number| allocated(1000 * first + number)),
        );
    }
    tested.send_events(HONEST, [allocated(1)]);
    tested.send(HONEST, ProcessCommand::depart(Departure::Ended, 1));
    tested.handle.retire(HONEST);
    let mut units = 0;
    while tested.buffers(HONEST).is_some() {
        units += tested.thread.step().unwrap();
    }
    assert!(units <= FEW_UNITS, "{units}");
}

#[test]
fn a_large_state_is_loaded_in_turns_and_the_old_one_is_shown_until_then() {
    let mut tested = Tested::new();
    tested.send_events(HOSTILE, [allocated(1)]);
    tested.send(HOSTILE, whole_state(20_000));
    for _report in 0..20 {
        let units = tested.units_to_answer();
        assert!(units <= FEW_UNITS, "{units}");
    }
    assert_eq!(tested.buffers(HOSTILE), Some(1));
    assert_eq!(tested.thread.ledger.view().audit(), Ok(()));
    while tested.thread.step().is_some() {}
    assert_eq!(tested.buffers(HOSTILE), Some(20_000));
    assert_eq!(tested.thread.ledger.view().audit(), Ok(()));
}

#[test]
fn it_stops_after_a_bounded_number_of_units() {
    let mut tested = Tested::new();
    // Many times what is done before it stops.
    let marks = (0..1000).map(|number| EventKind::Marked {
        name: TextId::NONE,
        number,
    });
    for _batch in 0..1000 {
        tested.send_events(HOSTILE, marks.clone());
    }
    tested.send_events(HONEST, [allocated(1)]);
    tested.handle.stop();
    tested.thread.serve();
    let (left, processes) = tested.thread.queue.left_over();
    assert!((500_000..1_000_000).contains(&left), "{left}");
    assert_eq!(processes, 1, "the honest one had its turn");
    assert_eq!(tested.buffers(HONEST), Some(1));
    let more = tested
        .handle
        .send(Lane::Control, Command::Print(DumpKind::Summary));
    assert_eq!(more, Pushed::Ended);
}

#[test]
fn a_full_lane_is_its_own_and_resumes() {
    let mut tested = Tested::new();
    let events: Vec<Event> = (0..20_000)
        .map(|number| Event {
            time: 1,
            kind: allocated(number),
        })
        .collect();
    let reports = Command::Process(HOSTILE, ProcessCommand::Events(events.into()));
    let pushed = tested.handle.send(Lane::Process(HOSTILE), reports);
    assert_eq!(pushed, Pushed::Full);
    assert_eq!(tested.handle.room(Lane::Process(HOSTILE)), 0);
    assert!(tested.handle.room(Lane::Process(HONEST)) > 0);
    tested.units_to_answer();
    assert!(tested.handle.take_feedback().resumed.is_empty());
    while tested.thread.step().is_some() {}
    let resumed = tested.handle.take_feedback().resumed;
    assert_eq!(resumed, [Lane::Process(HOSTILE)]);
}
