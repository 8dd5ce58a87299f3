//! What was live at a peak and is freed: kept so that the peak's composition is known.
//!
//! Peaks only move forward, past everything that is freed by then. So what counts of a
//! freed entry is which of the present peaks it was live at, and entries of one name that
//! were live at the same ones are kept as one sum. Each list is in the order of the
//! releases and is trimmed from its front, a little with each release.

use crate::Map;
use crate::footprint::Footprint;
use crate::pages::{Pages, PagesView};
use crate::peak_composition::PeakEntry;
use crate::totals::GaugeKind;
use ttmem_event::TextId;

/// No entry: the end of a list.
const NIL: u32 = u32::MAX;

/// Entries that one release may trim: more than it adds, so that lists shrink.
const TRIMMED_AT_ONCE: usize = 2;

/// Something that was live at a peak, and what was released after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) entry: PeakEntry,
    next: u32,
}

/// A million buffers of distinct names may be freed after a peak.
const _: () = assert!(size_of::<Option<Freed>>() == 48);

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

/// What entries have in common that are kept as one: gauge, place, name, first peak.
type Kind = (GaugeKind, u32, TextId, u64);

fn kind(entry: &PeakEntry) -> Kind {
    (entry.gauge, entry.place, entry.name, entry.placed)
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FreedEntries {
    rows: Pages<Freed>,
    /// The newest entry of each kind.
    newest: Map<Kind, u32>,
}

impl Footprint for FreedEntries {
    fn heap_bytes(&self) -> u64 {
        self.rows.heap_bytes() + self.newest.allocation_size() as u64
    }
}

impl FreedEntries {
    /// Keeps an entry that was just released; `last_peak` is the last event that reached a peak.
    pub(crate) fn push(&mut self, list: &mut FreedList, entry: PeakEntry, last_peak: u64) {
        let newest = self.newest.get(&kind(&entry)).copied();
        if let Some(known) = newest.and_then(|slot| self.rows.get_mut(slot))
            // No peak has moved since: whatever it was live at, this was, too.
            && known.entry.freed > last_peak
        {
            known.entry.count = known.entry.count.saturating_add(entry.count);
            known.entry.bytes = known.entry.bytes.saturating_add(entry.bytes);
            return;
        }
        let Some(slot) = self.rows.insert(Freed { entry, next: NIL }) else {
            return;
        };
        match self.rows.get_mut(list.last) {
            Some(last) => last.next = slot,
            None => list.first = slot,
        }
        list.last = slot;
        self.newest.insert(kind(&entry), slot);
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
            if first.entry.freed > needed_after {
                return;
            }
            let (kind, next) = (kind(&first.entry), first.next);
            if self.newest.get(&kind) == Some(&list.first) {
                self.newest.remove(&kind);
            }
            self.rows.remove(list.first);
            list.first = next;
            if next == NIL {
                list.last = NIL;
            }
        }
    }

    /// The entries of a list, oldest release first, with their slots.
    pub(crate) fn of(&self, list: FreedList) -> impl Iterator<Item = (u32, &PeakEntry)> {
        let at = |slot: u32| self.rows.get(slot).map(|freed| (slot, freed));
        let entries = std::iter::successors(at(list.first), move |(_slot, last)| at(last.next));
        entries.map(|(slot, freed)| (slot, &freed.entry))
    }

    pub(crate) fn pages(&self) -> &Pages<Freed> {
        &self.rows
    }

    pub(crate) fn pages_mut(&mut self) -> &mut Pages<Freed> {
        &mut self.rows
    }

    pub(crate) fn rows(&self) -> &PagesView<Freed> {
        &self.rows
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn view(&self) -> PagesView<Freed> {
        self.rows.view()
    }
}
