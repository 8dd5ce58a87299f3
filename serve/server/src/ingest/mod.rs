//! The thread that talks to clients.
//!
//! One thread waits for all sockets, the deaths of processes, signals and the
//! ledger thread's answers. It decodes what comes and sends commands; it never
//! touches the ledger, and never waits for it: who has sent more than the ledger thread has room
//! for in its lane is not read until there is room again. Readers (HTTP) are recognised by their first byte and handed
//! on untouched. This file is the loop; [`protocols`] handles what connections
//! send, [`lifetimes`] when connections and processes come and go, [`recovery`]
//! what dead processes left in memory.

mod arrivals;
mod client;
mod collected;
mod door;
mod dump_requests;
mod entrance;
mod legacy;
mod lifetimes;
mod poll;
mod processes;
mod protocols;
mod questions;
mod rate;
mod recovery;
mod session;
mod shares;

use crate::in_turns::InTurns;
use crate::ledger_thread::{
    Answer, Command, Lane, LedgerHandle, ProcessCommand, ProcessNumber, Pushed, SessionNumber,
};
use crate::log::{DumpKind, LogHandle};
use crate::read::HttpThread;
use crate::server::ServerConfig;
use crossbeam_channel::Receiver;
use door::Door;
use dump_requests::DumpRequests;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use poll::{Poller, Token};
use processes::Processes;
use questions::Questions;
pub(crate) use recovery::Recovery;
use rustix::event::epoll::EventFlags;
use session::{Protocol, Session};
use shares::{Refusals, SessionShares, SilentSessions};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use ttmem_event::wire::RefusalCode;
use ttmem_ledger::IncompleteReason;

/// A first message of an old client that is complete in one of its sizes waits
/// this long for more bytes before its size is believed.
const MESSAGE_PAUSE: Duration = Duration::from_millis(20);

/// How long a peer may take from its first byte to identifying itself.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// When a process whose connection ended is checked for another program in its place: soon,
/// and once more on a machine that is busy.
const EXEC_CHECKS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// How long a process may take to come back whose connection ended before it was known which program
/// it runs: a client that lives is back after two seconds at most.
const EARLY_END: Duration = Duration::from_secs(5);

/// How long a dead old client may stay listed while connections wait to be accepted: some may be its own. In a storm
/// they always do.
const UNACCEPTED: Duration = Duration::from_secs(1);

/// How often it is looked for them.
const UNACCEPTED_CHECK: Duration = Duration::from_millis(1);

/// How long accepting must not have failed before a shortage is over.
const ACCEPT_FAILURES_OVER: Duration = Duration::from_secs(10);

/// How long a frame or a state that was begun may make little progress, and what little is.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
const STALL_BYTES: u64 = 64 << 10;

/// Bytes read from one process before the others have their turn; a quarter of that where more
/// than a few wait.
const READ_BYTES: usize = 256 << 10;
const FEW: usize = 2;

/// What a read costs beside its bytes: a process's share must not last for hundreds of connections.
const READ_COST_BYTES: usize = 2 << 10;

/// The least that is read at once from a connection that may be read.
const LEAST_READ_BYTES: usize = 16 << 10;

/// A loop that comes round faster than this with little to show for it is being
/// woken message by message; a short sleep then gathers many into one read.
const BUSY_LOOP: Duration = Duration::from_micros(200);
const GATHER: Duration = Duration::from_micros(50);
const GATHER_BELOW_BYTES: usize = 32 << 10;

/// Answers sent before connections have their turn: each may bring the next question.
const ANSWERS: usize = 64;

/// What other threads can see of this one.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) clients: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Set to end the thread; it looks when it is woken.
    pub(crate) stop: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct IngestConfig {
    pub(crate) server: ServerConfig,
    pub(crate) listeners: Vec<UnixListener>,
    pub(crate) signals: Option<SignalFd>,
    pub(crate) wake: Arc<OwnedFd>,
    /// Written to for each connection that the door let in.
    pub(crate) arrived: Arc<OwnedFd>,
    pub(crate) answers: Receiver<Answer>,
    pub(crate) ledger: LedgerHandle,
    pub(crate) http: HttpThread,
    pub(crate) log: LogHandle,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) server_instance: u64,
}

