//! What the machine says by itself, in the words of every screen and report.

use crate::format::bytes;
use crate::{Device, DeviceUser, Machine, Process, ProcessState, Source, Telemetry, UpstreamBytes};

/// Whose figures they are, beside each of them.
pub const FROM_COUNTERS: &str = "from TT-Metal's counters";

/// What is known of a process that does not report by itself.
pub const NOT_ATTACHED: &str = "not attached";

/// Thousandths with one decimal, rounded.
fn tenths(thousandths: i64) -> String {
    let sign = if thousandths < 0 { "-" } else { "" };
    let tenths = (thousandths.unsigned_abs() + 50) / 100;
    format!("{sign}{}.{}", tenths / 10, tenths % 10)
}

/// `45.3 °C`.
#[must_use]
pub fn temperature(telemetry: &Telemetry) -> Option<String> {
    let degrees = telemetry.temperature_millidegrees?;
    Some(format!("{} °C", tenths(degrees)))
}

/// `17.0 W`.
#[must_use]
pub fn power(telemetry: &Telemetry) -> Option<String> {
    Some(format!("{} W", tenths(telemetry.power_microwatts? / 1000)))
}

/// `1000 MHz`.
#[must_use]
pub fn clock(telemetry: &Telemetry) -> Option<String> {
    Some(format!("{} MHz", telemetry.ai_clock_mhz?))
}

/// Temperature, power and clock, as far as they are known: `45.3 °C, 17.0 W, 1000 MHz`.
#[must_use]
pub fn sensors(telemetry: &Telemetry) -> Vec<String> {
    let known = [temperature(telemetry), power(telemetry), clock(telemetry)];
    known.into_iter().flatten().collect()
}

/// Everything that the driver says of a chip, a value each, with their limits.
#[must_use]
pub fn telemetry(telemetry: &Telemetry) -> Vec<String> {
    let limit = |value: Option<String>, limit: Option<String>| match limit {
        Some(limit) => value.map(|value| format!("{value} of {limit}")),
        None => value,
    };
    let degrees = telemetry.temperature_limit_millidegrees;
    let watts = telemetry.power_limit_microwatts;
    let amperes = |value: Option<i64>| value.map(|value| format!("{} A", tenths(value)));
    let volts = |value: Option<i64>| value.map(|value| format!("{value} mV"));
    let lanes = match (&telemetry.link_speed, telemetry.link_width) {
        (Some(speed), Some(width)) => {
            Some(format!("PCIe {} x{width}", speed.trim_end_matches(" PCIe")))
        }
        _unknown => None,
    };
    // Less than the link could have is worth a word.
    let most = telemetry.link_max_width.map(|most| format!("x{most}"));
    let most = most.filter(|_most| telemetry.link_width != telemetry.link_max_width);
    let trips = telemetry.thermal_trips.filter(|trips| *trips > 0);
    let firmware = telemetry.firmware.get("tt_fw_bundle_ver");
    let values = [
        limit(
            temperature(telemetry),
            degrees.map(|degrees| format!("{} °C", tenths(degrees))),
        ),
        limit(
            power(telemetry),
            watts.map(|watts| format!("{} W", tenths(watts / 1000))),
        ),
        limit(
            amperes(telemetry.current_milliamperes),
            amperes(telemetry.current_limit_milliamperes),
        ),
        limit(
            volts(telemetry.voltage_millivolts),
            volts(telemetry.voltage_limit_millivolts),
        ),
        clock(telemetry),
        telemetry.fan_rpm.map(|rpm| format!("fan {rpm} rpm")),
        limit(lanes, most),
        firmware.map(|version| format!("firmware {version}")),
        telemetry
            .heartbeat
            .map(|count| format!("heartbeat {count}")),
        trips.map(|trips| format!("{trips} thermal shutdowns")),
    ];
    let unread = telemetry.unread.iter();
    let unread = unread.map(|(name, why)| format!("{}: {why}", name.replace('_', " ")));
    values.into_iter().flatten().chain(unread).collect()
}

/// All names of a device beside its number: node, PCI address, chip, board and place.
#[must_use]
pub fn names(device: &Device) -> Vec<String> {
    let chip = device.unique_id.map(|id| format!("chip {id}"));
    chip.into_iter().chain(driver_names(device)).collect()
}

/// The names that the driver has for a device.
#[must_use]
pub fn driver_names(device: &Device) -> Vec<String> {
    let Some(names) = &device.names else {
        return Vec::new();
    };
    // The runtime's number of a chip is mostly the driver's as well.
    let asic = names.asic_id.filter(|id| device.unique_id != Some(*id));
    let known = [
        Some(names.node.clone()),
        names.pci_address.clone(),
        asic.map(|id| format!("ASIC {id}")),
        names.board_serial.map(|id| format!("board {id}")),
        names.tray.clone(),
    ];
    known.into_iter().flatten().collect()
}

