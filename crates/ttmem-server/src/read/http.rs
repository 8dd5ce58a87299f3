//! What each path of the read API answers.
//!
//! Handlers run on the HTTP thread and do nothing but pass the work on: views, geometry, sorting
//! and JSON belong to the blocking threads, so that one large answer does not hold up another.

use super::places::Places;
use super::rows::{self, PageRequest};
use super::snapshot::{ServerFacts, released, snapshot};
use crate::keeper::{ForgetError, LedgerHandle};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use ttmem_api::{Forgotten, Problem, SCHEMA, routes};
use ttmem_ledger::View;

/// What readers are told from.
#[derive(Clone)]
pub struct ReadState {
    /// The ledger thread.
    pub ledger: LedgerHandle,
    /// What the server knows about itself, asked once per request.
    pub facts: Arc<dyn Fn() -> ServerFacts + Send + Sync>,
    /// Where everything lies, as last worked out.
    pub places: Places,
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
    pub(super) uid: u32,
    pub(super) seat: Arc<OwnedSemaphorePermit>,
}

/// The paths and what they answer.
pub(super) fn router(state: ReadState) -> Router {
    Router::new()
        .route(routes::SNAPSHOT, get(get_snapshot))
        .route(routes::BUFFERS, get(get_buffers))
        .route(routes::CBS, get(get_cbs))
        .route(routes::KERNELS, get(get_kernels))
        .route(routes::LAST, get(get_last))
        .route(routes::FORGET, post(post_forget))
        .route(routes::HEALTH, get(async || "ok\n"))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(state)
}

/// A request that is not answered, and why.
#[derive(Debug)]
pub(super) struct Refusal {
    code: StatusCode,
    error: &'static str,
    detail: String,
}

impl Refusal {
    fn new(code: StatusCode, error: &'static str, detail: impl fmt::Display) -> Self {
        Self {
            code,
            error,
            detail: detail.to_string(),
        }
    }

    /// What cannot be understood, in the caller's words.
    fn bad_request(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    fn stopping() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the server is stopping",
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
        if self.code == StatusCode::SERVICE_UNAVAILABLE {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The body of the refusal for those who find no seat.
pub(super) fn busy_body() -> Vec<u8> {
    let refusal = Refusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "too many readers at once",
    );
    serde_json::to_vec(&refusal.problem()).unwrap_or_default()
}

fn json(code: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
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
async fn answer<T: Serialize>(
    asker: Asker,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<Response, Refusal> {
    let internal = |detail: String| {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("the answer could not be made: {detail}"),
        )
    };
    let task = tokio::task::spawn_blocking(move || {
        let document = work().and_then(|document| {
            serde_json::to_vec(&document).map_err(|error| internal(error.to_string()))
        });
        drop(asker.seat);
        document
    });
    let body = task.await.map_err(|error| internal(error.to_string()))??;
    Ok(json(StatusCode::OK, body))
}

fn view(state: &ReadState) -> Result<View, Refusal> {
    state.ledger.view().ok_or_else(Refusal::stopping)
}

async fn get_snapshot(
    State(state): State<ReadState>,
    Extension(asker): Extension<Asker>,
) -> Result<Response, Refusal> {
    answer(asker, move || {
        let view = view(&state)?;
        let geometry = state.places.of(&view);
        Ok(snapshot(&view, &geometry, (state.facts)()))
    })
    .await
}

/// The query of a page.
#[derive(Debug, Deserialize)]
struct PageQuery {
    cursor: Option<String>,
    limit: Option<u32>,
}

type MaybePage = Result<Query<PageQuery>, QueryRejection>;

/// Answers with a page that `rows` makes of a view.
async fn page<T: Serialize + 'static>(
    state: ReadState,
    asker: Asker,
    query: MaybePage,
    rows: fn(&View, PageRequest) -> T,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    let request =
        PageRequest::new(query.cursor.as_deref(), query.limit).map_err(Refusal::bad_request)?;
    answer(asker, move || Ok(rows(&view(&state)?, request))).await
}

async fn get_buffers(
    State(state): State<ReadState>,
    Extension(asker): Extension<Asker>,
    query: MaybePage,
) -> Result<Response, Refusal> {
    page(state, asker, query, rows::buffers).await
}

async fn get_cbs(
    State(state): State<ReadState>,
    Extension(asker): Extension<Asker>,
    query: MaybePage,
) -> Result<Response, Refusal> {
    page(state, asker, query, rows::cbs).await
}

async fn get_kernels(
    State(state): State<ReadState>,
    Extension(asker): Extension<Asker>,
    query: MaybePage,
) -> Result<Response, Refusal> {
    page(state, asker, query, rows::kernels).await
}

/// Events that a reader gets who does not say how many.
const DEFAULT_LAST: u32 = 100;

/// The most events that a reader gets.
const MAX_LAST: u32 = 10_000;

/// The query of the last events.
#[derive(Debug, Deserialize)]
struct LastQuery {
    count: Option<u32>,
    pid: Option<u32>,
}

async fn get_last(
    State(state): State<ReadState>,
    Extension(asker): Extension<Asker>,
    query: Result<Query<LastQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(LastQuery { count, pid }) =
        query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    let count = count.unwrap_or(DEFAULT_LAST);
    if !(1..=MAX_LAST).contains(&count) {
        let detail = format!("count {count} is not between 1 and {MAX_LAST}");
        return Err(Refusal::bad_request(detail));
    }
    answer(asker, move || {
        let last = state.ledger.last(count as usize, pid);
        let last = last.ok_or_else(Refusal::stopping)?;
        Ok(last.document())
    })
    .await
}

/// The query of a `forget`.
#[derive(Debug, Deserialize)]
struct ForgetQuery {
    pid: u32,
}

async fn post_forget(
    State(state): State<ReadState>,
    Extension(asker): Extension<Asker>,
    query: Result<Query<ForgetQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(ForgetQuery { pid }) =
        query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    let uid = asker.uid;
    answer(asker, move || {
        let time = (state.facts)().time.unix_nanos();
        match state.ledger.forget(pid, uid, time) {
            Ok(each) => Ok(Forgotten {
                schema: SCHEMA,
                pid,
                released: each
                    .iter()
                    .map(|each| released(each, time, ttmem_ledger::Departure::Forgotten.name()))
                    .collect(),
            }),
            Err(error @ ForgetError::Unknown(_)) => {
                Err(Refusal::new(StatusCode::NOT_FOUND, "unknown_pid", error))
            }
            Err(ForgetError::Stopping) => Err(Refusal::stopping()),
            Err(error @ ForgetError::NotAllowed(_)) => {
                Err(Refusal::new(StatusCode::FORBIDDEN, "not_allowed", error))
            }
        }
    })
    .await
}

async fn unknown_path(uri: Uri) -> Refusal {
    let detail = format!("no document has the path {}", uri.path());
    Refusal::new(StatusCode::NOT_FOUND, "not_found", detail)
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let detail = format!("{} does not take {method}", uri.path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
