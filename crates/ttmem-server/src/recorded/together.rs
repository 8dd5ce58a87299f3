//! Several pictures of one class of a device, drawn in one walk: playing costs more than drawing.

use super::allocations::AllocationsWalker;
use super::files::FilePlayer;
use super::timeline::TimelineWalker;
use super::walk::Walker;
use ttmem_api::GroupBy;
use ttmem_ledger::Ledger;
use ttmem_record::{Follow, Input, Played};

/// A timeline for each of some groupings, and where buffers lay.
#[derive(Debug)]
pub(super) struct Together {
    pub(super) timelines: Vec<(GroupBy, TimelineWalker)>,
    pub(super) allocations: Option<AllocationsWalker>,
}

impl Follow for Together {
    const WANTS_EFFECTS: bool = true;

    fn before(&mut self, ledger: &Ledger, input: &Input) {
        for (_by, timeline) in &mut self.timelines {
            timeline.before(ledger, input);
        }
        if let Some(allocations) = &mut self.allocations {
            allocations.before(ledger, input);
        }
    }

    fn after(&mut self, ledger: &Ledger, time: u64, played: Played<'_>) {
        for (_by, timeline) in &mut self.timelines {
            timeline.after(ledger, time, played);
        }
        if let Some(allocations) = &mut self.allocations {
            allocations.after(ledger, time, played);
        }
    }
}

impl Walker for Together {
    fn begin(&mut self, player: &mut FilePlayer, time: u64, is_new_step: bool) {
        for (_by, timeline) in &mut self.timelines {
            timeline.begin(player, time, is_new_step);
        }
        if let Some(allocations) = &mut self.allocations {
            allocations.begin(player, time, is_new_step);
        }
    }

    fn end_step(&mut self, mut player: Option<&mut FilePlayer>) {
        for (_by, timeline) in &mut self.timelines {
            timeline.end_step(player.as_deref_mut());
        }
        if let Some(allocations) = &mut self.allocations {
            allocations.end_step(player);
        }
    }
}