/// The classes of which something is counted: `DRAM 1.2 GiB, L1 3.0 MiB`.
#[must_use]
pub fn counted(counted: &UpstreamBytes) -> String {
    let classes = counted.classes().into_iter();
    let taken = classes.filter(|(_class, size)| *size > 0);
    let parts: Vec<String> = taken
        .map(|(class, size)| format!("{class} {}", bytes(size)))
        .collect();
    if parts.is_empty() {
        return "nothing".to_owned();
    }
    parts.join(", ")
}

/// What TT-Metal's counters have of processes that are not attached: in no other figure of a device.
#[must_use]
pub fn counted_apart(device: &Device) -> Option<UpstreamBytes> {
    let upstream = device.upstream.as_ref()?;
    upstream.not_attached.filter(|bytes| !bytes.is_zero())
}

/// Whether a process ever reported the device: of one that the machine alone knows nothing is kept over time.
#[must_use]
pub const fn is_reported(device: &Device) -> bool {
    device.source.is_some() || device.names.is_none()
}

/// Whose figures the bars of a device are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Those of attached processes.
    Attached,
    /// TT-Metal's: nothing that is attached has anything.
    Counters(UpstreamBytes),
    /// Nobody's: what has the device open is neither attached nor counted.
    Unknown,
}

impl Whose {
    /// `is_open` says whether a process has the device open that is neither attached nor counted.
    #[must_use]
    pub fn of(device: &Device, is_open: bool) -> Self {
        match counted_apart(device) {
            _counted if device.held().total() > 0 => Self::Attached,
            Some(counted) => Self::Counters(counted),
            None if is_open => Self::Unknown,
            None => Self::Attached,
        }
    }

    /// What TT-Metal counts, where the figures are made of that.
    #[must_use]
    pub const fn counters(self) -> Option<UpstreamBytes> {
        match self {
            Self::Counters(counted) => Some(counted),
            Self::Attached | Self::Unknown => None,
        }
    }

    /// What is said of figures that are not those of attached processes.
    #[must_use]
    pub fn remark(self) -> Option<String> {
        match self {
            Self::Attached => None,
            Self::Counters(_counted) => Some(format!("{FROM_COUNTERS}, as requested")),
            Self::Unknown => {
                Some("in use by what is not attached: what it holds is not known".to_owned())
            }
        }
    }

    /// [`upstream`], without what the bars have already.
    #[must_use]
    pub fn besides(self, device: &Device) -> Vec<String> {
        let sentences = upstream(device).into_iter();
        let of_bars = usize::from(self.counters().is_some());
        sentences.skip(of_bars).collect()
    }
}

/// Whether the sizes of a process are known; of one that is not attached, whether TT-Metal counts it.
#[must_use]
pub fn has_sizes(process: &Process) -> bool {
    process.state != ProcessState::NotAttached || process.source == Source::Shm
}

/// Counters of chips that are none of the devices here, if processes that run have something on them:
/// `TT-Metal counts 3.0 GiB on another chip (0xbeef)`.
#[must_use]
pub fn elsewhere(machine: Option<&Machine>) -> Option<String> {
    let unmatched = machine.map_or(&[][..], |machine| &machine.unmatched);
    let held = |upstream: &crate::Upstream| {
        let bytes = upstream.not_attached.filter(|bytes| !bytes.is_zero())?;
        Some((upstream.id, bytes))
    };
    let held: Vec<_> = unmatched.iter().filter_map(held).collect();
    let sums = held.iter().map(|(_id, bytes)| bytes.total());
    let sum = bytes(sums.reduce(u64::saturating_add)?);
    Some(match held.as_slice() {
        [(id, _bytes)] => format!("TT-Metal counts {sum} on another chip ({id})"),
        several => format!("TT-Metal counts {sum} on {} other chips", several.len()),
    })
}

/// What TT-Metal's counters add to what attached processes report, a sentence each.
#[must_use]
pub fn upstream(device: &Device) -> Vec<String> {
    let Some(upstream) = &device.upstream else {
        return Vec::new();
    };
    if let Some(error) = &upstream.error {
        return vec![format!("TT-Metal's counters: {error}")];
    }
    let mut sentences = Vec::new();
    if let Some(bytes) = counted_apart(device) {
        let counted = counted(&bytes);
        sentences.push(format!("{NOT_ATTACHED}: {counted} ({FROM_COUNTERS})"));
    }
    if let Some(bytes) = upstream.left_behind.filter(|bytes| !bytes.is_zero()) {
        let counted = counted(&bytes);
        sentences.push(format!(
            "left in TT-Metal's counters by dead processes: {counted}"
        ));
    }
    sentences.extend(upstream.difference_text.clone());
    let doubts = upstream.doubts.iter();
    sentences.extend(doubts.map(|doubt| format!("TT-Metal's counters: {doubt}")));
    sentences
}

