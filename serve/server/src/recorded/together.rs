//! Several pictures drawn in one walk: playing costs more than drawing.

use super::allocations::AllocationsWalker;
use super::files::FilePlayer;
use super::timeline::TimelineWalker;
use super::walk::Walker;
use ttmem_ledger::{Change, Effect, Ledger};
use ttmem_record::{Follow, OverBudget, Played, ReadError};
use ttmem_report::GroupBy;

/// One class of a device: a timeline for each of some groupings, and where buffers lay.
#[derive(Debug)]
pub(super) struct Pictures {
    pub(super) timelines: Vec<(GroupBy, TimelineWalker)>,
    pub(super) allocations: Option<AllocationsWalker>,
}

impl Pictures {
    /// Whether an event changed what is drawn: of most pictures it changes nothing.
    fn is_touched(&mut self, ledger: &Ledger, effects: &[Effect]) -> bool {
        match (self.timelines.first_mut(), &mut self.allocations) {
            (Some((_by, timeline)), _) => timeline.live.is_touched(ledger, effects),
            (None, Some(allocations)) => allocations.live.is_touched(ledger, effects),
            (None, None) => false,
        }
    }

    fn take_work(&mut self) -> u64 {
        let timelines = self.timelines.iter_mut();
        let timelines = timelines.map(|(_by, timeline)| timeline.live.take_work());
        let allocations = self.allocations.as_mut();
        timelines.sum::<u64>() + allocations.map_or(0, |each| each.live.take_work())
    }

    fn over_budget(&self) -> Option<OverBudget> {
        let timelines = self.timelines.iter();
        let over = timelines.map(|(_by, timeline)| timeline.live.over_budget());
        let allocations = self.allocations.iter().map(|each| each.live.over_budget());
        over.chain(allocations).flatten().next()
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

/// The pictures of several classes of devices.
#[derive(Debug)]
pub(super) struct Together(pub(super) Vec<Pictures>);

impl Follow for Together {
    const WANTS_EFFECTS: bool = true;

    fn before(&mut self, ledger: &Ledger, change: &Change) {
        for pictures in &mut self.0 {
            for (_by, timeline) in &mut pictures.timelines {
                timeline.before(ledger, change);
            }
            if let Some(allocations) = &mut pictures.allocations {
                allocations.before(ledger, change);
            }
        }
    }

    fn take_work(&mut self) -> u64 {
        let pictures = self.0.iter_mut();
        pictures.map(Pictures::take_work).sum()
    }

    fn over_budget(&self) -> Option<OverBudget> {
        self.0.iter().find_map(Pictures::over_budget)
    }

    fn after(&mut self, ledger: &Ledger, time: u64, played: Played<'_>) {
        for pictures in &mut self.0 {
            if let Played::Event { effects, .. } = played
                && !pictures.is_touched(ledger, effects)
            {
                continue;
            }
            pictures.after(ledger, time, played);
        }
    }
}

impl Walker for Together {
    fn begin(&mut self, player: &mut FilePlayer, time: u64, is_new_step: bool) {
        for pictures in &mut self.0 {
            for (_by, timeline) in &mut pictures.timelines {
                timeline.begin(player, time, is_new_step);
            }
            if let Some(allocations) = &mut pictures.allocations {
                allocations.begin(player, time, is_new_step);
            }
        }
    }

    fn end_step(&mut self, mut player: Option<&mut FilePlayer>) -> Result<(), ReadError> {
        for pictures in &mut self.0 {
            for (_by, timeline) in &mut pictures.timelines {
                timeline.end_step(player.as_deref_mut())?;
            }
            if let Some(allocations) = &mut pictures.allocations {
                allocations.end_step(player.as_deref_mut())?;
            }
        }
        Ok(())
    }
}
