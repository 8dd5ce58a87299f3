//! What the threads of a process share with its pump.
//!
//! A client is made at the first tracker call and stays for as long as the
//! process lives; a child of a fork makes its own. Threads come here when they
//! need a ring, when theirs is full, or to define something; never for an
//! ordinary event.

use crate::config::Config;
use crate::{forward, futex};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use ttmem_ring::dictionary::{Dictionary, DictionarySegment, shared};
use ttmem_ring::memory::{CreateMemoryError, Memory};
use ttmem_ring::ring::{Producer, Ring};
use ttmem_ring::segment::RingSegment;
use ttmem_ring::{MAX_RING_SEGMENTS, RINGS_PER_SEGMENT};

/// The shared state of one process's tracking.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) generation: u32,
    pub(crate) config: Config,
    /// Random; what the server tells instances of one pid apart by.
    pub(crate) instance: [u8; 16],
    /// Of a process that began as a fork: the first buffer id of its own.
    pub(crate) forked: Option<u64>,
    segments: [AtomicPtr<RingSegment>; MAX_RING_SEGMENTS],
    growing: Mutex<()>,
    pub(crate) dictionary: Dictionary,
    dictionary_memories: Arc<Mutex<Vec<Memory>>>,
    /// Counts reasons for the pump to wake up early; it sleeps on this word.
    pub(crate) doorbell: AtomicU32,
    pub(crate) flush: Flush,
    pub(crate) figures: Figures,
}

/// What callers of `flush` and the pump tell each other.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    /// How often it was asked for.
    pub(crate) wanted: AtomicU32,
    /// The number of the last one that is done; a futex.
    pub(crate) done: AtomicU32,
    /// Whether the pump is to say goodbye after the next one.
    pub(crate) closing: AtomicBool,
}

/// What the pump tells about itself.
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
    pub(crate) fn create(
        generation: u32,
        config: Config,
        forked: Option<u64>,
    ) -> Result<Self, CreateMemoryError> {
        let memories = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&memories);
        let make = move || -> Option<&'static DictionarySegment> {
            let (memory, segment) = shared::create().ok()?;
            kept.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(memory);
            Some(Box::leak(Box::new(segment)))
        };
        let client = Self {
            generation,
            instance: random_instance(),
            forked,
            segments: std::array::from_fn(|_segment| AtomicPtr::new(std::ptr::null_mut())),
            growing: Mutex::new(()),
            dictionary: Dictionary::new(Box::new(make)),
            dictionary_memories: memories,
            doorbell: AtomicU32::new(0),
            flush: Flush::default(),
            figures: Figures::default(),
            config,
        };
        client.add_segment(0)?;
        Ok(client)
    }

    fn add_segment(&self, number: usize) -> Result<(), CreateMemoryError> {
        let segment = RingSegment::create(number, self.config.ring_events, forward::own_address())?;
        let segment = Box::into_raw(Box::new(segment));
        // SYNC(segment): the segment is complete.
        self.segments[number].store(segment, Ordering::Release);
        Ok(())
    }

    /// The segments of rings there are.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &'static RingSegment> + '_ {
        self.segments.iter().map_while(|segment| {
            // SYNC(segment): the segment is complete.
            let segment = segment.load(Ordering::Acquire);
            // SAFETY: null, or from `Box::into_raw` in `add_segment`; nobody frees it.
            #[expect(unsafe_code, reason = "segments stay")]
            unsafe {
                segment.as_ref()
            }
        })
    }

    /// Does something with the memory of each dictionary segment from number `from` on.
    pub(crate) fn with_dictionary_memory<R>(
        &self,
        number: usize,
        use_it: impl FnOnce(&Memory) -> R,
    ) -> Option<R> {
        let memories = self.dictionary_memories.lock();
        let memories = memories.unwrap_or_else(PoisonError::into_inner);
        memories.get(number).map(use_it)
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
        let _one_at_a_time = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = claim() {
            return Some(producer);
        }
        let number = self.segments().count();
        if number == MAX_RING_SEGMENTS || self.add_segment(number).is_err() {
            return None;
        }
        claim()
    }

    /// Counts an event of a thread that has no ring.
    pub(crate) fn count_lost_without_ring(&self) {
        if let Some(ring) = self.segments().flat_map(RingSegment::rings).next() {
            ring.count_lost();
        }
    }

    /// Wakes the pump.
    pub(crate) fn ring_doorbell(&self) {
        self.doorbell.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.doorbell);
    }

    /// Waits until the pump has made room in a thread's ring; false when it took too long.
    pub(crate) fn wait_for_room(&self, producer: &Producer<'static>, ring: &Ring<'static>) -> bool {
        let deadline = Instant::now() + self.config.full_ring_wait;
        loop {
            if !producer.announce_waiting() {
                return true;
            }
            self.ring_doorbell();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            futex::wait(ring.waiting(), 1, left);
        }
    }

    /// Asks the pump to flush and waits for it; false when it took too long.
    pub(crate) fn wait_for_flush(&self, timeout: Duration, closing: bool) -> bool {
        let deadline = Instant::now() + timeout;
        if closing {
            self.flush.closing.store(true, Ordering::Release);
        }
        // SYNC(flush): the pump that sees this number sees every event recorded before.
        let number = self
            .flush
            .wanted
            .fetch_add(1, Ordering::AcqRel)
            .wrapping_add(1);
        self.ring_doorbell();
        loop {
            let done = self.flush.done.load(Ordering::Acquire);
            if done.wrapping_sub(number).cast_signed() >= 0 {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            futex::wait(&self.flush.done, done, left);
        }
    }

    /// The first segment, which tells the server how the process ended.
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
