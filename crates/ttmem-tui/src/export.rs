//! What a view shows, for other programs: the documents of the server that it is drawn from as JSON,
//! or the list that it is about as CSV.
//!
//! Both are made of the types of the API, so that a field has one name and one meaning everywhere.

use crate::data::{Data, Fresh, Listed};
use crate::fetch::Document;
use crate::format;
use crate::views::Tab;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

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
            let events: Vec<_> = data.tail.events.iter().map(|event| &**event).collect();
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
                ttmem_api::escape_json(format!("{:#}\n", Value::Object(whole)))
            }
            ExportForm::Csv => csv(&self.rows()),
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

fn put_flat(flat: &mut Map<String, Value>, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() {
                    field.clone()
                } else {
                    format!("{name}.{field}")
                };
                put_flat(flat, &name, value);
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
        if ttmem_api::is_deceptive(sign) {
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
mod tests {
    use super::*;
    use crate::data::Update;
    use crate::testing::world::{Names, World};
    use crate::views::Chosen;

    fn data() -> Data {
        let world = World {
            devices: 2,
            processes: 3,
            busy: false,
            names: Names::Usual,
        };
        world.data()
    }

    fn exported(tab: Tab, data: &Data) -> Export {
        let asked = tab.view().documents(data, &Chosen::default());
        Export::of(tab, &asked, data)
    }

    #[test]
    fn every_view_has_the_documents_that_it_is_drawn_from_and_a_list() {
        let data = data();
        for tab in Tab::ALL {
            let export = exported(tab, &data);
            let json: Value = serde_json::from_str(&export.text(ExportForm::Json)).unwrap();
            assert_eq!(json["view"], tab.name());
            assert!(json.as_object().unwrap().len() >= 2, "{tab:?}: {json}");
            let csv = export.text(ExportForm::Csv);
            let lines: Vec<&str> = csv.lines().collect();
            assert!(lines.len() >= 2, "{tab:?}: {csv}");
            assert!(lines[0].split(',').count() >= 4, "{tab:?}: {}", lines[0]);
        }
    }

    #[test]
    fn figures_of_both_forms_are_those_of_the_api() {
        let data = data();
        let export = exported(Tab::Overview, &data);
        let json: Value = serde_json::from_str(&export.text(ExportForm::Json)).unwrap();
        let dram = data.devices()[1].dram.charged_bytes;
        let devices = &json["snapshot"]["devices"];
        assert_eq!(devices[1]["dram"]["charged_bytes"], dram);
        let csv = export.text(ExportForm::Csv);
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        let column = |name: &str| lines[0].iter().position(|title| *title == name).unwrap();
        assert_eq!(lines[0][0], "id", "{:?}", lines[0]);
        assert_eq!(lines[2][column("id")], data.devices()[1].id.to_string());
        // Lists are the only fields with commas, and they stand behind it.
        assert_eq!(lines[2][column("dram.charged_bytes")], dram.to_string());
    }

    #[test]
    fn a_history_is_a_row_for_each_step_of_each_device() {
        let data = data();
        let export = exported(Tab::Device, &data);
        let history = &data.history.as_ref().unwrap().document.1;
        let rows = export.rows();
        assert_eq!(rows.len(), history.times.len() * history.devices.len());
        let last = rows.last().unwrap();
        let device = history.devices.last().unwrap();
        assert_eq!(last["dram_bytes"], json!(device.dram_bytes.last().unwrap()));
        assert_eq!(last["time"], json!(history.times.last().unwrap()));
    }

    #[test]
    fn what_grows_is_in_one_list_with_what_came_since_the_mark() {
        let mut data = data();
        let since_mark = exported(Tab::Leaks, &data).rows().len();
        let leaks = crate::testing::leaks();
        data.apply(Update::Leaks(Box::new(leaks)), data.now);
        let rows = exported(Tab::Leaks, &data).rows();
        assert_eq!(rows.len(), since_mark + 3);
        let lists = rows.iter().filter_map(|row| row["list"].as_str());
        let lists: Vec<&str> = lists.take(4).collect();
        let first = ["growing", "held at close", "held at close", "since mark"];
        assert_eq!(lists, first);
        assert_eq!(rows[0]["bytes_per_step"], 2 << 20);
    }

    #[test]
    fn odd_text_stays_one_field_and_is_no_formula() {
        let rows = [
            json!({"name": "=cmd,\"x\"\n\u{1b}[2J", "pid": 7, "in": {"deep": [1, 2]}}),
            json!({"name": null, "pid": -1}),
        ];
        let text = csv(&rows);
        let shown = "pid,name,in.deep\n7,\"'=cmd,\"\"x\"\"\u{fffd}\u{fffd}[2J\",\"[1,2]\"\n-1,,\n";
        assert_eq!(text, shown);
    }
}