#[derive(Debug)]
pub(crate) struct Ingest {
    config: IngestConfig,
    poller: Poller,
    door: Door,
    sessions: HashMap<SessionNumber, Session>,
    /// Those whose process is not known, and over which something came.
    /// Connections whose process is not known yet. Greeting one costs more than serving one that is established,
    /// so they wait for turns apart from those.
    newcomers: InTurns<SessionNumber>,
    processes: Processes,
    timers: BinaryHeap<Reverse<(Instant, Timer)>>,
    buffer: Vec<u8>,
    bytes_this_round: usize,
    /// By process: the bytes that were read from it in this round, and how many may be.
    read_from: HashMap<Source, usize>,
    read_share: usize,
    shares: SessionShares,
    silent: SilentSessions,
    refusals: Refusals,
    /// Connections that were closed for a reason, for the log.
    closed: u64,
    segment_limit_logged: bool,
    dump_requests: DumpRequests,
    questions: Questions,
    accept_failures: Option<AcceptFailures>,
}

/// Failures to accept connections, from the first to the last of one shortage.
#[derive(Debug)]
struct AcceptFailures {
    count: u64,
    last: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A whole message may be complete.
    MessagePause(SessionNumber),
    Handshake(SessionNumber),
    /// What a client has begun to send must have gone on.
    Stall(SessionNumber),
    ExecCheck(ProcessNumber),
    EarlyEnd(ProcessNumber),
    /// A dead process may have connections that were not accepted yet.
    Unaccepted(ProcessNumber),
}

/// Who is read from: a process as the kernel shows it, or a connection where it shows none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Pid(u32),
    Session(SessionNumber),
}

/// Why a connection ends, for the log; `None` when it simply ended.
type Closed = Option<String>;

impl Ingest {
    pub(crate) fn new(mut config: IngestConfig) -> io::Result<Self> {
        let poller = Poller::new()?;
        let refusals = Refusals::new(&config.traffic, &config.log);
        let arrived = Arc::clone(&config.arrived);
        poller.add(arrived.as_ref(), Token::Door, EventFlags::IN)?;
        let listeners = std::mem::take(&mut config.listeners);
        let door = Door::open(listeners, arrived, refusals.clone())?;
        if let Some(signals) = &config.signals {
            poller.add(signals, Token::Signals, EventFlags::IN)?;
        }
        poller.add(config.wake.as_ref(), Token::Wake, EventFlags::IN)?;
        Ok(Self {
            shares: SessionShares::new(config.server.max_clients),
            silent: SilentSessions::default(),
            refusals,
            closed: 0,
            config,
            poller,
            door,
            sessions: HashMap::new(),
            newcomers: InTurns::default(),
            processes: Processes::default(),
            timers: BinaryHeap::new(),
            buffer: vec![0; READ_BYTES],
            bytes_this_round: 0,
            read_from: HashMap::new(),
            read_share: READ_BYTES,
            segment_limit_logged: false,
            dump_requests: DumpRequests::default(),
            questions: Questions::default(),
            accept_failures: None,
        })
    }

