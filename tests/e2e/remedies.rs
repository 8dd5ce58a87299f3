//! Every remedy of `ttmem doctor` that can be tried without a card: the problem is planted, the command that is printed is
//! run as it stands, and then the check has to be well.

use crate::doctor::{card, check, document, machine, put};
use crate::support::c_program::{Linked, Workshop};
use crate::support::place::{ForOthers, TTMEM, attach_library, copy_for_others, open_folder};
use crate::support::server::{Killed, ttmem, without_settings};
use crate::support::wait_until;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Users that nobody is.
const ONE: u32 = 23_451;
const OTHER: u32 = 23_452;

/// What the helper ends with where the kernel does not let it filter calls.
const CANNOT: i32 = 77;

/// The copy of the program that all users can run inside of such mounts, wherever the checkout is.
const BUILT: &str = "/run/built";
const PROGRAM: &str = "/run/built/ttmem";

/// Mounts of a test's own: an empty `/tmp`, `/run` and `/dev/shm`. Only root may have them.
pub(crate) struct Space {
    holder: Killed,
}

impl Space {
    pub(crate) fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            // Mounts are root's.
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sleep", "600"]);
        let holder = Killed(command.spawn().ok()?);
        let space = Self { holder };
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
        let pid = space.holder.0.id().to_string();
        wait_until("it has mounts of its own", || of(&pid) != of("self"));
        wait_until("it sleeps", || {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
        });
        for (folder, mode) in [("/tmp", 1777), ("/run", 755), ("/dev/shm", 1777)] {
            space.shell(&format!("mount -t tmpfs -o mode={mode} tmpfs {folder}"));
        }
        space.shell(&format!("mkdir -m 755 {BUILT}"));
        let inside = format!("/proc/{pid}/root{PROGRAM}");
        copy_for_others(TTMEM.as_ref(), Path::new(&inside));
        Some(space)
    }

    fn enter(&self, program: &str) -> Command {
        let mut command = without_settings("nsenter");
        let pid = self.holder.0.id().to_string();
        command.args(["--target", &pid, "--mount", "--", program]);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{BUILT}:{path}"))
            .env("XDG_RUNTIME_DIR", "/run")
            .current_dir("/");
        command
    }

    /// Runs a command as it is written; there is no need for sudo.
    pub(crate) fn shell(&self, line: &str) -> String {
        let line = line.replace("sudo ", "");
        let output = self.enter("sh").arg("-c").arg(&line).output();
        let output = output.expect("nsenter is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn doctor(&self, user: Option<u32>, arguments: &[&str]) -> Value {
        let user = user.unwrap_or(0).to_string();
        let mut command = self.enter("setpriv");
        command
            .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
            .args([PROGRAM, "doctor", "--json"])
            .args(arguments);
        document(&command.output().expect("it runs"))
    }
}

/// The commands of a remedy, in their order.
fn commands(check: &Value) -> Vec<&str> {
    let remedy = check["remedy"].as_str().unwrap_or_default();
    remedy.split('`').skip(1).step_by(2).collect()
}

fn assert_state(document: &Value, name: &str, state: &str) {
    let found = check(document, name);
    assert_eq!(found["state"], state, "{found}");
}

#[test]
fn shared_memory_that_is_missing_read_only_closed_or_full() {
    let Some(space) = Space::new() else {
        return;
    };
    let user = Some(ONE);
    assert_state(&space.doctor(user, &[]), "shm", "ok");
    for planted in [
        "while umount -l /dev/shm 2>/dev/null; do :; done",
        "mount -o remount,ro /dev/shm",
        "chmod 0755 /dev/shm",
    ] {
        space.shell(planted);
        let document = space.doctor(user, &[]);
        assert_state(&document, "shm", "warning");
        let [command] = commands(check(&document, "shm"))[..] else {
            unreachable!("one command: {document}");
        };
        space.shell(command);
        assert_state(&space.doctor(user, &[]), "shm", "ok");
    }
    space.shell("mount -t tmpfs -o size=256k,mode=1777 tmpfs /dev/shm; head -c 250k /dev/zero >/dev/shm/large");
    let document = space.doctor(user, &[]);
    assert_state(&document, "shm", "warning");
    let seen = space.shell(commands(check(&document, "shm"))[0]);
    assert!(seen.contains("large"), "{seen}");
    space.shell("rm /dev/shm/large");
    assert_state(&space.doctor(user, &[]), "shm", "ok");
}

