//! The ledger at one moment, for a reader to keep and work on in its own thread.

use crate::audience::Audience;
use crate::counts::Counts;
use crate::device::{Device, DeviceKey};
use crate::failures::Failures;
use crate::growth::ReaderSeries;
use crate::incomplete::IncompleteReasons;
use crate::labels::Labels;
use crate::left_behind::{LeftBehind, LeftBuffers};
use crate::peak_composition::{KeptPeaks, LeavingPeaks};
use crate::process::{Exit, Process, ProcessFacts, ProcessIdentity};
use std::collections::VecDeque;
use std::ops::Index;
use std::sync::Arc;
use ttmem_account::{
    AccountFacts, AccountRows, Anomalies, Marks, NotTracked, PagesView, Released, ResidentProgram,
    Totals, residents,
};
use ttmem_event::{CoreSet, CoreType};

/// Rows of one moment, by the numbers the ledger gives them.
#[derive(Clone, Debug)]
pub struct Table<T> {
    rows: PagesView<Arc<T>>,
}

impl<T> Table<T> {
    pub(crate) fn new(rows: PagesView<Arc<T>>) -> Self {
        Self { rows }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    #[must_use]
    pub fn get(&self, number: usize) -> Option<&T> {
        let row = self.rows.get(u32::try_from(number).ok()?)?;
        Some(row)
    }

    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = &T> {
        self.rows.iter_from(first).map(|(_number, row)| &**row)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.shared().map(|row| &**row)
    }

    pub(crate) fn shared(&self) -> impl Iterator<Item = &Arc<T>> {
        self.numbered().map(|(_number, row)| row)
    }

    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &Arc<T>)> {
        self.rows.iter()
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        self.get(number).expect("a number of this view's own rows")
    }
}

impl<'a, T> IntoIterator for &'a Table<T> {
    type Item = &'a T;
    type IntoIter = Box<dyn Iterator<Item = &'a T> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

/// Everything the ledger knew at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// Devices, in the order they became known.
    pub devices: Table<Device>,
    /// Processes that may hold something, by their slot.
    pub processes: Table<ProcessView>,
    /// Processes that left, oldest first.
    pub departed: Arc<VecDeque<DepartedView>>,
    /// What was wrong with events, over all processes.
    pub anomalies: Anomalies,
    /// What else was counted over all processes.
    pub counts: Counts,
    pub marks: Arc<Marks>,
    /// The marks that readers set.
    pub series: Arc<ReaderSeries>,
    /// The last failures, with the moments they happened in.
    pub failures: Arc<Failures>,
    pub events: u64,
    /// Grows with every change: equal revisions of one ledger are equal states.
    pub revision: u64,
    /// Whose names it has.
    pub audience: Audience,
}

#[derive(Clone, Debug)]
pub struct ProcessView {
    /// Its slot in the ledger.
    pub index: u32,
    pub facts: ProcessFacts,
    pub account: AccountFacts,
    pub rows: AccountRows,
    /// The ledger's number of each device of the account.
    pub devices: Vec<u32>,
    pub(crate) left_at_close: Arc<LeftBuffers>,
}

impl ProcessView {
    pub(crate) fn new(index: u32, process: &Process) -> Self {
        Self {
            index,
            facts: process.facts.clone(),
            account: process.account.facts_now(),
            rows: process.account.rows(),
            devices: process.devices.clone(),
            left_at_close: Arc::clone(&process.left_at_close),
        }
    }

    /// Who asked for what it held when it closed its meshes.
    #[must_use]
    pub fn left_at_close(&self) -> LeftBehind {
        self.left_at_close.named(&self.account.definitions)
    }

    /// Whether marks of its own or of readers say what it holds from step to step.
    #[must_use]
    pub fn has_marks(&self, readers: &ReaderSeries) -> bool {
        let readers = readers.of(self.facts.identity.uid);
        !self.facts.series.or(readers).is_empty()
    }

    /// Who asked for what it holds now, by the marks of its own or those of readers.
    #[must_use]
    pub fn held(&self, readers: &ReaderSeries) -> LeftBehind {
        let readers = readers.of(self.facts.identity.uid);
        let mut held = LeftBuffers::unbounded(self.facts.series.or(readers));
        for (_slot, row) in self.rows.buffers.iter() {
            let mesh = self.account.meshes.get(row.mesh as usize);
            held.add(row, mesh.map_or(1, |mesh| mesh.devices.len() as u64));
        }
        held.named(&self.account.definitions)
    }

    #[must_use]
    pub fn without_rows(&self) -> ProcessRef<'_> {
        ProcessRef {
            facts: &self.facts,
            account: &self.account,
            devices: &self.devices,
        }
    }

    /// The process's slot for a device of the ledger.
    #[must_use]
    pub fn device_slot(&self, device: u32) -> Option<u32> {
        let slot = self.devices.iter().position(|held| *held == device)?;
        u32::try_from(slot).ok()
    }
}

/// A process without its rows: of a view, or of the ledger as it is.
#[derive(Clone, Copy, Debug)]
pub struct ProcessRef<'a> {
    pub facts: &'a ProcessFacts,
    pub account: &'a AccountFacts,
    /// The ledger's number of each device of the account.
    pub devices: &'a [u32],
}

