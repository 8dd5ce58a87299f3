//! What the machine says, put together with what attached processes report.
//!
//! What a process reports by itself is exact and is what documents show. TT-Metal's counters stand beside it:
//! of processes that are not attached they are all there is, of those that are the difference is told.

use super::figures;
use super::matching::{MatchedBy, Matches};
use super::{Looked, MachineFigures};
use crate::read::snapshot::identity;
use crate::read::vocabulary;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use ttmem_event::Class;
use ttmem_ledger::{Audience, ProcessView, View};
use ttmem_machine::shm::{Content, LeftOut, SOURCE, SharedMemory};
use ttmem_machine::{Liveness, Person, Selector, Unread};
use ttmem_report::{
    DeviceNames, DeviceUser, HexId, Machine, Telemetry, Timestamp, UnmatchedUse, Upstream,
    UpstreamBytes, UpstreamDifference, UsedDevice, size_text,
};

/// More processes than devices are ever shared by; the machine's own limits are higher.
const MAX_USERS: usize = 4096;

/// Processes that are gone and listed per file, and in all; the bytes of all of them are counted.
const MAX_GONE_OF_FILE: usize = 16;
const MAX_GONE: usize = 1024;

/// Owners of files that were not read and are named.
const MAX_NAMED_OWNERS: usize = 8;

/// What the machine says, for the readers of one view.
#[derive(Debug)]
pub(crate) struct Joined {
    looked: Arc<Looked>,
    matches: Matches,
    stale: Option<Duration>,
    users: Vec<User>,
    /// Processes that are not listed.
    users_left_out: usize,
    /// By file: what is believed of it.
    met: HashMap<usize, Met>,
}

/// A process that the machine speaks of, and on which devices of the view.
#[derive(Debug)]
struct User {
    shown: DeviceUser,
    /// Whether the driver says that it has a device open.
    is_holder: bool,
    devices: BTreeMap<usize, UsedDevice>,
}

impl Joined {
    /// What the machine says; `None` where nobody looks.
    pub(crate) fn of(view: &View, figures: &MachineFigures) -> Option<Self> {
        Some(Self::with(view, figures.latest()?))
    }

    /// What one look found, for the readers of a view.
    pub(super) fn with(view: &View, looked: Arc<Looked>) -> Self {
        let matches = Matches::of(view, &looked.sample);
        let mut joined = Self {
            stale: looked.stale_for(),
            matches,
            looked,
            users: Vec::new(),
            users_left_out: 0,
            met: HashMap::new(),
        };
        if joined.stale.is_none() {
            joined.meet_users(view);
        }
        joined
    }

    /// What is known of a device, by its place in the view.
    pub(crate) fn add_to(&self, index: usize, device: &mut ttmem_report::Device) {
        device.names = self.names(index);
        if self.stale.is_none() {
            device.telemetry = self.telemetry(index);
            device.upstream = self.upstream_of(index);
        }
    }

    /// Whether a device is only in the list because the machine has it, while processes use it under its own id.
    pub(crate) fn is_known_otherwise(&self, view: &View, index: usize) -> bool {
        let Some(chip) = self.matches.chips.get(index).copied().flatten() else {
            return false;
        };
        let mut chips = self.matches.chips.iter().enumerate();
        view.devices[index].source.is_none()
            && chips.any(|(other, its)| *its == Some(chip) && view.devices[other].source.is_some())
    }

    fn names(&self, index: usize) -> Option<DeviceNames> {
        let chip = (*self.matches.chips.get(index)?)?;
        Some(figures::names(&self.looked.sample.chips[chip]))
    }

    /// A chip behind another has none: the driver reads that of the card's own.
    fn telemetry(&self, index: usize) -> Option<Telemetry> {
        let sample = &self.looked.sample;
        let chip = &sample.chips[(*self.matches.chips.get(index)?)?];
        let cards = sample.devices.as_deref().unwrap_or_default();
        let card = cards.iter().find(|card| card.ordinal == chip.ordinal)?;
        (!chip.is_remote).then(|| figures::telemetry(card))
    }

