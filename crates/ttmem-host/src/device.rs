//! One card as the driver shows it: identity, clocks, sensors, link, holders.
//!
//! Read from `/sys/class/tenstorrent` and what its entries lead to. Every value stands alone: a card that
//! is reset or unplugged while it is read loses values, each with its reason, and disturbs no other card.

use crate::files::{Reader, Reading, Unread};
use crate::holders::{Holder, holders};
use crate::names::Bdf;
use crate::roots::Roots;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use ttmem_event::catalogue::{Arch, BoardKind};

const CLASS: &str = "/sys/class/tenstorrent";
const ENTRY: &str = "tenstorrent!";

/// The driver has at most 32; more entries than this are not its.
const MOST_DEVICES: usize = 256;

/// Longer texts are no values.
const LONGEST_VALUE: usize = 128;

/// Files of the class entry, of the PCI device and of hwmon.
const CLASS_FILES: &[&str] = &[
    "tt_card_type",
    "tt_serial",
    "tt_asic_id",
    "tt_aiclk",
    "tt_axiclk",
    "tt_arcclk",
    "tt_heartbeat",
    "tt_therm_trip_count",
];
const FIRMWARE_FILES: &[&str] = &[
    "tt_fw_bundle_ver",
    "tt_m3app_fw_ver",
    "tt_m3bl_fw_ver",
    "tt_arc_fw_ver",
    "tt_eth_fw_ver",
    "tt_ttflash_ver",
];
const PCI_FILES: &[&str] = &[
    "device",
    "current_link_speed",
    "max_link_speed",
    "current_link_width",
    "max_link_width",
];
const HWMON_FILES: &[&str] = &[
    "temp1_input",
    "temp1_max",
    "in0_input",
    "in0_max",
    "curr1_input",
    "curr1_max",
    "power1_input",
    "power1_max",
    "fan1_input",
];

/// Clocks in MHz.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clocks {
    pub ai_mhz: Reading<u32>,
    pub axi_mhz: Reading<u32>,
    pub arc_mhz: Reading<u32>,
}

/// Values of hwmon, in its units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sensors {
    pub temperature_millidegrees: Reading<i64>,
    pub temperature_limit_millidegrees: Reading<i64>,
    pub voltage_millivolts: Reading<i64>,
    pub voltage_limit_millivolts: Reading<i64>,
    pub current_milliamperes: Reading<i64>,
    pub current_limit_milliamperes: Reading<i64>,
    pub power_microwatts: Reading<i64>,
    pub power_limit_microwatts: Reading<i64>,
    /// Wormhole reports none.
    pub fan_rpm: Reading<i64>,
}

/// The PCI Express link, as it is and as it could be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// As the kernel writes it, such as `16.0 GT/s PCIe`.
    pub speed: Reading<String>,
    pub max_speed: Reading<String>,
    pub width: Reading<u32>,
    pub max_width: Reading<u32>,
}

/// One entry of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// N of `/dev/tenstorrent/N`.
    pub ordinal: u32,
    pub bdf: Reading<Bdf>,
    pub arch: Option<Arch>,
    /// As the driver writes it, such as `n300` or `p150a`.
    pub card_type: Reading<String>,
    pub board: Option<BoardKind>,
    /// The board's number.
    pub serial: Reading<u64>,
    pub asic_id: Reading<u64>,
    pub clocks: Clocks,
    /// Counts while the firmware runs.
    pub heartbeat: Reading<u32>,
    /// Shutdowns by heat since power was last switched on; Blackhole.
    pub thermal_trips: Reading<u32>,
    /// By the driver's names, those that there are.
    pub firmware: BTreeMap<&'static str, Reading<String>>,
    pub link: Link,
    pub sensors: Sensors,
    /// Processes that have the device open; the driver tells since 2.5.0.
    pub holders: Reading<Vec<Holder>>,
}

impl Device {
    /// Whether the device went away while it was read, or is being reset.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        [
            self.serial.as_ref().err(),
            self.heartbeat.as_ref().err(),
            self.card_type.as_ref().err(),
        ]
        .contains(&Some(&Unread::Detached))
    }
}

/// Every card that the driver lists, by ordinal; without the driver, `Missing`.
pub fn devices(roots: &Roots, reader: &mut Reader) -> Reading<Vec<Device>> {
    let class = roots.path(CLASS);
    let devices = ordinals(roots, reader)?
        .into_iter()
        .map(|ordinal| device(roots, reader, &class, ordinal));
    Ok(devices.collect())
}

/// N of every `/dev/tenstorrent/N` that the driver lists, sorted.
pub fn ordinals(roots: &Roots, reader: &mut Reader) -> Reading<Vec<u32>> {
    let entries = reader.names(roots.path(CLASS))?;
    let mut ordinals: Vec<u32> = entries
        .iter()
        .filter_map(|name| ordinal_of(name))
        .take(MOST_DEVICES)
        .collect();
    ordinals.sort_unstable();
    Ok(ordinals)
}

