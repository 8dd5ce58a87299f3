//! What each path of the read API answers.

use super::blocks;
use super::connection::Requester;
use super::failures;
use super::http::{ReadState, Refusal};
use super::l1map;
use super::leaks;
use super::of_process::{self, Wanted};
use super::peak;
use super::program_rows;
use super::routes::{Context, parsed_query};
use super::rows::{self, PageRequest};
use super::select::{self, Selection};
use super::snapshot;
use super::vocabulary;
use crate::history::Histories;
use crate::ledger_thread::ForgetError;
use crate::recorded::MAX_POINTS;
use crate::stream::Streams;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use ttmem_ledger::{Departure, View};
use ttmem_report::{
    BlockMap, BufferGroups, BufferPage, BufferQuery, CbRow, DeviceDetail, Failures, Forgotten,
    History, KernelRow, L1Map, LastEvents, Leaks, LeftBehind, MAX_PAGE_ROWS, Mark, Marked,
    MemoryClass, Page, PeakContents, PeakOf, Problems, Processes, ProgramRow, SCHEMA, Snapshot,
};

/// The query of a document that is asked for without parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoQuery {}

/// A number that a reader gave, or the usual one, within its bounds.
pub(super) fn bounded(
    name: &str,
    given: Option<u32>,
    usual: u32,
    most: u32,
) -> Result<u32, Refusal> {
    within(name, given.unwrap_or(usual), 1..=most)
}

