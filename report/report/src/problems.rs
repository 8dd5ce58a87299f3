//! Is something wrong? Every check, the one that matters most first.
//!
//! A check is a function from the documents of one instant to the problems that it finds. Viewers show what was
//! found: they add the key of a view, and decide nothing.

use crate::format::{bytes, counted, duration, ids};
use crate::labels;
use crate::usage;
use crate::{
    AllocatorUsage, ClassUsage, Device, DeviceKey, Explanation, GrowingProcess, HeldAtClose, HexId,
    LeakGroup, Leaks, MemoryClass, ProblemView, Process, SchemaVersion, Share, Snapshot, Timestamp,
    Urgency, called_from, percent,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is wrong at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problems {
    /// The version of the format.
    pub schema: SchemaVersion,
    /// When that was.
    pub time: Timestamp,
    /// The one that matters most first.
    pub problems: Vec<Problem>,
}

/// Something that is wrong, and where more can be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The check that found it, as one stable word: `refused`, `nearly_full`, …
    pub check: String,
    /// What is wrong, in a sentence with its figures.
    pub text: String,
    /// How much it matters.
    pub urgency: Urgency,
    /// Where more can be seen.
    pub target: ProblemTarget,
}

/// Where more can be seen of a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemTarget {
    /// The view.
    pub view: ProblemView,
    /// The number of the device, if it is of one.
    pub device: Option<u32>,
    /// That chip's own id.
    pub unique_id: Option<HexId>,
    /// The visible-device set under which the number counts; `null` is the default.
    pub scope: Option<String>,
    /// The instant, if it is of one: when memory was refused.
    pub at: Option<Timestamp>,
}

impl ProblemTarget {
    fn view(view: ProblemView) -> Self {
        Self {
            view,
            device: None,
            unique_id: None,
            scope: None,
            at: None,
        }
    }

    fn device(view: ProblemView, device: &Device) -> Self {
        Self {
            device: Some(device.id),
            unique_id: device.unique_id,
            scope: device.scope.clone(),
            ..Self::view(view)
        }
    }

    /// The device, if it is of one.
    #[must_use]
    pub fn device_key(&self) -> Option<DeviceKey> {
        Some(DeviceKey::new(
            self.device?,
            self.unique_id,
            self.scope.as_deref(),
        ))
    }
}

/// The documents of one instant in which problems are looked for.
#[derive(Debug, Clone, Copy)]
struct Seen<'d> {
    snapshot: &'d Snapshot,
    failures: &'d [Explanation],
    leaks: &'d Leaks,
}

/// The word of a check, how much what it finds matters, and the check.
type Check = (&'static str, Urgency, fn(Seen<'_>) -> Vec<Found>);

/// What a check found: a sentence, and where more can be seen.
type Found = (String, ProblemTarget);

/// All checks, the one that matters most first: what was refused lately, memory that is full, free memory that
/// cannot be used, programs that are about to clash, processes that only grow, figures that cannot be trusted;
/// last what concerned processes that have ended since.
const CHECKS: &[Check] = &[
    ("refused", Urgency::Danger, |seen| refused(seen, true)),
    ("beyond_capacity", Urgency::Danger, |seen| {
        each(seen, beyond_capacity)
    }),
    ("nearly_full", Urgency::Danger, |seen| {
        each(seen, nearly_full)
    }),
    ("overlap", Urgency::Warning, |seen| each(seen, overlap)),
    ("fragmented", Urgency::Warning, |seen| {
        each(seen, fragmented)
    }),
    ("cbs_clash", Urgency::Danger, |seen| each(seen, clash)),
    ("headroom", Urgency::Warning, |seen| each(seen, narrow)),
    ("grows", Urgency::Warning, grows),
    ("incomplete", Urgency::Danger, incomplete),
    ("differs", Urgency::Danger, |seen| each(seen, differs)),
    ("grew", Urgency::Warning, grew),
    ("refused_before_the_end", Urgency::Danger, |seen| {
        refused(seen, false)
    }),
];

/// What is wrong, as the documents of one instant say it; `failures` are the newest first.
///
/// A snapshot of some devices alone leaves out what concerns none of them.
#[must_use]
pub fn problems(snapshot: &Snapshot, failures: &[Explanation], leaks: &Leaks) -> Vec<Problem> {
    let seen = Seen {
        snapshot,
        failures,
        leaks,
    };
    let found = CHECKS.iter().flat_map(|(check, urgency, find)| {
        find(seen).into_iter().map(|(text, target)| Problem {
            check: (*check).to_owned(),
            text,
            urgency: *urgency,
            target,
        })
    });
    found.collect()
}

