//! The server's Unix socket: its path, and how it is put there and removed.
//!
//! Used once at start-up and once at shutdown, by `main`'s thread. Paths may lie in `/tmp`, where
//! anyone can put anything: nothing here follows a link, nothing removes what is not a dead
//! server's socket or our own, and no client can connect before mode and group are set.

mod bind;
mod error;
mod location;
mod lock;
mod path;
mod probe;

pub use bind::{BoundSocket, SocketConfig, bind};
pub use error::BindSocketError;
pub use location::{
    EnsureRuntimeDirError, LEGACY_SOCKET_PATH, SERVICE_SOCKET_PATH, default_socket_path,
    ensure_runtime_dir,
};
pub use probe::Holder;
