//! The devices of a status page: a block each, or a line each when there are many.

use std::collections::BTreeSet;

use ttmem_report::{
    ClassUsage, Device, Process, Snapshot, Source, Telemetry, Timestamp, UpstreamBytes,
};

use super::paint::{Paint, sentence, with_commas};
use ttmem_report::format::{self, bytes, bytes_or_unknown, counted, time_near};
use ttmem_report::labels;
use ttmem_report::machine_labels::{self, Whose};
use ttmem_report::{Share, percent};
use ttmem_tui::text::{Column, Table, bar, paragraph};

/// A block takes some ten lines: more than a T3000 of them is not a status any more.
const MAX_BLOCKS: usize = 8;

/// Where figures begin, behind the name of the class.
const FIGURES_AT: usize = 13;

/// A device in a line: DRAM and L1 each have a bar, a share and a size.
const OVERVIEW: &[Column] = &[
    Column::figures("ID", 3, 0),
    Column::words("BOARD", 7, 0),
    Column::words("DRAM", 4, 0).growing(),
    Column::figures("", 4, 0),
    Column::size(""),
    Column::words("L1", 4, 0).growing(),
    Column::figures("", 4, 0),
    Column::size(""),
    Column::size("CBs"),
    Column::figures("LARGEST FIT", 11, 0),
    Column::figures("TEMP", 8, 100),
    Column::figures("POWER", 8, 100),
    Column::figures("CLOCK", 8, 100),
    Column::words("", 1, 0),
];

/// What a class takes: its name, a bar, a share, the bytes of how many, and buffers.
const USAGE: &[Column] = &[
    Column::words("", 1, 0),
    Column::words("", 10, 0),
    Column::words("", 8, 0).growing(),
    Column::figures("", 6, 0),
    Column::figures("", 14, 0),
    Column::size(""),
    Column::figures("", 15, 0),
];

pub(super) fn devices(snapshot: &Snapshot, width: usize, paint: Paint) -> String {
    if snapshot.devices.len() > MAX_BLOCKS {
        return overview(snapshot, width, paint);
    }
    let mut text = String::new();
    for device in by_number(snapshot) {
        let block = Block {
            device,
            snapshot,
            width,
            paint,
        };
        text.push('\n');
        text.push_str(&block.text());
    }
    text
}

/// The server has them in the order of their meshes; people look for numbers.
fn by_number(snapshot: &Snapshot) -> Vec<&Device> {
    let mut devices: Vec<&Device> = snapshot.devices.iter().collect();
    devices.sort_by_key(|device| (&device.scope, device.id));
    devices
}

/// What makes a device's figures less than exact, each in a few words.
fn doubts(device: &Device, snapshot: &Snapshot) -> Vec<&'static str> {
    let key = device.key();
    let holders = || {
        let holds = |process: &&Process| process.devices.iter().any(|held| held.key() == key);
        snapshot.processes.iter().filter(holds)
    };
    let mut doubts = Vec::new();
    if device.verified == Some(false) {
        doubts.push("DIFFERS FROM THE ALLOCATOR");
    }
    if holders().any(|process| process.incomplete) {
        doubts.push("INCOMPLETE");
    }
    if holders().any(|process| process.resyncing) {
        doubts.push("resyncing");
    }
    doubts
}

