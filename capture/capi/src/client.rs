//! The client as a whole: start, flush, close, statistics.
#![expect(
    unsafe_code,
    reason = "exports C symbols by their names, and takes pointers from C"
)]

use crate::code::{TTMEM_E_DISABLED, TTMEM_E_TIMEOUT, guard, try_guard, ttmem_code_t};
use crate::code::{TTMEM_E_VALUE, TTMEM_OK};
use crate::constants::ttmem_flag_t;
use crate::record::field;
use crate::sized::{self, Growing};
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;
use ttmem_client::{Config, FlushError, Tracker};

/// How the client of this process is to work.
///
/// Members that are 0 or null stand for the environment's value, or the default. Set everything to
/// zero and `struct_bytes` to the size, then what you want to change, in C:
/// `ttmem_config_t config = {.struct_bytes = sizeof config, .name = "llama"};`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_config_t {
    /// sizeof(ttmem_config_t), so that the structure can grow.
    pub struct_bytes: usize,
    /// Path of the server's socket.
    pub socket: *const c_char,
    /// The name that this process is shown under, in place of the command's.
    pub name: *const c_char,
    /// The devices that this process sees, as in TT_VISIBLE_DEVICES.
    pub visible_devices: *const c_char,
    /// How many events to keep while the server is away; beyond that, history is left out.
    pub history_events: u64,
    /// How long a report may wait when its thread is far ahead of the one that sends; see
    /// TTMEM_NO_WAIT.
    pub full_ring_wait_millis: u32,
    /// A user whose server is trusted besides this process's own user and root.
    pub trusted_uid: u32,
    /// Whether `trusted_uid` is set.
    pub has_trusted_uid: ttmem_flag_t,
    /// Zero.
    pub reserved: [u8; 7],
    /// How much memory the threads of this process may record into; reports of threads beyond it
    /// are lost.
    pub ring_memory_bytes: u64,
}

/// In ttmem_config_t.full_ring_wait_millis: do not wait at all.
pub const TTMEM_NO_WAIT: u32 = 0xFFFF_FFFF;

// SAFETY: `repr(C)`, a `usize` first, then pointers and integers.
unsafe impl Growing for ttmem_config_t {
    const FIRST_BYTES: usize = 56;
}

/// What became of the reports of this process; after a flush, as of its end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_statistics_t {
    /// sizeof(ttmem_statistics_t), so that the structure can grow; set it before the call.
    pub struct_bytes: usize,
    /// Reports that never reach the server: its totals of this process are not to be trusted.
    pub lost_events: u64,
    /// Reports missing from the history only; totals are exact.
    pub elided_events: u64,
    /// How often everything that this process holds was sent anew.
    pub resyncs: u64,
    /// CPU time of the thread that sends the reports.
    pub pump_cpu_nanos: u64,
    /// Whether a server is connected and has the state of this process; the newest reports may still be on
    /// their way. 1 after a flush that returned TTMEM_OK. A server that ends is noticed within a second.
    pub connected: ttmem_flag_t,
    /// Zero.
    pub reserved: [u8; 7],
}

// SAFETY: `repr(C)`, a `usize` first, then integers.
unsafe impl Growing for ttmem_statistics_t {
    const FIRST_BYTES: usize = 48;
}

/// Says how the client of this process is to work; null takes everything from the environment.
///
/// Optional: without it, the first call does the same with null. Nothing is connected and no thread
/// is started before the first definition or report. The first start wins; later ones are ignored.
///
/// # Safety
/// `config` is null, or points to a structure as long as its `struct_bytes` says, with texts that
/// are closed by a zero. Nothing of it is used after the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_client_start(config: *const ttmem_config_t) -> ttmem_code_t {
    try_guard(|| {
        let config = if config.is_null() {
            Config::from_env()
        } else {
            // SAFETY: not null, so the caller promises a structure as long as it says.
            let given = unsafe { sized::read(config) }?;
            // SAFETY: the caller promises texts that are null or closed by a zero.
            unsafe { configure(&given) }?
        };
        let _client = Tracker::start(config);
        Ok(())
    })
}

/// Longer texts are cut: a copy this small comes from memory that is always there (ADR 43).
const MAX_TEXT_BYTES: usize = 32 << 10;

/// The bytes up to the closing zero; none for a null pointer.
///
/// # Safety
/// A pointer that is not null points to a text closed by a zero, and stays valid for `'a`.
unsafe fn closed_by_zero<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not null, and the caller promises that it is closed by a zero and stays valid.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The environment's configuration with what the program sets.
///
/// # Safety
/// Pointers that are not null point to texts closed by a zero.
unsafe fn configure(given: &ttmem_config_t) -> Result<Config, ttmem_code_t> {
    // SAFETY: null or closed by a zero: the contract of this function.
    let socket = unsafe { closed_by_zero(given.socket) };
    // SAFETY: null or closed by a zero: the contract of this function.
    let name = unsafe { closed_by_zero(given.name) };
    // SAFETY: null or closed by a zero: the contract of this function.
    let visible_devices = unsafe { closed_by_zero(given.visible_devices) };
    let bounded = |bytes: &[u8]| bytes.len().min(MAX_TEXT_BYTES);
    let owned = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bounded(bytes)]).into_owned();

    let mut config = Config::from_env();
    if let Some(path) = socket {
        config.socket = Some(PathBuf::from(OsStr::from_bytes(&path[..bounded(path)])));
    }
    if let Some(name) = name {
        config.name = Some(owned(name));
    }
    if let Some(devices) = visible_devices {
        config.visible_devices = Some(owned(devices));
    }
    if given.history_events != 0 {
        config.history_events = usize::try_from(given.history_events).unwrap_or(usize::MAX);
    }
    match given.full_ring_wait_millis {
        0 => {}
        TTMEM_NO_WAIT => config.full_ring_wait = Duration::ZERO,
        millis => config.full_ring_wait = Duration::from_millis(millis.into()),
    }
    if given.ring_memory_bytes != 0 {
        config.ring_memory_bytes = given.ring_memory_bytes;
    }
    if field([given.has_trusted_uid]).ok_or(TTMEM_E_VALUE)? {
        config.trusted_uid = Some(given.trusted_uid);
    }
    Ok(config)
}

