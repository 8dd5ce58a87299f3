//! What a machine says of its devices by itself, where nothing of ours runs in a workload.
//!
//! Two sources, both only read: the files of the driver (sysfs, hwmon and procfs: `device`,
//! `holders`, `machine`) and the shared memory that TT-Metal writes on its own (`shm`). A device
//! node is never opened: that would wake the device, and make us one of its holders.
//!
//! Everything is below given roots, so that a copy of another machine's files, or a test's, can be
//! looked at. Nothing here is trusted: files are checked and bounded, a read that hangs costs its
//! deadline and nothing else, and what is not known says why instead of being zero.

mod device;
mod files;
mod holders;
mod machine;
mod names;
mod processes;
mod roots;
pub mod shm;
mod watch;

#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod fuzz;
#[cfg(any(test, feature = "testing"))]
pub mod tree;

#[cfg(test)]
mod tests;

pub use device::{Clocks, Device, Link, Sensors, devices, ordinals};
pub use files::{Reader, Reading, Unread};
pub use holders::{Holder, OpenFiles, holders, open_files};
pub use machine::{HugePages, Iommu, Machine, Mount, Namespaces, NodeAccess};
pub use names::{Bdf, Chip, NotASelector, Selector, Tray, chips};
pub use processes::{Liveness, Processes};
pub use roots::Roots;
pub use watch::{Person, Sample, Watch};
