//! A machine in a folder, laid out as the kernel lays out sysfs and procfs.

use crate::fuzz::WrittenRegion;
use crate::roots::Roots;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tempfile::TempDir;

#[derive(Debug)]
pub struct Tree {
    folder: TempDir,
}

/// A card of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    pub ordinal: u32,
    pub bus: u8,
    pub card_type: &'static str,
    pub is_blackhole: bool,
}

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

impl Tree {
    #[must_use]
    pub fn new() -> Self {
        let tree = Self {
            folder: tempfile::tempdir().expect("a folder for the test"),
        };
        fs::create_dir_all(tree.at("sys/class/tenstorrent")).expect("the test's own folder");
        fs::create_dir_all(tree.at("sys/bus/pci/devices")).expect("the test's own folder");
        tree.put("sys/module/tenstorrent/version", "2.10.1\n");
        tree.put("proc/stat", "cpu 1 2 3\nbtime 1790000000\nprocesses 5\n");
        tree
    }

    #[must_use]
    pub fn roots(&self) -> Roots {
        Roots::below(self.folder.path())
    }

    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the test's own folder");
        fs::write(path, text).expect("the test's own folder");
    }

    /// The folder of a card's PCI device.
    #[must_use]
    pub fn pci(card: &Card) -> String {
        format!("sys/devices/pci0000:00/0000:{:02x}:00.0", card.bus)
    }

    /// The folder of a card's class entry, by the way that has no link.
    #[must_use]
    pub fn entry(card: &Card) -> String {
        format!(
            "{}/tenstorrent/tenstorrent!{}",
            Self::pci(card),
            card.ordinal
        )
    }

    pub fn add(&self, card: &Card) {
        let Card { ordinal, bus, .. } = *card;
        let (pci, entry) = (Self::pci(card), Self::entry(card));
        let put = |folder: &str, file: &str, text: String| {
            self.put(&format!("{folder}/{file}"), text + "\n");
        };
        put(&entry, "tt_card_type", card.card_type.to_owned());
        put(
            &entry,
            "tt_serial",
            format!("{:016X}", 0x0100_0140_0000_0000_u64 + u64::from(ordinal)),
        );
        put(
            &entry,
            "tt_asic_id",
            format!("{:016X}", 0xA000_0000_0000_0000_u64 + u64::from(ordinal)),
        );
        put(&entry, "tt_aiclk", "1000".to_owned());
        put(&entry, "tt_axiclk", "900".to_owned());
        put(&entry, "tt_arcclk", "540".to_owned());
        put(&entry, "tt_heartbeat", (7000 + ordinal).to_string());
        put(&entry, "tt_fw_bundle_ver", "18.12.0.0".to_owned());
        if card.is_blackhole {
            put(&entry, "tt_therm_trip_count", "1".to_owned());
        } else {
            put(&entry, "tt_eth_fw_ver", "7.0.0".to_owned());
        }
        put(&pci, "vendor", "0x1e52".to_owned());
        put(
            &pci,
            "device",
            if card.is_blackhole {
                "0xb140"
            } else {
                "0x401e"
            }
            .to_owned(),
        );
        put(&pci, "current_link_speed", "16.0 GT/s PCIe".to_owned());
        put(&pci, "max_link_speed", "16.0 GT/s PCIe".to_owned());
        put(&pci, "current_link_width", "8".to_owned());
        put(&pci, "max_link_width", "16".to_owned());
        let hwmon = format!("{pci}/hwmon/hwmon{}", ordinal + 3);
        put(&hwmon, "temp1_input", "45312".to_owned());
        put(&hwmon, "temp1_max", "75000".to_owned());
        put(&hwmon, "in0_input", "736".to_owned());
        put(&hwmon, "in0_max", "950".to_owned());
        put(&hwmon, "curr1_input", "21000".to_owned());
        put(&hwmon, "curr1_max", "160000".to_owned());
        put(&hwmon, "power1_input", "17000000".to_owned());
        put(&hwmon, "power1_max", "85000000".to_owned());
        if card.is_blackhole {
            put(&hwmon, "fan1_input", "1560".to_owned());
        }
        // `device` of an entry, and the two folders by which both are found.
        symlink(
            format!("../../../0000:{bus:02x}:00.0"),
            self.at(&format!("{entry}/device")),
        )
        .expect("the test's own folder");
        symlink(
            format!(
                "../../devices/pci0000:00/0000:{bus:02x}:00.0/tenstorrent/tenstorrent!{ordinal}"
            ),
            self.at(&format!("sys/class/tenstorrent/tenstorrent!{ordinal}")),
        )
        .expect("the test's own folder");
        symlink(
            format!("../../../devices/pci0000:00/0000:{bus:02x}:00.0"),
            self.at(&format!("sys/bus/pci/devices/0000:{bus:02x}:00.0")),
        )
        .expect("the test's own folder");
        self.put(&format!("proc/driver/tenstorrent/{ordinal}/pids"), "");
    }

    /// A machine with some cards.
    #[must_use]
    pub fn with(cards: &[Card]) -> Self {
        let tree = Self::new();
        for card in cards {
            tree.add(card);
        }
        tree
    }

    /// A file of TT-Metal's counters.
    pub fn count(&self, region: &WrittenRegion) {
        let path = format!("dev/shm/tt_device_{}_memory", region.id);
        self.put(&path, region.bytes());
    }

    /// A process that began so many seconds after the machine.
    pub fn process(&self, pid: i32, name: &str, after_boot: u64) {
        let ticks = after_boot * 100;
        let zeros = "0 ".repeat(18);
        let stat = format!("{pid} ({name}) S {zeros}{ticks} 0 0\n");
        self.put(&format!("proc/{pid}/stat"), stat);
        self.put(&format!("proc/{pid}/comm"), format!("{name}\n"));
    }
}

/// The machines of the tests.
#[must_use]
pub fn wormholes(card_type: &'static str, count: u32) -> Vec<Card> {
    let bus = |ordinal: u32| u8::try_from(ordinal + 0x0a).expect("few cards");
    let card = |ordinal| Card {
        ordinal,
        bus: bus(ordinal),
        card_type,
        is_blackhole: false,
    };
    (0..count).map(card).collect()
}

/// Blackhole cards.
#[must_use]
pub fn blackholes(card_type: &'static str, count: u32) -> Vec<Card> {
    let card = |card: Card| Card {
        is_blackhole: true,
        ..card
    };
    wormholes(card_type, count).into_iter().map(card).collect()
}

/// Four trays of eight, as the driver orders them by the bus.
#[must_use]
pub fn galaxy() -> Vec<Card> {
    let buses = [0xC0, 0x80, 0x00, 0x40].into_iter();
    let buses = buses.flat_map(|tray| (1..=8).map(move |chip| tray + chip));
    let card = |(ordinal, bus)| Card {
        ordinal,
        bus,
        card_type: "galaxy-wormhole",
        is_blackhole: false,
    };
    (0..).zip(buses).map(card).collect()
}
