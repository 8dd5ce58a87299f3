//! Two copies of this library in one process: the second forwards to the first.
//!
//! A preloaded library and a linked one may both bring this code. Two clients
//! would be two instances of one pid, and the server would take the second for a
//! program that replaced the first. Every copy carries an ELF note that says where
//! its page and its table of functions are, and a copy that is about to start
//! looks at the notes of all objects that the loader has loaded: unlike a symbol
//! a note is visible however the other copy was linked or loaded. What the program
//! maps by itself is never looked at, whatever its name: a note counts only where
//! it and all that it refers to lie in the segments of one loaded object.

mod notes;

use crate::client::{Client, PAGE};
use crate::clock::Instant;
use crate::own_account::{self, AskError, Question};
use crate::tracker::Statistics;
use crate::{host, local, start, tracker};
use std::ffi::c_void;
use std::time::Duration;
use ttmem_event::EventKind;
use ttmem_event::event::{EVENT_BYTES, LAYOUT_HASH};
use ttmem_event::wire::DefinitionKind;
use ttmem_ring::page::{FIRST_GENERATION, Rival};
use ttmem_ring::published::Published;

/// The version of note and table.
const VERSION: u32 = 4;

/// How long to wait for another copy that starts at the same time. It needs some milliseconds;
/// waiting for ever could be waiting for a thread that waits for this one, in the loader.
const LONGEST_START: Duration = Duration::from_secs(1);

/// What the copy that does the work offers to the others.
#[derive(Debug)]
#[repr(C)]
struct Table {
    record: extern "C" fn(&[u8; EVENT_BYTES]),
    define: extern "C" fn(u8, *const u8, usize) -> u32,
    next_buffer: extern "C" fn() -> u64,
    next_program: extern "C" fn() -> u64,
    flush: extern "C" fn(u64) -> bool,
    ask: extern "C" fn(&RawQuestion, Sink, *mut c_void) -> i32,
    statistics: extern "C" fn(&mut Statistics) -> bool,
}

/// Takes the bytes of an answer, which stay only for this call.
type Sink = extern "C" fn(*mut c_void, *const u8, usize);

/// A question on its way to another copy.
#[derive(Debug)]
#[repr(C)]
struct RawQuestion {
    words: [u64; 3],
    timeout_millis: u64,
}

static OWN: Table = Table {
    record: record_forwarded,
    define: define_forwarded,
    next_buffer: tracker::next_buffer,
    next_program: tracker::next_program,
    flush: flush_forwarded,
    ask: ask_forwarded,
    statistics: statistics_forwarded,
};

/// The table of the copy that does the work.
static LEADER: Published<Table> = Published::unset();

/// Whether another copy does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nobody,
    /// One that this copy can forward to.
    Leader,
    OtherVersion,
}

/// Looks for another copy that tracks this process; if nobody does, this one has claimed it.
pub(crate) fn find() -> Found {
    let until = Instant::now() + LONGEST_START;
    loop {
        PAGE.claim();
        let mut leader = None;
        let mut is_claimed = false;
        let mut goes_first = true;
        notes::for_each_copy(|copy| match copy.rival() {
            Rival::Leader => leader = Some(copy.table),
            Rival::Candidate => {
                is_claimed = true;
                goes_first &= !copy.goes_first();
            }
            Rival::None => {}
        });
        match leader {
            Some(Some(table)) => {
                LEADER.set(table);
                return Found::Leader;
            }
            Some(None) => return Found::OtherVersion,
            None if !is_claimed || Instant::now() >= until => return Found::Nobody,
            None => {}
        }
        if !goes_first {
            PAGE.withdraw();
        }
        host::sleep(Duration::from_millis(1));
    }
}

/// Has the other copy record an event.
pub(crate) fn record(record: &[u8; EVENT_BYTES]) {
    if let Some(leader) = LEADER.get() {
        (leader.record)(record);
    }
}

