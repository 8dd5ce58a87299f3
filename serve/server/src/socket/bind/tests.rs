//! Binding among live servers, dead ones, and files that are none of our business.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;

use tempfile::TempDir;

use super::*;
use crate::peer::process_name;

fn options(path: &Path) -> SocketConfig {
    SocketConfig {
        path: path.to_owned(),
        mode: 0o600,
        group: None,
    }
}

fn directory() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.sock");
    (dir, path)
}

fn make_stale(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
}

fn names_in(dir: &TempDir) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    names
}

/// Whether a connection to `path` arrives at `listener`; earlier probes may be queued before it.
fn reaches(path: &Path, listener: &UnixListener) -> bool {
    let mut client = UnixStream::connect(path).unwrap();
    client.write_all(b"hello").unwrap();
    while let Ok((mut server, _)) = listener.accept() {
        server.set_nonblocking(false).unwrap();
        let mut greeting = [0; 5];
        if server.read_exact(&mut greeting).is_ok() {
            return greeting == *b"hello";
        }
    }
    false
}

fn assert_served_by_us(error: &BindSocketError) {
    let pid = std::process::id();
    let name = process_name(pid).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let message = error.to_string();
    let expected = format!(
        " is served by process {pid} ({name}), uid {uid}; stop it or choose another --socket"
    );
    assert!(message.ends_with(&expected), "{message}");
}

#[test]
fn listens_with_its_mode_and_leaves_nothing_behind() {
    let (dir, path) = directory();
    let bound = bind(&SocketConfig {
        mode: 0o666,
        ..options(&path)
    })
    .unwrap();
    assert_eq!(names_in(&dir), ["server.sock", "server.sock.lock"]);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o666
    );
    assert_eq!(bound.path(), path);
    assert!(reaches(&path, &bound.listener));

    let idle = bound.listener.accept().unwrap_err();
    assert_eq!(idle.kind(), io::ErrorKind::WouldBlock);
    let flags = rustix::io::fcntl_getfd(&bound.listener).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));

    drop(bound);
    assert!(names_in(&dir).is_empty());
    drop(bind(&options(&path)).unwrap());
}

#[test]
fn gives_the_socket_to_a_group() {
    let (dir, path) = directory();
    let is_root = rustix::process::geteuid().is_root();
    let gid = if is_root {
        12_345
    } else {
        rustix::process::getegid().as_raw()
    };
    let group = Some(gid);
    let bound = bind(&SocketConfig {
        mode: 0o660,
        group,
        ..options(&path)
    })
    .unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.gid(), metadata.mode() & 0o777), (gid, 0o660));
    drop(bound);
    if !is_root {
        let group = Some(0);
        let error = bind(&SocketConfig {
            group,
            ..options(&path)
        })
        .unwrap_err();
        assert!(
            matches!(error, BindSocketError::Group { gid: 0, .. }),
            "{error}"
        );
        assert!(names_in(&dir).is_empty());
    }
}

#[test]
fn a_second_server_is_told_about_the_first() {
    let (dir, path) = directory();
    let first = bind(&options(&path)).unwrap();
    assert_served_by_us(&bind(&options(&path)).unwrap_err());
    assert!(reaches(&path, &first.listener));
    assert_eq!(names_in(&dir), ["server.sock", "server.sock.lock"]);
}

#[test]
fn a_server_without_a_lock_file_is_noticed() {
    let (dir, path) = directory();
    let old = UnixListener::bind(&path).unwrap();
    old.set_nonblocking(true).unwrap();
    assert_served_by_us(&bind(&options(&path)).unwrap_err());
    assert!(reaches(&path, &old));
    assert_eq!(names_in(&dir), ["server.sock"]);
}

#[test]
fn a_lock_holder_counts_even_without_a_socket() {
    let (dir, path) = directory();
    let socket = Arc::new(SocketPath::open(&path).unwrap());
    let lock = LockFile::acquire(&socket).unwrap();
    assert_served_by_us(&bind(&options(&path)).unwrap_err());
    make_stale(&path);
    assert_served_by_us(&bind(&options(&path)).unwrap_err());
    assert_eq!(names_in(&dir), ["server.sock", "server.sock.lock"]);
    drop(lock);
}