fn ordinal_of(entry: &str) -> Option<u32> {
    let digits = entry.strip_prefix(ENTRY)?;
    let ordinal: u32 = digits.parse().ok()?;
    (ordinal.to_string() == digits).then_some(ordinal)
}

fn device(roots: &Roots, reader: &mut Reader, class: &Path, ordinal: u32) -> Device {
    let entry = class.join(format!("{ENTRY}{ordinal}"));
    let pci = entry.join("device");
    let bdf = reader.link(pci.clone()).and_then(|target| {
        let name = target.rsplit('/').next().unwrap_or_default();
        name.parse().map_err(|_none| malformed(name))
    });
    // hwmon's number is not the card's, and the folder comes and goes with the driver.
    let hwmon = reader.names(pci.join("hwmon")).and_then(|names| {
        let folder = names.into_iter().find(|name| name.starts_with("hwmon"));
        Ok(pci.join("hwmon").join(folder.ok_or(Unread::Missing)?))
    });
    let mut files: Vec<(&'static str, PathBuf)> = Vec::new();
    let class_files = CLASS_FILES.iter().chain(FIRMWARE_FILES);
    files.extend(class_files.map(|name| (*name, entry.join(name))));
    files.extend(PCI_FILES.iter().map(|name| (*name, pci.join(name))));
    if let Ok(folder) = &hwmon {
        files.extend(HWMON_FILES.iter().map(|name| (*name, folder.join(name))));
    }
    let (names, paths): (Vec<_>, Vec<_>) = files.into_iter().unzip();
    let texts = reader.texts(paths);
    let values = Values {
        values: names.into_iter().zip(texts).collect(),
        absent: hwmon.err().unwrap_or(Unread::Missing),
    };
    let card_type = values.text("tt_card_type");
    let board = card_type
        .as_ref()
        .ok()
        .and_then(|card| BoardKind::from_name(card));
    let arch = match values.text("device").as_deref() {
        Ok("0x401e") => Some(Arch::Wormhole),
        Ok("0xb140") => Some(Arch::Blackhole),
        _ => board.map(BoardKind::arch),
    };
    let firmware = FIRMWARE_FILES.iter().map(|name| (*name, values.text(name)));
    let firmware = firmware.filter(|(_name, version)| *version != Err(Unread::Missing));
    Device {
        ordinal,
        bdf,
        arch,
        board,
        card_type,
        serial: values.hex("tt_serial"),
        asic_id: values.hex("tt_asic_id"),
        clocks: Clocks {
            ai_mhz: values.number("tt_aiclk"),
            axi_mhz: values.number("tt_axiclk"),
            arc_mhz: values.number("tt_arcclk"),
        },
        heartbeat: values.number("tt_heartbeat"),
        thermal_trips: values.number("tt_therm_trip_count"),
        firmware: firmware.collect(),
        link: Link {
            speed: values.text("current_link_speed"),
            max_speed: values.text("max_link_speed"),
            width: values.number("current_link_width"),
            max_width: values.number("max_link_width"),
        },
        sensors: Sensors {
            temperature_millidegrees: values.number("temp1_input"),
            temperature_limit_millidegrees: values.number("temp1_max"),
            voltage_millivolts: values.number("in0_input"),
            voltage_limit_millivolts: values.number("in0_max"),
            current_milliamperes: values.number("curr1_input"),
            current_limit_milliamperes: values.number("curr1_max"),
            power_microwatts: values.number("power1_input"),
            power_limit_microwatts: values.number("power1_max"),
            fan_rpm: values.number("fan1_input"),
        },
        holders: holders(roots, reader, ordinal),
    }
}

/// What was read of a card, by file.
struct Values {
    values: BTreeMap<&'static str, Reading<String>>,
    /// Why a file was not asked for.
    absent: Unread,
}

impl Values {
    /// One line of printable text.
    fn text(&self, name: &str) -> Reading<String> {
        let text = self.values.get(name).ok_or_else(|| self.absent.clone())?;
        let text = text.clone()?;
        let text = text.trim();
        let is_plain = !text.is_empty() && text.len() <= LONGEST_VALUE;
        if !is_plain || text.chars().any(char::is_control) {
            return Err(malformed(text));
        }
        Ok(text.to_owned())
    }

    fn number<T: FromStr>(&self, name: &str) -> Reading<T> {
        let text = self.text(name)?;
        text.parse().map_err(|_none| malformed(&text))
    }

    /// Sixteen hexadecimal digits without a prefix.
    fn hex(&self, name: &str) -> Reading<u64> {
        let text = self.text(name)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u64::from_str_radix(digits, 16).ok());
        number.flatten().ok_or_else(|| malformed(&text))
    }
}

/// What stood there instead, as much of it as can be shown.
fn malformed(text: &str) -> Unread {
    let shown: String = text
        .chars()
        .take(40)
        .filter(|letter| !letter.is_control())
        .collect();
    Unread::Malformed(format!("{shown:?}"))
}
