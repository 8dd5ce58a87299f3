//! A server of a program's own, on a private socket.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::process::Running;

/// How long a server may take to listen: milliseconds, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to look whether it listens.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A running `ttmem serve`; it ends with this value.
#[derive(Debug)]
pub struct Server {
    socket: PathBuf,
    _running: Running,
}

impl Server {
    /// Starts the program `ttmem` with its socket in `folder`, and waits until it listens.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or does not listen in time.
    pub fn start(ttmem: &Path, folder: &Path) -> anyhow::Result<Self> {
        let socket = folder.join("ttmem.sock");
        let mut serve = Command::new(ttmem);
        serve
            .args(["serve", "--no-legacy-socket", "--quiet", "--socket"])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let server = Self {
            socket,
            _running: Running::start(&mut serve)?,
        };
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(&server.socket).is_err() {
            if Instant::now() > deadline {
                let socket = server.socket.display();
                bail!("nobody listens on {socket} after {} s", PATIENCE.as_secs());
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(server)
    }

    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}