    /// What the files of a device say together: each owner can only tell of their own processes.
    fn upstream_of(&self, index: usize) -> Option<Upstream> {
        let files = self.matches.files.get(index)?.iter();
        let mut files = files.map(|(file, by)| self.upstream(*file, Some(*by)));
        let mut all = files.next()?;
        let (unread, more): (Vec<Upstream>, Vec<Upstream>) =
            files.partition(|file| file.error.is_some());
        let sum = |one: Option<UpstreamBytes>, more: Option<UpstreamBytes>| {
            one.into_iter().chain(more).reduce(UpstreamBytes::plus)
        };
        for other in &more {
            all.updated = all.updated.max(other.updated);
            all.bytes = sum(all.bytes, other.bytes);
            all.left_behind = sum(all.left_behind, other.left_behind);
            all.not_attached = sum(all.not_attached, other.not_attached);
            let differences = all.difference.into_iter().chain(other.difference);
            all.difference = differences.reduce(added);
        }
        all.difference_text = all.difference.as_ref().and_then(difference_text);
        all.doubts.extend(added_up(&more));
        all.doubts.extend(left_unread(&unread));
        Some(all)
    }

    /// Everything that is not of one device.
    pub(crate) fn machine(&self) -> Machine {
        let users = self.users.iter().map(User::on_all);
        let unmatched = if self.stale.is_some() {
            Vec::new()
        } else {
            self.matches.unmatched(self.files().len())
        };
        let unmatched = unmatched.into_iter().map(|file| self.upstream(file, None));
        Machine {
            time: self.looked.time,
            processes: users.collect(),
            unmatched: unmatched.collect(),
            upstream_limits: figures::limits(),
            errors: self.errors(),
        }
    }

    /// Who has a device, with what they have there.
    pub(crate) fn users_of(&self, index: usize) -> Vec<DeviceUser> {
        let users = self.users.iter();
        users.filter_map(|user| user.on(index)).collect()
    }

    /// The devices of a view that a selector means.
    pub(crate) fn meant(&self, selector: &Selector) -> Vec<usize> {
        let chips = self.matches.chips.iter().enumerate();
        let meant = chips.filter(|(_device, chip)| {
            chip.is_some_and(|chip| selector.means(&self.looked.sample.chips[chip]))
        });
        meant.map(|(device, _chip)| device).collect()
    }

    fn files(&self) -> &[SharedMemory] {
        self.looked.sample.regions.as_deref().unwrap_or_default()
    }

    fn errors(&self) -> Vec<String> {
        if let Some(age) = self.stale {
            let age = age.as_secs();
            return vec![format!(
                "nothing was read from this machine for {age} s: a file does not answer"
            )];
        }
        let sample = &self.looked.sample;
        let stuck = sample.stuck.iter();
        let stuck = stuck.map(|path| format!("reading {} hangs", path.display()));
        let mut errors: Vec<String> = stuck.collect();
        // Without the driver, and without counters, there is nothing wrong.
        let failed = |what: &str, error: Option<&Unread>| {
            let error = error.filter(|error| **error != Unread::Missing)?;
            Some(format!("{what}: {error}"))
        };
        errors.extend(failed(
            "the driver's devices",
            sample.devices.as_ref().err(),
        ));
        errors.extend(failed("TT-Metal's counters", sample.regions.as_ref().err()));
        errors.extend(files_left_out(&sample.left_out));
        errors.extend(self.without_a_free_slot());
        if self.users_left_out > 0 {
            let count = self.users_left_out;
            let many = if count == 1 {
                "process is"
            } else {
                "processes are"
            };
            errors.push(format!(
                "{count} {many} not listed, those that are gone first"
            ));
        }
        let cards = sample.devices.as_deref().unwrap_or_default();
        for card in cards.iter().filter(|card| card.is_detached()) {
            let ordinal = card.ordinal;
            errors.push(format!(
                "/dev/tenstorrent/{ordinal}: the device is detached"
            ));
        }
        errors
    }

