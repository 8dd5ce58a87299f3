//! What the machine says by itself, beside what processes report: made-up machines, files that fail, and whose names.

use super::hostility::refusal;
use super::*;
use crate::hardware::devices_of_chips;
use std::time::{Duration, Instant};
use ttmem_machine::fuzz::{WrittenRegion, WrittenSlot};
use ttmem_machine::shm::{Bytes, LeftOut, ProcessFigures, SharedMemory};
use ttmem_machine::tree::{Card, Tree, blackholes, galaxy, wormholes};
use ttmem_machine::{Liveness, Reader, Sample, Watch};
use ttmem_report::{Device, DeviceUser, HexId, Snapshot};

const MIB: u64 = 1 << 20;

/// The driver's number of the chip of a card in a made-up machine.
const ASIC: u64 = 0xA000_0000_0000_0000;

/// The unique id of the second device that [`joined`] opens.
const SECOND: u64 = 0xfeed_0001;

fn slot(pid: i32, name: &'static str, dram: u64) -> WrittenSlot {
    let bytes = Bytes {
        dram,
        l1: dram / 2,
        cb: 64,
        ..Bytes::default()
    };
    WrittenSlot {
        slot: usize::try_from(pid).unwrap() % 64,
        pid,
        name,
        bytes,
    }
}

fn region(version: u32, id: u64, device_id: u32, processes: Vec<WrittenSlot>) -> WrittenRegion {
    WrittenRegion {
        version,
        id,
        device_id,
        processes,
    }
}

fn look(tree: &Tree) -> Sample {
    let patient = Reader::with_deadline(Duration::from_secs(60));
    Watch::with_reader(tree.roots(), patient).look()
}

/// A ledger that knows the chips of a machine, and nothing else.
fn knowing(sample: &Sample) -> Ledger {
    let mut ledger = empty_ledger();
    for device in devices_of_chips(&sample.chips) {
        ledger.make(Change::ConfigureDevice(Box::new(device.facts)));
    }
    ledger
}

/// A server of user 77 on a machine that was looked at, for a reader.
fn serving(ledger: Ledger, sample: Sample, uid: u32) -> Served {
    let mut state = ReadState {
        names: NamePolicy {
            server_uid: 77,
            over_tcp: false,
        },
        ..state(ledger_thread(ledger), facts)
    };
    let live = state.live.as_mut().unwrap();
    live.machine.publish(sample);
    Served::to(state, HttpLimits::SOCKET, uid)
}

fn snapshot(ledger: Ledger, sample: Sample) -> Snapshot {
    serving(ledger, sample, 77).client().snapshot().unwrap()
}

/// What readers see of a machine to which nothing is attached.
fn unattached(tree: &Tree) -> Snapshot {
    let sample = look(tree);
    snapshot(knowing(&sample), sample)
}

fn of_pid(snapshot: &Snapshot, pid: u32) -> &DeviceUser {
    let machine = snapshot.machine.as_ref().unwrap();
    let mut users = machine.processes.iter();
    users.find(|user| user.pid == Some(pid)).unwrap()
}

#[test]
fn every_kind_of_machine_shows_its_values_and_names() {
    let t3000 = wormholes("n300", 4);
    for (cards, chips, is_blackhole) in [
        (wormholes("n150", 1), 1, false),
        (wormholes("n300", 1), 2, false),
        (t3000, 8, false),
        (blackholes("p150a", 1), 1, true),
        (galaxy(), 32, false),
    ] {
        let seen = unattached(&Tree::with(&cards));
        assert_eq!(seen.devices.len(), chips, "{cards:?}");
        for device in &seen.devices {
            let names = device.names.as_ref().unwrap();
            let place = device.id as usize % cards.len();
            let card: &Card = &cards[place];
            assert_eq!(names.node, format!("/dev/tenstorrent/{}", card.ordinal));
            let address = format!("0000:{:02x}:00.0", card.bus);
            assert_eq!(names.pci_address.as_deref(), Some(&*address));
            if device.remote == Some(true) {
                assert_eq!(device.telemetry, None, "the driver has that of the card");
                continue;
            }
            let asic = HexId(ASIC + u64::from(card.ordinal));
            assert_eq!(names.asic_id, Some(asic));
            let values = device.telemetry.as_ref().unwrap();
            assert_eq!(values.card_type.as_deref(), Some(card.card_type));
            assert_eq!(values.temperature_millidegrees, Some(45_312));
            assert_eq!(values.power_microwatts, Some(17_000_000));
            assert_eq!(values.ai_clock_mhz, Some(1000));
            assert_eq!(values.heartbeat, Some(7000 + card.ordinal));
            assert_eq!(values.fan_rpm.is_some(), is_blackhole);
            assert_eq!(values.thermal_trips.is_some(), is_blackhole);
            assert!(values.unread.is_empty(), "what is not there is no failure");
        }
    }
}