/// Has the other copy define something.
pub(crate) fn define(kind: DefinitionKind, body: &[u8]) -> u32 {
    LEADER.get().map_or(0, |leader| {
        (leader.define)(kind as u8, body.as_ptr(), body.len())
    })
}

/// The other copy's next buffer id.
pub(crate) fn next_buffer() -> Option<u64> {
    LEADER.get().map(|leader| (leader.next_buffer)())
}

/// The other copy's next program id.
pub(crate) fn next_program() -> Option<u64> {
    LEADER.get().map(|leader| (leader.next_program)())
}

/// Has the other copy flush.
pub(crate) fn flush(timeout: Duration) -> bool {
    let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    LEADER.get().is_some_and(|leader| (leader.flush)(millis))
}

/// What the other copy knows about itself.
pub(crate) fn statistics() -> Option<Statistics> {
    let leader = LEADER.get()?;
    let mut statistics = Statistics::default();
    (leader.statistics)(&mut statistics).then_some(statistics)
}

/// Has the other copy ask the account.
pub(crate) fn ask(question: Question, timeout: Duration) -> Result<Box<[u8]>, AskError> {
    extern "C" fn keep(kept: *mut c_void, bytes: *const u8, count: usize) {
        // SAFETY: `ask` below passes its own copy, which nobody else uses meanwhile.
        #[expect(unsafe_code, reason = "the context of a callback")]
        let kept = unsafe { &mut *kept.cast::<Result<Box<[u8]>, AskError>>() };
        // SAFETY: the other copy passes a slice's own parts.
        #[expect(unsafe_code, reason = "a slice in two parts")]
        let bytes = unsafe { std::slice::from_raw_parts(bytes, count) };
        *kept = own_account::boxed(bytes);
    }
    let leader = LEADER.get().ok_or(AskError::Disabled)?;
    let raw = RawQuestion {
        words: question.words(),
        timeout_millis: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
    };
    let mut kept = Err(AskError::Disabled);
    match (leader.ask)(&raw, keep, (&raw mut kept).cast()) {
        0 => kept,
        code => Err(AskError::from_code(code)),
    }
}

/// The client of this copy, if it is the one that does the work.
fn own_client() -> Option<&'static Client> {
    if PAGE.word() < FIRST_GENERATION {
        start::start();
    }
    PAGE.client()
        .filter(|_client| PAGE.word() >= FIRST_GENERATION)
}

extern "C" fn record_forwarded(record: &[u8; EVENT_BYTES]) {
    // What this copy sees for itself, the old protocol's events would count twice.
    if own_client().is_some() && EventKind::is_legacy_record(record) == start::is_legacy() {
        local::record_encoded(record);
    }
}

extern "C" fn define_forwarded(kind: u8, body: *const u8, bytes: usize) -> u32 {
    let Some(kind) = DefinitionKind::from_code(kind) else {
        return 0;
    };
    // SAFETY: the other copy passes a slice's own parts.
    #[expect(unsafe_code, reason = "a slice in two parts")]
    let body = unsafe { std::slice::from_raw_parts(body, bytes) };
    own_client().map_or(0, |client| client.define(kind, body))
}

extern "C" fn ask_forwarded(raw: &RawQuestion, sink: Sink, context: *mut c_void) -> i32 {
    let Some(client) = own_client() else {
        return AskError::Disabled.code();
    };
    let Some(question) = Question::from_words(raw.words) else {
        return AskError::Value.code();
    };
    match own_account::ask(client, question, Duration::from_millis(raw.timeout_millis)) {
        Ok(text) => {
            sink(context, text.as_ptr(), text.len());
            0
        }
        Err(error) => error.code(),
    }
}

extern "C" fn statistics_forwarded(statistics: &mut Statistics) -> bool {
    let Some(client) = own_client() else {
        return false;
    };
    *statistics = client.statistics();
    true
}

extern "C" fn flush_forwarded(millis: u64) -> bool {
    let timeout = Duration::from_millis(millis);
    own_client().is_some_and(|client| client.wait_for_flush(timeout))
}
