//! An event as a row, and in full.

use super::family::Weight;
use crate::theme::{Ink, Theme};
use crate::views::naming;
use crate::widgets::{Cell, Column};
use std::fmt::Write as _;
use ttmem_report::format;
use ttmem_report::{EventFields, FieldValue, StreamEvent};

pub(super) const fn columns(screen: u16) -> [Column; 9] {
    // The usual names are short; where there is room the longest has it too.
    let event = if screen < 120 { 17 } else { 22 };
    [
        Column::words("TIME (UTC)", 12, 0),
        Column::figures("PID", 7, 0),
        Column::words("PROCESS", 16, 3),
        Column::words("", 2, 0),
        Column::words("EVENT", event, 0),
        Column::words("DEVICE", 6, 1),
        Column::figures("BYTES", 10, 0),
        Column::figures("ADDRESS", 11, 2),
        Column::words("WHAT", 14, 0).growing(),
    ]
}

/// Fields that say how many bytes an event is about, the one that says most first.
const SIZES: [&str; 6] = [
    "requested_bytes",
    "size_bytes",
    "bytes",
    "binary_bytes",
    "allocated_bytes",
    "per_bank_bytes",
];

/// Fields that are words for what the event is about.
const WORDS: [&str; 3] = ["class", "kind", "status"];

/// Fields that name what the event is about.
const NAMES: [&str; 2] = ["operation", "name"];

/// Whether a field is a place in memory, which people know in hex.
pub(super) fn is_address(field: &str) -> bool {
    matches!(field, "address" | "base" | "region_end" | "limit")
}

pub(super) fn cells(event: &StreamEvent, theme: Theme) -> Vec<Cell> {
    let event = &event.event;
    let unknown = || Cell::faint(theme.unknown());
    let weight = Weight::of(event);
    let signs = match (weight, event.recovered) {
        (weight, true) => format!("{}R", weight.sign(theme)),
        (weight, false) => weight.sign(theme).to_owned(),
    };
    let sign_ink = match weight {
        Weight::Usual if event.recovered => Ink::Warning,
        weight => weight.ink(),
    };
    let pid = event.pid.map(|pid| Cell::new(pid.to_string()));
    let process = event.process.as_deref().map(Cell::new);
    let ink = match weight {
        Weight::Usual if gives_back(&event.event) => Ink::Faint,
        weight => weight.ink(),
    };
    let size = SIZES.iter().find_map(|name| number(&event.fields, name));
    let size = size.map_or_else(
        || Cell::new(""),
        |size| Cell::inked(format::bytes(size), class_ink(&event.fields)),
    );
    let address = number(&event.fields, "address").or(number(&event.fields, "base"));
    let address = address.map_or_else(String::new, |address| format!("{address:#x}"));
    vec![
        Cell::faint(&event.time.to_string()[11..23]),
        pid.unwrap_or_else(unknown),
        process.unwrap_or_else(unknown),
        Cell::inked(signs, sign_ink),
        Cell::inked(event.event.as_str(), ink),
        Cell::new(devices(&event.fields)),
        size,
        Cell::faint(address),
        Cell::new(what(&event.fields)),
    ]
}

pub(super) fn in_full(event: &StreamEvent) -> String {
    let (id, event) = (event.id, &event.event);
    let mut text = format!("{} {}", event.time, event.event);
    if let Some(pid) = event.pid {
        put(&mut text, format_args!(" of {pid}"));
    }
    if let Some(process) = &event.process {
        put(&mut text, format_args!(" {process}"));
    }
    put(&mut text, format_args!(", event {id}"));
    if event.recovered {
        text.push_str(", recovered from the memory of a dead process");
    }
    text.push(':');
    for (name, value) in &event.fields.0 {
        if *value != FieldValue::Unknown {
            put_field(&mut text, name, value, true);
        }
    }
    text
}

/// What has no column: words, the name of what it is about, and then all the rest.
fn what(fields: &EventFields) -> String {
    let mut text = String::new();
    for name in WORDS.iter().chain(&NAMES) {
        if let Some(FieldValue::Text(word)) = value(fields, name)
            && !word.is_empty()
        {
            let blank = if text.is_empty() { "" } else { " " };
            put(&mut text, format_args!("{blank}{word}"));
        }
    }
    let size = SIZES.iter().find(|name| number(fields, name).is_some());
    for (name, value) in &fields.0 {
        let has_column = size.is_some_and(|size| size == name)
            || matches!(name.as_str(), "devices" | "device" | "address" | "base")
            || WORDS.contains(&name.as_str())
            || NAMES.contains(&name.as_str());
        if !has_column && *value != FieldValue::Unknown {
            put_field(&mut text, name, value, false);
        }
    }
    text.trim_start().to_owned()
}

