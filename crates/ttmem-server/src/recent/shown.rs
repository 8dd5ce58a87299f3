//! How an event looks to a reader who knows none of its process's ids.
//!
//! Texts take the place of their ids, a core set is told by how many cores it
//! has, a device by its logical id, and a mesh by its devices. What was never defined is told as unknown.

use crate::log::fields::{Value, typed_fields};
use crate::read::words;
use std::collections::HashMap;
use ttmem_api::{EventFields, FieldValue, LastEvent, Timestamp};
use ttmem_event::{CoresId, Event, TextId};
use ttmem_ledger::{Device, ProcessFacts};

/// A process with what its ids stand for.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    facts: &'a ProcessFacts,
    /// Logical ids of the devices of each mesh.
    meshes: HashMap<u32, Vec<u32>>,
    /// Logical ids of its devices.
    devices: HashMap<u32, u32>,
}

impl<'a> Shown<'a> {
    /// A process whose devices are among `devices`, as the ledger counts them.
    pub(crate) fn new(facts: &'a ProcessFacts, devices: &[Device]) -> Self {
        let logical_id = |slot: &u32| {
            let held = facts.devices.get(*slot as usize)?;
            let device = devices.get(held.device as usize)?;
            Some(device.facts.logical_id)
        };
        let meshes = facts.meshes.iter().filter_map(|mesh| {
            let devices = mesh.devices.iter().filter_map(logical_id).collect();
            Some((mesh.id?.0, devices))
        });
        let devices = (0_u32..).zip(&facts.devices);
        let devices = devices.filter_map(|(slot, held)| Some((held.id?.0, logical_id(&slot)?)));
        Self {
            facts,
            meshes: meshes.collect(),
            devices: devices.collect(),
        }
    }

    /// The process's pid.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.facts.identity.pid
    }

    /// An event of this process.
    pub(crate) fn event(&self, event: &Event, recovered: bool) -> LastEvent {
        let fields = typed_fields(&event.what).map(|(field, value)| {
            let name = field_name(field.type_name, field.name);
            (name, self.value(field.type_name, value))
        });
        LastEvent {
            time: Timestamp::from_unix_nanos(event.time),
            pid: self.pid(),
            process: words::known_text(&self.facts.identity.name),
            recovered,
            event: snake_case(event.what.name()),
            fields: EventFields(fields.collect()),
        }
    }

    /// An event of a process that is gone, with all that it defined.
    pub(crate) fn of_stranger(pid: Option<u32>, event: &Event, recovered: bool) -> LastEvent {
        let fields = typed_fields(&event.what).map(|(field, value)| {
            let stands_for_something = matches!(
                field.type_name,
                "TextId" | "CoresId" | "MeshId" | "DeviceId"
            );
            let value = match value {
                Value::Number(_id) if stands_for_something => FieldValue::Unknown,
                Value::Number(number) => FieldValue::Number(number),
                other => plain(other),
            };
            (field_name(field.type_name, field.name), value)
        });
        LastEvent {
            time: Timestamp::from_unix_nanos(event.time),
            pid,
            process: None,
            recovered,
            event: snake_case(event.what.name()),
            fields: EventFields(fields.collect()),
        }
    }

    fn value(&self, type_name: &str, value: Value) -> FieldValue {
        match value {
            Value::Number(number) => self.resolved(type_name, number),
            other => plain(other),
        }
    }

    /// A number, or what it stands for where it is an id.
    fn resolved(&self, type_name: &str, number: u64) -> FieldValue {
        let id = u32::try_from(number).unwrap_or(u32::MAX);
        let definitions = &self.facts.definitions;
        match type_name {
            "TextId" => {
                let text = definitions.text(TextId(id));
                text.map_or(FieldValue::Unknown, |text| {
                    FieldValue::Text(words::text(text))
                })
            }
            "CoresId" => {
                let cores = definitions.cores(CoresId(id));
                cores.map_or(FieldValue::Unknown, |cores| {
                    FieldValue::Number(u64::from(cores.len()))
                })
            }
            "MeshId" => {
                let devices = self.meshes.get(&id).cloned();
                devices.map_or(FieldValue::Unknown, FieldValue::Devices)
            }
            "DeviceId" => {
                let device = self.devices.get(&id).copied();
                device.map_or(FieldValue::Unknown, |id| FieldValue::Number(u64::from(id)))
            }
            _number => FieldValue::Number(number),
        }
    }
}

/// A field's name for readers: a mesh is told by its devices.
fn field_name(type_name: &str, name: &str) -> String {
    match type_name {
        "MeshId" => "devices".to_owned(),
        _other => name.to_owned(),
    }
}

/// A value that stands for nothing but itself.
fn plain(value: Value) -> FieldValue {
    match value {
        Value::Number(number) => FieldValue::Number(number),
        Value::Signed(number) => u64::try_from(number)
            .map_or(FieldValue::Negative(i64::from(number)), FieldValue::Number),
        Value::Id(id) => FieldValue::Text(format!("{id:#x}")),
        Value::Word(word) => FieldValue::Text(word.to_owned()),
        Value::Class(class) => FieldValue::Text(words::class(class).as_str().to_owned()),
        Value::Flag(flag) => FieldValue::Flag(flag),
        Value::All => FieldValue::Text("all".to_owned()),
    }
}

/// A type's name in the way of JSON: `TraceBegan` as `trace_began`.
fn snake_case(camel_case: &str) -> String {
    let mut snake_case = String::with_capacity(camel_case.len() + 4);
    for (place, character) in camel_case.char_indices() {
        if character.is_ascii_uppercase() && place > 0 {
            snake_case.push('_');
        }
        snake_case.push(character.to_ascii_lowercase());
    }
    snake_case
}