#[test]
fn without_a_driver_nothing_is_said_and_nothing_is_wrong() {
    let tree = Tree::new();
    std::fs::remove_dir_all(tree.at("sys/class")).unwrap();
    let seen = unattached(&tree);
    let machine = seen.machine.unwrap();
    assert!(seen.devices.is_empty() && machine.processes.is_empty());
    assert_eq!(machine.errors, Vec::<String>::new());
    assert_eq!(machine.upstream_limits.len(), 6);
}

#[test]
fn counters_are_what_was_written_with_their_source_and_processes() {
    let tree = Tree::with(&wormholes("n150", 2));
    tree.process(41, "python", 10);
    tree.process(42, "idle", 10);
    tree.put("proc/driver/tenstorrent/1/pids", "41\n42\n0\n");
    tree.count(&region(3, ASIC + 1, 1, vec![slot(41, "py", 8 * MIB)]));
    let seen = unattached(&tree);
    assert_eq!(seen.devices[0].upstream, None);
    let upstream = seen.devices[1].upstream.as_ref().unwrap();
    assert_eq!(upstream.source, "shm");
    assert_eq!(upstream.matched_by.as_deref(), Some("asic_id"));
    let counted = upstream.bytes.unwrap();
    assert_eq!(
        (counted.dram, counted.l1, counted.cb),
        (8 * MIB, 4 * MIB, 64)
    );
    assert_eq!(upstream.not_attached, Some(counted));
    assert!(upstream.left_behind.unwrap().is_zero());
    assert_eq!((upstream.difference, &upstream.error), (None, &None));
    let user = of_pid(&seen, 41);
    assert_eq!(user.name.as_deref(), Some("python"), "as procfs has it");
    assert!(user.is_not_attached() && user.state == "alive");
    assert_eq!(user.devices.len(), 1);
    assert_eq!(
        (user.devices[0].id, user.devices[0].descriptors),
        (1, Some(1))
    );
    assert_eq!(user.upstream(), Some(counted));
    assert_eq!(of_pid(&seen, 42).upstream(), None, "open, and not counted");
    let machine = seen.machine.as_ref().unwrap();
    let outside = machine.processes.iter().filter(|user| user.pid.is_none());
    assert_eq!(outside.count(), 1, "pid 0 is one outside of the namespace");
}

#[test]
fn what_a_process_reports_wins_and_the_difference_is_told() {
    let tree = Tree::with(&wormholes("n150", 2));
    tree.process(4001, "python", 10);
    tree.process(4002, "other", 10);
    let counted = vec![slot(4001, "python", 1500), slot(4002, "other", 4000)];
    tree.count(&region(4, SECOND, 1, counted));
    let mut sample = look(&tree);
    // Root is believed of everybody; whoever runs the tests is not the process's user.
    file_of(&mut sample, SECOND).owner = Some(0);
    let mut ledger = knowing(&sample);
    let holder = joined(&mut ledger, 4001);
    let at = n150().dram.base;
    apply(&mut ledger, holder, 5, allocated(1, Class::Dram, at, 2048));
    let seen = snapshot(ledger, sample);
    assert_eq!(
        seen.devices.len(),
        2,
        "the same chips, now under their own ids"
    );
    let device = seen.devices.iter().find(|device| device.id == 1).unwrap();
    assert_eq!(device.unique_id, Some(HexId(SECOND)));
    assert_eq!(device.dram.charged_bytes, 12 * 2048, "as it is reported");
    assert_eq!(device.telemetry.as_ref().unwrap().ai_clock_mhz, Some(1000));
    let upstream = device.upstream.as_ref().unwrap();
    assert_eq!(upstream.matched_by.as_deref(), Some("unique_id"));
    // 1500 bytes are counted and 1000 were requested in DRAM, 750 and none in L1.
    let difference = upstream.difference.unwrap();
    assert_eq!((difference.dram, difference.l1), (500, 750));
    let text = "TT-Metal's counters have 500 B more in DRAM, 750 B more in L1";
    assert_eq!(upstream.difference_text.as_deref(), Some(text));
    assert_eq!(upstream.not_attached.unwrap().dram, 4000);
    let attached = of_pid(&seen, 4001);
    assert!(attached.attached && !attached.is_not_attached());
    assert_eq!(attached.difference_text.as_deref(), Some(text));
    let other = of_pid(&seen, 4002);
    assert!(other.is_not_attached());
    assert_eq!(other.difference_text, None);
}

