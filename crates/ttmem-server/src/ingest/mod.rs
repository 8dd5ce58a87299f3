//! The thread that talks to clients.
//!
//! One thread waits for all sockets, the deaths of processes, signals and the
//! ledger thread's answers. It decodes what comes and sends commands; it never
//! touches the ledger. Readers (HTTP) are told by their first byte and handed
//! on untouched.

mod client;
mod deadlines;
mod legacy;
mod poll;
mod processes;
mod session;

use crate::clock::unix_nanos;
use crate::config::ServerConfig;
use crate::keeper::{Answer, Command, LedgerHandle, ProcessNumber, SessionNumber};
use crate::log::{DumpKind, LogHandle, Note, ScribeHandle};
use crate::peer::{self, Peer};
use crate::read::{self, HttpThread};
use client::{ClientTalk, Collected, Heard, Introduced, MAX_RESYNC_BYTES_IN_ALL};
use crossbeam_channel::Receiver;
use deadlines::Deadlines;
use legacy::{Asker, Handled, Pause};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::socket::{getsockopt, sockopt};
use poll::{Interest, Poller, Ready, ReadyList, Token};
use processes::{ProcessKey, Processes};
use session::{MAX_OUTSTANDING, ReadOutcome, Session, Talk};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use ttmem_event::Source;
use ttmem_event::wire::{Frame, MAGIC, RefusalCode, Welcome};
use ttmem_ledger::{Departure, ProcessIdentity, ProcessState};

/// A first message of an old client that is complete in one of its sizes waits
/// this long for more bytes before its size is believed.
const QUIET: Duration = Duration::from_millis(20);

/// How long a peer may take from its first byte to saying who it is.
const INTRODUCTION: Duration = Duration::from_secs(10);

/// Connections beyond the limit that are kept just long enough to be told so.
const SURPLUS: usize = 64;

/// Bytes read from one connection before the others have their turn.
const READ_BYTES: usize = 256 << 10;

/// A loop that comes round faster than this with little to show for it is being
/// woken message by message; a short sleep then gathers many into one read.
const BUSY_LOOP: Duration = Duration::from_micros(200);
const GATHER: Duration = Duration::from_micros(50);
const GATHER_BELOW_BYTES: usize = 32 << 10;

/// Connections taken in before those that are there have their turn.
const ACCEPTS: usize = 64;

/// Processes that may be known at once, connected or not.
const MAX_PROCESSES: usize = 65_536;

/// What other threads can see of this one.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Connections of clients now.
    pub(crate) clients: AtomicU64,
    /// Connections that were refused.
    pub(crate) refused: AtomicU64,
    /// Set to end the thread; it looks when it is woken.
    pub(crate) stop: AtomicBool,
}

/// How many answers can be outstanding in all.
pub(crate) fn answer_capacity(max_clients: usize) -> usize {
    let per_session = MAX_OUTSTANDING as usize + 1;
    (max_clients + SURPLUS) * per_session + 1024
}

/// What the thread is given.
#[derive(Debug)]
pub(crate) struct IngestConfig {
    pub(crate) server: ServerConfig,
    pub(crate) listeners: Vec<UnixListener>,
    pub(crate) signals: Option<SignalFd>,
    pub(crate) wake: Arc<OwnedFd>,
    pub(crate) answers: Receiver<Answer>,
    pub(crate) ledger: LedgerHandle,
    pub(crate) http: HttpThread,
    pub(crate) log: LogHandle,
    pub(crate) scribe: ScribeHandle,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) server_instance: u64,
}

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Ingest {
    config: IngestConfig,
    poller: Poller,
    sessions: HashMap<SessionNumber, Session>,
    last_session: u64,
    processes: Processes,
    quiet: Deadlines<SessionNumber>,
    introductions: Deadlines<SessionNumber>,
    accept_pause: Option<Instant>,
    buffer: Vec<u8>,
    bytes_this_round: usize,
    /// Bytes of states that clients are in the middle of sending.
    aside_bytes: usize,
}

/// Why a connection ends, for the log; `None` when it simply ended.
type Closed = Option<String>;

