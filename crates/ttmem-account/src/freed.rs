//! What was live at a peak and is freed: kept so that the peak's composition is known.
//!
//! An entry is kept from its release until no peak remains at which it was live,
//! so there are never more of them than were live at a peak. Each list is in the
//! order of the releases and is trimmed from its front, a little with each
//! release.

use crate::pages::{Pages, PagesView};
use crate::program::{Cb, Kernel};
use ttmem_event::{ProgramId, TextId};

/// No entry: the end of a list.
const NIL: u32 = u32::MAX;

/// Entries that one release may trim: more than it adds, so that lists shrink.
const TRIMMED_AT_ONCE: usize = 2;

/// Something that was live at a peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed<T> {
    pub entry: T,
    /// The event that released it, in the order of the process's events.
    pub freed: u64,
    next: u32,
}

/// Storage or a kernel that was live at a peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreedStorage<T> {
    /// The device, as the process counts them.
    pub device: u32,
    /// The program; 0 from old senders.
    pub program: ProgramId,
    pub name: TextId,
    /// The storage or kernel.
    pub entry: T,
}

/// Freed per-core storage of a process.
pub(crate) type FreedCbs = FreedEntries<FreedStorage<Cb>>;
/// Freed kernels of a process.
pub(crate) type FreedKernels = FreedEntries<FreedStorage<Kernel>>;

/// A list of freed entries, oldest release first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreedList {
    first: u32,
    last: u32,
}

impl Default for FreedList {
    fn default() -> Self {
        Self {
            first: NIL,
            last: NIL,
        }
    }
}

/// The freed entries of all lists of one kind.
#[derive(Debug)]
pub(crate) struct FreedEntries<T> {
    rows: Pages<Freed<T>>,
}

impl<T> Default for FreedEntries<T> {
    fn default() -> Self {
        Self {
            rows: Pages::default(),
        }
    }
}

impl<T: Copy> FreedEntries<T> {
    /// Keeps an entry that was released by the event `freed`.
    pub(crate) fn push(&mut self, list: &mut FreedList, entry: T, freed: u64) {
        let next = NIL;
        let Some(slot) = self.rows.insert(Freed { entry, freed, next }) else {
            return;
        };
        match self.rows.get_mut(list.last) {
            Some(last) => last.next = slot,
            None => list.first = slot,
        }
        list.last = slot;
    }

    /// Drops a few entries that were released by `needed_after` or before.
    #[inline]
    pub(crate) fn trim(&mut self, list: &mut FreedList, needed_after: u64) {
        if list.first == NIL {
            return;
        }
        for _entry in 0..TRIMMED_AT_ONCE {
            let Some(first) = self.rows.get(list.first) else {
                return;
            };
            if first.freed > needed_after {
                return;
            }
            let next = first.next;
            self.rows.remove(list.first);
            list.first = next;
            if next == NIL {
                list.last = NIL;
            }
        }
    }

    /// Every entry, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Freed<T>> {
        self.rows.iter().map(|(_slot, freed)| freed)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn view(&self) -> PagesView<Freed<T>> {
        self.rows.view()
    }
}
