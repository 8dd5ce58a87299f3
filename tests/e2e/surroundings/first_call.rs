//! Programs that end right after their first call, and servers that do not take part in it.

use super::{assert_holds, begin, entries, released};
use crate::support::c_program::{Ended, Linked, Story, Workshop};
use crate::support::is_left_to_the_whole_run;
use crate::support::place::open_folder;
use crate::support::server::TestServer;
use crate::support::wait_until;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Few, some, and more than a pump takes over at once.
const COUNTS: [u64; 3] = [1, 12, 3000];

/// Runs programs that record and end at once; every event of theirs must be known.
fn ends_at_once(mode: &str, code: Option<i32>, signal: Option<i32>) {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("ends.c", Linked::Dynamically);
    let server = TestServer::start(&[]);
    let expected = Ended {
        code,
        signal,
        ..Ended::unharmed(0)
    };
    for count in COUNTS {
        let story = Story::begin(&program, &[mode, &count.to_string()], &server.socket());
        let pid = story.pid();
        assert_eq!(story.end(), expected);
        let process = released(&server, pid);
        assert_eq!(process["released"]["buffers"], count, "{process}");
        assert_eq!(process["released"]["reason"], "ended", "{process}");
        assert_eq!(process["incomplete"], false, "{process}");
        assert_eq!(process["name"], "ends.c.made", "{process}");
    }
}

#[test]
fn figures_after_a_flush_are_those_of_its_end() {
    let Some((_server, _workshop, story)) = begin("connected.c", &["200"]) else {
        return;
    };
    assert_eq!(story.end(), Ended::unharmed(9));
}

#[test]
fn every_event_is_known_of_a_program_that_exits_at_once() {
    ends_at_once("_exit", Some(5), None);
}

#[test]
fn every_event_is_known_of_a_program_that_aborts_at_once() {
    ends_at_once("abort", None, Some(6));
}

#[test]
fn every_event_is_known_of_a_program_that_is_killed_at_once() {
    ends_at_once("kill", None, Some(9));
}

#[test]
fn every_event_of_two_hundred_short_programs_is_known() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("ends.c", Linked::Dynamically);
    let server = TestServer::start(&[]);
    for _program in 0..200 {
        let story = Story::begin(&program, &["_exit", "3"], &server.socket());
        assert_eq!(story.end(), Ended::unharmed(5));
    }
    // Of each: a device and a mesh opened, three buffers.
    let applied = || server.status()["server"]["events_applied"].clone();
    wait_until("all events of all programs are applied", || {
        applied() == 200 * 5
    });
}

#[test]
fn a_child_that_exits_at_once_is_known_with_what_it_freed_of_its_parents() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("ends.c", Linked::Dynamically);
    let server = TestServer::start(&[]);
    let mut story = Story::begin(&program, &["child", "12"], &server.socket());
    let child = story.reaches("child")[0];
    let process = released(&server, child);
    assert_eq!(process["released"]["buffers"], 12, "{process}");
    assert_eq!(process["inherited_frees"], 1, "{process}");
    assert_eq!(story.end(), Ended::unharmed(5));
}

#[test]
fn a_program_that_becomes_another_before_the_server_looks_holds_nothing() {
    if is_left_to_the_whole_run("it waits for what the server gives up") {
        return;
    }
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("ends.c", Linked::Dynamically);
    let server = TestServer::start(&[]);
    server.signal("STOP");
    let story = Story::begin(&program, &["exec", "12"], &server.socket());
    let comm = format!("/proc/{}/comm", story.pid());
    wait_until("it is another program", || {
        std::fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n")
    });
    server.signal("CONT");
    let process = released(&server, story.pid());
    assert_eq!(process["released"]["buffers"], 12, "{process}");
    assert_eq!(process["released"]["reason"], "replaced", "{process}");
}

