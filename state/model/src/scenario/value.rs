//! The values of a scenario: given, written, chosen by the seed, or counted by loops.
//!
//! Owns what every name in an expression stands for while a scenario plays. The player
//! makes one of these for each replica and reports loops and picks to it. Choices
//! depend on the seed and the name alone, so one choice more in a file leaves the
//! others as they were.

use super::expression::{EvaluateError, Lookup, Number};

/// A small generator of numbers that look random: SplitMix64.
///
/// The same seed gives the same numbers on every machine, for ever: seeds are
/// written into bug reports.
#[derive(Clone, Debug)]
pub struct Seeded {
    state: u64,
}

impl Seeded {
    /// The generator of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The generator of a seed for one purpose, independent of those for others.
    #[must_use]
    pub fn for_name(seed: u64, name: &str) -> Self {
        // FNV-1a spreads names over the seeds; the first number mixes them.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self::new(Self::new(seed ^ hash).next_u64())
    }

    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(scaled >> 64).expect("a product of two u64 has 64 bits above the lower 64")
    }
}

/// What the machine gives every scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Givens {
    /// Chips of the mesh that the scenario runs on.
    pub devices: u64,
    /// Compute cores of a chip.
    pub cores: u64,
    /// Columns of its compute grid.
    pub columns: u64,
    /// Rows of its compute grid.
    pub rows: u64,
    /// Which of the meshes this one is, from 0.
    pub replica: u64,
    /// DRAM of a chip that its allocator hands out.
    pub dram_bytes: u64,
    /// L1 of a core that the allocator hands out.
    pub l1_bytes: u64,
}

impl Givens {
    pub const NAMES: [&'static str; 7] = [
        "devices",
        "cores",
        "columns",
        "rows",
        "replica",
        "dram_bytes",
        "l1_bytes",
    ];

    const fn values(&self) -> [u64; 7] {
        [
            self.devices,
            self.cores,
            self.columns,
            self.rows,
            self.replica,
            self.dram_bytes,
            self.l1_bytes,
        ]
    }
}

/// One entry of `[values]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    pub name: String,
    /// Where its value comes from.
    pub source: Source,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Written: always this number.
    Fixed(Number),
    /// One of `from`, `from + step`, … up to `to`.
    Range {
        /// The first.
        from: Number,
        /// The last.
        to: Number,
        step: Number,
    },
}

impl Source {
    pub fn numbers(&self) -> impl Iterator<Item = &Number> {
        let numbers = match self {
            Self::Fixed(number) => [Some(number), None, None],
            Self::Range { from, to, step } => [Some(from), Some(to), Some(step)],
        };
        numbers.into_iter().flatten()
    }

    /// Whether it depends on the seed.
    #[must_use]
    pub const fn is_choice(&self) -> bool {
        !matches!(self, Self::Fixed(_))
    }
}

/// What names stand for while a scenario plays.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    /// In an order in which each needs only those before it.
    declared: &'a [Declared],
    /// One per declared value; shorter while the first ones are computed.
    current: Vec<u64>,
    /// One per declared value.
    generators: Vec<Seeded>,
    givens: Givens,
    /// Innermost last.
    loops: Vec<(&'a str, u64)>,
}

impl<'a> Values<'a> {
    /// The values at the beginning of a scenario, all choices made.
    ///
    /// `declared` comes from [`Scenario::values`](super::script::Scenario): each needs
    /// only those before it.
    ///
    /// # Errors
    ///
    /// If an expression has no value, or there is nothing to choose from.
    pub fn new(declared: &'a [Declared], givens: Givens, seed: u64) -> Result<Self, EvaluateError> {
        let mut values = Self {
            declared,
            current: Vec::with_capacity(declared.len()),
            generators: Vec::with_capacity(declared.len()),
            givens,
            loops: Vec::new(),
        };
        for value in declared {
            let mut generator = Seeded::for_name(seed, &value.name);
            let first = values.draw(value, &mut generator)?;
            values.current.push(first);
            values.generators.push(generator);
        }
        Ok(values)
    }

    /// Draws a choice anew, and computes what is written in terms of it.
    ///
    /// Other choices stay as they were drawn.
    ///
    /// # Errors
    ///
    /// If there is no such value, an expression has none, or there is nothing to choose from.
    pub fn pick(&mut self, name: &str) -> Result<u64, EvaluateError> {
        let declared = self.declared;
        let Some(place) = declared.iter().position(|value| value.name == name) else {
            return Err(EvaluateError::UnknownValue {
                expression: name.to_owned(),
                name: name.to_owned(),
            });
        };
        let mut generator = self.generators[place].clone();
        let drawn = self.draw(&declared[place], &mut generator)?;
        self.generators[place] = generator;
        self.current[place] = drawn;
        for (place, value) in declared.iter().enumerate() {
            if let Source::Fixed(number) = &value.source {
                self.current[place] = number.evaluate(self)?;
            }
        }
        Ok(drawn)
    }

    /// Begins a loop over `variable`, which hides one of the same name.
    pub fn enter_loop(&mut self, variable: &'a str) {
        self.loops.push((variable, 0));
    }

    /// Sets the variable of the innermost loop.
    pub fn set_loop(&mut self, value: u64) {
        if let Some((_, current)) = self.loops.last_mut() {
            *current = value;
        }
    }

    pub fn leave_loop(&mut self) {
        self.loops.pop();
    }

    fn draw(&self, value: &Declared, generator: &mut Seeded) -> Result<u64, EvaluateError> {
        match &value.source {
            Source::Fixed(number) => number.evaluate(self),
            Source::Range { from, to, step } => {
                let from = from.evaluate(self)?;
                let to = to.evaluate(self)?;
                let step = step.evaluate(self)?;
                let steps = to
                    .checked_sub(from)
                    .and_then(|distance| distance.checked_div(step))
                    .ok_or_else(|| EvaluateError::EmptyRange {
                        name: value.name.clone(),
                        from,
                        to,
                        step,
                    })?;
                // No further than `to`, so neither of the two can overflow.
                Ok(from + step * generator.below(steps.saturating_add(1)))
            }
        }
    }
}

impl Lookup for Values<'_> {
    fn value(&self, name: &str) -> Option<u64> {
        let in_loop = self.loops.iter().rev().find(|(known, _)| *known == name);
        if let Some((_, value)) = in_loop {
            return Some(*value);
        }
        let mut declared = self.declared.iter().zip(&self.current);
        if let Some((_, value)) = declared.find(|(known, _)| known.name == name) {
            return Some(*value);
        }
        let mut givens = Givens::NAMES.into_iter().zip(self.givens.values());
        givens
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests;
