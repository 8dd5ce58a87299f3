//! The model as a load: processes that are tracked, and a server that keeps up.

use super::support::server::{Killed, TestServer, machine_has_server, ttmem};
use super::support::wait_until;
use serde_json::Value;
use std::process::{Command, Stdio};

/// A second of load, as JSON.
fn load(command: &mut Command) -> Value {
    let output = command
        .args(["--clients", "2", "--duration", "1", "--json"])
        .output()
        .expect("the load runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Fails unless everything arrived and everything was given back.
fn assert_sound(summary: &Value) {
    for nothing in ["lost_events", "live_bytes"] {
        assert_eq!(summary[nothing], 0, "{nothing}: {summary}");
    }
    assert_eq!(summary["clients"], 2);
    assert!(summary["recorded_events"].as_u64() > Some(0), "{summary}");
    assert_eq!(summary["problems"], serde_json::json!([]));
}

#[test]
fn at_full_speed_nothing_is_lost_and_nothing_is_left() {
    let server = TestServer::start(&["--quiet"]);
    let summary = load(ttmem().arg("load").arg("--socket").arg(server.socket()));
    assert_sound(&summary);
    assert_eq!(summary["own_server"], false);
    assert_eq!(summary["applied_events"], summary["recorded_events"]);
    let status = server.status();
    let applied = &status["server"]["events_applied"];
    assert_eq!(
        applied, &summary["recorded_events"],
        "the server says so, too"
    );
    for device in status["devices"].as_array().expect("a list") {
        for class in ["dram", "l1", "l1_small", "trace"] {
            assert_eq!(device[class]["charged_bytes"], 0, "{class}: {device}");
        }
        assert_eq!(device["kernel"]["registered_bytes"], 0, "{device}");
    }
}

#[test]
fn without_a_server_it_brings_its_own_and_keeps_to_its_rate() {
    // Nobody listens in a folder that is empty.
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = ttmem();
    command.arg("load").env("XDG_RUNTIME_DIR", folder.path());
    if machine_has_server() {
        return;
    }
    let summary = load(command.args(["--rate", "2000", "--scenario", "leak"]));
    assert_sound(&summary);
    assert_eq!(summary["own_server"], true);
    assert_eq!(summary["applied_events"], summary["recorded_events"]);
    // What is due within the second, and the end of the last stories.
    assert!(
        summary["recorded_events"].as_u64() < Some(10_000),
        "{summary}"
    );
}

#[test]
fn a_server_that_was_named_and_is_not_there_is_an_error() {
    let output = ttmem()
        .args(["load", "--socket", "/nonexistent/ttmem.sock"])
        .output()
        .expect("the load runs");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn clients_go_when_whoever_started_them_is_killed() {
    let server = TestServer::start(&["--quiet"]);
    let load = ttmem()
        .args([
            "load",
            "--clients",
            "3",
            "--duration",
            "3600",
            "--rate",
            "300",
        ])
        .arg("--socket")
        .arg(server.socket())
        .stdout(Stdio::null())
        .spawn();
    let mut load = Killed(load.expect("the load starts"));
    let live = || {
        let status = server.status();
        let processes = status["processes"].as_array().expect("a list");
        processes
            .iter()
            .filter(|process| process["state"] == "live")
            .count()
    };
    wait_until("three clients are tracked", || live() == 3);
    load.0.kill().expect("it is ours");
    wait_until("no client is left", || live() == 0);
}

/// Nobody is left to confirm their events, for which they would wait a minute.
#[test]
fn clients_go_when_the_server_and_whoever_started_them_are_killed() {
    let server = TestServer::start(&["--quiet"]);
    let load = ttmem()
        .args(["load", "--clients", "2", "--duration", "3600"])
        .arg("--socket")
        .arg(server.socket())
        .stdout(Stdio::null())
        .spawn();
    let mut load = Killed(load.expect("the load starts"));
    let mut clients: Vec<String> = Vec::new();
    wait_until("two clients are tracked", || {
        let status = server.status();
        let processes = status["processes"].as_array().expect("a list");
        clients = processes
            .iter()
            .map(|process| process["pid"].to_string())
            .collect();
        clients.len() == 2
    });
    server.kill();
    load.0.kill().expect("it is ours");
    for pid in clients {
        // Its number may be another's by then.
        let command = format!("/proc/{pid}/cmdline");
        wait_until("the client is gone", || {
            let command = std::fs::read(&command).unwrap_or_default();
            !String::from_utf8_lossy(&command).contains("load-client")
        });
    }
}

#[test]
fn an_interrupt_ends_a_load_with_its_summary() {
    let server = TestServer::start(&["--quiet"]);
    let load = ttmem()
        .args([
            "load",
            "--clients",
            "2",
            "--duration",
            "3600",
            "--rate",
            "200",
        ])
        .arg("--json")
        .arg("--socket")
        .arg(server.socket())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the load starts");
    wait_until("two clients are tracked", || {
        server.status()["server"]["clients"] == 2
    });
    let pid = load.id().to_string();
    let status = Command::new("kill").args(["-s", "INT", &pid]).status();
    assert!(status.expect("kill runs").success());
    let output = load.wait_with_output().expect("it is ours");
    assert_eq!(output.status.code(), Some(0));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_sound(&summary);
}