/// One line per device, and below them what a line has no room for.
fn overview(snapshot: &Snapshot, width: usize, paint: Paint) -> String {
    let table = Table::of(OVERVIEW);
    let mut text = format!("\n{}\n", paint.heading(&table.heading(width)));
    let mut notes = String::new();
    for device in by_number(snapshot) {
        let mut doubts: Vec<String> = doubts(device, snapshot)
            .into_iter()
            .map(str::to_owned)
            .collect();
        let more = labels::more_than_the_device_has(device);
        if device.overlap_bytes() > 0 && more.is_empty() {
            doubts.push(format!(
                "{} handed out by more than one allocator",
                bytes(device.overlap_bytes())
            ));
        }
        doubts.extend(more);
        let whose = whose(device, snapshot);
        let [dram, l1] = bars(device, whose).map(|(used, whole)| {
            let share = used.and_then(|used| Share::of(used, whole));
            let percent = share.map(|share| format!("{}%", share.permille() / 10));
            let percent = percent.unwrap_or_else(|| "-".to_owned());
            (used, whole, percent)
        });
        // Of allocators that are empty, it is not what fits beside others.
        let fit = device.dram.largest_fit_bytes();
        let fit = fit.filter(|_fit| whose == Whose::Attached);
        let cells = [
            device.id.to_string(),
            device.board.clone().unwrap_or_else(|| "unknown".to_owned()),
            String::new(),
            dram.2,
            dram.0.map_or_else(|| "-".to_owned(), bytes),
            String::new(),
            l1.2,
            l1.0.map_or_else(|| "-".to_owned(), bytes),
            device
                .cb
                .resident_bytes
                .map_or_else(|| "-".to_owned(), bytes),
            fit.map_or_else(|| "-".to_owned(), bytes),
            sensor(device, machine_labels::temperature),
            sensor(device, machine_labels::power),
            sensor(device, machine_labels::clock),
            if doubts.is_empty() { "" } else { "!" }.to_owned(),
        ];
        let mut cells = table.aligned(&cells, width);
        for (place, (used, whole)) in [(2, (dram.0, dram.1)), (5, (l1.0, l1.1))] {
            cells[place] = painted_bar(used, whole, cells[place].len(), paint);
        }
        text.push_str(cells.join(" ").trim_end());
        text.push('\n');
        if !doubts.is_empty() {
            let first = format!("! device {}: ", device.id);
            notes.push_str(&sentence(&first, &doubts.join(", "), width));
        }
    }
    for device in by_number(snapshot) {
        let whose = whose(device, snapshot);
        for sentence_of in whose.remark().into_iter().chain(whose.besides(device)) {
            let first = format!("! device {}: ", device.id);
            notes.push_str(&sentence(&first, &sentence_of, width));
        }
    }
    text.push_str(&paint.warning(&notes));
    text.push_str(&paint.detail(&origins(&snapshot.devices, width)));
    text
}

/// How the figures of an overview are known, and where the rest of them is.
fn origins(devices: &[Device], width: usize) -> String {
    let ids = |chosen: &dyn Fn(&Device) -> bool| {
        let ids: Vec<u32> = devices
            .iter()
            .filter(|device| chosen(device))
            .map(|device| device.id)
            .collect();
        format::ids(&ids)
    };
    let sources: BTreeSet<Option<Source>> = devices.iter().map(|device| device.source).collect();
    let mut parts: Vec<String> = sources
        .into_iter()
        .map(|source| {
            let ids = ids(&|device| device.source == source);
            format!("{}: {ids}", source_name(source))
        })
        .collect();
    if devices.iter().any(|device| device.verified == Some(true)) {
        parts.push(format!(
            "equal to the allocator: {}",
            ids(&|device| device.verified == Some(true))
        ));
    }
    parts.push("all figures: ttmem status --json".to_owned());
    sentence("  ", &parts.join("; "), width)
}

/// A value of the driver.
fn sensor(device: &Device, value: fn(&Telemetry) -> Option<String>) -> String {
    let known = device.telemetry.as_ref().and_then(value);
    known.unwrap_or_else(|| "-".to_owned())
}

/// How figures are known, in a word or two.
fn source_name(source: Option<Source>) -> &'static str {
    source.map_or("not tracked yet", Source::as_str)
}

fn whose(device: &Device, snapshot: &Snapshot) -> Whose {
    let key = device.key();
    let users = snapshot
        .machine
        .iter()
        .flat_map(|machine| &machine.processes);
    let is_open = { users }.any(|user| {
        let mut on = user.devices.iter();
        user.is_not_attached() && user.upstream().is_none() && on.any(|on| on.key() == key)
    });
    Whose::of(device, is_open)
}

/// What is taken of DRAM and L1, where that is known, and of how much.
///
/// L1 is what is occupied, where that is known; else it is its buffers, of their capacity.
fn bars(device: &Device, whose: Whose) -> [(Option<u64>, Option<u64>); 2] {
    let (dram, l1) = (&device.dram, &device.l1);
    let occupied = l1.occupied_bytes.zip(l1.physical_bytes);
    let (dram_bytes, l1_bytes) = match (whose, occupied) {
        (Whose::Attached, Some((occupied, physical))) => {
            let dram = (Some(dram.used_bytes()), dram.capacity_bytes);
            return [dram, (Some(occupied), Some(physical))];
        }
        (Whose::Attached, None) => (Some(dram.used_bytes()), Some(l1.used_bytes())),
        (Whose::Counters(counted), _) => (Some(counted.dram), Some(counted.l1)),
        (Whose::Unknown, _) => (None, None),
    };
    [
        (dram_bytes, dram.capacity_bytes),
        (l1_bytes, l1.capacity_bytes),
    ]
}

