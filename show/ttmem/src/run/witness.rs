//! Whether a signal was sent to the whole process group, where the program has it already.
//!
//! The kernel does not mark a signal that was sent to a group. So a second process is in the group:
//! this program once more, with all signals blocked. A signal that is pending there as well was sent to the
//! group (ADR 44).
//!
//! It ends with the process that started it: its socket closes, and the kernel kills it.

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getppid, setpgid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, WaitStatus, waitpid};
use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// How it is called, and how this program recognizes that it is to be one. The program's own name must not
/// be in it: `killall` and `pkill` mean the process that runs the program.
const NAME: &CStr = c"signal-witness";

/// This program, also if its file was replaced meanwhile.
const THIS_PROGRAM: &CStr = c"/proc/self/exe";

/// Time between two checks whether a witness that does not answer was stopped.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// Checks before a witness is taken for one that never answers.
const MAX_CHECKS: u32 = 200;

/// No process can have this number: the kernel's largest is 2^22.
const NO_PROCESS: Pid = Pid::from_raw(i32::MAX);

/// Signals that were received: the number of each, and its sender.
///
/// A signal can also have been sent to the witness alone, by a command that signals every child.
/// The sender tells these apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Received(Vec<[u32; 2]>);

/// Bytes of one of them in an answer.
const RECORD: usize = size_of::<[u32; 2]>();

impl Received {
    pub(super) fn contains(&self, signal: Signal) -> bool {
        let same = |[number, _sender]: &[u32; 2]| i32::try_from(*number) == Ok(signal as i32);
        self.0.iter().any(same)
    }

    pub(super) fn contains_from(&self, signal: Signal, sender: u32) -> bool {
        let number = u32::try_from(signal as i32).unwrap_or(0);
        self.0.contains(&[number, sender])
    }

    pub(super) fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Adds one, once.
    pub(super) fn add(&mut self, number: u32, sender: u32) {
        if !self.0.contains(&[number, sender]) {
            self.0.push([number, sender]);
        }
    }

    fn write(&self, mut to: &UnixStream) -> io::Result<()> {
        let count = u32::try_from(self.0.len()).map_err(io::Error::other)?;
        let mut bytes = count.to_ne_bytes().to_vec();
        bytes.extend(self.0.iter().flatten().flat_map(|part| part.to_ne_bytes()));
        to.write_all(&bytes)
    }

    fn read(mut from: &UnixStream) -> io::Result<Self> {
        let mut count = [0; size_of::<u32>()];
        from.read_exact(&mut count)?;
        let mut received = Self::default();
        for _record in 0..u32::from_ne_bytes(count) {
            let mut record = [0; RECORD];
            from.read_exact(&mut record)?;
            let [a, b, c, d, e, f, g, h] = record;
            let parts = [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes);
            received.0.push(parts);
        }
        Ok(received)
    }
}

#[derive(Debug)]
pub(super) struct Witness {
    pid: Pid,
    socket: UnixStream,
    /// It was waited for, and its number may be another process's by now.
    has_ended: bool,
}

impl Witness {
    /// Starts it in the group of this process.
    pub(super) fn start() -> io::Result<Self> {
        let (socket, other) = UnixStream::pair()?;
        let mut actions = PosixSpawnFileActions::init()?;
        actions.add_dup2(other.as_raw_fd(), 0)?;
        // It keeps no stream of the user open.
        for stream in [1, 2] {
            actions.add_dup2(other.as_raw_fd(), stream)?;
        }
        let mut attributes = PosixSpawnAttr::init()?;
        // From its first moment: it is a member of the group before it is this program.
        attributes.set_sigmask(&SigSet::all())?;
        attributes.set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK)?;
        let (arguments, variables) = ([NAME], [] as [CString; 0]);
        let pid = posix_spawn(THIS_PROGRAM, &actions, &attributes, &arguments, &variables)?;
        Ok(Self {
            pid,
            socket,
            has_ended: false,
        })
    }

    /// The signals that it received since the last time; waits for those that are being sent now.
    pub(super) fn take(&mut self) -> io::Result<Received> {
        wait_for_senders();
        self.socket.write_all(&[0])?;
        let mut checks = 0;
        while !is_readable(&self.socket)? {
            self.continue_it()?;
            checks += 1;
            if checks == MAX_CHECKS {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let received = Received::read(&self.socket)?;
        wait_for_senders();
        Ok(received)
    }

    /// Whether it was ended by another process.
    pub(super) fn has_ended(&mut self) -> bool {
        // An error: it is not our child any more.
        let status = self.changed(WaitOptions::NOHANG);
        status.map_or(true, |_same| self.has_ended)
    }

    /// Continues it if it was stopped with the group, and this process was continued alone.
    fn continue_it(&mut self) -> io::Result<()> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        match self.changed(options)? {
            Some(status) if status.stopped() => Ok(kill(self.pid, Signal::SIGCONT)?),
            Some(_ended) => Err(io::ErrorKind::BrokenPipe.into()),
            None => Ok(()),
        }
    }

    fn changed(&mut self, options: WaitOptions) -> rustix::io::Result<Option<WaitStatus>> {
        if self.has_ended {
            return Ok(None);
        }
        let pid = rustix::process::Pid::from_raw(self.pid.as_raw());
        let changed = waitpid(pid, options)?;
        let status = changed.map(|(_pid, status)| status);
        self.has_ended = status.is_some_and(|status| !status.stopped());
        Ok(status)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let _ended = kill(self.pid, Signal::SIGKILL);
        let _waited = self.changed(WaitOptions::empty());
    }
}

fn is_readable(socket: &UnixStream) -> io::Result<bool> {
    let mut ready = [PollFd::new(socket, PollFlags::IN)];
    match poll(&mut ready, Some(&PATIENCE)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns after every `kill` of a group that had reached this process has reached all the others.
///
/// The kernel holds a lock on the list of processes while it sends to a group; `setpgid` takes the
/// same lock for writing, before it finds that there is no such process.
fn wait_for_senders() {
    let _no_process = setpgid(NO_PROCESS, NO_PROCESS);
}

/// Whether this process was started to be a witness.
pub(crate) fn is_meant(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| name.as_encoded_bytes() == NAME.to_bytes())
}

/// Answers every byte with the signals that are pending, until the other end of the socket is closed.
pub(crate) fn serve() -> ExitCode {
    // By the name of its file it would be `exe`. Neither failure keeps it from answering, and a closed socket ends it too.
    let _named = prctl::set_name(NAME);
    let _bound = prctl::set_pdeathsig(Signal::SIGKILL);
    match answer() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads what it could report; the other end sees it end.
        Err(_broken) => ExitCode::FAILURE,
    }
}

fn answer() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let pending = SignalFd::with_flags(&SigSet::all(), flags)?;
    let mut question = [0];
    while (&socket).read(&mut question)? != 0 {
        received(&pending)?.write(&socket)?;
    }
    Ok(())
}

fn received(pending: &SignalFd) -> io::Result<Received> {
    let parent = u32::try_from(getppid().as_raw()).ok();
    let mut received = Received::default();
    loop {
        match pending.read_signal() {
            // By this one its parent continued it.
            Ok(Some(signal)) if Some(signal.ssi_pid) == parent => {}
            Ok(Some(signal)) => received.add(signal.ssi_signo, signal.ssi_pid),
            Ok(None) => return Ok(received),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
