//! The read API over TCP: where it listens, and how connections are taken.
//!
//! Runs on the HTTP thread. Readers here have permits of their own, so that they never take those
//! of the socket. On an address that other machines can reach nobody is answered without a token.

use super::admission::Admission;
use super::connection::{Connection, MAX_PENDING, Transport};
use super::limits::Permits;
use super::pending::PendingConnections;
use axum::Router;
use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use ttmem_reader::{HttpUrl, Token};

/// A peer that confirms nothing for so long is gone; streams are dropped then.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a silent peer is asked whether it is there, and how often in vain.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// What is waited after the system had no descriptor or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Where to offer the read API over TCP, and to whom.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The address; port 0 lets the system choose one.
    pub address: SocketAddr,
    /// What readers have to show; needed where other machines can connect.
    pub token: Option<Token>,
    /// Names under which readers know this machine, besides its addresses.
    pub hosts: Vec<String>,
    /// Whether readers are shown names, commands and lines of every user's processes.
    pub shows_names: bool,
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
        address: SocketAddr,
        source: io::Error,
    },
}

/// A bound TCP listener with its rules.
#[derive(Debug)]
pub struct BoundHttp {
    listener: TcpListener,
    address: SocketAddr,
    admission: Admission,
    pub(crate) shows_names: bool,
}

impl BoundHttp {
    pub fn bind(config: HttpConfig) -> Result<Self, BindHttpError> {
        let HttpConfig {
            address,
            token,
            hosts,
            shows_names,
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
            shows_names,
        })
    }

    #[must_use]
    pub fn url(&self) -> HttpUrl {
        HttpUrl::from(self.address)
    }

    /// Takes connections for as long as it is polled.
    pub(super) async fn serve(self, router: Router, permits: Arc<Permits>) {
        let Ok(listener) = tokio::net::TcpListener::from_std(self.listener) else {
            // No descriptor to wait on: connections wait in the kernel, the socket still works.
            return;
        };
        let admission = Arc::new(self.admission);
        let not_admitted = PendingConnections::new(MAX_PENDING);
        loop {
            let (stream, peer) = match listener.accept().await {
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
            let transport = Transport::Tcp(here.ip(), Arc::clone(&admission));
            let (pending, eviction) = not_admitted.add(peer.ip());
            let connection = Connection::new(&permits, pending);
            tokio::spawn(connection.serve(router.clone(), stream, transport, eviction.wait()));
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
