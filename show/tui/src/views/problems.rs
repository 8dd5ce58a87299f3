//! Is something wrong? One line at the top of every view while it matters.
//!
//! By how much it matters: what was refused lately, memory that is full, free memory that cannot be
//! used, programs that are about to clash, a process that only grows, figures that cannot be trusted;
//! last what a process was refused that has ended since.

use super::overview::figures::NEARLY_FULL_PERMILLE;
use crate::data::{Data, FreshFailure, is_fresh_failure};
use crate::format::{self, bytes, counted};
use crate::labels;
use crate::theme::Ink;
use crate::views::usage;
use crate::widgets::{Share, percent};
use ttmem_report::{
    ClassUsage, Device, GrowingProcess, HeldAtClose, LeakGroup, Process, Snapshot, called_from,
};

/// Free memory of which a request can have less than one part in so many is fragmented.
const PIECES: u64 = 4;

/// Less than one part in so many of a memory is not worth the word free.
const WORTH: u64 = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) text: String,
    pub(crate) ink: Ink,
    /// The view that shows more.
    pub(crate) key: char,
}

fn danger(text: String, key: char) -> Problem {
    let ink = Ink::Danger;
    Problem { text, ink, key }
}

fn warning(text: String, key: char) -> Problem {
    let ink = Ink::Warning;
    Problem { text, ink, key }
}

/// All problems, the one that matters most first.
pub(crate) fn problems(data: &Data) -> Vec<Problem> {
    let Some(snapshot) = data.totals() else {
        return Vec::new();
    };
    let growing = growing(data);
    let (of_living, of_ended): (Vec<_>, Vec<_>) = data
        .fresh_failures()
        .partition(|fresh| fresh.living.is_some());
    let mut problems: Vec<Problem> = failed(&of_living).into_iter().collect();
    problems.extend(in_order(snapshot, growing));
    problems.extend(grew(data));
    problems.extend(failed(&of_ended));
    problems
}

/// The newest of some failures, with whose it is, what it concerns and when it was.
fn failed(failures: &[FreshFailure<'_>]) -> Option<Problem> {
    let (first, others) = failures.split_first()?;
    let failure = first.failure;
    let hidden = failure.names_hidden.then_some(labels::HIDDEN);
    let mut who = name(failure.pid, failure.process.as_deref().or(hidden));
    if first.living.is_none() {
        who.push_str(" (ended)");
    }
    let device = match failure.device_ids.as_deref().unwrap_or_default() {
        [] => String::new(),
        ids => format!(", device {}", format::ids(ids)),
    };
    let others = match others.len() {
        0 => String::new(),
        others => format!(" (and {} before)", counted(others as u64, "failure")),
    };
    let age = format::duration(first.age_seconds);
    let text = format!("{who}{device}: {} ({age} ago){others}", failure.sentence);
    Some(danger(text, '9'))
}

/// What is wrong at one moment, for reports.
#[must_use]
pub fn of_snapshot(snapshot: &Snapshot) -> Vec<String> {
    let problems = in_order(snapshot, Vec::new()).into_iter();
    let mut problems: Vec<String> = problems.map(|problem| problem.text).collect();
    if let Some(time) = snapshot.failures.newest {
        // A snapshot does not say whose it was, but whether it can be of one that lives.
        let may_be_of = |process: &Process| {
            let before = process.start_time.is_none_or(|start| start <= time);
            before && !labels::is_gone(process)
        };
        let is_living = snapshot.processes.iter().any(may_be_of);
        let age = snapshot.time.unix_nanos().saturating_sub(time.unix_nanos()) / 1_000_000_000;
        let (place, whose) = if is_living {
            (0, "")
        } else {
            (problems.len(), ", to a process that has ended")
        };
        if is_fresh_failure(age, is_living) {
            let age = format::duration(age);
            let text = format!("memory was refused {age} ago{whose}: `ttmem explain` says why");
            problems.insert(place, text);
        }
    }
    problems
}

fn in_order(snapshot: &Snapshot, growing: Vec<Problem>) -> Vec<Problem> {
    let devices = &snapshot.devices;
    let mut problems: Vec<Problem> = devices.iter().flat_map(full).collect();
    problems.extend(devices.iter().filter_map(fragmented));
    problems.extend(devices.iter().filter_map(tight));
    problems.extend(growing);
    problems.extend(untrusted(snapshot));
    problems
}

/// A problem as a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) ink: Ink,
    /// The key that shows more, and how many other problems there are.
    pub(crate) key: String,
}

