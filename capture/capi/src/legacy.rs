//! The old client's six reports, for `ttmem_allocation_client.hpp`.
//!
//! They start the client by themselves, as one that speaks only the old
//! vocabulary, and only if `TT_ALLOC_TRACKING_ENABLED` is exactly `1`, as the old
//! client had it. A process that has started the client otherwise cannot
//! report through them: it would be counted twice.
#![expect(unsafe_code, reason = "exports C symbols by their names")]

use crate::code::{TTMEM_OK, guard, ttmem_code_t};
use crate::constants::{
    TTMEM_KERNEL_KIND_UNKNOWN, ttmem_class_t, ttmem_flag_t, ttmem_kernel_kind_t,
};
use crate::record::record;
use std::sync::atomic::{AtomicU8, Ordering};
use ttmem_client::{Config, Tracker};
use ttmem_event::{KernelKind, Source};

const UNDECIDED: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// Whether the environment asks for it. The client has what must be published to other threads.
static STATE: AtomicU8 = AtomicU8::new(UNDECIDED);

fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        ON => true,
        OFF => false,
        _undecided => decide(),
    }
}

/// Two threads may do this at once: both come to the same, and the first start wins.
#[cold]
fn decide() -> bool {
    let code = guard(|| {
        let asked = std::env::var_os("TT_ALLOC_TRACKING_ENABLED");
        if asked.is_none_or(|value| value != "1") {
            STATE.store(OFF, Ordering::Relaxed);
            return TTMEM_OK;
        }
        let mut config = Config::from_env();
        config.source = Source::Legacy;
        let _client = Tracker::start(config);
        STATE.store(ON, Ordering::Relaxed);
        TTMEM_OK
    });
    if code != TTMEM_OK {
        STATE.store(OFF, Ordering::Relaxed);
    }
    STATE.load(Ordering::Relaxed) == ON
}

fn report(record: impl FnOnce() -> ttmem_code_t) -> ttmem_code_t {
    if is_on() { record() } else { TTMEM_OK }
}

/// Old vocabulary: whether TT_ALLOC_TRACKING_ENABLED is 1 and tracking is on.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_legacy_is_enabled() -> ttmem_flag_t {
    u8::from(is_on() && Tracker.is_enabled())
}

/// Old vocabulary: a buffer was placed; `id` is its address.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_legacy_report_allocation(
    device: i32,
    size_bytes: u64,
    memory_class: ttmem_class_t,
    id: u64,
) -> ttmem_code_t {
    report(|| record!(LegacyAllocated: device, class = memory_class, size_bytes, id))
}

/// Old vocabulary: the buffer at address `id` was given back.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_legacy_report_deallocation(device: i32, id: u64) -> ttmem_code_t {
    report(|| record!(LegacyFreed: device, id))
}

/// Old vocabulary: a circular buffer was placed; `id` is its address.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_legacy_report_cb_allocation(
    device: i32,
    size_bytes: u64,
    id: u64,
) -> ttmem_code_t {
    report(|| record!(LegacyCbAllocated: device, size_bytes, id))
}

/// Old vocabulary: a circular buffer was given back.
///
/// What was booked is given back; the size only tells several at one address apart. 0 = not known.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_legacy_report_cb_deallocation(
    device: i32,
    size_bytes: u64,
    id: u64,
) -> ttmem_code_t {
    report(|| record!(LegacyCbFreed: device, size_bytes, id))
}

/// Old vocabulary: a kernel was loaded, with its bytes over all cores.
///
/// A kind that is not known is counted as TTMEM_KERNEL_KIND_UNKNOWN, as the old server did.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_legacy_report_kernel_load(
    device: i32,
    size_bytes: u64,
    id: u64,
    kind: ttmem_kernel_kind_t,
) -> ttmem_code_t {
    let kind = KernelKind::from_code(kind).map_or(TTMEM_KERNEL_KIND_UNKNOWN, KernelKind::code);
    report(|| record!(LegacyKernelLoaded: device, kind, size_bytes, id))
}

/// Old vocabulary: a kernel is gone; what was booked for it is given back.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_legacy_report_kernel_unload(device: i32, id: u64) -> ttmem_code_t {
    report(|| record!(LegacyKernelUnloaded: device, id))
}

/// Decides in place of the environment.
#[cfg(test)]
pub(crate) fn switch(on: bool) {
    STATE.store(if on { ON } else { OFF }, Ordering::Relaxed);
}
