//! What a process holds, put together, and what is said of it in a word.
//!
//! Pure: from the documents to numbers and words.

use crate::format::{bytes, counted, counted_as};
use crate::theme::Ink;
use ttmem_api::{Process, ProcessDevice, ProcessState};

/// What a process holds of something on these devices together.
pub(crate) fn held(devices: &[ProcessDevice], of: fn(&ProcessDevice) -> u64) -> u64 {
    devices.iter().map(of).fold(0, u64::saturating_add)
}

/// The highest that was charged in DRAM of one device; peaks of several devices are of different
/// moments, so their sum would be a peak of nothing.
pub(crate) fn dram_peak(devices: &[ProcessDevice]) -> Option<u64> {
    let peaks = devices.iter().filter_map(|device| device.peak);
    peaks.map(|peak| peak.dram).max()
}

pub(crate) fn is_gone(process: &Process) -> bool {
    process.state == ProcessState::Exited
}

/// The state of a process in a word or two; of one that is gone, with what was given back.
///
/// An exclamation mark says that there is more to know.
pub(crate) fn state(process: &Process) -> (String, Ink) {
    if is_gone(process) {
        let released = process.released.as_ref().map(|released| released.bytes);
        let released = released.map_or_else(String::new, |size| format!(" {}", bytes(size)));
        return (format!("exited{released}"), Ink::Faint);
    }
    let (word, ink) = match process.state {
        _any if process.resyncing => ("resyncing", Ink::Warning),
        _any if process.incomplete => ("incomplete", Ink::Warning),
        ProcessState::Live => ("live", Ink::Good),
        ProcessState::Detached => ("detached", Ink::Faint),
        ProcessState::Exited | ProcessState::Other => (process.state.as_str(), Ink::Text),
    };
    if process.leak_candidates.buffers > 0 || process.anomalies > 0 {
        (format!("{word} !"), Ink::Warning)
    } else {
        (word.to_owned(), ink)
    }
}

pub(crate) struct Remark {
    pub(crate) text: String,
    pub(crate) ink: Ink,
    /// Whether the table has a column that says the same.
    pub(crate) has_column: bool,
}

/// What the user should know of a process, by how much it matters.
pub(crate) fn remarks(process: &Process) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut remark = |text, ink, has_column| {
        remarks.push(Remark {
            text,
            ink,
            has_column,
        });
    };
    if let Some(released) = &process.released {
        let text = format!("{}, {} released", released.reason, bytes(released.bytes));
        remark(text, Ink::Faint, false);
    }
    for reason in &process.incomplete_reasons {
        remark(reason.text(), Ink::Warning, false);
    }
    if process.resyncing {
        remark("figures from before".to_owned(), Ink::Warning, false);
    }
    let leaks = process.leak_candidates;
    if leaks.buffers > 0 {
        let candidates = counted(leaks.buffers, "leak candidate");
        let text = format!("{candidates}, {}", bytes(leaks.bytes));
        remark(text, Ink::Warning, true);
    }
    if process.anomalies > 0 {
        let anomalies = counted_as(process.anomalies, "anomaly", "anomalies");
        remark(anomalies, Ink::Warning, true);
    }
    remarks
}

/// What a filter looks at: all words of a row.
pub(super) fn described(process: &Process) -> String {
    let mut words: Vec<String> = [process.pid, process.uid]
        .into_iter()
        .flatten()
        .map(|number| number.to_string())
        .collect();
    words.extend(process.name.clone());
    words.extend([process.state.as_str().to_owned(), state(process).0]);
    words.extend(remarks(process).into_iter().map(|remark| remark.text));
    words.join(" ")
}
