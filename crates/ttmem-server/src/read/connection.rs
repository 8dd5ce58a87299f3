//! The HTTP thread: a small runtime that serves connections.
//!
//! Those of the socket come from the sessions' thread, which has seen that they speak HTTP; those
//! over TCP are taken here. Either kind has as many seats as its [`HttpLimits`] say; who finds none
//! is refused at once. On the socket a connection takes its seat when it comes, over TCP when its
//! request was let in. A connection is for one request, so a reader that stalls can hold its seat
//! only until its deadline.

use super::admission::{Admission, Who};
use super::allowance::Allowance;
use super::http::{Asker, ReadState, Refusal, Seat, busy_body, router};
use super::tcp::BoundHttp;
use axum::Router;
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{HeaderValue, Request};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};

/// Connections that may wait to be looked at: a burst of readers, not a backlog.
const QUEUE: usize = 256;

/// Threads that make documents: two cores' worth of readers must not starve the ledger.
pub(super) const BLOCKING_THREADS: usize = 4;

/// A request of the read API is a line and a few headers.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Names a request can need many times over.
const MAX_HEADERS: usize = 64;

/// How long requests that are being answered may go on when the thread is told to end.
const GRACE: Duration = Duration::from_secs(1);

/// What readers of one kind may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Requests at once.
    pub connections: usize,
    /// How long a request's head may take.
    pub head_timeout: Duration,
    /// How long a connection may last in all.
    pub connection_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            head_timeout: Duration::from_secs(10),
            connection_timeout: Duration::from_secs(60),
        }
    }
}

impl HttpLimits {
    /// What readers over TCP may cost: less, since anybody may try.
    #[must_use]
    pub fn of_tcp() -> Self {
        Self {
            connections: 32,
            head_timeout: Duration::from_secs(3),
            ..Self::default()
        }
    }
}

/// Why the thread could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartHttpError {
    /// The runtime has no event queue.
    #[error("cannot start the runtime of the read API")]
    Runtime(#[source] io::Error),
    /// The system has no thread left.
    #[error("cannot start the thread of the read API")]
    Thread(#[source] io::Error),
}

/// A connection to serve, and the user at its other end.
type Arrival = (UnixStream, u32);

/// The thread that answers readers.
#[derive(Debug)]
pub struct HttpThread {
    arrivals: Option<mpsc::Sender<Arrival>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpThread {
    /// Starts the thread, for connections that are handed over.
    ///
    /// # Errors
    /// When the system has no thread or no event queue for it.
    pub fn start(state: ReadState, limits: HttpLimits) -> Result<Self, StartHttpError> {
        Self::start_with_tcp(state, limits, None)
    }

    /// Starts the thread, which also takes connections over TCP.
    ///
    /// # Errors
    /// When the system has no thread or no event queue for it.
    pub fn start_with_tcp(
        state: ReadState,
        limits: HttpLimits,
        tcp: Option<(BoundHttp, HttpLimits)>,
    ) -> Result<Self, StartHttpError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name("ttmem-read")
            .build()
            .map_err(StartHttpError::Runtime)?;
        let (arrivals, queue) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("ttmem-http".to_owned())
            .spawn(move || {
                runtime.block_on(serve_all(router(state), limits, queue, tcp));
                // A document in the making ends by itself: nobody waits for it any more.
                runtime.shutdown_background();
            })
            .map_err(StartHttpError::Thread)?;
        Ok(Self {
            arrivals: Some(arrivals),
            thread: Some(thread),
        })
    }

    /// Hands over a connection whose first bytes are those of an HTTP request, none of them read.
    ///
    /// # Errors
    /// The connection, when there are more than the thread can look at: [`refuse`] it.
    pub fn serve(&self, stream: UnixStream, uid: u32) -> Result<(), UnixStream> {
        let Some(arrivals) = &self.arrivals else {
            return Err(stream);
        };
        arrivals
            .try_send((stream, uid))
            .map_err(|refused| refused.into_inner().0)
    }

    /// Ends the thread: what is being answered gets a moment, the rest is dropped.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Without a sender the queue ends, and with it the loop.
        self.arrivals = None;
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed; there is nothing left to save.
            let _ended = thread.join();
        }
    }
}

impl Drop for HttpThread {
    fn drop(&mut self) {
        self.end();
    }
}

/// Tells a reader that the server has no room, without waiting for it.
pub fn refuse(mut stream: UnixStream) {
    // An empty socket buffer takes this much at once; a reader that cannot even be told
    // sees its connection end.
    let _told = stream
        .set_nonblocking(true)
        .and_then(|()| stream.write(&busy_answer()));
}

/// All that a reader gets for whom there is no seat.
pub(super) fn busy_answer() -> Vec<u8> {
    let body = busy_body();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/json\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut answer = head.into_bytes();
    answer.extend_from_slice(&body);
    answer
}

