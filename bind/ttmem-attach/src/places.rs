//! The open meshes and chips.
//!
//! Everything asks here for the mesh of a device object. One that was not seen being
//! opened is told of when it is first asked for. Places are found by the address of the
//! device object, and those of meshes also by their implementation and their allocator.

#![expect(unsafe_code, reason = "reads objects of the runtime")]

use crate::hooks::buffers;
use crate::hooks::devices::FAMILY;
use crate::hooks::identities;
use crate::patient_lock::PatientLock;
use crate::place_map::PlaceMap;
use crate::quiet::Moment;
use crate::runtime::Object;
use crate::runtime::allocator::{CLASSES, Regions};
use crate::runtime::bank_sizes::BANK_SIZES;
use crate::runtime::buffer::{self, BufferAccessors};
use crate::runtime::device::{self, DeviceAccessors, Kind};
use crate::{forks, report};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use ttmem_event::{Class, DeviceId, MeshId};

/// Events of an allocator between two looks at its statistics.
const EVENTS_BETWEEN_STATISTICS: u32 = 1000;

/// What is known of a device object while it is open.
#[derive(Debug)]
pub(crate) struct Place {
    /// The mesh of its events.
    pub(crate) mesh: MeshId,
    /// Of a chip, its device.
    device: Option<DeviceId>,
    /// The address of its allocator; 0 of a chip without one.
    allocator: usize,
    /// What the allocator can hand out.
    regions: Regions,
    capacities_told: AtomicBool,
    /// Events since the statistics were last looked at.
    events: AtomicU32,
    /// Whether it is being closed: its allocator is not to be asked any more.
    closing: AtomicBool,
    /// Whether its allocator and our events may know of different buffers: of those that were
    /// there before us, or of parts of the device that have an allocator of their own.
    is_incomparable: AtomicBool,
    /// The address of its implementation; 0 while not known.
    implementation: AtomicUsize,
    /// Bytes of each bank that live buffers take, by class, where buffers are counted.
    told: [AtomicU64; Class::COUNT],
    /// The newest buffer when it was opened; 0 if that was not seen.
    opened_behind: AtomicU64,
    /// Whether a buffer was placed here that takes blocks of its cores' own.
    has_per_core: AtomicBool,
    /// Whether its allocator's L1 has blocks of its meshes, for which they are told of.
    is_mirror: AtomicBool,
}

/// The open device objects. Each value is the address of a place that is never freed.
static PLACES: PlaceMap<1024> = PlaceMap::new();

/// Held while a device is told of, so that it is told of once.
static TELLING: PatientLock = PatientLock::new();

impl Place {
    /// The banks of a class.
    pub(crate) fn banks(&self, class: Class) -> u16 {
        self.regions[class.index()].banks
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
        let askable = self.allocator != 0 && !self.closing.load(Ordering::Relaxed);
        askable.then(|| std::ptr::with_exposed_provenance(self.allocator))
    }

    /// Counts an event of the allocator; now and then its statistics are told.
    #[inline]
    pub(crate) fn count_event(&self) {
        // Not in one step, which would cost more: one that is lost is no harm.
        let events = self.events.load(Ordering::Relaxed);
        self.events
            .store(events.saturating_add(1), Ordering::Relaxed);
        if events >= EVENTS_BETWEEN_STATISTICS {
            self.verify();
        }
    }

    /// A chip's own allocator is hardly ever used: only then it is told of.
    #[inline]
    pub(crate) fn tell_before_use(&self) {
        if self.device.is_some() {
            self.tell_capacities_once();
        }
    }

    #[cold]
    fn tell_capacities_once(&self) {
        if !self.capacities_told.swap(true, Ordering::Relaxed) {
            FAMILY.contain(|| report::capacities(self.mesh, &self.regions));
        }
    }

    /// Notes that a buffer takes blocks of its cores' own here.
    pub(crate) fn note_per_core(&self) {
        self.has_per_core.store(true, Ordering::Relaxed);
    }

