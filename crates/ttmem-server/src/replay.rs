//! A server of the past: the read API over one recording, without clients and without a ledger thread.

use crate::lock;
use crate::peer::credentials;
use crate::read::{
    BindHttpError, BoundHttp, GeometryCache, HttpConfig, HttpLimits, HttpThread, NamePolicy,
    ReadState, ServerFacts, StartHttpError, refuse,
};
use crate::recorded::{OneFile, Recorded};
use crate::socket::{BindSocketError, BoundSocket, SocketConfig, bind};
use rustix::event::{EventfdFlags, PollFd, PollFlags, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use ttmem_api::{Recording, RecordingSource};
use ttmem_ledger::{Holder, UNKNOWN_USER};

/// What is replayed, and where it can be asked.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// The recording.
    pub path: PathBuf,
    /// Unix sockets for readers.
    pub sockets: Vec<SocketConfig>,
    /// Where readers are also served over TCP; `None` = nowhere.
    pub http: Option<HttpConfig>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartReplayError {
    #[error("{0}")]
    Recording(String),
    #[error(transparent)]
    Bind(#[from] BindSocketError),
    #[error(transparent)]
    BindHttp(#[from] BindHttpError),
    #[error(transparent)]
    Http(#[from] StartHttpError),
    #[error("cannot set up {what}")]
    System {
        what: &'static str,
        source: io::Error,
    },
}

/// A recording that is served until this is dropped.
#[derive(Debug)]
pub struct Replay {
    recording: Recording,
    places: Vec<String>,
    /// Those who take connections of the sockets, and what ends them.
    accepting: Vec<JoinHandle<()>>,
    wake: Arc<OwnedFd>,
    http: Arc<Mutex<Option<HttpThread>>>,
    _sockets: Vec<BoundSocket>,
}

impl Replay {
    /// Opens a recording and serves it.
    pub fn start(config: ReplayConfig) -> Result<Self, StartReplayError> {
        let files = Arc::new(OneFile(config.path));
        let recorded = Recorded::new(RecordingSource::File, files);
        let recording = recorded.recording();
        let recording =
            recording.map_err(|error| StartReplayError::Recording(error.with_path()))?;
        let tcp = config.http.map(BoundHttp::bind).transpose()?;
        let sockets: Result<Vec<BoundSocket>, _> = config.sockets.iter().map(bind).collect();
        let sockets = sockets?;
        let paths = sockets
            .iter()
            .map(|socket| socket.path().display().to_string());
        let urls = tcp.iter().map(|tcp| tcp.url().to_string());
        let places: Vec<String> = paths.chain(urls).collect();
        let state = ReadState {
            live: None,
            recorded: Some(recorded),
            facts: facts_of(&recording, &places),
            geometry: GeometryCache::default(),
            names: NamePolicy {
                server_uid: rustix::process::geteuid().as_raw(),
                over_tcp: tcp.as_ref().is_some_and(|tcp| tcp.shows_names),
            },
        };
        let tcp = tcp.map(|tcp| (tcp, HttpLimits::TCP));
        let http = HttpThread::start(state, HttpLimits::SOCKET, tcp)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags);
        let wake = wake.map_err(|error| system("the wake-up")(error.into()))?;
        let mut replay = Self {
            recording,
            places,
            accepting: Vec::new(),
            wake: Arc::new(wake),
            http: Arc::new(Mutex::new(Some(http))),
            _sockets: sockets,
        };
        for socket in &replay._sockets {
            let listener = socket.try_clone_listener().map_err(system("the sockets"))?;
            let nonblocking = listener.set_nonblocking(true);
            nonblocking.map_err(system("the sockets"))?;
            let (http, wake) = (Arc::clone(&replay.http), Arc::clone(&replay.wake));
            let thread = std::thread::Builder::new().name("ttmem-accept".to_owned());
            let thread = thread.spawn(move || accept(&listener, &http, &wake));
            replay
                .accepting
                .push(thread.map_err(system("the thread of a socket"))?);
        }
        Ok(replay)
    }

    /// What the recording has.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The sockets and addresses by which it can be asked.
    #[must_use]
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// Ends it; what is being answered gets a moment.
    pub fn stop(self) {}
}

impl Drop for Replay {
    fn drop(&mut self) {
        // A failure means that nobody waits.
        let _ended = rustix::io::write(self.wake.as_ref(), &1_u64.to_ne_bytes());
        for thread in self.accepting.drain(..) {
            // A panic in there has been printed.
            let _ended = thread.join();
        }
        drop(lock(&self.http).take());
    }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> StartReplayError {
    move |source| StartReplayError::System { what, source }
}

/// How long a listener that fails is left alone: without descriptors the next try would fail as well.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Hands connections to the thread that answers, until it is woken.
fn accept(listener: &UnixListener, http: &Mutex<Option<HttpThread>>, wake: &OwnedFd) {
    for number in 0_u64.. {
        let mut waited = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(wake, PollFlags::IN),
        ];
        // Interrupted at worst; what is there is looked at.
        let _interrupted = poll(&mut waited, None);
        if !waited[1].revents().is_empty() {
            return;
        }
        let stream = match listener.accept() {
            Ok((stream, _address)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_other) => {
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let peer = credentials(&stream).ok();
        let holder = Holder {
            uid: peer.map_or(UNKNOWN_USER, |peer| peer.uid),
            // Where the pid is hidden each connection counts by itself.
            process: peer
                .and_then(|peer| peer.pid)
                .map_or(1 << 32 | number, u64::from),
        };
        let answering = lock(http);
        let refused = match answering.as_ref() {
            Some(http) => http.serve(stream, holder).err(),
            None => Some(stream),
        };
        if let Some(stream) = refused {
            refuse(stream);
        }
    }
}

/// What readers are told about the server: of the recording, where it is about time.
fn facts_of(
    recording: &Recording,
    places: &[String],
) -> Arc<dyn Fn() -> ServerFacts + Send + Sync> {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy().into_owned();
    let (started, ended) = (recording.from, recording.to);
    let sockets = places.to_vec();
    Arc::new(move || ServerFacts {
        time: ended,
        host: host.clone(),
        server: ttmem_api::Server {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started,
            uptime_seconds: 0,
            sockets: sockets.clone(),
            clients: 0,
            clients_limit: None,
            clients_refused: 0,
            events_applied: 0,
            events_lost: 0,
            events_elided: 0,
            log_lines_elided: 0,
        },
        errors: Vec::new(),
    })
}
