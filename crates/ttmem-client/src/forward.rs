//! Two copies of this library in one process: the second forwards to the first.
//!
//! A preloaded library and a linked one may both bring this code. Two clients
//! would be two instances of one pid, and the server would take the second for a
//! program that replaced the first. The first client's ring memory is the sign
//! by which the second finds it: unlike an exported symbol it is visible from
//! every copy, however that was linked or loaded. Its header holds the address
//! of a table of functions; both ends of that address are in this process.

use crate::client::{Client, PAGE};
use crate::{local, start, tracker};
use std::time::Duration;
use ttmem_event::EventKind;
use ttmem_event::event::{EVENT_BYTES, LAYOUT_HASH};
use ttmem_event::wire::DefinitionKind;
use ttmem_ring::page::FIRST_GENERATION;
use ttmem_ring::published::Published;
use ttmem_ring::segment::{self, LAYOUT_HASH_AT, OWNER_AT, VERSION_AT};

/// The version of the table.
const VERSION: u32 = 1;

/// What the copy that does the work offers to the others.
#[derive(Debug)]
#[repr(C)]
struct Table {
    version: u32,
    reserved: u32,
    record: extern "C" fn(&[u8; EVENT_BYTES]),
    define: extern "C" fn(u8, *const u8, usize) -> u32,
    next_buffer: extern "C" fn() -> u64,
    next_program: extern "C" fn() -> u64,
    flush: extern "C" fn(u64) -> bool,
}

static OWN: Table = Table {
    version: VERSION,
    reserved: 0,
    record: record_forwarded,
    define: define_forwarded,
    next_buffer: tracker::next_buffer,
    next_program: tracker::next_program,
    flush: flush_forwarded,
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

/// What the header of this copy's rings says to other copies.
pub(crate) fn own_address() -> u64 {
    (&raw const OWN).addr() as u64
}

/// Looks for another copy that tracks this process.
pub(crate) fn find() -> Found {
    let Some(header) = ring_memory() else {
        return Found::Nobody;
    };
    let word = |at: usize| {
        let place = header.wrapping_byte_add(at);
        // SAFETY: the range is mapped for ever (ring memory is never unmapped), page-aligned and
        // longer than the header; `at` is a multiple of eight inside of it.
        #[expect(unsafe_code, reason = "reads another copy's header")]
        unsafe {
            place.read_volatile()
        }
    };
    // Between mapping the memory and writing the header there is a moment.
    for _moment in 0..100 {
        if word(OWNER_AT) != 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let is_ours = word(0) == u64::from_le_bytes(segment::MAGIC);
    let version = word(VERSION_AT) & u64::from(u32::MAX);
    if !is_ours || version != u64::from(segment::VERSION) || word(LAYOUT_HASH_AT) != LAYOUT_HASH {
        return Found::OtherVersion;
    }
    let Ok(address) = usize::try_from(word(OWNER_AT)) else {
        return Found::OtherVersion;
    };
    let table = std::ptr::with_exposed_provenance::<Table>(address);
    // SAFETY: magic, version and layout are those of a copy of this library, which put the address
    // of its table there; it is pinned and its table a static.
    #[expect(unsafe_code, reason = "uses another copy's table")]
    let leader: Option<&'static Table> = unsafe { table.as_ref() };
    match leader {
        Some(leader) if leader.version == VERSION => {
            LEADER.set(leader);
            Found::Leader
        }
        _other => Found::OtherVersion,
    }
}

/// The first ring memory that is mapped in this process.
fn ring_memory() -> Option<*const u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let name = format!("/memfd:{}", segment::NAME);
    let line = maps.lines().find(|line| line.contains(&name))?;
    let (start, _rest) = line.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    Some(std::ptr::with_exposed_provenance(start))
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

extern "C" fn flush_forwarded(millis: u64) -> bool {
    let timeout = Duration::from_millis(millis);
    own_client().is_some_and(|client| client.wait_for_flush(timeout))
}
