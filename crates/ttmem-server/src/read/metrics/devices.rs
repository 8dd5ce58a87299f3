//! Samples of devices, out of the same documents that every reader gets.

use super::exposition::{Family, LabelSet, Value};
use super::{CLASSES, clean};
use std::collections::{BTreeMap, HashMap, HashSet};
use ttmem_api::{ClassUsage, Device, Telemetry, UpstreamBytes};
use ttmem_ledger::{DeviceKey, View};

/// Devices that have samples: more than any machine has, and few enough to send.
const MAX_DEVICES: usize = 256;

/// What a sample of each device is made of.
type Figure = fn(&Device) -> Option<Value>;
type ClassFigure = fn(&ClassUsage) -> Option<Value>;
type Sensor = fn(&Telemetry) -> Option<Value>;

fn whole(figure: impl Into<Option<u64>>) -> Option<Value> {
    figure.into().map(Value::Whole)
}

/// Whether the senders of a device report what their caches and programs do.
fn reports_caches(device: &Device) -> bool {
    device.caches.program_cache_hits.is_some()
}

const OF_CLASSES: [(&str, &str, ClassFigure); 6] = [
    (
        "device_capacity",
        "What the allocators of a device can hand out",
        |class| whole(class.capacity_bytes),
    ),
    (
        "device_charged",
        "What the allocators of a device have handed out",
        |class| whole(class.charged_bytes),
    ),
    (
        "device_requested",
        "What was asked for of what the allocators have handed out",
        |class| whole(class.requested_bytes),
    ),
    (
        "device_peak",
        "The most that was charged at once",
        |class| whole(class.peak_bytes),
    ),
    (
        "device_free",
        "What is not taken of the capacity",
        |class| whole(class.free_bytes()),
    ),
    (
        "device_largest_fit",
        "The largest request that would be granted now",
        |class| whole(class.largest_fit_bytes()),
    ),
];

const SIZES: [(&str, &str, Figure); 4] = [
    ("device_l1_physical", "L1 of all compute cores", |device| {
        whole(device.l1.physical_bytes)
    }),
    (
        "device_l1_occupied",
        "L1 that is reserved, or taken by buffers or resident circular buffers",
        |device| whole(device.l1.occupied_bytes),
    ),
    (
        "device_cb_resident",
        "Circular buffers of the programs that ran last on each core",
        |device| whole(device.cb.resident_bytes),
    ),
    (
        "device_cb_headroom",
        "What is left between circular buffers and the lowest L1 buffer, where it is least",
        |device| device.cb_headroom_bytes.map(Value::Signed),
    ),
];

const COUNTS: [(&str, &str, Figure); 9] = [
    (
        "device_clashes",
        "Programs whose storage would have overlapped memory in use",
        |device| whole(device.failures.clash),
    ),
    (
        "device_config_ring_stalls",
        "Waits for room in a kernel config ring",
        |device| reports_caches(device).then_some(Value::Whole(device.ring_stalls)),
    ),
    (
        "device_dispatches",
        "Programs that were dispatched",
        |device| reports_caches(device).then_some(Value::Whole(device.dispatches)),
    ),
    (
        "device_program_cache_hits",
        "Operations that found their program",
        |device| whole(device.caches.program_cache_hits),
    ),
    (
        "device_program_cache_misses",
        "Operations that built their program",
        |device| whole(device.caches.program_cache_misses),
    ),
    (
        "device_binary_reuses",
        "Runs that found their binaries on the device",
        |device| whole(device.caches.binary_reuses),
    ),
    (
        "device_prefetch_hits",
        "Runs that found their commands in the prefetcher",
        |device| whole(device.caches.prefetch_hits),
    ),
    (
        "device_jit_disk_hits",
        "Kernels that were found compiled on disk",
        |device| whole(device.caches.jit_disk_hits),
    ),
    (
        "device_jit_disk_misses",
        "Kernels that had to be compiled",
        |device| whole(device.caches.jit_disk_misses),
    ),
];

/// A value of the driver in its base unit.
fn scaled(value: Option<i64>, parts: f64) -> Option<Value> {
    value.map(|value| Value::Real(value as f64 / parts))
}

/// What the driver says, by name, help and unit.
const SENSORS: [(&str, &str, &str, Sensor); 6] = [
    (
        "device_temperature",
        "The temperature of a chip",
        "celsius",
        |found| scaled(found.temperature_millidegrees, 1e3),
    ),
    (
        "device_power",
        "The power that a chip takes",
        "watts",
        |found| scaled(found.power_microwatts, 1e6),
    ),
    (
        "device_current",
        "The current of a chip's cores",
        "amperes",
        |found| scaled(found.current_milliamperes, 1e3),
    ),
    (
        "device_voltage",
        "The voltage of a chip's cores",
        "volts",
        |found| scaled(found.voltage_millivolts, 1e3),
    ),
    (
        "device_aiclk",
        "The clock of a chip's compute cores",
        "hertz",
        |found| {
            let hertz = found.ai_clock_mhz.map(|mhz| u64::from(mhz) * 1_000_000);
            whole(hertz)
        },
    ),
    (
        "device_fan",
        "The speed of a card's fan, in turns per minute",
        "rpm",
        |found| {
            let rpm = found.fan_rpm.and_then(|rpm| u64::try_from(rpm).ok());
            whole(rpm)
        },
    ),
];

