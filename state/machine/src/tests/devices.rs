use super::patient;
use crate::files::{Ask, Found, Kernel, Reader, Source, Unread};
use crate::names::{Selector, chips};
use crate::tree::{Card, Tree, blackholes, galaxy, wormholes};
use crate::{Device, Iommu, Machine, Watch, devices, open_files};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ttmem_event::catalogue::{Arch, BoardKind};

fn machine(cards: &[Card]) -> Tree {
    Tree::with(cards)
}

fn read(tree: &Tree) -> Vec<Device> {
    devices(&tree.roots(), &mut patient()).unwrap()
}

#[test]
fn an_n150_has_every_value_of_its_files() {
    let cards = wormholes("n150", 1);
    let tree = machine(&cards);
    tree.put("proc/driver/tenstorrent/0/pids", "77\n77\n78\n0\n");
    tree.process(77, "python", 10);
    let found = read(&tree);
    assert_eq!(found.len(), 1);
    let device = &found[0];
    assert_eq!(device.bdf.clone().unwrap().to_string(), "0000:0a:00.0");
    assert_eq!(device.arch, Some(Arch::Wormhole));
    assert_eq!(device.board, Some(BoardKind::N150));
    assert_eq!(device.serial, Ok(0x0100_0140_0000_0000));
    assert_eq!(device.clocks.ai_mhz, Ok(1000));
    assert_eq!(device.heartbeat, Ok(7000));
    assert_eq!(device.sensors.temperature_millidegrees, Ok(45_312));
    assert_eq!(device.sensors.power_microwatts, Ok(17_000_000));
    assert_eq!(device.sensors.current_milliamperes, Ok(21_000));
    assert_eq!(device.sensors.voltage_millivolts, Ok(736));
    assert_eq!(
        device.sensors.fan_rpm,
        Err(Unread::Missing),
        "Wormhole has none"
    );
    assert_eq!(device.thermal_trips, Err(Unread::Missing));
    assert_eq!(device.link.width, Ok(8));
    assert_eq!(device.link.max_width, Ok(16));
    let firmware: Vec<&str> = device.firmware.keys().copied().collect();
    assert_eq!(firmware, ["tt_eth_fw_ver", "tt_fw_bundle_ver"]);
    let holders = device.holders.as_ref().unwrap();
    let shown: Vec<(i32, u32, Option<&str>)> = holders
        .iter()
        .map(|holder| (holder.pid, holder.descriptors, holder.name.as_deref()))
        .collect();
    assert_eq!(
        shown,
        [(0, 1, None), (77, 2, Some("python")), (78, 1, None)]
    );
    assert!(!device.is_detached());
}

#[test]
fn a_p150_has_a_fan_and_counts_thermal_trips() {
    let card = Card {
        ordinal: 0,
        bus: 1,
        card_type: "p150a",
        is_blackhole: true,
    };
    let found = read(&machine(&[card]));
    assert_eq!(found[0].arch, Some(Arch::Blackhole));
    assert_eq!(found[0].board, Some(BoardKind::P150));
    assert_eq!(found[0].sensors.fan_rpm, Ok(1560));
    assert_eq!(found[0].thermal_trips, Ok(1));
}

#[test]
fn four_n300_are_eight_chips_under_any_of_their_names() {
    let found = read(&machine(&wormholes("n300", 4)));
    let chips = chips(&found);
    let remote: Vec<bool> = chips.iter().map(|chip| chip.is_remote).collect();
    assert_eq!(remote, [false, false, false, false, true, true, true, true]);
    let chosen = |text: &str| -> Vec<u32> {
        let selector: Selector = text.parse().unwrap();
        let meant = chips.iter().filter(|chip| selector.means(chip));
        meant.map(|chip| chip.logical_id).collect()
    };
    assert_eq!(chosen("6"), [6]);
    assert_eq!(
        chosen("/dev/tenstorrent/2"),
        [2, 6],
        "a card is both of its chips"
    );
    assert_eq!(chosen("0000:0c:00.0"), [2, 6]);
    assert_eq!(chosen("0c:00.0"), [2, 6]);
    assert_eq!(chosen("0100014000000001"), [1, 5], "a board, too");
    assert_eq!(chosen("a000000000000001"), [1], "the chip itself");
    let by_id = chips[1].by_id().unwrap();
    assert_eq!(by_id, "wormhole-A000000000000001");
    assert_eq!(chosen(&by_id), [1]);
    assert_eq!(chosen(&format!("/dev/tenstorrent/by-id/{by_id}")), [1]);
    assert_eq!(
        chips[5].by_id(),
        None,
        "the driver does not know a remote chip's number"
    );
    assert!(chosen("8").is_empty());
    for text in [
        "",
        "-1",
        "0000:0c:00",
        "0c:40.0",
        "0c:00.9",
        "tray1",
        "n300",
        "/dev/tenstorrent/x",
        "+1",
        "wormhole-1",
    ] {
        assert!(text.parse::<Selector>().is_err(), "{text}");
    }
}

