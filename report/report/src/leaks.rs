//! What grows from mark to mark, and what processes left behind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

use crate::{MemoryClass, SchemaVersion, Timestamp, called_from, short_line, size_text};

/// What grows, and what was left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Leaks {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When these figures held.
    pub time: Timestamp,
    /// What grows with the marks of its process, or else with those that readers set, of what a process holds
    /// on open devices, and of what one that has ended left behind; the fastest first, then by pid.
    pub growing: Vec<GrowingGroup>,
    /// What processes held when they closed their devices, or ended without that; most bytes first.
    pub held_at_close: Vec<HeldAtClose>,
    /// Groups that are not in these lists.
    pub left_out: u64,
}

impl Leaks {
    /// The processes that live and grow, the fastest first, then by pid.
    #[must_use]
    pub fn growing_processes(&self) -> Vec<GrowingProcess<'_>> {
        let mut found: Vec<GrowingProcess<'_>> = Vec::new();
        for growing in self
            .growing
            .iter()
            .filter(|growing| !growing.group.departed)
        {
            let whose = &growing.group;
            let is_same = |known: &&mut GrowingProcess<'_>| {
                let known = &known.fastest.group;
                (known.pid, &known.instance) == (whose.pid, &whose.instance)
            };
            if let Some(known) = found.iter_mut().find(is_same) {
                known.lines += 1;
                known.bytes_per_step = known.bytes_per_step.saturating_add(growing.bytes_per_step);
            } else {
                found.push(GrowingProcess {
                    fastest: growing,
                    lines: 1,
                    bytes_per_step: growing.bytes_per_step,
                });
            }
        }
        found.sort_by_key(|process| (Reverse(process.bytes_per_step), process.fastest.group.pid));
        found
    }
}

/// A process that grows: all its lines together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrowingProcess<'l> {
    /// What grows fastest of it.
    pub fastest: &'l GrowingGroup,
    /// How many lines and operations grow.
    pub lines: u64,
    /// What a usual step leaves behind, over all of them: the figure of the metric.
    pub bytes_per_step: u64,
}

impl GrowingProcess<'_> {
    /// `+2.0 MiB per step since step 3, model.py:57`; of several lines their sum, and the first of them.
    #[must_use]
    pub fn sentence(&self) -> String {
        let others = match self.lines - 1 {
            0 => String::new(),
            1 => " and 1 other line".to_owned(),
            others => format!(" and {others} other lines"),
        };
        self.fastest.said(self.bytes_per_step) + &others
    }
}

/// Buffers of one process, line and operation; their bytes are those on each device they lie on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeakGroup {
    /// Their process.
    pub pid: Option<u32>,
    /// Which one of those that had this pid.
    pub instance: Option<String>,
    /// Its name.
    pub process: Option<String>,
    /// Whether the process has ended.
    pub departed: bool,
    /// The line of Python that allocated them, as `file:line function`.
    pub line: Option<String>,
    /// Where the user's code called that line from, the most bytes first; the first four.
    #[serde(default)]
    pub callers: Vec<String>,
    /// The operation they were allocated for.
    pub operation: Option<String>,
    /// Their class, if all have one.
    pub class: Option<MemoryClass>,
    /// How many.
    pub buffers: u64,
    /// What they take.
    pub bytes: u64,
    /// What each of them takes, if all take the same.
    pub each_bytes: Option<u64>,
}

impl LeakGroup {
    /// Where they come from: the line, the operation, or nothing that is known.
    #[must_use]
    pub fn place(&self) -> &str {
        let line = self.line.as_deref().map(short_line);
        line.or(self.operation.as_deref())
            .unwrap_or("not known where")
    }
}

/// Buffers that were held when their mesh was closed, or at the end of their process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldAtClose {
    /// The buffers.
    #[serde(flatten)]
    pub group: LeakGroup,
    /// Whether they had grown until then; those of a process that has ended are in the other list, too.
    pub growing: bool,
}

