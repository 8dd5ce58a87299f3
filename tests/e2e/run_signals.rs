//! `ttmem run`: a program and its children receive every signal exactly as often as without it.

use super::support::c_program::{Linked, Workshop, is_there};
use super::support::server::{Killed, ttmem};
use super::support::wait_until;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SIGNALS: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

const TIMES: u32 = 50;

/// The process that makes sure that a group received a signal (`show/ttmem/src/run/witness.rs`).
const WITNESS: &str = "signal-witness";

/// Receipts of a signal by a process of the group.
type Counts = BTreeMap<(String, Signal), u32>;

/// The program of `group.c` with its child, and what started it.
struct Group {
    _started: Killed,
    lines: BufReader<std::process::ChildStdout>,
    program: Pid,
    /// `ttmem run`, or the program itself where there is none.
    outer: Pid,
}

/// `group.c`, compiled; `None`, after saying so, where nothing can be compiled.
struct Bench {
    workshop: Workshop,
    program: PathBuf,
}

impl Bench {
    fn open() -> Option<Self> {
        let workshop = Workshop::open()?;
        let program = workshop.program("group.c", Linked::Not);
        Some(Self { workshop, program })
    }

    fn plain(&self, mode: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(mode);
        command
    }

    fn run(&self, mode: &str) -> Command {
        let mut command = ttmem();
        // No server listens there: each run has its own.
        command.env("XDG_RUNTIME_DIR", self.workshop.path("empty"));
        command.args(["run", "--no-attach", "--report", "/dev/null", "--"]);
        command.arg(&self.program).arg(mode);
        command
    }
}

impl Group {
    fn start(mut command: Command, is_run: bool) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut started = Killed(command.spawn().expect("it starts"));
        let mut lines = BufReader::new(started.0.stdout.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("text");
        let numbers: Vec<i32> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let numbers: [i32; 3] = numbers.try_into().expect("three numbers");
        let [program, _child, parent] = numbers;
        let outer = if is_run { parent } else { program };
        Self {
            _started: started,
            lines,
            program: Pid::from_raw(program),
            outer: Pid::from_raw(outer),
        }
    }

    /// Starts it as a process group.
    fn as_group(mut command: Command, is_run: bool) -> Self {
        command.process_group(0);
        Self::start(command, is_run)
    }

    fn line(&mut self) -> (String, Signal) {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        let (who, number) = line.trim_end().split_once(' ').expect("a signal");
        let number: i32 = number.parse().expect("a number");
        (
            who.to_owned(),
            Signal::try_from(number).expect("a known signal"),
        )
    }

    /// Counts receipts until a signal that is sent to the outer process has reached the program:
    /// whatever it had to pass on before has been passed on.
    fn count_until(&mut self, last: Signal, counts: &mut Counts) {
        kill(self.outer, last).expect("it runs");
        loop {
            let receipt = self.line();
            if receipt == ("program".to_owned(), last) {
                return;
            }
            *counts.entry(receipt).or_default() += 1;
        }
    }

    /// Sends a signal again and again: how often each process received which signal.
    fn count(&mut self, signal: Signal, receivers: usize, mut send: impl FnMut()) -> Counts {
        let mut counts = Counts::new();
        let last = match signal {
            Signal::SIGUSR1 => Signal::SIGUSR2,
            _ => Signal::SIGUSR1,
        };
        for _time in 0..TIMES {
            send();
            for _receiver in 0..receivers {
                *counts.entry(self.line()).or_default() += 1;
            }
            self.count_until(last, &mut counts);
        }
        self.count_until(last, &mut counts);
        counts
    }

    fn witness(&self) -> Option<Pid> {
        let tasks = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.outer)).ok()?;
        let children = tasks.split_whitespace().map(|pid| pid.parse::<i32>());
        let named = |pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim_end() == WITNESS)
        };
        let pid = children.filter_map(Result::ok).find(named)?;
        Some(Pid::from_raw(pid))
    }

    /// The witness, which takes its name some milliseconds after the program has started.
    fn named_witness(&self) -> Pid {
        let mut witness = None;
        wait_until("the witness has its name", || {
            witness = self.witness();
            witness.is_some()
        });
        witness.expect("just found")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It outlives a killed `ttmem run`.
        let _ended = kill(self.program, Signal::SIGKILL);
    }
}

/// Each receipt that is expected, as often as it was sent.
fn expected(receivers: &[&str], signal: Signal) -> Counts {
    let of = |who: &&str| (((*who).to_owned(), signal), TIMES);
    receivers.iter().map(of).collect()
}

/// Whether a process has ended, also if nobody has waited for it.
fn has_ended(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    let state = stat.ok().and_then(|stat| {
        let (_name, rest) = stat.rsplit_once(") ")?;
        rest.chars().next()
    });
    state.is_none_or(|state| "ZX".contains(state))
}

#[test]
fn one_signal_to_the_group_is_received_once() {
    let Some(bench) = Bench::open() else { return };
    for is_run in [false, true] {
        let command = if is_run {
            bench.run("together")
        } else {
            bench.plain("together")
        };
        let mut group = Group::as_group(command, is_run);
        let outer = group.outer;
        for signal in SIGNALS {
            let send = || killpg(outer, signal).expect("it runs");
            let counts = group.count(signal, 2, send);
            assert_eq!(
                counts,
                expected(&["program", "child"], signal),
                "{signal}, run: {is_run}"
            );
        }
    }
}

