//! The buffers of one class that live on one device, followed from event to event.
//!
//! What an event changed says the ledger; after anything larger (a resync, a departure, a jump in the
//! recording) the rows are compared. So what is followed here is what the ledger has, at every event.

use std::collections::HashMap;
use ttmem_event::{Class, TextId};
use ttmem_ledger::{BufferRow, Change, DeviceKey, Effect, EffectKind, Ledger};
use ttmem_record::{Charge, Follow, OverBudget, Played};

/// A buffer as it lies in every bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) id: u64,
    pub(super) address: u64,
    pub(super) per_bank_bytes: u64,
    pub(super) charged_bytes: u64,
    pub(super) operation: TextId,
    /// The instant at which it was placed.
    pub(super) since: u64,
}

impl Placed {
    fn of(row: &BufferRow, now: u64) -> Self {
        Self {
            id: row.id,
            address: row.address,
            per_bank_bytes: row.per_bank_bytes,
            charged_bytes: row.charged_bytes(),
            operation: row.operation,
            since: row.time.min(now),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        Self {
            since: other.since,
            ..*self
        } == *other
    }
}

/// Who wants to know which buffers come and go.
pub(super) trait Keeper {
    /// What is kept with each live buffer.
    type Kept;

    fn placed(&mut self, ledger: &Ledger, process: u32, buffer: &Placed) -> Self::Kept;

    fn released(&mut self, time: u64, buffer: &Placed, kept: Self::Kept);

    /// The charged bytes of all live buffers, after anything that may have changed them.
    fn settled(&mut self, _total: u64) {}

    /// What a process has defined counts no more; `None` of all.
    fn forget(&mut self, process: Option<u32>);
}

/// The live buffers of a class of a device.
#[derive(Debug)]
pub(super) struct LiveBuffers<K: Keeper> {
    key: DeviceKey,
    class: Class,
    /// The ledger's number of the device, and how many devices it had when that was looked up.
    device: Option<u32>,
    devices: usize,
    held: HashMap<u32, HashMap<u64, (Placed, K::Kept)>>,
    total: u64,
    /// Buffers that were placed and not released, and what is drawn for them.
    count: u64,
    charge: Charge,
    over: Option<OverBudget>,
    /// Work units since this was last asked.
    work: u64,
    pub(super) keeper: K,
}

/// What a buffer takes here: its place in a table, and what is kept with it.
const BUFFER_BYTES: u64 = 2 * (size_of::<Placed>() as u64 + 48);

/// Buffers that are drawn for at a time.
const DRAWN_AT_ONCE: u64 = 256;

impl<K: Keeper> LiveBuffers<K> {
    pub(super) fn new(key: DeviceKey, class: Class, keeper: K, charge: Charge) -> Self {
        Self {
            count: 0,
            charge,
            over: None,
            work: 0,
            key,
            class,
            device: None,
            devices: 0,
            held: HashMap::new(),
            total: 0,
            keeper,
        }
    }

    /// Takes over what a ledger has, wherever it comes from.
    pub(super) fn compare_all(&mut self, ledger: &Ledger, time: u64) {
        self.keeper.forget(None);
        self.devices = usize::MAX;
        self.locate(ledger);
        let mut processes: Vec<u32> = self.held.keys().copied().collect();
        processes.extend(ledger.process_slots());
        processes.sort_unstable();
        processes.dedup();
        for process in processes {
            self.compare(ledger, process, time);
        }
        self.keeper.settled(self.total);
    }

    /// A charge for what is kept of them.
    pub(super) fn another_charge(&self) -> Charge {
        self.charge.budget().charge()
    }

    pub(super) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    pub(super) fn over_budget(&self) -> Option<OverBudget> {
        self.over
    }

    /// One more is held, if there is memory for it.
    fn has_room(&mut self) -> bool {
        self.count += 1;
        if self.count * BUFFER_BYTES > self.charge.bytes() && self.over.is_none() {
            let drawn = self.charge.draw(DRAWN_AT_ONCE * BUFFER_BYTES);
            self.over = drawn.err();
        }
        self.over.is_none()
    }

    /// Whether an event changed something here: what it changed is told, or the total is another one.
    pub(super) fn is_touched(&mut self, ledger: &Ledger, effects: &[Effect]) -> bool {
        self.work += 1;
        self.locate(ledger);
        let device = self.device.and_then(|device| ledger.device(device));
        let total = device.map(|device| device.totals.class(self.class).charged.bytes());
        if total.is_some_and(|total| total != self.total) {
            return true;
        }
        // One that came and went, or moved.
        let mut here = effects.iter().filter(|effect| effect.device == self.device);
        here.any(|effect| match effect.kind {
            EffectKind::BufferBooked { class, .. } | EffectKind::BufferReleased { class, .. } => {
                class == self.class
            }
            _other => false,
        })
    }

    /// Programs run on the device so far.
    pub(super) fn dispatches(&mut self, ledger: &Ledger) -> u64 {
        self.locate(ledger);
        let device = self.device.and_then(|device| ledger.device(device));
        device.map_or(0, |device| device.caches.dispatches)
    }

    /// What is still live: who looked on has seen the rest.
    pub(super) fn into_live(self) -> (K, impl Iterator<Item = (Placed, K::Kept)>) {
        let live = self.held.into_values().flat_map(HashMap::into_values);
        (self.keeper, live)
    }