    /// Which counters take nobody more: whoever looks for a program that started now finds nothing of it. Those of other
    /// chips than the devices are of interest only where there are none.
    fn without_a_free_slot(&self) -> Option<String> {
        let of_devices = &self.matches.files;
        let is_meant = |file: usize| {
            let mut matched = of_devices.iter().flatten();
            of_devices.is_empty() || matched.any(|(of_device, _by)| *of_device == file)
        };
        let files = self.files().iter().enumerate();
        let mut full = files.filter(|(place, file)| {
            let content = file.content.as_ref();
            content.is_ok_and(Content::is_full_of_gone) && is_meant(*place)
        });
        let (_place, first) = full.next()?;
        let chips = match full.count() {
            0 => format!("chip {}", HexId(first.id)),
            more => format!("{} chips", more + 1),
        };
        Some(format!(
            "new programs are not counted: TT-Metal's counters of {chips} are full of dead processes; ttmem doctor says what to do"
        ))
    }

    fn upstream(&self, file: usize, by: Option<MatchedBy>) -> Upstream {
        let found = &self.files()[file];
        let content = found.content.as_ref();
        let region = content.map(|content| &content.region);
        let met = self.met.get(&file);
        let difference = met.and_then(|met| met.difference);
        Upstream {
            source: SOURCE.to_owned(),
            id: HexId(found.id),
            matched_by: by.map(|by| by.name().to_owned()),
            owner: found.owner,
            version: region.ok().map(|region| region.version),
            error: content.err().map(ToString::to_string),
            updated: region
                .ok()
                .filter(|region| region.last_update_nanos > 0)
                .map(|region| Timestamp::from_unix_nanos(region.last_update_nanos)),
            bytes: met.and_then(|met| met.bytes),
            left_behind: met.map(|met| met.left_behind),
            not_attached: met.map(|met| met.not_attached),
            difference,
            difference_text: difference.as_ref().and_then(difference_text),
            doubts: doubts(content.ok(), met),
        }
    }

    fn meet_users(&mut self, view: &View) {
        let mut meeting = Meeting {
            view,
            users: BTreeMap::new(),
            gone: 0,
            reported: attached(view),
        };
        let sample = &self.looked.sample;
        for card in sample.devices.as_deref().unwrap_or_default() {
            let devices: Vec<usize> = self.matches.devices_of_card(sample, card.ordinal).collect();
            for holder in card.holders.as_deref().unwrap_or_default() {
                let person = sample.people.get(&holder.pid);
                let name = holder.name.as_deref();
                let (name, uid) = (name, person.and_then(|person| person.uid));
                let user = meeting.user(holder.pid, "alive", (name, uid));
                user.is_holder = true;
                for device in &devices {
                    user.device(view, *device).descriptors = Some(holder.descriptors);
                }
            }
        }
        let of_files: HashMap<usize, usize> = (0..)
            .zip(&self.matches.files)
            .flat_map(|(device, files)| files.iter().map(move |(file, _by)| (*file, device)))
            .collect();
        let files = sample.regions.as_deref().unwrap_or_default();
        // Those of known chips first, for who is listed.
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by_key(|file| !of_files.contains_key(file));
        for file in order {
            let found = &files[file];
            let Ok(content) = &found.content else {
                continue;
            };
            let device = of_files.get(&file).copied();
            let met = meeting.counted(sample, (found, content), device);
            self.met.insert(file, met);
        }
        (self.users, self.users_left_out) = meeting.finish();
    }
}

/// What a file says that does not agree with itself, or that its writer cannot know.
fn doubts(content: Option<&Content>, met: Option<&Met>) -> Vec<String> {
    let Some(content) = content else {
        return Vec::new();
    };
    let changing = content
        .is_changing
        .then(|| "it changed while it was read".to_owned());
    let doubts = content.region.doubts.iter().map(ToString::to_string);
    let met = met.into_iter().flat_map(|met| met.doubts.iter().cloned());
    doubts.chain(changing).chain(met).collect()
}

