//! The reading commands as users and scripts call them.

use super::support::client::{Client, allocation};
use super::support::old_client::{OldClient, request};
use super::support::server::{Killed, TestServer, ttmem};
use super::support::wait_until;
use serde_json::Value;
use std::io::Read;
use std::process::Stdio;
use ttmem_event::legacy::{Generation, RequestKind};

const CLASSES: [&str; 5] = ["dram", "l1", "l1_small", "trace", "system"];

/// What a successful command printed.
fn printed(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.ask(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The exit code and the complaint of a command that failed.
fn failed(server: &TestServer, arguments: &[&str]) -> (Option<i32>, String) {
    let output = server.ask(arguments);
    assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    (
        output.status.code(),
        String::from_utf8(output.stderr).expect("text"),
    )
}

/// Fails unless the object has all these keys.
fn has_keys(object: &Value, keys: &str) {
    for key in keys.split(' ') {
        assert!(object.get(key).is_some(), "{key} is missing in {object}");
    }
}

/// An old client with something of everything on devices 0 and 1.
fn old_workload(server: &TestServer) -> OldClient {
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    client.send_all(&[
        request(RequestKind::Alloc, 0, 1 << 20, 0, 0x1000),
        request(RequestKind::Alloc, 0, 1 << 16, 1, 0x2000),
        request(RequestKind::KernelLoad, 0, 917_504, 1, 0x3000),
        // A device that holds circular buffers only is a device all the same.
        request(RequestKind::CbAlloc, 1, 1 << 12, 0, 0x4000),
    ]);
    client.totals(0);
    client
}

#[test]
fn status_as_json_has_every_documented_key() {
    let server = TestServer::start(&[]);
    let _old = old_workload(&server);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(4, 0xABC);
    client.send(&[allocation(1, 1_048_640, 4096)]);
    let status = server.status();

    has_keys(
        &status,
        "schema time host server devices processes anomalies errors",
    );
    assert_eq!(status["schema"], 1);
    assert!(
        status["time"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    assert!(status["host"].is_string());
    assert_eq!(status["server"]["pid"], server.pid());
    assert_eq!(status["errors"], serde_json::json!([]));
    assert!(
        status["anomalies"]
            .as_object()
            .is_some_and(|kinds| { !kinds.is_empty() && kinds.values().all(|count| *count == 0) })
    );

    let devices = status["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 3);
    for device in devices {
        has_keys(
            device,
            "id unique_id arch board remote source verified dram l1 l1_small trace",
        );
        has_keys(device, "system cb kernel ring prefetch allocators");
        for class in CLASSES {
            let class = &device[class];
            has_keys(
                class,
                "capacity_bytes banks requested_bytes charged_bytes union_bytes",
            );
            has_keys(class, "overlap_bytes peak_bytes peak_time buffers");
            has_keys(class, "largest_free_bytes_per_bank");
            for figure in ["requested_bytes", "charged_bytes", "peak_bytes", "buffers"] {
                assert!(class[figure].is_u64(), "{figure}: {class}");
            }
        }
        has_keys(
            &device["l1"],
            "physical_bytes reserved_bytes occupied_bytes",
        );
        has_keys(&device["cb"], "registered_bytes resident_bytes");
        has_keys(
            &device["kernel"],
            "registered_bytes resident_bytes application_bytes",
        );
        has_keys(
            &device["kernel"],
            "fabric_bytes dispatch_bytes unique_bytes tensix_bytes",
        );
        has_keys(
            &device["kernel"],
            "active_eth_bytes idle_eth_bytes dram_core_bytes",
        );
        assert!(device["ring"].is_array() && device["prefetch"].is_array());
        assert!(device["allocators"].is_array());
    }
    let processes = status["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 2);
    for process in processes {
        has_keys(
            process,
            "pid instance name uid start_time state incomplete lost_events",
        );
        has_keys(process, "elided_events devices");
        assert_eq!(process["pid"], std::process::id());
        for device in process["devices"].as_array().expect("a list") {
            has_keys(
                device,
                "id dram_bytes l1_bytes l1_small_bytes trace_bytes system_bytes",
            );
            has_keys(device, "cb_bytes kernel_bytes buffers");
        }
    }
}

#[test]
fn what_an_old_client_does_not_tell_is_null() {
    let server = TestServer::start(&[]);
    let _old = old_workload(&server);
    let device = server.device(0);
    assert_eq!(device["source"], "legacy");
    for unknown in ["unique_id", "arch", "board", "remote", "verified"] {
        assert!(device[unknown].is_null(), "{unknown}: {device}");
    }
    for class in CLASSES {
        for unknown in ["capacity_bytes", "banks", "largest_free_bytes_per_bank"] {
            assert!(device[class][unknown].is_null(), "{class}.{unknown}");
        }
    }
    for unknown in ["physical_bytes", "reserved_bytes", "occupied_bytes"] {
        assert!(device["l1"][unknown].is_null(), "l1.{unknown}");
    }
    assert_eq!(device["dram"]["charged_bytes"], 1 << 20);
    assert!(device["dram"]["peak_time"].is_string());
    assert!(device["trace"]["peak_time"].is_null(), "it never held any");
    let kernel = &device["kernel"];
    assert_eq!(kernel["fabric_bytes"], 917_504);
    assert!(kernel["resident_bytes"].is_null() && kernel["active_eth_bytes"].is_null());
    assert_eq!(server.device(1)["cb"]["registered_bytes"], 4096);
    assert!(server.device(1)["cb"]["resident_bytes"].is_null());
    let process = server.process(std::process::id());
    assert!(process["instance"].is_null());
    assert_eq!(process["devices"][1]["cb_bytes"], 4096);
}

#[test]
fn what_a_new_client_tells_is_known() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(&server.socket(), [0x5A; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, 1_048_640, 4096)]);
    let device = server.device(0);
    assert_eq!(device["source"], "client");
    assert_eq!(device["unique_id"], "0xabc");
    assert_eq!(device["arch"], "wormhole_b0");
    assert_eq!(device["remote"], false);
    assert_eq!(device["dram"]["capacity_bytes"], 12_u64 * 1_072_693_184);
    assert_eq!(device["dram"]["banks"], 12);
    let l1 = &device["l1"];
    assert_eq!(l1["capacity_bytes"], 64 * 1_393_312);
    assert_eq!(l1["banks"], 64);
    assert_eq!(l1["physical_bytes"], 64 * 1_499_136);
    assert_eq!(l1["reserved_bytes"], 64 * 105_824);
    assert_eq!(
        l1["occupied_bytes"],
        64 * 105_824,
        "nothing but the reserved part"
    );
    assert_eq!(l1["largest_free_bytes_per_bank"], 1_393_312);
    // The runtime reported no allocator for these.
    assert!(device["l1_small"]["capacity_bytes"].is_null());
    assert!(device["trace"]["capacity_bytes"].is_null());
    assert_eq!(device["cb"]["resident_bytes"], 0);
    assert_eq!(device["kernel"]["resident_bytes"], 0);
    let allocators = device["allocators"].as_array().expect("a list");
    let dram = allocators
        .iter()
        .find(|allocator| allocator["class"] == "dram")
        .expect("one");
    assert_eq!(dram["charged_bytes"], 12 * 4096);
    let process = server.process(std::process::id());
    assert!(
        process["instance"]
            .as_str()
            .is_some_and(|text| text.contains("5a5a5a"))
    );
}

#[test]
fn output_for_people_fits_80_columns() {
    let server = TestServer::start(&[]);
    let _old = old_workload(&server);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(4, 0xABC);
    client.send(&[allocation(1, 1_048_640, 1 << 20)]);
    let mut all = String::new();
    for arguments in [&["status"][..], &["dump"], &["dump", "--kernels", "--cbs"]] {
        let mut command = ttmem();
        command.env("COLUMNS", "80").args(arguments);
        command.arg("--socket").arg(server.socket());
        let page = command.output().expect("the command runs").stdout;
        let page = String::from_utf8(page).expect("text");
        for line in page.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
            assert_eq!(line.trim_end(), line, "{arguments:?}");
        }
        assert!(!page.contains('\u{1b}'), "no colours in a pipe");
        all.push_str(&page);
    }
    let pid = std::process::id().to_string();
    let shown = [
        "Device 0",
        "Device 1",
        "Device 4",
        "1.0 MiB",
        "896.0 KiB",
        "0x2000",
        &pid,
    ];
    for text in shown {
        assert!(all.contains(text), "{text} is missing in\n{all}");
    }
    let with_bars = all
        .lines()
        .filter(|line| line.contains("┄┄") || line.contains("··"))
        .count();
    assert!(with_bars >= 6, "two bars for each device:\n{all}");
}

#[test]
fn dumps_list_everything_that_is_held() {
    const BUFFERS: u64 = 12_345;
    let server = TestServer::start(&[]);
    let mut client = old_workload(&server);
    let many: Vec<_> = (0..BUFFERS)
        .map(|id| request(RequestKind::Alloc, 2, 1024, 0, 0x10_0000 + id))
        .collect();
    client.send_all(&many);
    client.totals(2);
    let all = printed(&server, &["dump"]);
    assert_eq!(
        all.matches(&format!("{:>7} ", std::process::id())).count(),
        12_347
    );
    assert!(
        all.ends_with("12347 buffers, 13.1 MiB on all devices together\n"),
        "{all}"
    );
    let document: Value =
        serde_json::from_str(&printed(&server, &["dump", "--json"])).expect("JSON");
    assert_eq!(document["complete"], true);
    let rows = document["buffers"].as_array().expect("a list");
    assert_eq!(rows.len(), 12_347);
    let bytes: u64 = rows
        .iter()
        .filter_map(|row| row["charged_bytes"].as_u64())
        .sum();
    assert_eq!(bytes, (1 << 20) + (1 << 16) + BUFFERS * 1024);

    let kernels = printed(&server, &["dump", "--kernels"]);
    assert!(
        kernels.contains("fabric") && kernels.contains("0x3000"),
        "{kernels}"
    );
    let both = printed(&server, &["dump", "--kernels", "--cbs", "--json"]);
    let both: Value = serde_json::from_str(&both).expect("JSON");
    assert_eq!(both["kernels"][0]["kernel"], "0x3000");
    assert_eq!(both["kernels"][0]["total_bytes"], 917_504);
    assert_eq!(both["kernels"][0]["device_ids"], serde_json::json!([0]));
    assert_eq!(both["cbs"][0]["cb"], "0x4000");
    assert_eq!(both["cbs"][0]["device_ids"], serde_json::json!([1]));
    assert!(both.get("buffers").is_none());
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_dump_quietly() {
    let server = TestServer::start(&[]);
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    let many: Vec<_> = (0..20_000)
        .map(|id| request(RequestKind::Alloc, 0, 1024, 0, 0x1000 + id))
        .collect();
    client.send_all(&many);
    client.totals(0);
    let mut dump = ttmem()
        .args(["dump", "--socket"])
        .arg(server.socket())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut output = dump.stdout.take().expect("a pipe");
    output.read_exact(&mut [0; 100]).expect("a first line");
    drop(output);
    let ended = dump.wait_with_output().expect("it is ours");
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert_eq!(
        client.totals(0).dram,
        20_000 * 1024,
        "the server does not mind"
    );
}

#[test]
fn forget_drops_a_process_until_it_speaks_again() {
    let server = TestServer::start(&[]);
    let mut client = old_workload(&server);
    let pid = std::process::id();
    let said = printed(&server, &["forget", &pid.to_string()]);
    assert_eq!(
        said,
        format!("forgot pid {pid}: 2 buffers, 1 CB, 1 kernel, 1.9 MiB\n")
    );
    let gone = server.process(pid);
    assert_eq!(gone["state"], "exited");
    assert_eq!(gone["released"]["reason"], "forgotten");
    assert_eq!(server.device(0)["dram"]["charged_bytes"], 0);
    assert_eq!(server.device(1)["cb"]["registered_bytes"], 0);
    let (code, said) = failed(&server, &["forget", &pid.to_string()]);
    assert_eq!(code, Some(1), "it is gone already: {said}");

    client.send(&request(RequestKind::Alloc, 0, 4096, 0, 0x5000));
    assert_eq!(client.totals(0).dram, 4096);
    assert_eq!(server.process(pid)["state"], "live");
}

#[test]
fn forget_of_a_process_that_is_not_tracked_says_so() {
    let server = TestServer::start(&[]);
    let (code, said) = failed(&server, &["forget", "4194303"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("no process 4194303 is tracked"), "{said}");
}

#[test]
fn without_a_server_the_code_is_3_and_the_socket_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("absent.sock");
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["dump"],
        &["forget", "1"],
    ] {
        let output = ttmem()
            .args(arguments)
            .arg("--socket")
            .arg(&socket)
            .output()
            .expect("the program runs");
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        let said = String::from_utf8(output.stderr).expect("text");
        let clear = format!("no server listens on {}; start one", socket.display());
        assert!(said.contains(&clear), "{said}");
    }
}

#[test]
fn bad_usage_is_code_2() {
    for arguments in [
        &["stauts"][..],
        &["status", "--jsno"],
        &["forget"],
        &["forget", "0"],
        &["forget", "me"],
        &["dump", "--limit", "0"],
        &["serve", "--socket-mode", "0999"],
        &["serve", "--board", "n9999"],
        &["serve", "--log-keep", "3"],
        &["serve", "--quiet", "--verbose"],
        &[],
    ] {
        let output = ttmem().args(arguments).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn the_socket_may_come_from_the_environment_and_the_option_wins() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("env.sock");
    let server = ttmem()
        .arg("serve")
        .env("TTMEM_SOCKET", &socket)
        .stdout(Stdio::null())
        .spawn();
    let server = Killed(server.expect("the program starts"));
    let ask = |arguments: &[&str]| {
        let mut command = ttmem();
        command.args(arguments).env("TTMEM_SOCKET", &socket);
        command.output().expect("the program runs")
    };
    wait_until("the server answers", || ask(&["status"]).status.success());
    let status = ask(&["status", "--json"]);
    let elsewhere = ask(&["status", "--socket", "/nonexistent/ttmem.sock"]);
    let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(status["server"]["pid"], server.0.id());
    assert_eq!(elsewhere.status.code(), Some(3));
}

/// Names of files and words of the command line are part of messages, and drive no terminal.
#[test]
fn messages_make_control_characters_visible() {
    let name = "a\u{1b}[31mb";
    for arguments in [
        &["report", name][..],
        &["explain", name],
        &["top", "--file", name],
        &[
            "status",
            "--http-token-file",
            name,
            "--http",
            "http://127.0.0.1:1",
        ],
        &["status", "--socket", name],
        &["check", "--baseline", name, "--", "true"],
        &["doctor", "--root", name],
        // Those that the command line itself is wrong with.
        &[name],
        &["status", name],
        &["top", "--view", name],
        &["top", "--http", name],
    ] {
        if arguments[0] == "report" && ttmem_server::missing_page().is_some() {
            // Such a build names no file.
            continue;
        }
        let output = ttmem().args(arguments).output().expect("it runs");
        assert!(!output.status.success(), "{arguments:?}");
        let said = String::from_utf8(output.stderr).expect("text");
        let raw = |sign: &char| *sign != '\n' && ttmem_report::is_deceptive(*sign);
        assert_eq!(said.chars().find(raw), None, "{arguments:?}: {said}");
        assert!(said.contains(r"a\u{1b}[31mb"), "{arguments:?}: {said}");
    }
}
