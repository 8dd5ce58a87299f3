//! Names, commands and lines of a process are its user's: real users ask a real server.

use crate::support::client::{Client, allocation};
use crate::support::server::{TestServer, ttmem};
use crate::support::wait_until;
use serde_json::Value;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

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
