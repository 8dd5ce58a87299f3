//! One connection to a server, and how long each step on it may take.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::{Address, HttpUrl};

/// A connected socket, of a Unix path or over TCP: the same calls serve both.
#[derive(Debug)]
pub(crate) struct Connection(OwnedFd);

impl Connection {
    /// Connects within a time, which is also how long a write may take.
    pub(super) fn open(server: &Address, timeout: Duration) -> io::Result<Self> {
        Ok(Self(match server {
            Address::Unix(path) => unix(path, timeout)?,
            Address::Http(url) => tcp(url, timeout)?.into(),
        }))
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A server that is gone is an error, not a signal to whoever uses this crate.
        Ok(rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unix(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // The send timeout also bounds `connect`, which waits while the backlog is full.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
    Ok(socket)
}

/// Connects to the first of a host's addresses that takes it.
fn tcp(url: &HttpUrl, timeout: Duration) -> io::Result<TcpStream> {
    let addresses = url.resolve()?;
    let end = Instant::now() + timeout;
    let mut outcome = Err(io::Error::other("the name has no address"));
    for (tried, address) in addresses.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        let untried = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        // An address that swallows everything leaves the others their share.
        let share = left / untried;
        if share.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        outcome = connected(address, share);
        if outcome.is_ok() {
            break;
        }
    }
    let stream = outcome?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn connected(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(address, timeout)?;
    // Where nobody listens, the kernel may choose that very port for us and connect us to
    // ourselves; then nobody else could listen there.
    if stream.local_addr()? == *address {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

/// A connection on which reads wait until an instant, however little each of them brings.
#[derive(Debug)]
pub(crate) struct Deadline {
    connection: Connection,
    end: Instant,
}

impl Deadline {
    pub(super) fn new(connection: Connection, end: Instant) -> Self {
        Self { connection, end }
    }

    /// Ends our side of the connection; the other end may go on.
    pub(crate) fn end_sending(&mut self) {
        let Connection(socket) = &self.connection;
        // One that is gone is noticed by who reads.
        let _gone = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
    }

    /// Lets all reads from now on take so long together.
    pub(crate) fn extend(&mut self, wait: Duration) {
        self.end = Instant::now() + wait;
    }
}

impl Read for Deadline {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let Connection(socket) = &self.connection;
        // Less than a microsecond would mean "for ever" to the kernel.
        let wait = left.max(Duration::from_micros(1));
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(wait))?;
        Ok(rustix::io::read(socket, buffer)?)
    }
}
