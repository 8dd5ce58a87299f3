//! What a connection sends: its protocol is detected, its bytes decoded, its messages handled.

use super::client::FrameOutcome;
use super::collected::Collected;
use super::legacy::{Pause, Requester};
use super::session::{Protocol, ReadOutcome, Service};
use super::{
    Closed, HANDSHAKE_TIMEOUT, Ingest, LEAST_READ_BYTES, MESSAGE_PAUSE, READ_COST_BYTES,
    STALL_TIMEOUT, Timer,
};
use crate::clock::unix_nanos;
use crate::ledger_thread::{Command, Lane, SessionNumber};
use crate::read;
use std::time::Instant;
use ttmem_event::wire::{Frame, MAGIC, RefusalCode};
use ttmem_ledger::Departure;

impl Ingest {
    pub(super) fn read_session(&mut self, number: SessionNumber, now: Instant) {
        let Some(session) = self.sessions.get(&number) else {
            return;
        };
        if matches!(session.protocol, Protocol::Unknown) {
            match session.peek() {
                (ReadOutcome::Empty, _) => {
                    self.watch(number);
                    return;
                }
                (ReadOutcome::End, _) => return self.close(number, None),
                (ReadOutcome::Bytes(_), first) => {
                    if !self.detect_protocol(number, first, now) || !self.watch(number) {
                        return;
                    }
                }
            }
        }
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        if !session.is_readable() {
            // Its earlier questions come first; what it sent stays in the socket.
            return self.update_interest(number);
        }
        let source = session.source(number);
        let read = self.read_from.get(&source).copied().unwrap_or(0);
        if read >= self.read_share {
            // Others have their turn; what it sent is still there in the next round.
            return;
        }
        let room = self.config.ledger.room(self.lane(number));
        let window = room.min(self.read_share - read).max(LEAST_READ_BYTES);
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = session.read(&mut buffer[..window]);
        match outcome {
            ReadOutcome::Bytes(count) => {
                self.bytes_this_round += count;
                *self.read_from.entry(source).or_default() += count + READ_COST_BYTES;
                self.receive(number, &buffer[..count], now);
            }
            ReadOutcome::Empty => {}
            ReadOutcome::End => self.end_of_input(number),
        }
        self.buffer = buffer;
    }

    /// Finds out what a connection speaks; false when it is no longer ours.
    pub(super) fn detect_protocol(
        &mut self,
        number: SessionNumber,
        first: u8,
        now: Instant,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(&number) else {
            return false;
        };
        self.silent.remove(session.holder, number);
        match first {
            b'A'..=b'Z' => {
                self.pass_to_http(number);
                return false;
            }
            1..=12 => session.protocol = Protocol::Legacy(Box::default()),
            byte if byte == MAGIC[0] => session.protocol = Protocol::Client(Box::default()),
            other => {
                let reason =
                    format!("its first byte is {other:#04x}, which no protocol begins with");
                self.close(number, Some(reason));
                return false;
            }
        }
        self.set_timer(now + HANDSHAKE_TIMEOUT, Timer::Handshake(number));
        true
    }

    pub(super) fn pass_to_http(&mut self, number: SessionNumber) {
        let Some(session) = self.sessions.remove(&number) else {
            return;
        };
        self.publish_client_count();
        self.give_back(number, &session);
        self.unwatch(&session);
        if let Err(stream) = self.config.http.serve(session.stream, session.holder) {
            read::refuse(stream);
        }
    }

