//! Who is gone holds nothing, who is merely disconnected keeps everything.

use crate::support::old_client::{OldClient, request};
use crate::support::place::ForOthers;
use crate::support::server::{TestServer, ttmem};
use crate::support::wait_until;
use crate::support::workload::{FIRST_ADDRESS, Part, Plan, Workload};
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use ttmem_event::legacy::{Generation, RequestKind, Totals};

fn plan(server: &TestServer) -> Plan {
    Plan {
        socket: server.socket(),
        generation: Generation::G4,
        device: 0,
        buffers: 10,
        size: 4096,
    }
}

fn dram(server: &TestServer) -> u64 {
    server.device(0)["dram"]["charged_bytes"]
        .as_u64()
        .unwrap_or(0)
}

fn is_exited(process: &Value) -> bool {
    process["state"] == "exited"
}

#[test]
fn a_killed_workload_is_released_and_listed_with_what_it_held() {
    let server = TestServer::start(&[]);
    let workload = Workload::start(&plan(&server));
    let pid = workload.pid();
    assert_eq!(dram(&server), 40_960);
    assert_eq!(server.process(pid)["state"], "live");
    workload.kill();
    wait_until("the dead process is listed as exited", || {
        is_exited(&server.process(pid))
    });
    assert_eq!(dram(&server), 0);
    let released = &server.process(pid)["released"];
    assert_eq!(released["buffers"], 10);
    assert_eq!(released["bytes"], 40_960);
    assert_eq!(released["reason"], "ended");
    assert_eq!(
        server.device(0)["dram"]["peak_bytes"],
        40_960,
        "the peak stays"
    );
    wait_until("the log tells of it", || {
        server.log().contains(&format!(
            "✗ [PID {pid}] Ended, released 10 buffers (0.0390625 MB)"
        ))
    });
}

#[test]
fn what_was_sent_just_before_death_counts() {
    let server = TestServer::start(&[]);
    for _round in 0..20 {
        let workload = Workload::spawn(
            Part::DieAtOnce,
            &Plan {
                buffers: 1000,
                ..plan(&server)
            },
        );
        let pid = workload.pid();
        workload.wait();
        wait_until("the dead process is listed as exited", || {
            is_exited(&server.process(pid))
        });
        let released = server.process(pid)["released"].clone();
        assert_eq!(released["buffers"], 1000, "{released}");
        assert_eq!(released["bytes"], 4_096_000);
        wait_until("the log has its last allocation", || {
            let last = 0x1000 + 999 * 4096;
            server.log().contains(&format!(
                "✓ [PID {pid}] Allocated 4096 bytes of DRAM on device 0 (buffer_id={last:#x})"
            ))
        });
    }
    assert_eq!(dram(&server), 0);
}

/// The server is stopped while they connect, report and end: it finds nobody behind them.
#[test]
fn connections_that_outlive_their_process_unread_are_one_process() {
    let server = TestServer::start(&[]);
    for _round in 0..2 {
        server.signal("STOP");
        let workload = Workload::spawn(Part::DieOnThree, &plan(&server));
        let pid = workload.pid();
        workload.wait();
        server.signal("CONT");
        wait_until("it is listed as exited with all it held", || {
            let process = server.process(pid);
            is_exited(&process) && process["released"]["buffers"] == 30
        });
    }
    let status = server.status();
    let processes = status["processes"].as_array().expect("processes");
    assert_eq!(processes.len(), 2, "{status}");
    assert!(processes.iter().all(|process| process["pid"].is_u64()));
    assert_eq!(dram(&server), 0);
}