/// Buffers that every step leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrowingGroup {
    /// The buffers.
    #[serde(flatten)]
    pub group: LeakGroup,
    /// The name of the marks that growth is counted by; null if they have different ones.
    pub mark: Option<String>,
    /// The number of the mark since which they grow; where names differ, which of the marks it is.
    pub since: u64,
    /// The steps from there to the last mark.
    pub steps: u64,
    /// What a usual step leaves behind, on each device that they lie on.
    pub bytes_per_step: u64,
    /// `+2.0 MiB per step since step 3, model.py:57`; a name that is more than a word is quoted:
    /// `+2.0 MiB from each mark "request 7" to the next, 21 times, model.py:57`.
    #[serde(default)]
    pub sentence: String,
}

impl GrowingGroup {
    /// The same with its sentence.
    #[must_use]
    pub fn in_words(self) -> Self {
        Self {
            sentence: self.said(self.bytes_per_step),
            ..self
        }
    }

    fn said(&self, bytes_per_step: u64) -> String {
        let named = self.mark.as_deref().filter(|name| !name.is_empty());
        let step = named.unwrap_or("mark");
        let since = self.since;
        let marks = if step.contains(|char: char| !char.is_alphabetic()) {
            let times = self.steps;
            format!("from each mark \"{step}\" to the next, {times} times")
        } else {
            format!("per {step} since {step} {since}")
        };
        format!(
            "+{} {marks}, {}{}",
            size_text(bytes_per_step),
            self.group.place(),
            called_from(&self.group.callers)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_said_in_a_sentence() {
        let group = LeakGroup {
            pid: Some(7),
            instance: None,
            process: None,
            departed: false,
            line: Some("/home/ada/model.py:57 forward".into()),
            callers: Vec::new(),
            operation: Some("ttnn::empty".into()),
            class: Some(MemoryClass::Dram),
            buffers: 4,
            bytes: 8 << 20,
            each_bytes: Some(2 << 20),
        };
        let mut growing = GrowingGroup {
            group,
            mark: Some("step".into()),
            since: 3,
            steps: 4,
            bytes_per_step: 2 << 20,
            sentence: String::new(),
        };
        let sentence = "+2.0 MiB per step since step 3, model.py:57";
        assert_eq!(growing.clone().in_words().sentence, sentence);
        growing.mark = Some("request 7".into());
        let sentence = "+2.0 MiB from each mark \"request 7\" to the next, 4 times, model.py:57";
        assert_eq!(growing.clone().in_words().sentence, sentence);
        (growing.mark, growing.group.line) = (None, None);
        let sentence = "+2.0 MiB per mark since mark 3, ttnn::empty";
        assert_eq!(growing.clone().in_words().sentence, sentence);
    }
    #[test]
    fn a_process_is_one_with_the_sum_of_its_lines_and_equals_stand_by_pid() {
        let growing = |pid: u32, bytes_per_step: u64, departed: bool| GrowingGroup {
            group: LeakGroup {
                pid: Some(pid),
                instance: None,
                process: None,
                departed,
                line: None,
                callers: Vec::new(),
                operation: Some("ttnn::add".into()),
                class: None,
                buffers: 5,
                bytes: u64::from(100 - pid),
                each_bytes: None,
            },
            mark: Some("step".into()),
            since: 1,
            steps: 5,
            bytes_per_step,
            sentence: String::new(),
        };
        let mut leaks = Leaks {
            schema: crate::SCHEMA,
            time: Timestamp::from_unix_nanos(0),
            growing: vec![
                growing(9, 3 << 20, false),
                growing(8, 2 << 20, false),
                growing(7, 2 << 20, false),
                growing(8, 1 << 20, false),
                growing(6, 9 << 20, true),
            ],
            held_at_close: Vec::new(),
            left_out: 0,
        };
        for _order in 0..2 {
            let found = leaks.growing_processes();
            let pids: Vec<_> = found
                .iter()
                .filter_map(|one| one.fastest.group.pid)
                .collect();
            assert_eq!(pids, [8, 9, 7]);
            assert_eq!(
                found[0].sentence(),
                "+3.0 MiB per step since step 1, ttnn::add and 1 other line"
            );
            assert_eq!(
                found[2].sentence(),
                "+2.0 MiB per step since step 1, ttnn::add"
            );
            leaks.growing.swap(0, 2);
        }
    }
}
