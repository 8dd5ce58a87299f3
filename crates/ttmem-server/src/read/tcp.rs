//! The read API over TCP: where it listens, and how connections are taken.
//!
//! Runs on the HTTP thread. Readers here have seats of their own, so that strangers never take those
//! of the socket; a connection that finds none is told so and closed. On an address that other
//! machines can reach nobody is answered without a token.

use super::admission::Admission;
use super::allowance::Allowance;
use super::connection::{Door, HttpLimits, busy_answer, serve_connection};
use axum::Router;
use rustix::net::sockopt;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use ttmem_api::{HttpUrl, Token};

/// A peer that confirms nothing for so long is gone; streams are dropped then.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a silent peer is asked whether it is there, and how often in vain.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// What is waited after the system had no descriptor or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Refused connections that are seen off at once; the others are told and left.
const PARTINGS: usize = 32;

/// How long a refused reader has to take its answer, and what is read of its request meanwhile.
const PARTING: Duration = Duration::from_secs(1);
const PARTING_BYTES: usize = 64 * 1024;

/// Where to offer the read API over TCP, and to whom.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The address; port 0 lets the system choose one.
    pub address: SocketAddr,
    /// What readers have to show; needed where other machines can connect.
    pub token: Option<Token>,
    /// Names under which readers know this machine, besides its addresses.
    pub hosts: Vec<String>,
}

/// Why the read API cannot be offered over TCP.
#[derive(Debug, thiserror::Error)]
pub enum BindHttpError {
    /// Everybody in the network could read.
    #[error(
        "other machines can connect to {0}: give a file with a token (--http-token-file), or an \
         address of this machine only, such as 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// A bound TCP listener with its rules.
#[derive(Debug)]
pub struct BoundHttp {
    listener: TcpListener,
    address: SocketAddr,
    admission: Admission,
}

impl BoundHttp {
    /// Binds an address.
    ///
    /// # Errors
    /// When it cannot be had, or must not be had without a token.
    pub fn bind(config: HttpConfig) -> Result<Self, BindHttpError> {
        let HttpConfig {
            address,
            token,
            hosts,
        } = config;
        if token.is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(BindHttpError::Open(address));
        }
        let bound = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) =
            bound().map_err(|source| BindHttpError::Bind { address, source })?;
        let hosts = hosts.iter().map(|host| host.to_ascii_lowercase());
        Ok(Self {
            listener,
            address,
            admission: Admission {
                token,
                hosts: hosts.collect(),
            },
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> HttpUrl {
        HttpUrl::from(self.address)
    }

    /// Takes connections for as long as it is polled.
    pub(super) async fn serve(self, router: Router, limits: HttpLimits, seats: Arc<Semaphore>) {
        let Ok(listener) = tokio::net::TcpListener::from_std(self.listener) else {
            // No descriptor to wait on: connections wait in the kernel, the socket still works.
            return;
        };
        let admission = Arc::new(self.admission);
        let allowance = Allowance::of_tcp();
        let partings = Arc::new(Semaphore::new(PARTINGS));
        loop {
            let (stream, _peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // One that went away before it was looked at costs nothing; without
                    // descriptors the next try would fail as well, and again at once.
                    if error.kind() != io::ErrorKind::ConnectionAborted {
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                    continue;
                }
            };
            let (Ok(here), Ok(())) = (stream.local_addr(), watch_peer(&stream)) else {
                continue;
            };
            match Arc::clone(&seats).try_acquire_owned() {
                Ok(seat) => {
                    let door = Door::Tcp {
                        admission: Arc::clone(&admission),
                        here: here.ip(),
                        allowance: allowance.clone(),
                    };
                    tokio::spawn(serve_connection(router.clone(), limits, stream, door, seat));
                }
                Err(_no_seat) => match Arc::clone(&partings).try_acquire_owned() {
                    Ok(parting) => {
                        tokio::spawn(async move {
                            let _late = tokio::time::timeout(PARTING, part_from(stream)).await;
                            drop(parting);
                        });
                    }
                    Err(_too_many) => leave(stream),
                },
            }
            // Whoever connects without end does not keep the others waiting.
            tokio::task::yield_now().await;
        }
    }
}

/// Has the kernel find out when a peer is gone that had no time to say so.
fn watch_peer(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    let millis = u32::try_from(PEER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, millis)?;
    Ok(())
}

/// Tells a reader that there is no seat, without waiting for it.
fn leave(stream: TcpStream) {
    // An empty socket buffer takes this much at once. If the answer is lost behind what the reader
    // sends meanwhile, it sees its connection end.
    let _told = stream
        .into_std()
        .and_then(|mut stream| stream.write(&busy_answer()));
}

/// Tells a reader that there is no seat. Closed with unread bytes, a connection would be reset,
/// and the answer with it.
async fn part_from(mut stream: TcpStream) {
    if stream.write_all(&busy_answer()).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    let mut unread = [0; 4096];
    let mut taken = 0;
    while let Ok(count @ 1..) = stream.read(&mut unread).await {
        taken += count;
        if taken > PARTING_BYTES {
            return;
        }
    }
}