impl Ingest {
    pub(crate) fn new(config: IngestConfig) -> io::Result<Self> {
        let poller = Poller::new()?;
        for (place, listener) in (0_u64..).zip(&config.listeners) {
            poller.add(listener, Token::Listener(place), Interest::READ)?;
        }
        if let Some(signals) = &config.signals {
            poller.add(signals, Token::Signals, Interest::READ)?;
        }
        poller.add(config.wake.as_ref(), Token::Wake, Interest::READ)?;
        Ok(Self {
            config,
            poller,
            sessions: HashMap::new(),
            last_session: 0,
            processes: Processes::default(),
            quiet: Deadlines::new(QUIET),
            introductions: Deadlines::new(INTRODUCTION),
            accept_pause: None,
            buffer: vec![0; READ_BYTES],
            bytes_this_round: 0,
            aside_bytes: 0,
        })
    }

    /// Serves until a signal or the owner says stop.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut last_round = Instant::now();
        let mut list = ReadyList::new();
        while !self.config.traffic.stop.load(Ordering::Acquire) {
            let timeout = self
                .next_deadline()
                .map(|due| due.saturating_duration_since(Instant::now()));
            let ready = self.poller.wait(&mut list, timeout)?;
            let now = Instant::now();
            self.bytes_this_round = 0;
            for one in ready {
                self.serve(one, now);
            }
            self.pass_deadlines(Instant::now());
            let few = (1..GATHER_BELOW_BYTES).contains(&self.bytes_this_round);
            if few && now.duration_since(last_round) < BUSY_LOOP {
                std::thread::sleep(GATHER);
            }
            last_round = now;
        }
        Ok(())
    }

    fn next_deadline(&self) -> Option<Instant> {
        [
            self.quiet.next(),
            self.introductions.next(),
            self.accept_pause,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn serve(&mut self, ready: Ready, now: Instant) {
        match ready.token {
            Token::Listener(place) => self.accept(place, now),
            Token::Signals => self.obey_signals(),
            Token::Wake => self.take_answers(),
            Token::Session(number) => {
                if ready.write {
                    let sent = self.sessions.get_mut(&number).map(Session::send_rest);
                    if let Some(Err(error)) = sent {
                        return self.close(number, Some(error.to_string()));
                    }
                    self.update_interest(number);
                }
                if ready.read {
                    self.read_session(number, now);
                }
            }
            Token::Process(number) => self.bury(number, now),
        }
    }

    fn pass_deadlines(&mut self, now: Instant) {
        while let Some(number) = self.quiet.pop_due(now) {
            let Some(session) = self.sessions.get_mut(&number) else {
                continue;
            };
            // More came meanwhile: that has a deadline of its own.
            let since = session.heard.map(|heard| now.duration_since(heard));
            let is_quiet = since.is_none_or(|since| since >= QUIET);
            if let Talk::Legacy(talk) = &mut session.talk
                && talk.wants_quiet()
                && is_quiet
            {
                talk.quiet();
                self.handle_legacy(number);
            }
        }
        while let Some(number) = self.introductions.pop_due(now) {
            let undecided = self
                .sessions
                .get(&number)
                .is_some_and(|session| match &session.talk {
                    // Silence is no offence: an old client connects long before it reports,
                    // and dies of SIGPIPE if it finds the connection closed.
                    Talk::Silent => session.surplus,
                    Talk::Left => false,
                    Talk::Legacy(talk) => talk.is_undecided(),
                    Talk::Client(talk) => talk.is_undecided(),
                });
            if undecided {
                self.close(number, Some("it did not say who it is in time".to_owned()));
            }
        }
        if self.accept_pause.is_some_and(|until| until <= now) {
            self.accept_pause = None;
            for (place, listener) in (0_u64..).zip(&self.config.listeners) {
                let _gone = self
                    .poller
                    .change(listener, Token::Listener(place), Interest::READ);
            }
        }
    }

    fn obey_signals(&mut self) {
        while let Some(Ok(Some(signal))) = self.config.signals.as_ref().map(SignalFd::read_signal) {
            let number = i32::try_from(signal.ssi_signo).unwrap_or(0);
            match Signal::try_from(number) {
                Ok(Signal::SIGHUP) => self.config.log.reopen(),
                Ok(Signal::SIGUSR1) => self.send(Command::Print(DumpKind::Summary)),
                _stop => self.config.traffic.stop.store(true, Ordering::Release),
            }
        }
    }

    fn send(&self, command: Command) {
        if !self.config.ledger.send(command) {
            // The ledger thread ends only after this one, unless it failed: there is nothing
            // left to serve, and pretending to would be worse than ending.
            self.config.traffic.stop.store(true, Ordering::Release);
        }
    }

    fn accept(&mut self, place: u64, now: Instant) {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        // Whoever connects without end must not keep the others from being read.
        for _turn in 0..ACCEPTS {
            let Some(listener) = self.config.listeners.get(place) else {
                return;
            };
            let stream = match listener.accept() {
                Ok((stream, _address)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return self.pause_accepting(&error, now),
            };
            let surplus = self.sessions.len() >= self.config.server.max_clients;
            if self.sessions.len() >= self.config.server.max_clients + SURPLUS {
                self.count_refusal();
                continue;
            }
            self.last_session += 1;
            let number = SessionNumber(self.last_session);
            let registered = stream.set_nonblocking(true).and_then(|()| {
                self.poller
                    .add(&stream, Token::Session(number), Interest::READ)
            });
            if let Err(error) = registered {
                self.config
                    .log
                    .error(format!("cannot serve a connection: {error}"));
                continue;
            }
            self.sessions.insert(number, Session::new(stream, surplus));
            self.show_traffic();
            if surplus {
                self.introductions.push(now, number);
            }
        }
    }

    /// Out of descriptors: trying again at once would only spin.
    fn pause_accepting(&mut self, error: &io::Error, now: Instant) {
        self.config
            .log
            .error(format!("cannot accept connections for a moment: {error}"));
        for (place, listener) in (0_u64..).zip(&self.config.listeners) {
            let _gone = self
                .poller
                .change(listener, Token::Listener(place), Interest::NONE);
        }
        self.accept_pause = Some(now + Duration::from_millis(200));
    }

    fn count_refusal(&self) {
        let refused = self.config.traffic.refused.fetch_add(1, Ordering::Relaxed);
        // One line each time the count doubles: a flood must not become a flood of lines.
        if (refused + 1).is_power_of_two() {
            let most = self.config.server.max_clients;
            let reason = format!(
                "{most} clients are the most (--max-clients); {} refused so far",
                refused + 1
            );
            self.config.scribe.note(Note::Refused { pid: None, reason });
        }
    }

    fn show_traffic(&self) {
        self.config
            .traffic
            .clients
            .store(self.sessions.len() as u64, Ordering::Relaxed);
    }

    fn read_session(&mut self, number: SessionNumber, now: Instant) {
        let Some(session) = self.sessions.get(&number) else {
            return;
        };
        if matches!(session.talk, Talk::Silent) {
            match session.peek() {
                (ReadOutcome::Empty, _) => return,
                (ReadOutcome::End, _) => return self.close(number, None),
                (ReadOutcome::Bytes(_), first) => {
                    if !self.recognise(number, first, now) {
                        return;
                    }
                }
            }
        }
        let Some(session) = self.sessions.get(&number) else {
            return;
        };
        if !session.wanted().read {
            // Its earlier questions come first; what it sent stays in the socket.
            return self.update_interest(number);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = session.read(&mut buffer);
        match outcome {
            ReadOutcome::Bytes(count) => {
                self.bytes_this_round += count;
                self.hear(number, &buffer[..count], now);
            }
            ReadOutcome::Empty => {}
            ReadOutcome::End => self.end(number),
        }
        self.buffer = buffer;
    }

    /// Finds out what a connection speaks; false when it is no longer ours.
    fn recognise(&mut self, number: SessionNumber, first: u8, now: Instant) -> bool {
        let Some(session) = self.sessions.get_mut(&number) else {
            return false;
        };
        let surplus = session.surplus;
        match first {
            1..=12 if surplus => {
                self.count_refusal();
                self.close(number, None);
                false
            }
            1..=12 => {
                session.talk = Talk::Legacy(Box::default());
                self.introductions.push(now, number);
                true
            }
            b'A'..=b'Z' => {
                self.hand_to_http(number);
                false
            }
            byte if byte == MAGIC[0] => {
                if surplus {
                    let most = self.config.server.max_clients;
                    let reason = format!("the server serves {most} clients at most");
                    self.count_refusal();
                    self.refuse(number, RefusalCode::Full, &reason);
                    self.close(number, None);
                    return false;
                }
                session.talk = Talk::Client(Box::new(ClientTalk::new()));
                self.introductions.push(now, number);
                true
            }
            other => {
                let reason =
                    format!("its first byte is {other:#04x}, which no protocol begins with");
                self.close(number, Some(reason));
                false
            }
        }
    }

    fn hand_to_http(&mut self, number: SessionNumber) {
        let Some(session) = self.sessions.remove(&number) else {
            return;
        };
        self.show_traffic();
        let _closed = self.poller.remove(&session.stream);
        let uid = getsockopt(&session.stream, sockopt::PeerCredentials)
            .map_or(u32::MAX, |credentials| credentials.uid());
        if let Err(stream) = self.config.http.serve(session.stream, uid) {
            read::refuse(stream);
        }
    }

    fn hear(&mut self, number: SessionNumber, bytes: &[u8], now: Instant) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        session.heard = Some(now);
        match &mut session.talk {
            Talk::Silent | Talk::Left => {}
            Talk::Legacy(talk) => {
                let framed = talk.push(bytes);
                if talk.wants_quiet() {
                    self.quiet.push(now, number);
                }
                self.handle_legacy(number);
                if let Err(error) = framed {
                    self.close(number, Some(format!("not the old protocol: {error}")));
                }
            }
            Talk::Client(talk) => match talk.push(bytes) {
                Ok(()) => self.handle_client(number, now),
                Err(error) => {
                    self.refuse(number, RefusalCode::Version, &error.to_string());
                    self.close(number, Some(error.to_string()));
                }
            },
        }
    }

    fn handle_legacy(&mut self, number: SessionNumber) {
        loop {
            let time = unix_nanos();
            let Some(session) = self.sessions.get_mut(&number) else {
                return;
            };
            let asker = Asker {
                session: number,
                process: session.process,
                pid: session.pid,
                outstanding: session.outstanding,
                numbering: self.config.server.buffer_types,
                time,
            };
            let Talk::Legacy(talk) = &mut session.talk else {
                return;
            };
            let mut handled = Handled::default();
            let pause = talk.handle(&asker, &mut handled);
            session.outstanding += handled.asked;
            for note in handled.notes {
                self.config.scribe.note(note);
            }
            for command in handled.commands {
                self.send(command);
            }
            match pause {
                Pause::Done | Pause::Answers => break,
                Pause::Identity { claimed_pid } => {
                    if let Err(reason) = self.identify_old(number, claimed_pid) {
                        return self.close(number, Some(reason));
                    }
                }
            }
        }
        self.update_interest(number);
    }

    fn handle_client(&mut self, number: SessionNumber, now: Instant) {
        loop {
            let Some(session) = self.sessions.get_mut(&number) else {
                return;
            };
            let process = session.process;
            let Talk::Client(talk) = &mut session.talk else {
                return;
            };
            let mut collected = Collected::default();
            let aside = talk.resync_bytes();
            let heard = talk.hear(&mut collected);
            self.aside_bytes = self.aside_bytes - aside + talk.resync_bytes();
            let too_much = self.aside_bytes > MAX_RESYNC_BYTES_IN_ALL;
            let next_sequence = talk.next_sequence();
            let synced = talk.is_synced();
            if let Some(process) = process {
                let asked = collected.finish(process, number, next_sequence);
                session.outstanding += u32::from(asked);
                if let Some(entry) = self.processes.get_mut(process) {
                    entry.next_sequence = next_sequence;
                    entry.synced = synced;
                }
                for command in collected.commands {
                    self.send(command);
                }
            }
            if too_much {
                let reason = "too many clients send their whole state at once".to_owned();
                self.refuse(number, RefusalCode::Full, &reason);
                return self.close(number, Some(reason));
            }
            match heard {
                Ok(Heard::All) => break,
                Ok(Heard::Hello(introduced)) => {
                    if let Err(reason) = self.welcome(number, introduced, now) {
                        self.refuse(number, RefusalCode::Full, &reason);
                        return self.close(number, Some(reason));
                    }
                }
                Ok(Heard::Goodbye) => {
                    if let Some(process) = process {
                        self.depart(process, Departure::Goodbye);
                    }
                    return self.close(number, None);
                }
                Err(error) => {
                    self.refuse(number, RefusalCode::Protocol, &error.to_string());
                    return self.close(number, Some(error.to_string()));
                }
            }
        }
        self.update_interest(number);
    }

    /// Finds or makes the process behind an old client's connection.
    fn identify_old(&mut self, number: SessionNumber, claimed_pid: i32) -> Result<(), String> {
        let peer = self.peer(number)?;
        let key = ProcessKey::of(&peer, None, number);
        let identity = ProcessIdentity {
            pid: peer.pid,
            start_time: peer.start_unix_nanos,
            instance: None,
            uid: peer.uid,
            name: peer.name.as_str().into(),
            source: Source::Legacy,
            visible_devices: Arc::from(""),
        };
        let process = match self.processes.number(&key) {
            Some(process) => process,
            None => self.join(key, peer.pidfd, identity, i64::from(claimed_pid))?,
        };
        self.attach(number, process);
        Ok(())
    }

    /// Finds or makes the process behind a client and greets it.
    fn welcome(
        &mut self,
        number: SessionNumber,
        introduced: Introduced,
        now: Instant,
    ) -> Result<(), String> {
        let peer = self.peer(number)?;
        let key = ProcessKey::of(&peer, Some(introduced.instance), number);
        for replaced in self.processes.replaced_by(&key) {
            let sessions = self.sessions_of(replaced);
            self.depart(replaced, Departure::Replaced);
            // Nobody is behind them any more.
            for session in sessions {
                self.close(session, None);
            }
        }
        // What it sent before it came back counts, and may have been its goodbye.
        if let Some(process) = self.processes.number(&key) {
            for earlier in self.sessions_of(process) {
                self.read_rest(earlier, now);
            }
        }
        let known = self.processes.number(&key);
        let process = match known {
            Some(process) => process,
            None => {
                let name = if introduced.name.is_empty() {
                    peer.name.as_str().into()
                } else {
                    introduced.name
                };
                let identity = ProcessIdentity {
                    pid: peer.pid,
                    start_time: peer.start_unix_nanos,
                    instance: Some(introduced.instance),
                    uid: peer.uid,
                    name,
                    source: introduced.source,
                    visible_devices: introduced.visible_devices,
                };
                self.join(key, peer.pidfd, identity, i64::from(introduced.claimed_pid))?
            }
        };
        // Only one connection speaks for an instance: the newest.
        let earlier = self.sessions_of(process);
        self.attach(number, process);
        for session in earlier {
            self.close(session, None);
        }
        let (next_sequence, synced) = self
            .processes
            .get_mut(process)
            .map_or((0, false), |entry| (entry.next_sequence, entry.synced));
        let server_instance = self.config.server_instance;
        let Some(session) = self.sessions.get_mut(&number) else {
            return Ok(());
        };
        let Talk::Client(talk) = &mut session.talk else {
            return Ok(());
        };
        talk.accept(process, next_sequence, synced);
        let mut bytes = Vec::new();
        Frame::put_welcome(
            &mut bytes,
            &Welcome {
                version: talk.version(),
                needs_resync: !synced,
                server_instance,
                next_sequence,
            },
        );
        session.send(&bytes).map_err(|error| error.to_string())
    }

    fn sessions_of(&mut self, process: ProcessNumber) -> Vec<SessionNumber> {
        let entry = self.processes.get_mut(process);
        entry.map_or(Vec::new(), |entry| entry.sessions.clone())
    }

    fn peer(&self, number: SessionNumber) -> Result<Peer, String> {
        let session = self.sessions.get(&number).ok_or("it is gone")?;
        peer::identify(&session.stream).map_err(|error| format!("cannot tell who it is: {error}"))
    }

    fn join(
        &mut self,
        key: ProcessKey,
        pidfd: Option<OwnedFd>,
        identity: ProcessIdentity,
        claimed_pid: i64,
    ) -> Result<ProcessNumber, String> {
        if self.processes.len() >= MAX_PROCESSES {
            return Err(format!(
                "{MAX_PROCESSES} processes are the most that can be known"
            ));
        }
        let process = self.processes.insert(key, pidfd);
        if let Some(pidfd) = self
            .processes
            .get_mut(process)
            .and_then(|entry| entry.pidfd.as_ref())
        {
            let added = self
                .poller
                .add(pidfd, Token::Process(process), Interest::READ);
            if let Err(error) = added {
                self.processes.remove(process);
                return Err(format!("cannot watch the process: {error}"));
            }
        }
        self.send(Command::Join {
            process,
            identity,
            claimed_pid,
        });
        Ok(process)
    }

    fn attach(&mut self, number: SessionNumber, process: ProcessNumber) {
        if let Some(session) = self.sessions.get_mut(&number) {
            session.process = Some(process);
        }
        if let Some(entry) = self.processes.get_mut(process) {
            entry.sessions.push(number);
            let connections = u32::try_from(entry.sessions.len()).unwrap_or(u32::MAX);
            self.send(Command::State {
                process,
                state: ProcessState::Live,
                connections,
            });
        }
    }

    /// The peer ended the connection: what it sent before counts.
    fn end(&mut self, number: SessionNumber) {
        let reason = self.finish_legacy(number);
        self.close(number, reason);
    }

    /// Handles what an old client said last; what is left over is told as a reason.
    fn finish_legacy(&mut self, number: SessionNumber) -> Closed {
        let session = self.sessions.get_mut(&number)?;
        let Talk::Legacy(talk) = &mut session.talk else {
            return None;
        };
        let left_over = talk.finish().err().map(|error| error.to_string());
        talk.stop_answering();
        self.handle_legacy(number);
        left_over
    }

    fn close(&mut self, number: SessionNumber, reason: Closed) {
        let Some(session) = self.sessions.remove(&number) else {
            return;
        };
        self.show_traffic();
        let _closed = self.poller.remove(&session.stream);
        if let Talk::Client(talk) = &session.talk {
            self.aside_bytes -= talk.resync_bytes();
        }
        if let Some(reason) = reason {
            self.config.scribe.note(Note::Dropped {
                pid: session.pid,
                reason,
            });
        }
        if let Some(process) = session.process {
            self.detach(process, number);
        }
    }

    /// A connection of a process ended: the process keeps what it holds while it lives.
    fn detach(&mut self, process: ProcessNumber, number: SessionNumber) {
        let Some(entry) = self.processes.get_mut(process) else {
            return;
        };
        entry.sessions.retain(|session| *session != number);
        let connections = u32::try_from(entry.sessions.len()).unwrap_or(u32::MAX);
        if connections > 0 {
            let state = ProcessState::Live;
            return self.send(Command::State {
                process,
                state,
                connections,
            });
        }
        let lives = entry.pidfd.as_ref().is_some_and(peer::is_alive);
        if lives {
            let state = ProcessState::Detached;
            self.send(Command::State {
                process,
                state,
                connections: 0,
            });
        } else {
            self.depart(process, Departure::Died);
        }
    }

    /// A process died: all that it sent before is read, then it is let go.
    fn bury(&mut self, process: ProcessNumber, now: Instant) {
        let Some(entry) = self.processes.get_mut(process) else {
            return;
        };
        for number in entry.sessions.clone() {
            self.drain(number, now);
        }
        self.depart(process, Departure::Died);
    }

    /// Reads what a dead process left in a connection, and ends it.
    ///
    /// Unless somebody else holds an old client's connection: a child of the dead.
    fn drain(&mut self, number: SessionNumber, now: Instant) {
        self.read_rest(number, now);
        let held = self.sessions.get(&number).is_some_and(|session| {
            matches!(session.talk, Talk::Legacy(_)) && session.peek().0 != ReadOutcome::End
        });
        if !held {
            return self.end(number);
        }
        self.finish_legacy(number);
        if let Some(session) = self.sessions.get_mut(&number) {
            session.talk = Talk::Left;
            session.outstanding = 0;
        }
        self.update_interest(number);
    }

    /// Reads what is in a connection, and no more: a child that inherited it may go on
    /// writing for ever.
    fn read_rest(&mut self, number: SessionNumber, now: Instant) {
        // Its own room: another connection may be in the middle of being heard.
        let mut buffer = vec![0; READ_BYTES];
        let mut left = self
            .sessions
            .get(&number)
            .map_or(0, Session::readable_bytes);
        while left > 0
            && let Some(session) = self.sessions.get_mut(&number)
        {
            if let Talk::Legacy(talk) = &mut session.talk {
                talk.stop_answering();
            }
            let window = left.min(buffer.len());
            let ReadOutcome::Bytes(count) = session.read(&mut buffer[..window]) else {
                break;
            };
            left -= count;
            self.hear(number, &buffer[..count], now);
        }
    }

    fn depart(&mut self, process: ProcessNumber, departure: Departure) {
        let Some(entry) = self.processes.remove(process) else {
            return;
        };
        if let Some(pidfd) = &entry.pidfd {
            let _closed = self.poller.remove(pidfd);
        }
        for number in &entry.sessions {
            if let Some(session) = self.sessions.get_mut(number) {
                session.process = None;
            }
        }
        self.send(Command::Depart {
            process,
            departure,
            time: unix_nanos(),
        });
    }

    fn take_answers(&mut self) {
        let mut counter = [0; 8];
        // Only resets the counter; what matters is in the channel.
        let _empty = rustix::io::read(self.config.wake.as_ref(), &mut counter);
        while let Ok(answer) = self.config.answers.try_recv() {
            match answer {
                Answer::Bytes {
                    session: number,
                    bytes,
                } => {
                    let Some(session) = self.sessions.get_mut(&number) else {
                        continue;
                    };
                    session.outstanding = session.outstanding.saturating_sub(1);
                    if let Err(error) = session.send(&bytes) {
                        self.close(number, Some(error.to_string()));
                        continue;
                    }
                    match session.talk {
                        Talk::Legacy(_) => self.handle_legacy(number),
                        Talk::Client(_) | Talk::Silent | Talk::Left => {
                            self.update_interest(number);
                        }
                    }
                }
                Answer::Forgotten { process } => self.forget(process),
            }
        }
    }

    /// The ledger let a process go on request; if it speaks again it is a new one.
    fn forget(&mut self, process: ProcessNumber) {
        let Some(entry) = self.processes.remove(process) else {
            return;
        };
        if let Some(pidfd) = &entry.pidfd {
            let _closed = self.poller.remove(pidfd);
        }
        for number in entry.sessions {
            let Some(session) = self.sessions.get_mut(&number) else {
                continue;
            };
            session.process = None;
            if matches!(session.talk, Talk::Client(_)) {
                // It has to introduce itself anew, and then sends all it holds.
                self.close(number, None);
            }
        }
    }

    fn refuse(&mut self, number: SessionNumber, code: RefusalCode, reason: &str) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let mut bytes = Vec::new();
        Frame::put_refused(&mut bytes, code, reason);
        // It is about to be closed: whether it reads this is its business.
        let _gone = session.send(&bytes);
    }

    fn update_interest(&mut self, number: SessionNumber) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let wanted = session.wanted();
        let told = std::mem::replace(&mut session.interest, wanted);
        if wanted == told {
            return;
        }
        let (stream, token) = (&session.stream, Token::Session(number));
        // That a peer left is told whether or not one asks: who is not to be read yet is not
        // waited for at all, or the loop would spin until it is.
        let _closed = match (told, wanted) {
            (_told, Interest::NONE) => self.poller.remove(stream),
            (Interest::NONE, _wanted) => self.poller.add(stream, token, wanted),
            _both => self.poller.change(stream, token, wanted),
        };
    }
}
