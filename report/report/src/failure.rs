//! Why an allocation or a program was refused.
//!
//! The module `explain` makes these values, from the moment of a failure or from a runtime message in a
//! log. Text, JSON, terminal view and page render the same value, so a figure or a sentence is never
//! worked out twice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::{count, date_time, ids};
use crate::labels;
use crate::{MemoryClass, SchemaVersion, StorageKind, StorageLimit, Timestamp, Verdict};

/// Failures with their explanations, the newest first; of a log, in the log's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failures {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// The failures that are kept.
    pub failures: Vec<Explanation>,
    /// Failures beyond those that are kept.
    pub omitted: u64,
}

impl Failures {
    /// How many failures there were, those that are not here included.
    #[must_use]
    pub fn count(&self) -> u64 {
        let here = self.failures.iter().map(|failure| failure.times);
        here.fold(self.omitted, u64::saturating_add)
    }
}

/// A failure, and why it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// What it comes down to.
    pub verdict: Verdict,
    /// The verdict, when and where it happened, and to whom: `OUT OF MEMORY · 2026-11-19 10:00:00 · device 0 · pid 7 python3`.
    #[serde(default)]
    pub heading: String,
    /// The failure in one sentence.
    pub sentence: String,
    /// When it happened; if several times in a row, the first of them.
    pub time: Option<Timestamp>,
    /// When it happened last.
    pub last_time: Option<Timestamp>,
    /// How often it happened in a row, with the same figures. In a log, how often the message is
    /// there, where one that the runtime logs and then throws counts once; test runners may repeat it.
    pub times: u64,
    /// The devices concerned, by logical id.
    pub device_ids: Option<Vec<u32>>,
    /// The process that failed.
    pub pid: Option<u32>,
    /// Its name.
    pub process: Option<String>,
    /// Whether names, operations and lines are left out because they are another user's.
    #[serde(default)]
    pub names_hidden: bool,
    /// The operation that failed.
    pub operation: Option<String>,
    /// The user's line of Python, as `file:line function`.
    pub python: Option<String>,
    /// What was asked of an allocator, if it was one that refused.
    pub request: Option<FailedRequest>,
    /// The program and what it ran into, if its storage was refused.
    pub clash: Option<Clash>,
    /// Who holds the memory, most bytes first; null if that is not known.
    pub holders: Option<Vec<HolderGroup>>,
    /// What to release so that the request fits; never a buffer that the failing call placed.
    pub release: Option<Release>,
    /// The next best release, which has no buffer of the first one.
    #[serde(default)]
    pub other_release: Option<Release>,
    /// The bank around that place, by address.
    pub map: Option<Vec<MapRow>>,
    /// The parameter that was too small, with the value that this needed; what would have come later is
    /// not known.
    pub setting: Option<Setting>,
    /// What could not be found out, and what would show it.
    pub unknown: Vec<String>,
    /// What can be done about it.
    pub advice: Vec<String>,
    /// Where the message stands, if the failure was read from a log.
    pub log: Option<LogPlace>,
}

impl Explanation {
    /// The same with its heading, as documents have it.
    #[must_use]
    pub fn in_words(self) -> Self {
        Self {
            heading: self.heading(),
            ..self
        }
    }

    /// The verdict, when and where it happened, and to whom.
    #[must_use]
    pub fn heading(&self) -> String {
        let mut parts = vec![self.verdict.as_str().replace('_', " ").to_uppercase()];
        parts.extend(self.time.map(date_time));
        if let Some(devices) = self.device_ids.as_ref().filter(|ids| !ids.is_empty()) {
            parts.push(format!("device {}", ids(devices)));
        }
        if let Some(pid) = self.pid {
            let hidden = self.names_hidden.then_some(labels::HIDDEN);
            let name = self.process.as_deref().or(hidden).unwrap_or_default();
            parts.push(format!("pid {pid} {name}").trim_end().to_owned());
        }
        parts.extend(
            self.log
                .as_ref()
                .map(|place| format!("line {}", place.line)),
        );
        if self.times > 1 {
            let last = self.last_time.filter(|last| Some(*last) != self.time);
            let last = last.map_or_else(String::new, |last| {
                format!(", last {}", &date_time(last)[11..])
            });
            parts.push(format!("{} times{last}", count(self.times)));
        }
        parts.join(" · ")
    }
}

