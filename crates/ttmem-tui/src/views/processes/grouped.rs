//! Processes put together by what they say of where they run.
//!
//! Pure: from the documents to groups, in the order of the rows.

use crate::format::counted_as;
use ttmem_api::Process;

/// What processes are put together by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Grouping {
    #[default]
    None,
    Job,
    Rank,
}

impl Grouping {
    /// The label that members of a group have in common.
    pub(super) const fn label(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Job => Some("job"),
            Self::Rank => Some("rank"),
        }
    }

    pub(super) const fn next(self) -> Self {
        match self {
            Self::None => Self::Job,
            Self::Job => Self::Rank,
            Self::Rank => Self::None,
        }
    }
}

/// Whether there is anything to group by.
pub(super) fn has_labels(processes: &[Process]) -> bool {
    let is_known = |label: &str| {
        let mut processes = processes.iter();
        processes.any(|process| process.labels.contains_key(label))
    };
    is_known("job") || is_known("rank")
}

/// The members of one group, by their places among all processes.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) title: String,
    pub(super) members: Vec<usize>,
}

/// The places by a label, in the order of the first of each group; those without it come last.
pub(super) fn groups(label: &str, processes: &[Process], places: &[usize]) -> Vec<Group> {
    let mut groups: Vec<(Option<&str>, Vec<usize>)> = Vec::new();
    for place in places {
        let value = processes[*place].labels.get(label).map(String::as_str);
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_value, members)) => members.push(*place),
            None => groups.push((value, vec![*place])),
        }
    }
    groups.sort_by_key(|(value, _members)| value.is_none());
    let titled = groups.into_iter().map(|(value, members)| {
        let count = counted_as(members.len() as u64, "process", "processes");
        let title = match value {
            Some(value) => format!("{label} {value}: {count}"),
            None => format!("no {label}: {count}"),
        };
        Group { title, members }
    });
    titled.collect()
}

/// What a process says of where it runs, in a line.
pub(super) fn labels_line(process: &Process) -> Option<String> {
    let labels = process.labels.iter();
    let line: Vec<String> = labels
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    (!line.is_empty()).then(|| line.join(", "))
}
