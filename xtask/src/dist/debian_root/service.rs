//! The service as its unit starts it, and programs of another user that report to it.

use super::Root;
use crate::command::read;
use crate::server::Running;
use anyhow::{Context, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A user who is neither root nor the service's.
pub(super) const OTHER: &str = "4242";
pub(super) const AS_OTHER: [&str; 4] =
    ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups"];

/// How long to wait for what should take milliseconds, on a machine that is busy.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

const RUNTIME_DIRECTORY: &str = "run/ttmem";

pub(super) fn check(root: &Root) -> anyhow::Result<()> {
    let service = Service::start(root)?;
    // Nobody says where the server is.
    let status = read(&mut other(root, &["ttmem", "status"]))?;
    println!("{status}");
    ensure!(
        service.gets_memory(root)?,
        "root trusts the service, its clients do not"
    );
    let trust = root.path("etc/ttmem/trust");
    let named = fs::read_to_string(&trust)?;
    for (text, mode) in [("# nobody\n", 0o644), (named.as_str(), 0o666)] {
        fs::write(&trust, text)?;
        fs::set_permissions(&trust, Permissions::from_mode(mode))?;
        let gets_memory = service.gets_memory(root)?;
        ensure!(
            !gets_memory,
            "a server that nobody trusts gets memory ({mode:o})"
        );
    }
    fs::set_permissions(&trust, Permissions::from_mode(0o644))?;
    ensure!(service.gets_memory(root)?, "trusted again, it gets none");
    drop(service);
    fs::remove_dir_all(root.path(RUNTIME_DIRECTORY))?;
    Ok(())
}

/// A command of the other user inside.
fn other(root: &Root, words: &[&str]) -> Command {
    root.command(&[&AS_OTHER, words].concat())
}

struct Service {
    pid: u32,
    _running: Running,
}

impl Service {
    /// Starts what the unit says, as systemd would, and waits until it reports that it is ready.
    fn start(root: &Root) -> anyhow::Result<Self> {
        let unit = fs::read_to_string(root.path("usr/lib/systemd/system/ttmem.service"))?;
        let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key));
        let command = value("ExecStart=").context("the unit starts nothing")?;
        let command: Vec<&str> = command
            .split_whitespace()
            .filter(|word| !word.starts_with('$'))
            .collect();
        let ids = root.read(&["id", "--user", "ttmem"])?;
        let id: u32 = ids.trim().parse()?;
        let folder = root.path(RUNTIME_DIRECTORY);
        fs::create_dir(&folder)?;
        chown(&folder, Some(id), Some(id))?;
        let manager = root.path("run/notify");
        let ready = UnixDatagram::bind(&manager)?;
        fs::set_permissions(&manager, Permissions::from_mode(0o666))?;
        ready.set_read_timeout(Some(PATIENCE))?;
        let words = [
            "setpriv",
            "--reuid=ttmem",
            "--regid=ttmem",
            "--clear-groups",
        ];
        let mut serve = root.command(&[&words[..], &command].concat());
        serve
            .env("NOTIFY_SOCKET", "/run/notify")
            .env("TTMEM_SOCKET_MODE", "0666")
            .stdin(Stdio::null());
        let running = serve.spawn().context("the service does not start")?;
        let pid = running.id();
        let running = Running(running);
        let mut said = [0; 64];
        let length = ready.recv(&mut said).context("it never was ready")?;
        let said = String::from_utf8_lossy(said.get(..length).unwrap_or_default());
        ensure!(said == "READY=1", "it said {said:?}");
        fs::remove_file(manager)?;
        Ok(Self {
            pid,
            _running: running,
        })
    }

    fn gets_memory(&self, root: &Root) -> anyhow::Result<bool> {
        gets_memory(|words| other(root, words), || self.has_rings())
    }

    fn has_rings(&self) -> anyhow::Result<bool> {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.pid))?;
        Ok(descriptors
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .any(|target| target.to_string_lossy().contains("ttmem-rings")))
    }
}

/// Whether a program of the other user hands its memory over to a server, which then has its rings.
pub(super) fn gets_memory(
    other: impl FnOnce(&[&str]) -> Command,
    has_rings: impl Fn() -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    let words = ["ttmem", "load", "--clients", "1", "--rate", "1000"];
    let mut load = other(&[&words[..], &["--duration", "2"]].concat());
    let load = load.stdin(Stdio::null()).stdout(Stdio::null());
    let mut load = Running(load.spawn()?);
    let begun = Instant::now();
    let mut got = false;
    while load.0.try_wait()?.is_none() {
        ensure!(begun.elapsed() < PATIENCE, "the load does not end");
        got |= has_rings()?;
        std::thread::sleep(Duration::from_millis(20));
    }
    ensure!(load.0.wait()?.success(), "the load failed");
    Ok(got)
}
