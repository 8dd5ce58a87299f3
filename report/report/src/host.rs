//! What a machine says of its devices by itself, whether processes are attached or not.
//!
//! From the driver's files and from TT-Metal's own counters. A server adds it to its documents; of a
//! recording there is none.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    DeviceKey, HexId, LeakCandidates, Process, ProcessDevice, ProcessState, Source, Timestamp,
};

/// The names of a chip besides its logical id and the runtime's unique id.
///
/// A chip that is reached through another has the node, the address and the serial number of its card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceNames {
    /// Its device node, such as `/dev/tenstorrent/0`.
    pub node: String,
    /// The PCI address, such as `0000:0a:00.0`.
    pub pci_address: Option<String>,
    /// The chip's number as the driver has it; that of the runtime, `unique_id`, may be another.
    pub asic_id: Option<HexId>,
    /// The board's number.
    pub board_serial: Option<HexId>,
    /// The place in a Galaxy, such as `tray1/chip5`.
    pub tray: Option<String>,
}

/// What the driver says of a chip. What is not known is `null`, and `unread` has the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Telemetry {
    /// The card as the driver calls it, such as `n300` or `p150a`.
    pub card_type: Option<String>,
    /// The clock of the compute cores.
    pub ai_clock_mhz: Option<u32>,
    /// The clock of the NoC and the bridges.
    pub axi_clock_mhz: Option<u32>,
    /// The clock of the management core.
    pub arc_clock_mhz: Option<u32>,
    /// Counts while the firmware runs.
    pub heartbeat: Option<u32>,
    /// Shutdowns by heat since power was switched on; Blackhole.
    pub thermal_trips: Option<u32>,
    /// The speed of the PCI Express link, as the kernel writes it.
    pub link_speed: Option<String>,
    /// The speed that it could have.
    pub link_max_speed: Option<String>,
    /// Lanes of the PCI Express link.
    pub link_width: Option<u32>,
    /// Lanes that it could have.
    pub link_max_width: Option<u32>,
    /// Thousandths of a degree Celsius.
    pub temperature_millidegrees: Option<i64>,
    /// Where the firmware begins to slow the chip down.
    pub temperature_limit_millidegrees: Option<i64>,
    /// The core voltage.
    pub voltage_millivolts: Option<i64>,
    /// The highest that it may be.
    pub voltage_limit_millivolts: Option<i64>,
    /// The core current.
    pub current_milliamperes: Option<i64>,
    /// The highest that it may be.
    pub current_limit_milliamperes: Option<i64>,
    /// Power.
    pub power_microwatts: Option<i64>,
    /// The highest that it may be.
    pub power_limit_microwatts: Option<i64>,
    /// The fan, in turns per minute; Wormhole reports none.
    pub fan_rpm: Option<i64>,
    /// Versions of firmware, by the driver's names.
    pub firmware: BTreeMap<String, String>,
    /// Values that could not be read, and why, also `pci_address`, `asic_id`, `board_serial` and `holders` (who has the
    /// device open). What the driver does not have is not listed.
    pub unread: BTreeMap<String, String>,
}

/// Bytes by class, as TT-Metal counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpstreamBytes {
    /// Requested in DRAM.
    pub dram: u64,
    /// Requested in L1.
    pub l1: u64,
    /// Requested in the small region of L1.
    pub l1_small: u64,
    /// Requested in the trace region.
    pub trace: u64,
    /// Circular buffers, approximately.
    pub cb: u64,
}

impl UpstreamBytes {
    /// Each class with its name on screens.
    #[must_use]
    pub fn classes(&self) -> [(&'static str, u64); 5] {
        [
            ("DRAM", self.dram),
            ("L1", self.l1),
            ("L1_SMALL", self.l1_small),
            ("TRACE", self.trace),
            ("CBs", self.cb),
        ]
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        let classes = self.classes().into_iter();
        classes.fold(0, |sum, (_name, bytes)| sum.saturating_add(bytes))
    }

    /// Whether nothing is counted.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.total() == 0
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            dram: self.dram.saturating_add(other.dram),
            l1: self.l1.saturating_add(other.l1),
            l1_small: self.l1_small.saturating_add(other.l1_small),
            trace: self.trace.saturating_add(other.trace),
            cb: self.cb.saturating_add(other.cb),
        }
    }
}

/// How much TT-Metal's counters have more than what attached processes report, by class; below 0 less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpstreamDifference {
    /// Against what is charged in DRAM.
    pub dram: i64,
    /// Against what is charged in L1.
    pub l1: i64,
    /// Against what is charged in the small region of L1.
    pub l1_small: i64,
    /// Against what is charged in the trace region.
    pub trace: i64,
}

/// TT-Metal's own counters of one chip.
///
/// Where several users have a file of the chip, the figures are those of all; the rest is of the one that weighs most. They count requested bytes and have other limits, which `Machine` lists: where a process is attached,
/// what it reports is shown, and these are compared with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Upstream {
    /// Where the figures come from: `shm`, TT-Metal's shared memory.
    pub source: String,
    /// The number in the file's name, which the runtime takes for the chip's.
    pub id: HexId,
    /// By what the file was found to be this chip's: `unique_id`, `asic_id`, `board`, or `logical_id`, which a
    /// process with another set of visible devices may mean differently. `null` where it is no known chip's.
    pub matched_by: Option<String>,
    /// The user whose file it is.
    pub owner: Option<u32>,
    /// The version of the file's layout.
    pub version: Option<u32>,
    /// Why there are no figures.
    pub error: Option<String>,
    /// When TT-Metal last wrote it.
    pub updated: Option<Timestamp>,
    /// Everything that the file counts, that of dead processes included; `null` if it cannot be told.
    pub bytes: Option<UpstreamBytes>,
    /// Of these, of processes that are dead: nobody has them any more.
    pub left_behind: Option<UpstreamBytes>,
    /// Of these, of processes that run and are not attached.
    pub not_attached: Option<UpstreamBytes>,
    /// What the counters of attached processes have more than these report; `null` while none is attached.
    pub difference: Option<UpstreamDifference>,
    /// The same in words; `null` where there is none.
    pub difference_text: Option<String>,
    /// What in the file does not agree with the rest of it.
    pub doubts: Vec<String>,
}

