//! The thread that samples the ledger once a second, and sees when much has gone from it.

use super::tier::{Sample, sample_of};
use super::{Histories, Observed};
use crate::OwnedThread;
use crate::freed_memory::FreedMemory;
use crate::ledger_thread::LedgerHandle;
use crate::read::GeometryCache;
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ttmem_ledger::{DeviceKey, Geometry, View};

const INTERVAL: Duration = Duration::from_secs(1);

/// The geometry is computed only so often that it takes a twentieth of the time.
const REST: u32 = 20;

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    _thread: OwnedThread<Sender<()>>,
}

impl Sampler {
    pub(crate) fn start(
        ledger: LedgerHandle,
        histories: Histories,
        geometries: GeometryCache,
        now: fn() -> u64,
    ) -> io::Result<Self> {
        let (stop, stopped) = bounded::<()>(0);
        let thread = OwnedThread::start("ttmem-history", stop, move || {
            let mut observer = Observer::default();
            let mut freed = FreedMemory::default();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(INTERVAL) {
                let Some(view) = ledger.wait_for_view() else {
                    break;
                };
                let found = observer.observe(&view, &geometries);
                histories.book(now(), &found);
                freed.look(view);
            }
        })?;
        Ok(Self { _thread: thread })
    }
}

/// What is remembered from sample to sample.
#[derive(Debug, Default)]
struct Observer {
    dispatches: HashMap<DeviceKey, u64>,
    /// Until then the geometry is not computed again.
    rests_until: Option<Instant>,
}

impl Observer {
    fn observe(&mut self, view: &View, geometries: &GeometryCache) -> Vec<Observed> {
        let geometry = self.geometry(view, geometries);
        let devices = view.devices.iter().enumerate();
        let found = devices.map(|(index, device)| {
            let layout = geometry.as_ref().and_then(|all| all.devices.get(index));
            let dispatches = device.caches.dispatches;
            let before = self.dispatches.insert(device.key.clone(), dispatches);
            Observed {
                key: device.key.clone(),
                id: device.facts.logical_id,
                unique_id: device.facts.unique_id,
                sample: Sample {
                    dispatches: dispatches.saturating_sub(before.unwrap_or(dispatches)),
                    ..sample_of(device).with_geometry(layout)
                },
            }
        });
        let found = found.collect();
        // Devices that are gone are not remembered.
        self.dispatches
            .retain(|key, _count| view.devices.iter().any(|device| device.key == *key));
        found
    }

    /// The geometry, unless computing it took long and was done just now.
    fn geometry(&mut self, view: &View, geometries: &GeometryCache) -> Option<Arc<Geometry>> {
        let begun = Instant::now();
        if self.rests_until.is_some_and(|until| begun < until) {
            return None;
        }
        let geometry = geometries.of(view);
        let ended = Instant::now();
        self.rests_until = Some(ended + (ended - begun) * REST);
        Some(geometry)
    }
}
