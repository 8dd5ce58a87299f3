//! What each path of the read API answers.
//!
//! Handlers run on the HTTP thread: they take a request apart, and the answer is made elsewhere.

use super::blocks;
use super::http::{Ask, Refusal};
use super::l1map;
use super::peak;
use super::programs;
use super::rows::{self, PageRequest};
use super::select::{self, SelectError, Selection};
use super::snapshot::{device_detail, processes, released, snapshot};
use super::words;
use crate::history::Histories;
use crate::ledger_thread::ForgetError;
use crate::stream::Pace;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use ttmem_api::{
    BufferQuery, Forgotten, GroupBy, HexId, Mark, Marked, MemoryClass, PeakOf, Processes, SCHEMA,
};
use ttmem_ledger::{Device, View};

/// What becomes of a request.
type Answer = Result<Response, Refusal>;

/// The query of a document that is asked for without parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoQuery {}

pub(super) async fn get_snapshot(ask: Ask<NoQuery>) -> Answer {
    ask.document(|moment| {
        let facts = (moment.state.facts)();
        Ok(snapshot(&moment.view, &moment.geometry(), facts))
    })
    .await
}

/// The query of a page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    cursor: Option<String>,
    limit: Option<u32>,
}

/// Answers with a page that `rows` makes of a view.
async fn page<T: Serialize + 'static>(
    ask: Ask<PageQuery>,
    rows: fn(&View, PageRequest) -> T,
) -> Answer {
    let PageQuery { cursor, limit } = &ask.query;
    let request = PageRequest::new(cursor.as_deref(), *limit).map_err(Refusal::bad_request)?;
    ask.document(move |moment| Ok(rows(&moment.view, request)))
        .await
}

pub(super) async fn get_programs(ask: Ask<PageQuery>) -> Answer {
    page(ask, programs::programs).await
}

pub(super) async fn get_cbs(ask: Ask<PageQuery>) -> Answer {
    page(ask, rows::cbs).await
}

pub(super) async fn get_kernels(ask: Ask<PageQuery>) -> Answer {
    page(ask, rows::kernels).await
}

pub(super) async fn get_processes(ask: Ask<NoQuery>) -> Answer {
    ask.document(|moment| {
        let (processes, _left_out) = processes(&moment.view);
        Ok(Processes {
            schema: SCHEMA,
            time: moment.state.time(),
            processes,
        })
    })
    .await
}

pub(super) async fn get_buffers(ask: Ask<BufferQuery>) -> Answer {
    let selection = Selection::of(&ask.query).map_err(Refusal::bad_request)?;
    ask.document(move |moment| Ok(select::buffers(&moment.view, &selection)))
        .await
}

pub(super) async fn get_buffer_groups(ask: Ask<BufferQuery>) -> Answer {
    let selection = Selection::of(&ask.query).map_err(Refusal::bad_request)?;
    let by = ask.query.by.unwrap_or(GroupBy::Operation);
    if by == GroupBy::Other {
        return Err(Refusal::bad_request(SelectError::Word("by")));
    }
    ask.document(move |moment| {
        let time = moment.state.time();
        Ok(select::groups(&moment.view, &selection, by, time))
    })
    .await
}

/// Seconds of history that a reader gets who does not say how many.
const DEFAULT_HISTORY: u32 = 600;

/// The query of a history.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    seconds: Option<u32>,
}

pub(super) async fn get_history(ask: Ask<HistoryQuery>) -> Answer {
    let seconds = ask.query.seconds.unwrap_or(DEFAULT_HISTORY);
    let longest = Histories::longest_seconds();
    if !(1..=longest).contains(&seconds) {
        let detail = format!("seconds {seconds} is not between 1 and {longest}");
        return Err(Refusal::bad_request(detail));
    }
    ask.answer(move |state| Ok(state.histories.document(state.time(), seconds)))
        .await
}

