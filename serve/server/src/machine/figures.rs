//! What was found on the machine, as the types of documents.

use std::collections::BTreeMap;
use ttmem_machine::shm::{Bytes, LIMITS};
use ttmem_machine::{Chip, Device, Reading, Unread};
use ttmem_report::{DeviceNames, HexId, Telemetry, UpstreamBytes, UpstreamLimit};

pub(super) fn names(chip: &Chip) -> DeviceNames {
    DeviceNames {
        node: format!("/dev/tenstorrent/{}", chip.ordinal),
        pci_address: chip.bdf.map(|bdf| bdf.to_string()),
        asic_id: chip.asic_id.map(HexId),
        board_serial: chip.serial.map(HexId),
        tray: chip.tray.map(|tray| tray.to_string()),
    }
}

pub(super) fn telemetry(card: &Device) -> Telemetry {
    let mut unread = Unreadable::default();
    let (clocks, sensors, link) = (&card.clocks, &card.sensors, &card.link);
    let mut firmware = BTreeMap::new();
    for (name, version) in &card.firmware {
        if let Some(version) = unread.known(name, version) {
            firmware.insert((*name).to_owned(), version);
        }
    }
    unread.tell("pci_address", &card.bdf);
    unread.tell("asic_id", &card.asic_id);
    unread.tell("board_serial", &card.serial);
    unread.tell("holders", &card.holders);
    Telemetry {
        card_type: unread.known("card_type", &card.card_type),
        ai_clock_mhz: unread.known("ai_clock_mhz", &clocks.ai_mhz),
        axi_clock_mhz: unread.known("axi_clock_mhz", &clocks.axi_mhz),
        arc_clock_mhz: unread.known("arc_clock_mhz", &clocks.arc_mhz),
        heartbeat: unread.known("heartbeat", &card.heartbeat),
        thermal_trips: unread.known("thermal_trips", &card.thermal_trips),
        link_speed: unread.known("link_speed", &link.speed),
        link_max_speed: unread.known("link_max_speed", &link.max_speed),
        link_width: unread.known("link_width", &link.width),
        link_max_width: unread.known("link_max_width", &link.max_width),
        temperature_millidegrees: unread.known(
            "temperature_millidegrees",
            &sensors.temperature_millidegrees,
        ),
        temperature_limit_millidegrees: unread.known(
            "temperature_limit_millidegrees",
            &sensors.temperature_limit_millidegrees,
        ),
        voltage_millivolts: unread.known("voltage_millivolts", &sensors.voltage_millivolts),
        voltage_limit_millivolts: unread.known(
            "voltage_limit_millivolts",
            &sensors.voltage_limit_millivolts,
        ),
        current_milliamperes: unread.known("current_milliamperes", &sensors.current_milliamperes),
        current_limit_milliamperes: unread.known(
            "current_limit_milliamperes",
            &sensors.current_limit_milliamperes,
        ),
        power_microwatts: unread.known("power_microwatts", &sensors.power_microwatts),
        power_limit_microwatts: unread
            .known("power_limit_microwatts", &sensors.power_limit_microwatts),
        fan_rpm: unread.known("fan_rpm", &sensors.fan_rpm),
        firmware,
        unread: unread.0,
    }
}

/// Values that could not be read, and why.
#[derive(Default)]
struct Unreadable(BTreeMap<String, String>);

impl Unreadable {
    fn known<T: Clone>(&mut self, name: &str, reading: &Reading<T>) -> Option<T> {
        self.tell(name, reading);
        reading.clone().ok()
    }

    fn tell<T>(&mut self, name: &str, reading: &Reading<T>) {
        match reading {
            // The driver or the firmware has no such value: nothing to tell.
            Ok(_) | Err(Unread::Missing) => {}
            Err(why) => {
                self.0.insert(name.to_owned(), why.to_string());
            }
        }
    }
}

pub(super) fn bytes(bytes: &Bytes) -> UpstreamBytes {
    UpstreamBytes {
        dram: bytes.dram,
        l1: bytes.l1,
        l1_small: bytes.l1_small,
        trace: bytes.trace,
        cb: bytes.cb,
    }
}

pub(super) fn limits() -> Vec<UpstreamLimit> {
    let limit = |limit: &ttmem_machine::shm::Limit| UpstreamLimit {
        code: limit.code.to_owned(),
        text: limit.text.to_owned(),
    };
    LIMITS.iter().map(limit).collect()
}
