//! DRAM and L1 of all devices together, over as much time as there is something to show.

use super::figures::Filled;
use crate::data::Data;
use crate::format;
use crate::labels;
use crate::theme::Ink;
use crate::views::naming::{known_bytes, percent_of};
use crate::widgets::{Area, Canvas, draw_area, left_of, panel, right_of, text};
use ratatui::layout::Rect;
use ttmem_api::{DeviceHistory, History, Timestamp};

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
    now: fn(&ttmem_api::Device) -> Filled,
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
    let title = format!(
        "{} {share}: {} of {}",
        graph.name,
        format::bytes(used),
        labels::on_devices_of(known_bytes(whole, theme), devices.len()),
    );
    // What a figure is of is never cut off.
    let title = if text::width(&title) + BORDERS > usize::from(area.width) {
        labels::on_devices_of(format!("{} {share}", graph.name), devices.len())
    } else {
        title
    };
    let inner = panel(canvas, area, &title, false);
    let Some(recent) = &data.recent else {
        canvas.text(inner, "nothing known yet", Ink::Faint);
        return;
    };
    let history = &recent.document;
    let sums = sums(history, graph.values);
    let Some(first) = sums.iter().position(Option::is_some) else {
        canvas.text(inner, "nothing known yet", Ink::Faint);
        return;
    };
    let least =
        usize::try_from(LEAST_SECONDS / u64::from(history.step_seconds.max(1))).unwrap_or(1);
    let first = first.min(sums.len().saturating_sub(least));
    let since = history.times.get(first).copied();
    let area = Area {
        values: &sums[first..],
        whole,
        ink: graph.ink,
        from: since.map_or_else(String::new, |since| ago(since, history.time, data)),
        to: data.now_word(),
    };
    draw_area(canvas, inner, &area);
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
