//! The line above every page: how many there are, and what the chosen device says of them itself.

use super::super::Chosen;
use super::super::naming::{known, known_bytes, percent_of};
use super::{Page, Programs, timeline};
use crate::data::{Data, Fresh, Listed};
use crate::theme::{Ink, Theme};
use ttmem_report::Device;
use ttmem_report::format;

type Parts = Vec<(String, Ink)>;

impl Programs {
    pub(super) fn summary(&self, data: &Data, chosen: &Chosen, theme: Theme) -> Parts {
        let device = chosen.device(data);
        let dot = theme.between();
        let mut parts = match self.page {
            Page::Programs => {
                let count = format::counted(self.list.places().len() as u64, "program");
                listed(data.programs.as_ref(), count, data, theme)
            }
            Page::Kernels => {
                let count = format::counted(self.kernel_list.places().len() as u64, "kernel");
                listed(data.kernels.as_ref(), count, data, theme)
            }
            Page::Timeline => {
                let rows = self.timeline.rows(&self.filter, chosen.pid);
                let count = format::counted(rows, "program");
                let mut parts = listed(data.programs.as_ref(), count, data, theme);
                parts.push((dot.to_owned() + &timeline::legend(theme), Ink::Faint));
                return parts;
            }
            Page::Rings => {
                let title = device.map(|device| format!("device {}", device.short_name()));
                let mut parts = vec![(known(title, theme), Ink::Strong)];
                parts.extend(device.map(|device| (caches(device, theme), Ink::Text)));
                return parts;
            }
        };
        if let Some(device) = device {
            let words = if self.page == Page::Programs {
                caches(device, theme)
            } else {
                code(device, theme)
            };
            parts.push((format!("{dot}device {}", device.short_name()), Ink::Faint));
            parts.push((words, Ink::Text));
        }
        parts
    }
}

/// How many rows of a document are shown, how old it is, and whether the server has more.
fn listed<R>(
    document: Option<&Fresh<Listed<R>>>,
    count: String,
    data: &Data,
    theme: Theme,
) -> Parts {
    let age = data.age_note(document);
    let Some(Fresh { document, .. }) = document else {
        return vec![("asking…".to_owned(), Ink::Faint)];
    };
    let mut parts = vec![(count, Ink::Strong)];
    parts.extend(age.map(|age| (theme.between().to_owned() + &age, Ink::Faint)));
    if document.has_more {
        let first = format::count(document.rows.len() as u64);
        let words = format!(
            "{}of the first {first}; the server has more",
            theme.between()
        );
        parts.push((words, Ink::Warning));
    }
    parts
}

fn caches(device: &Device, theme: Theme) -> String {
    let dot = theme.between();
    let count = |count: Option<u64>| known(count.map(format::count), theme);
    let found = |hits: Option<u64>, misses: Option<u64>| {
        let asked = hits
            .zip(misses)
            .map(|(hits, misses)| hits.saturating_add(misses));
        percent_of(hits, asked, theme)
    };
    let counts = &device.caches;
    format!(
        "{dot}{} runs{dot}program cache {} hits{dot}JIT cache {}{dot}binaries reused {}{dot}\
         prefetch hits {}",
        format::count(device.dispatches),
        found(counts.program_cache_hits, counts.program_cache_misses),
        found(counts.jit_disk_hits, counts.jit_disk_misses),
        count(counts.binary_reuses),
        count(counts.prefetch_hits),
    )
}

/// What code a device has, by the device itself rather than by the rows that are listed.
fn code(device: &Device, theme: Theme) -> String {
    let dot = theme.between();
    let kernel = &device.kernel;
    format!(
        "{dot}registered {}{dot}unique {}{dot}shared {}{dot}resident {}{dot}application {}{dot}\
         fabric {}{dot}dispatch {}",
        format::bytes(kernel.registered_bytes),
        format::bytes(kernel.unique_bytes),
        format::bytes(kernel.shared_bytes),
        known_bytes(kernel.resident_bytes, theme),
        format::bytes(kernel.application_bytes),
        format::bytes(kernel.fabric_bytes),
        format::bytes(kernel.dispatch_bytes),
    )
}
