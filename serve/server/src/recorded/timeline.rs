//! A class of a device over time, in layers.
//!
//! Each step shows the instant at which its total was highest. What each layer had then is known at the
//! step's end: what it has now, less what changed since.

use super::files::FilePlayer;
use super::live_buffers::{Keeper, LiveBuffers, Placed};
use super::texts::Texts;
use super::walk::Walker;
use std::collections::HashMap;
use ttmem_ledger::Ledger;
use ttmem_record::{Charge, Follow, Played, ReadError};
use ttmem_report::{GroupBy, Layer};

/// The most steps of a timeline.
pub(crate) const MAX_POINTS: u32 = 2000;

/// Layers that are shown by themselves.
const MAX_LAYERS: usize = 12;

/// Layers that are told apart while the window is played.
const MAX_KEYS: usize = 4096;

/// Layers scanned per work unit.
const LAYERS_PER_UNIT: u64 = 8;

/// What is known of one step: its highest total, and what its layers had then.
#[derive(Debug, Default)]
struct Step {
    total: u64,
    layers: Box<[(u32, u64)]>,
    dispatches: u64,
}

#[derive(Debug)]
pub(super) struct Layers {
    by: GroupBy,
    texts: Texts,
    /// What layers have in common, by their numbers; all beyond those that are told apart are one.
    keys: Vec<Option<String>>,
    numbers: HashMap<Option<String>, u32>,
    now: Vec<u64>,
    /// What layers got and gave since the highest total, and which of them.
    since: Vec<i128>,
    changed: Vec<u32>,
    total: u64,
    highest: u64,
    steps: Vec<Step>,
}

/// All layers beyond those that are told apart.
const BEYOND: u32 = 0;

impl Layers {
    pub(super) fn new(by: GroupBy, texts: Texts) -> Self {
        Self {
            by,
            texts,
            keys: vec![None],
            numbers: HashMap::new(),
            now: vec![0],
            since: vec![0],
            changed: Vec::new(),
            total: 0,
            highest: 0,
            steps: Vec::new(),
        }
    }

    fn number(&mut self, key: Option<String>) -> u32 {
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        if self.keys.len() > MAX_KEYS {
            return BEYOND;
        }
        let number = u32::try_from(self.keys.len()).unwrap_or_default();
        self.keys.push(key.clone());
        self.now.push(0);
        self.since.push(0);
        self.numbers.insert(key, number);
        number
    }

    fn change(&mut self, layer: u32, by: i128) {
        let place = layer as usize;
        self.now[place] = u64::try_from(i128::from(self.now[place]) + by).unwrap_or(0);
        if self.since[place] == 0 {
            self.changed.push(layer);
        }
        self.since[place] += by;
    }

    /// The instant at hand is the one to remember.
    fn remember(&mut self) {
        self.highest = self.total;
        for layer in self.changed.drain(..) {
            self.since[layer as usize] = 0;
        }
    }

    /// Stores the layers of the step; returns the bytes stored.
    fn end_step(&mut self) -> u64 {
        let had = (0_u32..).zip(self.now.iter().zip(&self.since));
        let had = had.filter_map(|(layer, (now, since))| {
            let bytes = u64::try_from(i128::from(*now) - since).unwrap_or(0);
            (bytes > 0).then_some((layer, bytes))
        });
        let step = Step {
            total: self.highest,
            layers: had.collect::<Box<[_]>>(),
            dispatches: 0,
        };
        let bytes = size_of_val(&*step.layers) + size_of::<Step>();
        self.steps.push(step);
        self.remember();
        bytes as u64
    }
}

impl Keeper for Layers {
    type Kept = u32;

    fn placed(&mut self, ledger: &Ledger, process: u32, buffer: &Placed) -> u32 {
        let origin = self.texts.origin(ledger, process, buffer.operation);
        let key = match self.by {
            GroupBy::Process => origin.process.clone(),
            GroupBy::Line => origin.line.clone(),
            _operation => origin.operation.clone(),
        };
        let layer = self.number(key);
        self.change(layer, i128::from(buffer.charged_bytes));
        layer
    }