#[test]
fn a_galaxy_has_trays() {
    let tree = machine(&galaxy());
    let found = read(&tree);
    let chips = chips(&found);
    assert_eq!(chips.len(), 32);
    let place = |at: usize| chips[at].tray.unwrap().to_string();
    assert_eq!(place(0), "tray1/chip1");
    assert_eq!(place(8), "tray2/chip1");
    assert_eq!(place(23), "tray3/chip8");
    assert_eq!(place(31), "tray4/chip8");
    let selector: Selector = "tray3/chip8".parse().unwrap();
    let meant: Vec<u32> = chips
        .iter()
        .filter(|chip| selector.means(chip))
        .map(|chip| chip.ordinal)
        .collect();
    assert_eq!(meant, [23]);
}

/// Not a limit: what it costs here, printed.
#[test]
fn one_refresh_of_32_devices() {
    let tree = machine(&galaxy());
    let mut reader = patient();
    let roots = tree.roots();
    devices(&roots, &mut reader).unwrap();
    let mut times = Vec::new();
    for _round in 0..10 {
        let started = Instant::now();
        assert_eq!(devices(&roots, &mut reader).unwrap().len(), 32);
        times.push(started.elapsed());
    }
    times.sort();
    println!(
        "one refresh of 32 devices: median {:?}, longest {:?}",
        times[5], times[9]
    );
}

#[test]
fn values_that_are_none_are_said_and_do_not_spoil_others() {
    let cards = wormholes("n150", 2);
    let tree = machine(&cards);
    let entry = Tree::entry(&cards[0]);
    tree.put(&format!("{entry}/tt_aiclk"), "fast\n");
    tree.put(&format!("{entry}/tt_serial"), "not hex\n");
    tree.put(&format!("{entry}/tt_heartbeat"), "99999999999\n");
    tree.put(&format!("{entry}/tt_card_type"), "\u{1b}[2J\n");
    tree.put(&format!("{entry}/tt_arcclk"), vec![b'1'; 5000]);
    tree.put("proc/driver/tenstorrent/0/pids", "-5\n");
    tree.put("sys/class/tenstorrent/tenstorrent!01/tt_aiclk", "1\n");
    tree.put("sys/class/tenstorrent/unrelated/tt_aiclk", "1\n");
    fs::remove_file(tree.at(&format!("{entry}/tt_axiclk"))).unwrap();
    // A read of another process's memory at its beginning is a real EIO.
    symlink("/proc/self/mem", tree.at(&format!("{entry}/tt_axiclk"))).unwrap();
    let found = read(&tree);
    assert_eq!(found.len(), 2, "other names are no devices");
    let device = &found[0];
    for reading in [
        device.clocks.ai_mhz.clone().err(),
        device.serial.clone().err(),
        device.heartbeat.clone().err(),
        device.clocks.arc_mhz.clone().err(),
        device.card_type.clone().err(),
        device.holders.clone().err(),
    ] {
        assert!(matches!(reading, Some(Unread::Malformed(_))), "{reading:?}");
    }
    assert_eq!(
        device.clocks.axi_mhz,
        Err(Unread::Failed(Errno::IO.raw_os_error()))
    );
    assert_eq!(device.board, None);
    assert_eq!(device.arch, Some(Arch::Wormhole), "PCI knows");
    assert_eq!(device.asic_id, Ok(0xA000_0000_0000_0000));
    assert_eq!(
        chips(&found).len(),
        2,
        "a card of an unknown kind is one as well"
    );
    assert_eq!(found[1].clocks.ai_mhz, Ok(1000));
}