/// ` name=value`; sizes in units, unless they are to be exact.
fn put_field(text: &mut String, name: &str, value: &FieldValue, exactly: bool) {
    match value {
        FieldValue::Number(number) if is_address(name) => {
            put(text, format_args!(" {name}={number:#x}"));
        }
        FieldValue::Number(number) if name.ends_with("bytes") && !exactly => {
            put(text, format_args!(" {name}={}", format::bytes(*number)));
        }
        FieldValue::Text(words) if words.is_empty() || words.contains([' ', '=']) => {
            put(text, format_args!(" {name}=\"{words}\""));
        }
        other => put(text, format_args!(" {name}={other}")),
    }
}

fn put(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("a String takes any text");
}

pub(super) fn value<'f>(fields: &'f EventFields, name: &str) -> Option<&'f FieldValue> {
    let mut fields = fields.0.iter();
    fields
        .find(|(known, _)| known == name)
        .map(|(_, value)| value)
}

fn number(fields: &EventFields, name: &str) -> Option<u64> {
    match value(fields, name) {
        Some(FieldValue::Number(number)) => Some(*number),
        _other => None,
    }
}

fn devices(fields: &EventFields) -> String {
    match value(fields, "devices").or(value(fields, "device")) {
        // A mesh has them in an order of its own.
        Some(FieldValue::Devices(devices)) => {
            let mut devices = devices.clone();
            devices.sort_unstable();
            format::ids(&devices)
        }
        Some(FieldValue::Unknown) | None => String::new(),
        Some(one) => one.to_string(),
    }
}

fn class_ink(fields: &EventFields) -> Ink {
    match value(fields, "class") {
        Some(FieldValue::Text(class)) => naming::class_ink(naming::class_of(class)),
        _other => Ink::Text,
    }
}

/// Whether something ends: half of all events, and seldom what is looked for.
fn gives_back(name: &str) -> bool {
    ["freed", "unloaded", "destroyed", "released", "closed"]
        .iter()
        .any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::screen::THEME;
    use ttmem_report::{LastEvent, Timestamp};

    fn event(fields: &[(&str, FieldValue)]) -> StreamEvent {
        let fields = fields.iter();
        let fields = fields.map(|(name, value)| ((*name).to_owned(), value.clone()));
        let time = Timestamp::from_unix_nanos(1_794_731_103_123_456_789);
        StreamEvent {
            id: 7,
            applied: time,
            event: LastEvent {
                time,
                pid: None,
                process: None,
                recovered: true,
                event: "allocation_failed".to_owned(),
                fields: EventFields(fields.collect()),
            },
        }
    }

    fn texts(event: &StreamEvent) -> Vec<String> {
        let cells = cells(event, THEME).into_iter();
        cells.map(|cell| cell.text).collect()
    }

    #[test]
    fn key_fields_have_columns_and_the_rest_follows() {
        let event = event(&[
            ("devices", FieldValue::Devices(vec![6, 1, 0, 2, 3, 9, 8])),
            ("class", FieldValue::Text("l1".to_owned())),
            ("banks", FieldValue::Number(64)),
            ("requested_bytes", FieldValue::Number(1 << 20)),
            ("per_bank_bytes", FieldValue::Number(1 << 14)),
            ("cores", FieldValue::Unknown),
            ("operation", FieldValue::Text("ttnn::add".to_owned())),
        ]);
        assert_eq!(
            texts(&event),
            [
                "08:25:03.123",
                "–",
                "–",
                "✗R",
                "allocation_failed",
                "0-3,6,8-9",
                "1.0 MiB",
                "",
                "l1 ttnn::add banks=64 per_bank_bytes=16.0 KiB"
            ]
        );
        let full = in_full(&event);
        assert!(full.starts_with("2026-11-15T08:25:03.123456789Z allocation_failed, event 7, rec"));
        assert!(full.ends_with(
            "devices=6,1,0,2,3,9,8 class=l1 banks=64 requested_bytes=1048576 \
             per_bank_bytes=16384 operation=ttnn::add"
        ));
    }

    #[test]
    fn what_is_not_known_is_not_a_zero() {
        let event = event(&[
            ("devices", FieldValue::Unknown),
            ("size_bytes", FieldValue::Unknown),
            ("name", FieldValue::Text(String::new())),
            ("limit", FieldValue::Number(255)),
            ("below", FieldValue::Negative(-1)),
        ]);
        assert_eq!(texts(&event)[5..], ["", "", "", "limit=0xff below=-1"]);
    }
}