/// A refused allocation. Banks are filled in lockstep: figures per bank hold for each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRequest {
    /// The class.
    pub class: Option<MemoryClass>,
    /// Asked for, over all banks.
    pub requested_bytes: Option<u64>,
    /// Banks that it was to be spread over.
    pub banks: Option<u32>,
    /// Needed in each bank, in one piece.
    pub need_bytes_per_bank: Option<u64>,
    /// What the allocator hands out of a bank.
    pub bank_bytes: Option<u64>,
    /// Taken of each bank.
    pub allocated_bytes_per_bank: Option<u64>,
    /// Free in each bank.
    pub free_bytes_per_bank: Option<u64>,
    /// The largest free block of a bank.
    pub largest_free_bytes_per_bank: Option<u64>,
}

/// A program's storage and what it ran into; the same on each of its cores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clash {
    /// What the storage is.
    pub storage: StorageKind,
    /// What it ran into.
    pub met: StorageLimit,
    /// The program's number.
    pub program: Option<u64>,
    /// The cores, as current runtimes write them: `[0-0 - 7-7]`.
    pub cores: Option<String>,
    /// Where the storage begins.
    pub storage_start: Option<u64>,
    /// Where it would end.
    pub storage_end: u64,
    /// Where it had to end.
    pub limit: u64,
    /// How far it would reach beyond that.
    pub overlap_bytes: u64,
    /// The buffers in the way, by address; null if they are not known.
    pub in_the_way: Option<Vec<InTheWay>>,
}

/// A buffer where a program's storage would lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InTheWay {
    /// The buffer.
    pub block: HeldBlock,
    /// How much of it the storage would overwrite.
    pub overlap_bytes: u64,
}

/// Memory that an allocator handed out, the same in each bank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldBlock {
    /// Where it begins in a bank.
    pub address: u64,
    /// What it takes of a bank.
    pub size_bytes: u64,
    /// Whose it is.
    pub owner: BlockOwner,
}

/// Whose a block is.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct BlockOwner {
    /// The process.
    pub pid: Option<u32>,
    /// Its name.
    pub process: Option<String>,
    /// The line of Python that allocated it, as `file:line function`.
    pub python: Option<String>,
    /// The operation it was allocated for.
    pub operation: Option<String>,
    /// The class.
    pub class: Option<MemoryClass>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Whether the failing call placed it.
    #[serde(default)]
    pub of_call: bool,
}

/// Blocks of one process, line, operation and class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HolderGroup {
    /// Whose they are; `since` is that of the oldest.
    pub owner: BlockOwner,
    /// Since when the newest is there.
    pub newest: Option<Timestamp>,
    /// How many.
    pub buffers: u64,
    /// What they take of a bank.
    pub bytes_per_bank: u64,
}

/// Neighbouring blocks whose release makes a request fit: the fewest bytes, then the fewest blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// Where the free block would begin.
    pub address: u64,
    /// How large it would be.
    pub free_bytes: u64,
    /// How many blocks to release.
    pub buffers: u64,
    /// What they take of a bank.
    pub bytes_per_bank: u64,
    /// The blocks, by address; of many, the first ones.
    pub blocks: Vec<HeldBlock>,
    /// When this cannot be done: `unless this call uses it`.
    #[serde(default)]
    pub unless: String,
}

/// A stretch of a bank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MapRow {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub size_bytes: u64,
    /// Whose it is; null if it is free.
    pub owner: Option<BlockOwner>,
    /// Whether it is to be released.
    pub in_release: bool,
    /// How many blocks and free stretches this row stands for, where a map is too long to show.
    pub stands_for: u64,
}

/// A parameter that is given when a device is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// A value that is large enough, rounded up to what the runtime accepts; of a failure, for all
    /// until then.
    pub value: u64,
    /// What that is in each bank.
    pub bytes_per_bank: Option<u64>,
    /// The value that was given, as far as it is known.
    pub given: Option<u64>,
    /// Whether it is the smallest such value; if not, a smaller one may do as well.
    pub is_smallest: bool,
}

impl Setting {
    /// Whether it is typed as bytes of one bank: that of the small region is, the trace region's is of all.
    #[must_use]
    pub fn is_per_bank(&self) -> bool {
        self.name == "l1_small_size"
    }

    /// How much of what was given would not have been needed; none if that was too little.
    #[must_use]
    pub fn unused(&self) -> Option<u64> {
        self.given?.checked_sub(self.value)
    }
}

/// Where a message stands in a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPlace {
    /// The line on which it first begins, from 1.
    pub line: u64,
    /// The message.
    pub message: String,
}
