use super::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::VecDeque;
use std::process::Command;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 16).unwrap()
}

/// A block whose bytes are all `number`.
fn filled(bytes: usize, number: u8) -> *mut u8 {
    // SAFETY: not of size 0.
    let block = unsafe { Heap.alloc(layout(bytes)) };
    assert!(!block.is_null());
    // SAFETY: as large as that.
    unsafe { block.write_bytes(number, bytes) };
    block
}

fn has_all(block: *mut u8, bytes: usize, number: u8) -> bool {
    // SAFETY: written to by `filled`.
    let bytes = unsafe { std::slice::from_raw_parts(block, bytes) };
    bytes.iter().all(|byte| *byte == number)
}

/// Set in a process that runs a single test.
const ALONE: &str = "TTMEM_HEAP_TEST_ALONE";

/// Runs a test in a separate process: limits and exhaustion hold for a whole process, and `cargo test` runs
/// all tests in one.
fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("heap::tests::{test}"), "--exact", "--nocapture"]);
    let output = command.env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let has_passed = output.status.success() && text.contains("1 passed");
    assert!(has_passed, "{}: {text}{errors}", output.status);
}

/// Leaves the process so much above what it has mapped.
fn limit(bytes: usize) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    let limit = Rlimit {
        current: Some(pages * 4096 + bytes as u64),
        maximum: getrlimit(Resource::As).maximum,
    };
    setrlimit(Resource::As, limit).unwrap();
}

/// Takes blocks until there are no more; all that were taken.
fn take_all(bytes: usize) -> Vec<*mut u8> {
    let next = || {
        // SAFETY: not of size 0.
        let block = unsafe { Heap.alloc(layout(bytes)) };
        (!block.is_null()).then_some(block)
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn blocks_keep_their_bytes_however_they_grow() {
    let sizes = [1, 24, 4000, 255 * KIB, 256 * KIB, 300 * KIB, 3 * MIB];
    for (number, from) in (1..).zip(sizes) {
        for to in sizes {
            let block = filled(from, number);
            // SAFETY: taken with this layout.
            let moved = unsafe { Heap.realloc(block, layout(from), to) };
            assert!(has_all(moved, from.min(to), number), "{from} to {to}");
            // SAFETY: it has this layout now.
            unsafe { Heap.dealloc(moved, layout(to)) };
        }
    }
    // SAFETY: not of size 0; the memory was used by others before.
    let zeroed = unsafe { Heap.alloc_zeroed(layout(4000)) };
    assert!(has_all(zeroed, 4000, 0));
}

#[test]
fn threads_share_it() {
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let mut kept = VecDeque::new();
                for step in 0..20_000_usize {
                    let bytes = step * 31 % 2000 + 1;
                    kept.push_back((filled(bytes, number), bytes));
                    if kept.len() > 50 {
                        let (block, bytes) = kept.pop_front().unwrap();
                        assert!(has_all(block, bytes, number));
                        // SAFETY: taken with this layout.
                        unsafe { Heap.dealloc(block, layout(bytes)) };
                    }
                }
            });
        }
    });
}

#[test]
fn a_limit_leaves_the_program_its_part() {
    alone("a_limit_leaves_the_program_its_part", || {
        limit(100 * MIB);
        let fallible = Fallible::begin();
        let blocks = take_all(256 * KIB);
        let bytes = blocks.len() * 256 * KIB;
        assert!((15 * MIB..=16 * MIB).contains(&bytes), "{bytes}");
        assert!(
            !Heap::is_exhausted(),
            "a large request that fails is an error"
        );
        for block in blocks {
            // SAFETY: taken with this layout.
            unsafe { Heap.dealloc(block, layout(256 * KIB)) };
        }
        assert_eq!(take_all(MIB).len(), 16, "it was given back");
        drop(fallible);
        filled(MIB, 3);
        assert!(Heap::is_exhausted(), "it is given, and no more is tracked");
    });
}

#[test]
fn the_reserve_serves_calls_under_way() {
    alone("the_reserve_serves_calls_under_way", || {
        static TURNED_OFF: AtomicBool = AtomicBool::new(false);
        Heap::when_exhausted(|| TURNED_OFF.store(true, Ordering::Relaxed));
        limit(4 * MIB);
        let mut blocks = Vec::with_capacity(10_000);
        while !TURNED_OFF.load(Ordering::Relaxed) {
            blocks.push(filled(KIB, 7));
        }
        let (&first, rest) = blocks.split_last().unwrap();
        assert!(RESERVE.has(first) && !rest.iter().any(|block| RESERVE.has(*block)));
        assert!(Heap::is_exhausted());
        // SAFETY: taken with this layout.
        let moved = unsafe { Heap.realloc(first, layout(KIB), 2 * KIB) };
        assert!(RESERVE.has(moved) && has_all(moved, KIB, 7));
        // SAFETY: it has this layout now.
        unsafe { Heap.dealloc(moved, layout(2 * KIB)) };
        // Given back as a whole, it serves as much again.
        for _call in 0..100 {
            let block = filled(100 * KIB, 1);
            assert!(RESERVE.has(block));
            // SAFETY: taken with this layout.
            unsafe { Heap.dealloc(block, layout(100 * KIB)) };
        }
    });
}

#[test]
fn calls_wait_for_a_full_reserve() {
    alone("calls_wait_for_a_full_reserve", || {
        const THREADS: usize = 32;
        let begin = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            // Made before there is no memory for their stacks: 3 MiB in all, three times the reserve.
            for number in 0..32 {
                let begin = &begin;
                scope.spawn(move || {
                    if begin.wait().is_leader() {
                        limit(0);
                        Heap::exhaust();
                    }
                    while !Heap::is_exhausted() {
                        std::thread::yield_now();
                    }
                    let block = filled(100 * KIB, number);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    assert!(has_all(block, 100 * KIB, number));
                    // SAFETY: taken with this layout.
                    unsafe { Heap.dealloc(block, layout(100 * KIB)) };
                });
            }
        });
    });
}

#[test]
fn a_thread_of_ours_stops_where_memory_runs_out() {
    alone("a_thread_of_ours_stops_where_memory_runs_out", || {
        static STEPS: AtomicI32 = AtomicI32::new(0);
        Heap::when_exhausted(|| {
            STEPS.fetch_max(1000, Ordering::Relaxed);
        });
        // Made before there is no memory for its stack.
        let (begin, begun) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::spawn(move || {
            let _own = OwnThread::begin();
            let () = begun.recv().unwrap();
            loop {
                filled(64 * KIB, 1);
                STEPS.fetch_add(1, Ordering::Relaxed);
            }
        });
        limit(4 * MIB);
        begin.send(()).unwrap();
        while STEPS.load(Ordering::Relaxed) < 1000 {
            std::thread::yield_now();
        }
        // Another thread of the test may have made the first request that failed.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let steps = STEPS.load(Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(STEPS.load(Ordering::Relaxed), steps);
        assert!(!thread.is_finished());
    });
}

#[test]
fn a_lock_that_its_own_thread_has_is_not_waited_for() {
    let lock = Lock::new();
    assert!(lock.take());
    assert!(!lock.take(), "as in a signal handler");
    lock.release();
    assert!(lock.take());
}