#[derive(Clone, Debug)]
pub struct DepartedView {
    pub identity: ProcessIdentity,
    pub exit: Exit,
    pub claimed_pid: Option<i64>,
    pub labels: Labels,
    pub lost_events: u64,
    pub not_tracked: Vec<NotTracked>,
    pub incomplete: IncompleteReasons,
    pub elided_events: u64,
    pub anomalies: u64,
    /// Frees of buffers that belong to the process it was forked from.
    pub inherited_frees: u64,
    /// What it still held when it closed its devices.
    pub leak_candidates: Released,
    /// What it had on each device at its end, and its peaks there.
    pub devices: Vec<(DeviceKey, Totals)>,
    /// What was live at these peaks, in the order of the devices.
    pub(crate) own_peaks: KeptPeaks,
    /// Who asked for what it held when it closed its meshes.
    pub left_at_close: Arc<LeftBehind>,
    /// Who asked for what it held at its end.
    pub left_at_exit: Arc<LeftBehind>,
    /// Whether its name and texts were left out for the audience of a view.
    pub names_are_hidden: bool,
}

impl DepartedView {
    pub(crate) fn new(
        process: &Process,
        devices: &[Device],
        leaving: &LeavingPeaks,
        exit: Exit,
    ) -> Self {
        let (facts, account) = (&process.facts, process.account.facts());
        let held = account.devices.iter().zip(&process.devices);
        let held = held.zip(leaving.own_peaks(process));
        let held = held.filter_map(|((held, number), own_peaks)| {
            let device = devices.get(*number as usize)?;
            Some(((device.key.clone(), held.totals), own_peaks))
        });
        let (devices, own_peaks) = held.unzip();
        Self {
            devices,
            own_peaks: KeptPeaks(own_peaks),
            left_at_close: process.left_at_close.named(&account.definitions).into(),
            left_at_exit: leaving.left.named(&account.definitions).into(),
            names_are_hidden: false,
            identity: facts.identity.clone(),
            exit,
            claimed_pid: facts.claimed_pid,
            labels: facts.labels.clone(),
            lost_events: account.lost_events,
            not_tracked: account.not_tracked(),
            incomplete: IncompleteReasons::of_process(facts, account),
            elided_events: account.elided_events,
            anomalies: account.anomalies.total(),
            inherited_frees: account.inherited_frees,
            leak_candidates: account.leak_candidates,
        }
    }
}

/// A program of some process: who is on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub process: u32,
    /// The slot of the program in its process.
    pub program: u32,
}

/// Who is on the cores of a device, by core type.
pub type DeviceResidents = [Vec<(Owner, CoreSet)>; CoreType::ALL.len()];

/// When a program ran, which one unless it is gone, and on which cores.
type Claim = (u64, Option<Owner>, CoreSet);

impl View {
    /// The process in a slot of the ledger.
    #[must_use]
    pub fn process(&self, index: u32) -> Option<&ProcessView> {
        self.processes.get(index as usize)
    }

    /// The number that runtimes have for a device.
    #[must_use]
    pub fn logical_id(&self, device: u32) -> Option<u32> {
        Some(self.devices.get(device as usize)?.facts.logical_id)
    }

    /// The program that ran last on each core of each device.
    #[must_use]
    pub fn residents(&self) -> Vec<DeviceResidents> {
        let mut claims: Vec<[Vec<Claim>; CoreType::ALL.len()]> = self
            .devices
            .iter()
            .map(|_device| Default::default())
            .collect();
        for (claims, device) in claims.iter_mut().zip(&self.devices) {
            for core_type in CoreType::ALL {
                let left = device.vacated.iter();
                let left = left.flat_map(|vacated| vacated.claims(core_type));
                let left = left.map(|(_run, time, cores)| (time, None, cores));
                claims[core_type as usize].extend(left);
            }
        }
        for process in &self.processes {
            let on_devices = residents(&process.account, &process.rows);
            for (device, on_device) in process.devices.iter().zip(on_devices) {
                let Some(claims) = claims.get_mut(*device as usize) else {
                    continue;
                };
                for (claims, on_cores) in claims.iter_mut().zip(on_device) {
                    let owned = |resident: ResidentProgram| {
                        let process = process.index;
                        let owner = resident.program.map(|program| Owner { process, program });
                        (resident.time, owner, resident.cores)
                    };
                    claims.extend(on_cores.into_iter().map(owned));
                }
            }
        }
        claims.into_iter().map(|types| types.map(settle)).collect()
    }
}

/// Gives each core to the last that claims it.
fn settle(mut claims: Vec<Claim>) -> Vec<(Owner, CoreSet)> {
    claims.sort_by_key(|(time, _owner, _cores)| std::cmp::Reverse(*time));
    let mut claimed = CoreSet::default();
    let mut settled: Vec<(Owner, CoreSet)> = Vec::new();
    for (_time, owner, cores) in claims {
        let cores = cores.without(&claimed);
        claimed.insert_all(&cores);
        if let (Some(owner), false) = (owner, cores.is_empty()) {
            match settled.iter_mut().find(|(known, _cores)| *known == owner) {
                Some((_owner, known)) => known.insert_all(&cores),
                None => settled.push((owner, cores)),
            }
        }
    }
    settled.sort_unstable_by_key(|(owner, _cores)| *owner);
    settled
}
