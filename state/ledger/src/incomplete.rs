//! Why the figures of a process are not complete.

use crate::process::ProcessFacts;
use ttmem_account::{AccountFacts, Anomaly};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $word:literal,)*) => {
        /// A reason for which something that a process reported is not part of its figures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum IncompleteReason {
            $($(#[$doc])* $name,)*
        }

        impl IncompleteReason {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word for JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

reasons! {
    /// Events that never reached the ledger.
    EventsLost "events_lost",
    /// Entries beyond what one process may have.
    LimitReached "limit_reached",
    /// Devices, or reports about them, beyond its share of the table of devices.
    DevicesRefused "devices_refused",
    /// Messages of an old client that were read and dropped: its process or user had its share of
    /// clients.
    MessagesDropped "messages_dropped",
    /// Connections of a client that were refused.
    ConnectionsRefused "connections_refused",
    /// Whole states beyond its share of memory.
    ResyncsRefused "resyncs_refused",
    /// Unfinished frames beyond its share of memory.
    FramesRefused "frames_refused",
    /// Frames or states that were begun and did not go on.
    Stalled "stalled",
}

/// How often each reason applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncompleteReasons {
    counts: [u64; IncompleteReason::ALL.len()],
}

impl IncompleteReasons {
    /// All reasons of a process: what was refused, and what its account says.
    #[must_use]
    pub fn of_process(facts: &ProcessFacts, account: &AccountFacts) -> Self {
        let mut all = facts.refused.clone();
        all.add(IncompleteReason::EventsLost, account.lost_events);
        let beyond_limits = account.anomalies.of(Anomaly::LimitReached);
        all.add(IncompleteReason::LimitReached, beyond_limits);
        all
    }

    /// So many of each, in the order of [`IncompleteReason::ALL`]; none if that has fewer.
    pub(crate) fn of_counts(counts: &[u64]) -> Option<Self> {
        let mut all = Self::default();
        all.counts.get_mut(..counts.len())?.copy_from_slice(counts);
        Some(all)
    }

    pub(crate) fn add(&mut self, reason: IncompleteReason, more: u64) {
        let count = &mut self.counts[reason as usize];
        *count = count.saturating_add(more);
    }

    #[must_use]
    pub fn of(&self, reason: IncompleteReason) -> u64 {
        self.counts[reason as usize]
    }

    /// The reasons that apply, and how often each does.
    pub fn iter(&self) -> impl Iterator<Item = (IncompleteReason, u64)> + '_ {
        let all = IncompleteReason::ALL.iter();
        let all = all.map(|reason| (*reason, self.of(*reason)));
        all.filter(|(_reason, count)| *count > 0)
    }
}