    /// Whether a buffer may be one that takes blocks of its cores' own.
    #[inline]
    pub(crate) fn has_per_core(&self) -> bool {
        self.has_per_core.load(Ordering::Relaxed)
    }

    /// Notes that its allocator holds blocks of L1 that are those of a mesh.
    pub(crate) fn note_mirrored(&self) {
        self.is_mirror.store(true, Ordering::Relaxed);
    }

    /// Whether the allocator's statistics of a class are about what is told of it.
    ///
    /// They leave out the blocks of cores' own, as the account that they are compared with does.
    fn is_comparable(&self, class: Class) -> bool {
        class != Class::L1 || !self.is_mirror.load(Ordering::Relaxed)
    }

    /// Its allocator is not to be asked any more.
    pub(crate) fn begin_closing(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Counts a buffer that was told of.
    ///
    /// Only where a buffer cannot be asked everything: there the allocator has to confirm what
    /// was told.
    pub(crate) fn count_told(&self, class: Class, per_bank_bytes: u64) {
        self.told[class.index()].fetch_add(per_bank_bytes, Ordering::Relaxed);
    }

    /// Counts that such a buffer was given back.
    pub(crate) fn count_freed(&self, class: Class, per_bank_bytes: u64) {
        self.told[class.index()].fetch_sub(per_bank_bytes, Ordering::Relaxed);
    }

    /// It was opened just now: there are no buffers that were not told of.
    pub(crate) fn begin(&self) {
        self.is_incomparable.store(false, Ordering::Relaxed);
        self.opened_behind
            .store(buffers::newest(), Ordering::Relaxed);
    }

    /// Whether a buffer is older than this opening of its device.
    ///
    /// It ended when the device was closed. Of a chip, which is the same object when it is opened
    /// again, the runtime gives it back only then.
    #[inline]
    pub(crate) fn is_from_before(&self, buffer: u64) -> bool {
        buffer <= self.opened_behind.load(Ordering::Relaxed)
    }

    /// Lets the place be found by the mesh's implementation as well.
    pub(crate) fn add_implementation(&self, implementation: Object) {
        let address = implementation.expose_provenance();
        self.implementation.store(address, Ordering::Relaxed);
        PLACES.insert(address, (&raw const *self).expose_provenance());
    }

    /// A buffer was placed here by another allocator, that of a part of the device.
    ///
    /// From then on the statistics say nothing about all buffers of the device.
    pub(crate) fn add_foreign_buffer(&self) {
        self.is_incomparable.store(true, Ordering::Relaxed);
    }

    /// Tells again what the allocator can hand out, after it was resized.
    pub(crate) fn tell_resized(&self) {
        let Some(accessors) = FAMILY.need(&*device::ACCESSORS) else {
            return;
        };
        let Some(allocator) = self.allocator() else {
            return;
        };
        // SAFETY: the allocator is that of an open device, and its lock is not held.
        let regions = unsafe { accessors.allocators().regions(allocator) };
        let regions = resized(&self.regions, regions);
        FAMILY.contain(|| report::capacities(self.mesh, &regions));
    }

    /// Tells the allocator's statistics, if this is a moment for it.
    #[cold]
    pub(crate) fn verify(&self) {
        let Some(accessors) = FAMILY.need(&*device::ACCESSORS) else {
            return;
        };
        if self.is_incomparable.load(Ordering::Relaxed) {
            self.events.store(0, Ordering::Relaxed);
            return;
        }
        let (Some(allocator), Some(moment)) = (self.allocator(), Moment::find()) else {
            return;
        };
        self.events.store(0, Ordering::Relaxed);
        // SAFETY: the allocator is that of an open device, and no hook that comes here runs
        // under its lock.
        let all =
            CLASSES.map(|class| unsafe { accessors.allocators().statistics(allocator, class) });
        if !moment.lasts() {
            // Somebody had no patience: what changed meanwhile may not be told yet.
            return;
        }
        let are_counted = buffers::FAMILY
            .need(&*buffer::ACCESSORS)
            .is_some_and(BufferAccessors::needs_creation);
        for (class, statistics) in CLASSES.into_iter().zip(&all) {
            if !self.is_comparable(class) {
                continue;
            }
            let told = self.told[class.index()].load(Ordering::Relaxed);
            if are_counted && told != statistics.allocated {
                let why = "the allocator holds other bytes than were told";
                buffers::give_up(&buffers::FAMILY, why);
                return;
            }
            FAMILY.contain(|| report::statistics(self.mesh, class, statistics));
        }
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

/// What is known of a device object; tells of it if it is new.
///
/// # Safety
/// `device` is null or a live `IDevice` that is initialised.
#[inline]
pub(crate) unsafe fn place_of(device: Object) -> Option<&'static Place> {
    if let Some(place) = known_place(device) {
        return Some(place);
    }
    // SAFETY: as the caller vouches.
    unsafe { tell_of(device) }
}

/// Tells of a device that is new.
///
/// # Safety
/// As of [`place_of`].
#[cold]
unsafe fn tell_of(device: Object) -> Option<&'static Place> {
    let accessors = FAMILY.need(&*device::ACCESSORS)?;
    let _telling = TELLING.lock()?;
    // SAFETY: as the caller vouches.
    unsafe { tell(accessors, device) }
}

/// What is known of a device object, which need not be alive: it is not looked at.
#[inline]
pub(crate) fn known_place(device: Object) -> Option<&'static Place> {
    let place = PLACES.get(device.addr())?;
    let place = std::ptr::with_exposed_provenance::<Place>(place);
    // SAFETY: only `keep` puts values there, each the address of a place that is never freed.
    unsafe { place.as_ref() }
}

