//! One card as the driver shows it: identity, clocks, sensors, link, holders.
//!
//! Read from `/sys/class/tenstorrent` and what its entries lead to. Every value stands alone: a card that
//! is reset or unplugged while it is read loses values, each with its reason, and disturbs no other card.

use crate::files::{Ask, Folder, Reader, Reading, Unread};
use crate::holders::{Holder, holders_in, holders_path, names_of};
use crate::names::Bdf;
use crate::roots::Roots;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use ttmem_event::catalogue::{Arch, BoardKind};

const CLASS: &str = "/sys/class/tenstorrent";
const ENTRY: &str = "tenstorrent!";

/// The driver has at most 32; more entries than this are not its.
const MOST_DEVICES: usize = 256;

/// Longer texts are no values.
const LONGEST_VALUE: usize = 128;

/// What a sensor of a card can have measured, with much room: millidegrees, millivolts, milliamperes, microwatts and
/// revolutions per minute. Firmware that is broken or half up says anything.
const TEMPERATURES: RangeInclusive<i64> = -100_000..=250_000;
const VOLTAGES: RangeInclusive<i64> = 0..=100_000;
const CURRENTS: RangeInclusive<i64> = 0..=10_000_000;
const POWERS: RangeInclusive<i64> = 0..=10_000_000_000;
const FANS: RangeInclusive<i64> = 0..=200_000;

