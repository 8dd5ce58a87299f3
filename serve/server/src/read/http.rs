//! What readers are answered from, and how a request is refused.

use super::admission::Principal;
use super::geometry_cache::GeometryCache;
use super::metrics::DeviceSeries;
use super::snapshot::ServerFacts;
use crate::history::Histories;
use crate::journal::Journal;
use crate::ledger_thread::LedgerHandle;
use crate::machine::MachineFigures;
use crate::recorded::{Recorded, RecordedError};
use crate::recorder::StreamedRecordings;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::fmt;
use std::sync::Arc;
use ttmem_ledger::Audience;
use ttmem_record::ReadError;
use ttmem_report::{ErrorBody, SCHEMA, escape_json};

#[derive(Clone)]
pub struct ReadState {
    /// What happens now; `None` where a recording is all there is.
    pub(crate) live: Option<Live>,
    /// What was recorded, where anything is.
    pub(crate) recorded: Option<Recorded>,
    /// What the server knows about itself, asked once per request.
    pub facts: Arc<dyn Fn() -> ServerFacts + Send + Sync>,
    pub geometry: GeometryCache,
    /// Which devices have samples in `/metrics`.
    pub series: DeviceSeries,
    pub names: NamePolicy,
}

/// What readers learn of what happens now.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) ledger: LedgerHandle,
    pub(crate) histories: Histories,
    pub(crate) journal: Journal,
    pub(crate) recordings: StreamedRecordings,
    /// What the machine says by itself.
    pub(crate) machine: MachineFigures,
}

/// Who is shown names, commands and lines of processes.
#[derive(Clone, Copy, Debug)]
pub struct NamePolicy {
    /// The server's own user, who sees them all, as root does; other users see those of their own.
    pub server_uid: u32,
    /// Whether readers over TCP, of whom no user is known, see them all as well.
    pub over_tcp: bool,
}

impl NamePolicy {
    pub(super) fn audience(self, who: Principal) -> Audience {
        match who {
            Principal::User(uid) if uid == 0 || uid == self.server_uid => Audience::Everything,
            Principal::User(uid) => Audience::User(uid),
            Principal::Anonymous | Principal::Bearer if self.over_tcp => Audience::Everything,
            Principal::Anonymous | Principal::Bearer => Audience::Nobody,
        }
    }
}

impl fmt::Debug for ReadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadState")
            .field("live", &self.live)
            .field("recorded", &self.recorded)
            .finish_non_exhaustive()
    }
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

    pub(super) fn internal(detail: impl fmt::Display) -> Self {
        let detail = format!("the answer could not be made: {detail}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// What is asked for does not exist.
    pub(super) fn unknown(error: &'static str, detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, error, detail)
    }

    /// A parameter has a word that is not one of those that are known.
    pub(super) fn unknown_word(parameter: &str) -> Self {
        Self::bad_request(format!("{parameter} is not known here"))
    }

    pub(super) fn not_allowed(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::FORBIDDEN, "not_allowed", detail)
    }

    /// Nothing is recorded here.
    pub(super) fn no_recording() -> Self {
        let detail = "this server has no recording to look back into: serve --record makes one, \
                      and replay shows one";
        Self::unknown("no_recording", detail)
    }

    pub(super) fn stopping() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the server is stopping",
        )
    }

    pub(super) fn busy() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "too many readers at once",
        )
    }

    /// The body, also for those who write it without a router.
    pub(super) fn body(&self) -> Vec<u8> {
        let problem = ErrorBody {
            schema: SCHEMA,
            error: self.error.to_owned(),
            detail: self.detail.clone(),
        };
        // Two strings and a number always have a JSON form.
        let body = serde_json::to_string(&problem).unwrap_or_default();
        escape_json(body).into_bytes()
    }
}

impl From<RecordedError> for Refusal {
    fn from(error: RecordedError) -> Self {
        match error {
            RecordedError::Nothing => Self::unknown("no_recording", error),
            RecordedError::Busy | RecordedError::Gone => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", error)
            }
            RecordedError::Read(ReadError::Io(_)) => Self::internal(error.in_words()),
            RecordedError::Read(_) | RecordedError::Open { .. } => {
                Self::unknown("unreadable", error.in_words())
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = json(self.code, self.body());
        let header = match self.code {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                (header::RETRY_AFTER, "1")
            }
            StatusCode::UNAUTHORIZED => (header::WWW_AUTHENTICATE, "Bearer realm=\"ttmem\""),
            _other => return response,
        };
        let (name, value) = header;
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
        response
    }
}

pub(super) fn json(code: StatusCode, body: impl Into<Body>) -> Response {
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
