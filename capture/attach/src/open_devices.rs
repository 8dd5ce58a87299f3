//! The open meshes and chips.
//!
//! Everything asks here for the mesh of a device object. One that was not seen being
//! opened is reported when it is first asked for. Devices are found by the address of their
//! object, and meshes also by that of their implementation and of their allocator.

#![expect(unsafe_code, reason = "makes objects of addresses that were kept")]

use crate::hooks::buffers;
use crate::hooks::devices::FAMILY;
use crate::hooks::identities;
use crate::lock_free::address_map::{AddressMap, Slot};
use crate::lock_free::patient_lock::PatientLock;
use crate::quiescence::QuiescentSection;
use crate::runtime::Object;
use crate::runtime::allocator::{CLASSES, Regions};
use crate::runtime::bank_sizes::BANK_SIZES;
use crate::runtime::buffer::{self, BufferAccessors};
use crate::runtime::device::{self, DeviceAccessors, Kind};
use crate::{forks, hooks, report};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use ttmem_event::{Class, DeviceId, EventKind, MeshId};

/// Events of an allocator between two looks at its statistics.
const EVENTS_BETWEEN_STATISTICS: u32 = 1000;

/// Something that a thread notes and others see sometime later.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    #[inline]
    pub(crate) fn get(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, is_set: bool) {
        self.0.store(is_set, Relaxed);
    }
}

/// What is known of a device object while it is open.
#[derive(Debug, Default)]
pub(crate) struct OpenDevice {
    pub(crate) mesh: MeshId,
    device: Option<DeviceId>,
    /// The address of its allocator; 0 of a chip without one.
    allocator: usize,
    /// What the allocator can hand out.
    regions: Regions,
    are_capacities_reported: Flag,
    /// Events since the statistics were last looked at.
    events: AtomicU32,
    /// Whether it is being closed: its allocator is not to be asked any more.
    pub(crate) is_closing: Flag,
    /// Whether its allocator and our events know of the same buffers: not of those that were
    /// there before us, nor of those of parts of the device that have an allocator of their own.
    pub(crate) is_comparable: Flag,
    /// The address of its implementation; 0 while not known.
    implementation: AtomicUsize,
    /// Bytes of each bank that live buffers take, by class, where buffers are counted.
    counted_bytes: [AtomicU64; Class::COUNT],
    /// The newest buffer when it was opened; 0 if that was not seen.
    opened_behind: AtomicU64,
    /// Whether a buffer was placed here that takes blocks of its cores' own.
    pub(crate) has_per_core: Flag,
    /// Whether its allocator's L1 has blocks of its meshes, with which they are reported.
    pub(crate) is_mirror: Flag,
}

static DEVICES: AddressMap<OpenDevice, 1024> = AddressMap::new([const { Slot::new() }; 1024]);

/// Held while a device is reported, so that it is reported once.
static REPORTING: PatientLock = PatientLock::new();

impl OpenDevice {
    pub(crate) fn banks(&self, class: Class) -> u16 {
        self.regions[class.index()].banks
    }

    /// What pages of a class are multiples of.
    pub(crate) fn alignment(&self, class: Class) -> u32 {
        self.regions[class.index()].alignment
    }

    /// What a block of so many bytes takes of a bank.
    ///
    /// The allocator cuts the banks of every class into multiples of the alignment of DRAM, and
    /// hands out no block without bytes: who asks for none gets the smallest.
    pub(crate) fn block_bytes(&self, per_bank_bytes: u64) -> u64 {
        let alignment = self.regions[Class::Dram.index()].alignment;
        rounded(per_bank_bytes.max(1), alignment)
    }

    /// The end of L1 that buffers and programs share.
    pub(crate) fn l1_end(&self) -> u64 {
        let region = self.regions[Class::L1Small.index()];
        region.base.saturating_add(region.per_bank_bytes)
    }

