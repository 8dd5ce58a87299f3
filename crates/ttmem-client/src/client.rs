//! What the threads of a process share with its pump.
//!
//! A client is made at the first tracker call and stays for as long as the
//! process lives; a child of a fork makes its own. Threads come here when they
//! need a ring, when theirs is full, or to define something; never for an
//! ordinary event.

use crate::config::Config;
use crate::futex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use ttmem_event::wire::DefinitionKind;
use ttmem_ring::dictionary::{Dictionary, DictionarySegment};
use ttmem_ring::flush::{Doorbell, Flush};
use ttmem_ring::memory::CreateMemoryError;
use ttmem_ring::page::Page;
use ttmem_ring::published::Published;
use ttmem_ring::ring::{Producer, Ring};
use ttmem_ring::segment::RingSegment;
use ttmem_ring::{MAX_RING_SEGMENTS, RINGS_PER_SEGMENT};

/// What every tracker call looks at.
pub(crate) static PAGE: Page<Client> = Page::undecided();

/// How long to do without more rings after there was no memory for them.
const RETRY_GROWING: Duration = Duration::from_secs(1);

/// The shared state of one process's tracking.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) generation: u32,
    pub(crate) config: Config,
    /// Random; distinguishes instances of one pid.
    pub(crate) instance: [u8; 16],
    segments: [Published<RingSegment>; MAX_RING_SEGMENTS],
    /// When the last attempt to make more rings failed: trying at every event would cost too much.
    growing: Mutex<Option<Instant>>,
    pub(crate) dictionary: Dictionary,
    pub(crate) doorbell: Doorbell,
    pub(crate) flush: Flush,
    pub(crate) figures: Figures,
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
    pub(crate) fn create(generation: u32, config: Config) -> Result<Self, CreateMemoryError> {
        let client = Self {
            generation,
            instance: random_instance(),
            segments: std::array::from_fn(|_segment| Published::unset()),
            growing: Mutex::new(None),
            dictionary: Dictionary::new(DictionarySegment::create),
            doorbell: Doorbell::default(),
            flush: Flush::default(),
            figures: Figures::default(),
            config,
        };
        client.add_segment(0)?;
        Ok(client)
    }

    fn add_segment(&self, number: usize) -> Result<(), CreateMemoryError> {
        let segment = RingSegment::create(number, self.config.ring_events)?;
        self.segments[number].set(Box::leak(Box::new(segment)));
        Ok(())
    }

    /// The segments of rings there are.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &'static RingSegment> + '_ {
        self.segments.iter().map_while(Published::get)
    }

    /// A ring for a thread, of a new segment if all are taken; `None` when there are no more.
    pub(crate) fn claim_ring(&self) -> Option<Producer<'static>> {
        let claim = || {
            self.segments()
                .flat_map(RingSegment::rings)
                .find_map(|ring| ring.claim())
        };
        if let Some(producer) = claim() {
            return Some(producer);
        }
        let mut failed = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_some_and(|when| when.elapsed() < RETRY_GROWING) {
            return None;
        }
        if let Some(producer) = claim() {
            return Some(producer);
        }
        let number = self.segments().count();
        if number == MAX_RING_SEGMENTS || self.add_segment(number).is_err() {
            *failed = Some(Instant::now());
            return None;
        }
        claim()
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
            if left.is_zero() {
                return false;
            }
            futex::wait(ring.waiting(), 1, left);
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
        self.segments().count() * RINGS_PER_SEGMENT
    }
}

/// Until when to wait; a time beyond all clocks is for ever.
#[derive(Clone, Copy, Debug)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    fn left(&self) -> Duration {
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
        let pid = rustix::process::getpid()
            .as_raw_nonzero()
            .get()
            .cast_unsigned();
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        instance[..4].copy_from_slice(&pid.to_le_bytes());
        instance[4..12].copy_from_slice(&time.tv_sec.to_le_bytes());
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        instance[12..].copy_from_slice(&nanos.to_le_bytes());
    }
    instance
}