pub(super) fn within(
    name: &str,
    number: u32,
    bounds: std::ops::RangeInclusive<u32>,
) -> Result<u32, Refusal> {
    if bounds.contains(&number) {
        return Ok(number);
    }
    let (least, most) = bounds.into_inner();
    let detail = format!("{name} {number} is not between {least} and {most}");
    Err(Refusal::bad_request(detail))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotQuery {
    /// The devices alone that this names, and who uses them: a logical id, a device node, a PCI address, or the number of a
    /// chip or board.
    #[schemars(extend("pattern" = DEVICE_NAMES))]
    device: Option<String>,
}

/// What a device is called, but for the rarer names.
const DEVICE_NAMES: &str = "^([0-9]{1,9}|0x[0-9a-fA-F]{1,16}|/dev/tenstorrent/[0-9]{1,9}|[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\\.[0-7])?$";

pub(super) fn get_snapshot(context: &Context, query: SnapshotQuery) -> Result<Snapshot, Refusal> {
    snapshot_of(context, &*context.view()?, query)
}

fn snapshot_of(context: &Context, view: &View, query: SnapshotQuery) -> Result<Snapshot, Refusal> {
    let named = query.device.filter(|name| !name.is_empty());
    let wanted = named.map(|name| context.devices_in(view, &name));
    let wanted = wanted.transpose()?;
    let (geometry, facts) = (context.geometry(view)?, context.facts());
    let machine = context.machine(view);
    let said = (context.host(), machine.as_ref());
    let wanted = wanted.as_deref();
    Ok(snapshot::snapshot(view, &geometry, facts, said, wanted))
}

pub(super) fn get_device(context: &Context, NoQuery {}: NoQuery) -> Result<DeviceDetail, Refusal> {
    let view = context.view()?;
    let (index, geometry) = (context.device_in(&view)?, context.geometry(&view)?);
    let when = (context.time(), context.host());
    let machine = context.machine(&view);
    Ok(snapshot::device_detail(
        &view,
        &geometry,
        index,
        when,
        machine.as_ref(),
    ))
}

pub(super) fn get_processes(context: &Context, NoQuery {}: NoQuery) -> Result<Processes, Refusal> {
    let (processes, _left_out) = snapshot::processes(&*context.view()?, context.host());
    Ok(Processes {
        schema: SCHEMA,
        time: context.time(),
        processes,
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// Behind the row that a page ended with.
    cursor: Option<String>,
    /// At most so many rows.
    #[schemars(range(min = 1, max = MAX_PAGE_ROWS))]
    limit: Option<u32>,
}

/// A page that `rows` makes of a view.
fn page<T>(
    context: &Context,
    query: &PageQuery,
    rows: fn(&View, PageRequest) -> T,
) -> Result<T, Refusal> {
    let request = PageRequest::new(query.cursor.as_deref(), query.limit)?;
    Ok(rows(&*context.view()?, request))
}

pub(super) fn get_cbs(context: &Context, query: PageQuery) -> Result<Page<CbRow>, Refusal> {
    page(context, &query, rows::cbs)
}

pub(super) fn get_kernels(context: &Context, query: PageQuery) -> Result<Page<KernelRow>, Refusal> {
    page(context, &query, rows::kernels)
}

pub(super) fn get_programs(
    context: &Context,
    query: PageQuery,
) -> Result<Page<ProgramRow>, Refusal> {
    page(context, &query, program_rows::programs)
}

pub(super) fn get_buffers(context: &Context, query: BufferQuery) -> Result<BufferPage, Refusal> {
    let selection = Selection::of(query)?;
    Ok(select::buffers(&*context.view()?, &selection))
}

pub(super) fn get_buffer_groups(
    context: &Context,
    query: BufferQuery,
) -> Result<BufferGroups, Refusal> {
    let selection = Selection::of(query)?;
    let view = context.view()?;
    Ok(select::groups(&view, &selection, context.time()))
}

/// The query of an L1 map: a core to look at closely.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct L1MapQuery {
    /// The column of a core to look at closely.
    x: Option<u16>,
    y: Option<u16>,
}

pub(super) fn get_l1_map(context: &Context, query: L1MapQuery) -> Result<L1Map, Refusal> {
    let core = query.x.zip(query.y);
    if core.is_none() && (query.x, query.y) != (None, None) {
        return Err(Refusal::bad_request("a core has both x and y"));
    }
    let view = context.view()?;
    let index = context.device_in(&view)?;
    if let Some((x, y)) = core.filter(|(x, y)| !l1map::has_core(&view, index, *x, *y)) {
        let detail = format!("device {} has no compute core {x},{y}", context.device);
        return Err(Refusal::unknown("unknown_core", detail));
    }
    let (geometry, time) = (context.geometry(&view)?, context.time());
    Ok(l1map::l1_map(&view, &geometry, index, core, time))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlocksQuery {
    /// The class; `dram` by default.
    class: Option<MemoryClass>,
    /// At most so many cells of equal width; 256 by default.
    #[schemars(range(min = 1, max = blocks::MAX_CELLS))]
    cells: Option<u32>,
}

pub(super) fn get_blocks(context: &Context, query: BlocksQuery) -> Result<BlockMap, Refusal> {
    let class = vocabulary::class_named(query.class.unwrap_or(MemoryClass::Dram));
    let class = class.ok_or_else(|| Refusal::unknown_word("class"))?;
    let cells = bounded(
        "cells",
        query.cells,
        blocks::DEFAULT_CELLS,
        blocks::MAX_CELLS,
    )?;
    let view = context.view()?;
    let (index, geometry) = (context.device_in(&view)?, context.geometry(&view)?);
    let time = context.time();
    Ok(blocks::block_map(
        &view, &geometry, index, class, cells, time,
    ))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PeakQuery {
    /// Of what the peak is; of `dram` by default.
    of: Option<PeakOf>,
    /// Of this process, also when it is gone; of the device over all processes by default.
    pid: Option<u32>,
    /// Of this instance of a process.
    instance: Option<String>,
}

pub(super) fn get_peak(context: &Context, query: PeakQuery) -> Result<PeakContents, Refusal> {
    let of = query.of.unwrap_or(PeakOf::Dram);
    let wanted = Wanted {
        pid: query.pid,
        instance: query.instance.as_deref(),
    };
    let of_process = wanted.pid.is_some() || wanted.instance.is_some();
    let gauge = peak::gauge(of).ok_or_else(|| Refusal::unknown_word("of"))?;
    let view = context.view()?;
    let index = context.device_in(&view)?;
    let of_whom = of_process.then_some(wanted);
    let found = peak::contents(&view, index, (of, gauge), of_whom, context.time());
    found.ok_or_else(|| {
        let detail = format!("no such process on device {}", context.device);
        Refusal::unknown("unknown_process", detail)
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeftQuery {
    /// The process, also when it is gone.
    pid: Option<u32>,
    /// The instance of the process.
    instance: Option<String>,
}

pub(super) fn get_left(context: &Context, query: LeftQuery) -> Result<LeftBehind, Refusal> {
    let wanted = Wanted {
        pid: query.pid,
        instance: query.instance.as_deref(),
    };
    if query.pid.is_none() && query.instance.is_none() {
        return Err(Refusal::bad_request("neither pid nor instance is given"));
    }
    let found = of_process::left(&*context.view()?, wanted, context.time());
    found.ok_or_else(|| Refusal::unknown("unknown_process", "no such process is known"))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FailuresQuery {
    /// How many at most, the newest first; 16 by default.
    #[schemars(range(min = 1, max = failures::MAX_COUNT))]
    count: Option<u32>,
}

pub(super) fn get_failures(context: &Context, query: FailuresQuery) -> Result<Failures, Refusal> {
    let (usual, most) = (failures::DEFAULT_COUNT, failures::MAX_COUNT);
    let count = bounded("count", query.count, usual, most)?;
    Ok(failures::failures(&*context.view()?, count))
}

pub(super) fn get_leaks(context: &Context, NoQuery {}: NoQuery) -> Result<Leaks, Refusal> {
    Ok(leaks::leaks(&*context.view()?, context.time()))
}

pub(super) fn get_problems(context: &Context, query: SnapshotQuery) -> Result<Problems, Refusal> {
    let view = context.view()?;
    let snapshot = snapshot_of(context, &view, query)?;
    let failures = failures::failures(&view, failures::MAX_COUNT).failures;
    let leaks = leaks::leaks(&view, context.time());
    Ok(Problems {
        schema: SCHEMA,
        time: snapshot.time,
        problems: ttmem_report::problems(&snapshot, &failures, &leaks),
    })
}

const DEFAULT_HISTORY: u32 = 600;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    /// How far back; 600 by default.
    #[schemars(range(min = 1, max = Histories::longest_seconds()))]
    seconds: Option<u32>,
    /// Of a recording: at most so many steps, also shorter than a second; those of a server that runs by default.
    #[schemars(range(min = 1, max = MAX_POINTS))]
    points: Option<u32>,
}

pub(super) fn get_history(context: &Context, query: HistoryQuery) -> Result<History, Refusal> {
    let longest = Histories::longest_seconds();
    let seconds = bounded("seconds", query.seconds, DEFAULT_HISTORY, longest)?;
    let points = match query.points {
        None => None,
        points => Some(bounded("points", points, MAX_POINTS, MAX_POINTS)?),
    };
    if let Some(moment) = &context.moment {
        return Ok(context
            .recorded()?
            .history(moment, (seconds, points), Some(&context.gone))?);
    }
    let histories = &context.live()?.histories;
    Ok(histories.document(context.time(), seconds))
}

const DEFAULT_LAST: u32 = 100;

const MAX_LAST: u32 = 10_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LastQuery {
    /// How many at most; 100 by default.
    #[schemars(range(min = 1, max = MAX_LAST))]
    count: Option<u32>,
    /// Of this process; of all by default.
    pid: Option<u32>,
}

pub(super) fn get_last(context: &Context, query: LastQuery) -> Result<LastEvents, Refusal> {
    let count = bounded("count", query.count, DEFAULT_LAST, MAX_LAST)?;
    if let Some(moment) = &context.moment {
        let (view, which) = (context.view()?, (count as usize, query.pid));
        return Ok(context
            .recorded()?
            .last(moment, &view, which, Some(&context.gone))?);
    }
    // The view comes second: it knows all that these events refer to.
    let last = context.live()?.journal.last(count as usize, query.pid);
    Ok(last.document(&*context.view()?))
}

/// The longest name of a mark, in characters: at most 512 bytes, as all texts of clients.
const MAX_MARK_CHARS: usize = 128;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkQuery {
    /// Its name: at most 128 characters, none of them a control character.
    #[schemars(
        length(max = MAX_MARK_CHARS),
        extend("pattern" = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")
    )]
    name: Option<String>,
}

pub(super) fn post_mark(context: &Context, query: MarkQuery) -> Result<Marked, Refusal> {
    let live = context.live()?;
    let uid = context.who.may_mark()?;
    let name = query.name.unwrap_or_default();
    if name.chars().count() > MAX_MARK_CHARS || name.contains(char::is_control) {
        let detail = format!(
            "a mark's name has at most {MAX_MARK_CHARS} characters, none of them a control character"
        );
        return Err(Refusal::bad_request(detail));
    }
    let time = context.time();
    let number = live
        .ledger
        .mark(uid, name.as_str().into(), time.unix_nanos());
    let number = number.ok_or_else(Refusal::stopping)?;
    let mark = Mark {
        name,
        name_hidden: false,
        number,
        time,
    };
    Ok(Marked {
        schema: SCHEMA,
        mark,
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetQuery {
    pid: u32,
}

pub(super) fn post_forget(context: &Context, query: ForgetQuery) -> Result<Forgotten, Refusal> {
    let ForgetQuery { pid } = query;
    let live = context.live()?;
    let uid = context.who.user()?;
    let time = context.time().unix_nanos();
    let forgotten = live.ledger.forget(pid, uid, time);
    let released = forgotten.map_err(|error| match error {
        ForgetError::Unknown(_) => Refusal::unknown("unknown_pid", error),
        ForgetError::NotAllowed(_) => Refusal::not_allowed(error),
        ForgetError::Stopping => Refusal::stopping(),
    })?;
    let reason = Departure::Forgotten.name();
    Ok(Forgotten {
        schema: SCHEMA,
        pid,
        released: released
            .iter()
            .map(|each| snapshot::released(each, time, reason))
            .collect(),
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// The last id that was seen.
    after: Option<u64>,
    /// Without one: begins with the newest events, so many.
    last: Option<u32>,
}

/// The header with which a reader comes back to a stream.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn get_events(
    State(state): State<ReadState>,
    Extension(requester): Extension<Requester>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Refusal> {
    let query: EventsQuery = parsed_query(&uri)?;
    let live = state.live.clone().ok_or_else(|| {
        let detail =
            "this is a recording, in which nothing happens: ask for the last events at an instant";
        Refusal::unknown("no_events", detail)
    })?;
    let known = headers.get(LAST_EVENT_ID);
    let known = known.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    // A browser that reconnects asks as before, and says in the header where it was.
    let newest = |last| live.journal.newest().saturating_sub(u64::from(last));
    let after = query.after.or(known).or(query.last.map(newest));
    let permits = &requester.connection.permits;
    let (permit, timeout) = (
        permits.stream(requester.holder)?,
        permits.limits.stream_timeout,
    );
    let started = (state.facts)().server.started;
    let audience = state.names.audience(requester.who);
    let streams = Streams::new(live.ledger.clone(), live.journal.clone(), audience);
    let (body, ended) = streams.open(after, started, permit, timeout);
    requester.connection.stream(ended);
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