/// TT-Metal's counters of version 3, of a process that writes now.
fn counters(pid: u32) -> Vec<u8> {
    let mut region = vec![0; 8576];
    let mut write = |at: usize, bytes: &[u8]| region[at..at + bytes.len()].copy_from_slice(bytes);
    write(0, &3_u32.to_le_bytes());
    write(4, &1_u32.to_le_bytes());
    write(32, &7_u64.to_le_bytes());
    write(48, &4096_u64.to_le_bytes());
    for chip in 0..16 {
        write(88 + 48 * chip, &u32::MAX.to_le_bytes());
    }
    write(856, &pid.to_le_bytes());
    write(864, &4096_u64.to_le_bytes());
    region
}

#[test]
fn counters_that_are_stale_broken_or_of_others() {
    let Some(space) = Space::new() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    // Through the process that holds the mounts: its /dev/shm is not ours.
    let shm = format!("/proc/{}/root/dev/shm", space.holder.0.id());
    let place = |id: u32, bytes: Vec<u8>| {
        let path = format!("{shm}/tt_device_{id}_memory");
        fs::write(&path, bytes).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours");
    };
    let mut gone = Command::new("true").spawn().expect("it runs");
    gone.wait().expect("it ended");
    // Of a process that was killed, twice; and one that was cut off.
    for (id, cut) in [(7, 8576), (8, 8576), (9, 100)] {
        let mut region = counters(gone.id());
        region[32] = u8::try_from(id).expect("small");
        region.truncate(cut);
        place(id, region);
    }
    let document = space.doctor(None, &[]);
    assert_state(&document, "tt-metal", "warning");
    let lines = commands(check(&document, "tt-metal"));
    assert!(
        lines.iter().all(|line| line.starts_with("rm /dev/shm/")),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        space.shell(line);
    }
    let document = space.doctor(None, &[]);
    assert_state(&document, "tt-metal", "info");
    assert_eq!(fs::read_dir(&shm).expect("a folder").count(), 0);
    // Of a program of another user that runs: read as that user, or as root.
    place(7, counters(std::process::id()));
    let document = space.doctor(Some(ONE), &[]);
    assert_state(&document, "tt-metal", "info");
    let remedy = check(&document, "tt-metal")["remedy"]
        .as_str()
        .expect("one");
    assert!(remedy.contains("as root"), "{remedy}");
    assert_state(&space.doctor(None, &[]), "tt-metal", "ok");
    drop(folder);
}

#[test]
fn commands_hold_in_a_folder_of_any_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("it's; $(touch planted) & more");
    put(&root, "dev/shm/tt_device_7_memory", 3_u32.to_le_bytes());
    let doctor = || document_of(ttmem().args(["doctor", "--json", "--root"]).arg(&root));
    let document = doctor();
    assert_state(&document, "tt-metal", "warning");
    let [line] = commands(check(&document, "tt-metal"))[..] else {
        unreachable!("one command: {document}");
    };
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", line]).current_dir(folder.path()).status();
    assert!(status.expect("a shell").success(), "{line}");
    assert_state(&doctor(), "tt-metal", "info");
    assert!(!folder.path().join("planted").exists());
}

/// A server inside of such mounts; killed when the test is done with it.
fn serve(space: &Space, user: u32, line: &[&str]) -> Killed {
    let user = user.to_string();
    let mut command = space.enter("setpriv");
    command
        .args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"])
        .args(line)
        .stdout(Stdio::null());
    Killed(command.spawn().expect("it starts"))
}

