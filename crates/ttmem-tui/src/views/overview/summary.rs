//! What is said of all devices together, and what the signs mean.

use super::figures::Filled;
use crate::data::Data;
use crate::format::{bytes, count, counted, counted_as};
use crate::theme::{Ink, Theme};
use crate::views::naming::{known, known_bytes, part_name, percent_of};
use crate::widgets::{Canvas, text};
use ratatui::layout::Rect;
use ttmem_api::{Device, ProcessState};

const WIDE: u16 = 120;

/// How much of DRAM and of L1 is taken, of all these devices together.
fn sums<'d>(
    devices: impl Iterator<Item = &'d Device> + Clone,
    wide: bool,
    theme: Theme,
) -> [String; 2] {
    let dram = |device: &Device| Filled::class(Ink::Dram, &device.dram);
    let l1 = |device: &Device| Filled::l1(device, None);
    let sum = |name: &str, memory: fn(&Device) -> Filled| {
        let memories = devices.clone().map(memory);
        // Not known of one of them: a percentage would be of something else.
        let (used, whole) = memories.fold((0_u64, Some(0_u64)), |(used, whole), memory| {
            let both = whole.zip(memory.whole);
            let whole = both.map(|(whole, more)| whole.saturating_add(more));
            (used.saturating_add(memory.used), whole)
        });
        let share = percent_of(used, whole, theme);
        if wide {
            let whole = known_bytes(whole, theme);
            format!("{name} {} of {whole}, {share}", bytes(used))
        } else {
            format!("{name} {share}")
        }
    };
    [sum("DRAM", dram), sum("L1", l1)]
}

pub(super) fn draw_summary(canvas: &mut Canvas<'_>, area: Rect, data: &Data) {
    let theme = canvas.theme;
    let Some(snapshot) = data.totals() else {
        return;
    };
    let wide = area.width >= WIDE;
    let mut pen = canvas.pen(area, area.y);
    let devices = counted(snapshot.devices.len() as u64, "device");
    pen.piece(&devices, Ink::Strong);
    let sums = sums(snapshot.devices.iter(), wide, theme);
    pen.pieces(sums.map(|sum| (sum, Ink::Text)));
    // Before what gives way more easily.
    let anomalies = snapshot.anomalies.seen().map(|(_, count)| count);
    let anomalies = anomalies.fold(0, u64::saturating_add);
    if anomalies > 0 {
        let text = counted_as(anomalies, "anomaly", "anomalies");
        pen.piece(&format!("! {text}"), Ink::Warning);
    }
    let processes = snapshot.processes.iter();
    let living = processes.filter(|process| process.state != ProcessState::Exited);
    pen.piece(
        &counted_as(living.count() as u64, "process", "processes"),
        Ink::Text,
    );
    let rate = known(data.events_per_second.map(count), theme);
    pen.piece(&format!("{rate} events/s"), Ink::Text);
    if wide {
        let kernels = snapshot.devices.iter();
        let kernels = kernels.map(|device| device.kernel.registered_bytes);
        let kernels = bytes(kernels.fold(0, u64::saturating_add));
        pen.piece(&format!("kernels {kernels}"), Ink::Faint);
    }
    if anomalies == 0 {
        pen.piece("no anomalies", Ink::Faint);
    }
}

pub(super) fn draw_group<'d>(
    canvas: &mut Canvas<'_>,
    area: Rect,
    title: &str,
    devices: impl Iterator<Item = &'d Device> + Clone,
) {
    let theme = canvas.theme;
    let mut pen = canvas.pen(area, area.y);
    let title = text::clip(title, usize::from(area.width / 2));
    pen.piece(&title, Ink::Strong);
    let number = devices.clone().count();
    pen.piece(&counted(number as u64, "device"), Ink::Faint);
    let sums = sums(devices, true, theme);
    pen.pieces(sums.map(|sum| (sum, Ink::Faint)));
    pen.put(" ", Ink::Frame);
    pen.put(&theme.rule(pen.room()), Ink::Frame);
}

pub(super) fn draw_legend(canvas: &mut Canvas<'_>, area: Rect, row: u16) {
    let theme = canvas.theme;
    let mut pen = canvas.pen(area, row);
    let inks = [
        Ink::Dram,
        Ink::Reserved,
        Ink::Storage,
        Ink::L1,
        Ink::L1Small,
        Ink::Free,
    ];
    for ink in inks {
        pen.put(&theme.fill(ink).to_string(), ink);
        pen.put(&format!(" {}", part_name(ink)), Ink::Faint);
        pen.skip(2);
    }
    pen.put(theme.pick("▏", "|"), Ink::Peak);
    pen.put(" peak", Ink::Faint);
    pen.skip(2);
    pen.put("!", Ink::Warning);
    pen.put(" look here", Ink::Faint);
}