#[test]
fn the_dead_and_the_reused_are_told_from_the_living() {
    let tree = Tree::with(&wormholes("n150", 1));
    // The counters were written ten million seconds after the machine was started.
    tree.process(41, "alive", 10);
    tree.process(43, "later", 20_000_000);
    let slots = vec![
        slot(41, "alive", 100),
        slot(42, "dead", 200),
        slot(43, "before", 400),
    ];
    tree.count(&region(2, ASIC, 0, slots));
    let seen = unattached(&tree);
    let upstream = seen.devices[0].upstream.as_ref().unwrap();
    assert_eq!(upstream.bytes.unwrap().dram, 700);
    assert_eq!(upstream.left_behind.unwrap().dram, 600);
    assert_eq!(upstream.not_attached.unwrap().dram, 100);
    let states = [41, 42, 43].map(|pid| of_pid(&seen, pid).state.clone());
    assert_eq!(states, ["alive", "dead", "reused"]);
    assert_eq!(of_pid(&seen, 43).name.as_deref(), Some("before"));
}

#[test]
fn a_file_that_is_not_understood_says_so_and_has_no_zeros() {
    let tree = Tree::with(&wormholes("n150", 2));
    tree.count(&region(9, ASIC, 0, Vec::new()));
    tree.put(&format!("dev/shm/tt_device_{}_memory", ASIC + 1), "short");
    tree.count(&region(3, 12_345, 7, vec![slot(41, "elsewhere", 10)]));
    let seen = unattached(&tree);
    let upstream = |place: usize| seen.devices[place].upstream.as_ref().unwrap();
    let error = upstream(0).error.as_deref().unwrap();
    assert!(error.contains("version 9 is not known"), "{error}");
    assert_eq!((upstream(0).bytes, upstream(0).not_attached), (None, None));
    assert!(upstream(1).error.is_some() && upstream(1).bytes.is_none());
    let machine = seen.machine.unwrap();
    assert_eq!(machine.unmatched.len(), 1, "a chip that is not here");
    assert_eq!(machine.unmatched[0].matched_by, None);
    assert_eq!(machine.unmatched[0].bytes.unwrap().dram, 10);
}

#[test]
fn values_that_fail_say_why_and_cards_may_go() {
    let cards = wormholes("n150", 2);
    let tree = Tree::with(&cards);
    let clock = tree.at(&format!("{}/tt_aiclk", Tree::entry(&cards[0])));
    std::fs::remove_file(&clock).unwrap();
    std::fs::create_dir(&clock).unwrap();
    let seen = unattached(&tree);
    let values = seen.devices[0].telemetry.as_ref().unwrap();
    assert_eq!(values.ai_clock_mhz, None);
    assert!(values.unread.contains_key("ai_clock_mhz"));
    assert_eq!(values.temperature_millidegrees, Some(45_312));
    // The cards go while the server runs: the devices stay, their values do not.
    let sample = look(&tree);
    let ledger = knowing(&sample);
    std::fs::remove_dir_all(tree.at("sys")).unwrap();
    let seen = snapshot(ledger, look(&tree));
    assert_eq!(seen.devices.len(), 2);
    assert!(seen.devices.iter().all(|device| device.telemetry.is_none()));
}

