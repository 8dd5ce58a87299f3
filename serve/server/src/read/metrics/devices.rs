//! Samples of devices, out of the same documents that every reader gets.

use super::exposition::{Family, LabelSet, Value};
use super::{CLASSES, clean};
use ttmem_report::{ClassUsage, Device, Telemetry, UpstreamBytes};

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
type Counted = fn(&ttmem_report::Upstream) -> Option<UpstreamBytes>;

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

pub(super) fn families(devices: &[Device], names: &[String]) -> Vec<Family> {
    let named = || names.iter().zip(devices);
    let mut families = vec![info(devices, names)];
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
    families.extend(of_machine(devices, names));
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

/// What a device is called that has no name yet: its number, unless one that was known before is called so. So
/// nobody gives another's device a new name by opening one.
pub(super) fn name(device: &Device, is_taken: &dyn Fn(&str) -> bool) -> String {
    let number = device.id.to_string();
    if !is_taken(&number) {
        return number;
    }
    let longer = match (device.unique_id, &device.scope) {
        (Some(unique_id), _) => format!("{number}@{unique_id}"),
        (None, Some(scope)) => clean(&format!("{number}@{scope}")),
        (None, None) => number,
    };
    // Sets that differ only beyond what is shown of them.
    let others = (2_u64..).map(|times| format!("{longer}#{times}"));
    let mut names = std::iter::once(longer.clone()).chain(others);
    names.find(|name| !is_taken(name)).unwrap_or(longer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_report::HexId;

    fn named(devices: &[Device]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for device in devices {
            let name = name(device, &|name| names.iter().any(|other| other == name));
            names.push(name);
        }
        names
    }

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
        let names = named(&devices);
        assert_eq!(names[..4], ["0", "1", "1@2,3", "1#2"]);
        let again = named(&[device(1, None, None), device(1, Some(8), None)]);
        assert_eq!(again, ["1", &format!("1@{}", HexId(8))]);
        assert_eq!(names[5], format!("{}#2", names[4]));
    }
}
