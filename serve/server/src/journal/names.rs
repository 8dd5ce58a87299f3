//! What the ids in a process's events stand for, for readers who know none of them.
//!
//! Texts take the place of their ids, a core set is shown by how many cores it has, a device by its
//! logical id, and a mesh by its devices. What was never defined is unknown.

use crate::read::vocabulary;
use std::cell::LazyCell;
use std::collections::HashMap;
use ttmem_event::event::FieldValue;
use ttmem_event::{Event, EventKind};
use ttmem_ledger::{Anomaly, Audience, ProcessRef};
use ttmem_report::EventFields;
use ttmem_report::FieldValue as Shown;

/// What the ids in some events of a process stand for; by default nothing is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(super) process: Option<String>,
    /// The user of that process.
    uid: Option<u32>,
    known: HashMap<FieldValue, Shown>,
}

impl Names {
    /// What is needed for these events of a process; `logical_id` has those of the ledger's devices.
    pub(crate) fn of<'e>(
        process: ProcessRef<'_>,
        logical_id: impl Fn(u32) -> Option<u32>,
        events: impl IntoIterator<Item = &'e Event>,
    ) -> Self {
        let account = process.account;
        // A process may have thousands of both, and few events need any.
        let own_devices = LazyCell::new(|| {
            let held = account.devices.iter().zip(process.devices);
            let held = held.filter_map(|(held, device)| Some((held.id?, logical_id(*device)?)));
            held.collect::<HashMap<_, _>>()
        });
        let meshes = LazyCell::new(|| {
            let meshes = account.meshes.iter();
            let meshes = meshes.filter_map(|mesh| Some((mesh.id?, &mesh.devices)));
            meshes.collect::<HashMap<_, _>>()
        });
        let name = |id| match id {
            FieldValue::Text(id) => {
                let text = account.definitions.name(id)?;
                Some(Shown::Text(vocabulary::text(text)))
            }
            FieldValue::Cores(id) => {
                let cores = account.definitions.cores(id)?;
                Some(Shown::Number(u64::from(cores.len())))
            }
            FieldValue::Mesh(id) => {
                let held = meshes.get(&id)?.iter();
                let held = held.filter_map(|slot| process.devices.get(*slot as usize));
                let numbers = held.filter_map(|device| logical_id(*device));
                Some(Shown::Devices(numbers.collect()))
            }
            FieldValue::Device(id) => {
                let device = own_devices.get(&id)?;
                Some(Shown::Number(u64::from(*device)))
            }
            _not_an_id => None,
        };
        let mut known = HashMap::new();
        for event in events {
            event.kind.visit(|_name, value| {
                if is_id(value) {
                    let name = || name(value).unwrap_or(Shown::Unknown);
                    known.entry(value).or_insert_with(name);
                }
            });
        }
        Self {
            process: vocabulary::known_text(&process.facts.identity.name),
            uid: Some(process.facts.identity.uid),
            known,
        }
    }

    /// The same without what an audience may not see: the process's name, and its texts.
    pub(crate) fn for_audience(self, audience: Audience) -> Self {
        if audience.may_see(self.uid) {
            return self;
        }
        let is_shown = |id: &FieldValue| !matches!(id, FieldValue::Text(_));
        let known = self.known.into_iter().filter(|(id, _)| is_shown(id));
        Self {
            process: None,
            uid: self.uid,
            known: known.collect(),
        }
    }

    /// The fields of an event; what was wrong with it comes first.
    pub(super) fn fields(&self, kind: &EventKind, anomaly: Option<Anomaly>) -> EventFields {
        let anomaly = anomaly.map(|anomaly| Shown::Text(anomaly.name().to_owned()));
        let mut fields: Vec<(String, Shown)> = Vec::new();
        fields.extend(anomaly.map(|anomaly| (EventFields::ANOMALY.to_owned(), anomaly)));
        kind.visit(|name, value| {
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
            FieldValue::Class(class) => Shown::Text(vocabulary::class(class).as_str().to_owned()),
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
