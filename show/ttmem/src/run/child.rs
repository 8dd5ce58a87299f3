//! The program that is run: started with nothing of ours but its environment, and waited for.
//!
//! A signal that is sent to this process is meant for the program, so it is passed on. All of these signals
//! are blocked here in every thread and read. One that was sent to the whole group, as by the
//! terminal, is not passed on: the program has it already (`witness.rs`).

use super::witness::{Received, Witness};
use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::libc::{SI_KERNEL, SIGCHLD, signalfd_siginfo};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpgid, getpid, getsid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, waitpid};
use std::ffi::{CStr, CString, NulError, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What is passed on to the program.
const PASSED_ON: [Signal; 9] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Readings of the signals that arrive while the witness is queried; more come only in a storm.
const MAX_READINGS: usize = 16;

/// What runs a script that names nothing else.
const SHELL: &CStr = c"/bin/sh";

/// What a shell adds to the number of the signal that ended a program.
const KILLED_BY: i32 = 128;

#[derive(Debug, thiserror::Error)]
#[error("cannot start {command}{}", meant(command))]
pub(crate) struct StartChildError {
    command: String,
    source: Errno,
}

/// What was meant by the name of a Python script that is there.
fn meant(command: &str) -> String {
    if command.ends_with(".py") && std::path::Path::new(command).is_file() {
        format!(" (a script needs its interpreter: `ttmem run -- python {command}`)")
    } else {
        String::new()
    }
}

impl StartChildError {
    /// Whether there is nothing that could have been started.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self.source, Errno::ENOENT | Errno::ENOTDIR)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Exited(i32),
    Killed(i32),
}

impl Ended {
    /// Its exit code, by the convention of shells.
    pub(crate) fn code(self) -> u8 {
        let code = match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => KILLED_BY.saturating_add(signal),
        };
        // The kernel gives no more than eight bits of a code, and signals end at 64.
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

/// The signals of this process, blocked and to be read.
#[derive(Debug)]
pub(super) struct Signals {
    incoming: SignalFd,
    /// What was blocked before: the program's business, and no longer ours.
    inherited: SigSet,
}

impl Signals {
    /// Blocks them; to be called before any thread is started, as threads inherit what is blocked.
    pub(super) fn block() -> Result<Self> {
        ensure!(
            !ignores_children(),
            "SIGCHLD is ignored in whatever started this, so nobody could learn how the command \
             ends"
        );
        let mut signals: SigSet = PASSED_ON.into_iter().collect();
        signals.add(Signal::SIGCHLD);
        let inherited = signals
            .thread_swap_mask(SigmaskHow::SIG_BLOCK)
            .context("cannot block signals")?;
        // Where files may not grow a write of ours fails; the program dies of it if it would plainly.
        let file_size = SigSet::from(Signal::SIGXFSZ).thread_block();
        file_size.context("cannot block signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let incoming = SignalFd::with_flags(&signals, flags).context("cannot read signals")?;
        Ok(Self {
            incoming,
            inherited,
        })
    }

    /// Waits until there is one, if a time is given at most for that long; whether there is one.
    fn wait(&self, time: Option<&Timespec>) -> rustix::io::Result<bool> {
        let mut ready = [PollFd::new(&self.incoming, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut ready, time)).map(|count| count > 0)
    }

    /// Adds those that are there; whether there were any.
    fn read(&self, to: &mut Vec<signalfd_siginfo>) -> nix::Result<bool> {
        let before = to.len();
        loop {
            match self.incoming.read_signal() {
                Ok(Some(signal)) => to.push(signal),
                Ok(None) => return Ok(to.len() > before),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The streams of a program where they are not to be ours.
#[derive(Debug, Default)]
pub(super) struct Streams {
    pub(super) input: Option<OwnedFd>,
    pub(super) output: Option<OwnedFd>,
    pub(super) error: Option<OwnedFd>,
}

impl Streams {
    /// What makes them those of a program that is started.
    fn actions(&self) -> nix::Result<PosixSpawnFileActions> {
        let mut actions = PosixSpawnFileActions::init()?;
        for (number, stream) in (0..).zip([&self.input, &self.output, &self.error]) {
            if let Some(stream) = stream {
                actions.add_dup2(stream.as_raw_fd(), number)?;
            }
        }
        Ok(actions)
    }
}

#[derive(Debug)]
pub(super) struct Child {
    pid: Pid,
    /// None where another process cannot be had: the program matters more.
    witness: Option<Witness>,
    /// It is stopped, as far as we know.
    stopped: bool,
    /// We were asked to stop, and have not yet.
    stop_asked: bool,
}

impl Child {
    /// Starts a program in this environment, with these streams.
    pub(super) fn start(
        command: &[OsString],
        environment: impl Iterator<Item = (OsString, OsString)>,
        streams: &Streams,
        signals: &Signals,
    ) -> Result<Self> {
        let arguments = command.iter().map(|word| CString::new(word.as_bytes()));
        let arguments: Vec<CString> = arguments.collect::<Result<_, NulError>>()?;
        let variables = environment.map(|(name, value)| {
            let mut line = name.into_vec();
            line.push(b'=');
            line.extend_from_slice(value.as_bytes());
            CString::new(line)
        });
        let variables: Vec<CString> = variables.collect::<Result<_, NulError>>()?;
        let program = arguments.first().context("there is no command")?;
        // Before the program, which may send signals to its group as soon as it runs.
        let witness = Witness::start().ok();
        let started = match spawn(program, &arguments, &variables, streams, signals) {
            // A script that does not say what runs it: for shells, that is the shell.
            Err(Errno::ENOEXEC) if program.as_bytes().contains(&b'/') => {
                let mut by_shell = vec![SHELL.to_owned()];
                by_shell.extend_from_slice(&arguments);
                spawn(SHELL, &by_shell, &variables, streams, signals)
            }
            started => started,
        };
        let pid = started.map_err(|source| {
            let command = program.to_string_lossy().into_owned();
            StartChildError { command, source }
        })?;
        Ok(Self {
            pid,
            witness,
            stopped: false,
            stop_asked: false,
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Waits for its end, and passes on what comes meanwhile.
    pub(super) fn wait(mut self, signals: &Signals) -> Result<Ended> {
        loop {
            signals.wait(None).context("cannot wait for signals")?;
            let (batch, of_group) = self.received(signals).context("cannot read signals")?;
            for signal in batch {
                match signal_of(&signal) {
                    Some(Signal::SIGCHLD) => {
                        if let Some(ended) = self.changed()? {
                            return Ok(ended);
                        }
                    }
                    Some(other) => self.pass_on(other, &signal, of_group.as_ref()),
                    None => {}
                }
                self.stop_with_it()?;
            }
        }
    }

    /// Reads the signals that are there, and those among them that the whole group received; none
    /// if that cannot be found out.
    ///
    /// A signal that arrives between reading it here and at the witness would be seen by one of
    /// them alone: so both are read until nothing is left here.
    fn received(
        &mut self,
        signals: &Signals,
    ) -> nix::Result<(Vec<signalfd_siginfo>, Option<Received>)> {
        let mut batch = Vec::new();
        let mut of_group = Received::default();
        for _reading in 0..MAX_READINGS {
            let are_more = signals.read(&mut batch)?;
            let is_ours = |signal: &signalfd_siginfo| signal_of(signal) == Some(Signal::SIGCHLD);
            if !are_more || batch.iter().all(is_ours) {
                break;
            }
            match self.witness.as_mut().map(Witness::take) {
                Some(Ok(received)) => of_group.join(received),
                Some(Err(_broken)) => {
                    self.witness = Witness::start().ok();
                    return Ok((batch, None));
                }
                None => return Ok((batch, None)),
            }
        }
        Ok((batch, Some(of_group)))
    }

    /// Takes note of what became of it; how it ended, if it did.
    fn changed(&mut self) -> Result<Option<Ended>> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        let pid = rustix::process::Pid::from_raw(self.pid.as_raw());
        if self.witness.as_mut().is_some_and(Witness::has_ended) {
            self.witness = Witness::start().ok();
        }
        // Several changes may have come as one signal.
        while let Some((_pid, status)) =
            waitpid(pid, options).context("cannot learn how the command ended")?
        {
            if let Some(code) = status.exit_status() {
                return Ok(Some(Ended::Exited(code)));
            }
            if let Some(signal) = status.terminating_signal() {
                return Ok(Some(Ended::Killed(signal)));
            }
            self.stopped = status.stopped();
        }
        Ok(None)
    }

    fn pass_on(&mut self, signal: Signal, info: &signalfd_siginfo, of_group: Option<&Received>) {
        match signal {
            Signal::SIGTSTP => self.stop_asked = true,
            Signal::SIGCONT => self.stop_asked = false,
            _ => {}
        }
        let has_it = match of_group {
            Some(of_group) => {
                was_sent_to_group(signal, info.ssi_pid, of_group) && self.is_in_our_group()
            }
            None => was_sent_by_terminal(signal, info.ssi_code),
        };
        // It was not waited for yet, so its number is its own. If it may not be signalled, because
        // it became another user, then nobody of this user could.
        if !has_it {
            let _sent = kill(self.pid, signal);
        }
    }

    fn is_in_our_group(&self) -> bool {
        getpgid(Some(self.pid)) == getpgid(None)
    }

    /// Stops as the program does, so that the shell sees a stopped job.
    ///
    /// Only if this process was asked to: whoever stops the program alone continues it alone.
    fn stop_with_it(&mut self) -> Result<()> {
        if self.stopped && self.stop_asked {
            self.stop_asked = false;
            raise(Signal::SIGSTOP).context("cannot stop with the command")?;
        }
        Ok(())
    }
}

/// Whether the kernel is to forget children of this process as soon as they end.
///
/// That is inherited from whoever started it, and then there is neither a signal nor a status.
fn ignores_children() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is signal 1.
    ignored.is_some_and(|mask| mask & (1 << (SIGCHLD - 1)) != 0)
}

/// The signal with this number, if it is one that is read here.
fn signal_of(signal: &signalfd_siginfo) -> Option<Signal> {
    let number = i32::try_from(signal.ssi_signo).ok();
    number.and_then(|number| Signal::try_from(number).ok())
}

/// Whether the program got a signal together with this process.
fn was_sent_to_group(signal: Signal, sender: u32, of_group: &Received) -> bool {
    // The kernel drops pending requests to stop when one to go on comes, and the reverse. Where the
    // group got the later one, the earlier one must not come after it.
    let later = match signal {
        Signal::SIGTSTP => Some(Signal::SIGCONT),
        Signal::SIGCONT => Some(Signal::SIGTSTP),
        _ => None,
    };
    of_group.contains_from(signal, sender) || later.is_some_and(|later| of_group.contains(later))
}

/// The same where there is no witness, as far as the signal itself tells.
///
/// The kernel signals the terminal's whole foreground group, where the program is too. Only the
/// end of the terminal is signalled to the leader of its session alone.
fn was_sent_by_terminal(signal: Signal, code: i32) -> bool {
    let of_the_leader = matches!(signal, Signal::SIGHUP | Signal::SIGCONT);
    code == SI_KERNEL && !(of_the_leader && getsid(None) == Ok(getpid()))
}

fn spawn(
    program: &CStr,
    arguments: &[CString],
    variables: &[CString],
    streams: &Streams,
    signals: &Signals,
) -> nix::Result<Pid> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_sigmask(&signals.inherited)?;
    // A Rust program ignores it, and what is ignored would be inherited.
    attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
    )?;
    let actions = streams.actions()?;
    posix_spawnp(program, &actions, &attributes, arguments, variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(Ended::Exited(0).code(), 0);
        assert_eq!(Ended::Exited(255).code(), 255);
        assert_eq!(Ended::Killed(15).code(), 143);
        assert_eq!(Ended::Killed(64).code(), 192);
    }

    #[test]
    fn without_a_witness_only_terminal_signals_are_kept() {
        const SI_USER: i32 = 0;
        assert!(was_sent_by_terminal(Signal::SIGINT, SI_KERNEL));
        assert!(!was_sent_by_terminal(Signal::SIGINT, SI_USER));
        assert!(!was_sent_by_terminal(Signal::SIGHUP, SI_USER));
    }

    #[test]
    fn a_later_stop_or_continue_replaces_the_earlier() {
        let kept = |signal, of_group| was_sent_to_group(signal, 1, &received(of_group));
        assert!(kept(Signal::SIGINT, Signal::SIGINT));
        assert!(!kept(Signal::SIGINT, Signal::SIGTERM));
        assert!(!kept(Signal::SIGINT, Signal::SIGCONT));
        assert!(kept(Signal::SIGTSTP, Signal::SIGCONT));
        assert!(kept(Signal::SIGCONT, Signal::SIGTSTP));
    }

    #[test]
    fn another_sender_is_another_signal() {
        let received = received(Signal::SIGINT);
        assert!(was_sent_to_group(Signal::SIGINT, 1, &received));
        assert!(!was_sent_to_group(Signal::SIGINT, 2, &received));
    }

    fn received(signal: Signal) -> Received {
        let mut received = Received::default();
        received.add(u32::try_from(signal as i32).expect("a number"), 1);
        received
    }
}
