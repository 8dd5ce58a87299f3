//! `ttmem doctor` on this machine, which has no card, and on copies of machines that do.

use super::support::server::{TestServer, ttmem};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use ttmem_machine::fuzz::{WrittenRegion, WrittenSlot};
use ttmem_machine::shm::Bytes;
use ttmem_machine::tree::{Tree, wormholes};
use ttmem_report::is_deceptive;

fn doctor(arguments: &[&str], root: Option<&Path>) -> Output {
    let mut command = ttmem();
    command.arg("doctor").args(arguments);
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    command.output().expect("it runs")
}

pub(crate) fn document(output: &Output) -> Value {
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["schema"], 1);
    document
}

/// The check of a name.
pub(crate) fn check<'a>(document: &'a Value, name: &str) -> &'a Value {
    let checks = document["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| unreachable!("no check {name}: {document}"))
}

pub(crate) fn put(root: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

/// A machine with one n300 and driver 2.4.0, whose huge pages are missing.
pub(crate) fn machine(root: &Path) {
    put(root, "sys/module/tenstorrent/version", "2.4.0\n");
    for file in ["nr_hugepages", "free_hugepages"] {
        let pages = "sys/kernel/mm/hugepages/hugepages-1048576kB";
        put(root, &format!("{pages}/{file}"), "0\n");
    }
    card(root, 0);
}

/// The folder of a card's PCI device, and of the driver's entry in it.
pub(crate) fn folders(ordinal: u32) -> (String, String) {
    let pci = format!("sys/devices/pci0000:00/0000:{:02x}:00.0", 10 + ordinal);
    let entry = format!("{pci}/tenstorrent/tenstorrent!{ordinal}");
    (pci, entry)
}

/// An n300 more.
pub(crate) fn card(root: &Path, ordinal: u32) {
    let (pci, entry) = folders(ordinal);
    let address = pci.rsplit('/').next().expect("a name");
    put(root, &format!("{entry}/tt_card_type"), "n300\n");
    let serial = format!("{:016X}\n", 0x0100_0140_0000_0001_u64 + u64::from(ordinal));
    put(root, &format!("{entry}/tt_serial"), serial);
    put(root, &format!("{pci}/vendor"), "0x1e52\n");
    put(root, &format!("{pci}/device"), "0x401e\n");
    put(root, &format!("dev/tenstorrent/{ordinal}"), "");
    fs::create_dir_all(root.join("sys/class/tenstorrent")).expect("a folder");
    fs::create_dir_all(root.join("sys/bus/pci/devices")).expect("a folder");
    let link = |to: &str, at: &str| symlink(to, root.join(at)).expect("a link");
    link(&format!("../../../{address}"), &format!("{entry}/device"));
    let class = entry.strip_prefix("sys").expect("of sysfs");
    link(
        &format!("../..{class}"),
        &format!("sys/class/tenstorrent/tenstorrent!{ordinal}"),
    );
    let bus = pci.strip_prefix("sys").expect("of sysfs");
    link(
        &format!("../../..{bus}"),
        &format!("sys/bus/pci/devices/{address}"),
    );
}

#[test]
fn every_check_that_is_not_well_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    machine(root);
    let output = doctor(&["--json"], Some(root));
    assert_eq!(output.status.code(), Some(8));
    let document = document(&output);
    assert_eq!(check(&document, "hugepages")["state"], "problem");
    let driver = check(&document, "driver");
    assert_eq!(driver["state"], "warning");
    assert!(driver["found"].as_str().expect("text").contains("2.4.0"));
    for check in document["checks"].as_array().expect("checks") {
        let is_bad = matches!(check["state"].as_str(), Some("warning" | "problem"));
        assert!(!is_bad || check["remedy"].is_string(), "{check}");
    }
    let chips = document["devices"].as_array().expect("chips");
    assert_eq!(chips.len(), 2, "a card of two chips");
    assert_eq!(chips[1]["remote"], true);
    assert_eq!(chips[1]["names"]["pci_address"], "0000:0a:00.0");
    assert_eq!(chips[0]["names"]["board_serial"], "0x100014000000001");

    let output = doctor(&[], Some(root));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("tenstorrent-hugepages.service"), "{text}");
    let row = "0     /dev/tenstorrent/0    0000:0a:00.0  0100014000000001  -                 n300";
    assert!(text.lines().any(|line| line == row), "{text}");

    // With the pages and a newer driver nothing is left that does not work.
    put(root, "sys/module/tenstorrent/version", "2.10.1\n");
    put(
        root,
        "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
        "4\n",
    );
    put(
        root,
        "proc/self/mounts",
        "tmpfs /dev/shm tmpfs rw 0 0\nh /dev/hugepages-1G hugetlbfs rw,pagesize=1024M 0 0\n",
    );
    fs::create_dir_all(root.join("dev/shm")).expect("a folder");
    let output = doctor(&["--json"], Some(root));
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn counters_of_a_version_that_is_not_known_are_not_taken_for_zero() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut region = vec![0; 8576];
    region[0] = 5;
    put(folder.path(), "dev/shm/tt_device_77_memory", region);
    let document = document(&doctor(&["--json"], Some(folder.path())));
    let found = check(&document, "tt-metal");
    assert_eq!(found["state"], "warning", "{found}");
    assert!(
        found["found"]
            .as_str()
            .expect("text")
            .contains("not known: 1"),
        "{found}"
    );
}

