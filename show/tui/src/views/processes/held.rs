//! What is said of a process in a word, and what a filter finds it by.
//!
//! Pure: from the documents to words.

use crate::theme::Ink;
use ttmem_report::format::{self, bytes, counted, counted_as};
use ttmem_report::labels;
use ttmem_report::machine_labels::{FROM_COUNTERS, NOT_ATTACHED, has_sizes};
use ttmem_report::{Process, ProcessState};

/// The state of a process in a word or two; of one that is gone, how it ended and what it held.
///
/// An exclamation mark says what there is more to know.
pub(crate) fn state(process: &Process) -> (String, Ink) {
    if labels::is_gone(process) {
        let words = match &process.released {
            Some(released) if released.buffers == 0 => ended(&released.reason).to_owned(),
            Some(released) => format!(
                "{}, held {}",
                ended(&released.reason),
                bytes(released.buffer_bytes)
            ),
            None => "ended".to_owned(),
        };
        return (words, Ink::Faint);
    }
    let (word, ink) = match process.state {
        _any if process.resyncing => ("resyncing", Ink::Warning),
        _any if process.incomplete => ("incomplete", Ink::Warning),
        ProcessState::Live => ("live", Ink::Good),
        ProcessState::Detached => ("detached", Ink::Faint),
        ProcessState::NotAttached => (NOT_ATTACHED, Ink::Faint),
        ProcessState::Exited | ProcessState::Other => (process.state.as_str(), Ink::Text),
    };
    let held = process.leak_candidates.buffers;
    let words = match (held, process.anomalies) {
        (0, 0) => return (word.to_owned(), ink),
        (0, anomalies) => counted_as(anomalies, "anomaly", "anomalies"),
        (held, _) => format!("{} held", format::count(held)),
    };
    (format!("{word}! {words}"), Ink::Warning)
}

/// How a process ended, in a word.
fn ended(reason: &str) -> &str {
    match reason {
        "replaced" | "forgotten" => reason,
        reason => labels::departure(reason),
    }
}

pub(crate) struct Remark {
    pub(crate) text: String,
    pub(crate) ink: Ink,
}

/// What the user should know of a process, by how much it matters.
pub(crate) fn remarks(process: &Process) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut remark = |text, ink| remarks.push(Remark { text, ink });
    if let Some(released) = &process.released {
        let how = labels::departure(&released.reason);
        remark(labels::held_at_exit(how, released), Ink::Faint);
    }
    if process.state == ProcessState::NotAttached {
        let known = if has_sizes(process) {
            format!("sizes {FROM_COUNTERS}, as requested")
        } else if process.devices.is_empty() {
            "it uses a chip that is none of the devices here".to_owned()
        } else {
            "it has a device open, what it holds is not known".to_owned()
        };
        remark(format!("{NOT_ATTACHED}: {known}"), Ink::Faint);
    }
    if let Some(why) = labels::incomplete(process) {
        remark(format!("incomplete: {why}"), Ink::Warning);
    }
    if process.resyncing {
        remark(
            "figures from before it reconnected".to_owned(),
            Ink::Warning,
        );
    }
    let leaks = process.leak_candidates;
    if leaks.buffers > 0 {
        let buffers = counted(leaks.buffers, "buffer");
        let text = format!("{buffers} held at close: {}", bytes(leaks.bytes));
        remark(text, Ink::Warning);
    }
    if process.anomalies > 0 {
        let anomalies = counted_as(process.anomalies, "anomaly", "anomalies");
        remark(anomalies, Ink::Warning);
    }
    remarks
}

/// The whole command where the host says it, else its name.
pub(crate) fn command(process: &Process) -> Option<&str> {
    let host = process.host.as_ref();
    let command = host.and_then(|host| host.command.as_deref());
    command.or(ttmem_report::labels::process_name(process))
}

/// The user by name, else by number.
pub(crate) fn user(process: &Process) -> Option<String> {
    let host = process.host.as_ref();
    let name = host.and_then(|host| host.user.clone());
    name.or_else(|| process.uid.map(|uid| uid.to_string()))
}

/// What a filter looks at: all words of a row.
pub(super) fn described(process: &Process) -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(process.pid.map(|pid| pid.to_string()));
    words.extend(user(process));
    words.extend(process.name.clone());
    words.extend(command(process).map(str::to_owned));
    let labels = process.labels.iter();
    words.extend(labels.map(|(key, value)| format!("{key} {value}")));
    words.extend([process.state.as_str().to_owned(), state(process).0]);
    words.extend(remarks(process).into_iter().map(|remark| remark.text));
    words.join(" ")
}
