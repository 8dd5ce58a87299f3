//! A server of a program's own, on a private socket.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

/// How long a server may take to listen: milliseconds, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often to look whether it listens.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Why there is no server.
#[derive(Debug, Error)]
pub enum StartServerError {
    /// It could not be started.
    #[error("cannot run {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    /// It does not listen.
    #[error("nobody listens on {socket} after {} s", PATIENCE.as_secs())]
    Silent { socket: PathBuf },
}

/// A running `ttmem serve`; it ends with this value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    /// Starts the program `ttmem` with its socket in `folder`, and waits until it listens.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or does not listen in time.
    pub fn start(ttmem: &Path, folder: &Path) -> Result<Self, StartServerError> {
        let socket = folder.join("ttmem.sock");
        let child = Command::new(ttmem)
            .args(["serve", "--no-legacy-socket", "--quiet", "--socket"])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| StartServerError::Start {
                program: ttmem.to_path_buf(),
                source,
            })?;
        let server = Self { child, socket };
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(&server.socket).is_err() {
            if Instant::now() > deadline {
                let socket = server.socket.clone();
                return Err(StartServerError::Silent { socket });
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

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail when it has ended by itself, which the program's comparison tells.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