    pub(super) fn receive(&mut self, number: SessionNumber, bytes: &[u8], now: Instant) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        session.last_read = Some(now);
        match &mut session.protocol {
            Protocol::Unknown | Protocol::Dropped => {}
            Protocol::Legacy(legacy) => {
                let framed = legacy.push(bytes);
                if legacy.awaits_pause() {
                    self.set_timer(now + MESSAGE_PAUSE, Timer::MessagePause(number));
                }
                self.handle_legacy(number);
                if let Err(error) = framed {
                    self.close(number, Some(format!("not the old protocol: {error}")));
                }
            }
            Protocol::Client(client) => {
                let pushed = client.push(bytes);
                let pushed = pushed.map_err(|error| (RefusalCode::Version, error.to_string()));
                match pushed.and_then(|()| self.read_frames(number, now)) {
                    Ok(()) => {
                        self.watch_for_stall(number, now);
                        self.update_interest(number);
                    }
                    Err((code, reason)) => {
                        self.refuse(number, code, &reason);
                        self.close(number, Some(reason));
                    }
                }
            }
        }
    }

    pub(super) fn handle_legacy(&mut self, number: SessionNumber) {
        loop {
            let Some(session) = self.sessions.get_mut(&number) else {
                return;
            };
            let source = session.source(number);
            let requester = Requester {
                session: number,
                pid: session.pid,
                outstanding: session.outstanding,
                room: self.questions.room(source),
                is_dropped: session.service == Service::Dropped,
                numbering: self.config.server.buffer_types,
                time: unix_nanos(),
                now: Instant::now(),
            };
            let mut collected = Collected::of(session);
            let Protocol::Legacy(legacy) = &mut session.protocol else {
                return;
            };
            let pause = legacy.handle(&requester, &mut self.dump_requests, &mut collected);
            self.questions.ask(source, collected.answers);
            self.dispatch(number, collected);
            match pause {
                Pause::Done | Pause::Answers => break,
                Pause::Turn => {
                    self.wait_to_ask(number);
                    break;
                }
                Pause::Identity(claimed_pid) => self.identify_legacy(number, claimed_pid),
            }
        }
        self.update_interest(number);
    }

    /// Handles all whole frames of a client; an error ends its connection.
    fn read_frames(
        &mut self,
        number: SessionNumber,
        now: Instant,
    ) -> Result<(), (RefusalCode, String)> {
        loop {
            let Some(session) = self.sessions.get_mut(&number) else {
                return Ok(());
            };
            let mut collected = Collected::of(session);
            let process = session.process;
            let Protocol::Client(client) = &mut session.protocol else {
                return Ok(());
            };
            let outcome = client.read_frames(&mut collected, now);
            let progress = client.progress;
            self.charge_memory(number, collected.resync_bytes)?;
            if let (Some(process), Some(progress)) = (process, progress) {
                // Once for a read, however many frames came.
                if collected.answers > 0 {
                    collected.push(Command::Acknowledge(number, progress.next_sequence));
                }
                if let Some(entry) = self.processes.get_mut(process) {
                    entry.progress = progress;
                    entry
                        .memory
                        .drain_to(std::mem::take(&mut collected.drained));
                }
                for handed in std::mem::take(&mut collected.handed) {
                    self.keep(process, handed);
                }
                self.dispatch(number, collected);
            }
            match outcome.map_err(|error| (RefusalCode::Protocol, error.to_string()))? {
                FrameOutcome::Consumed => return Ok(()),
                FrameOutcome::Hello(introduction) => self
                    .greet(number, introduction, now)
                    .map_err(|reason| (RefusalCode::Full, reason))?,
                FrameOutcome::Reports => self
                    .join_introduced(number, now)
                    .map_err(|reason| (RefusalCode::Full, reason))?,
                FrameOutcome::Goodbye => {
                    if let Some(process) = process {
                        self.depart(process, Departure::Exited);
                    }
                    self.close(number, None);
                    return Ok(());
                }
            }
        }
    }

    /// Looks again in a while at what a client has begun to send.
    fn watch_for_stall(&mut self, number: SessionNumber, now: Instant) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        if let (Protocol::Client(client), None) = (&session.protocol, session.watched)
            && client.begun_bytes() > 0
        {
            session.watched = Some((client.completed, client.begun_bytes()));
            self.set_timer(now + STALL_TIMEOUT, Timer::Stall(number));
        }
    }

    /// Sends on what the messages of a connection led to.
    fn dispatch(&mut self, number: SessionNumber, mut collected: Collected) {
        collected.flush_events();
        if let Some(session) = self.sessions.get_mut(&number) {
            session.outstanding += collected.answers;
        }
        for note in collected.notes {
            self.config.log.note(note);
        }
        let lane = collected.process.map(Lane::Process);
        let lane = lane.unwrap_or_else(|| self.lane(number));
        for command in collected.commands {
            self.send(lane, command);
        }
    }

    /// Handles the last requests of an old client; an incomplete one is the reason it returns.
    pub(super) fn finish_legacy(&mut self, number: SessionNumber, peer_gone: bool) -> Closed {
        let session = self.sessions.get_mut(&number)?;
        let Protocol::Legacy(legacy) = &mut session.protocol else {
            return None;
        };
        let left_over = legacy.finish().err().map(|error| error.to_string());
        legacy.peer_gone |= peer_gone;
        self.handle_legacy(number);
        left_over
    }

    pub(super) fn refuse(&mut self, number: SessionNumber, code: RefusalCode, reason: &str) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let mut bytes = Vec::new();
        Frame::put_refused(&mut bytes, code, reason);
        // It is about to be closed: whether it reads this is its business.
        let _gone = session.send(&bytes);
    }
}
