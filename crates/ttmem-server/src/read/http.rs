//! The paths of the read API, and how a request is answered or refused.
//!
//! Work is passed on: views, geometry, sorting and JSON belong to the blocking threads, so that
//! one large answer does not hold up another.

use super::connection::Asker;
use super::handlers;
use super::places::Places;
use super::snapshot::ServerFacts;
use crate::history::Histories;
use crate::journal::JournalReader;
use crate::ledger_thread::LedgerHandle;
use crate::stream::Streams;
use axum::body::Body;
use axum::extract::{Extension, FromRequestParts, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{RequestPartsExt, Router};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use ttmem_api::{Problem, SCHEMA, Timestamp, routes};
use ttmem_ledger::{Geometry, View};

/// What readers are answered from.
#[derive(Clone)]
pub struct ReadState {
    pub ledger: LedgerHandle,
    /// What the server knows about itself, asked once per request.
    pub facts: Arc<dyn Fn() -> ServerFacts + Send + Sync>,
    /// Where everything lies, as last worked out.
    pub places: Places,
    pub(crate) histories: Histories,
    pub(crate) journal: JournalReader,
    /// What happens, for readers that stay.
    pub(crate) streams: Streams,
}

impl ReadState {
    /// Puts together what readers are answered from.
    pub(crate) fn new(
        ledger: LedgerHandle,
        facts: Arc<dyn Fn() -> ServerFacts + Send + Sync>,
        journal: JournalReader,
        histories: Histories,
        places: Places,
    ) -> Self {
        Self {
            streams: Streams::new(ledger.clone(), journal.clone()),
            ledger,
            facts,
            places,
            histories,
            journal,
        }
    }

    pub(super) fn time(&self) -> Timestamp {
        (self.facts)().time
    }
}

impl fmt::Debug for ReadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadState")
            .field("ledger", &self.ledger)
            .finish_non_exhaustive()
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
        .route(routes::READY, get(get_ready))
        .route(
            routes::OPENAPI,
            get(async || json(StatusCode::OK, ttmem_api::OPENAPI)),
        )
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

    fn internal(detail: impl fmt::Display) -> Self {
        let detail = format!("the answer could not be made: {detail}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    pub(super) fn stopping() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the server is stopping",
        )
    }

    /// For who is one too many.
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

/// The body of the refusal for those who are too many.
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

/// A request: who asks, and with which query.
#[derive(Debug)]
pub(super) struct Ask<Q> {
    pub(super) state: ReadState,
    pub(super) asker: Asker,
    pub(super) query: Q,
}

impl<Q: DeserializeOwned> FromRequestParts<ReadState> for Ask<Q> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &ReadState) -> Result<Self, Refusal> {
        let Extension(asker) = parts.extract().await.map_err(Refusal::internal)?;
        let query = Query::try_from_uri(&parts.uri);
        let Query(query) = query.map_err(|error| Refusal::bad_request(error.body_text()))?;
        Ok(Self {
            state: state.clone(),
            asker,
            query,
        })
    }
}

/// The ledger at one moment, for a document that is made of it.
pub(super) struct Moment {
    pub(super) view: Arc<View>,
    pub(super) state: ReadState,
}

impl Moment {
    pub(super) fn geometry(&self) -> Arc<Geometry> {
        self.state.places.of(&self.view)
    }
}

impl<Q> Ask<Q> {
    /// Answers with a document of the ledger.
    pub(super) async fn document<T: Serialize>(
        self,
        work: impl FnOnce(&Moment) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<Response, Refusal> {
        let Self { state, asker, .. } = self;
        // First, so that nobody holds an old view while others are served.
        let permit = asker.connection.permits.document().await;
        let view = state.ledger.view().await.ok_or_else(Refusal::stopping)?;
        let moment = Moment { view, state };
        let body = made((permit, asker), move || to_json(&work(&moment)?));
        Ok(json(StatusCode::OK, body.await?))
    }

    /// Answers with something that is no view of the ledger.
    pub(super) async fn answer<T: Serialize>(
        self,
        work: impl FnOnce(&ReadState) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<Response, Refusal> {
        let Self { state, asker, .. } = self;
        let permit = asker.connection.permits.document().await;
        let body = made((permit, asker), move || to_json(&work(&state)?));
        Ok(json(StatusCode::OK, body.await?))
    }
}

/// Does work on a blocking thread. What it holds it keeps though its reader may be gone, so that
/// such work cannot pile up.
async fn made<T: Send + 'static>(
    holds: impl Send + 'static,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let task = tokio::task::spawn_blocking(move || {
        let outcome = work();
        drop(holds);
        outcome
    });
    task.await.map_err(Refusal::internal)?
}

fn to_json(document: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(document).map_err(Refusal::internal)
}

/// Ready when all that was sent before is applied.
async fn get_ready(
    State(state): State<ReadState>,
    Extension(asker): Extension<Asker>,
) -> Result<&'static str, Refusal> {
    let permit = asker.connection.permits.document().await;
    let caught_up = made((permit, asker), move || Ok(state.ledger.catch_up()));
    if caught_up.await? {
        Ok("ready\n")
    } else {
        Err(Refusal::stopping())
    }
}

async fn unknown_path(uri: Uri) -> Refusal {
    let detail = format!("no document has the path {}", uri.path());
    Refusal::new(StatusCode::NOT_FOUND, "not_found", detail)
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let detail = format!("{} does not take {method}", uri.path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
