//! What can be wrong with an event, named and counted.
//!
//! An anomaly never changes a total beyond the live set: the event is either
//! refused, or its effect is booked and given back like any other.

macro_rules! anomalies {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// A contradiction between an event and the ledger.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
        pub enum Anomaly {
            $($(#[$doc])* #[error($text)] $name,)*
        }

        impl Anomaly {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

anomalies! {
    /// A free of something that is not booked: changed nothing.
    UnknownFree "unknown_free",
    /// An old free with several classes live at that address: the newest went.
    AmbiguousFree "ambiguous_free",
    /// An allocation of a live id with another size or place: the old one was released first.
    SizeChanged "size_changed",
    /// An allocation of a live id in another class: the old one was released first.
    ClassChanged "class_changed",
    /// An allocation of nothing: refused.
    ZeroSize "zero_size",
    /// An allocation larger than anything there is: refused.
    AbsurdSize "absurd_size",
    /// An allocation that does not fit what the allocator has left: refused.
    BeyondCapacity "beyond_capacity",
    /// A buffer outside the addresses of its bank: booked.
    OutsideBank "outside_bank",
    /// A capacity below what is already taken: refused.
    CapacityConflict "capacity_conflict",
    /// A device id outside the known range: refused.
    InvalidDevice "invalid_device",
    /// A class number that names no class: refused.
    InvalidClass "invalid_class",
    /// An event that uses an undefined id: refused.
    Undefined "undefined_reference",
    /// A definition that contradicts an earlier one: refused.
    Redefined "redefined",
    /// An event about an unknown program: one was assumed.
    ImplicitProgram "implicit_program",
    /// An event about a program that is not there: changed nothing.
    UnknownProgram "unknown_program",
    /// A kernel that is loaded already, with other figures: the old one was released first.
    KernelChanged "kernel_changed",
    /// An unload of a kernel that is not loaded: changed nothing.
    UnknownUnload "unknown_unload",
    /// Cores outside the compute grid: booked, but not part of occupied.
    OutsideGrid "outside_grid",
    /// A config ring or cache entry outside its ring, or a ring that was not opened: refused.
    OutsideRing "outside_ring",
    /// A trace that was not captured: changed nothing.
    UnknownTrace "unknown_trace",
    /// The allocator's own statistics differ from the ledger.
    StatisticsDiffer "statistics_differ",
    /// More definitions or live entries than a process may have: refused.
    LimitReached "limit_reached",
    /// A record that is no event, or one that this sender may not send: refused.
    Malformed "malformed",
    /// A device for which its process has no room left among all devices: refused.
    NoRoom "no_room",
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    counts: [u64; Anomaly::ALL.len()],
}

impl Anomalies {
    pub fn count(&mut self, anomaly: Anomaly) {
        self.add(anomaly, 1);
    }

    pub fn add(&mut self, anomaly: Anomaly, more: u64) {
        let count = &mut self.counts[anomaly as usize];
        *count = count.saturating_add(more);
    }

    /// So many of each, in the order of [`Anomaly::ALL`]; none if that has fewer.
    #[must_use]
    pub fn of_counts(counts: &[u64]) -> Option<Self> {
        let mut all = Self::default();
        all.counts.get_mut(..counts.len())?.copy_from_slice(counts);
        Some(all)
    }

    /// Takes over counts that are higher.
    pub fn raise_to(&mut self, others: &Self) {
        for (count, other) in self.counts.iter_mut().zip(others.counts) {
            *count = (*count).max(other);
        }
    }

    #[must_use]
    pub fn of(&self, anomaly: Anomaly) -> u64 {
        self.counts[anomaly as usize]
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        let counts = self.counts.iter();
        counts.fold(0, |total, count| total.saturating_add(*count))
    }

    pub fn iter(&self) -> impl Iterator<Item = (Anomaly, u64)> + '_ {
        Anomaly::ALL
            .iter()
            .map(|anomaly| (*anomaly, self.of(*anomaly)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_somebody_claims_add_up_to_no_more_than_there_is() {
        let claimed = Anomalies::of_counts(&[u64::MAX, 1]).expect("so many are known");
        assert_eq!(claimed.total(), u64::MAX);
    }
}
