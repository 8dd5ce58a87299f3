//! Where the programs of a captured trace go in the configuration ring.
//!
//! A trace is known from beginning to end when it is laid out, so nothing has to
//! be left to a ring: text that is needed again stays, and what makes room is what
//! is needed latest. Called once, when a capture ends. It neither sends nor waits;
//! it says what a replay sends and where it waits.
//!
//! Configuration is never used twice, and goes in from the top; so does text that
//! is used once. Text that comes again goes in from the bottom.

use std::collections::{BTreeMap, HashMap};

/// Programs that may be launched ahead of the oldest one still running.
const LAUNCH_WINDOW: usize = 7;

/// Launches after which something without a later use is surely finished.
const FORGOTTEN_AFTER: usize = 8;

/// Cost of evicting text that the program being placed needs itself.
const OWN_TEXT_COST: f32 = 1e9;

/// Cost of waiting for the program just before; half of it for each one further back.
const WAIT_COST: f32 = 1e8 * 64.0;

/// One launch of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceNode {
    /// The program: launches of the same one share its text.
    pub program: u64,
    /// Bytes of its configuration without text.
    pub config: u64,
    /// Bytes of its text.
    pub text: u64,
}

/// Where one launch of the trace finds its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracePlace {
    /// Address of the configuration; the ring's base if there is none.
    pub config_at: u64,
    /// Address of the text; the ring's base if there is none.
    pub text_at: u64,
    /// The text is not there any more, or not yet.
    pub sends_text: bool,
    /// The replay waits before this launch.
    pub stall_before: bool,
    /// The launch of this trace that has to finish first; the first of all waits for
    /// what was there before the trace, which is `None` here.
    pub waits_for: Option<usize>,
}

/// Lays a captured sequence out in the `size` bytes at `base`.
///
/// `None` if one of the programs is larger than the ring.
#[must_use]
pub fn lay_out(base: u64, size: u64, nodes: &[TraceNode]) -> Option<Vec<TracePlace>> {
    let mut layout = Layout::new(size, nodes);
    let mut places = Vec::with_capacity(nodes.len());
    let mut waited_for = None;
    for (index, node) in nodes.iter().enumerate() {
        let placed = layout.place(index, node)?;
        let full_window = index.checked_sub(LAUNCH_WINDOW);
        let wanted = placed.wait.max(full_window);
        let waits_for = wanted.filter(|_| wanted > waited_for);
        waited_for = waited_for.max(waits_for);
        places.push(TracePlace {
            config_at: base.checked_add(placed.config)?,
            text_at: base.checked_add(placed.text)?,
            sends_text: placed.sends_text,
            stall_before: index == 0 || waits_for.is_some(),
            waits_for,
        });
    }
    Some(places)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Config,
    Text,
}

/// Bytes in the ring, by their first address.
#[derive(Clone, Copy, Debug)]
struct Region {
    size: u64,
    kind: Kind,
    program: u64,
    last_use: usize,
}

/// What is looked for room.
#[derive(Clone, Copy)]
struct Wanted {
    size: u64,
    kind: Kind,
    program: u64,
    index: usize,
}

struct Placed {
    config: u64,
    text: u64,
    sends_text: bool,
    wait: Option<usize>,
}

/// A place that could be taken, and what it would cost.
#[derive(Clone, Copy)]
struct Candidate {
    address: u64,
    cost: f32,
    wait: Option<usize>,
}

struct Layout {
    size: u64,
    regions: BTreeMap<u64, Region>,
    /// Where the text of a program is.
    texts: HashMap<u64, u64>,
    /// Per launch, the next one of the same program.
    next_use: Vec<Option<usize>>,
}

impl Layout {
    fn new(size: u64, nodes: &[TraceNode]) -> Self {
        let mut next_use = vec![None; nodes.len()];
        let mut seen = HashMap::new();
        for (index, node) in nodes.iter().enumerate().rev() {
            next_use[index] = seen.insert(node.program, index);
        }
        Self {
            size,
            regions: BTreeMap::new(),
            texts: HashMap::new(),
            next_use,
        }
    }

    fn place(&mut self, index: usize, node: &TraceNode) -> Option<Placed> {
        if node.config.checked_add(node.text)? > self.size {
            return None;
        }
        let config = Wanted {
            size: node.config,
            kind: Kind::Config,
            program: node.program,
            index,
        };
        let (config_at, config_wait) = self.allocate(config)?;
        if node.text == 0 {
            return Some(Placed {
                config: config_at,
                text: 0,
                sends_text: false,
                wait: config_wait,
            });
        }
        if let Some(text_at) = self.texts.get(&node.program).copied() {
            if let Some(region) = self.regions.get_mut(&text_at) {
                region.last_use = index;
            }
            return Some(Placed {
                config: config_at,
                text: text_at,
                sends_text: false,
                wait: config_wait,
            });
        }
        let text = Wanted {
            size: node.text,
            kind: Kind::Text,
            ..config
        };
        if let Some((text_at, text_wait)) = self.allocate(text) {
            return Some(Placed {
                config: config_at,
                text: text_at,
                sends_text: true,
                wait: config_wait.max(text_wait),
            });
        }
        // The configuration lies so that no gap is left for the text: start over,
        // which is possible once everything before has finished.
        self.regions.clear();
        self.texts.clear();
        let (config_at, _) = self.allocate(config)?;
        let (text_at, _) = self.allocate(text)?;
        Some(Placed {
            config: config_at,
            text: text_at,
            sends_text: true,
            wait: index.checked_sub(1),
        })
    }

