//! What a view shows, as JSON: the documents of the server that it is drawn from.

use crate::data::{Data, Fresh, Listed};
use crate::format;
use crate::views::Tab;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// The documents of a view by name; what has not come is not there.
pub(crate) fn json(tab: Tab, data: &Data) -> Value {
    let mut documents = Map::new();
    documents.insert("view".to_owned(), json!(tab.name()));
    let mut add = |name: &str, document: Option<Value>| {
        if let Some(document) = document {
            documents.insert(name.to_owned(), document);
        }
    };
    match tab {
        Tab::Overview | Tab::Processes | Tab::Leaks => {
            add("snapshot", of(data.snapshot.as_ref()));
            let groups = data.groups.as_ref().filter(|_| tab == Tab::Leaks);
            add("groups", groups.map(|fresh| value(&fresh.document.1)));
            let leaks = data.leaks.as_ref().filter(|_| tab == Tab::Leaks);
            add("leaks", of(leaks));
        }
        Tab::Device => {
            add("snapshot", of(data.snapshot.as_ref()));
            let history = data.history.as_ref();
            add("history", history.map(|fresh| value(&fresh.document.1)));
        }
        Tab::L1Map => {
            let map = data.l1map.as_ref();
            add("l1map", map.map(|fresh| value(&fresh.document.1)));
            let blocks = data.blocks.as_ref();
            add("blocks", blocks.map(|fresh| value(&fresh.document.1)));
        }
        Tab::Programs => {
            add("programs", rows(data.programs.as_ref()));
            add("kernels", rows(data.kernels.as_ref()));
        }
        Tab::Buffers => {
            let buffers = data.buffers.as_ref();
            add("buffers", buffers.map(|fresh| value(&fresh.document.page)));
            let groups = data.groups.as_ref();
            add("groups", groups.map(|fresh| value(&fresh.document.1)));
        }
        Tab::Events => {
            let events: Vec<_> = data.tail.events.iter().map(|event| &**event).collect();
            add("events", Some(value(&events)));
        }
    }
    Value::Object(documents)
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

/// Writes the documents of a view into a new file in the working directory; its name.
///
/// # Errors
/// When no file can be written there.
pub(crate) fn write(tab: Tab, data: &Data) -> io::Result<PathBuf> {
    let time = data.time().map(format::date_time).unwrap_or_default();
    let time = time.replace([' ', ':'], "-");
    let path = PathBuf::from(format!("ttmem-{}-{time}.json", tab.name()));
    let mut file = File::create_new(&path)?;
    serde_json::to_writer_pretty(&mut file, &json(tab, data))?;
    file.write_all(b"\n")?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::world::{Names, World};

    #[test]
    fn every_view_has_the_documents_that_it_is_drawn_from() {
        let world = World {
            devices: 2,
            processes: 3,
            busy: false,
            names: Names::Usual,
        };
        let data = world.data();
        for tab in Tab::ALL {
            let exported = json(tab, &data);
            let documents = exported.as_object().expect("an object");
            assert_eq!(documents["view"], tab.name());
            assert!(documents.len() >= 2, "{tab:?}: {:?}", documents.keys());
        }
        let exported = json(Tab::Overview, &data);
        let dram = data.devices()[1].dram.charged_bytes;
        let devices = &exported["snapshot"]["devices"];
        assert_eq!(devices[1]["dram"]["charged_bytes"], dram);
    }
}
