//! The whole ledger as bytes, and a ledger made of them.
//!
//! What [`Ledger::load`] makes is the ledger that was saved: every view of it is the same, and so is
//! whatever comes of later changes. Nothing in the bytes is believed: accounts are read through their
//! own checks, what devices hold is summed up anew, and bytes that do not come out as they were saved
//! are refused as a whole. Texts stand once each in front of everything else.

mod parts;

use crate::counts::Counts;
use crate::device::DeviceKey;
use crate::failures::Failures;
use crate::growth::ReaderSeries;
use crate::ledger::{Ledger, Limits};
use crate::process::Process;
use crate::shares::Holder;
use crate::view::DepartedView;
use parts::{SavedDevice, SavedProcess};
use std::collections::VecDeque;
use std::sync::Arc;
use ttmem_account::budget::{Budget, OverBudget, Turn, TurnEnd};
use ttmem_account::state::SlotRoom;
use ttmem_account::state::codec::{Codec, Out, Reader, Room, fingerprint_of};
use ttmem_account::{Account, Anomalies, ChipKey, Marks, Totals};

/// Texts and slots of processes in a state. Each is a byte in a file that is packed well, and much more in memory.
const MAX_TEXTS: u64 = 1 << 22;
pub(crate) const MAX_SLOTS: u64 = 1 << 16;

/// What a text takes besides its bytes, and a process besides what it has.
const TEXT_BYTES: usize = 64;
const PROCESS_BYTES: usize = 2 * size_of::<Option<Process>>();

/// Bytes that are no state of a ledger of this layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("the state of the ledger is in another layout")]
    Layout,
    #[error("the state of the ledger breaks off or has an impossible {0}")]
    Invalid(&'static str),
    #[error("the state of the ledger {0}")]
    OverBudget(OverBudget),
    #[error("the reader has gone")]
    Gone,
}

use LoadError::Invalid;

impl From<TurnEnd> for LoadError {
    fn from(end: TurnEnd) -> Self {
        match end {
            TurnEnd::OverBudget(over) => Self::OverBudget(over),
            TurnEnd::Gone => Self::Gone,
        }
    }
}

/// What a ledger has besides devices and processes.
#[derive(Debug)]
struct Rest {
    events: u64,
    revision: u64,
    anomalies: Anomalies,
    counts: Counts,
    departed: VecDeque<DepartedView>,
    marks: Marks,
    series: ReaderSeries,
    failures: Failures,
    free_slots: Vec<u32>,
}

ttmem_account::codec! { describe_rest:
    Rest { anomalies, counts, departed, marks, series, failures, free_slots } counts { events, revision };
}

/// The fingerprint of the first layout, which had no counts and no labels.
const FIRST_FINGERPRINT: u64 = 0xc0db_a6eb_0fb8_2ceb;

/// That of the second layout, in which failures did not say which blocks were of the call that failed.
const SECOND_FINGERPRINT: u64 = 0x6c76_acab_10c8_af2c;

/// A fingerprint of the layout: two builds that agree on it agree on every byte.
#[must_use]
pub fn fingerprint() -> u64 {
    fingerprint_of(|give| {
        ttmem_account::state::describe_whole(give);
        parts::describe(give);
        describe_rest(give);
    })
}

impl Ledger {
    /// Whether it can be saved now: not while a process is in the middle of an event.
    #[must_use]
    pub fn can_save(&self) -> bool {
        let mut processes = self.processes.iter().flatten();
        processes.all(|process| !process.account.is_unfinished())
    }

