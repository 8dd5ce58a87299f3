//! Reads that fail as a driver's do, by errors of real system calls: the other values are right, the reason is named,
//! and nothing waits.

use crate::doctor::{card, check, document, folders, machine, put};
use crate::support::c_program::{Linked, Workshop};
use crate::support::client::{Client, allocation};
use crate::support::server::{TTMEM, TestServer, without_settings};
use crate::support::wait_until;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// What the helper ends with where the kernel does not let it ask about reads.
const CANNOT: i32 = 77;

/// Two cards with a value in every kind of file.
fn cards(root: &Path) {
    machine(root);
    card(root, 1);
    put(root, "sys/module/tenstorrent/version", "2.10.1\n");
    for ordinal in 0..2 {
        let (pci, entry) = folders(ordinal);
        put(root, &format!("{entry}/tt_heartbeat"), "7000\n");
        put(root, &format!("{entry}/tt_aiclk"), "1000\n");
        put(root, &format!("{entry}/tt_fw_bundle_ver"), "18.12.0.0\n");
        put(root, &format!("{pci}/current_link_width"), "8\n");
        put(
            root,
            &format!("{pci}/hwmon/hwmon{ordinal}/temp1_input"),
            "45312\n",
        );
        put(root, &format!("{pci}/iommu_group/type"), "DMA-FQ\n");
        put(root, &format!("proc/driver/tenstorrent/{ordinal}/pids"), "");
    }
}

struct Driver {
    helper: PathBuf,
    root: tempfile::TempDir,
    _workshop: Workshop,
}

impl Driver {
    fn new() -> Option<Self> {
        let workshop = Workshop::open()?;
        let root = tempfile::tempdir().expect("a folder");
        cards(root.path());
        Some(Self {
            helper: workshop.program("failing_reads.c", Linked::Not),
            root,
            _workshop: workshop,
        })
    }

    /// A command of the program in which reads fail by these rules; none where that cannot be.
    fn run(&self, rules: &[String], arguments: &[&str]) -> Option<Output> {
        let mut command = without_settings(&self.helper);
        command.args(rules).arg("--").arg(TTMEM).args(arguments);
        command.arg("--root").arg(self.root.path());
        let output = command.output().expect("it runs");
        (output.status.code() != Some(CANNOT)).then_some(output)
    }

    /// A server in which reads fail by these rules; none where that cannot be.
    fn serve(&self, rules: &[String]) -> Option<TestServer> {
        // Tried before: a server that cannot be filtered would never come up.
        self.run(&["none=hang".to_owned()], &["doctor"])?;
        let folder = tempfile::tempdir().expect("a folder");
        let root = self.root.path().to_str().expect("text");
        let server = TestServer::start_adapted(folder, &["--host-root", root], |command| {
            let mut filtered = without_settings(&self.helper);
            filtered.args(rules).arg("--").arg(TTMEM);
            filtered.args(command.get_args());
            filtered.stdout(Stdio::null()).stderr(Stdio::null());
            *command = filtered;
        });
        Some(server)
    }

    /// What is found, once no file hangs but those that have to: on a busy machine any may seem to.
    fn doctor(&self, rules: &[String]) -> Option<Value> {
        let meant = rules.iter().filter(|rule| rule.ends_with("=hang")).count();
        for _attempt in 0..50 {
            let document = document(&self.run(rules, &["doctor", "--json"])?);
            let hanging = document.to_string().matches("reading it hangs\"").count();
            // Once for its value, and again in what is made of it.
            if hanging <= 2 * meant {
                return Some(document);
            }
        }
        unreachable!("files seem to hang again and again: {rules:?}")
    }
}

/// A value of a card: its name, where it stands in the document, its file, and what it is.
struct FileOfCard {
    name: &'static str,
    place: &'static str,
    file: String,
    value: Value,
}

