//! What a view shows, for other programs: the documents of the server that it is drawn from as JSON,
//! or the list that it is about as CSV.
//!
//! Both are made of the types of the API, so that a field has one name and one meaning everywhere.

mod columns;

use crate::data::{Data, Fresh, Listed};
use crate::fetch::Document;
use crate::views::Tab;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use ttmem_report::format;
use ttmem_report::{
    Block, BufferGroup, BufferRow, Device, DeviceHistory, Explanation, KernelRow, L1Core, Process,
    ProgramRow, StreamEvent,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportForm {
    Json,
    Csv,
}

/// A view as the server's documents, by name; one that has not come is not there.
#[derive(Debug)]
pub(crate) struct Export {
    tab: Tab,
    documents: Map<String, Value>,
}

impl Export {
    /// The documents of a view: those that it asks for, and the totals if it shows them.
    pub(crate) fn of(tab: Tab, asked: &[Document], data: &Data) -> Self {
        let mut documents = Map::new();
        if matches!(
            tab,
            Tab::Overview | Tab::Processes | Tab::Device | Tab::Leaks
        ) {
            add(&mut documents, "snapshot", of(data.snapshot.as_ref()));
        }
        if tab == Tab::Events {
            let events: Vec<_> = data.tail().events.iter().map(|event| &**event).collect();
            add(&mut documents, "events", Some(value(&events)));
        }
        for document in asked {
            let (name, found) = found(document, data);
            add(&mut documents, name, found);
        }
        Self { tab, documents }
    }

    pub(crate) fn text(&self, form: ExportForm) -> String {
        match form {
            ExportForm::Json => {
                let mut whole = self.documents.clone();
                whole.insert("view".to_owned(), json!(self.tab.name()));
                ttmem_report::escape_json(format!("{:#}\n", Value::Object(whole)))
            }
            ExportForm::Csv => match &self.rows()[..] {
                [] => heading(self.columns()),
                rows => csv(rows),
            },
        }
    }

    /// Writes it into a new file in the working directory; what happened, in words.
    ///
    /// # Errors
    /// When no file can be written there.
    pub(crate) fn write(&self, form: ExportForm, data: &Data) -> io::Result<String> {
        let time = data.time().map(format::date_time).unwrap_or_default();
        let time = time.replace([' ', ':'], "-");
        let ending = match form {
            ExportForm::Json => "json",
            ExportForm::Csv => "csv",
        };
        let path = PathBuf::from(format!("ttmem-{}-{time}.{ending}", self.tab.name()));
        let mut file = File::create_new(&path)?;
        file.write_all(self.text(form).as_bytes())?;
        Ok(format!("{} in {}", self.amount(), path.display()))
    }

    /// How many rows there are, and of how many if the server has more.
    fn amount(&self) -> String {
        let rows = self.rows().len() as u64;
        let all = self.documents.get("buffers");
        let all = all.and_then(|page| page.get("matched")?.as_u64());
        match all {
            Some(all) if all > rows => {
                format!("{} of {} buffers", format::count(rows), format::count(all))
            }
            _all => format::counted(rows, "row"),
        }
    }

    /// The fields of the list that the view is about.
    fn columns(&self) -> Map<String, Value> {
        let has = |document| self.documents.contains_key(document);
        let mut columns = match self.tab {
            Tab::Programs if has("kernels") => columns::of::<KernelRow>(),
            Tab::L1Map if has("blocks") => columns::of::<Block>(),
            Tab::Buffers if has("groups") => columns::of::<BufferGroup>(),
            Tab::Overview => columns::of::<Device>(),
            Tab::Processes => columns::of::<Process>(),
            Tab::Device => columns::of::<DeviceHistory>(),
            Tab::L1Map => columns::of::<L1Core>(),
            Tab::Programs => columns::of::<ProgramRow>(),
            Tab::Buffers => columns::of::<BufferRow>(),
            Tab::Events => columns::of::<StreamEvent>(),
            Tab::Leaks => columns::of::<BufferGroup>(),
            Tab::Failures => columns::of::<Explanation>(),
        };
        match self.tab {
            Tab::Leaks => columns.insert("list".to_owned(), Value::Null),
            Tab::Device => columns.insert("time".to_owned(), Value::Null),
            _other => None,
        };
        columns
    }

    /// The list that the view is about.
    fn rows(&self) -> Vec<Value> {
        let list = |document: &str, name: &str| {
            let document = self.documents.get(document)?;
            let list = if name.is_empty() {
                document
            } else {
                document.get(name)?
            };
            list.as_array().cloned()
        };
        let totals = if self.tab == Tab::Overview {
            "devices"
        } else {
            "processes"
        };
        list("events", "")
            .or_else(|| list("failures", "failures").filter(|_| self.tab == Tab::Failures))
            .or_else(|| list("kernels", ""))
            .or_else(|| list("programs", ""))
            .or_else(|| list("blocks", "largest"))
            .or_else(|| list("l1map", "cores"))
            .or_else(|| list("buffers", "rows"))
            .or_else(|| {
                let lists = [
                    list("leaks", "growing"),
                    list("leaks", "held_at_close"),
                    list("groups", "groups"),
                ];
                leaks(lists).filter(|_| self.tab == Tab::Leaks)
            })
            .or_else(|| list("groups", "groups"))
            .or_else(|| self.documents.get("history").map(steps))
            .or_else(|| list("snapshot", totals))
            .unwrap_or_default()
    }
}

fn add(documents: &mut Map<String, Value>, name: &str, document: Option<Value>) {
    if let Some(document) = document {
        documents.insert(name.to_owned(), document);
    }
}

fn found(document: &Document, data: &Data) -> (&'static str, Option<Value>) {
    match document {
        // The events of the view are exported with it, whatever they come from.
        Document::Recording | Document::LastEvents => ("recording", None),
        Document::Snapshot => ("snapshot", of(data.snapshot.as_ref())),
        Document::Recent => ("history", of(data.recent.as_ref())),
        Document::History(_) => {
            let history = data.history.as_ref();
            ("history", history.map(|fresh| value(&fresh.document.1)))
        }
        Document::L1Map(..) => {
            let map = data.l1map.as_ref();
            ("l1map", map.map(|fresh| value(&fresh.document.1)))
        }
        Document::Blocks(..) => {
            let blocks = data.blocks.as_ref();
            ("blocks", blocks.map(|fresh| value(&fresh.document.1)))
        }
        Document::Programs => ("programs", rows(data.programs.as_ref())),
        Document::Kernels => ("kernels", rows(data.kernels.as_ref())),
        Document::Failures => ("failures", of(data.failures.as_ref())),
        Document::Leaks => ("leaks", of(data.leaks.as_ref())),
        Document::Problems => ("problems", of(data.problems.as_ref())),
        Document::Buffers(_) => {
            let buffers = data.buffers.as_ref();
            ("buffers", buffers.map(|fresh| value(&fresh.document.page)))
        }
        Document::Groups(_) => {
            let groups = data.groups.as_ref();
            ("groups", groups.map(|fresh| value(&fresh.document.1)))
        }
    }
}

fn of<T: Serialize>(document: Option<&Fresh<T>>) -> Option<Value> {
    document.map(|fresh| value(&fresh.document))
}

fn rows<R: Serialize>(document: Option<&Fresh<Listed<R>>>) -> Option<Value> {
    document.map(|fresh| value(&fresh.document.rows))
}

fn value(document: &impl Serialize) -> Value {
    // The types of the API have no key that is not text.
    serde_json::to_value(document).unwrap_or(Value::Null)
}

/// What grows, what was held at close and what came since a mark: each row says which of them it is.
/// None if there is no mark and nothing of the others.
fn leaks(lists: [Option<Vec<Value>>; 3]) -> Option<Vec<Value>> {
    let has_mark = lists[2].is_some();
    let names = ["growing", "held at close", "since mark"];
    let rows = names.into_iter().zip(lists).flat_map(|(name, rows)| {
        let rows = rows.into_iter().flatten();
        rows.map(move |mut row| {
            row["list"] = json!(name);
            row
        })
    });
    let rows: Vec<Value> = rows.collect();
    (has_mark || !rows.is_empty()).then_some(rows)
}

/// A row for every step of every device of a history, instead of a list for every series.
fn steps(history: &Value) -> Vec<Value> {
    let times = history.get("times").and_then(Value::as_array);
    let devices = history.get("devices").and_then(Value::as_array);
    let (Some(times), Some(devices)) = (times, devices) else {
        return Vec::new();
    };
    let step = |device: &Value, place: usize, time: &Value| {
        let mut row = Map::new();
        for (name, field) in device.as_object().into_iter().flatten() {
            let value = match field.as_array() {
                Some(series) => series.get(place).cloned().unwrap_or(Value::Null),
                None => field.clone(),
            };
            row.insert(name.clone(), value);
        }
        row.insert("time".to_owned(), time.clone());
        Value::Object(row)
    };
    let of_device = |device: &Value| -> Vec<Value> {
        let times = times.iter().enumerate();
        times
            .map(|(place, time)| step(device, place, time))
            .collect()
    };
    devices.iter().flat_map(of_device).collect()
}

/// Columns that say what a row is of; they come first, in this order.
const FIRST: [&str; 10] = [
    "list",
    "time",
    "pid",
    "instance",
    "name",
    "id",
    "key",
    "x",
    "y",
    "unique_id",
];

/// The heading of no rows, of one that has every field.
fn heading(row: Map<String, Value>) -> String {
    let all = csv(&[Value::Object(row)]);
    let heading = all.lines().next().unwrap_or_default();
    format!("{heading}\n")
}

/// Rows with a heading; what is inside a field has its name behind that of the field.
fn csv(rows: &[Value]) -> String {
    let rows: Vec<Map<String, Value>> = rows.iter().map(flat).collect();
    let names: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| row.keys().map(String::as_str))
        .collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_key(|name| {
        let first = FIRST.iter().position(|first| first == name);
        // Lists are hardest to read: last.
        let is_list = rows
            .iter()
            .any(|row| row.get(*name).is_some_and(Value::is_array));
        (is_list, first.unwrap_or(FIRST.len()))
    });
    let mut text = String::new();
    put_line(&mut text, names.iter().map(|name| field(name)));
    for row in &rows {
        let fields = names.iter().map(|name| match row.get(*name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => field(&harmless(text)),
            Some(Value::Array(list)) => field(&harmless(&json!(list).to_string())),
            Some(figure) => figure.to_string(),
        });
        put_line(&mut text, fields);
    }
    text
}

fn put_line(text: &mut String, fields: impl Iterator<Item = String>) {
    for (place, field) in fields.enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(&field);
    }
    text.push('\n');
}

fn flat(row: &Value) -> Map<String, Value> {
    let mut flat = Map::new();
    put_flat(&mut flat, "", row);
    flat
}

/// What a field inside of another is called.
fn inner_name(name: &str, field: &str) -> String {
    if name.is_empty() {
        field.to_owned()
    } else {
        format!("{name}.{field}")
    }
}

fn put_flat(flat: &mut Map<String, Value>, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                put_flat(flat, &inner_name(name, field), value);
            }
        }
        other => {
            flat.insert(name.to_owned(), other.clone());
        }
    }
}

/// A text that a terminal shows as it is and a spreadsheet does not take for a formula.
fn harmless(text: &str) -> String {
    let sign = |sign: char| {
        if ttmem_report::is_deceptive(sign) {
            char::REPLACEMENT_CHARACTER
        } else {
            sign
        }
    };
    let guard = text.starts_with(['=', '+', '-', '@']);
    guard
        .then_some('\'')
        .into_iter()
        .chain(text.chars().map(sign))
        .collect()
}

/// A field, in quotes if it needs them.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests;
