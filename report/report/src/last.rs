//! The last events of processes, also of those that are gone.

use crate::{SchemaVersion, Timestamp};
use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// The last events of processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastEvents {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// The events in the order of their times, the last one last.
    pub events: Vec<LastEvent>,
}

/// One event of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastEvent {
    /// When it happened, by the clock of its process.
    pub time: Timestamp,
    /// Its process; `null` from another pid namespace.
    pub pid: Option<u32>,
    /// The name of that process.
    pub process: Option<String>,
    /// The process died before it could send it: it was read from the memory it left.
    pub recovered: bool,
    /// What happened, such as `buffer_allocated`.
    pub event: String,
    /// What else is known of it, by name.
    pub fields: EventFields,
}

impl LastEvent {
    /// What was wrong with it, such as `unknown_free`, if it contradicts what the server knew.
    #[must_use]
    pub fn anomaly(&self) -> Option<&str> {
        let mut fields = self.fields.0.iter();
        match fields.find(|(name, _value)| name == EventFields::ANOMALY) {
            Some((_name, FieldValue::Text(anomaly))) => Some(anomaly),
            _sound => None,
        }
    }
}

/// The fields of an event by name, in the order of the event table.
///
/// An event that contradicts what the server knew has one more, which comes first: `anomaly`, a word
/// such as `unknown_free`.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema)]
pub struct EventFields(
    #[schemars(with = "BTreeMap<String, FieldValue>")] pub Vec<(String, FieldValue)>,
);

impl EventFields {
    /// The field that says what was wrong with an event.
    pub const ANOMALY: &'static str = "anomaly";
}

/// The value of an event's field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum FieldValue {
    /// Yes or no.
    Flag(bool),
    /// A count, a size, an address, a small id.
    Number(u64),
    /// A number below zero.
    Negative(i64),
    /// A word, a text, or a 64-bit id in hex.
    Text(String),
    /// Logical ids of devices.
    Devices(Vec<u32>),
    /// Nothing that is known.
    Unknown,
}

/// By the kind of the value: trying one variant after the other, as a derived one does, makes an
/// error for each that does not fit, many thousand a second in a view of events.
impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;

        impl<'de> Visitor<'de> for Value {
            type Value = FieldValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the value of an event's field")
            }

            fn visit_bool<E>(self, flag: bool) -> Result<FieldValue, E> {
                Ok(FieldValue::Flag(flag))
            }

            fn visit_u64<E>(self, number: u64) -> Result<FieldValue, E> {
                Ok(FieldValue::Number(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<FieldValue, E> {
                let unsigned = u64::try_from(number).map(FieldValue::Number);
                Ok(unsigned.unwrap_or(FieldValue::Negative(number)))
            }

            fn visit_str<E>(self, text: &str) -> Result<FieldValue, E> {
                Ok(FieldValue::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<FieldValue, E> {
                Ok(FieldValue::Text(text))
            }

            fn visit_unit<E>(self) -> Result<FieldValue, E> {
                Ok(FieldValue::Unknown)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, devices: A) -> Result<FieldValue, A::Error> {
                let devices = SeqAccessDeserializer::new(devices);
                Vec::deserialize(devices).map(FieldValue::Devices)
            }
        }

        deserializer.deserialize_any(Value)
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Negative(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::Devices(devices) => {
                for (place, device) in devices.iter().enumerate() {
                    let comma = if place > 0 { "," } else { "" };
                    write!(f, "{comma}{device}")?;
                }
                Ok(())
            }
            Self::Unknown => f.write_str("?"),
        }
    }
}

impl Serialize for EventFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for EventFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = EventFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the fields of an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EventFields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(EventFields(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_what_was_wrong_with_it() {
        let event = |fields: &str| -> LastEvent {
            let head = "\"time\":\"1970-01-01T00:00:00Z\",\"pid\":1,\"process\":null";
            let json = format!(
                "{{{head},\"recovered\":false,\"event\":\"buffer_freed\",\"fields\":{fields}}}"
            );
            serde_json::from_str(&json).expect("an event")
        };
        let refused = event("{\"anomaly\":\"unknown_free\",\"buffer\":\"0x1\"}");
        assert_eq!(refused.anomaly(), Some("unknown_free"));
        assert_eq!(event("{\"buffer\":\"0x1\"}").anomaly(), None);
    }

    #[test]
    fn fields_are_an_object_that_keeps_its_order() {
        let fields = EventFields(vec![
            ("z".to_owned(), FieldValue::Devices(vec![0, 3])),
            ("number".to_owned(), FieldValue::Number(u64::MAX)),
            ("below".to_owned(), FieldValue::Negative(-5)),
            ("a".to_owned(), FieldValue::Text("0x1f".to_owned())),
            ("flag".to_owned(), FieldValue::Flag(true)),
            ("nothing".to_owned(), FieldValue::Unknown),
            ("none".to_owned(), FieldValue::Devices(Vec::new())),
        ]);
        let json = serde_json::to_string(&fields).expect("it has a JSON form");
        assert_eq!(
            json,
            "{\"z\":[0,3],\"number\":18446744073709551615,\"below\":-5,\"a\":\"0x1f\",\
             \"flag\":true,\"nothing\":null,\"none\":[]}"
        );
        let read: EventFields = serde_json::from_str(&json).expect("the way back");
        assert_eq!(read, fields);
        let shown: Vec<String> = fields
            .0
            .iter()
            .map(|(_, value)| value.to_string())
            .collect();
        assert_eq!(shown[..3], ["0,3", "18446744073709551615", "-5"]);
        assert_eq!(shown[3..], ["0x1f", "true", "?", ""]);
    }
}
