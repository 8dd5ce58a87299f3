//! Totals of every device over time: the steps of a history, from what was recorded.

use super::files::FilePlayer;
use super::walk::Walker;
use crate::history::{Observed, Sample, sample_of};
use std::sync::Arc;
use ttmem_event::Class;
use ttmem_ledger::{Change, Ledger};
use ttmem_record::{Follow, Input, Played};

/// Rows that may be looked at to work out where everything lay at the ends of the steps of one walk.
const GEOMETRY_ROWS: u64 = 4_000_000;

/// What one geometry costs at least, in rows.
const LEAST_ROWS: u64 = 2_000;

/// One step: what each device had.
pub(super) type Totals = Arc<Vec<Observed>>;

/// Collects the steps of what it walks through.
#[derive(Debug)]
pub(super) struct TotalsWalker {
    /// Steps that are still to come.
    steps_left: u64,
    rows_left: u64,
    /// By the ledger's numbers of devices.
    highest: Vec<Sample>,
    dispatches: Vec<u64>,
    /// Work units since this was last asked.
    work: u64,
    pub(super) steps: Vec<Option<Totals>>,
}

impl TotalsWalker {
    pub(super) fn new(steps: u64) -> Self {
        Self {
            steps_left: steps,
            rows_left: GEOMETRY_ROWS,
            highest: Vec::new(),
            dispatches: Vec::new(),
            work: 0,
            steps: Vec::new(),
        }
    }

    /// Begins a step with what there is.
    fn restart(&mut self, ledger: &Ledger) {
        self.highest = ledger.devices().iter().map(sample_of).collect();
    }

    /// Takes note of what there is on all devices.
    fn look(&mut self, ledger: &Ledger) {
        self.work += 4 * ledger.devices().len() as u64;
        let known = self.highest.len();
        for (number, device) in ledger.devices().iter().enumerate() {
            let sample = sample_of(device);
            if number < known {
                self.highest[number] = self.highest[number].join(sample);
            } else {
                self.highest.push(sample);
            }
        }
    }

    fn count_dispatches(&mut self, ledger: &Ledger) -> Vec<u64> {
        let now: Vec<u64> = ledger
            .devices()
            .iter()
            .map(|device| device.caches.dispatches)
            .collect();
        let before = std::mem::replace(&mut self.dispatches, now);
        let counted = self.dispatches.iter().enumerate();
        let counted = counted.map(|(number, now)| {
            let before = before.get(number).copied().unwrap_or(*now);
            now.saturating_sub(before)
        });
        counted.collect()
    }

    /// Whether there is time to work out where everything lies: evenly among the steps.
    fn affords(&mut self, rows: u64) -> bool {
        let cost = rows.max(LEAST_ROWS);
        let share = self.rows_left / self.steps_left.max(1);
        let every = cost.div_ceil(share.max(1));
        let is_turn = self.steps_left.is_multiple_of(every.max(1));
        let affords = is_turn && cost <= self.rows_left;
        if affords {
            self.rows_left -= cost;
        }
        affords
    }
}

impl Follow for TotalsWalker {
    const WANTS_EFFECTS: bool = true;

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    fn after(&mut self, ledger: &Ledger, _time: u64, played: Played<'_>) {
        let effects = match played {
            Played::Event { effects, .. } | Played::Part { effects, .. } => effects,
            Played::Start | Played::Input(Input::Resync { .. } | Input::Depart { .. }) => {
                return self.look(ledger);
            }
            Played::Input(_no_bytes) => return,
        };
        for effect in effects {
            let Some(number) = effect.device else {
                continue;
            };
            let Some(device) = ledger.device(number) else {
                continue;
            };
            if self.highest.len() <= number as usize {
                self.look(ledger);
            }
            let Some(highest) = self.highest.get_mut(number as usize) else {
                continue;
            };
            let totals = &device.totals;
            let (kept, now) = match effect.change {
                Change::BufferBooked { class, .. } => {
                    let now = totals.class(class).charged.bytes();
                    let kept = match class {
                        Class::Dram => &mut highest.dram,
                        Class::L1 => &mut highest.l1,
                        Class::L1Small => &mut highest.l1_small,
                        Class::Trace => &mut highest.trace,
                        Class::System => continue,
                    };
                    (kept, now)
                }
                Change::CbBooked { total_bytes, .. } => (&mut highest.cb_registered, total_bytes),
                Change::KernelBooked { total_bytes, .. } => {
                    (&mut highest.kernel_registered, total_bytes)
                }
                _other => continue,
            };
            *kept = (*kept).max(now);
        }
    }
}

impl Walker for TotalsWalker {
    fn begin(&mut self, player: &mut FilePlayer, _time: u64, is_new_step: bool) {
        if is_new_step {
            self.restart(player.ledger());
        } else {
            self.look(player.ledger());
        }
        if self.dispatches.is_empty() {
            self.count_dispatches(player.ledger());
        }
    }

    fn end_step(&mut self, player: Option<&mut FilePlayer>) {
        let Some(player) = player else {
            self.steps_left = self.steps_left.saturating_sub(1);
            self.steps.push(None);
            return;
        };
        self.look(player.ledger());
        let ran = self.count_dispatches(player.ledger());
        let rows = player.ledger().rows_in_use();
        let view = player.view();
        let geometry = self.affords(rows).then(|| view.geometry());
        self.steps_left = self.steps_left.saturating_sub(1);
        let observed = view.devices.iter().enumerate().zip(&self.highest);
        let observed = observed.map(|((number, device), highest)| {
            let layout = geometry.as_ref().and_then(|all| all.devices.get(number));
            let sample = highest.with_geometry(layout);
            let dispatches = ran.get(number).copied().unwrap_or(0);
            Observed {
                key: device.key.clone(),
                id: device.facts.logical_id,
                unique_id: device.facts.unique_id,
                sample: Sample {
                    dispatches,
                    ..sample
                },
            }
        });
        self.steps.push(Some(Arc::new(observed.collect())));
        self.restart(player.ledger());
    }
}
