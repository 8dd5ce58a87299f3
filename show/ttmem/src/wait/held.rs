//! Who holds a process's or a device's memory, by the server, the driver and the descriptors of processes.

use super::process::{Running, Watched};
use ttmem_machine::{
    Chip, Holder, Reader, Reading, Roots, Selector, Unread, holders, open_files, ordinals,
};
use ttmem_report::{Device, Process, ProcessDevice, ProcessState, Snapshot, size_text};

/// One thing that is waited for.
#[derive(Debug)]
pub(super) struct Reason {
    /// The same as long as the same one holds it, however much.
    pub(super) key: String,
    pub(super) text: String,
}

/// All of them; none if it is released.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) reasons: Vec<Reason>,
    /// Processes whose descriptors this user may not see, where the driver does not say who has a device open.
    pub(super) hidden: u32,
    /// Whether another process has the number of the one that was named.
    pub(super) is_reused: bool,
}

impl Held {
    fn add(&mut self, key: String, text: String) {
        self.reasons.push(Reason { key, text });
    }

    fn add_untold(&mut self, ordinal: u32, error: &Unread) {
        self.add(
            format!("driver {ordinal}"),
            format!("the driver does not say who has /dev/tenstorrent/{ordinal} open: {error}"),
        );
    }

    /// The devices of the driver; none without one. One that does not say which it has may have any.
    fn listed(&mut self, ordinals: Reading<Vec<u32>>) -> Vec<u32> {
        match ordinals {
            Ok(ordinals) => ordinals,
            Err(Unread::Missing) => Vec::new(),
            Err(error) => {
                let text = format!("the driver does not say which devices there are: {error}");
                self.add("driver".to_owned(), text);
                Vec::new()
            }
        }
    }
}

/// What one process still has.
pub(super) fn by_process(
    process: &Watched,
    state: &Running,
    roots: &Roots,
    reader: &mut Reader,
    snapshot: Option<&Snapshot>,
) -> Held {
    let mut held = Held::default();
    if *state == Running::Yes {
        held.add("runs".to_owned(), "it is still running".to_owned());
    }
    let entries = snapshot
        .into_iter()
        .flat_map(|snapshot| &snapshot.processes);
    let entries = entries.filter(|entry| process.is(entry, *state) && is_counted(entry));
    let devices = entries.flat_map(|entry| &entry.devices);
    if let Some(counted) = Counted::of(devices).text() {
        let text = format!("the server counts {counted} for it");
        held.add("server".to_owned(), text);
    }
    // Who has its number now has its own devices open.
    if matches!(state, Running::Reused(_)) {
        held.is_reused = true;
        return held;
    }
    for ordinal in held.listed(ordinals(roots, reader)) {
        let has = match holders(roots, reader, ordinal) {
            Ok(has) => has,
            Err(Unread::Missing) => continue,
            Err(error) => {
                held.add_untold(ordinal, &error);
                continue;
            }
        };
        let is_it = |holder: &Holder| u32::try_from(holder.pid) == Ok(process.pid);
        if has.iter().any(is_it) {
            let who = match state {
                Running::Yes => "it has",
                _gone => "a process that it started has",
            };
            held.add(
                format!("driver {ordinal}"),
                format!("{who} /dev/tenstorrent/{ordinal} open"),
            );
        }
    }
    held
}

/// What anybody has of all devices.
pub(super) fn by_anybody_of_all(
    roots: &Roots,
    reader: &mut Reader,
    snapshot: Option<&Snapshot>,
) -> Held {
    let mut unknown = Held::default();
    let listed = unknown.listed(ordinals(roots, reader));
    let mut held = by_anybody(listed, |_device| true, roots, reader, snapshot);
    held.reasons.extend(unknown.reasons);
    held
}

/// What anybody has of some devices.
pub(super) fn by_anybody(
    ordinals: Vec<u32>,
    is_meant: impl Fn(&Device) -> bool,
    roots: &Roots,
    reader: &mut Reader,
    snapshot: Option<&Snapshot>,
) -> Held {
    let mut held = Held::default();
    if let Some(snapshot) = snapshot {
        by_account(&mut held, snapshot, &is_meant);
        if ordinals.is_empty() {
            by_servers_machine(&mut held, snapshot, &is_meant);
        }
    }
    let mut untold = Vec::new();
    let mut ordinals = ordinals;
    ordinals.sort_unstable();
    ordinals.dedup();
    for ordinal in &ordinals {
        match holders(roots, reader, *ordinal) {
            Ok(has) => by_descriptors(&mut held, *ordinal, &has),
            // Before 2.5.0 the driver does not say.
            Err(Unread::Missing) => untold.push(*ordinal),
            Err(error) => held.add_untold(*ordinal, &error),
        }
    }
    // Looking through all descriptors is for the end, and for drivers that say nothing.
    if held.reasons.is_empty() && !ordinals.is_empty() {
        let found = open_files(roots, reader);
        by_open_files(&mut held, &ordinals, &untold, found);
    }
    held
}

