//! The paths of the read API, and how a request is answered or refused.
//!
//! Work is passed on: views, geometry, sorting and JSON belong to the blocking threads, so that
//! one large answer does not hold up another.

use super::admission::Who;
use super::allowance::Allowance;
use super::connection::BLOCKING_THREADS;
use super::handlers;
use super::heads::Head;
use super::places::Places;
use super::snapshot::ServerFacts;
use crate::history::Histories;
use crate::journal::JournalReader;
use crate::keeper::LedgerHandle;
use crate::stream::{StreamEnd, StreamLimits, Streams};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use ttmem_api::{Problem, SCHEMA, routes};
use ttmem_ledger::View;

/// Documents that are made at once: of the blocking threads one is left for those who follow the
/// events, however many large answers are asked for.
const DESKS: usize = BLOCKING_THREADS - 1;

/// What readers are told from.
#[derive(Clone)]
pub struct ReadState {
    /// The ledger thread.
    pub ledger: LedgerHandle,
    /// What the server knows about itself, asked once per request.
    pub facts: Arc<dyn Fn() -> ServerFacts + Send + Sync>,
    /// Where everything lies, as last worked out.
    pub places: Places,
    /// Totals over time.
    pub(crate) histories: Histories,
    /// What happens, for readers that stay.
    pub(crate) streams: Streams,
    /// Where documents are made.
    desks: Arc<Semaphore>,
}

impl ReadState {
    /// What readers are told from: the ledger, what it applied lately, and its history.
    pub(crate) fn new(
        ledger: LedgerHandle,
        facts: Arc<dyn Fn() -> ServerFacts + Send + Sync>,
        journal: JournalReader,
        histories: Histories,
        places: Places,
    ) -> Self {
        Self {
            streams: Streams::new(ledger.clone(), journal, StreamLimits::default()),
            desks: Arc::new(Semaphore::new(DESKS)),
            ledger,
            facts,
            places,
            histories,
        }
    }
}

impl fmt::Debug for ReadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadState")
            .field("ledger", &self.ledger)
            .finish_non_exhaustive()
    }
}

/// Who asks, and the seat that the connection takes.
///
/// Work that outlives its connection keeps the seat, so that work cannot pile up either.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) who: Who,
    pub(super) seat: Arc<Seat>,
    /// What readers of this kind share.
    pub(super) allowance: Allowance,
}

/// A seat for one request, which a reader that stays gives back for one among its like.
///
/// Over TCP it is taken only when the request was let in.
#[derive(Debug)]
pub(super) struct Seat {
    taken: Mutex<Taken>,
}

/// What kind of seat a connection has.
#[derive(Debug)]
enum Taken {
    /// None: a place among those that were not let in yet, or not at all.
    Outside {
        #[expect(dead_code, reason = "held for as long as the connection has no seat")]
        head: Head,
        is_refused: bool,
    },
    /// One among the requests.
    Request(#[expect(dead_code, reason = "held for as long as the request")] OwnedSemaphorePermit),
    /// One among the streams, which tells when it is given up.
    Stream {
        ended: Option<StreamEnd>,
        #[expect(dead_code, reason = "held for as long as the connection")]
        place: Option<OwnedSemaphorePermit>,
    },
}

impl Seat {
    pub(super) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self {
            taken: Mutex::new(Taken::Request(permit)),
        }
    }

    /// The seat of a connection that has none yet.
    pub(super) fn waiting(head: Head) -> Self {
        Self {
            taken: Mutex::new(Taken::Outside {
                head,
                is_refused: false,
            }),
        }
    }

    /// The request is let in: it takes its seat, and leaves the place where it waited.
    pub(super) fn take(&self, permit: OwnedSemaphorePermit) {
        *self.taken() = Taken::Request(permit);
    }

    /// The request is not let in, and is told so.
    pub(super) fn refuse(&self) {
        if let Taken::Outside { is_refused, .. } = &mut *self.taken() {
            *is_refused = true;
        }
    }

