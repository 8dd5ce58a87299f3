//! `/dev/shm`, what TT-Metal keeps there, and what containers hide.

use super::{Check, State};
use crate::run::quoted;
use std::path::Path;
use ttmem_machine::shm::{LeftOut, ReadRegionError, RefuseRegion, SharedMemory};
use ttmem_machine::{Machine, Reading, Sample, Unread};
use ttmem_report::size_text;

/// With less than this no file of upstream's fits.
const LEAST_FREE_BYTES: u64 = 64 << 10;

/// Files that are named: as many as a machine has chips.
const MOST_NAMED: usize = 32;

/// Files that are not understood and said why.
const MOST_TOLD: usize = 4;

pub(super) fn checks(machine: &Machine, sample: &Sample) -> Vec<Check> {
    let upstream = upstream(&sample.regions, &sample.left_out);
    vec![folder(machine), upstream, namespaces(machine)]
}

fn folder(machine: &Machine) -> Check {
    let check = |state, found: String| Check::new("shm", state, found);
    match &machine.shm {
        None => check(
            State::Warning,
            "/dev/shm is not mounted: TT-Metal cannot keep its counters".to_owned(),
        )
        .with("`sudo mount -t tmpfs tmpfs /dev/shm`; containers get one from their runtime"),
        Some(mount) if mount.options.split(',').any(|option| option == "ro") => check(
            State::Warning,
            "/dev/shm is mounted to be read only: TT-Metal cannot keep its counters".to_owned(),
        )
        .with("`sudo mount -o remount,rw /dev/shm`"),
        Some(_mount) if machine.may_write_shm == Err(Unread::Denied) => check(
            State::Warning,
            "this user may not write to /dev/shm: TT-Metal cannot keep its counters".to_owned(),
        )
        .with("`sudo chmod 1777 /dev/shm`"),
        Some(mount) => match mount.free_bytes {
            Some(free) if free < LEAST_FREE_BYTES => {
                check(State::Warning, format!("/dev/shm is full: {free} B free")).with(
                    "see what is there: `ls -l /dev/shm`; a container has more with `--shm-size`",
                )
            }
            Some(free) => check(
                State::Ok,
                format!("/dev/shm: {}, {} MiB free", mount.kind, free >> 20),
            ),
            None => check(State::Ok, format!("/dev/shm: {}", mount.kind)),
        },
    }
}