    /// Serves until a signal or the owner stops it.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut last_round = Instant::now();
        let mut has_all = true;
        let mut ready = Vec::with_capacity(256);
        while !self.config.traffic.stop.load(Ordering::Acquire) {
            let due = self.timers.peek().map(|Reverse((due, _timer))| *due);
            let timeout = if has_all && self.newcomers.is_empty() {
                due.map(|due| due.saturating_duration_since(Instant::now()))
            } else {
                Some(Duration::ZERO)
            };
            self.poller.wait(&mut ready, timeout)?;
            let now = Instant::now();
            self.bytes_this_round = 0;
            self.read_from.clear();
            self.read_share = if ready.len() > FEW {
                READ_BYTES / 4
            } else {
                READ_BYTES
            };
            for event in ready.drain(..) {
                self.serve(Token::decode(event.data), event.flags, now);
            }
            has_all = self.take_arrivals(now);
            self.greet_next(now);
            self.handle_timers(Instant::now());
            self.resume_questions();
            let few = (1..GATHER_BELOW_BYTES).contains(&self.bytes_this_round);
            let waits = self.newcomers.is_empty();
            if few && waits && now.duration_since(last_round) < BUSY_LOOP {
                std::thread::sleep(GATHER);
            }
            last_round = now;
        }
        Ok(())
    }

    fn serve(&mut self, token: Token, flags: EventFlags, now: Instant) {
        match token {
            Token::Door => reset(&self.config.arrived),
            Token::Signals => self.handle_signals(),
            Token::Wake => self.send_answers(),
            Token::Session(number) => {
                if flags.intersects(EventFlags::OUT) {
                    let sent = self.sessions.get_mut(&number).map(Session::send_rest);
                    if let Some(Err(error)) = sent {
                        return self.close(number, Some(error.to_string()));
                    }
                    self.update_interest(number);
                    self.close_if_answered(number);
                }
                // If the other end is gone, reading shows it.
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    self.serve_readable(number, now);
                }
            }
            Token::Process(number) => self.process_died(number, now),
        }
    }

    fn set_timer(&mut self, due: Instant, timer: Timer) {
        self.timers.push(Reverse((due, timer)));
    }

    fn handle_timers(&mut self, now: Instant) {
        while let Some(Reverse((due, timer))) = self.timers.peek().copied()
            && due <= now
        {
            self.timers.pop();
            match timer {
                Timer::MessagePause(number) => self.end_message_pause(number, now),
                Timer::Handshake(number) => self.end_handshake(number),
                Timer::Stall(number) => self.check_for_stall(number, now),
                Timer::ExecCheck(process) => self.check_for_exec(process),
                Timer::EarlyEnd(process) => self.check_early_end(process),
                Timer::Unaccepted(process) => self.process_died(process, now),
            }
        }
    }

    fn end_message_pause(&mut self, number: SessionNumber, now: Instant) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let is_idle = session
            .last_read
            .is_none_or(|last| now.duration_since(last) >= MESSAGE_PAUSE);
        // If more came meanwhile, that has a timer of its own.
        if let Protocol::Legacy(legacy) = &mut session.protocol
            && legacy.awaits_pause()
            && is_idle
        {
            legacy.pause_passed();
            self.handle_legacy(number);
        }
    }

    fn end_handshake(&mut self, number: SessionNumber) {
        let Some(session) = self.sessions.get(&number) else {
            return;
        };
        let undecided = match &session.protocol {
            // Silence is no offence: an old client connects long before it reports,
            // and dies of SIGPIPE if it finds the connection closed.
            Protocol::Unknown | Protocol::Dropped => false,
            Protocol::Legacy(legacy) => legacy.is_undecided(),
            Protocol::Client(client) => client.progress.is_none(),
        };
        if undecided {
            self.close(number, Some("handshake timed out".to_owned()));
        }
    }

    /// Drops a client whose frame or state was begun and does not go on: it can reconnect and send it
    /// anew, and until then its memory is for others.
    fn check_for_stall(&mut self, number: SessionNumber, now: Instant) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let Protocol::Client(client) = &session.protocol else {
            return;
        };
        let (completed, bytes) = (client.completed, client.begun_bytes());
        let before = session.watched.take().filter(|_watched| bytes > 0);
        let Some((completed_before, bytes_before)) = before else {
            return;
        };
        // What it sent and was not read is no fault of its own.
        let is_read = session.is_readable() && session.readable_bytes() == 0;
        let goes_on = completed != completed_before || bytes >= bytes_before + STALL_BYTES;
        if goes_on || !is_read {
            session.watched = Some((completed, bytes));
            return self.set_timer(now + STALL_TIMEOUT, Timer::Stall(number));
        }
        if let Some(process) = session.process {
            self.mark_incomplete(process, IncompleteReason::Stalled, 1);
        }
        let reason = "what it began to send did not go on";
        self.refuse(number, RefusalCode::Protocol, reason);
        self.close(number, Some(reason.to_owned()));
    }

    fn handle_signals(&mut self) {
        while let Some(Ok(Some(signal))) = self.config.signals.as_ref().map(SignalFd::read_signal) {
            let number = i32::try_from(signal.ssi_signo).unwrap_or(0);
            match Signal::try_from(number) {
                Ok(Signal::SIGHUP) => self.config.log.reopen(),
                Ok(Signal::SIGUSR1) => {
                    self.send(Lane::Control, Command::Print(DumpKind::Summary));
                }
                _stop => self.config.traffic.stop.store(true, Ordering::Release),
            }
        }
    }

    fn send(&mut self, lane: Lane, command: Command) {
        match self.config.ledger.send(lane, command) {
            Pushed::Queued => {}
            Pushed::Full => self.hold(lane, true),
            // The ledger thread ends only after this one, unless it failed: there is nothing
            // left to serve, and pretending to would be worse than ending.
            Pushed::Ended => self.config.traffic.stop.store(true, Ordering::Release),
        }
    }

    fn send_for(&mut self, process: ProcessNumber, command: ProcessCommand) {
        self.send(Lane::Process(process), Command::Process(process, command));
    }

    /// Where the commands of a connection go.
    fn lane(&self, number: SessionNumber) -> Lane {
        let session = self.sessions.get(&number);
        let process = session.and_then(|session| session.process);
        let pid = session.and_then(|session| session.pid);
        match (process, pid) {
            (Some(process), _) => Lane::Process(process),
            (None, Some(pid)) => Lane::Asker(pid),
            (None, None) => Lane::Session(number),
        }
    }

    /// Stops reading the connections of a lane that is full, or reads them again.
    fn hold(&mut self, lane: Lane, hold: bool) {
        let numbers = match lane {
            Lane::Control => return,
            Lane::Process(process) => self.sessions_of(process),
            Lane::Session(number) => vec![number],
            Lane::Asker(pid) => {
                let sessions = self.sessions.iter();
                let of_pid = sessions.filter(|(_number, session)| {
                    session.process.is_none() && session.pid == Some(pid)
                });
                of_pid.map(|(number, _session)| *number).collect()
            }
        };
        for number in numbers {
            let session = self.sessions.get_mut(&number);
            if session.is_some_and(|session| session.set_held(hold)) {
                self.update_interest(number);
            }
        }
    }

    fn send_answers(&mut self) {
        reset(&self.config.wake);
        let feedback = self.config.ledger.take_feedback();
        for (holder, count) in feedback.closed_segments {
            self.shares.segments.give_back(holder, count as u64);
        }
        for lane in feedback.resumed {
            self.hold(lane, false);
        }
        for sent in 0.. {
            if sent == ANSWERS {
                // The others are sent in the next round.
                let _closed = rustix::io::write(self.config.wake.as_ref(), &1_u64.to_ne_bytes());
                return;
            }
            let Ok(answer) = self.config.answers.try_recv() else {
                return;
            };
            match answer {
                Answer::Bytes(number, bytes) => {
                    let Some(session) = self.sessions.get_mut(&number) else {
                        continue;
                    };
                    let source = session.source(number);
                    let is_legacy = matches!(session.protocol, Protocol::Legacy(_));
                    self.bytes_this_round += bytes.len();
                    // Before anything that can fail: both counts go down together.
                    session.outstanding = session.outstanding.saturating_sub(1);
                    if is_legacy {
                        self.questions.end(source, 1);
                    }
                    if let Err(error) = session.send(&bytes) {
                        self.close(number, Some(error.to_string()));
                    } else if is_legacy {
                        self.wait_to_ask(number);
                        self.questions.resume(source);
                    } else {
                        self.update_interest(number);
                    }
                }
                Answer::Forgotten(process) => self.forget(process),
                Answer::Resynced(memory) => {
                    let states = &mut self.shares.resync_bytes;
                    states.give_back(memory.holder, memory.bytes);
                }
            }
        }
    }

    fn update_interest(&mut self, number: SessionNumber) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let wanted = session.wanted_interest();
        let previous = std::mem::replace(&mut session.interest, wanted);
        if wanted == previous {
            return;
        }
        let (stream, token) = (&session.stream, Token::Session(number));
        // epoll reports that a peer left even if nothing is waited for: who is not to be read yet
        // is taken out, or the loop would spin.
        let _closed = if wanted.is_empty() {
            self.poller.remove(stream)
        } else if previous.is_empty() {
            self.poller.add(stream, token, wanted)
        } else {
            self.poller.change(stream, token, wanted)
        };
    }
}

/// Resets the counter of an eventfd; what matters is in the channel beside it.
fn reset(wake: &OwnedFd) {
    let _empty = rustix::io::read(wake, &mut [0; 8]);
}

#[cfg(test)]
mod tests;
