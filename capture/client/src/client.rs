//! What the threads of a process share with its pump.
//!
//! A client is made at the first tracker call and stays for as long as the
//! process lives; a child of a fork makes its own. Threads come here when they
//! need a ring, when theirs is full, or to define something; never for an
//! ordinary event.

use crate::clock::Instant;
use crate::config::Config;
use crate::own_account::Questions;
use crate::room::{self, NoRoom, Room};
use crate::tracker::Statistics;
use crate::{futex, host};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;
use ttmem_event::wire::DefinitionKind;
use ttmem_ring::dictionary::{Dictionary, DictionarySegment, SEGMENT_BYTES};
use ttmem_ring::flush::{Doorbell, Flush};
use ttmem_ring::heap::footprint;
use ttmem_ring::memory::CreateMemoryError;
use ttmem_ring::page::Page;
use ttmem_ring::registry::{Growing, Registry};
use ttmem_ring::ring::{Producer, Ring};
use ttmem_ring::segment::{RingSegment, Shape};

/// What every tracker call looks at.
pub(crate) static PAGE: Page<Client> = Page::undecided();

/// How long a thread waits for another that adds rings, which takes that one far less than this.
const GROWING: Duration = Duration::from_secs(1);

/// Events of a ring in the tightest surroundings; with fewer, tracking is off.
const FEWEST_EVENTS: usize = 256;

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateClientError {
    #[error(transparent)]
    Memory(#[from] CreateMemoryError),
    #[error("there is no room for its memory: {0}")]
    NoRoom(#[from] NoRoom),
}

/// The shared state of one process's tracking.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) generation: u32,
    pub(crate) config: Config,
    /// Random; distinguishes instances of one pid.
    pub(crate) instance: [u8; 16],
    rings: Registry<RingSegment>,
    /// Events of a ring of the first segment.
    ring_events: usize,
    pub(crate) room: Room,
    /// Why a thread was not given a ring, the first time.
    refusal: OnceLock<NoRoom>,
    pub(crate) dictionary: Dictionary,
    pub(crate) doorbell: Doorbell,
    pub(crate) flush: Flush,
    /// What threads ask the process's own account.
    pub(crate) questions: Questions,
    pub(crate) figures: Figures,
    pub(crate) connection: Connection,
}

/// The pump's connection, for a thread that finds that no memory is left: the pump may be stopped in
/// the middle of anything, and a server must not take its silence for nothing new.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// The descriptor, and what it is; nothing if that is 0.
    number: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl Connection {
    pub(crate) fn set(&self, (number, device, inode): (i32, u64, u64)) {
        self.inode.store(0, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        self.device.store(device, Ordering::Relaxed);
        self.inode.store(inode, Ordering::Relaxed);
    }

    pub(crate) fn hang_up(&self) {
        let number = self.number.load(Ordering::Relaxed);
        let identity = (
            self.device.load(Ordering::Relaxed),
            self.inode.load(Ordering::Relaxed),
        );
        if identity.1 == 0 {
            return;
        }
        // SAFETY: not closed here; whatever has the number now is looked at first.
        #[expect(unsafe_code, reason = "a number that another thread's descriptor has")]
        let descriptor = unsafe { rustix::fd::BorrowedFd::borrow_raw(number) };
        let is_ours =
            rustix::fs::fstat(descriptor).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == identity);
        if is_ours {
            // One that is gone already is as good.
            let _gone = rustix::net::shutdown(descriptor, rustix::net::Shutdown::Both);
        }
    }
}

/// What the pump reports about itself.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) lost_events: AtomicU64,
    pub(crate) elided_events: AtomicU64,
    pub(crate) connected: AtomicBool,
    pub(crate) resyncs: AtomicU64,
    /// CPU time of the pump's thread, as of its last turn that did something.
    pub(crate) pump_cpu_nanos: AtomicU64,
}

impl Client {
    /// Makes the memory of a client.
    pub(crate) fn create(generation: u32, config: Config) -> Result<Self, CreateClientError> {
        let room = Room::new(config.ring_memory_bytes);
        let first = first_shape(config.ring_events, &room)?;
        let client = Self {
            generation,
            instance: random_instance(),
            rings: Registry::default(),
            ring_events: first.slots_per_ring,
            room,
            refusal: OnceLock::new(),
            dictionary: Dictionary::new(dictionary_segment),
            doorbell: Doorbell::default(),
            flush: Flush::default(),
            questions: Questions::default(),
            figures: Figures::default(),
            connection: Connection::default(),
            config,
        };
        let segment = RingSegment::create(first)?;
        if let Some(growing) = client.rings.begin_growing() {
            growing.add(Box::leak(Box::new(segment)));
        }
        Ok(client)
    }

