//! The server as a service: it says when it is ready, and `ttmem service` sets it up for a user.

use crate::support::WATCHDOG;
use crate::support::server::{Killed, ttmem};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};

#[test]
fn a_service_is_ready_when_clients_can_connect() {
    let folder = tempfile::tempdir().expect("a folder");
    let (manager, socket) = (
        folder.path().join("notify"),
        folder.path().join("ttmem.sock"),
    );
    let notified = UnixDatagram::bind(&manager).expect("a socket");
    notified
        .set_read_timeout(Some(WATCHDOG))
        .expect("a timeout");
    let mut serve = ttmem();
    serve.args(["serve", "--quiet", "--socket"]).arg(&socket);
    let serve = serve.env("NOTIFY_SOCKET", &manager).spawn();
    let _server = Killed(serve.expect("the server starts"));
    let mut said = [0; 64];
    let length = notified.recv(&mut said).expect("it reports to its manager");
    assert_eq!(&said[..length], b"READY=1");
    UnixStream::connect(&socket).expect("ready means that it listens");
}

#[test]
fn a_server_whose_manager_is_gone_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ttmem.sock");
    let mut serve = ttmem();
    serve.args(["serve", "--quiet", "--socket"]).arg(&socket);
    let serve = serve.env("NOTIFY_SOCKET", folder.path().join("absent"));
    let _server = Killed(serve.spawn().expect("the server starts"));
    crate::support::wait_until("it serves", || UnixStream::connect(&socket).is_ok());
}

/// A user with a home and a systemctl that notes what it is asked for.
struct User {
    folder: tempfile::TempDir,
}

impl User {
    /// One whose systemd runs, or does not.
    fn new(has_systemd: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let code = if has_systemd { 0 } else { 1 };
        let script = format!(
            "#!/bin/sh\n[ \"$2\" = is-active ] && echo inactive\necho \"$@\" >> {}/asked\nexit {code}\n",
            folder.path().display()
        );
        let systemctl = folder.path().join("systemctl");
        fs::write(&systemctl, script).expect("a script");
        fs::set_permissions(&systemctl, Permissions::from_mode(0o755)).expect("a mode");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn unit(&self) -> PathBuf {
        self.path("config/systemd/user/ttmem.service")
    }

    /// `ttmem service ACTION`: its code and what it printed.
    fn service(&self, action: &str) -> (Option<i32>, String) {
        let mut command = ttmem();
        command
            .args(["service", action])
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.folder.path().display()),
            )
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_RUNTIME_DIR", self.folder.path());
        let output = command.output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = text(&output.stdout) + &text(&output.stderr);
        (output.status.code(), printed)
    }

    /// What systemctl was asked for since the last time, without looking whether it is there.
    fn asked(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.path("asked")).unwrap_or_default();
        let _absent = fs::remove_file(self.path("asked"));
        let asked = asked.lines().filter(|line| !line.contains(" show "));
        asked.map(str::to_owned).collect()
    }
}

#[test]
fn a_service_is_installed_started_and_removed_without_a_trace() {
    let user = User::new(true);
    let (code, said) = user.service("install");
    assert_eq!(code, Some(0), "{said}");
    let unit = fs::read_to_string(user.unit()).expect("a unit");
    assert!(unit.contains("ttmem\" serve --quiet"), "{unit}");
    let asked = [
        "daemon-reload",
        "enable --quiet ttmem.service",
        "restart ttmem.service",
    ];
    assert_eq!(user.asked(), asked.map(|words| format!("--user {words}")));
    // Once more is as good as once.
    assert_eq!(user.service("install").0, Some(0));
    let (code, said) = user.service("status");
    assert_eq!(code, Some(3), "no server runs: {said}");
    let unit = user.unit().display().to_string();
    assert!(said.contains(&unit) && said.contains("inactive"), "{said}");
    user.asked();
    assert_eq!(user.service("uninstall").0, Some(0));
    let asked = ["disable --quiet --now ttmem.service", "daemon-reload"];
    assert_eq!(user.asked(), asked.map(|words| format!("--user {words}")));
    assert_eq!(left(&user.path("config")), Vec::<PathBuf>::new());
    let (code, said) = user.service("uninstall");
    assert_eq!(code, Some(0));
    assert!(said.contains("nothing to remove"), "{said}");
}

#[test]
fn without_systemd_the_unit_is_written_and_what_remains_is_said() {
    let user = User::new(false);
    let (code, said) = user.service("install");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("systemctl --user enable --now ttmem.service"),
        "{said}"
    );
    assert!(user.unit().is_file() && user.asked().is_empty());
    // As `systemctl enable` leaves it.
    let wants = user.path("config/systemd/user/default.target.wants");
    fs::create_dir(&wants).expect("a folder");
    std::os::unix::fs::symlink(user.unit(), wants.join("ttmem.service")).expect("a link");
    assert_eq!(user.service("uninstall").0, Some(0));
    assert_eq!(left(&user.path("config")), Vec::<PathBuf>::new());
}

/// The files below a folder.
fn left(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(left(&path));
        } else {
            found.push(path);
        }
    }
    found
}
