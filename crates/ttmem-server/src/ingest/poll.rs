//! Waiting for many descriptors at once.

use crate::ledger_thread::{ProcessNumber, SessionNumber};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// What a descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A listening socket, by its place.
    Listener(u64),
    Signals,
    /// Answers from the ledger thread, or the wish to stop.
    Wake,
    Session(SessionNumber),
    /// The death of a process.
    Process(ProcessNumber),
}

const KIND_BITS: u32 = 3;

impl Token {
    fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Listener(place) => (0, place),
            Self::Signals => (1, 0),
            Self::Wake => (2, 0),
            Self::Session(number) => (3, number.0),
            Self::Process(number) => (4, number.0),
        };
        number << KIND_BITS | kind
    }

    fn decode(data: u64) -> Self {
        let number = data >> KIND_BITS;
        match data & ((1 << KIND_BITS) - 1) {
            0 => Self::Listener(number),
            1 => Self::Signals,
            2 => Self::Wake,
            3 => Self::Session(SessionNumber(number)),
            _four => Self::Process(ProcessNumber(number)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interest {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Interest {
    pub(super) const READ: Self = Self {
        read: true,
        write: false,
    };
    pub(super) const NONE: Self = Self {
        read: false,
        write: false,
    };

    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, self.read);
        flags.set(epoll::EventFlags::OUT, self.write);
        flags
    }
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) token: Token,
    /// Something can be read, or the other end is gone: reading tells which.
    pub(super) read: bool,
    pub(super) write: bool,
}

/// Room for what is ready; belongs to the thread that waits.
pub(super) struct ReadyList(Vec<epoll::Event>);

impl ReadyList {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(256))
    }
}

/// The descriptors that are waited for.
#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll })
    }

    pub(super) fn add(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token.encode());
        Ok(epoll::add(&self.epoll, fd, data, interest.flags())?)
    }

    pub(super) fn change(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token.encode());
        Ok(epoll::modify(&self.epoll, fd, data, interest.flags())?)
    }

    pub(super) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something is ready or the time is over.
    pub(super) fn wait(
        &self,
        list: &mut ReadyList,
        timeout: Option<Duration>,
    ) -> io::Result<Vec<Ready>> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        list.0.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut list.0), timeout.as_ref()) {
            Ok(_count) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let ready = list.0.iter().map(|event| {
            let flags = event.flags;
            let ended = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
            Ready {
                token: Token::decode(event.data.u64()),
                read: flags.intersects(epoll::EventFlags::IN | ended),
                write: flags.intersects(epoll::EventFlags::OUT),
            }
        });
        Ok(ready.collect())
    }
}
