use crate::interpreter::{CHECKED, Types, layout_of};
use crate::line_table::{by_locations, by_pairs};
use crate::memory::{Memory, Untrusted};
use crate::walk::{Fingerprint, of_version};
use crate::{Interpreter, Unsupported};
use std::collections::HashSet;
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32};

#[test]
fn versions_without_a_layout_are_refused_by_name() {
    for known in [
        "3.10.13 (main, …)",
        "3.11.7+ (x)",
        "3.12.1 (y)",
        "3.13.0rc1 (z)",
    ] {
        assert!(layout_of(known).is_ok(), "{known}");
    }
    for unknown in [
        "",
        "3.9.18 (main)",
        "3.14.0 (main)",
        "2.7.18 (default)",
        "3.13.0 experimental free-threading build (main)",
        "3.10.14 (x) [PyPy 7.3.17]",
        "3.",
        "3.12",
    ] {
        let refused = layout_of(unknown).expect_err("it has no layout");
        assert_eq!(refused, Unsupported::Version(unknown.to_owned()));
    }
}

#[test]
fn an_address_without_memory_is_refused_by_the_kernel() {
    for nowhere in [0, 1, 4096, usize::MAX - 64] {
        assert_eq!(Untrusted.number::<u64>(nowhere), None, "{nowhere}");
        assert_eq!(Untrusted.bytes(nowhere, 8, &mut Vec::new()), None);
    }
    let here = 42_u64;
    assert_eq!(Untrusted.number::<u64>((&raw const here).addr()), Some(42));
}

#[test]
fn pairs_of_lengths_and_lines() {
    // 4 bytes of line 10, 2 without a line, 6 of line 8.
    let table = [4, 0, 2, 0x80, 6, 0xFE];
    let lines: Vec<_> = (0..14)
        .step_by(2)
        .map(|at| by_pairs(&table, 10, at))
        .collect();
    let expected = [Some(10), Some(10), None, Some(8), Some(8), Some(8), None];
    assert_eq!(lines, expected);
}

#[test]
fn locations_in_every_form() {
    let entry = |form: u8, instructions: u8| 0x80 | form << 3 | (instructions - 1);
    let table = [
        // Short: same line, one byte of columns.
        entry(3, 1),
        0x55,
        // One line on, two bytes of columns.
        entry(11, 2),
        1,
        2,
        // No columns, 3 lines back: sign in the lowest bit.
        entry(13, 1),
        7,
        // Long, 70 lines on: 140 in two groups of six bits; then three unsigned numbers.
        entry(14, 1),
        0x40 | (140 & 63),
        140 >> 6,
        0x41,
        1,
        2,
        3,
        // No location.
        entry(15, 1),
        // Two lines on.
        entry(12, 1),
        0,
        0,
    ];
    let lines: Vec<_> = (0..16)
        .step_by(2)
        .map(|at| by_locations(&table, 100, at))
        .collect();
    let expected = [
        Some(100),
        Some(101),
        Some(101),
        Some(98),
        Some(168),
        None,
        Some(170),
        None,
    ];
    assert_eq!(lines, expected);
}

#[test]
fn tables_of_any_bytes_are_read_to_their_end() {
    let mut random = 1_u64;
    for length in 0..200 {
        let table: Vec<u8> = (0..length)
            .map(|_byte| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (random >> 56) as u8
            })
            .collect();
        for at in [0, 2, 100, usize::MAX / 2] {
            let (_pairs, _locations) = (
                by_pairs(&table, i32::MAX, at),
                by_locations(&table, i32::MIN, at),
            );
        }
    }
}

#[test]
fn versions_and_addresses_do_not_cancel() {
    let start = Fingerprint(1, 2);
    let mut seen = HashSet::new();
    // Neighbours by version, some of them at addresses that are as far apart.
    for version in 1..=256_u32 {
        for page in 0..256_u64 {
            let found = start.and(of_version(version), 0x7F00_0000_0000 + (page << 16), 4);
            assert!(seen.insert((found.0, found.1)), "{version} {page}");
        }
    }
}

/// An interpreter whose threads' states must not be read.
fn ending_after(checks: u32) -> Interpreter {
    static LEFT: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn is_finalizing() -> c_int {
        let left = LEFT.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(1)));
        c_int::from(left == Ok(0))
    }

    unsafe extern "C" fn thread_state() -> *const u8 {
        // Its innermost frame lies where nothing is.
        static STATE: [usize; 32] = [8; 32];
        STATE.as_ptr().cast()
    }

    LEFT.store(checks, Relaxed);
    unsafe extern "C" fn no_interpreter() -> *const u8 {
        std::ptr::null()
    }

    Interpreter {
        layout: layout_of("3.10.1 (main)").unwrap(),
        types: Types {
            code: 0,
            text: 0,
            bytes: 0,
            dict: 0,
        },
        thread_state,
        is_finalizing,
        interpreters: [no_interpreter; 2],
        state: AtomicU8::new(CHECKED),
        variables: AtomicU8::new(0),
    }
}

#[test]
fn nothing_is_walked_once_the_interpreter_ends() {
    // Before the walk, and before its first frame: reading that would be a crash.
    for checks in [0, 1] {
        let interpreter = ending_after(checks);
        // SAFETY: this thread runs no Python.
        assert_eq!(unsafe { interpreter.fingerprint() }, Ok(None));
        // It is not taken for one that cannot be read.
        assert_eq!(interpreter.state.load(Relaxed), CHECKED);
    }
}
