//! The HTTP thread: a small runtime that serves connections.
//!
//! Those of the socket come from the sessions' thread, which has seen that they speak HTTP; those
//! over TCP are taken here. Either kind has as many permits for requests as its [`HttpLimits`] say;
//! who finds none is refused at once. A connection takes its permit when its request was admitted; until
//! then it is one of a bounded number that are pending, so that who only connects takes no permit. A
//! connection is for one request, so a reader that stalls can hold its permit only until its deadline.

use super::admission::{Admission, Principal};
use super::half_closed::HalfClosed;
use super::http::{ReadState, Refusal};
use super::limits::{HttpLimits, PAST_DOCUMENTS, Permit, Permits};
use super::pending::{Pending, PendingConnections};
use super::routes::router;
use super::tcp::BoundHttp;
use crate::in_turns::InTurns;
use crate::recorder::EndRecording;
use crate::stream::StreamEnd;
use crate::{OwnedThread, lock};
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
use std::fmt;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use ttmem_ledger::{Holder, Shares};

/// Connections that may wait to be looked at: a burst of readers, not a backlog. They are shared by
/// processes and users; each finds room for so many, whatever others do, and they are looked at in turns.
const QUEUE: usize = 256;
const QUEUE_MIN: u64 = 8;

/// Blocking threads beside those that make documents: for those who follow the events, however many
/// large answers are asked for.
const STREAM_THREADS: usize = 1;

/// The niceness of threads that make documents: half of the time of one that serves clients. Far behind, on a busy machine a page would
/// give up each question before it is answered.
const DOCUMENT_NICENESS: i32 = 3;

/// A request of the read API is a line and a few headers.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Names a request can need many times over.
const MAX_HEADERS: usize = 64;

