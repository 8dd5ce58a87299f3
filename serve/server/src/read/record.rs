//! A recording as an answer: what happens from now on, until its reader has enough.

use super::connection::Requester;
use super::http::{Live, ReadState, Refusal};
use super::routes::{device_named, parsed_query};
use crate::machine::Joined;
use crate::recorder::StreamedRecording;
use crate::stream::StreamBody;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderValue, Uri, header};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use ttmem_ledger::{Audience, Part, View};
use ttmem_record::WriterOptions;

pub(super) const MEDIA_TYPE: &str = "application/vnd.ttmem.recording";

/// The least that is of any use.
const MIN_BYTES: u64 = 4096;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordQuery {
    /// This process alone; the recording ends when it does.
    pid: Option<u32>,
    /// The processes that use this device alone: any of its names.
    device: Option<String>,
    /// Without names, paths and command lines.
    #[serde(default)]
    redact: bool,
    /// The most bytes that it may have.
    #[schemars(range(min = MIN_BYTES))]
    max_bytes: Option<u64>,
}

pub(super) async fn get_record(
    State(state): State<ReadState>,
    Extension(requester): Extension<Requester>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let query: RecordQuery = parsed_query(&uri)?;
    if query.max_bytes.is_some_and(|most| most < MIN_BYTES) {
        let detail = format!("max_bytes is at least {MIN_BYTES}");
        return Err(Refusal::bad_request(detail));
    }
    let live = state.live.clone().ok_or_else(|| {
        let detail = "this is a recording: nothing happens that could be recorded";
        Refusal::unknown("no_events", detail)
    })?;
    requester.who.may_record()?;
    let audience = state.names.audience(requester.who);
    let part = part(&live, &query, audience).await?;
    let permits = &requester.connection.permits;
    let permit = permits.recording(audience)?;
    let recording = StreamedRecording {
        options: WriterOptions {
            redact: query.redact,
            part,
            max_bytes: query.max_bytes,
            ..WriterOptions::default()
        },
        timeout: permits.limits.stream_timeout,
    };
    let running = live.recordings.start(recording, permit);
    let mut running = running.map_err(Refusal::internal)?;
    let Some(first) = running.pieces.recv().await else {
        let reason = running.failure();
        let reason = reason.unwrap_or_else(|| "the server is stopping".to_owned());
        return Err(Refusal::new(
            axum::http::StatusCode::SERVICE_UNAVAILABLE,
            "not_recorded",
            reason,
        ));
    };
    requester.connection.record(running.ended, running.end);
    let body = StreamBody::beginning_with(first, running.pieces);
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static(MEDIA_TYPE);
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Which part is recorded, if the reader may have it.
async fn part(
    live: &Live,
    query: &RecordQuery,
    audience: Audience,
) -> Result<Option<Part>, Refusal> {
    if query.pid.is_some() && query.device.is_some() {
        return Err(Refusal::bad_request("pid and device exclude each other"));
    }
    let owner = match (audience, query.redact) {
        (Audience::Everything, _) | (_, true) => None,
        (Audience::User(uid), false) if query.pid.is_some() => Some(uid),
        (Audience::User(_), false) => {
            return Err(Refusal::not_allowed(
                "a recording has the names of other users' programs, which only the server's \
                 user sees: record without names (redact), or one process of yours (pid)",
            ));
        }
        (Audience::Nobody, false) => {
            return Err(Refusal::not_allowed(
                "names are not shown over TCP here: record without them (redact), or start the \
                 server with --http-names",
            ));
        }
    };
    if query.pid.is_none() && query.device.is_none() {
        return Ok(None);
    }
    let view = live.ledger.view().await.ok_or_else(Refusal::stopping)?;
    if let Some(pid) = query.pid {
        let part = Part::Process { pid, uid: owner };
        check_process(&view, pid, &part)?;
        return Ok(Some(part));
    }
    let name = query.device.as_deref().unwrap_or_default();
    let names = || Joined::of(&view, &live.machine);
    let device = device_named(&view, name, names)?;
    Ok(Some(Part::Device(view.devices[device].key.clone())))
}

fn check_process(view: &View, pid: u32, part: &Part) -> Result<(), Refusal> {
    let mut identities = view.processes.iter().map(|process| &process.facts.identity);
    if identities.any(|identity| part.is_process(identity)) {
        return Ok(());
    }
    let mut identities = view.processes.iter().map(|process| &process.facts.identity);
    if identities.any(|identity| identity.pid == Some(pid)) {
        let detail =
            format!("process {pid} belongs to another user: record it without names (redact)");
        return Err(Refusal::not_allowed(detail));
    }
    let detail = format!("no process {pid} is tracked");
    Err(Refusal::unknown("unknown_pid", detail))
}
