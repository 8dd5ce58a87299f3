//! Who is at the other end of a connection, by the kernel's word.
//!
//! Called when a client identifies itself; a reader gets its credentials only. Nothing the client
//! claims is used, except its name, which it is free to choose and which is for display only.
//! A process is identified by its pid together with its start time, since pids are reused, and
//! its death is learned from its pidfd, never by sending signals to a pid.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::clock::unix_nanos;
use ttmem_ledger::UNKNOWN_USER;
use ttmem_report::is_deceptive;
use ttmem_ring::uid;

/// Characters of a process name that are kept.
const MAX_NAME_CHARS: usize = 64;

/// Bytes of a file under `/proc` that are looked at; an argument vector can be megabytes long.
const MAX_PROC_BYTES: u64 = 4096;

/// A command line is cut behind so many bytes.
const MAX_COMMAND_BYTES: usize = 1024;

/// Duration of the clock tick that `/proc/<pid>/stat` counts in, in nanoseconds.
///
/// The kernel's `USER_HZ` is part of its interface and 100 on every architecture that carries our
/// devices (x86-64, AArch64, RISC-V).
const TICK_NANOS: u64 = 1_000_000_000 / 100;

#[derive(Debug)]
pub(crate) struct Peer {
    /// Its pid; none if it lives in a PID namespace that ours cannot see.
    pub(crate) pid: Option<u32>,
    /// As in [`Credentials`].
    pub(crate) uid: u32,
    /// When it started, in clock ticks since boot: with `pid`, its identity.
    ///
    /// None if `/proc` hides it, or if it is gone and the pid may be another's by now.
    pub(crate) start_time: Option<u64>,
    /// When it started, in nanoseconds since 1970: for display, as it moves with the clock.
    pub(crate) start_unix_nanos: Option<u64>,
    /// What to call it; printable, at most 64 characters, chosen by the process itself.
    pub(crate) name: String,
    /// Its command line; chosen by the process as well, and as it wrote it.
    pub(crate) command: Option<String>,
    /// Becomes readable when it dies. None if it was gone already.
    pub(crate) pidfd: Option<OwnedFd>,
    pub(crate) image: Option<ProgramImage>,
}

impl Peer {
    /// Whether it has ended.
    pub(crate) fn is_gone(&self) -> bool {
        !self.pidfd.as_ref().is_some_and(is_alive)
    }
}

/// What distinguishes a program from the one that replaces it by exec.
///
/// Where the kernel put its code, its stack and its environment: at random for every program
/// start, and nothing that a program moves while it runs. Where addresses are not random, a
/// program that executes itself again in the same environment looks the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramImage {
    code: u64,
    stack: u64,
    environment: u64,
}

/// Who connected, or who listened, at that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credentials {
    /// None if it lives in a PID namespace that ours cannot see.
    pub(crate) pid: Option<u32>,
    /// [`UNKNOWN_USER`], which is nobody's equal, if the user has no mapping into our namespace: to a
    /// server in a container all others on the machine look alike.
    pub(crate) uid: u32,
}

/// The credentials of a socket's peer.
///
/// By nix: rustix has no pid of 0, which is what the kernel gives for an unseen namespace.
pub(crate) fn credentials(socket: &impl AsFd) -> io::Result<Credentials> {
    let credentials = getsockopt(socket, sockopt::PeerCredentials)?;
    let pid = u32::try_from(credentials.pid()).ok();
    let uid = Some(credentials.uid()).filter(|uid| !uid::is_overflow(*uid));
    Ok(Credentials {
        pid: pid.filter(|pid| *pid != 0),
        uid: uid.unwrap_or(UNKNOWN_USER),
    })
}

/// Finds out who connected, or who made the pair for a socket pair.
///
/// A process that has vanished or is hidden makes fields empty, not an error.
pub(crate) fn identify(stream: &UnixStream) -> io::Result<Peer> {
    let Credentials { pid, uid } = credentials(stream)?;
    let (pidfd, process) = match getsockopt(stream, sockopt::PeerPidfd) {
        Ok(pidfd) => {
            let process = pid.and_then(|pid| read_through(&pidfd, pid));
            (Some(pidfd), process)
        }
        // A kernel before 6.5.
        Err(Errno::ENOPROTOOPT) => pid.and_then(open_unreused).unzip(),
        // The kernel knows that the process is gone: its pid means nothing any more.
        Err(_) => (None, None),
    };
    let start_time = process.as_ref().map(|process| process.start_time);
    let image = process.as_ref().and_then(|process| process.image);
    let (name, command) = process.map_or((None, None), |it| (it.name, it.command));
    Ok(Peer {
        pid,
        uid,
        start_time,
        start_unix_nanos: start_time.and_then(unix_nanos_of_start),
        name: name.unwrap_or_else(|| "unknown".to_owned()),
        command,
        pidfd,
        image,
    })
}

/// The program that the process behind `pidfd`, whose pid is `pid`, runs now.
///
/// None if it is gone, if this process may not know, and while an exec is under way.
pub(crate) fn program_image(pidfd: &OwnedFd, pid: u32) -> Option<ProgramImage> {
    let image = parse_image(&read_proc(pid, "stat")?)?;
    is_alive(pidfd).then_some(image)
}

