//! Requests that fail because a test asked for it.
//!
//! The variable has the number of a request: that one and all after it fail, as where memory runs out.
//! Tests run a program once for each number, so that every place that allocates is the first to fail.
//! `SEED/N` instead has one request in N fail at random, each by itself, as where other programs take
//! memory and give it back. Not part of a release build.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const VARIABLE: &std::ffi::CStr = c"TTMEM_TEST_FAILING_REQUEST";

/// The variable was not read yet.
const UNKNOWN: i64 = i64::MIN;
const NEVER: i64 = i64::MAX;
const AT_RANDOM: i64 = i64::MAX - 1;

static LEFT: AtomicI64 = AtomicI64::new(UNKNOWN);

/// With [`AT_RANDOM`]: the state of the generator, and one in how many fails.
static STATE: AtomicU64 = AtomicU64::new(0);
static ONE_IN: AtomicU64 = AtomicU64::new(1);

/// Whether this request fails.
pub(super) fn fails() -> bool {
    match LEFT.load(Ordering::Relaxed) {
        NEVER => false,
        AT_RANDOM => {
            let number = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            mixed(number).is_multiple_of(ONE_IN.load(Ordering::Relaxed))
        }
        UNKNOWN => {
            LEFT.store(wanted().unwrap_or(NEVER), Ordering::Relaxed);
            false
        }
        left => left <= 0 || LEFT.fetch_sub(1, Ordering::Relaxed) <= 1,
    }
}

/// As splitmix64 does.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The value of the variable; nothing here takes memory.
fn wanted() -> Option<i64> {
    // SAFETY: the name ends with a zero; the test that sets it changes no variable afterwards.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: the value of a variable ends with a zero.
    let value = unsafe { std::ffi::CStr::from_ptr(value) };
    let value = value.to_str().ok()?;
    let Some((seed, one_in)) = value.split_once('/') else {
        return value.parse().ok();
    };
    STATE.store(seed.parse().ok()?, Ordering::Relaxed);
    ONE_IN.store(one_in.parse().ok()?, Ordering::Relaxed);
    Some(AT_RANDOM)
}
