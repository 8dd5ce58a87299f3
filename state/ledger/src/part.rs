//! A ledger of some processes alone, made of a ledger of all.
//!
//! What is kept goes on in it as it did, in the same slots. What others held, and what is known of those who
//! are gone, is left out: totals of devices are those of the processes that are kept.

use crate::device::{Device, DeviceKey};
use crate::failures::Failures;
use crate::ledger::Ledger;
use crate::process::{Process, ProcessIdentity};
use crate::shares::is_same_user;
use crate::tables::DeviceTable;
use crate::view::DepartedView;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use ttmem_account::{DeviceMoment, GaugeKind};

/// Which processes are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The process with this pid, if it is this user's; of any user where there is none.
    Process { pid: u32, uid: Option<u32> },
    /// All that use this device. Of the device, everything is kept.
    Device(DeviceKey),
}

impl Part {
    /// Whether this process is kept, whatever it uses.
    #[must_use]
    pub fn is_process(&self, identity: &ProcessIdentity) -> bool {
        match self {
            Self::Process { pid, uid } => {
                let is_theirs = |uid| is_same_user(uid, identity.uid);
                identity.pid == Some(*pid) && uid.is_none_or(is_theirs)
            }
            Self::Device(_) => false,
        }
    }

    /// Whether this is the device whose processes are kept.
    #[must_use]
    pub fn is_device(&self, key: &DeviceKey) -> bool {
        matches!(self, Self::Device(own) if own == key)
    }
}

impl Ledger {
    /// The slots of a ledger that no process has, in the order in which they are given out from the
    /// end, and how many there are of all.
    #[must_use]
    pub fn slots(&self) -> (&[u32], u32) {
        // No more than `MAX_SLOTS`.
        let count = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        (&self.free_slots, count)
    }

    /// The slot that the next process gets.
    #[must_use]
    pub fn next_slot(&self) -> u32 {
        let (free, count) = self.slots();
        free.last().copied().unwrap_or(count)
    }

    /// Whether a process uses a device.
    #[must_use]
    pub fn uses(&self, process: u32, key: &DeviceKey) -> bool {
        let process = self.processes.get(process as usize);
        let Some(process) = process.and_then(Option::as_ref) else {
            return false;
        };
        let mut numbers = process.devices.iter();
        numbers.any(|number| {
            let device = self.table.devices.get(*number as usize);
            device.is_some_and(|device| device.key == *key)
        })
    }

    /// The ledger of a part of the processes.
    #[must_use]
    pub fn part(mut self, part: &Part) -> Self {
        let mut only = Self::new(self.limits.clone());
        only.events = self.events;
        only.revision = self.revision;
        // Rows say how many of these were set before them.
        only.series = Arc::clone(&self.series);
        only.free_slots.clone_from(&self.free_slots);
        let mut kept: Vec<Option<Process>> = Vec::new();
        for slot in 0..self.slots().1 {
            let identity = self.identity(slot);
            let is_kept = identity.is_some_and(|identity| part.is_process(identity))
                || matches!(part, Part::Device(key) if self.uses(slot, key));
            let process = self.processes[slot as usize].take();
            if process.is_some() && !is_kept {
                only.free_slots.push(slot);
            }
            kept.push(process.filter(|_process| is_kept));
        }
        let numbers = only.take_devices(self.table, part, &mut kept);
        only.keep_past(&self.departed, &self.failures, part, &numbers);
        let whole = (0..).zip(&only.table.devices);
        let whole = whole.filter(|(_number, device)| part.is_device(&device.key));
        let whole: Option<(u32, Device)> = whole
            .map(|(number, device)| (number, device.clone()))
            .next();
        let mut moments = Vec::new();
        for (slot, process) in (0..).zip(kept) {
            only.processes.push(None);
            if let Some(process) = process {
                let held = process.account.facts().devices.iter();
                let held = (0..).zip(held).zip(&process.devices);
                let of_whole = held.filter(|(_held, number)| {
                    whole
                        .as_ref()
                        .is_some_and(|(whole, _device)| whole == *number)
                });
                moments.extend(of_whole.map(|((own, held), _number)| (slot, own, held.moments)));
                only.take_process(slot, process);
            }
        }
        // Every mark began a stretch of peaks, whoever set it; what others reached in it is left out.
        let place = whole.as_ref().and_then(|(number, _device)| {
            let old = numbers.iter().find(|(_old, new)| *new == number);
            old.map(|(old, new)| (*old as usize, *new as usize))
        });
        only.marks = Arc::new(self.marks.of_device(place));
        if let Some((number, device)) = whole {
            only.put_back(number, device, moments);
        }
        only
    }