#[test]
fn names_of_processes_are_their_users_and_sizes_are_everybodys() {
    let tree = Tree::with(&wormholes("n150", 1));
    tree.process(41, "secret", 10);
    tree.put("proc/driver/tenstorrent/0/pids", "41\n");
    tree.count(&region(
        3,
        ASIC,
        0,
        vec![slot(41, "secret", 100), slot(42, "secret", 7)],
    ));
    let owner = rustix::process::getuid().as_raw();
    let as_seen_by = |uid: u32| {
        let sample = look(&tree);
        let served = serving(knowing(&sample), sample, uid);
        let client = served.client();
        let detail = client.device("0").unwrap();
        (
            client.snapshot().unwrap(),
            serde_json::to_string(&detail).unwrap(),
        )
    };
    for uid in [owner, 77] {
        let (seen, detail) = as_seen_by(uid);
        assert_eq!(of_pid(&seen, 41).name.as_deref(), Some("secret"));
        assert!(detail.contains("secret"));
    }
    let (seen, detail) = as_seen_by(owner + 5000);
    let text = serde_json::to_string(&seen).unwrap();
    assert!(!text.contains("secret") && !detail.contains("secret"));
    let user = of_pid(&seen, 41);
    assert!(user.names_hidden);
    assert_eq!(user.upstream().unwrap().dram, 100, "sizes are everybody's");
    assert!(
        of_pid(&seen, 42).names_hidden,
        "what a dead process left, too"
    );
}

#[test]
fn any_name_of_a_device_finds_it() {
    let tree = Tree::with(&wormholes("n300", 2));
    let sample = look(&tree);
    let served = serving(knowing(&sample), sample, 77);
    let client = served.client();
    for name in [
        "1",
        "A000000000000001",
        "0xa000000000000001",
        "wormhole-A000000000000001",
    ] {
        assert_eq!(client.device(name).unwrap().device.id, 1, "{name}");
    }
    let told = refusal(client.device("/dev/tenstorrent/1"));
    assert_eq!(
        told,
        (409, "ambiguous_device".to_owned()),
        "it has two chips"
    );
    let named = |name: &str| client.clone().of_devices(Some(name.to_owned()));
    let ids = |name: &str| -> Vec<u32> {
        let seen = named(name).snapshot().unwrap();
        seen.devices.iter().map(|device| device.id).collect()
    };
    for name in [
        "/dev/tenstorrent/1",
        "0000:0b:00.0",
        "0b:00.0",
        "0100014000000001",
    ] {
        assert_eq!(ids(name), [1, 3], "{name}: the chips of the card");
    }
    assert_eq!(ids("3"), [3]);
    let told = refusal(named("0000:77:00.0").snapshot());
    assert_eq!(told, (404, "unknown_device".to_owned()));
    let told = refusal(named("n300").snapshot());
    assert_eq!(told, (400, "bad_request".to_owned()));
}

#[test]
fn a_snapshot_of_one_device_has_those_who_use_it() {
    let tree = Tree::with(&wormholes("n150", 2));
    tree.process(41, "python", 10);
    tree.process(42, "python", 10);
    tree.count(&region(3, ASIC, 0, vec![slot(41, "python", 100)]));
    tree.count(&region(3, ASIC + 1, 1, vec![slot(42, "python", 100)]));
    let sample = look(&tree);
    let served = serving(knowing(&sample), sample, 77);
    let client = served.client();
    let client = client.of_devices(Some("/dev/tenstorrent/1".to_owned()));
    let seen = client.snapshot().unwrap();
    let pids: Vec<_> = seen.machine.unwrap().processes;
    let pids: Vec<_> = pids.iter().map(|user| user.pid).collect();
    assert_eq!(pids, [Some(42)]);
}

#[test]
fn whoever_reads_is_shown_what_the_machine_says_meanwhile() {
    let cards = wormholes("n150", 1);
    let tree = Tree::with(&cards);
    let figures = MachineFigures::default();
    let (watch, chips) = crate::machine::first_look(&tree.roots(), &figures);
    assert_eq!(chips.len(), 1);
    let looker = crate::machine::Looker::start(watch, figures.clone()).unwrap();
    let temperature = || -> Option<i64> {
        let looked = figures.latest().unwrap();
        let devices = looked.sample.devices.as_ref().ok()?;
        let sensors = &devices.first()?.sensors;
        sensors.temperature_millidegrees.clone().ok()
    };
    let until = |is_so: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(10));
        }
    };
    assert_eq!(temperature(), Some(45_312));
    let file = format!("{}/hwmon/hwmon3/temp1_input", Tree::pci(&cards[0]));
    tree.put(&file, "61000\n");
    until(&|| temperature() == Some(61_000));
    std::fs::remove_dir_all(tree.at("sys")).unwrap();
    until(&|| temperature().is_none());
    drop(looker);
}

