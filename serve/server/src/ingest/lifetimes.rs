//! When connections and processes begin and end.

use super::client::{ClientProgress, Introduction};
use super::entrance::PROCESS_UNITS;
use super::poll::Token;
use super::processes::ProcessKey;
use super::session::{Protocol, ReadOutcome, Session};
use super::{
    Closed, EARLY_END, EXEC_CHECKS, Ingest, READ_BYTES, Timer, UNACCEPTED, UNACCEPTED_CHECK,
};
use crate::clock::unix_nanos;
use crate::ledger_thread::{Command, Lane, ProcessCommand, ProcessNumber, SessionNumber};
use crate::peer::{self, Peer};
use rustix::event::epoll::EventFlags;
use std::time::Instant;
use ttmem_event::Source;
use ttmem_event::wire::{Frame, Welcome};
use ttmem_ledger::{Departure, IncompleteReason, ProcessIdentity, ProcessState};

impl Ingest {
    /// Finds or adds the process behind an old client's connection.
    ///
    /// Where that cannot be, or there are too many, the connection stays open and its reports are dropped.
    pub(super) fn identify_legacy(&mut self, number: SessionNumber, claimed_pid: i32) {
        match self.process_of_legacy(number, claimed_pid) {
            Ok(process) => {
                self.attach(number, process);
                self.admit_client(number);
            }
            Err(reason) => {
                let pid = self.sessions.get(&number).and_then(|session| session.pid);
                self.refusals.count(pid, &reason, 1);
                self.drop_reports(number);
                self.update_interest(number);
            }
        }
    }

    fn process_of_legacy(
        &mut self,
        number: SessionNumber,
        claimed_pid: i32,
    ) -> Result<ProcessNumber, String> {
        let peer = self.peer(number)?;
        let identity = ProcessIdentity {
            pid: None,
            start_time: None,
            instance: None,
            uid: 0,
            name: "".into(),
            source: Source::Legacy,
            command: "".into(),
            visible_devices: "".into(),
        };
        let key = ProcessKey::of(&peer, None, number);
        self.find_or_join(number, key, peer, identity, claimed_pid.into())
    }

    /// Greets a client. Its process is not looked for before it reports something: one that connects and
    /// leaves is cheap.
    pub(super) fn greet(
        &mut self,
        number: SessionNumber,
        introduction: Introduction,
        now: Instant,
    ) -> Result<(), String> {
        let Some(session) = self.sessions.get(&number) else {
            return Ok(());
        };
        let Protocol::Client(client) = &session.protocol else {
            return Ok(());
        };
        let unread = client.unfinished_bytes() + session.readable_bytes() as u64;
        if unread == 0 && !session.may_be_answered() {
            // It is gone again, and reported nothing.
            self.close(number, None);
            return Ok(());
        }
        let (holder, pid) = (session.holder, session.pid);
        let instance = introduction.identity.instance;
        let is_known =
            instance.is_some_and(|instance| self.processes.knows_client(holder, pid, instance));
        // What is known of it decides what it has to send, and who is refused is shown as incomplete.
        let is_joined = is_known || self.shares.clients.room(holder) == 0;
        let (progress, introduction) = if is_joined {
            (self.join(number, introduction, now)?, None)
        } else {
            (ClientProgress::default(), Some(introduction))
        };
        let Some(session) = self.sessions.get_mut(&number) else {
            return Ok(());
        };
        let Protocol::Client(client) = &mut session.protocol else {
            return Ok(());
        };
        client.progress = Some(progress);
        client.introduction = introduction;
        let welcome = Welcome {
            version: client.version(),
            needs_resync: !progress.synced,
            server_instance: self.config.server_instance,
            next_sequence: progress.next_sequence,
        };
        let mut bytes = Vec::new();
        Frame::put_welcome(&mut bytes, &welcome);
        session.send(&bytes).map_err(|error| error.to_string())
    }

    /// A client that was greeted begins to report: its process is found or added.
    pub(super) fn join_introduced(
        &mut self,
        number: SessionNumber,
        now: Instant,
    ) -> Result<(), String> {
        let client_of = |ingest: &mut Self| {
            let session = ingest.sessions.get_mut(&number)?;
            let Protocol::Client(client) = &mut session.protocol else {
                return None;
            };
            Some((client.introduction.take()?, client.progress?.clock))
        };
        let Some((introduction, clock)) = client_of(self) else {
            return Ok(());
        };
        // It may have come by another connection meanwhile.
        let progress = self.join(number, introduction, now)?;
        if let Some(session) = self.sessions.get_mut(&number)
            && let Protocol::Client(client) = &mut session.protocol
        {
            client.progress = Some(ClientProgress { clock, ..progress });
        }
        Ok(())
    }