/// The processes that have a device but do not report, the most bytes first.
#[must_use]
pub fn not_attached(machine: Option<&Machine>) -> Vec<&DeviceUser> {
    let users = machine.map_or(&[][..], |machine| &machine.processes);
    let mut users: Vec<&DeviceUser> = users.iter().filter(|user| user.is_not_attached()).collect();
    users.sort_by_key(|user| {
        let total = user.upstream().map_or(0, |bytes| bytes.total());
        (std::cmp::Reverse(total), user.pid)
    });
    users
}

/// What a process is called: its name, or why that is not shown.
#[must_use]
pub fn user_name(user: &DeviceUser) -> String {
    match (&user.name, user.pid) {
        (Some(name), _pid) => name.clone(),
        (None, None) => "outside this namespace".to_owned(),
        (None, Some(_pid)) if user.names_hidden => "name hidden".to_owned(),
        (None, Some(_pid)) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What TT-Metal counts of processes that are not attached.
    fn counters(id: u64, dram: u64) -> crate::Upstream {
        crate::Upstream {
            source: "shm".to_owned(),
            id: crate::HexId(id),
            matched_by: None,
            owner: None,
            version: Some(4),
            error: None,
            updated: None,
            bytes: None,
            left_behind: None,
            not_attached: Some(UpstreamBytes {
                dram,
                ..UpstreamBytes::default()
            }),
            difference: None,
            difference_text: None,
            doubts: Vec::new(),
        }
    }

    #[test]
    fn figures_are_those_of_whoever_knows_them() {
        let device = |dram| Device {
            // Earlier an attached process had it.
            source: Some(Source::Attached),
            upstream: Some(counters(7, dram)),
            ..Device::default()
        };
        assert_eq!(
            Whose::of(&device(8), false).counters(),
            counters(7, 8).not_attached
        );
        assert_eq!(Whose::of(&device(0), false), Whose::Attached);
        assert_eq!(Whose::of(&device(0), true), Whose::Unknown);
        let mut held = device(8);
        held.dram.charged_bytes = 1;
        assert_eq!(Whose::of(&held, true), Whose::Attached);
        assert_eq!(Whose::Attached.besides(&held).len(), 1);
        let counters = Whose::of(&device(8), false);
        assert_eq!(counters.besides(&device(8)), [""; 0]);
    }

    #[test]
    fn counters_of_other_chips_are_said_where_somebody_has_something_there() {
        let said = |unmatched| {
            elsewhere(Some(&Machine {
                time: crate::Timestamp::from_unix_nanos(0),
                processes: Vec::new(),
                unmatched,
                upstream_limits: Vec::new(),
                errors: Vec::new(),
            }))
        };
        assert_eq!(elsewhere(None), None);
        assert_eq!(said(vec![counters(0xbeef, 0)]), None);
        let one = vec![counters(0xbeef, 3 << 30), counters(0xdead, 0)];
        let words = "TT-Metal counts 3.0 GiB on another chip (0xbeef)";
        assert_eq!(said(one).as_deref(), Some(words));
        let two = vec![counters(1, 3 << 30), counters(2, 1 << 30)];
        let words = "TT-Metal counts 4.0 GiB on 2 other chips";
        assert_eq!(said(two).as_deref(), Some(words));
    }

    #[test]
    fn values_have_units_limits_and_reasons() {
        let mut found = Telemetry {
            temperature_millidegrees: Some(45_362),
            temperature_limit_millidegrees: Some(75_000),
            power_microwatts: Some(17_000_000),
            ai_clock_mhz: Some(1000),
            link_speed: Some("16.0 GT/s PCIe".to_owned()),
            link_width: Some(8),
            link_max_width: Some(16),
            thermal_trips: Some(0),
            ..Telemetry::default()
        };
        assert_eq!(sensors(&found), ["45.4 °C", "17.0 W", "1000 MHz"]);
        found
            .unread
            .insert("fan_rpm".to_owned(), "reading it hangs".to_owned());
        assert_eq!(
            telemetry(&found),
            [
                "45.4 °C of 75.0 °C",
                "17.0 W",
                "1000 MHz",
                "PCIe 16.0 GT/s x8 of x16",
                "fan rpm: reading it hangs"
            ]
        );
        found.temperature_millidegrees = Some(-1_250);
        assert_eq!(temperature(&found).as_deref(), Some("-1.3 °C"));
        assert!(telemetry(&Telemetry::default()).is_empty());
    }
}