    /// Appends all that it knows.
    pub fn save(&self, out: &mut Vec<u8>) {
        let mut body = Out::default();
        let devices = self.table.devices.iter().map(SavedDevice::of);
        put_each(&mut body, devices);
        (self.processes.len() as u64).put(&mut body);
        let mut room = SlotRoom::default();
        for process in &self.processes {
            process.is_some().put(&mut body);
            if let Some(process) = process {
                SavedProcess::of(process).put(&mut body);
                process.account.save_whole(&mut body, &mut room);
            }
        }
        let rest = Rest {
            events: self.events,
            revision: self.revision,
            anomalies: self.anomalies.clone(),
            counts: self.counts,
            departed: VecDeque::clone(&self.departed),
            marks: Marks::clone(&self.marks),
            series: ReaderSeries::clone(&self.series),
            failures: Failures::clone(&self.failures),
            free_slots: self.free_slots.clone(),
        };
        rest.put(&mut body);
        let mut head = Out::after(std::mem::take(out));
        fingerprint().put(&mut head);
        (body.texts().len() as u64).put(&mut head);
        for text in body.texts() {
            (text.len() as u64).put(&mut head);
            head.bytes.extend_from_slice(text.as_bytes());
        }
        head.bytes.append(&mut body.bytes);
        *out = head.bytes;
    }

    /// Makes the ledger that was saved.
    ///
    /// # Errors
    /// When the bytes are anything else.
    pub fn load(bytes: &[u8], limits: Limits) -> Result<Self, LoadError> {
        Self::load_renamed(bytes, limits, |text| Arc::from(text))
    }

    /// The same, if what it takes is within a budget.
    ///
    /// # Errors
    /// As [`Ledger::load`], or when it needs more, or its reader has gone.
    pub fn load_within(
        bytes: &[u8],
        limits: Limits,
        (budget, turn): (&Budget, &Turn),
    ) -> Result<Self, LoadError> {
        let room = Room::of(budget.charge(), turn.clone());
        Self::load_with(bytes, limits, room, &mut |text| Arc::from(text))
    }

    /// The same with every text replaced by another.
    ///
    /// # Errors
    /// As [`Ledger::load`].
    pub fn load_renamed(
        bytes: &[u8],
        limits: Limits,
        mut rename: impl FnMut(&str) -> Arc<str>,
    ) -> Result<Self, LoadError> {
        Self::load_with(bytes, limits, Room::default(), &mut rename)
    }

    fn load_with(
        bytes: &[u8],
        limits: Limits,
        mut room: Room,
        rename: &mut dyn FnMut(&str) -> Arc<str>,
    ) -> Result<Self, LoadError> {
        let mut head = Reader::new(bytes, &[]);
        let layout = head.get::<u64>();
        let is_first_layout = layout == Some(FIRST_FINGERPRINT);
        let has_calls = layout == Some(fingerprint());
        if !has_calls && !is_first_layout && layout != Some(SECOND_FINGERPRINT) {
            return Err(LoadError::Layout);
        }
        let mut texts = Vec::new();
        let count = head.get::<u64>().filter(|count| *count <= MAX_TEXTS);
        for _text in 0..count.ok_or(Invalid("list of texts"))? {
            let text = get_text(&mut head).ok_or(Invalid("text"))?;
            let drawn = room.draw(text.len() + TEXT_BYTES);
            if drawn.is_none() {
                return Err(room.over().map_or(Invalid("text"), LoadError::from));
            }
            texts.push(rename(text));
        }
        let mut read = Reader::new(head.bytes, &texts);
        read.is_first_layout = is_first_layout;
        read.has_calls = has_calls;
        read.room = room;
        let loaded = Self::load_body(&mut read, limits, rename);
        // What was too large may look like anything.
        read.room.over().map_or(loaded, |over| Err(over.into()))
    }

    fn load_body(
        read: &mut Reader<'_>,
        limits: Limits,
        rename: &mut dyn FnMut(&str) -> Arc<str>,
    ) -> Result<Self, LoadError> {
        let devices: Vec<SavedDevice> = read.get().ok_or(Invalid("device"))?;
        let mut ledger = Self::new(limits);
        let count = read.get::<u64>().filter(|count| *count <= MAX_SLOTS);
        let count = count.ok_or(Invalid("list of processes"))?;
        let mut room = SlotRoom::default();
        for _process in 0..count {
            let is_there = read.get::<bool>().ok_or(Invalid("process"))?;
            let drawn = read.room.draw(PROCESS_BYTES);
            drawn.ok_or(Invalid("list of processes"))?;
            let process = is_there.then(|| {
                let saved: SavedProcess = read.get()?;
                let limits = &ledger.limits.account;
                let account = Account::load_whole(read, limits, &mut room, rename)?;
                ledger.work += account.work();
                saved.into_process(account)
            });
            let process = match process {
                Some(loaded) => Some(loaded.ok_or(Invalid("process"))?),
                None => None,
            };
            ledger.processes.push(process);
        }
        let rest: Rest = read.get().ok_or(Invalid("record of the past"))?;
        if !read.bytes.is_empty() {
            return Err(Invalid("end"));
        }
        ledger.restore_devices_of_state(devices)?;
        ledger.restore_rest(rest)?;
        Ok(ledger)
    }