/// The socket of a server that is another user's.
const THEIRS: &str = "/run/theirs/ttmem.sock";

/// A server of a user that everybody may ask.
fn serve_everybody(space: &Space, user: u32) -> Killed {
    space.shell(&format!(
        "mkdir -m 755 /run/theirs && chown {user}:{user} /run/theirs"
    ));
    let options = [
        "--quiet",
        "--no-legacy-socket",
        "--socket-mode",
        "0666",
        "--socket",
        THEIRS,
    ];
    let server = serve(space, user, &[&[PROGRAM, "serve"], &options[..]].concat());
    wait_until("it answers", || {
        let document = space.doctor(Some(OTHER), &["--socket", THEIRS]);
        check(&document, "server")["state"] == "ok"
    });
    server
}

#[test]
fn a_server_that_is_missing_closed_or_not_trusted() {
    let Some(space) = Space::new() else {
        return;
    };
    let document = space.doctor(None, &[]);
    assert_state(&document, "server", "info");
    let lines = commands(check(&document, "server"));
    let line = lines.iter().find(|line| line.starts_with("ttmem serve"));
    let words: Vec<&str> = line.expect("how to start one").split(' ').collect();
    let server = serve(&space, 0, &words);
    wait_until("it answers", || {
        check(&space.doctor(None, &[]), "server")["state"] == "ok"
    });
    // Another user may not ask it: it says by which options they may.
    let arguments = ["--socket", "/run/ttmem.sock"];
    let document = space.doctor(Some(ONE), &arguments);
    assert_state(&document, "server", "problem");
    let found = check(&document, "server")["found"].as_str().expect("text");
    assert!(found.contains("--socket-mode"), "{found}");
    drop(server);
    // A server of somebody, for everybody.
    let arguments = ["--socket", THEIRS];
    let _server = serve_everybody(&space, ONE);
    let document = space.doctor(Some(OTHER), &arguments);
    assert_state(&document, "trust", "warning");
    let remedy = check(&document, "trust")["remedy"].as_str().expect("one");
    let variable = format!("TTMEM_TRUST_UID={ONE}");
    assert!(remedy.contains(&variable), "{remedy}");
    let mut command = space.enter("setpriv");
    let other = OTHER.to_string();
    command
        .args([
            "--reuid",
            &other,
            "--regid",
            &other,
            "--clear-groups",
            "env",
            &variable,
        ])
        .args([PROGRAM, "doctor", "--json", "--socket", THEIRS]);
    assert_state(&document_of(&mut command), "trust", "ok");
    // Or root names it, as the remedy says: a line in a file.
    assert!(remedy.contains("/etc/ttmem/trust"), "{remedy}");
    space.shell("mount -t tmpfs -o mode=755 tmpfs /etc && mkdir -m 755 /etc/ttmem");
    space.shell(&format!(
        "echo {ONE} >/etc/ttmem/trust && chmod 644 /etc/ttmem/trust"
    ));
    assert_state(&space.doctor(Some(OTHER), &arguments), "trust", "ok");
}

#[test]
fn a_server_of_nobody_is_not_to_be_named() {
    let Some(space) = Space::new() else {
        return;
    };
    let _server = serve_everybody(&space, 65_534);
    let arguments = ["--socket", THEIRS];
    let document = space.doctor(Some(ONE), &arguments);
    let trust = check(&document, "trust");
    assert_eq!(trust["state"], "warning");
    // To name it would change nothing.
    let remedy = trust["remedy"].as_str().expect("one");
    assert!(!remedy.contains("TTMEM_TRUST_UID"), "{remedy}");
}

fn document_of(command: &mut Command) -> Value {
    document(&command.output().expect("it runs"))
}

