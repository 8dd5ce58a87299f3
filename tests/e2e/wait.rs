//! `ttmem wait --released`: processes that are killed, devices that are let go, and numbers that are given away again.

use crate::doctor::{machine, put};
use crate::support::place::{ForOthers, open_folder, quoted};
use crate::support::server::{Killed, TestServer, ttmem};
use crate::support::wait_until;
use crate::support::workload::{Plan, Workload};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use ttmem_event::legacy::Generation;

/// The user that everybody may be.
const NOBODY: u32 = 65_534;

/// A `ttmem wait` that runs, and the lines that it prints.
struct Wait {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Wait {
    fn start(arguments: &[&str]) -> Self {
        let mut command = ttmem();
        command.args(["wait", "--released"]).args(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// How it ended, and what it said until then.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.lines.read_to_string(&mut said).expect("text");
        let mut errors = self.child.stderr.take().expect("a pipe");
        errors.read_to_string(&mut said).expect("text");
        (self.child.wait().expect("it is ours").code(), said)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn wait(arguments: &[&str]) -> Output {
    let mut command = ttmem();
    command.args(["wait", "--released"]).args(arguments);
    command.output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn plan(server: &TestServer, buffers: u64) -> Plan {
    Plan {
        socket: server.socket(),
        generation: Generation::G4,
        device: 0,
        buffers,
        size: 4096,
    }
}

#[test]
fn a_killed_process_is_waited_for_until_the_server_has_released_it() {
    let server = TestServer::start(&[]);
    let socket = server.socket();
    let socket = socket.to_str().expect("text");
    for _round in 0..5 {
        let workload = Workload::start(&plan(&server, 10));
        let pid = workload.pid().to_string();
        let mut waiting = Wait::start(&["--pid", &pid, "--socket", socket]);
        let line = waiting.line();
        let expected = format!(
            "waiting for process {pid}: it is still running; the server counts 40.0 KiB of buffers for it"
        );
        assert_eq!(line, expected);
        workload.kill();
        let (code, said) = waiting.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.ends_with(&format!("released: process {pid}\n")),
            "{said}"
        );
        // At that very moment, not soon after.
        let process = server.process(pid.parse().expect("a number"));
        assert_eq!(process["state"], "exited", "{process}");
        assert_eq!(server.device(0)["dram"]["charged_bytes"], 0);
        // Of one that was gone before, nothing is waited for.
        let output = wait(&["--pid", &pid, "--socket", socket]);
        assert_eq!(output.status.code(), Some(0), "{}", said_of(&output));
    }
}

fn said_of(output: &Output) -> String {
    let printed = String::from_utf8_lossy(&output.stdout);
    format!("{printed}{}", said(output))
}

#[test]
fn a_server_that_is_stopped_has_not_released_what_a_killed_process_held() {
    let server = TestServer::start(&[]);
    let socket = server.socket();
    let socket = socket.to_str().expect("text");
    let workload = Workload::start(&plan(&server, 10));
    let pid = workload.pid().to_string();
    let mut waiting = Wait::start(&["--pid", &pid, "--socket", socket]);
    waiting.line();
    server.signal("STOP");
    workload.kill();
    // It asks the server now, which cannot have seen the end: nothing may be said before it goes on.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(waiting.child.try_wait().expect("ours").is_none());
    server.signal("CONT");
    let (code, said) = waiting.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(server.device(0)["dram"]["charged_bytes"], 0);
}

#[test]
fn a_device_is_waited_for_until_its_last_process_is_gone() {
    let server = TestServer::start(&[]);
    let socket = server.socket();
    let socket = socket.to_str().expect("text");
    let (first, second) = (
        Workload::start(&plan(&server, 10)),
        Workload::start(&plan(&server, 5)),
    );
    let pids = [first.pid(), second.pid()].map(|pid| pid.to_string());
    let mut waiting = Wait::start(&["--device", "0", "--socket", socket]);
    let line = waiting.line();
    assert!(
        line.starts_with("waiting for device 0: the server counts"),
        "{line}"
    );
    assert!(pids.iter().all(|pid| line.contains(pid)), "{line}");
    first.kill();
    let line = waiting.line();
    assert!(
        !line.contains(&pids[0]) && line.contains(&pids[1]),
        "{line}"
    );
    assert!(line.contains("20.0 KiB"), "{line}");
    second.kill();
    let (code, said) = waiting.end();
    assert_eq!((code, said.as_str()), (Some(0), "released: device 0\n"));
    // The same without a name.
    let output = wait(&["--timeout", "0", "--socket", socket]);
    assert_eq!(output.status.code(), Some(0), "{}", said_of(&output));
}

#[test]
fn when_the_time_is_over_who_holds_how_much_is_named() {
    let server = TestServer::start(&[]);
    let socket = server.socket();
    let socket = socket.to_str().expect("text");
    let workload = Workload::start(&plan(&server, 10));
    let pid = workload.pid().to_string();
    for timeout in ["0", "0.3", "1.5"] {
        for what in [&["--pid", &pid][..], &["--device", "0"], &[]] {
            let mut arguments = vec!["--socket", socket, "--timeout", timeout];
            arguments.extend(what);
            let output = wait(&arguments);
            assert_eq!(output.status.code(), Some(9), "{}", said_of(&output));
            let said = said(&output);
            assert!(
                said.contains(&format!("not released within {timeout} s")),
                "{said}"
            );
            assert!(said.contains("40.0 KiB"), "{said}");
            assert!(
                what.contains(&pid.as_str()) || said.contains(&pid),
                "{said}"
            );
        }
    }
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let folder = tempfile::tempdir().expect("a folder");
    machine(folder.path());
    let root = folder.path().to_str().expect("text");
    for arguments in [
        &["--pid", "0"][..],
        &["--pid", "1", "--device", "0"],
        &["--timeout", "-1"],
        &["--timeout", "soon"],
        &["--device", "chip", "--root", root],
        &["--device", "7", "--root", root],
        &["--device", "tray1/chip1", "--root", root],
    ] {
        let output = wait(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?} {}",
            said(&output)
        );
    }
    let output = ttmem()
        .args(["wait", "--pid", "1"])
        .output()
        .expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(2),
        "what to wait for has to be said"
    );
    let output = wait(&["--pid", "1", "--socket", "/nonexistent/x.sock"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
}

/// A machine with one n300, whose driver says who has it open.
fn held_machine(root: &Path) {
    machine(root);
    put(root, "proc/driver/tenstorrent/0/pids", "77\n77\n");
    put(root, "proc/77/comm", "py\u{1b}thon\n");
    process(root, 100);
}

/// A process 77 that began so many ticks after the machine.
fn process(root: &Path, ticks: u64) {
    let zeros = "0 ".repeat(18);
    put(
        root,
        "proc/77/stat",
        format!("77 (py) S {zeros}{ticks} 0 0\n"),
    );
}

#[test]
fn a_device_is_held_as_long_as_the_driver_lists_a_process() {
    // By each of its names: TT-Metal's number, the node, the PCI address and the board's number.
    for name in [
        "0",
        "1",
        "/dev/tenstorrent/0",
        "0a:00.0",
        "0100014000000001",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        held_machine(root);
        let mut waiting = Wait::start(&["--device", name, "--root", root.to_str().expect("text")]);
        let line = waiting.line();
        let expected = format!(
            "waiting for device {name}: process 77 (py\u{fffd}thon) has /dev/tenstorrent/0 open"
        );
        assert_eq!(line, expected);
        // It is opened by a second one before the first is gone.
        put(root, "proc/driver/tenstorrent/0/pids", "77\n0\n");
        let line = waiting.line();
        assert!(
            line.contains("; ") || line.contains("outside of this container"),
            "{line}"
        );
        put(root, "proc/driver/tenstorrent/0/pids", "");
        let (code, said) = waiting.end();
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn where_there_is_no_driver_the_server_says_who_has_a_device_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    held_machine(root);
    let server = TestServer::start(&["--host-root", root.to_str().expect("text")]);
    let socket = server.socket();
    let nothing = tempfile::tempdir().expect("a folder");
    let elsewhere = [
        "--root",
        nothing.path().to_str().expect("text"),
        "--socket",
        socket.to_str().expect("text"),
    ];
    for target in [&["--device", "0"][..], &[]] {
        let arguments = [target, &elsewhere, &["--timeout", "0.1"]].concat();
        let output = wait(&arguments);
        assert_eq!(output.status.code(), Some(9), "{}", said(&output));
        let held = "the server sees process 77 (py\u{fffd}thon) with device 0 n300 open";
        assert!(said(&output).contains(held), "{}", said(&output));
    }
    put(root, "proc/driver/tenstorrent/0/pids", "");
    let output = wait(&[&["--device", "0"][..], &elsewhere].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn where_the_driver_does_not_say_descriptors_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    machine(root);
    let fds = root.join("proc/77/fd");
    fs::create_dir_all(&fds).expect("a folder");
    symlink("/dev/tenstorrent/0", fds.join("5")).expect("a link");
    let arguments = ["--device", "0", "--root", root.to_str().expect("text")];
    let mut waiting = Wait::start(&arguments);
    let line = waiting.line();
    assert!(
        line.contains("process 77 has /dev/tenstorrent/0 open"),
        "{line}"
    );
    fs::remove_file(fds.join("5")).expect("ours");
    assert_eq!(waiting.end().0, Some(0));
    // A list that is no list says nothing: it is not taken for an empty one.
    put(root, "proc/driver/tenstorrent/0/pids", "seventy-seven\n");
    let output = wait(&[&arguments[..], &["--timeout", "0"]].concat());
    assert_eq!(output.status.code(), Some(9));
    assert!(said(&output).contains("does not say"), "{}", said(&output));
}

#[test]
fn a_process_is_gone_when_its_number_belongs_to_another_and_its_children_are_not_forgotten() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    held_machine(root);
    let arguments = ["--pid", "77", "--root", root.to_str().expect("text")];
    let mut waiting = Wait::start(&arguments);
    let line = waiting.line();
    assert!(
        line.contains("it is still running; it has /dev/tenstorrent/0 open"),
        "{line}"
    );
    // It dies, and a child of it keeps the descriptor that the driver lists under its number.
    fs::remove_file(root.join("proc/77/stat")).expect("ours");
    let line = waiting.line();
    assert!(line.contains("a process that it started has"), "{line}");
    // Its number is another process's, which opened the device itself.
    process(root, 900_000);
    let (code, said) = waiting.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("is another"), "{said}");
}

/// A namespace has numbers of its own, of which the next one can be chosen.
#[test]
fn a_number_that_is_given_to_another_process_at_once_ends_the_wait() {
    let others = ForOthers::new();
    let program = quoted(others.program().to_str().expect("text"));
    let script = format!(
        "sleep 300 & pid=$!; {program} wait --released --pid $pid >out & waiting=$!; \
         until grep -q running out; do sleep 0.01; done; \
         kill -9 $pid; wait $pid; \
         echo $((pid - 1)) >/proc/sys/kernel/ns_last_pid; sleep 301 & \
         wait $waiting; code=$?; cat out; kill -0 $pid && echo another $!=$pid; exit $code"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("unshare");
    command
        .args([
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "bash",
            "-c",
        ])
        .arg(&script)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("XDG_RUNTIME_DIR", folder.path())
        .current_dir(folder.path());
    let output = command.output().expect("unshare is there");
    let printed = said_of(&output);
    if printed.contains("unshare failed") || printed.contains("ns_last_pid") {
        // No namespaces, or no say over their numbers, for this user.
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let pair = printed
        .lines()
        .find_map(|line| line.strip_prefix("another "));
    let (new, old) = pair
        .and_then(|pair| pair.split_once('='))
        .expect("a process with its number");
    assert_eq!(new, old, "{printed}");
    assert!(printed.contains("released: process"), "{printed}");
}

#[test]
fn without_a_server_the_process_alone_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    if crate::support::server::machine_has_server() {
        return;
    }
    let mut sleep = Killed(
        Command::new("sleep")
            .arg("300")
            .spawn()
            .expect("sleep runs"),
    );
    let pid = sleep.0.id().to_string();
    let mut command = ttmem();
    command
        .args(["wait", "--released", "--pid", &pid])
        .env("XDG_RUNTIME_DIR", folder.path())
        .stdout(Stdio::piped());
    let mut waiting = Killed(command.spawn().expect("it starts"));
    // Not reaped: a process that has ended holds nothing, whoever still has to ask how.
    sleep.0.kill().expect("ours");
    wait_until("it ends", || waiting.0.try_wait().expect("ours").is_some());
    assert!(waiting.0.wait().expect("ours").success());
}

/// It takes connections, and that is all.
#[test]
fn a_silent_server_does_not_make_the_wait_longer() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("silent.sock");
    let _silent = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let socket = socket.to_str().expect("text");
    let output = wait(&["--timeout", "1", "--pid", "1", "--socket", socket]);
    assert_eq!(output.status.code(), Some(3), "{}", said_of(&output));
    let said = said(&output);
    let (_server, within) = said.split_once("did not answer within ").expect("why");
    let seconds: f64 = within
        .split(' ')
        .next()
        .expect("a number")
        .parse()
        .expect("a number");
    assert!(seconds <= 1.0, "{said}");
}

#[test]
fn a_driver_that_may_not_be_looked_at_has_released_nothing() {
    let tree = open_folder();
    let class = tree.path().join("sys/class/tenstorrent");
    std::fs::create_dir_all(&class).expect("a folder");
    std::fs::create_dir_all(tree.path().join("proc")).expect("a folder");
    let root = tree.path().to_str().expect("text");
    let all = ["--timeout", "0", "--root", root];
    let of_pid = [&all[..], &["--pid", "4194303"]].concat();
    let of_device = [&all[..], &["--device", "0"]].concat();
    let others = ForOthers::new();
    let asked = |arguments: &[&str]| {
        // Root may look at everything.
        let mut command = if nix::unistd::geteuid().is_root() {
            others.ttmem_as(NOBODY)
        } else {
            ttmem()
        };
        command.args(["wait", "--released"]).args(arguments);
        command.output().expect("it runs")
    };
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    fs::set_permissions(&class, closed).expect("ours");
    let refused = |why: &str| {
        for (arguments, code) in [(&all[..], 9), (&of_pid, 9), (&of_device, 1)] {
            let output = asked(arguments);
            assert_eq!(output.status.code(), Some(code), "{}", said_of(&output));
            let expected = format!("the driver does not say which devices there are: {why}");
            assert!(said(&output).contains(&expected), "{}", said(&output));
        }
    };
    refused("permission denied");
    fs::remove_dir(&class).expect("ours");
    fs::write(&class, "").expect("a file");
    refused("Not a directory");
    // Without a driver there is nothing to look at.
    fs::remove_file(&class).expect("ours");
    let output = asked(&of_pid);
    assert_eq!(output.status.code(), Some(0), "{}", said_of(&output));
}

#[test]
fn what_could_not_be_asked_is_not_released() {
    let tree = tempfile::tempdir().expect("a folder");
    let at = |path: &str| tree.path().join(path);
    let root = tree.path().to_str().expect("text");
    for folder in [
        "sys/class/tenstorrent/tenstorrent!0",
        "proc/driver/tenstorrent/0",
    ] {
        std::fs::create_dir_all(at(folder)).expect("a folder");
    }
    // A list that cannot be read: whoever it has is not known to be gone.
    std::fs::write(at("proc/driver/tenstorrent/0/pids"), "4194303\nwhat\n").expect("a file");
    for more in [&["--pid", "4194303"][..], &[]] {
        let words = [&["--timeout", "0", "--root", root], more].concat();
        let output = wait(&words);
        assert_eq!(output.status.code(), Some(9), "{}", said_of(&output));
        assert!(
            said(&output).contains("the driver does not say"),
            "{}",
            said(&output)
        );
    }
    let output = wait(&["--timeout", "0", "--root", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(1), "{}", said_of(&output));
}