/// A driver that answers some files with an error, once.
struct Failing {
    file: &'static str,
    error: Errno,
}

impl Source for Failing {
    fn ask(&self, ask: &Ask) -> io::Result<Found> {
        match ask {
            ask if ask.path().ends_with(self.file) => Err(self.error.into()),
            other => Kernel.ask(other),
        }
    }
}

#[test]
fn what_the_driver_refuses_has_its_reason() {
    let tree = machine(&wormholes("n300", 1));
    for (error, expected) in [
        (Errno::NODEV, Unread::Detached),
        (Errno::NODATA, Unread::NoData),
        (Errno::ACCESS, Unread::Denied),
        (Errno::IO, Unread::Failed(Errno::IO.raw_os_error())),
    ] {
        let source = Failing {
            file: "tt_heartbeat",
            error,
        };
        let mut reader = Reader::of(Arc::new(source), Duration::from_secs(60));
        let found = devices(&tree.roots(), &mut reader).unwrap();
        assert_eq!(found[0].heartbeat, Err(expected.clone()));
        assert_eq!(found[0].is_detached(), expected == Unread::Detached);
        assert_eq!(found[0].serial, Ok(0x0100_0140_0000_0000));
    }
}

#[test]
fn files_may_come_late_and_cards_may_go() {
    let cards = wormholes("n150", 2);
    let tree = machine(&cards);
    let hwmon = tree.at(&format!("{}/hwmon", Tree::pci(&cards[0])));
    let later = tree.at("later");
    fs::rename(&hwmon, &later).unwrap();
    let mut reader = patient();
    let roots = tree.roots();
    let found = devices(&roots, &mut reader).unwrap();
    assert_eq!(
        found[0].sensors.temperature_millidegrees,
        Err(Unread::Missing)
    );
    assert_eq!(found[1].sensors.temperature_millidegrees, Ok(45_312));
    fs::rename(&later, &hwmon).unwrap();
    let found = devices(&roots, &mut reader).unwrap();
    assert_eq!(found[0].sensors.temperature_millidegrees, Ok(45_312));
    // The entry is still listed, what it leads to is not there any more.
    fs::remove_dir_all(tree.at(&Tree::pci(&cards[0]))).unwrap();
    let found = devices(&roots, &mut reader).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].serial, Err(Unread::Missing));
    assert_eq!(found[0].bdf, Err(Unread::Missing));
    assert_eq!(found[1].heartbeat, Ok(7001));
    fs::remove_file(tree.at("sys/class/tenstorrent/tenstorrent!0")).unwrap();
    assert_eq!(devices(&roots, &mut reader).unwrap().len(), 1);
    fs::remove_dir_all(tree.at("sys/class/tenstorrent")).unwrap();
    assert_eq!(
        devices(&roots, &mut reader),
        Err(Unread::Missing),
        "the driver was unloaded"
    );
}

#[test]
fn a_device_that_comes_and_goes_while_it_is_read_is_survived() {
    let cards = wormholes("n150", 1);
    let tree = machine(&cards);
    let (entry, away) = (tree.at(&Tree::pci(&cards[0])), tree.at("away"));
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let unplugging = {
        let done = Arc::clone(&done);
        std::thread::spawn(move || {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                fs::rename(&entry, &away).unwrap();
                fs::rename(&away, &entry).unwrap();
            }
        })
    };
    let mut reader = patient();
    for _round in 0..200 {
        let found = devices(&tree.roots(), &mut reader).unwrap();
        for device in found {
            assert!(
                matches!(
                    device.serial,
                    Ok(0x0100_0140_0000_0000) | Err(Unread::Missing)
                ),
                "{device:?}"
            );
        }
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    unplugging.join().unwrap();
}

