//! The connection to the server, in a process that may do anything to it.
//!
//! Only the socket calls are used, never `write`: if the program closed our
//! descriptor and opened a file under its number, they fail where `write` would
//! put our bytes into that file. A socket of the program's own has another
//! identity, which is checked before each use.

use crate::host;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;
use ttmem_ring::memory::Descriptor;

#[derive(Debug)]
pub(super) struct Socket(Descriptor);

/// The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Socket {
    /// Connects, without waiting for a server that does not accept.
    pub(super) fn connect(path: &Path) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket: OwnedFd =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Descriptor::keep(socket).map(Self)
    }

    /// See [`Descriptor::identity`].
    pub(super) fn identity(&self) -> (i32, u64, u64) {
        self.0.identity()
    }

    /// The user who runs the server, according to the system.
    pub(super) fn server_uid(&self) -> Option<u32> {
        let credentials = rustix::net::sockopt::socket_peercred(self.0.get()?).ok()?;
        Some(credentials.uid.as_raw())
    }

    /// Sends what the server takes now, with a descriptor if there is one; returns how much.
    pub(super) fn send(
        &self,
        bytes: &[u8],
        beside: Option<BorrowedFd<'_>>,
    ) -> Result<usize, Broken> {
        let socket = self.0.get().ok_or(Broken)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let beside = beside.as_ref().map(std::slice::from_ref);
        if let Some(descriptors) = beside
            && !control.push(SendAncillaryMessage::ScmRights(descriptors))
        {
            return Err(Broken);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags) {
            Ok(count) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(_gone) => Err(Broken),
        }
    }

    /// Receives what is there; returns how much.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Result<usize, Broken> {
        let socket = self.0.get().ok_or(Broken)?;
        match rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT) {
            Ok((_bytes, 0)) => Err(Broken),
            Ok((_bytes, count)) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(_gone) => Err(Broken),
        }
    }

    /// Waits until something can be received, or sent if `to_send`, or the time is up.
    pub(super) fn wait(&self, to_send: bool, timeout: Duration) {
        let Some(socket) = self.0.get() else {
            return;
        };
        let mut events = PollFlags::IN;
        if to_send {
            events |= PollFlags::OUT;
        }
        let limit = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // Whatever came of it, the next turn looks.
        match rustix::event::poll(&mut [PollFd::new(&socket, events)], Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_refused) => host::sleep_instead(timeout),
        }
    }
}
