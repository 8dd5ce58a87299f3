//! Sessions of several processes that come, work, contradict themselves, resync and die.

use std::sync::Arc;
use ttmem_account::{Account, Limits as AccountLimits};
use ttmem_event::catalogue::Arch;
use ttmem_event::event::EVENT_BYTES;
use ttmem_event::event::kinds::LAYOUT;
use ttmem_event::event::layout::FieldLayout;
use ttmem_event::wire::Clock;
use ttmem_event::{
    Class, CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, Event, EventKind,
    MeshDefinition, MeshId, MeshKind, Source, TextId,
};
use ttmem_ledger::{
    Anomaly, ApplyLimits, Batch, Change, Departure, DeviceFacts, IncompleteReason, Labels, Ledger,
    ProcessIdentity, ProcessState, Resync,
};

/// Numbers that look random and are the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count.max(1)
    }

    fn small(&mut self, count: u64) -> u32 {
        u32::try_from(self.below(count)).expect("a small number")
    }
}

/// An input with the time at which it was applied.
pub(crate) type Timed = (u64, Change);

/// A session under way, with the ledger that it leads to.
#[derive(Debug)]
struct Session {
    random: Random,
    ledger: Ledger,
    inputs: Vec<Timed>,
    live: Vec<(u32, Source)>,
    now: u64,
    joined: u32,
}

/// So many inputs, and some that belong to them. Every event and every input has a later time than
/// the one before.
pub(crate) fn session(seed: u64, count: usize) -> Vec<Timed> {
    let mut session = Session {
        random: Random::new(seed),
        ledger: Ledger::default(),
        inputs: Vec::new(),
        live: Vec::new(),
        now: 1_000_000,
        joined: 0,
    };
    session.push(Change::ConfigureDevice(Box::new(DeviceFacts {
        logical_id: 7,
        unique_id: Some(1),
        board: Some("n150".into()),
        ..DeviceFacts::default()
    })));
    while session.inputs.len() < count {
        session.go_on();
    }
    session.inputs
}

impl Session {
    fn push(&mut self, input: Change) {
        self.now += 1 + self.random.below(50);
        self.ledger.apply(&input, ApplyLimits::NONE, None);
        self.inputs.push((self.now, input));
    }

    fn go_on(&mut self) {
        if self.live.is_empty() || (self.live.len() < 5 && self.random.below(8) == 0) {
            return self.join();
        }
        let which = self.random.below(self.live.len() as u64);
        let which = usize::try_from(which).expect("a place in a list");
        let (process, source) = self.live[which];
        match self.random.below(30) {
            0 => self.push(Change::SetState {
                process,
                state: ProcessState::Detached,
                connections: 0,
            }),
            1 => self.push(Change::SetState {
                process,
                state: ProcessState::Live,
                connections: 2,
            }),
            2 => self.push(Change::Refuse {
                process,
                anomaly: Anomaly::Malformed,
                count: 3,
            }),
            3 => self.push(Change::MarkIncomplete {
                process,
                reason: IncompleteReason::Stalled,
                count: 1,
            }),
            4 => {
                let (time, number) = (self.now, self.random.below(9));
                self.push(Change::SetMark {
                    user: [0, 1000][which % 2],
                    time,
                    name: "step".into(),
                    number,
                });
            }
            5 if source != Source::Legacy => self.resync(process),
            6 => {
                self.live.remove(which);
                let departure =
                    [Departure::Ended, Departure::Exited, Departure::Forgotten][which % 3];
                let time = self.now;
                self.push(Change::Depart {
                    process,
                    departure,
                    time,
                });
            }
            7 if source != Source::Legacy => self.close_slowly(process),
            8 => {
                let definitions = vec![text(
                    2 + self.random.small(6),
                    "another\nmodel.py:3 forward",
                )];
                self.push(Change::Define {
                    process,
                    definitions: Arc::new(definitions),
                });
            }
            _mostly => self.report(process, source),
        }
    }

    fn join(&mut self) {
        self.joined += 1;
        let source = if self.joined.is_multiple_of(4) {
            Source::Legacy
        } else {
            Source::Attached
        };
        let slot = self.ledger.view().processes.len();
        let identity = ProcessIdentity {
            pid: Some(100 + self.joined),
            start_time: Some(5),
            instance: Some([u8::try_from(self.joined % 200).expect("small"); 16]),
            uid: [0, 1000, 1001][slot % 3],
            name: format!("model-{}", self.joined).into(),
            command: "python train.py --secret".into(),
            source,
            visible_devices: ["", "0,1"][slot % 2].into(),
        };
        let before: Vec<bool> = (0..64)
            .map(|slot| self.ledger.process(slot).is_some())
            .collect();
        self.push(Change::Join {
            identity,
            claimed_pid: -1,
        });
        let process =
            (0..64).find(|slot| self.ledger.process(*slot).is_some() && !before[*slot as usize]);
        let process = process.expect("it joined");
        self.live.push((process, source));
        if source == Source::Attached {
            let job = format!("lab-{}", self.joined);
            let labels = Labels::new([("job", &*job), ("team_of_two", "vision")]);
            self.push(Change::SetLabels { process, labels });
            self.push(Change::Define {
                process,
                definitions: Arc::new(definitions()),
            });
        }
    }