#[test]
fn holders_are_found_by_their_descriptors() {
    let tree = machine(&wormholes("n150", 1));
    tree.process(300, "python", 1);
    fs::create_dir_all(tree.at("proc/300/fd")).unwrap();
    symlink("/dev/tenstorrent/0", tree.at("proc/300/fd/5")).unwrap();
    symlink("/dev/tenstorrent/0", tree.at("proc/300/fd/6")).unwrap();
    symlink("socket:[1]", tree.at("proc/300/fd/7")).unwrap();
    symlink("/dev/tenstorrent/by-id/x", tree.at("proc/300/fd/8")).unwrap();
    let open = open_files(&tree.roots(), &mut patient()).unwrap();
    assert_eq!(open.holders.len(), 1);
    let holder = &open.holders[&0][0];
    assert_eq!((holder.pid, holder.descriptors), (300, 2));
    assert_eq!(holder.name.as_deref(), Some("python"));
}

#[test]
fn a_process_whose_first_thread_has_ended_holds_what_the_others_have() {
    let tree = machine(&wormholes("n150", 1));
    for thread in ["300/fd", "300/task/300/fd", "300/task/301/fd"] {
        fs::create_dir_all(tree.at(&format!("proc/{thread}"))).unwrap();
    }
    symlink("/dev/tenstorrent/0", tree.at("proc/300/task/301/fd/5")).unwrap();
    let open = open_files(&tree.roots(), &mut patient()).unwrap();
    assert_eq!(open.holders[&0][0].pid, 300);
    assert_eq!(open.unread, []);
}

#[test]
fn a_process_with_too_many_descriptors_is_told_of() {
    let tree = machine(&wormholes("n150", 1));
    let folder = tree.at("proc/300/fd");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..=65_536 {
        symlink("/dev/null", folder.join(number.to_string())).unwrap();
    }
    let open = open_files(&tree.roots(), &mut patient()).unwrap();
    assert_eq!(open.unread.len(), 1);
    assert_eq!(open.unread[0].0, 300);
    assert!(open.unread[0].1.to_string().contains("65536 entries"));
}

#[test]
fn a_list_of_holders_that_is_too_long_is_refused_whole() {
    let tree = machine(&wormholes("n150", 1));
    tree.put(
        "proc/driver/tenstorrent/0/pids",
        "1234567\n".repeat(140_000),
    );
    let found = crate::holders(&tree.roots(), &mut patient(), 0);
    let said = found.unwrap_err().to_string();
    assert!(said.contains("more than 1048576 bytes"), "{said}");
}

#[test]
fn the_machine_around() {
    let tree = machine(&wormholes("n150", 1));
    let mut reader = patient();
    let bare = Machine::read(&tree.roots(), &mut reader);
    assert_eq!(bare.driver.as_deref(), Ok("2.10.1"));
    assert_eq!(bare.cards.as_deref(), Ok(&["0000:0a:00.0".to_owned()][..]));
    assert_eq!(bare.iommu, Iommu::Off);
    assert_eq!(bare.huge_pages.total, Err(Unread::Missing));
    tree.put(
        "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
        "4\n",
    );
    tree.put(
        "sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages",
        "3\n",
    );
    tree.put("proc/self/mounts", "tmpfs /dev/shm tmpfs rw 0 0\nhugetlbfs /dev/hugepages-1G hugetlbfs rw,relatime,pagesize=1024M 0 0\nshort\n");
    fs::create_dir_all(tree.at("dev/shm")).unwrap();
    tree.put("dev/tenstorrent/0", "");
    symlink(
        "../../../../kernel/iommu_groups/9",
        tree.at("sys/devices/pci0000:00/0000:0a:00.0/iommu_group"),
    )
    .unwrap();
    tree.put("sys/kernel/iommu_groups/9/type", "DMA-FQ\n");
    fs::create_dir_all(tree.at("proc/self/ns")).unwrap();
    symlink("pid:[4026531836]", tree.at("proc/self/ns/pid")).unwrap();
    symlink("ipc:[4026532000]", tree.at("proc/self/ns/ipc")).unwrap();
    let full = Machine::read(&tree.roots(), &mut reader);
    assert_eq!(full.huge_pages.total, Ok(4));
    assert_eq!(full.huge_pages.free, Ok(3));
    assert_eq!(full.huge_page_mounts.len(), 1);
    assert_eq!(
        full.iommu,
        Iommu::On {
            group_type: Some("DMA-FQ".to_owned())
        }
    );
    assert!(full.shm.unwrap().free_bytes.is_some());
    assert_eq!(full.namespaces.is_first_pid, Ok(true));
    assert_eq!(full.namespaces.is_first_ipc, Ok(false));
    assert_eq!(full.nodes.len(), 1);
    assert_eq!(full.nodes[0].may_use, Ok(()));
}

