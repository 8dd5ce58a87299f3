//! What a ledger takes in memory, about and rather too much, and what one more change may add.

use crate::counts::DeviceCounts;
use crate::device::{Device, DeviceFacts, DeviceKey};
use crate::failures::{FailureMoment, Failures, MomentBlock};
use crate::growth::{Births, ReaderSeries, Series, Step, Steps, Sum};
use crate::labels::Labels;
use crate::ledger::Ledger;
use crate::left_behind::{LeftBehind, LeftBuffers, LeftGroup};
use crate::peak_composition::{DepartedAtPeak, KeptPeaks, PeakGroup};
use crate::process::{Process, ProcessFacts, ProcessIdentity};
use crate::view::{DepartedView, ProcessView};
use ttmem_account::footprint::Footprint;
use ttmem_account::{flat_footprint, footprint};

/// What documents take for each process: most have a line for each.
const DOCUMENT_BYTES: u64 = 2 << 10;

flat_footprint! { Step, Sum, DeviceCounts }

footprint! {
    ProcessIdentity { name, command, visible_devices }
    ProcessFacts { identity, series }
    Process { account, devices, left_at_close }
    Device { key, facts, departed_at_peak, vacated }
    DeviceFacts { board }
    DepartedAtPeak { groups }
    PeakGroup { name }
    DepartedView { identity, not_tracked, devices, own_peaks, left_at_close, left_at_exit }
    LeftBehind { series, groups }
    LeftGroup { operation, stack, births }
    LeftBuffers { series, groups }
    Births { by_step }
    Steps { name, kept }
    Series { all, named }
    ReaderSeries { by_user }
    Failures { kept }
    FailureMoment { identity, devices, origin, blocks }
    MomentBlock { origin }
}

impl Footprint for DeviceKey {
    fn heap_bytes(&self) -> u64 {
        match self {
            Self::Unique(_) => 0,
            Self::Logical { visible, .. } => visible.heap_bytes(),
        }
    }
}

impl Footprint for KeptPeaks {
    fn heap_bytes(&self) -> u64 {
        self.0.heap_bytes()
    }
}

impl Footprint for Labels {
    fn heap_bytes(&self) -> u64 {
        let text = |text: &str| text.len() as u64 + 48;
        self.iter()
            .map(|(key, value)| text(key) + text(value))
            .sum()
    }
}

impl Ledger {
    /// The bytes that it takes, views and their documents included, and how many things were looked at.
    #[must_use]
    pub fn footprint(&self) -> (u64, u64) {
        let mut bytes = size_of::<Self>() as u64;
        let mut looked_at = 0;
        for process in &self.processes {
            bytes += 2 * size_of::<Option<Process>>() as u64;
            let Some(process) = process else { continue };
            looked_at += process.looked_at();
            bytes += process.heap_bytes() + process.facts.heap_bytes();
            bytes += process.facts.labels.heap_bytes();
            // A view has what is no row anew.
            bytes += process.view_bytes() + DOCUMENT_BYTES;
        }
        let devices = &self.table.devices;
        looked_at += devices.len() as u64 * 8;
        for device in devices {
            bytes += 2 * (size_of::<Device>() as u64 + device.heap_bytes()) + DOCUMENT_BYTES;
        }
        bytes += self.departed.heap_bytes() + self.marks.heap_bytes();
        bytes += self.series.heap_bytes() + self.failures.heap_bytes();
        looked_at += 64 * self.departed.len() as u64 + self.failures.len() as u64;
        (bytes, looked_at)
    }

    /// What the rows of a process take: they grow by whole pages.
    #[must_use]
    #[inline]
    pub fn page_bytes(&self, process: u32) -> u64 {
        let process = self.processes.get(process as usize);
        let process = process.and_then(Option::as_ref);
        process.map_or(0, |process| process.account.page_bytes())
    }

    /// Rows of one process, of whatever kind, and the entries of its programs among them.
    #[must_use]
    pub fn rows_of(&self, process: u32) -> (u64, u64) {
        let process = self.processes.get(process as usize);
        let process = process.and_then(Option::as_ref);
        process.map_or((0, 0), |process| {
            let account = &process.account;
            (account.len() as u64, account.placed() as u64)
        })
    }
}

impl Process {
    /// What a view of it takes by itself.
    fn view_bytes(&self) -> u64 {
        let facts = self.account.facts();
        let meshes = facts.meshes.len() * size_of::<ttmem_account::Mesh>();
        let devices = facts.devices.len() * size_of::<ttmem_account::HeldDevice>();
        let trees = 160 * (facts.config_rings.len() + facts.prefetchers.len());
        let pages = self.account.page_bytes() / 1024;
        (size_of::<ProcessView>() + meshes + devices + trees) as u64 + pages
    }

    /// What is looked at to measure it, in work units.
    fn looked_at(&self) -> u64 {
        let facts = self.account.facts();
        let known = facts.devices.len() + 2 * facts.meshes.len() + facts.config_rings.len();
        8 + known as u64 + self.account.programs_looked_at()
    }
}
