//! What reading something from outside may cost: bytes and work, both from its size.
//!
//! A few hundred bytes can claim to be anything once they are unpacked and decoded. So whatever a
//! decoder reserves is drawn from a [`Budget`] first, and whatever it does is counted against a
//! [`Turn`]. Both are counts: a file that is refused here is refused on every machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes that any reader may use, and more for each stored byte.
pub const BASE_BYTES: u64 = 64 << 20;
pub const BYTES_PER_STORED_BYTE: u64 = 900;

/// The part of both that is left for the process itself and for documents.
const BASE_BYTES_ASIDE: u64 = 32 << 20;
const BYTES_ASIDE_PER_STORED_BYTE: u64 = 300;

/// Work units of any turn, and more for each stored byte: one second and 20 µs, at eight units for an
/// event, which takes some 200 ns.
pub const BASE_WORK: u64 = 40_000_000;
pub const WORK_PER_STORED_BYTE: u64 = 800;

/// Work after which a turn looks whether it is still wanted.
const LOOK_EVERY: u64 = 1 << 16;

/// Something costs more than its size allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverBudget {
    /// The least that it needs, and what it may have.
    Memory {
        needed: u64,
        most: u64,
        stored: u64,
    },
    Work {
        stored: u64,
    },
}

impl std::fmt::Display for OverBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        match *self {
            Self::Memory {
                needed,
                most,
                stored,
            } => write!(
                f,
                "needs at least {} MiB of memory; {stored} stored bytes may use {} MiB \
                 (64 MiB + {BYTES_PER_STORED_BYTE} bytes each)",
                mib(needed),
                mib(most),
            ),
            Self::Work { stored } => {
                let tenths = 10 + stored / 5_000;
                write!(
                    f,
                    "needs more work than {stored} stored bytes may take: about {}.{} s (1 s + 20 µs each)",
                    tenths / 10,
                    tenths % 10,
                )
            }
        }
    }
}

impl std::error::Error for OverBudget {}

/// The memory that may be used for stored bytes; clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<Shared>,
    /// What it is a part of: that has to have room, too.
    whole: Option<Arc<Shared>>,
}

#[derive(Debug)]
struct Shared {
    stored: AtomicU64,
    used: AtomicU64,
}

impl Budget {
    /// The budget of so many stored bytes.
    #[must_use]
    pub fn of_stored(stored: u64) -> Self {
        let shared = Shared {
            stored: AtomicU64::new(stored),
            used: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
            whole: None,
        }
    }

    /// The budget of one of several files that are read together.
    #[must_use]
    pub fn part_of(whole: &Self, stored: u64) -> Self {
        Self {
            whole: Some(Arc::clone(&whole.shared)),
            ..Self::of_stored(stored)
        }
    }

    /// The budget of other files: some came, some went.
    pub fn set_stored(&self, stored: u64) {
        self.shared.stored.store(stored, Ordering::Relaxed);
    }

    #[must_use]
    pub fn stored(&self) -> u64 {
        self.shared.stored()
    }

    #[must_use]
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// The most that may be drawn: what is left for documents aside.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.shared.most()
    }

    /// Bytes reserved for documents.
    #[must_use]
    pub fn aside(&self) -> u64 {
        self.shared.aside()
    }

    /// What may still be drawn.
    #[must_use]
    pub fn left(&self) -> u64 {
        let left = |shared: &Shared| {
            let used = shared.used.load(Ordering::Relaxed);
            shared.most().saturating_sub(used)
        };
        let of_whole = self.whole.as_deref().map_or(u64::MAX, left);
        left(&self.shared).min(of_whole)
    }

    /// A charge that has nothing yet.
    #[must_use]
    pub fn charge(&self) -> Charge {
        Charge {
            budget: self.clone(),
            bytes: 0,
        }
    }

    fn draw(&self, bytes: u64) -> Result<(), OverBudget> {
        self.shared.draw(bytes)?;
        if let Some(whole) = &self.whole {
            whole
                .draw(bytes)
                .inspect_err(|_full| self.shared.give_back(bytes))?;
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.shared.give_back(bytes);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }
}

impl Shared {
    fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    fn most(&self) -> u64 {
        self.total() - self.aside()
    }

    fn total(&self) -> u64 {
        let stored = self.stored();
        BASE_BYTES.saturating_add(stored.saturating_mul(BYTES_PER_STORED_BYTE))
    }

    fn aside(&self) -> u64 {
        let stored = self.stored();
        BASE_BYTES_ASIDE.saturating_add(stored.saturating_mul(BYTES_ASIDE_PER_STORED_BYTE))
    }

