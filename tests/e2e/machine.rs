//! What a machine says by itself, through the real server and the real program: made-up files, with and without a process attached.

use super::support::client::{Client, allocation};
use super::support::server::TestServer;
use super::support::wait_until;
use serde_json::{Value, json};
use ttmem_machine::fuzz::{WrittenRegion, WrittenSlot};
use ttmem_machine::shm::Bytes;
use ttmem_machine::tree::{Card, Tree, wormholes};

const MIB: u64 = 1 << 20;
const CHIP: u64 = 0xA000_0000_0000_0000;
const BASE: u64 = 0x10_0000;

fn started(tree: &Tree) -> TestServer {
    let root = tree.at("");
    TestServer::start(&["--host-root", root.to_str().expect("text")])
}

fn counted(pid: i32, dram: u64) -> WrittenRegion {
    let bytes = Bytes {
        dram,
        l1: 3 * MIB,
        trace: 5 * MIB,
        cb: 64,
        ..Bytes::default()
    };
    WrittenRegion {
        version: 4,
        id: CHIP,
        device_id: 0,
        processes: vec![WrittenSlot {
            slot: 9,
            pid,
            name: "python",
            bytes,
        }],
    }
}

/// What the program prints for these arguments.
fn printed(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.ask(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}: {}", server.log());
    String::from_utf8(output.stdout).expect("text")
}

fn user(status: &Value, pid: u32) -> &Value {
    let users = status["machine"]["processes"].as_array().expect("a list");
    let found = users.iter().find(|user| user["pid"] == pid);
    found.unwrap_or_else(|| unreachable!("no process {pid}: {status}"))
}

#[test]
fn where_nothing_is_attached_the_machine_is_shown_as_it_says() {
    let cards = wormholes("n150", 1);
    let tree = Tree::with(&cards);
    tree.process(4242, "trainer", 10);
    tree.put("proc/driver/tenstorrent/0/pids", "4242\n");
    tree.count(&counted(4242, 8 * MIB));
    let server = started(&tree);
    let status = server.status();
    let device = &status["devices"][0];
    assert_eq!(device["telemetry"]["temperature_millidegrees"], 45_312);
    assert_eq!(device["telemetry"]["power_microwatts"], 17_000_000);
    assert_eq!(device["telemetry"]["ai_clock_mhz"], 1000);
    let names = json!({
        "node": "/dev/tenstorrent/0",
        "pci_address": "0000:0a:00.0",
        "asic_id": "0xa000000000000000",
        "board_serial": "0x100014000000000",
        "tray": null,
    });
    assert_eq!(device["names"], names);
    let written = json!({
        "dram": 8 * MIB, "l1": 3 * MIB, "l1_small": 0, "trace": 5 * MIB, "cb": 64
    });
    assert_eq!(device["upstream"]["bytes"], written);
    assert_eq!(device["upstream"]["not_attached"], written);
    let trainer = user(&status, 4242);
    assert_eq!(trainer["name"], "trainer");
    assert_eq!(trainer["attached"], false);
    assert_eq!(trainer["devices"][0]["upstream"], written);
    assert_eq!(trainer["devices"][0]["descriptors"], 1);

    let page = printed(&server, &["status"]);
    for words in [
        "45.3 °C of 75.0 °C",
        "1000 MHz",
        "/dev/tenstorrent/0",
        "Processes that are not attached",
        "4242 trainer",
        "8.0 MiB of   12.0 GiB",
        "3.0 MiB of   85.0 MiB",
        "from TT-Metal's counters, as requested, TRACE 5.0 MiB, CBs 64 B",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains("0 B of"), "{page}");
    let view = printed(&server, &["top", "--once"]);
    for words in ["45.3 °C", "17.0 W", "1000 MHz", "not attached", "trainer"] {
        assert!(view.contains(words), "{words}: {view}");
    }
    for name in [
        "0",
        "/dev/tenstorrent/0",
        "0000:0a:00.0",
        "A000000000000000",
    ] {
        let chosen = printed(&server, &["status", "--json", "--device", name]);
        let chosen: Value = serde_json::from_str(&chosen).expect("JSON");
        assert_eq!(chosen["devices"][0]["names"], names, "{name}");
    }
    let nothing = server.ask(&["status", "--device", "0000:77:00.0"]);
    let said = String::from_utf8_lossy(&nothing.stderr);
    assert!(
        !nothing.status.success() && said.contains("no device"),
        "{said}"
    );
}

