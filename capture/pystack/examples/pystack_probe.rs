//! What the tests load into an interpreter: calls of this library from inside a native call.

#![expect(unsafe_code, reason = "called by Python through C")]
#![expect(
    clippy::print_stdout,
    reason = "the last words of a thread whose interpreter is gone"
)]

use std::ffi::c_char;
use std::sync::OnceLock;
use ttmem_pystack::{Interpreter, Unsupported};

static INTERPRETER: OnceLock<Result<Interpreter, Unsupported>> = OnceLock::new();

fn interpreter() -> Result<&'static Interpreter, String> {
    let found = INTERPRETER.get_or_init(Interpreter::find);
    found.as_ref().map_err(ToString::to_string)
}

/// Writes the caller's stack, a line `file:line function` for each frame, and returns its length.
///
/// # Safety
/// There is room for `room` bytes at `to`; called by Python.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_stack(to: *mut c_char, room: usize) -> usize {
    // SAFETY: called by Python.
    let frames = interpreter()
        .and_then(|found| unsafe { found.frames(|| true) }.map_err(|error| error.to_string()));
    let text = match frames {
        Ok(Some(frames)) => frames
            .iter()
            .map(|frame| {
                let line = frame
                    .line
                    .map_or_else(|| "None".to_owned(), |line| line.to_string());
                format!("{}:{line} {}\n", frame.file, frame.function)
            })
            .collect(),
        Ok(None) => "no Python\n".to_owned(),
        Err(error) => format!("unsupported: {error}\n"),
    };
    let length = text.len().min(room);
    // SAFETY: there is room.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), length) };
    length
}

/// The caller's fingerprint, one half; 0 if there is none.
///
/// # Safety
/// Called by Python.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_fingerprint() -> u64 {
    // SAFETY: called by Python.
    let found = interpreter().map(|found| unsafe { found.fingerprint() });
    match found {
        Ok(Ok(Some(fingerprint))) => fingerprint.0 ^ fingerprint.1,
        _ => 0,
    }
}

/// Sleeps, and says whether there is a fingerprint then: for a thread that outlives its interpreter.
///
/// # Safety
/// Called by Python.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_late(milliseconds: u64) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
    // SAFETY: called by Python.
    let found = interpreter().map(|found| unsafe { found.fingerprint() });
    println!("late: {found:?}");
}

/// Nanoseconds that a fingerprint takes here, by the mean of many.
///
/// # Safety
/// Called by Python.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_cost(count: u32) -> f64 {
    let begun = processor_nanos();
    let mut folded = 0;
    for _count in 0..count {
        // SAFETY: called by Python.
        folded ^= std::hint::black_box(unsafe { probe_fingerprint() });
    }
    std::hint::black_box(folded);
    (processor_nanos() - begun) / f64::from(count.max(1))
}

/// Processor time of this thread: what others do meanwhile does not count.
fn processor_nanos() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes to `time`, nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