fn values() -> Vec<FileOfCard> {
    let (pci, entry) = folders(0);
    let value = |name, place, file: String, value: Value| FileOfCard {
        name,
        place,
        file,
        value,
    };
    vec![
        value(
            "heartbeat",
            "/telemetry/heartbeat",
            format!("{entry}/tt_heartbeat"),
            7000.into(),
        ),
        value(
            "ai_clock_mhz",
            "/telemetry/ai_clock_mhz",
            format!("{entry}/tt_aiclk"),
            1000.into(),
        ),
        value(
            "board_serial",
            "/names/board_serial",
            format!("{entry}/tt_serial"),
            "0x100014000000001".into(),
        ),
        value(
            "card_type",
            "/telemetry/card_type",
            format!("{entry}/tt_card_type"),
            "n300".into(),
        ),
        value(
            "tt_fw_bundle_ver",
            "/telemetry/firmware/tt_fw_bundle_ver",
            format!("{entry}/tt_fw_bundle_ver"),
            "18.12.0.0".into(),
        ),
        value(
            "link_width",
            "/telemetry/link_width",
            format!("{pci}/current_link_width"),
            8.into(),
        ),
        value(
            "temperature_millidegrees",
            "/telemetry/temperature_millidegrees",
            format!("{pci}/hwmon/hwmon0/temp1_input"),
            45_312.into(),
        ),
        // Who has a card open is told with the processes: nobody has.
        value(
            "holders",
            "/telemetry/unread/holders",
            "proc/driver/tenstorrent/0/pids".to_owned(),
            Value::Null,
        ),
    ]
}

/// What a document has of a card at a place; null if nothing.
fn at<'a>(device: &'a Value, place: &str) -> &'a Value {
    device.pointer(place).unwrap_or(&Value::Null)
}

#[test]
fn each_file_fails_by_itself_in_every_way() {
    let Some(driver) = Driver::new() else {
        return;
    };
    for (error, reason) in [
        ("19", "the device is detached"),
        ("61", "no data from the hardware"),
        ("5", "Input/output error (os error 5)"),
        ("13", "permission denied"),
        ("hang", "reading it hangs"),
    ] {
        for failing in values() {
            let Some(document) = driver.doctor(&[format!("/{}={error}", failing.file)]) else {
                return;
            };
            let failing = failing.name;
            for FileOfCard {
                name, place, value, ..
            } in values()
            {
                let devices = &document["devices"];
                let (first, second) = (&devices[0], &devices[1]);
                let unread = &first["telemetry"]["unread"];
                if name == failing {
                    assert_eq!(unread[name], reason, "{name}");
                    let found = at(first, place);
                    assert!(found.is_null() || name == "holders", "{found}");
                } else {
                    assert_eq!(*at(first, place), value, "{failing} fails with {error}");
                    assert_eq!(unread[name], Value::Null);
                }
                // The other card is as it was.
                if name != "board_serial" {
                    assert_eq!(*at(second, place), value, "{failing} fails with {error}");
                }
            }
            let is_detached =
                error == "19" && ["heartbeat", "board_serial", "card_type"].contains(&failing);
            let health = &check(&document, "health")["state"];
            assert_eq!(*health == "problem", is_detached, "{document}");
            if error == "hang" {
                assert_eq!(check(&document, "reading")["state"], "problem");
            }
        }
    }
}

#[test]
fn a_card_of_which_every_file_fails_is_listed_and_its_neighbour_read() {
    let Some(driver) = Driver::new() else {
        return;
    };
    for error in ["19", "61", "5", "hang"] {
        let rules: Vec<String> = values()
            .into_iter()
            .map(|value| format!("/{}={error}", value.file))
            .collect();
        let Some(document) = driver.doctor(&rules) else {
            return;
        };
        let devices = document["devices"].as_array().expect("devices");
        let local = devices.iter().filter(|device| device["remote"] == false);
        assert_eq!(local.count(), 2);
        for value in values().iter().filter(|value| value.name != "holders") {
            let name = value.name;
            assert_eq!(*at(&devices[0], value.place), Value::Null, "{name}");
            if name != "board_serial" {
                assert_eq!(*at(&devices[1], value.place), value.value, "{name}");
            }
        }
        assert_eq!(devices[0]["names"]["pci_address"], "0000:0a:00.0");
        let found = check(&document, "devices");
        assert_eq!(found["state"], "warning", "{found}");
    }
}

