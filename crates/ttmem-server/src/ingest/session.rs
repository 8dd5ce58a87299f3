//! One connection: what it speaks and what is still to be sent to it.

use super::client::ClientProtocol;
use super::legacy::LegacyProtocol;
use super::poll::Interest;
use crate::ledger_thread::ProcessNumber;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, RecvMsg, SendFlags, recvmsg,
};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Answers that a connection may wait for before it is read again.
pub(super) const MAX_OUTSTANDING: u32 = 8;

/// Bytes that may wait for a peer that does not read them.
const MAX_UNSENT_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) enum Protocol {
    /// Nothing yet. Old clients connect long before they first report.
    Unknown,
    Legacy(Box<LegacyProtocol>),
    Client(Box<ClientProtocol>),
    /// Its process is dead and a child holds the connection: what comes is read and
    /// dropped, because closing would kill an old client's child at its next report.
    Orphaned,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) stream: UnixStream,
    /// The pid of the peer, for the log only.
    pub(super) pid: Option<u32>,
    pub(super) protocol: Protocol,
    /// The process behind it, once it matters.
    pub(super) process: Option<ProcessNumber>,
    /// One of more connections than there may be: to be refused once it is known how.
    pub(super) surplus: bool,
    pub(super) outstanding: u32,
    /// When its last bytes came.
    pub(super) last_read: Option<Instant>,
    /// What epoll was last told.
    pub(super) interest: Interest,
    unsent: Vec<u8>,
}

/// What reading a connection came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// So many bytes.
    Bytes(usize),
    Empty,
    End,
}

impl Session {
    pub(super) fn new(stream: UnixStream, surplus: bool) -> Self {
        // 0 is a peer in a namespace that ours cannot see.
        let credentials = getsockopt(&stream, sockopt::PeerCredentials).ok();
        let pid = credentials.and_then(|credentials| u32::try_from(credentials.pid()).ok());
        Self {
            stream,
            pid: pid.filter(|pid| *pid != 0),
            protocol: Protocol::Unknown,
            process: None,
            surplus,
            outstanding: 0,
            last_read: None,
            interest: Interest::READ,
            unsent: Vec::new(),
        }
    }

    /// The first byte, left where it is.
    pub(super) fn peek(&self) -> (ReadOutcome, u8) {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let outcome = outcome(|| {
            let (_bytes, count) = rustix::net::recv(&self.stream, &mut byte, flags)?;
            Ok(count)
        });
        (outcome, byte[0])
    }

    /// Reads bytes, and from a client also the descriptors beside them.
    ///
    /// Nobody else's descriptors are taken: the system closes them.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        let stream = &self.stream;
        let Protocol::Client(client) = &mut self.protocol else {
            return outcome(|| {
                let (_bytes, count) = rustix::net::recv(stream, &mut *buffer, RecvFlags::DONTWAIT)?;
                Ok(count)
            });
        };
        outcome(|| {
            let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = RecvAncillaryBuffer::new(&mut room);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let buffers = &mut [IoSliceMut::new(buffer)];
            let RecvMsg { bytes, .. } = recvmsg(stream, buffers, &mut beside, flags)?;
            for message in beside.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    client.take_descriptors(descriptors);
                }
            }
            Ok(bytes)
        })
    }

    /// How many bytes can be read now.
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
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                // It is gone; what it sent before is still to be read, up to the end.
                Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {
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

    /// What epoll should wait for now.
    pub(super) fn wanted(&self) -> Interest {
        let held_back = match &self.protocol {
            Protocol::Legacy(legacy) => legacy.is_held_back(),
            Protocol::Unknown | Protocol::Client(_) | Protocol::Orphaned => false,
        };
        Interest {
            read: self.outstanding < MAX_OUTSTANDING && !held_back,
            write: !self.unsent.is_empty(),
        }
    }
}

/// What a read came to.
fn outcome(mut read: impl FnMut() -> rustix::io::Result<usize>) -> ReadOutcome {
    loop {
        match read() {
            Ok(0) => return ReadOutcome::End,
            Ok(count) => return ReadOutcome::Bytes(count),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return ReadOutcome::Empty,
            // A reset after the last bytes were read is an end like any other.
            Err(_reset) => return ReadOutcome::End,
        }
    }
}