    /// Whether there was no request yet.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(
            *self.taken(),
            Taken::Outside {
                is_refused: false,
                ..
            }
        )
    }

    /// Gives the seat back: this reader stays until its stream ends, at a place for streams if its
    /// like are counted.
    pub(super) fn stay(&self, ended: StreamEnd, place: Option<OwnedSemaphorePermit>) {
        let ended = Some(ended);
        *self.taken() = Taken::Stream { ended, place };
    }

    /// The end of the stream of a reader that stays, for the one who waits for it.
    pub(super) fn stays(&self) -> Option<StreamEnd> {
        match &mut *self.taken() {
            Taken::Stream { ended, .. } => ended.take(),
            _does_not_stay => None,
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The paths and what they answer.
pub(super) fn router(state: ReadState) -> Router {
    Router::new()
        .route(routes::SNAPSHOT, get(handlers::get_snapshot))
        .route(&one_of(routes::DEVICES), get(handlers::get_device))
        .route(routes::PROCESSES, get(handlers::get_processes))
        .route(routes::BUFFERS, get(handlers::get_buffers))
        .route(routes::BUFFER_GROUPS, get(handlers::get_buffer_groups))
        .route(routes::CBS, get(handlers::get_cbs))
        .route(routes::KERNELS, get(handlers::get_kernels))
        .route(routes::PROGRAMS, get(handlers::get_programs))
        .route(&one_of(routes::L1_MAP), get(handlers::get_l1_map))
        .route(&one_of(routes::BLOCKS), get(handlers::get_blocks))
        .route(&one_of(routes::PEAK), get(handlers::get_peak))
        .route(routes::HISTORY, get(handlers::get_history))
        .route(routes::EVENTS, get(handlers::get_events))
        .route(routes::LAST, get(handlers::get_last))
        .route(routes::FORGET, post(handlers::post_forget))
        .route(routes::MARK, post(handlers::post_mark))
        .route(routes::HEALTH, get(async || "ok\n"))
        .route(routes::READY, get(handlers::get_ready))
        .route(routes::OPENAPI, get(get_openapi))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(state)
}

/// The path of one device's document.
fn one_of(path: &str) -> String {
    format!("{path}/{{device}}")
}

/// A request that is not answered, and why.
#[derive(Debug)]
pub(super) struct Refusal {
    code: StatusCode,
    error: &'static str,
    detail: String,
}

impl Refusal {
    pub(super) fn new(code: StatusCode, error: &'static str, detail: impl fmt::Display) -> Self {
        Self {
            code,
            error,
            detail: detail.to_string(),
        }
    }

    /// What cannot be understood, in the caller's words.
    pub(super) fn bad_request(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    pub(super) fn stopping() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the server is stopping",
        )
    }

    /// For who finds no seat.
    pub(super) fn busy() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "too many readers at once",
        )
    }

    /// The body, also for those who write it without a router.
    fn problem(&self) -> Problem {
        Problem {
            schema: SCHEMA,
            error: self.error.to_owned(),
            detail: self.detail.clone(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        // Three strings and a number always have a JSON form.
        let body = serde_json::to_vec(&self.problem()).unwrap_or_default();
        let mut response = json(self.code, body);
        let later = [
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::TOO_MANY_REQUESTS,
        ];
        if later.contains(&self.code) {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.code == StatusCode::UNAUTHORIZED {
            let wanted = HeaderValue::from_static("Bearer realm=\"ttmem\"");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, wanted);
        }
        response
    }
}

/// The body of the refusal for those who find no seat.
pub(super) fn busy_body() -> Vec<u8> {
    serde_json::to_vec(&Refusal::busy().problem()).unwrap_or_default()
}

fn json(code: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Makes a document on a blocking thread.
pub(super) async fn answer<T: Serialize>(
    state: ReadState,
    asker: Asker,
    work: impl FnOnce(&ReadState) -> Result<T, Refusal> + Send + 'static,
) -> Result<Response, Refusal> {
    let internal = |detail: String| {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("the answer could not be made: {detail}"),
        )
    };
    // The readers of its way in first, then everybody's: nobody waits for a desk in vain.
    let turn = asker.allowance.turn().await;
    // Nobody closes it.
    let desk = Arc::clone(&state.desks).acquire_owned().await.ok();
    let task = tokio::task::spawn_blocking(move || {
        let document = work(&state).and_then(|document| {
            serde_json::to_vec(&document).map_err(|error| internal(error.to_string()))
        });
        drop((desk, turn, asker.seat));
        document
    });
    let body = task.await.map_err(|error| internal(error.to_string()))??;
    Ok(json(StatusCode::OK, body))
}

/// The description of all paths, which is a constant.
async fn get_openapi() -> Response {
    json(StatusCode::OK, Body::from(ttmem_api::OPENAPI))
}

pub(super) fn view(state: &ReadState) -> Result<View, Refusal> {
    state.ledger.view().ok_or_else(Refusal::stopping)
}

async fn unknown_path(uri: Uri) -> Refusal {
    let detail = format!("no document has the path {}", uri.path());
    Refusal::new(StatusCode::NOT_FOUND, "not_found", detail)
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let detail = format!("{} does not take {method}", uri.path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