/// What TT-Metal's counters say, by the processes that they are of.
type Counted = fn(&ttmem_api::Upstream) -> Option<UpstreamBytes>;

const UPSTREAM: [(&str, &str, Counted); 2] = [
    (
        "host_upstream",
        "What TT-Metal's own counters have of a device, as requested, attached processes and dead ones included",
        |upstream| upstream.bytes,
    ),
    (
        "host_upstream_not_attached",
        "The same of processes that run and do not report to the server",
        |upstream| upstream.not_attached,
    ),
];

/// The devices that have samples, and how many of those worth some have none.
///
/// First those that the server knows without any process: the chips of this machine. Then those in use, a device of
/// each user in turn, so that nobody takes the places of another by inventing some. Last those that a process used
/// that has ended, as long as the ledger knows of that process.
pub(super) fn chosen(view: &View) -> (Vec<usize>, usize) {
    let turns = turns(view);
    let departed = view.departed.iter();
    let last_used: HashSet<&DeviceKey> = departed
        .flat_map(|process| process.devices.iter().map(|(key, _totals)| key))
        .collect();
    let listed = view.devices.iter().enumerate();
    let listed = listed.filter_map(|(index, device)| {
        let turn = turns.get(&index).copied();
        let is_listed = turn.is_some() || device.is_configured() || last_used.contains(&device.key);
        let rank = (!device.is_configured(), turn.unwrap_or(usize::MAX), index);
        is_listed.then_some(rank)
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort_unstable();
    let left_out = listed.len().saturating_sub(MAX_DEVICES);
    listed.truncate(MAX_DEVICES);
    let mut chosen: Vec<usize> = listed.into_iter().map(|(.., index)| index).collect();
    chosen.sort_unstable();
    (chosen, left_out)
}

/// When it is the turn of each device in use: at the earliest of its users' turns.
///
/// A user's devices come in turns of its processes, those that another user has as well before all others: they are not
/// made up by one.
fn turns(view: &View) -> HashMap<usize, usize> {
    let mut users_of: HashMap<usize, HashSet<u32>> = HashMap::new();
    // By user; of each device, which of its process's it is.
    let mut places: BTreeMap<u32, BTreeMap<usize, usize>> = BTreeMap::new();
    for process in &view.processes {
        let uid = process.facts.identity.uid;
        let of_user = places.entry(uid).or_default();
        for (place, device) in process.devices.iter().enumerate() {
            let device = *device as usize;
            users_of.entry(device).or_default().insert(uid);
            let first = of_user.entry(device).or_insert(place);
            *first = place.min(*first);
        }
    }
    let mut turns = HashMap::new();
    for of_user in places.into_values() {
        let mut of_user: Vec<(usize, usize)> = of_user.into_iter().collect();
        of_user
            .sort_unstable_by_key(|(device, place)| (users_of[device].len() < 2, *place, *device));
        for (turn, (device, _place)) in of_user.into_iter().enumerate() {
            let earliest = turns.entry(device).or_insert(turn);
            *earliest = turn.min(*earliest);
        }
    }
    turns
}

pub(super) fn families(devices: &[Device]) -> Vec<Family> {
    let names = names(devices);
    let named = || names.iter().zip(devices);
    let mut families = vec![info(devices, &names)];
    for (name, help, figure) in OF_CLASSES {
        let mut family = Family::bytes(name, help);
        for (label, device) in named() {
            let classes = [device.dram, device.l1, device.l1_small, device.trace];
            for (class, usage) in CLASSES.into_iter().zip(&classes) {
                family.add(labels(label, Some(("class", class))), figure(usage));
            }
        }
        families.push(family);
    }
    for (name, help, figure) in SIZES {
        let mut family = Family::bytes(name, help);
        for (label, device) in named() {
            family.add(labels(label, None), figure(device));
        }
        families.push(family);
    }
    let mut kernels = Family::bytes("device_kernel", "Kernel code of live programs, by kind");
    let mut failures = Family::counter("device_failures", "What failed, by what it came down to");
    for (label, device) in named() {
        let kernel = &device.kernel;
        for (kind, bytes) in [
            ("application", kernel.application_bytes),
            ("fabric", kernel.fabric_bytes),
            ("dispatch", kernel.dispatch_bytes),
            ("unknown", kernel.unknown_bytes),
        ] {
            kernels.add(labels(label, Some(("kind", kind))), Value::Whole(bytes));
        }
        let failed = &device.failures;
        for (verdict, count) in [
            ("capacity", failed.capacity),
            ("fragmentation", failed.fragmentation),
            ("clash", failed.clash),
            ("region_too_small", failed.region_too_small),
            ("unknown", failed.unknown),
        ] {
            let labels = labels(label, Some(("verdict", verdict)));
            failures.add(labels, Value::Whole(count));
        }
    }
    families.extend([kernels, failures]);
    for (name, help, figure) in COUNTS {
        let mut family = Family::counter(name, help);
        for (label, device) in named() {
            family.add(labels(label, None), figure(device));
        }
        families.push(family);
    }
    families.extend(of_machine(devices, &names));
    families
}

/// What the machine says by itself.
fn of_machine(devices: &[Device], names: &[String]) -> Vec<Family> {
    let named = || names.iter().zip(devices);
    let mut families = Vec::new();
    for (name, help, unit, figure) in SENSORS {
        let mut family = Family::measured(name, help, unit);
        for (label, device) in named() {
            let value = device.telemetry.as_ref().and_then(figure);
            family.add(labels(label, None), value);
        }
        families.push(family);
    }
    let mut trips = Family::counter("device_thermal_trips", "Shutdowns by heat");
    for (label, device) in named() {
        let found = device.telemetry.as_ref();
        let count = found.and_then(|found| found.thermal_trips);
        trips.add(labels(label, None), whole(count.map(u64::from)));
    }
    families.push(trips);
    for (name, help, figure) in UPSTREAM {
        let mut family = Family::bytes(name, help);
        for (label, device) in named() {
            let Some(bytes) = device.upstream.as_ref().and_then(figure) else {
                continue;
            };
            for (class, size) in [
                ("dram", bytes.dram),
                ("l1", bytes.l1),
                ("l1_small", bytes.l1_small),
                ("trace", bytes.trace),
                ("cb", bytes.cb),
            ] {
                family.add(labels(label, Some(("class", class))), Value::Whole(size));
            }
        }
        families.push(family);
    }
    families
}

fn labels(device: &str, second: Option<(&'static str, &str)>) -> LabelSet {
    let mut labels = Vec::with_capacity(2);
    labels.push(("device", device.to_owned()));
    labels.extend(second.map(|(key, value)| (key, value.to_owned())));
    labels
}

fn info(devices: &[Device], names: &[String]) -> Family {
    let mut family = Family::gauge("device_info", "A device, and what it is");
    for (device, name) in devices.iter().zip(names) {
        let known = [
            ("key", Some(key(device))),
            ("board", device.board.clone()),
            ("arch", device.arch.clone()),
        ];
        let known = known.into_iter();
        let known = known.filter_map(|(label, value)| Some((label, clean(&value?))));
        let mut labels = labels(name, None);
        labels.extend(known);
        family.add(labels, Value::Whole(1));
    }
    family
}

/// What tells a device from all others: the chip's own id, or its number and the set in which that counts.
fn key(device: &Device) -> String {
    match (device.unique_id, &device.scope) {
        (Some(unique_id), _scope) => unique_id.to_string(),
        (None, Some(scope)) => format!("{}@{scope}", device.id),
        (None, None) => device.id.to_string(),
    }
}

/// What each device is called: its number, unless one that was known before has it. So nobody gives another's device a new
/// name by opening one.
fn names(devices: &[Device]) -> Vec<String> {
    let mut numbers: HashSet<u32> = HashSet::new();
    let mut taken: HashMap<String, usize> = HashMap::new();
    let names = devices.iter().map(|device| {
        let is_first = numbers.insert(device.id);
        let name = match (device.unique_id, &device.scope) {
            (Some(unique_id), _) if !is_first => format!("{}@{unique_id}", device.id),
            (None, Some(scope)) if !is_first => clean(&format!("{}@{scope}", device.id)),
            _first_or_alike => device.id.to_string(),
        };
        // Sets that differ only beyond what is shown of them.
        let times = taken.entry(name.clone()).or_default();
        *times += 1;
        match times {
            1 => name,
            times => format!("{name}#{times}"),
        }
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_api::HexId;

    #[test]
    fn a_device_is_called_by_its_number_unless_others_are() {
        let device = |id, unique_id: Option<u64>, scope: Option<&str>| Device {
            id,
            unique_id: unique_id.map(HexId),
            scope: scope.map(str::to_owned),
            ..Device::default()
        };
        let long = "4,".repeat(200);
        let devices = [
            device(0, Some(7), None),
            device(1, Some(8), None),
            device(1, None, Some("2,3")),
            device(1, None, None),
            device(1, None, Some(&long)),
            device(1, None, Some(&format!("{long}5"))),
        ];
        let names = names(&devices);
        assert_eq!(names[..4], ["0", "1", "1@2,3", "1#2"]);
        let again = super::names(&[device(1, None, None), device(1, Some(8), None)]);
        assert_eq!(again, ["1", &format!("1@{}", HexId(8))]);
        assert_eq!(names[5], format!("{}#2", names[4]));
    }
}
