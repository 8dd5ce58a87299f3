//! Buffers: placed and given back.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{OnExit, creating, failures, interpose, on_exception, traces};
use crate::call_context::during;
use crate::family::{Family, Unsupported};
use crate::hot::HOT;
use crate::open_devices::{self, OpenDevice};
use crate::runtime::buffer::{self, Buffer, BufferAccessors};
use crate::runtime::creation::{self, CREATING, Creation};
use crate::runtime::{Object, TwoWords, per_core};
use crate::thread::Block;
use crate::{python, quiescence, report, thread};
use std::sync::atomic::Ordering::Relaxed;
use ttmem_event::{Class, Direction, EventKind};

pub(crate) static FAMILY: Family = Family::new("buffers");

/// In a child, all buffers so far are its parent's: giving them back changes nothing there.
pub(crate) fn forget() {
    HOT.inherited_buffers.store(newest(), Relaxed);
    creation::BUFFERS.forget();
}

/// Notes the newest buffer that was reported.
///
/// Not in one step, which would cost more than all the rest: of two threads at once, the
/// older may be noted. What a child then reports of the other one counts there as inherited.
#[inline]
fn note_newest(id: u64) {
    if id > newest() {
        HOT.newest_buffer.store(id, Relaxed);
    }
}

#[inline]
pub(crate) fn newest() -> u64 {
    HOT.newest_buffer.load(Relaxed)
}

/// Turns a family off; if that is this one, what was reported of buffers is taken back, and the
/// process counts as incomplete: nobody would report their end.
#[cold]
pub(crate) fn give_up(family: &Family, why: &str) {
    let was_on = family.is_on();
    family.turn_off(why);
    if was_on && std::ptr::eq(family, &raw const FAMILY) {
        family.contain(|| {
            for mesh in open_devices::meshes() {
                report::event(EventKind::BuffersReleased { mesh, class: None });
            }
            report::event_lost();
        });
    }
}

/// What was read of a buffer; a family whose buffers are not as expected is given up.
///
/// Inlined for good: what is read is large, and would be copied.
#[inline(always)]
pub(super) fn ok_or_turn_off<T>(
    read: Result<Option<T>, Unsupported>,
    family: &Family,
) -> Option<T> {
    match read {
        Ok(read) => read,
        Err(reason) => {
            not_as_expected(family, &reason);
            None
        }
    }
}

#[cold]
#[inline(never)]
fn not_as_expected(family: &Family, reason: &Unsupported) {
    give_up(family, &reason.to_string());
}

/// Reports that a buffer was placed, when the allocator's lock is not held.
fn report_allocated(buffer: Object) -> Option<&'static OpenDevice> {
    let accessors = FAMILY.need(&*buffer::ACCESSORS)?;
    let direction = thread::with(Block::take_newest_direction);
    let address = accessors.address(buffer)?;
    let mut facts = ok_or_turn_off(accessors.read(buffer), &FAMILY)?;
    let device = open_devices::of(facts.device)?;
    if facts.class == Class::Trace {
        traces::count_trace_buffer(facts.size_bytes);
    }
    facts.per_bank_bytes = device.block_bytes(facts.per_bank_bytes);
    device.report_before_use();
    if facts.may_be_per_core() && report_parts(buffer, facts, direction, device)? {
        return Some(device);
    }
    let unique_id = match facts.number {
        Some(number) => number,
        None => begin(buffer, &facts, device),
    };
    let (mesh, banks) = (device.mesh, device.banks(facts.class));
    let id = report::buffer_id(unique_id).0;
    let operation = python::origin_of_buffer(creating::current_operation(), id);
    note_newest(id);
    FAMILY.contain(move || {
        report::buffer_allocated(
            mesh, unique_id, &facts, address, banks, direction, operation,
        );
    });
    Some(device)
}

/// A number for a buffer that has none of the runtime's, which is counted from now on.
#[cold]
fn begin(buffer: Object, facts: &Buffer, device: &OpenDevice) -> u64 {
    device.count_allocated(facts.class, facts.per_bank_bytes);
    creation::begin(buffer, facts)
}

/// Reports a buffer that takes blocks of its cores' own; whether it does.
#[cold]
fn report_parts(
    buffer: Object,
    facts: Buffer,
    direction: Option<Direction>,
    device: &OpenDevice,
) -> Option<bool> {
    let parts = ok_or_turn_off(per_core::parts(buffer), &FAMILY);
    // One whose cores were not believed is not reported: that of all banks would be wrong.
    let Some(parts) = parts else {
        return FAMILY.is_on().then_some(false);
    };
    // Such buffers are not counted.
    let number = facts.number;
    let unique_id = number.unwrap_or_else(|| creation::begin(buffer, &facts));
    device.has_per_core.set(true);
    let id = report::buffer_id(unique_id).0;
    let operation = python::origin_of_buffer(creating::current_operation(), id);
    note_newest(id);
    FAMILY.contain(|| {
        report::parts_allocated(device.mesh, unique_id, &facts, &parts, direction, operation);
    });
    Some(true)
}

#[cold]
fn parts_of(buffer: Object) -> Option<u32> {
    let parts = ok_or_turn_off(per_core::parts(buffer), &FAMILY)?;
    u32::try_from(parts.len()).ok()
}