#[test]
fn one_signal_to_one_process_is_received_once() {
    let Some(bench) = Bench::open() else { return };
    let mut group = Group::as_group(bench.run("together"), true);
    for to in [group.outer, group.program] {
        for signal in SIGNALS {
            let send = || kill(to, signal).expect("it runs");
            let counts = group.count(signal, 1, send);
            assert_eq!(counts, expected(&["program"], signal), "{signal} to {to}");
        }
    }
}

#[test]
fn a_program_in_another_group_receives_signals_once() {
    let Some(bench) = Bench::open() else { return };
    let mut group = Group::as_group(bench.run("apart"), true);
    let outer = group.outer;
    for signal in SIGNALS {
        let send = || killpg(outer, signal).expect("it runs");
        let counts = group.count(signal, 1, send);
        assert_eq!(counts, expected(&["program"], signal), "{signal}");
    }
}

#[test]
fn terminal_signals_are_received_once() {
    let Some(bench) = Bench::open() else { return };
    if !is_there("setsid") {
        return;
    }
    for is_run in [false, true] {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&terminal).expect("a terminal");
        unlockpt(&terminal).expect("a terminal");
        let name = ptsname(&terminal, Vec::new()).expect("a name");
        let keyboard = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().expect("text"))
            .expect("the other end");
        let inner = if is_run {
            bench.run("together")
        } else {
            bench.plain("together")
        };
        let mut group = Group::start(on_terminal(&inner, keyboard), is_run);
        let mut hands = File::from(terminal);
        for (key, signal) in [
            (b"\x03", Signal::SIGINT),
            (b"\x1c", Signal::SIGQUIT),
            (b"\x1a", Signal::SIGTSTP),
        ] {
            let counts = group.count(signal, 2, || hands.write_all(key).expect("a key"));
            let expected = expected(&["program", "child"], signal);
            assert_eq!(counts, expected, "{signal}, run: {is_run}");
        }
        let mut size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let resize = || {
            size.ws_col ^= 1;
            tcsetwinsize(&hands, size).expect("a terminal");
        };
        let counts = group.count(Signal::SIGWINCH, 2, resize);
        let expected = expected(&["program", "child"], Signal::SIGWINCH);
        assert_eq!(counts, expected, "run: {is_run}");
    }
}

/// The command on a terminal that is its own, as leader of its session.
fn on_terminal(inner: &Command, keyboard: File) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(inner.get_program());
    command.args(inner.get_args()).stdin(keyboard);
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn a_signal_reaches_a_stopped_group_through_run() {
    let Some(bench) = Bench::open() else { return };
    let mut group = Group::as_group(bench.run("together"), true);
    let is_stopped = |pid: Pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        stat.contains(") T ")
    };
    let witness = group.named_witness();
    for _time in 0..3 {
        killpg(group.outer, Signal::SIGSTOP).expect("it runs");
        wait_until("all are stopped", || {
            [group.outer, group.program, witness].map(is_stopped) == [true; 3]
        });
        // The witness is still stopped when it is queried.
        kill(group.outer, Signal::SIGCONT).expect("it runs");
        assert_eq!(group.line(), ("program".to_owned(), Signal::SIGCONT));
        // The child was stopped with the group, and this does not concern `ttmem run`.
        killpg(group.outer, Signal::SIGCONT).expect("it runs");
        let mut counts = Counts::new();
        for _receiver in 0..2 {
            *counts.entry(group.line()).or_default() += 1;
        }
        group.count_until(Signal::SIGUSR1, &mut counts);
        let both = ["program", "child"].map(|who| ((who.to_owned(), Signal::SIGCONT), 1));
        assert_eq!(counts, both.into());
    }
}

#[test]
fn a_witness_that_was_killed_is_replaced() {
    let Some(bench) = Bench::open() else { return };
    let mut group = Group::as_group(bench.run("together"), true);
    for _time in 0..3 {
        let first = group.named_witness();
        kill(first, Signal::SIGKILL).expect("it runs");
        wait_until("there is another", || {
            group.witness().is_some_and(|next| next != first)
        });
        let outer = group.outer;
        let send = || killpg(outer, Signal::SIGINT).expect("it runs");
        let counts = group.count(Signal::SIGINT, 2, send);
        assert_eq!(counts, expected(&["program", "child"], Signal::SIGINT));
    }
}

#[test]
fn no_process_of_ours_outlives_a_run() {
    let Some(bench) = Bench::open() else { return };
    for way in ["program", "group", "outer", "stopped"] {
        let group = Group::as_group(bench.run("together"), true);
        let witness = group.named_witness();
        match way {
            "program" => kill(group.program, Signal::SIGKILL),
            "group" => killpg(group.outer, Signal::SIGKILL),
            "stopped" => killpg(group.outer, Signal::SIGSTOP)
                .and_then(|()| kill(group.outer, Signal::SIGKILL)),
            _outer => kill(group.outer, Signal::SIGKILL),
        }
        .expect("it runs");
        for (what, pid) in [("ttmem run", group.outer), ("its witness", witness)] {
            wait_until(&format!("{what} has ended after {way}"), || has_ended(pid));
        }
        // Where `ttmem run` alone was killed the program goes on, as with any other parent.
        let survives = matches!(way, "outer" | "stopped");
        assert_eq!(
            Path::new(&format!("/proc/{}", group.program)).exists() && !has_ended(group.program),
            survives,
            "{way}"
        );
    }
}