/// Whose files were not read: the first few, and the others together.
fn files_left_out(left_out: &[LeftOut]) -> Vec<String> {
    let told = |files: usize, owner: String| match files {
        1 => format!("TT-Metal's counters: 1 file of {owner} was not read"),
        _ => format!("TT-Metal's counters: {files} files of {owner} were not read"),
    };
    let mut errors = Vec::new();
    let mut of_others = 0;
    for (place, cut) in left_out.iter().enumerate() {
        match *cut {
            LeftOut::Of { owner, files } if place < MAX_NAMED_OWNERS => {
                errors.push(told(files, format!("user {owner}")));
            }
            LeftOut::Of { files, .. } | LeftOut::OfOthers { files } => of_others += files,
            LeftOut::Unlisted => errors.push(
                "TT-Metal's counters: /dev/shm has too many entries or does not answer, so that only \
                 files of known chips are sure to be read"
                    .to_owned(),
            ),
        }
    }
    if of_others > 0 {
        errors.push(told(of_others, "other users".to_owned()));
    }
    errors
}

/// The processes that report, by pid.
fn attached(view: &View) -> HashMap<u32, Vec<&ProcessView>> {
    let mut attached: HashMap<u32, Vec<&ProcessView>> = HashMap::new();
    for process in &view.processes {
        if let Some(pid) = process.facts.identity.pid {
            attached.entry(pid).or_default().push(process);
        }
    }
    attached
}

/// Gathers what several files say of the same processes.
struct Meeting<'a> {
    view: &'a View,
    users: BTreeMap<UserKey, User>,
    /// Slots of processes that are gone, those that are kept.
    gone: usize,
    reported: HashMap<u32, Vec<&'a ProcessView>>,
}

/// A pid; one that is gone is another than one that runs under the same, and what it left is its file's owner's.
type UserKey = (i32, Option<Option<u32>>);

/// What is believed of one file.
#[derive(Debug, Default)]
struct Met {
    /// Everything that it counts, without what is not believed; none if that cannot be.
    bytes: Option<UpstreamBytes>,
    left_behind: UpstreamBytes,
    not_attached: UpstreamBytes,
    difference: Option<UpstreamDifference>,
    doubts: Vec<String>,
}

/// Slots that are not believed.
#[derive(Default)]
struct Disbelieved {
    of_others: usize,
    too_large: usize,
    bytes: UpstreamBytes,
}

impl Disbelieved {
    fn doubts(&self, owner: Option<u32>) -> Vec<String> {
        let slots = |count: usize| format!("{count} slot{}", if count == 1 { "" } else { "s" });
        let owner = user_text(owner);
        let mut doubts = Vec::new();
        if self.of_others > 0 {
            let slots = slots(self.of_others);
            doubts.push(format!(
                "{slots} not counted: written by another user ({owner}) than the process's"
            ));
        }
        if self.too_large > 0 {
            let slots = slots(self.too_large);
            doubts.push(format!("{slots} not counted: more than the device has"));
        }
        doubts
    }
}

/// The most that a file of a device can count, where that is known.
#[derive(Clone, Copy, Default)]
struct Most {
    dram: Option<u64>,
    l1: Option<u64>,
}

impl Most {
    /// A process may divide the memory otherwise than the one that reported it: the regions are taken together.
    fn of(view: &View, device: Option<usize>, content: &Content) -> Self {
        let Some(device) = device else {
            return Self::default();
        };
        let capacities = &view.devices[device].facts.capacities;
        let bytes = |class: Class| {
            let capacity = capacities[class.index()];
            capacity.map(|capacity| capacity.total_bytes())
        };
        // Before a file was one chip's, it counted for the chips behind it, too.
        let chips = u64::try_from(content.region.chips.len().max(1)).unwrap_or(u64::MAX);
        let both = |one: Class, other: Class| {
            let sum = bytes(one)?.saturating_add(bytes(other).unwrap_or(0));
            Some(sum.saturating_mul(chips))
        };
        Self {
            dram: both(Class::Dram, Class::Trace),
            l1: both(Class::L1, Class::L1Small),
        }
    }