#[test]
fn a_live_process_keeps_all_when_its_connection_ends_and_continues_when_it_returns() {
    let server = TestServer::start(&[]);
    let me = std::process::id();
    let mut client = OldClient::connect(&server.socket(), Generation::G3);
    client.send(&request(RequestKind::Alloc, 0, 5000, 0, 0x10));
    client.send(&request(RequestKind::CbAlloc, 0, 300, 0, 0x20));
    client.totals(0);
    drop(client);
    wait_until("the process is detached", || {
        server.process(me)["state"] == "detached"
    });
    assert_eq!(dram(&server), 5000);
    assert_eq!(server.process(me)["connections"], 0);
    assert_eq!(server.process(me)["released"], Value::Null);

    let mut client = OldClient::connect(&server.socket(), Generation::G3);
    client.send(&request(RequestKind::Free, 0, 0, 0, 0x10));
    let totals = client.totals(0);
    assert_eq!(
        totals,
        Totals {
            cb: 300,
            ..Totals::default()
        }
    );
    let status = server.status();
    let mine = status["processes"].as_array().expect("processes");
    assert_eq!(
        mine.iter().filter(|process| process["pid"] == me).count(),
        1,
        "one entry"
    );
    assert_eq!(mine[0]["state"], "live");
    assert_eq!(status["anomalies"]["unknown_free"], 0);
}

#[test]
fn several_connections_of_one_process_are_one_entry() {
    let server = TestServer::start(&[]);
    let mut clients: Vec<OldClient> = Generation::ALL
        .into_iter()
        .map(|generation| OldClient::connect(&server.socket(), generation))
        .collect();
    for (id, client) in (1..).zip(&mut clients) {
        client.send(&request(RequestKind::Alloc, 0, 100, 0, id));
        client.totals(0);
    }
    let mine = server.process(std::process::id());
    assert_eq!(mine["connections"], 4);
    assert_eq!(mine["devices"][0]["buffers"], 4);
    assert_eq!(
        server.status()["processes"].as_array().map(Vec::len),
        Some(1)
    );
    // What one allocated another may free: they are one process.
    clients[3].send(&request(RequestKind::Free, 0, 0, 0, 1));
    assert_eq!(clients[3].totals(0).dram, 300);
    clients.truncate(1);
    wait_until("three connections are gone", || {
        server.process(std::process::id())["connections"] == 1
    });
    assert_eq!(server.process(std::process::id())["state"], "live");
    assert_eq!(dram(&server), 300);
}

#[test]
fn a_child_with_the_socket_does_not_keep_its_dead_parents_memory() {
    let server = TestServer::start(&[]);
    let workload = Workload::start_as(Part::Inherit, &plan(&server));
    let (pid, heir) = (workload.pid(), workload.heir());
    assert_eq!(dram(&server), 40_960);
    workload.kill();
    wait_until("the parent is listed as exited", || {
        is_exited(&server.process(pid))
    });
    assert_eq!(dram(&server), 0);
    assert_eq!(server.process(pid)["released"]["buffers"], 10);
    let alive = Command::new("kill")
        .args(["-9", &heir.to_string()])
        .status()
        .expect("kill runs");
    assert!(alive.success(), "the child outlived its parent");
}

#[test]
fn frees_that_were_never_sent_leave_no_kernels_behind() {
    let server = TestServer::start(&[]);
    let workload = Workload::spawn(Part::DieInTeardown, &plan(&server));
    let pid = workload.pid();
    workload.wait();
    wait_until("the dead process is listed as exited", || {
        is_exited(&server.process(pid))
    });
    let released = server.process(pid)["released"].clone();
    assert_eq!(released["kernels"], 10);
    assert_eq!(released["cbs"], 10);
    assert_eq!(server.device(0)["kernel"]["registered_bytes"], 0);
    assert_eq!(server.device(0)["cb"]["registered_bytes"], 0);
    assert_eq!(server.device(0)["kernel"]["count"], 0);
}

