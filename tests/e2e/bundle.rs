//! `ttmem doctor --bundle`: what must not leave a machine is planted wherever it looks, and searched for in what it wrote.

use crate::doctor::{machine, put};
use crate::support::client::{Client, allocation};
use crate::support::server::{TestServer, ttmem};
use crate::support::tmux::Tmux;
use crate::support::wait_until;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What must be in no file of an archive.
const TOKEN: &str = "hf_QmZ7secretXw1";
const PASSWORD: &str = "Tr0ub4dor&3 horse";
const KEY_LINE: &str = "MIIEvQIBADANBgkqhkiG9w0";
const FILE_TOKEN: &str = "file-token-93b1c7";
const USER: &str = "mallory";
const FOLDER: &str = "ca rol\u{1b}[2J";
const PROJECT: &str = "unreleased-project";
const NAME: &str = "secret-comm";
const MARK: &str = "secret-mark";

const HIDDEN: &[&str] = &[
    TOKEN, PASSWORD, KEY_LINE, FILE_TOKEN, USER, FOLDER, PROJECT, NAME, MARK, "ca rol", "\u{1b}",
];

/// A user with a home and with secrets in the environment.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        fs::create_dir_all(home.path()).expect("a home");
        put(&home.path(), "token", FILE_TOKEN);
        home
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("home").join(FOLDER)
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join("support.tar.gz")
    }

    /// A machine with nothing in it.
    fn bare_machine(&self) -> String {
        let root = self.folder.path().join("home/bare");
        fs::create_dir_all(&root).expect("a folder");
        root.to_str().expect("UTF-8").to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = ttmem();
        let key = format!("-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n-----END PRIVATE KEY-----\n");
        command
            .args(arguments)
            .env("HOME", self.path())
            .env("USER", USER)
            .env("LOGNAME", USER)
            .env("HF_TOKEN", TOKEN)
            .env("PGPASSWORD", PASSWORD)
            .env("DEPLOY", key)
            .env("PROJECT_NAME", PROJECT)
            .env("TTMEM_HTTP", format!("http://{USER}:{TOKEN}@127.0.0.1:1"))
            .env("TTMEM_HTTP_TOKEN_FILE", self.path().join("token"));
        command
    }

    fn bundle(&self, more: &[&str]) -> Output {
        let mut command = self.command(&["doctor", "--bundle"]);
        command.arg(self.archive()).args(more);
        command.output().expect("it runs")
    }
}

/// Every byte of an archive, and its files by name.
fn unpacked(archive: &Path) -> (Vec<u8>, BTreeMap<String, String>) {
    let mut bytes = Vec::new();
    let mut packed = GzDecoder::new(fs::File::open(archive).expect("it was written"));
    packed.read_to_end(&mut bytes).expect("it is gzip");
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(bytes.as_slice())
        .entries()
        .expect("it is tar")
    {
        let mut entry = entry.expect("a file");
        let name = entry.path().expect("a name").display().to_string();
        let name = name.strip_prefix("ttmem-support/").expect("one folder");
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        files.insert(name.to_owned(), text);
    }
    (bytes, files)
}

