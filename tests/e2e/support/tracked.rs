//! A workload that uses the client library, as a process of its own.
//!
//! It keeps its own account of what it holds; tests compare it with the server's, to the byte.

use super::server::{TestServer, without_settings};
use super::{WATCHDOG, wait_until};
use clap::Parser;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
use ttmem_bench::WorkloadOptions;

const ASKED: &str = "E2E_TRACKED";

/// The workload of the benchmarks with these options: this test program again, in another part.
pub(crate) fn workload(options: &[&str]) -> Command {
    let mut command = without_settings(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "workload_process", "--nocapture"])
        .env(ASKED, options.join("\n"));
    command
}

/// The body of such a process.
pub(crate) fn run_if_asked() {
    let Ok(options) = std::env::var(ASKED) else {
        return;
    };
    let words = ["workload"].into_iter().chain(options.lines());
    let options = WorkloadOptions::try_parse_from(words).expect("options of the workload");
    ttmem_bench::workload(&options).expect("it does its work");
}

/// A running workload; killed when the test is done with it.
#[derive(Debug)]
pub(crate) struct Tracked {
    child: Child,
}

impl Tracked {
    /// Starts one that reports to a socket and holds what it allocated.
    pub(crate) fn start(socket: &Path, options: &[&str]) -> Self {
        Self::start_adapted(socket, options, |_command| {})
    }

    /// Starts one after a last change of its command.
    pub(crate) fn start_adapted(
        socket: &Path,
        options: &[&str],
        adapt: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = workload(&[&["--hold"], options].concat());
        command
            .env("TTMEM_SOCKET", socket)
            // A busy machine may keep the pump from running for longer than the default.
            .env("TTMEM_FULL_RING_WAIT_MS", "20000")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        adapt(&mut command);
        let child = command.spawn().expect("the workload starts");
        Self { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has done its work: its own account.
    pub(crate) fn account(&mut self) -> Value {
        let stdout = self.child.stdout.as_mut().expect("its output is a pipe");
        ttmem_bench::read_account(stdout).expect("it prints its account")
    }

    /// Lets it end by itself: what it printed after its account, and how it ended.
    pub(crate) fn end(mut self) -> Output {
        drop(self.child.stdin.take());
        let begun = Instant::now();
        while self.child.try_wait().expect("it is ours").is_none() {
            assert!(begun.elapsed() < WATCHDOG, "the workload did not end");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let mut output = Output {
            status: self.child.wait().expect("it ended"),
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        use std::io::Read;
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_end(&mut output.stderr).expect("its stderr");
        }
        output
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// What the server has of a process, in the form of a workload's account.
pub(crate) fn servers_account(server: &TestServer, pid: u32) -> Value {
    let process = server.process(pid);
    let mut devices: Vec<Value> = process["devices"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|device| {
            let mut kept = json!({});
            for name in [
                "id",
                "dram_bytes",
                "l1_bytes",
                "cb_bytes",
                "kernel_bytes",
                "buffers",
            ] {
                kept[name] = device[name].clone();
            }
            kept
        })
        .collect();
    devices.sort_by_key(|device| device["id"].as_u64());
    Value::Array(devices)
}

/// Fails unless the server's account of a workload becomes the workload's own.
pub(crate) fn assert_equal_accounts(server: &TestServer, account: &Value) {
    let pid = account["pid"]
        .as_u64()
        .and_then(|pid| u32::try_from(pid).ok());
    let pid = pid.expect("an account names its process");
    let mut last = Value::Null;
    // Confirmed already where the flush succeeded; else as soon as the client is back.
    let begun = Instant::now();
    while last != account["devices"] && begun.elapsed() < WATCHDOG {
        last = servers_account(server, pid);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(
        last, account["devices"],
        "the server's account, and its own"
    );
    let process = server.process(pid);
    assert_eq!(process["lost_events"], 0, "{process}");
    assert_eq!(process["incomplete"], false, "{process}");
    assert_eq!(process["anomalies"], 0, "{process}");
}

/// Waits until the server knows a process.
pub(crate) fn wait_for_process(server: &TestServer, pid: u32) {
    wait_until("the server knows the workload", || {
        !server.process(pid).is_null()
    });
}
