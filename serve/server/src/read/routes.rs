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
    get_peak, get_problems, get_processes, get_programs, get_snapshot, post_forget, post_mark,
};
use super::host::{self, HostOf};
use super::http::{Live, ReadState, Refusal, json};
use super::metrics::{MetricsQuery, get_metrics};
use super::openapi;
use super::over_time::{get_allocations, get_recording, get_timeline};
use super::page;
use super::record::{self, RecordQuery, get_record};
use super::snapshot::ServerFacts;
use crate::machine::Joined;
use crate::recorded::{Moment, Recorded};
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use ttmem_ledger::{Audience, Device, Geometry, View};
use ttmem_machine::Selector;
use ttmem_report::routes::{
    ALLOCATIONS, BLOCKS, BUFFER_GROUPS, BUFFERS, CBS, DEVICES, EVENTS, FAILURES, FORGET, HEALTH,
    HISTORY, KERNELS, L1_MAP, LAST, LEAKS, LEFT, MARK, METRICS, OPENAPI, PEAK, PROBLEMS, PROCESSES,
    PROGRAMS, READY, RECORD, RECORDING, SNAPSHOT, TIMELINE,
};
use ttmem_report::{HexId, StreamMessage, Timestamp, escape_json};

/// Of several devices, so many are named.
const MAX_NUMBERS: usize = 32;

/// The description of the read API for programs.
static DESCRIPTION: LazyLock<String> = LazyLock::new(|| openapi::describe(&table()).to_string());

/// A path with its method, what answers it, and what programs can know of it.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) summary: &'static str,
    /// Whether it is a document of one instant, which `at` may name.
    pub(super) takes_at: bool,
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
        document(
            "get",
            PROBLEMS,
            "What is wrong, what matters most first",
            get_problems,
        ),
        document("get", HISTORY, "Totals over time", get_history),
        document("get", LAST, "The last events", get_last),
        timeless(
            RECORDING,
            "Which instants can be looked back at",
            get_recording,
        )
        .refuses(404, "Nothing is recorded."),
        timeless(
            of_device(TIMELINE),
            "A class of a device over time",
            get_timeline,
        ),
        timeless(
            of_device(ALLOCATIONS),
            "Where buffers lay, and how long",
            get_allocations,
        ),
        document("post", FORGET, "Drop what a process holds", post_forget)
            .refuses(
                403,
                "Not allowed to this user, nor to anybody over TCP, nor in a recording.",
            )
            .refuses(404, "No such process is known."),
        document("post", MARK, "Set a mark", post_mark).refuses(
            403,
            "Over TCP: without a token, or asked by another web page. In a recording.",
        ),
        Route {
            query: EventsQuery::json_schema,
            ..other::<StreamMessage>(EVENTS, "text/event-stream", "What happens", get(get_events))
        }
        .refuses(404, "This is a recording: nothing happens.")
        .refuses(429, "Too many readers follow the events."),
        Route {
            query: MetricsQuery::json_schema,
            ..other::<String>(
                METRICS,
                "text/plain",
                "What a monitoring system keeps over time",
                get(get_metrics),
            )
        },
        Route {
            query: RecordQuery::json_schema,
            ..other::<String>(
                RECORD,
                record::MEDIA_TYPE,
                "A recording of what happens from now on",
                get(get_record),
            )
        }
        .refuses(
            403,
            "Names that this reader may not see; over TCP without a token.",
        )
        .refuses(
            404,
            "No such process or device is known, or this is a recording itself.",
        )
        .refuses(409, "Several devices have this number.")
        .refuses(429, "Too many readers record already."),
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
    // Files, no documents: programs have nothing to read there.
    let mut router = page::router();
    for route in table() {
        router = router.route(&route.path, route.methods);
    }
    router
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(state)
}

type Handler<Q, T> = fn(&Context, Q) -> Result<T, Refusal>;

/// A path that is answered with a document of no single instant.
fn timeless<Q, T>(path: impl Into<String>, summary: &'static str, handler: Handler<Q, T>) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    T: Serialize + JsonSchema + 'static,
{
    answering("get", path, summary, (handler, false))
}

/// A path that is answered with a document: of now, or where it is read only of any instant.
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
    answering(method, path, summary, (handler, method == "get"))
}

