//! Programs that a check needs and a machine with Rust may not have.

use crate::CannotRun;
use crate::command::{cargo, program, read, run};
use crate::environment::cache_folder;
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A program and the Debian package it comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    program: &'static str,
    package: &'static str,
}

impl Tool {
    const fn new(program: &'static str, package: &'static str) -> Self {
        Self { program, package }
    }

    /// Installs the program unless it is there; the error says why it cannot be.
    pub(crate) fn ensure(self) -> anyhow::Result<()> {
        let Self { program, package } = self;
        if is_there(program) {
            return Ok(());
        }
        println!("{program} is not installed: installing it");
        if let Err(error) = install(package) {
            bail!(CannotRun(format!(
                "{program} is not installed and cannot be: {error:#}"
            )));
        }
        if !is_there(program) {
            bail!("{program} is not there, even with the package {package} installed");
        }
        Ok(())
    }
}

pub(crate) const VALGRIND: Tool = Tool::new("valgrind", "valgrind");
/// libFuzzer is C++ and compiled with the fuzz targets.
pub(crate) const CXX: Tool = Tool::new("c++", "g++");
pub(crate) const CC: Tool = Tool::new("cc", "gcc");
pub(crate) const PKG_CONFIG: Tool = Tool::new("pkg-config", "pkg-config");
pub(crate) const CMAKE: Tool = Tool::new("cmake", "cmake");
pub(crate) const OBJCOPY: Tool = Tool::new("objcopy", "binutils");
pub(crate) const DPKG_DEB: Tool = Tool::new("dpkg-deb", "dpkg");
pub(crate) const DEBOOTSTRAP: Tool = Tool::new("debootstrap", "debootstrap");
pub(crate) const LINTIAN: Tool = Tool::new("lintian", "lintian");
pub(crate) const SYSTEMD_NSPAWN: Tool = Tool::new("systemd-nspawn", "systemd-container");
pub(crate) const SYSTEMD_ANALYZE: Tool = Tool::new("systemd-analyze", "systemd");
/// A terminal that tests drive by keys and read.
pub(crate) const TMUX: Tool = Tool::new("tmux", "tmux");
/// The launcher of programs with several ranks.
pub(crate) const MPIRUN: Tool = Tool::new("mpirun", "openmpi-bin");
/// Makes certificates for a test.
pub(crate) const OPENSSL: Tool = Tool::new("openssl", "openssl");
/// The browser that the page is tried in.
pub(crate) const CHROMIUM: Tool = Tool::new("chromium", "chromium");

/// A program of crates.io in an exact version, compiled once and kept in the cache: without optimisation, which takes half the time
/// and is fast enough for what it does here.
pub(crate) fn compiled(name: &str, version: &str, features: &[&str]) -> anyhow::Result<PathBuf> {
    let cache = cache_folder().context("no folder for caches: set XDG_CACHE_HOME or HOME")?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let folder = cache.join(format!("{name}-{version}"));
    let path = folder.join("bin").join(name);
    let lock = folder.with_added_extension("lock");
    let lock = File::create(&lock).with_context(|| format!("cannot make {}", lock.display()))?;
    // Released when the file is closed, also by the death of this process.
    lock.lock().context("cannot lock the cache")?;
    if path.is_file() {
        return Ok(path);
    }
    println!("{name} {version} is not there: compiling it");
    let mut install = cargo(["install", "--locked", "--debug", "--version", version]);
    install.args(["--no-default-features", "--features", &features.join(",")]);
    // Not among the workspace's products, whatever the environment says.
    install.env_remove("CARGO_TARGET_DIR");
    if let Err(error) = run(install.arg("--root").arg(&folder).arg(name)) {
        bail!(CannotRun(format!("{name} cannot be compiled: {error:#}")));
    }
    Ok(path)
}

/// A program of a Debian package that is not installed for it, because a service would come with it: the one on the path,
/// or one that is taken out of the package and kept in the cache.
pub(crate) fn unpacked(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    if is_there(name) {
        return Ok(PathBuf::from(name));
    }
    let cache = cache_folder().context("no folder for caches: set XDG_CACHE_HOME or HOME")?;
    let folder = cache.join(format!("package-{package}"));
    let found = || {
        let paths = ["usr/bin", "usr/sbin"].map(|place| folder.join(place).join(name));
        paths.into_iter().find(|path| path.is_file())
    };
    if found().is_none()
        && let Err(error) = unpack(package, &folder)
    {
        bail!(CannotRun(format!(
            "{name} is not installed and cannot be had: {error:#}"
        )));
    }
    found().with_context(|| format!("{name} is not in the package {package}"))
}

/// The path on which programs are looked for, with the folder of one of [`unpacked`] in it.
pub(crate) fn path_with(program: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folder = program.parent().filter(|folder| folder.is_absolute());
    let folders = folder.map(Path::to_owned).into_iter();
    let folders = std::env::split_paths(&path).chain(folders);
    std::env::join_paths(folders).unwrap_or(path)
}

/// Downloads a package and takes it apart into a folder, which is there whole or not at all.
fn unpack(package: &str, folder: &Path) -> anyhow::Result<()> {
    if !is_there("apt-get") || !is_there("dpkg-deb") {
        bail!("there is no apt-get; install the package {package} by hand");
    }
    let parent = folder.parent().context("it lies in the cache")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let work = parent.join(format!("package-{package}-{}", std::process::id()));
    fs::create_dir(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let taken_apart = download(package, &work).and_then(|archive| {
        let tree = work.join("tree");
        run(program("dpkg-deb").arg("-x").arg(archive).arg(&tree))?;
        // Another step may have been faster.
        let _there = fs::rename(&tree, folder);
        Ok(())
    });
    let _removed = fs::remove_dir_all(&work);
    taken_apart
}

fn download(package: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let get = || {
        let mut apt = program("apt-get");
        apt.args(["download", "--quiet", package]);
        run(apt.current_dir(folder))
    };
    if get().is_err() {
        // The lists of packages are missing or too old; without root they stay so.
        let _stale = run(program("apt-get").args(["update", "--quiet"]));
        get()?;
    }
    let mut files = fs::read_dir(folder)?.filter_map(Result::ok);
    let archive = files.find(|file| file.path().extension().is_some_and(|end| end == "deb"));
    Ok(archive.context("nothing was downloaded")?.path())
}

/// Whether a program is on the path.
fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn install(package: &str) -> anyhow::Result<()> {
    if !is_there("apt-get") {
        bail!("there is no apt-get; install the package {package} by hand");
    }
    let sudo: &[&str] = if read(program("id").arg("-u"))?.trim() == "0" {
        &[]
    } else if read(program("sudo").args(["-n", "true"])).is_ok() {
        &["sudo", "-n"]
    } else {
        bail!("it needs root; run `sudo apt-get install {package}`");
    };
    let apt = |words: &[&str]| {
        let quiet: &[&str] = &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
        let words = [sudo, quiet, words].concat();
        run(program(words[0]).args(&words[1..]))
    };
    let install = [
        "install",
        // Another step may be installing something at the same time.
        "--option=DPkg::Lock::Timeout=300",
        "-y",
        "--no-install-recommends",
        package,
    ];
    if apt(&install).is_err() {
        // The lists of packages are missing or too old.
        apt(&["update"])?;
        apt(&install)?;
    }
    Ok(())
}
