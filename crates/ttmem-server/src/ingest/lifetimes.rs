//! When connections and processes come, end, and are let go.

use super::client::ClientHello;
use super::poll::{Interest, Token};
use super::processes::ProcessKey;
use super::session::{Protocol, ReadOutcome, Session};
use super::{Closed, Ingest, MAX_PROCESSES, READ_BYTES};
use crate::clock::unix_nanos;
use crate::ledger_thread::{Command, ProcessNumber, SessionNumber};
use crate::log::Note;
use crate::peer::{self, Peer};
use std::sync::Arc;
use std::time::Instant;
use ttmem_event::Source;
use ttmem_event::wire::{Clock, Frame, Welcome};
use ttmem_ledger::{Departure, ProcessIdentity, ProcessState};

impl Ingest {
    /// Finds or makes the process behind an old client's connection.
    pub(super) fn identify_legacy(
        &mut self,
        number: SessionNumber,
        claimed_pid: i32,
    ) -> Result<(), String> {
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
            None => self.join(key, peer, identity, i64::from(claimed_pid))?,
        };
        self.attach(number, process);
        Ok(())
    }

    /// Finds or makes the process behind a client and greets it.
    pub(super) fn welcome(
        &mut self,
        number: SessionNumber,
        hello: ClientHello,
        now: Instant,
    ) -> Result<(), String> {
        let peer = self.peer(number)?;
        let key = ProcessKey::of(&peer, Some(hello.instance), number);
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
        let known = self.processes.number(&key);
        let process = match known {
            Some(process) => process,
            None => {
                let name = if hello.name.is_empty() {
                    peer.name.as_str().into()
                } else {
                    hello.name
                };
                let identity = ProcessIdentity {
                    pid: peer.pid,
                    start_time: peer.start_unix_nanos,
                    instance: Some(hello.instance),
                    uid: peer.uid,
                    name,
                    source: hello.source,
                    visible_devices: hello.visible_devices,
                };
                self.join(key, peer, identity, i64::from(hello.claimed_pid))?
            }
        };
        // Only one connection speaks for an instance: the newest.
        let earlier = self.sessions_of(process);
        self.attach(number, process);
        for session in earlier {
            self.close(session, None);
        }
        let known = self.processes.get_mut(process);
        let (next_sequence, synced, clock) = known.map_or((0, false, Clock::UNIX_NANOS), |entry| {
            (entry.next_sequence, entry.synced, entry.clock)
        });
        let server_instance = self.config.server_instance;
        let Some(session) = self.sessions.get_mut(&number) else {
            return Ok(());
        };
        let Protocol::Client(client) = &mut session.protocol else {
            return Ok(());
        };
        client.accept(process, next_sequence, synced, clock);
        let mut bytes = Vec::new();
        Frame::put_welcome(
            &mut bytes,
            &Welcome {
                version: client.version(),
                needs_resync: !synced,
                server_instance,
                next_sequence,
            },
        );
        session.send(&bytes).map_err(|error| error.to_string())
    }

    pub(super) fn sessions_of(&mut self, process: ProcessNumber) -> Vec<SessionNumber> {
        let entry = self.processes.get_mut(process);
        entry.map_or(Vec::new(), |entry| entry.sessions.clone())
    }

    pub(super) fn peer(&self, number: SessionNumber) -> Result<Peer, String> {
        let session = self.sessions.get(&number).ok_or("it is gone")?;
        peer::identify(&session.stream).map_err(|error| format!("cannot tell who it is: {error}"))
    }

    pub(super) fn join(
        &mut self,
        key: ProcessKey,
        peer: Peer,
        identity: ProcessIdentity,
        claimed_pid: i64,
    ) -> Result<ProcessNumber, String> {
        if self.processes.len() >= MAX_PROCESSES {
            return Err(format!(
                "{MAX_PROCESSES} processes are the most that can be known"
            ));
        }
        let process = self.processes.insert(key, peer.pidfd, peer.image);
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

    pub(super) fn attach(&mut self, number: SessionNumber, process: ProcessNumber) {
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
    pub(super) fn end(&mut self, number: SessionNumber) {
        let reason = self.finish_legacy(number);
        self.close(number, reason);
    }

    pub(super) fn close(&mut self, number: SessionNumber, reason: Closed) {
        let Some(session) = self.sessions.remove(&number) else {
            return;
        };
        self.publish_client_count();
        let _closed = self.poller.remove(&session.stream);
        if let Protocol::Client(client) = &session.protocol {
            self.resync_bytes -= client.resync_bytes();
        }
        if let Some(reason) = reason {
            self.config.log.note(Note::Dropped {
                pid: session.pid,
                reason,
            });
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
        if !lives {
            return self.depart(process, Departure::Died);
        }
        let state = ProcessState::Detached;
        self.send(Command::State {
            process,
            state,
            connections: 0,
        });
        self.check_for_exec(process);
        // The connection is closed before the new program is in place.
        let now = Instant::now();
        self.exec_soon.push(now, process);
        self.exec_late.push(now, process);
    }

    /// Lets a client go that another program took the place of, without a word of either.
    pub(super) fn check_for_exec(&mut self, process: ProcessNumber) {
        let Some(entry) = self.processes.get_mut(process) else {
            return;
        };
        if let ProcessKey::Client { pid, .. } = entry.key
            && entry.sessions.is_empty()
            && let (Some(then), Some(pidfd)) = (entry.image, &entry.pidfd)
            && peer::program_image(pidfd, pid).is_some_and(|now| now != then)
        {
            self.depart(process, Departure::Replaced);
        }
    }

    /// A process died: all that it sent before is read, then it is let go.
    pub(super) fn process_died(&mut self, process: ProcessNumber, now: Instant) {
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
    pub(super) fn drain(&mut self, number: SessionNumber, now: Instant) {
        self.read_remaining(number, now);
        let held = self.sessions.get(&number).is_some_and(|session| {
            matches!(session.protocol, Protocol::Legacy(_)) && session.peek().0 != ReadOutcome::End
        });
        if !held {
            return self.end(number);
        }
        self.finish_legacy(number);
        if let Some(session) = self.sessions.get_mut(&number) {
            session.protocol = Protocol::Orphaned;
            session.outstanding = 0;
        }
        self.update_interest(number);
    }

    /// Reads what is in a connection, and no more: a child that inherited it may go on
    /// writing for ever.
    pub(super) fn read_remaining(&mut self, number: SessionNumber, now: Instant) {
        // Its own room: another connection may be in the middle of being heard.
        let mut buffer = vec![0; READ_BYTES];
        let mut left = self
            .sessions
            .get(&number)
            .map_or(0, Session::readable_bytes);
        while left > 0
            && let Some(session) = self.sessions.get_mut(&number)
        {
            if let Protocol::Legacy(legacy) = &mut session.protocol {
                legacy.stop_answering();
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
        let Some(entry) = self.processes.remove(process) else {
            return;
        };
        if let Some(pidfd) = &entry.pidfd {
            let _closed = self.poller.remove(pidfd);
        }
        let departure = self.recover(process, &entry.memory, &entry.clock, departure);
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

    /// The ledger let a process go on request; if it speaks again it is a new one.
    pub(super) fn forget(&mut self, process: ProcessNumber) {
        let Some(entry) = self.processes.remove(process) else {
            return;
        };
        if let Some(pidfd) = &entry.pidfd {
            let _closed = self.poller.remove(pidfd);
        }
        self.recover(process, &entry.memory, &entry.clock, Departure::Forgotten);
        for number in entry.sessions {
            let Some(session) = self.sessions.get_mut(&number) else {
                continue;
            };
            session.process = None;
            if matches!(session.protocol, Protocol::Client(_)) {
                // It has to introduce itself anew, and then sends all it holds.
                self.close(number, None);
            }
        }
    }
}
