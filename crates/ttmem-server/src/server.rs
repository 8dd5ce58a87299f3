//! Putting the parts together, and taking them apart again.

use crate::config::ServerConfig;
use crate::hardware::{SYSFS_CLASS, devices_of_board, devices_of_sysfs};
use crate::history::{Histories, Sampler};
use crate::ingest::{Ingest, IngestConfig, Traffic, answer_capacity};
use crate::journal::Journal;
use crate::keeper::{self, Command, KeeperConfig, LedgerHandle};
use crate::log::{Log, LogHandle, Note, StartLogError};
use crate::read::{
    BindHttpError, BoundHttp, GeometryCache, HttpLimits, HttpThread, ReadState, ServerFacts,
    StartHttpError,
};
use crate::socket::{BindSocketError, BoundSocket, EnsureRuntimeDirError, bind};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::SystemTime;
use ttmem_api::Timestamp;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartServerError {
    /// A socket could not be had.
    #[error(transparent)]
    Bind(#[from] BindSocketError),
    /// The address for readers over TCP could not be had.
    #[error(transparent)]
    BindHttp(#[from] BindHttpError),
    /// The folder of a socket could not be had.
    #[error(transparent)]
    RuntimeDir(#[from] EnsureRuntimeDirError),
    /// The log could not be opened.
    #[error(transparent)]
    Log(#[from] StartLogError),
    /// Readers cannot be served.
    #[error(transparent)]
    Http(#[from] StartHttpError),
    /// The system refused something else.
    #[error("cannot set up {what}")]
    System {
        what: &'static str,
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> StartServerError {
    move |source| StartServerError::System { what, source }
}

/// A server whose sockets are bound and whose threads run.
#[derive(Debug)]
pub struct Server {
    ingest: Ingest,
    handle: ServerHandle,
    sockets: Vec<BoundSocket>,
    keeper: JoinHandle<()>,
    sampler: Sampler,
    log: Log,
}

/// A way to reach a running server from the same process.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    traffic: Arc<Traffic>,
    wake: Arc<OwnedFd>,
    ledger: LedgerHandle,
}

impl ServerHandle {
    /// Asks the server to end.
    pub fn stop(&self) {
        self.traffic.stop.store(true, Ordering::Release);
        // A failure means that it has ended already.
        let _ended = rustix::io::write(self.wake.as_ref(), &1_u64.to_ne_bytes());
    }

    #[must_use]
    pub fn ledger(&self) -> &LedgerHandle {
        &self.ledger
    }
}

/// Whether the server reacts to signals of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    /// INT and TERM end it, HUP reopens the log, USR1 prints a summary.
    Obey,
    /// Somebody else in the process does.
    Ignore,
}

impl Server {
    /// Binds the sockets and starts the threads.
    ///
    /// # Errors
    /// When a socket is held by somebody else, or the system refuses something.
    pub fn start(config: ServerConfig, signals: Signals) -> Result<Self, StartServerError> {
        // Before any thread: they inherit the mask, so that only the descriptor gets them.
        let signals = match signals {
            Signals::Obey => Some(catch_signals().map_err(system("signals"))?),
            Signals::Ignore => None,
        };
        raise_descriptor_limit();
        // Before the sockets: who reaches the server by those finds it by TCP as well.
        let tcp = config.http.clone().map(BoundHttp::bind).transpose()?;
        let mut sockets = Vec::new();
        for options in &config.sockets {
            sockets.push(bind(options)?);
        }
        let listeners = sockets.iter().map(BoundSocket::try_clone_listener);
        let listeners = listeners
            .collect::<io::Result<_>>()
            .map_err(system("the sockets"))?;

        let log = Log::start(config.log.target.clone(), config.log.options)?;
        let devices = match &config.board {
            Some(board) => devices_of_board(board),
            None => devices_of_sysfs(Path::new(SYSFS_CLASS)),
        };
        let wake = rustix::event::eventfd(0, eventfd_flags())
            .map_err(|error| system("the wake-up")(error.into()))?;
        let wake = Arc::new(wake);
        let (answers, answered) = crossbeam_channel::bounded(answer_capacity(config.max_clients));
        let noted_devices = devices
            .iter()
            .map(|device| (&device.facts).into())
            .collect();
        let journal = Journal::default();
        let reader = journal.reader();
        let (ledger, keeper) = keeper::start(KeeperConfig {
            devices,
            log: log.handle(),
            answers,
            wake: Arc::clone(&wake),
            uid: rustix::process::getuid().as_raw(),
            journal,
        })
        .map_err(system("the ledger's thread"))?;
        let traffic = Arc::new(Traffic::default());
        let paths = sockets
            .iter()
            .map(|socket| socket.path().display().to_string());
        let urls = tcp.iter().map(|tcp| tcp.url().to_string());
        let places_to_reach: Vec<String> = paths.chain(urls).collect();
        let source = facts_source(&config, &places_to_reach, &traffic, log.handle());
        let (histories, geometry) = (Histories::default(), GeometryCache::default());
        let sampler = Sampler::start(
            ledger.clone(),
            histories.clone(),
            geometry.clone(),
            crate::clock::unix_nanos,
        )
        .map_err(system("the history's thread"))?;
        let state = ReadState::new(ledger.clone(), source, reader, histories, geometry);
        let tcp = tcp.map(|tcp| (tcp, HttpLimits::TCP));
        let http = HttpThread::start(state, HttpLimits::SOCKET, tcp)?;
        log.handle().note(Note::Started {
            sockets: places_to_reach,
            devices: noted_devices,
        });
        let handle = ServerHandle {
            traffic: Arc::clone(&traffic),
            wake: Arc::clone(&wake),
            ledger,
        };
        let ingest = Ingest::new(IngestConfig {
            server: config,
            listeners,
            signals,
            wake,
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
            keeper,
            sampler,
            log,
        })
    }

    /// A way to reach it while it runs.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Serves until it is told to stop, then takes everything down in order.
    ///
    /// # Errors
    /// When waiting for the sockets fails, or the ledger's thread did.
    pub fn run(mut self) -> io::Result<()> {
        let mut outcome = self.ingest.run();
        // Nobody new gets in, then what was said is applied, then it is written down.
        drop(self.sockets);
        drop(self.ingest);
        drop(self.sampler);
        let _ended = self.handle.ledger.send(Command::Stop);
        if self.keeper.join().is_err() {
            let reason = "the ledger's thread failed; totals were lost";
            self.log.handle().error(reason.to_owned());
            outcome = outcome.and(Err(io::Error::other(reason)));
        }
        self.log.handle().note(Note::Stopped);
        self.log.close();
        outcome
    }
}

fn eventfd_flags() -> rustix::event::EventfdFlags {
    rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK
}

fn catch_signals() -> io::Result<SignalFd> {
    let mut mask = SigSet::empty();
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGUSR1,
    ] {
        mask.add(signal);
    }
    mask.thread_block()?;
    Ok(SignalFd::with_flags(
        &mask,
        SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
    )?)
}

/// Each client costs two descriptors: its connection, and the one that tells of its death.
fn raise_descriptor_limit() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    // Not being allowed to is no reason not to start.
    let _refused = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

/// A number that tells this run of the server from every other.
fn instance_number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn facts_source(
    config: &ServerConfig,
    sockets: &[String],
    traffic: &Arc<Traffic>,
    log: LogHandle,
) -> Arc<dyn Fn() -> ServerFacts + Send + Sync> {
    let started = Timestamp::from(SystemTime::now());
    let host = nix::unistd::gethostname()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let sockets = sockets.to_vec();
    let clients_limit = Some(config.max_clients as u64);
    let traffic = Arc::clone(traffic);
    Arc::new(move || ServerFacts {
        time: Timestamp::from(SystemTime::now()),
        host: host.clone(),
        server: ttmem_api::Server {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started,
            uptime_seconds: 0,
            sockets: sockets.clone(),
            clients: traffic.clients.load(Ordering::Relaxed),
            clients_limit,
            clients_refused: traffic.refused.load(Ordering::Relaxed),
            events_applied: 0,
            log_lines_elided: log.elided(),
        },
        errors: Vec::new(),
    })
}
