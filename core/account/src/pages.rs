//! A slab whose rows a reader can keep while the owner goes on writing.
//!
//! Rows live in fixed pages behind `Arc`. [`Pages::view`] hands out the pages
//! themselves; the owner copies a page the first time it writes to one that a
//! reader still holds. A reader therefore costs the owner nothing per row, and
//! sees exactly the rows of the moment it asked.

use crate::footprint::Footprint;
use std::ops::Deref;
use std::sync::Arc;

/// Rows per page: small enough that one write under a reader copies little,
/// large enough that a million rows are a few thousand pages.
const PAGE_ROWS: usize = 256;

type Page<T> = [Option<T>; PAGE_ROWS];

fn empty_page<T: Clone>() -> Arc<Page<T>> {
    // By way of the heap: a page is too large for the stack of a small thread.
    let rows: Arc<[Option<T>]> = vec![const { None }; PAGE_ROWS].into();
    rows.try_into()
        .ok()
        .expect("a page is made with as many rows as it has")
}

#[derive(Clone, Debug)]
pub struct Pages<T> {
    now: PagesView<T>,
    free: Vec<u32>,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self {
            now: PagesView::default(),
            free: Vec::new(),
        }
    }
}

impl<T> Deref for Pages<T> {
    type Target = PagesView<T>;

    fn deref(&self) -> &PagesView<T> {
        &self.now
    }
}

fn place(slot: u32) -> (usize, usize) {
    let slot = slot as usize;
    (slot / PAGE_ROWS, slot % PAGE_ROWS)
}

impl<T: Clone> Pages<T> {
    /// Adds a row and returns its slot; `None` when there is no slot number left.
    #[inline]
    pub fn insert(&mut self, row: T) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.grow()?,
        };
        *self.slot_mut(slot)? = Some(row);
        self.now.live += 1;
        Some(slot)
    }

    /// Adds a page and hands out its first slot.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Option<u32> {
        let first = u32::try_from(self.now.pages.len() * PAGE_ROWS).ok()?;
        let last = first.checked_add(u32::try_from(PAGE_ROWS - 1).ok()?)?;
        self.now.pages.push(empty_page());
        self.free.extend((first..=last).rev());
        self.free.pop()
    }

    #[inline]
    pub fn remove(&mut self, slot: u32) -> Option<T> {
        let row = self.slot_mut(slot)?.take()?;
        self.free.push(slot);
        self.now.live -= 1;
        Some(row)
    }

    /// The row at a slot, to change; copies its page if a reader holds it.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slot_mut(slot)?.as_mut()
    }

    #[inline]
    fn slot_mut(&mut self, slot: u32) -> Option<&mut Option<T>> {
        let (page, row) = place(slot);
        let page = self.now.pages.get_mut(page)?;
        if Arc::strong_count(page) > 1 {
            unshare(page);
        }
        // There are no weak references: what has one owner may be written to.
        Some(&mut Arc::get_mut(page)?[row])
    }

    /// Puts a row into a slot of one's own choice, making pages up to it.
    ///
    /// For tables whose slots are handed out elsewhere: such a table calls nothing but this,
    /// [`Pages::clear`] and the readers.
    pub fn put(&mut self, slot: u32, row: T) {
        let (page, _row) = place(slot);
        while self.now.pages.len() <= page {
            self.now.pages.push(empty_page());
        }
        let old = self.slot_mut(slot).and_then(|old| old.replace(row));
        self.now.live += usize::from(old.is_none());
    }

    /// Empties a slot that was [`put`](Pages::put).
    pub fn clear(&mut self, slot: u32) {
        // What is not there must not cost a copy of its page.
        if self.get(slot).is_some() {
            let old = self.slot_mut(slot).and_then(Option::take);
            self.now.live -= usize::from(old.is_some());
        }
    }

    /// The slots to [`prepare`](Pages::prepare) an empty slab with, so that it has the same free ones once
    /// rows were inserted in this order.
    pub(crate) fn stack(&self, rows: impl DoubleEndedIterator<Item = u32>) -> Vec<u32> {
        let mut stack = self.free.clone();
        stack.extend(rows.rev());
        stack
    }

    /// Lets an empty slab hand out these slots, the last one first; false if they are not each slot of
    /// some pages once.
    #[must_use]
    pub(crate) fn prepare(&mut self, stack: Vec<u32>) -> bool {
        let mut is_there = vec![false; stack.len()];
        for slot in &stack {
            match is_there.get_mut(*slot as usize) {
                Some(known) if !*known => *known = true,
                _twice_or_outside => return false,
            }
        }
        if !self.now.pages.is_empty() || !stack.len().is_multiple_of(PAGE_ROWS) {
            return false;
        }
        let pages = stack.len() / PAGE_ROWS;
        self.now.pages.extend((0..pages).map(|_page| empty_page()));
        self.free = stack;
        true
    }

    /// What its pages take, about.
    #[inline]
    pub(crate) fn page_bytes(&self) -> usize {
        self.now.pages.len() * (size_of::<Page<T>>() + PAGE_ROWS * size_of::<u32>())
    }

    /// The rows as they are now, for a reader.
    #[must_use]
    pub fn view(&self) -> PagesView<T> {
        self.now.clone()
    }
}