fn answering<Q, T>(
    method: &'static str,
    path: impl Into<String>,
    summary: &'static str,
    handler: (Handler<Q, T>, bool),
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
    let (_handler, takes_at) = handler;
    Route {
        method,
        takes_at,
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
        takes_at: false,
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
    (handler, takes_at): (Handler<Q, T>, bool),
    state: ReadState,
    requester: Requester,
    path: PathParameters,
    uri: Uri,
) -> Result<Response, Refusal>
where
    Q: DeserializeOwned + Send + 'static,
    T: Serialize + 'static,
{
    let (at, query) = if takes_at {
        let (at, rest) = split_at(&uri)?;
        (at, parsed_query(&rest)?)
    } else {
        (None, parsed_query(&uri)?)
    };
    let Path(mut path) = path.map_err(|error| Refusal::bad_request(error.body_text()))?;
    let mut context = Context {
        state,
        who: requester.who,
        device: path.remove("device").unwrap_or_default(),
        moment: None,
        gone: Arc::clone(&requester.connection.gone),
    };
    let is_over_time = [RECORDING, TIMELINE, ALLOCATIONS]
        .iter()
        .any(|path| uri.path().starts_with(path));
    let is_of_the_past = takes_at && (at.is_some() || context.state.live.is_none());
    if is_of_the_past || is_over_time {
        requester.connection.give_up_when_gone();
    }
    // Where there is nothing but a recording, nobody waits for anything else.
    let looks_back = context.state.live.is_some() && (at.is_some() || is_over_time);
    let body = blocking(requester, looks_back, move || {
        if takes_at {
            context.moment = context.state.moment(at, Some(&context.gone))?;
        }
        let document = serde_json::to_string(&handler(&context, query)?);
        document.map(escape_json).map_err(Refusal::internal)
    });
    Ok(json(StatusCode::OK, body.await?))
}

/// The instant of a document; every document of one takes it beside its own parameters.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AtQuery {
    /// The instant, where something is recorded; the nearest one that is. Without it: now, or the end
    /// of a recording that is replayed.
    at: Option<Timestamp>,
}

/// The instant that a request names, and the request without it.
fn split_at(uri: &Uri) -> Result<(Option<Timestamp>, Uri), Refusal> {
    let AtQuery { at } = parsed_query(uri)?;
    let pairs = uri.query().unwrap_or_default().split('&');
    let others: Vec<&str> = pairs
        .filter(|pair| *pair != "at" && !pair.starts_with("at="))
        .collect();
    let rest = format!("/?{}", others.join("&"));
    let rest = rest.parse().map_err(Refusal::bad_request)?;
    Ok((at, rest))
}

pub(super) fn parsed_query<Q: DeserializeOwned>(uri: &Uri) -> Result<Q, Refusal> {
    let query = Query::try_from_uri(uri);
    let Query(query) = query.map_err(|error| Refusal::bad_request(error.body_text()))?;
    Ok(query)
}

/// Does work on a blocking thread, once there is a permit for it. Work keeps its permit though its
/// reader may be gone, so that such work cannot pile up.
pub(super) async fn blocking<T: Send + 'static>(
    requester: Requester,
    looks_back: bool,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let permits = &requester.connection.permits;
    let turn = permits.document(looks_back, requester.holder).await;
    let task = tokio::task::spawn_blocking(move || {
        let outcome = work();
        drop((turn, requester));
        outcome
    });
    task.await.map_err(Refusal::internal)?
}

pub(super) struct Context {
    pub(super) state: ReadState,
    pub(super) who: Principal,
    /// What the path calls its device; empty where it has none.
    pub(super) device: String,
    /// The instant of the past that is asked about; `None` for now.
    pub(super) moment: Option<Arc<Moment>>,
    /// Set when the reader is gone, for what takes long.
    pub(super) gone: Arc<AtomicBool>,
}

impl ReadState {
    /// The instant of the past that a request is about; `None` for now.
    fn moment(
        &self,
        at: Option<Timestamp>,
        gone: Option<&Arc<AtomicBool>>,
    ) -> Result<Option<Arc<Moment>>, Refusal> {
        if at.is_none() && self.live.is_some() {
            return Ok(None);
        }
        let recorded = self.recorded.as_ref().ok_or_else(Refusal::no_recording)?;
        Ok(Some(recorded.moment(at, gone)?))
    }
}

impl Context {
    /// What is true now, or at the end of a recording that is replayed.
    pub(super) fn of_now(state: ReadState, who: Principal) -> Result<Self, Refusal> {
        Ok(Self {
            moment: state.moment(None, None)?,
            state,
            who,
            device: String::new(),
            gone: Arc::default(),
        })
    }

    /// What happens now, to change it.
    pub(super) fn live(&self) -> Result<&Live, Refusal> {
        let refused = || Refusal::not_allowed("this is a recording: nothing in it can be changed");
        self.state.live.as_ref().ok_or_else(refused)
    }

    pub(super) fn recorded(&self) -> Result<&Recorded, Refusal> {
        let recorded = self.state.recorded.as_ref();
        recorded.ok_or_else(Refusal::no_recording)
    }

    pub(super) fn audience(&self) -> Audience {
        self.state.names.audience(self.who)
    }