/// The events of a process have the times at which they were recorded, not those of another clock.
#[test]
fn events_that_were_never_sent_have_their_times() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("ends.c", Linked::Dynamically);
    let server = TestServer::start(&[]);
    let before = server.status()["time"].clone();
    let story = Story::begin(&program, &["_exit", "12"], &server.socket());
    let pid = story.pid();
    assert_eq!(story.end(), Ended::unharmed(5));
    released(&server, pid);
    let after = server.status()["time"].clone();
    let pid = pid.to_string();
    let output = server.ask(&["dump", "--last", "20", "--pid", &pid, "--json"]);
    let dump: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let events = dump["events"].as_array().expect("a list of events");
    let buffers = events
        .iter()
        .filter(|event| event["event"] == "buffer_allocated");
    let times: Vec<&str> = buffers.filter_map(|event| event["time"].as_str()).collect();
    assert_eq!(times.len(), 12, "{dump}");
    // As text: to the second, and one second either way for a clock that is measured for moments.
    let second = |time: &str| time.get(..19).expect("a time").to_owned();
    let (before, after) = (
        before.as_str().expect("a time"),
        after.as_str().expect("a time"),
    );
    let (first, last) = (times.iter().min(), times.iter().max());
    assert!(
        second(before) <= second(first.expect("twelve")),
        "{before} {times:?}"
    );
    assert!(
        second(last.expect("twelve")) <= second(after),
        "{times:?} {after}"
    );
}

/// A listener that accepts nobody and has no room for more.
fn full_listener(path: &Path) -> (OwnedFd, Vec<OwnedFd>) {
    let stream = |flags| {
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .expect("a socket")
    };
    let address = SocketAddrUnix::new(path).expect("a short path");
    let listener = stream(SocketFlags::CLOEXEC);
    rustix::net::bind(&listener, &address).expect("a free path");
    rustix::net::listen(&listener, 1).expect("a listener");
    let mut waiting = Vec::new();
    loop {
        let socket = stream(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        if rustix::net::connect(&socket, &address).is_err() {
            return (listener, waiting);
        }
        waiting.push(socket);
    }
}

#[test]
fn a_server_that_never_accepts_holds_up_no_first_call() {
    if is_left_to_the_whole_run("it waits for what clients give up") {
        return;
    }
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("limits.c", Linked::Dynamically);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ttmem.sock");
    let (listener, waiting) = full_listener(&socket);
    let stories: Vec<Story> = (0..10)
        .map(|_program| {
            let mut story = Story::begin(&program, &["alone"], &socket);
            // A call that waited for the server would wait for ever.
            story.reaches("alone");
            story
        })
        .collect();
    drop((listener, waiting));
    std::fs::remove_file(&socket).expect("the socket of the listener");
    // What could not be handed over at the first call is as soon as there is somebody.
    let server = TestServer::start_in(folder, &[]);
    for story in stories {
        wait_until("the server knows what it holds", || {
            super::held(&server.process(story.pid())).0 == 3
        });
        assert_holds(&server, story.pid(), 3);
        assert_eq!(story.end(), Ended::unharmed(9));
    }
}

/// Whether a process has been given ring memory.
fn has_rings(pid: u32) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets
        .into_iter()
        .any(|target| target.to_string_lossy().contains("ttmem-rings"))
}

/// A program that finds this text in /etc/ttmem/trust; without a text it finds what is there.
fn trusting(workshop: &Workshop, source: &str, arguments: &[&str], trust: Option<&str>) -> Command {
    let program = workshop.program(source, Linked::Dynamically);
    let Some(trust) = trust else {
        let mut command = Command::new(program);
        command.args(arguments);
        return command;
    };
    let etc = workshop.path("etc");
    std::fs::create_dir_all(etc.join("ttmem")).expect("a folder");
    std::fs::write(
        etc.join("passwd"),
        "root:x:0:0:::\nservice:x:64999:64999:::\n",
    )
    .expect("users");
    std::fs::write(etc.join("ttmem/trust"), trust).expect("a file");
    for folder in ["", "ttmem"] {
        let readable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(etc.join(folder), readable).expect("a folder of ours");
    }
    // In a namespace of its own it has another /etc.
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind \"$0\" /etc && exec \"$@\"")
        .arg(etc)
        .arg(program)
        .args(arguments);
    command
}