    /// The class of which there cannot be so much. Circular buffers are counted with programs that do not run.
    fn exceeded(self, bytes: &UpstreamBytes) -> Option<(&'static str, u64)> {
        let parts = [
            ("DRAM", bytes.dram, self.dram),
            ("TRACE", bytes.trace, self.dram),
            ("L1", bytes.l1, self.l1),
            ("L1_SMALL", bytes.l1_small, self.l1),
        ];
        let exceeded = |(class, bytes, most): (_, u64, Option<u64>)| {
            most.filter(|most| bytes > *most)
                .map(|_most| (class, bytes))
        };
        parts.into_iter().find_map(exceeded)
    }
}

impl Meeting<'_> {
    fn user(
        &mut self,
        pid: i32,
        state: &str,
        (name, uid): (Option<&str>, Option<u32>),
    ) -> &mut User {
        let is_gone = matches!(state, "dead" | "reused");
        let attached = u32::try_from(pid).ok();
        let attached = attached.and_then(|pid| self.reported.get(&pid));
        let attached = attached.filter(|_found| !is_gone);
        // The kernel told whose connection it is.
        let known = attached.and_then(|found| found.first());
        let uid = known.map_or(uid, |process| Some(process.facts.identity.uid));
        let audience = self.view.audience;
        let is_shown = match uid {
            Some(uid) => audience.may_see(Some(uid)),
            None => audience == Audience::Everything,
        };
        let key = (pid, is_gone.then_some(uid));
        let user = self.users.entry(key).or_insert_with(|| User {
            shown: DeviceUser {
                pid: u32::try_from(pid).ok().filter(|pid| *pid > 0),
                name: None,
                names_hidden: !is_shown,
                uid: uid.and_then(vocabulary::known_user),
                state: state.to_owned(),
                attached: attached.is_some(),
                devices: Vec::new(),
                unmatched: Vec::new(),
                difference_text: None,
            },
            is_holder: false,
            devices: BTreeMap::new(),
        });
        if user.shown.name.is_none() && is_shown {
            user.shown.name = name.and_then(vocabulary::known_text);
        }
        user
    }

    /// The processes of one file.
    fn counted(
        &mut self,
        sample: &ttmem_machine::Sample,
        (file, content): (&SharedMemory, &Content),
        device: Option<usize>,
    ) -> Met {
        let mut met = Met::default();
        let mut disbelieved = Disbelieved::default();
        let mut gone = 0;
        let most = Most::of(self.view, device, content);
        let slots = content.region.processes.iter().zip(&content.liveness);
        for (slot, liveness) in slots.filter(|(slot, _state)| slot.pid > 0) {
            let state = match liveness {
                Liveness::Alive => "alive",
                Liveness::Dead => "dead",
                Liveness::Reused => "reused",
                Liveness::Unknown(_) => "unknown",
            };
            let is_gone = matches!(state, "dead" | "reused");
            let bytes = figures::bytes(&slot.bytes);
            // What is left of a process belongs to whom the file does.
            let person = sample.people.get(&slot.pid).filter(|_person| !is_gone);
            let is_of_other = !is_gone && !file.may_count(self.user_of(slot.pid, person));
            let is_too_large = most.exceeded(&bytes).is_some();
            if is_of_other || is_too_large {
                disbelieved.bytes = disbelieved.bytes.plus(bytes);
                disbelieved.of_others += usize::from(is_of_other);
                disbelieved.too_large += usize::from(!is_of_other);
                continue;
            }
            let uid = person.map_or(file.owner, |person| person.uid);
            let name = person.and_then(|person| person.name.as_deref());
            let name = name.unwrap_or(&slot.name);
            if is_gone {
                met.left_behind = met.left_behind.plus(bytes);
                // Nobody misses one that is gone: what it left is counted.
                if gone >= MAX_GONE_OF_FILE || self.gone >= MAX_GONE {
                    continue;
                }
                gone += 1;
                self.gone += 1;
            }
            let difference = device.and_then(|device| self.difference(slot.pid, device, bytes));
            let view = self.view;
            let user = self.user(slot.pid, state, (Some(name), uid));
            if user.shown.is_not_attached() {
                met.not_attached = met.not_attached.plus(bytes);
            }
            let difference = difference.filter(|_one| user.shown.attached);
            if let Some(difference) = difference {
                let sum = met.difference.unwrap_or_default();
                met.difference = Some(added(sum, difference));
            }
            if let Some(device) = device {
                let used = user.device(view, device);
                used.upstream = Some(used.upstream.unwrap_or_default().plus(bytes));
                used.difference = difference;
            } else {
                user.counted_elsewhere(HexId(file.id), bytes);
            }
        }
        met.doubts = disbelieved.doubts(file.owner);
        let bytes = without(figures::bytes(&content.region.totals), disbelieved.bytes);
        match most.exceeded(&bytes) {
            None => met.bytes = Some(bytes),
            Some((class, bytes)) => met.doubts.push(format!(
                "{class}: {} in all, which is more than the device has",
                size_text(bytes)
            )),
        }
        met
    }

    /// Whose a process is: of one that is attached the kernel told, of others procfs does.
    fn user_of(&self, pid: i32, person: Option<&Person>) -> Option<u32> {
        let attached = u32::try_from(pid).ok();
        let attached = attached.and_then(|pid| self.reported.get(&pid)?.first());
        let attached = attached.map(|process| process.facts.identity.uid);
        attached.or_else(|| person.and_then(|person| person.uid))
    }

    /// What counters have more than an attached process reports on a device: requested bytes, which both know.
    fn difference(
        &self,
        pid: i32,
        device: usize,
        bytes: UpstreamBytes,
    ) -> Option<UpstreamDifference> {
        let reported = self.reported.get(&u32::try_from(pid).ok()?)?;
        let number = u32::try_from(device).ok()?;
        let requested = |class: Class| {
            let held = reported.iter().filter_map(|process| {
                let slot = process.device_slot(number)?;
                let held = process.account.devices.get(slot as usize)?;
                Some(held.totals.class(class).requested_bytes)
            });
            held.fold(0, u64::saturating_add)
        };
        let more = |counted: u64, class: Class| {
            let more = i128::from(counted) - i128::from(requested(class));
            i64::try_from(more).unwrap_or(if more < 0 { i64::MIN } else { i64::MAX })
        };
        Some(UpstreamDifference {
            dram: more(bytes.dram, Class::Dram),
            l1: more(bytes.l1, Class::L1),
            l1_small: more(bytes.l1_small, Class::L1Small),
            trace: more(bytes.trace, Class::Trace),
        })
    }

    /// The users by pid, and how many are left out.
    fn finish(self) -> (Vec<User>, usize) {
        let left_out = self.users.len().saturating_sub(MAX_USERS);
        let mut users: Vec<(UserKey, User)> = self.users.into_iter().collect();
        if users.len() > MAX_USERS {
            users.sort_by_key(|(key, user)| (user.rank(), *key));
            users.truncate(MAX_USERS);
            users.sort_by_key(|(key, _user)| *key);
        }
        let users = users.into_iter().map(|(_key, mut user)| {
            let of_devices = user.devices.values().filter_map(|used| used.difference);
            let sum = of_devices.reduce(added);
            user.shown.difference_text = sum.as_ref().and_then(difference_text);
            user
        });
        (users.collect(), left_out)
    }
}