#[test]
fn a_library_that_is_not_where_it_was_named() {
    let doctor = |library: &Path| {
        let mut command = ttmem();
        command
            .args(["doctor", "--json"])
            .env("TTMEM_ATTACH_LIBRARY", library);
        document_of(&mut command)
    };
    let document = doctor(Path::new("/nonexistent/libttmem_attach.so"));
    assert_state(&document, "library", "problem");
    let remedy = check(&document, "library")["remedy"].as_str().expect("one");
    assert!(remedy.contains("TTMEM_ATTACH_LIBRARY"), "{remedy}");
    let folder = tempfile::tempdir().expect("a folder");
    let library = attach_library(folder.path());
    assert_state(&doctor(&library), "library", "ok");
}

/// An environment with a ttnn for a release of Python.
fn environment(folder: &Path, python: &str, ttnn: &str) {
    let path = format!("lib/python{python}/site-packages/ttnn-{ttnn}.dist-info");
    fs::create_dir_all(folder.join(path)).expect("a folder");
}

#[test]
fn a_ttnn_that_is_not_active_too_old_or_for_an_unknown_python() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path();
    let doctor = |environment: &str| {
        let mut command = ttmem();
        command
            .args(["doctor", "--json"])
            .env("HOME", home)
            .env("PATH", home);
        command.env_remove("VIRTUAL_ENV");
        if !environment.is_empty() {
            command.env("VIRTUAL_ENV", home.join(environment));
        }
        document_of(&mut command)
    };
    environment(&home.join("known"), "3.12", "0.81.1");
    environment(&home.join("old"), "3.10", "0.60.1");
    environment(&home.join("unknown"), "3.12", "99.1.0");
    environment(&home.join("python"), "3.5", "0.81.1");
    let document = doctor("");
    assert_state(&document, "ttnn", "info");
    let remedy = check(&document, "ttnn")["remedy"].as_str().expect("one");
    assert!(remedy.contains("activate"), "{remedy}");
    for (environment, name) in [
        ("old", "ttnn"),
        ("unknown", "ttnn"),
        ("python", "python lines"),
    ] {
        assert_state(&doctor(environment), name, "warning");
    }
    for name in ["ttnn", "python lines"] {
        assert_state(&doctor("known"), name, "ok");
    }
}

#[test]
fn lines_of_python_that_a_container_forbids() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let helper = workshop.program("failing_reads.c", Linked::Not);
    let folder = tempfile::tempdir().expect("a folder");
    environment(folder.path(), "3.12", "0.81.1");
    let doctor = |rules: &[&str]| {
        let mut command = without_settings(&helper);
        command
            .args(rules)
            .args(["--", TTMEM.as_str(), "doctor", "--json"]);
        let output = command.env("VIRTUAL_ENV", folder.path()).output();
        let output = output.expect("it runs");
        (output.status.code() != Some(CANNOT)).then(|| document(&output))
    };
    let Some(document) = doctor(&["process_vm_readv=1"]) else {
        return;
    };
    assert_state(&document, "python lines", "warning");
    let found = check(&document, "python lines");
    assert!(
        found["found"]
            .as_str()
            .expect("text")
            .contains("process_vm_readv")
    );
    assert!(
        found["remedy"]
            .as_str()
            .expect("text")
            .contains("SYS_PTRACE")
    );
    // The same filter without the refusal, which is what the capability changes.
    let document = doctor(&[]).expect("it could before");
    assert_state(&document, "python lines", "ok");
}

#[test]
fn a_container_sees_itself_unless_it_has_the_hosts_processes() {
    let others = ForOthers::new();
    let doctor = |options: &[&str]| {
        let mut command = without_settings("unshare");
        command.args(options).arg(others.program());
        command.args(["doctor", "--json"]);
        let output = command.output().expect("unshare is there");
        output
            .status
            .code()
            .filter(|code| *code != 1)
            .map(|_code| document(&output))
    };
    let Some(inside) = doctor(&[
        "--user",
        "--map-root-user",
        "--pid",
        "--ipc",
        "--fork",
        "--mount-proc",
    ]) else {
        return;
    };
    assert_state(&inside, "namespaces", "info");
    let lines = commands(check(&inside, "namespaces"));
    assert_eq!(lines, ["--pid=host --ipc=host"]);
    // Without namespaces for them, which is what the options are, it is seen whether this machine is one itself.
    let shared = document_of(ttmem().args(["doctor", "--json"]));
    let shared = check(&shared, "namespaces")["found"]
        .as_str()
        .expect("text")
        .to_owned();
    let inside = check(&inside, "namespaces")["found"]
        .as_str()
        .expect("text");
    assert!(inside.contains("processes, IPC"), "{inside}");
    assert_ne!(shared, inside);
}