#[test]
fn a_killed_server_is_followed_by_one_that_starts_clean_and_accepts() {
    let server = TestServer::start(&[]);
    let workload = Workload::start(&plan(&server));
    let folder = server.kill();
    let server = TestServer::start_in(folder, &[]);
    assert_eq!(server.status()["devices"].as_array().map(Vec::len), Some(0));
    assert_eq!(
        server.status()["processes"].as_array().map(Vec::len),
        Some(0)
    );
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    // A free of what the server before knew is a free of nothing.
    client.send(&request(RequestKind::Free, 0, 0, 0, 0x1000));
    client.send(&request(RequestKind::Alloc, 0, 77, 0, 0x9000));
    assert_eq!(client.totals(0).dram, 77);
    assert_eq!(server.status()["anomalies"]["unknown_free"], 1);
    drop(workload);
}

/// A server in a pid namespace of its own, which sees no pid of anybody outside of it.
struct NamespacedServer {
    child: Child,
    folder: tempfile::TempDir,
}

impl NamespacedServer {
    /// `None` where this user may not have namespaces.
    fn start() -> Option<Self> {
        let unshare = || {
            let mut command = Command::new("unshare");
            command.args([
                "--user",
                "--map-root-user",
                "--pid",
                "--fork",
                "--kill-child",
            ]);
            command
        };
        let allowed = unshare().arg("true").output();
        if !allowed.is_ok_and(|output| output.status.success()) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("ttmem.sock");
        let others = ForOthers::new();
        let mut command = unshare();
        command
            .arg(others.program())
            .args(["serve", "--quiet", "--socket"])
            .arg(&socket);
        let child = command.spawn().expect("the server starts");
        let server = Self { child, folder };
        wait_until("the server listens", || {
            UnixStream::connect(server.socket()).is_ok()
        });
        Some(server)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("ttmem.sock")
    }

    fn processes(&self) -> Vec<Value> {
        let output = ttmem()
            .args(["status", "--json", "--socket"])
            .arg(self.socket())
            .output();
        let status: Value =
            serde_json::from_slice(&output.expect("status runs").stdout).expect("JSON");
        status["processes"].as_array().expect("processes").clone()
    }
}

impl Drop for NamespacedServer {
    fn drop(&mut self) {
        // The server inside ends with the program that made its namespace.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn a_peer_whose_pid_cannot_be_seen_is_its_connection_and_its_death_is_still_seen() {
    let Some(server) = NamespacedServer::start() else {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "no pid namespaces here, and with CI=true every part must run"
        );
        println!("skipped: no pid namespaces for this user");
        return;
    };
    let plan = Plan {
        socket: server.socket(),
        generation: Generation::G4,
        device: 0,
        buffers: 1,
        size: 1000,
    };
    let workload = Workload::start(&plan);
    let mut first = OldClient::connect(&server.socket(), Generation::G4);
    let mut second = OldClient::connect(&server.socket(), Generation::G4);
    first.send(&request(RequestKind::Alloc, 0, 100, 0, FIRST_ADDRESS));
    first.totals(0);
    second.send(&request(RequestKind::Alloc, 0, 23, 0, FIRST_ADDRESS));
    assert_eq!(second.totals(0).dram, 1123, "each connection is an owner");
    second.send(&request(RequestKind::Free, 0, 0, 0, FIRST_ADDRESS));
    second.send(&request(RequestKind::Free, 0, 0, 0, FIRST_ADDRESS));
    assert_eq!(
        second.totals(0).dram,
        1100,
        "and cannot free what others hold"
    );
    let processes = server.processes();
    assert_eq!(processes.len(), 3);
    assert!(
        processes.iter().all(|process| process["pid"].is_null()),
        "{processes:?}"
    );
    let claim = workload.pid();
    assert!(
        processes
            .iter()
            .any(|process| process["claimed_pid"] == claim)
    );

    workload.kill();
    wait_until("the dead one is released", || second.totals(0).dram == 100);
    drop(first);
    wait_until("the one that merely left is detached", || {
        server
            .processes()
            .iter()
            .any(|process| process["state"] == "detached")
    });
    assert_eq!(
        second.totals(0).dram,
        100,
        "its process lives and keeps what it holds"
    );
}
