//! The order of the rows of a list, worked out only when rows, order or filter changed.

use super::super::Chosen;
use crate::widgets::Cursor;
use std::cmp::Ordering;
use std::time::Instant;

/// How a list is sorted, which row is chosen, and which row of the document is where.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    pub(super) cursor: Cursor,
    /// The place of the order in the list of those that there are.
    pub(super) sort: usize,
    pub(super) ascending: bool,
    made: Option<Made>,
    places: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Made {
    received: Instant,
    sort: usize,
    ascending: bool,
    filter: String,
    pid: Option<u32>,
}

impl Ordered {
    pub(super) const fn next_sort(&mut self, sorts: usize) {
        self.sort = (self.sort + 1) % sorts;
        self.ascending = false;
    }

    pub(super) fn rows(&self) -> u64 {
        self.places.len() as u64
    }

    /// The place in the document of a row of the list.
    pub(super) fn place(&self, row: u64) -> Option<usize> {
        self.places.get(usize::try_from(row).ok()?).copied()
    }

    /// Brings the order up to date with a document of so many rows.
    ///
    /// `keep` says whether a row is shown; `compare` which of two comes first, of equal ones the
    /// one that the server has first.
    pub(super) fn arrange(
        &mut self,
        (received, rows): (Instant, usize),
        filter: &str,
        chosen: &Chosen,
        keep: impl Fn(usize) -> bool,
        compare: impl Fn(usize, usize, usize) -> Ordering,
    ) {
        let made = Made {
            received,
            sort: self.sort,
            ascending: self.ascending,
            filter: filter.to_owned(),
            pid: chosen.pid,
        };
        if self.made.as_ref() == Some(&made) {
            return;
        }
        self.places.clear();
        self.places.extend((0..rows).filter(|place| keep(*place)));
        let (sort, ascending) = (self.sort, self.ascending);
        self.places.sort_by(|one, other| {
            let order = compare(sort, *one, *other);
            if ascending { order } else { order.reverse() }
        });
        self.made = Some(made);
    }

    /// Forgets all rows, because there is no document.
    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.made = None;
    }
}