/// Serves until the queue ends, and gives what is being answered then a moment.
async fn serve_all(
    router: Router,
    limits: HttpLimits,
    queue: mpsc::Receiver<Arrival>,
    tcp: Option<(BoundHttp, HttpLimits)>,
) {
    let seats = |limits: HttpLimits| Arc::new(Semaphore::new(limits.connections));
    let mut taken = vec![(seats(limits), limits.connections)];
    let listening = tcp.map(|(tcp, limits)| {
        let seats = seats(limits);
        taken.push((Arc::clone(&seats), limits.connections));
        tokio::spawn(tcp.serve(router.clone(), limits, seats))
    });
    serve_arrivals(router, limits, queue, &taken[0].0).await;
    if let Some(listening) = listening {
        listening.abort();
    }
    let everybody_left = async {
        for (seats, count) in taken {
            while seats.available_permits() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    let _late = tokio::time::timeout(GRACE, everybody_left).await;
}

async fn serve_arrivals(
    router: Router,
    limits: HttpLimits,
    mut queue: mpsc::Receiver<Arrival>,
    seats: &Arc<Semaphore>,
) {
    while let Some((stream, uid)) = queue.recv().await {
        let Ok(seat) = Arc::clone(seats).try_acquire_owned() else {
            refuse(stream);
            continue;
        };
        let stream = stream
            .set_nonblocking(true)
            .and_then(|()| tokio::net::UnixStream::from_std(stream));
        // Without a descriptor to wait on the connection ends, which the reader sees.
        if let Ok(stream) = stream {
            let door = Door::Unix(uid);
            let seat = Seat::new(seat);
            let stays = std::future::pending();
            let served = serve_connection(router.clone(), limits, stream, door, seat, stays);
            tokio::spawn(served);
        }
    }
}

/// How a connection came in.
#[derive(Debug)]
pub(super) enum Door {
    /// Through the socket, from this user.
    Unix(u32),
    /// Over TCP, to this address.
    Tcp {
        /// Who is let in.
        admission: Arc<Admission>,
        /// The address of our end.
        here: IpAddr,
        /// What all of them share.
        allowance: Allowance,
        /// The seats of those who are let in.
        seats: Arc<Semaphore>,
    },
}

impl Door {
    /// As whom a request is let in and has a seat, or why it is not.
    fn admit(&self, request: &Request<Incoming>, seat: &Seat) -> Result<Who, Refusal> {
        match self {
            Self::Unix(uid) => Ok(Who::User(*uid)),
            Self::Tcp {
                admission,
                here,
                seats,
                ..
            } => {
                let who = admission.admit(request, *here)?;
                let free = Arc::clone(seats).try_acquire_owned();
                seat.take(free.map_err(|_none_free| Refusal::busy())?);
                Ok(who)
            }
        }
    }

    fn allowance(&self) -> Allowance {
        match self {
            Self::Unix(_) => Allowance::default(),
            Self::Tcp { allowance, .. } => allowance.clone(),
        }
    }
}

/// Serves one connection until it ends, its time is over, or its place goes to another one before it
/// said what it wants.
pub(super) async fn serve_connection(
    router: Router,
    limits: HttpLimits,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    door: Door,
    seat: Seat,
    evicted: impl Future<Output = ()>,
) {
    let seat = Arc::new(seat);
    let paths = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        let admitted = door.admit(&request, &seat);
        let admitted = admitted.inspect_err(|_refusal| seat.refuse()).map(|who| {
            request.extensions_mut().insert(Asker {
                who,
                seat: Arc::clone(&seat),
                allowance: door.allowance(),
            });
            paths.call(request)
        });
        async {
            let mut response = match admitted {
                Ok(answering) => answering.await?,
                Err(refusal) => refusal.into_response(),
            };
            // No browser takes an answer for something else than it says.
            let headers = response.headers_mut();
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_header_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // Whatever a reader does wrong, it is told in HTTP or sees the connection end; bodies are
    // never asked for.
    let deadline = async {
        tokio::time::sleep(limits.connection_timeout).await;
        if let Some(ended) = seat.stays() {
            // A stream ends when its reader takes nothing any more. What is on its way then has a
            // moment to arrive: who never takes it would keep the connection for ever.
            ended.await;
            tokio::time::sleep(GRACE).await;
        }
    };
    let evicted = async {
        evicted.await;
        if !seat.is_waiting() {
            // It said what it wants meanwhile, and is answered.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _outcome = &mut connection => {}
        () = deadline => {}
        () = evicted => part_from(connection.into_parts().io.into_inner()).await,
    }
}

/// Tells a reader that it was too slow to say what it wants.
async fn part_from(mut stream: impl AsyncWrite + Unpin) {
    let answer = busy_answer();
    let parting = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    };
    // An empty socket buffer takes this much at once; who cannot be told sees its connection end.
    let _told = tokio::time::timeout(GRACE, parting).await;
}