impl User {
    /// Who is listed first where there are too many: those that the driver or they themselves tell of, before those
    /// of whom a file does.
    fn rank(&self) -> u8 {
        match self.shown.state.as_str() {
            _ if self.is_holder || self.shown.attached => 0,
            "dead" | "reused" => 2,
            _ => 1,
        }
    }

    fn device(&mut self, view: &View, index: usize) -> &mut UsedDevice {
        self.devices.entry(index).or_insert_with(|| {
            let (id, unique_id, scope) = identity(&view.devices[index]);
            UsedDevice {
                id,
                unique_id,
                scope,
                descriptors: None,
                upstream: None,
                difference: None,
            }
        })
    }

    /// What a file that is of no device says of it.
    fn counted_elsewhere(&mut self, id: HexId, bytes: UpstreamBytes) {
        match self.shown.unmatched.last_mut() {
            Some(last) if last.id == id => last.upstream = last.upstream.plus(bytes),
            _ => self.shown.unmatched.push(UnmatchedUse {
                id,
                upstream: bytes,
            }),
        }
    }

    fn on_all(&self) -> DeviceUser {
        DeviceUser {
            devices: self.devices.values().cloned().collect(),
            ..self.shown.clone()
        }
    }

    fn on(&self, device: usize) -> Option<DeviceUser> {
        let used = self.devices.get(&device)?;
        Some(DeviceUser {
            devices: vec![used.clone()],
            unmatched: Vec::new(),
            ..self.shown.clone()
        })
    }
}

