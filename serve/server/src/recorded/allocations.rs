//! Buffers as rectangles: what they took of a bank, and how long.

use super::files::FilePlayer;
use super::live_buffers::{Keeper, LiveBuffers, Placed};
use super::texts::{Origin, Texts};
use super::walk::Walker;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use ttmem_ledger::Ledger;
use ttmem_record::{Follow, Played, ReadError};
use ttmem_report::{HexId, Rectangle, Timestamp};

/// The most rectangles of an answer.
pub(crate) const MAX_RECTANGLES: u32 = 20_000;

/// Those of an answer to somebody who does not say how many: as many as a screen can show.
pub(crate) const DEFAULT_RECTANGLES: u32 = 5_000;

/// A buffer that lived in the window.
#[derive(Debug)]
struct Lived {
    /// Address × time within the window.
    area: u128,
    /// In the order in which they were placed.
    number: u64,
    placed: Placed,
    until: Option<u64>,
    origin: Arc<Origin>,
}

impl PartialEq for Lived {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Lived {}

impl PartialOrd for Lived {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Lived {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Lived {
    /// Of two of a size the earlier is kept.
    fn rank(&self) -> (u128, Reverse<u64>) {
        (self.area, Reverse(self.number))
    }
}

/// The largest rectangles of a window.
#[derive(Debug)]
pub(super) struct Largest {
    from: u64,
    to: u64,
    /// The beginning of the recording.
    begin: u64,
    limit: usize,
    texts: Texts,
    /// The smallest on top.
    kept: BinaryHeap<Reverse<Lived>>,
    placed: u64,
    left_out: u64,
}

impl Largest {
    pub(super) fn new((from, to): (u64, u64), begin: u64, limit: u32, texts: Texts) -> Self {
        Self {
            from,
            to,
            begin,
            limit: limit as usize,
            texts,
            kept: BinaryHeap::new(),
            placed: 0,
            left_out: 0,
        }
    }

    fn add(&mut self, placed: Placed, until: Option<u64>, (number, origin): (u64, Arc<Origin>)) {
        let end = until.unwrap_or(self.to).min(self.to);
        let lived = end.saturating_sub(placed.since.max(self.from));
        self.kept.push(Reverse(Lived {
            area: u128::from(placed.per_bank_bytes) * u128::from(lived),
            number,
            placed,
            until,
            origin,
        }));
        if self.kept.len() > self.limit {
            self.kept.pop();
            self.left_out += 1;
        }
    }
}

impl Keeper for Largest {
    type Kept = (u64, Arc<Origin>);

    fn placed(&mut self, ledger: &Ledger, process: u32, buffer: &Placed) -> Self::Kept {
        self.placed += 1;
        let origin = self.texts.origin(ledger, process, buffer.operation);
        (self.placed, origin)
    }

    fn released(&mut self, time: u64, buffer: &Placed, kept: Self::Kept) {
        self.add(*buffer, Some(time), kept);
    }

    fn forget(&mut self, process: Option<u32>) {
        match process {
            Some(process) => self.texts.forget(process),
            None => self.texts.forget_all(),
        }
    }
}

/// Collects the rectangles of what it walks through.
#[derive(Debug)]
pub(super) struct AllocationsWalker {
    pub(super) live: LiveBuffers<Largest>,
}

impl AllocationsWalker {
    pub(super) fn new(live: LiveBuffers<Largest>) -> Self {
        Self { live }
    }

    /// The rectangles in the order in which they were placed, and how many more there were.
    pub(super) fn finish(self) -> (Vec<Rectangle>, u64) {
        let (mut largest, live) = self.live.into_live();
        for (placed, kept) in live {
            largest.add(placed, None, kept);
        }
        let begin = largest.begin;
        let mut kept: Vec<Lived> = largest.kept.into_iter().map(|Reverse(each)| each).collect();
        kept.sort_by_key(|each| (each.placed.since, each.number));
        let rectangles = kept.into_iter().map(|each| Rectangle {
            address: each.placed.address,
            per_bank_bytes: each.placed.per_bank_bytes,
            from: Timestamp::from_unix_nanos(each.placed.since.max(begin)),
            to: each.until.map(Timestamp::from_unix_nanos),
            id: HexId(each.placed.id),
            pid: each.origin.pid,
            operation: each.origin.operation.clone(),
            line: each.origin.line.clone(),
        });
        (rectangles.collect(), largest.left_out)
    }
}

impl Follow for AllocationsWalker {
    const WANTS_EFFECTS: bool = true;

    fn after(&mut self, ledger: &Ledger, time: u64, played: Played<'_>) {
        self.live.after(ledger, time, played);
    }
}

impl Walker for AllocationsWalker {
    fn begin(&mut self, player: &mut FilePlayer, time: u64, _is_new_step: bool) {
        self.live.compare_all(player.ledger(), time);
    }

    fn end_step(&mut self, _player: Option<&mut FilePlayer>) -> Result<(), ReadError> {
        Ok(())
    }
}
