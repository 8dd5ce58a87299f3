//! The paths of the read API: the table from which both the router and the description are made.
//!
//! A document's route is a function of a query, and the types of that function are what the
//! description says. Such functions run on the blocking threads, where views, geometry, sorting and
//! JSON belong: one large answer does not hold up another.

use super::admission::Principal;
use super::connection::Requester;
use super::handlers::{
    EventsQuery, NoQuery, get_blocks, get_buffer_groups, get_buffers, get_cbs, get_device,
    get_events, get_failures, get_history, get_kernels, get_l1_map, get_last, get_leaks, get_left,
    get_peak, get_processes, get_programs, get_snapshot, post_forget, post_mark,
};
use super::http::{ReadState, Refusal, json};
use super::openapi;
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use ttmem_api::routes::{
    BLOCKS, BUFFER_GROUPS, BUFFERS, CBS, DEVICES, EVENTS, FAILURES, FORGET, HEALTH, HISTORY,
    KERNELS, L1_MAP, LAST, LEAKS, LEFT, MARK, OPENAPI, PEAK, PROCESSES, PROGRAMS, READY, SNAPSHOT,
};
use ttmem_api::{HexId, StreamMessage, Timestamp, escape_json};
use ttmem_ledger::{Audience, Device, Geometry, View};

/// The description of the read API for programs.
static DESCRIPTION: LazyLock<String> = LazyLock::new(|| openapi::describe(&table()).to_string());

/// A path with its method, what answers it, and what programs can know of it.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) summary: &'static str,
    /// An object with a property for each parameter of the query.
    pub(super) query: fn(&mut SchemaGenerator) -> Schema,
    pub(super) media_type: &'static str,
    pub(super) answer: fn(&mut SchemaGenerator) -> Schema,
    /// Codes of refusals that other paths do not have, or for other reasons.
    pub(super) refusals: Vec<(u16, &'static str)>,
    methods: MethodRouter<ReadState>,
}

pub(super) fn table() -> Vec<Route> {
    vec![
        document("get", SNAPSHOT, "All totals", get_snapshot),
        document("get", of_device(DEVICES), "One device", get_device),
        document("get", PROCESSES, "Every process", get_processes),
        document("get", BUFFERS, "Live buffers", get_buffers),
        document(
            "get",
            BUFFER_GROUPS,
            "Live buffers, summed up",
            get_buffer_groups,
        ),
        document("get", CBS, "Live circular buffers", get_cbs),
        document("get", KERNELS, "Live kernels", get_kernels),
        document("get", PROGRAMS, "Live programs", get_programs),
        document(
            "get",
            of_device(L1_MAP),
            "L1 of a device, core by core",
            get_l1_map,
        ),
        document(
            "get",
            of_device(BLOCKS),
            "A class of a device, bank by bank",
            get_blocks,
        ),
        document(
            "get",
            of_device(PEAK),
            "A peak, and what was live then",
            get_peak,
        ),
        document("get", LEFT, "What a process left behind", get_left)
            .refuses(404, "No such process is known."),
        document("get", FAILURES, "What failed, and why", get_failures),
        document(
            "get",
            LEAKS,
            "What grows from mark to mark, and what was held at the end",
            get_leaks,
        ),
        document("get", HISTORY, "Totals over time", get_history),
        document("get", LAST, "The last events", get_last),
        document("post", FORGET, "Drop what a process holds", post_forget)
            .refuses(403, "Not allowed to this user, nor to anybody over TCP.")
            .refuses(404, "No such process is known."),
        document("post", MARK, "Set a mark", post_mark).refuses(
            403,
            "Over TCP: without a token, or asked by another web page.",
        ),
        Route {
            query: EventsQuery::json_schema,
            ..other::<StreamMessage>(EVENTS, "text/event-stream", "What happens", get(get_events))
        }
        .refuses(429, "Too many readers follow the events."),
        other::<String>(
            HEALTH,
            "text/plain",
            "Whether the server is up",
            get(async || "ok\n"),
        ),
        other::<String>(
            READY,
            "text/plain",
            "Whether all that was sent before is applied",
            get(get_ready),
        ),
        other::<serde_json::Map<String, serde_json::Value>>(
            OPENAPI,
            "application/json",
            "This document",
            get(async || json(StatusCode::OK, DESCRIPTION.as_str())),
        ),
    ]
}

fn of_device(path: &str) -> String {
    format!("{path}/{{device}}")
}

pub(super) fn router(state: ReadState) -> Router {
    let mut router = Router::new();
    for route in table() {
        router = router.route(&route.path, route.methods);
    }
    router
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(state)
}

type Handler<Q, T> = fn(&Context, Q) -> Result<T, Refusal>;

/// A path that is answered with a document.
fn document<Q, T>(
    method: &'static str,
    path: impl Into<String>,
    summary: &'static str,
    handler: Handler<Q, T>,
) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    T: Serialize + JsonSchema + 'static,
{
    let answering =
        move |State(state): State<ReadState>,
              Extension(requester): Extension<Requester>,
              path: PathParameters,
              uri: Uri| answered(handler, state, requester, path, uri);
    let methods = match method {
        "post" => post(answering),
        _get => get(answering),
    };
    Route {
        method,
        query: Q::json_schema,
        ..other::<T>(path, "application/json", summary, methods)
    }
}