    /// Finds the device, which may come to be known any time.
    fn locate(&mut self, ledger: &Ledger) {
        let devices = ledger.devices();
        if devices.len() != self.devices {
            self.devices = devices.len();
            self.work += devices.len() as u64;
            let place = devices.iter().position(|device| device.key == self.key);
            self.device = place.and_then(|place| u32::try_from(place).ok());
        }
    }

    /// Takes over what a process has.
    fn compare(&mut self, ledger: &Ledger, process: u32, time: u64) {
        self.work += 16;
        let mut before = self.held.remove(&process).unwrap_or_default();
        let mut now: HashMap<u64, (Placed, K::Kept)> = HashMap::new();
        let known = ledger.process(process).zip(ledger.rows(process));
        if let Some((known, rows)) = known
            && let Some(device) = self.device
        {
            let on_device = |slot: &u32| known.devices.get(*slot as usize) == Some(&device);
            let meshes = known.account.meshes.iter();
            let meshes: Vec<bool> = meshes
                .map(|mesh| mesh.devices.iter().any(on_device))
                .collect();
            self.work += meshes.len() as u64 + ledger.page_bytes(process) / 64;
            for (_slot, row) in rows.buffers.iter() {
                let is_there = meshes.get(row.mesh as usize).copied().unwrap_or(false);
                if row.class != self.class || !is_there {
                    continue;
                }
                let placed = Placed::of(row, time);
                let known = before.remove(&row.id);
                let same = known.filter(|(known, _kept)| known.is_same(&placed));
                let (placed, kept) = match same {
                    Some(same) => same,
                    None => {
                        if !self.has_room() {
                            return;
                        }
                        let kept = self.keeper.placed(ledger, process, &placed);
                        self.total = self.total.saturating_add(placed.charged_bytes);
                        (placed, kept)
                    }
                };
                if let Some((twin, kept)) = now.insert(row.id, (placed, kept)) {
                    // An old sender's addresses are only unique on one mesh.
                    self.release(time, &twin, kept);
                }
            }
        }
        for (placed, kept) in before.into_values() {
            self.release(time, &placed, kept);
        }
        if !now.is_empty() {
            self.held.insert(process, now);
        }
    }

    fn release(&mut self, time: u64, placed: &Placed, kept: K::Kept) {
        self.count = self.count.saturating_sub(1);
        self.total = self.total.saturating_sub(placed.charged_bytes);
        self.keeper.released(time, placed, kept);
    }

    /// Follows what an event changed: the time that it has itself, and the instant at which it was applied.
    fn apply(
        &mut self,
        ledger: &Ledger,
        process: u32,
        effects: &[Effect],
        (told, time): (u64, u64),
    ) {
        self.locate(ledger);
        let Some(device) = self.device else {
            return;
        };
        for effect in effects
            .iter()
            .filter(|effect| effect.device == Some(device))
        {
            match effect.kind {
                EffectKind::BufferBooked {
                    class,
                    id,
                    bytes,
                    address,
                    per_bank_bytes,
                    operation,
                    references: 1,
                } if class == self.class => {
                    let placed = Placed {
                        id,
                        address,
                        per_bank_bytes,
                        charged_bytes: bytes,
                        operation,
                        since: told,
                    };
                    if !self.has_room() {
                        return;
                    }
                    self.work += 4;
                    let kept = self.keeper.placed(ledger, process, &placed);
                    self.total = self.total.saturating_add(bytes);
                    let held = self.held.entry(process).or_default();
                    if let Some((before, kept)) = held.insert(id, (placed, kept)) {
                        self.release(time, &before, kept);
                    }
                }
                EffectKind::BufferReleased {
                    class,
                    id,
                    references: 0,
                    ..
                } if class == self.class => {
                    let held = self.held.get_mut(&process);
                    if let Some((placed, kept)) = held.and_then(|held| held.remove(&id)) {
                        self.release(time, &placed, kept);
                    }
                }
                _other => {}
            }
        }
        let total = ledger
            .device(device)
            .map(|device| device.totals.class(self.class).charged.bytes());
        if total.is_some_and(|total| total != self.total) {
            // A change too large to be told piece by piece.
            self.compare(ledger, process, time);
        }
        self.keeper.settled(self.total);
    }
}

impl<K: Keeper> Follow for LiveBuffers<K> {
    const WANTS_EFFECTS: bool = true;

    fn after(&mut self, ledger: &Ledger, time: u64, played: Played<'_>) {
        match played {
            Played::Event {
                process,
                effects,
                event,
                ..
            } => self.apply(ledger, process, effects, (event.time.min(time), time)),
            Played::Part { process, effects } => {
                self.apply(ledger, process, effects, (time, time));
            }
            Played::Change(Change::Resync { process, .. } | Change::Depart { process, .. }) => {
                self.locate(ledger);
                self.keeper.forget(Some(*process));
                self.compare(ledger, *process, time);
                self.keeper.settled(self.total);
            }
            // What had no name may have one now.
            Played::Change(Change::Define { process, .. }) => self.keeper.forget(Some(*process)),
            Played::Change(_no_bytes) => {}
            Played::Start => self.compare_all(ledger, time),
        }
    }
}
