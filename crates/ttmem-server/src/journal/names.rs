//! What the ids in a process's events stand for, for readers who know none of them.
//!
//! Texts take the place of their ids, a core set is shown by how many cores it has, a device by its
//! logical id, and a mesh by its devices. What was never defined is unknown.

use crate::read::words;
use std::cell::LazyCell;
use std::collections::HashMap;
use ttmem_api::EventFields;
use ttmem_api::FieldValue as Shown;
use ttmem_event::event::FieldValue;
use ttmem_event::{Event, What};
use ttmem_ledger::process::ProcessDevice;
use ttmem_ledger::{Anomaly, Device, ProcessFacts};

/// What the ids in some events of a process stand for; by default nothing is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    process: Option<String>,
    known: HashMap<FieldValue, Shown>,
}

impl Names {
    /// What is needed for these events of a process, whose devices are among `devices`.
    pub(crate) fn of<'e>(
        facts: &ProcessFacts,
        devices: &[Device],
        events: impl IntoIterator<Item = &'e Event>,
    ) -> Self {
        let logical_id = |held: &ProcessDevice| {
            let device = devices.get(held.device as usize)?;
            Some(device.facts.logical_id)
        };
        // A process may have thousands of both, and few events need any.
        let own_devices = LazyCell::new(|| {
            let held = facts.devices.iter();
            let held = held.filter_map(|held| Some((held.id?, logical_id(held)?)));
            held.collect::<HashMap<_, _>>()
        });
        let meshes = LazyCell::new(|| {
            let meshes = facts.meshes.iter();
            let meshes = meshes.filter_map(|mesh| Some((mesh.id?, &mesh.devices)));
            meshes.collect::<HashMap<_, _>>()
        });
        let name = |id| match id {
            FieldValue::Text(id) => {
                let text = facts.definitions.text(id)?;
                Some(Shown::Text(words::text(text)))
            }
            FieldValue::Cores(id) => {
                let cores = facts.definitions.cores(id)?;
                Some(Shown::Number(u64::from(cores.len())))
            }
            FieldValue::Mesh(id) => {
                let held = meshes.get(&id)?.iter();
                let held = held.filter_map(|slot| facts.devices.get(*slot as usize));
                Some(Shown::Devices(held.filter_map(logical_id).collect()))
            }
            FieldValue::Device(id) => {
                let device = own_devices.get(&id)?;
                Some(Shown::Number(u64::from(*device)))
            }
            _not_an_id => None,
        };
        let mut known = HashMap::new();
        for event in events {
            event.what.visit(|_name, value| {
                if is_id(value) {
                    let name = || name(value).unwrap_or(Shown::Unknown);
                    known.entry(value).or_insert_with(name);
                }
            });
        }
        Self {
            process: words::known_text(&facts.identity.name),
            known,
        }
    }

    /// The name of the process.
    pub(super) fn process(&self) -> Option<String> {
        self.process.clone()
    }

    /// The fields of an event; what was wrong with it comes first.
    pub(super) fn fields(&self, what: &What, anomaly: Option<Anomaly>) -> EventFields {
        let anomaly = anomaly.map(|anomaly| Shown::Text(anomaly.name().to_owned()));
        let mut fields: Vec<(String, Shown)> = Vec::new();
        fields.extend(anomaly.map(|anomaly| (EventFields::ANOMALY.to_owned(), anomaly)));
        what.visit(|name, value| {
            let name = match value {
                FieldValue::Mesh(_) => "devices",
                _other => name,
            };
            fields.push((name.to_owned(), self.value(value)));
        });
        EventFields(fields)
    }

    fn value(&self, value: FieldValue) -> Shown {
        match value {
            FieldValue::Number(number) => Shown::Number(number),
            FieldValue::Signed(number) => {
                u64::try_from(number).map_or(Shown::Negative(i64::from(number)), Shown::Number)
            }
            FieldValue::Hex(id) => Shown::Text(format!("{id:#x}")),
            FieldValue::Word(word) => Shown::Text(word.to_owned()),
            FieldValue::Class(class) => Shown::Text(words::class(class).as_str().to_owned()),
            FieldValue::Flag(flag) => Shown::Flag(flag),
            FieldValue::All => Shown::Text("all".to_owned()),
            id => self.known.get(&id).cloned().unwrap_or(Shown::Unknown),
        }
    }
}

/// Whether a value stands for something that its process has defined.
fn is_id(value: FieldValue) -> bool {
    matches!(
        value,
        FieldValue::Text(_) | FieldValue::Cores(_) | FieldValue::Mesh(_) | FieldValue::Device(_)
    )
}