/// Whether reports are recorded: 1, or 0 when tracking is off.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_client_is_enabled() -> ttmem_flag_t {
    u8::from(Tracker.is_enabled())
}

/// Turns tracking off for this process, for good.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_client_disable() -> ttmem_code_t {
    guard(|| {
        let _off = Tracker::disabled();
        TTMEM_OK
    })
}

/// Waits until the server's account has everything that was reported before the call.
///
/// TTMEM_E_TIMEOUT when that takes longer, or the server is not there; nothing is lost by it.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_client_flush(timeout_millis: u32) -> ttmem_code_t {
    let timeout = Duration::from_millis(timeout_millis.into());
    guard(|| flushed(Tracker.flush(timeout)))
}

/// Flushes, then says goodbye to the server, which gives back everything this process holds.
///
/// Tracking is off afterwards. A process that just ends needs no close: the server sees it.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_client_close(timeout_millis: u32) -> ttmem_code_t {
    let timeout = Duration::from_millis(timeout_millis.into());
    guard(|| flushed(Tracker.close(timeout)))
}

/// Tells what became of the reports of this process.
///
/// # Safety
/// `statistics` is null, or points to a structure as long as its `struct_bytes` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmem_client_statistics(
    statistics: *mut ttmem_statistics_t,
) -> ttmem_code_t {
    try_guard(|| {
        let now = |struct_bytes| {
            let now = Tracker.statistics();
            ttmem_statistics_t {
                struct_bytes,
                lost_events: now.lost_events,
                elided_events: now.elided_events,
                resyncs: now.resyncs,
                pump_cpu_nanos: now.pump_cpu_nanos,
                connected: u8::from(now.connected),
                reserved: [0; 7],
            }
        };
        // SAFETY: the caller promises null, or a structure as long as it says.
        unsafe { sized::write(statistics, now) }
    })
}

fn flushed(result: Result<(), FlushError>) -> ttmem_code_t {
    match result {
        Ok(()) => TTMEM_OK,
        Err(FlushError::TimedOut) => TTMEM_E_TIMEOUT,
        Err(FlushError::Disabled) => TTMEM_E_DISABLED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{TTMEM_E_NULL, TTMEM_E_SIZE};

    const EMPTY: ttmem_config_t = ttmem_config_t {
        struct_bytes: size_of::<ttmem_config_t>(),
        socket: std::ptr::null(),
        name: std::ptr::null(),
        visible_devices: std::ptr::null(),
        history_events: 0,
        full_ring_wait_millis: 0,
        trusted_uid: 0,
        has_trusted_uid: 0,
        reserved: [0; 7],
        ring_memory_bytes: 0,
    };

    fn configured(given: &ttmem_config_t) -> Result<Config, ttmem_code_t> {
        // SAFETY: the texts of these tests are closed by a zero.
        unsafe { configure(given) }
    }

    #[test]
    fn what_is_zero_is_as_the_environment_says() {
        assert_eq!(configured(&EMPTY), Ok(Config::from_env()));
    }

    #[test]
    fn what_is_set_is_taken() {
        let config = configured(&ttmem_config_t {
            socket: c"/tmp/x.sock".as_ptr(),
            name: c"llama".as_ptr(),
            visible_devices: c"0,1".as_ptr(),
            history_events: 7,
            full_ring_wait_millis: 3,
            trusted_uid: 0,
            has_trusted_uid: 1,
            ring_memory_bytes: 9,
            ..EMPTY
        });
        let config = config.unwrap();
        assert_eq!(config.ring_memory_bytes, 9);
        assert_eq!(config.socket, Some(PathBuf::from("/tmp/x.sock")));
        assert_eq!(config.name.as_deref(), Some("llama"));
        assert_eq!(config.visible_devices.as_deref(), Some("0,1"));
        assert_eq!(config.history_events, 7);
        assert_eq!(config.full_ring_wait, Duration::from_millis(3));
        assert_eq!(config.trusted_uid, Some(0));
        let hasty = configured(&ttmem_config_t {
            full_ring_wait_millis: TTMEM_NO_WAIT,
            ..EMPTY
        });
        assert_eq!(hasty.unwrap().full_ring_wait, Duration::ZERO);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let flag = ttmem_config_t {
            has_trusted_uid: 2,
            ..EMPTY
        };
        assert_eq!(configured(&flag), Err(TTMEM_E_VALUE));
        let short = ttmem_config_t {
            struct_bytes: 8,
            ..EMPTY
        };
        // SAFETY: it is longer than it says.
        let started = unsafe { ttmem_client_start(&raw const short) };
        assert_eq!(started, TTMEM_E_SIZE);
        // SAFETY: null is allowed.
        let statistics = unsafe { ttmem_client_statistics(std::ptr::null_mut()) };
        assert_eq!(statistics, TTMEM_E_NULL);
    }
}