/// Files of the class entry, of the PCI device and of hwmon: those that say what a card is, and those that change.
const CLASS_IDENTITY: &[&str] = &["tt_card_type", "tt_serial", "tt_asic_id"];
const CLASS_VALUES: &[&str] = &[
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
const PCI_IDENTITY: &[&str] = &["device", "max_link_speed", "max_link_width"];
const PCI_VALUES: &[&str] = &["current_link_speed", "current_link_width"];
const HWMON_IDENTITY: &[&str] = &["temp1_max", "in0_max", "curr1_max", "power1_max"];
const HWMON_VALUES: &[&str] = &[
    "temp1_input",
    "in0_input",
    "curr1_input",
    "power1_input",
    "fan1_input",
];

/// After so many looks it is read again what a card is: firmware may have been replaced meanwhile.
const IDENTITY_HOLDS: u64 = 32;

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
    Cards::default().look(roots, reader)
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

/// The cards of a machine that is looked at again and again: what they are is remembered.
#[derive(Debug, Default)]
pub(crate) struct Cards {
    known: BTreeMap<u32, Card>,
    looks: u64,
}

/// What need not be read every time.
#[derive(Debug)]
struct Card {
    entry: Reading<Folder>,
    pci: Reading<Folder>,
    hwmon: Reading<Folder>,
    bdf: Reading<Bdf>,
    identity: BTreeMap<&'static str, Reading<String>>,
    /// Whether everything failed the last time: it may be another card by now.
    is_silent: bool,
}

impl Card {
    fn open(reader: &mut Reader, class: &Path, ordinal: u32) -> Self {
        let path = class.join(format!("{ENTRY}{ordinal}"));
        let entry = Folder::open(&path);
        let pci_path = path.join("device");
        let pci = Folder::open(&pci_path);
        let bdf = reader.link(pci_path.clone()).and_then(|target| {
            let name = target.rsplit('/').next().unwrap_or_default();
            name.parse().map_err(|_none| malformed(name))
        });
        // hwmon's number is not the card's, and the folder comes and goes with the driver.
        let hwmon = reader.names(pci_path.join("hwmon")).and_then(|names| {
            let folder = names.into_iter().find(|name| name.starts_with("hwmon"));
            let folder = folder.ok_or(Unread::Missing)?;
            Folder::open(&pci_path.join("hwmon").join(folder))
        });
        let mut card = Self {
            entry,
            pci,
            hwmon,
            bdf,
            identity: BTreeMap::new(),
            is_silent: false,
        };
        let own = [CLASS_IDENTITY, FIRMWARE_FILES].concat();
        let (names, asks) = card.asks(&own, PCI_IDENTITY, HWMON_IDENTITY);
        let texts = reader.read(asks);
        card.identity = names.into_iter().zip(texts).collect();
        card
    }

    /// What to ask for, with its names.
    fn asks(
        &self,
        own: &[&'static str],
        of_pci: &[&'static str],
        of_hwmon: &[&'static str],
    ) -> (Vec<&'static str>, Vec<Ask>) {
        let (mut names, mut asks) = (Vec::new(), Vec::new());
        for (folder, files) in [
            (&self.entry, own),
            (&self.pci, of_pci),
            (&self.hwmon, of_hwmon),
        ] {
            if let Ok(folder) = folder {
                names.extend(files);
                asks.extend(files.iter().map(|name| Ask::Value(folder.clone(), name)));
            }
        }
        (names, asks)
    }

    /// Why files were not asked for.
    fn absent(&self) -> Unread {
        let folders = [&self.entry, &self.pci, &self.hwmon];
        let error = folders.iter().find_map(|folder| folder.as_ref().err());
        error.cloned().unwrap_or(Unread::Missing)
    }

    /// Whether something that every card has is not there: telemetry of Wormhole comes late.
    fn is_incomplete(&self) -> bool {
        let is_missing = |name: &str| !matches!(self.identity.get(name), Some(Ok(_)));
        is_missing("tt_card_type") || is_missing("tt_serial") || self.hwmon.is_err()
    }
}

impl Cards {
    /// Looks at all of them: what changes is read in one go.
    pub(crate) fn look(&mut self, roots: &Roots, reader: &mut Reader) -> Reading<Vec<Device>> {
        self.looks += 1;
        let class = roots.path(CLASS);
        let ordinals = ordinals(roots, reader).inspect_err(|_error| self.known.clear())?;
        self.known
            .retain(|ordinal, _card| ordinals.contains(ordinal));
        for ordinal in ordinals {
            let is_due = (self.looks + u64::from(ordinal)).is_multiple_of(IDENTITY_HOLDS);
            let is_good = |card: &Card| !is_due && !card.is_silent && !card.is_incomplete();
            if self.known.get(&ordinal).is_some_and(is_good) {
                continue;
            }
            let card = Card::open(reader, &class, ordinal);
            self.known.insert(ordinal, card);
        }
        let mut asks = Vec::new();
        let mut parts = Vec::new();
        for (ordinal, card) in &self.known {
            let (names, of_card) = card.asks(CLASS_VALUES, PCI_VALUES, HWMON_VALUES);
            parts.push(names);
            asks.extend(of_card);
            asks.push(Ask::Text(holders_path(roots, *ordinal)));
        }
        let mut texts = reader.read(asks).into_iter();
        let mut devices = Vec::with_capacity(self.known.len());
        for ((ordinal, card), names) in self.known.iter_mut().zip(parts) {
            let values: Vec<_> = names.into_iter().zip(texts.by_ref()).collect();
            card.is_silent = values.iter().all(|(_name, value)| value.is_err());
            let holders = texts.next().unwrap_or(Err(Unread::Hung));
            let mut all = card.identity.clone();
            all.extend(values);
            let values = Values {
                values: all,
                absent: card.absent(),
            };
            let holders = holders.and_then(|text| holders_in(&text));
            devices.push(values.device(*ordinal, card.bdf.clone(), holders));
        }
        name_holders(roots, reader, &mut devices);
        Ok(devices)
    }
}

/// Names those who have devices open, each process once.
fn name_holders(roots: &Roots, reader: &mut Reader, devices: &mut [Device]) {
    let holders = |devices: &[Device]| -> BTreeSet<i32> {
        let all = devices.iter().flat_map(|device| device.holders.iter());
        all.flatten().map(|holder| holder.pid).collect()
    };
    let names = names_of(roots, reader, holders(devices));
    for device in devices {
        for holder in device.holders.iter_mut().flatten() {
            holder.name = names.get(&holder.pid).cloned();
        }
    }
}

fn ordinal_of(entry: &str) -> Option<u32> {
    let digits = entry.strip_prefix(ENTRY)?;
    let ordinal: u32 = digits.parse().ok()?;
    (ordinal.to_string() == digits).then_some(ordinal)
}

/// What was read of a card, by file.
struct Values {
    values: BTreeMap<&'static str, Reading<String>>,
    /// Why a file was not asked for.
    absent: Unread,
}

impl Values {
    fn device(&self, ordinal: u32, bdf: Reading<Bdf>, holders: Reading<Vec<Holder>>) -> Device {
        let card_type = self.text("tt_card_type");
        let board = card_type
            .as_ref()
            .ok()
            .and_then(|card| BoardKind::from_name(card));
        let arch = match self.text("device").as_deref() {
            Ok("0x401e") => Some(Arch::Wormhole),
            Ok("0xb140") => Some(Arch::Blackhole),
            _ => board.map(BoardKind::arch),
        };
        let firmware = FIRMWARE_FILES.iter().map(|name| (*name, self.text(name)));
        let firmware = firmware.filter(|(_name, version)| *version != Err(Unread::Missing));
        Device {
            ordinal,
            bdf,
            arch,
            board,
            card_type,
            serial: self.hex("tt_serial"),
            asic_id: self.hex("tt_asic_id"),
            clocks: Clocks {
                ai_mhz: self.number("tt_aiclk"),
                axi_mhz: self.number("tt_axiclk"),
                arc_mhz: self.number("tt_arcclk"),
            },
            heartbeat: self.number("tt_heartbeat"),
            thermal_trips: self.number("tt_therm_trip_count"),
            firmware: firmware.collect(),
            link: Link {
                speed: self.text("current_link_speed"),
                max_speed: self.text("max_link_speed"),
                width: self.number("current_link_width"),
                max_width: self.number("max_link_width"),
            },
            sensors: Sensors {
                temperature_millidegrees: self.sensor("temp1_input", TEMPERATURES),
                temperature_limit_millidegrees: self.sensor("temp1_max", TEMPERATURES),
                voltage_millivolts: self.sensor("in0_input", VOLTAGES),
                voltage_limit_millivolts: self.sensor("in0_max", VOLTAGES),
                current_milliamperes: self.sensor("curr1_input", CURRENTS),
                current_limit_milliamperes: self.sensor("curr1_max", CURRENTS),
                power_microwatts: self.sensor("power1_input", POWERS),
                power_limit_microwatts: self.sensor("power1_max", POWERS),
                fan_rpm: self.sensor("fan1_input", FANS),
            },
            holders,
        }
    }

    fn text(&self, name: &str) -> Reading<String> {
        let text = self.values.get(name).ok_or_else(|| self.absent.clone())?;
        line(&text.clone()?)
    }

    fn number<T: FromStr>(&self, name: &str) -> Reading<T> {
        let text = self.text(name)?;
        text.parse().map_err(|_none| malformed(&text))
    }

    /// A number of a sensor; one that no sensor can have measured is none.
    fn sensor(&self, name: &str, possible: RangeInclusive<i64>) -> Reading<i64> {
        let value = self.number(name)?;
        let is_possible = possible.contains(&value);
        is_possible
            .then_some(value)
            .ok_or_else(|| malformed(&value.to_string()))
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

/// A value as the kernel writes one: one short line of ASCII. Anything else would be somebody else's text.
pub(crate) fn line(text: &str) -> Reading<String> {
    let text = text.trim();
    let is_plain = !text.is_empty() && text.len() <= LONGEST_VALUE;
    if !is_plain || !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(malformed(text));
    }
    Ok(text.to_owned())
}

/// What stood there instead, as much of it as can be shown, in ASCII.
fn malformed(text: &str) -> Unread {
    let shown = text.chars().take(40).filter(|letter| !letter.is_control());
    let shown: String = shown.flat_map(char::escape_default).collect();
    Unread::Malformed(format!("\"{shown}\""))
}
