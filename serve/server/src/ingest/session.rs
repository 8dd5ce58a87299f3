//! One connection: its protocol and what is still to be sent to it.

use super::client::ClientProtocol;
use super::door::UnixConnection;
use super::legacy::LegacyProtocol;
use super::{Source, shares};
use crate::ledger_thread::{ProcessNumber, SessionNumber};
use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::time::Instant;
use ttmem_ledger::Holder;

/// Answers that a connection may wait for before it is read again.
pub(super) const MAX_OUTSTANDING: u32 = 8;

/// Bytes that may wait for a peer that does not read them.
const MAX_UNSENT_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) enum Protocol {
    /// Nothing came yet. Old clients connect long before they first report.
    Unknown,
    Legacy(Box<LegacyProtocol>),
    Client(Box<ClientProtocol>),
    /// An old sender's that is served no more: its process is dead and a child holds the connection, or
    /// there is no room for its process. What comes is read and dropped, because closing would kill the
    /// sender at its next report.
    Dropped,
}

/// Whether the reports of a connection are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// It has reported nothing yet.
    Undecided,
    Served,
    /// Its process or user has its share of clients: an old sender's reports are counted and dropped.
    Dropped,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) stream: UnixStream,
    /// The pid of the peer, for the log only.
    pub(super) pid: Option<u32>,
    pub(super) protocol: Protocol,
    /// The process behind it, once it matters.
    pub(super) process: Option<ProcessNumber>,
    /// Its peer sends nothing more, but waits for answers.
    pub(super) half_closed: bool,
    pub(super) service: Service,
    /// Who is charged with what it takes, and with how many bytes.
    pub(super) holder: Holder,
    pub(super) resync_bytes: u64,
    pub(super) unfinished_bytes: u64,
    /// What it had completed and begun when that was last looked at; none while nothing is begun.
    pub(super) watched: Option<(u64, u64)>,
    pub(super) outstanding: u32,
    /// Whether it is not read because its process has more waiting than there is room for.
    held: bool,
    pub(super) last_read: Option<Instant>,
    /// Whether it is among the newcomers whose turn will come.
    pub(super) waits_for_greeting: bool,
    /// What epoll reports of it; nothing before it was first looked at.
    pub(super) interest: EventFlags,
    unsent: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    Bytes(usize),
    Empty,
    End,
}

impl Session {
    pub(super) fn new(connection: UnixConnection) -> Self {
        let UnixConnection {
            stream,
            number,
            credentials,
        } = connection;
        Self {
            stream: stream.into(),
            pid: credentials.and_then(|credentials| credentials.pid),
            protocol: Protocol::Unknown,
            process: None,
            half_closed: false,
            service: Service::Undecided,
            holder: shares::holder(credentials, number),
            resync_bytes: 0,
            unfinished_bytes: 0,
            watched: None,
            outstanding: 0,
            held: false,
            last_read: None,
            waits_for_greeting: true,
            interest: EventFlags::empty(),
            unsent: Vec::new(),
        }
    }

    /// The first byte, left where it is.
    pub(super) fn peek(&self) -> (ReadOutcome, u8) {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let outcome = retry_interrupted(|| {
            let (_bytes, count) = rustix::net::recv(&self.stream, &mut byte, flags)?;
            Ok(count)
        });
        (outcome, byte[0])
    }

    /// Reads bytes, and from a client also the descriptors beside them.
    ///
    /// The system closes those that anybody else sends.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        retry_interrupted(|| {
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = match &self.protocol {
                Protocol::Client(_) => RecvAncillaryBuffer::new(&mut room),
                _no_descriptors => RecvAncillaryBuffer::default(),
            };
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let buffers = &mut [IoSliceMut::new(buffer)];
            let received = recvmsg(&self.stream, buffers, &mut ancillary, flags)?;
            if let Protocol::Client(client) = &mut self.protocol {
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                        client.take_descriptors(descriptors);
                    }
                }
            }
            Ok(received.bytes)
        })
    }

    pub(super) fn readable_bytes(&self) -> usize {
        let bytes = rustix::io::ioctl_fionread(&self.stream).unwrap_or(0);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Sends what can be sent now and keeps the rest; an error ends the connection.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unsent.extend_from_slice(bytes);
        self.send_rest()
    }

    pub(super) fn send_rest(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.stream, &self.unsent[sent..], flags) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // It is gone; what it sent before is still to be read, up to the end.
                Err(Errno::PIPE | Errno::CONNRESET) => {
                    self.unsent.clear();
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.unsent.drain(..sent);
        if self.unsent.len() > MAX_UNSENT_BYTES {
            return Err(io::Error::other("it does not read its answers"));
        }
        Ok(())
    }

    /// True if that is a change.
    pub(super) fn set_held(&mut self, held: bool) -> bool {
        std::mem::replace(&mut self.held, held) != held
    }

    pub(super) fn source(&self, number: SessionNumber) -> Source {
        self.pid.map_or(Source::Session(number), Source::Pid)
    }

    /// Whether its peer, which sends nothing more, may still read.
    pub(super) fn may_be_answered(&self) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::empty())];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        polled.is_ok() && !fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Whether everything is answered that its peer asked.
    pub(super) fn is_answered(&self) -> bool {
        let held_back = match &self.protocol {
            Protocol::Legacy(legacy) => legacy.is_held_back(),
            Protocol::Unknown | Protocol::Client(_) | Protocol::Dropped => false,
        };
        self.outstanding == 0 && !held_back && self.unsent.is_empty()
    }

    /// Whether it may be read: not before its earlier questions are answered, and there is room.
    pub(super) fn is_readable(&self) -> bool {
        let held_back = match &self.protocol {
            Protocol::Legacy(legacy) => legacy.is_held_back(),
            Protocol::Unknown | Protocol::Client(_) | Protocol::Dropped => false,
        };
        self.outstanding < MAX_OUTSTANDING && !held_back && !self.half_closed && !self.held
    }

    pub(super) fn wanted_interest(&self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.is_readable());
        flags.set(EventFlags::OUT, !self.unsent.is_empty());
        flags
    }
}

fn retry_interrupted(mut read: impl FnMut() -> rustix::io::Result<usize>) -> ReadOutcome {
    loop {
        match read() {
            Ok(0) => return ReadOutcome::End,
            Ok(count) => return ReadOutcome::Bytes(count),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return ReadOutcome::Empty,
            // A reset after the last bytes were read is an end like any other.
            Err(_reset) => return ReadOutcome::End,
        }
    }
}
