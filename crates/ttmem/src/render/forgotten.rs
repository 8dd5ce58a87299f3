//! What the server dropped when it was told to forget a process.

use ttmem_api::{Forgotten, Released};
use ttmem_tui::format::{bytes, counted};

/// What was released, in a line for each instance of the process.
pub(crate) fn forgotten(forgotten: &Forgotten) -> String {
    let pid = forgotten.pid;
    if forgotten.released.is_empty() {
        return format!("pid {pid} held nothing\n");
    }
    let lines = forgotten
        .released
        .iter()
        .map(|each| format!("forgot pid {pid}: {}\n", holdings(each)));
    lines.collect()
}

/// What was held, in words.
pub(super) fn holdings(released: &Released) -> String {
    format!(
        "{}, {}, {}, {}",
        counted(released.buffers, "buffer"),
        counted(released.cbs, "CB"),
        counted(released.kernels, "kernel"),
        bytes(released.bytes),
    )
}