    /// The allocator, while it may be asked.
    pub(crate) fn allocator(&self) -> Option<Object> {
        if self.allocator == 0 || self.is_closing.get() {
            return None;
        }
        // SAFETY: the allocator is that of a device, which has it until it is closed.
        Some(unsafe { Object::at(self.allocator) })
    }

    /// Counts an event of the allocator; now and then its statistics are reported.
    #[inline]
    pub(crate) fn count_event(&self) {
        // Not in one step, which would cost more: one that is lost is no harm.
        let events = self.events.load(Relaxed);
        self.events.store(events.saturating_add(1), Relaxed);
        if events >= EVENTS_BETWEEN_STATISTICS {
            self.verify();
        }
    }

    /// A chip's own allocator is hardly ever used: only then its capacities are reported.
    #[inline]
    pub(crate) fn report_before_use(&self) {
        if !self.are_capacities_reported.get() {
            self.report_capacities();
        }
    }

    #[cold]
    fn report_capacities(&self) {
        if !self.are_capacities_reported.0.swap(true, Relaxed) {
            FAMILY.contain(|| report::capacities(self.mesh, &self.regions));
        }
    }

    /// Whether the allocator's statistics of a class are about what is reported of it.
    ///
    /// They leave out the blocks of cores' own, as the account that they are compared with does.
    fn has_comparable(&self, class: Class) -> bool {
        class != Class::L1 || !self.is_mirror.get()
    }

    /// Counts a buffer that was reported.
    ///
    /// Only where a buffer cannot be asked everything: there the allocator has to confirm what
    /// was reported.
    pub(crate) fn count_allocated(&self, class: Class, per_bank_bytes: u64) {
        self.counted_bytes[class.index()].fetch_add(per_bank_bytes, Relaxed);
    }

    /// Counts that such a buffer was given back.
    pub(crate) fn count_freed(&self, class: Class, per_bank_bytes: u64) {
        self.counted_bytes[class.index()].fetch_sub(per_bank_bytes, Relaxed);
    }

    /// It was opened just now: there are no buffers that were not reported.
    pub(crate) fn begin(&self) {
        self.is_comparable.set(true);
        self.opened_behind.store(buffers::newest(), Relaxed);
    }

    /// Whether a buffer is older than this opening of its device.
    ///
    /// It ended when the device was closed. Of a chip, which is the same object when it is opened
    /// again, the runtime gives it back only then.
    #[inline]
    pub(crate) fn is_from_before(&self, buffer: u64) -> bool {
        buffer <= self.opened_behind.load(Relaxed)
    }

    /// Lets the mesh be found by its implementation as well.
    pub(crate) fn add_implementation(&'static self, implementation: Object) {
        let address = implementation.address();
        self.implementation.store(address, Relaxed);
        DEVICES.insert(address, self);
    }

    /// Reports again what the allocator can hand out, after it was resized.
    pub(crate) fn report_resized(&self) -> Option<()> {
        let accessors = FAMILY.need(&*device::ACCESSORS)?;
        let regions = accessors.allocators.regions(self.allocator()?);
        let regions = resized(&self.regions, regions);
        FAMILY.contain(|| report::capacities(self.mesh, &regions));
        Some(())
    }

    /// Reports the allocator's statistics, if this is a moment for it.
    #[cold]
    pub(crate) fn verify(&self) -> Option<()> {
        let accessors = FAMILY.need(&*device::ACCESSORS)?;
        if !self.is_comparable.get() {
            self.events.store(0, Relaxed);
            return None;
        }
        let (allocator, moment) = (self.allocator()?, QuiescentSection::try_enter()?);
        self.events.store(0, Relaxed);
        // No hook that comes here runs under the allocator's lock.
        let all = CLASSES.map(|class| accessors.allocators.statistics(allocator, class));
        if !moment.is_valid() {
            // Somebody had no patience: what changed meanwhile may not be reported yet.
            return None;
        }
        let are_counted = buffers::FAMILY
            .need(&*buffer::ACCESSORS)
            .is_some_and(BufferAccessors::needs_creation);
        for (class, statistics) in CLASSES.into_iter().zip(&all) {
            if !self.has_comparable(class) {
                continue;
            }
            let counted_bytes = self.counted_bytes[class.index()].load(Relaxed);
            if are_counted && counted_bytes != statistics.allocated {
                let why = "the allocator holds other bytes than were reported";
                buffers::give_up(&buffers::FAMILY, why);
                return None;
            }
            FAMILY.contain(|| {
                report::event(EventKind::StatisticsReported {
                    mesh: self.mesh,
                    class,
                    allocated_bytes: statistics.allocated,
                    largest_free_bytes: statistics.largest_free,
                });
            });
        }
        Some(())
    }
}

