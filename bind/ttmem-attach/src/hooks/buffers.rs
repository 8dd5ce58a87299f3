//! Buffers: placed and given back.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{OnException, creating, failures, interpose, traces};
use crate::family::{Doubt, Family};
use crate::runtime::buffer::{self, Buffer, BufferAccessors};
use crate::runtime::creation::{self, Creation};
use crate::runtime::per_core::Part;
use crate::runtime::{Object, TwoWords};
use crate::thread::Block;
use crate::{places, quiet, report, thread};
use std::sync::atomic::{AtomicU64, Ordering};
use ttmem_event::{Class, Direction};

pub(crate) static FAMILY: Family = Family::new("buffers");

/// The newest buffer that was told of.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// Buffers up to this one were this process's parent's when it forked.
static INHERITED: AtomicU64 = AtomicU64::new(0);

/// In a child, all buffers so far are its parent's: giving them back changes nothing there.
pub(crate) fn forget() {
    INHERITED.store(newest(), Ordering::Relaxed);
    creation::forget();
}

/// Notes the newest buffer that was told of.
///
/// Not in one step, which would cost more than all the rest: of two threads at once, the
/// older may be noted. What a child then tells of the other one counts there as inherited.
#[inline]
fn note_newest(id: u64) {
    if id > NEWEST.load(Ordering::Relaxed) {
        NEWEST.store(id, Ordering::Relaxed);
    }
}

/// The newest buffer that was told of.
pub(crate) fn newest() -> u64 {
    NEWEST.load(Ordering::Relaxed)
}

/// Turns a family off; if that is this one, what was told of buffers is taken back, and the
/// process counts as incomplete: nobody would tell of their end.
#[cold]
pub(crate) fn give_up(family: &Family, why: &str) {
    let was_on = family.is_on();
    family.turn_off(why);
    if was_on && std::ptr::eq(family, &raw const FAMILY) {
        family.contain(|| {
            for mesh in places::open_meshes() {
                report::buffers_released(mesh);
            }
            report::events_lost();
        });
    }
}

/// What was read of a buffer; a family whose buffers are not as expected is turned off.
#[inline]
pub(super) fn believe<T>(read: Result<Option<T>, Doubt>, family: &Family) -> Option<T> {
    read.unwrap_or_else(|doubt| {
        give_up(family, &doubt.to_string());
        None
    })
}

/// Tells that a buffer was placed.
///
/// # Safety
/// `buffer` is a live `Buffer`, and the allocator's lock is not held.
unsafe fn tell_allocated(buffer: Object) -> Option<&'static places::Place> {
    let accessors = FAMILY.need(&*buffer::ACCESSORS)?;
    let direction = thread::with(Block::take_newest_direction);
    // SAFETY: as the caller vouches.
    let address = unsafe { accessors.address(buffer) }?;
    // SAFETY: as above; it was placed just now.
    let mut facts = believe(unsafe { accessors.read(buffer) }, &FAMILY)?;
    // SAFETY: as above.
    let place = unsafe { places::place_of(facts.device) }?;
    if facts.class == Class::Trace {
        traces::count_trace_buffer(facts.size_bytes);
    }
    facts.per_bank_bytes = place.block_bytes(facts.per_bank_bytes);
    place.tell_before_use();
    if facts.may_be_per_core() {
        // SAFETY: as above.
        let parts = believe(unsafe { BufferAccessors::parts(buffer) }, &FAMILY);
        if let Some(parts) = parts {
            // SAFETY: as above.
            unsafe { tell_parts(accessors, buffer, &facts, &parts, direction, place) };
            return Some(place);
        }
        // One whose cores were not believed is not told: that of all banks would be wrong.
        if !FAMILY.is_on() {
            return None;
        }
    }
    // SAFETY: as above.
    let unique_id = unsafe { accessors.begin(buffer, &facts) };
    if accessors.needs_creation() {
        place.count_told(facts.class, facts.per_bank_bytes);
    }
    let banks = place.banks(facts.class);
    note_newest(report::buffer_id(unique_id).0);
    let operation = creating::operation();
    FAMILY.contain(|| {
        let mesh = place.mesh;
        report::buffer_allocated(
            mesh, unique_id, &facts, address, banks, direction, operation,
        );
        report::stacks::of_buffer(mesh, unique_id, facts.per_bank_bytes, banks);
    });
    Some(place)
}

