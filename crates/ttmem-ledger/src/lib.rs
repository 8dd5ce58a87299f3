//! The accounting: who holds which bytes of which device.
//!
//! [`Ledger`] takes definitions and events of any number of processes and keeps
//! the live set, totals and peaks; it has no clock and does no I/O, so the same
//! inputs give the same state, live or replayed. A [`View`] is the ledger at one
//! moment: cheap to take, and everything that takes time — where things lie
//! ([`geometry`]), sorting, filtering — is done on it by whoever asked.
//!
//! Words: *charged* is what an allocator takes, *requested* what was asked for;
//! *registered* is what every live program placed, *resident* what the programs
//! that ran last on each core placed; *occupied* is L1 in use for anything.

mod address_order;
mod anomaly;
mod apply;
mod audit;
mod buffers;
pub mod device;
mod effect;
mod gauge;
pub mod geometry;
mod intervals;
mod ledger;
mod mark;
mod pages;
pub mod process;
pub mod program;
mod residency;
pub mod ring;
pub mod totals;
mod view;

pub use anomaly::{Anomalies, Anomaly};
pub use audit::AuditError;
pub use buffers::BufferRow;
pub use device::{Capacity, Device, DeviceFacts, DeviceKey};
pub use effect::{Change, Effect};
pub use gauge::{Gauge, Peak};
pub use geometry::Geometry;
pub use ledger::{Carried, Ledger, Limits};
pub use mark::{Mark, Marks};
pub use pages::PagesView;
pub use process::{Departure, Exit, ProcessFacts, ProcessIdentity, ProcessState, Released};
pub use residency::{Owner, Residency};
pub use totals::{PeakSet, Totals};
pub use view::{DepartedView, ProcessView, View};
