//! The read API as its clients see it: a ledger behind a socket, and `ApiClient` before it.

mod devices;
mod documents;
mod hostility;
mod leaks;
mod machine;
mod maps;
mod metrics;
mod moments;
mod openapi;
mod page;
mod paging;
mod privacy;
mod python;
mod recordings;
mod selections;
mod stalls;
mod streams;
mod tcp;

use super::{
    DeviceSeries, GeometryCache, HttpLimits, HttpThread, Live, NamePolicy, ReadState, ServerFacts,
    refuse,
};
use crate::history::Histories;
use crate::journal::{Batch, Journal};
use crate::ledger_thread::{Command, ForgetError, LedgerHandle};
use crate::machine::MachineFigures;
use crate::recorder::StreamedRecordings;
use crate::stream::Streams;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use tempfile::TempDir;
use ttmem_event::catalogue::{Arch, BankedRegion, BoardKind, Capacities, DeviceOptions};
use ttmem_event::{
    BufferId, Class, CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, Direction, Event,
    EventKind, Layout, MeshDefinition, MeshId, MeshKind, Source, TextId,
};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Audience, Change, Departure, Holder, Ledger, Limits, ProcessIdentity};
use ttmem_reader::ApiClient;
use ttmem_report::Timestamp;

/// 2026-11-15 08:25:03 UTC.
const NOW: u64 = 1_794_731_103_000_000_000;

/// The user at the other end of every connection.
const UID: u32 = 1000;
/// Everybody is shown everything, but where a test is about that.
const NAMES: NamePolicy = NamePolicy {
    server_uid: UID,
    over_tcp: true,
};
const READER: Holder = Holder {
    uid: UID,
    process: 1,
};

/// A mesh of devices 0 and 1, and one of each alone.
const BOTH: MeshId = MeshId(10);
const FIRST: MeshId = MeshId(20);

fn facts() -> ServerFacts {
    ServerFacts {
        time: Timestamp::from_unix_nanos(NOW),
        host: "host".to_owned(),
        server: ttmem_report::Server {
            pid: 7,
            version: "0.1.0".to_owned(),
            started: Timestamp::from_unix_nanos(NOW - 90_500_000_000),
            uptime_seconds: 0,
            sockets: vec!["/run/ttmem/ttmem.sock".to_owned()],
            clients: 2,
            clients_limit: Some(4096),
            clients_refused: 1,
            events_applied: 0,
            events_lost: 0,
            events_elided: 0,
            log_lines_elided: 3,
        },
        errors: vec!["the log is full".to_owned()],
    }
}

fn identity(pid: Option<u32>, source: Source) -> ProcessIdentity {
    ProcessIdentity {
        pid,
        start_time: Some(NOW - 60_000_000_000),
        instance: (source != Source::Legacy).then_some([0xab; 16]),
        uid: UID,
        name: "python".into(),
        source,
        command: "".into(),
        visible_devices: "".into(),
    }
}

/// What an n150 can hand out with a small region and a trace region.
fn n150() -> Capacities {
    let options = DeviceOptions {
        l1_small_size: 32_768,
        trace_region_size: 12 << 20,
        ..DeviceOptions::default_of(BoardKind::N150)
    };
    BoardKind::N150.capacities(&options).unwrap()
}

fn apply(ledger: &mut Ledger, process: u32, time: u64, content: EventKind) {
    let event = Event {
        time,
        kind: content,
    };
    ledger.tell(process, &event).unwrap();
}

/// A process that opened two n150 and a mesh over both.
fn joined(ledger: &mut Ledger, pid: u32) -> u32 {
    let process = ledger.join(identity(Some(pid), Source::Client));
    let define = |ledger: &mut Ledger, definition: Definition| {
        ledger.define(process, &definition).unwrap();
    };
    for (id, text) in [(1, "n150"), (2, "ttnn::add"), (3, "reader.cpp")] {
        let id = TextId(id);
        let text = text.to_owned();
        define(ledger, Definition::Text { id, text });
    }
    let cores = CoreSet::grid(4, 4);
    let id = CoresId(1);
    define(ledger, Definition::Cores { id, cores });
    for device in 0..2 {
        let definition = DeviceDefinition {
            id: DeviceId(device + 1),
            logical_id: device,
            unique_id: Some(0xfeed_0000 + u64::from(device)),
            arch: Arch::Wormhole,
            board: TextId(1),
            remote: Some(false),
            grid_columns: 8,
            grid_rows: 8,
            l1_bytes_per_core: u32::try_from(n150().l1_bytes_per_core).unwrap(),
            l1_reserved_bytes: u32::try_from(n150().l1_reserved_bytes_per_core).unwrap(),
        };
        define(ledger, Definition::Device(definition));
    }
    for (id, devices) in [
        (BOTH, vec![DeviceId(1), DeviceId(2)]),
        (FIRST, vec![DeviceId(1)]),
    ] {
        define(
            ledger,
            Definition::Mesh(MeshDefinition {
                id,
                kind: MeshKind::Mesh,
                handle: 1,
                rows: 1,
                columns: u16::try_from(devices.len()).unwrap(),
                devices,
            }),
        );
    }
    let capacities = n150();
    for (class, region) in [
        (Class::Dram, capacities.dram),
        (Class::L1, capacities.l1),
        (Class::L1Small, capacities.l1_small),
        (Class::Trace, capacities.trace),
    ] {
        apply(ledger, process, 1, capacity(BOTH, class, region));
    }
    process
}

