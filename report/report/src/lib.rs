//! What figures mean to a person: the documents that the read API returns, explanations of failures, words and units.
//!
//! The server fills these documents and serialises them; every viewer (the command line, the
//! terminal view, the web page) lays them out. Nothing here performs I/O or reads a clock.
//!
//! Rules of the format, all of which a reader may rely on:
//! * every document starts with `"schema": 1`; another number is refused, with both numbers;
//! * bytes and counts are integers; 64-bit ids are hex strings, because a JSON reader that keeps
//!   numbers as doubles would round them; times are RFC 3339 strings in UTC;
//! * what is not known is `null`, never 0 and never left out;
//! * a reader ignores fields it does not know, and a field added within schema 1 is an `Option`,
//!   so that a newer reader understands an older server.

mod answers;
mod deceptive;
mod device;
mod device_key;
pub mod explain;
mod failure;
mod fleet;
pub mod format;
mod hex_id;
mod history;
mod host;
mod l1map;
pub mod labels;
mod last;
mod leaks;
pub mod machine_labels;
mod problems;
mod process;
mod python;
mod recording;
pub mod routes;
mod rows;
mod schema_version;
mod search;
mod share;
mod size_text;
mod snapshot;
mod stream;
#[cfg(test)]
mod tests;
mod text_form;
mod timestamp;
pub mod usage;
mod vocabulary;

pub use answers::{ErrorBody, Forgotten, Marked};
pub use deceptive::{escape_json, escaped_json_growth, is_deceptive};
pub use device::{
    AllocatorUsage, CacheCounts, CbUsage, ClassUsage, ConfigRingEntry, ConfigRingUsage, Device,
    DeviceDetail, FailureCounts, KernelUsage, PeakBytes, PeakContents, PeakGroup, PrefetchUsage,
};
pub use device_key::DeviceKey;
pub use failure::{
    BlockOwner, Clash, Explanation, FailedRequest, Failures, HeldBlock, HolderGroup, InTheWay,
    LogPlace, MapRow, Release, Setting,
};
pub use fleet::{
    Fleet, FleetDevice, FleetHost, FleetJob, FleetProblem, FleetProblemKind, WeekSource,
};
pub use hex_id::{HexId, ParseHexIdError};
pub use history::{DeviceHistory, History};
pub use host::{
    DeviceNames, DeviceUser, Machine, Telemetry, UnmatchedUse, Upstream, UpstreamBytes,
    UpstreamDifference, UpstreamLimit, UsedDevice,
};
pub use l1map::{Block, BlockMap, L1Column, L1Core, L1Map, Resident, Segment, Stretch};
pub use last::{EventFields, FieldValue, LastEvent, LastEvents};
pub use leaks::{GrowingGroup, GrowingProcess, HeldAtClose, LeakGroup, Leaks};
pub use problems::{
    FreshFailure, NEARLY_FULL_PERMILLE, Problem, ProblemTarget, Problems, fresh_failures, problems,
};
pub use process::{
    HostProcess, IncompleteReason, LeakCandidates, LeftBehind, LeftGroup, Process, ProcessDevice,
    Processes, Released,
};
pub use python::{called_from, is_users_code, short_line, user_caller, user_frame};
pub use recording::{
    Allocations, Layer, RecordedFailure, RecordedPeak, Recording, Rectangle, Timeline,
};
pub use rows::{
    BufferGroup, BufferGroups, BufferPage, BufferQuery, BufferRow, CbRow, KernelRow, MAX_PAGE_ROWS,
    Page, ProgramDevice, ProgramRow, Row,
};
pub use schema_version::{SCHEMA, SchemaVersion};
pub use search::Search;
pub use share::{Share, percent};
pub use size_text::size_text;
pub use snapshot::{Anomalies, FailureCount, Mark, Server, Snapshot};
pub use stream::{StreamEvent, StreamGap, StreamHello, StreamMessage};
pub use text_form::decimal;
pub use timestamp::{ParseTimestampError, Timestamp};
pub use vocabulary::{
    BinaryState, BufferLayout, CbKind, CoreType, GroupBy, KernelKind, MemoryClass, PeakOf,
    ProblemView, ProcessState, RecordedFailureKind, RecordingSource, SegmentKind, SortBy, Source,
    StorageKind, StorageLimit, Urgency, Verdict,
};