/// Runs a server as a user; whether it is given memory, and how many buffers it knows of a program
/// that exits at once.
fn served_by(workshop: &Workshop, user: u32, trust: Option<&str>) -> (bool, Value) {
    let folder = open_folder();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("a folder of ours");
    let server = TestServer::start_as(user, folder, &[]);
    let program = trusting(workshop, "limits.c", &["none"], trust);
    let mut story = Story::begin_as(program, &server.socket());
    story.reaches("settled");
    assert_holds(&server, story.pid(), 3);
    let given = has_rings(server.pid());
    assert_eq!(story.end(), Ended::unharmed(9));
    let program = trusting(workshop, "ends.c", &["_exit", "12"], trust);
    let story = Story::begin_as(program, &server.socket());
    let pid = story.pid();
    assert_eq!(story.end(), Ended::unharmed(5));
    if !given {
        // It ended before it could report, so it need not be listed.
        let entries = entries(&server, pid);
        let held = entries
            .first()
            .map(|process| &process["released"]["buffers"]);
        assert!(
            held.is_none_or(|held| held.is_null() || *held == 0),
            "{entries:?}"
        );
        return (given, 0.into());
    }
    wait_until("the process is gone", || {
        let entries = entries(&server, pid);
        entries.iter().all(|process| !process["released"].is_null()) && !entries.is_empty()
    });
    (given, server.process(pid)["released"]["buffers"].clone())
}

#[test]
fn only_a_server_of_a_trusted_user_is_given_memory() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start a server as another user");
        return;
    }
    let Some(workshop) = Workshop::open() else {
        return;
    };
    assert_eq!(served_by(&workshop, 0, None), (true, 12.into()));
    assert_eq!(served_by(&workshop, 64_999, None), (false, 0.into()));
}

#[test]
fn root_names_the_user_of_a_service_for_every_program() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start a server as another user");
        return;
    }
    let can_mount = Command::new("unshare").args(["--mount", "true"]).status();
    if !can_mount.is_ok_and(|status| status.success()) {
        println!("skipped: a program cannot be given another /etc here");
        return;
    }
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let user = 64_999;
    for (trust, is_trusted) in [
        ("# the service\nservice\n", true),
        ("64999", true),
        ("root\n1000\n", false),
    ] {
        let given = if is_trusted {
            (true, 12.into())
        } else {
            (false, 0.into())
        };
        assert_eq!(served_by(&workshop, user, Some(trust)), given, "{trust}");
    }
}

#[test]
fn a_program_in_a_user_namespace_gives_memory_to_nobody() {
    let can_unshare = Command::new("unshare").args(["--user", "true"]).status();
    if !can_unshare.is_ok_and(|status| status.success()) {
        println!("skipped: no user namespaces for this user");
        return;
    }
    let Some(workshop) = Workshop::open() else {
        return;
    };
    // Of the same user, but from inside it may be anybody's: it is shown as the program itself is.
    let server = TestServer::start(&[]);
    let own = rustix::process::geteuid().as_raw().to_string();
    for trusted in ["65534", own.as_str()] {
        let program = workshop.program("limits.c", Linked::Dynamically);
        let mut command = Command::new("unshare");
        command.arg("--user").arg(program).arg("none");
        command.env("TTMEM_TRUST_UID", trusted);
        let mut story = Story::begin_as(command, &server.socket());
        story.reaches("settled");
        assert_holds(&server, story.pid(), 3);
        assert!(!has_rings(server.pid()), "{trusted}");
        assert_eq!(story.end(), Ended::unharmed(9));
    }
}