#[test]
fn metrics_have_base_units_and_no_sample_of_what_is_not_known() {
    let cards = wormholes("n300", 1);
    let tree = Tree::with(&cards);
    tree.count(&region(3, ASIC, 0, vec![slot(41, "python", 4096)]));
    let sample = look(&tree);
    let served = serving(knowing(&sample), sample, 77);
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = super::hostility::exchange(&served, request);
    for line in [
        "ttmem_device_temperature_celsius{device=\"0\"} 45.312",
        "ttmem_device_power_watts{device=\"0\"} 17.0",
        "ttmem_device_current_amperes{device=\"0\"} 21.0",
        "ttmem_device_voltage_volts{device=\"0\"} 0.736",
        "ttmem_device_aiclk_hertz{device=\"0\"} 1000000000",
        "ttmem_host_upstream_bytes{device=\"0\",class=\"dram\"} 4096",
        "ttmem_host_upstream_not_attached_bytes{device=\"0\",class=\"dram\"} 0",
    ] {
        assert!(answer.contains(line), "{line} in {answer}");
    }
    // Wormhole has no fan, and the chip behind the card has no values of its own.
    assert!(!answer.contains("ttmem_device_fan_rpm{"));
    assert!(!answer.contains("celsius{device=\"1\"}"));
}

fn of_device(device: &Device) -> String {
    serde_json::to_string(device).unwrap()
}

#[test]
fn a_detail_is_the_device_of_the_snapshot_with_those_who_use_it() {
    let tree = Tree::with(&wormholes("n150", 2));
    tree.process(41, "python", 10);
    tree.count(&region(3, ASIC + 1, 1, vec![slot(41, "python", 100)]));
    let sample = look(&tree);
    let served = serving(knowing(&sample), sample, 77);
    let client = served.client();
    let (seen, detail) = (client.snapshot().unwrap(), client.device("1").unwrap());
    assert_eq!(of_device(&detail.device), of_device(&seen.devices[1]));
    assert_eq!(detail.users, seen.machine.unwrap().processes);
    assert!(client.device("0").unwrap().users.is_empty());
}

/// A file of a machine that was looked at, by the number in its name.
fn file_of(sample: &mut Sample, id: u64) -> &mut SharedMemory {
    let files = sample.regions.as_mut().unwrap();
    files.iter_mut().find(|file| file.id == id).unwrap()
}

/// Gives a file of a machine that was looked at to somebody who is neither root nor runs the tests.
fn give_away(sample: &mut Sample, id: u64) {
    file_of(sample, id).owner = Some(65_534);
}

#[test]
fn a_file_says_nothing_of_the_processes_of_others() {
    let tree = Tree::with(&wormholes("n150", 1));
    tree.process(41, "victim", 10);
    let slots = vec![slot(41, "victim", MIB), slot(42, "gone", 7)];
    tree.count(&region(4, ASIC, 0, slots));
    let believed = unattached(&tree);
    assert_eq!(of_pid(&believed, 41).upstream().unwrap().dram, MIB);
    let mut sample = look(&tree);
    give_away(&mut sample, ASIC);
    let seen = snapshot(knowing(&sample), sample);
    let upstream = seen.devices[0].upstream.as_ref().unwrap();
    assert_eq!(upstream.bytes.unwrap().dram, 7, "what the dead left");
    assert_eq!(upstream.left_behind.unwrap().dram, 7);
    assert!(upstream.not_attached.unwrap().is_zero());
    let doubt = "1 slot not counted: written by another user (user 65534) than the process's";
    assert_eq!(upstream.doubts, [doubt]);
    let users = &seen.machine.as_ref().unwrap().processes;
    assert!(users.iter().all(|user| user.pid != Some(41)), "{users:?}");
    // Where nobody knows whose process it is, root's file is believed and no other.
    for (owner, dram) in [(0, MIB), (65_534, 0)] {
        let mut sample = look(&tree);
        sample.people.clear();
        file_of(&mut sample, ASIC).owner = Some(owner);
        let seen = snapshot(knowing(&sample), sample);
        let upstream = seen.devices[0].upstream.as_ref().unwrap();
        assert_eq!(upstream.not_attached.unwrap().dram, dram, "{owner}");
    }
}