/// Tells that a buffer was placed on some cores, which need not have the same address.
///
/// # Safety
/// As of [`tell_allocated`].
#[cold]
unsafe fn tell_parts(
    accessors: &BufferAccessors,
    buffer: Object,
    facts: &Buffer,
    parts: &[Part],
    direction: Option<Direction>,
    place: &places::Place,
) {
    // SAFETY: as the caller vouches.
    let unique_id = unsafe { accessors.begin(buffer, facts) };
    place.note_per_core();
    note_newest(report::buffer_id(unique_id).0);
    let operation = creating::operation();
    FAMILY.contain(|| {
        report::parts_allocated(place.mesh, unique_id, facts, parts, direction, operation);
    });
}

/// Tells that a buffer is given back.
///
/// # Safety
/// `buffer` is a live `Buffer`.
unsafe fn tell_freed(buffer: Object) -> Option<()> {
    let accessors = FAMILY.need(&*buffer::ACCESSORS)?;
    // SAFETY: as the caller vouches.
    unsafe { accessors.address(buffer) }?;
    // SAFETY: as above.
    let ended = unsafe { accessors.end(buffer) }?;
    let unique_id = ended.number;
    if report::buffer_id(unique_id).0 <= INHERITED.load(Ordering::Relaxed) {
        return None;
    }
    // What was told of is on a device that is known; any other may be gone.
    let place = places::known_place(ended.device)?;
    if place.is_from_before(report::buffer_id(unique_id).0) {
        return None;
    }
    let parts = if place.has_per_core() {
        // SAFETY: as above; its blocks are given back after this.
        believe(unsafe { BufferAccessors::parts(buffer) }, &FAMILY)
    } else {
        None
    };
    quiet::begin();
    if let Some(parts) = parts {
        FAMILY.contain(|| report::parts_freed(place.mesh, unique_id, parts.len()));
        return Some(());
    }
    if let Some((class, per_bank_bytes)) = ended.counted {
        place.count_freed(class, per_bank_bytes);
    }
    FAMILY.contain(|| report::buffer_freed(place.mesh, unique_id));
    Some(())
}

interpose! {
    /// `void GraphTracker::track_allocate(Buffer const*)`: the buffer has its address.
    "_ZN2tt8tt_metal12GraphTracker14track_allocateEPKNS0_6BufferE"
    fn track_allocate(tracker: Object, buffer: Object) |real| {
        let on = FAMILY.is_on() && report::is_on();
        // SAFETY: the runtime passes a live buffer and does not hold the lock.
        let place = if on { unsafe { tell_allocated(buffer) } } else { None };
        quiet::end();
        if let Some(place) = place {
            place.count_event();
        }
        // SAFETY: the caller's own arguments.
        unsafe { real(tracker, buffer) }
    }
}

interpose! {
    /// `void AllocatorImpl::deallocate_buffer(Buffer*)`: gives the block back.
    ///
    /// Not `track_deallocate`, which comes before: in a capture without dispatch that is called
    /// as well, for buffers that keep their blocks.
    "_ZN2tt8tt_metal13AllocatorImpl17deallocate_bufferEPNS0_6BufferE"
    fn deallocate_buffer(allocator: Object, buffer: Object) |real| {
        if FAMILY.is_on() && report::is_on() {
            // Before it is done, so that nobody gets the block before it is told to be free.
            // SAFETY: the runtime passes a live buffer.
            unsafe { tell_freed(buffer) };
        }
        let failed = OnException::new(quiet::end);
        // SAFETY: the caller's own arguments.
        unsafe { real(allocator, buffer) };
        failed.disarm();
        quiet::end();
    }
}

/// Notes from which end of its bank a block was taken.
fn note_direction(bottom_up: u64) {
    // A flag leaves the upper bits of its register undefined.
    let direction = if bottom_up & 0xff == 0 {
        Direction::TopDown
    } else {
        Direction::BottomUp
    };
    thread::with(|block| block.set_newest_direction(direction));
}

