//! Asking a socket file whether a server is behind it, without ever waiting.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::peer::{Credentials, credentials, process_name};
use crate::read::vocabulary;

#[derive(Debug)]
pub(super) enum Probe {
    /// Someone listens; the credentials are those at the time of `listen`.
    Served(Option<Credentials>),
    Stale,
    Missing,
    Unclear(io::Error),
}

pub(super) fn probe(path: &Path) -> Probe {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let attempt = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|socket| connect(&socket, &SocketAddrUnix::new(path)?).map(|()| socket));
    match attempt {
        Ok(socket) => Probe::Served(credentials(&socket).ok()),
        // Its queue of connections is full; or it is a datagram socket in use.
        Err(Errno::AGAIN | Errno::PROTOTYPE) => Probe::Served(None),
        Err(Errno::CONNREFUSED) => Probe::Stale,
        Err(Errno::NOENT) => Probe::Missing,
        Err(errno) => Probe::Unclear(errno.into()),
    }
}

/// The process that serves a path, as far as it can be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its pid; none if it is unknown or of another PID namespace.
    pub pid: Option<u32>,
    pub name: Option<String>,
    pub uid: Option<u32>,
}

impl Holder {
    pub(super) fn of_credentials(Credentials { pid, uid }: Credentials) -> Self {
        Self {
            pid,
            name: pid.and_then(process_name),
            uid: vocabulary::known_user(uid),
        }
    }

    pub(super) fn of_pid(pid: Option<u32>) -> Self {
        let directory = pid.and_then(|pid| std::fs::metadata(format!("/proc/{pid}")).ok());
        Self {
            pid,
            name: pid.and_then(process_name),
            uid: directory.map(|dir| dir.uid()),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("another process")?,
        }
        if let Some(name) = &self.name {
            write!(f, " ({name})")?;
        }
        if let Some(uid) = self.uid {
            write!(f, ", uid {uid}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    #[test]
    fn tells_the_living_from_the_dead() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(matches!(probe(&path), Probe::Missing));
        let listener = UnixListener::bind(&path).unwrap();
        let Probe::Served(Some(credentials)) = probe(&path) else {
            panic!("a listener was not recognised");
        };
        let holder = Holder::of_credentials(credentials);
        assert_eq!(holder.pid, Some(std::process::id()));
        assert_eq!(holder.uid, Some(rustix::process::geteuid().as_raw()));
        assert_eq!(holder.name, process_name(std::process::id()));
        drop(listener);
        assert!(matches!(probe(&path), Probe::Stale));
    }

    #[test]
    fn a_full_queue_is_a_living_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        // Connections wait to be accepted even after their makers have gone.
        let answers = (0..10).take_while(|_| matches!(probe(&path), Probe::Served(Some(_))));
        assert_eq!(answers.count(), 1);
        assert!(matches!(probe(&path), Probe::Served(None)));
        drop(listener);
    }

    #[test]
    fn a_datagram_server_is_a_living_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _server = UnixDatagram::bind(&path).unwrap();
        assert!(matches!(probe(&path), Probe::Served(None)));
    }

    #[test]
    fn what_cannot_be_asked_is_unclear() {
        let dir = tempfile::tempdir().unwrap();
        let beyond_a_file = dir.path().join("file/socket");
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(matches!(probe(&beyond_a_file), Probe::Unclear(_)));
    }

    #[test]
    fn holders_are_told_by_what_is_known() {
        let full = Holder {
            pid: Some(4242),
            name: Some("ttmem".to_owned()),
            uid: Some(1000),
        };
        assert_eq!(full.to_string(), "process 4242 (ttmem), uid 1000");
        let foreign = Holder {
            pid: None,
            name: None,
            uid: Some(7),
        };
        assert_eq!(foreign.to_string(), "another process, uid 7");
        assert_eq!(Holder::of_pid(None).to_string(), "another process");
        let this = Holder::of_pid(Some(std::process::id()));
        assert_eq!(this.uid, Some(rustix::process::geteuid().as_raw()));
    }
}