/// How long requests that are being answered may go on when the thread has to end.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum StartHttpError {
    #[error("cannot start the runtime of the read API")]
    Runtime(#[source] io::Error),
    #[error("cannot start the thread of the read API")]
    Thread(#[source] io::Error),
}

/// Connections that were not admitted yet, of either kind: more than readers that come at once.
pub(super) const MAX_PENDING: usize = 128;

/// A connection to serve, and the process at its other end.
type Arrival = (UnixStream, Holder);

/// The thread that answers readers; when this is dropped, what is being answered gets a moment.
#[derive(Debug)]
pub struct HttpThread {
    thread: OwnedThread<mpsc::Sender<Arrival>>,
    /// Who has how many in the queue.
    shares: Arc<Mutex<Shares>>,
}

impl HttpThread {
    /// Starts the thread, for connections that are handed over and for those over TCP, if any.
    pub fn start(
        state: ReadState,
        limits: HttpLimits,
        tcp: Option<(BoundHttp, HttpLimits)>,
    ) -> Result<Self, StartHttpError> {
        let listeners = tcp.iter().map(|(_bound, limits)| limits).chain([&limits]);
        let documents = listeners.map(|limits| limits.documents + PAST_DOCUMENTS);
        let documents: usize = documents.sum();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(documents + STREAM_THREADS)
            .thread_name("ttmem-read")
            .on_thread_start(give_way)
            .build()
            .map_err(StartHttpError::Runtime)?;
        let (arrivals, queue) = mpsc::channel(QUEUE);
        let shares = Arc::new(Mutex::new(Shares::new(QUEUE as u64, QUEUE_MIN)));
        let queue = Queue {
            arrivals: queue,
            waiting: InTurns::default(),
            shares: Arc::clone(&shares),
        };
        let thread = OwnedThread::start("ttmem-http", arrivals, move || {
            runtime.block_on(serve_all(router(state), limits, queue, tcp));
            // A document in the making ends by itself: nobody waits for it any more.
            runtime.shutdown_background();
        });
        let thread = thread.map_err(StartHttpError::Thread)?;
        Ok(Self { thread, shares })
    }

    /// Hands over a connection whose first bytes are those of an HTTP request, none of them read.
    ///
    /// # Errors
    /// The connection, when there are more than the thread can look at: [`refuse`] it.
    pub fn serve(&self, stream: UnixStream, holder: Holder) -> Result<(), UnixStream> {
        let Some(arrivals) = &self.thread.sender else {
            return Err(stream);
        };
        if !lock(&self.shares).take(holder, 1) {
            return Err(stream);
        }
        arrivals.try_send((stream, holder)).map_err(|refused| {
            lock(&self.shares).give_back(holder, 1);
            refused.into_inner().0
        })
    }
}

/// Has the calling thread, which makes documents, run behind those that serve clients, where there are
/// fewer processors than work.
fn give_way() {
    // Without it documents are made as well, but clients wait for them.
    let _refused = rustix::process::setpriority_process(None, DOCUMENT_NICENESS);
}

/// The connections that wait to be looked at.
#[derive(Debug)]
struct Queue {
    arrivals: mpsc::Receiver<Arrival>,
    waiting: InTurns<Arrival>,
    shares: Arc<Mutex<Shares>>,
}

impl Queue {
    /// The next in turn.
    async fn next(&mut self) -> Option<Arrival> {
        loop {
            while let Ok(arrival) = self.arrivals.try_recv() {
                self.waiting.push(arrival.1, arrival);
            }
            if let Some((stream, holder)) = self.waiting.next() {
                lock(&self.shares).give_back(holder, 1);
                return Some((stream, holder));
            }
            let arrival = self.arrivals.recv().await?;
            self.waiting.push(arrival.1, arrival);
        }
    }
}

/// Refuses a reader because the server has no room, without waiting for it.
pub fn refuse(mut stream: UnixStream) {
    // An empty socket buffer takes this much at once; a reader that cannot even be refused
    // sees its connection end.
    let _sent = stream
        .set_nonblocking(true)
        .and_then(|()| stream.write(&busy_answer()));
}

/// All that a reader gets who is one too many.
pub(super) fn busy_answer() -> Vec<u8> {
    let body = Refusal::busy().body();
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
    queue: Queue,
    tcp: Option<(BoundHttp, HttpLimits)>,
) {
    let mut listeners = vec![Permits::new(limits)];
    let listening = tcp.map(|(tcp, limits)| {
        let permits = Permits::new(limits);
        listeners.push(Arc::clone(&permits));
        tokio::spawn(tcp.serve(router.clone(), permits))
    });
    serve_arrivals(router, queue, &listeners[0]).await;
    if let Some(listening) = listening {
        listening.abort();
    }
    let all_idle = async {
        for permits in listeners {
            permits.idle().await;
        }
    };
    let _late = tokio::time::timeout(GRACE, all_idle).await;
}

async fn serve_arrivals(router: Router, mut queue: Queue, permits: &Arc<Permits>) {
    let not_admitted = PendingConnections::new(MAX_PENDING);
    while let Some((stream, holder)) = queue.next().await {
        let stream = stream
            .set_nonblocking(true)
            .and_then(|()| tokio::net::UnixStream::from_std(stream));
        // Without a descriptor to wait on the connection ends, which the reader sees.
        if let Ok(stream) = stream {
            let (pending, eviction) = not_admitted.add(holder);
            let connection = Connection::new(permits, pending);
            let transport = Transport::Unix(holder);
            tokio::spawn(connection.serve(router.clone(), stream, transport, eviction.wait()));
            // Whoever connects without end does not keep those from being served who came before.
            tokio::task::yield_now().await;
        }
    }
}

/// Who sent a request, and over which connection.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    pub(super) who: Principal,
    /// Who takes permits, where that is known.
    pub(super) holder: Option<Holder>,
    pub(super) connection: Arc<Connection>,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) permits: Arc<Permits>,
    stage: Mutex<Stage>,
    has_request: AtomicBool,
    /// What is being made takes so long that it is given up with its reader.
    takes_long: AtomicBool,
    /// Its reader sends nothing more; changes under the lock of the stage.
    reader_ended: AtomicBool,
    /// Its reader is gone.
    pub(super) gone: Arc<AtomicBool>,
}