/// A bar of so many columns, coloured by how full it is.
fn painted_bar(used: Option<u64>, whole: Option<u64>, width: usize, paint: Paint) -> String {
    let whole = whole.filter(|_whole| used.is_some());
    let used = used.unwrap_or(0);
    let drawn = bar(used, whole, u16::try_from(width).unwrap_or(u16::MAX));
    match Share::of(used, whole) {
        Some(share) => paint.fullness(&drawn, share.permille()),
        None => paint.detail(&drawn),
    }
}

fn words(sentence: &str) -> Vec<String> {
    sentence.split(' ').map(str::to_owned).collect()
}

struct Block<'a> {
    device: &'a Device,
    snapshot: &'a Snapshot,
    width: usize,
    paint: Paint,
}

impl Block<'_> {
    fn text(&self) -> String {
        let Device {
            dram,
            l1,
            l1_small,
            trace,
            system,
            ..
        } = self.device;
        let mut text = self.header();
        text.push_str(&self.machine());
        let whose = whose(self.device, self.snapshot);
        if whose == Whose::Attached {
            text.push_str(&self.class(labels::DRAM, dram));
            text.push_str(&self.occupied());
            text.push_str(&self.class(labels::L1_BUFFERS, l1));
        } else {
            text.push_str(&self.not_attached(whose));
        }
        for (label, class) in [("L1_SMALL", l1_small), ("TRACE", trace), ("SYSTEM", system)] {
            if class.charged_bytes > 0 || class.buffers > 0 || class.peak_bytes > 0 {
                text.push_str(&self.class(label, class));
            }
        }
        for more in labels::more_than_the_device_has(self.device) {
            let words: Vec<String> = more.split(' ').map(str::to_owned).collect();
            text.push_str(&self.paint.warning(&self.indented(&words)));
        }
        text.push_str(&self.programs());
        for sentence in whose.besides(self.device) {
            text.push_str(&self.paint.warning(&self.indented(&words(&sentence))));
        }
        for setting in &self.device.regions {
            let size = labels::region(setting);
            text.push_str(&self.indented(&[format!("set {size}")]));
        }
        text
    }

    fn header(&self) -> String {
        let device = self.device;
        let mut facts = vec![
            device
                .board
                .clone()
                .unwrap_or_else(|| "unknown board".to_owned()),
        ];
        facts.extend(device.arch.clone());
        if device.remote == Some(true) {
            facts.push("remote".to_owned());
        }
        facts.push(source_name(device.source).to_owned());
        if device.verified != Some(false) {
            facts.push(labels::checked(device.verified).to_owned());
        }
        let doubts = doubts(device, self.snapshot);
        facts.extend(doubts.iter().map(|doubt| (*doubt).to_owned()));
        facts.extend(
            device
                .scope
                .as_ref()
                .map(|scope| format!("visible devices {scope}")),
        );
        facts.extend(machine_labels::names(device));
        let facts = with_commas(&facts);
        let title = format!("Device {}", device.id);
        let text = paragraph(
            &format!("{title}  "),
            FIGURES_AT,
            facts.iter().map(String::as_str),
            self.width,
        );
        let facts = &text[title.len()..];
        let facts = if doubts.is_empty() {
            facts.to_owned()
        } else {
            self.paint.warning(facts)
        };
        format!("{}{facts}", self.paint.heading(&title))
    }

    /// What the driver says of the device.
    fn machine(&self) -> String {
        let telemetry = self.device.telemetry.as_ref();
        self.details(&telemetry.map_or_else(Vec::new, machine_labels::telemetry))
    }

    fn class(&self, label: &str, class: &ClassUsage) -> String {
        let buffers = counted(class.buffers, "buffer");
        let used = Some(class.used_bytes());
        let mut text = self.usage_line(label, used, class.capacity_bytes, &buffers);
        let mut details = self.peak(class.peak_bytes, class.peak_time);
        let fit = labels::largest_fit(class);
        details.extend(fit.map(|fit| format!("{} {fit}", labels::LARGEST_FIT)));
        details.extend(labels::fragmented(class));
        if class.requested_bytes != class.charged_bytes {
            details.push(format!("requested {}", bytes(class.requested_bytes)));
        }
        text.push_str(&self.details(&details));
        if let Some(overlap) = class.overlap_bytes.filter(|overlap| *overlap > 0) {
            let warning = format!(
                "overlap {}: allocators charge {} together",
                bytes(overlap),
                bytes(class.charged_bytes)
            );
            text.push_str(&self.paint.warning(&self.indented(&[warning])));
        }
        text
    }

    /// What lies in L1 altogether, if that is known.
    fn occupied(&self) -> String {
        let l1 = &self.device.l1;
        let Some(occupied) = l1.occupied_bytes else {
            return String::new();
        };
        let mut text = self.usage_line(labels::L1, Some(occupied), l1.physical_bytes, "occupied");
        let mut details = Vec::new();
        if let Some(reserved) = l1.reserved_bytes {
            details.push(format!("reserved {}", bytes(reserved)));
            // Occupied is a union of three: what neither of two accounts for is the third.
            let small = &self.device.l1_small;
            let buffers = match (l1.union_bytes, small.union_bytes) {
                (Some(l1_bytes), Some(small_bytes)) => l1_bytes.checked_add(small_bytes),
                (Some(l1_bytes), None) if small.charged_bytes == 0 => Some(l1_bytes),
                _ => None,
            };
            if let Some(buffers) = buffers
                && let Some(cbs) = occupied.checked_sub(reserved.saturating_add(buffers))
            {
                details.push(format!("buffers {}", bytes(buffers)));
                details.push(format!("CBs {}", bytes(cbs)));
            }
        }
        text.push_str(&self.details(&details));
        text
    }

    /// What programs have in L1 now, and what those that are cached hold.
    fn programs(&self) -> String {
        let (cb, kernel) = (&self.device.cb, &self.device.kernel);
        if cb.count == 0 && kernel.count == 0 {
            return String::new();
        }
        let resident = bytes_or_unknown(cb.resident_bytes);
        let mut now = vec![format!("{} {resident} resident", labels::CBS)];
        if let Some(headroom) = self.device.cb_headroom_bytes {
            let headroom = labels::headroom(headroom);
            now.push(format!("{} {headroom}", labels::CB_HEADROOM));
        }
        let cached = [
            format!(
                "cached programs hold CBs of {} (not at the same time)",
                bytes(cb.registered_bytes)
            ),
            format!("kernels of {}", bytes(kernel.registered_bytes)),
        ];
        let mut text = self.indented(&with_commas(&now));
        text.push_str(&self.details(&cached));
        text
    }

    /// What a device holds for processes that are not attached, as far as that is known.
    fn not_attached(&self, whose: Whose) -> String {
        let mut text = String::new();
        let names = [labels::DRAM, labels::L1_BUFFERS];
        for (label, (used, whole)) in names.into_iter().zip(bars(self.device, whose)) {
            text.push_str(&self.usage_line(label, used, whole, ""));
        }
        let mut details: Vec<String> = whose.remark().into_iter().collect();
        let rest = whose.counters().map(|counted| UpstreamBytes {
            dram: 0,
            l1: 0,
            ..counted
        });
        let rest = rest.filter(|rest| !rest.is_zero());
        details.extend(rest.as_ref().map(machine_labels::counted));
        text.push_str(&self.details(&details));
        text
    }

    /// A bar, a share, and a word on the right.
    fn usage_line(&self, label: &str, used: Option<u64>, whole: Option<u64>, tail: &str) -> String {
        let share = percent(used.and_then(|used| Share::of(used, whole)), "-");
        let used_bytes = format!("{} of", bytes_or_unknown(used));
        let cells = [
            "",
            label,
            "",
            &share,
            &used_bytes,
            &bytes_or_unknown(whole),
            tail,
        ];
        let mut cells = Table::of(USAGE).aligned(&cells, self.width);
        cells[2] = painted_bar(used, whole, cells[2].len(), self.paint);
        format!("{}\n", cells.join(" ").trim_end())
    }

    fn peak(&self, peak_bytes: u64, peak_time: Option<Timestamp>) -> Vec<String> {
        if peak_bytes == 0 {
            return Vec::new();
        }
        let time = peak_time.map(|time| format!(" at {}", time_near(time, self.snapshot.time)));
        vec![format!(
            "peak {}{}",
            bytes(peak_bytes),
            time.unwrap_or_default()
        )]
    }

    fn details(&self, details: &[String]) -> String {
        if details.is_empty() {
            return String::new();
        }
        self.paint.detail(&self.indented(&with_commas(details)))
    }

    fn indented(&self, words: &[String]) -> String {
        let words = words.iter().map(String::as_str);
        paragraph(&" ".repeat(FIGURES_AT), FIGURES_AT, words, self.width)
    }
}