#[test]
fn what_a_crash_left_is_taken_over() {
    let (dir, path) = directory();
    make_stale(&path);
    fs::write(place_lock(&path), "4194304\n").unwrap();
    let before = fs::metadata(&path).unwrap().ino();
    let bound = bind(&options(&path)).unwrap();
    assert_ne!(fs::metadata(&path).unwrap().ino(), before);
    assert!(reaches(&path, &bound.listener));
    assert_eq!(names_in(&dir), ["server.sock", "server.sock.lock"]);
}

fn place_lock(path: &Path) -> PathBuf {
    SocketPath::open(path).unwrap().lock_path()
}

#[test]
fn what_is_no_socket_is_never_touched() {
    let (dir, path) = directory();
    let victim = dir.path().join("victim");
    let refused_as = |expected: &str| {
        let before = fs::symlink_metadata(&path).unwrap();
        match bind(&options(&path)) {
            Err(BindSocketError::NotASocket { kind, .. }) => assert_eq!(kind, expected),
            other => panic!("{other:?}"),
        }
        let after = fs::symlink_metadata(&path).unwrap();
        assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()));
        assert!(!place_lock(&path).exists());
    };

    symlink(&victim, &path).unwrap();
    refused_as("a symbolic link");
    assert!(!victim.exists(), "a dangling link was followed");
    make_stale(&victim);
    refused_as("a symbolic link");
    fs::remove_file(&victim).unwrap();
    let live = UnixListener::bind(&victim).unwrap();
    refused_as("a symbolic link");
    drop(live);
    fs::remove_file(&path).unwrap();

    fs::write(&path, "precious").unwrap();
    refused_as("a regular file");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    fs::remove_file(&path).unwrap();

    fs::create_dir(&path).unwrap();
    refused_as("a directory");
    fs::remove_dir(&path).unwrap();

    rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RWXU).unwrap();
    refused_as("a pipe");
}

#[test]
fn what_appears_at_the_last_moment_is_put_back() {
    let (dir, path) = directory();
    let socket = SocketPath::open(&path).unwrap();
    let (prepared, _listener) = TemporarySocket::listen(&socket, &options(&path)).unwrap();
    fs::write(&path, "precious").unwrap();
    assert!(!prepared.move_to_free_name().unwrap());
    assert!(!prepared.replace_stale(0).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"precious");

    fs::remove_file(&path).unwrap();
    assert!(
        !prepared.replace_stale(0).unwrap(),
        "nothing is there to be replaced"
    );
    let live = UnixListener::bind(&path).unwrap();
    live.set_nonblocking(true).unwrap();
    assert!(!prepared.replace_stale(0).unwrap());
    assert!(reaches(&path, &live));
    drop(prepared);
    assert_eq!(names_in(&dir), ["server.sock"]);
}