#[test]
fn an_attached_process_is_compared_with_no_file_of_another_user() {
    let tree = Tree::with(&wormholes("n150", 2));
    tree.process(4001, "python", 10);
    tree.count(&region(4, SECOND, 1, vec![slot(4001, "python", MIB)]));
    let mut sample = look(&tree);
    give_away(&mut sample, SECOND);
    let mut ledger = knowing(&sample);
    joined(&mut ledger, 4001);
    let seen = snapshot(ledger, sample);
    let device = seen.devices.iter().find(|device| device.id == 1).unwrap();
    let upstream = device.upstream.as_ref().unwrap();
    assert_eq!(
        (upstream.difference, &upstream.difference_text),
        (None, &None)
    );
    assert_eq!(upstream.doubts.len(), 1, "{:?}", upstream.doubts);
}

#[test]
fn more_than_the_device_has_is_a_doubt_and_no_figure() {
    let tree = Tree::with(&wormholes("n150", 1));
    for pid in [41, 42] {
        tree.process(pid, "python", 10);
    }
    let slots = vec![slot(41, "python", 1 << 50), slot(42, "python", MIB)];
    tree.count(&region(4, ASIC, 0, slots));
    let seen = unattached(&tree);
    let upstream = seen.devices[0].upstream.as_ref().unwrap();
    assert_eq!(upstream.not_attached.unwrap().dram, MIB);
    assert_eq!(upstream.bytes.unwrap().dram, MIB);
    let doubt = "1 slot not counted: more than the device has";
    assert_eq!(upstream.doubts, [doubt]);
    // The sum alone may lie as well.
    let mut sample = look(&tree);
    let content = file_of(&mut sample, ASIC).content.as_mut().unwrap();
    content.region.processes.clear();
    content.liveness.clear();
    let seen = snapshot(knowing(&sample), sample);
    let upstream = seen.devices[0].upstream.as_ref().unwrap();
    assert_eq!(upstream.bytes, None);
    assert!(upstream.doubts[0].ends_with("more than the device has"));
}

#[test]
fn a_file_without_figures_takes_no_other_files_place() {
    let tree = Tree::with(&wormholes("n150", 1));
    tree.process(41, "python", 10);
    let serial = 0x0100_0140_0000_0000;
    tree.count(&region(4, serial, 0, vec![slot(41, "python", MIB)]));
    let found = |tree: &Tree| {
        let mut sample = look(tree);
        let files = sample.regions.as_mut().unwrap();
        for file in files.iter_mut().filter(|file| file.id != serial) {
            file.owner = Some(65_534);
        }
        let seen = snapshot(knowing(&sample), sample);
        let upstream = seen.devices[0].upstream.clone().unwrap();
        (upstream.matched_by.unwrap(), upstream.bytes.unwrap().dram)
    };
    let own = ("board".to_owned(), MIB);
    assert_eq!(found(&tree), own);
    let name = format!("dev/shm/tt_device_{ASIC}_memory");
    tree.put(&name, "");
    assert_eq!(found(&tree), own, "an empty file");
    tree.count(&region(4, ASIC, 0, Vec::new()));
    assert_eq!(found(&tree), own, "one that counts for nobody");
    tree.count(&region(4, ASIC, 0, vec![slot(41, "python", 7)]));
    assert_eq!(
        found(&tree),
        own,
        "one that counts for somebody else's process"
    );
    tree.count(&region(4, serial << 5, 0, Vec::new()));
    assert_eq!(found(&tree), own, "another one of the same board");
}

