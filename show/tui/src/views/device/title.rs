//! The line that says which device a view is of: all its names, and how its figures are known.

use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::Chosen;
use crate::views::naming::known;
use crate::widgets::{Canvas, row_of, text};
use ratatui::layout::Rect;
use ttmem_report::Device;
use ttmem_report::labels;
use ttmem_report::machine_labels::{self, Whose};

const NAME_COLUMNS: usize = 16;

/// Draws the lines at the top of an area, and says how many; without a device they say why there is none.
pub(crate) fn draw_title(canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen) -> u16 {
    let theme = canvas.theme;
    let Some(device) = chosen.device(data) else {
        let why = if data.totals().is_some() {
            "no device: nothing has been reported yet"
        } else {
            "waiting for the server"
        };
        canvas.text(area, why, Ink::Faint);
        return 1;
    };
    let place = chosen.place(data) + 1;
    let mut parts = vec![
        (format!("Device {}", device.id), Ink::Strong),
        (format!("{place} of {}", data.devices().len()), Ink::Faint),
    ];
    parts.extend(facts(device, theme));
    canvas.spaced(area, &parts, 2);
    match besides(device, data) {
        Some(words) if area.height > 2 => {
            canvas.text(row_of(area, 1), words, Ink::Warning);
            2
        }
        _all_below => 1,
    }
}

/// What is in no figure of the device, because its processes are not attached.
fn besides(device: &Device, data: &Data) -> Option<String> {
    if let Some(counted) = machine_labels::counted_apart(device) {
        let counted = machine_labels::counted(&counted);
        return Some(format!("besides, not attached: {counted}"));
    }
    let key = device.key();
    let is_open = data.totals().is_some_and(|snapshot| {
        let mut processes = snapshot.processes.iter();
        processes.any(|process| {
            !machine_labels::has_sizes(process) && process.devices.iter().any(|on| on.key() == key)
        })
    });
    Whose::of(device, is_open).remark()
}

fn facts(device: &Device, theme: Theme) -> Vec<(String, Ink)> {
    let name = |name: &Option<String>| {
        let name = known(name.as_deref(), theme);
        (text::clip(&name, NAME_COLUMNS), Ink::Text)
    };
    let mut facts = vec![name(&device.board)];
    let sensors = device.telemetry.as_ref().map(machine_labels::sensors);
    let sensors = sensors.unwrap_or_default().into_iter();
    facts.extend(sensors.map(|value| (value, Ink::Text)));
    facts.push(name(&device.arch));
    if let Some(unique_id) = device.unique_id {
        facts.push((unique_id.to_string(), Ink::Text));
    }
    let names = machine_labels::driver_names(device).into_iter();
    facts.extend(names.map(|name| (name, Ink::Text)));
    if let Some(scope) = &device.scope {
        let scope = format!("of {}", text::clip(scope, NAME_COLUMNS));
        facts.push((scope, Ink::Text));
    }
    let checked = labels::checked(device.verified).to_owned();
    facts.push(match device.verified {
        Some(true) => (checked, Ink::Good),
        Some(false) => (checked, Ink::Warning),
        None => (checked, Ink::Faint),
    });
    if let Some(remote) = device.remote {
        let reached = if remote { "remote" } else { "PCIe" };
        facts.push((reached.to_owned(), Ink::Faint));
    }
    if let Some(source) = device.source {
        facts.push((source.to_string(), Ink::Faint));
    }
    facts
}