    pub(super) fn view(&self) -> Result<Arc<View>, Refusal> {
        let view = match &self.moment {
            Some(moment) => Arc::clone(&moment.view),
            None => {
                let view = self.live()?.ledger.wait_for_view();
                view.ok_or_else(Refusal::stopping)?
            }
        };
        Ok(match self.audience() {
            Audience::Everything => view,
            others => Arc::new(view.for_audience(others)),
        })
    }

    pub(super) fn geometry(&self, view: &View) -> Result<Arc<Geometry>, Refusal> {
        Ok(match &self.moment {
            Some(moment) => moment.geometry()?,
            None => self.state.geometry.of(view),
        })
    }

    /// What the server knows about itself, at the instant that is asked about.
    pub(super) fn facts(&self) -> ServerFacts {
        let facts = (self.state.facts)();
        match &self.moment {
            Some(moment) => ServerFacts {
                time: Timestamp::from_unix_nanos(moment.time),
                ..facts
            },
            None => facts,
        }
    }

    pub(super) fn time(&self) -> Timestamp {
        self.facts().time
    }

    /// What hosts say of processes: of those that run now, while they do.
    pub(super) fn host(&self) -> HostOf {
        match &self.moment {
            Some(_past) => host::recorded_process,
            None => host::process,
        }
    }

    /// What the machine says by itself now; nothing of the past.
    pub(super) fn machine(&self, view: &View) -> Option<Joined> {
        if self.moment.is_some() {
            return None;
        }
        self.names(view)
    }

    /// What the machine calls its devices, also those of the past.
    fn names(&self, view: &View) -> Option<Joined> {
        Joined::of(view, &self.state.live.as_ref()?.machine)
    }

    /// The place of the device that the path names.
    pub(super) fn device_in(&self, view: &View) -> Result<usize, Refusal> {
        device_named(view, &self.device, || self.names(view))
    }

    /// The places of the devices that a reader wants to see.
    pub(super) fn devices_in(&self, view: &View, name: &str) -> Result<Vec<usize>, Refusal> {
        devices_named(view, name, || self.names(view))
    }
}

/// The places of all devices that a name means: any name that a chip has. Of a card, every chip behind it.
fn devices_named(
    view: &View,
    name: &str,
    machine: impl FnOnce() -> Option<Joined>,
) -> Result<Vec<usize>, Refusal> {
    let selector: Selector = name.parse().map_err(Refusal::bad_request)?;
    let is_it = |device: &Device| match selector {
        Selector::Logical(id) => device.facts.logical_id == id,
        Selector::Id(id) => device.facts.unique_id == Some(id),
        Selector::Ordinal(_) | Selector::Bdf(_) | Selector::Tray(_) => false,
    };
    let mut found: Vec<usize> = (0..view.devices.len())
        .filter(|index| is_it(&view.devices[*index]))
        .collect();
    // A number is what processes call a device; all other names are the machine's.
    if found.is_empty() && !matches!(selector, Selector::Logical(_)) {
        found = machine().map_or_else(Vec::new, |machine| machine.meant(&selector));
    }
    if found.is_empty() {
        let detail = format!("no device {name} is known");
        return Err(Refusal::unknown("unknown_device", detail));
    }
    Ok(found)
}

/// The place of the only device that a name means.
pub(super) fn device_named(
    view: &View,
    name: &str,
    machine: impl FnOnce() -> Option<Joined>,
) -> Result<usize, Refusal> {
    let found = devices_named(view, name, machine)?;
    let device = found[0];
    if found.len() > 1 {
        // One that nobody uses any more stands in nobody's way.
        let mut in_use = found
            .iter()
            .copied()
            .filter(|index| view.devices[*index].is_in_use());
        if let (Some(only), None) = (in_use.next(), in_use.next()) {
            return Ok(only);
        }
        let numbers = found.iter().map(|index| {
            let facts = &view.devices[*index].facts;
            let id = facts.unique_id.map(|id| format!(" ({})", HexId(id)));
            format!("{}{}", facts.logical_id, id.unwrap_or_default())
        });
        let numbers: Vec<String> = numbers.take(MAX_NUMBERS).collect();
        let detail = format!(
            "several devices are called {name}: {}; name one by its number, or where these are the same by its \
             unique id",
            numbers.join(", ")
        );
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "ambiguous_device",
            detail,
        ));
    }
    Ok(device)
}

/// Ready when all that was sent before is applied.
async fn get_ready(
    State(state): State<ReadState>,
    Extension(requester): Extension<Requester>,
) -> Result<&'static str, Refusal> {
    let Some(live) = state.live else {
        // What is recorded was applied long ago.
        return Ok("ready\n");
    };
    if blocking(requester, false, move || Ok(live.ledger.catch_up())).await? {
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