    /// A batch of events, of which only a part is applied at a time now and then.
    fn report(&mut self, process: u32, source: Source) {
        let count = 1 + self.random.below(24);
        let events: Vec<Event> = (0..count).map(|_event| self.event(source)).collect();
        let (events, recovered) = (Arc::new(events), self.random.below(9) == 0);
        let middle = usize::try_from(self.random.below(count)).expect("small");
        for range in [0..middle, middle..events.len()] {
            self.push(Change::Apply(Batch {
                process,
                recovered,
                events: Arc::clone(&events),
                range,
            }));
        }
    }

    fn event(&mut self, source: Source) -> Event {
        self.now += 1 + self.random.below(20);
        let kind = any_event(&mut self.random, source == Source::Legacy);
        Event {
            time: self.now,
            kind,
        }
    }

    /// A mesh is closed in several turns, and another process goes on between them.
    fn close_slowly(&mut self, process: u32) {
        self.now += 1;
        let event = Event {
            time: self.now,
            kind: EventKind::MeshClosed { mesh: MeshId(0) },
        };
        let mut probe = Vec::new();
        self.ledger.save(&mut probe);
        let mut probe = Ledger::load(&probe, ttmem_ledger::Limits::default()).expect("just saved");
        // Only what does not end at once is a part.
        let part = Change::ApplyEvent {
            process,
            event,
            work: 1,
        };
        let probed = probe.apply(&part, ApplyLimits::NONE, None);
        if probed.rest.is_some() {
            self.push(part);
            let others: Vec<_> = self.live.clone();
            for (other, source) in others
                .into_iter()
                .filter(|(other, _source)| *other != process)
            {
                self.report(other, source);
            }
        }
        self.push(Change::Apply(Batch::whole(process, Arc::new(vec![event]))));
    }

    fn resync(&mut self, process: u32) {
        self.push(Change::BeginResync { process });
        let (definitions, limits) = (definitions(), AccountLimits::default());
        let mut account = Account::new(false);
        for definition in &definitions {
            account.define(definition, &limits, &mut ()).expect("sound");
        }
        for _event in 0..self.random.below(40) {
            let event = self.event(Source::Attached);
            let _refused = account.apply(&event, &limits, &mut ());
        }
        let mut state = Vec::new();
        account.save(&mut state);
        let resync = Resync {
            definitions,
            state,
            clock: Clock::UNIX_NANOS,
            lost_events: self.random.below(3),
            elided_events: 0,
        };
        self.push(Change::Resync {
            process,
            resync: Arc::new(resync),
        });
    }
}

fn text(id: u32, text: &str) -> Definition {
    Definition::Text {
        id: TextId(id),
        text: text.to_owned(),
    }
}

/// Two chips, a mesh of both and one of the first.
fn definitions() -> Vec<Definition> {
    let device = |id: u32| {
        Definition::Device(DeviceDefinition {
            id: DeviceId(id),
            logical_id: id,
            unique_id: (id == 1).then_some(1),
            arch: Arch::Wormhole,
            board: TextId(1),
            remote: Some(false),
            grid_columns: 4,
            grid_rows: 3,
            l1_bytes_per_core: 4096,
            l1_reserved_bytes: 256,
        })
    };
    let mesh = |id: u32, devices: &[u32]| {
        Definition::Mesh(MeshDefinition {
            id: MeshId(id),
            kind: MeshKind::Mesh,
            handle: id.into(),
            rows: 1,
            columns: 1,
            devices: devices.iter().map(|id| DeviceId(*id)).collect(),
        })
    };
    let cores = |id: u32, cores| Definition::Cores {
        id: CoresId(id),
        cores,
    };
    vec![
        text(1, "n300"),
        text(2, "matmul\n/home/somebody/model.py:12 forward"),
        cores(1, CoreSet::grid(4, 3)),
        cores(2, CoreSet::grid(2, 2)),
        device(0),
        device(1),
        mesh(0, &[0, 1]),
        mesh(1, &[0]),
    ]
}

/// An event of any kind, with values of which most meet something that is there.
fn any_event(random: &mut Random, old: bool) -> EventKind {
    loop {
        let rows: Vec<_> = LAYOUT
            .iter()
            .filter(|row| (row.kind >= 64) == old)
            .collect();
        // Half of all are the first kinds: buffers and storage.
        let count = rows.len() as u64;
        let pick = if random.below(2) == 0 {
            random.below(4)
        } else {
            random.below(count)
        };
        let row = rows[usize::try_from(pick.min(count - 1)).expect("a place in a list")];
        let mut record = [0; EVENT_BYTES];
        record[0] = row.kind;
        for field in row.fields {
            let value = value(field, random).to_le_bytes();
            record[field.offset..][..field.width].copy_from_slice(&value[..field.width]);
        }
        if let Ok(event) = Event::decode(&record) {
            return event.kind;
        }
    }
}

fn value(field: &FieldLayout, random: &mut Random) -> u64 {
    let sizes = [64, 128, 100, 32, 256, 1, 0, 1 << 20, u64::MAX];
    match field.type_name {
        "bool" | "TraceId" | "u8" => random.below(2),
        "Class" => random.below(Class::COUNT as u64),
        "MeshId" => random.below(3),
        "CoresId" | "TextId" | "KernelId" => random.below(4),
        "DeviceId" | "ProgramId" => random.below(5),
        "BufferId" => random.below(30),
        "i32" => random.below(3),
        "u16" => 1 + random.below(4),
        "u64" => sizes[usize::try_from(random.below(9)).expect("small")],
        "u32" => random.below(2000),
        _words => random.below(3),
    }
}