    /// Has a device be as it was, and the peaks of its processes on it.
    fn put_back(
        &mut self,
        number: u32,
        device: Device,
        moments: Vec<(u32, u32, [DeviceMoment; GaugeKind::COUNT])>,
    ) {
        *self.table.change(number) = Device {
            changed: true,
            ..device
        };
        for (slot, own, moments) in moments {
            let process = self.processes.get_mut(slot as usize);
            let Some(process) = process.and_then(Option::as_mut) else {
                continue;
            };
            for gauge in GaugeKind::all() {
                let DeviceMoment { peak_number, order } = moments[gauge.index()];
                process.account.set_moment(own, gauge, peak_number, order);
            }
        }
    }

    /// Takes the devices that the processes use, and the one that is asked for; their new numbers by
    /// the old ones.
    fn take_devices(
        &mut self,
        table: DeviceTable,
        part: &Part,
        kept: &mut [Option<Process>],
    ) -> HashMap<u32, u32> {
        let processes = kept.iter().flatten();
        let mut used: BTreeSet<u32> = processes
            .flat_map(|process| process.devices.iter().copied())
            .collect();
        let asked_for = (0..).zip(&table.devices);
        let asked_for = asked_for.filter(|(_number, device)| part.is_device(&device.key));
        used.extend(asked_for.map(|(number, _device)| number));
        let numbers: HashMap<u32, u32> = used.iter().copied().zip(0..).collect();
        let mut users: HashMap<u32, Vec<_>> = HashMap::new();
        for (slot, process) in (0..).zip(&mut *kept) {
            let Some(process) = process else { continue };
            let holder = process.holder(slot);
            for number in &mut process.devices {
                users.entry(*number).or_default().push(holder);
                *number = numbers.get(number).copied().unwrap_or(*number);
            }
        }
        for (number, device) in (0..).zip(table.devices) {
            if !used.contains(&number) {
                continue;
            }
            let users = users.remove(&number).unwrap_or_default();
            let is_whole = part.is_device(&device.key);
            let charged = device.charged.filter(|holder| users.contains(holder));
            let whole = Device {
                references: u32::try_from(users.len()).unwrap_or(u32::MAX),
                charged: charged.or(users.first().copied()),
                described_by: device.described_by.filter(|by| users.contains(by)),
                changed: false,
                ..device
            };
            // A configured device is charged to nobody.
            let charged = whole.charged.filter(|_holder| whole.configured.is_none());
            let device = if is_whole {
                Device { charged, ..whole }
            } else {
                Device {
                    source: whole.source,
                    references: whole.references,
                    charged,
                    described_by: whole.described_by,
                    configured: whole.configured,
                    ..Device::new(whole.key, whole.facts)
                }
            };
            let is_new = self.table.restore(device);
            debug_assert!(is_new, "devices of a ledger have keys of their own");
        }
        numbers
    }

    /// Keeps those who are gone and what failed, as far as it is about the part.
    fn keep_past(
        &mut self,
        departed: &VecDeque<DepartedView>,
        failures: &Failures,
        part: &Part,
        numbers: &HashMap<u32, u32>,
    ) {
        let departed = departed.iter().filter(|gone| {
            let mut devices = gone.devices.iter();
            part.is_process(&gone.identity) || devices.any(|(key, _totals)| part.is_device(key))
        });
        self.departed = Arc::new(departed.cloned().collect());
        let devices = &self.table.devices;
        let of_part = failures.kept.iter().filter_map(|moment| {
            let moved = moment.devices.iter();
            let moved: Vec<u32> = moved.filter_map(|old| numbers.get(old).copied()).collect();
            let mut keys = moved.iter().map(|number| &devices[*number as usize].key);
            let is_kept = part.is_process(&moment.identity) || keys.any(|key| part.is_device(key));
            is_kept.then(|| {
                let mut moment = Arc::clone(moment);
                Arc::make_mut(&mut moment).devices = moved;
                moment
            })
        });
        self.failures = Arc::new(Failures::of(of_part.collect()));
    }

    /// Books what a process holds, on devices that have nothing of it.
    fn take_process(&mut self, slot: u32, mut process: Process) {
        for (anomaly, count) in process.account.facts().anomalies.iter() {
            self.anomalies.add(anomaly, count);
        }
        let nothing = Process::new(process.facts.identity.clone());
        let peaks_before: Vec<_> = self.table.devices.iter().map(|each| each.peaks).collect();
        // What it held at most is known with its time.
        self.book_all(&mut process, 0);
        self.restore_devices(slot, &mut process, &nothing, &peaks_before);
        self.processes[slot as usize] = Some(process);
        self.process_views.change(slot);
    }
}
