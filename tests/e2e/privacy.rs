//! Names, commands and lines of a process are its user's: real users ask a real server.

use crate::support::client::{Client, allocation};
use crate::support::place::{ForOthers, open_folder, source};
use crate::support::planted::{MARK_FOR_ALL, MARK_OF_A_USER, Planted, places, secret};
use crate::support::reading::{Found, Reading};
use crate::support::server::{NO_FOLDER, TestServer, ttmem, without_settings};
use crate::support::wait_until;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const NOBODY: u32 = 65_534;
/// A user whose processes have secrets, and one who looks for them.
const ADA: u32 = 54_321;
const EVE: u32 = 54_322;
const BASE: u64 = 0x10_0000;

/// What this user is shown, by these arguments.
fn status(server: &TestServer, user: Option<u32>, place: &[&str]) -> Value {
    let others = ForOthers::new();
    let mut command = user.map_or_else(ttmem, |user| others.ttmem_as(user));
    command.args(["status", "--json"]).args(place);
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
        let folder = open_folder();
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
    let others = ForOthers::new();
    // Without a mapping everybody, the server's own user included, has one and the same number.
    let server = TestServer::start_adapted(folder, &["--quiet"], |command| {
        let mut inside = without_settings("unshare");
        inside.arg("--user").arg(others.program());
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
    let (home, others) = (open_folder(), ForOthers::new());
    let listed = |mode| {
        set_permissions(home.path(), Permissions::from_mode(mode)).expect("ours");
        let mut command = others.ttmem_as(NOBODY);
        command
            .env("HOME", home.path())
            .env_remove("XDG_CONFIG_HOME");
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

/// Texts that no document has: the rest is shown to those who may see it, or the search would find nothing anywhere.
const SHOWN_TO_NOBODY: [&str; 4] = [
    "hello.visible_devices",
    "folder",
    "environment",
    "name of the thread",
];

/// What documents of other users may have of texts, by the names of their fields: the list of the security guide.
fn public_texts() -> BTreeSet<String> {
    let guide = std::fs::read_to_string(source("docs/guide/security.md")).expect("the guide");
    let list = guide
        .split("<!-- public texts -->")
        .nth(1)
        .expect("the list");
    let quoted = list.split('`').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

fn assert_nothing_found(found: &Found, who: &str) {
    let shown: Vec<&String> = found.secrets.keys().collect();
    // What root or the server's user names is meant for all.
    assert_eq!(shown, [MARK_FOR_ALL], "{who}: {:#?}", found.secrets);
    let public = public_texts();
    let others: Vec<&String> = found.texts.difference(&public).collect();
    assert!(
        others.is_empty(),
        "{who}: not in the guide's list of public texts: {others:?}"
    );
}

/// Every byte that another reader can get is searched for every text that a client can choose.
#[test]
fn no_secret_of_a_client_reaches_others() {
    let is_root = nix::unistd::geteuid().is_root();
    let folder = open_folder();
    let recordings = folder.path().join("recordings");
    let place = recordings.to_str().expect("text");
    // What this machine says of itself is not what is looked for.
    let options = [
        ["--socket-mode", "0666"],
        ["--http", "127.0.0.1:0"],
        ["--host-root", NO_FOLDER],
        ["--record", place],
    ]
    .concat();
    let server = TestServer::start_in(folder, &options);
    let seed = std::process::id().into();
    let planted = Planted::start(
        &server.socket(),
        seed,
        is_root.then_some(ADA),
        server.folder(),
    );
    let mark = secret(seed, MARK_FOR_ALL);
    assert!(server.ask(&["mark", &mark]).status.success());
    let status = server.status();
    let sockets = status["server"]["sockets"].as_array().expect("a list");
    let mut sockets = sockets.iter().filter_map(Value::as_str);
    let tcp = sockets.find_map(|socket| socket.strip_prefix("http://"));
    let over_socket = Reading {
        socket: server.socket(),
        tcp: None,
        user: None,
        pid: planted.pid(),
        seed,
    };
    let over_tcp = Reading {
        tcp: Some(tcp.expect("it listens on TCP").to_owned()),
        ..over_socket.clone()
    };
    let another = Reading {
        user: Some(EVE),
        ..over_socket.clone()
    };
    let pid = planted.pid();
    let all = over_socket.found();
    let missing: Vec<String> = places()
        .into_iter()
        .filter(|place| !SHOWN_TO_NOBODY.contains(&place.as_str()))
        .filter(|place| is_root || place != MARK_OF_A_USER)
        .filter(|place| !all.secrets.contains_key(place))
        .collect();
    assert!(
        missing.is_empty(),
        "nobody is shown, so nothing is proved: {missing:?}"
    );
    assert_eq!(all.answered, all.paths, "all that there is was read");

    assert_nothing_found(&over_tcp.found(), "over TCP");
    if is_root {
        let found = another.found();
        assert_nothing_found(&found, "another user");
        let mut refused: Vec<&String> = found.paths.difference(&found.answered).collect();
        refused.retain(|path| *path != "post /api/v1/forget");
        assert!(refused.is_empty(), "{refused:?}");
    }
    drop(planted);
    wait_until("it is gone", || server.process(pid)["state"] == "exited");
    let all = over_socket.found();
    for place in [
        "NotTracked.why",
        "BufferAllocated.operation",
        "label value",
        "Marked.name",
    ] {
        assert!(
            all.secrets.contains_key(place),
            "{place} of a process that ended"
        );
    }
    assert_nothing_found(&over_tcp.found(), "over TCP, when it has ended");
    if is_root {
        assert_nothing_found(&another.found(), "another user, when it has ended");
    }
    let mode = |path: &Path| {
        let facts = std::fs::metadata(path).expect("it is there");
        facts.permissions().mode() & 0o7777
    };
    assert_eq!(mode(&recordings), 0o700);
    for file in std::fs::read_dir(&recordings).expect("a folder") {
        assert_eq!(mode(&file.expect("a file").path()), 0o600);
    }
}
