//! `/metrics`: what a monitoring system keeps over time.
//!
//! Every figure is one of the read API's documents, out of one view; what is not known there has no sample here.
//! `docs/metrics.md` has the names, which a test holds fixed.

mod devices;
mod exposition;
mod processes;
mod series;

use super::connection::Requester;
use super::handlers::within;
use super::http::{ReadState, Refusal};
use super::routes::{Context, blocking, parsed_query};
use super::snapshot;
use crate::ledger_thread::{LATENCY_BOUNDS, LatencyCounts};
use crate::machine::Joined;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::Response;
use exposition::{Family, Value};
use schemars::JsonSchema;
use serde::Deserialize;
pub use series::DeviceSeries;
use ttmem_ledger::{Geometry, MAX_LABEL_CHARS, ProcessState, View};
use ttmem_report::{Server, is_deceptive};

/// The classes of device memory that have samples.
const CLASSES: [&str; 4] = ["dram", "l1", "l1_small", "trace"];

const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricsQuery {
    /// So many processes have samples of their own, all others are summed up; 32 by default.
    #[schemars(range(min = 0, max = processes::MAX_PROCESSES))]
    processes: Option<u32>,
    /// A process has samples of its own once it is so old, in seconds; 15 by default.
    #[schemars(range(min = 0, max = processes::MAX_MIN_AGE))]
    min_age: Option<u32>,
}

impl MetricsQuery {
    fn checked(self) -> Result<Self, Refusal> {
        // 0 is allowed here, as it is not of other counts.
        for (name, given, most) in [
            ("processes", self.processes, processes::MAX_PROCESSES),
            ("min_age", self.min_age, processes::MAX_MIN_AGE),
        ] {
            within(name, given.unwrap_or(0), 0..=most)?;
        }
        Ok(self)
    }
}

pub(super) async fn get_metrics(
    State(state): State<ReadState>,
    Extension(requester): Extension<Requester>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Refusal> {
    let query = parsed_query::<MetricsQuery>(&uri)?.checked()?;
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    let is_open = accepted.any(|accept| accept.to_str().is_ok_and(|it| it.contains(OPEN_METRICS)));
    let who = requester.who;
    let text = blocking(requester, false, move || {
        let context = Context::of_now(state, who)?;
        let latency = context
            .state
            .live
            .as_ref()
            .map(|live| live.ledger.latency());
        let view = context.view()?;
        let facts = context.facts();
        let scrape = Scrape {
            view: &view,
            geometry: &*context.geometry(&view)?,
            series: &context.state.series,
            time: facts.time,
            server: &facts.server,
            latency,
            machine: context.machine(&view),
        };
        let text = exposition::open_metrics(scrape.families(&query));
        let text = text.map_err(Refusal::internal)?;
        Ok(if is_open {
            text
        } else {
            exposition::classic(&text)
        })
    });
    let mut response = Response::new(Body::from(text.await?));
    let kind = if is_open {
        OPEN_METRICS_TYPE
    } else {
        CLASSIC_TYPE
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// What one answer is made of.
struct Scrape<'a> {
    view: &'a View,
    geometry: &'a Geometry,
    series: &'a DeviceSeries,
    time: ttmem_report::Timestamp,
    server: &'a Server,
    /// None of a recording: nobody waits there.
    latency: Option<LatencyCounts>,
    /// What the machine says by itself; nothing in a recording.
    machine: Option<Joined>,
}

impl Scrape<'_> {
    fn families(&self, query: &MetricsQuery) -> Vec<Family> {
        let machine = self.machine.as_ref();
        let is_shown = |index| machine.is_none_or(|it| !it.is_known_otherwise(self.view, index));
        let figures = |index| snapshot::device_figures(self.view, self.geometry, index);
        let call =
            |index, is_taken: &dyn Fn(&str) -> bool| devices::name(&figures(index), is_taken);
        let (now, min_age) = (self.time.unix_nanos(), processes::min_age(query));
        let chosen = self.series.choose(self.view, now, min_age, is_shown, call);
        let left_out = chosen.left_out as u64;
        let (indices, names): (Vec<usize>, Vec<String>) = chosen.devices.into_iter().unzip();
        let shown = indices.into_iter().map(|index| {
            let mut device = figures(index);
            if let Some(machine) = machine {
                machine.add_to(index, &mut device);
            }
            device
        });
        let mut families = self.of_server(left_out);
        families.extend(devices::families(&shown.collect::<Vec<_>>(), &names));
        families.extend(processes::families(self.view, self.time, query));
        families
    }

    fn of_server(&self, devices_left_out: u64) -> Vec<Family> {
        let (view, server) = (self.view, self.server);
        let started = server.started.unix_nanos();
        // Seconds with milliseconds: as much as a float has exactly.
        let started = (started / 1_000_000) as f64 / 1000.0;
        let version = vec![("version", server.version.clone())];
        let mut processes = Family::gauge("processes", "Processes that are known");
        let state_of = |state: ProcessState| {
            let found = view.processes.iter();
            found.filter(|it| it.facts.state == state).count() as u64
        };
        for (state, count) in [
            ("live", state_of(ProcessState::Live)),
            ("detached", state_of(ProcessState::Detached)),
            ("exited", view.departed.len() as u64),
        ] {
            processes.add(vec![("state", state.to_owned())], Value::Whole(count));
        }
        let incomplete = view
            .processes
            .iter()
            .filter(|it| snapshot::is_incomplete(it));
        let incomplete = incomplete.count() as u64;
        let mut anomalies = Family::counter("anomalies", "What did not add up, by kind");
        for (anomaly, count) in view.anomalies.iter() {
            let labels = vec![("anomaly", anomaly.name().to_owned())];
            anomalies.add(labels, Value::Whole(count));
        }
        let latency = self.latency.map(|latency| {
            let bounds = LATENCY_BOUNDS.into_iter().chain([f64::INFINITY]);
            Value::Histogram(latency.sum_seconds, bounds.zip(latency.counts).collect())
        });
        let gauge =
            |name, help, figure| Family::gauge(name, help).with(vec![], Value::Whole(figure));
        let counter =
            |name, help, count| Family::counter(name, help).with(vec![], Value::Whole(count));
        vec![
            gauge("up", "The server answers", 1),
            Family::gauge("build_info", "The server's version").with(version, Value::Whole(1)),
            Family::seconds("start_time", "When the server started, since the epoch")
                .with(vec![], Value::Real(started)),
            gauge("clients", "Connections that send events", server.clients),
            processes,
            gauge(
                "incomplete_processes",
                "Processes whose figures may not be all that they have",
                incomplete,
            ),
            gauge(
                "devices_left_out",
                "Devices beyond those that have samples",
                devices_left_out,
            ),
            counter("events", "Events that were applied", view.events),
            counter(
                "lost_events",
                "Events that never reached the ledger",
                view.counts.lost_events,
            ),
            counter(
                "elided_events",
                "Events that are missing from the log only",
                view.counts.elided_events,
            ),
            counter(
                "failures",
                "Allocations and programs that were refused",
                view.failures.count(),
            ),
            anomalies,
            Family::histogram(
                "ingest_latency",
                "How long what was read from a process waited until it was in the ledger",
            )
            .with(vec![], latency),
        ]
    }
}

/// Anybody's text as the value of a label.
fn clean(text: &str) -> String {
    let shown = text.chars().take(MAX_LABEL_CHARS);
    shown
        .map(|char| if is_deceptive(char) { '?' } else { char })
        .collect()
}
