//! The package in a Debian that has booted: its unit under a real systemd, and `ttmem service` under that
//! of a user.

use super::service::{AS_OTHER, OTHER, PATIENCE, gets_memory};
use super::{Root, VERSION};
use crate::command::{program, read, root as repository, run as run_command, target_dir};
use crate::{CannotRun, tool};
use anyhow::{Context, bail, ensure};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A token for readers over TCP, and the page that says how they are served.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const MANUAL: &str = "docs/install.md";

/// How the lines of a drop-in begin in it.
const DROP_IN: &str = "#   ";

/// Installs, upgrades and removes packages in a root without ours while systemd runs.
pub(super) fn check(root: &Root, older: &Path, package: &Path) -> anyhow::Result<()> {
    tool::SYSTEMD_NSPAWN.ensure()?;
    let machine = Machine::boot(root)?;
    machine.install(root, older)?;
    let before = machine.main_pid()?;
    ensure!(before != 0, "the service is not started");
    machine.install(root, package)?;
    let after = machine.main_pid()?;
    ensure!(
        ![0, before].contains(&after),
        "before the upgrade {before} runs, after it {after}"
    );
    // Seen from inside its restrictions.
    let folder = format!("/proc/{}/fd", machine.main_pid()?);
    let descriptors = || {
        Ok(machine
            .read(&["ls", "-l", &folder])?
            .contains("ttmem-rings"))
    };
    ensure!(
        gets_memory(|words| machine.other(words), descriptors)?,
        "the service gets no memory of its clients"
    );
    machine.check_restarts()?;
    machine.check_readers(root)?;
    machine.check_user_service()?;
    run_command(&mut machine.command(&["dpkg", "--purge", "ttmem"]))?;
    let left = machine.read(&["sh", "-c", "cat /proc/[0-9]*/comm; ls /run"])?;
    ensure!(
        !left.lines().any(|name| name == "ttmem"),
        "without its package the service is there:\n{left}"
    );
    println!("under systemd: installed, upgraded, restarted, served and removed");
    Ok(())
}

/// A Debian that runs, with no network but its own.
struct Machine {
    nspawn: Child,
    /// Its first process.
    init: u32,
}