interpose! {
    /// `u64 BankManager::allocate_buffer(u64, u64, bool bottom_up, …)`, from 0.79 on.
    "_ZN2tt8tt_metal11BankManager15allocate_bufferEmmbRKNS0_12CoreRangeSetESt8optionalIjEN4ttsl10StrongTypeIjNS0_14AllocatorIDTagEEERKSt6vectorISt4pairImmESaISD_EERKS5_ISt13unordered_setIjSt4hashIjESt8equal_toIjESaIjEEE"
    fn allocate_in_banks(
        manager: Object, size: u64, page: u64, bottom_up: u64, cores: u64, shards: u64,
        allocator: u64, reserved: u64, excluded: u64
    ) -> u64 |real| {
        let refused = OnException::new(|| failures::note_refused(size, page, shards));
        // SAFETY: the caller's own arguments.
        let address = unsafe {
            real(manager, size, page, bottom_up, cores, shards, allocator, reserved, excluded)
        };
        refused.disarm();
        note_direction(bottom_up);
        address
    }
}

interpose! {
    /// `u64 BankManager::allocate_buffer(u64, u64, bool bottom_up, …)` of 0.69 - 0.78.
    "_ZN2tt8tt_metal11BankManager15allocate_bufferEmmbRKNS0_12CoreRangeSetESt8optionalIjEN4ttsl10StrongTypeIjNS0_14AllocatorIDTagEEERKSt6vectorISt4pairImmESaISD_EE"
    fn allocate_in_banks_beside_reserved(
        manager: Object, size: u64, page: u64, bottom_up: u64, cores: u64, shards: u64,
        allocator: u64, reserved: u64
    ) -> u64 |real| {
        let refused = OnException::new(|| failures::note_refused(size, page, shards));
        // SAFETY: the caller's own arguments.
        let address = unsafe {
            real(manager, size, page, bottom_up, cores, shards, allocator, reserved)
        };
        refused.disarm();
        note_direction(bottom_up);
        address
    }
}

interpose! {
    /// `u64 BankManager::allocate_buffer(u64, u64, bool bottom_up, …)` of 0.64 - 0.68.
    "_ZN2tt8tt_metal11BankManager15allocate_bufferEmmbRKNS0_12CoreRangeSetESt8optionalIjEN4ttsl10StrongTypeIjNS0_14AllocatorIDTagEEE"
    fn allocate_in_banks_of_allocator(
        manager: Object, size: u64, page: u64, bottom_up: u64, cores: u64, shards: u64,
        allocator: u64
    ) -> u64 |real| {
        let refused = OnException::new(|| failures::note_refused(size, page, shards));
        // SAFETY: the caller's own arguments.
        let address = unsafe { real(manager, size, page, bottom_up, cores, shards, allocator) };
        refused.disarm();
        note_direction(bottom_up);
        address
    }
}

interpose! {
    /// `shared_ptr<Buffer> Buffer::create(IDevice*, u64, u64, BufferType, …)`: places it, too.
    ///
    /// The result comes through a hidden first argument. Whatever it is, it passes through.
    "_ZN2tt8tt_metal6Buffer6createEPNS0_7IDeviceEmmNS0_10BufferTypeERKNS0_18BufferShardingArgsESt8optionalIbES8_IN4ttsl10StrongTypeIhNS0_14SubDeviceIdTagEEEE"
    fn create_buffer(
        result: u64, device: Object, size_bytes: u64, page_bytes: u64, class: u64, sharding: u64,
        bottom_up: u64, sub_device: u64
    ) -> TwoWords |real| {
        let matters = FAMILY.is_on()
            && report::is_on()
            && FAMILY.need(&*buffer::ACCESSORS).is_some_and(BufferAccessors::needs_creation);
        if !matters {
            // SAFETY: the caller's own arguments.
            return unsafe {
                real(result, device, size_bytes, page_bytes, class, sharding, bottom_up, sub_device)
            };
        }
        // A 32-bit word leaves the upper half of its register undefined.
        let class = class & u64::from(u32::MAX);
        let creation = Creation {
            device,
            size_bytes,
            page_bytes,
            class: u32::try_from(class).unwrap_or(u32::MAX),
        };
        let outer = creation::replace(Some(creation));
        let failed = OnException::new(|| {
            creation::replace(outer);
        });
        // SAFETY: the caller's own arguments.
        let created = unsafe {
            real(result, device, size_bytes, page_bytes, class, sharding, bottom_up, sub_device)
        };
        failed.disarm();
        creation::replace(outer);
        created
    }
}
