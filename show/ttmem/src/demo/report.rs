//! What happened in a scenario: the server's account of it, held against what was recorded.
//!
//! Every figure is the server's, read through its API; what the model and the tracker counted is
//! only compared with it. [`Report::problems`] says what does not agree, and is what makes the
//! command fail.

use super::observed::ConfigRingCounts;
use super::player::{PlayOptions, Played};
use crate::render::{as_map, in_seconds};
use crate::scenarios;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use ttmem_client::Statistics;
use ttmem_model::runtime::FailureKind;
use ttmem_report::{CacheCounts, GrowingGroup, LeakCandidates, PeakBytes, Snapshot};

/// The name of the first figure that is compared.
const EVENTS: &str = "events";

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct DeviceReport {
    pub(crate) id: u32,
    /// The most of everything that it held.
    pub(crate) peaks: PeakBytes,
    pub(crate) dispatches: u64,
    pub(crate) trace_replays: u64,
    pub(crate) caches: CacheCounts,
    #[serde(rename = "ring")]
    pub(crate) rings: ConfigRingCounts,
}

/// A figure that two sides know.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Compared {
    #[serde(skip)]
    pub(crate) name: &'static str,
    pub(crate) recorded: u64,
    pub(crate) server: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) scenario: String,
    pub(crate) board: &'static str,
    /// Where its random choices began.
    pub(crate) seed: u64,
    #[serde(rename = "seconds", serialize_with = "in_seconds")]
    pub(crate) took: Duration,
    /// The user ended it early.
    pub(crate) interrupted: bool,
    pub(crate) devices: Vec<DeviceReport>,
    /// The kinds of failure that the scenario plants.
    #[serde(rename = "planted_failures", serialize_with = "as_names")]
    pub(crate) planted: BTreeSet<FailureKind>,
    /// Failures that came, with the runtime's words.
    #[serde(serialize_with = "as_kinds_and_texts")]
    pub(crate) failures: Vec<(FailureKind, String)>,
    /// Buffers that the scenario leaks on purpose.
    #[serde(rename = "planted_leaks")]
    pub(crate) leaked_buffers: u64,
    /// What was still held when its mesh closed.
    pub(crate) leak_candidates: LeakCandidates,
    /// What grew with the marks until the end, the fastest first.
    pub(crate) growing: Vec<GrowingGroup>,
    #[serde(serialize_with = "as_map")]
    pub(crate) anomalies: Vec<(String, u64)>,
    /// Events that never reached the account.
    pub(crate) lost_events: u64,
    /// Events that the account has, and the history has not.
    pub(crate) elided_events: u64,
    pub(crate) live_bytes: u64,
    /// Bytes held after the program disconnected.
    pub(crate) left_bytes: u64,
    #[serde(serialize_with = "by_name")]
    pub(crate) compared: Vec<Compared>,
}