fn keep(device: Object, place: Place) -> Option<&'static Place> {
    let place: &'static Place = Box::leak(Box::new(place));
    let value = (&raw const *place).expose_provenance();
    forks::watch();
    if place.allocator != 0 {
        PLACES.insert(place.allocator, value);
    }
    PLACES.insert(device.addr(), value).then_some(place)
}

/// Tells of a device that is new, under the lock.
///
/// # Safety
/// As of [`place_of`].
#[cold]
unsafe fn tell(accessors: &'static DeviceAccessors, device: Object) -> Option<&'static Place> {
    if let Some(place) = known_place(device) {
        return Some(place);
    }
    // SAFETY: as the caller vouches.
    match unsafe { accessors.kind(device) }? {
        // SAFETY: as above; it is a mesh.
        Kind::Mesh => unsafe { tell_mesh(accessors, device) },
        // SAFETY: as above; it is a chip.
        Kind::Chip => unsafe { tell_chip(accessors, device) },
    }
}

/// # Safety
/// `device` is a live `MeshDevice` that is initialised.
unsafe fn tell_mesh(accessors: &'static DeviceAccessors, device: Object) -> Option<&'static Place> {
    // SAFETY: as the caller vouches.
    let mesh = unsafe { accessors.read_mesh(device) }?;
    // SAFETY: it is the allocator of the live mesh; nothing that comes here holds its lock.
    let regions = unsafe { accessors.allocators().regions(mesh.allocator) };
    let mut devices = Vec::with_capacity(mesh.chips.len());
    for &chip in &mesh.chips {
        // SAFETY: the chips of an initialised mesh are initialised.
        let chip = unsafe { tell(accessors, chip) }?;
        devices.push(chip.device?);
    }
    let id = FAMILY.contain(|| {
        let id = report::mesh_opened(&mesh, devices);
        report::capacities(id, &regions);
        Some(id)
    })?;
    keep(
        device,
        Place {
            mesh: id,
            device: None,
            allocator: mesh.allocator.expose_provenance(),
            regions,
            capacities_told: AtomicBool::new(true),
            events: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            is_incomparable: AtomicBool::new(true),
            implementation: AtomicUsize::new(0),
            told: Default::default(),
            opened_behind: AtomicU64::new(0),
            has_per_core: AtomicBool::new(false),
            is_mirror: AtomicBool::new(false),
        },
    )
}

/// # Safety
/// `device` is a live `Device` that is initialised.
unsafe fn tell_chip(accessors: &'static DeviceAccessors, device: Object) -> Option<&'static Place> {
    // SAFETY: as the caller vouches.
    let chip = unsafe { accessors.read_chip(device) };
    let regions = if chip.allocator.is_null() {
        Regions::default()
    } else {
        // SAFETY: it is the allocator of the live chip; nothing that comes here holds its lock.
        unsafe { accessors.allocators().regions(chip.allocator) }
    };
    let reserved = regions[Class::L1.index()].base;
    let identity = u32::try_from(chip.id)
        .map(identities::of)
        .unwrap_or_default();
    let ids = FAMILY.contain(|| Some(report::chip_opened(&chip, &identity, reserved)))?;
    keep(
        device,
        Place {
            mesh: ids.mesh,
            device: Some(ids.device),
            allocator: chip.allocator.expose_provenance(),
            regions,
            capacities_told: AtomicBool::new(false),
            events: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            is_incomparable: AtomicBool::new(true),
            implementation: AtomicUsize::new(0),
            told: Default::default(),
            opened_behind: AtomicU64::new(0),
            has_per_core: AtomicBool::new(false),
            is_mirror: AtomicBool::new(false),
        },
    )
}

/// The meshes of all places that are open.
pub(crate) fn open_meshes() -> BTreeSet<MeshId> {
    let places = PLACES
        .values()
        .map(std::ptr::with_exposed_provenance::<Place>);
    // SAFETY: only `keep` puts values there, each the address of a place that is never freed.
    let places = places.filter_map(|place| unsafe { place.as_ref() });
    places.map(|place| place.mesh).collect()
}

/// Forgets every place: in a child, they are its parent's.
pub(crate) fn forget() {
    PLACES.forget();
    TELLING.reset();
}

/// Tells that a device object is closed, if it was open.
pub(crate) fn close(device: Object) {
    let Some(place) = known_place(device) else {
        return;
    };
    let implementation = place.implementation.load(Ordering::Relaxed);
    for key in [device.addr(), place.allocator, implementation] {
        PLACES.remove(key);
    }
    BANK_SIZES.forget();
    FAMILY.contain(|| match place.device {
        Some(device) => report::chip_closed(device),
        None => report::mesh_closed(place.mesh),
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

    /// The place of a chip whose blocks are multiples of 32 bytes.
    fn chip() -> Place {
        let mut regions = Regions::default();
        regions[Class::Dram.index()].alignment = 32;
        Place {
            mesh: MeshId(1),
            device: Some(DeviceId(1)),
            allocator: 0,
            regions,
            capacities_told: AtomicBool::new(false),
            events: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            is_incomparable: AtomicBool::new(true),
            implementation: AtomicUsize::new(0),
            told: Default::default(),
            opened_behind: AtomicU64::new(0),
            has_per_core: AtomicBool::new(false),
            is_mirror: AtomicBool::new(false),
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
        chip.opened_behind.store(7, Ordering::Relaxed);
        assert_eq!([7, 8].map(|id| chip.is_from_before(id)), [true, false]);
    }

    #[test]
    fn l1_that_mirrors_that_of_a_mesh_is_not_compared() {
        let chip = chip();
        assert!(CLASSES.into_iter().all(|class| chip.is_comparable(class)));
        chip.note_mirrored();
        let compared = CLASSES
            .into_iter()
            .filter(|class| chip.is_comparable(*class));
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