/// Events that a reader gets who does not say how many.
const DEFAULT_LAST: u32 = 100;

/// The most events that a reader gets.
const MAX_LAST: u32 = 10_000;

/// The query of the last events.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LastQuery {
    count: Option<u32>,
    pid: Option<u32>,
}

pub(super) async fn get_last(ask: Ask<LastQuery>) -> Answer {
    let LastQuery { count, pid } = ask.query;
    let count = count.unwrap_or(DEFAULT_LAST);
    if !(1..=MAX_LAST).contains(&count) {
        let detail = format!("count {count} is not between 1 and {MAX_LAST}");
        return Err(Refusal::bad_request(detail));
    }
    ask.answer(move |state| {
        // The view comes second: it knows all that these events refer to.
        let last = state.journal.last(count as usize, pid);
        let view = state.ledger.wait_for_view();
        Ok(last.document(&*view.ok_or_else(Refusal::stopping)?))
    })
    .await
}

/// The last part of a path, if it is text.
pub(super) type MaybeName = Result<Path<String>, PathRejection>;

/// The name in a path, or why there is none.
fn named(name: MaybeName) -> Result<String, Refusal> {
    let Path(name) = name.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    Ok(name)
}

/// The device that a path names: by its logical id, or by its unique id in hex.
fn device_named(view: &View, name: &str) -> Result<usize, Refusal> {
    let is_it: Box<dyn Fn(&Device) -> bool> = if let Ok(HexId(id)) = name.parse() {
        Box::new(move |device| device.facts.unique_id == Some(id))
    } else if let Some(id) = decimal(name) {
        Box::new(move |device| u64::from(device.facts.logical_id) == id)
    } else {
        let detail = format!("{name} is neither a logical id nor a unique id in hex");
        return Err(Refusal::bad_request(detail));
    };
    let mut found = (0..view.devices.len()).filter(|index| is_it(&view.devices[*index]));
    let Some(device) = found.next() else {
        let detail = format!("no device {name} is known");
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "unknown_device",
            detail,
        ));
    };
    if found.next().is_some() {
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

/// Digits only: `parse` would also take a sign. More than any device's id may have: such a number
/// is a name, if of no device.
fn decimal(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

pub(super) async fn get_device(name: MaybeName, ask: Ask<NoQuery>) -> Answer {
    let name = named(name)?;
    ask.document(move |moment| {
        let index = device_named(&moment.view, &name)?;
        let time = moment.state.time();
        Ok(device_detail(&moment.view, &moment.geometry(), index, time))
    })
    .await
}

/// The query of an L1 map: a core to look at closely.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct L1MapQuery {
    x: Option<u16>,
    y: Option<u16>,
}

pub(super) async fn get_l1_map(name: MaybeName, ask: Ask<L1MapQuery>) -> Answer {
    let (name, query) = (named(name)?, &ask.query);
    let core = match (query.x, query.y) {
        (Some(x), Some(y)) => Some((x, y)),
        (None, None) => None,
        _half => return Err(Refusal::bad_request("a core has both x and y")),
    };
    ask.document(move |moment| {
        let view = &moment.view;
        let index = device_named(view, &name)?;
        if let Some((x, y)) = core.filter(|(x, y)| !l1map::has_core(view, index, *x, *y)) {
            let detail = format!("device {name} has no compute core {x},{y}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, "unknown_core", detail));
        }
        let (geometry, time) = (moment.geometry(), moment.state.time());
        Ok(l1map::l1_map(view, &geometry, index, core, time))
    })
    .await
}

/// The query of a block map.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BlocksQuery {
    class: Option<MemoryClass>,
    cells: Option<u32>,
}

pub(super) async fn get_blocks(name: MaybeName, ask: Ask<BlocksQuery>) -> Answer {
    let (name, query) = (named(name)?, &ask.query);
    let class = query.class.unwrap_or(MemoryClass::Dram);
    let class = words::class_named(class)
        .ok_or_else(|| Refusal::bad_request(SelectError::Word("class")))?;
    let cells = query.cells.unwrap_or(blocks::DEFAULT_CELLS);
    if !(1..=blocks::MAX_CELLS).contains(&cells) {
        let detail = format!("cells {cells} is not between 1 and {}", blocks::MAX_CELLS);
        return Err(Refusal::bad_request(detail));
    }
    ask.document(move |moment| {
        let view = &moment.view;
        let index = device_named(view, &name)?;
        let (geometry, time) = (moment.geometry(), moment.state.time());
        Ok(blocks::block_map(
            view, &geometry, index, class, cells, time,
        ))
    })
    .await
}

/// The query of a peak.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeakQuery {
    of: Option<PeakOf>,
    pid: Option<u32>,
}