impl Report {
    /// Puts together what is known after a scenario.
    pub(super) fn new(
        options: &PlayOptions,
        played: Played,
        statistics: Statistics,
        after_play: &Snapshot,
        after_close: &Snapshot,
    ) -> Self {
        let Played {
            outcome,
            observed,
            took,
        } = played;
        let mut rings = observed.rings;
        rings.take(after_play);
        let devices = after_play.devices.iter();
        let devices: Vec<DeviceReport> = devices
            .map(|device| DeviceReport {
                id: device.id,
                peaks: device.peaks(),
                dispatches: device.dispatches,
                trace_replays: device.trace_replays,
                caches: device.caches,
                rings: rings.of(device.id),
            })
            .collect();
        let sum = |figure: fn(&DeviceReport) -> u64| devices.iter().map(figure).sum();
        let compare = |name, recorded, server| Compared {
            name,
            recorded,
            server,
        };
        let recorded = observed.recorded;
        let compared = vec![
            compare(EVENTS, recorded.events, after_play.server.events_applied),
            compare("dispatches", recorded.dispatches, sum(|on| on.dispatches)),
            compare(
                "dispatches of the model",
                outcome.counts.dispatches,
                sum(|on| on.dispatches),
            ),
            compare(
                "program cache hits of the model",
                outcome.counts.program_cache_hits,
                sum(|on| on.caches.program_cache_hits.unwrap_or(0)),
            ),
            compare(
                "trace replays",
                recorded.trace_replays,
                sum(|on| on.trace_replays),
            ),
            compare("failures", recorded.failures, observed.failures_confirmed),
        ];
        // The server is this program's own: every process in it is this one.
        let process = |figure: fn(&ttmem_report::Process) -> u64| {
            after_play.processes.iter().map(figure).sum::<u64>()
        };
        Self {
            scenario: options.scenario.scenario().name.clone(),
            board: options.board.name(),
            seed: options.seed,
            took,
            interrupted: outcome.interrupted,
            planted: scenarios::planted_failures(options.scenario.scenario()),
            failures: outcome
                .failures
                .into_iter()
                .map(|failure| (failure.kind, failure.text))
                .collect(),
            leaked_buffers: outcome.leaked_buffers,
            leak_candidates: LeakCandidates {
                buffers: process(|process| process.leak_candidates.buffers),
                bytes: process(|process| process.leak_candidates.bytes),
            },
            growing: Vec::new(),
            anomalies: after_close
                .anomalies
                .seen()
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
            lost_events: process(|process| process.lost_events).max(statistics.lost_events),
            elided_events: process(|process| process.elided_events).max(statistics.elided_events),
            live_bytes: held_bytes(after_play),
            left_bytes: held_bytes(after_close),
            devices,
            compared,
        }
    }

    /// Events that the program recorded.
    pub(crate) fn events(&self) -> u64 {
        let mut compared = self.compared.iter();
        let events = compared.find(|figure| figure.name == EVENTS);
        events.map_or(0, |figure| figure.recorded)
    }

    /// Everything that is not as it should be; nothing = all is well.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, count) in &self.anomalies {
            problems.push(format!("anomaly {name} {count} times"));
        }
        if self.lost_events > 0 {
            problems.push(format!("{} events lost", self.lost_events));
        }
        for (what, bytes) in [
            ("after the scenario", self.live_bytes),
            ("after the program disconnected", self.left_bytes),
        ] {
            if bytes > 0 {
                problems.push(format!("{bytes} bytes still held {what}"));
            }
        }
        if self.leak_candidates.buffers != self.leaked_buffers {
            problems.push(format!(
                "{} buffers leaked where {} were planted",
                self.leak_candidates.buffers, self.leaked_buffers
            ));
        }
        let came: BTreeSet<FailureKind> = self.failures.iter().map(|(kind, _text)| *kind).collect();
        if !self.interrupted && came != self.planted {
            problems.push(format!(
                "failures {} where {} were planted",
                names(&came),
                names(&self.planted)
            ));
        }
        let differing = self.compared.iter();
        for figure in differing.filter(|figure| figure.recorded != figure.server) {
            problems.push(format!(
                "{}: {} recorded, {} with the server",
                figure.name, figure.recorded, figure.server
            ));
        }
        problems
    }
}

fn as_names<S: Serializer>(
    kinds: &BTreeSet<FailureKind>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(kinds.iter().map(|kind| kind.name()))
}

fn as_kinds_and_texts<S: Serializer>(
    failures: &[(FailureKind, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let failures = failures.iter();
    serializer
        .collect_seq(failures.map(|(kind, text)| json!({ "kind": kind.name(), "text": text })))
}

fn by_name<S: Serializer>(figures: &[Compared], serializer: S) -> Result<S::Ok, S::Error> {
    let named = figures
        .iter()
        .map(|figure| (figure.name.replace(' ', "_"), figure));
    serializer.collect_map(named)
}

/// Everything that is booked on any device.
fn held_bytes(snapshot: &Snapshot) -> u64 {
    let held = snapshot.devices.iter().map(|device| device.held().total());
    held.fold(0, u64::saturating_add)
}

fn names(kinds: &BTreeSet<FailureKind>) -> String {
    if kinds.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
