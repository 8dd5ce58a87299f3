//! The rows of the list, and all that is known of one.

use crate::data::Data;
use crate::theme::{Ink, Theme};
use crate::views::naming::{age, class_ink, known, known_bytes, owner};
use crate::widgets::{Cell, Column, Fact};
use ttmem_report::format;
use ttmem_report::{BufferRow, SortBy, short_line};

/// Where lines of Python are recorded they say more than the owner.
pub(super) const fn columns(has_lines: bool) -> [Column; 10] {
    let (operation, line, owner) = if has_lines { (16, 1, 2) } else { (20, 3, 2) };
    [
        Column::figures("ADDRESS", 11, 0),
        Column::words("CLASS", 8, 0),
        Column::figures("CHARGED", 10, 0),
        Column::figures("REQUESTED", 10, 5),
        Column::words("LAYOUT", 14, 4),
        Column::words("OPERATION", operation, 0).growing(),
        Column::words("PYTHON LINE", 18, line).growing(),
        Column::words("OWNER", 14, owner).growing(),
        Column::words("DEVICES", 9, 6),
        Column::figures("AGE", 11, 0),
    ]
}

/// The column that shows an order, and whether its values go down.
pub(super) fn sorted(sort: SortBy, descending: bool) -> Option<(usize, bool)> {
    match sort {
        SortBy::Address => Some((0, descending)),
        SortBy::Size => Some((2, descending)),
        // The newest first are those with the least age.
        SortBy::Time => Some((9, !descending)),
        SortBy::Place | SortBy::Other => None,
    }
}

pub(super) fn cells(row: &BufferRow, data: &Data, theme: Theme) -> Vec<Cell> {
    let operation = match &row.operation {
        Some(operation) => Cell::new(operation.as_str()),
        None => Cell::faint(theme.unknown().to_owned()),
    };
    let line = match row.python_line() {
        Some(line) => Cell::new(short_line(line)),
        None => Cell::faint(theme.unknown()),
    };
    vec![
        Cell::faint(address(row, theme)),
        Cell::inked(row.class.as_str(), class_ink(row.class)),
        Cell::new(format::bytes(row.charged_bytes)),
        Cell::faint(format::bytes(row.requested_bytes)),
        Cell::faint(known(row.layout, theme)),
        operation,
        line,
        Cell::new(owner(row.pid, row.instance.as_deref(), data, theme)),
        Cell::faint(format::ids(&row.device_ids)),
        Cell::new(age(row.time, data, theme)),
    ]
}

pub(super) fn facts(row: &BufferRow, data: &Data, theme: Theme) -> Vec<Fact> {
    let text = |label: &'static str, value: String| (label, value, Ink::Text);
    let times = theme.pick("×", "x");
    let wasted = row.charged_bytes.saturating_sub(row.requested_bytes);
    let now = data.time();
    let when = row.time.zip(now).map(|(time, now)| {
        let age = age(row.time, data, theme);
        format!("{} UTC, {age} ago", format::time_near(time, now))
    });
    let owner = owner(row.pid, row.instance.as_deref(), data, theme);
    let per_bank = known_bytes(row.per_bank_bytes, theme);
    let banks = known(row.banks, theme);
    // As the runtime's messages have it, and as the list has it.
    let address_in_full = row
        .address
        .map(|address| format!("{address} ({address:#x})"));
    let mut facts = vec![
        text("operation", known(row.operation.as_ref(), theme)),
        text("owner", owner),
        ("class", row.class.to_string(), class_ink(row.class)),
        text("address", known(address_in_full, theme)),
        text("layout", known(row.layout, theme)),
        text("requested", exact(row.requested_bytes)),
        text("charged", exact(row.charged_bytes)),
        text("overhead", exact(wasted)),
        text("per bank", format!("{per_bank} {times} {banks} banks")),
        text("page", known_bytes(row.page_bytes, theme)),
        text("devices", format::ids(&row.device_ids)),
        text("allocated", known(when, theme)),
        text("buffer", row.id.to_string()),
    ];
    if row.aliases > 0 {
        let times = format::counted(row.aliases.into(), "time");
        facts.push(("aliases", format!("announced {times} more"), Ink::Warning));
    }
    match &row.python {
        Some(python) => {
            facts.push(text("", String::new()));
            facts.push(("", "Python stack, innermost first".to_owned(), Ink::Faint));
            let frames = python.iter().map(|frame| text("", frame.clone()));
            facts.extend(frames);
        }
        None => facts.push(("Python", "not recorded".to_owned(), Ink::Faint)),
    }
    match &row.stack {
        Some(stack) => {
            facts.push(text("", String::new()));
            facts.push(("", "call stack, innermost first".to_owned(), Ink::Faint));
            let frames = stack.iter().map(|frame| text("", frame.clone()));
            facts.extend(frames);
        }
        None => facts.push(("call stack", "not recorded".to_owned(), Ink::Faint)),
    }
    facts
}

fn address(row: &BufferRow, theme: Theme) -> String {
    known(row.address.map(|address| format!("{address:#x}")), theme)
}

fn exact(size: u64) -> String {
    if size < 1024 {
        format::bytes(size)
    } else {
        format!("{} ({size} B)", format::bytes(size))
    }
}
