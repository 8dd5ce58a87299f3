//! The account of one process: what it holds of device memory.
//!
//! [`Account::apply`] has every rule that decides what is live. The pump of a
//! client keeps an account as the live set of its own process; the ledger of the
//! server keeps one per process and adds what spans processes. Both agree because
//! there is one set of rules, and after a break the client sends the state of its
//! account ([`Account::save`], [`Account::load`]) instead of a history.
//!
//! No clock, no I/O: the same definitions and events give the same state. What
//! the owner keeps besides follows the account through an [`Observer`].

mod account;
mod anomaly;
mod apply;
pub mod budget;
mod buffers;
pub mod config_ring;
mod definitions;
mod device;
pub mod footprint;
mod freed;
mod gauge;
mod legacy_cbs;
mod limits;
mod mark;
mod mesh;
mod observer;
mod pages;
pub mod peak_composition;
pub mod program;
mod residency;
mod shares;
pub mod state;
pub mod totals;
mod untracked;

pub use account::{Account, AccountFacts, AccountRows, ConfigRingKey, Released};
pub use anomaly::{Anomalies, Anomaly};
pub use buffers::BufferRow;
pub use definitions::{Definitions, name_and_stack};
pub use device::{CacheCounters, Capacity, ChipKey, ComputeL1, DeviceMoment, HeldDevice};
pub use gauge::{Gauge, Peak};
pub use legacy_cbs::LegacyCb;
pub use limits::{ABSURD_BYTES, Limits, MAX_HELD_BYTES};
pub use mark::{Mark, MarkOwner, Marks};
pub use mesh::{Allocator, Mesh};
pub use observer::{Charge, Holding, Observer};
pub use pages::{Pages, PagesView};
pub use residency::{ResidentProgram, Vacated, last_replays, residents, run_count};
pub use shares::oldest_of_largest;
pub use totals::{GaugeKind, PeakSet, Totals};
pub use untracked::{NotTracked, Untracked};

/// A map keyed by what a client sends: seeded, so that it cannot be made slow on purpose.
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, foldhash::fast::RandomState>;

/// A set of what a client sends, seeded likewise.
pub(crate) type Set<K> = hashbrown::HashSet<K, foldhash::fast::RandomState>;