/// How far a connection has come, and what it holds meanwhile.
#[derive(Debug)]
pub(super) enum Stage {
    /// No request was admitted.
    Waiting {
        #[expect(dead_code, reason = "held until a request is admitted")]
        pending: Box<dyn fmt::Debug + Send>,
        /// There was one, and the reader learns why it was not.
        is_refused: bool,
    },
    Request(#[expect(dead_code, reason = "held until it is answered")] Permit),
    /// Its answer is a stream, which has a permit of its own.
    Stream(Option<StreamEnd>),
    /// Its answer is a recording. Its permit is kept: a server that ends waits for it a moment.
    Recording {
        #[expect(dead_code, reason = "held until it is answered")]
        request: Box<Stage>,
        ended: Option<StreamEnd>,
        end: EndRecording,
    },
}

#[derive(Debug)]
pub(super) enum Transport {
    /// Through the socket, from this process.
    Unix(Holder),
    /// Over TCP, to this address of ours, under these rules.
    Tcp(IpAddr, Arc<Admission>),
}

impl Transport {
    fn holder(&self) -> Option<Holder> {
        match self {
            Self::Unix(holder) => Some(*holder),
            Self::Tcp(..) => None,
        }
    }
}

impl Connection {
    pub(super) fn new<P>(permits: &Arc<Permits>, pending: Pending<P>) -> Arc<Self>
    where
        Pending<P>: fmt::Debug + Send + 'static,
    {
        let stage = Stage::Waiting {
            pending: Box::new(pending),
            is_refused: false,
        };
        Arc::new(Self {
            permits: Arc::clone(permits),
            stage: Mutex::new(stage),
            has_request: AtomicBool::new(false),
            takes_long: AtomicBool::new(false),
            reader_ended: AtomicBool::new(false),
            gone: Arc::default(),
        })
    }

    /// As whom a request is admitted and has its permit, or why it is not.
    fn admit(
        &self,
        request: &Request<Incoming>,
        transport: &Transport,
    ) -> Result<Principal, Refusal> {
        let admitted = match transport {
            Transport::Unix(holder) => Ok(Principal::User(holder.uid)),
            Transport::Tcp(here, admission) => admission.admit(request, *here),
        };
        let holder = transport.holder();
        let admitted = admitted.and_then(|who| Ok((who, self.permits.request(holder)?)));
        let mut stage = lock(&self.stage);
        match (admitted, &mut *stage) {
            (Ok((who, permit)), stage) => {
                *stage = Stage::Request(permit);
                Ok(who)
            }
            (Err(refusal), Stage::Waiting { is_refused, .. }) => {
                *is_refused = true;
                Err(refusal)
            }
            (Err(refusal), _admitted) => Err(refusal),
        }
    }

    /// The answer is a stream: the permit of the request is for others.
    pub(super) fn stream(&self, ended: StreamEnd) {
        *lock(&self.stage) = Stage::Stream(Some(ended));
    }

    /// The answer is a recording.
    pub(super) fn record(&self, ended: StreamEnd, end: EndRecording) {
        let mut stage = lock(&self.stage);
        let request = std::mem::replace(&mut *stage, Stage::Stream(None));
        if self.reader_ended.load(Ordering::Relaxed) {
            // Before there was a recording to end.
            end.end();
        }
        *stage = Stage::Recording {
            request: Box::new(request),
            ended: Some(ended),
            end,
        };
    }

    /// What is being made takes long: the end of what the reader sends is the end of its waiting.
    pub(super) fn give_up_when_gone(&self) {
        self.takes_long.store(true, Ordering::Relaxed);
    }

    /// The reader ended its side; whether it is still waited for what it asked for.
    pub(super) fn keeps_end_back(&self) -> bool {
        if self.takes_long.load(Ordering::Relaxed) {
            self.gone.store(true, Ordering::Relaxed);
            return false;
        }
        let stage = lock(&self.stage);
        self.reader_ended.store(true, Ordering::Relaxed);
        drop(stage);
        self.owes_document() || self.end_recording()
    }

