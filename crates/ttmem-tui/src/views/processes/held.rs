//! What a process holds, put together, and what is said of it in a word.
//!
//! Pure: from the documents to numbers and words.

use crate::format::{bytes, counted, counted_as};
use crate::theme::Ink;
use ttmem_api::{Process, ProcessDevice, ProcessState};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) dram: u64,
    pub(crate) l1: u64,
    pub(crate) l1_small: u64,
    pub(crate) trace: u64,
    pub(crate) cbs: u64,
    pub(crate) kernels: u64,
    pub(crate) buffers: u64,
    /// The highest that was charged in DRAM of one device; peaks of several devices are of
    /// different moments, so their sum would be a peak of nothing.
    pub(crate) dram_peak: Option<u64>,
}

impl Held {
    pub(crate) fn by(process: &Process) -> Self {
        process
            .devices
            .iter()
            .map(Self::on)
            .fold(Self::default(), Self::and)
    }

    pub(crate) fn on(device: &ProcessDevice) -> Self {
        Self {
            dram: device.dram_bytes,
            l1: device.l1_bytes,
            l1_small: device.l1_small_bytes,
            trace: device.trace_bytes,
            cbs: device.cb_bytes,
            kernels: device.kernel_bytes,
            buffers: device.buffers,
            dram_peak: device.peak.map(|peak| peak.dram),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            dram: self.dram.saturating_add(other.dram),
            l1: self.l1.saturating_add(other.l1),
            l1_small: self.l1_small.saturating_add(other.l1_small),
            trace: self.trace.saturating_add(other.trace),
            cbs: self.cbs.saturating_add(other.cbs),
            kernels: self.kernels.saturating_add(other.kernels),
            buffers: self.buffers.saturating_add(other.buffers),
            dram_peak: self.dram_peak.max(other.dram_peak),
        }
    }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Lost,
    Resync,
    Leaks,
    Anomalies,
    Released,
}

impl About {
    pub(crate) const fn ink(self) -> Ink {
        match self {
            Self::Released => Ink::Faint,
            Self::Lost | Self::Resync | Self::Leaks | Self::Anomalies => Ink::Warning,
        }
    }
}

/// What the user should know of a process, by how much it matters.
pub(crate) fn remarks(process: &Process) -> Vec<(About, String)> {
    let mut remarks = Vec::new();
    let mut remark = |about, text: String| remarks.push((about, text));
    if let Some(released) = &process.released {
        let text = format!("{}, {} released", released.reason, bytes(released.bytes));
        remark(About::Released, text);
    }
    if process.incomplete {
        let lost = counted(process.lost_events, "event");
        remark(About::Lost, format!("{lost} lost"));
    }
    if process.resyncing {
        remark(About::Resync, "figures from before".to_owned());
    }
    let leaks = process.leak_candidates;
    if leaks.buffers > 0 {
        let candidates = counted(leaks.buffers, "leak candidate");
        remark(
            About::Leaks,
            format!("{candidates}, {}", bytes(leaks.bytes)),
        );
    }
    if process.anomalies > 0 {
        let anomalies = counted_as(process.anomalies, "anomaly", "anomalies");
        remark(About::Anomalies, anomalies);
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
    words.extend(remarks(process).into_iter().map(|(_, remark)| remark));
    words.join(" ")
}