/// A process that has a device open, or that TT-Metal's counters know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceUser {
    /// Its pid; `null` of one that runs outside of the server's namespace.
    pub pid: Option<u32>,
    /// The name of its main thread.
    pub name: Option<String>,
    /// Whether its name is left out: it is shown to its user, to root and to the server's user.
    pub names_hidden: bool,
    /// Its user.
    pub uid: Option<u32>,
    /// `alive`; `dead` or `reused` (another process has its pid now) of one that left its counters behind; `unknown`.
    pub state: String,
    /// Whether it reports to the server by itself: what it reports is shown then.
    pub attached: bool,
    /// What it has on each device.
    pub devices: Vec<UsedDevice>,
    /// What counters of chips that are not known here say of it.
    #[serde(default)]
    pub unmatched: Vec<UnmatchedUse>,
    /// What TT-Metal's counters say otherwise than it reports, in words.
    pub difference_text: Option<String>,
}

/// What a machine says of one process on one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsedDevice {
    /// The device's logical id.
    pub id: u32,
    /// The chip's unique id.
    pub unique_id: Option<HexId>,
    /// The visible-device set under which `id` counts; `null` is the default.
    pub scope: Option<String>,
    /// How often it has the device, or the card of the device, open; `null` if the driver does not list it.
    pub descriptors: Option<u32>,
    /// What TT-Metal's counters say.
    pub upstream: Option<UpstreamBytes>,
    /// What they have more than the process reports; `null` unless it is attached.
    pub difference: Option<UpstreamDifference>,
}

/// What one of `Machine::unmatched` says of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnmatchedUse {
    /// The number in the file's name.
    pub id: HexId,
    /// What is counted there.
    pub upstream: UpstreamBytes,
}

impl UsedDevice {
    /// Which device it is.
    #[must_use]
    pub fn key(&self) -> DeviceKey {
        DeviceKey::new(self.id, self.unique_id, self.scope.as_deref())
    }
}

impl DeviceUser {
    /// What TT-Metal's counters say of it on all devices; `None` where they do not know it.
    #[must_use]
    pub fn upstream(&self) -> Option<UpstreamBytes> {
        let counted = self.devices.iter().filter_map(|device| device.upstream);
        counted.reduce(UpstreamBytes::plus)
    }

    /// Whether it runs and nothing of it is known but what is here.
    #[must_use]
    pub fn is_not_attached(&self) -> bool {
        !self.attached && matches!(self.state.as_str(), "alive" | "unknown")
    }

    /// Whether it is gone, and its counters were left behind.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.state.as_str(), "dead" | "reused")
    }
}

impl From<&DeviceUser> for Process {
    /// A process that is not attached, for lists of processes: what it has is what TT-Metal's counters say.
    fn from(user: &DeviceUser) -> Self {
        let devices = user.devices.iter().map(|used| {
            let counted = used.upstream.unwrap_or_default();
            ProcessDevice {
                id: used.id,
                unique_id: used.unique_id,
                scope: used.scope.clone(),
                dram_bytes: counted.dram,
                l1_bytes: counted.l1,
                l1_small_bytes: counted.l1_small,
                trace_bytes: counted.trace,
                system_bytes: 0,
                cb_bytes: counted.cb,
                kernel_bytes: 0,
                buffers: 0,
                peak: None,
            }
        });
        Self {
            pid: user.pid,
            instance: None,
            name: user.name.clone(),
            names_hidden: user.names_hidden,
            uid: user.uid,
            start_time: None,
            state: ProcessState::NotAttached,
            // Without counters nothing is known but that it has a device.
            source: user
                .upstream()
                .map_or(Source::Other, |_counted| Source::Shm),
            incomplete: false,
            incomplete_reasons: Vec::new(),
            resyncing: false,
            lost_events: 0,
            elided_events: 0,
            claimed_pid: None,
            labels: BTreeMap::new(),
            anomalies: 0,
            inherited_frees: 0,
            leak_candidates: LeakCandidates::default(),
            connections: 0,
            devices: devices.collect(),
            released: None,
            host: None,
        }
    }
}

/// A known limit of TT-Metal's counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpstreamLimit {
    /// For programs.
    pub code: String,
    /// For people.
    pub text: String,
}

/// What a machine says besides what its devices have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// When it was read; telemetry and counters are of this time.
    pub time: Timestamp,
    /// Processes that have a device open, or that TT-Metal's counters know; attached or not.
    pub processes: Vec<DeviceUser>,
    /// Counters of chips that are not known here.
    pub unmatched: Vec<Upstream>,
    /// What TT-Metal's counters are not.
    pub upstream_limits: Vec<UpstreamLimit>,
    /// What could not be read, and why.
    pub errors: Vec<String>,
}