    /// Whether a request came that is not answered by a stream.
    fn owes_document(&self) -> bool {
        let stage = lock(&self.stage);
        let goes_on = matches!(*stage, Stage::Stream(_) | Stage::Recording { .. });
        self.has_request.load(Ordering::Relaxed) && !goes_on
    }

    /// Ends the recording that is the answer; false if it is none.
    fn end_recording(&self) -> bool {
        match &*lock(&self.stage) {
            Stage::Recording { end, .. } => {
                end.end();
                true
            }
            _other => false,
        }
    }

    /// Waits until the connection has lasted long enough.
    async fn deadline(&self) {
        tokio::time::sleep(self.permits.limits.connection_timeout).await;
        let ended = match &mut *lock(&self.stage) {
            Stage::Stream(ended) | Stage::Recording { ended, .. } => ended.take(),
            _no_stream => None,
        };
        if let Some(ended) = ended {
            // A stream ends when its reader takes nothing any more. What is on its way then has a
            // moment to arrive: who never takes it would keep the connection for ever.
            let _closed = ended.await;
            tokio::time::sleep(GRACE).await;
        }
    }

    /// Serves one request until the connection ends, its time is over, or it has to go for a newer one
    /// before its request came.
    pub(super) async fn serve(
        self: Arc<Self>,
        router: Router,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        transport: Transport,
        evicted: impl Future<Output = ()>,
    ) {
        let stream = HalfClosed::new(stream, Arc::clone(&self));
        let paths = TowerToHyperService::new(router);
        let service = service_fn(|mut request: Request<Incoming>| {
            self.has_request.store(true, Ordering::Relaxed);
            let admitted = self.admit(&request, &transport).map(|who| {
                let requester = Requester {
                    who,
                    holder: transport.holder(),
                    connection: Arc::clone(&self),
                };
                request.extensions_mut().insert(requester);
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
        // Whatever a reader does wrong, it learns in HTTP or sees the connection end; bodies are
        // never asked for.
        let mut serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.permits.limits.header_timeout)
            .max_header_size(MAX_HEADER_BYTES)
            .max_headers(MAX_HEADERS)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        let evicted = async {
            evicted.await;
            let is_silent = |stage: &Stage| match stage {
                Stage::Waiting { is_refused, .. } => !is_refused,
                _admitted => false,
            };
            if !is_silent(&lock(&self.stage)) {
                // Its request came meanwhile, and is answered.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _outcome = &mut serving => {}
            () = self.deadline() => {}
            () = evicted => refuse_evicted(serving.into_parts().io.into_inner()).await,
        }
        // Nobody waits for what is still being made.
        self.gone.store(true, Ordering::Relaxed);
    }
}

/// Refuses a reader whose request was too slow to come.
async fn refuse_evicted(mut stream: impl AsyncWrite + Unpin) {
    let answer = busy_answer();
    let refusal = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    };
    // An empty socket buffer takes this much at once; a reader that takes nothing sees its connection end.
    let _sent = tokio::time::timeout(GRACE, refusal).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_process_leaves_room_in_the_queue() {
        let (arrivals, queue) = mpsc::channel(QUEUE);
        let (end, ended) = std::sync::mpsc::sync_channel::<()>(1);
        let thread = OwnedThread::start("not-reading", arrivals, move || {
            let _unread = queue;
            let _ended = ended.recv();
        });
        let http = HttpThread {
            thread: thread.unwrap(),
            shares: Arc::new(Mutex::new(Shares::new(QUEUE as u64, QUEUE_MIN))),
        };
        let serve = |uid, process| {
            let (stream, _other_end) = UnixStream::pair().unwrap();
            http.serve(stream, Holder { uid, process }).is_ok()
        };
        let flood = (0..1000).filter(|_| serve(65_534, 1)).count();
        assert!((100..QUEUE).contains(&flood), "{flood} of one process");
        for process in 2..6 {
            assert!(serve(1000, process), "process {process} of another user");
            assert!(serve(65_534, process), "process {process} of the same");
        }
        drop(end);
    }
}
