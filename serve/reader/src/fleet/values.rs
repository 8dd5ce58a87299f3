//! Which values an answer can have, and what is kept of it.

use std::collections::BTreeMap;

use crate::prometheus::{Labels, Sample};

/// Nobody's memory has more bytes, and nothing is counted so far.
const MOST: f64 = i64::MAX as f64;

/// What the values of a query are; anything else cannot have come from a server of ours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Values {
    Exactly(f64),
    /// Bytes, or things that are counted, from so many on.
    Whole(u32),
    /// What `increase` makes of a counter: parts of one, because it extrapolates.
    Increase,
    /// The same, where only those above zero were asked for.
    SomeIncrease,
    /// A part of a whole, from a share on.
    Share(f64),
    /// Bytes more or fewer than at another time; of long ago an engine may have averages only.
    Difference,
}

impl Values {
    fn has(self, value: f64) -> bool {
        match self {
            Self::Exactly(only) => value == only,
            Self::Whole(least) => {
                value.fract() == 0.0 && (f64::from(least)..=MOST).contains(&value)
            }
            Self::Increase => (0.0..=MOST).contains(&value),
            Self::SomeIncrease => value > 0.0 && value <= MOST,
            Self::Share(least) => (least..=1.0).contains(&value),
            Self::Difference => value.abs() <= MOST,
        }
    }
}

/// Asks, and keeps of each answer what can be, once.
pub(super) struct Asked<A> {
    ask: A,
    /// Values that were left out.
    pub(super) impossible: u64,
    /// The first of them, and what was asked.
    pub(super) impossible_example: Option<String>,
}

impl<A, E> Asked<A>
where
    A: FnMut(&str) -> Result<Vec<Sample>, E>,
{
    pub(super) fn new(ask: A) -> Self {
        Self {
            ask,
            impossible: 0,
            impossible_example: None,
        }
    }

    /// What a query gives, ordered by labels. Of series that differ only in labels that nobody here looks at, such as
    /// those of a server that two scrape jobs know, one is kept: the highest.
    pub(super) fn samples(&mut self, query: &str, values: Values) -> Result<Vec<Sample>, E> {
        let mut kept: BTreeMap<Labels, f64> = BTreeMap::new();
        for Sample { labels, value } in (self.ask)(query)? {
            if values.has(value) {
                let highest = kept.entry(labels).or_insert(value);
                *highest = highest.max(value);
                continue;
            }
            self.impossible += 1;
            let of = &labels.instance;
            self.impossible_example
                .get_or_insert_with(|| format!("{value:?} of {of} for `{query}`"));
        }
        let sample = |(labels, value)| Sample { labels, value };
        Ok(kept.into_iter().map(sample).collect())
    }
}
