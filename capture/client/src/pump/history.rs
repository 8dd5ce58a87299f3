//! Events that the server has not confirmed, and the account before them.
//!
//! History and account meet at one point: the account is the state at the
//! first event of the history. So after any break the two together are exact:
//! send the account, then the history. Confirmed events move over the point
//! into the account; so do the oldest ones when the history reaches its bound,
//! and if those were never sent, they are *elided*.

use super::present::Present;
use crate::room;
use std::collections::VecDeque;
use ttmem_account::{Account, Limits};
use ttmem_event::event::EVENT_BYTES;
use ttmem_event::wire::RingPosition;
use ttmem_event::{Definition, Event, EventKind};
use ttmem_ring::heap::Fallible;

/// Stands for an event that comes from no ring.
const NO_RING: u16 = u16::MAX;

/// Events that there is room for from the beginning.
const FIRST_ROOM: usize = 1024;

/// What a buffer takes in an account, with all that leads to it.
const ROW_BYTES: usize = 512;

/// What an event takes in the history.
const KEPT_BYTES: usize = EVENT_BYTES + size_of::<u16>();

/// Events for one frame.
#[derive(Debug)]
pub(super) struct Batch<'h> {
    pub(super) first_sequence: u64,
    /// Where the rings that they came from stand after them.
    pub(super) positions: Vec<RingPosition>,
    /// The records, in two parts.
    pub(super) records: [&'h [u8]; 2],
}

#[derive(Debug)]
pub(super) struct History {
    records: VecDeque<[u8; EVENT_BYTES]>,
    /// The ring that each came from.
    rings: VecDeque<u16>,
    /// The sequence number of the first that is kept.
    front: u64,
    /// The sequence number of the first that was not put into a frame on this connection.
    unsent: u64,
    /// The state at the front; away while it is put into frames.
    account: Option<Account>,
    limits: Limits,
    /// The state after the last event, once the process has asked for its own figures.
    present: Option<Present>,
    /// Positions of the rings at the front, and at the first unsent.
    at_front: Vec<u64>,
    at_unsent: Vec<u64>,
    /// Positions up to which frames were sent whole.
    delivered: Vec<u64>,
    bound: usize,
    elided: u64,
    lost: u64,
    /// Whether events before the front were never sent on this connection.
    gap: bool,
    /// Whether the oldest events are being folded, until half the bound is left.
    folding: bool,
}

impl History {
    /// An empty history; `legacy` if the process speaks the old senders' vocabulary.
    pub(super) fn new(bound: usize, legacy: bool) -> Self {
        Self {
            records: VecDeque::with_capacity(FIRST_ROOM),
            rings: VecDeque::with_capacity(FIRST_ROOM),
            front: 0,
            unsent: 0,
            account: Some(Account::new(legacy)),
            limits: Limits::default(),
            present: None,
            at_front: Vec::new(),
            at_unsent: Vec::new(),
            delivered: Vec::new(),
            bound: bound.max(1),
            elided: 0,
            lost: 0,
            gap: false,
            folding: false,
        }
    }

    /// Adds an event after all others.
    #[inline]
    pub(super) fn push(&mut self, record: &[u8; EVENT_BYTES], ring: Option<u16>) {
        if self.records.len() == self.records.capacity() {
            self.make_room();
        }
        self.records.push_back(*record);
        self.rings.push_back(ring.unwrap_or(NO_RING));
    }

    /// Makes room for more; where the system has no memory left, what is there is the bound.
    #[cold]
    fn make_room(&mut self) {
        let more = self.records.len();
        let _fallible = Fallible::begin();
        let grown = room::allows(more.saturating_mul(KEPT_BYTES))
            && self.records.try_reserve(more).is_ok()
            && self.rings.try_reserve(more).is_ok();
        if !grown || !room::is_there(0) {
            self.records.shrink_to_fit();
            self.rings.shrink_to_fit();
            self.bound = self.bound.min(more.saturating_sub(1)).max(1);
            self.keep_to_bound(usize::MAX);
        }
    }

