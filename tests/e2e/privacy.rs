//! Names, commands and lines of a process are its user's: real users ask a real server.

use crate::support::client::{Client, allocation};
use crate::support::server::{TestServer, ttmem, without_settings};
use crate::support::wait_until;
use serde_json::Value;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const NOBODY: u32 = 65_534;
const BASE: u64 = 0x10_0000;

/// What this user is shown, by these arguments.
fn status(server: &TestServer, user: Option<u32>, place: &[&str]) -> Value {
    let mut command = ttmem();
    command.args(["status", "--json"]).args(place);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    // Where a user is, others may not be.
    command.current_dir("/");
    let output = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}: {}", server.log());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn other_users_and_readers_over_tcp_get_sizes() {
    if !nix::unistd::geteuid().is_root() {
        // Nobody else can ask as another user.
        return;
    }
    for shows_names in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("ours");
        let mut options = vec!["--socket-mode", "0666", "--http", "127.0.0.1:0"];
        options.extend(shows_names.then_some("--http-names"));
        let server = TestServer::start_in(folder, &options);
        let mut client = Client::connect(&server.socket(), [1; 16]);
        client.open_n150(0, 0xABC);
        client.send(&[allocation(1, BASE, 4096)]);
        wait_until("the buffer is known", || {
            server.device(0)["dram"]["charged_bytes"] == 12 * 4096
        });
        let socket = server.socket();
        let socket = ["--socket", socket.to_str().expect("text")];
        let all = status(&server, None, &socket);
        let process = &all["processes"][0];
        assert_eq!(process["names_hidden"], false);
        assert!(process["name"].is_string() && process["host"]["command"].is_string());
        let url = all["server"]["sockets"].as_array().expect("a list");
        let mut url = url.iter().filter_map(Value::as_str);
        let url = url.rfind(|url| url.starts_with("http"));
        let url = ["--http", url.expect("it listens on TCP")];

        let others = [
            (status(&server, Some(NOBODY), &socket), false),
            (status(&server, None, &url), shows_names),
        ];
        for (shown, sees_names) in others {
            let process = &shown["processes"][0];
            assert_eq!(process["names_hidden"], !sees_names, "{process}");
            assert_eq!(process["name"].is_string(), sees_names, "{process}");
            let command = &process["host"]["command"];
            assert_eq!(command.is_string(), sees_names, "{process}");
            assert_eq!(process["devices"], all["processes"][0]["devices"]);
            assert_eq!(shown["devices"], all["devices"]);
        }
    }
}

#[test]
fn users_that_a_server_cannot_tell_apart_see_nothing_of_each_other() {
    let can_unshare = Command::new("unshare").args(["--user", "true"]).status();
    if !can_unshare.is_ok_and(|status| status.success()) {
        // No user namespaces for this user.
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // Without a mapping everybody, the server's own user included, has one and the same number.
    let server = TestServer::start_adapted(folder, &["--quiet"], |command| {
        let mut inside = without_settings("unshare");
        inside.arg("--user").arg(command.get_program());
        inside.args(command.get_args());
        *command = inside;
    });
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, BASE, 4096)]);
    wait_until("the buffer is known", || {
        server.device(0)["dram"]["charged_bytes"] == 12 * 4096
    });
    let process = server.status()["processes"][0].clone();
    assert_eq!(process["names_hidden"], true, "{process}");
    assert!(
        process["name"].is_null() && process["uid"].is_null(),
        "{process}"
    );
    assert!(process["host"]["command"].is_null(), "{process}");
    let pid = std::process::id().to_string();
    let forgotten = server.ask(&["forget", &pid]);
    let said = String::from_utf8_lossy(&forgotten.stderr).into_owned();
    assert!(
        !forgotten.status.success() && said.contains("another user"),
        "{said}"
    );
    assert_eq!(server.device(0)["dram"]["charged_bytes"], 12 * 4096);
}

/// As `sudo -u` leaves it: the home is somebody else's.
#[test]
fn a_home_that_may_not_be_entered_has_no_configuration() {
    if !nix::unistd::geteuid().is_root() {
        // Nobody else can ask as another user.
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let listed = |mode| {
        set_permissions(home.path(), Permissions::from_mode(mode)).expect("ours");
        let mut command = ttmem();
        command
            .env("HOME", home.path())
            .env_remove("XDG_CONFIG_HOME");
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        let output = command.args(["demo", "--list"]).output();
        output.expect("the program runs").status.success()
    };
    assert!(listed(0o700));
    // One's own that cannot be read is still an error.
    let file = home.path().join(".config/ttmem/config.toml");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
    std::fs::write(&file, "").expect("written");
    assert!(listed(0o755));
    set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
    assert!(!listed(0o755));
}
