//! What is held, as the text that a dump request or a signal prints.
//!
//! The old server's layout, but complete: every buffer, circular buffer and kernel, largest
//! first. All of it is computed from a [`View`], on a thread of the log: a dump of a
//! million rows delays the log and nothing else.

mod holdings;
mod kernels;
mod remaining;
mod summary;

use std::fmt::{self, Write as _};

use serde::Serialize;
use ttmem_ledger::{Device, DeviceKey, View};

use super::display::Escaped;

/// Rows of one kind that a dump in the log lists for each device.
pub(super) const DUMP_LIMIT: usize = 1000;

/// Rows that one dump lists in all: a few megabytes of text, whatever clients hold.
const MAX_ROWS: usize = 50_000;

const BOX_COLUMNS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DumpKind {
    Remaining,
    Kernels,
    /// Totals, anomalies and whether the books agree.
    Summary,
}

impl DumpKind {
    pub const ALL: [Self; 3] = [Self::Remaining, Self::Kernels, Self::Summary];
}

/// The text of a dump: at most `limit` rows of a kind for each device, ages up to `now_nanos`.
pub(super) fn render(kind: DumpKind, view: &View, now_nanos: u64, limit: usize) -> String {
    let mut out = String::new();
    let limit = RowLimit {
        per_list: limit,
        left: MAX_ROWS,
    };
    let written = match kind {
        DumpKind::Remaining => remaining::write(&mut out, view, limit),
        DumpKind::Kernels => kernels::write(&mut out, view, now_nanos, limit),
        DumpKind::Summary => summary::write(&mut out, view),
    };
    written.expect("a String takes any text");
    out
}

#[derive(Debug, Clone, Copy)]
struct RowLimit {
    per_list: usize,
    left: usize,
}

impl RowLimit {
    /// How many rows of a list of `rows` are shown; they are used up.
    fn take(&mut self, rows: usize) -> usize {
        let shown = rows.min(self.per_list).min(self.left);
        self.left -= shown;
        shown
    }
}

/// A title in a box of double lines.
fn write_title(out: &mut String, title: &str) -> fmt::Result {
    let inside = BOX_COLUMNS - 2;
    writeln!(out, "╔{:═<inside$}╗", "")?;
    writeln!(out, "║{title:^inside$}║")?;
    writeln!(out, "╚{:═<inside$}╝", "")
}

/// The devices with their index in the view, by logical id.
fn sorted_devices(view: &View) -> Vec<(u32, &Device)> {
    let mut devices: Vec<_> = (0..).zip(&view.devices).collect();
    devices.sort_by_key(|(index, device)| (device.facts.logical_id, *index));
    devices
}

/// A device's number, with what distinguishes it from another of the same number.
fn label(device: &Device, view: &View) -> String {
    let logical_id = device.facts.logical_id;
    let devices = view.devices.iter();
    let same = devices.filter(|other| other.facts.logical_id == logical_id);
    if same.count() < 2 {
        return logical_id.to_string();
    }
    match &device.key {
        DeviceKey::Unique(unique_id) => format!("{logical_id} (unique id {unique_id:#x})"),
        DeviceKey::Logical { visible, .. } if visible.is_empty() => {
            format!("{logical_id} (of all devices)")
        }
        DeviceKey::Logical { visible, .. } => {
            format!("{logical_id} (of visible devices {})", Escaped(visible))
        }
    }
}

#[cfg(test)]
mod tests;
