//! What the ledger of a player takes of a budget.
//!
//! It is measured now and then. In between, each change is charged with what it may have added: pages of
//! rows exactly, everything else rather too much.

use ttmem_account::budget::{Charge, OverBudget, Turn, TurnEnd};
use ttmem_event::{Definition, EventKind};
use ttmem_ledger::{Change, EVENT_WORK, Ledger};

/// What may be added before it is measured again: at most a part of what is left, at least so much.
const PART: u64 = 4;
const LEAST: u64 = 256 << 10;

/// What an event adds: by itself, and for each row, device or core that it touches.
const EVENT_BYTES: u64 = 512;
const BYTES_PER_UNIT: u64 = 512;

/// The same for each core type of a device whose program is gone.
const LEFT_BYTES_PER_UNIT: u64 = 17 << 10;

/// Storage or a kernel of a program, whose entries are copied when its devices do not share them any more.
const ENTRY_BYTES: u64 = 160;
const MOST_ENTRIES: u64 = 1024;

/// A block that is kept with a failure.
const BLOCK_BYTES: u64 = 48;
const MOST_BLOCKS: u64 = 1 << 16;

/// What is kept of a process that ends, or of what it held when its meshes closed, besides its rows.
const LEFT_BEHIND_BYTES: u64 = 512 << 10;

/// What becomes of a byte of a state.
const BYTES_PER_STATE_BYTE: u64 = 24;

#[derive(Debug)]
pub(crate) struct Growth {
    charge: Charge,
    /// What may still be added before it is measured.
    left: u64,
}

/// What a ledger was before a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    work: u64,
    pages: u64,
}

impl Before {
    #[inline]
    pub(crate) fn of(ledger: &Ledger, process: Option<u32>) -> Self {
        Self {
            work: ledger.work(),
            pages: process.map_or(0, |process| ledger.page_bytes(process)),
        }
    }
}

impl Growth {
    pub(crate) fn new(charge: Charge) -> Self {
        Self { charge, left: 0 }
    }

    /// The ledger is another one.
    pub(crate) fn measure(&mut self, ledger: &Ledger, turn: &mut Turn) -> Result<(), TurnEnd> {
        let (bytes, looked_at) = ledger.footprint();
        turn.spend(looked_at)?;
        self.left = 0;
        let rest = self.charge.budget().left() + self.charge.bytes();
        let rest = rest.saturating_sub(bytes);
        let mut part = (rest / PART).max(LEAST);
        loop {
            match self.charge.set(bytes.saturating_add(part)) {
                Ok(()) => break,
                // Others may draw at the same time.
                Err(_over) if part > LEAST => part = (part / PART).max(LEAST),
                Err(over) => return Err(TurnEnd::OverBudget(over)),
            }
        }
        self.left = part;
        Ok(())
    }

    /// Gives back what was drawn for changes to come.
    pub(crate) fn give_up_rest(&mut self) {
        // Giving back does not fail.
        let _given_back = self.charge.set(self.bytes());
        self.left = 0;
    }

    /// There is no ledger.
    pub(crate) fn clear(&mut self) {
        self.left = 0;
        // Giving back does not fail.
        let _given_back = self.charge.set(0);
    }

    /// What is held for the ledger now.
    pub(crate) fn bytes(&self) -> u64 {
        self.charge.bytes().saturating_sub(self.left)
    }

    /// Counts an event that was applied.
    #[inline]
    pub(crate) fn count_event(
        &mut self,
        ledger: &Ledger,
        (process, kind): (u32, &EventKind),
        before: Before,
        turn: &mut Turn,
    ) -> Result<(), TurnEnd> {
        let now = Before::of(ledger, Some(process));
        let units = now.work.saturating_sub(before.work);
        turn.spend(EVENT_WORK + units)?;
        let pages = now.pages.saturating_sub(before.pages);
        let more = pages + EVENT_BYTES + units.saturating_mul(BYTES_PER_UNIT);
        self.add(more + more_of(kind, units, ledger, process), ledger, turn)
    }

