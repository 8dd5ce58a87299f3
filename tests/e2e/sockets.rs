//! Where a server listens, and what it does with what is there already.

use super::remedies::Space;
use super::support::old_client::{OldClient, request};
use super::support::server::{Killed, TestServer, ttmem};
use super::support::{WATCHDOG, wait_until};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use ttmem_event::legacy::{Generation, RequestKind};

/// Tries to start a server that must not start.
fn refused(socket: &Path) -> (Option<i32>, String) {
    let child = ttmem()
        .args(["serve", "--socket"])
        .arg(socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let Output { status, stderr, .. } = ended(child);
    (status.code(), String::from_utf8(stderr).expect("text"))
}

/// What a process that should end by itself left; killed if it does not.
fn ended(mut child: Child) -> Output {
    let begun = std::time::Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if begun.elapsed() > WATCHDOG {
            child.kill().expect("it is ours");
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.wait_with_output().expect("it has ended")
}

#[test]
fn a_second_server_names_the_first_and_leaves_it_alone() {
    let server = TestServer::start(&[]);
    let inode = fs::metadata(server.socket()).expect("a socket").ino();
    let (code, said) = refused(&server.socket());
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains(&format!("is served by process {} (ttmem)", server.pid())),
        "{said}"
    );
    assert_eq!(
        fs::metadata(server.socket()).expect("a socket").ino(),
        inode
    );
    assert_eq!(server.status()["server"]["pid"], server.pid());
}

#[test]
fn a_server_that_knows_no_lock_is_not_displaced_either() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ttmem.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let (code, said) = refused(&socket);
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains(&format!("is served by process {}", std::process::id())),
        "{said}"
    );
    // New connections still reach the old server.
    listener.set_nonblocking(true).expect("a setting");
    while listener.accept().is_ok() {}
    let _client = UnixStream::connect(&socket).expect("it listens");
    listener
        .accept()
        .expect("the connection is the old server's");
}

#[test]
fn what_a_killed_server_left_is_taken_over() {
    let server = TestServer::start(&[]);
    let folder = server.kill();
    let socket = folder.path().join("ttmem.sock");
    assert!(
        fs::metadata(&socket)
            .expect("it is left")
            .file_type()
            .is_socket()
    );
    assert!(UnixStream::connect(&socket).is_err());
    let server = TestServer::start_in(folder, &[]);
    assert_eq!(server.status()["server"]["pid"], server.pid());
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    client.send(&request(RequestKind::Alloc, 0, 4096, 0, 1));
    assert_eq!(client.totals(0).dram, 4096);
}

#[test]
fn links_and_files_at_the_path_are_not_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().join("precious");
    fs::write(&target, "data").expect("a file");
    let dangling = folder.path().join("dangling");
    symlink(folder.path().join("nowhere"), &dangling).expect("a link");
    let linked = folder.path().join("linked");
    symlink(&target, &linked).expect("a link");
    let abandoned = folder.path().join("abandoned");
    drop(UnixListener::bind(&abandoned).expect("a socket"));
    let to_a_socket = folder.path().join("to-a-socket");
    symlink(&abandoned, &to_a_socket).expect("a link");
    let directory = folder.path().join("directory");
    fs::create_dir(&directory).expect("a directory");

    for (path, kind) in [
        (&dangling, "a symbolic link"),
        (&linked, "a symbolic link"),
        (&to_a_socket, "a symbolic link"),
        (&target, "a regular file"),
        (&directory, "a directory"),
    ] {
        let (code, said) = refused(path);
        assert_eq!(code, Some(1), "{said}");
        let clear = format!("{} is {kind}, not a socket; remove it", path.display());
        assert!(said.contains(&clear), "{said}");
    }
    assert_eq!(fs::read_to_string(&target).expect("it is there"), "data");
    for link in [&dangling, &linked, &to_a_socket] {
        assert!(
            fs::symlink_metadata(link)
                .expect("it is there")
                .is_symlink()
        );
    }
    assert!(!folder.path().join("nowhere").exists());
    assert_eq!(
        fs::read_dir(folder.path()).expect("a folder").count(),
        6,
        "nothing was added"
    );
}

#[test]
fn a_path_that_cannot_be_is_refused_in_clear_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, said) = refused(&folder.path().join("no/such/folder"));
    assert_eq!(code, Some(1));
    assert!(
        said.contains("no/such for the socket does not exist"),
        "{said}"
    );
    let (code, said) = refused(&folder.path().join("x".repeat(120)));
    assert_eq!(code, Some(1));
    assert!(said.contains("choose a shorter --socket"), "{said}");
}

#[test]
fn the_mode_is_exactly_what_was_asked_for() {
    for (options, mode) in [
        (&[][..], 0o660),
        (&["--socket-mode", "0600"], 0o600),
        (&["--socket-mode", "666"], 0o666),
        (&["--socket-mode", "0777"], 0o777),
    ] {
        let server = TestServer::start(options);
        let found = fs::metadata(server.socket())
            .expect("a socket")
            .permissions()
            .mode();
        assert_eq!(found & 0o7777, mode, "{options:?}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = TestServer::start_adapted(folder, &[], |command| {
        command.env("TTMEM_SOCKET_MODE", "0640");
    });
    let found = fs::metadata(server.socket())
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(found & 0o7777, 0o640);
}

#[test]
fn without_a_path_the_runtime_directory_is_used_by_all_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ttmem()
        .args(["serve", "--no-legacy-socket"])
        .env("XDG_RUNTIME_DIR", folder.path())
        .stdout(Stdio::null())
        .spawn();
    let server = Killed(server.expect("the program starts"));
    let socket = folder.path().join("ttmem.sock");
    wait_until("the server accepts connections", || {
        UnixStream::connect(&socket).is_ok()
    });
    let asked = ttmem()
        .args(["status", "--json"])
        .env("XDG_RUNTIME_DIR", folder.path())
        .output()
        .expect("the program runs");
    let status: serde_json::Value = serde_json::from_slice(&asked.stdout).expect("JSON");
    assert_eq!(status["server"]["pid"], server.0.id());
    assert_eq!(
        status["server"]["sockets"],
        serde_json::json!([socket.to_str()])
    );
}

/// Anybody can listen where clients of the old protocol look.
#[test]
fn somebody_elses_old_socket_keeps_nobody_from_a_server_and_is_not_believed() {
    let Some(space) = Space::new() else {
        return;
    };
    let said = space.shell(
        "old=/tmp/tt_allocation_server.sock
         setpriv --reuid 23451 --regid 23451 --clear-groups ttmem serve --quiet --socket $old & other=$!
         for _look in $(seq 600); do [ -S $old ] && break; sleep 0.1; done
         ttmem status 2>&1; echo code $?
         ttmem serve --quiet 2>/tmp/said & own=$!
         for _look in $(seq 600); do ttmem status >/tmp/status 2>/dev/null && break; sleep 0.1; done
         cat /tmp/said /tmp/status
         kill $own $other; wait",
    );
    let (before, after) = said.split_once("code 3").expect("no server is believed");
    assert!(before.contains("may be anybody's"), "{said}");
    assert!(after.contains("the old protocol are not served"), "{said}");
    assert!(after.contains("0 clients"), "{said}");
}
