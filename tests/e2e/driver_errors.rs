//! Reads that fail as a driver's do, by errors of real system calls: the other values are right, the reason is named,
//! and nothing waits.

use crate::doctor::{card, check, document, folders, machine, put};
use crate::support::c_program::{Linked, Workshop};
use crate::support::server::{TTMEM, without_settings};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

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

/// Where a value stands in the document, its file, and its value.
fn values() -> Vec<(&'static str, String, Value)> {
    let (pci, entry) = folders(0);
    vec![
        ("heartbeat", format!("{entry}/tt_heartbeat"), 7000.into()),
        ("ai_clock_mhz", format!("{entry}/tt_aiclk"), 1000.into()),
        (
            "board_serial",
            format!("{entry}/tt_serial"),
            "0100014000000001".into(),
        ),
        ("card_type", format!("{entry}/tt_card_type"), "n300".into()),
        (
            "tt_fw_bundle_ver",
            format!("{entry}/tt_fw_bundle_ver"),
            "18.12.0.0".into(),
        ),
        ("link_width", format!("{pci}/current_link_width"), 8.into()),
        (
            "temperature_millidegrees",
            format!("{pci}/hwmon/hwmon0/temp1_input"),
            45_312.into(),
        ),
        (
            "holders",
            "proc/driver/tenstorrent/0/pids".to_owned(),
            Value::Array(Vec::new()),
        ),
    ]
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
        for (failing, file, _value) in values() {
            let Some(document) = driver.doctor(&[format!("/{file}={error}")]) else {
                return;
            };
            for (name, _file, value) in values() {
                let devices = &document["devices"];
                let (first, second) = (&devices[0], &devices[1]);
                if name == failing {
                    assert_eq!(first[name], Value::Null, "{error}");
                    assert_eq!(first["unread"][name], reason, "{name}");
                } else {
                    assert_eq!(first[name], value, "{failing} fails with {error}");
                    assert_eq!(first["unread"][name], Value::Null);
                }
                // The other card is as it was.
                if name != "board_serial" {
                    assert_eq!(second[name], value, "{failing} fails with {error}");
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
            .map(|(_name, file, _value)| format!("/{file}={error}"))
            .collect();
        let Some(document) = driver.doctor(&rules) else {
            return;
        };
        let devices = document["devices"].as_array().expect("devices");
        assert_eq!(devices.len(), 2);
        for (name, _file, value) in values() {
            assert_eq!(devices[0][name], Value::Null, "{name}");
            if name != "board_serial" {
                assert_eq!(devices[1][name], value, "{name}");
            }
        }
        assert_eq!(devices[0]["pci_address"], "0000:0a:00.0");
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
        let upstream = document["upstream"].as_array().expect("counters");
        assert_eq!(upstream[0]["error"], reason);
        assert_eq!(upstream[1]["totals"]["dram"], 8);
        assert_eq!(check(&document, "tt-metal")["state"], "warning");
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