/// How long a refusal is listed while its process lives...
const FRESH_SECONDS: u64 = 600;

/// ...and once that has ended; the same for what a process left behind.
const FRESH_SECONDS_OF_ENDED: u64 = 120;

const fn is_fresh(age_seconds: u64, is_living: bool) -> bool {
    age_seconds
        < if is_living {
            FRESH_SECONDS
        } else {
            FRESH_SECONDS_OF_ENDED
        }
}

/// A refusal that is still of interest.
#[derive(Debug, Clone, Copy)]
pub struct FreshFailure<'d> {
    pub failure: &'d Explanation,
    /// When it happened for the last time, and how long ago that is.
    pub time: Timestamp,
    pub age_seconds: u64,
    /// The process; none if that has ended.
    pub living: Option<&'d Process>,
}

/// Those refusals that are still of interest, in their order.
pub fn fresh_failures<'d>(
    snapshot: &'d Snapshot,
    failures: &'d [Explanation],
) -> impl Iterator<Item = FreshFailure<'d>> {
    let is_here = |failure: &&Explanation| {
        let devices = failure.device_ids.as_deref().unwrap_or_default();
        let mut here = snapshot.devices.iter();
        devices.is_empty() || here.any(|device| devices.contains(&device.id))
    };
    failures.iter().filter(is_here).filter_map(|failure| {
        let time = failure.last_time.or(failure.time)?;
        let age_seconds = age_seconds(snapshot, time);
        let living = snapshot.processes.iter().find(|process| {
            // Of another pid namespace only the name is known.
            let is_same = match failure.pid {
                Some(_) => process.pid == failure.pid,
                None => process.pid.is_none() && process.name == failure.process,
            };
            is_same && !labels::is_gone(process)
        });
        is_fresh(age_seconds, living.is_some()).then_some(FreshFailure {
            failure,
            time,
            age_seconds,
            living,
        })
    })
}

fn age_seconds(snapshot: &Snapshot, time: Timestamp) -> u64 {
    let now = snapshot.time.unix_nanos();
    now.saturating_sub(time.unix_nanos()) / 1_000_000_000
}

/// Free memory is fragmented where a request can have less than this part of it: a quarter.
const PIECES: u64 = 4;

/// Less free memory than this part of all, a fiftieth, is not judged.
const WORTH: u64 = 50;

/// From this share on, in thousandths, memory is called nearly full.
pub const NEARLY_FULL_PERMILLE: u16 = 950;

/// The newest of the refusals to processes that live, or that have ended; with whose it is, what it concerns and when
/// it was.
fn refused(seen: Seen<'_>, living: bool) -> Vec<Found> {
    let mut fresh = fresh_failures(seen.snapshot, seen.failures)
        .filter(|fresh| fresh.living.is_some() == living);
    let Some(first) = fresh.next() else {
        return Vec::new();
    };
    let failure = first.failure;
    // Each of several in a row counts, as in every other figure of failures.
    let times = fresh.map(|fresh| fresh.failure.times);
    let before = times.fold(failure.times.saturating_sub(1), u64::saturating_add);
    let others = match before {
        0 => String::new(),
        before => format!(" (and {} before)", counted(before, "failure")),
    };
    let hidden = failure.names_hidden.then_some(labels::HIDDEN);
    let mut who = process_name(failure.pid, failure.process.as_deref().or(hidden));
    if !living {
        who.push_str(" (ended)");
    }
    let device = match failure.device_ids.as_deref().unwrap_or_default() {
        [] => String::new(),
        devices => format!(", device {}", ids(devices)),
    };
    let age = duration(first.age_seconds);
    let text = format!("{who}{device}: {} ({age} ago){others}", failure.sentence);
    let mut devices = seen.snapshot.devices.iter();
    let device = match failure.device_ids.as_deref() {
        Some([id]) => devices.find(|device| device.id == *id),
        _several_or_unknown => None,
    };
    let view = ProblemView::Failures;
    let target = device.map_or_else(
        || ProblemTarget::view(view),
        |device| ProblemTarget::device(view, device),
    );
    let target = ProblemTarget {
        at: Some(first.time),
        ..target
    };
    vec![(text, target)]
}

/// What a check of one device finds on all of them.
fn each(seen: Seen<'_>, check: fn(&Device) -> Vec<Found>) -> Vec<Found> {
    seen.snapshot.devices.iter().flat_map(check).collect()
}