/// Fails if anything of what was planted is anywhere in the archive, headers included.
fn assert_hides(archive: &Path, hidden: &[&str]) -> BTreeMap<String, String> {
    let (bytes, files) = unpacked(archive);
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let all = String::from_utf8_lossy(&bytes);
    for secret in hidden {
        assert!(!all.contains(secret), "{secret:?} in {files:#?}");
        let escaped = format!("{secret:?}");
        let escaped = escaped.trim_matches('"');
        assert!(!all.contains(escaped), "{escaped} in {files:#?}");
    }
    let mut words = all.split(|letter: char| !letter.is_alphanumeric() && !"-_.".contains(letter));
    assert!(!words.any(|word| word == host), "{host} in {files:#?}");
    files
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn nothing_of_a_user_is_in_a_bundle_of_this_machine() {
    let home = Home::new();
    // A server below the home, with a client, its name and its command, and a mark.
    let folder = tempfile::Builder::new()
        .prefix(PROJECT)
        .tempdir_in(home.path());
    let server = TestServer::start_in(folder.expect("a folder"), &[]);
    let mut client = Client::connect(&server.socket(), [1; 16]);
    client.open_n150(0, 0xABC);
    client.send(&[allocation(1, 0x10_0000, 4096)]);
    assert!(server.ask(&["mark", MARK]).status.success());
    wait_until("the buffer is known", || {
        server.device(0)["dram"]["charged_bytes"] == 12 * 4096
    });
    // An environment with a ttnn in a folder that is named after a project, and a version after a token.
    let venv = home.path().join(PROJECT);
    let site = "lib/python3.12/site-packages";
    fs::create_dir_all(venv.join(site).join(format!("ttnn-{TOKEN}.dist-info"))).expect("a wheel");
    let socket = server.socket();
    let mut command = home.command(&["doctor", "--yes", "--bundle"]);
    let output = command
        .arg(home.archive())
        .arg("--socket")
        .arg(&socket)
        .env("VIRTUAL_ENV", &venv)
        .env("TTMEM_ATTACH_LIBRARY", home.path().join(NAME))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let files = assert_hides(&home.archive(), HIDDEN);
    let mode = fs::metadata(home.archive()).expect("a file").permissions();
    assert_eq!(mode.mode() & 0o7777, 0o600);
    // The list is of the files that are there, with their sizes.
    let listing = text(&output.stdout);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        "checks.txt",
        "doctor.json",
        "machine.json",
        "server.json",
        "versions.json",
    ];
    assert_eq!(names, expected);
    for name in names {
        assert!(listing.contains(&format!("  {name} ")), "{listing}");
    }
    // And what is for support is in it.
    let json =
        |name: &str| -> serde_json::Value { serde_json::from_str(&files[name]).expect("JSON") };
    let counted = json("server.json");
    assert_eq!(counted["devices"][0]["dram"]["charged_bytes"], 12 * 4096);
    assert_eq!(counted["processes"][0]["pid"], std::process::id());
    assert_eq!(counted["marks"], 1);
    let versions = json("versions.json");
    assert_eq!(versions["ttmem"], env!("CARGO_PKG_VERSION"));
    assert_eq!(versions["ttnn"]["python"], "3.12");
    let set = versions["variables_set"].as_array().expect("names");
    assert!(
        set.iter().any(|name| name == "TTMEM_HTTP_TOKEN_FILE"),
        "{versions}"
    );
    assert!(files["checks.txt"].contains("ttnn"), "{files:#?}");
    // A version whose builder wrote something behind it.
    let wheel = |version: &str| {
        let name = format!("ttnn-{version}.dist-info");
        venv.join(site).join(name)
    };
    fs::rename(wheel(TOKEN), wheel(&format!("0.81.1+{NAME}"))).expect("a wheel");
    fs::remove_file(home.archive()).expect("ours");
    let mut command = home.command(&["doctor", "--yes", "--bundle"]);
    command.arg(home.archive()).arg("--socket").arg(&socket);
    let output = command.env("VIRTUAL_ENV", &venv).output();
    assert!(output.expect("it runs").status.success());
    let files = assert_hides(&home.archive(), HIDDEN);
    for name in ["checks.txt", "versions.json"] {
        assert!(files[name].contains("0.81.1+[not shown]"), "{files:#?}");
    }
    let left = fs::read_dir(home.folder.path()).expect("a folder").count();
    assert_eq!(left, 2, "the home and the archive, and no temporary file");
}

