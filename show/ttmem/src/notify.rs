//! What the program says to the service manager that started it: the datagrams of sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Clients can connect: what is ordered after the service may start.
pub(crate) const READY: &str = "READY=1";

/// Sends a state to the manager's socket, the value of `NOTIFY_SOCKET`; without one there is nobody
/// to hear it.
///
/// # Errors
/// When the manager cannot be reached.
pub(crate) fn notify(socket: Option<&OsStr>, state: &str) -> io::Result<()> {
    let Some(name) = socket.map(OsStr::as_bytes).filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let address = match name.split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        Some((b'/', _path)) => SocketAddr::from_pathname(OsStr::from_bytes(name))?,
        _other => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read must not stop a server that serves.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn both_kinds_of_sockets_are_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        notify(Some(path.as_os_str()), READY).unwrap();
        assert_eq!(received(&manager), READY);

        let name = format!("ttmem-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        notify(Some(OsStr::new(&format!("@{name}"))), READY).unwrap();
        assert_eq!(received(&manager), READY);
    }

    #[test]
    fn without_a_manager_nothing_is_sent() {
        notify(None, READY).unwrap();
        notify(Some(OsStr::new("")), READY).unwrap();
        assert!(notify(Some(OsStr::new("relative")), READY).is_err());
        assert!(notify(Some(OsStr::new("/nonexistent/notify")), READY).is_err());
    }
}
