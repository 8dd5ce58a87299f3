//! The Debian package in a Debian of its own: installed, used by two users, upgraded, removed.
//!
//! First systemd is no process there. What it would do is done here as the unit says: the folder below
//! /run, the user, the socket on which readiness is reported. Then that Debian is booted.

mod booted;
mod service;

use super::{Dist, VERSION, deb, same_bytes};
use crate::command::{program, read, run as run_command};
use crate::environment::cache_folder;
use crate::{CannotRun, tool};
use anyhow::{Context, bail, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const RELEASE: &str = "bookworm";

/// What a machine with the package has besides the smallest Debian.
const PACKAGES: &str = "passwd,systemd,bash-completion,zsh,fish";

/// How each shell is asked what follows `ttmem ch`, by the completions that the package brings.
const COMPLETIONS: [[&str; 3]; 3] = [
    [
        "bash",
        "-c",
        ". /usr/share/bash-completion/completions/ttmem; COMP_WORDS=(ttmem ch); COMP_CWORD=1; \
         _ttmem ttmem ch ttmem; echo \"${COMPREPLY[*]}\"",
    ],
    ["fish", "-c", "complete --do-complete 'ttmem ch'"],
    // It completes on a terminal only: here it loads them, and has all of their commands.
    [
        "zsh",
        "-fc",
        "autoload -Uz compinit && compinit -u -D && [[ $_comps[ttmem] = _ttmem ]] && \
         autoload +X _ttmem && functions _ttmem",
    ],
];

/// The version before ours, which is upgraded.
const OLDER: &str = "0.0.1";

/// The most exposed that the service may be, in tenths.
const THRESHOLD: &str = "--threshold=25";

/// What changes with every package that comes or goes, and the files of users and groups, which stay.
const NOT_COMPARED: [&str; 9] = [
    "/var/cache/man",
    "/var/lib/dpkg",
    "/var/log",
    "/var/cache/ldconfig",
    "/etc/ld.so.cache",
    "/etc/passwd",
    "/etc/shadow",
    "/etc/group",
    "/etc/gshadow",
];

/// Accounts in the place of the service's user, as `useradd` makes them.
const OTHER_ACCOUNTS: [&[&str]; 3] = [
    &["--uid=1500", "--create-home", "--shell=/bin/bash"],
    &["--uid=1500", "--shell=/usr/sbin/nologin"],
    &["--system", "--shell=/bin/sh"],
];

/// How the names of users' files end that keep what was there before a change.
const BACKUP: char = '-';

pub(super) fn run(dist: &Dist) -> anyhow::Result<()> {
    if read(program("id").arg("-u"))?.trim() != "0" {
        bail!(CannotRun("only root can install packages".to_owned()));
    }
    for tool in [tool::DEBOOTSTRAP, tool::LINTIAN, tool::SYSTEMD_ANALYZE] {
        tool.ensure()?;
    }
    // The older one first: a version is built in place of the one before.
    let older = deb::make(dist, OLDER)?;
    let package = deb::make(dist, VERSION)?;
    same_bytes(&package, || deb::make(dist, VERSION))?;
    run_command(
        program("lintian")
            .args(["--fail-on", "error"])
            .arg(&package),
    )?;

    let root = Root::copy()?;
    root.check_other_accounts(&package)?;
    let before = root.files()?;
    root.install(&older)?;
    root.check_units()?;
    let settings = ["etc/default/ttmem", "etc/ttmem/trust"].map(|file| root.path(file));
    for file in &settings {
        let text = fs::read_to_string(file)?;
        fs::write(file, format!("{text}# changed here\n"))?;
    }
    root.install(&package)?;
    for file in &settings {
        let text = fs::read_to_string(file)?;
        ensure!(
            text.ends_with("# changed here\n"),
            "{} was lost",
            file.display()
        );
    }
    let version = root.read(&["ttmem", "--version"])?;
    ensure!(
        version.trim() == format!("ttmem {VERSION}"),
        "it is {version}"
    );
    root.check_units()?;
    let environment = root.read(&["ttmem", "env"])?;
    let attach = "LD_PRELOAD='/usr/lib/ttmem/libttmem_attach.so'";
    ensure!(environment.contains(attach), "programs get {environment}");
    root.check_completions()?;
    service::check(&root)?;

    run_command(&mut root.command(&["dpkg", "--remove", "ttmem"]))?;
    ensure!(
        !root.path("usr/bin/ttmem").exists(),
        "the program is still there"
    );
    ensure!(
        settings.iter().all(|file| file.exists()),
        "settings are gone"
    );
    run_command(&mut root.command(&["dpkg", "--purge", "ttmem"]))?;
    let after = root.files()?;
    let left: Vec<&String> = after.iter().filter(|line| !before.contains(line)).collect();
    ensure!(left.is_empty(), "this is left or changed: {left:#?}");
    let user = root.read(&["getent", "passwd", "ttmem"])?;
    ensure!(user.contains("nologin"), "the user, which stays, is {user}");
    booted::check(&root, &older, &package)?;
    fs::remove_file(&older)?;
    Ok(())
}

/// A Debian in a folder.
pub(super) struct Root(PathBuf);

impl Root {
    /// A copy of the one that is kept in the cache.
    fn copy() -> anyhow::Result<Self> {
        let kept = kept()?;
        // Not in the build directory, which may be too deep for the path of a socket.
        let copy = Self(env::temp_dir().join(format!("ttmem-debian-{}", std::process::id())));
        let mut cp = program("cp");
        run_command(
            cp.args(["--archive", "--reflink=auto"])
                .arg(&kept)
                .arg(&copy.0),
        )?;
        Ok(copy)
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    /// A program inside, with a /proc that is gone when it ends.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = program("unshare");
        command
            .args(["--mount", "--", "sh", "-c"])
            .arg("mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"")
            .arg(&self.0)
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn read(&self, words: &[&str]) -> anyhow::Result<String> {
        read(&mut self.command(words))
    }

    fn install(&self, package: &Path) -> anyhow::Result<()> {
        let inside = self.path("ttmem.deb");
        fs::copy(package, &inside)?;
        let installed = run_command(&mut self.command(&["dpkg", "--install", "/ttmem.deb"]));
        fs::remove_file(inside)?;
        installed
    }

    /// An account that the package did not make is neither used nor removed.
    fn check_other_accounts(&self, package: &Path) -> anyhow::Result<()> {
        for options in OTHER_ACCOUNTS {
            run_command(&mut self.command(&[&["useradd"], options, &["ttmem"]].concat()))?;
            let account = self.read(&["getent", "passwd", "ttmem"])?;
            let refused = self.install(package);
            ensure!(refused.is_err(), "the package takes {account}");
            run_command(&mut self.command(&["dpkg", "--purge", "ttmem"]))?;
            let after = self.read(&["getent", "passwd", "ttmem"])?;
            ensure!(after == account, "{account} became {after}");
            run_command(&mut self.command(&["userdel", "ttmem"]))?;
            run_command(&mut self.command(&["rm", "-rf", "/home/ttmem", "/var/mail/ttmem"]))?;
        }
        Ok(())
    }

    fn check_completions(&self) -> anyhow::Result<()> {
        for words in COMPLETIONS {
            // Shells leave files at home, where that is a folder.
            let mut shell = self.command(&words);
            let said = read(shell.env("HOME", "/dev/null"))?;
            let shell = words[0];
            ensure!(said.contains("check"), "{shell} completes {said:?}");
        }
        Ok(())
    }

    fn check_units(&self) -> anyhow::Result<()> {
        let enabled = "etc/systemd/system/multi-user.target.wants/ttmem.service";
        ensure!(
            self.path(enabled).is_symlink(),
            "the service is not enabled"
        );
        let user = self.read(&["getent", "passwd", "ttmem"])?;
        ensure!(user.contains("nologin"), "the user is {user}");
        let mut verify = program("systemd-analyze");
        verify.arg(format!("--root={}", self.0.display()));
        // The manual is not on this machine.
        run_command(verify.args(["--man=no", "verify", "ttmem.service"]))?;
        let mut security = program("systemd-analyze");
        security.args(["security", "--offline=true", "--no-pager", THRESHOLD]);
        let unit = self.path("usr/lib/systemd/system/ttmem.service");
        let said = read(security.arg(unit))?;
        println!("{}", said.lines().last().unwrap_or_default());
        Ok(())
    }

    /// Every file with its kind, mode, owner and length, apart from what packages always change.
    fn files(&self) -> anyhow::Result<Vec<String>> {
        let mut find = program("find");
        find.arg(&self.0).arg("-xdev");
        // The length of a folder depends on its past.
        find.args(["-type", "d", "-printf", "%y %m %U:%G /%P\\n", "-o"]);
        find.args(["-printf", "%y %m %U:%G %s /%P\\n"]);
        let listed = read(&mut find)?;
        let is_compared = |line: &&str| {
            let path = line.rsplit_once(" /").map_or("", |(_rest, path)| path);
            let path = format!("/{path}");
            !path.ends_with(BACKUP) && !NOT_COMPARED.iter().any(|each| path.starts_with(each))
        };
        Ok(listed
            .lines()
            .filter(is_compared)
            .map(str::to_owned)
            .collect())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}

/// The Debian that is kept, made if there is none.
fn kept() -> anyhow::Result<PathBuf> {
    let cache = cache_folder().context("no folder for caches: set XDG_CACHE_HOME or HOME")?;
    // With other packages it is another one.
    let name = format!("debian-{RELEASE}-{}", PACKAGES.replace(',', "-"));
    let kept = cache.join(&name);
    if kept.exists() {
        return Ok(kept);
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let making = cache.join(format!("{name}-{}", std::process::id()));
    let mut debootstrap = program("debootstrap");
    debootstrap.args([
        "--variant=minbase",
        &format!("--include={PACKAGES}"),
        RELEASE,
    ]);
    if let Err(error) = run_command(debootstrap.arg(&making)) {
        let _incomplete = fs::remove_dir_all(&making);
        bail!(CannotRun(format!("no Debian can be made here: {error:#}")));
    }
    fs::rename(&making, &kept).with_context(|| format!("cannot make {}", kept.display()))?;
    Ok(kept)
}
