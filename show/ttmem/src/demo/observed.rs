//! What was recorded, counted on the way out, and what the server knew before a mesh closed.
//!
//! Runs on the thread that plays. The counts are held against the server's account at the end.
//! Some of the server's own figures live as long as the mesh they are of (rings) or are kept for
//! the latest events only (failures): those are asked for at the moment they can be had.

use super::progress::SharedProgress;
use crate::observer::{FLUSH_TIMEOUT, Observer};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use ttmem_client::Tracker;
use ttmem_event::{EventKind, MeshDefinition, MeshId};
use ttmem_reader::ApiClient;
use ttmem_report::{Snapshot, Timestamp};

/// Events that are looked through for a failure: all that the server keeps of a process.
const KEPT_EVENTS: u32 = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) events: u64,
    /// Programs dispatched, once for each device.
    pub(crate) dispatches: u64,
    /// Traces run, once for each device.
    pub(crate) trace_replays: u64,
    /// Allocations and programs that were refused.
    pub(crate) failures: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct ConfigRingCounts {
    /// How often it began anew.
    pub(crate) wraps: u64,
    /// Entries thrown out for newer ones.
    pub(crate) evictions: u64,
    /// How often a program had to wait for room.
    pub(crate) stalls: u64,
}

/// A ring: device, mesh, sub-device and the kind of core.
type ConfigRingKey = (u32, Option<u64>, Option<u32>, &'static str);

/// The rings of all meshes, also of those that are closed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rings(BTreeMap<ConfigRingKey, ConfigRingCounts>);

impl Rings {
    /// Takes over what a snapshot says; what it says no more was the last word.
    pub(crate) fn take(&mut self, snapshot: &Snapshot) {
        for device in &snapshot.devices {
            for ring in &device.ring {
                let key = (
                    device.id,
                    ring.mesh,
                    ring.sub_device,
                    ring.core_type.as_str(),
                );
                let counts = ConfigRingCounts {
                    wraps: ring.wraps,
                    evictions: ring.evictions,
                    stalls: ring.stalls,
                };
                self.0.insert(key, counts);
            }
        }
    }

    pub(crate) fn of(&self, device: u32) -> ConfigRingCounts {
        let mut sum = ConfigRingCounts::default();
        for (_key, ring) in self.0.iter().filter(|(key, _ring)| key.0 == device) {
            sum.wraps += ring.wraps;
            sum.evictions += ring.evictions;
            sum.stalls += ring.stalls;
        }
        sum
    }
}

/// Counts what a scenario records, and asks the server about it.
#[derive(Debug)]
pub(crate) struct DemoObserver {
    tracker: Tracker,
    server: ApiClient,
    meshes: BTreeMap<MeshId, u64>,
    observed: Observed,
    /// Failures that the server was asked about.
    failures_asked: u64,
    last_failure: Option<Timestamp>,
    /// Where failures are shown while the scenario goes on.
    progress: SharedProgress,
    /// Why the server could not be asked.
    failed: Option<anyhow::Error>,
}

/// What was recorded, and what the server knew on the way.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) recorded: Recorded,
    pub(crate) rings: Rings,
    /// Failures that the server knows of.
    pub(crate) failures_confirmed: u64,
}

impl DemoObserver {
    pub(crate) fn new(tracker: Tracker, server: ApiClient, progress: SharedProgress) -> Self {
        Self {
            tracker,
            server,
            meshes: BTreeMap::new(),
            observed: Observed::default(),
            failures_asked: 0,
            last_failure: None,
            progress,
            failed: None,
        }
    }

    pub(crate) fn finish(&mut self) -> Result<Observed> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.observed)),
        }
    }

    /// Looks whether the server knows of failures that were recorded since it last looked.
    fn confirm_failures(&mut self) -> Result<()> {
        self.failures_asked = self.observed.recorded.failures;
        self.tracker
            .flush(FLUSH_TIMEOUT)
            .context("the server did not confirm a failure")?;
        let last = self.server.last(KEPT_EVENTS, Some(std::process::id()))?;
        for event in &last.events {
            let is_failure = matches!(event.event.as_str(), "allocation_failed" | "clashed");
            if is_failure && self.last_failure.is_none_or(|known| event.time > known) {
                self.last_failure = Some(event.time);
                self.observed.failures_confirmed += 1;
            }
        }
        Ok(())
    }

    fn look_at_rings(&mut self) -> Result<()> {
        self.tracker
            .flush(FLUSH_TIMEOUT)
            .context("the server did not confirm a mesh that closes")?;
        self.observed.rings.take(&self.server.snapshot()?);
        Ok(())
    }

    fn remember(&mut self, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.failed.get_or_insert(error);
        }
    }

    fn devices(&self, mesh: MeshId) -> u64 {
        self.meshes.get(&mesh).copied().unwrap_or(0)
    }
}

impl Observer for DemoObserver {
    fn mesh(&mut self, id: MeshId, mesh: &MeshDefinition) {
        let devices = u64::try_from(mesh.devices.len()).unwrap_or(u64::MAX);
        self.meshes.insert(id, devices);
    }

    fn before(&mut self, kind: &EventKind) -> u64 {
        // Now a failure is the last event that the server has: soon it will be forgotten.
        if self.observed.recorded.failures > self.failures_asked {
            let outcome = self.confirm_failures();
            self.remember(outcome);
        }
        match *kind {
            EventKind::Dispatched { mesh, .. } => {
                self.observed.recorded.dispatches += self.devices(mesh)
            }
            EventKind::TraceReplayed { mesh, .. } => {
                self.observed.recorded.trace_replays += self.devices(mesh)
            }
            EventKind::AllocationFailed { .. } | EventKind::Clashed { .. } => {
                self.observed.recorded.failures += 1;
                self.progress.failed(kind);
            }
            EventKind::MeshClosed { .. } => {
                let outcome = self.look_at_rings();
                self.remember(outcome);
            }
            _other => {}
        }
        self.observed.recorded.events += 1;
        self.observed.recorded.events - 1
    }
}