fn report_freed(buffer: Object) -> Option<()> {
    let accessors = FAMILY.need(&*buffer::ACCESSORS)?;
    accessors.address(buffer)?;
    let ended = accessors.end(buffer)?;
    let id = report::buffer_id(ended.number).0;
    if id <= HOT.inherited_buffers.load(Relaxed) {
        return None;
    }
    // What was reported is on a device that is known; any other may be gone.
    let device = open_devices::at(ended.device)?;
    if device.is_from_before(id) {
        return None;
    }
    // Its blocks are given back after this.
    let parts = if device.has_per_core.get() {
        parts_of(buffer)
    } else {
        None
    };
    quiescence::begin();
    if let (Some((class, per_bank_bytes)), None) = (ended.counted, parts) {
        device.count_freed(class, per_bank_bytes);
    }
    let (mesh, number) = (device.mesh, ended.number);
    FAMILY.contain(move || report::buffer_freed(mesh, number, parts.unwrap_or(1)));
    Some(())
}

interpose! {
    /// `void GraphTracker::track_allocate(Buffer const*)`: the buffer has its address.
    "_ZN2tt8tt_metal12GraphTracker14track_allocateEPKNS0_6BufferE"
    fn track_allocate(tracker: Object, buffer: Object) |real| {
        let on = FAMILY.is_tracking();
        let device = if on { report_allocated(buffer) } else { None };
        quiescence::end();
        if let Some(device) = device {
            device.count_event();
        }
        real();
    }

    /// `void AllocatorImpl::deallocate_buffer(Buffer*)`: gives the block back.
    ///
    /// Not `track_deallocate`, which comes before: in a capture without dispatch that is called
    /// as well, for buffers that keep their blocks.
    "_ZN2tt8tt_metal13AllocatorImpl17deallocate_bufferEPNS0_6BufferE"
    fn deallocate_buffer(allocator: Object, buffer: Object) |real| {
        if FAMILY.is_tracking() {
            // Before it is done, so that nobody gets the block before it is reported to be free.
            report_freed(buffer);
        }
        let _ended = OnExit(quiescence::end);
        real();
    }
}

/// Has banks allocate; notes from which end the block was taken, or what was refused.
#[inline(always)]
fn allocate(real: impl FnOnce() -> u64, size: u64, page: u64, bottom_up: u64, shards: u64) -> u64 {
    let address = on_exception(real, || failures::note_refused(size, page, shards));
    // A flag leaves the upper bits of its register undefined.
    let direction = if bottom_up & 0xff == 0 {
        Direction::TopDown
    } else {
        Direction::BottomUp
    };
    thread::with(|block| block.set_newest_direction(direction));
    address
}

interpose! {
    /// `u64 BankManager::allocate_buffer(u64, u64, bool bottom_up, …)`, from 0.79 on.
    "_ZN2tt8tt_metal11BankManager15allocate_bufferEmmbRKNS0_12CoreRangeSetESt8optionalIjEN4ttsl10StrongTypeIjNS0_14AllocatorIDTagEEERKSt6vectorISt4pairImmESaISD_EERKS5_ISt13unordered_setIjSt4hashIjESt8equal_toIjESaIjEEE"
    fn allocate_in_banks(
        manager: Object, size: u64, page: u64, bottom_up: u64, cores: u64, shards: u64,
        allocator: u64, reserved: u64, excluded: u64
    ) -> u64 |real| {
        allocate(real, size, page, bottom_up, shards)
    }

    /// `u64 BankManager::allocate_buffer(u64, u64, bool bottom_up, …)` of 0.69 - 0.78.
    "_ZN2tt8tt_metal11BankManager15allocate_bufferEmmbRKNS0_12CoreRangeSetESt8optionalIjEN4ttsl10StrongTypeIjNS0_14AllocatorIDTagEEERKSt6vectorISt4pairImmESaISD_EE"
    fn allocate_in_banks_beside_reserved(
        manager: Object, size: u64, page: u64, bottom_up: u64, cores: u64, shards: u64,
        allocator: u64, reserved: u64
    ) -> u64 |real| {
        allocate(real, size, page, bottom_up, shards)
    }

    /// `u64 BankManager::allocate_buffer(u64, u64, bool bottom_up, …)` of 0.64 - 0.68.
    "_ZN2tt8tt_metal11BankManager15allocate_bufferEmmbRKNS0_12CoreRangeSetESt8optionalIjEN4ttsl10StrongTypeIjNS0_14AllocatorIDTagEEE"
    fn allocate_in_banks_of_allocator(
        manager: Object, size: u64, page: u64, bottom_up: u64, cores: u64, shards: u64,
        allocator: u64
    ) -> u64 |real| {
        allocate(real, size, page, bottom_up, shards)
    }

    /// `shared_ptr<Buffer> Buffer::create(IDevice*, u64, u64, BufferType, …)`: places it, too.
    ///
    /// The result comes through a hidden first argument. Whatever it is, it passes through.
    "_ZN2tt8tt_metal6Buffer6createEPNS0_7IDeviceEmmNS0_10BufferTypeERKNS0_18BufferShardingArgsESt8optionalIbES8_IN4ttsl10StrongTypeIhNS0_14SubDeviceIdTagEEEE"
    fn create_buffer(
        result: u64, device: Object, size_bytes: u64, page_bytes: u64, class: u64, sharding: u64,
        bottom_up: u64, sub_device: u64
    ) -> TwoWords |real| {
        let matters = FAMILY.is_tracking()
            && FAMILY.need(&*buffer::ACCESSORS).is_some_and(BufferAccessors::needs_creation);
        if !matters {
            return real();
        }
        // A 32-bit word leaves the upper half of its register undefined.
        let class = u32::try_from(class & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        let creation = Creation { device, size_bytes, page_bytes, class };
        during(&CREATING, creation, real).0
    }
}