#[test]
fn a_machine_that_is_watched_shows_what_changed_and_other_cards() {
    let cards = wormholes("n150", 2);
    let tree = machine(&cards);
    let mut watch = Watch::with_reader(tree.roots(), patient());
    let clock = |watch: &mut Watch, place: usize| {
        let devices = watch.look().devices.unwrap();
        devices[place].clocks.ai_mhz.clone()
    };
    assert_eq!(clock(&mut watch, 1), Ok(1000));
    let file = |name: &str| format!("{}/{name}", Tree::entry(&cards[1]));
    tree.put(&file("tt_aiclk"), "800\n");
    assert_eq!(clock(&mut watch, 1), Ok(800));
    // The card goes, and another comes to its place: nothing of the first is left.
    fs::remove_dir_all(tree.at(&Tree::pci(&cards[1]))).unwrap();
    let gone = watch.look().devices.unwrap();
    assert_eq!(gone[1].clocks.ai_mhz, Err(Unread::Missing));
    assert_eq!(gone[0].clocks.ai_mhz, Ok(1000));
    for link in [
        "sys/class/tenstorrent/tenstorrent!1",
        "sys/bus/pci/devices/0000:0b:00.0",
    ] {
        fs::remove_file(tree.at(link)).unwrap();
    }
    assert_eq!(watch.look().devices.unwrap().len(), 1);
    tree.add(&Card {
        card_type: "n300",
        ..cards[1]
    });
    tree.put(&file("tt_aiclk"), "700\n");
    let sample = watch.look();
    let other = &sample.devices.unwrap()[1];
    assert_eq!(other.card_type.as_deref(), Ok("n300"));
    assert_eq!(other.clocks.ai_mhz, Ok(700));
    assert_eq!(sample.chips.len(), 3);
}

#[test]
fn new_firmware_is_seen_after_a_while() {
    let cards = wormholes("n150", 1);
    let tree = machine(&cards);
    let mut watch = Watch::with_reader(tree.roots(), patient());
    let mut version = || {
        let devices = watch.look().devices.unwrap();
        devices[0].firmware["tt_fw_bundle_ver"].clone()
    };
    assert_eq!(version().as_deref(), Ok("18.12.0.0"));
    let file = format!("{}/tt_fw_bundle_ver", Tree::entry(&cards[0]));
    tree.put(&file, "19.0.0.0\n");
    assert!((0..32).any(|_look| version().as_deref() == Ok("19.0.0.0")));
}

#[test]
fn what_no_sensor_can_measure_is_no_value() {
    let cards = blackholes("p150a", 1);
    let tree = machine(&cards);
    let hwmon = format!("{}/hwmon/hwmon3", Tree::pci(&cards[0]));
    for (low, high, is_possible) in [
        (-100_000, 250_000, true),
        (-100_001, 250_001, false),
        (i64::MIN, i64::MAX, false),
    ] {
        for temperature in [low, high] {
            tree.put(&format!("{hwmon}/temp1_input"), temperature.to_string());
            let read = read(&tree);
            let found = &read[0].sensors.temperature_millidegrees;
            let malformed = Err(Unread::Malformed(format!("\"{temperature}\"")));
            let expected = if is_possible {
                Ok(temperature)
            } else {
                malformed
            };
            assert_eq!(*found, expected);
        }
    }
    for value in ["-1", "9223372036854775807"] {
        for file in ["in0_input", "curr1_input", "power1_input", "fan1_input"] {
            tree.put(&format!("{hwmon}/{file}"), value);
        }
        let read = read(&tree);
        let sensors = &read[0].sensors;
        for found in [
            &sensors.voltage_millivolts,
            &sensors.current_milliamperes,
            &sensors.power_microwatts,
            &sensors.fan_rpm,
        ] {
            assert_eq!(*found, Err(Unread::Malformed(format!("\"{value}\""))));
        }
        assert_eq!(sensors.power_limit_microwatts, Ok(85_000_000));
    }
}