#[test]
fn of_twenty_starters_one_wins() {
    for _ in 0..20 {
        let (dir, path) = directory();
        make_stale(&path);
        let barrier = Barrier::new(20);
        let results: Vec<_> = std::thread::scope(|scope| {
            let start = || {
                barrier.wait();
                bind(&options(&path))
            };
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(start)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let mut winners = Vec::new();
        for result in results {
            match result {
                Ok(bound) => winners.push(bound),
                Err(BindSocketError::Served { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(winners.len(), 1);
        assert!(reaches(&path, &winners[0].listener));
        drop(winners);
        assert!(names_in(&dir).is_empty());
    }
}

#[test]
fn another_servers_socket_survives_our_end() {
    let (dir, path) = directory();
    let bound = bind(&options(&path)).unwrap();
    // As the old server does it.
    fs::remove_file(&path).unwrap();
    let thief = UnixListener::bind(&path).unwrap();
    thief.set_nonblocking(true).unwrap();
    drop(bound);
    assert_eq!(names_in(&dir), ["server.sock"]);
    assert!(reaches(&path, &thief));
}

#[test]
fn paths_are_limited_by_the_address() {
    let dir = tempfile::tempdir().unwrap();
    let filler = 107 - dir.path().as_os_str().len() - "//server.sock".len();
    let deep = dir.path().join("d".repeat(filler));
    fs::create_dir(&deep).unwrap();
    let longest = deep.join("server.sock");
    assert_eq!(longest.as_os_str().as_bytes().len(), 107);
    let bound = bind(&options(&longest)).unwrap();
    assert!(reaches(&longest, &bound.listener));

    let error = bind(&options(&deep.join("server.socks"))).unwrap_err();
    assert!(
        matches!(
            error,
            BindSocketError::PathTooLong {
                length: 108,
                limit: 107,
                ..
            }
        ),
        "{error}"
    );
    // One byte short of the room that the temporary name needs.
    let deeper = deep.join("abc");
    fs::create_dir(&deeper).unwrap();
    let error = bind(&options(&deeper.join("socket"))).unwrap_err();
    assert!(
        matches!(error, BindSocketError::PathTooLong { limit: 105, .. }),
        "{error}"
    );
    fs::remove_dir(&deeper).unwrap();
}

#[test]
fn unusable_paths_are_told_apart() {
    let (dir, path) = directory();
    let error = bind(&options(&dir.path().join("missing/server.sock"))).unwrap_err();
    assert!(
        matches!(&error, BindSocketError::MissingDirectory { directory }
            if *directory == dir.path().join("missing")),
        "{error}"
    );
    for nameless in ["/", "..", ""] {
        let error = bind(&options(Path::new(nameless))).unwrap_err();
        assert!(
            matches!(error, BindSocketError::NoFileName { .. }),
            "{error}"
        );
    }
    fs::write(&path, "").unwrap();
    let error = bind(&options(&path.join("server.sock"))).unwrap_err();
    assert!(
        matches!(
            error,
            BindSocketError::Io {
                action: "open the directory",
                ..
            }
        ),
        "{error}"
    );
    let error = bind(&options(&dir.path().join("nul\0byte"))).unwrap_err();
    assert!(
        matches!(
            error,
            BindSocketError::Io {
                action: "look at",
                ..
            }
        ),
        "{error}"
    );
    fs::remove_file(&path).unwrap();
    symlink("elsewhere", place_lock(&path)).unwrap();
    let error = bind(&options(&path)).unwrap_err();
    assert!(
        matches!(
            error,
            BindSocketError::LockNotRegular {
                kind: "a symbolic link",
                ..
            }
        ),
        "{error}"
    );
    assert!(!path.exists());
}

/// Set for the child of the test below to the path it shall try to bind.
const BIND_TO: &str = "TTMEM_TEST_BIND_TO";

#[test]
fn reports_a_protected_socket_if_it_is_the_child() {
    if let Some(path) = std::env::var_os(BIND_TO) {
        let error = bind(&options(Path::new(&path))).unwrap_err();
        println!("the error: {error}");
    }
}

/// Runs as another user what needs another user; the superuser alone can.
#[test]
fn another_users_stale_socket_in_a_sticky_directory_is_explained() {
    use std::os::unix::process::CommandExt;

    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    // The directories that lead to the test program may be closed to others.
    let program = dir.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("server.sock");
    make_stale(&path);
    chown(&path, Some(12_345), None).unwrap();

    let error_of_child = || {
        let (_crate_name, module) = module_path!().split_once("::").unwrap();
        let test = format!("{module}::reports_a_protected_socket_if_it_is_the_child");
        let mut command = Command::new(&program);
        command
            .args(["--exact", "--nocapture", &test])
            .env(BIND_TO, &path);
        let output = command
            .uid(54_321)
            .gid(54_321)
            .current_dir("/")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let error = text
            .split_once("the error: ")
            .unwrap_or_else(|| panic!("{text}"))
            .1;
        error.lines().next().unwrap().to_owned()
    };

    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let error = error_of_child();
    assert!(
        error.contains("was left behind by a server of uid 12345"),
        "{error}"
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let error = error_of_child();
    assert!(
        error.contains("which belongs to uid 12345, is in use"),
        "{error}"
    );
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());

    // The superuser may take it over all the same.
    let bound = bind(&options(&path)).unwrap();
    assert!(reaches(&path, &bound.listener));
}
