//! Failures and why they happened.

use super::Page;
use crate::output::Screen;
use ttmem_api::{
    BlockOwner, Clash, Explanation, FailedRequest, Failures, HolderGroup, MapRow, Setting,
    Timestamp,
};
use ttmem_tui::format::{bytes, count, counted, duration, ids};
use ttmem_tui::text::{Column, Table, clip, paragraph};

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

/// Every failure with its explanation, one below the other.
pub(crate) fn explained(failures: &Failures, screen: Screen) -> String {
    let page = Page::new(failures, screen);
    let each = failures.failures.iter().map(|each| page.failure(each));
    let mut text = each.collect::<Vec<_>>().join("\n");
    if failures.omitted > 0 {
        let more = counted(failures.omitted, "more failure");
        text.push_str(&format!("\n{more}, not shown\n"));
    }
    text
}

impl Page<'_, Failures> {
    fn failure(&self, failure: &Explanation) -> String {
        let mut text = self.paint.heading(&clip(&heading(failure), self.width));
        text.push('\n');
        let words = failure.sentence.split_whitespace();
        text.push_str(&paragraph("", 0, words, self.width));
        let mut facts = Vec::new();
        facts.extend(failure.request.as_ref().map(request).unwrap_or_default());
        facts.extend(failure.clash.as_ref().map(clash).unwrap_or_default());
        facts.extend(failure.setting.as_ref().map(setting));
        let named = [
            ("operation", &failure.operation),
            ("python", &failure.python),
        ];
        let named = named
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.clone()?)));
        facts.extend(named);
        for (name, fact) in facts {
            text.push_str(&self.fact(name, &fact));
        }
        text.push_str(&self.in_the_way(failure));
        text.push_str(&self.holders(failure));
        text.push_str(&self.map(failure));
        for (name, lines) in [
            ("what to do", &failure.advice),
            ("not known", &failure.unknown),
        ] {
            for line in lines {
                text.push_str(&self.fact(name, line));
            }
        }
        text
    }

    fn fact(&self, name: &str, fact: &str) -> String {
        let first = format!("  {name:<10} ");
        paragraph(&first, first.len(), fact.split_whitespace(), self.width)
    }

    fn holders(&self, failure: &Explanation) -> String {
        let Some(holders) = failure
            .holders
            .as_ref()
            .filter(|_held| failure.clash.is_none())
        else {
            return String::new();
        };
        let table = Table::of(HOLDERS);
        let mut text = self.paint.heading(&table.heading(self.width)) + "\n";
        for group in holders.iter().take(MAX_GROUPS) {
            let cells = [
                String::new(),
                bytes(group.bytes_per_bank),
                count(group.buffers),
                group_age(group, failure.time),
                whose(&group.owner),
            ];
            text.push_str(&(table.line(&cells, self.width) + "\n"));
        }
        if let Some(others) = holders
            .get(MAX_GROUPS..)
            .filter(|others| !others.is_empty())
        {
            let buffers: u64 = others.iter().map(|group| group.buffers).sum();
            let held = others.iter().map(|group| group.bytes_per_bank);
            let held = held.fold(0, u64::saturating_add);
            let line = format!(
                "  and {} with {}\n",
                counted(buffers, "buffer"),
                bytes(held)
            );
            text.push_str(&self.paint.detail(&line));
        }
        text
    }

    fn in_the_way(&self, failure: &Explanation) -> String {
        let blocks = failure
            .clash
            .as_ref()
            .and_then(|clash| clash.in_the_way.as_ref());
        let Some(blocks) = blocks else {
            return String::new();
        };
        let rows = blocks.iter().take(MAX_GROUPS).map(|each| {
            let owner = format!(
                "{} overlap: {}",
                bytes(each.overlap_bytes),
                whose(&each.block.owner)
            );
            (each.block.address, each.block.size_bytes, owner, false)
        });
        let mut text = self.by_address(rows);
        if let Some(others) = blocks
            .len()
            .checked_sub(MAX_GROUPS)
            .filter(|others| *others > 0)
        {
            let others = counted(u64::try_from(others).unwrap_or(u64::MAX), "more buffer");
            text.push_str(&self.paint.detail(&format!("  and {others} in the way\n")));
        }
        text
    }

    fn map(&self, failure: &Explanation) -> String {
        let Some(map) = &failure.map else {
            return String::new();
        };
        self.by_address(
            map.iter()
                .map(|row| (row.address, row.size_bytes, row_owner(row), row.in_release)),
        )
    }

    /// Stretches of a bank; a cross stands before those to release.
    fn by_address(&self, rows: impl Iterator<Item = (u64, u64, String, bool)>) -> String {
        let table = Table::of(MAP);
        let mut text = self.paint.heading(&table.heading(self.width)) + "\n";
        for (address, size_bytes, owner, in_release) in rows {
            let cells = [
                if in_release { "x" } else { "" }.to_owned(),
                address.to_string(),
                format!("{address:#x}"),
                size_bytes.to_string(),
                owner,
            ];
            let line = table.line(&cells, self.width) + "\n";
            text.push_str(&if in_release {
                self.paint.warning(&line)
            } else {
                line
            });
        }
        text
    }
}

fn heading(failure: &Explanation) -> String {
    let mut parts = vec![failure.verdict.as_str().replace('_', " ").to_uppercase()];
    parts.extend(failure.time.map(ttmem_tui::format::date_time));
    if let Some(devices) = failure.device_ids.as_ref().filter(|ids| !ids.is_empty()) {
        parts.push(format!("device {}", ids(devices)));
    }
    if let Some(pid) = failure.pid {
        let name = failure.process.as_deref().unwrap_or_default();
        parts.push(format!("pid {pid} {name}").trim_end().to_owned());
    }
    parts.extend(
        failure
            .log
            .as_ref()
            .map(|place| format!("line {}", place.line)),
    );
    if failure.times > 1 {
        parts.push(format!("{} times", count(failure.times)));
    }
    parts.join(" · ")
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
        let banks = request.banks.map_or_else(
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
    ("enough", value)
}

/// The line, or failing that the operation, and the process.
fn whose(owner: &BlockOwner) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(owner.python.clone());
    parts.extend(owner.operation.clone());
    parts.extend(owner.pid.map(|pid| {
        let name = owner.process.as_deref().unwrap_or_default();
        format!("pid {pid} {name}").trim_end().to_owned()
    }));
    if parts.is_empty() {
        return "not known".to_owned();
    }
    parts.join(", ")
}

fn row_owner(row: &MapRow) -> String {
    match &row.owner {
        _ if row.stands_for > 1 => format!("{} stretches", count(row.stands_for)),
        Some(owner) => whose(owner),
        None => "free".to_owned(),
    }
}

fn group_age(group: &HolderGroup, now: Option<Timestamp>) -> String {
    let (Some(since), Some(now)) = (group.owner.since, now) else {
        return "-".to_owned();
    };
    duration(now.unix_nanos().saturating_sub(since.unix_nanos()) / 1_000_000_000)
}

#[cfg(test)]
mod tests;