fn capacity(mesh: MeshId, class: Class, region: BankedRegion) -> EventKind {
    EventKind::CapacityReported {
        mesh,
        class,
        banks: u16::try_from(region.banks).unwrap(),
        base: region.base,
        per_bank_bytes: region.bytes_per_bank,
        alignment: 32,
    }
}

fn allocated(buffer: u64, class: Class, address: u64, per_bank_bytes: u64) -> EventKind {
    EventKind::BufferAllocated {
        mesh: BOTH,
        buffer: BufferId(buffer),
        class,
        layout: Layout::Interleaved,
        direction: Direction::BottomUp,
        address,
        requested_bytes: 1000,
        per_bank_bytes,
        page_bytes: 2048,
        cores: CoresId::NONE,
        operation: TextId(2),
        banks: 12,
    }
}

/// A ledger that answers on a socket for as long as the test runs.
struct Served {
    _directory: TempDir,
    path: PathBuf,
}

impl Served {
    fn new(ledger: Ledger) -> Self {
        Self::with(ledger, HttpLimits::SOCKET, facts)
    }

    fn with(
        ledger: Ledger,
        limits: HttpLimits,
        facts: impl Fn() -> ServerFacts + Send + Sync + 'static,
    ) -> Self {
        Self::from(state(ledger_thread(ledger), facts), limits)
    }

    fn from(state: ReadState, limits: HttpLimits) -> Self {
        Self::by(HttpThread::start(state, limits, None).unwrap())
    }

    /// By a thread that the test started.
    fn by(http: HttpThread) -> Self {
        Self::by_for(http, UID)
    }

    /// To readers of this user.
    fn to(state: ReadState, limits: HttpLimits, uid: u32) -> Self {
        Self::by_for(HttpThread::start(state, limits, None).unwrap(), uid)
    }

    fn by_for(http: HttpThread, uid: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            // Each is a process of its own: what one may have is for other tests.
            for (process, stream) in (0..).zip(listener.incoming()) {
                let reader = Holder { uid, process };
                if let Err(stream) = http.serve(stream.unwrap(), reader) {
                    refuse(stream);
                }
            }
        });
        Self {
            _directory: directory,
            path,
        }
    }

    fn client(&self) -> ApiClient {
        ApiClient::new(&self.path)
    }
}

/// What readers are told of a ledger without a history.
fn state(
    ledger: LedgerHandle,
    facts: impl Fn() -> ServerFacts + Send + Sync + 'static,
) -> ReadState {
    ReadState {
        live: Some(Live {
            recordings: StreamedRecordings::new(ledger.clone()),
            ledger,
            histories: Histories::default(),
            journal: Journal::default(),
            machine: MachineFigures::default(),
        }),
        recorded: None,
        facts: Arc::new(facts),
        geometry: GeometryCache::default(),
        series: DeviceSeries::default(),
        names: NAMES,
    }
}

/// Answers what readers ask of the ledger thread.
fn ledger_thread(ledger: Ledger) -> LedgerHandle {
    ledger_thread_of(&Arc::new(Mutex::new(ledger)))
}

/// Nobody is woken by what a test sends.
fn wake() -> Arc<OwnedFd> {
    let flags = rustix::event::EventfdFlags::empty();
    Arc::new(rustix::event::eventfd(0, flags).unwrap())
}

/// The same for a ledger that the test goes on with.
fn ledger_thread_of(ledger: &Arc<Mutex<Ledger>>) -> LedgerHandle {
    let ledger = Arc::clone(ledger);
    let (handle, queue, mut publisher) = LedgerHandle::new(wake());
    thread::spawn(move || {
        loop {
            let Some((command, _budget)) = queue.next() else {
                publisher.answer_waiting(&mut ledger.lock().unwrap());
                queue.wait();
                continue;
            };
            let mut ledger = ledger.lock().unwrap();
            match command {
                Command::Pass(reply) => {
                    if let Some(reply) = Arc::into_inner(reply) {
                        reply.send(()).unwrap();
                    }
                }
                Command::Forget {
                    pid,
                    uid,
                    time,
                    reply,
                } => reply.send(forget(&mut ledger, pid, uid, time)).unwrap(),
                Command::Mark {
                    uid,
                    name,
                    time,
                    reply,
                } => {
                    ledger.make(Change::SetMark {
                        user: uid,
                        time,
                        name,
                        number: 1,
                    });
                    reply.send(1).unwrap();
                }
                other => panic!("readers do not ask {other:?}"),
            }
            queue.done(0, None);
            publisher.answer_waiting(&mut ledger);
        }
    });
    handle
}

fn forget(
    ledger: &mut Ledger,
    pid: u32,
    uid: u32,
    time: u64,
) -> Result<Vec<ttmem_ledger::Released>, ForgetError> {
    let view = ledger.view();
    let found = |process: &&ttmem_ledger::ProcessView| process.facts.identity.pid == Some(pid);
    let process = view.processes.iter().find(found);
    let process = process.ok_or(ForgetError::Unknown(pid))?;
    if process.facts.identity.uid != uid {
        return Err(ForgetError::NotAllowed(pid));
    }
    let exit = ledger.depart(process.index, Departure::Forgotten, time);
    Ok(exit.map(|exit| exit.released).into_iter().collect())
}

fn empty_ledger() -> Ledger {
    Ledger::new(Limits::default())
}