/// The problem that matters most.
pub(crate) fn line(data: &Data) -> Option<Line> {
    let problems = problems(data);
    let first = problems.first()?;
    let others = match problems.len() - 1 {
        0 => String::new(),
        others => format!(", {others} more"),
    };
    Some(Line {
        text: format!("! {}", first.text),
        ink: first.ink,
        key: format!(" [{}]{others}", first.key),
    })
}

fn full(device: &Device) -> Vec<Problem> {
    let id = device.id;
    let beyond = usage::over_capacity(device).into_iter();
    let mut found: Vec<Problem> = beyond
        .map(|(_name, text)| danger(format!("device {id}: {text}"), '3'))
        .collect();
    let classes = [
        (labels::DRAM, &device.dram, '6'),
        (labels::L1_BUFFERS, &device.l1, '4'),
        (labels::L1_SMALL, &device.l1_small, '4'),
        (labels::TRACE, &device.trace, '3'),
    ];
    for (name, class, key) in classes {
        let share = Share::of(class.used_bytes(), class.capacity_bytes);
        let is_full = share.is_some_and(|share| share.permille() >= NEARLY_FULL_PERMILLE);
        if is_full && found.is_empty() {
            let text = format!(
                "device {id}: {name} {} full, {} free",
                percent(share, "").trim_start(),
                bytes(class.free_bytes().unwrap_or(0)),
            );
            found.push(danger(text, key));
        }
    }
    found
}

/// Free memory of a class that a request cannot have.
fn fragmented(device: &Device) -> Option<Problem> {
    let split = |class: &ClassUsage| {
        let (free, fit) = (class.free_bytes()?, class.largest_fit_bytes()?);
        let worth = class.capacity_bytes? / WORTH;
        (free > worth && fit < free / PIECES).then_some((free, fit))
    };
    let classes = [
        (labels::DRAM, &device.dram),
        (labels::L1_BUFFERS, &device.l1),
    ];
    let mut classes = classes.into_iter();
    classes.find_map(|(name, class)| {
        let (free, fit) = split(class)?;
        let text = format!(
            "device {}: {name} has {} free, but the {} is {}",
            device.id,
            bytes(free),
            labels::LARGEST_FIT,
            bytes(fit),
        );
        Some(warning(text, '4'))
    })
}

fn tight(device: &Device) -> Option<Problem> {
    let headroom = device.cb_headroom_bytes?;
    let id = device.id;
    match headroom {
        ..0 => {
            let size = labels::headroom(headroom);
            let text = format!("device {id}: CBs and an L1 buffer lie at one place, {size}");
            Some(danger(text, '4'))
        }
        0..labels::NARROW_HEADROOM_BYTES => {
            let size = labels::headroom(headroom);
            let text = format!(
                "device {id}: {} is {size} on the tightest core",
                labels::CB_HEADROOM
            );
            Some(warning(text, '4'))
        }
        _wide => None,
    }
}

fn name(pid: Option<u32>, name: Option<&str>) -> String {
    let pid = pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
    let name = name.unwrap_or_default();
    format!("pid {pid} {name}").trim_end().to_owned()
}

fn name_of(process: &Process) -> String {
    name(process.pid, labels::process_name(process))
}

/// The processes that grow from mark to mark.
fn growing(data: &Data) -> Vec<Problem> {
    let Some(leaks) = data.leaks.as_ref() else {
        return Vec::new();
    };
    let growing = leaks.document.growing_processes().into_iter();
    let problem = |growing: GrowingProcess<'_>| {
        let group = &growing.fastest.group;
        let name = name(group.pid, group.process.as_deref());
        warning(format!("{name} grows: {}", growing.sentence()), '8')
    };
    growing.map(problem).collect()
}