/// The next multiple of an alignment; the same bytes where there is none.
#[inline]
fn rounded(bytes: u64, alignment: u32) -> u64 {
    let alignment = u64::from(alignment);
    if alignment.is_power_of_two() {
        // As it always is, which saves a division.
        let below = alignment - 1;
        return bytes
            .checked_add(below)
            .map_or(bytes, |above| above & !below);
    }
    bytes.checked_next_multiple_of(alignment).unwrap_or(bytes)
}

/// Where regions lie after they were resized: the runtime takes from their lower ends.
fn resized(opened: &Regions, mut now: Regions) -> Regions {
    for (now, opened) in now.iter_mut().zip(opened) {
        let end = opened.base.saturating_add(opened.per_bank_bytes);
        now.base = end.saturating_sub(now.per_bank_bytes);
    }
    now
}

/// What is known of a device object, which is initialised or null; reports it if it is new.
#[inline]
pub(crate) fn of(device: Object) -> Option<&'static OpenDevice> {
    at(device.address()).or_else(|| open(device))
}

/// What is known of a device object by its address, or that of its implementation or allocator.
///
/// It need not be alive: it is not looked at.
#[inline]
pub(crate) fn at(address: usize) -> Option<&'static OpenDevice> {
    DEVICES.get(address)
}

#[cold]
fn open(device: Object) -> Option<&'static OpenDevice> {
    let accessors = FAMILY.need(&*device::ACCESSORS)?;
    let _reporting = REPORTING.lock()?;
    open_locked(accessors, device)
}