    /// Learns what events refer to.
    pub(super) fn define(&mut self, definition: &Definition) {
        if let Some(present) = &mut self.present {
            present.define(definition);
        }
        // The account needs no texts: the server has them from the dictionary.
        if let (Some(account), false) = (
            &mut self.account,
            matches!(definition, Definition::Text { .. }),
        ) {
            // A refusal is counted where it happens.
            let _refused = account.define(definition, &self.limits, &mut ());
        }
    }

    /// The state after the last event, as far as it has followed; `None` before it was asked for.
    pub(super) fn present(&mut self) -> Option<&mut Present> {
        self.present.as_mut()
    }

    /// What a copy of the account, or a list of all that is in it, takes about.
    pub(super) fn account_bytes(&self) -> usize {
        let account = self.account.as_ref().map_or(0, Account::len);
        (account + self.records.len()).saturating_mul(ROW_BYTES)
    }

    /// Begins to follow, and learns the texts: the account at the front has none.
    pub(super) fn begin_present(&mut self, texts: impl IntoIterator<Item = Definition>) {
        if let Some(account) = &self.account {
            let mut present = Present::new(account, self.front);
            for text in texts {
                present.define(&text);
            }
            self.present = Some(present);
        }
    }

    /// Has the present follow so many events; true once it lacks none.
    pub(super) fn follow(&mut self, most: usize) -> bool {
        let Some(present) = &mut self.present else {
            return false;
        };
        let known = present.next().saturating_sub(self.front);
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let from = known.min(self.records.len());
        let until = known.saturating_add(most).min(self.records.len());
        for (sequence, record) in (present.next()..).zip(self.records.range(from..until)) {
            // What this process encoded can be decoded.
            match Event::decode(record) {
                Ok(event) => present.follow(sequence, &event),
                Err(_unknown) => present.skip(sequence),
            }
        }
        present.next() >= self.front + self.records.len() as u64
    }

    /// The sequence number of the first event that is kept.
    pub(super) fn front(&self) -> u64 {
        self.front
    }

    /// The sequence number after the last event.
    pub(super) fn end(&self) -> u64 {
        self.front + self.records.len() as u64
    }

