//! What a command reads: a server, or a recording that is served inside this process.
//!
//! A recording is served on a private socket by the same read API as a server's account, so that nothing behind
//! it knows the difference.

use crate::cli::{HttpOptions, RecordedOptions};
use crate::commands::reach;
use crate::embedded::private_folder;
use anyhow::Result;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use ttmem_reader::ApiClient;
use ttmem_server::{Replay, ReplayConfig, SocketConfig};

/// Work units for a byte of an answer: it is written, sent, read, compared and packed.
const WORK_PER_BYTE: u64 = 2;

/// Work units of all answers together, besides those of one question: ten seconds at 25 ns each, so that the report of a
/// small recording has all its instants.
const WORK_OF_ALL: u64 = 400_000_000;

/// A server or a file that is asked.
#[derive(Debug)]
pub(crate) struct Source {
    client: ApiClient,
    /// What the user calls it.
    name: String,
    /// Ended before its folder is removed.
    replay: Option<(Replay, TempDir)>,
}

impl Source {
    /// The file that was named, or else the server that the user means.
    ///
    /// # Errors
    /// When the file is no recording or cannot be read, or no server is there.
    pub(crate) fn find(
        socket: Option<PathBuf>,
        http: &HttpOptions,
        recorded: &RecordedOptions,
    ) -> Result<Self> {
        if let Some(file) = &recorded.file {
            return Self::open(file);
        }
        let client = reach::client(socket, http)?;
        let name = client.server().to_string();
        Ok(Self {
            client,
            name,
            replay: None,
        })
    }

    pub(crate) fn open(file: &Path) -> Result<Self> {
        Self::drawn(file, false)
    }

    /// The same; with `draws_all`, all that can be drawn over time will be asked for.
    pub(crate) fn drawn(file: &Path, draws_all: bool) -> Result<Self> {
        let folder = private_folder()?;
        let socket = folder.path().join("ttmem.sock");
        let replay = Replay::start(ReplayConfig {
            path: file.to_owned(),
            sockets: vec![SocketConfig {
                path: socket.clone(),
                mode: 0o600,
                group: None,
            }],
            http: None,
            draws_all,
        })?;
        Ok(Self {
            client: ApiClient::new(socket),
            name: file.display().to_string(),
            replay: Some((replay, folder)),
        })
    }

    pub(crate) const fn client(&self) -> &ApiClient {
        &self.client
    }

    /// Counts an answer of so many bytes; whether there may be more, by the size of the recording.
    pub(crate) fn affords(&self, bytes: usize) -> bool {
        self.replay.as_ref().is_none_or(|(replay, _folder)| {
            replay.spend(bytes as u64 * WORK_PER_BYTE);
            !replay.is_over_budget(WORK_OF_ALL)
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}
