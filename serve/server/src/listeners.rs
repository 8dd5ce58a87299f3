//! Where readers find what is served: Unix sockets, and TCP if it is asked for.
//!
//! A server and a replay set them up alike, and fail alike.

use crate::read::{
    BindHttpError, BoundHttp, HttpConfig, HttpLimits, HttpThread, NamePolicy, ReadState,
    StartHttpError,
};
use crate::socket::{BindSocketError, BoundSocket, SocketConfig, bind};
use rustix::event::EventfdFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use ttmem_report::Timestamp;

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
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

pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> ListenError {
    move |source| ListenError::System { what, source }
}

/// Something to wake a thread by.
pub(crate) fn wake_up() -> Result<Arc<OwnedFd>, ListenError> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let wake = rustix::event::eventfd(0, flags);
    let wake = wake.map_err(|error| system("the wake-up")(error.into()))?;
    Ok(Arc::new(wake))
}

/// Sockets that are bound, and answered by nobody yet.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) sockets: Vec<BoundSocket>,
    tcp: Option<BoundHttp>,
}

impl Listeners {
    pub(crate) fn bind(
        sockets: &[SocketConfig],
        http: Option<HttpConfig>,
    ) -> Result<Self, ListenError> {
        // Before the sockets: who reaches the server by those finds it by TCP as well.
        let tcp = http.map(BoundHttp::bind).transpose()?;
        let sockets: Result<Vec<BoundSocket>, _> = sockets.iter().map(bind).collect();
        let sockets = sockets?;
        Ok(Self { sockets, tcp })
    }

    /// The sockets and addresses by which it can be asked.
    pub(crate) fn places(&self) -> Vec<String> {
        let paths = self.sockets.iter();
        let paths = paths.map(|socket| socket.path().display().to_string());
        let urls = self.tcp.iter().map(|tcp| tcp.url().to_string());
        paths.chain(urls).collect()
    }

    /// Who is shown names there.
    pub(crate) fn names(&self) -> NamePolicy {
        NamePolicy {
            server_uid: rustix::process::geteuid().as_raw(),
            over_tcp: self.tcp.as_ref().is_some_and(|tcp| tcp.shows_names),
        }
    }

    /// Starts the thread that answers; the sockets, whose connections it is handed.
    pub(crate) fn answer(
        self,
        state: ReadState,
    ) -> Result<(HttpThread, Vec<BoundSocket>), ListenError> {
        let tcp = self.tcp.map(|tcp| (tcp, HttpLimits::TCP.on_this_machine()));
        let http = HttpThread::start(state, HttpLimits::SOCKET.on_this_machine(), tcp)?;
        Ok((http, self.sockets))
    }
}

/// This machine's name.
pub(crate) fn host_name() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

/// What a server is, while nothing has happened.
pub(crate) fn idle_server(started: Timestamp, sockets: Vec<String>) -> ttmem_report::Server {
    ttmem_report::Server {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        uptime_seconds: 0,
        sockets,
        clients: 0,
        clients_limit: None,
        clients_refused: 0,
        events_applied: 0,
        events_lost: 0,
        events_elided: 0,
        log_lines_elided: 0,
    }
}