#[test]
fn a_file_of_another_user_neither_replaces_nor_hides_the_own_one() {
    let serial = 0x0100_0140_0000_0000;
    // The victim's file, by each number that it may have; the attacker's by all numbers that weigh as much or more.
    let logical = 12_345;
    for (own, others) in [
        (serial << 5, vec![serial, ASIC]),
        (serial, vec![serial << 5]),
        (logical, vec![logical + 1, serial, ASIC]),
    ] {
        for other in others {
            let tree = Tree::with(&wormholes("n150", 1));
            for pid in [41, 42] {
                tree.process(pid, "python", 10);
            }
            tree.count(&region(4, own, 0, vec![slot(41, "python", MIB)]));
            tree.count(&region(4, other, 0, vec![slot(42, "python", 7)]));
            let mut sample = look(&tree);
            for (id, pid, user) in [(own, 41, 1000), (other, 42, 65_534)] {
                file_of(&mut sample, id).owner = Some(user);
                sample.people.get_mut(&pid).unwrap().uid = Some(user);
            }
            let seen = snapshot(knowing(&sample), sample);
            let named = format!("{own:#x} beside {other:#x}");
            let victim = of_pid(&seen, 41);
            assert_eq!(victim.devices.len(), 1, "{named}");
            assert_eq!(victim.upstream().unwrap().dram, MIB, "{named}");
            assert_eq!(of_pid(&seen, 42).upstream().unwrap().dram, 7, "{named}");
            let upstream = seen.devices[0].upstream.as_ref().unwrap();
            assert_eq!(upstream.not_attached.unwrap().dram, MIB + 7, "{named}");
            assert_eq!(upstream.bytes.unwrap().dram, MIB + 7, "{named}");
            let doubts = &upstream.doubts;
            assert!(doubts[0].starts_with("more than one file"), "{doubts:?}");
            assert!(seen.machine.unwrap().unmatched.is_empty(), "{named}");
        }
    }
    // Of two files of one owner none is taken, and what they say is told all the same.
    let tree = Tree::with(&wormholes("n150", 1));
    tree.process(41, "python", 10);
    tree.count(&region(4, serial << 5, 0, vec![slot(41, "python", MIB)]));
    tree.count(&region(4, serial, 0, vec![slot(41, "python", 7)]));
    let seen = unattached(&tree);
    assert_eq!(seen.devices[0].upstream, None);
    let user = of_pid(&seen, 41);
    let counted = user.unmatched.iter();
    let counted: Vec<(HexId, u64)> = counted.map(|file| (file.id, file.upstream.dram)).collect();
    assert_eq!(counted, [(HexId(serial), 7), (HexId(serial << 5), MIB)]);
}

/// A chip with two files: user 1000's by its own number, of a process that is not seen from here, as in a container; and
/// another user's by a loose number.
fn two_files_of_a_chip() -> Sample {
    let tree = Tree::with(&wormholes("n150", 1));
    tree.process(42, "python", 10);
    tree.count(&region(4, ASIC, 0, vec![slot(41, "python", MIB)]));
    tree.count(&region(4, 12_345, 0, vec![slot(42, "python", 3)]));
    let mut sample = look(&tree);
    for (id, user) in [(ASIC, 1000), (12_345, 65_534)] {
        file_of(&mut sample, id).owner = Some(user);
    }
    sample.people.get_mut(&42).unwrap().uid = Some(65_534);
    sample
}

#[test]
fn a_file_by_a_loose_number_does_not_replace_one_by_the_chips_own() {
    let sample = two_files_of_a_chip();
    let seen = snapshot(knowing(&sample), sample);
    let upstream = seen.devices[0].upstream.as_ref().unwrap();
    assert_eq!(upstream.bytes.unwrap().dram, MIB + 3);
    let doubts = &upstream.doubts;
    assert!(
        doubts
            .iter()
            .any(|doubt| doubt.starts_with("more than one file")),
        "{doubts:?}"
    );
}

#[test]
fn a_file_that_could_not_be_read_is_not_said_to_be_added_up() {
    let mut sample = two_files_of_a_chip();
    file_of(&mut sample, ASIC).content = Err(ttmem_machine::shm::ReadRegionError::Denied);
    let seen = snapshot(knowing(&sample), sample);
    let upstream = seen.devices[0].upstream.as_ref().unwrap();
    assert_eq!(upstream.bytes.unwrap().dram, 3);
    let [doubt] = &upstream.doubts[..] else {
        panic!("{:?}", upstream.doubts);
    };
    let words = "another file of this chip, that of user 1000, was not read: permission denied";
    assert!(doubt.starts_with(words), "{doubt}");
}

#[test]
fn many_users_with_a_file_of_a_chip_are_named_briefly() {
    let tree = Tree::with(&wormholes("n150", 1));
    tree.process(41, "python", 10);
    tree.count(&region(4, ASIC, 0, vec![slot(41, "python", MIB)]));
    let mut sample = look(&tree);
    let mut files = sample.regions.clone().unwrap();
    for number in 1..=1000 {
        let (mut file, pid) = (files[0].clone(), 50_000 + number);
        let user = u32::try_from(pid).unwrap();
        (file.id, file.owner) = (user.into(), Some(user));
        file.content.as_mut().unwrap().region.processes[0].pid = pid;
        let mut person = sample.people[&41].clone();
        person.uid = Some(user);
        sample.people.insert(pid, person);
        files.push(file);
    }
    sample.regions = Ok(files);
    let seen = snapshot(knowing(&sample), sample);
    let upstream = seen.devices[0].upstream.as_ref().unwrap();
    assert_eq!(upstream.bytes.unwrap().dram, 1001 * MIB);
    let [doubt] = &upstream.doubts[..] else {
        unreachable!("{:?}", upstream.doubts);
    };
    assert!(doubt.ends_with("user 50008, 992 others"), "{doubt}");
}

