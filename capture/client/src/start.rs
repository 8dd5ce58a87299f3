//! Starting the client: at the first tracker call, never at load.
//!
//! Every failure turns tracking off with one line on stderr and lets the program
//! run. Nothing here may use a lock that a fork could leave locked: a child that
//! tracks starts a client of its own through the same door.

use crate::client::{Client, CreateClientError, PAGE};
use crate::config::Config;
use crate::room::NoRoom;
use crate::{clock, forward, host, pump};
use rustix::io::Errno;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use ttmem_event::{BufferId, Event, EventKind, Source};
use ttmem_ring::heap::Heap;
use ttmem_ring::page::{FIRST_GENERATION, FORWARDING, OFF, STARTING};

/// What the program said; a child of a fork inherits it.
static CONFIG: OnceLock<Config> = OnceLock::new();
/// Whether the program turned tracking off for good.
static DISABLED: AtomicBool = AtomicBool::new(false);
/// Whether this process reports the old protocol's events.
static IS_LEGACY: AtomicBool = AtomicBool::new(false);
/// Set at the first start; who starts again is a child.
static STARTED: AtomicBool = AtomicBool::new(false);
/// Clients so far, those of this process's forebears included.
static GENERATIONS: AtomicU32 = AtomicU32::new(FIRST_GENERATION);
/// The highest buffer id that the pump has seen.
pub(crate) static HIGHEST_BUFFER: AtomicU64 = AtomicU64::new(0);
/// The last buffer id that was given out.
pub(crate) static LAST_BUFFER: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("this system cannot wipe memory at a fork: {0}")]
    Wipe(Errno),
    #[error(transparent)]
    Memory(#[from] CreateClientError),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    #[error("this system does not tell the time")]
    Clock,
    #[error("another ttmem of another version tracks this process")]
    OtherVersion,
    #[error("an internal failure")]
    Panicked,
}

/// Remembers the configuration; the first one counts.
pub(crate) fn configure(config: Config) {
    let _earlier = CONFIG.set(config);
}

/// Turns tracking off, here and in every child.
pub(crate) fn disable() {
    DISABLED.store(true, Ordering::Relaxed);
    PAGE.decide(OFF);
}

/// Whether this process reports the old protocol's events.
pub(crate) fn is_legacy() -> bool {
    IS_LEGACY.load(Ordering::Relaxed)
}

/// Starts the client, or waits for the thread that does.
pub(crate) fn start() {
    // A signal handler that came here would wait for the thread that it interrupts.
    let _uninterrupted = host::SignalsBlocked::begin();
    let _uncancelled = host::Uncancelled::begin();
    // Before anything is written to the page: a child forked in between must find it empty.
    let wiped = PAGE.wipe_on_fork().map_err(StartError::Wipe);
    if !PAGE.begin_start() {
        while PAGE.word() == STARTING {
            host::sleep(Duration::from_micros(100));
        }
        return;
    }
    // Whatever goes wrong, nobody may be left waiting for this thread.
    let started = wiped
        .and_then(|()| std::panic::catch_unwind(try_start).unwrap_or(Err(StartError::Panicked)));
    let word = started.unwrap_or_else(|error| {
        if !Heap::is_exhausted() {
            host::complain(&format!("tracking is off: {error}"));
        }
        OFF
    });
    PAGE.decide(word);
    if DISABLED.load(Ordering::Relaxed) {
        // Turned off while it was being started.
        PAGE.decide(OFF);
    }
}

fn try_start() -> Result<u32, StartError> {
    // Also where another copy does the work: in a child, this one may be the first.
    host::watch_forks();
    let is_child = STARTED.swap(true, Ordering::Relaxed);
    // A child made by a bare system call cannot be helped: the C library itself does not know of
    // it, and its locks may be locked for ever. So this is asked before anything that takes one.
    if (is_child && !host::was_forked()) || is_disabled() {
        return Ok(OFF);
    }
    match forward::find() {
        forward::Found::Nobody => {}
        forward::Found::Leader => return Ok(FORWARDING),
        forward::Found::OtherVersion => return Err(StartError::OtherVersion),
    }
    Heap::when_exhausted(memory_ran_out);
    // In this order: others use what only stays if this copy stays loaded.
    host::stay(leaving);
    PAGE.lead();
    let config = CONFIG.get().cloned().unwrap_or_else(Config::from_env);
    IS_LEGACY.store(config.source == Source::Legacy, Ordering::Relaxed);
    clock::choose(config.clock);
    // Before the memory is made: that takes about as long as the rate needs to be measured.
    let calibration = clock::Calibration::begin();
    if clock::is_refused() {
        return Err(StartError::Clock);
    }
    let forked = is_child.then(|| {
        if config.source == Source::Legacy {
            // Addresses say nothing about age: what the child did not allocate is its parent's.
            return u64::MAX - 1;
        }
        let last = LAST_BUFFER.load(Ordering::Relaxed);
        last.max(HIGHEST_BUFFER.load(Ordering::Relaxed)) + 1
    });
    let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed);
    let client: &'static Client = Box::leak(Box::new(Client::create(generation, config)?));
    if !client.dictionary.prepare() {
        return Err(CreateClientError::NoRoom(NoRoom::System).into());
    }
    if let Some(first_buffer) = forked {
        report_fork(client, BufferId(first_buffer));
    }
    pump::spawn(client, calibration).map_err(StartError::Thread)?;
    PAGE.set_client(client);
    Ok(generation)
}

/// The first event of a forked child: in a ring like all others, where it outlives the process.
fn report_fork(client: &Client, first_buffer: BufferId) {
    let time = clock::ticks();
    let kind = EventKind::Forked { first_buffer };
    if let Some(producer) = client.claim_ring(client.first_ring_wait()) {
        producer.look_for_room();
        producer.push(&Event { time, kind }.encode());
        producer.release();
    }
}

fn is_disabled() -> bool {
    let asked = std::env::var_os("TTMEM_DISABLE").is_some_and(|value| value == "1");
    asked || DISABLED.load(Ordering::Relaxed)
}

/// Turns tracking off where there is no memory left for it; takes none, and waits for nothing.
fn memory_ran_out() {
    static SAID: AtomicBool = AtomicBool::new(false);
    disable();
    if let Some(client) = PAGE.client() {
        // For a server that reads the rings: what it was told last is not all.
        client.count_lost_without_ring();
        client.connection.hang_up();
        client.figures.connected.store(false, Ordering::Relaxed);
        client.abandon();
    }
    if !SAID.swap(true, Ordering::Relaxed) {
        host::complain_in_bytes(b"ttmem: tracking is off: there is no memory left for it\n");
    }
}

/// Runs when the program exits in order: no waiting, just a word in the shared memory.
extern "C" fn leaving() {
    if let Some(client) = PAGE.client() {
        client.mark_leaving();
    }
}