    /// Takes the cheapest place, and the launch that must finish before.
    fn allocate(&mut self, wanted: Wanted) -> Option<(u64, Option<usize>)> {
        if wanted.size == 0 {
            return Some((0, None));
        }
        let mut finished = Vec::new();
        let best = self.cheapest(wanted, &mut finished);
        for address in finished {
            self.evict(address);
        }
        let best = best?;
        for address in self.overlapped(best.address, wanted.size) {
            self.evict(address);
        }
        self.regions.insert(
            best.address,
            Region {
                size: wanted.size,
                kind: wanted.kind,
                program: wanted.program,
                last_use: wanted.index,
            },
        );
        if wanted.kind == Kind::Text {
            self.texts.insert(wanted.program, best.address);
        }
        Some((best.address, best.wait))
    }

    /// The first of the cheapest places, walking away from the end that suits its kind.
    ///
    /// Regions met on the way that nobody can need any more are put on `finished`.
    fn cheapest(&self, wanted: Wanted, finished: &mut Vec<u64>) -> Option<Candidate> {
        let top = self.size.checked_sub(wanted.size)?;
        let comes_again = wanted.kind == Kind::Text
            && self.next_use.get(wanted.index).is_some_and(Option::is_some);
        // Any other place overlaps as much as one that touches a neighbour.
        let places: Vec<u64> = if comes_again {
            let behind = self.regions.iter().map(|(at, region)| at + region.size);
            std::iter::once(0)
                .chain(behind)
                .take_while(|at| *at <= top)
                .collect()
        } else {
            let before = self.regions.keys().rev().copied();
            std::iter::once(top)
                .chain(before.map_while(|at| at.checked_sub(wanted.size)))
                .collect()
        };
        let mut best: Option<Candidate> = None;
        for address in places {
            let Some(candidate) = self.judge(address, wanted, finished) else {
                continue;
            };
            if best.is_none_or(|best| candidate.cost < best.cost) {
                best = Some(candidate);
            }
            if candidate.cost == 0.0 {
                break;
            }
        }
        best
    }

    /// What it costs to go to `address`; `None` if this very launch has something there.
    ///
    /// In single precision like the runtime: where costs round to the same, the place
    /// that was met first wins, and addresses follow from that.
    fn judge(&self, address: u64, wanted: Wanted, finished: &mut Vec<u64>) -> Option<Candidate> {
        let mut cost = 0.0_f32;
        let mut wait = None;
        for at in self.overlapped(address, wanted.size) {
            let Some(region) = self.regions.get(&at) else {
                continue;
            };
            if region.last_use == wanted.index {
                return None;
            }
            let next_use = match region.kind {
                Kind::Config => None,
                Kind::Text => self.next_use.get(region.last_use).copied().flatten(),
            };
            match next_use.and_then(|next_use| next_use.checked_sub(wanted.index)) {
                Some(0) => cost += OWN_TEXT_COST,
                // What comes back last, and is small, is the cheapest to send again.
                Some(distance) => cost += region.size as f32 / distance as f32,
                None if wanted.index - region.last_use > FORGOTTEN_AFTER => finished.push(at),
                None => {}
            }
            wait = wait.max(Some(region.last_use));
        }
        if let Some(distance) = wait.map(|last_use| wanted.index - last_use)
            && distance < LAUNCH_WINDOW
        {
            cost += (1..distance).fold(WAIT_COST, |cost, _| cost / 2.0);
        }
        Some(Candidate {
            address,
            cost,
            wait,
        })
    }

    /// The regions that share bytes with the `size` bytes at `address`, in address order.
    fn overlapped(&self, address: u64, size: u64) -> Vec<u64> {
        let mut found: Vec<u64> = self
            .regions
            .range(..address.saturating_add(size))
            .rev()
            // Regions do not overlap each other, so the first that ends below ends the search.
            .take_while(|(at, region)| *at + region.size > address)
            .map(|(at, _)| *at)
            .collect();
        found.reverse();
        found
    }

    fn evict(&mut self, address: u64) {
        if let Some(region) = self.regions.remove(&address)
            && region.kind == Kind::Text
        {
            self.texts.remove(&region.program);
        }
    }
}

#[cfg(test)]
mod tests;