#[test]
fn files_that_were_not_read_are_told() {
    let tree = Tree::with(&wormholes("n150", 1));
    for id in 0..70 {
        tree.count(&region(4, id + 1, 77, Vec::new()));
    }
    let owner = rustix::process::geteuid().as_raw();
    let told = format!("TT-Metal's counters: 6 files of user {owner} were not read");
    assert_eq!(unattached(&tree).machine.unwrap().errors, [told]);
    let mut sample = look(&tree);
    let cut = |owner| LeftOut::Of { owner, files: 1 };
    sample.left_out = (1..=1000).map(cut).collect();
    let errors = snapshot(knowing(&sample), sample).machine.unwrap().errors;
    assert_eq!(errors.len(), 9);
    let rest = "TT-Metal's counters: 992 files of other users were not read";
    assert_eq!(errors[8], rest);
}

#[test]
fn running_processes_of_counters_hide_nobody_who_has_a_device_open() {
    let tree = Tree::with(&wormholes("n150", 1));
    for pid in [41, 2_000_000] {
        tree.process(pid, "python", 10);
    }
    tree.put("proc/driver/tenstorrent/0/pids", "2000000\n");
    tree.count(&region(4, 7, 77, vec![slot(41, "python", MIB)]));
    let mut sample = look(&tree);
    let (file, person) = (
        sample.regions.clone().unwrap().remove(0),
        sample.people[&41].clone(),
    );
    let files = (0..70).map(|number| {
        let mut file = file.clone();
        file.id = number + 1;
        let content = file.content.as_mut().unwrap();
        let slot = content.region.processes[0].clone();
        let first = 1000 + 64 * i32::try_from(number).unwrap();
        let pids = first..first + 64;
        sample
            .people
            .extend(pids.clone().map(|pid| (pid, person.clone())));
        let slots = pids.map(|pid| ProcessFigures {
            pid,
            ..slot.clone()
        });
        content.region.processes = slots.collect();
        content.liveness = vec![Liveness::Alive; 64];
        file
    });
    sample.regions = Ok(files.collect());
    let seen = snapshot(knowing(&sample), sample);
    assert_eq!(of_pid(&seen, 2_000_000).state, "alive");
    assert_eq!(seen.machine.unwrap().processes.len(), 4096);
}

#[test]
fn dead_processes_of_counters_hide_nobody_who_has_a_device_open() {
    let tree = Tree::with(&wormholes("n150", 1));
    for pid in [50_000, 60_000] {
        tree.process(pid, "python", 10);
    }
    tree.put("proc/driver/tenstorrent/0/pids", "50000\n");
    tree.count(&region(4, ASIC, 0, vec![slot(60_000, "python", MIB)]));
    let mut sample = look(&tree);
    let mut files = sample.regions.clone().unwrap();
    // Users of a namespace of one's own: each has files with dead processes of low numbers.
    for owner in 0..300 {
        let mut file = files[0].clone();
        (file.id, file.owner) = (owner + 1, Some(100_000 + u32::try_from(owner).unwrap()));
        let content = file.content.as_mut().unwrap();
        let slot = content.region.processes[0].clone();
        let dead = (1..=64).map(|pid| ProcessFigures {
            pid,
            ..slot.clone()
        });
        content.region.processes = dead.collect();
        content.region.device_id = 77;
        content.liveness = vec![Liveness::Dead; 64];
        files.push(file);
    }
    sample.regions = Ok(files);
    let seen = snapshot(knowing(&sample), sample);
    for pid in [50_000, 60_000] {
        assert_eq!(of_pid(&seen, pid).state, "alive");
    }
    let machine = seen.machine.as_ref().unwrap();
    assert_eq!(machine.processes.len(), 2 + 1024);
    assert_eq!(machine.errors, [""; 0]);
    // The bytes of all are counted.
    let left_behind = machine.unmatched[0].left_behind.unwrap();
    assert_eq!(left_behind.dram, 64 * MIB);
}