#[test]
fn counters_that_fail_or_hang_leave_the_others() {
    let Some(driver) = Driver::new() else {
        return;
    };
    for id in [7_u8, 8] {
        let mut region = vec![0; 8576];
        region[0] = 3;
        region[32] = id;
        // Of no chip that is here.
        region[40] = 77;
        region[48] = id;
        put(
            driver.root.path(),
            &format!("dev/shm/tt_device_{id}_memory"),
            region,
        );
    }
    for (error, reason) in [
        ("5", "Input/output error (os error 5)"),
        ("hang", "reading it hangs"),
    ] {
        let Some(document) = driver.doctor(&[format!("/tt_device_7_memory={error}")]) else {
            return;
        };
        let upstream = &document["machine"]["unmatched"];
        assert_eq!(upstream[0]["error"], reason);
        assert_eq!(upstream[1]["bytes"]["dram"], 8);
        assert_eq!(check(&document, "tt-metal")["state"], "warning");
    }
}

/// A server whose machine has files that never answer: of the driver and of anybody, one and more than may hang.
#[test]
fn a_server_names_the_files_that_hang_and_answers_everybody() {
    let Some(driver) = Driver::new() else {
        return;
    };
    for id in 0..12 {
        let path = format!("dev/shm/tt_device_{id}_memory");
        put(driver.root.path(), &path, vec![0; 100]);
    }
    let (_pci, entry) = folders(0);
    let of_driver = [format!("/{entry}/tt_aiclk=hang")];
    let of_anybody = (0..12).map(|id| format!("/tt_device_{id}_memory=hang"));
    let both: Vec<String> = of_driver.iter().cloned().chain(of_anybody).collect();
    for rules in [&of_driver[..], &both] {
        let Some(server) = driver.serve(rules) else {
            return;
        };
        let named = "reading /sys/class/tenstorrent/tenstorrent!0/tt_aiclk hangs";
        wait_until("the file is named", || {
            let errors = &server.status()["machine"]["errors"];
            errors
                .as_array()
                .is_some_and(|errors| errors.iter().any(|error| error == named))
        });
        for arguments in [&["status"][..], &["top", "--once", "--view", "overview"]] {
            let output = server.ask(arguments);
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{arguments:?}: {said}");
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(named), "{arguments:?}: {said}");
        }
        // What does not hang is read, and who reports is heard.
        wait_until("the other values are read", || {
            let first = &server.device(0)["telemetry"];
            first["heartbeat"] == 7000 && first["temperature_millidegrees"] == 45_312
        });
        let mut client = Client::connect(&server.socket(), [1; 16]);
        client.open_n150(0, 0xABC);
        client.send(&[allocation(1, 0x10_0000, 4096)]);
    }
}

/// Who waits is not told that nobody holds a device because the list of holders cannot be read.
#[test]
fn a_list_of_holders_that_fails_is_not_an_empty_one() {
    let Some(driver) = Driver::new() else {
        return;
    };
    for (error, reason) in [
        ("5", "Input/output error"),
        ("hang", "hangs"),
        ("13", "denied"),
    ] {
        let rule = format!("/tenstorrent/0/pids={error}");
        let arguments = ["wait", "--released", "--timeout", "0", "--device"];
        let rules = [rule];
        let Some(output) = driver.run(&rules, &[&arguments[..], &["0"]].concat()) else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(9), "{said}");
        assert!(said.contains(reason), "{said}");
        let output = driver.run(&rules, &[&arguments[..], &["1"]].concat());
        assert_eq!(output.and_then(|output| output.status.code()), Some(0));
    }
}