/// What doctor prints is what a server has in its documents, to which nothing is attached.
#[test]
fn doctor_and_a_server_say_the_same_of_a_machine() {
    let tree = Tree::with(&wormholes("n300", 2));
    tree.process(4242, "trainer", 10);
    tree.process(4243, "of root", 10);
    tree.put("proc/driver/tenstorrent/1/pids", "4242\n4242\n77\n");
    let counted = |id: u64, device_id: u32, pids: &[i32]| {
        let slots = (0..).zip(pids).map(|(slot, pid)| WrittenSlot {
            slot,
            pid: *pid,
            name: "python",
            bytes: Bytes {
                dram: 4096,
                l1: 64,
                ..Bytes::default()
            },
        });
        tree.count(&WrittenRegion {
            version: 4,
            id,
            device_id,
            processes: slots.collect(),
        });
    };
    // Of a chip, of none that is known, and broken; with a dead process.
    counted(0xA000_0000_0000_0001, 1, &[4242, 4300]);
    counted(7, 77, &[4242]);
    tree.put("dev/shm/tt_device_8_memory", "short");
    let root = tree.at("");
    let server = TestServer::start(&["--host-root", root.to_str().expect("text")]);
    let said = server.status();
    let document = document(&doctor(&["--json"], Some(&root)));
    let devices = document["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 4);
    for (device, served) in devices
        .iter()
        .zip(said["devices"].as_array().expect("devices"))
    {
        for (name, value) in device.as_object().expect("an object") {
            assert_eq!(*value, served[name], "{name}");
        }
    }
    let mut machine = document["machine"].clone();
    machine["time"] = said["machine"]["time"].clone();
    assert_eq!(machine, said["machine"]);
    // And it is what was planted.
    assert_eq!(devices[1]["upstream"]["bytes"]["dram"], 8192);
    assert_eq!(devices[1]["upstream"]["left_behind"]["dram"], 4096);
    let trainer = &machine["processes"][1];
    assert_eq!(trainer["name"], "trainer");
    assert_eq!(trainer["devices"][0]["descriptors"], 2);
    let elsewhere = json!([{"id": "0x7", "upstream": {"dram": 4096, "l1": 64, "l1_small": 0, "trace": 0, "cb": 0}}]);
    assert_eq!(trainer["unmatched"], elsewhere);
}

/// Names of processes and values of a driver are others' texts: none drives a terminal or turns a line around.
#[test]
fn nothing_that_deceives_is_printed() {
    let cards = wormholes("n150", 1);
    let tree = Tree::with(&cards);
    let text = "a\u{202e}b\u{1b}[2Jc\u{200b}\u{7f}";
    tree.process(4242, "x", 10);
    tree.put("proc/4242/comm", text);
    tree.put("proc/driver/tenstorrent/0/pids", "4242\n");
    let entry = Tree::entry(&cards[0]);
    let pci = Tree::pci(&cards[0]);
    for file in [
        format!("{entry}/tt_fw_bundle_ver"),
        format!("{pci}/current_link_speed"),
        format!("{pci}/max_link_speed"),
        "sys/module/tenstorrent/version".to_owned(),
    ] {
        tree.put(&file, "1.2\u{202e}3\u{200b}\n");
    }
    let root = tree.at("");
    let deceives = |letter: char| letter != '\n' && is_deceptive(letter);
    let plain = |output: &Output| {
        let said = String::from_utf8(output.stdout.clone()).expect("text");
        assert!(!said.contains(deceives), "{said:?}");
        said
    };
    let said = plain(&doctor(&[], Some(&root)));
    assert!(
        said.contains("(4242) has /dev/tenstorrent/0 open"),
        "{said}"
    );
    let output = doctor(&["--json"], Some(&root));
    plain(&output);
    let document = document(&output);
    let telemetry = &document["devices"][0]["telemetry"];
    assert_eq!(telemetry["link_speed"], Value::Null, "refused as a value");
    assert_eq!(telemetry["firmware"]["tt_fw_bundle_ver"], Value::Null);
    let why = telemetry["unread"]["link_speed"]
        .as_str()
        .expect("a reason");
    assert!(why.contains("not understood") && why.is_ascii(), "{why}");
    let server = TestServer::start(&["--host-root", root.to_str().expect("text")]);
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["top", "--once", "--view", "overview"],
        &["top", "--once", "--view", "processes"],
    ] {
        plain(&server.ask(arguments));
    }
}

