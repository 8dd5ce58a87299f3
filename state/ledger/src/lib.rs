//! The accounting: who holds which bytes of which device.
//!
//! [`Ledger`] keeps an [`Account`] for each process, which
//! has the rules, and adds what spans processes: devices with their totals and
//! peaks, marks, what departed processes left. It changes by [`Ledger::apply`] alone, has no clock
//! and does no I/O, so the same [`Change`]s give the same state, live or replayed. A [`View`] is the ledger
//! at one moment: cheap to take, and everything that takes time — where things lie
//! ([`geometry`]), sorting, filtering — is done on it by the reader.
//!
//! Words: *charged* is what an allocator takes, *requested* what was asked for;
//! *registered* is what every live program placed, *resident* what the programs
//! that ran last on each core placed; *occupied* is L1 in use for anything.

mod address_order;
mod audience;
mod audit;
mod change;
mod counts;
mod device;
mod effect;
mod failures;
mod follower;
mod footprint;
pub mod geometry;
mod growth;
mod incomplete;
mod intervals;
mod labels;
mod ledger;
mod left_behind;
mod part;
mod peak_composition;
mod process;
mod resync;
mod shares;
mod state;
mod tables;
#[cfg(feature = "testing")]
pub mod testing;
mod view;

pub use audience::Audience;
pub use audit::AuditError;
pub use change::{ApplyLimits, Batch, Change, ChangeOutcome, EVENT_WORK};
pub use counts::{Counts, DeviceCounts, FailureKind};
pub use device::{Device, DeviceFacts, DeviceKey};
pub use effect::{Effect, EffectKind};
pub use failures::{FailureMoment, Failures, MomentBlock, OfCall};
pub use geometry::Geometry;
pub use growth::{Births, Growth, ReaderSeries, Series, Step, Steps, Sum};
pub use incomplete::{IncompleteReason, IncompleteReasons};
pub use labels::{Labels, MAX_LABEL_CHARS, MAX_LABELS};
pub use ledger::{Ledger, Limits};
pub use left_behind::{LeftBehind, LeftGroup};
pub use part::Part;
pub use peak_composition::{PeakComposition, PeakGroup};
pub use process::{DepartedProcess, Departure, Exit, ProcessFacts, ProcessIdentity, ProcessState};
pub use resync::Resync;
pub use shares::{Holder, Shares, UNKNOWN_USER, is_same_user};
pub use state::{LoadError, fingerprint as state_fingerprint};
pub use ttmem_account::Limits as AccountLimits;
pub use ttmem_account::{
    Account, AccountFacts, AccountRows, Allocator, Anomalies, Anomaly, BufferRow, CacheCounters,
    Capacity, ComputeL1, ConfigRingKey, Gauge, GaugeKind, HeldDevice, LegacyCb, Mark, Marks, Mesh,
    NotTracked, PagesView, Peak, PeakSet, Released, Totals, config_ring, last_replays,
    name_and_stack, peak_composition as peak, program, totals,
};
pub use view::{DepartedView, DeviceResidents, Owner, ProcessRef, ProcessView, Table, View};