#[test]
fn nothing_planted_in_the_files_of_a_machine_is_in_its_bundle() {
    let home = Home::new();
    let root = home.path().join("root");
    machine(&root);
    let pci = "sys/devices/pci0000:00/0000:0a:00.0";
    let entry = format!("{pci}/tenstorrent/tenstorrent!0");
    let secrets = [
        TOKEN.to_owned(),
        format!("{PASSWORD} {USER}"),
        format!("/home/{USER}/{PROJECT}"),
        home.path().join(NAME).display().to_string(),
        format!("\u{1b}]0;{FOLDER}"),
    ];
    // In turn in every file, so that each is read in each way: as text, as a number, as a list.
    for (round, secret) in secrets.iter().enumerate() {
        for name in [
            "tt_card_type",
            "tt_serial",
            "tt_aiclk",
            "tt_fw_bundle_ver",
            "tt_heartbeat",
        ] {
            put(&root, &format!("{entry}/{name}"), secret);
        }
        for name in [
            "current_link_speed",
            "max_link_width",
            "hwmon/hwmon1/temp1_input",
        ] {
            put(&root, &format!("{pci}/{name}"), secret);
        }
        put(&root, "sys/module/tenstorrent/version", secret);
        put(
            &root,
            "sys/module/tenstorrent/parameters/power_policy",
            secret,
        );
        put(
            &root,
            &format!("sys/module/tenstorrent/parameters/{NAME}{round}={TOKEN}"),
            "1",
        );
        put(
            &root,
            "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
            secret,
        );
        put(
            &root,
            &format!("sys/bus/pci/devices/{PROJECT}/vendor"),
            "0x1e52\n",
        );
        put(&root, "proc/driver/tenstorrent/0/pids", "77\n");
        put(&root, "proc/77/comm", NAME);
        put(
            &root,
            "proc/77/cmdline",
            format!("python\0--token={TOKEN}\0"),
        );
        put(&root, "proc/77/environ", format!("HF_TOKEN={TOKEN}\0"));
        put(&root, "proc/sys/kernel/osrelease", secret);
        put(
            &root,
            "etc/os-release",
            format!("ID=\"{secret}\"\nVERSION_ID={secret}\n"),
        );
        put(&root, "etc/hostname", secret);
        put(
            &root,
            "proc/self/mounts",
            format!(
                "tmpfs /dev/shm {PROJECT} rw 0 0\nh /mnt/{NAME} hugetlbfs rw,pagesize=1G 0 0\n\
                 h /home/{USER}/{PROJECT} hugetlbfs rw,pagesize=1G 0 0\nh /dev/hugepages-1G hugetlbfs rw,pagesize=1G 0 0\n"
            ),
        );
        let mut region = ttmem_region(NAME);
        put(&root, "dev/shm/tt_device_7_memory", &region);
        region.truncate(100);
        put(&root, "dev/shm/tt_device_8_memory", &region);
        put(&root, &format!("dev/shm/{TOKEN}"), TOKEN);
        let archive = home.archive();
        let output = home.bundle(&["--yes", "--root", root.to_str().expect("text")]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let files = assert_hides(&archive, HIDDEN);
        assert_eq!(files.len(), 4, "no server is asked for a copy");
        // The rest is as it was: who holds the card, and what TT-Metal counts.
        assert!(
            files["checks.txt"].contains("process 77 has /dev/tenstorrent/0 open"),
            "{files:#?}"
        );
        assert!(
            files["machine.json"].contains("/dev/hugepages-1G"),
            "{files:#?}"
        );
        assert!(
            files["doctor.json"].contains("\"dram\": 4096"),
            "{files:#?}"
        );
        fs::remove_file(archive).expect("ours");
    }
}

/// TT-Metal's counters of version 3 with one process of a name.
fn ttmem_region(name: &str) -> Vec<u8> {
    let mut region = vec![0; 8576];
    let mut write = |at: usize, bytes: &[u8]| region[at..at + bytes.len()].copy_from_slice(bytes);
    write(0, &3_u32.to_le_bytes());
    write(4, &1_u32.to_le_bytes());
    write(32, &7_u64.to_le_bytes());
    write(48, &4096_u64.to_le_bytes());
    for chip in 0..16 {
        write(88 + 48 * chip, &u32::MAX.to_le_bytes());
    }
    write(856, &77_i32.to_le_bytes());
    write(864, &4096_u64.to_le_bytes());
    write(856 + 56, name.as_bytes());
    region
}

#[test]
fn a_bundle_is_written_only_where_it_is_wanted() {
    let home = Home::new();
    let archive = home.archive();
    // Nobody to ask: what it would have is said, and nothing is written.
    let output = home.bundle(&["--root", &home.bare_machine()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stdout).contains("doctor.json"),
        "the list comes first"
    );
    assert!(
        text(&output.stderr).contains("--yes"),
        "{}",
        text(&output.stderr)
    );
    assert!(!archive.exists());
    // What is there stays, whatever it is.
    fs::write(&archive, "mine").expect("a file");
    let output = home.bundle(&["--yes", "--root", &home.bare_machine()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("exists already"));
    assert_eq!(fs::read_to_string(&archive).expect("a file"), "mine");
    fs::remove_file(&archive).expect("ours");
    std::os::unix::fs::symlink("nowhere", &archive).expect("a link");
    assert_eq!(home.bundle(&["--yes"]).status.code(), Some(1));
    assert!(!home.folder.path().join("nowhere").exists());
    fs::remove_file(&archive).expect("ours");
    for path in ["-", "/nonexistent/x.tar.gz"] {
        let output = home
            .command(&[
                "doctor",
                "--yes",
                "--root",
                &home.bare_machine(),
                "--bundle",
                path,
            ])
            .output();
        let output = output.expect("it runs");
        assert!(
            !output.status.success() && !output.stderr.is_empty(),
            "{path}"
        );
    }
    let left = fs::read_dir(home.folder.path()).expect("a folder").count();
    assert_eq!(left, 1, "only the home");
}

#[test]
fn on_a_terminal_a_bundle_is_asked_about() {
    let home = Home::new();
    let archive = home.archive();
    let Some(terminal) = Tmux::with_shell(100, 30) else {
        return;
    };
    let line = format!(
        "{} doctor --root {} --bundle {}; echo code $?",
        crate::support::server::TTMEM,
        home.bare_machine(),
        archive.display()
    );
    for (answer, is_written) in [("", false), ("no", false), ("y", true)] {
        terminal.run("clear");
        terminal.wait_until("an empty screen", |screen| !screen.contains("code"));
        terminal.run(&line);
        let screen = terminal.wait_for("[y/N]");
        assert!(screen.contains("versions.json"), "{screen}");
        assert!(!archive.exists());
        terminal.run(answer);
        terminal.wait_for("code 0");
        assert_eq!(archive.exists(), is_written);
    }
}