/// A machine with very many files that are none: the command stays one that can be typed, and gets there.
#[test]
fn a_command_that_removes_files_is_bounded_and_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for id in 0..100 {
        let path = format!("dev/shm/tt_device_{id}_memory");
        put(root, &path, 3_u32.to_le_bytes());
    }
    put(root, "dev/shm/other", "mine");
    let mut rounds = 0;
    loop {
        let document = document(&doctor(&["--json"], Some(root)));
        let found = check(&document, "tt-metal");
        if found["state"] != "warning" {
            break;
        }
        let remedy = found["remedy"].as_str().expect("a remedy");
        assert!(found["found"].as_str().expect("text").len() < 8000);
        let command = remedy.split('`').nth(1).expect("a command");
        assert!(command.split(' ').count() <= 33, "{command}");
        assert!(
            rounds > 0 || remedy.contains("and then 32 more"),
            "{remedy}"
        );
        let status = Command::new("sh").args(["-c", command]).status();
        assert!(status.expect("it runs").success());
        rounds += 1;
        assert!(rounds <= 4, "{document}");
    }
    assert_eq!(rounds, 4);
    let left = fs::read_dir(root.join("dev/shm"))
        .expect("a folder")
        .count();
    assert_eq!(left, 1, "nothing else is removed");
}

#[test]
fn on_this_machine_every_subject_is_looked_at() {
    let server = TestServer::start(&[]);
    let socket = server.socket();
    let socket = socket.to_str().expect("text");
    let output = doctor(&["--json", "--socket", socket], None);
    let document = document(&output);
    for name in [
        "driver",
        "devices",
        "health",
        "holders",
        "permissions",
        "hugepages",
        "iommu",
        "shm",
        "tt-metal",
        "namespaces",
        "server",
        "trust",
        "library",
        "ttnn",
    ] {
        assert!(
            !check(&document, name)["found"]
                .as_str()
                .expect("text")
                .is_empty()
        );
    }
    assert_eq!(check(&document, "server")["state"], "ok");
    assert_eq!(
        check(&document, "trust")["state"],
        "ok",
        "it is this user's"
    );
    let code = if document["problems"] == 0 { 0 } else { 8 };
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn variables_that_do_not_count_are_named() {
    let output = ttmem()
        .args(["doctor", "--json"])
        .env("TTMEM_RING_EVENTS", "many")
        .env("TTMEM_DISABLE", "maybe")
        .env("TTMEM_LABELS", "team=vision,9=x")
        .output()
        .expect("it runs");
    let document = document(&output);
    let checks = document["checks"].as_array().expect("checks");
    let named = checks.iter().filter(|check| check["name"] == "environment");
    let found: Vec<&str> = named
        .map(|check| {
            assert_eq!(check["state"], "warning", "{check}");
            check["found"].as_str().expect("text")
        })
        .collect();
    let [disable, ring, labels] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        *disable,
        "TTMEM_DISABLE: \"maybe\" is neither 0 nor 1; tracking is on"
    );
    assert!(
        ring.starts_with("TTMEM_RING_EVENTS: \"many\" is not a whole number"),
        "{ring}"
    );
    assert!(ring.ends_with("using 8192"), "{ring}");
    assert!(
        labels.starts_with("TTMEM_LABELS: \"9=x\" is not key=value"),
        "{labels}"
    );
}

#[test]
fn without_a_server_doctor_says_how_to_have_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let absent = folder.path().join("absent.sock");
    let output = doctor(
        &["--json", "--socket", absent.to_str().expect("text")],
        None,
    );
    let document = document(&output);
    let server = check(&document, "server");
    assert_eq!(server["state"], "info");
    assert!(
        server["remedy"]
            .as_str()
            .expect("text")
            .contains("ttmem serve")
    );
}

#[test]
fn a_root_that_is_not_there_is_an_error_that_names_it() {
    let output = doctor(&[], Some(Path::new("/nonexistent/machine")));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        said.contains("cannot read /nonexistent/machine: "),
        "{said}"
    );
}