pub(super) async fn get_peak(name: MaybeName, ask: Ask<PeakQuery>) -> Answer {
    let (name, pid) = (named(name)?, ask.query.pid);
    let of = ask.query.of.unwrap_or(PeakOf::Dram);
    let gauge = peak::gauge(of).ok_or_else(|| Refusal::bad_request(SelectError::Word("of")))?;
    ask.document(move |moment| {
        let view = &moment.view;
        let index = device_named(view, &name)?;
        let found = peak::contents(view, index, (of, gauge), pid, moment.state.time());
        found.ok_or_else(|| {
            let detail = format!("no process {} on device {name}", pid.unwrap_or(0));
            Refusal::new(StatusCode::NOT_FOUND, "unknown_process", detail)
        })
    })
    .await
}

/// The query of a mark.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkQuery {
    name: Option<String>,
}

/// The longest name of a mark, in characters: at most 512 bytes, as all texts of clients.
const MAX_MARK_CHARS: usize = 128;

pub(super) async fn post_mark(ask: Ask<MarkQuery>) -> Answer {
    ask.asker.who.may_mark()?;
    let name = ask.query.name.clone().unwrap_or_default();
    if name.chars().count() > MAX_MARK_CHARS || name.contains(char::is_control) {
        let detail = format!(
            "a mark's name has at most {MAX_MARK_CHARS} characters, none of them a control character"
        );
        return Err(Refusal::bad_request(detail));
    }
    ask.answer(move |state| {
        let time = state.time();
        let set = state.ledger.mark(name.as_str().into(), time.unix_nanos());
        let number = set.ok_or_else(Refusal::stopping)?;
        let mark = Mark { name, number, time };
        Ok(Marked {
            schema: SCHEMA,
            mark,
        })
    })
    .await
}

/// The query of a stream.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    pace: Option<String>,
    after: Option<u64>,
}

/// The header with which a reader comes back to a stream.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn get_events(headers: HeaderMap, ask: Ask<EventsQuery>) -> Answer {
    let Ask {
        state,
        asker,
        query,
    } = ask;
    let pace = match query.pace.as_deref() {
        None | Some("changes") => Pace::Changes,
        Some("raw") => Pace::Raw,
        Some(other) => {
            let detail = format!("pace {other:?} is neither changes nor raw");
            return Err(Refusal::bad_request(detail));
        }
    };
    let known = headers.get(LAST_EVENT_ID);
    let known = known.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let after = query.after.or(known);
    let permits = &asker.connection.permits;
    let (permit, timeout) = (permits.stream(pace)?, permits.limits.stream_timeout);
    let started = (state.facts)().started;
    let (body, ended) = state.streams.open(pace, after, started, permit, timeout);
    asker.connection.stream(ended);
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The query of a `forget`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetQuery {
    pid: u32,
}

pub(super) async fn post_forget(ask: Ask<ForgetQuery>) -> Answer {
    let ForgetQuery { pid } = ask.query;
    let uid = ask.asker.who.user()?;
    ask.answer(move |state| {
        let time = state.time().unix_nanos();
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
