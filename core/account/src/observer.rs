//! What the owner of an account follows while events are applied.

use crate::anomaly::Anomaly;
use crate::buffers::BufferRow;
use crate::device::{CacheCounters, Capacity, ChipKey};
use crate::program::{Cb, Kernel};
use crate::totals::GaugeKind;
use ttmem_event::{Class, DeviceDefinition, EventKind, ProgramId};

/// Something of a program that takes bytes on one device.
#[derive(Clone, Copy, Debug)]
pub enum Holding<'a> {
    /// Per-core storage; program 0 stands for none.
    Cb(ProgramId, &'a Cb),
    Kernel(ProgramId, &'a Kernel),
}

/// What a buffer takes on each device of its mesh.
///
/// Worked out once for all of them and passed by value, so that it stays in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    pub class: Class,
    /// What the allocator takes.
    pub bytes: u64,
    pub requested_bytes: u64,
    /// Whether its place in a bank is known.
    pub placed: bool,
}

impl Charge {
    #[must_use]
    #[inline]
    pub fn of(row: &BufferRow, placed: bool) -> Self {
        Self {
            class: row.class,
            bytes: row.charged_bytes(),
            requested_bytes: row.requested_bytes,
            placed,
        }
    }
}

impl Holding<'_> {
    #[must_use]
    #[inline(always)]
    pub fn gauge(&self) -> GaugeKind {
        match self {
            Self::Cb(..) => GaugeKind::Cb,
            Self::Kernel(..) => GaugeKind::Kernel,
        }
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Cb(_program, cb) => cb.total_bytes(),
            Self::Kernel(_program, kernel) => kernel.total_bytes,
        }
    }

    /// The event that placed it, in the order of the process's events.
    pub(crate) fn order(&self) -> u64 {
        match self {
            Self::Cb(_program, cb) => cb.order,
            Self::Kernel(_program, kernel) => kernel.order,
        }
    }
}

/// Follows an account. Devices are named by the process's own slots.
///
/// `()` is the observer of an account that stands alone.
pub trait Observer {
    /// The process mentions a device for the first time.
    ///
    /// # Errors
    /// When the owner has no room for it; then the account has none, either.
    fn device_added(&mut self, _slot: u32, _key: ChipKey) -> Result<(), Anomaly> {
        Ok(())
    }

    /// A device was described, or opened by another description than before.
    fn device_described(
        &mut self,
        _slot: u32,
        _definition: &DeviceDefinition,
        _board: Option<&str>,
    ) {
    }

    /// An allocator of the device reported what it can hand out.
    fn capacity_reported(&mut self, _slot: u32, _class: Class, _capacity: Capacity) {}

    /// What the device was configured to have, for old senders whose runtime reports nothing.
    fn configured_capacity(&self, _slot: u32, _class: Class) -> Option<Capacity> {
        None
    }

    /// How often the device had a new peak of this gauge; 0 where they are not counted.
    fn device_peaks(&self, _slot: u32, _gauge: GaugeKind) -> u64 {
        0
    }

    /// A buffer was booked; how often the device had a new peak of its class before that.
    fn buffer_booked(&mut self, _slot: u32, _charge: Charge, _row: &BufferRow, _time: u64) -> u64 {
        0
    }

    /// A buffer was given back; how often the device had a new peak of its class.
    fn buffer_released(
        &mut self,
        _slot: u32,
        _charge: Charge,
        _row: &BufferRow,
        _time: u64,
    ) -> u64 {
        0
    }

    /// A buffer was still held on so many devices when its mesh was closed.
    fn left_behind(&mut self, _row: &BufferRow, _devices: u64) {}

    /// Storage or a kernel was booked; how often the device had a new peak of its gauge before that.
    fn booked(&mut self, _slot: u32, _holding: &Holding<'_>, _time: u64) -> u64 {
        0
    }

    /// Storage or a kernel was given back; how often the device had a new peak of its gauge.
    fn released(&mut self, _slot: u32, _holding: &Holding<'_>, _time: u64) -> u64 {
        0
    }

    /// An old sender booked a buffer once more, or gave back one of several bookings.
    fn referenced(&mut self, _slot: u32, _row: &BufferRow, _more: bool, _time: u64) {}

    /// The largest load of a kernel binary changed.
    fn unique_kernels_changed(&mut self, _slot: u32, _before: u64, _after: u64) {}

    fn counted(&mut self, _slot: u32, _counted: &CacheCounters) {}

    /// An event that changes no bytes.
    fn happened(&mut self, _event: &EventKind, _time: u64) {}

    /// An event contradicts the account; it was settled and went on.
    fn contradicted(&mut self, _anomaly: Anomaly, _event: &EventKind, _time: u64) {}
}

impl Observer for () {}
