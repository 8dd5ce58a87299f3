//! What a connection says: recognised, decoded, and handled.

use super::client::{ClientProtocol, Collected, FrameOutcome, MAX_RESYNC_BYTES_IN_ALL};
use super::legacy::{Handled, Pause, Requester};
use super::session::{Protocol, ReadOutcome};
use super::{Closed, Ingest};
use crate::clock::unix_nanos;
use crate::ledger_thread::SessionNumber;
use crate::read;
use nix::sys::socket::{getsockopt, sockopt};
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
                (ReadOutcome::Empty, _) => return,
                (ReadOutcome::End, _) => return self.close(number, None),
                (ReadOutcome::Bytes(_), first) => {
                    if !self.detect_protocol(number, first, now) {
                        return;
                    }
                }
            }
        }
        let Some(session) = self.sessions.get_mut(&number) else {
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
                self.receive(number, &buffer[..count], now);
            }
            ReadOutcome::Empty => {}
            ReadOutcome::End => self.end(number),
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
        let surplus = session.surplus;
        match first {
            1..=12 if surplus => {
                self.count_refusal();
                self.close(number, None);
                false
            }
            1..=12 => {
                session.protocol = Protocol::Legacy(Box::default());
                self.handshakes.push(now, number);
                true
            }
            b'A'..=b'Z' => {
                self.pass_to_http(number);
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
                session.protocol = Protocol::Client(Box::new(ClientProtocol::new()));
                self.handshakes.push(now, number);
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

    pub(super) fn pass_to_http(&mut self, number: SessionNumber) {
        let Some(session) = self.sessions.remove(&number) else {
            return;
        };
        self.publish_client_count();
        let _closed = self.poller.remove(&session.stream);
        let uid = getsockopt(&session.stream, sockopt::PeerCredentials)
            .map_or(u32::MAX, |credentials| credentials.uid());
        if let Err(stream) = self.config.http.serve(session.stream, uid) {
            read::refuse(stream);
        }
    }

    pub(super) fn receive(&mut self, number: SessionNumber, bytes: &[u8], now: Instant) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        session.last_read = Some(now);
        match &mut session.protocol {
            Protocol::Unknown | Protocol::Orphaned => {}
            Protocol::Legacy(legacy) => {
                let framed = legacy.push(bytes);
                if legacy.awaits_pause() {
                    self.message_pauses.push(now, number);
                }
                self.handle_legacy(number);
                if let Err(error) = framed {
                    self.close(number, Some(format!("not the old protocol: {error}")));
                }
            }
            Protocol::Client(client) => match client.push(bytes) {
                Ok(()) => self.handle_client(number, now),
                Err(error) => {
                    self.refuse(number, RefusalCode::Version, &error.to_string());
                    self.close(number, Some(error.to_string()));
                }
            },
        }
    }

    pub(super) fn handle_legacy(&mut self, number: SessionNumber) {
        loop {
            let time = unix_nanos();
            let Some(session) = self.sessions.get_mut(&number) else {
                return;
            };
            let requester = Requester {
                session: number,
                process: session.process,
                pid: session.pid,
                outstanding: session.outstanding,
                numbering: self.config.server.buffer_types,
                time,
            };
            let Protocol::Legacy(legacy) = &mut session.protocol else {
                return;
            };
            let mut handled = Handled::default();
            let pause = legacy.handle(&requester, &mut handled);
            session.outstanding += handled.asked;
            for note in handled.notes {
                self.config.log.note(note);
            }
            for command in handled.commands {
                self.send(command);
            }
            match pause {
                Pause::Done | Pause::Answers => break,
                Pause::Identity { claimed_pid } => {
                    if let Err(reason) = self.identify_legacy(number, claimed_pid) {
                        return self.close(number, Some(reason));
                    }
                }
            }
        }
        self.update_interest(number);
    }

    pub(super) fn handle_client(&mut self, number: SessionNumber, now: Instant) {
        loop {
            let Some(session) = self.sessions.get_mut(&number) else {
                return;
            };
            let process = session.process;
            let Protocol::Client(client) = &mut session.protocol else {
                return;
            };
            let mut collected = Collected::default();
            let aside = client.resync_bytes();
            let outcome = client.read_frames(&mut collected);
            self.resync_bytes = self.resync_bytes - aside + client.resync_bytes();
            let too_much = self.resync_bytes > MAX_RESYNC_BYTES_IN_ALL;
            let next_sequence = client.next_sequence();
            let (synced, clock) = (client.is_synced(), client.clock());
            if let Some(process) = process {
                let asked = collected.finish(process, number, next_sequence);
                session.outstanding += u32::from(asked);
                if let Some(entry) = self.processes.get_mut(process) {
                    entry.next_sequence = next_sequence;
                    entry.synced = synced;
                    entry.clock = clock;
                    entry.memory.drain_to(collected.drained);
                }
                for handed in collected.handed {
                    self.keep(process, handed);
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
            match outcome {
                Ok(FrameOutcome::Consumed) => break,
                Ok(FrameOutcome::Hello(hello)) => {
                    if let Err(reason) = self.welcome(number, hello, now) {
                        self.refuse(number, RefusalCode::Full, &reason);
                        return self.close(number, Some(reason));
                    }
                }
                Ok(FrameOutcome::Goodbye) => {
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

    /// Handles what an old client said last; what is left over is told as a reason.
    pub(super) fn finish_legacy(&mut self, number: SessionNumber) -> Closed {
        let session = self.sessions.get_mut(&number)?;
        let Protocol::Legacy(legacy) = &mut session.protocol else {
            return None;
        };
        let left_over = legacy.finish().err().map(|error| error.to_string());
        legacy.stop_answering();
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
