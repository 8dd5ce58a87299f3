//! Files that a server keeps: no other user reads them, or decides what they are.

use crate::support::client::{Client, allocation};
use crate::support::place::ForOthers;
use crate::support::server::{TestServer, ttmem};
use crate::support::wait_until;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

const ADA: u32 = 54_321;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o7777
}

/// Why a server with these options does not start.
fn refused(folder: &Path, option: &str, place: &Path) -> String {
    let mut command = ttmem();
    command.args(["serve", "--socket"]).arg(folder.join("s"));
    command.arg(option).arg(place);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{place:?}: {said}");
    said
}

#[test]
fn folders_that_others_control_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (way, recordings) = (at("way"), at("way/recordings"));
    fs::create_dir_all(&recordings).expect("folders");
    for (place, mode) in [(&recordings, 0o770), (&recordings, 0o1777), (&way, 0o777)] {
        for each in [&way, &recordings] {
            set_mode(each, 0o700);
        }
        set_mode(place, mode);
        let said = refused(folder.path(), "--record", &recordings);
        let remedy = format!("chmod go-w {}", place.display());
        assert!(said.contains(&remedy), "{said}");
        assert_eq!(fs::read_dir(&recordings).expect("it is there").count(), 0);
    }
    let said = refused(folder.path(), "--log-file", &way.join("log"));
    assert!(said.contains("chmod go-w"), "{said}");
    assert!(!way.join("log").exists());
    if !nix::unistd::geteuid().is_root() {
        // Only root gives files away.
        return;
    }
    set_mode(&way, 0o755);
    chown(&recordings, Some(ADA), None).expect("root may");
    let said = refused(folder.path(), "--record", &recordings);
    assert!(
        said.contains("uid 54321") && said.contains("mkdir -m 700"),
        "{said}"
    );
    let link = way.join("link");
    symlink(folder.path(), &link).expect("a link");
    std::os::unix::fs::lchown(&link, Some(ADA), None).expect("root may");
    let said = refused(folder.path(), "--record", &link.join("new"));
    assert!(said.contains("is a link of uid 54321"), "{said}");
    let log = folder.path().join("log");
    fs::write(&log, "").expect("a file");
    chown(&log, Some(ADA), None).expect("root may");
    let said = refused(folder.path(), "--log-file", &log);
    assert!(said.contains("uid 54321"), "{said}");
}

/// Whatever the file mode mask is, and wherever the folder is later.
#[test]
fn files_are_private_and_stay_in_their_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (recordings, moved, log) = (at("recordings"), at("moved"), at("events.log"));
    fs::write(&log, "older\n").expect("a file");
    set_mode(&log, 0o644);
    let options = ["--record", "--log-file"].map(str::to_owned);
    let texts = [&recordings, &log].map(|path| path.to_str().expect("text").to_owned());
    let options: Vec<&str> = options
        .iter()
        .zip(&texts)
        .flat_map(|(name, text)| [name.as_str(), text.as_str()])
        .collect();
    let kept = tempfile::tempdir().expect("a folder");
    let server = TestServer::start_adapted(kept, &options, |command| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "umask 000; exec \"$0\" \"$@\""])
            .arg(command.get_program());
        shell.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let output = fs::File::options()
            .append(true)
            .open("/dev/null")
            .expect("it is there");
        shell
            .stdout(output.try_clone().expect("twice"))
            .stderr(output);
        *command = shell;
    });
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, 0x10_0000, 4096)]);
    assert_eq!((mode_of(&recordings), mode_of(&log)), (0o700, 0o600));
    let files = || fs::read_dir(&recordings).or_else(|_moved| fs::read_dir(&moved));
    for file in files().expect("a folder") {
        assert_eq!(mode_of(&file.expect("a file").path()), 0o600);
    }
    // Somebody puts another folder in the place of the path.
    fs::rename(&recordings, &moved).expect("ours");
    fs::create_dir(&recordings).expect("a folder");
    fs::write(
        recordings.join("ttmem-20200101T000000.000Z.ttrec"),
        "forged",
    )
    .expect("a file");
    let recording = ttmem_reader::ApiClient::new(server.socket()).recording();
    let recording = recording.expect("it is read in its own folder");
    assert_eq!(recording.damage, None);
    assert!(recording.events > 0, "{recording:?}");
    assert_eq!(fs::read_dir(&recordings).expect("a folder").count(), 1);
    assert!(fs::read_dir(&moved).expect("a folder").count() > 0);
}

/// What another user made to be read is not written into.
#[test]
fn a_file_of_another_user_is_not_written() {
    if !nix::unistd::geteuid().is_root() {
        // Only root gives files away.
        return;
    }
    let server = TestServer::start(&["--quiet"]);
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("theirs.ttrec");
    fs::write(&file, "").expect("a file");
    chown(&file, Some(ADA), None).expect("root may");
    let text = file.to_str().expect("text");
    let output = server.ask(&["record", text, "--duration", "1s"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("uid 54321"),
        "{said}"
    );
    let mut command = ttmem();
    command.args(["run", "--no-attach", "--report", text, "--", "true"]);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("uid 54321"),
        "{said}"
    );
    assert_eq!(fs::read(&file).expect("it is there").len(), 0);
    wait_until("the server still answers", || {
        server.status()["schema"] == 1
    });
}

/// As in a container without root: the users outside, root among them, all have one number there.
#[test]
fn a_user_namespace_without_root_keeps_files() {
    let others = ForOthers::new();
    let namespace = || {
        let mut command = if nix::unistd::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            let ada = ADA.to_string();
            command.args([
                "--reuid",
                &ada,
                "--regid",
                &ada,
                "--clear-groups",
                "unshare",
            ]);
            command
        } else {
            Command::new("unshare")
        };
        command.args(["--user", "--map-root-user"]);
        command
    };
    let allowed = namespace().arg("true").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        // No user namespaces for this user.
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    if nix::unistd::geteuid().is_root() {
        chown(folder.path(), Some(ADA), Some(ADA)).expect("root may");
    }
    let (socket, recordings) = (folder.path().join("s"), folder.path().join("recordings"));
    let mut command = namespace();
    command.arg(others.program());
    command.args(["serve", "--quiet", "--socket"]).arg(&socket);
    let mut server = command
        .arg("--record")
        .arg(&recordings)
        .spawn()
        .expect("it starts");
    wait_until("the server listens", || {
        assert_eq!(server.try_wait().expect("ours"), None, "it ended");
        UnixStream::connect(&socket).is_ok()
    });
    assert!(recordings.is_dir());
    server.kill().expect("it runs");
    server.wait().expect("ours");
}