fn by_open_files(
    held: &mut Held,
    ordinals: &[u32],
    untold: &[u32],
    found: Reading<ttmem_machine::OpenFiles>,
) {
    match found {
        Ok(found) => {
            for (ordinal, has) in &found.holders {
                if ordinals.contains(ordinal) {
                    by_descriptors(held, *ordinal, has);
                }
            }
            if !untold.is_empty() {
                held.hidden = found.hidden;
                for (pid, error) in &found.unread {
                    let text = format!("what process {pid} has open cannot be read: {error}");
                    held.add(format!("descriptors {pid}"), text);
                }
            }
        }
        Err(_error) if untold.is_empty() => {}
        Err(error) => held.add(
            "descriptors".to_owned(),
            format!("nobody says who has the device open: {error}"),
        ),
    }
}

fn by_descriptors(held: &mut Held, ordinal: u32, has: &[Holder]) {
    for Holder { pid, name, .. } in has {
        let who = match (pid, name) {
            (0, _) => "a process outside of this container".to_owned(),
            (pid, Some(name)) => format!("process {pid} ({name})"),
            (pid, None) => format!("process {pid}"),
        };
        let text = format!("{who} has /dev/tenstorrent/{ordinal} open");
        held.add(format!("open {ordinal} {pid}"), text);
    }
}

fn named(pid: Option<u32>, name: Option<&str>) -> String {
    let pid = pid.map_or("?".to_owned(), |pid| pid.to_string());
    let called = name.map(|name| format!(" ({name})"));
    format!("process {pid}{}", called.unwrap_or_default())
}

/// Where there is no driver to ask, as in a container, whom the server sees with a device open.
fn by_servers_machine(held: &mut Held, snapshot: &Snapshot, is_meant: impl Fn(&Device) -> bool) {
    let users = snapshot
        .machine
        .iter()
        .flat_map(|machine| &machine.processes);
    for user in users.filter(|user| user.is_not_attached()) {
        for device in snapshot.devices.iter().filter(|device| is_meant(device)) {
            let key = device.key();
            let mut on = user.devices.iter().filter(|on| on.key() == key);
            if !on.any(|on| on.descriptors.is_some_and(|count| count > 0)) {
                continue;
            }
            let who = named(user.pid, user.name.as_deref());
            let name = device.short_name();
            held.add(
                format!("seen {name} {who}"),
                format!("the server sees {who} with device {name} open"),
            );
        }
    }
}

fn by_account(held: &mut Held, snapshot: &Snapshot, is_meant: impl Fn(&Device) -> bool) {
    for device in snapshot.devices.iter().filter(|device| is_meant(device)) {
        let name = device.short_name();
        let all = device.held();
        let mut rest = Counted {
            programs: all.cb.saturating_add(all.kernel),
            buffers: all.buffers(),
        };
        for process in snapshot
            .processes
            .iter()
            .filter(|process| is_counted(process))
        {
            let has = process
                .devices
                .iter()
                .filter(|has| has.key() == device.key());
            let has = Counted::of(has);
            let Some(counted) = has.text() else {
                continue;
            };
            rest = rest.without(has);
            let who = named(process.pid, process.name.as_deref());
            held.add(
                format!("server {name} {who}"),
                format!("the server counts {counted} of {who} on device {name}"),
            );
        }
        if let Some(counted) = rest.text() {
            let text = format!("the server counts {counted} on device {name}");
            held.add(format!("server {name}"), text);
        }
    }
}

/// Whether what an entry has is held: of one that ended only peaks are left.
fn is_counted(process: &Process) -> bool {
    process.state != ProcessState::Exited
}

/// What the server counts.
#[derive(Clone, Copy)]
struct Counted {
    buffers: u64,
    /// Storage of programs. That of cached ones is not on the device at the same time, so no figure of it is said.
    programs: u64,
}

impl Counted {
    fn of<'a>(devices: impl Iterator<Item = &'a ProcessDevice>) -> Self {
        let none = Self {
            buffers: 0,
            programs: 0,
        };
        devices.fold(none, |sum, device| {
            let programs = device.cb_bytes.saturating_add(device.kernel_bytes);
            Self {
                buffers: sum.buffers.saturating_add(device.buffer_bytes()),
                programs: sum.programs.saturating_add(programs),
            }
        })
    }

    fn without(self, other: Self) -> Self {
        Self {
            buffers: self.buffers.saturating_sub(other.buffers),
            programs: self.programs.saturating_sub(other.programs),
        }
    }

    fn text(self) -> Option<String> {
        match self.buffers {
            0 if self.programs == 0 => None,
            0 => Some("programs".to_owned()),
            buffers => Some(format!("{} of buffers", size_text(buffers))),
        }
    }
}

/// Whether a device of the server is one of the chips, or, where there is no driver, the one that was named.
pub(super) fn is_meant(selector: &Selector, chips: &[Chip], device: &Device) -> bool {
    let has_id = |id: Option<u64>| id.is_some() && device.unique_id.map(|own| own.0) == id;
    let has_number = |number: u32| device.id == number && device.scope.is_none();
    if chips.is_empty() {
        return match *selector {
            Selector::Logical(number) => has_number(number),
            Selector::Id(id) => has_id(Some(id)),
            _ => false,
        };
    }
    let mut chips = chips.iter();
    chips.any(|chip| has_id(chip.asic_id) || has_number(chip.logical_id))
}