/// TT-Metal's own counters.
fn upstream(regions: &Reading<Vec<SharedMemory>>, left_out: &[LeftOut]) -> Check {
    let check = |state, found: String| Check::new("tt-metal", state, found);
    let files = match regions {
        Err(error) => {
            return check(
                State::Info,
                format!("its counters cannot be listed: {error}"),
            );
        }
        Ok(files) if files.is_empty() => {
            return check(
                State::Info,
                "no process has left counters in /dev/shm".to_owned(),
            );
        }
        Ok(files) => files,
    };
    let mut parts = vec![format!("counters of chips: {}", files.len())];
    if !left_out.is_empty() {
        parts.push("there are more files, which were not read".to_owned());
    }
    let mut remedies: Vec<String> = Vec::new();
    let failed = |is: &dyn Fn(&ReadRegionError) -> bool| {
        files
            .iter()
            .filter(|file| file.content.as_ref().err().is_some_and(is))
            .count()
    };
    let denied = failed(&|error| *error == ReadRegionError::Denied);
    if denied > 0 {
        parts.push(format!("of other users: {denied}"));
        remedies.push(
            "run `ttmem doctor` as their user or as root: TT-Metal lets nobody else read them"
                .to_owned(),
        );
    }
    let unknown = failed(&|error| {
        matches!(
            error,
            ReadRegionError::Refused(RefuseRegion::UnknownVersion { .. })
        )
    });
    if unknown > 0 {
        parts.push(format!("of a version that is not known: {unknown}"));
        remedies.push("a newer ttmem may know it; `ttmem run` does not need it".to_owned());
    }
    let others = files.iter().filter(|file| is_odd_file(file));
    let others = others.filter_map(|file| {
        let error = file.content.as_ref().err()?;
        Some(format!("{}: {error}", file.path.display()))
    });
    let others: Vec<String> = others.collect();
    let is_odd = !others.is_empty();
    if is_odd {
        let hangs = |file: &&SharedMemory| {
            let hung = ReadRegionError::Unread(Unread::Hung);
            file.content.as_ref().err() == Some(&hung)
        };
        let odd = files.iter().filter(|file| is_odd_file(file));
        let (hung, odd): (Vec<_>, Vec<_>) = odd.partition(hangs);
        if !odd.is_empty() {
            remedies.push(format!(
                "such a file was left by a writer that died, or is none of TT-Metal's: when no program uses the device, {}",
                removal(&odd)
            ));
        }
        if !hung.is_empty() {
            remedies.push("see `reading` below for what does not answer".to_owned());
        }
    }
    let more = others.len().saturating_sub(MOST_TOLD);
    parts.extend(others.into_iter().take(MOST_TOLD));
    if more > 0 {
        parts.push(format!("and {more} more that are not understood"));
    }
    let read = || {
        files
            .iter()
            .filter_map(|file| Some((file, file.content.as_ref().ok()?)))
    };
    let full: Vec<&SharedMemory> = read()
        .filter(|(_file, content)| content.is_full_of_gone())
        .map(|(file, _content)| file)
        .collect();
    if let Some(first) = full.first() {
        let named = match full.len() {
            1 => first.path.display().to_string(),
            more => more.to_string(),
        };
        parts.push(format!(
            "in {named} every slot is taken: TT-Metal does not count programs that start now"
        ));
    }
    let stale: Vec<&SharedMemory> = read()
        .filter(|(_file, content)| !content.left_behind().is_zero() || content.is_full_of_gone())
        .map(|(file, _content)| file)
        .collect();
    if !stale.is_empty() {
        let bytes = read().fold(0_u64, |sum, (_file, content)| {
            let classes = content.left_behind().classes();
            classes
                .iter()
                .fold(sum, |sum, (_class, bytes)| sum.saturating_add(*bytes))
        });
        let count = match stale.len() {
            1 => "1 of them still counts".to_owned(),
            more => format!("{more} of them still count"),
        };
        parts.push(format!(
            "{count} {} for processes that are gone",
            size_text(bytes)
        ));
        remedies.push(format!(
            "no memory is held for them, only TT-Metal's counters are too high since a program was killed. \
             When no program uses the devices, they are reset by {}",
            removal(&stale)
        ));
    }
    let is_odd = is_odd || !left_out.is_empty();
    let state = match (denied, is_odd || unknown > 0 || !stale.is_empty()) {
        (_, true) => State::Warning,
        (0, false) => State::Ok,
        (_, false) => State::Info,
    };
    let check = check(state, parts.join("; "));
    match remedies.is_empty() {
        true => check,
        false => check.with(remedies.join("; ")),
    }
}

/// The command that removes some files: so many that it can be read and typed, and what of the others.
fn removal(files: &[&SharedMemory]) -> String {
    let named = files.iter().take(MOST_NAMED);
    let named: Vec<String> = named.map(|file| shell_word(&file.path)).collect();
    let command = format!("`rm {}`", named.join(" "));
    match files.len() - named.len() {
        0 => command,
        more => format!("{command}, and then {more} more that `ttmem doctor` names"),
    }
}

/// A path as it is typed: a copy of another machine's files may lie in a folder of any name.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    match text.chars().all(is_plain) {
        true => text,
        false => quoted(&text),
    }
}

/// Whether a file is refused for what it is, and not for whose or how new it is.
fn is_odd_file(file: &SharedMemory) -> bool {
    let known = |error: &ReadRegionError| {
        matches!(
            error,
            ReadRegionError::Denied | ReadRegionError::Refused(RefuseRegion::UnknownVersion { .. })
        )
    };
    file.content.as_ref().is_err_and(|error| !known(error))
}

fn namespaces(machine: &Machine) -> Check {
    let check = |state, found: String| Check::new("namespaces", state, found);
    let spaces = &machine.namespaces;
    let mut own = Vec::new();
    for (name, is_first) in [
        ("processes", &spaces.is_first_pid),
        ("IPC", &spaces.is_first_ipc),
        ("users", &spaces.is_first_user),
    ] {
        match is_first {
            Ok(true) => {}
            Ok(false) => own.push(name),
            Err(error) => return check(State::Info, format!("cannot be told: {error}")),
        }
    }
    if own.is_empty() {
        return check(
            State::Ok,
            "not in a container: processes are seen as the machine sees them".to_owned(),
        );
    }
    check(
        State::Info,
        format!(
            "a container: {} of its own; programs outside are not seen",
            own.join(", ")
        ),
    )
    .with("to see them, start the container with `--pid=host --ipc=host`")
}