    /// Puts devices in their places, if they hold what their processes say.
    fn restore_devices_of_state(&mut self, devices: Vec<SavedDevice>) -> Result<(), LoadError> {
        let mut held: Vec<Held> = devices.iter().map(|_device| Held::default()).collect();
        for (index, process) in (0..).zip(&self.processes) {
            let Some(process) = process else { continue };
            let facts = process.account.facts();
            if facts.devices.len() != process.devices.len() {
                return Err(Invalid("number of devices"));
            }
            for (number, own) in process.devices.iter().zip(&facts.devices) {
                let saved = devices.get(*number as usize);
                let saved = saved.ok_or(Invalid("device of a process"))?;
                if saved.key != key_of(process, own.key) {
                    return Err(Invalid("device of a process"));
                }
                held[*number as usize].add(own.totals, process.holder(index));
            }
        }
        for (saved, held) in devices.into_iter().zip(held) {
            let device = saved
                .into_device(&held)
                .ok_or(Invalid("total of a device"))?;
            if !self.table.restore(device) {
                return Err(Invalid("device"));
            }
        }
        Ok(())
    }

    fn restore_rest(&mut self, rest: Rest) -> Result<(), LoadError> {
        let mut is_free: Vec<bool> = self.processes.iter().map(Option::is_none).collect();
        for slot in &rest.free_slots {
            let slot = is_free.get_mut(*slot as usize).filter(|free| **free);
            *slot.ok_or(Invalid("free slot"))? = false;
        }
        if is_free.contains(&true) || rest.departed.len() > self.limits.departed {
            return Err(Invalid("number of processes"));
        }
        let devices = self.table.devices.len();
        let mut failed = rest.failures.iter().flat_map(|moment| &moment.devices);
        let is_unknown = failed.any(|number| *number as usize >= devices);
        drop(failed);
        if is_unknown {
            return Err(Invalid("device of a failure"));
        }
        for slot in 0..self.processes.len() {
            let slot = u32::try_from(slot).map_err(|_many| Invalid("number of processes"))?;
            self.process_views.change(slot);
        }
        self.events = rest.events;
        self.revision = rest.revision;
        self.anomalies = rest.anomalies;
        self.counts = rest.counts;
        self.departed = Arc::new(rest.departed);
        self.marks = Arc::new(rest.marks);
        self.series = Arc::new(rest.series);
        self.failures = Arc::new(rest.failures);
        self.free_slots = rest.free_slots;
        Ok(())
    }
}

/// What processes hold on a device.
#[derive(Debug, Default)]
struct Held {
    totals: Totals,
    holders: Vec<Holder>,
}

impl Held {
    fn add(&mut self, totals: Totals, holder: Holder) {
        self.totals.add(totals, 0, 0);
        self.holders.push(holder);
    }
}

fn key_of(process: &Process, key: ChipKey) -> DeviceKey {
    match key {
        ChipKey::Unique(id) => DeviceKey::Unique(id),
        ChipKey::Logical(id) => DeviceKey::Logical {
            visible: Arc::clone(&process.facts.identity.visible_devices),
            id,
        },
    }
}

fn get_text<'a>(read: &mut Reader<'a>) -> Option<&'a str> {
    let length = usize::try_from(read.get::<u64>()?).ok()?;
    std::str::from_utf8(read.take(length)?).ok()
}

fn put_each<T: Codec>(out: &mut Out, items: impl ExactSizeIterator<Item = T>) {
    (items.len() as u64).put(out);
    items.for_each(|item| item.put(out));
}