/// The same under the lock, where somebody else may have done so before.
fn open_locked(accessors: &'static DeviceAccessors, device: Object) -> Option<&'static OpenDevice> {
    if let Some(known) = at(device.address()) {
        return Some(known);
    }
    let new = match accessors.kind(device)? {
        Kind::Mesh => open_mesh(accessors, device)?,
        Kind::Chip => open_chip(accessors, device)?,
    };
    let new: &'static OpenDevice = Box::leak(Box::new(new));
    forks::watch();
    hooks::report_off();
    if new.allocator != 0 {
        DEVICES.insert(new.allocator, new);
    }
    DEVICES.insert(device.address(), new).then_some(new)
}

fn open_mesh(accessors: &'static DeviceAccessors, device: Object) -> Option<OpenDevice> {
    let mesh = accessors.read_mesh(device)?;
    // Nothing that comes here holds the allocator's lock.
    let regions = accessors.allocators.regions(mesh.allocator);
    let mut devices = Vec::with_capacity(mesh.chips.len());
    for &chip in &mesh.chips {
        // The chips of an initialised mesh are initialised.
        devices.push(open_locked(accessors, chip)?.device?);
    }
    let id = FAMILY.contain(|| {
        let id = report::mesh_opened(&mesh, devices);
        report::capacities(id, &regions);
        Some(id)
    })?;
    Some(OpenDevice {
        mesh: id,
        allocator: mesh.allocator.address(),
        regions,
        are_capacities_reported: Flag(true.into()),
        ..OpenDevice::default()
    })
}

fn open_chip(accessors: &'static DeviceAccessors, device: Object) -> Option<OpenDevice> {
    let chip = accessors.read_chip(device);
    let regions = if chip.allocator.is_null() {
        Regions::default()
    } else {
        // Nothing that comes here holds the allocator's lock.
        accessors.allocators.regions(chip.allocator)
    };
    let reserved = regions[Class::L1.index()].base;
    let identity = u32::try_from(chip.id)
        .map(identities::of)
        .unwrap_or_default();
    let ids = FAMILY.contain(|| Some(report::chip_opened(&chip, &identity, reserved)));
    let (id, mesh) = ids?;
    Some(OpenDevice {
        mesh,
        device: Some(id),
        allocator: chip.allocator.address(),
        regions,
        ..OpenDevice::default()
    })
}

pub(crate) fn meshes() -> BTreeSet<MeshId> {
    DEVICES.values().map(|device| device.mesh).collect()
}

/// Forgets every device: in a child, they are its parent's.
pub(crate) fn forget() {
    DEVICES.forget();
    REPORTING.reset();
}

/// Reports that a device object is closed, if it was open.
pub(crate) fn close(device: Object) {
    let Some(known) = at(device.address()) else {
        return;
    };
    let implementation = known.implementation.load(Relaxed);
    for key in [device.address(), known.allocator, implementation] {
        DEVICES.remove(key);
    }
    BANK_SIZES.forget();
    FAMILY.contain(|| match known.device {
        Some(device) => report::event(EventKind::DeviceClosed { device }),
        None => report::event(EventKind::MeshClosed { mesh: known.mesh }),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::allocator::Region;

    #[test]
    fn blocks_are_whole_multiples_of_the_alignment() {
        assert_eq!([1, 32, 33].map(|bytes| rounded(bytes, 32)), [32, 32, 64]);
        assert_eq!(rounded(48, 64), 64);
        // What an allocator without DRAM, or nonsense, would lead to.
        assert_eq!(rounded(48, 0), 48);
        assert_eq!(rounded(u64::MAX, 64), u64::MAX);
    }

    /// A chip whose blocks are multiples of 32 bytes.
    fn chip() -> OpenDevice {
        let mut regions = Regions::default();
        regions[Class::Dram.index()].alignment = 32;
        OpenDevice {
            mesh: MeshId(1),
            device: Some(DeviceId(1)),
            regions,
            ..OpenDevice::default()
        }
    }

    #[test]
    fn no_block_is_without_bytes() {
        assert_eq!(
            [0, 1, 32, 33].map(|bytes| chip().block_bytes(bytes)),
            [32, 32, 32, 64]
        );
    }

    #[test]
    fn buffers_from_before_a_device_was_opened_are_known() {
        let chip = chip();
        assert!(!chip.is_from_before(1));
        chip.opened_behind.store(7, Relaxed);
        assert_eq!([7, 8].map(|id| chip.is_from_before(id)), [true, false]);
    }

    #[test]
    fn l1_that_mirrors_that_of_a_mesh_is_not_compared() {
        let chip = chip();
        assert!(CLASSES.into_iter().all(|class| chip.has_comparable(class)));
        chip.is_mirror.set(true);
        let compared = CLASSES
            .into_iter()
            .filter(|class| chip.has_comparable(*class));
        let compared: Vec<Class> = compared.collect();
        assert_eq!(compared, [Class::Dram, Class::L1Small, Class::Trace]);
    }

    #[test]
    fn a_region_that_shrinks_keeps_its_end() {
        let mut opened = Regions::default();
        opened[Class::L1.index()] = Region {
            banks: 64,
            base: 105_824,
            per_bank_bytes: 1_360_544,
            alignment: 32,
        };
        let mut now = opened;
        now[Class::L1.index()].per_bank_bytes -= 65_536;
        let shrunk = resized(&opened, now)[Class::L1.index()];
        assert_eq!(shrunk.base, 105_824 + 65_536);
        assert_eq!(resized(&opened, opened), opened);
    }
}