    /// The segments of rings there are.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &'static RingSegment> + '_ {
        self.rings.segments()
    }

    /// A ring for a thread; `None` when it has to do without.
    ///
    /// The thread itself allocates the ring or adds a segment: nobody else needs to be awake. It
    /// waits only while another thread adds one, and no longer than this.
    pub(crate) fn claim_ring(&self, longest: Duration) -> Option<Producer<'static>> {
        let claimed = self.try_claim_ring(Deadline::after(longest));
        claimed.map_err(|why| self.refusal.get_or_init(|| why)).ok()
    }

    /// How long a thread may wait for its first ring.
    pub(crate) fn first_ring_wait(&self) -> Duration {
        self.config.full_ring_wait.min(GROWING)
    }

    fn try_claim_ring(&self, deadline: Deadline) -> Result<Producer<'static>, NoRoom> {
        loop {
            let attempts = self.rings.attempts();
            if let Some(producer) = self.find_ring()? {
                return Ok(producer);
            }
            if let Some(growing) = self.rings.begin_growing() {
                let grown = self.grow(&growing);
                drop(growing);
                futex::wake_all(self.rings.attempts_word());
                grown?;
                continue;
            }
            let left = deadline.left();
            if left.is_zero() {
                return Err(NoRoom::Stuck);
            }
            futex::wait(self.rings.attempts_word(), attempts, left);
        }
    }

    /// A ring that nobody owns, if there is one; one that has memory before one that has none.
    fn find_ring(&self) -> Result<Option<Producer<'static>>, NoRoom> {
        if let Some(producer) = self.segments().find_map(RingSegment::claim) {
            return Ok(Some(producer));
        }
        let Some(empty) = self.segments().find_map(RingSegment::claim_empty) else {
            return Ok(None);
        };
        let bytes = empty.bytes();
        self.room.take(bytes)?;
        let allocated = empty.allocate().map_err(|_error| {
            self.room.give_back(bytes);
            NoRoom::System
        });
        allocated.map(Some)
    }

    /// Adds a segment, unless another thread has just done so.
    fn grow(&self, growing: &Growing<'_, RingSegment>) -> Result<(), NoRoom> {
        let is_left = |segment: &RingSegment| segment.rings().any(|ring| !ring.is_taken());
        if self.segments().any(is_left) {
            return Ok(());
        }
        let number = growing.next_number();
        let shape = Shape::of(number, self.ring_events).ok_or(NoRoom::Rings)?;
        let bytes = shape.allocated_bytes();
        self.room.take(bytes)?;
        match RingSegment::create(shape) {
            Ok(segment) => {
                growing.add(Box::leak(Box::new(segment)));
                Ok(())
            }
            Err(_no_memory) => {
                self.room.give_back(bytes);
                Err(NoRoom::System)
            }
        }
    }

    /// Why a thread is without a ring, if one ever was.
    pub(crate) fn refusal(&self) -> Option<NoRoom> {
        self.refusal.get().copied()
    }

    /// The id of a definition; 0 when there is no room for it.
    ///
    /// A text that is missing is a name that is missing. Cores, a device or a mesh that are missing
    /// make totals wrong, and that is said.
    pub(crate) fn define(&self, kind: DefinitionKind, body: &[u8]) -> u32 {
        let id = self.dictionary.id(kind, body);
        if id == 0 && kind != DefinitionKind::Text {
            self.count_lost_without_ring();
        }
        if PAGE.must_wake_pump() {
            self.wake_pump();
        }
        id
    }

    /// Wakes a pump that sleeps until somebody does.
    #[cold]
    pub(crate) fn wake_pump(&self) {
        if PAGE.take_sleeper() {
            self.ring_doorbell();
        }
    }

    /// Counts an event of a thread that has no ring.
    pub(crate) fn count_lost_without_ring(&self) {
        if let Some(ring) = self.segments().flat_map(RingSegment::rings).next() {
            ring.count_lost();
        }
    }

    pub(crate) fn ring_doorbell(&self) {
        self.doorbell.ring();
        futex::wake_all(self.doorbell.word());
    }

    /// Waits until the pump has made room in a thread's ring; false when it took too long.
    pub(crate) fn wait_for_room(&self, producer: &Producer<'static>, ring: &Ring<'static>) -> bool {
        let deadline = Deadline::after(self.config.full_ring_wait);
        loop {
            if !producer.announce_waiting() {
                return true;
            }
            self.ring_doorbell();
            let left = deadline.left();
            if left.is_zero() || PAGE.word() != self.generation {
                return false;
            }
            futex::wait(ring.waiting(), 1, left);
        }
    }

    /// What is known of this client.
    pub(crate) fn statistics(&self) -> Statistics {
        let figures = &self.figures;
        Statistics {
            lost_events: figures.lost_events.load(Ordering::Relaxed),
            elided_events: figures.elided_events.load(Ordering::Relaxed),
            connected: figures.connected.load(Ordering::Relaxed),
            resyncs: figures.resyncs.load(Ordering::Relaxed),
            pump_cpu_nanos: figures.pump_cpu_nanos.load(Ordering::Relaxed),
            rings: self.ring_count(),
        }
    }

    /// Lets go of every thread that waits for the pump, which has ended or will not go on.
    ///
    /// Also where memory has run out: it takes none.
    pub(crate) fn abandon(&self) {
        self.flush.abandon();
        futex::wake_all(self.flush.progress_word());
        for ring in self.segments().flat_map(RingSegment::rings) {
            futex::wake_all(ring.waiting());
        }
    }

    /// Asks the pump to flush and waits for it; false when it took too long.
    pub(crate) fn wait_for_flush(&self, timeout: Duration) -> bool {
        self.wait_for(self.flush.request(), false, timeout)
    }

    /// Has the pump flush, say goodbye and end; false when it took too long.
    pub(crate) fn wait_for_close(&self, timeout: Duration) -> bool {
        self.wait_for(self.flush.request_close(), true, timeout)
    }

    /// Waits for the flush of this number, and for the pump's end if that was asked for.
    fn wait_for(&self, number: u32, closing: bool, timeout: Duration) -> bool {
        let deadline = Deadline::after(timeout);
        self.ring_doorbell();
        loop {
            let progress = self.flush.progress();
            let is_done = progress.has_done(number);
            if progress.has_ended() || (is_done && !closing) {
                return is_done;
            }
            let left = deadline.left();
            if left.is_zero() {
                return false;
            }
            futex::wait(self.flush.progress_word(), progress.word(), left);
        }
    }

    /// Marks the first segment: the process exits in order.
    pub(crate) fn mark_leaving(&self) {
        if let Some(segment) = self.segments().next() {
            segment.mark_leaving();
        }
    }

    /// How many rings there are.
    pub(crate) fn ring_count(&self) -> usize {
        self.segments().map(|segment| segment.shape().rings).sum()
    }
}

