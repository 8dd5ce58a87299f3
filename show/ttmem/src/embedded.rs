//! A server inside this process, on a private socket.
//!
//! For commands that need a server when there is none: it has the same threads, the same ledger
//! and the same read API as `ttmem serve`, and nobody else can reach it, unless it is to serve the page
//! over TCP. Its log goes to a file in
//! the same folder, and both are gone when it stops.

use crate::commands::reach;
use crate::threads;
use anyhow::{Context, Result, anyhow, bail};
use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use tempfile::TempDir;
use ttmem_event::catalogue::BoardKind;
use ttmem_event::legacy::BufferTypeNumbering;
use ttmem_machine::Roots;
use ttmem_reader::ApiClient;
use ttmem_server::log::{LogFileOptions, LogOptions, LogTarget};
use ttmem_server::{
    HttpConfig, LogConfig, RecordConfig, Server, ServerConfig, ServerHandle, Signals, SocketConfig,
};

#[derive(Debug)]
pub(crate) struct EmbeddedServer {
    socket: PathBuf,
    handle: ServerHandle,
    serving: Option<JoinHandle<io::Result<()>>>,
    _folder: TempDir,
}

impl EmbeddedServer {
    /// Starts one that takes this many clients; without a board it looks for devices itself.
    pub(crate) fn start(
        board: Option<BoardKind>,
        max_clients: usize,
        http: Option<SocketAddr>,
        record: Option<RecordConfig>,
    ) -> Result<Self> {
        let folder = private_folder()?;
        let socket = folder.path().join("ttmem.sock");
        let config = ServerConfig {
            sockets: vec![SocketConfig {
                path: socket.clone(),
                mode: 0o600,
                group: None,
            }],
            http: http.map(|address| HttpConfig {
                address,
                token: None,
                hosts: Vec::new(),
                // Only programs of this user can report here.
                shows_names: true,
            }),
            // Devices of a board that is named may be made up: this machine's say nothing of them.
            machine: board.is_none().then(Roots::this_machine),
            board,
            log: LogConfig {
                target: LogTarget::File(LogFileOptions::new(folder.path().join("log"))),
                options: LogOptions {
                    quiet: true,
                    ..LogOptions::default()
                },
            },
            max_clients,
            buffer_types: BufferTypeNumbering::Runtime,
            record,
        };
        let server = Server::start(config, Signals::Ignore)?;
        let handle = server.handle();
        let serving = threads::spawn("ttmem-server", "the server", move || server.run())?;
        Ok(Self {
            socket,
            handle,
            serving: Some(serving),
            _folder: folder,
        })
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends it; whether it served and recorded to the end.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.join()?;
        if let Some(failure) = self.handle.recording_failure() {
            bail!(failure);
        }
        Ok(())
    }

    fn join(&mut self) -> Result<()> {
        let Some(serving) = self.serving.take() else {
            return Ok(());
        };
        self.handle.stop();
        match serving.join() {
            Ok(served) => served.context("the server failed"),
            Err(_panic) => Err(anyhow!("the server's thread failed")),
        }
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        // Whoever drops it on the way out of a failure has another one to report.
        let _failed_too = self.join();
    }
}

/// A folder that only this user can look into, gone when it is dropped.
pub(crate) fn private_folder() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("ttmem-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .context("cannot make a private folder")
}

/// The server that a command reports to.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) server: ApiClient,
    pub(crate) socket: PathBuf,
    /// Set when it is ours.
    pub(crate) own: Option<EmbeddedServer>,
}

impl Target {
    /// The server that was named, or that runs; if none was named and none can be used, the one
    /// that `start` starts.
    pub(crate) fn find(
        named: Option<PathBuf>,
        start: impl FnOnce(&anyhow::Error) -> Option<Result<EmbeddedServer>>,
    ) -> Result<Self> {
        let is_named = named.is_some();
        match reach::socket(named) {
            Ok(socket) => Ok(Self {
                server: ApiClient::new(&socket),
                socket,
                own: None,
            }),
            Err(error) if is_named => Err(error),
            Err(error) => match start(&error) {
                Some(own) => own.map(Self::own),
                None => Err(error),
            },
        }
    }

    /// A server of our own.
    pub(crate) fn own(server: EmbeddedServer) -> Self {
        Self {
            server: ApiClient::new(server.socket()),
            socket: server.socket().to_owned(),
            own: Some(server),
        }
    }
}