    /// Whether there are events to send.
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent < self.end()
    }

    /// Whether the server needs the whole state, because events before the front never reached it.
    pub(super) fn has_gap(&self) -> bool {
        self.gap
    }

    /// Events that no server was or will be sent.
    pub(super) fn elided(&self) -> u64 {
        self.elided
    }

    /// Events that were lost before the front.
    pub(super) fn lost_before_front(&self) -> u64 {
        self.lost
    }

    /// Whether the oldest events are being folded away: what is sent now would be for nothing.
    pub(super) fn is_folding(&self) -> bool {
        self.folding
    }

    /// Lends the state at the front, which stays as it is until it is given back.
    pub(super) fn lend_account(&mut self) -> Option<Account> {
        self.account.take()
    }

    pub(super) fn take_back_account(&mut self, account: Account) {
        self.account = Some(account);
    }

    pub(super) fn highest_buffer(&self) -> u64 {
        self.account.as_ref().map_or(0, Account::highest_buffer)
    }

    pub(super) fn positions_at_front(&self) -> Vec<RingPosition> {
        let numbered = (0..).zip(&self.at_front);
        numbered
            .map(|(ring, &position)| RingPosition { ring, position })
            .collect()
    }

    /// Up to which position a ring's events were sent.
    pub(super) fn delivered(&self, ring: usize) -> u64 {
        self.delivered.get(ring).copied().unwrap_or(0)
    }

    /// The server has everything up to `sequence`; false when it cannot have.
    pub(super) fn confirm(&mut self, sequence: u64) -> bool {
        if sequence > self.unsent {
            return false;
        }
        while self.front < sequence {
            self.fold_front();
        }
        true
    }

    /// Folds the oldest events into the account when there are more than may be kept.
    ///
    /// Half of them, because each time costs the server a whole state; but only `most` at once,
    /// because meanwhile nobody empties the rings.
    pub(super) fn keep_to_bound(&mut self, most: usize) {
        self.folding |= self.records.len() > self.bound;
        if !self.folding || self.account.is_none() {
            return;
        }
        for _event in 0..most {
            if self.records.len() <= self.bound / 2 {
                self.folding = false;
                return;
            }
            if self.front >= self.unsent {
                self.elided += 1;
                self.gap = true;
                self.unsent = self.front + 1;
                advance(&mut self.at_unsent, self.rings.front().copied());
            }
            self.fold_front();
        }
    }

    fn fold_front(&mut self) {
        let ring = self.rings.pop_front();
        if let Some(record) = self.records.pop_front() {
            advance(&mut self.at_front, ring);
            let sequence = self.front;
            self.front += 1;
            // What this process encoded can be decoded.
            if let Ok(event) = Event::decode(&record) {
                if let Some(present) = &mut self.present {
                    present.follow(sequence, &event);
                }
                if let EventKind::EventsLost { count } = event.kind {
                    self.lost += count;
                }
                if let Some(account) = &mut self.account {
                    // A refusal is counted where it happens.
                    let _refused = account.apply(&event, &self.limits, &mut ());
                }
            }
        }
    }

    /// A connection begins: the server has nothing of this beyond the front.
    pub(super) fn rewind(&mut self) {
        self.unsent = self.front;
        self.at_unsent.clone_from(&self.at_front);
        self.gap = false;
    }

    /// Takes up to `most` unsent events for a frame; `None` when there are none.
    pub(super) fn take_batch(&mut self, most: usize) -> Option<Batch<'_>> {
        let skip = usize::try_from(self.unsent - self.front).ok()?;
        let until = skip.saturating_add(most).min(self.records.len());
        if skip >= until {
            return None;
        }
        let mut touched: Vec<u16> = Vec::new();
        for ring in self.rings.range(skip..until) {
            advance(&mut self.at_unsent, Some(*ring));
            if *ring != NO_RING && touched.last() != Some(ring) {
                touched.push(*ring);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        let position = |ring: u16| {
            let position = *self.at_unsent.get(usize::from(ring))?;
            let ring = u32::from(ring);
            Some(RingPosition { ring, position })
        };
        let positions = touched.into_iter().filter_map(position).collect();
        let first_sequence = self.unsent;
        self.unsent += (until - skip) as u64;
        let (first, second) = self.records.as_slices();
        let split = first.len();
        Some(Batch {
            first_sequence,
            positions,
            records: [
                within(first, skip, until),
                within(
                    second,
                    skip.saturating_sub(split),
                    until.saturating_sub(split),
                ),
            ],
        })
    }

    /// All frames made so far were sent whole.
    pub(super) fn frames_delivered(&mut self) {
        self.delivered.clone_from(&self.at_unsent);
    }
}

fn within(records: &[[u8; EVENT_BYTES]], from: usize, until: usize) -> &[u8] {
    let (from, until) = (from.min(records.len()), until.min(records.len()));
    records.get(from..until).unwrap_or_default().as_flattened()
}