impl Machine {
    fn boot(root: &Root) -> anyhow::Result<Self> {
        let log = target_dir().join("xtask/booted.log");
        let output =
            File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let mut nspawn = program("systemd-nspawn");
        nspawn
            .args(["--quiet", "--boot", "--private-network", "--console=pipe"])
            .args(["--link-journal=no", "--resolv-conf=off", "--timezone=off"])
            .arg(format!("--directory={}", root.path("").display()))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        if !Path::new("/run/systemd/system").exists() {
            // There is nobody to make a unit for it.
            nspawn.args(["--keep-unit", "--register=no"]);
        }
        let nspawn = nspawn.spawn().context("cannot start systemd-nspawn")?;
        let mut machine = Self { nspawn, init: 0 };
        let begun = Instant::now();
        loop {
            if let Some(init) = machine.first_process() {
                machine.init = init;
                let state = machine
                    .command(&["systemctl", "is-system-running"])
                    .output()?;
                if [&b"running\n"[..], b"degraded\n"].contains(&state.stdout.as_slice()) {
                    return Ok(machine);
                }
            }
            if machine.nspawn.try_wait()?.is_some() || begun.elapsed() > PATIENCE {
                let said = fs::read_to_string(&log).unwrap_or_default();
                bail!(CannotRun(format!("no Debian boots here: {}", said.trim())));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn first_process(&self) -> Option<u32> {
        let pid = self.nspawn.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        let is_init = |child: &&str| {
            fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name == "systemd\n")
        };
        children.split_whitespace().find(is_init)?.parse().ok()
    }

    /// A program inside.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = program("nsenter");
        command
            .arg(format!("--target={}", self.init))
            .args([
                "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--",
            ])
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn read(&self, words: &[&str]) -> anyhow::Result<String> {
        read(&mut self.command(words))
    }

    /// A program of a user who is neither root nor the service's.
    fn other(&self, words: &[&str]) -> Command {
        self.command(&[&AS_OTHER, words].concat())
    }

    fn install(&self, root: &Root, package: &Path) -> anyhow::Result<()> {
        let inside = root.path("ttmem.deb");
        fs::copy(package, &inside)?;
        let installed = run_command(&mut self.command(&["dpkg", "--install", "/ttmem.deb"]));
        fs::remove_file(inside)?;
        installed
    }

    /// The server's process; 0 if there is none.
    fn main_pid(&self) -> anyhow::Result<u32> {
        Ok(self.property("MainPID")?.parse()?)
    }

    fn property(&self, name: &str) -> anyhow::Result<String> {
        let said = self.read(&["systemctl", "show", "--property", name, "--value", "ttmem"])?;
        Ok(said.trim().to_owned())
    }

    fn check_restarts(&self) -> anyhow::Result<()> {
        let before = self.main_pid()?;
        self.read(&["kill", "-KILL", &before.to_string()])?;
        let begun = Instant::now();
        while self.property("NRestarts")? != "1" || self.property("ActiveState")? != "active" {
            ensure!(begun.elapsed() < PATIENCE, "a server that dies stays dead");
            std::thread::sleep(Duration::from_millis(50));
        }
        ensure!(self.main_pid()? != before, "it is still the old process");
        // A mistake in the settings is none that goes away.
        self.read(&[
            "sh",
            "-c",
            "echo TTMEM_SERVE_OPTIONS=--nonsense >> /etc/default/ttmem",
        ])?;
        let restarted = self.command(&["systemctl", "restart", "ttmem"]).output()?;
        ensure!(!restarted.status.success(), "it runs with --nonsense");
        let (state, code) = (
            self.property("ActiveState")?,
            self.property("ExecMainStatus")?,
        );
        ensure!(
            state == "failed" && code == "2" && self.property("NRestarts")? == "0",
            "with --nonsense it is {state}, code {code}"
        );
        Ok(())
    }

    /// Readers over TCP, as the manual says.
    fn check_readers(&self, root: &Root) -> anyhow::Result<()> {
        let manual = fs::read_to_string(repository().join(MANUAL))?;
        let drop_in: String = manual
            .lines()
            .filter_map(|line| Some(format!("{}\n", line.trim_start().strip_prefix(DROP_IN)?)))
            .collect();
        ensure!(drop_in.starts_with("[Service]\n"), "no drop-in in {MANUAL}");
        let folder = root.path("etc/systemd/system/ttmem.service.d");
        fs::create_dir(&folder)?;
        fs::write(folder.join("override.conf"), drop_in)?;
        let token = root.path("root/token");
        fs::write(&token, TOKEN)?;
        fs::set_permissions(&token, Permissions::from_mode(0o600))?;
        let is_meant = |line: &&str| {
            line.starts_with("install -o ttmem ") || line.starts_with("echo 'TTMEM_SERVE_OPTIONS")
        };
        let commands: Vec<&str> = manual.lines().filter(is_meant).collect();
        ensure!(commands.len() == 2, "no commands for readers in {MANUAL}");
        let commands = format!("cd /root\n{}", commands.join("\n"));
        self.read(&["sh", "-ec", &commands])?;
        self.read(&["systemctl", "daemon-reload"])?;
        self.read(&["systemctl", "restart", "ttmem"])?;
        let words = ["ttmem", "status", "--http", "http://127.0.0.1:9400"];
        let with_token = [&words[..], &["--http-token-file", "/root/token"]].concat();
        let refused = self.command(&words).output()?;
        ensure!(!refused.status.success(), "a reader needs no token");
        let status = self.read(&with_token)?;
        ensure!(status.contains(VERSION), "a reader gets {status}");
        Ok(())
    }

    /// A server of a user, under a systemd of that user.
    fn check_user_service(&self) -> anyhow::Result<()> {
        let runtime = format!("/run/user/{OTHER}");
        self.read(&["useradd", "--create-home", "--uid", OTHER, "me"])?;
        self.read(&[
            "install", "-d", "-o", "me", "-g", "me", "-m", "700", &runtime,
        ])?;
        let (home, runtime) = ("HOME=/home/me", format!("XDG_RUNTIME_DIR={runtime}"));
        self.read(&[
            "systemd-run",
            "--uid=me",
            "--property=Delegate=yes",
            "--property=Type=notify",
            &format!("--setenv={home}"),
            &format!("--setenv={runtime}"),
            "/usr/lib/systemd/systemd",
            "--user",
        ])?;
        let said = |action: &str| {
            let mut command = self.other(&["env", home, &runtime, "ttmem", "service", action]);
            let output = command.output()?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            anyhow::Ok((output.status.success(), said))
        };
        for (action, succeeds, says) in [
            ("install", true, "the server runs"),
            ("status", true, "systemd: active"),
            ("uninstall", true, "removed"),
            ("status", false, "systemd: inactive"),
        ] {
            let (succeeded, said) = said(action)?;
            ensure!(
                succeeded == succeeds && said.contains(says),
                "ttmem service {action} says {said}"
            );
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Which shuts it down in order, and takes everything inside along.
        let _asked = run_command(program("kill").arg(self.nspawn.id().to_string()));
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE && matches!(self.nspawn.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _gone = self.nspawn.kill();
        let _reaped = self.nspawn.wait();
    }
}
