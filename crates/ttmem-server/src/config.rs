//! What a server is told when it starts.

use crate::log::{LogOptions, LogTarget};
use crate::read::HttpConfig;
use crate::socket::SocketConfig;
use ttmem_event::catalogue::Board;
use ttmem_event::legacy::BufferTypeNumbering;

/// What is logged, how, and where to.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Where events go; errors always go to stderr.
    pub target: LogTarget,
    /// How lines look, and which are left out.
    pub options: LogOptions,
}

/// Everything a server is told when it starts.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Its sockets; each serves old clients, new clients and readers.
    pub sockets: Vec<SocketConfig>,
    /// Where readers are also served over TCP; `None` = nowhere.
    pub http: Option<HttpConfig>,
    /// The board in the machine; `None` = look into sysfs.
    pub board: Option<Board>,
    pub log: LogConfig,
    /// Connections of clients at once.
    pub max_clients: usize,
    /// How old clients number buffer types.
    pub buffer_types: BufferTypeNumbering,
}
