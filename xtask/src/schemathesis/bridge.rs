//! TCP on the loopback for programs that speak HTTP over nothing else, led on to a Unix socket.

use anyhow::Context;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

/// Leads connections on until this program ends.
#[derive(Debug)]
pub(super) struct Bridge {
    address: SocketAddr,
}

impl Bridge {
    /// Listens on a port of the system's choice.
    pub(super) fn start(socket: &Path) -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on the loopback")?;
        let address = listener.local_addr().context("it has no address")?;
        let socket = socket.to_owned();
        thread::Builder::new()
            .name("bridge".to_owned())
            .spawn(move || {
                // One that is gone before it is looked at is no reason to end.
                for connection in listener.incoming().flatten() {
                    let socket = socket.clone();
                    thread::spawn(move || lead_on(connection, socket));
                }
            })
            .context("cannot start a thread")?;
        Ok(Self { address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Copies both ways until both ends are through; what breaks is seen at the ends.
fn lead_on(near: TcpStream, socket: PathBuf) {
    // Each direction is a reader of one and a writer of the other.
    let both = || -> io::Result<_> {
        let far = UnixStream::connect(socket)?;
        Ok((near.try_clone()?, far.try_clone()?, far))
    };
    let Ok((mut near_again, mut far_again, mut far)) = both() else {
        return;
    };
    let mut near = near;
    let there = thread::spawn(move || {
        let _copied = io::copy(&mut near_again, &mut far_again);
        let _gone = far_again.shutdown(Shutdown::Write);
    });
    let _copied = io::copy(&mut far, &mut near);
    // The server has answered: whoever still writes gets an error, and the other thread ends.
    let _gone = near.shutdown(Shutdown::Both);
    let _ended = there.join();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    #[test]
    fn both_ways_are_led_on_to_their_ends() {
        let folder = std::env::temp_dir().join(format!("ttmem-bridge-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let socket = folder.join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _address) = listener.accept().unwrap();
            let mut question = String::new();
            stream.read_to_string(&mut question).unwrap();
            stream
                .write_all(question.to_uppercase().as_bytes())
                .unwrap();
        });
        let bridge = Bridge::start(&socket).unwrap();
        let mut stream = TcpStream::connect(bridge.address()).unwrap();
        stream.write_all(b"hello").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "HELLO");
        server.join().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