impl<T: Footprint> Footprint for Pages<T> {
    fn heap_bytes(&self) -> u64 {
        let free = self.free.capacity() * size_of::<u32>();
        self.now.heap_bytes() + free as u64
    }
}

impl<T: Footprint> Footprint for PagesView<T> {
    fn heap_bytes(&self) -> u64 {
        if T::FLAT {
            let page = size_of::<Page<T>>() + size_of::<Arc<Page<T>>>() + 32;
            return self.pages.iter().fold(0, |sum, shared| {
                sum + page.div_ceil(Arc::strong_count(shared)) as u64
            });
        }
        self.pages.heap_bytes()
    }
}

/// Copies a page that a reader holds: apart, so that writing to one's own stays short.
#[cold]
#[inline(never)]
fn unshare<T: Clone>(page: &mut Arc<Page<T>>) {
    Arc::make_mut(page);
}

/// The rows of a slab at one moment.
#[derive(Clone, Debug)]
pub struct PagesView<T> {
    pages: Vec<Arc<Page<T>>>,
    live: usize,
}

impl<T> Default for PagesView<T> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            live: 0,
        }
    }
}

impl<T> PagesView<T> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    #[must_use]
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&T> {
        let (page, row) = place(slot);
        self.pages.get(page)?[row].as_ref()
    }

    /// Every row with its slot, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.pages.iter().flat_map(|page| page.iter());
        (0_u32..)
            .zip(slots)
            .filter_map(|(slot, row)| Some((slot, row.as_ref()?)))
    }

    /// The rows at and behind a slot, by slot; what lies before is not looked at.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        let (page, row) = place(first);
        let pages = self.pages.get(page..).unwrap_or_default();
        let slots = pages.iter().flat_map(|page| page.iter()).skip(row);
        (first..=u32::MAX)
            .zip(slots)
            .filter_map(|(slot, row)| Some((slot, row.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_keeps_its_moment_while_the_slab_goes_on() {
        let mut pages = Pages::default();
        let slots: Vec<u32> = (0..1000).map(|row| pages.insert(row).unwrap()).collect();
        let view = pages.view();
        for slot in &slots[..500] {
            pages.remove(*slot).unwrap();
        }
        *pages.get_mut(slots[700]).unwrap() = -1;
        assert_eq!(view.len(), 1000);
        assert!(view.iter().map(|(_slot, row)| *row).eq(0..1000));
        assert_eq!(pages.len(), 500);
        assert_eq!(pages.get(slots[700]), Some(&-1));
    }

    #[test]
    fn a_walk_can_begin_at_any_slot() {
        let mut pages = Pages::default();
        for row in 0..1000_u32 {
            assert_eq!(pages.insert(row), Some(row));
        }
        pages.remove(300).unwrap();
        let view = pages.view();
        for first in [0, 1, 255, 256, 300, 301, 999, 1000, 5000, u32::MAX] {
            let behind = view.iter().filter(|(slot, _row)| *slot >= first);
            assert!(view.iter_from(first).eq(behind), "{first}");
        }
    }

    #[test]
    fn freed_slots_are_used_again_before_new_pages() {
        let mut pages = Pages::default();
        let slots: Vec<u32> = (0..600).map(|row| pages.insert(row).unwrap()).collect();
        for slot in &slots {
            assert!(pages.remove(*slot).is_some());
            assert!(pages.remove(*slot).is_none());
        }
        assert_eq!(pages.len(), 0);
        for row in 0..768 {
            assert!(pages.insert(row).unwrap() < 768);
        }
    }

    #[test]
    fn a_slot_that_never_was_is_no_row() {
        let mut pages: Pages<u8> = Pages::default();
        assert_eq!(pages.get(7), None);
        assert_eq!(pages.remove(u32::MAX), None);
    }
}