fn of(device: &Device, view: ProblemView, text: impl AsRef<str>) -> Found {
    let text = format!("device {}: {}", device.id, text.as_ref());
    (text, ProblemTarget::device(view, device))
}

fn beyond_capacity(device: &Device) -> Vec<Found> {
    let beyond = usage::over_capacity(device).into_iter();
    beyond
        .map(|(_name, text)| of(device, ProblemView::Device, text))
        .collect()
}

/// The classes of a device's memory, with the view that shows more of each.
fn classes(device: &Device) -> [(&'static str, MemoryClass, &ClassUsage, ProblemView); 4] {
    let map = ProblemView::Map;
    [
        (
            labels::DRAM,
            MemoryClass::Dram,
            &device.dram,
            ProblemView::Buffers,
        ),
        (labels::L1_BUFFERS, MemoryClass::L1, &device.l1, map),
        (
            labels::L1_SMALL,
            MemoryClass::L1Small,
            &device.l1_small,
            map,
        ),
        (
            labels::TRACE,
            MemoryClass::Trace,
            &device.trace,
            ProblemView::Device,
        ),
    ]
}

/// The first memory that is nearly full, unless one holds more than there is, which says more.
fn nearly_full(device: &Device) -> Vec<Found> {
    if !usage::over_capacity(device).is_empty() {
        return Vec::new();
    }
    let mut classes = classes(device).into_iter();
    let full = classes.find_map(|(name, _class, usage, view)| {
        let share = Share::of(usage.used_bytes(), usage.capacity_bytes)?;
        let text = format!(
            "{name} {} full, {} free",
            percent(Some(share), "").trim_start(),
            bytes(usage.free_bytes().unwrap_or(0)),
        );
        (share.permille() >= NEARLY_FULL_PERMILLE).then(|| of(device, view, text))
    });
    full.into_iter().collect()
}

/// Memory that two allocators hand out at once, with whose they are.
fn overlap(device: &Device) -> Vec<Found> {
    let found = classes(device).into_iter();
    let found = found.filter_map(|(name, class, usage, _view)| {
        let overlap = usage.overlap_bytes.filter(|overlap| *overlap > 0)?;
        let whose = whose(device, class);
        let text = format!(
            "{} of {name} are handed out by more than one allocator{whose}",
            bytes(overlap)
        );
        Some(of(device, ProblemView::Device, text))
    });
    found.collect()
}

/// `: pid 7 and pid 8`, or of one process `: meshes 1 and 2 of pid 7`; nothing where only one of them is shown.
fn whose(device: &Device, class: MemoryClass) -> String {
    const MOST: usize = 4;
    let taking = |each: &&AllocatorUsage| each.class == class && each.charged_bytes > 0;
    let taking: Vec<&AllocatorUsage> = device.allocators.iter().filter(taking).collect();
    let mut pids: Vec<Option<u32>> = taking.iter().map(|each| each.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let listed = |names: Vec<String>| {
        let others = names.len().saturating_sub(MOST);
        let mut shown: Vec<String> = names.into_iter().take(MOST).collect();
        if others > 0 {
            shown.push(format!("{others} more"));
        }
        let last = shown.pop().unwrap_or_default();
        if shown.is_empty() {
            last
        } else {
            format!("{} and {last}", shown.join(", "))
        }
    };
    match (pids.as_slice(), taking.as_slice()) {
        ([pid], [_, _, ..]) => {
            let meshes = taking.iter().filter_map(|each| each.mesh);
            let meshes = listed(meshes.map(|mesh| mesh.to_string()).collect());
            format!(": meshes {meshes} of {}", process_name(*pid, None))
        }
        ([_, _, ..], _) => {
            let pids = pids.iter().map(|pid| process_name(*pid, None));
            format!(": {}", listed(pids.collect()))
        }
        _one => String::new(),
    }
}

/// The first memory of which a request cannot have what is free.
fn fragmented(device: &Device) -> Vec<Found> {
    let split = |class: &ClassUsage| {
        let (free, fit) = (class.free_bytes()?, class.largest_fit_bytes()?);
        let worth = class.capacity_bytes? / WORTH;
        (free > worth && fit < free / PIECES).then_some((free, fit))
    };
    let [dram, l1, ..] = classes(device);
    let found = [dram, l1]
        .into_iter()
        .find_map(|(name, _class, usage, _view)| {
            let (free, fit) = split(usage)?;
            let text = format!(
                "{name} has {} free, but the {} is {}",
                bytes(free),
                labels::LARGEST_FIT,
                bytes(fit),
            );
            Some(of(device, ProblemView::Map, text))
        });
    found.into_iter().collect()
}

fn clash(device: &Device) -> Vec<Found> {
    let overlap = device.cb_headroom_bytes.filter(|headroom| *headroom < 0);
    let found = overlap.map(|headroom| {
        let size = labels::headroom(headroom);
        let text = format!("CBs and an L1 buffer lie at one place, {size}");
        of(device, ProblemView::Map, text)
    });
    found.into_iter().collect()
}

fn narrow(device: &Device) -> Vec<Found> {
    let narrow = 0..labels::NARROW_HEADROOM_BYTES;
    let headroom = device
        .cb_headroom_bytes
        .filter(|room| narrow.contains(room));
    let found = headroom.map(|headroom| {
        let size = labels::headroom(headroom);
        let text = format!("{} is {size} on the tightest core", labels::CB_HEADROOM);
        of(device, ProblemView::Map, text)
    });
    found.into_iter().collect()
}

fn process_name(pid: Option<u32>, name: Option<&str>) -> String {
    let pid = pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
    let name = name.unwrap_or_default();
    format!("pid {pid} {name}").trim_end().to_owned()
}

fn process_of<'d>(seen: Seen<'d>, group: &LeakGroup) -> Option<&'d Process> {
    let mut processes = seen.snapshot.processes.iter();
    processes.find(|process| (process.pid, &process.instance) == (group.pid, &group.instance))
}

