//! Processes put together by what they say of where they run.
//!
//! Pure: from the documents to groups, in the order of the rows.

use std::cmp::Reverse;
use ttmem_report::Process;
use ttmem_report::format::counted_as;

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

/// Whether any process has a label.
pub(super) fn has_label(processes: &[Process], label: &str) -> bool {
    let mut processes = processes.iter();
    processes.any(|process| process.labels.contains_key(label))
}

/// A number before all words, smaller ones first: 2 comes before 10.
type Place<'t> = (Reverse<bool>, u64, &'t str);

/// Where the value of a label stands among others.
pub(super) fn place(value: &str) -> Place<'_> {
    let number = value.parse().ok();
    (Reverse(number.is_some()), number.unwrap_or(0), value)
}

/// The members of one group, by their places among all processes.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) title: String,
    pub(super) members: Vec<usize>,
}

/// The places by job, in the order of the first of each group, or by job and rank, in their order: every job has a rank 0.
/// Those without the label come last.
pub(super) fn groups(by: Grouping, processes: &[Process], places: &[usize]) -> Vec<Group> {
    let Some(label) = by.label() else {
        return Vec::new();
    };
    let mut groups: Vec<(Key<'_>, Vec<usize>)> = Vec::new();
    for place in places {
        let value = |label| processes[*place].labels.get(label).map(String::as_str);
        let key = Key {
            job: value("job").filter(|_job| by == Grouping::Rank && value(label).is_some()),
            value: value(label),
        };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_key, members)) => members.push(*place),
            None => groups.push((key, vec![*place])),
        }
    }
    match by {
        Grouping::Rank => groups.sort_by_key(|(key, _members)| {
            let (job, value) = (key.job.map(place), key.value.map(place));
            (value.is_none(), job, value)
        }),
        _job => groups.sort_by_key(|(key, _members)| key.value.is_none()),
    }
    let titled = groups.into_iter().map(|(key, members)| {
        let count = counted_as(members.len() as u64, "process", "processes");
        let title = match key {
            Key { value: None, .. } => format!("no {label}: {count}"),
            Key {
                job: Some(job),
                value: Some(value),
            } => format!("job {job} {label} {value}: {count}"),
            Key {
                job: None,
                value: Some(value),
            } => format!("{label} {value}: {count}"),
        };
        Group { title, members }
    });
    titled.collect()
}

/// What the members of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key<'t> {
    /// The job, of a rank.
    job: Option<&'t str>,
    value: Option<&'t str>,
}

/// What a process says of where it runs, in a line.
pub(super) fn labels_line(process: &Process) -> Option<String> {
    let labels = process.labels.iter();
    let line: Vec<String> = labels
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    (!line.is_empty()).then(|| line.join(", "))
}