    fn draw(&self, bytes: u64) -> Result<(), OverBudget> {
        let most = self.most();
        let drawn = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
        let order = Ordering::Relaxed;
        match self.used.fetch_update(order, order, drawn) {
            Ok(_before) => Ok(()),
            Err(used) => Err(OverBudget::Memory {
                needed: used.saturating_add(bytes).saturating_add(self.aside()),
                most: self.total(),
                stored: self.stored(),
            }),
        }
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that were drawn from a budget, given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: u64,
}

impl Charge {
    /// Draws some more.
    ///
    /// # Errors
    /// When the budget does not have them; nothing is drawn then.
    #[inline]
    pub fn draw(&mut self, bytes: u64) -> Result<(), OverBudget> {
        self.budget.draw(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Draws more or gives back, so that it has so many.
    ///
    /// # Errors
    /// As [`Charge::draw`]; what was drawn stays.
    pub fn set(&mut self, bytes: u64) -> Result<(), OverBudget> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.draw(more),
            None => {
                self.give_back(self.bytes - bytes);
                Ok(())
            }
        }
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    fn give_back(&mut self, bytes: u64) {
        self.budget.give_back(bytes);
        self.bytes -= bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// Why a turn ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    OverBudget(OverBudget),
    /// The reader has gone.
    Gone,
}

/// The work of answering one question.
#[derive(Clone, Debug)]
pub struct Turn {
    stored: u64,
    spent: u64,
    most: u64,
    look_at: u64,
    gone: Option<Arc<AtomicBool>>,
}

impl Turn {
    /// A turn over so many stored bytes; it ends once `gone` is set.
    #[must_use]
    pub fn new(stored: u64, gone: Option<Arc<AtomicBool>>) -> Self {
        Self {
            stored,
            spent: 0,
            most: BASE_WORK.saturating_add(stored.saturating_mul(WORK_PER_STORED_BYTE)),
            look_at: 0,
            gone,
        }
    }

    /// Counts work.
    ///
    /// # Errors
    /// When there is none left, or the reader has gone.
    #[inline]
    pub fn spend(&mut self, units: u64) -> Result<(), TurnEnd> {
        self.spent = self.spent.saturating_add(units);
        if self.spent >= self.look_at {
            return self.look();
        }
        Ok(())
    }

    #[cold]
    fn look(&mut self) -> Result<(), TurnEnd> {
        let is_gone = self.gone.as_ref();
        if is_gone.is_some_and(|gone| gone.load(Ordering::Relaxed)) {
            return Err(TurnEnd::Gone);
        }
        if self.spent > self.most {
            return Err(TurnEnd::OverBudget(self.over()));
        }
        self.look_at = (self.spent + LOOK_EVERY).min(self.most);
        Ok(())
    }

    #[must_use]
    pub fn spent(&self) -> u64 {
        self.spent
    }

    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The error for a turn without work left.
    #[must_use]
    pub fn over(&self) -> OverBudget {
        OverBudget::Work {
            stored: self.stored,
        }
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.spent > self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_share_a_budget_and_give_back() {
        let budget = Budget::of_stored(1000);
        let (mut one, mut other) = (budget.charge(), budget.charge());
        one.draw(budget.most()).unwrap();
        let refused = other.draw(1).unwrap_err();
        let needed = 1 + BASE_BYTES + 1000 * BYTES_PER_STORED_BYTE;
        assert!(matches!(refused, OverBudget::Memory { needed: least, .. } if least == needed));
        assert_eq!(
            refused.to_string(),
            "needs at least 65 MiB of memory; 1000 stored bytes may use 65 MiB (64 MiB + 900 bytes each)"
        );
        one.set(10).unwrap();
        other.draw(1).unwrap();
        drop((one, other));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_turn_ends_by_its_work_or_its_reader() {
        let gone = Arc::new(AtomicBool::new(false));
        let mut turn = Turn::new(10, Some(Arc::clone(&gone)));
        turn.spend(turn.most()).unwrap();
        let over = turn.spend(1).unwrap_err();
        let expected = OverBudget::Work { stored: 10 };
        assert_eq!(over, TurnEnd::OverBudget(expected));
        assert_eq!(
            expected.to_string(),
            "needs more work than 10 stored bytes may take: about 1.0 s (1 s + 20 µs each)"
        );
        gone.store(true, Ordering::Relaxed);
        let mut turn = Turn::new(10, Some(gone));
        assert_eq!(turn.spend(0), Err(TurnEnd::Gone));
    }
}