#[test]
fn what_an_attached_process_reports_wins_and_the_difference_is_shown() {
    let tree = Tree::with(&wormholes("n150", 1));
    let own = std::process::id();
    let pid = i32::try_from(own).expect("a pid");
    tree.process(pid, "e2e", 10);
    tree.count(&counted(pid, 8 * MIB));
    let server = started(&tree);
    assert_eq!(user(&server.status(), own)["attached"], false);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, CHIP);
    client.send(&[allocation(1, BASE, 4096)]);
    let status = server.status();
    let devices = status["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 1, "a chip is there once: {devices:?}");
    let device = &devices[0];
    assert_eq!(device["dram"]["charged_bytes"], 12 * 4096);
    assert_eq!(device["telemetry"]["ai_clock_mhz"], 1000);
    assert_eq!(device["upstream"]["matched_by"], "unique_id");
    let requested = device["dram"]["requested_bytes"].as_i64().expect("bytes");
    let more = i64::try_from(8 * MIB).expect("small") - requested;
    assert_eq!(device["upstream"]["difference"]["dram"], more);
    assert_eq!(device["upstream"]["not_attached"]["dram"], 0);
    let user = user(&status, own);
    assert_eq!(user["attached"], true);
    let text = user["difference_text"].as_str().expect("words");
    assert!(text.starts_with("TT-Metal's counters have"), "{text}");
    let page = printed(&server, &["status"]);
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(text), "{text}: {page}");
    assert!(!words.contains("Processes that are not attached"), "{page}");
}

#[test]
fn what_nobody_counts_is_not_said_to_be_nothing() {
    let tree = Tree::with(&wormholes("n150", 1));
    tree.process(4242, "trainer", 10);
    tree.put("proc/driver/tenstorrent/0/pids", "4242\n");
    let server = started(&tree);
    let page = printed(&server, &["status"]);
    for words in [
        "in use by what is not attached: what it holds is not known",
        "unknown of   12.0 GiB",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains("0 B of"), "{page}");
    for view in ["overview", "device"] {
        let screen = printed(&server, &["top", "--once", "--view", view]);
        let words = "in use by what is not attached: what it holds is not known";
        assert!(screen.contains(words), "{view}: {screen}");
    }
}

#[test]
fn counters_that_take_nobody_more_are_named_where_somebody_looks_for_a_program() {
    let tree = Tree::with(&wormholes("n150", 1));
    let mut full = counted(4242, MIB);
    let slot = full.processes.remove(0);
    full.processes = (0..64)
        .map(|place| WrittenSlot {
            slot: place,
            ..slot.clone()
        })
        .collect();
    tree.count(&full);
    let server = started(&tree);
    let said = "new programs are not counted: TT-Metal's counters of chip 0xa000000000000000 are full of dead processes; ttmem doctor says what to do";
    wait_until("it is said", || {
        server.status()["machine"]["errors"] == json!([said])
    });
    assert!(printed(&server, &["status"]).contains("! new programs are not counted"));
    assert!(
        printed(&server, &["top", "--once"]).contains("new programs are not counted: TT-Metal")
    );
    full.processes.truncate(63);
    tree.count(&full);
    wait_until("it is said no more", || {
        server.status()["machine"]["errors"] == json!([])
    });
}

#[test]
fn a_card_that_goes_and_files_that_fail_stop_nobody() {
    let cards: Vec<Card> = wormholes("n150", 2);
    let tree = Tree::with(&cards);
    let clock = tree.at(&format!("{}/tt_aiclk", Tree::entry(&cards[0])));
    std::fs::remove_file(&clock).expect("a file");
    rustix::fs::mkfifoat(rustix::fs::CWD, &clock, rustix::fs::Mode::RWXU).expect("a pipe");
    let server = started(&tree);
    let first = server.device(0);
    assert_eq!(first["telemetry"]["ai_clock_mhz"], Value::Null);
    assert!(first["telemetry"]["unread"]["ai_clock_mhz"].is_string());
    assert_eq!(first["telemetry"]["temperature_millidegrees"], 45_312);
    std::fs::remove_dir_all(tree.at("sys")).expect("a folder");
    wait_until("the values are gone", || {
        server.device(1)["telemetry"].is_null()
    });
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, CHIP);
    client.send(&[allocation(1, BASE, 4096)]);
}