/// Whose file of a chip could not be read, beside one that could.
fn left_unread(unread: &[Upstream]) -> Option<String> {
    let first = unread.first()?;
    let whose = user_text(first.owner);
    let others = match unread.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let error = first.error.as_deref().unwrap_or_default();
    Some(format!(
        "another file of this chip, that of {whose}{others}, was not read: {error}"
    ))
}

/// That more files than one are of a device, and whose.
fn added_up(more: &[Upstream]) -> Option<String> {
    let named = more.iter().take(MAX_NAMED_OWNERS);
    let mut owners: Vec<String> = named.map(|file| user_text(file.owner)).collect();
    if more.len() > MAX_NAMED_OWNERS {
        owners.push(format!("{} others", more.len() - MAX_NAMED_OWNERS));
    }
    let doubted = more.iter().filter(|file| !file.doubts.is_empty()).count();
    let doubted = match doubted {
        0 => String::new(),
        count => format!("; doubted of these: {count}"),
    };
    (!more.is_empty()).then(|| {
        let owners = owners.join(", ");
        format!("more than one file is of this chip, and all are added up, also that of {owners}{doubted}")
    })
}

fn user_text(owner: Option<u32>) -> String {
    owner.map_or_else(|| "an unknown user".to_owned(), |uid| format!("user {uid}"))
}

/// What is left of a file's sums.
fn without(all: UpstreamBytes, some: UpstreamBytes) -> UpstreamBytes {
    UpstreamBytes {
        dram: all.dram.saturating_sub(some.dram),
        l1: all.l1.saturating_sub(some.l1),
        l1_small: all.l1_small.saturating_sub(some.l1_small),
        trace: all.trace.saturating_sub(some.trace),
        cb: all.cb.saturating_sub(some.cb),
    }
}

fn added(one: UpstreamDifference, other: UpstreamDifference) -> UpstreamDifference {
    UpstreamDifference {
        dram: one.dram.saturating_add(other.dram),
        l1: one.l1.saturating_add(other.l1),
        l1_small: one.l1_small.saturating_add(other.l1_small),
        trace: one.trace.saturating_add(other.trace),
    }
}

/// A difference in words; nothing where there is none.
fn difference_text(difference: &UpstreamDifference) -> Option<String> {
    let classes = [
        ("DRAM", difference.dram),
        ("L1", difference.l1),
        ("L1_SMALL", difference.l1_small),
        ("TRACE", difference.trace),
    ];
    let parts: Vec<String> = classes
        .into_iter()
        .filter(|(_class, bytes)| *bytes != 0)
        .map(|(class, bytes)| {
            let word = if bytes < 0 { "less" } else { "more" };
            format!("{} {word} in {class}", size_text(bytes.unsigned_abs()))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("TT-Metal's counters have {}", parts.join(", ")))
}