/// The first segment, with shorter rings where there is little room.
fn first_shape(ring_events: usize, room: &Room) -> Result<Shape, NoRoom> {
    let mut events = ring_events;
    loop {
        let shape = Shape::of(0, events).ok_or(NoRoom::Rings)?;
        let bytes = shape.allocated_bytes();
        // The account needs its part as well, and the dictionary.
        let is_within = footprint::allows(2 * bytes + SEGMENT_BYTES);
        let taken = is_within.then(|| room.take(bytes));
        match taken.unwrap_or(Err(NoRoom::Limits)) {
            Ok(()) => return Ok(shape),
            Err(no_room) if shape.slots_per_ring <= FEWEST_EVENTS => return Err(no_room),
            Err(_less) => events = shape.slots_per_ring / 2,
        }
    }
}

/// A segment of the dictionary, if there is room for it.
fn dictionary_segment() -> Option<&'static DictionarySegment> {
    room::allows(SEGMENT_BYTES)
        .then(DictionarySegment::create)
        .flatten()
}

/// Until when to wait; a time beyond all clocks is for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    pub(crate) fn left(&self) -> Duration {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        self.0.map_or(Duration::from_secs(3600), left)
    }
}

/// Sixteen bytes that no other instance has.
fn random_instance() -> [u8; 16] {
    let mut instance = [0; 16];
    let got = rustix::rand::getrandom(&mut instance, rustix::rand::GetRandomFlags::NONBLOCK);
    if got != Ok(instance.len()) {
        // Before the system has entropy: pid and time are as good as anything.
        instance[..4].copy_from_slice(&host::own_pid().to_le_bytes());
        instance[4..12].copy_from_slice(&crate::clock::ticks().to_le_bytes());
    }
    instance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::MARGIN_BYTES;

    /// Slots of the first rings, where so much is left.
    fn first_slots(budget: u64, available: fn() -> Option<u64>) -> Result<usize, NoRoom> {
        let shape = first_shape(8192, &Room::within(budget, available));
        shape.map(|shape| shape.slots_per_ring)
    }

    #[test]
    fn where_there_is_little_room_rings_are_shorter_and_at_last_there_are_none() {
        const MIB: u64 = 1 << 20;
        assert_eq!(first_slots(512 * MIB, || None), Ok(8192));
        assert_eq!(first_slots(4 * MIB, || None), Ok(4096), "and a header");
        assert_eq!(first_slots(MIB, || None), Ok(1024));
        assert_eq!(first_slots(1000, || None), Err(NoRoom::Budget(1000)));
        let tight = || Some(MARGIN_BYTES + MIB);
        assert_eq!(first_slots(512 * MIB, tight), Ok(1024));
        let tighter = || Some(MARGIN_BYTES + (136 << 10));
        assert_eq!(first_slots(512 * MIB, tighter), Ok(256));
        let too_tight = || Some(MARGIN_BYTES + (100 << 10));
        let refused = Err(NoRoom::ControlGroup(MARGIN_BYTES + (100 << 10)));
        assert_eq!(first_slots(512 * MIB, too_tight), refused);
    }
}