fn advance(positions: &mut Vec<u64>, ring: Option<u16>) {
    let Some(ring) = ring.filter(|ring| *ring != NO_RING) else {
        return;
    };
    let ring = usize::from(ring);
    if ring >= positions.len() {
        positions.resize(ring + 1, 0);
    }
    positions[ring] += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_event::{BufferId, MeshId};

    /// An event that differs from others by the id that it frees.
    fn event(number: u64) -> [u8; EVENT_BYTES] {
        let (mesh, buffer) = (MeshId(1), BufferId(number));
        let kind = EventKind::BufferFreed { mesh, buffer };
        Event { time: number, kind }.encode()
    }

    fn history(bound: usize, events: std::ops::Range<u64>) -> History {
        let mut history = History::new(bound, false);
        for number in events {
            history.push(&event(number), Some(u16::from(number % 2 == 1)));
        }
        history
    }

    fn positions(batch: &Batch<'_>) -> Vec<(u32, u64)> {
        let each = batch.positions.iter();
        each.map(|each| (each.ring, each.position)).collect()
    }

    #[test]
    fn a_batch_says_where_the_rings_stand_after_it() {
        let mut history = history(100, 0..5);
        let batch = history.take_batch(3).unwrap();
        assert_eq!(batch.first_sequence, 0);
        assert_eq!(batch.records.concat().len(), 3 * EVENT_BYTES);
        assert_eq!(positions(&batch), [(0, 2), (1, 1)]);
        let batch = history.take_batch(100).unwrap();
        assert_eq!(batch.first_sequence, 3);
        assert_eq!(positions(&batch), [(0, 3), (1, 2)]);
        assert!(history.take_batch(100).is_none());
    }

    #[test]
    fn slots_are_free_only_when_their_frames_were_sent() {
        let mut history = history(100, 0..4);
        history.take_batch(2);
        assert_eq!(history.delivered(0), 0);
        history.frames_delivered();
        assert_eq!((history.delivered(0), history.delivered(1)), (1, 1));
    }

    #[test]
    fn what_was_never_sent_cannot_be_confirmed() {
        let mut history = history(100, 0..4);
        history.take_batch(2);
        assert!(!history.confirm(3));
        assert!(history.confirm(2));
        assert_eq!((history.front(), history.end()), (2, 4));
        assert!(history.confirm(1), "an old confirmation changes nothing");
        assert_eq!(history.front(), 2);
    }

    #[test]
    fn a_new_connection_begins_at_the_front() {
        let mut history = history(100, 0..6);
        history.take_batch(4);
        assert!(history.confirm(2));
        history.rewind();
        let batch = history.take_batch(1).unwrap();
        assert_eq!(batch.first_sequence, 2);
        assert_eq!(batch.records.concat(), event(2));
        assert_eq!(positions(&batch), [(0, 2)]);
    }

    #[test]
    fn beyond_the_bound_only_what_was_not_sent_is_elided() {
        let mut history = history(8, 0..9);
        history.take_batch(3);
        history.keep_to_bound(usize::MAX);
        assert_eq!((history.front(), history.end()), (5, 9));
        assert_eq!(history.elided(), 2);
        assert!(history.has_gap() && !history.is_folding());
        // What was elided is behind the front, and so are the positions of its rings.
        let standing = history.positions_at_front();
        let standing: Vec<_> = standing.iter().map(|each| each.position).collect();
        assert_eq!(standing, [3, 2]);
        history.rewind();
        assert!(!history.has_gap());
        assert_eq!(history.take_batch(1).unwrap().first_sequence, 5);
    }

    #[test]
    fn folding_goes_on_over_several_turns_until_half_is_left() {
        let mut history = history(8, 0..9);
        history.keep_to_bound(2);
        assert!(history.is_folding());
        assert_eq!(history.end() - history.front(), 7);
        history.keep_to_bound(100);
        assert!(!history.is_folding());
        assert_eq!(history.end() - history.front(), 4);
        history.keep_to_bound(100);
        assert_eq!(history.end() - history.front(), 4);
    }

    #[test]
    fn nothing_is_folded_while_the_account_is_lent() {
        let mut history = history(2, 0..9);
        let account = history.lend_account().unwrap();
        history.keep_to_bound(100);
        assert_eq!(history.front(), 0);
        history.take_back_account(account);
        history.keep_to_bound(100);
        assert_eq!(history.end() - history.front(), 1);
    }

    #[test]
    fn events_lost_count_once_they_are_behind_the_front() {
        let mut history = History::new(100, false);
        let kind = EventKind::EventsLost { count: 7 };
        history.push(&Event { time: 1, kind }.encode(), None);
        assert_eq!(history.lost_before_front(), 0);
        let batch = history.take_batch(1).unwrap();
        assert!(batch.positions.is_empty());
        assert!(history.confirm(1));
        assert_eq!(history.lost_before_front(), 7);
    }
}
