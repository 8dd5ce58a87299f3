//! Allocations that were refused, seen as the exception passes.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::{buffers, creating, interpose, on_exception};
use crate::call_context::{self, Slot};
use crate::family::Family;
use crate::runtime::{Object, buffer, device};
use crate::{open_devices, python, quiescence, report};
use ttmem_event::{BufferId, EventKind, ProgramId};

pub(crate) static FAMILY: Family = Family::new("failures");

/// What was asked of the banks when they refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    size_bytes: u64,
    page_bytes: u64,
    /// The banks to place it on; none = all of them.
    shards: Option<u32>,
}

impl Refused {
    /// The banks that it was to be spread over: of all those that a class has, or one for each shard.
    fn banks(self, all: u16) -> u16 {
        let shards = self.shards.map(u16::try_from);
        shards.map_or(all, |shards| shards.unwrap_or(u16::MAX))
    }

    /// What each of these banks should have given, as the allocator works it out: whole pages, each of
    /// them aligned. None without banks.
    fn per_bank_bytes(self, banks: u16, alignment: u32) -> Option<u64> {
        let banks = u64::from(banks);
        let pages = self.size_bytes.checked_div(self.page_bytes).unwrap_or(0);
        let pages_per_bank = pages.checked_next_multiple_of(banks)?.checked_div(banks)?;
        let page_bytes = self.page_bytes;
        let page_bytes = page_bytes.checked_next_multiple_of(u64::from(alignment.max(1)))?;
        pages_per_bank.checked_mul(page_bytes)
    }
}

thread_local! {
    /// What this thread's banks have just refused.
    static REFUSED: Slot<Refused> = const { Slot::new() };
}

/// Notes what banks were asked for, as an exception leaves them.
///
/// All of it are arguments: of a buffer that has no place nothing may be asked that the runtime has
/// not worked out before.
#[cold]
pub(super) fn note_refused(size_bytes: u64, page_bytes: u64, shards: u64) {
    if !FAMILY.is_tracking() {
        return;
    }
    let refused = Refused {
        size_bytes,
        page_bytes,
        shards: optional_word(shards),
    };
    call_context::replace(&REFUSED, Some(refused));
}

/// `std::optional` of a 32-bit word in a register, of which a byte behind the word says whether
/// it is there.
fn optional_word(register: u64) -> Option<u32> {
    let is_there = (register >> 32) & 0xff != 0;
    let word = u32::try_from(register & u64::from(u32::MAX)).ok();
    word.filter(|_word| is_there)
}

/// Reports that a buffer could not be placed that this thread is creating, when the allocator's
/// lock is not held.
///
/// A request that does not get as far as the banks lacks something else than memory.
fn report_refused(buffer: Object) -> Option<()> {
    let refused = call_context::replace(&REFUSED, None)?;
    let accessors = FAMILY.need(&*buffer::ACCESSORS)?;
    let devices = FAMILY.need(&*device::ACCESSORS)?;
    let facts = buffers::ok_or_turn_off(accessors.read_request(buffer), &FAMILY)?;
    let device = open_devices::of(facts.device)?;
    let statistics = devices
        .allocators
        .statistics(device.allocator()?, facts.class);
    let mesh = device.mesh;
    let banks = refused.banks(device.banks(facts.class));
    let per_bank_bytes = refused.per_bank_bytes(banks, device.alignment(facts.class))?;
    FAMILY.contain(|| {
        let operation = python::origin(creating::current_operation());
        report::event(EventKind::AllocationFailed {
            mesh,
            class: facts.class,
            banks,
            requested_bytes: refused.size_bytes,
            per_bank_bytes,
            free_bytes: statistics.free,
            largest_free_bytes: statistics.largest_free,
            bank_bytes: statistics.total,
            operation,
            call_first: python::call_first(),
        });
        report::stack(mesh, BufferId(0), ProgramId(0));
    });
    Some(())
}

/// Notes that a buffer was placed by an allocator that is not its device's.
#[cold]
fn note_foreign(buffer: Object) -> Option<()> {
    let accessors = buffers::FAMILY.need(&*buffer::ACCESSORS)?;
    let device = accessors.device(buffer)?;
    // From now on the statistics say nothing about all buffers of the device.
    open_devices::at(device.address())?.is_comparable.set(false);
    Some(())
}

interpose! {
    /// `u64 AllocatorImpl::allocate_buffer(Buffer*)`: out of memory leaves it as an exception.
    "_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE"
    fn allocate_buffer(allocator: Object, buffer: Object) -> u64 |real| {
        // Changes are announced for the sake of buffers, whether or not failures are reported.
        if !buffers::FAMILY.is_tracking() {
            return real();
        }
        quiescence::begin();
        let address = on_exception(real, || {
            quiescence::end();
            if FAMILY.is_on() {
                // The exception has left the function, which gave back the lock; the caller's
                // buffer is alive until it has passed the caller.
                report_refused(buffer);
            }
        });
        if open_devices::at(allocator.address()).is_none() {
            note_foreign(buffer);
        }
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_bank_should_give_is_worked_out_of_what_was_asked() {
        let asked = Refused {
            size_bytes: 100 * 2048,
            page_bytes: 2048,
            shards: None,
        };
        assert_eq!(asked.banks(12), 12);
        assert_eq!(asked.per_bank_bytes(12, 32), Some(9 * 2048));
        let on_cores = Refused {
            shards: Some(4),
            ..asked
        };
        assert_eq!(on_cores.banks(12), 4);
        assert_eq!(on_cores.per_bank_bytes(4, 32), Some(25 * 2048));
    }

    #[test]
    fn pages_are_aligned() {
        let asked = Refused {
            size_bytes: 51 * 64 * 12,
            page_bytes: 12,
            shards: None,
        };
        assert_eq!(asked.per_bank_bytes(64, 16), Some(51 * 16));
        assert_eq!(asked.per_bank_bytes(64, 0), Some(51 * 12));
        let page_bytes = u64::MAX;
        assert_eq!(
            Refused {
                page_bytes,
                ..asked
            }
            .per_bank_bytes(64, 16),
            None
        );
    }

    #[test]
    fn without_banks_or_pages_nothing_is_divided() {
        let asked = Refused {
            size_bytes: 4096,
            page_bytes: 2048,
            shards: None,
        };
        assert_eq!(asked.per_bank_bytes(0, 32), None);
        let shards = Some(0);
        assert_eq!(Refused { shards, ..asked }.banks(64), 0);
        let page_bytes = 0;
        let without_pages = Refused {
            page_bytes,
            ..asked
        };
        assert_eq!(without_pages.per_bank_bytes(64, 32), Some(0));
        let size_bytes = 0;
        assert_eq!(
            Refused {
                size_bytes,
                ..asked
            }
            .per_bank_bytes(64, 32),
            Some(0)
        );
    }

    #[test]
    fn a_word_is_there_only_if_its_flag_says_so() {
        assert_eq!(optional_word(7), None);
        assert_eq!(optional_word(7 | 1 << 32), Some(7));
        // What is behind the flag is garbage.
        assert_eq!(optional_word(7 | 0xffff_fe00 << 32), None);
    }
}
