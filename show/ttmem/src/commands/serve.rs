//! `ttmem serve`: the server, until it is interrupted.

use super::reach::default_path;
use crate::cli::{LogForm, ServeOptions};
use crate::exit;
use crate::notify::{READY, notify};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use ttmem_event::legacy::BufferTypeNumbering;
use ttmem_machine::Roots;
use ttmem_reader::Token;
use ttmem_server::log::{LogFileOptions, LogFormat, LogOptions, LogTarget};
use ttmem_server::socket::{BindSocketError, LEGACY_SOCKET_PATH, ensure_runtime_dir};
use ttmem_server::{
    HttpConfig, ListenError, LogConfig, Server, ServerConfig, Signals, SocketConfig,
    StartServerError,
};

pub(super) fn run(options: &ServeOptions, socket: Option<PathBuf>) -> Result<()> {
    if socket.is_none() {
        // A place that the user named is the user's business.
        let path = default_path();
        if let Some(directory) = path.parent() {
            ensure_runtime_dir(directory)?;
        }
    }
    let server = start(options, socket)?;
    let manager = std::env::var_os("NOTIFY_SOCKET");
    if let Err(error) = notify(manager.as_deref(), READY) {
        // The server serves, whoever knows of it.
        exit::say(format_args!("NOTIFY_SOCKET: {error}"));
    }
    server.run().context("the server failed")
}

/// Starts it, without the old protocol's socket where somebody else has that: anybody could keep everybody from having a
/// server otherwise.
fn start(options: &ServeOptions, socket: Option<PathBuf>) -> Result<Server> {
    let all = config(options, socket.clone(), default_path())?;
    match Server::start(all, Signals::Handle) {
        Err(error) if is_old_socket_taken(&error) && socket.is_none() => {
            exit::say(format_args!(
                "clients of the old protocol are not served: {LEGACY_SOCKET_PATH} is another process's"
            ));
            let options = ServeOptions {
                no_legacy_socket: true,
                ..options.clone()
            };
            let without = config(&options, None, default_path())?;
            Ok(Server::start(without, Signals::Handle)?)
        }
        started => Ok(started?),
    }
}

fn is_old_socket_taken(error: &StartServerError) -> bool {
    matches!(
        error,
        StartServerError::Listen(ListenError::Bind(BindSocketError::Served { path, .. }))
            if path == Path::new(LEGACY_SOCKET_PATH)
    )
}

pub(super) fn config(
    options: &ServeOptions,
    socket: Option<PathBuf>,
    default_path: PathBuf,
) -> Result<ServerConfig> {
    let mut paths = Vec::new();
    match socket {
        Some(path) => paths.push(path),
        None => {
            paths.push(default_path);
            if !options.no_legacy_socket {
                paths.push(PathBuf::from(LEGACY_SOCKET_PATH));
            }
        }
    }
    let sockets = paths.into_iter().map(|path| SocketConfig {
        path,
        mode: options.socket_mode,
        group: options.socket_group.map(|gid| gid.as_raw()),
    });
    Ok(ServerConfig {
        sockets: sockets.collect(),
        http: http(options)?,
        board: options.board,
        machine: Some(
            options
                .host_root
                .as_ref()
                .map_or_else(Roots::this_machine, Roots::below),
        ),
        log: LogConfig {
            target: match &options.log_file {
                Some(path) => LogTarget::File(LogFileOptions {
                    path: path.clone(),
                    max_bytes: options.log_max_size,
                    max_files: options.log_keep,
                }),
                None => LogTarget::Stdout,
            },
            options: LogOptions {
                format: match options.log_format {
                    LogForm::Plain => LogFormat::Plain,
                    LogForm::Json => LogFormat::Json,
                },
                quiet: options.quiet,
                verbose: options.verbose,
            },
        },
        record: options.record.config()?,
        // A u32 on every platform we build for.
        max_clients: usize::try_from(options.max_clients).unwrap_or(usize::MAX),
        buffer_types: if options.python_buffer_types {
            BufferTypeNumbering::PythonClient
        } else {
            BufferTypeNumbering::Runtime
        },
    })
}

/// Where readers are served over TCP.
fn http(options: &ServeOptions) -> Result<Option<HttpConfig>> {
    let Some(address) = options.http else {
        return Ok(None);
    };
    let token = options.http_token_file.as_deref();
    Ok(Some(HttpConfig {
        address,
        token: token.map(Token::read).transpose()?,
        hosts: options.http_host.clone(),
        shows_names: options.http_names,
    }))
}