    /// Finds or adds the process behind a client; what is known of it so far.
    fn join(
        &mut self,
        number: SessionNumber,
        introduction: Introduction,
        now: Instant,
    ) -> Result<ClientProgress, String> {
        let Introduction {
            identity,
            claimed_pid,
            labels,
        } = introduction;
        let mut peer = self.peer(number)?;
        // While its connection is open, a process runs the program that made it.
        let session = self.sessions.get(&number);
        let ended_early = session.is_some_and(|session| peer::has_hung_up(&session.stream));
        if ended_early {
            peer.image = None;
        }
        let image = peer.image;
        let key = ProcessKey::of(&peer, identity.instance, number);
        for replaced in self.processes.replaced_by(&key) {
            let sessions = self.sessions_of(replaced);
            // What it sent before it was replaced counts, and may have been its goodbye.
            for session in &sessions {
                self.read_remaining(*session, now);
            }
            self.depart(replaced, Departure::Replaced);
            // Nobody is behind them any more.
            for session in sessions {
                self.close(session, None);
            }
        }
        // What it sent before it came back counts, and may have been its goodbye.
        if let Some(process) = self.processes.number(&key) {
            for earlier in self.sessions_of(process) {
                self.read_remaining(earlier, now);
            }
        }
        let process = self.find_or_join(number, key, peer, identity, claimed_pid.into())?;
        if !labels.is_empty() {
            self.send_for(process, ProcessCommand::labels(labels));
        }
        // Only one connection speaks for an instance: the newest.
        let earlier = self.sessions_of(process);
        self.attach(number, process);
        for session in earlier {
            self.close(session, None);
        }
        if !self.admit_client(number) {
            self.mark_incomplete(process, IncompleteReason::ConnectionsRefused, 1);
            let most = self.config.server.max_clients;
            return Err(format!(
                "its process or user has its share of the {most} clients that are served"
            ));
        }
        let Some(entry) = self.processes.get_mut(process) else {
            return Ok(ClientProgress::default());
        };
        entry.image = entry.image.or(image);
        entry.ended_early = ended_early && entry.image.is_none();
        Ok(entry.progress)
    }

    pub(super) fn sessions_of(&mut self, process: ProcessNumber) -> Vec<SessionNumber> {
        let entry = self.processes.get_mut(process);
        entry.map_or(Vec::new(), |entry| entry.sessions.clone())
    }

    /// Looks for the process at the other end, which its user is charged with: the files of the process
    /// are read now, and, if the ledger has it, when it leaves.
    fn peer(&self, number: SessionNumber) -> Result<Peer, String> {
        let session = self.sessions.get(&number).ok_or("it is gone")?;
        self.charge(session.holder, PROCESS_UNITS);
        peer::identify(&session.stream)
            .map_err(|error| format!("cannot identify the process: {error}"))
    }

    /// Something that a process sent was refused: it has to send its state anew.
    pub(super) fn mark_incomplete(
        &mut self,
        process: ProcessNumber,
        reason: IncompleteReason,
        count: u64,
    ) {
        if let Some(entry) = self.processes.get_mut(process) {
            entry.progress.synced = false;
            self.send_for(process, ProcessCommand::incomplete(reason, count));
        }
    }

    fn find_or_join(
        &mut self,
        session: SessionNumber,
        key: ProcessKey,
        peer: Peer,
        mut identity: ProcessIdentity,
        claimed_pid: i64,
    ) -> Result<ProcessNumber, String> {
        if let Some(process) = self.processes.number(&key) {
            return Ok(process);
        }
        let session = self.sessions.get(&session).ok_or("it is gone")?;
        let holder = session.holder;
        if !self.shares.processes.take(holder, 1) {
            return Err("its user has its share of the processes that can be known".to_owned());
        }
        let process = self.processes.next_number();
        if let Some(pidfd) = &peer.pidfd {
            let watched = self
                .poller
                .add(pidfd, Token::Process(process), EventFlags::IN);
            if let Err(error) = watched {
                self.shares.processes.give_back(holder, 1);
                return Err(format!("cannot watch the process: {error}"));
            }
        }
        identity.pid = peer.pid;
        identity.start_time = peer.start_unix_nanos;
        identity.uid = peer.uid;
        if identity.name.is_empty() {
            identity.name = peer.name.as_str().into();
        }
        identity.command = peer.command.as_deref().unwrap_or_default().into();
        self.processes.insert(process, key, peer, holder);
        let join = Command::Join(process, identity, claimed_pid);
        self.send(Lane::Process(process), join);
        Ok(process)
    }

    fn attach(&mut self, number: SessionNumber, process: ProcessNumber) {
        if let Some(session) = self.sessions.get_mut(&number) {
            session.process = Some(process);
            // It was held, if at all, for another lane; the next command finds out about this one.
            session.set_held(false);
        }
        if let Some(entry) = self.processes.get_mut(process) {
            entry.sessions.push(number);
            let state = ProcessCommand::state(ProcessState::Live, entry.connections());
            self.send_for(process, state);
        }
    }

