//! What is held, as the text that a dump request or a signal prints.
//!
//! The old server's layout, but complete: every buffer, circular buffer and kernel, largest
//! first. All of it is worked out on a [`View`], on a thread of the log: a dump of a
//! million rows delays the log and nothing else.

mod holdings;
mod kernels;
mod remaining;
mod summary;

use std::fmt;

use serde::Serialize;
use ttmem_ledger::{Device, DeviceKey, View};

use super::display::Escaped;

pub(super) const DEFAULT_DUMP_LIMIT: usize = 1000;

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

/// The text of a dump; ages are counted up to `now_nanos`, in nanoseconds since the epoch.
pub(super) fn render(kind: DumpKind, view: &View, now_nanos: u64) -> String {
    render_limited(kind, view, now_nanos, DEFAULT_DUMP_LIMIT)
}

/// The text of a dump that lists at most `limit` rows of a kind for each device.
pub(super) fn render_limited(kind: DumpKind, view: &View, now_nanos: u64, limit: usize) -> String {
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

struct TitleBox(&'static str);

impl fmt::Display for TitleBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inside = BOX_COLUMNS - 2;
        writeln!(f, "╔{:═<inside$}╗", "")?;
        writeln!(f, "║{:^inside$}║", self.0)?;
        writeln!(f, "╚{:═<inside$}╝", "")
    }
}

/// The devices with their place in the view, by logical id.
fn sorted_devices(view: &View) -> Vec<(u32, &Device)> {
    let mut devices: Vec<_> = (0..).zip(&view.devices).collect();
    devices.sort_by_key(|(place, device)| (device.facts.logical_id, *place));
    devices
}

/// A device's number, with what tells it from another of the same number.
struct Label<'v> {
    device: &'v Device,
    is_ambiguous: bool,
}

impl<'v> Label<'v> {
    fn of(device: &'v Device, view: &View) -> Self {
        let logical_id = device.facts.logical_id;
        let devices = view.devices.iter();
        let mut same = devices.filter(|other| other.facts.logical_id == logical_id);
        let is_ambiguous = same.nth(1).is_some();
        Self {
            device,
            is_ambiguous,
        }
    }
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.device.facts.logical_id)?;
        if !self.is_ambiguous {
            return Ok(());
        }
        match &self.device.key {
            DeviceKey::Unique(unique_id) => write!(f, " (unique id {unique_id:#x})"),
            DeviceKey::Logical { visible, .. } if visible.is_empty() => {
                f.write_str(" (of all devices)")
            }
            DeviceKey::Logical { visible, .. } => {
                write!(f, " (of visible devices {})", Escaped(visible))
            }
        }
    }
}

#[cfg(test)]
mod tests;