    fn released(&mut self, _time: u64, buffer: &Placed, layer: u32) {
        self.change(layer, -i128::from(buffer.charged_bytes));
    }

    fn settled(&mut self, total: u64) {
        self.total = total;
        if total > self.highest {
            self.remember();
        }
    }

    fn forget(&mut self, process: Option<u32>) {
        match process {
            Some(process) => self.texts.forget(process),
            None => self.texts.forget_all(),
        }
    }
}

/// Makes a timeline of what it walks through.
#[derive(Debug)]
pub(super) struct TimelineWalker {
    pub(super) live: LiveBuffers<Layers>,
    /// Memory of the steps.
    charge: Charge,
    /// Programs run when the step began.
    dispatches: u64,
}

impl TimelineWalker {
    pub(super) fn new(live: LiveBuffers<Layers>) -> Self {
        Self {
            charge: live.another_charge(),
            live,
            dispatches: 0,
        }
    }

    /// The series of the largest layers, all others, totals, and programs run.
    pub(super) fn finish(self) -> (Vec<Layer>, Vec<u64>, Vec<u64>, Vec<u64>) {
        let (layers, _live) = self.live.into_live();
        let count = layers.steps.len();
        let mut sums = vec![0_u128; layers.keys.len()];
        for (layer, bytes) in layers.steps.iter().flat_map(|step| &*step.layers) {
            sums[*layer as usize] += u128::from(*bytes);
        }
        let mut largest: Vec<usize> = (1..sums.len()).filter(|layer| sums[*layer] > 0).collect();
        largest.sort_by(|one, other| {
            let bytes = sums[*other].cmp(&sums[*one]);
            bytes.then_with(|| layers.keys[*one].cmp(&layers.keys[*other]))
        });
        largest.truncate(MAX_LAYERS);
        let places: HashMap<usize, usize> = largest
            .iter()
            .enumerate()
            .map(|(place, layer)| (*layer, place))
            .collect();
        let mut series: Vec<Layer> = largest
            .iter()
            .map(|layer| Layer {
                key: layers.keys[*layer].clone(),
                values: vec![0; count],
            })
            .collect();
        let mut other = vec![0_u64; count];
        for (step, known) in layers.steps.iter().enumerate() {
            for (layer, bytes) in &known.layers {
                match places.get(&(*layer as usize)) {
                    Some(place) => series[*place].values[step] = *bytes,
                    None => other[step] = other[step].saturating_add(*bytes),
                }
            }
        }
        let totals = layers.steps.iter().map(|step| step.total).collect();
        let dispatches = layers.steps.iter().map(|step| step.dispatches).collect();
        (series, other, totals, dispatches)
    }

    /// Books programs that ran since in the last step that ended.
    fn book_dispatches(&mut self, ledger: &Ledger) {
        let now = self.live.dispatches(ledger);
        let more = now.saturating_sub(self.dispatches);
        if let Some(step) = self.live.keeper.steps.last_mut() {
            step.dispatches = step.dispatches.saturating_add(more);
        }
        self.dispatches = now;
    }
}

impl Follow for TimelineWalker {
    const WANTS_EFFECTS: bool = true;

    fn after(&mut self, ledger: &Ledger, time: u64, played: Played<'_>) {
        self.live.after(ledger, time, played);
    }
}

impl Walker for TimelineWalker {
    fn begin(&mut self, player: &mut FilePlayer, time: u64, is_new_step: bool) {
        self.live.compare_all(player.ledger(), time);
        if is_new_step {
            self.live.keeper.remember();
            self.book_dispatches(player.ledger());
        }
    }

    fn end_step(&mut self, player: Option<&mut FilePlayer>) -> Result<(), ReadError> {
        let bytes = self.live.keeper.end_step();
        self.charge.draw(bytes)?;
        if let Some(player) = player {
            self.book_dispatches(player.ledger());
            player.spend(1 + self.live.keeper.keys.len() as u64 / LAYERS_PER_UNIT)?;
        }
        Ok(())
    }
}
