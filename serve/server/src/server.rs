//! The configuration of a server, its start and its shutdown.

use crate::freed_memory;
use crate::hardware::{devices_of_board, devices_of_chips};
use crate::history::{Histories, Sampler};
use crate::ingest::{Ingest, IngestConfig, Traffic};
use crate::journal::Journal;
use crate::ledger_thread::{self, LedgerHandle, LedgerThreadConfig};
use crate::listeners::{ListenError, Listeners, host_name, idle_server, system, wake_up};
use crate::log::{Log, LogHandle, LogOptions, LogTarget, Note, StartLogError};
use crate::machine::{Looker, MachineFigures, first_look};
use crate::read::{DeviceSeries, GeometryCache, HttpConfig, Live, ReadState, ServerFacts};
use crate::recorded::Recorded;
use crate::recorder::{
    OpenRecordingError, PreparedRecorder, RecordConfig, Recorder, RecordingState,
    StreamedRecordings,
};
use crate::socket::{BoundSocket, EnsureRuntimeDirError, SocketConfig};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::SystemTime;
use ttmem_event::catalogue::BoardKind;
use ttmem_event::legacy::BufferTypeNumbering;
use ttmem_machine::Roots;
use ttmem_report::{RecordingSource, Timestamp};

#[derive(Debug, thiserror::Error)]
pub enum StartServerError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    RuntimeDir(#[from] EnsureRuntimeDirError),
    #[error(transparent)]
    Log(#[from] StartLogError),
    #[error(transparent)]
    Record(#[from] OpenRecordingError),
}

#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Where events go; errors always go to stderr.
    pub target: LogTarget,
    pub options: LogOptions,
}

#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Its sockets; each serves old clients, new clients and readers.
    pub sockets: Vec<SocketConfig>,
    /// Where readers are also served over TCP; `None` = nowhere.
    pub http: Option<HttpConfig>,
    /// The board in the machine; `None` = ask the machine.
    pub board: Option<BoardKind>,
    /// Where the machine's own files are looked at; `None` = nowhere, for devices that are made up.
    pub machine: Option<Roots>,
    pub log: LogConfig,
    pub max_clients: usize,
    pub buffer_types: BufferTypeNumbering,
    /// Where everything is recorded to; `None` = nowhere.
    pub record: Option<RecordConfig>,
}

/// A server whose sockets are bound and whose threads run.
#[derive(Debug)]
pub struct Server {
    ingest: Ingest,
    handle: ServerHandle,
    sockets: Vec<BoundSocket>,
    ledger_thread: JoinHandle<()>,
    sampler: Sampler,
    looker: Option<Looker>,
    recorder: Option<Recorder>,
    recordings: StreamedRecordings,
    log: Log,
}

/// A way to reach a running server from the same process.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    traffic: Arc<Traffic>,
    wake: Arc<OwnedFd>,
    ledger: LedgerHandle,
    recording: Option<RecordingState>,
}

impl ServerHandle {
    /// The files that are recorded to, oldest first, with everything so far in them.
    #[must_use]
    pub fn recorded_files(&self) -> Vec<PathBuf> {
        let recording = self.recording.as_ref();
        recording.map_or_else(Vec::new, |recording| recording.files().flushed_files())
    }

    /// Why the recording has ended before the server, if it has.
    #[must_use]
    pub fn recording_failure(&self) -> Option<String> {
        self.recording.as_ref()?.failure()
    }

    pub fn stop(&self) {
        self.traffic.stop.store(true, Ordering::Release);
        // A failure means that it has ended already.
        let _ended = rustix::io::write(self.wake.as_ref(), &1_u64.to_ne_bytes());
    }
}

/// Whether the server reacts to signals of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    /// INT and TERM end it, HUP reopens the log, USR1 prints a summary.
    Handle,
    /// Somebody else in the process does.
    Ignore,
}

