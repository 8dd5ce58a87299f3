//! Which devices have samples, and under which names.
//!
//! A monitoring system keeps every series that it ever saw, and any process can report devices that do not
//! exist. So the devices of short processes have none, every other device keeps a place for some time once it
//! has one, and a user has a bounded number of places. Names stay with devices: a counter of one name never
//! goes on with the count of another device.

use crate::lock;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use ttmem_ledger::{DeviceKey, View};

/// Devices that have samples: more than any machine has, and few enough to send.
pub(super) const MAX_DEVICES: usize = 256;

/// How long a device that no process uses keeps its place, in nanoseconds.
const STAY: u64 = 600 * 1_000_000_000;

/// The devices that had samples, for all scrapers.
#[derive(Clone, Debug, Default)]
pub struct DeviceSeries(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    places: BTreeMap<DeviceKey, Place>,
    /// What devices are called, as long as any document has them.
    names: HashMap<DeviceKey, String>,
}

#[derive(Debug)]
struct Place {
    /// Who brought it; none for one that the server knows by itself.
    user: Option<u32>,
    last_used: u64,
}

/// The devices that have samples now.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Their numbers in the view, and what they are called.
    pub(super) devices: Vec<(usize, String)>,
    /// Devices worth samples that have none.
    pub(super) left_out: usize,
}

/// A device of a user, in the order in which the user's devices are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    /// No other user has it, too.
    is_own: bool,
    /// It has no place yet.
    is_new: bool,
    is_idle: bool,
    /// Which of its process's devices it is.
    position: usize,
    device: usize,
}

impl DeviceSeries {
    /// Chooses devices at this time, from which on processes count that have lived for `min_age`.
    ///
    /// First those that the server knows without any process. Then a device of each user in turn, so that
    /// nobody takes the places of another by inventing some: those of several users before all others, then
    /// those that have a place. `call` names a device by what others are not called.
    pub(super) fn choose(
        &self,
        view: &View,
        now: u64,
        min_age: u64,
        is_shown: impl Fn(usize) -> bool,
        call: impl Fn(usize, &dyn Fn(&str) -> bool) -> String,
    ) -> Chosen {
        let mut known = lock(&self.0);
        let Known { places, names } = &mut *known;
        let used = used_by_settled(view, now, min_age);
        note_use(places, view, &used, now);
        forget_names(names, places, view);
        let ranked = ranked(places, view, &used, now);
        let mut held: HashMap<u32, usize> = HashMap::new();
        for place in places.values() {
            if let Some(user) = place.user {
                *held.entry(user).or_default() += 1;
            }
        }
        let mut taken: HashSet<String> = names.values().cloned().collect();
        let mut chosen = Chosen::default();
        for (index, user) in ranked.into_iter().filter(|(index, _user)| is_shown(*index)) {
            let key = &view.devices[index].key;
            if chosen.devices.len() == MAX_DEVICES {
                chosen.left_out += 1;
                continue;
            }
            if !places.contains_key(key) {
                if user.is_some_and(|user| held.get(&user) >= Some(&MAX_DEVICES)) {
                    chosen.left_out += 1;
                    continue;
                }
                if let Some(user) = user {
                    *held.entry(user).or_default() += 1;
                }
                let last_used = used.get(&index).map_or(now, |used| used.last);
                places.insert(key.clone(), Place { user, last_used });
            }
            let name = names.entry(key.clone()).or_insert_with(|| {
                let name = call(index, &|name| taken.contains(name));
                taken.insert(name.clone());
                name
            });
            chosen.devices.push((index, name.clone()));
        }
        chosen.devices.sort_unstable_by_key(|(index, _name)| *index);
        chosen
    }
}

/// Who used a device, and when for the last time.
#[derive(Debug, Default)]
struct Used {
    /// By user: which of its process's devices it was.
    users: BTreeMap<u32, usize>,
    last: u64,
}

impl Used {
    fn note(&mut self, user: u32, position: usize, time: u64) {
        let first = self.users.entry(user).or_insert(position);
        *first = position.min(*first);
        self.last = self.last.max(time);
    }
}

