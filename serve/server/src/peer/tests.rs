//! Peers that are this process, and children that die.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;

/// Generous: only a defect is ever that slow.
const WATCHDOG: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

fn wait_for_death(pidfd: &OwnedFd) {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    assert_eq!(
        poll(&mut fds, Some(&WATCHDOG)).unwrap(),
        1,
        "the pidfd stays silent"
    );
}

/// A child that calls itself `name`, known to have started.
fn echoing_child(name: &str) -> Child {
    let mut command = Command::new("cat");
    let mut child = command
        .arg0(name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // `spawn` may return before `/proc` shows the new program; an answer comes from the program.
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

/// Set for the child of [`connecting_child`] to the path it shall connect to.
const CONNECT_TO: &str = "TTMEM_TEST_CONNECT_TO";

/// A connection made by a child process, which then waits with it open.
///
/// The child must connect by itself: the kernel keeps the credentials of whoever did.
fn connecting_child(listener: &UnixListener, path: &Path) -> (Child, UnixStream) {
    let (_crate_name, module) = module_path!().split_once("::").unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::connects_if_it_is_the_child")])
        .env(CONNECT_TO, path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (child, listener.accept().unwrap().0)
}

#[test]
fn connects_if_it_is_the_child() {
    if let Some(path) = std::env::var_os(CONNECT_TO) {
        let mut stream = UnixStream::connect(path).unwrap();
        // Until the parent kills us, or ends.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn this_process_knows_itself_over_a_pair_and_a_listener() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
    let connected = UnixStream::connect(dir.path().join("socket")).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let (left, _right) = UnixStream::pair().unwrap();
    for stream in [&accepted, &connected, &left] {
        let peer = identify(stream).unwrap();
        assert_eq!(peer.pid, Some(std::process::id()));
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        let start = Duration::from_nanos(peer.start_unix_nanos.unwrap());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(
            start < now && now - start < Duration::from_secs(24 * 3600),
            "{start:?} {now:?}"
        );
        assert!(is_alive(peer.pidfd.as_ref().unwrap()));
        let program = std::env::args_os().next().unwrap();
        let base = Path::new(&program).file_name().unwrap().to_str().unwrap();
        assert_eq!(peer.name, base.chars().take(64).collect::<String>());
    }
}

#[test]
fn start_time_is_field_22_as_the_kernel_counts_it() {
    let peer = identify(&UnixStream::pair().unwrap().0).unwrap();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let after_command = stat.rsplit_once(") ").unwrap().1;
    let expected = after_command.split(' ').nth(19).unwrap();
    assert_eq!(peer.start_time.unwrap().to_string(), expected);
}

#[test]
fn death_of_the_peer_makes_its_pidfd_readable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let (mut child, stream) = connecting_child(&listener, &path);
    let peer = identify(&stream).unwrap();
    assert_eq!(peer.pid, Some(child.id()));
    // Not compared with our own: the kernel counts in ticks, and both may start within one.
    assert!(peer.start_time.is_some());
    let pidfd = peer.pidfd.unwrap();
    assert!(is_alive(&pidfd));
    child.kill().unwrap();
    wait_for_death(&pidfd);
    assert!(!is_alive(&pidfd));

    // A zombie still owns its pid, so what /proc says about it is about the peer.
    let zombie = identify(&stream).unwrap();
    assert_eq!(zombie.start_time, peer.start_time);
    child.wait().unwrap();

    // From here on the pid may be anyone's.
    let gone = identify(&stream).unwrap();
    assert_eq!(gone.pid, Some(child.id()));
    assert_eq!((gone.start_time, gone.name.as_str()), (None, "unknown"));
    assert!(gone.pidfd.is_none_or(|pidfd| !is_alive(pidfd)));
    assert!(!is_unreaped(pidfd.as_fd(), child.id()));
}

#[test]
fn opening_by_number_finds_the_same_process() {
    let mut child = echoing_child("cat");
    let (pidfd, process) = open_unreused(child.id()).unwrap();
    assert_eq!(
        process.start_time,
        Process::read(child.id()).unwrap().start_time
    );
    assert!(is_alive(&pidfd));
    assert!(is_unreaped(pidfd.as_fd(), child.id()));
    assert!(!is_unreaped(pidfd.as_fd(), std::process::id()));
    child.kill().unwrap();
    wait_for_death(&pidfd);
    assert!(is_unreaped(pidfd.as_fd(), child.id()));
    child.wait().unwrap();
    assert!(read_through(&pidfd, child.id()).is_none());
    // The number of our own process with another's pidfd: as if the pid had been reused.
    assert!(read_through(&pidfd, std::process::id()).is_none());
}

#[test]
fn the_name_is_the_program_without_its_directory() {
    let mut child = echoing_child("/opt/some dir/py\tthon) 3");
    let name = process_name(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(name.as_deref(), Some("py?thon) 3"));
    assert_eq!(process_name(child.id()), None);
}

#[test]
fn a_missing_argument_vector_falls_back_to_the_command() {
    let mut child = echoing_child("");
    let name = process_name(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(name.as_deref(), Some("cat"));
}

#[test]
fn a_stat_line_survives_any_command() {
    let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 424242 20 21";
    for command in [
        "bash",
        "a b",
        ") S 1 (",
        "((",
        "))",
        "",
        "tricky) R 9 9 9\n",
    ] {
        let stat = format!("77 ({command}) {fields}\n");
        assert_eq!(
            parse_field(stat.as_bytes(), 22),
            Some(424_242),
            "{command:?}"
        );
    }
    let mut binary = b"77 (\xff\xfe) ".to_vec();
    binary.extend_from_slice(fields.as_bytes());
    assert_eq!(parse_field(&binary, 22), Some(424_242));
    for broken in [
        "",
        ")",
        "77 (x",
        "77 (x) S 1",
        "77 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 -1",
    ] {
        assert_eq!(parse_field(broken.as_bytes(), 22), None, "{broken:?}");
    }
}

#[test]
fn names_cannot_disturb_a_line() {
    let hostile = "a\nb\x1b[31m\u{202e}c\u{7f}";
    assert_eq!(
        printable(hostile.as_bytes()).as_deref(),
        Some("a?b?[31m?c?")
    );
    assert_eq!(printable("ü".repeat(100).as_bytes()), Some("ü".repeat(64)));
    assert_eq!(printable(b"\xff").as_deref(), Some("\u{fffd}"));
    assert_eq!(printable(b"  "), None);
    assert_eq!(printable(b""), None);
}

#[test]
fn a_closed_peer_is_still_identified() {
    let (mut left, right) = UnixStream::pair().unwrap();
    left.write_all(b"x").unwrap();
    drop(left);
    assert_eq!(identify(&right).unwrap().pid, Some(std::process::id()));
}

#[test]
fn a_program_is_told_from_the_one_that_takes_its_place() {
    let mut child = Command::new("sh")
        .args(["-c", "echo; read line; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let raw_pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let pidfd = pidfd_open(raw_pid, PidfdFlags::empty()).unwrap();
    let shell = || process_name(pid).as_deref() == Some("sh");
    // `spawn` may return before `/proc` shows the new program; an answer comes from the program.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    assert!(shell());
    let before = program_image(&pidfd, pid).expect("it is ours");
    assert_eq!(program_image(&pidfd, pid), Some(before));
    child.stdin.as_mut().unwrap().write_all(b"go\nx").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    assert!(!shell());
    let after = program_image(&pidfd, pid).expect("it is ours");
    assert_ne!(before, after);
    child.kill().unwrap();
    wait_for_death(&pidfd);
    assert_eq!(program_image(&pidfd, pid), None);
    child.wait().unwrap();
}

#[test]
fn an_image_that_may_not_be_seen_is_none() {
    let stat = |stack: u64, environment: u64| {
        let mut fields = vec!["0".to_owned(); 52];
        fields[26 - 3] = "1".to_owned();
        fields[28 - 3] = stack.to_string();
        fields[50 - 3] = environment.to_string();
        format!("77 (x y) {}\n", fields.join(" ")).into_bytes()
    };
    let image = ProgramImage {
        code: 1,
        stack: 5,
        environment: 6,
    };
    assert_eq!(parse_image(&stat(5, 6)), Some(image));
    for (stack, environment) in [(0, 0), (5, 0), (0, 6)] {
        assert_eq!(parse_image(&stat(stack, environment)), None);
    }
    assert_eq!(parse_image(b"77 (x) S 1 2 3"), None);
}

#[test]
fn arguments_are_one_line() {
    assert_eq!(joined_arguments(b"\0\0"), None);
    let joined = joined_arguments(b"a\0b c\0");
    assert_eq!(joined.as_deref(), Some("a b c"));
    let own = command_line(std::process::id()).unwrap();
    let first = std::env::args().next().unwrap();
    assert!(own.starts_with(&first), "{own}");
}