impl Server {
    /// Binds the sockets and starts the threads.
    pub fn start(config: ServerConfig, signals: Signals) -> Result<Self, StartServerError> {
        freed_memory::share_one_heap_under_limits();
        // Before any thread: they inherit the mask, so that only the descriptor gets them.
        let signals = match signals {
            Signals::Handle => Some(catch_signals().map_err(system("signals"))?),
            Signals::Ignore => None,
        };
        raise_descriptor_limit();
        let listening = Listeners::bind(&config.sockets, config.http.clone())?;
        let listeners = listening.sockets.iter();
        let listeners: io::Result<_> = listeners.map(BoundSocket::try_clone_listener).collect();
        let listeners = listeners.map_err(system("the sockets"))?;

        let recording = config.record.as_ref().map(PreparedRecorder::open);
        let (prepared, tap) = recording.transpose()?.unzip();
        let log = Log::start(config.log.target.clone(), config.log.options)?;
        let machine = MachineFigures::default();
        let found = config
            .machine
            .as_ref()
            .map(|roots| first_look(roots, &machine));
        let (watch, chips) = found.unzip();
        let devices = match config.board {
            Some(board) => devices_of_board(board),
            None => devices_of_chips(&chips.unwrap_or_default()),
        };
        let wake = wake_up()?;
        #[expect(
            clippy::disallowed_methods,
            reason = "sessions are not read while several of their answers are outstanding"
        )]
        let (answers, answered) = crossbeam_channel::unbounded();
        let noted_devices = devices
            .iter()
            .map(|device| (&device.facts).into())
            .collect();
        let journal = Journal::default();
        let (ledger, ledger_thread) = ledger_thread::start(LedgerThreadConfig {
            devices,
            log: log.handle(),
            answers,
            wake: Arc::clone(&wake),
            uid: rustix::process::getuid().as_raw(),
            journal: journal.clone(),
            taps: tap.into_iter().collect(),
        })
        .map_err(system("the ledger's thread"))?;
        let wake_ledger = ledger.clone();
        let recorder = prepared
            .map(|prepared| prepared.start(Some(log.handle()), move || wake_ledger.wake()))
            .transpose()
            .map_err(system("the recorder's thread"))?;
        let recording = recorder.as_ref().map(Recorder::state);
        let traffic = Arc::new(Traffic::default());
        let places_to_reach = listening.places();
        let source = facts_source(
            &config,
            &places_to_reach,
            &traffic,
            log.handle(),
            recording.clone(),
        );
        let (histories, geometry) = (Histories::default(), GeometryCache::default());
        let now = crate::clock::unix_nanos;
        let sampler = Sampler::start(ledger.clone(), histories.clone(), geometry.clone(), now)
            .map_err(system("the history's thread"))?;
        let looker = watch.map(|watch| Looker::start(watch, machine.clone()));
        let looker = looker.transpose().map_err(system("the machine's thread"))?;
        let recordings = StreamedRecordings::new(ledger.clone());
        let state = ReadState {
            live: Some(Live {
                ledger: ledger.clone(),
                histories,
                journal,
                recordings: recordings.clone(),
                machine,
            }),
            recorded: recording
                .as_ref()
                .map(|recording| Recorded::new(RecordingSource::Live, recording.files())),
            facts: source,
            geometry,
            series: DeviceSeries::default(),
            names: listening.names(),
        };
        let (http, sockets) = listening.answer(state)?;
        log.handle().note(Note::ServerStarted {
            sockets: places_to_reach,
            devices: noted_devices,
        });
        let handle = ServerHandle {
            traffic: Arc::clone(&traffic),
            wake: Arc::clone(&wake),
            ledger,
            recording,
        };
        let ingest = Ingest::new(IngestConfig {
            server: config,
            listeners,
            signals,
            wake,
            arrived: wake_up()?,
            answers: answered,
            ledger: handle.ledger.clone(),
            http,
            log: log.handle(),
            traffic,
            server_instance: instance_number(),
        })
        .map_err(system("the event loop"))?;
        Ok(Self {
            ingest,
            handle,
            sockets,
            ledger_thread,
            sampler,
            looker,
            recorder,
            recordings,
            log,
        })
    }

    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Serves until it is stopped, then takes everything down in order.
    pub fn run(mut self) -> io::Result<()> {
        let mut outcome = self.ingest.run();
        // Those who record are sent the rest by threads that still run.
        self.recordings.end_all();
        // Nobody new gets in, then what was reported is applied, then it is written to the log.
        drop(self.sockets);
        drop(self.ingest);
        drop(self.sampler);
        drop(self.looker);
        self.handle.ledger.stop();
        if self.ledger_thread.join().is_err() {
            let reason = "the ledger's thread failed; totals were lost";
            self.log.handle().error(reason.to_owned());
            outcome = outcome.and(Err(io::Error::other(reason)));
        }
        // It has everything now, and writes the rest.
        if self.recorder.is_some_and(|recorder| !recorder.finish()) {
            let reason = "the recording was not finished in time: its end is missing";
            self.log.handle().error(reason.to_owned());
        }
        self.log.handle().note(Note::ServerStopped);
        drop(self.log);
        outcome
    }
}

fn catch_signals() -> io::Result<SignalFd> {
    let mask = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGUSR1,
    ];
    let mask = SigSet::from_iter(mask);
    mask.thread_block()?;
    // A log that may not grow is a write that fails, and no reason to die.
    SigSet::from(Signal::SIGXFSZ).thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    Ok(SignalFd::with_flags(&mask, flags)?)
}

/// Each client costs two descriptors: its connection and its pidfd.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Not being allowed to is no reason not to start.
    let _refused = setrlimit(Resource::Nofile, limit);
}

/// A number that distinguishes this run of the server from every other.
fn instance_number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn facts_source(
    config: &ServerConfig,
    sockets: &[String],
    traffic: &Arc<Traffic>,
    log: LogHandle,
    recording: Option<RecordingState>,
) -> Arc<dyn Fn() -> ServerFacts + Send + Sync> {
    let started = Timestamp::from(SystemTime::now());
    let host = host_name();
    let server = ttmem_report::Server {
        clients_limit: Some(config.max_clients as u64),
        ..idle_server(started, sockets.to_vec())
    };
    let traffic = Arc::clone(traffic);
    Arc::new(move || ServerFacts {
        time: Timestamp::from(SystemTime::now()),
        host: host.clone(),
        server: ttmem_report::Server {
            clients: traffic.clients.load(Ordering::Relaxed),
            clients_refused: traffic.refused.load(Ordering::Relaxed),
            log_lines_elided: log.elided(),
            ..server.clone()
        },
        errors: recording
            .as_ref()
            .and_then(RecordingState::failure)
            .into_iter()
            .collect(),
    })
}