/// A path that takes no parameters, unless it says something else, and what it is answered with.
fn other<T: JsonSchema>(
    path: impl Into<String>,
    media_type: &'static str,
    summary: &'static str,
    methods: MethodRouter<ReadState>,
) -> Route {
    Route {
        method: "get",
        path: path.into(),
        summary,
        query: NoQuery::json_schema,
        media_type,
        answer: SchemaGenerator::subschema_for::<T>,
        refusals: Vec::new(),
        methods,
    }
}

impl Route {
    fn refuses(mut self, code: u16, reason: &'static str) -> Self {
        self.refusals.push((code, reason));
        self
    }
}

/// The parameters of a path, unless they are no text.
type PathParameters = Result<Path<HashMap<String, String>>, PathRejection>;

async fn answered<Q, T>(
    handler: Handler<Q, T>,
    state: ReadState,
    requester: Requester,
    path: PathParameters,
    uri: Uri,
) -> Result<Response, Refusal>
where
    Q: DeserializeOwned + Send + 'static,
    T: Serialize + 'static,
{
    let query = parsed_query(&uri)?;
    let Path(mut path) = path.map_err(|error| Refusal::bad_request(error.body_text()))?;
    let context = Context {
        state,
        who: requester.who,
        device: path.remove("device").unwrap_or_default(),
    };
    let body = blocking(requester, move || {
        let document = serde_json::to_string(&handler(&context, query)?);
        document.map(escape_json).map_err(Refusal::internal)
    });
    Ok(json(StatusCode::OK, body.await?))
}

pub(super) fn parsed_query<Q: DeserializeOwned>(uri: &Uri) -> Result<Q, Refusal> {
    let query = Query::try_from_uri(uri);
    let Query(query) = query.map_err(|error| Refusal::bad_request(error.body_text()))?;
    Ok(query)
}

/// Does work on a blocking thread, once there is a permit for it. Work keeps its permit though its
/// reader may be gone, so that such work cannot pile up.
async fn blocking<T: Send + 'static>(
    requester: Requester,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let permit = requester.connection.permits.document().await;
    let task = tokio::task::spawn_blocking(move || {
        let outcome = work();
        drop((permit, requester));
        outcome
    });
    task.await.map_err(Refusal::internal)?
}

pub(super) struct Context {
    pub(super) state: ReadState,
    pub(super) who: Principal,
    /// What the path calls its device; empty where it has none.
    pub(super) device: String,
}

impl Context {
    pub(super) fn view(&self) -> Result<Arc<View>, Refusal> {
        let view = self.state.ledger.wait_for_view();
        let view = view.ok_or_else(Refusal::stopping)?;
        Ok(match self.state.names.audience(self.who) {
            Audience::Everything => view,
            others => Arc::new(view.for_audience(others)),
        })
    }

    pub(super) fn geometry(&self, view: &View) -> Arc<Geometry> {
        self.state.geometry.of(view)
    }

    pub(super) fn time(&self) -> Timestamp {
        (self.state.facts)().time
    }

    /// The place of the device that the path names, by its logical id or by its unique id in hex.
    pub(super) fn device_in(&self, view: &View) -> Result<usize, Refusal> {
        let name = &self.device;
        let is_it: Box<dyn Fn(&Device) -> bool> = if let Ok(HexId(id)) = name.parse() {
            Box::new(move |device| device.facts.unique_id == Some(id))
        } else if let Some(id) = ttmem_api::decimal::<u64>(name) {
            Box::new(move |device| u64::from(device.facts.logical_id) == id)
        } else {
            let detail = format!("{name} is neither a logical id nor a unique id in hex");
            return Err(Refusal::bad_request(detail));
        };
        let mut found = (0..view.devices.len()).filter(|index| is_it(&view.devices[*index]));
        let Some(device) = found.next() else {
            return Err(Refusal::unknown(
                "unknown_device",
                format!("no device {name} is known"),
            ));
        };
        let others: Vec<usize> = found.collect();
        if !others.is_empty() {
            // One that nobody uses any more stands in nobody's way.
            let mut in_use = others
                .into_iter()
                .chain([device])
                .filter(|index| view.devices[*index].is_in_use());
            if let (Some(only), None) = (in_use.next(), in_use.next()) {
                return Ok(only);
            }
            let detail = format!(
                "several devices are called {name}, each in another set of visible devices: \
                 name one by its unique id"
            );
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "ambiguous_device",
                detail,
            ));
        }
        Ok(device)
    }
}

/// Ready when all that was sent before is applied.
async fn get_ready(
    State(state): State<ReadState>,
    Extension(requester): Extension<Requester>,
) -> Result<&'static str, Refusal> {
    if blocking(requester, move || Ok(state.ledger.catch_up())).await? {
        Ok("ready\n")
    } else {
        Err(Refusal::stopping())
    }
}

async fn unknown_path(uri: Uri) -> Refusal {
    Refusal::unknown(
        "not_found",
        format!("no document has the path {}", uri.path()),
    )
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    let detail = format!("{} does not take {method}", uri.path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
