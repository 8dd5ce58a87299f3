//! How rows name what they belong to: processes, devices, classes.

use crate::data::Data;
use crate::theme::{Ink, Theme};
use ttmem_report::{MemoryClass, Timestamp};
use ttmem_report::{Share, percent};

pub(super) fn owner(pid: Option<u32>, instance: Option<&str>, data: &Data, theme: Theme) -> String {
    let processes = data.processes();
    let same = processes.iter().find(|process| match instance {
        Some(_) => process.instance.as_deref() == instance,
        None => pid.is_some() && process.pid == pid,
    });
    let name = same.and_then(ttmem_report::labels::process_name);
    match (pid, name) {
        (Some(pid), Some(name)) => format!("{pid} {name}"),
        (Some(pid), None) => pid.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => theme.unknown().to_owned(),
    }
}

pub(super) const fn class_ink(class: MemoryClass) -> Ink {
    match class {
        MemoryClass::Dram => Ink::Dram,
        MemoryClass::L1 => Ink::L1,
        MemoryClass::L1Small => Ink::L1Small,
        MemoryClass::Trace => Ink::Trace,
        MemoryClass::System => Ink::System,
        MemoryClass::Other => Ink::Text,
    }
}

pub(super) fn age(time: Option<Timestamp>, data: &Data, theme: Theme) -> String {
    let age = time.and_then(|time| data.age(time));
    age.unwrap_or_else(|| theme.unknown().to_owned())
}

pub(super) fn known<T: ToString>(value: Option<T>, theme: Theme) -> String {
    value.map_or_else(|| theme.unknown().to_owned(), |value| value.to_string())
}

pub(super) fn known_bytes(size: Option<u64>, theme: Theme) -> String {
    known(size.map(ttmem_report::format::bytes), theme)
}

/// A percentage; never above 100, and a dash when one of the two is not known.
pub(super) fn percent_of(used: impl Into<Option<u64>>, whole: Option<u64>, theme: Theme) -> String {
    let share = used.into().and_then(|used| Share::of(used, whole));
    percent(share, theme.unknown()).trim_start().to_owned()
}

pub(crate) const fn part_name(ink: Ink) -> &'static str {
    match ink {
        Ink::Reserved => "reserved",
        Ink::Storage => "CBs",
        Ink::L1 => "L1 buffers",
        Ink::L1Small => "L1_SMALL",
        Ink::Dram => "DRAM",
        Ink::Free => "free",
        _other => "",
    }
}

pub(super) const CLASSES: [MemoryClass; 5] = [
    MemoryClass::Dram,
    MemoryClass::L1,
    MemoryClass::L1Small,
    MemoryClass::Trace,
    MemoryClass::System,
];

pub(super) fn class_of(word: &str) -> MemoryClass {
    let found = CLASSES.into_iter().find(|class| class.as_str() == word);
    found.unwrap_or(MemoryClass::Other)
}
