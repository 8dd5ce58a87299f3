//! The options of `ttmem replay`.

use super::remote::{host_name, tcp_address};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ReplayOptions {
    /// The recording, as `run --record` and `record` make them, or a folder of `serve --record`.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Where the page and the read API are; port 0 = any that is free.
    ///
    /// Everybody on this machine can read there. On an address that other machines can reach,
    /// --http-token-file is needed.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = tcp_address)]
    pub(crate) http: SocketAddr,

    /// The file with the token that readers have to show.
    #[arg(long, value_name = "FILE")]
    pub(crate) http_token_file: Option<PathBuf>,

    /// Another name under which readers know this machine; may be repeated.
    #[arg(
        long,
        value_name = "NAME",
        requires = "http_token_file",
        value_parser = host_name
    )]
    pub(crate) http_host: Vec<String>,

    /// Show readers the names, command lines and Python lines that are in the recording.
    ///
    /// Without it they see sizes: who they are is not known.
    #[arg(long)]
    pub(crate) http_names: bool,
}