/// What the commands would change on a machine with cards is changed by hand: what they do was read in their projects.
#[test]
fn nodes_drivers_and_pages_of_a_machine_with_cards() {
    let (folder, others) = (open_folder(), ForOthers::new());
    let root = folder.path();
    machine(root);
    card(root, 1);
    let doctor = || {
        // Root may use every node.
        let mut command = if nix::unistd::geteuid().is_root() {
            others.ttmem_as(ONE)
        } else {
            ttmem()
        };
        document_of(command.args(["doctor", "--json", "--root"]).arg(root))
    };
    let node = root.join("dev/tenstorrent/1");
    let mode = |mode: u32| fs::set_permissions(&node, Permissions::from_mode(mode)).expect("ours");
    fs::remove_file(&node).expect("ours");
    assert_state(&doctor(), "permissions", "problem");
    put(root, "dev/tenstorrent/1", "");
    fs::set_permissions(
        root.join("dev/tenstorrent/0"),
        Permissions::from_mode(0o666),
    )
    .expect("ours");
    mode(0o600);
    if nix::unistd::geteuid().is_root() {
        assert_state(&doctor(), "permissions", "problem");
    }
    // As the driver's udev rule has it.
    mode(0o666);
    assert_state(&doctor(), "permissions", "ok");

    assert_state(&doctor(), "driver", "warning");
    put(root, "sys/module/tenstorrent/version", "2.5.0\n");
    assert_state(&doctor(), "driver", "ok");
    fs::remove_file(root.join("sys/module/tenstorrent/version")).expect("ours");
    let document = doctor();
    assert_state(&document, "driver", "problem");
    assert_eq!(
        commands(check(&document, "driver")),
        ["sudo modprobe tenstorrent"]
    );

    // Pages: as many as tenstorrent-hugepages.service sets, where dev-hugepages\x2d1G.mount mounts them.
    let pages = "sys/kernel/mm/hugepages/hugepages-1048576kB";
    assert_state(&doctor(), "hugepages", "problem");
    put(root, &format!("{pages}/nr_hugepages"), "8\n");
    let mount = |place: &str| {
        let line = format!("hugetlbfs {place} hugetlbfs rw,mode=777,pagesize=1024M 0 0\n");
        put(root, "proc/self/mounts", line);
    };
    mount("/dev/hugepages");
    assert_state(&doctor(), "hugepages", "problem");
    mount("/dev/hugepages-1G");
    assert_state(&doctor(), "hugepages", "ok");
    // An IOMMU that translates for one card leaves the other; for both, no pages are needed.
    put(root, &format!("{pages}/nr_hugepages"), "0\n");
    put(
        root,
        "sys/devices/pci0000:00/0000:0a:00.0/iommu_group/type",
        "DMA-FQ\n",
    );
    put(
        root,
        "sys/devices/pci0000:00/0000:0b:00.0/iommu_group/type",
        "identity\n",
    );
    let document = doctor();
    assert_state(&document, "hugepages", "problem");
    let found = check(&document, "iommu")["found"].as_str().expect("text");
    assert!(found.contains("1 of 2 cards"), "{found}");
    put(
        root,
        "sys/devices/pci0000:00/0000:0b:00.0/iommu_group/type",
        "DMA\n",
    );
    assert_state(&doctor(), "hugepages", "ok");
}
