//! DRAM and L1 of all devices together, over as much time as there is something to show.

use super::figures::Filled;
use crate::data::Data;
use crate::theme::Ink;
use crate::views::naming::{known_bytes, percent_of};
use crate::widgets::{Area, Canvas, draw_area, left_of, panel, right_of, text};
use ratatui::layout::Rect;
use ttmem_report::format;
use ttmem_report::labels;
use ttmem_report::machine_labels::counted_apart;
use ttmem_report::{DeviceHistory, History, Timestamp};

/// Narrower, one graph is enough.
const TWO_GRAPHS: u16 = 70;

/// Columns of a panel's upper border that its title cannot have.
const BORDERS: usize = 6;

/// A graph shows at least so much time, so that the first seconds are no wild curve.
const LEAST_SECONDS: u64 = 10;

pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
    if area.height < 3 || area.width < 24 {
        return;
    }
    let half = if area.width >= TWO_GRAPHS {
        area.width / 2
    } else {
        area.width
    };
    draw_one(canvas, left_of(area, half), data, &DRAM);
    if half < area.width {
        draw_one(canvas, right_of(area, half), data, &L1);
    }
}

struct Graph {
    name: &'static str,
    ink: Ink,
    values: fn(&DeviceHistory) -> &[Option<u64>],
    now: fn(&ttmem_report::Device) -> Filled,
}

const DRAM: Graph = Graph {
    name: labels::DRAM,
    ink: Ink::Dram,
    values: |history| &history.dram_bytes,
    now: |device| Filled::class(Ink::Dram, &device.dram),
};

const L1: Graph = Graph {
    name: labels::L1,
    ink: Ink::L1,
    values: |history| &history.occupied_bytes,
    now: Filled::l1,
};

fn draw_one(canvas: &mut Canvas<'_>, area: Rect, data: &Data, graph: &Graph) {
    let theme = canvas.theme;
    let devices = data.devices();
    let now = devices.iter().map(graph.now);
    // Not known of one of them: a percentage would be of something else.
    let (used, whole) = now.fold((0_u64, Some(0_u64)), |(used, whole), memory| {
        let both = whole.zip(memory.whole);
        let whole = both.map(|(whole, more)| whole.saturating_add(more));
        (used.saturating_add(memory.used), whole)
    });
    let share = percent_of(used, whole, theme);
    // The history has what attached processes report; bars of devices may have more.
    let is_all = devices.iter().all(|device| counted_apart(device).is_none());
    let name = match is_all {
        true => graph.name.to_owned(),
        false => format!("{} of attached processes", graph.name),
    };
    let title = format!(
        "{name} {share}: {} of {}",
        format::bytes(used),
        labels::on_devices_of(known_bytes(whole, theme), devices.len()),
    );
    // What a figure is of is never cut off.
    let title = if text::width(&title) + BORDERS > usize::from(area.width) {
        labels::on_devices_of(format!("{name} {share}"), devices.len())
    } else {
        title
    };
    let inner = panel(canvas, area, &title, false);
    let (values, from) = match known(data, graph) {
        Some((values, since)) => (values, since),
        // Before the first sample: what is known now.
        None => {
            let blank = usize::try_from(LEAST_SECONDS).unwrap_or(1) - 1;
            let mut values = vec![None; blank];
            values.push(Some(used));
            (values, data.ago(LEAST_SECONDS))
        }
    };
    let area = Area {
        values: &values,
        whole,
        ink: graph.ink,
        from,
        to: data.now_word(),
    };
    draw_area(canvas, inner, &area);
}

/// What is known over time and since when; none before the first sample.
fn known(data: &Data, graph: &Graph) -> Option<(Vec<Option<u64>>, String)> {
    let history = &data.recent.as_ref()?.document;
    let sums = sums(history, graph.values);
    let first = sums.iter().position(Option::is_some)?;
    let least =
        usize::try_from(LEAST_SECONDS / u64::from(history.step_seconds.max(1))).unwrap_or(1);
    let first = first.min(sums.len().saturating_sub(least));
    let since = history.times.get(first).copied();
    let since = since.map_or_else(String::new, |since| ago(since, history.time, data));
    Some((sums[first..].to_vec(), since))
}

fn ago(time: Timestamp, now: Timestamp, data: &Data) -> String {
    let nanos = now.unix_nanos().saturating_sub(time.unix_nanos());
    data.ago(nanos / 1_000_000_000)
}

/// The sum over all devices of each step; none while nothing was known of any.
fn sums(history: &History, of: fn(&DeviceHistory) -> &[Option<u64>]) -> Vec<Option<u64>> {
    let mut sums = vec![None; history.times.len()];
    for device in &history.devices {
        for (sum, value) in sums.iter_mut().zip(of(device)) {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0_u64).saturating_add(*value));
            }
        }
    }
    sums
}
