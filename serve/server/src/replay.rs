//! A server of the past: the read API over one recording, without clients and without a ledger thread.

use crate::freed_memory;
use crate::listeners::{ListenError, Listeners, host_name, idle_server, system, wake_up};
use crate::lock;
use crate::peer::credentials;
use crate::read::{
    DeviceSeries, GeometryCache, HttpConfig, HttpThread, ReadState, ServerFacts, refuse,
};
use crate::recorded::{NamedFiles, Recorded};
use crate::socket::{BoundSocket, SocketConfig};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use ttmem_ledger::{Holder, UNKNOWN_USER};
use ttmem_report::{Recording, RecordingSource};

/// What is replayed, and where it can be asked.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// The recording: a file, or a folder of a server that recorded.
    pub path: PathBuf,
    /// Unix sockets for readers.
    pub sockets: Vec<SocketConfig>,
    /// Where readers are also served over TCP; `None` = nowhere.
    pub http: Option<HttpConfig>,
    /// All that can be drawn over time will be asked for, as a report does.
    pub draws_all: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum StartReplayError {
    #[error("{0}")]
    Recording(String),
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// A recording that is served until this is dropped.
#[derive(Debug)]
pub struct Replay {
    recording: Recording,
    recorded: Recorded,
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
        freed_memory::share_one_heap();
        let files = Arc::new(NamedFiles(config.path));
        let recorded = Recorded::drawn(RecordingSource::File, files, config.draws_all);
        let recording = recorded.recording();
        let recording =
            recording.map_err(|error| StartReplayError::Recording(error.with_path()))?;
        let listeners = Listeners::bind(&config.sockets, config.http)?;
        let places = listeners.places();
        let state = ReadState {
            live: None,
            recorded: Some(recorded.clone()),
            facts: facts_of(&recording, &places),
            geometry: GeometryCache::default(),
            series: DeviceSeries::default(),
            names: listeners.names(),
        };
        let (http, sockets) = listeners.answer(state)?;
        let wake = wake_up()?;
        let mut replay = Self {
            recording,
            recorded,
            places,
            accepting: Vec::new(),
            wake,
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

    /// Counts work that is done with what was answered.
    pub fn spend(&self, units: u64) {
        self.recorded.spend(units);
    }

    /// Whether all answers together have taken as much work as a question about a recording of its size may, and
    /// so much besides.
    #[must_use]
    pub fn is_over_budget(&self, besides: u64) -> bool {
        self.recorded.is_over_budget(besides)
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
    let host = host_name();
    let server = idle_server(recording.from, places.to_vec());
    let ended = recording.to;
    Arc::new(move || ServerFacts {
        time: ended,
        host: host.clone(),
        server: server.clone(),
        errors: Vec::new(),
    })
}