/// The processes that grow from mark to mark.
fn grows(seen: Seen<'_>) -> Vec<Found> {
    let growing = seen.leaks.growing_processes().into_iter();
    let growing = growing.filter(|growing| process_of(seen, &growing.fastest.group).is_some());
    let found = growing.map(|growing: GrowingProcess<'_>| {
        let group = &growing.fastest.group;
        let name = process_name(group.pid, group.process.as_deref());
        let text = format!("{name} grows: {}", growing.sentence());
        (text, ProblemTarget::view(ProblemView::Leaks))
    });
    found.collect()
}

/// The processes that grew until they closed their devices or ended: nobody frees that any more.
fn grew(seen: Seen<'_>) -> Vec<Found> {
    let is_of_interest = |left: &LeakGroup| {
        let process = process_of(seen, left);
        let released = process.and_then(|process| process.released.as_ref());
        let age = released.map(|released| age_seconds(seen.snapshot, released.time));
        process.is_some() && age.is_none_or(|age| is_fresh(age, false))
    };
    let mut found: Vec<(&LeakGroup, u64, u64)> = Vec::new();
    for HeldAtClose { group, growing } in &seen.leaks.held_at_close {
        if !growing || !is_of_interest(group) {
            continue;
        }
        let is_same = |(known, ..): &&mut (&LeakGroup, u64, u64)| {
            (known.pid, &known.instance) == (group.pid, &group.instance)
        };
        match found.iter_mut().find(is_same) {
            Some((_first, bytes, lines)) => {
                *bytes = bytes.saturating_add(group.bytes);
                *lines += 1;
            }
            None => found.push((group, group.bytes, 1)),
        }
    }
    let found = found.into_iter().map(|(group, size, lines)| {
        let who = process_name(group.pid, group.process.as_deref());
        let until = if group.departed {
            "it ended"
        } else {
            "its device was closed"
        };
        let others = match lines - 1 {
            0 => String::new(),
            others => format!(" and {}", counted(others, "other line")),
        };
        let text = format!(
            "{who} grew until {until}: {} held, {}{}{others}",
            bytes(size),
            group.place(),
            called_from(&group.callers),
        );
        (text, ProblemTarget::view(ProblemView::Leaks))
    });
    found.collect()
}

fn incomplete(seen: Seen<'_>) -> Vec<Found> {
    let found = seen.snapshot.processes.iter().filter_map(|process| {
        let why = labels::incomplete(process)?;
        let name = process_name(process.pid, labels::process_name(process));
        let text = format!("tracking of {name} is incomplete: {why}");
        Some((text, ProblemTarget::view(ProblemView::Processes)))
    });
    found.collect()
}

fn differs(device: &Device) -> Vec<Found> {
    match device.verified {
        Some(false) => vec![of(
            device,
            ProblemView::Device,
            labels::checked(Some(false)),
        )],
        _equal_or_not_compared => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
