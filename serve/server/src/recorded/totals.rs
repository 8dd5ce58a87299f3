//! Totals of every device over time: the steps of a history, from what was recorded.

use super::files::FilePlayer;
use super::walk::Walker;
use crate::history::{MAX_DEVICES, Observed, Sample, sample_of};
use std::sync::Arc;
use ttmem_event::Class;
use ttmem_ledger::{Change, EffectKind, Geometry, Ledger, View};
use ttmem_record::{Budget, Charge, Follow, Played, ReadError, Turn};

/// Maximum work units for the geometries of one walk (some seconds); at most half of the turn's work.
const GEOMETRY_WORK: u64 = 160_000_000;

/// Work units of a device in a step.
const DEVICE_WORK: u64 = 8;

/// One step: what each device had.
pub(super) type Totals = Arc<ObservedStep>;

#[derive(Debug)]
pub(super) struct ObservedStep {
    pub(super) observed: Vec<Observed>,
    _charge: Charge,
}

/// Collects the steps of what it walks through.
#[derive(Debug)]
pub(super) struct TotalsWalker {
    /// Steps that are still to come.
    steps_left: u64,
    /// Work units left for geometries, and the cost of the last one.
    geometry_left: u64,
    geometry_work: u64,
    /// The last geometry, with the ledger's revision.
    geometry: Option<(u64, Arc<Geometry>)>,
    /// Memory of the steps is drawn from it.
    budget: Budget,
    /// By the ledger's numbers of devices.
    highest: Vec<Sample>,
    dispatches: Vec<u64>,
    /// Work units since this was last asked.
    work: u64,
    pub(super) steps: Vec<Option<Totals>>,
}

impl TotalsWalker {
    /// A walker for `steps` steps, with the work of `turn` and the memory of `budget`.
    pub(super) fn new(steps: u64, turn: &Turn, budget: Budget) -> Self {
        let left = turn.most().saturating_sub(turn.spent());
        Self {
            steps_left: steps,
            geometry_left: GEOMETRY_WORK.min(left / 2),
            geometry_work: 0,
            geometry: None,
            budget,
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

    /// The geometry, if the work left allows it; steps that get one are spread evenly.
    fn geometry(&mut self, view: &View) -> Option<Arc<Geometry>> {
        let known = self.geometry.as_ref();
        if let Some((_same, known)) = known.filter(|(revision, _)| *revision == view.revision) {
            return Some(Arc::clone(known));
        }
        let share = self.geometry_left / self.steps_left.max(1);
        let every = self.geometry_work.div_ceil(share.max(1));
        if !self.steps_left.is_multiple_of(every.max(1)) {
            return None;
        }
        let (geometry, work) = view.geometry_within(self.geometry_left);
        self.geometry_left = self.geometry_left.saturating_sub(work);
        self.geometry_work = work;
        self.work += work;
        let geometry = Arc::new(geometry?);
        self.geometry = Some((view.revision, Arc::clone(&geometry)));
        Some(geometry)
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
            Played::Start | Played::Change(Change::Resync { .. } | Change::Depart { .. }) => {
                return self.look(ledger);
            }
            Played::Change(_no_bytes) => return,
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
            let (kept, now) = match effect.kind {
                EffectKind::BufferBooked { class, .. } => {
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
                EffectKind::CbBooked { total_bytes, .. } => {
                    (&mut highest.cb_registered, total_bytes)
                }
                EffectKind::KernelBooked { total_bytes, .. } => {
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

    fn end_step(&mut self, player: Option<&mut FilePlayer>) -> Result<(), ReadError> {
        let Some(player) = player else {
            self.steps_left = self.steps_left.saturating_sub(1);
            self.steps.push(None);
            return Ok(());
        };
        self.look(player.ledger());
        let ran = self.count_dispatches(player.ledger());
        let before = player.ledger().work();
        let view = player.view();
        self.work += player.ledger().work() - before;
        let geometry = self.geometry(&view);
        self.steps_left = self.steps_left.saturating_sub(1);
        let count = view.devices.len().min(MAX_DEVICES);
        let mut charge = self.budget.charge();
        charge.draw((count * size_of::<Observed>()) as u64)?;
        let observed = view
            .devices
            .iter()
            .take(count)
            .enumerate()
            .zip(&self.highest);
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
        let step = ObservedStep {
            observed: observed.collect(),
            _charge: charge,
        };
        self.steps.push(Some(Arc::new(step)));
        self.restart(player.ledger());
        let devices = player.ledger().devices().len() as u64;
        let work = self.take_work() + DEVICE_WORK * (1 + devices);
        player.spend(work)
    }
}
