//! A failure and why it happened, as lines of text: for reports and for the terminal view alike.

use crate::widgets::text::{clip, paragraph};
use crate::widgets::{Column, Table};
use ttmem_report::format::{bytes, count, counted, fine_duration};
use ttmem_report::labels::HIDDEN;
use ttmem_report::{
    BlockOwner, Clash, Explanation, FailedRequest, HolderGroup, MapRow, Setting, Timestamp,
    short_line,
};

/// Groups of buffers that are worth a line.
const MAX_GROUPS: usize = 10;

const HOLDERS: &[Column] = &[
    Column::words("", 1, 0),
    Column::size("PER BANK"),
    Column::figures("BUFFERS", 7, 0),
    Column::figures("AGE", 12, 1),
    Column::words("WHOSE", 20, 0).growing(),
];

const MAP: &[Column] = &[
    Column::words("", 1, 0),
    Column::figures("ADDRESS", 12, 0),
    Column::figures("HEX", 12, 1),
    Column::figures("BYTES", 12, 0),
    Column::words("WHOSE", 20, 0).growing(),
];

/// What a line is, for whoever has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Heading,
    Text,
    /// What supports a figure rather than being one.
    Detail,
    /// What is to be released.
    Marked,
}

/// Lines of at most so many columns.
#[derive(Debug)]
struct Lines {
    lines: Vec<(Style, String)>,
    width: usize,
}

/// What failed, and why in one sentence.
#[must_use]
pub fn sentence(failure: &Explanation, width: usize) -> Vec<(Style, String)> {
    let mut page = Lines {
        lines: Vec::new(),
        width,
    };
    page.put(Style::Heading, clip(&failure.heading(), width));
    let words = failure.sentence.split_whitespace();
    page.put(Style::Text, paragraph("", 0, words, width));
    page.lines
}

/// The sentence, and all that is known beyond it.
#[must_use]
pub fn in_full(failure: &Explanation, width: usize) -> Vec<(Style, String)> {
    let mut page = Lines {
        lines: sentence(failure, width),
        width,
    };
    let mut facts = Vec::new();
    facts.extend(failure.request.as_ref().map(request).unwrap_or_default());
    facts.extend(failure.clash.as_ref().map(clash).unwrap_or_default());
    facts.extend(failure.setting.as_ref().map(setting));
    let named = [
        ("operation", &failure.operation),
        ("python", &failure.python),
    ];
    let hidden = failure.names_hidden.then(|| HIDDEN.to_owned());
    let named = named
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.clone().or_else(|| hidden.clone())?)));
    facts.extend(named);
    for (name, fact) in facts {
        page.fact(name, &fact);
    }
    page.in_the_way(failure);
    page.holders(failure);
    page.map(failure);
    for (name, lines) in [
        ("what to do", &failure.advice),
        ("not known", &failure.unknown),
    ] {
        for line in lines {
            page.fact(name, line);
        }
    }
    page.lines
}

impl Lines {
    fn put(&mut self, style: Style, text: impl AsRef<str>) {
        let lines = text.as_ref().lines();
        self.lines
            .extend(lines.map(|line| (style, line.to_owned())));
    }

    fn fact(&mut self, name: &str, fact: &str) {
        let first = format!("  {name:<10} ");
        let fact = fact.split_whitespace();
        self.put(
            Style::Text,
            paragraph(&first, first.len(), fact, self.width),
        );
    }

    fn holders(&mut self, failure: &Explanation) {
        let holders = failure.holders.as_ref();
        let Some(holders) = holders.filter(|held| failure.clash.is_none() && !held.is_empty())
        else {
            return;
        };
        let table = Table::of(HOLDERS);
        self.put(Style::Heading, table.heading(self.width));
        for group in holders.iter().take(MAX_GROUPS) {
            let cells = [
                String::new(),
                bytes(group.bytes_per_bank),
                count(group.buffers),
                group_age(group, failure.time),
                whose(&group.owner, failure),
            ];
            self.put(Style::Text, table.line(&cells, self.width));
        }
        let others = holders.get(MAX_GROUPS..);
        if let Some(others) = others.filter(|others| !others.is_empty()) {
            let buffers: u64 = others.iter().map(|group| group.buffers).sum();
            let held = others.iter().map(|group| group.bytes_per_bank);
            let held = bytes(held.fold(0, u64::saturating_add));
            let buffers = counted(buffers, "buffer");
            self.put(Style::Detail, format!("  and {buffers} with {held}"));
        }
    }

    fn in_the_way(&mut self, failure: &Explanation) {
        let clash = failure.clash.as_ref();
        let Some(blocks) = clash.and_then(|clash| clash.in_the_way.as_ref()) else {
            return;
        };
        let rows = blocks.iter().take(MAX_GROUPS).map(|each| {
            let owner = format!(
                "{} overlap: {}",
                bytes(each.overlap_bytes),
                whose(&each.block.owner, failure)
            );
            (each.block.address, each.block.size_bytes, owner, false)
        });
        self.by_address(rows);
        let others = blocks.len().checked_sub(MAX_GROUPS);
        if let Some(others) = others.filter(|others| *others > 0) {
            let others = counted(u64::try_from(others).unwrap_or(u64::MAX), "more buffer");
            self.put(Style::Detail, format!("  and {others} in the way"));
        }
    }