/// The devices that processes use, or have used within the time for which a device stays: of processes that
/// have lived for some time.
fn used_by_settled(view: &View, now: u64, min_age: u64) -> BTreeMap<usize, Used> {
    let mut used: BTreeMap<usize, Used> = BTreeMap::new();
    let is_settled = |began: Option<u64>, until: u64| {
        began.is_none_or(|began| until.saturating_sub(began) >= min_age)
    };
    for process in &view.processes {
        let identity = &process.facts.identity;
        if is_settled(identity.start_time, now) {
            for (position, device) in process.devices.iter().enumerate() {
                let device = used.entry(*device as usize).or_default();
                device.note(identity.uid, position, now);
            }
        }
    }
    let recent = view.departed.iter().filter(|process| {
        let ended = process.exit.time;
        now.saturating_sub(ended) < STAY && is_settled(process.identity.start_time, ended)
    });
    let recent: Vec<_> = recent.collect();
    if !recent.is_empty() {
        let indices = view.devices.iter().enumerate();
        let indices: HashMap<&DeviceKey, usize> = indices
            .map(|(index, device)| (&device.key, index))
            .collect();
        for process in recent {
            for (position, (key, _totals)) in process.devices.iter().enumerate() {
                if let Some(index) = indices.get(key) {
                    let device = used.entry(*index).or_default();
                    device.note(process.identity.uid, position, process.exit.time);
                }
            }
        }
    }
    used
}

/// Notes the use of devices that have places, and takes away the places of those not used for long.
fn note_use(
    places: &mut BTreeMap<DeviceKey, Place>,
    view: &View,
    used: &BTreeMap<usize, Used>,
    now: u64,
) {
    for (index, used) in used {
        if let Some(place) = places.get_mut(&view.devices[*index].key) {
            place.last_used = place.last_used.max(used.last);
        }
    }
    let configured = view.devices.iter().filter(|device| device.is_configured());
    let configured: HashSet<&DeviceKey> = configured.map(|device| &device.key).collect();
    // Also of one that the ledger has forgotten, or a user could bring others all the time.
    places.retain(|key, place| {
        configured.contains(key) || now.saturating_sub(place.last_used) < STAY
    });
}

/// Forgets the names of devices that no document has any more.
fn forget_names(
    names: &mut HashMap<DeviceKey, String>,
    places: &BTreeMap<DeviceKey, Place>,
    view: &View,
) {
    if names.len() > places.len() {
        let listed: HashSet<&DeviceKey> = view.devices.iter().map(|device| &device.key).collect();
        names.retain(|key, _name| places.contains_key(key) || listed.contains(key));
    }
}

/// All devices worth samples, those to be chosen first in front, with the user whose turn it is.
fn ranked(
    places: &BTreeMap<DeviceKey, Place>,
    view: &View,
    used: &BTreeMap<usize, Used>,
    now: u64,
) -> Vec<(usize, Option<u32>)> {
    let mut ranked = Vec::new();
    let mut claims: BTreeMap<u32, Vec<Claim>> = BTreeMap::new();
    for (index, device) in view.devices.iter().enumerate() {
        if device.is_configured() {
            ranked.push((index, None));
            continue;
        }
        let place = places.get(&device.key);
        let claim = |is_own, is_idle, position| Claim {
            is_own,
            is_new: place.is_none(),
            is_idle,
            position,
            device: index,
        };
        match (used.get(&index), place.and_then(|place| place.user)) {
            (Some(used), _) => {
                let is_own = used.users.len() < 2;
                for (user, position) in &used.users {
                    let claim = claim(is_own, used.last < now, *position);
                    claims.entry(*user).or_default().push(claim);
                }
            }
            (None, Some(user)) => claims.entry(user).or_default().push(claim(true, true, 0)),
            (None, None) => {}
        }
    }
    let mut turns: BTreeMap<usize, (usize, u32)> = BTreeMap::new();
    for (user, mut claims) in claims {
        claims.sort_unstable();
        for (turn, claim) in claims.into_iter().enumerate() {
            let earliest = turns.entry(claim.device).or_insert((turn, user));
            *earliest = (turn, user).min(*earliest);
        }
    }
    let mut in_turn: Vec<_> = turns.into_iter().collect();
    in_turn.sort_by_key(|(_device, (turn, _user))| *turn);
    let in_turn = in_turn.into_iter();
    ranked.extend(in_turn.map(|(device, (_turn, user))| (device, Some(user))));
    ranked
}