/// Whether the process behind a pidfd has not exited yet; a zombie counts as dead.
///
/// Waiting for the descriptor to become readable is waiting for the process to end.
pub(crate) fn is_alive(pidfd: impl AsFd) -> bool {
    let pidfd = pidfd.as_fd();
    loop {
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(ready) => return ready == 0,
            Err(rustix::io::Errno::INTR) => {}
            // Memory of a process is never given up on a guess.
            Err(_) => return true,
        }
    }
}

/// Whether the other end of a connection has been closed.
pub(crate) fn has_hung_up(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    let hung_up = PollFlags::RDHUP | PollFlags::HUP;
    poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().intersects(hung_up)
}

/// The name under which to show the process `pid`, if `/proc` has one.
pub(crate) fn process_name(pid: u32) -> Option<String> {
    let from_arguments = read_proc(pid, "cmdline").and_then(|arguments| {
        let program = arguments.split(|&byte| byte == 0).next()?;
        let base = program.rsplit(|&byte| byte == b'/').next()?;
        printable(base)
    });
    from_arguments.or_else(|| {
        let comm = read_proc(pid, "comm")?;
        printable(comm.strip_suffix(b"\n").unwrap_or(&comm))
    })
}

/// The arguments of a process in one line, cut where they are very long; none of a process that has
/// none, such as one that is exiting.
pub(crate) fn command_line(pid: u32) -> Option<String> {
    let bytes = read_proc(pid, "cmdline")?;
    let bytes = &bytes[..bytes.len().min(MAX_COMMAND_BYTES)];
    joined_arguments(bytes)
}

fn joined_arguments(bytes: &[u8]) -> Option<String> {
    let words = bytes.split(|byte| *byte == 0);
    let words = words.filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

struct Process {
    start_time: u64,
    name: Option<String>,
    command: Option<String>,
    image: Option<ProgramImage>,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let stat = read_proc(pid, "stat")?;
        Some(Self {
            start_time: parse_field(&stat, 22)?,
            name: process_name(pid),
            command: command_line(pid),
            image: parse_image(&stat),
        })
    }
}

/// Reads about the process behind `pidfd`, whose pid is `pid`.
///
/// None if the pid may have passed to another process before or while it was read.
fn read_through(pidfd: &OwnedFd, pid: u32) -> Option<Process> {
    let process = Process::read(pid)?;
    // A pid is not reused before its process has been waited for.
    (is_alive(pidfd) || is_unreaped(pidfd.as_fd(), pid)).then_some(process)
}

/// Whether the process behind `pidfd`, though it may have exited, still occupies `pid`.
fn is_unreaped(pidfd: BorrowedFd<'_>, pid: u32) -> bool {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    fs::read_to_string(path).is_ok_and(|info| {
        // -1 once the process has been waited for.
        let number = info.lines().find_map(|line| line.strip_prefix("Pid:"));
        number.and_then(|number| number.trim().parse().ok()) == Some(pid)
    })
}

/// Opens a pidfd by number, for kernels that cannot derive it from the socket.
///
/// Equal start times before and after show that the number stood for one process meanwhile. That
/// it was the connecting one cannot be shown; it would have to exit, and its pid be reused, between
/// its connecting and this call.
fn open_unreused(pid: u32) -> Option<(OwnedFd, Process)> {
    let before = Process::read(pid)?;
    let raw_pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let pidfd = pidfd_open(raw_pid, PidfdFlags::empty()).ok()?;
    let after = read_through(&pidfd, pid)?;
    (before.start_time == after.start_time).then_some((pidfd, after))
}

fn read_proc(pid: u32, file: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/{file}")).ok()?;
    file.take(MAX_PROC_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Fields 26, 28 and 50 of `/proc/<pid>/stat`: zeros for who may not see them, and until an exec
/// has come to set them.
fn parse_image(stat: &[u8]) -> Option<ProgramImage> {
    let image = ProgramImage {
        code: parse_field(stat, 26)?,
        stack: parse_field(stat, 28)?,
        environment: parse_field(stat, 50)?,
    };
    (image.stack != 0 && image.environment != 0).then_some(image)
}

/// A field of `/proc/<pid>/stat` from the third on, as the manual numbers them.
fn parse_field(stat: &[u8], number: usize) -> Option<u64> {
    // Field 2 is the command in parentheses and may itself contain spaces and parentheses; no
    // later field does, so the last one closes it. What follows begins with field 3.
    let command_end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = str::from_utf8(stat.get(command_end + 1..)?).ok()?;
    let index = number.checked_sub(3)?;
    rest.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// When a process started, by today's difference between the two clocks.
fn unix_nanos_of_start(start_ticks: u64) -> Option<u64> {
    let since_boot = Duration::try_from(clock_gettime(ClockId::Boottime)).ok()?;
    let boot = unix_nanos().checked_sub(u64::try_from(since_boot.as_nanos()).ok()?)?;
    boot.checked_add(start_ticks.checked_mul(TICK_NANOS)?)
}

/// A name that can be put on a line of its own, or none if nothing is left.
pub(crate) fn printable(bytes: &[u8]) -> Option<String> {
    printable_up_to(MAX_NAME_CHARS, bytes)
}

/// So many characters of a text that can be put on a line of its own, or none if nothing is left.
pub(crate) fn printable_up_to(most_chars: usize, bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let name: String = text
        .chars()
        .take(most_chars)
        .map(|char| if is_deceptive(char) { '?' } else { char })
        .collect();
    (!name.trim().is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