    fn map(&mut self, failure: &Explanation) {
        let Some(map) = &failure.map else {
            return;
        };
        self.by_address(map.iter().map(|row| {
            (
                row.address,
                row.size_bytes,
                row_owner(row, failure),
                row.in_release,
            )
        }));
        let unless = failure.release.as_ref().map(|release| &release.unless);
        let unless = unless.filter(|unless| !unless.is_empty());
        let unless = unless.map_or_else(String::new, |unless| format!(", {unless}"));
        self.put(Style::Detail, format!("x  release to make it fit{unless}"));
    }

    /// Stretches of a bank; a cross stands before those to release.
    fn by_address(&mut self, rows: impl Iterator<Item = (u64, u64, String, bool)>) {
        let table = Table::of(MAP);
        self.put(Style::Heading, table.heading(self.width));
        for (address, size_bytes, owner, in_release) in rows {
            let (sign, style) = if in_release {
                ("x", Style::Marked)
            } else {
                ("", Style::Text)
            };
            let cells = [
                sign.to_owned(),
                address.to_string(),
                format!("{address:#x}"),
                size_bytes.to_string(),
                owner,
            ];
            self.put(style, table.line(&cells, self.width));
        }
    }
}

/// Exact, as it is searched for and typed, and as it is read.
fn exact(size_bytes: u64) -> String {
    if size_bytes < 1024 {
        bytes(size_bytes)
    } else {
        format!("{size_bytes} B ({})", bytes(size_bytes))
    }
}

fn request(request: &FailedRequest) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let mut asked = Vec::new();
    if let Some(requested) = request.requested_bytes {
        let class = request.class.map(|class| class.as_str().to_uppercase());
        let class = class.map_or_else(String::new, |class| format!(" of {class}"));
        asked.push(format!("{}{class}", exact(requested)));
    }
    if let Some(need) = request.need_bytes_per_bank {
        let banks = request.banks.filter(|banks| *banks > 0);
        let banks = banks.map_or_else(
            || "each bank".to_owned(),
            |banks| format!("each of {banks} banks"),
        );
        asked.push(format!("{} in {banks}", exact(need)));
    }
    if !asked.is_empty() {
        facts.push(("asked for", asked.join(", ")));
    }
    let figures = [
        (request.bank_bytes, ""),
        (request.allocated_bytes_per_bank, " allocated"),
        (request.free_bytes_per_bank, " free"),
        (
            request.largest_free_bytes_per_bank,
            " in the largest free block",
        ),
    ];
    let figures: Vec<String> = figures
        .into_iter()
        .filter_map(|(figure, what)| Some(format!("{}{what}", exact(figure?))))
        .collect();
    if !figures.is_empty() {
        facts.push(("bank", figures.join(", ")));
    }
    facts
}

fn clash(clash: &Clash) -> Vec<(&'static str, String)> {
    let address = |address: u64| format!("{address} ({address:#x})");
    let start = clash.storage_start.map_or_else(
        || "ends at".to_owned(),
        |start| format!("from {} to", address(start)),
    );
    vec![(
        "storage",
        format!(
            "{start} {}, limit {}, {} too much",
            address(clash.storage_end),
            address(clash.limit),
            exact(clash.overlap_bytes)
        ),
    )]
}

fn setting(setting: &Setting) -> (&'static str, String) {
    let size = match setting.bytes_per_bank {
        Some(each) if each == setting.value => format!("{} per bank", bytes(each)),
        Some(each) => format!("{}, {} per bank", bytes(setting.value), exact(each)),
        None => bytes(setting.value),
    };
    let given = setting
        .given
        .map_or_else(String::new, |given| format!("; {given} was given"));
    let value = format!("{}={} ({size}){given}", setting.name, setting.value);
    let name = if setting.is_smallest {
        "at least"
    } else {
        "fits with"
    };
    (name, value)
}

/// The line, the operation, and the process unless it is the one that failed.
fn whose(owner: &BlockOwner, failure: &Explanation) -> String {
    let is_failed = owner.pid.is_some() && owner.pid == failure.pid;
    if failure.names_hidden && is_failed && owner.python.is_none() && owner.operation.is_none() {
        return HIDDEN.to_owned();
    }
    let mut parts: Vec<String> = Vec::new();
    parts.extend(
        owner
            .python
            .as_deref()
            .map(|line| short_line(line).to_owned()),
    );
    parts.extend(owner.operation.clone());
    let other = owner.pid.filter(|_pid| !is_failed || parts.is_empty());
    parts.extend(other.map(|pid| {
        let name = owner.process.as_deref().unwrap_or_default();
        format!("pid {pid} {name}").trim_end().to_owned()
    }));
    if parts.is_empty() {
        parts.push("not known".to_owned());
    }
    // First: it must not be what is cut off.
    if owner.of_call {
        parts.insert(0, "by this call".to_owned());
    }
    parts.join(", ")
}

fn row_owner(row: &MapRow, failure: &Explanation) -> String {
    match &row.owner {
        _ if row.stands_for > 1 => format!("… {} more, in use or free", count(row.stands_for)),
        Some(owner) => whose(owner, failure),
        None => "free".to_owned(),
    }
}

fn group_age(group: &HolderGroup, now: Option<Timestamp>) -> String {
    let (Some(since), Some(now)) = (group.owner.since, now) else {
        return "-".to_owned();
    };
    fine_duration(now.unix_nanos().saturating_sub(since.unix_nanos()))
}