    /// Draws what another change may take before it is applied.
    pub(crate) fn expect(
        &mut self,
        ledger: &Ledger,
        change: &Change,
        turn: &mut Turn,
    ) -> Result<(), TurnEnd> {
        let more = match change {
            Change::Join { identity, .. } => {
                let texts = identity.name.len() + identity.command.len();
                (32 << 10) + 2 * (texts + identity.visible_devices.len()) as u64
            }
            Change::Resync { resync, .. } => {
                let state = resync.state.len() as u64;
                let devices = devices_of(&resync.definitions);
                BYTES_PER_STATE_BYTE * state
                    + devices * LEFT_BYTES_PER_UNIT
                    + bytes_of(&resync.definitions)
            }
            Change::Define { definitions, .. } => bytes_of(definitions),
            Change::Depart { process, .. } if ledger.identity(*process).is_some() => {
                let (rows, _placed) = ledger.rows_of(*process);
                LEFT_BEHIND_BYTES + 256 * rows
            }
            Change::ApplyEvent { .. } | Change::ConfigureDevice(_) | Change::SetLabels { .. } => {
                16 << 10
            }
            Change::Apply(_)
            | Change::Depart { .. }
            | Change::SetState { .. }
            | Change::Refuse { .. }
            | Change::MarkIncomplete { .. }
            | Change::BeginResync { .. }
            | Change::SetMark { .. } => EVENT_BYTES,
        };
        // What does not fit even when all of it is measured is refused before it is applied.
        if more > self.left {
            self.measure(ledger, turn)?;
            if more > self.left {
                let missing = more - self.left;
                self.charge.draw(missing).map_err(TurnEnd::OverBudget)?;
                self.left = more;
            }
        }
        self.left -= more;
        Ok(())
    }

    /// Counts another change that was applied.
    pub(crate) fn count_change(
        &mut self,
        ledger: &Ledger,
        change: &Change,
        before: Before,
        turn: &mut Turn,
    ) -> Result<(), TurnEnd> {
        let now = Before::of(ledger, change.process());
        let units = now.work.saturating_sub(before.work);
        turn.spend(CHANGE_WORK + units)?;
        if matches!(change, Change::Resync { .. } | Change::Depart { .. }) {
            // All that they may add was drawn before. To measure after each looks at every process each time.
            return Ok(());
        }
        let pages = now.pages.saturating_sub(before.pages);
        let more = match change {
            Change::ApplyEvent { process, event, .. } => {
                more_of(&event.kind, units, ledger, *process)
            }
            _other => 0,
        };
        let more = more + pages + units.saturating_mul(BYTES_PER_UNIT);
        self.add(more, ledger, turn)
    }

    #[inline]
    fn add(&mut self, more: u64, ledger: &Ledger, turn: &mut Turn) -> Result<(), TurnEnd> {
        match self.left.checked_sub(more) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => self.measure(ledger, turn),
        }
    }
}

/// Work units of a change other than events, besides what it touches.
const CHANGE_WORK: u64 = 32;

/// What some kinds of events add besides.
fn more_of(kind: &EventKind, units: u64, ledger: &Ledger, process: u32) -> u64 {
    match kind {
        EventKind::CbAllocated { .. }
        | EventKind::CbFreed { .. }
        | EventKind::KernelLoaded { .. }
        | EventKind::KernelUnloaded { .. } => {
            let (_rows, placed) = ledger.rows_of(process);
            ENTRY_BYTES * placed.min(MOST_ENTRIES)
        }
        EventKind::ProgramDestroyed { .. } => units.saturating_mul(LEFT_BYTES_PER_UNIT),
        EventKind::DeviceClosed { .. } | EventKind::MeshClosed { .. } => {
            LEFT_BEHIND_BYTES + units.saturating_mul(LEFT_BYTES_PER_UNIT)
        }
        EventKind::AllocationFailed { .. } | EventKind::Clashed { .. } => {
            let (rows, _placed) = ledger.rows_of(process);
            EVENT_BYTES + BLOCK_BYTES * rows.min(MOST_BLOCKS)
        }
        _others => 0,
    }
}

fn devices_of(definitions: &[Definition]) -> u64 {
    let devices = definitions.iter();
    let devices = devices.filter(|each| matches!(each, Definition::Device(_)));
    devices.count() as u64
}

fn bytes_of(definitions: &[Definition]) -> u64 {
    let bytes = definitions.iter().map(|definition| match definition {
        Definition::Text { text, .. } => text.len() + 256,
        Definition::Cores { .. } => 512,
        Definition::Device(_) => 8 << 10,
        Definition::Mesh(mesh) => (2 << 10) + 64 * mesh.devices.len(),
    });
    bytes.sum::<usize>() as u64
}

/// What a ledger in a budget needs besides: for a copy that is kept.
pub(crate) fn copy_of(growth: &Growth) -> Result<Charge, OverBudget> {
    let mut charge = growth.charge.budget().charge();
    charge.draw(growth.bytes())?;
    Ok(charge)
}