/// The processes that grew until they closed their devices or ended: nobody frees that any more.
fn grew(data: &Data) -> Vec<Problem> {
    let leaks = data.leaks.as_ref().map(|fresh| &fresh.document);
    let held = leaks.map_or(&[][..], |leaks| &leaks.held_at_close);
    let mut found: Vec<(&LeakGroup, u64, u64)> = Vec::new();
    for HeldAtClose { group, growing } in held {
        if !growing || !data.is_of_interest(group) {
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
    let problem = |(group, size, lines): (&LeakGroup, u64, u64)| {
        let who = name(group.pid, group.process.as_deref());
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
        warning(text, '8')
    };
    found.into_iter().map(problem).collect()
}

fn untrusted(snapshot: &Snapshot) -> Vec<Problem> {
    let mut found = Vec::new();
    for process in &snapshot.processes {
        if let Some(why) = labels::incomplete(process) {
            let text = format!("tracking of {} is incomplete: {why}", name_of(process));
            found.push(danger(text, '2'));
        }
    }
    for device in &snapshot.devices {
        if device.verified == Some(false) {
            let text = format!("device {}: {}", device.id, labels::checked(device.verified));
            found.push(danger(text, '3'));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::world::{Names, World};
    use ttmem_report::Timestamp;

    /// A snapshot in which nothing is wrong.
    fn sound() -> Snapshot {
        let world = World {
            devices: 2,
            processes: 1,
            busy: false,
            names: Names::Usual,
        };
        let mut snapshot = world.data().totals().expect("a snapshot").clone();
        for device in &mut snapshot.devices {
            let banks = u64::from(device.dram.banks.expect("known"));
            let free = device.dram.free_bytes().expect("known");
            device.dram.largest_free_bytes_per_bank = Some(free / banks);
            let banks = u64::from(device.l1.banks.expect("known"));
            let free = device.l1.free_bytes().expect("known");
            device.l1.largest_free_bytes_per_bank = Some(free / banks);
        }
        snapshot
    }

    /// What is said of a snapshot after one thing in it went wrong.
    fn said(change: impl Fn(&mut Snapshot)) -> Vec<String> {
        let mut snapshot = sound();
        change(&mut snapshot);
        of_snapshot(&snapshot)
    }

    #[test]
    fn each_problem_is_named_and_nothing_wrong_is_nothing() {
        assert_eq!(said(|_| {}), [""; 0]);
        let refused = said(|snapshot| {
            let then = snapshot.time.unix_nanos() - 5_000_000_000;
            snapshot.failures.newest = Some(Timestamp::from_unix_nanos(then));
        });
        assert_eq!(
            refused,
            ["memory was refused 5 s ago: `ttmem explain` says why"]
        );
        let of_ended = |seconds: u64| {
            said(|snapshot| {
                let then = snapshot.time.unix_nanos() - seconds * 1_000_000_000;
                snapshot.failures.newest = Some(Timestamp::from_unix_nanos(then));
                snapshot.processes[0].state = ttmem_report::ProcessState::Exited;
                snapshot.devices[1].verified = Some(false);
            })
        };
        let differs = "device 1: DIFFERS from the allocator";
        let ended = "memory was refused 1 min 59 s ago, to a process that has ended: `ttmem explain` \
                     says why";
        assert_eq!(of_ended(119), [differs, ended]);
        assert_eq!(of_ended(120), [differs]);
        let held = said(|snapshot| {
            let held = &mut snapshot.processes[0].leak_candidates;
            (held.buffers, held.bytes) = (3, 3 << 20);
        });
        assert_eq!(held, [""; 0], "what is held at close is usual");
        let full = said(|snapshot| {
            let dram = &mut snapshot.devices[1].dram;
            dram.capacity_bytes = Some(100 << 20);
            dram.union_bytes = Some(95 << 20);
            dram.largest_free_bytes_per_bank = Some((5 << 20) / 12);
        });
        assert_eq!(full, ["device 1: DRAM 95.0% full, 5.0 MiB free"]);
        let just_below = said(|snapshot| {
            let dram = &mut snapshot.devices[1].dram;
            dram.capacity_bytes = Some(1000 << 20);
            dram.union_bytes = Some(949 << 20);
            dram.largest_free_bytes_per_bank = Some((51 << 20) / 12);
        });
        assert_eq!(just_below, [""; 0]);
        let fragmented = said(|snapshot| {
            let dram = &mut snapshot.devices[0].dram;
            dram.capacity_bytes = Some(12 << 30);
            dram.union_bytes = Some(6 << 30);
            dram.largest_free_bytes_per_bank = Some(8 << 20);
        });
        let words = "device 0: DRAM has 6.0 GiB free, but the largest fit is 96.0 MiB";
        assert_eq!(fragmented, [words]);
        let tight = said(|snapshot| snapshot.devices[0].cb_headroom_bytes = Some(12_288));
        assert_eq!(
            tight,
            ["device 0: CB headroom is 12.0 KiB on the tightest core"]
        );
        let wide = said(|snapshot| snapshot.devices[0].cb_headroom_bytes = Some(16_384));
        assert_eq!(wide, [""; 0]);
        let over = said(|snapshot| snapshot.devices[0].cb_headroom_bytes = Some(-4096));
        let words = "device 0: CBs and an L1 buffer lie at one place, overlap of 4.0 KiB";
        assert_eq!(over, [words]);
        let lost = said(|snapshot| {
            let process = &mut snapshot.processes[0];
            process.incomplete = true;
            process.incomplete_reasons =
                [("events_lost", 3, None), ("not_tracked", 1, Some("no `x`"))]
                    .map(|(reason, count, detail)| ttmem_report::IncompleteReason {
                        reason: reason.to_owned(),
                        count,
                        detail: detail.map(str::to_owned),
                    })
                    .to_vec();
        });
        assert_eq!(
            lost,
            ["tracking of pid 70100 python3 is incomplete: 3 events lost, no `x`"]
        );
        let differs = said(|snapshot| snapshot.devices[1].verified = Some(false));
        assert_eq!(differs, ["device 1: DIFFERS from the allocator"]);
    }

    #[test]
    fn a_process_that_grows_is_said_as_the_server_says_it() {
        let now = std::time::Instant::now();
        let mut data = World {
            devices: 1,
            processes: 1,
            busy: false,
            names: Names::Usual,
        }
        .data();
        data.failures = None;
        data.snapshot.as_mut().expect("one").document = sound();
        assert_eq!(problems(&data), []);
        let leaks = crate::testing::leaks();
        let said = leaks.growing[0].sentence();
        data.apply(crate::data::Update::Leaks(Box::new(leaks)), now);
        let texts = |data: &Data| -> Vec<String> {
            let problems = problems(data).into_iter();
            problems.map(|one| one.text).collect()
        };
        // What is held by a process that is not listed any more concerns nobody.
        assert_eq!(texts(&data), [format!("pid 4242 grows: {said}")]);
        let snapshot = &mut data.snapshot.as_mut().expect("one").document;
        let process = &mut snapshot.processes[0];
        (process.pid, process.instance) = (Some(4242), None);
        data.leaks.as_mut().expect("some").document.growing.clear();
        let closed = "pid 4242 grew until its device was closed: 4.0 KiB held, model.py:57";
        assert_eq!(texts(&data), [closed]);
        let leaks = &mut data.leaks.as_mut().expect("some").document;
        for held in &mut leaks.held_at_close {
            (held.growing, held.group.departed) = (true, true);
        }
        let ended = "pid 4242 grew until it ended: 8.0 KiB held, model.py:57 and 1 other line";
        assert_eq!(texts(&data), [ended]);
    }

    #[test]
    fn the_line_of_python_is_on_every_screen() {
        let problem = Line {
            text: "! pid 70100 python3, device 0: L1 is fragmented: ttnn.conv2d (model.py:1257) \
                   needs 16.0 MiB in one piece in each of 12 banks; 511.0 MiB are free, but the \
                   largest free block has 8.0 MiB. (12 s ago) (and 3 failures before)"
                .to_owned(),
            ink: Ink::Danger,
            key: " [9], 3 more".to_owned(),
        };
        for (columns, rows, lines) in [(80, 24, 2), (100, 30, 3), (160, 45, 2), (300, 90, 1)] {
            let screen = ratatui::layout::Rect::new(0, 0, columns, rows);
            let shown = crate::frame::problem_lines(screen, &problem);
            assert_eq!(shown.len(), lines, "{shown:?}");
            assert!(shown.concat().contains("(model.py:1257)"), "{shown:?}");
            let room = usize::from(columns) - problem.key.len();
            let fits = |line: &String| crate::widgets::text::width(line) <= room;
            assert!(shown.iter().all(fits), "{shown:?}");
            assert_eq!(shown.concat().ends_with('…'), columns == 80, "{shown:?}");
        }
    }

    #[test]
    fn the_worst_comes_first_and_the_key_is_kept() {
        let mut data = World {
            devices: 8,
            processes: 40,
            busy: true,
            names: Names::Usual,
        }
        .data();
        let failed = line(&data).expect("much is wrong");
        assert!(failed.key.starts_with(" [9], "), "{failed:?}");
        data.failures = None;
        let first = line(&data).expect("much is wrong");
        assert!(first.text.starts_with("! device 0: DRAM 9"), "{first:?}");
        assert!(first.key.starts_with(" [6], "), "{first:?}");
        data.snapshot = None;
        assert_eq!(line(&data), None);
    }
}