    /// The peer ended the connection: what it sent before counts.
    pub(super) fn end(&mut self, number: SessionNumber) {
        let reason = self.finish_legacy(number, true);
        self.close(number, reason);
    }

    /// The peer sends nothing more; an old client that only ended its own side is answered first.
    pub(super) fn end_of_input(&mut self, number: SessionNumber) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let is_legacy = matches!(session.protocol, Protocol::Legacy(_));
        if !is_legacy || !session.may_be_answered() {
            return self.end(number);
        }
        session.half_closed = true;
        if let Some(reason) = self.finish_legacy(number, false) {
            return self.close(number, Some(reason));
        }
        self.close_if_answered(number);
    }

    /// Closes a connection whose peer waited for nothing but the answers that it has now.
    pub(super) fn close_if_answered(&mut self, number: SessionNumber) {
        let session = self.sessions.get(&number);
        if session.is_some_and(|session| session.half_closed && session.is_answered()) {
            self.close(number, None);
        }
    }

    pub(super) fn close(&mut self, number: SessionNumber, reason: Closed) {
        let Some(session) = self.sessions.remove(&number) else {
            return;
        };
        self.publish_client_count();
        self.unwatch(&session);
        self.give_back(number, &session);
        if matches!(session.protocol, Protocol::Legacy(_)) {
            let source = session.source(number);
            self.questions.leave(source, number, session.outstanding);
        }
        if let Some(reason) = reason {
            self.count_closing(session.pid, &reason);
        }
        if let Some(process) = session.process {
            self.detach(process, number);
        }
    }

    /// A connection of a process ended: the process keeps what it holds while it lives.
    pub(super) fn detach(&mut self, process: ProcessNumber, number: SessionNumber) {
        let Some(entry) = self.processes.get_mut(process) else {
            return;
        };
        entry.sessions.retain(|session| *session != number);
        let connections = entry.connections();
        let state = match connections {
            0 if !entry.pidfd.as_ref().is_some_and(peer::is_alive) => {
                let now = Instant::now();
                let unread = self.take_unread(process);
                if unread.is_empty() {
                    return self.end_process(process, now);
                }
                // The last of them leads here again, and none is left then.
                return self.drain_all(unread, now);
            }
            0 => ProcessState::Detached,
            _some => ProcessState::Live,
        };
        let ended_early = entry.ended_early;
        self.send_for(process, ProcessCommand::state(state, connections));
        if connections == 0 {
            self.check_for_exec(process);
            // The connection is closed before the new program is in place.
            for delay in EXEC_CHECKS {
                self.set_timer(Instant::now() + delay, Timer::ExecCheck(process));
            }
            if ended_early {
                self.set_timer(Instant::now() + EARLY_END, Timer::EarlyEnd(process));
            }
        }
    }

    /// Lets a client go that was replaced before it was known which program it ran.
    ///
    /// If it is only late, it comes back with all that it holds.
    pub(super) fn check_early_end(&mut self, process: ProcessNumber) {
        let entry = self.processes.get_mut(process);
        if entry.is_some_and(|entry| entry.ended_early && entry.sessions.is_empty()) {
            self.depart(process, Departure::Replaced);
        }
    }

    /// Lets a client go whose program was replaced by another that does not report.
    pub(super) fn check_for_exec(&mut self, process: ProcessNumber) {
        let Some(entry) = self.processes.get_mut(process) else {
            return;
        };
        if let ProcessKey::Local {
            pid,
            instance: Some(_),
            ..
        } = entry.key
            && entry.sessions.is_empty()
            && let (Some(then), Some(pidfd)) = (entry.image, &entry.pidfd)
            && peer::program_image(pidfd, pid).is_some_and(|now| now != then)
        {
            self.depart(process, Departure::Replaced);
        }
    }

    /// Reads all that a dead process sent before, then releases what it held.
    pub(super) fn process_died(&mut self, process: ProcessNumber, now: Instant) {
        self.take_unread(process);
        let sessions = self.sessions_of(process);
        self.drain_all(sessions, now);
        self.end_process(process, now);
    }

    /// Releases what a dead process held, once all that it sent is read.
    ///
    /// Connections of an old client that were never read are told apart by its pid alone: one that is accepted after its
    /// process was let go would be another process.
    fn end_process(&mut self, process: ProcessNumber, now: Instant) {
        let Some(entry) = self.processes.get_mut(process) else {
            return;
        };
        let since = *entry.dead_since.get_or_insert(now);
        let may_have_more = entry.key.instance().is_none()
            && entry.key.pid().is_some()
            && now.duration_since(since) < UNACCEPTED
            && !self.door.is_idle();
        if !may_have_more {
            return self.depart(process, Departure::Ended);
        }
        if let Some(pidfd) = &entry.pidfd {
            // It is readable from now on, and nothing new is learned from it.
            let _removed = self.poller.remove(pidfd);
        }
        self.set_timer(now + UNACCEPTED_CHECK, Timer::Unaccepted(process));
    }

    fn drain_all(&mut self, sessions: Vec<SessionNumber>, now: Instant) {
        for number in sessions {
            self.drain(number, now);
        }
    }

    /// Takes over the connections of an old client that ended before they were first read: nothing
    /// but its pid shows whose they were.
    fn take_unread(&mut self, process: ProcessNumber) -> Vec<SessionNumber> {
        let Some(entry) = self.processes.get_mut(process) else {
            return Vec::new();
        };
        let (Some(pid), None) = (entry.key.pid(), entry.key.instance()) else {
            return Vec::new();
        };
        let sessions = self.sessions.iter();
        let unread = sessions.filter(|(_number, session)| {
            session.pid == Some(pid)
                && session.process.is_none()
                && matches!(session.protocol, Protocol::Unknown | Protocol::Legacy(_))
                && matches!(session.peek(), (ReadOutcome::Bytes(_), 1..=12))
                && peer::identify(&session.stream).is_ok_and(|peer| peer.is_gone())
        });
        let mut unread: Vec<SessionNumber> = unread.map(|(number, _session)| *number).collect();
        unread.sort_unstable();
        for number in &unread {
            if let Some(session) = self.sessions.get_mut(number)
                && matches!(session.protocol, Protocol::Unknown)
            {
                session.protocol = Protocol::Legacy(Box::default());
            }
            self.attach(*number, process);
        }
        unread
    }

    /// Reads what a dead process left in a connection, and ends it.
    ///
    /// Unless somebody else holds an old client's connection: a child that inherited the socket.
    pub(super) fn drain(&mut self, number: SessionNumber, now: Instant) {
        self.read_remaining(number, now);
        let held = self.sessions.get(&number).is_some_and(|session| {
            matches!(session.protocol, Protocol::Legacy(_)) && session.peek().0 != ReadOutcome::End
        });
        if !held {
            return self.end(number);
        }
        self.finish_legacy(number, true);
        self.drop_reports(number);
        self.update_interest(number);
    }

    /// Reads what is in a connection, and no more: a child that inherited it may go on
    /// writing for ever.
    pub(super) fn read_remaining(&mut self, number: SessionNumber, now: Instant) {
        let session = self.sessions.get(&number);
        let mut left = session.map_or(0, Session::readable_bytes);
        // A buffer of its own: another connection may be in the middle of being read.
        let mut buffer = vec![0; left.min(READ_BYTES)];
        while left > 0
            && let Some(session) = self.sessions.get_mut(&number)
        {
            if let Protocol::Legacy(legacy) = &mut session.protocol {
                legacy.peer_gone = true;
            }
            let window = left.min(buffer.len());
            let ReadOutcome::Bytes(count) = session.read(&mut buffer[..window]) else {
                break;
            };
            left -= count;
            self.receive(number, &buffer[..count], now);
        }
    }

    pub(super) fn depart(&mut self, process: ProcessNumber, departure: Departure) {
        if let Some((departure, _sessions)) = self.remove_process(process, departure) {
            self.send_for(process, ProcessCommand::depart(departure, unix_nanos()));
            self.config.ledger.retire(process);
        }
    }

    /// The ledger let a process go on request; if it reports again it is a new one.
    pub(super) fn forget(&mut self, process: ProcessNumber) {
        let removed = self.remove_process(process, Departure::Forgotten);
        self.config.ledger.retire(process);
        for number in removed.map_or(Vec::new(), |(_departure, sessions)| sessions) {
            let session = self.sessions.get(&number);
            if session.is_some_and(|session| matches!(session.protocol, Protocol::Client(_))) {
                // It has to reconnect, and then sends all it holds.
                self.close(number, None);
            }
        }
    }

    /// Removes a process after recovering what it left; how it ended, and its connections.
    fn remove_process(
        &mut self,
        process: ProcessNumber,
        departure: Departure,
    ) -> Option<(Departure, Vec<SessionNumber>)> {
        let entry = self.processes.remove(process)?;
        self.shares.processes.give_back(entry.holder, 1);
        if let Some(pidfd) = &entry.pidfd {
            let _closed = self.poller.remove(pidfd);
        }
        let clock = entry.progress.clock;
        let departure = self.recover(process, entry.holder, entry.memory, clock, departure);
        for number in &entry.sessions {
            if let Some(session) = self.sessions.get_mut(number) {
                session.process = None;
                session.set_held(false);
            }
            self.update_interest(*number);
        }
        Some((departure, entry.sessions))
    }
}
