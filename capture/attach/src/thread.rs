//! What every thread keeps for the hooks: a few words, reached in two instructions.
//!
//! A hook looks at these words on every call. The usual way to a thread's variable from
//! inside of a library is a call into the loader, which costs more than the hook itself;
//! the fast way is open to libraries that are loaded when the program starts, as a
//! preloaded one is, but has no word in the language yet. So on x86-64 the block is defined
//! and found by the assembler; elsewhere it is a variable like any other.
//!
//! The block begins as zeroes, needs no end, and is there from the first instruction of a
//! thread to its last: also while the thread's other variables are being destroyed.

use crate::pending::First;
use std::cell::Cell;
use ttmem_event::{BinaryStatus, Direction, TextId};

/// The words of a thread; zeroes stand for "none" in each of them.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// What the thread is to the gate of `quiescence`; 0 = it has not joined.
    pub(crate) gate_member: Cell<usize>,
    /// The end of the bank from which its newest block was taken: 1 above, 2 below.
    newest_direction: Cell<u8>,
    /// The state that the runtime gave the binaries of what it sends: 1 above its code.
    binary_status: Cell<u8>,
    /// Whether it is sending: not all that is made ready is sent.
    pub(crate) is_sending: Cell<bool>,
    pub(crate) creating: Cell<TextId>,
    /// What its operation is about to send.
    pub(crate) pending: First,
    /// The room that a manager of config rings has found for it.
    reservation: Cell<Reservation>,
}

/// Room in config rings that was found and not taken yet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// The address of the manager; 0 = there is none.
    manager: usize,
    /// The address of what it found.
    pub(crate) found: usize,
    /// What was given back meanwhile; 0 = nothing.
    pub(crate) freed: u32,
}

/// The size that is written in the assembler's part.
const BLOCK_BYTES: usize = 128;
const _: () = assert!(size_of::<Block>() == BLOCK_BYTES);
const _: () = assert!(align_of::<Block>() <= 64);

impl Block {
    #[inline]
    pub(crate) fn set_newest_direction(&self, direction: Direction) {
        self.newest_direction.set(match direction {
            Direction::TopDown => 1,
            Direction::BottomUp => 2,
        });
    }

    /// The end of the bank from which the newest block was taken, once.
    #[inline]
    pub(crate) fn take_newest_direction(&self) -> Option<Direction> {
        match self.newest_direction.replace(0) {
            1 => Some(Direction::TopDown),
            2 => Some(Direction::BottomUp),
            _none => None,
        }
    }

    /// Notes that a manager has found room; the last time counts.
    #[inline]
    pub(crate) fn note_reservation(&self, manager: usize, found: usize) {
        let before = self.reservation.get();
        let freed = if before.manager == manager {
            before.freed
        } else {
            0
        };
        self.reservation.set(Reservation {
            manager,
            found,
            freed,
        });
    }

    /// Notes what a manager has given back; whether that is for room that it has found.
    #[inline]
    pub(crate) fn note_freed(&self, manager: usize, freed: u32) -> bool {
        let before = self.reservation.get();
        let is_for_room = before.manager == manager;
        if is_for_room {
            self.reservation.set(Reservation { freed, ..before });
        }
        is_for_room
    }

    /// The room that a manager has found, once.
    #[inline]
    pub(crate) fn take_reservation(&self, manager: usize) -> Option<Reservation> {
        let reservation = self.reservation.replace(Reservation::default());
        (reservation.manager == manager).then_some(reservation)
    }

    #[inline]
    pub(crate) fn set_binary_status(&self, status: Option<BinaryStatus>) {
        let code = status.map_or(0, |status| status.code().saturating_add(1));
        self.binary_status.set(code);
    }

    /// The state that binaries got last, once.
    #[inline]
    pub(crate) fn take_binary_status(&self) -> Option<BinaryStatus> {
        let code = self.binary_status.replace(0).checked_sub(1)?;
        BinaryStatus::from_code(code)
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod place {
    #![expect(
        unsafe_code,
        reason = "finds a thread's variable by the platform's rules"
    )]

    use super::{BLOCK_BYTES, Block};
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.ttmem_attach_block, \"awT\", @nobits",
        ".hidden ttmem_attach_block",
        ".globl ttmem_attach_block",
        ".type ttmem_attach_block, @object",
        ".size ttmem_attach_block, {size}",
        ".p2align 6",
        "ttmem_attach_block:",
        ".zero {size}",
        ".popsection",
        size = const BLOCK_BYTES,
    );

    #[inline(always)]
    pub(crate) fn with<R>(look: impl FnOnce(&Block) -> R) -> R {
        let block: *const Block;
        // SAFETY: the loader keeps the distance of the block from the thread's own pointer, which
        // every thread has at offset 0 of its segment, in the table of offsets; both are only read.
        unsafe {
            asm!(
                "mov {block}, qword ptr fs:[0]",
                "add {block}, qword ptr [rip + ttmem_attach_block@GOTTPOFF]",
                block = out(reg) block,
                options(pure, readonly, nostack),
            );
        }
        // SAFETY: the block is this thread's, as large and aligned as said above, begins as
        // zeroes, which is valid for it, and only this thread uses it, through cells.
        look(unsafe { &*block })
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod place {
    use super::Block;

    thread_local! {
        static BLOCK: Block = Block::default();
    }

    #[inline]
    pub(crate) fn with<R>(look: impl FnOnce(&Block) -> R) -> R {
        // It has no destructor, so it is always there.
        BLOCK.with(look)
    }
}

pub(crate) use place::with;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_a_block_of_its_own() {
        with(|block| block.set_newest_direction(Direction::TopDown));
        let other = std::thread::spawn(|| {
            let before = with(Block::take_newest_direction);
            with(|block| block.set_newest_direction(Direction::BottomUp));
            (before, with(Block::take_newest_direction))
        });
        let other = other.join().expect("it does not panic");
        assert_eq!(other, (None, Some(Direction::BottomUp)));
        assert_eq!(with(Block::take_newest_direction), Some(Direction::TopDown));
        assert_eq!(with(Block::take_newest_direction), None);
    }

    #[test]
    fn room_is_found_then_freed_then_taken_once() {
        with(|block| {
            assert!(!block.note_freed(0x1000, 3), "nobody found room");
            assert_eq!(block.take_reservation(0x1000), None);
            block.note_reservation(0x1000, 0x1100);
            assert!(!block.note_freed(0x2000, 3), "another did");
            assert!(block.note_freed(0x1000, 5));
            // The runtime looks again with other sizes before it decides.
            block.note_reservation(0x1000, 0x1100);
            let expected = Reservation {
                manager: 0x1000,
                found: 0x1100,
                freed: 5,
            };
            assert_eq!(block.take_reservation(0x1000), Some(expected));
            assert_eq!(block.take_reservation(0x1000), None);
            block.note_reservation(0x1000, 0x1100);
            assert_eq!(block.take_reservation(0x2000), None);
        });
    }

    #[test]
    fn a_state_of_binaries_is_taken_once() {
        for state in [BinaryStatus::NotSent, BinaryStatus::Committed] {
            with(|block| block.set_binary_status(Some(state)));
            assert_eq!(with(Block::take_binary_status), Some(state));
            assert_eq!(with(Block::take_binary_status), None);
        }
        with(|block| block.set_binary_status(Some(BinaryStatus::Committed)));
        with(|block| block.set_binary_status(None));
        assert_eq!(with(Block::take_binary_status), None);
    }
}
