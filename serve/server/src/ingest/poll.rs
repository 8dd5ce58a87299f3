//! Waiting for many descriptors at once.

use crate::ledger_thread::{ProcessNumber, SessionNumber};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Connections that were let in.
    Door,
    Signals,
    /// Answers from the ledger thread, or the wish to stop.
    Wake,
    Session(SessionNumber),
    Process(ProcessNumber),
}

const KIND_BITS: u32 = 3;

impl Token {
    fn encode(self) -> EventData {
        let (kind, number) = match self {
            Self::Door => (0, 0),
            Self::Signals => (1, 0),
            Self::Wake => (2, 0),
            Self::Session(number) => (3, number.0),
            Self::Process(number) => (4, number.0),
        };
        EventData::new_u64(number << KIND_BITS | kind)
    }

    pub(super) fn decode(data: EventData) -> Self {
        let data = data.u64();
        let number = data >> KIND_BITS;
        match data & ((1 << KIND_BITS) - 1) {
            0 => Self::Door,
            1 => Self::Signals,
            2 => Self::Wake,
            3 => Self::Session(SessionNumber(number)),
            _four => Self::Process(ProcessNumber(number)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll })
    }

    pub(super) fn add(&self, fd: impl AsFd, token: Token, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, token.encode(), flags)?)
    }

    pub(super) fn change(&self, fd: impl AsFd, token: Token, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, token.encode(), flags)?)
    }

    pub(super) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something is ready or the time is over; `ready` must have room and be empty.
    pub(super) fn wait(
        &self,
        ready: &mut Vec<epoll::Event>,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let timeout = timeout.and_then(|timeout| timeout.try_into().ok());
        match epoll::wait(&self.epoll, spare_capacity(ready), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
