//! Seccomp filters that refuse one system call: the program runs, and no thread of ours spins.

use super::begin;
use crate::support::c_program::Story;
use crate::support::is_left_to_the_whole_run;
use nix::libc;
use std::path::Path;
use std::sync::Mutex;

/// Runs at the same time: each sleeps most of its time.
const AT_ONCE: usize = 6;

/// Percent of a processor that the library may use while nothing is reported. A thread that cannot
/// wait, and tries again at once, uses all of it.
const MAX_PERCENT: u32 = 50;

/// Calls that the library makes, or the standard library for it.
const CALLS: [(&str, libc::c_long); 42] = [
    ("clock_gettime", libc::SYS_clock_gettime),
    ("clock_nanosleep", libc::SYS_clock_nanosleep),
    ("nanosleep", libc::SYS_nanosleep),
    ("futex", libc::SYS_futex),
    ("membarrier", libc::SYS_membarrier),
    ("mmap", libc::SYS_mmap),
    ("munmap", libc::SYS_munmap),
    ("mremap", libc::SYS_mremap),
    ("madvise", libc::SYS_madvise),
    ("mprotect", libc::SYS_mprotect),
    ("brk", libc::SYS_brk),
    ("memfd_create", libc::SYS_memfd_create),
    ("ftruncate", libc::SYS_ftruncate),
    ("fallocate", libc::SYS_fallocate),
    ("fcntl", libc::SYS_fcntl),
    ("openat", libc::SYS_openat),
    ("read", libc::SYS_read),
    ("write", libc::SYS_write),
    ("close", libc::SYS_close),
    ("statx", libc::SYS_statx),
    ("fstat", libc::SYS_fstat),
    ("newfstatat", libc::SYS_newfstatat),
    ("readlink", libc::SYS_readlink),
    ("poll", libc::SYS_poll),
    ("ppoll", libc::SYS_ppoll),
    ("socket", libc::SYS_socket),
    ("connect", libc::SYS_connect),
    ("sendmsg", libc::SYS_sendmsg),
    ("recvfrom", libc::SYS_recvfrom),
    ("getsockopt", libc::SYS_getsockopt),
    ("getpid", libc::SYS_getpid),
    ("gettid", libc::SYS_gettid),
    ("geteuid", libc::SYS_geteuid),
    ("getrandom", libc::SYS_getrandom),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    ("rt_sigpending", libc::SYS_rt_sigpending),
    ("sched_yield", libc::SYS_sched_yield),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("clone", libc::SYS_clone),
    ("clone3", libc::SYS_clone3),
    ("prctl", libc::SYS_prctl),
    ("rseq", libc::SYS_rseq),
];

/// Runs the program under every filter that refuses with this error.
fn refuse_each(error: i32) {
    let Some((server, workshop, first)) = begin("filtered.c", &["1000", "1", "before", "page"])
    else {
        return;
    };
    drop(first);
    let program = workshop.path("filtered.c.made");
    let socket = server.socket();
    let each = CALLS
        .iter()
        .flat_map(|call| ["before", "after"].map(|when| (call, when)));
    let left: Vec<_> = each
        .flat_map(|(call, when)| {
            // Most machines read clocks without a call; without that, all of the library's clocks are refused.
            let clocks: &[&str] = match call.0 {
                "clock_gettime" => &["page", "calls"],
                _ => &["page"],
            };
            clocks.iter().map(move |clocks| (call, when, *clocks))
        })
        .collect();
    let left = Mutex::new(left);
    let harmed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _thread in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no thread panics").pop();
                    let Some(((name, call), when, clocks)) = next else {
                        return;
                    };
                    let harm = harm(&program, &socket, [*call, error.into()], when, clocks);
                    if let Some(harm) = harm {
                        let text = format!("{name} {when}, clocks by {clocks}: {harm}");
                        harmed.lock().expect("no thread panics").push(text);
                    }
                }
            });
        }
    });
    let harmed = harmed.into_inner().expect("no thread panics");
    assert!(harmed.is_empty(), "{}", harmed.join("\n"));
}

/// What a filter did to the program; nothing, if all is well.
fn harm(
    program: &Path,
    socket: &Path,
    [call, error]: [libc::c_long; 2],
    when: &str,
    clocks: &str,
) -> Option<String> {
    let (number, error) = (call.to_string(), error.to_string());
    let arguments = [number.as_str(), error.as_str(), when, clocks];
    let ended = Story::begin(program, &arguments, socket).end();
    let said_by_us = |line: &str| line.starts_with("ttmem: ");
    let printed: Option<u32> = ended
        .stdout
        .first()
        .and_then(|line| line.strip_prefix("ended "))
        .and_then(|percent| percent.parse().ok());
    let has_printed = printed.is_some() || call == libc::SYS_write;
    let is_well = ended.code == Some(9)
        && has_printed
        && printed.is_none_or(|percent| percent <= MAX_PERCENT)
        && ended.stderr.lines().all(said_by_us);
    (!is_well).then(|| format!("{ended:?}"))
}

#[test]
fn calls_may_be_forbidden() {
    refuse_each(libc::EPERM);
}

#[test]
fn calls_may_be_unknown() {
    if !is_left_to_the_whole_run("the same calls again, with another error") {
        refuse_each(libc::ENOSYS);
    }
}
