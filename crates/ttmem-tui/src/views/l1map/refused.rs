//! A program that was refused: where its storage would have lain, and what it met.

use crate::data::Data;
use crate::format;
use crate::theme::Ink;
use ttmem_api::{Device, FieldValue, LastEvent};

/// A refusal is of interest for so long.
const SHOWN_SECONDS: u64 = 600;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// Where its storage would end.
    pub(super) end: u64,
    /// What it met: the lowest buffer, or the end of L1.
    pub(super) limit: u64,
    program: Option<u64>,
    age_seconds: u64,
}

impl Refused {
    /// The latest refusal on a device; none if it is long ago.
    pub(super) fn latest(device: &Device, data: &Data) -> Option<Self> {
        let events = &data.last_events.as_ref()?.document.events;
        let mut clashes = events.iter().rev().filter(|event| event.event == "clashed");
        let found = clashes.find(|event| is_on(event, device))?;
        let age_seconds = data.age_seconds(found.time)?;
        (age_seconds < SHOWN_SECONDS).then_some(Self {
            end: number(found, "region_end")?,
            limit: number(found, "limit")?,
            program: number(found, "program"),
            age_seconds,
        })
    }

    pub(super) const fn overlap_bytes(&self) -> u64 {
        self.end.saturating_sub(self.limit)
    }

    /// One sentence: when, what, and by how much.
    pub(super) fn sentence(&self) -> (String, Ink) {
        let program = self.program.map_or_else(
            || "a program".to_owned(),
            |program| format!("program {program}"),
        );
        let words = format!(
            "refused {} ago: CBs of {program} end at {} ({:#x}), {} beyond {} ({:#x})",
            format::duration(self.age_seconds),
            self.end,
            self.end,
            format::bytes(self.overlap_bytes()),
            self.limit,
            self.limit,
        );
        (words, Ink::Danger)
    }
}

fn number(event: &LastEvent, name: &str) -> Option<u64> {
    let mut fields = event.fields.0.iter();
    match fields.find(|(known, _value)| known == name)? {
        (_name, FieldValue::Number(number)) => Some(*number),
        _other => None,
    }
}

/// Whether an event is of a device; one that names none is of all of them.
fn is_on(event: &LastEvent, device: &Device) -> bool {
    let mut fields = event.fields.0.iter();
    fields.all(|(_name, value)| match value {
        FieldValue::Devices(devices) => devices.contains(&device.id),
        _other => true,
    })
}
